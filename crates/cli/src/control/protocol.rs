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
    /// The outcome of a call that is on hold.
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

/// The instance that is decided about, the operator, and the reason.
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
            return Ok(json!(waiting));
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
    Ok(json!(summary))
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
}
