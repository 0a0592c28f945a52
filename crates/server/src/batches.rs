//! The batches of a connection whose answers are not complete.

use interlock_proto::{batch::Answers, connection::Key};
use std::collections::HashMap;

/// Which requests came in which batch, and what they have been answered with so far.
#[derive(Debug, Default)]
pub(crate) struct Batches {
    /// The one whose members are being read.
    pub(crate) reading: Option<u64>,
    open: HashMap<u64, Answers>,
    of: HashMap<Key, u64>,
    next: u64,
}

impl Batches {
    pub(crate) fn open(&mut self, answers: Answers) -> u64 {
        self.next += 1;
        self.open.insert(self.next, answers);
        self.next
    }

    /// A request that is being read belongs to the batch that is being read.
    pub(crate) fn belongs(&mut self, key: &Key) {
        if let Some(batch) = self.reading {
            self.of.insert(key.clone(), batch);
        }
    }

    pub(crate) fn of(&self, key: &Key) -> Option<u64> {
        if self.of.is_empty() {
            return None;
        }
        self.of.get(key).copied()
    }

    pub(crate) fn forget(&mut self, key: &Key) {
        if !self.of.is_empty() {
            self.of.remove(key);
        }
    }

    /// Takes one answer. If it was the last, the line that holds all of them.
    pub(crate) fn answered(&mut self, batch: u64, message: &[u8]) -> Vec<u8> {
        if let Some(answers) = self.open.get_mut(&batch) {
            answers.answered(message);
        }
        self.complete(batch)
    }

    /// One member will get no answer.
    pub(crate) fn suppressed(&mut self, batch: u64) -> Vec<u8> {
        if let Some(answers) = self.open.get_mut(&batch) {
            answers.suppressed();
        }
        self.complete(batch)
    }

    fn complete(&mut self, batch: u64) -> Vec<u8> {
        if !self.open.get(&batch).is_some_and(Answers::is_complete) {
            return Vec::new();
        }
        let mut line = self
            .open
            .remove(&batch)
            .and_then(Answers::finish)
            .unwrap_or_default();
        if !line.is_empty() {
            line.push(b'\n');
        }
        line
    }
}
