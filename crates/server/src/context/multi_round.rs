//! Multi round-trip requests: the answers that a 2026-07-28 client brings back, and the sealed
//! answers of the rounds before.

use crate::{
    context::{
        channel::PendingQuestion,
        request_state::{MOST_PAYLOAD, RequestDigest, SealError, Sealer},
    },
    model::{JsonObject, elicitation::Question},
};
use interlock_engine::{Principal, request_digest};
use interlock_proto::{Code, Refusal, Time, refusal::shortened};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// How many questions one round may hold.
const MOST_QUESTIONS: usize = 100;

/// The answers of a request so far. Empty for a request that cannot ask its client.
#[derive(Debug, Default)]
pub(crate) struct Round(Option<Box<OpenRound>>);

#[derive(Debug)]
struct OpenRound {
    state: SealedState,
    /// The request that the seal is for.
    request: RequestIdentity,
}

/// What makes a retry the same request.
#[derive(Debug)]
pub(crate) struct RequestIdentity {
    pub(crate) principal: Principal,
    pub(crate) method: &'static str,
    pub(crate) name: String,
    pub(crate) arguments: Option<JsonObject>,
}

impl RequestIdentity {
    fn digest(&self) -> RequestDigest {
        let arguments = self.arguments.as_ref();
        request_digest(&self.principal, self.method, &self.name, arguments)
    }
}

/// The parameters that a retry adds to a request.
#[derive(Debug, Default)]
pub(crate) struct RetryParams {
    pub(crate) input_responses: Option<JsonObject>,
    pub(crate) request_state: Option<String>,
}

/// What a client carries from one round to the next.
#[derive(Debug, Default, Serialize, Deserialize)]
struct SealedState {
    answers: JsonObject,
    /// The rest of a call whose handler has run, and which waits for one more answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unfinished: Option<Box<Unfinished>>,
    /// An approval that a person is asked for, or has given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    approval: Option<Box<SealedApproval>>,
}

/// The key under which a client that has to come back is asked for a person's yes.
pub(crate) const APPROVAL: &str = "dev.interlock/approval";

/// An approval that a person is asked for, or has given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SealedApproval {
    pub(crate) instance: String,
    pub(crate) edition: u64,
    pub(crate) until: u64,
    /// A person has agreed.
    pub(crate) agreed: bool,
}

/// The rest of a call whose step is committed, and whose client comes back with the answer of its
/// model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Unfinished {
    /// The instance that waits.
    pub(crate) instance: String,
    /// What it waits for. The instance takes it once.
    pub(crate) ticket: String,
    /// How many questions the call has asked, with this one.
    pub(crate) asked: usize,
    /// The instructions of the states on the way.
    pub(crate) told: Vec<String>,
    /// A warning about an earlier call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) warning: Option<String>,
    /// The answer in the end.
    pub(crate) said: FinalAnswer,
}

/// The answer of a call, without what is added to every answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FinalAnswer {
    Result(Value),
    /// Its code, and the error object.
    Error(i32, Value),
}

impl Round {
    /// Joins the answers that the client brings with those that were sealed before.
    ///
    /// # Errors
    ///
    /// If the seal is forged, has expired, or is for another request.
    pub(crate) fn open(
        sealer: &Sealer,
        retry: RetryParams,
        request: RequestIdentity,
        now: Time,
    ) -> Result<Self, Refusal> {
        let mut state: SealedState = match retry.request_state {
            None => SealedState::default(),
            Some(sealed) => {
                let opened = sealer.open(&sealed, &request.digest(), now);
                let opened = opened.map_err(not_opened)?;
                serde_json::from_slice(&opened).map_err(|_| not_opened(SealError::Forged))?
            }
        };
        state
            .answers
            .extend(retry.input_responses.unwrap_or_default());
        Ok(Self(Some(Box::new(OpenRound { state, request }))))
    }

    /// The rest of a call whose handler has run, and which waits for one more answer.
    pub(crate) fn unfinished(&self) -> Option<&Unfinished> {
        self.0.as_ref()?.state.unfinished.as_deref()
    }

    /// The result that asks the client to come back to a call whose handler has run and must not
    /// run again.
    pub(crate) fn ask_at_the_end(
        &self,
        sealer: &Sealer,
        (key, question): (String, &Question),
        unfinished: Unfinished,
        expires: Time,
    ) -> Result<Value, Refusal> {
        let Some(known) = &self.0 else {
            return Err(Refusal::new(Code::InternalError));
        };
        let requests = Map::from_iter([(key, requested(question))]);
        let state = SealedState {
            unfinished: Some(Box::new(unfinished)),
            ..SealedState::default()
        };
        input_required(sealer, &known.request, (requests, &state), expires)
    }

    /// The answer to that question, if the client has brought it.
    pub(crate) fn answer(&self, key: &str) -> Option<Value> {
        self.0.as_ref()?.state.answers.get(key).cloned()
    }

    /// What was sealed about a person's yes, and the answers that the client has brought.
    pub(crate) fn approval(&self) -> Option<(&SealedApproval, &JsonObject)> {
        let state = &self.0.as_ref()?.state;
        Some((state.approval.as_deref()?, &state.answers))
    }

    /// The result that asks the client to come back until `expires`. Answers that the handler asks
    /// for again are dropped.
    pub(crate) fn ask(
        &self,
        sealer: &Sealer,
        questions: &[PendingQuestion],
        approval: Option<SealedApproval>,
        expires: Time,
    ) -> Result<Value, Refusal> {
        let Some(known) = &self.0 else {
            return Err(Refusal::new(Code::InternalError)
                .because("only a call of a tool, a resource or a prompt can ask its client"));
        };
        if questions.len() > MOST_QUESTIONS {
            return Err(Refusal::new(Code::InternalError)
                .because("the handler asks too many questions at once"));
        }
        let mut requests = Map::new();
        for asking in questions {
            let request = requested(&asking.question);
            if requests.insert(asking.key.clone(), request).is_some() {
                return Err(Refusal::new(Code::InternalError).because(format!(
                    "the handler asks two questions with the key `{}`",
                    shortened(&asking.key)
                )));
            }
        }
        let answers = known.state.answers.iter();
        let answers = answers.filter(|(key, _)| !requests.contains_key(*key));
        let state = SealedState {
            answers: answers
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect(),
            approval: approval.map(Box::new),
            unfinished: None,
        };
        input_required(sealer, &known.request, (requests, &state), expires)
    }
}

/// A question as a member of `inputRequests`.
fn requested(question: &Question) -> Value {
    let mut request = json!({ "method": question.method });
    if let Some(params) = &question.params {
        request["params"] = params.clone();
    }
    request
}

fn input_required(
    sealer: &Sealer,
    request: &RequestIdentity,
    (requests, state): (Map<String, Value>, &SealedState),
    expires: Time,
) -> Result<Value, Refusal> {
    let state = serde_json::to_vec(state).expect("it is JSON already");
    if state.len() > MOST_PAYLOAD {
        return Err(Refusal::new(Code::MessageTooLarge)
            .because("what the client would have to carry is too large"));
    }
    // Writing JSON has no limit of depth, and reading it has one.
    if serde_json::from_slice::<SealedState>(&state).is_err() {
        return Err(Refusal::new(Code::MessageTooLarge)
            .because("what the client would have to carry nests too deep"));
    }
    Ok(json!({
        "resultType": "input_required",
        "inputRequests": requests,
        "requestState": sealer.seal(&state, &request.digest(), expires),
    }))
}

fn not_opened(error: SealError) -> Refusal {
    Refusal::new(Code::InvalidParams).because(match error {
        SealError::Forged => "`requestState` is not the one that was given for this request",
        SealError::Expired => "`requestState` has expired; send the request without it",
    })
}
