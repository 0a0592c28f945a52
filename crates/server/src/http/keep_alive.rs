//! A stream on which nothing is said for long says that it is alive.

use crate::clock::Clock;
use std::{fmt, future::Future, pin::Pin, sync::Arc, task::Context, time::Duration};

/// After how long without a word a stream says that it is alive, by whose clock.
#[derive(Clone)]
pub(crate) struct KeepAlive {
    clock: Arc<dyn Clock>,
    limit: Duration,
}

impl KeepAlive {
    /// Zero: never.
    pub(crate) fn new(clock: &Arc<dyn Clock>, limit: Duration) -> Option<Self> {
        let clock = Arc::clone(clock);
        (!limit.is_zero()).then_some(Self { clock, limit })
    }
}

impl fmt::Debug for KeepAlive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("KeepAlive").field(&self.limit).finish()
    }
}

/// Notices when nothing was sent for too long.
pub(super) struct Quiet {
    keep_alive: Option<KeepAlive>,
    /// Completes when it has been quiet for too long.
    timer: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl Quiet {
    pub(super) const fn new(keep_alive: Option<KeepAlive>) -> Self {
        Self {
            keep_alive,
            timer: None,
        }
    }

    pub(super) fn broken(&mut self) {
        self.timer = None;
    }

    /// Whether it has been quiet for so long. If it was, the time runs anew.
    pub(super) fn too_long(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(KeepAlive { clock, limit }) = &self.keep_alive else {
            return false;
        };
        let timer = self
            .timer
            .get_or_insert_with(|| clock.sleep_until(clock.now() + *limit));
        let is_over = timer.as_mut().poll(cx).is_ready();
        if is_over {
            self.timer = None;
        }
        is_over
    }
}
