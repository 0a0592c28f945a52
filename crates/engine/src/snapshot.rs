//! Where an instance stands, readable without its lock.
//!
//! The position is written under the lock and read without it. A reader may see the value of a
//! moment ago. It never misses a change that it was told of, for telling orders the two.

use crate::record::Unclear;
use interlock_workflow::{Instance as Run, Position};
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

/// What is known of an instance, under its lock. Every change also updates the snapshot.
#[derive(Debug)]
pub(crate) struct Known {
    run: Arc<Run>,
    /// A call that may have taken effect, of which the model has not been told.
    unclear: Option<Unclear>,
    snapshot: Arc<Snapshot>,
}

/// The part that is read without the lock.
#[derive(Debug)]
pub(crate) struct Snapshot {
    position: AtomicU64,
    is_unclear: AtomicBool,
}

impl Known {
    pub(crate) fn new(run: Run) -> Self {
        let snapshot = Snapshot {
            position: AtomicU64::new(run.position().to_bits()),
            is_unclear: AtomicBool::new(false),
        };
        Self {
            run: Arc::new(run),
            unclear: None,
            snapshot: Arc::new(snapshot),
        }
    }

    pub(crate) const fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    pub(crate) const fn run(&self) -> &Arc<Run> {
        &self.run
    }

    pub(crate) fn set_run(&mut self, run: Arc<Run>) {
        self.run = run;
        self.publish();
    }

    /// Changes the run in place, unless a handler still looks at it. The position after that.
    pub(crate) fn change_run(&mut self, change: impl FnOnce(&mut Run)) -> Position {
        change(Arc::make_mut(&mut self.run));
        self.publish();
        self.run.position()
    }

    fn publish(&self) {
        let bits = self.run.position().to_bits();
        self.snapshot.position.store(bits, Ordering::Release);
    }

    pub(crate) const fn unclear(&self) -> Option<&Unclear> {
        self.unclear.as_ref()
    }

    /// Sets what the model has to be told, and returns what it was before.
    pub(crate) fn set_unclear(&mut self, unclear: Option<Unclear>) -> Option<Unclear> {
        let is_unclear = unclear.is_some();
        self.snapshot
            .is_unclear
            .store(is_unclear, Ordering::Release);
        std::mem::replace(&mut self.unclear, unclear)
    }
}

impl Snapshot {
    pub(crate) fn position(&self) -> Position {
        Position::from_bits(self.position.load(Ordering::Acquire))
    }

    pub(crate) fn is_unclear(&self) -> bool {
        self.is_unclear.load(Ordering::Acquire)
    }
}
