//! What clients see of a stream.

mod bounds;
mod resumption;

use crate::{
    outbound::stream::{Retention, StreamRules},
    transport::http::event_stream::{event::parse_event_id, *},
};
use futures_util::FutureExt;
use http_body_util::BodyExt;
use interlock_engine::Clock;
use interlock_proto::Time;
use std::{
    future::Future,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};
use tokio::sync::watch;

const NUMBER: u64 = 0x2a;

fn rules(retention: Retention) -> StreamRules {
    StreamRules {
        retention,
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
    assert!(stream.send(message.into()));
}

fn open(stream: &Arc<Stream>, options: EventStreamOptions) -> EventStream {
    EventStream::new(stream, options)
}

fn options() -> EventStreamOptions {
    EventStreamOptions {
        retry: Duration::from_millis(700),
        ..EventStreamOptions::default()
    }
}

fn after(seq: u64) -> EventStreamOptions {
    EventStreamOptions {
        after: Some(seq),
        ..options()
    }
}

fn primed() -> EventStreamOptions {
    EventStreamOptions {
        prime: true,
        ..options()
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

fn read(body: &mut EventStream) -> Now {
    match body.frame().now_or_never() {
        None => Now::Nothing,
        Some(None) => Now::Over,
        Some(Some(Ok(frame))) => Now::Text(text(&frame.into_data().unwrap())),
    }
}

/// The messages among what is there to be read now, with their ids.
fn messages(body: &mut EventStream) -> Vec<(String, String)> {
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
fn check(body: &mut EventStream, expected: &[(&str, &str)]) {
    let expected: Vec<(String, String)> = expected
        .iter()
        .map(|(id, data)| ((*id).into(), (*data).into()))
        .collect();
    assert_eq!(messages(body), expected);
}

/// A body whose guard counts how often it was let go of.
fn guarded(count: &Arc<AtomicUsize>) -> EventStreamOptions {
    struct Guard(Arc<AtomicUsize>);
    impl Drop for Guard {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    EventStreamOptions {
        guard: Some(Box::new(Guard(Arc::clone(count)))),
        ..options()
    }
}

#[tokio::test]
async fn messages_arrive_in_order_with_ids_and_the_answer_ends_the_body() {
    let stream = replayable();
    let mut body = open(&stream, options());
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
    let mut body = open(
        &stream,
        EventStreamOptions {
            endpoint: Some("/messages?id=1".into()),
            ..options()
        },
    );
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
        stream.send(vec![b'x'; FRAME]);
    }
    let mut body = open(&stream, options());
    for _ in 0..3 {
        assert!(matches!(read(&mut body), Now::Text(text) if text.len() < FRAME + 100));
    }
    assert_eq!(read(&mut body), Now::Nothing);
}

#[tokio::test]
async fn a_waiting_reader_hears_of_what_is_said() {
    let stream = replayable();
    let mut body = open(&stream, options());
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
async fn a_second_reader_replaces_the_first() {
    let stream = replayable();
    let mut first = open(&stream, options());
    say(&stream, "a");
    check(&mut first, &[("2a-1", "a")]);
    let mut second = open(&stream, after(1));
    say(&stream, "b");
    assert_eq!(read(&mut first), Now::Over);
    drop(first);
    assert!(stream.has_reader());
    check(&mut second, &[("2a-2", "b")]);
}

#[tokio::test]
async fn a_replaced_reader_that_waits_is_woken() {
    let stream = replayable();
    let mut first = open(&stream, options());
    let ended = tokio::spawn(async move { first.frame().await.is_none() });
    tokio::task::yield_now().await;
    let _second = open(&stream, options());
    assert!(ended.await.unwrap());
}

#[tokio::test]
async fn a_client_that_goes_away_is_noticed() {
    let stream = once();
    let gone = Arc::default();
    let body = open(&stream, guarded(&gone));
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
        |stream| drop(open(stream, options())),
    ];
    for end in endings {
        let gone = Arc::default();
        let stream = once();
        let mut body = open(&stream, guarded(&gone));
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
    drop(open(
        &stream,
        EventStreamOptions {
            guard: Some(Box::new(Ends(Arc::clone(&stream)))),
            ..options()
        },
    ));
    assert!(stream.is_ended());
}

#[tokio::test]
async fn a_call_that_was_taken_back_has_no_answer() {
    let stream = once();
    stream.end();
    assert!(!stream.send(b"late".into()));
    stream.answer(b"late".into());
    assert_eq!(read(&mut open(&stream, options())), Now::Over);
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
fn impatient(stream: &Arc<Stream>, seconds: u64) -> (EventStream, impl Fn(u64)) {
    let moved = Arc::new(Moved(watch::Sender::new(Time(0))));
    let clock: Arc<dyn Clock> = moved.clone();
    let body = open(
        stream,
        EventStreamOptions {
            keep_alive: KeepAlive::new(&clock, Duration::from_secs(seconds)),
            ..options()
        },
    );
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
