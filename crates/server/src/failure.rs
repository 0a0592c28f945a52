//! Why a handler did not do what it was asked.

use crate::ask::AskError;
use interlock_proto::{Refusal, RpcCode};
use serde_json::{Value, json};
use std::{any::Any, fmt};

/// Why a handler did not do what it was asked.
///
/// Every error turns into one by `?`; its message is told to the model.
#[derive(Clone, Debug)]
pub struct Failure {
    message: String,
    why: Why,
}

#[derive(Clone, Debug)]
enum Why {
    /// It failed.
    Failed,
    /// It stopped because the client took the call back.
    Stopped,
    /// It could not go on for a reason that has a code.
    Refused(Refusal),
    /// It failed with an error of the protocol's.
    Rpc(RpcCode, Option<Value>),
}

impl Failure {
    /// It failed for the reason given.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            why: Why::Failed,
        }
    }

    /// It stopped because the client took the call back, and has undone or not done its work.
    #[must_use]
    pub fn stopped() -> Self {
        Self {
            message: "stopped".to_owned(),
            why: Why::Stopped,
        }
    }

    /// It could not go on for a reason that has a code.
    pub(crate) fn refused(refusal: Refusal) -> Self {
        Self {
            message: refusal.message().to_owned(),
            why: Why::Refused(refusal),
        }
    }

    /// It failed with an error of the protocol's, which the client is to see as it is.
    pub(crate) fn rpc(code: RpcCode, message: impl Into<String>, data: Option<Value>) -> Self {
        Self {
            message: message.into(),
            why: Why::Rpc(code, data),
        }
    }

    /// The code and the whole of the protocol's error, if it is one.
    pub(crate) fn rpc_error(&self) -> Option<(RpcCode, Value)> {
        match &self.why {
            Why::Rpc(code, data) => {
                let mut error = json!({ "code": code.0, "message": self.message });
                if let Some(data) = data {
                    error["data"] = data.clone();
                }
                Some((*code, error))
            }
            Why::Failed | Why::Stopped | Why::Refused(_) => None,
        }
    }

    pub(crate) const fn is_stopped(&self) -> bool {
        matches!(self.why, Why::Stopped)
    }

    pub(crate) const fn refusal(&self) -> Option<&Refusal> {
        match &self.why {
            Why::Refused(refusal) => Some(refusal),
            Why::Failed | Why::Stopped | Why::Rpc(..) => None,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl<E: std::error::Error + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        match (&error as &dyn Any).downcast_ref::<AskError>() {
            Some(AskError::NotDeclared(refusal) | AskError::NotNow(refusal)) => {
                Self::refused(refusal.clone())
            }
            Some(AskError::Ended) => Self::stopped(),
            Some(
                AskError::Failed { .. }
                | AskError::Invalid(_)
                | AskError::Late
                | AskError::NotAQuestion(_),
            )
            | None => Self::new(error.to_string()),
        }
    }
}
