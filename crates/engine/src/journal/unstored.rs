//! The entries of a journal that no store has yet.
//!
//! An instance that lives only in this process keeps its newest entries with it. They are written
//! when an operator reads the journal. Entries beyond the limit of the journal are dropped unwritten,
//! and the journal says how many they were. Of other instances, entries that change nothing wait here
//! until the next write.

use crate::journal::{Entry, Pending, What};
use interlock_workflow::Workflow;
use std::{collections::VecDeque, sync::Arc};

/// How many calls that did not run wait to be written. Beyond that they are counted.
pub(crate) const MOST_REFUSALS: usize = 64;

/// How many entries that changed nothing wait in all. Beyond that they are counted.
pub(crate) const MOST_NOTES: usize = 1_024;

/// What the journal of one instance has to say and has not stored.
#[derive(Debug, Default)]
pub(crate) struct Unstored {
    /// When the instance began, until that is stored.
    pub(crate) began: Option<u64>,
    steps: Steps,
    /// Entries that changed nothing: refusals, calls that could not move the instance, effects.
    notes: VecDeque<Entry>,
    /// How many notes tell of calls that did not run.
    refusals: usize,
    /// How many entries were dropped, for want of room or because the store failed.
    dropped: u64,
    /// When the last entry happened. Times of a journal never run backwards.
    last_at: u64,
    /// How many entries have been stored since the journal was last pruned.
    pub(crate) unpruned: u64,
}

/// The newest entries of an instance that lives only in memory, oldest first.
#[derive(Clone, Debug, Default)]
struct Steps {
    entries: VecDeque<Pending>,
    /// The number of the first of them.
    first: u64,
    /// From this number on, what is missing was dropped unwritten.
    stored: u64,
    /// When the last one was dropped that was not written.
    dropped_at: u64,
}

/// What is written next, in this order: notes are told before the step that follows them.
pub(crate) struct Draft {
    /// Boxed, for it is large and nearly always stored already.
    pub(crate) began: Option<Box<Entry>>,
    left_out: Option<Entry>,
    steps: VecDeque<Pending>,
    notes: VecDeque<Entry>,
    dropped: u64,
    up_to_step: u64,
    /// No entry happened later than this.
    pub(crate) at: u64,
}

impl Unstored {
    pub(crate) fn new(began: u64) -> Self {
        Self {
            began: Some(began),
            ..Self::default()
        }
    }

    /// When something happens that the journal tells next.
    pub(crate) fn at(&mut self, now: u64) -> u64 {
        self.last_at = self.last_at.max(now);
        self.last_at
    }

    /// Whether entries wait that changed nothing.
    pub(crate) fn has_notes(&self) -> bool {
        !self.notes.is_empty() || self.dropped > 0
    }

    /// Adds an entry that changed nothing, if there is room.
    pub(crate) fn note(&mut self, now: u64, entry: Entry) {
        let did_not_run = entry.what.is_unrun();
        if self.notes.len() >= MOST_NOTES || (did_not_run && self.refusals >= MOST_REFUSALS) {
            self.dropped += 1;
            return;
        }
        self.refusals += usize::from(did_not_run);
        let at = self.at(now);
        self.notes.push_back(Entry { at, ..entry });
    }

    /// Adds a note in any case: its writer waits for it.
    pub(crate) fn insist(&mut self, entry: Entry) {
        let at = self.at(entry.at);
        self.notes.push_back(Entry { at, ..entry });
    }

    /// Adds an entry to the journal in memory, which holds at most so many, behind the notes.
    pub(crate) fn push(&mut self, entry: Pending, most: u64) {
        if self.has_notes() {
            self.move_notes(entry.at(), most);
        }
        self.steps.push(entry, most);
    }

    #[cold]
    fn move_notes(&mut self, now: u64, most: u64) {
        let notes = std::mem::take(&mut self.notes);
        self.refusals = 0;
        let dropped = unwritten(std::mem::take(&mut self.dropped), now);
        for note in notes.into_iter().chain(dropped) {
            self.steps.push(note.into(), most);
        }
    }

    /// Numbers the notes of an instance that lives only in memory among its steps. A call that ends
    /// during the write would move them there otherwise, and they would be written again.
    pub(crate) fn number_notes(&mut self, now: u64) {
        let at = self.at(now);
        self.move_notes(at, u64::MAX);
    }

    /// What is to be written now. It stays here until it is stored: the write may be given up.
    pub(crate) fn draft(&mut self, now: u64, started: impl FnOnce() -> What) -> Draft {
        let at = self.at(now);
        let began = self.began;
        Draft {
            began: began.map(|began| Box::new(Entry::new(began, None, started()))),
            left_out: self.steps.left_out(),
            steps: self.steps.entries.clone(),
            notes: self.notes.clone(),
            dropped: self.dropped,
            up_to_step: self.steps.first + self.steps.entries.len() as u64,
            at,
        }
    }

    /// The draft is stored, as so many entries. What has happened since stays.
    pub(crate) fn stored(&mut self, draft: &Draft, entries: u64) {
        self.unpruned = self.unpruned.saturating_add(entries);
        self.steps.forget(draft.up_to_step);
        self.drop_notes(draft);
        self.dropped -= self.dropped.min(draft.dropped);
        if draft.began.is_some() {
            self.began = None;
        }
    }

    /// The notes of the draft could not be stored: they are counted.
    pub(crate) fn lost(&mut self, draft: &Draft) {
        self.dropped += self.drop_notes(draft);
    }

    /// Notes leave in order, and one write at a time, so those of the draft are still the first.
    fn drop_notes(&mut self, draft: &Draft) -> u64 {
        let many = draft.notes.len().min(self.notes.len());
        for note in self.notes.drain(..many) {
            self.refusals -= usize::from(note.what.is_unrun());
        }
        many as u64
    }

    /// The instance had begun before it was loaded here. How long its journal is, is not known.
    pub(crate) const fn came_back(&mut self) {
        self.began = None;
        self.unpruned = u64::MAX;
    }
}

impl Steps {
    fn push(&mut self, entry: Pending, most: u64) {
        while self.entries.len() as u64 >= most
            && let Some(oldest) = self.entries.pop_front()
        {
            self.first += 1;
            self.dropped_at = oldest.at();
        }
        self.entries.push_back(entry);
    }

    fn left_out(&self) -> Option<Entry> {
        let entries = self
            .first
            .checked_sub(self.stored)
            .filter(|some| *some > 0)?;
        Some(Entry::new(self.dropped_at, None, What::LeftOut { entries }))
    }

    /// Everything before this number is stored.
    fn forget(&mut self, up_to: u64) {
        let many = up_to.saturating_sub(self.first);
        let many = usize::try_from(many).map_or(0, |many| many.min(self.entries.len()));
        self.entries.drain(..many);
        self.first += many as u64;
        self.stored = up_to;
    }
}

impl Draft {
    /// The entries as they are stored.
    pub(crate) fn bytes(&self, workflow: &Workflow) -> impl Iterator<Item = Arc<[u8]>> {
        let steps = self.steps.iter();
        let steps = steps.map(|pending| pending.entry(workflow).written());
        let began = self.began.as_deref().map(Entry::written);
        let left_out = self.left_out.as_ref().map(Entry::written);
        let notes = self.notes.iter().map(Entry::written);
        let dropped = unwritten(self.dropped, self.at).map(|entry| entry.written());
        let began = began.into_iter().chain(left_out);
        began.chain(steps).chain(notes).chain(dropped)
    }

    /// Whether it says more than that the instance began.
    pub(crate) fn is_something(&self) -> bool {
        !self.notes.is_empty() || !self.steps.is_empty() || self.dropped > 0
    }

    /// Whether entries were dropped before it.
    pub(crate) const fn is_cut(&self) -> bool {
        self.left_out.is_some()
    }
}

fn unwritten(entries: u64, at: u64) -> Option<Entry> {
    (entries > 0).then(|| Entry::new(at, None, What::Unwritten { entries }))
}

#[cfg(test)]
mod tests;
