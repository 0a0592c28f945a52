//! One stream of messages from the server to a client: the answer to a POST, a GET, HTTP+SSE.
//!
//! Whoever has something to say says it here, whether or not anybody is reading. At most one
//! reader is attached at a time, as the body of an HTTP response; a connection may come and go
//! while the stream stays.
//!
//! Invariant: no lock is held while waiting or waking.

pub(crate) use super::backlog::{Retention, StreamRules};

use super::{
    backlog::{Backlog, Worth},
    event::{self, Place},
    keep_alive::{KeepAlive, Quiet},
};
use crate::note::Note;
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame};
use std::{
    convert::Infallible,
    mem,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};
use tokio::sync::Notify;

/// A frame that has reached this size is sent before more is put into it.
const FRAME: usize = 64 * 1024;

/// What a session holds of a stream.
#[derive(Debug)]
pub(crate) struct Stream {
    /// Unique within its session.
    number: u64,
    rules: StreamRules,
    inside: Mutex<Inside>,
    /// Whoever waits in [`room`](Self::room) should look again.
    changed: Notify,
}

#[derive(Debug)]
struct Inside {
    backlog: Backlog,
    /// How often a reader was attached. Only the last of them is the reader.
    attached: u32,
    reader: Reader,
    waker: Option<Waker>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reader {
    Nobody,
    Reading,
    /// It is told to come back, and its connection is closed.
    Leaving,
}

impl Stream {
    pub(crate) fn new(number: u64, rules: StreamRules) -> Arc<Self> {
        Arc::new(Self {
            number,
            rules,
            inside: Mutex::new(Inside {
                backlog: Backlog::new(),
                attached: 0,
                reader: Reader::Nobody,
                waker: None,
            }),
            changed: Notify::new(),
        })
    }

    pub(crate) const fn number(&self) -> u64 {
        self.number
    }

    /// Appends a message that may be let go of if nobody reads. False if the stream has ended:
    /// nobody will read it.
    pub(crate) fn say(&self, message: Vec<u8>) -> bool {
        self.append(message, Worth::Word)
    }

    /// Appends a message that somebody waits for: it is kept until it is sent.
    pub(crate) fn insist(&self, message: Vec<u8>) -> bool {
        self.append(message, Worth::Due)
    }

    /// Tells of a change, once, however often it happens before it is sent.
    pub(crate) fn note(&self, note: Note) {
        if self.lock().backlog.has_note(&note) {
            return;
        }
        let mut message = Vec::new();
        note.write(&mut message);
        message.truncate(message.trim_ascii_end().len());
        self.append(message, Worth::Note(note));
    }

    /// Does not tell of a change if that has not been done yet.
    pub(crate) fn take_back(&self, note: &Note) {
        self.change(|inside| inside.backlog.take_back(note));
    }

    fn append(&self, message: Vec<u8>, worth: Worth) -> bool {
        let message = compact(message);
        self.change(|inside| inside.backlog.say(message, worth, &self.rules))
    }

    /// The last message. Ends the stream.
    pub(crate) fn answer(&self, message: Vec<u8>) {
        let message = compact(message);
        self.change(|inside| inside.backlog.answer(message));
    }

    /// Ends it without an answer: its call was taken back, or the server closes it.
    pub(crate) fn end(&self) {
        self.change(|inside| inside.backlog.end());
    }

    /// Closes the reader's connection but not the stream. The reader is told when to come back.
    pub(crate) fn disconnect(&self) {
        self.change(|inside| match inside.reader {
            Reader::Reading => inside.reader = Reader::Leaving,
            Reader::Nobody | Reader::Leaving => {}
        });
    }

    /// Somebody is going to read it, so nothing may be lost until they do.
    pub(crate) fn expect_reader(&self) {
        self.change(|inside| inside.reader = Reader::Reading);
    }

    /// Who was going to read it will not come, unless they have.
    pub(crate) fn expect_nobody(&self) {
        self.change(|inside| {
            if inside.attached == 0 {
                inside.reader = Reader::Nobody;
            }
        });
    }

    /// Waits until little is waiting for the reader. Without a reader it does not wait: the oldest
    /// messages are dropped instead, never the answer.
    pub(crate) async fn room(&self) {
        self.wait_for(|inside| {
            let waits = inside.reader == Reader::Reading
                && !inside.backlog.is_ended()
                && !inside.backlog.has_room(&self.rules);
            (!waits).then_some(())
        })
        .await;
    }

    /// Waits until little is waiting to be sent, whether or not anybody reads.
    pub(crate) async fn drained_enough(&self) {
        self.wait_for(|inside| {
            let enough = inside.backlog.is_ended() || inside.backlog.has_room(&self.rules);
            enough.then_some(())
        })
        .await;
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.lock().backlog.is_ended()
    }

    /// How many bytes its answer takes, if there is one. Everything else is bounded for each stream.
    pub(crate) fn answer_bytes(&self) -> usize {
        self.lock().backlog.answer_bytes()
    }

    /// It has ended, and readers were given everything.
    pub(crate) fn is_drained(&self) -> bool {
        self.lock().backlog.is_drained()
    }

    pub(crate) fn has_reader(&self) -> bool {
        self.lock().reader == Reader::Reading
    }

    /// The number of the last message that a reader was given; 0 if there was none. A body after
    /// it repeats nothing.
    pub(crate) fn last_sent(&self) -> u64 {
        self.lock().backlog.last_sent()
    }

    /// Attaches a reader. If there is one already, its body ends.
    pub(crate) fn body(self: &Arc<Self>, options: BodyOptions) -> Body {
        let mut opening = Vec::new();
        if let Some(address) = &options.endpoint {
            event::write_endpoint(&mut opening, address);
        }
        let attached = self.change(|inside| {
            inside.backlog.rewind(options.after, self.rules.retention);
            inside.attached = inside.attached.wrapping_add(1);
            inside.reader = Reader::Reading;
            let had = inside.backlog.last_sent();
            if options.prime
                && !inside.backlog.is_drained()
                && let Some(place) = self.place(had)
            {
                event::write_priming(&mut opening, place, self.rules.retry);
            }
            inside.attached
        });
        Body {
            stream: Arc::clone(self),
            attached,
            opening,
            stays: !options.close_when_ended,
            over: false,
            quiet: Quiet::new(options.keep_alive),
            _guard: options.guard,
        }
    }

    /// Does something to the inside, and tells everybody who may care.
    fn change<T>(&self, change: impl FnOnce(&mut Inside) -> T) -> T {
        let mut inside = self.lock();
        let changed = change(&mut inside);
        let waker = inside.waker.take();
        drop(inside);
        if let Some(waker) = waker {
            waker.wake();
        }
        self.changed.notify_waiters();
        changed
    }

    async fn wait_for<T>(&self, look: impl Fn(&Inside) -> Option<T>) -> T {
        loop {
            // Made before looking, so that no change in between is missed.
            let changed = self.changed.notified();
            let seen = look(&self.lock());
            match seen {
                Some(seen) => return seen,
                None => changed.await,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn place(&self, seq: u64) -> Option<Place> {
        match self.rules.retention {
            Retention::Replayable => Some(Place {
                stream: self.number,
                seq,
            }),
            Retention::Once => None,
        }
    }

    /// What the reader gets next, after what is in the frame already.
    fn turn(&self, attached: u32, stays: bool, mut frame: Vec<u8>, waker: &Waker) -> Turn {
        let mut inside = self.lock();
        if inside.attached != attached {
            return Turn::Last(Vec::new());
        }
        self.write_unsent(&mut inside.backlog, &mut frame);
        let drained = inside.backlog.is_drained();
        let last = match inside.reader {
            Reader::Reading => drained && !stays,
            Reader::Leaving | Reader::Nobody => true,
        };
        if last && !drained {
            event::write_retry(&mut frame, self.rules.retry);
        }
        if last {
            inside.reader = Reader::Nobody;
        } else if frame.is_empty() {
            let old = inside.waker.replace(waker.clone());
            drop(inside);
            drop(old);
            return Turn::Nothing;
        }
        drop(inside);
        self.changed.notify_waiters();
        if last {
            Turn::Last(frame)
        } else {
            Turn::Frame(frame)
        }
    }

    fn write_unsent(&self, backlog: &mut Backlog, frame: &mut Vec<u8>) {
        while frame.len() < FRAME
            && let Some((seq, message)) = backlog.unsent()
        {
            event::write_message(frame, self.place(seq), message);
            backlog.mark_sent(self.rules.retention);
        }
    }

    /// Detaches a reader.
    fn leave(&self, attached: u32) {
        self.change(|inside| {
            if inside.attached == attached {
                inside.reader = Reader::Nobody;
            }
        });
    }
}

enum Turn {
    Frame(Vec<u8>),
    Nothing,
    Last(Vec<u8>),
}

/// Room that was reserved for a message and not used is not counted, so it is not kept.
fn compact(mut message: Vec<u8>) -> Bytes {
    if message.capacity() / 2 > message.len() {
        message.shrink_to_fit();
    }
    message.into()
}

/// How a reader wants its body.
pub(crate) struct BodyOptions {
    /// Only what came after this number. Without it, from the start.
    pub(crate) after: Option<u64>,
    /// Begin with an event that has an id and no message: from 2025-11-25 on. A stream whose
    /// messages have no ids never does.
    pub(crate) prime: bool,
    /// Begin with this address to send messages to: HTTP+SSE.
    pub(crate) endpoint: Option<String>,
    /// When a comment comes because no event has come.
    pub(crate) keep_alive: Option<KeepAlive>,
    /// Let go of together with the body, for whatever reason that goes: the client went away, was
    /// replaced or sent away, or has been told everything.
    pub(crate) guard: Option<Box<dyn Send>>,
    /// The body ends when the stream has ended and everything was sent.
    pub(crate) close_when_ended: bool,
}

impl Default for BodyOptions {
    fn default() -> Self {
        Self {
            after: None,
            prime: false,
            endpoint: None,
            keep_alive: None,
            guard: None,
            close_when_ended: true,
        }
    }
}

/// A reader: the body of a `text/event-stream` response.
pub(crate) struct Body {
    stream: Arc<Stream>,
    attached: u32,
    /// What comes before the first message.
    opening: Vec<u8>,
    stays: bool,
    over: bool,
    quiet: Quiet,
    /// Dropped after the reader is detached.
    _guard: Option<Box<dyn Send>>,
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        if this.over {
            return Poll::Ready(None);
        }
        let opening = mem::take(&mut this.opening);
        match this
            .stream
            .turn(this.attached, this.stays, opening, cx.waker())
        {
            Turn::Frame(frame) => {
                this.quiet.broken();
                ready(frame.into())
            }
            Turn::Last(frame) => {
                this.over = true;
                if frame.is_empty() {
                    Poll::Ready(None)
                } else {
                    ready(frame.into())
                }
            }
            Turn::Nothing if this.quiet.too_long(cx) => {
                ready(Bytes::from_static(event::KEEP_ALIVE))
            }
            Turn::Nothing => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.over
    }
}

fn ready(bytes: Bytes) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
    Poll::Ready(Some(Ok(Frame::data(bytes))))
}

impl Drop for Body {
    fn drop(&mut self) {
        self.stream.leave(self.attached);
    }
}

#[cfg(test)]
mod tests;
