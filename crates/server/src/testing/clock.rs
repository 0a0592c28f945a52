//! A clock that moves when a test says so.

use interlock_engine::Clock;
use interlock_proto::Time;
use std::{future::Future, pin::Pin, time::Duration};
use tokio::sync::watch;

/// Moves when a test says so.
#[derive(Debug)]
pub struct ManualClock(watch::Sender<Time>);

impl ManualClock {
    /// Stands at a time that is easy to tell from zero.
    #[must_use]
    pub fn new() -> Self {
        Self(watch::Sender::new(Time(1_000_000)))
    }

    /// Lets time pass, and wakes whoever waited for it.
    pub fn advance(&self, span: Duration) {
        self.0.send_modify(|now| *now = *now + span);
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Time {
        *self.0.borrow()
    }

    fn sleep_until(&self, when: Time) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let mut now = self.0.subscribe();
        Box::pin(async move {
            if now.wait_for(|now| *now >= when).await.is_err() {
                std::future::pending::<()>().await;
            }
        })
    }
}
