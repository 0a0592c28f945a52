//! The questions that a client has not answered.

use crate::{context::client_link::AnswerSender, model::elicitation::AskError};
use interlock_proto::{AskId, RequestId, refusal::shortened};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use std::collections::BTreeMap;

#[derive(Default)]
pub(super) struct Questions {
    open: BTreeMap<AskId, AnswerSender>,
    /// The last id that was used. A stored session keeps it, because ids must not come again.
    pub(super) last_id: u64,
}

impl Questions {
    pub(super) const fn next_id(&mut self) -> AskId {
        self.last_id += 1;
        AskId(self.last_id)
    }

    pub(super) fn open(&mut self, ask: AskId, answer: AnswerSender) {
        self.open.insert(ask, answer);
    }

    /// Closes a question. Dropping the sender tells the call that no answer will come.
    pub(super) fn close(&mut self, ask: AskId) -> Option<AnswerSender> {
        self.open.remove(&ask)
    }
}

/// The question that a response answers. The ids of our questions are numbers.
pub(super) fn ask_id(id: Option<&RequestId>) -> Option<AskId> {
    match id {
        Some(RequestId::Number(number)) => u64::try_from(*number).ok().map(AskId),
        Some(RequestId::Text(_)) | None => None,
    }
}

/// Reads the outcome of a response.
pub(super) fn read_answer(outcome: Result<&RawValue, &RawValue>) -> Result<Value, AskError> {
    #[derive(Deserialize)]
    struct Error {
        code: i64,
        message: String,
    }
    match outcome {
        Ok(result) => serde_json::from_str(result.get())
            .map_err(|error| AskError::Invalid(shortened(&error.to_string()))),
        Err(error) => Err(match serde_json::from_str(error.get()) {
            Ok(Error { code, message }) => AskError::Failed {
                code,
                message: shortened(&message),
            },
            Err(_) => {
                AskError::Invalid("the client's `error` is not a JSON-RPC error object".to_owned())
            }
        }),
    }
}
