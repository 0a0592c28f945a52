//! The answer to one HTTP request: a message or, if other messages precede it, a stream.
//!
//! Mostly the answer comes at once and alone, so there is no stream until one is needed.
//!
//! Invariant: no lock is held while a stream is used or a task woken.

use crate::{
    model::change::ChangeNotification,
    outbound::{lock, stream::Stream},
    wire::AnswerKind,
};
use bytes::Bytes;
use std::{
    fmt::Debug,
    future::poll_fn,
    mem,
    sync::{Arc, Mutex},
    task::{Poll, Waker},
};

/// The answer to one HTTP request, as a message or as a stream of them.
#[derive(Debug)]
pub(crate) struct Exchange<O: ?Sized = dyn Exchanged> {
    state: Mutex<ExchangeState>,
    /// The request that is answered. It lives as long as the exchange.
    request: O,
}

/// What an exchange needs of the request that it answers.
pub(crate) trait Exchanged: Debug + Send + Sync {
    /// Opens the stream, if one is needed.
    fn open_stream(&self) -> Arc<Stream>;

    /// The request waits for a person now, who may take their time.
    fn asks_person(&self);
}

#[derive(Debug)]
struct ExchangeState {
    phase: Phase,
    /// A reader will come, so senders wait for it.
    reader_expected: bool,
    /// The client is to disconnect, and to come back for the rest.
    disconnected: bool,
    /// Of the task that waits in [`Exchange::first`].
    waker: Option<Waker>,
}

#[derive(Debug)]
enum Phase {
    /// Nothing was sent.
    Silent,
    /// The answer, and nothing before it.
    Answered(AnswerKind, Bytes),
    /// It ended without a message: its call was cancelled.
    Ended,
    /// Something was sent before the answer, or the answer took too long.
    Stream(Arc<Stream>),
}

/// What an exchange begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum First {
    /// The answer, and nothing before it.
    Answer(AnswerKind, Bytes),
    /// Something was sent before the answer, so there is a stream.
    Stream,
    /// It ended without a message.
    Ended,
    /// The client is to disconnect before anything was sent.
    Disconnect,
}

impl Exchange {
    /// An exchange for which a reader will come.
    pub(crate) fn new(request: impl Exchanged + 'static) -> Arc<Self> {
        Arc::new(Exchange {
            state: Mutex::new(ExchangeState {
                phase: Phase::Silent,
                reader_expected: true,
                disconnected: false,
                waker: None,
            }),
            request,
        })
    }

    /// Stands for the reader until it comes.
    pub(crate) const fn expect_reader(&self) -> ExpectedReader<'_> {
        ExpectedReader(self)
    }

    /// The answer. Nothing comes after it.
    pub(crate) fn answer(&self, kind: AnswerKind, message: Vec<u8>) {
        let mut message = Some(message);
        let stream = self.change(|state| {
            if let Phase::Silent = state.phase
                && let Some(message) = message.take()
            {
                state.phase = Phase::Answered(kind, message.into());
            }
            state.phase.stream()
        });
        if let Some((stream, message)) = stream.zip(message) {
            stream.answer(message);
        }
    }

    /// Ends it without an answer.
    pub(crate) fn end(&self) {
        let stream = self.change(|state| {
            if let Phase::Silent = state.phase {
                state.phase = Phase::Ended;
            }
            state.phase.stream()
        });
        if let Some(stream) = stream {
            stream.end();
        }
    }

    /// Sends something before the answer. It may be dropped if there is no reader.
    pub(crate) fn send(&self, message: Vec<u8>) {
        if let Some(stream) = self.open_stream() {
            stream.send(message);
        }
    }

    /// Sends something before the answer that must not be dropped.
    pub(crate) fn send_required(&self, message: Vec<u8>) {
        if let Some(stream) = self.open_stream() {
            stream.send_required(message);
        }
    }

    /// Tells of a change before the answer.
    pub(crate) fn notify(&self, change: ChangeNotification) {
        if let Some(stream) = self.open_stream() {
            stream.notify(change);
        }
    }

    /// Removes a change that was not sent yet.
    pub(crate) fn retract(&self, change: &ChangeNotification) {
        if let Some(stream) = self.opened() {
            stream.retract(change);
        }
    }

    /// The request waits for a person now.
    pub(crate) fn asks_person(&self) {
        self.request.asks_person();
    }

    /// Closes the client's connection for a while.
    pub(crate) fn disconnect(&self) {
        let stream = self.change(|state| {
            state.disconnected = true;
            state.phase.stream()
        });
        if let Some(stream) = stream {
            stream.disconnect();
        }
    }

    /// Waits until the reader has taken enough for more to be sent.
    pub(crate) async fn wait_for_room(&self) {
        if let Some(stream) = self.opened() {
            stream.wait_for_room().await;
        }
    }

    /// Waits for the answer, or for something sent before it. Only one task may wait, and it takes
    /// the answer.
    pub(crate) async fn first(&self) -> First {
        poll_fn(|cx| {
            let mut state = lock(&self.state);
            match state.first() {
                Some(first) => Poll::Ready(first),
                None => {
                    let old = state.waker.replace(cx.waker().clone());
                    drop(state);
                    drop(old);
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// As [`first`](Self::first), without waiting.
    pub(crate) fn ready(&self) -> Option<First> {
        lock(&self.state).first()
    }

    /// The stream, whether or not anything was sent. It is opened if need be.
    pub(crate) fn stream(&self) -> Arc<Stream> {
        let mut state = lock(&self.state);
        if let Some(stream) = state.phase.stream() {
            return stream;
        }
        let stream = self.new_stream(state.reader_expected);
        let before = mem::replace(&mut state.phase, Phase::Stream(Arc::clone(&stream)));
        drop(state);
        match before {
            Phase::Answered(_, message) => stream.answer(message.into()),
            Phase::Ended => stream.end(),
            Phase::Silent | Phase::Stream(_) => {}
        }
        stream
    }

    /// The stream for messages before the answer; none if it is too late for them.
    fn open_stream(&self) -> Option<Arc<Stream>> {
        self.change(|state| {
            if let Phase::Silent = state.phase {
                state.phase = Phase::Stream(self.new_stream(state.reader_expected));
            }
            state.phase.stream()
        })
    }

    fn opened(&self) -> Option<Arc<Stream>> {
        lock(&self.state).phase.stream()
    }

    fn new_stream(&self, reader_expected: bool) -> Arc<Stream> {
        let stream = self.request.open_stream();
        if reader_expected {
            stream.expect_reader();
        }
        stream
    }

    /// Changes the state, and wakes the task that waits.
    fn change<T>(&self, change: impl FnOnce(&mut ExchangeState) -> T) -> T {
        let mut state = lock(&self.state);
        let changed = change(&mut state);
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
        changed
    }
}

impl ExchangeState {
    fn first(&mut self) -> Option<First> {
        match mem::replace(&mut self.phase, Phase::Ended) {
            Phase::Answered(kind, message) => Some(First::Answer(kind, message)),
            Phase::Ended => Some(First::Ended),
            Phase::Stream(stream) => {
                self.phase = Phase::Stream(stream);
                Some(First::Stream)
            }
            Phase::Silent => {
                self.phase = Phase::Silent;
                self.disconnected.then_some(First::Disconnect)
            }
        }
    }
}

impl Phase {
    fn stream(&self) -> Option<Arc<Stream>> {
        match self {
            Self::Stream(stream) => Some(Arc::clone(stream)),
            Self::Silent | Self::Answered(..) | Self::Ended => None,
        }
    }
}

/// A reader that has not come yet. Once dropped, senders do not wait for it.
#[derive(Debug)]
pub(crate) struct ExpectedReader<'a>(&'a Exchange);

impl Drop for ExpectedReader<'_> {
    fn drop(&mut self) {
        let stream = {
            let mut state = lock(&self.0.state);
            state.reader_expected = false;
            state.phase.stream()
        };
        if let Some(stream) = stream {
            stream.expect_no_reader();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbound::stream::{ReadResult, Retention, StreamRules};
    use futures_util::FutureExt;

    #[derive(Debug)]
    struct Small;

    impl Exchanged for Small {
        fn open_stream(&self) -> Arc<Stream> {
            let rules = StreamRules {
                retention: Retention::Once,
                keep_bytes: 100,
                keep_events: 4,
            };
            Stream::new(0, rules)
        }

        fn asks_person(&self) {}
    }

    fn exchange() -> Arc<Exchange> {
        Exchange::new(Small)
    }

    fn answer(message: &'static str) -> First {
        First::Answer(AnswerKind::Result, message.into())
    }

    /// Everything that a reader gets until the stream ends, one message per line.
    fn read(exchange: &Exchange) -> String {
        let reader = exchange.stream().attach(None);
        let mut frame = Vec::new();
        let read = reader.read(&mut frame, 1000, Waker::noop(), |frame, _, message| {
            frame.extend_from_slice(message);
            frame.push(b'\n');
        });
        assert_eq!(read, ReadResult::End);
        String::from_utf8(frame).unwrap()
    }

    #[tokio::test]
    async fn an_answer_alone_needs_no_stream() {
        let exchange = exchange();
        let asked = Arc::clone(&exchange);
        let first = tokio::spawn(async move { asked.first().await });
        tokio::task::yield_now().await;
        exchange.answer(AnswerKind::Result, b"z".into());
        exchange.answer(AnswerKind::Result, b"late".into());
        exchange.send(b"late".into());
        assert_eq!(first.await.unwrap(), answer("z"));
        assert!(exchange.opened().is_none());
    }

    #[tokio::test]
    async fn an_answer_after_other_words_needs_a_stream() {
        let exchange = exchange();
        assert_eq!(exchange.first().now_or_never(), None);
        assert_eq!(exchange.ready(), None);
        exchange.send(b"a".into());
        assert_eq!(exchange.first().await, First::Stream);
        exchange.answer(AnswerKind::Result, b"z".into());
        assert_eq!(exchange.ready(), Some(First::Stream));
        assert_eq!(read(&exchange), "a\nz\n");
    }

    #[tokio::test]
    async fn what_was_answered_when_its_client_was_to_be_given_a_stream_is_in_the_stream() {
        let exchange = exchange();
        exchange.answer(AnswerKind::Result, b"z".into());
        assert_eq!(read(&exchange), "z\n");
    }

    #[tokio::test]
    async fn a_call_that_was_taken_back_has_no_answer() {
        let exchange = exchange();
        exchange.end();
        exchange.send(b"late".into());
        exchange.answer(AnswerKind::Result, b"late".into());
        assert_eq!(exchange.first().await, First::Ended);
        assert_eq!(read(&exchange), "");
    }

    #[tokio::test]
    async fn a_client_is_sent_away_only_before_anything_else() {
        let exchange = exchange();
        exchange.disconnect();
        assert_eq!(exchange.first().await, First::Disconnect);
        exchange.answer(AnswerKind::Result, b"z".into());
        assert_eq!(exchange.first().await, answer("z"));
    }

    #[tokio::test]
    async fn whoever_speaks_waits_for_a_reader_that_is_expected_and_for_no_other() {
        let exchange = exchange();
        let expected = exchange.expect_reader();
        for _ in 0..4 {
            assert!(
                exchange.wait_for_room().now_or_never().is_some() || exchange.opened().is_some()
            );
            exchange.send(b"a".into());
        }
        assert!(exchange.wait_for_room().now_or_never().is_none());
        drop(expected);
        assert!(exchange.wait_for_room().now_or_never().is_some());
    }

    #[tokio::test]
    async fn nobody_is_waited_for_who_went_away_before_anything_was_said() {
        let exchange = exchange();
        drop(exchange.expect_reader());
        for _ in 0..8 {
            exchange.send(b"a".into());
            assert!(exchange.wait_for_room().now_or_never().is_some());
        }
    }
}
