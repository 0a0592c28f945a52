//! What one stream has to say and what it still knows: pure, and within bounds.
//!
//! Messages are numbered from 1 in the order in which they were said; the answer is the last.

use crate::note::Note;
use bytes::Bytes;
use std::{
    collections::{BTreeSet, VecDeque},
    time::Duration,
};

/// How a stream behaves.
#[derive(Clone, Debug)]
pub(crate) struct StreamRules {
    pub(crate) retention: Retention,
    /// How long a client should wait before it comes back.
    pub(crate) retry: Duration,
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

#[derive(Debug)]
pub(crate) struct Backlog {
    /// What was said and is kept, oldest first. The answer is not among it.
    said: VecDeque<Said>,
    /// The number of the next message, which is that of the answer once it is there.
    next: u64,
    /// So many of `said` the reader has had.
    sent: usize,
    /// How many of `said` may be let go of, and how large they are together.
    loose: Load,
    unsent_bytes: usize,
    /// The changes among what is unsent.
    notes: BTreeSet<Note>,
    end: End,
}

/// A message that is kept.
#[derive(Debug)]
struct Said {
    seq: u64,
    message: Bytes,
    worth: Worth,
}

/// What a message is worth as long as it was not sent. One that was sent may be let go of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Worth {
    /// It may be let go of if there are too many.
    Word,
    /// Somebody waits for it, so it stays.
    Due,
    /// It stays, and stands for all that say the same.
    Note(Note),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Load {
    events: usize,
    bytes: usize,
}

impl Load {
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
enum End {
    Open,
    Answer { message: Bytes, sent: bool },
    NoAnswer,
}

/// A queue that has grown beyond this gives its memory back when it is empty.
const SMALL: usize = 16;

impl Backlog {
    pub(crate) const fn new() -> Self {
        Self {
            said: VecDeque::new(),
            next: 1,
            sent: 0,
            loose: Load {
                events: 0,
                bytes: 0,
            },
            unsent_bytes: 0,
            notes: BTreeSet::new(),
            end: End::Open,
        }
    }

    /// Adds a message, and lets go of the oldest ones that are too many. False if nothing can be
    /// said any more.
    pub(crate) fn say(&mut self, message: Bytes, worth: Worth, rules: &StreamRules) -> bool {
        if self.is_ended() {
            return false;
        }
        match &worth {
            Worth::Word => self.loose.add(&message),
            Worth::Due => {}
            Worth::Note(note) => {
                if !self.notes.insert(note.clone()) {
                    return true;
                }
            }
        }
        self.unsent_bytes += message.len();
        self.said.push_back(Said {
            seq: self.next,
            message,
            worth,
        });
        self.next += 1;
        while self.loose.events > rules.keep_events || self.loose.bytes > rules.keep_bytes {
            let Some(oldest) = self.oldest_loose() else {
                break;
            };
            self.forget(oldest);
        }
        true
    }

    /// Whether a change waits to be told of, so that it need not be said again.
    pub(crate) fn has_note(&self, note: &Note) -> bool {
        self.notes.contains(note)
    }

    /// A change that nobody has been told of need not be told.
    pub(crate) fn take_back(&mut self, note: &Note) {
        if !self.notes.remove(note) {
            return;
        }
        let mut unsent = self.said.iter().skip(self.sent);
        let is_it = |said: &Said| matches!(&said.worth, Worth::Note(other) if other == note);
        if let Some(index) = unsent.position(is_it)
            && let Some(gone) = self.said.remove(self.sent + index)
        {
            self.unsent_bytes -= gone.message.len();
        }
    }

    /// The oldest message that may be let go of. The newest may not.
    fn oldest_loose(&self) -> Option<usize> {
        let older = self.said.len().saturating_sub(1);
        if self.sent > 0 && older > 0 {
            return Some(0);
        }
        let mut older = self.said.iter().take(older);
        older.position(|said| said.worth == Worth::Word)
    }

    /// The last message. It is lost on a stream that has ended: its call was taken back.
    pub(crate) fn answer(&mut self, message: Bytes) {
        if !self.is_ended() {
            self.end = End::Answer {
                message,
                sent: false,
            };
        }
    }

    pub(crate) fn end(&mut self) {
        if !self.is_ended() {
            self.end = End::NoAnswer;
        }
    }

    /// How many bytes the answer takes, if there is one.
    pub(crate) const fn answer_bytes(&self) -> usize {
        match &self.end {
            End::Answer { message, .. } => message.len(),
            End::Open | End::NoAnswer => 0,
        }
    }

    pub(crate) const fn is_ended(&self) -> bool {
        match self.end {
            End::Open => false,
            End::Answer { .. } | End::NoAnswer => true,
        }
    }

    /// It has ended, and everything in it was sent.
    pub(crate) fn is_drained(&self) -> bool {
        self.sent == self.said.len()
            && match self.end {
                End::Open => false,
                End::Answer { sent, .. } => sent,
                End::NoAnswer => true,
            }
    }

    /// Half of what is kept may wait, so that several who ask at once and then speak do not push
    /// each other's messages out.
    pub(crate) fn has_room(&self, rules: &StreamRules) -> bool {
        self.said.len() - self.sent <= rules.keep_events / 2
            && self.unsent_bytes <= rules.keep_bytes / 2
    }

    /// The number of the last message that was sent; 0 if none was.
    pub(crate) fn last_sent(&self) -> u64 {
        match self.end {
            End::Answer { sent: true, .. } => self.next,
            End::Answer { sent: false, .. } | End::Open | End::NoAnswer => {
                let unsent = self.said.get(self.sent);
                unsent.map_or(self.next, |said| said.seq) - 1
            }
        }
    }

    /// Everything after this number is to be sent, again if need be. What is gone already stays
    /// gone; a number that was never given out means the last one that was.
    pub(crate) fn rewind(&mut self, after: Option<u64>, retention: Retention) {
        match retention {
            Retention::Once => return,
            Retention::Replayable => {}
        }
        let after = after.unwrap_or(0);
        self.sent = self.said.partition_point(|said| said.seq <= after);
        self.unsent_bytes = 0;
        self.loose = Load::default();
        self.notes.clear();
        for (index, said) in self.said.iter().enumerate() {
            let unsent = index >= self.sent;
            if unsent {
                self.unsent_bytes += said.message.len();
            }
            match &said.worth {
                Worth::Note(note) if unsent => {
                    self.notes.insert(note.clone());
                }
                Worth::Due if unsent => {}
                Worth::Word | Worth::Due | Worth::Note(_) => self.loose.add(&said.message),
            }
        }
        if let End::Answer { sent, .. } = &mut self.end {
            *sent = after >= self.next;
        }
    }

    /// The oldest message that is to be sent, and its number.
    pub(crate) fn unsent(&self) -> Option<(u64, &Bytes)> {
        if let Some(said) = self.said.get(self.sent) {
            return Some((said.seq, &said.message));
        }
        match &self.end {
            End::Answer {
                message,
                sent: false,
            } => Some((self.next, message)),
            End::Answer { sent: true, .. } | End::Open | End::NoAnswer => None,
        }
    }

    /// What [`unsent`](Self::unsent) gave was sent.
    pub(crate) fn mark_sent(&mut self, retention: Retention) {
        if let Some(said) = self.said.get(self.sent) {
            self.unsent_bytes -= said.message.len();
            match &said.worth {
                Worth::Word => {}
                Worth::Due => self.loose.add(&said.message),
                Worth::Note(note) => {
                    self.notes.remove(note);
                    self.loose.add(&said.message);
                }
            }
            self.sent += 1;
            match retention {
                Retention::Once => self.forget(0),
                Retention::Replayable => {}
            }
        } else if let End::Answer { message, sent } = &mut self.end {
            *sent = true;
            match retention {
                Retention::Once => *message = Bytes::new(),
                Retention::Replayable => {}
            }
        }
    }

    /// Lets go of a message that may be let go of.
    fn forget(&mut self, index: usize) {
        let Some(gone) = self.said.remove(index) else {
            return;
        };
        self.loose.remove(&gone.message);
        if index < self.sent {
            self.sent -= 1;
        } else {
            self.unsent_bytes -= gone.message.len();
        }
        if self.said.is_empty() && self.said.capacity() > SMALL {
            self.said = VecDeque::new();
        }
    }
}

#[cfg(test)]
mod tests;
