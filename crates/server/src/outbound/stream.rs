//! One stream of messages to a client over HTTP: the answer to a POST, a GET, HTTP+SSE.
//!
//! Messages are appended whether or not there is a reader. At most one reader is attached at a
//! time; connections may come and go while the stream stays.
//!
//! Invariant: no lock is held while waiting or waking.

pub(crate) use crate::outbound::backlog::{Retention, StreamRules};

use crate::{
    model::change::ChangeNotification,
    outbound::{
        backlog::{Backlog, Delivery},
        lock,
        replay_memory::ReplayMemory,
    },
};
use bytes::Bytes;
use std::{
    sync::{Arc, Mutex, Weak},
    task::Waker,
};
use tokio::sync::Notify;

/// A stream of messages with at most one reader.
#[derive(Debug)]
pub(crate) struct Stream {
    /// Unique within its session.
    number: u64,
    rules: StreamRules,
    /// Bounds what is kept here together with what other streams keep.
    memory: Option<Arc<ReplayMemory>>,
    this: Weak<Self>,
    state: Mutex<StreamState>,
    /// Wakes those who wait for room.
    changed: Notify,
}

#[derive(Debug)]
struct StreamState {
    backlog: Backlog,
    /// How often a reader was attached. Only the last of them is the reader.
    attached: u32,
    presence: Presence,
    /// The memory knows that something is kept here.
    is_counted: bool,
    /// It had ended, and what was kept of it is gone.
    is_forgotten: bool,
    /// The reader's.
    waker: Option<Waker>,
}

/// Whether there is a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    Absent,
    Reading,
    /// It is to be told to come back, and its connection closed.
    Leaving,
}

impl Stream {
    pub(crate) fn new(number: u64, rules: StreamRules) -> Arc<Self> {
        Self::counted(number, rules, None)
    }

    /// A stream that shares the memory for what is kept.
    pub(crate) fn counted(
        number: u64,
        rules: StreamRules,
        memory: Option<Arc<ReplayMemory>>,
    ) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            number,
            rules,
            memory,
            this: Weak::clone(this),
            state: Mutex::new(StreamState {
                backlog: Backlog::new(),
                attached: 0,
                presence: Presence::Absent,
                is_counted: false,
                is_forgotten: false,
                waker: None,
            }),
            changed: Notify::new(),
        })
    }

    pub(crate) const fn number(&self) -> u64 {
        self.number
    }

    /// Whether a message can be asked for again, by its number.
    pub(crate) fn is_replayable(&self) -> bool {
        self.rules.retention == Retention::Replayable
    }

    /// Appends a message that may be dropped if there is no reader. False if the stream has ended.
    pub(crate) fn send(&self, message: Vec<u8>) -> bool {
        self.append(message, Delivery::BestEffort)
    }

    /// Appends a message that stays until it is sent. False if the stream has ended.
    pub(crate) fn send_required(&self, message: Vec<u8>) -> bool {
        self.append(message, Delivery::Required)
    }

    /// Tells of a change, once, however often it happens before it is sent.
    pub(crate) fn notify(&self, change: ChangeNotification) {
        if lock(&self.state).backlog.has_change(&change) {
            return;
        }
        let mut message = Vec::new();
        change.write(&mut message);
        message.truncate(message.trim_ascii_end().len());
        self.append(message, Delivery::Change(change));
    }

    /// Removes a change that was not sent yet.
    pub(crate) fn retract(&self, change: &ChangeNotification) {
        self.change(|state| state.backlog.retract(change));
    }

    fn append(&self, message: Vec<u8>, delivery: Delivery) -> bool {
        let message = compact(message);
        self.change(|state| state.backlog.append(message, delivery, &self.rules))
    }

    /// Appends the last message, and ends the stream.
    pub(crate) fn answer(&self, message: Vec<u8>) {
        let message = compact(message);
        self.change(|state| state.backlog.answer(message));
    }

    /// Ends it without an answer: its call was cancelled, or the server closes it.
    pub(crate) fn end(&self) {
        self.change(|state| state.backlog.end());
    }

    /// Closes the reader's connection but not the stream. The reader is told when to come back.
    pub(crate) fn disconnect(&self) {
        self.change(|state| match state.presence {
            Presence::Reading => state.presence = Presence::Leaving,
            Presence::Absent | Presence::Leaving => {}
        });
    }

    /// A reader will be attached, so senders wait for it already.
    pub(crate) fn expect_reader(&self) {
        self.change(|state| state.presence = Presence::Reading);
    }

    /// The reader that was expected will not come, unless it has.
    pub(crate) fn expect_no_reader(&self) {
        self.change(|state| {
            if state.attached == 0 {
                state.presence = Presence::Absent;
            }
        });
    }

    /// Waits until the reader has taken enough for more to be sent. Without a reader it does not
    /// wait: the oldest messages are dropped instead, never the answer.
    pub(crate) async fn wait_for_room(&self) {
        self.wait_until(|state| {
            state.presence != Presence::Reading
                || state.backlog.is_ended()
                || state.backlog.has_room(&self.rules)
        })
        .await;
    }

    /// As [`wait_for_room`](Self::wait_for_room), but waits even without a reader.
    pub(crate) async fn wait_until_read(&self) {
        self.wait_until(|state| state.backlog.is_ended() || state.backlog.has_room(&self.rules))
            .await;
    }

    pub(crate) fn is_ended(&self) -> bool {
        lock(&self.state).backlog.is_ended()
    }

    /// Forgets what is kept for a client that may come back, unless somebody reads. How many bytes
    /// were kept before, and are now.
    pub(super) fn forget(&self) -> (usize, usize) {
        let mut state = lock(&self.state);
        let before = state.backlog.kept_bytes();
        if state.presence != Presence::Reading {
            state.is_forgotten |= state.backlog.is_ended();
            state.backlog.forget();
        }
        let after = state.backlog.kept_bytes();
        // The memory forgets a stream that keeps nothing.
        state.is_counted = after > 0;
        (before, after)
    }

    /// Whether it had ended, and what was kept of it is gone.
    pub(crate) fn is_forgotten(&self) -> bool {
        lock(&self.state).is_forgotten
    }

    /// How many bytes the answer takes, if there is one. All else is bounded for each stream.
    pub(crate) fn answer_bytes(&self) -> usize {
        lock(&self.state).backlog.answer_bytes()
    }

    /// Whether it has ended and everything was sent.
    pub(crate) fn is_drained(&self) -> bool {
        lock(&self.state).backlog.is_drained()
    }

    pub(crate) fn has_reader(&self) -> bool {
        lock(&self.state).presence == Presence::Reading
    }

    /// The number of the last message that was sent; 0 if none was. A reader that is attached
    /// after it gets nothing twice.
    pub(crate) fn last_sent(&self) -> u64 {
        lock(&self.state).backlog.last_sent()
    }

    /// Attaches a reader, which gets what comes after this message, or everything. A reader that
    /// is attached already ends.
    pub(crate) fn attach(self: &Arc<Self>, after: Option<u64>) -> StreamReader {
        let (attached, begins_after) = self.change(|state| {
            state.backlog.rewind(after, self.rules.retention);
            state.attached = state.attached.wrapping_add(1);
            state.presence = Presence::Reading;
            let is_over = state.backlog.is_drained();
            let begins_after = (!is_over).then(|| state.backlog.last_sent());
            (state.attached, begins_after)
        });
        StreamReader {
            stream: Arc::clone(self),
            attached,
            begins_after,
        }
    }

    /// Changes the state, and wakes the reader and those who wait.
    fn change<T>(&self, change: impl FnOnce(&mut StreamState) -> T) -> T {
        let mut state = lock(&self.state);
        let before = state.backlog.kept_bytes();
        let changed = change(&mut state);
        let after = state.backlog.kept_bytes();
        let is_new = after > 0 && !std::mem::replace(&mut state.is_counted, true);
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
        self.changed.notify_waiters();
        if let Some(memory) = &self.memory {
            if is_new {
                memory.add(Weak::clone(&self.this));
            }
            if before != after {
                memory.changed(before, after);
            }
        }
        changed
    }

    async fn wait_until(&self, holds: impl Fn(&StreamState) -> bool) {
        loop {
            // Made before looking, so that no change in between is missed.
            let changed = self.changed.notified();
            if holds(&lock(&self.state)) {
                return;
            }
            changed.await;
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Some(memory) = &self.memory {
            memory.changed(lock(&self.state).backlog.kept_bytes(), 0);
        }
    }
}

/// The reader of a stream. Dropping it detaches it.
#[derive(Debug)]
pub(crate) struct StreamReader {
    stream: Arc<Stream>,
    attached: u32,
    begins_after: Option<u64>,
}

/// What a reader has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadResult {
    /// There is something in the frame, and more may come.
    Frame,
    /// There is nothing. The waker is woken when that changes.
    Pending,
    /// What is in the frame is the last for this reader, which has had all there is.
    End,
    /// As [`End`](Self::End), but the stream goes on: the reader is to come back.
    Disconnected,
}

impl StreamReader {
    pub(crate) fn stream(&self) -> &Stream {
        &self.stream
    }

    /// The number of the last message that was sent before this reader; none if there is nothing
    /// left to send.
    pub(crate) const fn begins_after(&self) -> Option<u64> {
        self.begins_after
    }

    /// Appends messages with their numbers to the frame, until it has reached its limit.
    pub(crate) fn read(
        &self,
        frame: &mut Vec<u8>,
        limit: usize,
        waker: &Waker,
        write: impl Fn(&mut Vec<u8>, u64, &[u8]),
    ) -> ReadResult {
        let Stream { state, rules, .. } = &*self.stream;
        let mut state = lock(state);
        if state.attached != self.attached {
            frame.clear();
            return ReadResult::End;
        }
        while frame.len() < limit
            && let Some((number, message)) = state.backlog.unsent()
        {
            write(frame, number, message);
            state.backlog.mark_sent(rules.retention);
        }
        let read = match state.presence {
            _ if state.backlog.is_drained() => ReadResult::End,
            Presence::Leaving | Presence::Absent => ReadResult::Disconnected,
            Presence::Reading if frame.is_empty() => ReadResult::Pending,
            Presence::Reading => ReadResult::Frame,
        };
        match read {
            ReadResult::End | ReadResult::Disconnected => state.presence = Presence::Absent,
            ReadResult::Frame => {}
            ReadResult::Pending => {
                let old = state.waker.replace(waker.clone());
                drop(state);
                drop(old);
                return read;
            }
        }
        drop(state);
        self.stream.changed.notify_waiters();
        read
    }
}

impl Drop for StreamReader {
    fn drop(&mut self) {
        self.stream.change(|state| {
            if state.attached == self.attached {
                state.presence = Presence::Absent;
            }
        });
    }
}

/// Only the length of a message is counted against the limits, so unused capacity is given back.
fn compact(mut message: Vec<u8>) -> Bytes {
    if message.capacity() / 2 > message.len() {
        message.shrink_to_fit();
    }
    message.into()
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
