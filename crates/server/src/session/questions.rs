//! The questions that a client has not answered.

use crate::{
    context::client_link::AnswerSender, core::random_start::random_start,
    model::elicitation::AskError, wire::Transition,
};
use interlock_proto::{
    AskId, RequestId, Time,
    elicitation::{self, Elicitation, Input, State, Who},
    refusal::shortened,
};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use std::collections::BTreeMap;

pub(super) struct Questions {
    open: BTreeMap<AskId, OpenQuestion>,
    /// The last id that was used. It begins at random, so that an answer that comes after a crash
    /// is none to another question.
    last_id: u64,
}

impl Default for Questions {
    fn default() -> Self {
        Self {
            open: BTreeMap::new(),
            last_id: random_start(),
        }
    }
}

struct OpenQuestion {
    answer: AnswerSender,
    /// Where the elicitation is, if a person is asked and not a program.
    elicitation: Option<State>,
}

impl Questions {
    pub(super) const fn next_id(&mut self) -> AskId {
        self.last_id += 1;
        AskId(self.last_id)
    }

    pub(super) fn open(&mut self, ask: AskId, answer: AnswerSender, elicitation: Option<State>) {
        let question = OpenQuestion {
            answer,
            elicitation,
        };
        self.open.insert(ask, question);
    }

    /// Closes a question, which has ended so. Dropping the sender tells the call that no answer will
    /// come. The transition is to be traced after the lock is released.
    pub(super) fn close(
        &mut self,
        ask: AskId,
        end: Input,
        now: Time,
    ) -> Option<(AnswerSender, Transition)> {
        let question = self.open.remove(&ask)?;
        let ended = question.elicitation.and_then(|state| {
            let transition = Transition::by::<Elicitation>(&state, &end);
            // It is not asked again, so how long it is remembered does not matter.
            let step = elicitation::step(&elicitation::Rules::default(), &state, end, now).ok()?;
            Some(transition.to::<Elicitation>(&step.state))
        });
        Some((question.answer, ended.unwrap_or_default()))
    }

    /// How a question ends for which nobody waits any more.
    pub(super) fn given_up(&self, ask: AskId, now: Time) -> Input {
        let question = self.open.get(&ask);
        let due = question.and_then(|question| question.elicitation.as_ref()?.wake_at());
        match due.is_some_and(|due| now >= due) {
            true => Input::Tick,
            false => Input::ClientGone,
        }
    }
}

/// What an answer means to the person's question.
pub(super) fn ending(said: &Result<Value, AskError>) -> Input {
    let action = said.as_ref().ok().and_then(|said| said["action"].as_str());
    match action {
        // There is no second answer that it could differ from: the first closes the question.
        Some("accept") => Input::Complete(Who::Asked, elicitation::Answer(0)),
        Some("decline") => Input::Decline(Who::Asked),
        Some(_) | None => Input::Cancel(Who::Asked),
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
