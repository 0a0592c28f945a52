//! Why a handler failed.

use crate::model::elicitation::AskError;
use interlock_proto::{Refusal, RpcCode};
use serde_json::{Value, json};
use std::{any::Any, fmt};

/// Why a handler failed.
///
/// Every error turns into one by `?`; its message is told to the model.
#[derive(Clone, Debug)]
pub struct Failure(Box<Inside>);

/// Boxed, to keep the results of handlers small.
#[derive(Clone, Debug)]
struct Inside {
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
    fn made(message: String, why: Why) -> Self {
        Self(Box::new(Inside { message, why }))
    }

    /// It failed for the reason given.
    pub fn new(message: impl Into<String>) -> Self {
        Self::made(message.into(), Why::Failed)
    }

    /// It stopped because the client took the call back, and has undone or not done its work.
    #[must_use]
    pub fn stopped() -> Self {
        Self::made("stopped".to_owned(), Why::Stopped)
    }

    /// It could not go on for a reason that has a code. The client is told the code, too.
    #[must_use]
    pub fn refused(refusal: Refusal) -> Self {
        Self::made(refusal.message().to_owned(), Why::Refused(refusal))
    }

    /// It failed with an error of the protocol's, which the client is to see as it is.
    pub(crate) fn rpc(code: RpcCode, message: impl Into<String>, data: Option<Value>) -> Self {
        Self::made(message.into(), Why::Rpc(code, data))
    }

    /// The code and the whole of the protocol's error, if it is one.
    pub(crate) fn rpc_error(&self) -> Option<(RpcCode, Value)> {
        match &self.0.why {
            Why::Rpc(code, data) => {
                let mut error = json!({ "code": code.0, "message": self.0.message });
                if let Some(data) = data {
                    error["data"] = data.clone();
                }
                Some((*code, error))
            }
            Why::Failed | Why::Stopped | Why::Refused(_) => None,
        }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        matches!(self.0.why, Why::Stopped)
    }

    pub(crate) fn refusal(&self) -> Option<&Refusal> {
        match &self.0.why {
            Why::Refused(refusal) => Some(refusal),
            Why::Failed | Why::Stopped | Why::Rpc(..) => None,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
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
