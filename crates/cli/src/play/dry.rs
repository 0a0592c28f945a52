//! Tools that do nothing and end as they are told.

use super::prompt::Keyboard;
use interlock::{Clock, Failure, Time, Tool, workflow::file::CommandTool};
use std::{
    future::pending,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::sync::watch;

/// How a call is to end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Outcome {
    #[default]
    Success,
    Error,
    Timeout,
}

impl Outcome {
    pub(crate) const ALL: [Self; 3] = [Self::Success, Self::Error, Self::Timeout];

    /// The outcome by its name, or by the beginning of it.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|outcome| !name.is_empty() && outcome.name().starts_with(name))
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Error => "error",
            Self::Timeout => "timeout",
        }
    }
}

/// Stands in for commands.
#[derive(Clone)]
pub(crate) struct Dry {
    next: Next,
    clock: Arc<Standstill>,
}

/// Who says how the next call ends.
#[derive(Clone)]
enum Next {
    Scripted(Arc<Mutex<Outcome>>),
    Asked(Keyboard),
}

impl Dry {
    pub(crate) fn scripted() -> Self {
        Self {
            next: Next::Scripted(Arc::default()),
            clock: Arc::default(),
        }
    }

    pub(crate) fn asking(keyboard: Keyboard) -> Self {
        Self {
            next: Next::Asked(keyboard),
            clock: Arc::default(),
        }
    }

    /// How the next call is to end; the ones after it succeed.
    pub(crate) fn expect(&self, outcome: Outcome) {
        match &self.next {
            Next::Scripted(next) => *next.lock().unwrap_or_else(PoisonError::into_inner) = outcome,
            Next::Asked(_) => {}
        }
    }

    /// Time that stands still, since nobody is to be late for thinking.
    pub(crate) fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.clock) as Arc<dyn Clock>
    }

    /// The file's tool, without what it does.
    pub(crate) fn tool(&self, tool: &CommandTool) -> Tool {
        let dry = self.clone();
        let name: Arc<str> = tool.name.as_str().into();
        interlock_gateway::described(tool, move |_, _| {
            let (dry, name) = (dry.clone(), Arc::clone(&name));
            async move {
                match dry.outcome(&name).await {
                    Outcome::Success => Ok("(dry) success"),
                    Outcome::Error => Err(Failure::new("(dry) error")),
                    Outcome::Timeout => {
                        dry.clock.pass_every_deadline();
                        pending().await
                    }
                }
            }
        })
    }

    async fn outcome(&self, tool: &str) -> Outcome {
        match &self.next {
            Next::Scripted(next) => {
                std::mem::take(&mut *next.lock().unwrap_or_else(PoisonError::into_inner))
            }
            Next::Asked(keyboard) => loop {
                let question =
                    format!("{tool} would run; it ends in success, error or timeout [success]: ");
                match keyboard.ask(&question).await.as_deref().map(str::trim) {
                    None => return Outcome::Error,
                    Some("") => return Outcome::Success,
                    Some(name) => {
                        if let Some(outcome) = Outcome::named(name) {
                            return outcome;
                        }
                    }
                }
            },
        }
    }
}

/// A clock that stands still until it is made to leap.
struct Standstill(watch::Sender<Time>);

impl Default for Standstill {
    fn default() -> Self {
        Self(watch::Sender::new(Time(0)))
    }
}

impl Standstill {
    /// No deadline in a file is longer than a year.
    fn pass_every_deadline(&self) {
        let leap = Duration::from_secs(2 * 365 * 24 * 60 * 60);
        self.0.send_modify(|now| *now = *now + leap);
    }
}

impl Clock for Standstill {
    fn now(&self) -> Time {
        *self.0.borrow()
    }

    fn sleep_until(&self, when: Time) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let mut now = self.0.subscribe();
        Box::pin(async move {
            if now.wait_for(|now| *now >= when).await.is_err() {
                pending::<()>().await;
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_is_known_by_its_beginning() {
        for outcome in Outcome::ALL {
            assert_eq!(Outcome::named(outcome.name()), Some(outcome));
        }
        assert_eq!(Outcome::named("t"), Some(Outcome::Timeout));
        assert_eq!(Outcome::named(""), None);
        assert_eq!(Outcome::named("successful"), None);
    }
}
