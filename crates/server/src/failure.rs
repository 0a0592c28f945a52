//! Why a handler did not do what it was asked.

use std::fmt;

/// Why a handler did not do what it was asked.
///
/// Every error turns into one by `?`; its message is told to the model.
#[derive(Debug)]
pub struct Failure {
    message: String,
    stopped: bool,
}

impl Failure {
    /// It failed for the reason given.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            stopped: false,
        }
    }

    /// It stopped because the client took the call back, and has undone or not done its work.
    #[must_use]
    pub fn stopped() -> Self {
        Self {
            message: "stopped".to_owned(),
            stopped: true,
        }
    }

    pub(crate) const fn is_stopped(&self) -> bool {
        self.stopped
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::new(error.to_string())
    }
}
