//! What readers see of a stream.

use super::*;
use crate::{clock::Clock, http::event::parse_event_id};
use futures_util::FutureExt;
use http_body_util::BodyExt;
use interlock_proto::Time;
use std::{
    future::Future,
    sync::atomic::{AtomicUsize, Ordering},
    task::Wake,
    time::Duration,
};
use tokio::sync::watch;

const NUMBER: u64 = 0x2a;

fn rules(retention: Retention) -> StreamRules {
    StreamRules {
        retention,
        retry: Duration::from_millis(700),
        keep_bytes: 1000,
        keep_events: 10,
    }
}

fn replayable() -> Arc<Stream> {
    Stream::new(NUMBER, rules(Retention::Replayable))
}

fn once() -> Arc<Stream> {
    Stream::new(NUMBER, rules(Retention::Once))
}

fn say(stream: &Stream, message: &str) {
    assert!(stream.say(message.into()));
}

fn after(seq: u64) -> BodyOptions {
    BodyOptions {
        after: Some(seq),
        ..BodyOptions::default()
    }
}

fn primed() -> BodyOptions {
    BodyOptions {
        prime: true,
        ..BodyOptions::default()
    }
}

/// What is there to be read now.
#[derive(Debug, PartialEq, Eq)]
enum Now {
    Text(String),
    Nothing,
    Over,
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn read(body: &mut Body) -> Now {
    match body.frame().now_or_never() {
        None => Now::Nothing,
        Some(None) => Now::Over,
        Some(Some(Ok(frame))) => Now::Text(text(&frame.into_data().unwrap())),
    }
}

/// The messages among what is there to be read now, with their ids.
fn messages(body: &mut Body) -> Vec<(String, String)> {
    let mut all = Vec::new();
    while let Now::Text(frame) = read(body) {
        all.extend(frame.split("\n\n").filter_map(message));
    }
    all
}

fn message(event: &str) -> Option<(String, String)> {
    let field = |name| event.lines().find_map(|line| line.strip_prefix(name));
    let data = field("data: ").filter(|data| !data.is_empty())?;
    Some((field("id: ").unwrap_or_default().into(), data.into()))
}

#[track_caller]
fn check(body: &mut Body, expected: &[(&str, &str)]) {
    let expected: Vec<(String, String)> = expected
        .iter()
        .map(|(id, data)| ((*id).into(), (*data).into()))
        .collect();
    assert_eq!(messages(body), expected);
}

/// A body whose guard counts how often it was let go of.
fn guarded(count: &Arc<AtomicUsize>) -> BodyOptions {
    struct Guard(Arc<AtomicUsize>);
    impl Drop for Guard {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    BodyOptions {
        guard: Some(Box::new(Guard(Arc::clone(count)))),
        ..BodyOptions::default()
    }
}

#[tokio::test]
async fn messages_arrive_in_order_with_ids_and_the_answer_ends_the_body() {
    let stream = replayable();
    let mut body = stream.body(BodyOptions::default());
    say(&stream, "a");
    assert_eq!(
        read(&mut body),
        Now::Text("event: message\nid: 2a-1\ndata: a\n\n".into())
    );
    assert_eq!(read(&mut body), Now::Nothing);
    say(&stream, "b");
    stream.answer(b"z".into());
    check(&mut body, &[("2a-2", "b"), ("2a-3", "z")]);
    assert!(body.is_end_stream());
    assert_eq!(read(&mut body), Now::Over);
    assert!(stream.is_drained());
}

#[tokio::test]
async fn everything_that_is_ready_comes_in_one_frame() {
    let stream = once();
    for message in ["a", "b", "c"] {
        say(&stream, message);
    }
    let mut body = stream.body(BodyOptions {
        endpoint: Some("/messages?id=1".into()),
        ..BodyOptions::default()
    });
    assert_eq!(
        read(&mut body),
        Now::Text(
            "event: endpoint\ndata: /messages?id=1\n\n\
             event: message\ndata: a\n\n\
             event: message\ndata: b\n\n\
             event: message\ndata: c\n\n"
                .into()
        )
    );
    assert_eq!(read(&mut body), Now::Nothing);
}

#[tokio::test]
async fn a_large_backlog_comes_in_several_frames() {
    let stream = Stream::new(
        NUMBER,
        StreamRules {
            keep_bytes: 10 * FRAME,
            ..rules(Retention::Once)
        },
    );
    for _ in 0..3 {
        stream.say(vec![b'x'; FRAME]);
    }
    let mut body = stream.body(BodyOptions::default());
    for _ in 0..3 {
        assert!(matches!(read(&mut body), Now::Text(text) if text.len() < FRAME + 100));
    }
    assert_eq!(read(&mut body), Now::Nothing);
}

#[tokio::test]
async fn a_waiting_reader_hears_of_what_is_said() {
    let stream = replayable();
    let mut body = stream.body(BodyOptions::default());
    let reader = tokio::spawn(async move {
        let mut all = Vec::new();
        while let Some(Ok(frame)) = body.frame().await {
            all.extend_from_slice(&frame.into_data().unwrap());
        }
        text(&all)
    });
    for message in ["a", "b"] {
        tokio::task::yield_now().await;
        say(&stream, message);
    }
    tokio::task::yield_now().await;
    stream.answer(b"z".into());
    let heard = reader.await.unwrap();
    let data: Vec<_> = heard.split("\n\n").filter_map(message).collect();
    assert_eq!(data.len(), 3, "{heard}");
    assert_eq!(data[2], ("2a-3".into(), "z".into()));
}

#[tokio::test]
async fn a_replay_begins_in_the_middle_and_goes_on_with_what_is_new() {
    let stream = replayable();
    let mut body = stream.body(BodyOptions::default());
    for message in ["a", "b", "c"] {
        say(&stream, message);
    }
    assert_eq!(messages(&mut body).len(), 3);
    drop(body);
    let mut body = stream.body(after(1));
    check(&mut body, &[("2a-2", "b"), ("2a-3", "c")]);
    say(&stream, "d");
    check(&mut body, &[("2a-4", "d")]);
}

#[tokio::test]
async fn an_ended_stream_is_replayed_too() {
    let stream = replayable();
    say(&stream, "a");
    stream.answer(b"z".into());
    for _ in 0..2 {
        let mut body = stream.body(after(1));
        check(&mut body, &[("2a-2", "z")]);
        assert_eq!(read(&mut body), Now::Over);
    }
    let mut body = stream.body(BodyOptions {
        prime: true,
        ..after(2)
    });
    assert_eq!(read(&mut body), Now::Over);
}

#[tokio::test]
async fn ids_name_their_own_stream_and_lead_to_no_other() {
    let one = Stream::new(1, rules(Retention::Replayable));
    let two = Stream::new(0xabc, rules(Retention::Replayable));
    say(&one, "of one");
    say(&two, "of two");
    for stream in [one, two] {
        let ids = messages(&mut stream.body(primed()));
        assert_eq!(parse_event_id(&ids[0].0), Some((stream.number(), 1)));
    }
}

#[tokio::test]
async fn a_second_reader_replaces_the_first() {
    let stream = replayable();
    let mut first = stream.body(BodyOptions::default());
    say(&stream, "a");
    check(&mut first, &[("2a-1", "a")]);
    let mut second = stream.body(after(1));
    say(&stream, "b");
    assert_eq!(read(&mut first), Now::Over);
    drop(first);
    assert!(stream.has_reader());
    check(&mut second, &[("2a-2", "b")]);
}

#[tokio::test]
async fn a_replaced_reader_that_waits_is_woken() {
    let stream = replayable();
    let mut first = stream.body(BodyOptions::default());
    let ended = tokio::spawn(async move { first.frame().await.is_none() });
    tokio::task::yield_now().await;
    let _second = stream.body(BodyOptions::default());
    assert!(ended.await.unwrap());
}

#[tokio::test]
async fn a_client_that_goes_away_is_noticed() {
    let stream = once();
    let gone = Arc::default();
    let body = stream.body(guarded(&gone));
    assert!(stream.has_reader());
    assert_eq!(gone.load(Ordering::Relaxed), 0);
    drop(body);
    assert_eq!(gone.load(Ordering::Relaxed), 1);
    assert!(!stream.has_reader());
}

#[tokio::test]
async fn a_guard_lasts_as_long_as_its_body_however_the_stream_ends() {
    let endings: [fn(&Arc<Stream>); 4] = [
        |stream| stream.answer(b"z".into()),
        |stream| stream.end(),
        |stream| stream.disconnect(),
        |stream| drop(stream.body(BodyOptions::default())),
    ];
    for end in endings {
        let gone = Arc::default();
        let stream = once();
        let mut body = stream.body(guarded(&gone));
        end(&stream);
        while read(&mut body) != Now::Over {}
        assert_eq!(gone.load(Ordering::Relaxed), 0);
        drop(body);
        assert_eq!(gone.load(Ordering::Relaxed), 1);
    }
}

#[tokio::test]
async fn a_guard_may_use_the_stream() {
    struct Ends(Arc<Stream>);
    impl Drop for Ends {
        fn drop(&mut self) {
            assert!(!self.0.has_reader());
            self.0.end();
        }
    }
    let stream = once();
    drop(stream.body(BodyOptions {
        guard: Some(Box::new(Ends(Arc::clone(&stream)))),
        ..BodyOptions::default()
    }));
    assert!(stream.is_ended());
}

#[tokio::test]
async fn a_call_that_was_taken_back_has_no_answer() {
    let stream = once();
    stream.end();
    assert!(!stream.say(b"late".into()));
    stream.answer(b"late".into());
    assert_eq!(read(&mut stream.body(BodyOptions::default())), Now::Over);
}

#[tokio::test]
async fn a_primed_client_can_resume_before_anything_was_said() {
    let stream = replayable();
    let mut body = stream.body(primed());
    assert_eq!(
        read(&mut body),
        Now::Text("id: 2a-0\nretry: 700\ndata: \n\n".into())
    );
    drop(body);
    say(&stream, "a");
    check(&mut stream.body(after(0)), &[("2a-1", "a")]);
}

#[tokio::test]
async fn priming_a_resumed_client_does_not_turn_it_back() {
    let stream = replayable();
    for message in ["a", "b", "c"] {
        say(&stream, message);
    }
    let mut body = stream.body(BodyOptions {
        prime: true,
        ..after(2)
    });
    assert_eq!(
        read(&mut body),
        Now::Text("id: 2a-2\nretry: 700\ndata: \n\nevent: message\nid: 2a-3\ndata: c\n\n".into())
    );
}

#[tokio::test]
async fn a_stream_without_ids_is_not_primed() {
    assert_eq!(read(&mut once().body(primed())), Now::Nothing);
}

#[tokio::test]
async fn a_disconnected_reader_is_told_when_to_come_back() {
    let stream = replayable();
    let mut body = stream.body(primed());
    assert!(matches!(read(&mut body), Now::Text(_)));
    stream.disconnect();
    assert!(!stream.has_reader());
    assert_eq!(read(&mut body), Now::Text("retry: 700\n\n".into()));
    assert_eq!(read(&mut body), Now::Over);
    assert!(!stream.is_ended());
}

#[tokio::test]
async fn disconnecting_again_and_again_loses_nothing_and_repeats_nothing() {
    let stream = replayable();
    let mut heard = Vec::new();
    let mut last = 0;
    for round in 0..20 {
        let mut body = stream.body(BodyOptions {
            prime: round % 2 == 0,
            ..after(last)
        });
        say(&stream, &format!("{round} while connected"));
        stream.disconnect();
        say(&stream, &format!("{round} while leaving"));
        heard.extend(messages(&mut body));
        assert_eq!(read(&mut body), Now::Over);
        drop(body);
        say(&stream, &format!("{round} while away"));
        let (_, seq) = parse_event_id(&heard.last().unwrap().0).unwrap();
        last = seq;
    }
    stream.answer(b"z".into());
    heard.extend(messages(&mut stream.body(after(last))));
    let numbers: Vec<_> = heard
        .iter()
        .map(|(id, _)| parse_event_id(id).unwrap().1)
        .collect();
    assert_eq!(numbers, (1..=61).collect::<Vec<_>>());
    assert_eq!(heard[60].1, "z");
}

#[tokio::test]
async fn a_reader_after_the_last_sent_gets_only_what_is_new() {
    let stream = replayable();
    say(&stream, "a");
    assert_eq!(messages(&mut stream.body(BodyOptions::default())).len(), 1);
    say(&stream, "b");
    let mut body = stream.body(after(stream.last_sent()));
    check(&mut body, &[("2a-2", "b")]);
}

/// A clock that a test moves.
struct Moved(watch::Sender<Time>);

impl Clock for Moved {
    fn now(&self) -> Time {
        *self.0.borrow()
    }

    fn sleep_until(&self, when: Time) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let mut now = self.0.subscribe();
        Box::pin(async move {
            now.wait_for(|now| *now >= when).await.unwrap();
        })
    }
}

/// A reader that wants to hear something every so many seconds, and how to let some pass.
fn impatient(stream: &Arc<Stream>, seconds: u64) -> (Body, impl Fn(u64)) {
    let moved = Arc::new(Moved(watch::Sender::new(Time(0))));
    let clock: Arc<dyn Clock> = moved.clone();
    let body = stream.body(BodyOptions {
        keep_alive: KeepAlive::new(&clock, Duration::from_secs(seconds)),
        close_when_ended: false,
        ..BodyOptions::default()
    });
    let pass = move |seconds| {
        let span = Duration::from_secs(seconds);
        moved.0.send_modify(|now| *now = *now + span);
    };
    (body, pass)
}

#[tokio::test]
async fn a_comment_breaks_a_long_silence_and_an_event_starts_it_anew() {
    let stream = once();
    let (mut body, pass) = impatient(&stream, 10);
    let comment = || Now::Text(":\n\n".to_owned());
    for _ in 0..2 {
        assert_eq!(read(&mut body), Now::Nothing);
        pass(9);
        assert_eq!(read(&mut body), Now::Nothing);
        pass(1);
        assert_eq!(read(&mut body), comment());
    }
    assert_eq!(read(&mut body), Now::Nothing);
    pass(4);
    say(&stream, "a");
    check(&mut body, &[("", "a")]);
    stream.end();
    pass(9);
    assert_eq!(read(&mut body), Now::Nothing);
    pass(1);
    assert_eq!(read(&mut body), comment());
    assert!(!body.is_end_stream());
}

#[tokio::test]
async fn without_a_keep_alive_silence_lasts() {
    let stream = once();
    let (mut body, pass) = impatient(&stream, 0);
    assert_eq!(read(&mut body), Now::Nothing);
    pass(3600);
    assert_eq!(read(&mut body), Now::Nothing);
}

#[tokio::test]
async fn a_slow_reader_makes_the_speaker_wait() {
    let stream = once();
    let mut body = stream.body(BodyOptions::default());
    let mut said = 0;
    while stream.room().now_or_never().is_some() {
        say(&stream, "x");
        said += 1;
        assert!(said < 100, "the speaker never waits");
    }
    let speaker = Arc::clone(&stream);
    let waiting = tokio::spawn(async move { speaker.room().await });
    tokio::task::yield_now().await;
    assert_eq!(messages(&mut body).len(), said);
    waiting.await.unwrap();
}

#[tokio::test]
async fn a_speaker_does_not_wait_for_a_reader_that_is_gone() {
    let endings: [fn(&Arc<Stream>, Body); 3] = [
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
        let body = stream.body(BodyOptions::default());
        while stream.room().now_or_never().is_some() {
            say(&stream, "x");
        }
        let speaker = Arc::clone(&stream);
        let waiting = tokio::spawn(async move { speaker.room().await });
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
    let mut body = stream.body(BodyOptions::default());
    let speakers: Vec<_> = (0..SPEAKERS)
        .map(|_| {
            let stream = Arc::clone(&stream);
            tokio::spawn(async move {
                for _ in 0..EACH {
                    stream.room().await;
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
    let mut body = stream.body(BodyOptions {
        keep_alive: None,
        ..BodyOptions::default()
    });
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
        let mut body = stream.body(BodyOptions::default());
        for n in 0..10_000 {
            let mut message = Vec::with_capacity(4096);
            message.extend_from_slice(format!("{n:0>300}").as_bytes());
            assert!(stream.say(message));
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

#[test]
fn unused_capacity_is_given_back() {
    let mut message = Vec::with_capacity(1 << 20);
    message.push(b'x');
    let compact: Vec<u8> = compact(message).into();
    assert!(compact.capacity() < 100);
}

#[test]
fn an_idle_stream_is_small() {
    assert!(size_of::<Stream>() <= 256, "{}", size_of::<Stream>());
}
