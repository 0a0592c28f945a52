//! What somebody rings and one task hears.

use futures_util::task::AtomicWaker;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Wake},
};

/// Whether somebody has rung, for the one task that wants to know. Cheaper than what any number of
/// tasks can wait for.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    rung: AtomicBool,
    task: AtomicWaker,
}

impl Bell {
    pub(crate) fn ring(&self) {
        self.rung.store(true, Ordering::Release);
        self.task.wake();
    }

    /// Whether it has been rung since it was heard last. If not, whoever asks is woken when it is.
    pub(crate) fn is_heard(&self, context: &Context<'_>) -> bool {
        // Before looking, so that no ringing in between is missed.
        self.task.register(context.waker());
        self.rung.load(Ordering::Acquire) && self.rung.swap(false, Ordering::AcqRel)
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.ring();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ring();
    }
}
