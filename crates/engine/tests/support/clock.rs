//! A clock that moves when a test says so. Unit tests, integration tests and examples share it.

use interlock_engine::Clock;
use interlock_proto::Time;
use std::{future::Future, pin::Pin, time::Duration};
use tokio::sync::watch;

/// Moves when a test says so.
#[derive(Debug)]
pub(crate) struct ManualClock(watch::Sender<Time>);

impl ManualClock {
    /// Stands at this time.
    pub(crate) fn at(now: Time) -> Self {
        Self(watch::Sender::new(now))
    }

    /// Lets time pass, and wakes those that wait for it.
    pub(crate) fn advance(&self, span: Duration) {
        self.0.send_modify(|now| *now = *now + span);
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
