//! Multi round-trip requests: the answers a 2026-07-28 client brings back, and the sealed memory
//! of those it brought before.

use crate::{
    approval::{Consent, Sealed},
    ask::Question,
    model::JsonObject,
    principal::Principal,
    sampling::Unfinished,
    seal::{Bound, Broken, MOST_PAYLOAD, Sealer},
    voice::Asking,
};
use interlock_proto::{Code, Refusal, Time, refusal::shortened};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// How many questions one round may hold.
const MOST: usize = 100;

/// The answers so far, and what they are answers to; nothing if its client can answer nothing.
#[derive(Debug, Default)]
pub(crate) struct Round(Option<Box<Known>>);

#[derive(Debug)]
struct Known {
    memory: Memory,
    /// Which request it is, for the seal.
    request: Same,
}

/// What makes a retry the same request.
#[derive(Debug)]
pub(crate) struct Same {
    pub(crate) principal: Principal,
    pub(crate) method: &'static str,
    pub(crate) name: String,
    pub(crate) arguments: Option<JsonObject>,
}

impl Same {
    fn bound(&self) -> Bound<'_> {
        Bound {
            principal: &self.principal,
            method: self.method,
            name: &self.name,
            arguments: self.arguments.as_ref(),
        }
    }
}

/// What the parameters of a retry say.
#[derive(Debug, Default)]
pub(crate) struct Retry {
    pub(crate) input_responses: Option<JsonObject>,
    pub(crate) request_state: Option<String>,
}

/// What is sealed.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Memory {
    answers: JsonObject,
    /// What is left of the request, if it has been served before and only waits for an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unfinished: Option<Box<Unfinished>>,
    /// What was said about a person's yes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    approval: Option<Box<Sealed>>,
}

impl Round {
    /// Joins what the client brings with what was sealed before.
    ///
    /// # Errors
    ///
    /// If the seal is broken, expired, somebody else's or another request's.
    pub(crate) fn open(
        sealer: &Sealer,
        retry: Retry,
        same: Same,
        now: Time,
    ) -> Result<Self, Refusal> {
        let mut memory: Memory = match retry.request_state {
            None => Memory::default(),
            Some(state) => {
                let opened = sealer.open(&state, &same.bound(), now).map_err(broken)?;
                serde_json::from_slice(&opened).map_err(|_| broken(Broken::Forged))?
            }
        };
        let brought = retry.input_responses.unwrap_or_default();
        memory.answers.extend(brought);
        let request = same;
        Ok(Self(Some(Box::new(Known { memory, request }))))
    }

    /// What is left of the request, if it has been served before and only waits for an answer.
    pub(crate) fn unfinished(&self) -> Option<&Unfinished> {
        self.0.as_ref()?.memory.unfinished.as_deref()
    }

    /// The result that asks the client to come back to a request that has been served: it must not
    /// be served again, whatever is asked.
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
        let memory = Memory {
            unfinished: Some(Box::new(unfinished)),
            ..Memory::default()
        };
        sealed(sealer, &known.request, (requests, &memory), expires)
    }

    /// The answer to that question, if the client has brought it.
    pub(crate) fn answer(&self, key: &str) -> Option<Value> {
        self.0.as_ref()?.memory.answers.get(key).cloned()
    }

    /// What a person said about a call of that instance, if the client has brought it.
    pub(crate) fn consent(&self, instance: &str) -> Option<Consent> {
        let Memory {
            answers, approval, ..
        } = &self.0.as_ref()?.memory;
        approval.as_ref()?.consent(instance, answers)
    }

    /// The result that asks the client to come back until `expires`, and what is sealed about a
    /// person's yes. Only answers that the handler has not asked for again are kept.
    pub(crate) fn ask(
        &self,
        sealer: &Sealer,
        questions: &[Asking],
        approval: Option<Sealed>,
        expires: Time,
    ) -> Result<Value, Refusal> {
        let Some(known) = &self.0 else {
            return Err(Refusal::new(Code::InternalError)
                .because("only a call of a tool, a resource or a prompt can ask its client"));
        };
        if questions.len() > MOST {
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
        let answers = known.memory.answers.iter();
        let answers = answers.filter(|(key, _)| !requests.contains_key(*key));
        let memory = Memory {
            answers: answers
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect(),
            approval: approval.map(Box::new),
            unfinished: None,
        };
        sealed(sealer, &known.request, (requests, &memory), expires)
    }
}

/// A question as a result asks it.
fn requested(question: &Question) -> Value {
    let mut request = json!({ "method": question.method });
    if let Some(params) = &question.params {
        request["params"] = params.clone();
    }
    request
}

fn sealed(
    sealer: &Sealer,
    same: &Same,
    (requests, memory): (Map<String, Value>, &Memory),
    expires: Time,
) -> Result<Value, Refusal> {
    let memory = serde_json::to_vec(memory).expect("it is JSON already");
    if memory.len() > MOST_PAYLOAD {
        return Err(Refusal::new(Code::MessageTooLarge)
            .because("what the client would have to carry is too large"));
    }
    // Readers of JSON stop at a depth, and writers do not.
    if serde_json::from_slice::<Memory>(&memory).is_err() {
        return Err(Refusal::new(Code::MessageTooLarge)
            .because("what the client would have to carry nests too deep"));
    }
    let state = sealer.seal(&memory, &same.bound(), expires);
    Ok(json!({
        "resultType": "input_required",
        "inputRequests": requests,
        "requestState": state,
    }))
}

fn broken(broken: Broken) -> Refusal {
    Refusal::new(Code::InvalidParams).because(match broken {
        Broken::Forged => "`requestState` is not the one that was given for this request",
        Broken::Expired => "`requestState` has expired; send the request without it",
    })
}
