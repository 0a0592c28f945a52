//! Slow readers, absent readers, and what they cost.

use super::*;
use std::task::{Wake, Waker};

#[tokio::test]
async fn a_slow_reader_makes_the_speaker_wait() {
    let stream = once();
    let mut body = open(&stream, options());
    let mut said = 0;
    while stream.wait_for_room().now_or_never().is_some() {
        say(&stream, "x");
        said += 1;
        assert!(said < 100, "the speaker never waits");
    }
    let speaker = Arc::clone(&stream);
    let waiting = tokio::spawn(async move { speaker.wait_for_room().await });
    tokio::task::yield_now().await;
    assert_eq!(messages(&mut body).len(), said);
    waiting.await.unwrap();
}

#[tokio::test]
async fn a_speaker_does_not_wait_for_a_reader_that_is_gone() {
    let endings: [fn(&Arc<Stream>, EventStream); 3] = [
        |_, body| drop(body),
        |stream, body| {
            stream.disconnect();
            mem::forget(body);
        },
        |stream, body| {
            stream.end();
            mem::forget(body);
        },
    ];
    for end in endings {
        let stream = once();
        let body = open(&stream, options());
        while stream.wait_for_room().now_or_never().is_some() {
            say(&stream, "x");
        }
        let speaker = Arc::clone(&stream);
        let waiting = tokio::spawn(async move { speaker.wait_for_room().await });
        tokio::task::yield_now().await;
        end(&stream, body);
        waiting.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn speakers_that_wait_for_room_lose_nothing() {
    const SPEAKERS: usize = 4;
    const EACH: usize = 500;
    let stream = replayable();
    let mut body = open(&stream, options());
    let speakers: Vec<_> = (0..SPEAKERS)
        .map(|_| {
            let stream = Arc::clone(&stream);
            tokio::spawn(async move {
                for _ in 0..EACH {
                    stream.wait_for_room().await;
                    say(&stream, "x");
                }
            })
        })
        .collect();
    let end = Arc::clone(&stream);
    tokio::spawn(async move {
        for speaker in speakers {
            speaker.await.unwrap();
        }
        end.end();
    });
    let mut numbers = Vec::new();
    while let Some(Ok(frame)) = body.frame().await {
        let events = text(&frame.into_data().unwrap());
        let ids = events.split("\n\n").filter_map(message);
        numbers.extend(ids.map(|(id, _)| parse_event_id(&id).unwrap().1));
    }
    assert_eq!(numbers, (1..=2000).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_stream_does_not_hold_on_to_the_task_of_a_reader_that_left() {
    struct Task;
    impl Wake for Task {
        fn wake(self: Arc<Self>) {}
    }
    let stream = replayable();
    let task = Arc::new(Task);
    let waker = Waker::from(Arc::clone(&task));
    let mut body = open(
        &stream,
        EventStreamOptions {
            keep_alive: None,
            ..options()
        },
    );
    let polled = Pin::new(&mut body).poll_frame(&mut Context::from_waker(&waker));
    assert!(polled.is_pending());
    drop(waker);
    assert_eq!(Arc::strong_count(&task), 2);
    drop(body);
    assert_eq!(Arc::strong_count(&task), 1);
}

#[tokio::test]
async fn a_reader_that_never_reads_does_not_let_memory_grow() {
    for retention in [Retention::Replayable, Retention::Once] {
        let stream = Stream::new(NUMBER, rules(retention));
        let mut body = open(&stream, options());
        for n in 0..10_000 {
            let mut message = Vec::with_capacity(4096);
            message.extend_from_slice(format!("{n:0>300}").as_bytes());
            assert!(stream.send(message));
        }
        stream.answer(b"z".into());
        let heard: Vec<_> = messages(&mut body)
            .into_iter()
            .map(|(_, data)| data)
            .collect();
        assert_eq!(heard.len(), 4, "1000 bytes hold three messages of 300");
        assert!(heard[0].ends_with("09997"));
        assert_eq!(heard[3], "z");
    }
}
