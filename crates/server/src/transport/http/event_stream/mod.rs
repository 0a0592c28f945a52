//! The body of a `text/event-stream` response, which reads from a stream of messages.

pub(crate) mod event;
mod keep_alive;

pub(crate) use keep_alive::KeepAlive;

use crate::outbound::stream::{ReadResult, Stream, StreamReader};
use bytes::Bytes;
use event::EventId;
use hyper::body::{Body as HttpBody, Frame};
use keep_alive::Silence;
use std::{
    convert::Infallible,
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

/// A frame that has reached this size is sent before more is put into it.
const FRAME: usize = 64 * 1024;

/// How a client wants its event stream.
#[derive(Default)]
pub(crate) struct EventStreamOptions {
    /// Only what came after the message of this number. Without it, from the start.
    pub(crate) after: Option<u64>,
    /// Begin with an event that has an id and no message: from 2025-11-25 on. A stream whose
    /// messages have no ids never does.
    pub(crate) prime: bool,
    /// Begin with this address to send messages to: HTTP+SSE.
    pub(crate) endpoint: Option<String>,
    /// How long a client should wait before it comes back.
    pub(crate) retry: Duration,
    /// When a comment comes because no event has come.
    pub(crate) keep_alive: Option<KeepAlive>,
    /// Dropped together with the body, for whatever reason: the client has disconnected, was
    /// replaced or told to come back, or has got everything.
    pub(crate) guard: Option<Box<dyn Send>>,
}

/// The body of a `text/event-stream` response.
pub(crate) struct EventStream {
    reader: StreamReader,
    /// What comes before the first message.
    opening: Vec<u8>,
    retry: Duration,
    silence: Silence,
    is_over: bool,
    /// Dropped after the reader is detached.
    _guard: Option<Box<dyn Send>>,
}

impl EventStream {
    /// Becomes the one reader of the stream. The body of another reader ends.
    pub(crate) fn new(stream: &Arc<Stream>, options: EventStreamOptions) -> Self {
        let mut opening = Vec::new();
        if let Some(address) = &options.endpoint {
            event::write_endpoint(&mut opening, address);
        }
        let reader = stream.attach(options.after);
        if options.prime
            && let Some(after) = reader.begins_after()
            && let Some(id) = event_id(stream, after)
        {
            event::write_priming(&mut opening, id, options.retry);
        }
        Self {
            reader,
            opening,
            retry: options.retry,
            silence: Silence::new(options.keep_alive),
            is_over: false,
            _guard: options.guard,
        }
    }
}

/// The id of a message, if it can be asked for again.
fn event_id(stream: &Stream, seq: u64) -> Option<EventId> {
    stream.is_replayable().then(|| EventId {
        stream: stream.number(),
        seq,
    })
}

impl HttpBody for EventStream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        if this.is_over {
            return Poll::Ready(None);
        }
        let mut frame = mem::take(&mut this.opening);
        let stream = this.reader.stream();
        let write = |frame: &mut Vec<u8>, seq, message: &[u8]| {
            event::write_message(frame, event_id(stream, seq), message);
        };
        match this.reader.read(&mut frame, FRAME, cx.waker(), write) {
            ReadResult::Frame => this.silence.end(),
            ReadResult::Pending if this.silence.is_too_long(cx) => {
                frame.extend_from_slice(event::KEEP_ALIVE);
            }
            ReadResult::Pending => return Poll::Pending,
            ReadResult::End => this.is_over = true,
            ReadResult::Disconnected => {
                event::write_retry(&mut frame, this.retry);
                this.is_over = true;
            }
        }
        Poll::Ready((!frame.is_empty()).then(|| Ok(Frame::data(frame.into()))))
    }

    fn is_end_stream(&self) -> bool {
        self.is_over
    }
}

#[cfg(test)]
mod tests;
