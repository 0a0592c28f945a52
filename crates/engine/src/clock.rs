//! The one place that asks the operating system for the time.

use interlock_proto::Time;
use std::{
    future::Future,
    pin::Pin,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

/// Tells the time and waits for it. Tests bring a clock that they drive themselves.
///
/// ```
/// use interlock_engine::{Clock, SystemClock, sleep_until};
/// use std::time::Duration;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let clock = SystemClock::new();
/// let soon = clock.now() + Duration::from_millis(2);
/// sleep_until(&clock, Some(soon)).await;
/// assert!(clock.now() >= soon);
/// # }
/// ```
pub trait Clock: Send + Sync + 'static {
    /// What time it is.
    fn now(&self) -> Time;

    /// Completes once [`now`](Self::now) has reached `when`.
    fn sleep_until(&self, when: Time) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// Wall time read once at the start, plus a monotonic count: it never runs backwards.
#[derive(Debug)]
pub struct SystemClock {
    started: Instant,
    wall_at_start: u64,
}

impl SystemClock {
    /// Reads the wall clock.
    #[must_use]
    pub fn new() -> Self {
        let wall = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Self {
            started: Instant::now(),
            wall_at_start: u64::try_from(wall.as_millis()).unwrap_or(u64::MAX),
        }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Time {
        Time(self.wall_at_start) + self.started.elapsed()
    }

    fn sleep_until(&self, when: Time) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        // Rounding up to the next whole millisecond makes sure that `when` has come.
        let span = self.now().until(when) + std::time::Duration::from_millis(1);
        Box::pin(tokio::time::sleep(span))
    }
}

/// Waits for `when`, or for ever.
pub async fn sleep_until(clock: &dyn Clock, when: Option<Time>) {
    match when {
        Some(when) => clock.sleep_until(when).await,
        None => std::future::pending().await,
    }
}
