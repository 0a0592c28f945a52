//! The queue of a stdio connection: all of its requests append, and one loop takes and writes.

use crate::{
    model::change::ChangeNotification,
    outbound::{lock, write_buffer::WriteBuffer},
};
use std::{
    collections::BTreeSet,
    mem,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::sync::Notify;

/// Lines and changes that wait for the writer loop.
#[derive(Debug, Default)]
pub(crate) struct SharedQueue {
    state: Mutex<QueueState>,
    /// Whether there is no room, as of the last change.
    is_full: AtomicBool,
    /// Set while the writer loop runs. Cleared under the lock, so an append that sees it set is
    /// taken before the loop waits.
    writer_runs: AtomicBool,
    /// Wakes the writer loop.
    changed: Notify,
    /// Wakes those who wait for room.
    has_room: Notify,
}

#[derive(Debug, Default)]
struct QueueState {
    lines: Vec<u8>,
    changes: BTreeSet<ChangeNotification>,
    /// How many bytes the loop has taken and not yet written.
    unwritten: usize,
    /// The client does not read any more.
    closed: bool,
}

impl QueueState {
    fn has_room(&self) -> bool {
        self.closed || self.lines.len() + self.unwritten < WriteBuffer::FULL
    }
}

impl SharedQueue {
    pub(super) fn append(&self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut state = lock(&self.state);
        if !state.closed {
            write(&mut state.lines);
        }
        let writer_runs = self.writer_runs.load(Ordering::Relaxed);
        self.publish_room(&state);
        drop(state);
        if !writer_runs {
            self.wake();
        }
    }

    pub(super) fn notify(&self, change: ChangeNotification) {
        let mut state = lock(&self.state);
        if !state.closed {
            state.changes.insert(change);
        }
        drop(state);
        self.wake();
    }

    pub(super) fn retract(&self, change: &ChangeNotification) {
        lock(&self.state).changes.remove(change);
    }

    /// Wakes the writer loop.
    pub(crate) fn wake(&self) {
        self.changed.notify_one();
    }

    /// Completes when something was appended, or the loop was woken, since the last time.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// The writer loop runs: appends need not wake it until it has [taken](Self::take) them.
    pub(crate) fn writer_runs(&self) {
        self.writer_runs.store(true, Ordering::Relaxed);
    }

    /// Moves everything to the buffer, unless that has something left to write: then nothing is
    /// moved, and nothing copied. Returns whether nothing is left here.
    pub(crate) fn take(&self, buffer: &mut WriteBuffer) -> bool {
        let mut state = lock(&self.state);
        self.writer_runs.store(false, Ordering::Relaxed);
        if !buffer.is_empty() {
            return false;
        }
        let had_room = state.has_room();
        mem::swap(buffer.lines(), &mut state.lines);
        if buffer.has_room() {
            for change in mem::take(&mut state.changes) {
                change.write(buffer.lines());
            }
        }
        // A small buffer is mostly written at once; if not, the loop calls `set_unwritten`.
        state.unwritten = if had_room { 0 } else { buffer.len() };
        self.room_changed(had_room, &state);
        state.changes.is_empty()
    }

    /// How many bytes the loop has taken and not yet written.
    pub(crate) fn set_unwritten(&self, unwritten: usize) {
        let mut state = lock(&self.state);
        let had_room = state.has_room();
        state.unwritten = unwritten;
        self.room_changed(had_room, &state);
    }

    fn room_changed(&self, had_room: bool, state: &QueueState) {
        self.publish_room(state);
        if !had_room && state.has_room() {
            self.has_room.notify_waiters();
        }
    }

    fn publish_room(&self, state: &QueueState) {
        let is_full = !state.has_room();
        if self.is_full.load(Ordering::Relaxed) != is_full {
            self.is_full.store(is_full, Ordering::Release);
        }
    }

    /// Whether more may be read from the client, which may lead to more lines.
    pub(crate) fn has_room(&self) -> bool {
        !self.is_full.load(Ordering::Acquire)
    }

    pub(super) async fn wait_for_room(&self) {
        loop {
            let has_room = self.has_room.notified();
            if self.has_room() {
                return;
            }
            has_room.await;
        }
    }

    /// Whether the loop has taken everything.
    pub(crate) fn is_empty(&self) -> bool {
        let state = lock(&self.state);
        state.lines.is_empty() && state.changes.is_empty()
    }

    /// Discards everything from now on: the client does not read any more.
    pub(crate) fn close(&self) {
        let mut state = lock(&self.state);
        *state = QueueState {
            closed: true,
            ..QueueState::default()
        };
        self.publish_room(&state);
        drop(state);
        self.has_room.notify_waiters();
        self.wake();
    }
}
