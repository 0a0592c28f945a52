//! The messages of one stream that are to be sent, or can be sent again: pure, and bounded.
//!
//! Messages are numbered from 1 in the order in which they were appended; the answer is the last.

use crate::model::change::ChangeNotification;
use bytes::Bytes;
use std::collections::{BTreeSet, VecDeque};

/// How a stream behaves.
#[derive(Clone, Debug)]
pub(crate) struct StreamRules {
    pub(crate) retention: Retention,
    /// So many bytes of messages are kept. The newest message and the answer are always kept.
    pub(crate) keep_bytes: usize,
    /// So many messages are kept, not counting the answer.
    pub(crate) keep_events: usize,
}

/// What becomes of a message once it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retention {
    /// It stays, has an id, and can be asked for again: 2025 versions.
    Replayable,
    /// It is gone and never had an id: 2026-07-28, HTTP+SSE.
    Once,
}

/// The messages of one stream.
#[derive(Debug)]
pub(crate) struct Backlog {
    /// Oldest first. The answer is not among them.
    messages: VecDeque<QueuedMessage>,
    /// The number of the next message, which is that of the answer once it is there.
    next: u64,
    /// So many of `messages` were sent.
    sent: usize,
    /// How many of `messages` may be dropped, and how large they are together.
    droppable: Volume,
    unsent_bytes: usize,
    /// How large everything is together that is kept, the answer included.
    kept_bytes: usize,
    /// The changes among what is unsent.
    changes: BTreeSet<ChangeNotification>,
    end: Ending,
}

#[derive(Debug)]
struct QueuedMessage {
    seq: u64,
    bytes: Bytes,
    delivery: Delivery,
}

/// Whether a message may be dropped before it was sent. Once sent, every message may.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// It is dropped if there are too many.
    BestEffort,
    /// It stays.
    Required,
    /// It stays, and stands for all of the same change.
    Change(ChangeNotification),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Volume {
    events: usize,
    bytes: usize,
}

impl Volume {
    const fn add(&mut self, message: &Bytes) {
        self.events += 1;
        self.bytes += message.len();
    }

    const fn remove(&mut self, message: &Bytes) {
        self.events -= 1;
        self.bytes -= message.len();
    }
}

#[derive(Debug)]
enum Ending {
    Open,
    Answer { message: Bytes, sent: bool },
    NoAnswer,
}

/// A queue that has grown beyond this gives its memory back when it is empty.
const SMALL: usize = 16;

impl Backlog {
    pub(crate) const fn new() -> Self {
        Self {
            messages: VecDeque::new(),
            next: 1,
            sent: 0,
            droppable: Volume {
                events: 0,
                bytes: 0,
            },
            unsent_bytes: 0,
            kept_bytes: 0,
            changes: BTreeSet::new(),
            end: Ending::Open,
        }
    }

    /// Appends a message, and drops the oldest ones that are too many. False if the stream has
    /// ended.
    pub(crate) fn append(&mut self, bytes: Bytes, delivery: Delivery, rules: &StreamRules) -> bool {
        if self.is_ended() {
            return false;
        }
        match &delivery {
            Delivery::BestEffort => self.droppable.add(&bytes),
            Delivery::Required => {}
            Delivery::Change(change) => {
                if !self.changes.insert(change.clone()) {
                    return true;
                }
            }
        }
        self.unsent_bytes += bytes.len();
        self.kept_bytes += bytes.len();
        self.messages.push_back(QueuedMessage {
            seq: self.next,
            bytes,
            delivery,
        });
        self.next += 1;
        while self.droppable.events > rules.keep_events || self.droppable.bytes > rules.keep_bytes {
            let Some(oldest) = self.oldest_droppable() else {
                break;
            };
            self.drop_at(oldest);
        }
        true
    }

    /// Whether a change waits to be sent, so that it need not be appended again.
    pub(crate) fn has_change(&self, change: &ChangeNotification) -> bool {
        self.changes.contains(change)
    }

    /// Removes a change that was not sent yet.
    pub(crate) fn retract(&mut self, change: &ChangeNotification) {
        if !self.changes.remove(change) {
            return;
        }
        let mut unsent = self.messages.iter().skip(self.sent);
        let is_it = |one: &QueuedMessage| matches!(&one.delivery, Delivery::Change(other) if other == change);
        if let Some(index) = unsent.position(is_it)
            && let Some(removed) = self.messages.remove(self.sent + index)
        {
            self.unsent_bytes -= removed.bytes.len();
            self.kept_bytes -= removed.bytes.len();
        }
    }

    /// The oldest message that may be dropped. The newest may not.
    fn oldest_droppable(&self) -> Option<usize> {
        let older = self.messages.len().saturating_sub(1);
        if self.sent > 0 && older > 0 {
            return Some(0);
        }
        let mut older = self.messages.iter().take(older);
        older.position(|message| message.delivery == Delivery::BestEffort)
    }

    /// Appends the last message. It is dropped on a stream that has ended: its call was cancelled.
    pub(crate) fn answer(&mut self, message: Bytes) {
        if !self.is_ended() {
            self.kept_bytes += message.len();
            self.end = Ending::Answer {
                message,
                sent: false,
            };
        }
    }

    pub(crate) fn end(&mut self) {
        if !self.is_ended() {
            self.end = Ending::NoAnswer;
        }
    }

    /// Drops what a client that comes back would be sent again, or for the first time. Of a stream
    /// that goes on, what must be sent stays.
    pub(crate) fn forget(&mut self) {
        if self.is_ended() {
            *self = Self {
                next: self.next,
                end: Ending::NoAnswer,
                ..Self::new()
            };
        }
        while let Some(oldest) = self.oldest_droppable() {
            self.drop_at(oldest);
        }
    }

    /// How large everything is together that is kept.
    pub(crate) const fn kept_bytes(&self) -> usize {
        self.kept_bytes
    }

    /// How many bytes the answer takes, if there is one.
    pub(crate) const fn answer_bytes(&self) -> usize {
        match &self.end {
            Ending::Answer { message, .. } => message.len(),
            Ending::Open | Ending::NoAnswer => 0,
        }
    }

    pub(crate) const fn is_ended(&self) -> bool {
        match self.end {
            Ending::Open => false,
            Ending::Answer { .. } | Ending::NoAnswer => true,
        }
    }

    /// It has ended, and everything in it was sent.
    pub(crate) fn is_drained(&self) -> bool {
        self.sent == self.messages.len()
            && match self.end {
                Ending::Open => false,
                Ending::Answer { sent, .. } => sent,
                Ending::NoAnswer => true,
            }
    }

    /// Half of what is kept may be unsent, so that several senders that check at once do not push
    /// out each other's messages.
    pub(crate) fn has_room(&self, rules: &StreamRules) -> bool {
        self.messages.len() - self.sent <= rules.keep_events / 2
            && self.unsent_bytes <= rules.keep_bytes / 2
    }

    /// The number of the last message that was sent; 0 if none was.
    pub(crate) fn last_sent(&self) -> u64 {
        match self.end {
            Ending::Answer { sent: true, .. } => self.next,
            Ending::Answer { sent: false, .. } | Ending::Open | Ending::NoAnswer => {
                let unsent = self.messages.get(self.sent);
                unsent.map_or(self.next, |message| message.seq) - 1
            }
        }
    }

    /// Everything after this number is to be sent, again if need be. What was dropped stays
    /// dropped; a number that was never given out means the last one that was.
    pub(crate) fn rewind(&mut self, after: Option<u64>, retention: Retention) {
        match retention {
            Retention::Once => return,
            Retention::Replayable => {}
        }
        let after = after.unwrap_or(0);
        self.sent = self
            .messages
            .partition_point(|message| message.seq <= after);
        self.unsent_bytes = 0;
        self.droppable = Volume::default();
        self.changes.clear();
        for (index, message) in self.messages.iter().enumerate() {
            let unsent = index >= self.sent;
            if unsent {
                self.unsent_bytes += message.bytes.len();
            }
            match &message.delivery {
                Delivery::Change(change) if unsent => {
                    self.changes.insert(change.clone());
                }
                Delivery::Required if unsent => {}
                Delivery::BestEffort | Delivery::Required | Delivery::Change(_) => {
                    self.droppable.add(&message.bytes);
                }
            }
        }
        if let Ending::Answer { sent, .. } = &mut self.end {
            *sent = after >= self.next;
        }
    }

    /// The oldest message that is to be sent, and its number.
    pub(crate) fn unsent(&self) -> Option<(u64, &Bytes)> {
        if let Some(message) = self.messages.get(self.sent) {
            return Some((message.seq, &message.bytes));
        }
        match &self.end {
            Ending::Answer {
                message,
                sent: false,
            } => Some((self.next, message)),
            Ending::Answer { sent: true, .. } | Ending::Open | Ending::NoAnswer => None,
        }
    }

    /// What [`unsent`](Self::unsent) returned was sent.
    pub(crate) fn mark_sent(&mut self, retention: Retention) {
        if let Some(message) = self.messages.get(self.sent) {
            self.unsent_bytes -= message.bytes.len();
            match &message.delivery {
                Delivery::BestEffort => {}
                Delivery::Required => self.droppable.add(&message.bytes),
                Delivery::Change(change) => {
                    self.changes.remove(change);
                    self.droppable.add(&message.bytes);
                }
            }
            self.sent += 1;
            match retention {
                Retention::Once => self.drop_at(0),
                Retention::Replayable => {}
            }
        } else if let Ending::Answer { message, sent } = &mut self.end {
            *sent = true;
            match retention {
                Retention::Once => {
                    self.kept_bytes -= message.len();
                    *message = Bytes::new();
                }
                Retention::Replayable => {}
            }
        }
    }

    /// Drops a message that may be dropped.
    fn drop_at(&mut self, index: usize) {
        let Some(dropped) = self.messages.remove(index) else {
            return;
        };
        self.droppable.remove(&dropped.bytes);
        self.kept_bytes -= dropped.bytes.len();
        if index < self.sent {
            self.sent -= 1;
        } else {
            self.unsent_bytes -= dropped.bytes.len();
        }
        if self.messages.is_empty() && self.messages.capacity() > SMALL {
            self.messages = VecDeque::new();
        }
    }
}

#[cfg(test)]
mod tests;
