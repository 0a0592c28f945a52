//! What is asked and answered on a control socket: one line of JSON each.

use interlock::{Operator, OperatorError, workflow::Outcome};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// How long a request may be, in bytes.
pub(super) const MOST_REQUEST: usize = 64 * 1024;

/// How long an answer may be, in bytes.
pub(super) const MOST_ANSWER: usize = 16 * 1024 * 1024;

/// How many instances one answer tells of.
pub(super) const PAGE: usize = 10;

/// Larger arguments of a call are told by their beginning, in bytes of JSON.
const MOST_ARGUMENTS: usize = 16 * 1024;

/// How much of them is told then, in characters.
const BEGINNING: usize = 1_000;

/// What an operator wants.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub(crate) enum Request {
    /// The instances that wait for an operator, behind this one.
    Pending {
        #[serde(default)]
        after: Option<String>,
    },
    /// A call may run.
    Approve {
        approval: String,
        #[serde(flatten)]
        decision: Decision,
    },
    /// A call may not run.
    Deny {
        approval: String,
        #[serde(flatten)]
        decision: Decision,
    },
    /// How a call ended of which nobody knew what it did.
    Settle {
        outcome: Outcome,
        #[serde(flatten)]
        decision: Decision,
    },
    /// An instance begins anew.
    Reset {
        #[serde(flatten)]
        decision: Decision,
    },
}

/// About which instance somebody decides, who, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Decision {
    pub(crate) instance: String,
    /// Nothing is the user who has connected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) by: Option<String>,
    #[serde(default)]
    pub(crate) reason: String,
}

/// What came of a request: something, or why not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answer {
    Ok(Value),
    Error(String),
}

/// Answers one line. `peer` decides unless the request says who does.
pub(super) async fn answer(operator: &Operator, peer: &str, line: &[u8]) -> Answer {
    let request = match serde_json::from_slice(line) {
        Ok(request) => request,
        Err(error) => return Answer::Error(format!("the request is not understood: {error}")),
    };
    match perform(operator.clone(), peer, request).await {
        Ok(done) => Answer::Ok(done),
        Err(error) => Answer::Error(error.to_string()),
    }
}

async fn perform(operator: Operator, peer: &str, request: Request) -> Result<Value, OperatorError> {
    let by = |decision: &Decision| {
        let who = decision.by.clone().unwrap_or_else(|| peer.to_owned());
        operator.clone().by(who)
    };
    let summary = match request {
        Request::Pending { after } => {
            let waiting = operator.waiting(after.as_deref(), PAGE).await?;
            return Ok(waiting.iter().map(told).collect());
        }
        Request::Approve { approval, decision } => {
            let Decision {
                instance, reason, ..
            } = &decision;
            by(&decision).approve(instance, &approval, reason).await?
        }
        Request::Deny { approval, decision } => {
            let Decision {
                instance, reason, ..
            } = &decision;
            by(&decision).deny(instance, &approval, reason).await?
        }
        Request::Settle { outcome, decision } => {
            let Decision {
                instance, reason, ..
            } = &decision;
            by(&decision).settle(instance, outcome, reason).await?
        }
        Request::Reset { decision } => {
            let Decision {
                instance, reason, ..
            } = &decision;
            by(&decision).reset(instance, reason).await?
        }
    };
    Ok(told(&summary))
}

/// An instance as JSON, without arguments that nobody would read to their end.
fn told(summary: &interlock::Summary) -> Value {
    let mut told = serde_json::to_value(summary).unwrap_or_else(|error| {
        // Nothing in it has keys that are no text.
        json!({ "id": summary.id, "unreadable": error.to_string() })
    });
    let held = told.pointer_mut("/held/args").into_iter();
    held.for_each(shorten);
    let asked = told["approvals"].as_array_mut().into_iter().flatten();
    asked
        .filter_map(|one| one.get_mut("args"))
        .for_each(shorten);
    told
}

fn shorten(arguments: &mut Value) {
    let text = arguments.to_string();
    if text.len() > MOST_ARGUMENTS {
        let beginning: String = text.chars().take(BEGINNING).collect();
        *arguments = format!("{beginning}… ({} bytes)", text.len()).into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_one_line_of_json() {
        let decision = Decision {
            instance: "i".to_owned(),
            by: None,
            reason: "known".to_owned(),
        };
        for (request, line) in [
            (
                Request::Pending { after: None },
                r#"{"do":"pending","after":null}"#,
            ),
            (
                Request::Settle {
                    outcome: Outcome::Success,
                    decision,
                },
                r#"{"do":"settle","outcome":"success","instance":"i","reason":"known"}"#,
            ),
        ] {
            assert_eq!(serde_json::to_string(&request).unwrap(), line);
            assert_eq!(serde_json::from_str::<Request>(line).unwrap(), request);
        }
        for line in [
            "{}",
            "[]",
            r#"{"do":"drop"}"#,
            r#"{"do":"settle","outcome":"maybe"}"#,
        ] {
            assert!(serde_json::from_str::<Request>(line).is_err(), "{line}");
        }
    }

    #[tokio::test]
    async fn what_is_not_understood_is_answered() {
        let operator = Operator::without_workflow();
        for line in [&b"nonsense"[..], b"\xff", b"{\"do\":\"pending\"", b""] {
            let Answer::Error(why) = answer(&operator, "ann", line).await else {
                panic!("{line:?}");
            };
            assert!(why.starts_with("the request is not understood"), "{why}");
        }
        let answered = answer(&operator, "ann", br#"{"do":"pending"}"#).await;
        let why = Answer::Error("the server has no workflow".to_owned());
        assert_eq!(answered, why);
    }

    #[test]
    fn large_arguments_are_told_by_their_beginning() {
        let mut small = json!({"a": 1});
        shorten(&mut small);
        assert_eq!(small, json!({"a": 1}));
        let mut large = json!({"a": "x".repeat(MOST_ARGUMENTS)});
        let bytes = large.to_string().len();
        shorten(&mut large);
        let text = large.as_str().unwrap();
        assert!(text.starts_with(r#"{"a":"xxx"#), "{text}");
        assert!(text.ends_with(&format!("xxx… ({bytes} bytes)")), "{text}");
        assert!(text.len() < 2 * BEGINNING);
    }
}
