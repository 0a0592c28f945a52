//! The end of a journal that is not in any store.
//!
//! Of an instance that lives and dies with its server, nobody but an operator ever reads the
//! journal. Its newest entries stay with the instance, small as they are, until somebody does; those
//! that are older than the journal is long are never written out at all, and the journal says how
//! many that were.

use crate::journal::{Entry, Told, What};
use interlock_workflow::Workflow;
use std::{collections::VecDeque, sync::Arc};

/// The newest entries of a journal, oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Tail {
    entries: VecDeque<Told>,
    /// How many older ones have been let go of, and when the last of them happened. What is stored
    /// is older still.
    left_out: Option<(u64, u64)>,
}

impl Tail {
    /// Adds an entry to a journal of at most so many.
    pub(super) fn push(&mut self, entry: Told, most: u64) {
        if self.entries.len() as u64 >= most
            && let Some(oldest) = self.entries.pop_front()
        {
            let before = self.left_out.map_or(0, |(entries, _)| entries);
            self.left_out = Some((before + 1, oldest.at()));
        }
        self.entries.push_back(entry);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether entries have been let go of, so that what is stored is of no use any more.
    pub(super) const fn is_cut(&self) -> bool {
        self.left_out.is_some()
    }

    /// The entries, as they are stored.
    pub(super) fn written(&self, workflow: &Workflow) -> impl Iterator<Item = Arc<[u8]>> {
        let left_out = self.left_out.map(|(entries, at)| {
            let what = What::LeftOut { entries };
            Entry::new(at, None, what).written()
        });
        let entries = self.entries.iter().map(|entry| entry.written(workflow));
        left_out.into_iter().chain(entries)
    }
}
