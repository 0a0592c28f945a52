//! Comments that keep a silent event stream open.

use futures_util::future::BoxFuture;
use interlock_engine::Clock;
use std::{fmt, sync::Arc, task::Context, time::Duration};

/// After how long without an event a comment is sent, by which clock.
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

/// Measures how long nothing was sent.
pub(super) struct Silence {
    keep_alive: Option<KeepAlive>,
    /// Completes when it has lasted too long.
    timer: Option<BoxFuture<'static, ()>>,
}

impl Silence {
    pub(super) const fn new(keep_alive: Option<KeepAlive>) -> Self {
        Self {
            keep_alive,
            timer: None,
        }
    }

    pub(super) fn end(&mut self) {
        self.timer = None;
    }

    /// Whether it has lasted too long. If so, it begins anew.
    pub(super) fn is_too_long(&mut self, cx: &mut Context<'_>) -> bool {
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
