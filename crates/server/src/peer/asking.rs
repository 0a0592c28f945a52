//! What we ask of the client.

use super::Peer;
use crate::{
    ask::{AskError, Question},
    route::{Route, lock},
    voice::Log,
    wire::{self, Transition},
};
use interlock_proto::{AskId, Refusal, RequestId, connection::Input, refusal::shortened};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use tokio::sync::oneshot;

impl Peer {
    /// Sends a question of ours to the client, on the stream of the call that asks.
    pub(crate) fn ask(
        &self,
        question: &Question,
        answer: oneshot::Sender<Result<Value, AskError>>,
        route: &Route,
    ) -> Result<AskId, (Refusal, oneshot::Sender<Result<Value, AskError>>)> {
        let now = self.inner.clock.now();
        let mut book = lock(&self.book);
        book.next_ask += 1;
        let ask = AskId(book.next_ask);
        let mut transition = Transition::default();
        match book.step(&self.rules, Input::Ask(ask), now, &mut transition) {
            Ok(_) => {
                book.asks.insert(ask, answer);
                route.insist(|out| wire::request(out, ask, question));
                drop(book);
                transition.trace();
                Ok(ask)
            }
            Err(refusal) => Err((refusal, answer)),
        }
    }

    /// Writes to the client's log, if it takes messages of this level.
    pub(crate) fn tell_log(&self, log: &Log) {
        if log.level >= self.level() {
            self.route.say(|out| wire::log(out, log));
        }
    }

    /// Tells the client that something it was asked to have done elsewhere is done.
    pub(crate) fn tell_visited(&self, id: &str) {
        self.route.say(|out| wire::visited(out, id));
    }

    /// Nobody waits for the answer to that question any more.
    pub(crate) fn withdraw(&self, ask: AskId, route: &Route) {
        let now = self.inner.clock.now();
        let mut book = lock(&self.book);
        if book.asks.remove(&ask).is_none() {
            return;
        }
        // For the machine, the question is answered: a late answer is a stray one.
        let mut transition = Transition::default();
        let input = Input::Response(Some(ask));
        let stepped = book.step(&self.rules, input, now, &mut transition);
        let id = i64::try_from(ask.0).unwrap_or(i64::MAX).into();
        route.say(|out| wire::cancelled(out, &id, "nobody waits for the answer any more"));
        drop(book);
        if stepped.is_ok() {
            transition.trace();
        }
    }
}

/// Our own ids are numbers.
pub(super) fn ask_id(id: Option<&RequestId>) -> Option<AskId> {
    match id {
        Some(RequestId::Number(number)) => u64::try_from(*number).ok().map(AskId),
        Some(RequestId::Text(_)) | None => None,
    }
}

/// What a client answered, read.
pub(super) fn answered(outcome: Result<&RawValue, &RawValue>) -> Result<Value, AskError> {
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
            Err(_) => AskError::Invalid("the error is none".to_owned()),
        }),
    }
}
