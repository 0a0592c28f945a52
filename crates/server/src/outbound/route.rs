//! Where the messages of a request go.

use crate::{
    model::change::ChangeNotification,
    outbound::{
        batch::BatchAnswers, exchange::Exchange, session_stream::SessionStream,
        shared_queue::SharedQueue,
    },
    wire::AnswerKind,
};
use std::sync::Arc;

/// Where the messages of a request go.
#[derive(Clone, Debug)]
pub(crate) enum Route {
    /// To the queue that all requests of a stdio connection share.
    Shared(Arc<SharedQueue>),
    /// To the stream of a session, which no answer ends.
    Session(Arc<SessionStream>),
    /// To an HTTP response of its own.
    Own(Arc<Exchange>),
    /// To the same place as its batch; the answer waits for the others.
    Batch(Arc<BatchAnswers>),
}

impl Route {
    /// Writes the one answer to a request.
    pub(crate) fn answer(&self, kind: AnswerKind, write: impl FnOnce(&mut Vec<u8>)) {
        match self {
            Self::Shared(queue) => queue.append(write),
            Self::Session(stream) => stream.answer(message(write)),
            Self::Own(exchange) => exchange.answer(kind, message(write)),
            Self::Batch(batch) => batch.answer(&message(write)),
        }
    }

    /// As [`answer`](Self::answer), with a line that is encoded already.
    pub(crate) fn answer_line(&self, kind: AnswerKind, line: Vec<u8>) {
        match self {
            Self::Own(exchange) => exchange.answer(kind, without_line_end(line)),
            Self::Shared(_) | Self::Session(_) | Self::Batch(_) => {
                self.answer(kind, |out| out.extend(line));
            }
        }
    }

    /// Ends a request without an answer: its client has cancelled it.
    pub(crate) fn end_unanswered(&self) {
        match self {
            Self::Shared(queue) => queue.wake(),
            Self::Session(_) => {}
            Self::Own(exchange) => exchange.end(),
            Self::Batch(batch) => batch.end_unanswered(),
        }
    }

    /// Wakes the loop that writes, where there is one.
    pub(crate) fn wake(&self) {
        match self {
            Self::Shared(queue) => queue.wake(),
            Self::Session(_) | Self::Own(_) | Self::Batch(_) => {}
        }
    }

    /// Sends something that is no answer. Over HTTP it may be dropped if the client does not read.
    pub(crate) fn send(&self, write: impl FnOnce(&mut Vec<u8>)) {
        match self {
            Self::Shared(queue) => queue.append(write),
            Self::Session(stream) => stream.send(message(write)),
            Self::Own(exchange) => exchange.send(message(write)),
            Self::Batch(batch) => batch.route().send(write),
        }
    }

    /// Sends something that is no answer and must not be dropped: it stays until it is read.
    pub(crate) fn send_required(&self, write: impl FnOnce(&mut Vec<u8>)) {
        match self {
            Self::Shared(queue) => queue.append(write),
            Self::Session(stream) => stream.send_required(message(write)),
            Self::Own(exchange) => exchange.send_required(message(write)),
            Self::Batch(batch) => batch.route().send_required(write),
        }
    }

    /// Tells of a change, once, however often it happens before the client reads.
    pub(crate) fn notify(&self, change: ChangeNotification) {
        match self {
            Self::Shared(queue) => queue.notify(change),
            Self::Session(stream) => stream.notify(change),
            Self::Own(exchange) => exchange.notify(change),
            Self::Batch(batch) => batch.route().notify(change),
        }
    }

    /// Removes a change that was not sent yet.
    pub(crate) fn retract(&self, change: &ChangeNotification) {
        match self {
            Self::Shared(queue) => queue.retract(change),
            Self::Session(stream) => stream.retract(change),
            Self::Own(exchange) => exchange.retract(change),
            Self::Batch(batch) => batch.route().retract(change),
        }
    }

    /// The request waits for a person now, who may take their time.
    pub(crate) fn asks_person(&self) {
        match self {
            Self::Own(exchange) => exchange.asks_person(),
            Self::Batch(batch) => batch.route().asks_person(),
            Self::Shared(_) | Self::Session(_) => {}
        }
    }

    /// Closes the client's connection for a while, where it can come back for the rest.
    pub(crate) fn disconnect(&self) {
        match self {
            Self::Own(exchange) => exchange.disconnect(),
            Self::Shared(_) | Self::Session(_) | Self::Batch(_) => {}
        }
    }

    /// Waits until the client has read enough for more to be sent.
    pub(crate) async fn wait_for_room(&self) {
        let direct = match self {
            Self::Batch(batch) => batch.route(),
            Self::Shared(_) | Self::Session(_) | Self::Own(_) => self,
        };
        match direct {
            Self::Shared(queue) => queue.wait_for_room().await,
            Self::Session(stream) => stream.wait_for_room().await,
            Self::Own(exchange) => exchange.wait_for_room().await,
            // There are no batches of batches.
            Self::Batch(_) => {}
        }
    }
}

fn message(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut line = Vec::new();
    write(&mut line);
    without_line_end(line)
}

/// Over HTTP a message needs no line end.
fn without_line_end(mut line: Vec<u8>) -> Vec<u8> {
    line.truncate(line.trim_ascii_end().len());
    line
}
