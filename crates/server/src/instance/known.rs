//! What is known of an instance under its lock, and what of it is shown without it.
//!
//! Most calls only want to know where their instance stands. That is written under the lock and
//! read without it: whoever reads it finds what a look under the lock would have found at that
//! moment or just before. What was changed before whoever reads was told of it is never missed, for
//! nobody is told of anything without something that orders the two.

use super::stored::Unclear;
use interlock_workflow::{Instance as Run, Position};
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

/// What is known, under the lock. It changes only here, so that what is shown is what is known.
#[derive(Debug)]
pub(super) struct Known {
    run: Arc<Run>,
    /// A call that may have taken effect, of which the model has not been told.
    unclear: Option<Unclear>,
    shown: Arc<Shown>,
}

/// What is shown of it.
#[derive(Debug)]
pub(super) struct Shown {
    at: AtomicU64,
    is_unclear: AtomicBool,
}

impl Known {
    pub(super) fn new(run: Run) -> Self {
        let shown = Shown {
            at: AtomicU64::new(run.position().to_bits()),
            is_unclear: AtomicBool::new(false),
        };
        Self {
            run: Arc::new(run),
            unclear: None,
            shown: Arc::new(shown),
        }
    }

    pub(super) const fn shown(&self) -> &Arc<Shown> {
        &self.shown
    }

    pub(super) const fn run(&self) -> &Arc<Run> {
        &self.run
    }

    /// It stands so from now on.
    pub(super) fn becomes(&mut self, run: Arc<Run>) {
        self.run = run;
        self.show();
    }

    /// It goes on from where it stands, which is where it is written over unless somebody has seen
    /// it so. Where it stands then.
    pub(super) fn goes_on(&mut self, go: impl FnOnce(&mut Run)) -> Position {
        go(Arc::make_mut(&mut self.run));
        self.show();
        self.run.position()
    }

    fn show(&self) {
        let at = self.run.position().to_bits();
        self.shown.at.store(at, Ordering::Release);
    }

    pub(super) const fn unclear(&self) -> Option<&Unclear> {
        self.unclear.as_ref()
    }

    /// This is what the model has to be told from now on. What it was before.
    pub(super) fn set_unclear(&mut self, unclear: Option<Unclear>) -> Option<Unclear> {
        let is_unclear = unclear.is_some();
        self.shown.is_unclear.store(is_unclear, Ordering::Release);
        std::mem::replace(&mut self.unclear, unclear)
    }
}

impl Shown {
    pub(super) fn position(&self) -> Position {
        Position::from_bits(self.at.load(Ordering::Acquire))
    }

    /// Whether there is something of which the model has to be told.
    pub(super) fn is_unclear(&self) -> bool {
        self.is_unclear.load(Ordering::Acquire)
    }
}
