//! The answer to one HTTP request: a message or, if something is said before it, a stream of them.
//!
//! Mostly the answer is there at once and alone. So there is no stream until somebody needs one.
//!
//! Invariant: no lock is held while a stream is spoken to, nor while anybody is woken.

use super::{
    endpoint::InFlight,
    sessions::Visit,
    stream::{Stream, StreamRules},
};
use crate::{
    note::Note,
    route::{Tone, lock},
};
use bytes::Bytes;
use std::{
    future::poll_fn,
    mem,
    sync::{Arc, Mutex},
    task::{Poll, Waker},
};

/// The answer to one HTTP request, as a message or as a stream of them.
#[derive(Debug)]
pub(crate) struct Exchange {
    inside: Mutex<Inside>,
    asked: Asked,
    /// The request is counted while the exchange lasts.
    _in_flight: InFlight,
}

/// By whom the request was made, which is also what its stream would be like.
#[derive(Debug)]
pub(crate) enum Asked {
    /// By a session, which is in use while the exchange lasts.
    InSession(Visit),
    /// By a client that says everything with each request.
    Alone(StreamRules),
}

#[derive(Debug)]
struct Inside {
    stage: Stage,
    /// Somebody is going to read it, so nothing may be lost until they do.
    expected: bool,
    /// The client is to be sent away, and to come back for the rest.
    hung_up: bool,
    /// Whoever waits in [`Exchange::first`].
    waker: Option<Waker>,
}

#[derive(Debug)]
enum Stage {
    /// Nothing was said.
    Silent,
    /// The answer, and nothing before it.
    Answered(Tone, Bytes),
    /// It ended without a word: its call was taken back.
    Ended,
    /// Something was said before the answer, or it took too long to come.
    Stream(Arc<Stream>),
}

/// What an exchange began with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum First {
    /// The answer, and nothing before it.
    Answer(Tone, Bytes),
    /// Something was said before the answer, so the answer needs a stream.
    Spoke,
    /// It ended without a word.
    Ended,
    /// The client is to be sent away before anything was said.
    HungUp,
}

impl Exchange {
    /// Nothing was said yet, and somebody is going to read it.
    pub(crate) fn new(asked: Asked, in_flight: InFlight) -> Arc<Self> {
        Arc::new(Self {
            inside: Mutex::new(Inside {
                stage: Stage::Silent,
                expected: true,
                hung_up: false,
                waker: None,
            }),
            asked,
            _in_flight: in_flight,
        })
    }

    /// Stands for the reader that has not come yet.
    pub(crate) const fn expected(&self) -> Expected<'_> {
        Expected(self)
    }

    /// The answer. Nothing comes after it.
    pub(crate) fn answer(&self, tone: Tone, message: Vec<u8>) {
        let mut message = Some(message);
        let stream = self.change(|inside| {
            if let Stage::Silent = inside.stage
                && let Some(message) = message.take()
            {
                inside.stage = Stage::Answered(tone, message.into());
            }
            inside.stage.stream()
        });
        if let Some((stream, message)) = stream.zip(message) {
            stream.answer(message);
        }
    }

    /// Ends it without an answer.
    pub(crate) fn end(&self) {
        let stream = self.change(|inside| {
            if let Stage::Silent = inside.stage {
                inside.stage = Stage::Ended;
            }
            inside.stage.stream()
        });
        if let Some(stream) = stream {
            stream.end();
        }
    }

    /// Says something before the answer.
    pub(crate) fn say(&self, message: Vec<u8>) {
        if let Some(stream) = self.speak() {
            stream.say(message);
        }
    }

    /// Says something before the answer that somebody waits for.
    pub(crate) fn insist(&self, message: Vec<u8>) {
        if let Some(stream) = self.speak() {
            stream.insist(message);
        }
    }

    /// Tells of a change before the answer.
    pub(crate) fn note(&self, note: Note) {
        if let Some(stream) = self.speak() {
            stream.note(note);
        }
    }

    /// Does not tell of a change if that has not been done yet.
    pub(crate) fn take_back(&self, note: &Note) {
        if let Some(stream) = self.spoken() {
            stream.take_back(note);
        }
    }

    /// Sends the client away for a while.
    pub(crate) fn hang_up(&self) {
        let stream = self.change(|inside| {
            inside.hung_up = true;
            inside.stage.stream()
        });
        if let Some(stream) = stream {
            stream.disconnect();
        }
    }

    /// Waits until there is room for more.
    pub(crate) async fn room(&self) {
        if let Some(stream) = self.spoken() {
            stream.room().await;
        }
    }

    /// Waits for the answer, or for whatever is said before it. Only one may wait, and an answer is
    /// theirs.
    pub(crate) async fn first(&self) -> First {
        poll_fn(|cx| {
            let mut inside = lock(&self.inside);
            match inside.first() {
                Some(first) => Poll::Ready(first),
                None => {
                    let old = inside.waker.replace(cx.waker().clone());
                    drop(inside);
                    drop(old);
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// What it began with, if it has begun.
    pub(crate) fn ready(&self) -> Option<First> {
        lock(&self.inside).first()
    }

    /// The stream of what is said, whether or not anything was.
    pub(crate) fn stream(&self) -> Arc<Stream> {
        let mut inside = lock(&self.inside);
        if let Some(stream) = inside.stage.stream() {
            return stream;
        }
        let stream = self.begin_stream(inside.expected);
        let before = mem::replace(&mut inside.stage, Stage::Stream(Arc::clone(&stream)));
        drop(inside);
        match before {
            Stage::Answered(_, message) => stream.answer(message.into()),
            Stage::Ended => stream.end(),
            Stage::Silent | Stage::Stream(_) => {}
        }
        stream
    }

    /// Where to say something before the answer; nowhere if it is too late for that.
    fn speak(&self) -> Option<Arc<Stream>> {
        self.change(|inside| {
            if let Stage::Silent = inside.stage {
                inside.stage = Stage::Stream(self.begin_stream(inside.expected));
            }
            inside.stage.stream()
        })
    }

    fn spoken(&self) -> Option<Arc<Stream>> {
        lock(&self.inside).stage.stream()
    }

    fn begin_stream(&self, expected: bool) -> Arc<Stream> {
        let stream = match &self.asked {
            Asked::InSession(visit) => visit.client.begin_stream(),
            Asked::Alone(rules) => Stream::new(0, rules.clone()),
        };
        if expected {
            stream.expect_reader();
        }
        stream
    }

    /// Does something to the inside, and wakes whoever waits.
    fn change<T>(&self, change: impl FnOnce(&mut Inside) -> T) -> T {
        let mut inside = lock(&self.inside);
        let changed = change(&mut inside);
        let waker = inside.waker.take();
        drop(inside);
        if let Some(waker) = waker {
            waker.wake();
        }
        changed
    }
}

impl Inside {
    fn first(&mut self) -> Option<First> {
        match mem::replace(&mut self.stage, Stage::Ended) {
            Stage::Answered(tone, message) => Some(First::Answer(tone, message)),
            Stage::Ended => Some(First::Ended),
            Stage::Stream(stream) => {
                self.stage = Stage::Stream(stream);
                Some(First::Spoke)
            }
            Stage::Silent => {
                self.stage = Stage::Silent;
                self.hung_up.then_some(First::HungUp)
            }
        }
    }
}

impl Stage {
    fn stream(&self) -> Option<Arc<Stream>> {
        match self {
            Self::Stream(stream) => Some(Arc::clone(stream)),
            Self::Silent | Self::Answered(..) | Self::Ended => None,
        }
    }
}

/// A reader that has not come yet. Without it, what is said is not held up.
#[derive(Debug)]
pub(crate) struct Expected<'a>(&'a Exchange);

impl Drop for Expected<'_> {
    fn drop(&mut self) {
        let stream = {
            let mut inside = lock(&self.0.inside);
            inside.expected = false;
            inside.stage.stream()
        };
        if let Some(stream) = stream {
            stream.expect_nobody();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::stream::{BodyOptions, Retention};
    use futures_util::FutureExt;
    use http_body_util::BodyExt;
    use std::time::Duration;

    fn exchange() -> Arc<Exchange> {
        let rules = StreamRules {
            retention: Retention::Once,
            retry: Duration::ZERO,
            keep_bytes: 100,
            keep_events: 4,
        };
        let (in_flight, _) = InFlight::count(&Arc::default());
        Exchange::new(Asked::Alone(rules), in_flight)
    }

    fn answer(message: &'static str) -> First {
        First::Answer(Tone::Result, message.into())
    }

    async fn read(exchange: &Exchange) -> String {
        let body = exchange.stream().body(BodyOptions::default());
        let bytes = body.collect().await.unwrap().to_bytes();
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    #[tokio::test]
    async fn an_answer_alone_needs_no_stream() {
        let exchange = exchange();
        let asked = Arc::clone(&exchange);
        let first = tokio::spawn(async move { asked.first().await });
        tokio::task::yield_now().await;
        exchange.answer(Tone::Result, b"z".into());
        exchange.answer(Tone::Result, b"late".into());
        exchange.say(b"late".into());
        assert_eq!(first.await.unwrap(), answer("z"));
        assert!(exchange.spoken().is_none());
    }

    #[tokio::test]
    async fn an_answer_after_other_words_needs_a_stream() {
        let exchange = exchange();
        assert_eq!(exchange.first().now_or_never(), None);
        assert_eq!(exchange.ready(), None);
        exchange.say(b"a".into());
        assert_eq!(exchange.first().await, First::Spoke);
        exchange.answer(Tone::Result, b"z".into());
        assert_eq!(exchange.ready(), Some(First::Spoke));
        let text = read(&exchange).await;
        assert_eq!(
            text,
            "event: message\ndata: a\n\nevent: message\ndata: z\n\n"
        );
    }

    #[tokio::test]
    async fn what_was_answered_when_its_client_was_to_be_given_a_stream_is_in_the_stream() {
        let exchange = exchange();
        exchange.answer(Tone::Result, b"z".into());
        assert_eq!(read(&exchange).await, "event: message\ndata: z\n\n");
    }

    #[tokio::test]
    async fn a_call_that_was_taken_back_has_no_answer() {
        let exchange = exchange();
        exchange.end();
        exchange.say(b"late".into());
        exchange.answer(Tone::Result, b"late".into());
        assert_eq!(exchange.first().await, First::Ended);
        assert_eq!(read(&exchange).await, "");
    }

    #[tokio::test]
    async fn a_client_is_sent_away_only_before_anything_else() {
        let exchange = exchange();
        exchange.hang_up();
        assert_eq!(exchange.first().await, First::HungUp);
        exchange.answer(Tone::Result, b"z".into());
        assert_eq!(exchange.first().await, answer("z"));
    }

    #[tokio::test]
    async fn whoever_speaks_waits_for_a_reader_that_is_expected_and_for_no_other() {
        let exchange = exchange();
        let expected = exchange.expected();
        for _ in 0..4 {
            assert!(exchange.room().now_or_never().is_some() || exchange.spoken().is_some());
            exchange.say(b"a".into());
        }
        assert!(exchange.room().now_or_never().is_none());
        drop(expected);
        assert!(exchange.room().now_or_never().is_some());
    }

    #[tokio::test]
    async fn nobody_is_waited_for_who_went_away_before_anything_was_said() {
        let exchange = exchange();
        drop(exchange.expected());
        for _ in 0..8 {
            exchange.say(b"a".into());
            assert!(exchange.room().now_or_never().is_some());
        }
    }
}
