//! Refusals of calls, with what the caller may do instead.

use crate::model::{CallToolResult, ContentBlock, JsonObject, MetaObject};
use interlock_proto::{Code, Refusal, refusal::RefusalData};
use interlock_workflow::{Hop, Kind, Outcome, Position, Reason, Refused, Workflow};
use serde::Serialize;
use serde_json::Value;

/// Where tool results say why they were refused.
const REFUSAL: &str = "dev.interlock/refusal";

/// What happens next to an instance on hold.
const SETTLED: &str = "an operator finds out how that call ended and settles it; the workflow goes \
                       on from there: then look at what is allowed";

/// A refusal of a call, with what the gate knows about it.
#[derive(Clone, Debug)]
pub(crate) struct CallRefusal {
    pub(crate) refusal: Refusal,
    pub(crate) gate: Option<Box<Guidance>>,
}

/// What a refused caller is told so that it can do better.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Guidance {
    state: String,
    allowed: Vec<String>,
    /// The question that waits for an operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    approval: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<Vec<PathStep>>,
}

#[derive(Clone, Debug, Serialize)]
struct PathStep {
    kind: Kind,
    name: String,
    outcome: Outcome,
}

impl From<Refusal> for CallRefusal {
    fn from(refusal: Refusal) -> Self {
        Self {
            refusal,
            gate: None,
        }
    }
}

impl From<Refused<'_>> for CallRefusal {
    fn from(refused: Refused<'_>) -> Self {
        let path = refused.path();
        Self::by_gate(&refused, path)
    }
}

impl CallRefusal {
    /// What the gate refuses, and the path to where it would not.
    pub(crate) fn by_gate(refused: &Refused<'_>, path: Option<Vec<Hop<'_>>>) -> Self {
        let code = match refused.reason() {
            Reason::NotInState => Code::NotInState,
            Reason::Finished => Code::InstanceFinished,
            Reason::Held { .. } => Code::InstanceBusy,
            Reason::TooManyVisits { .. } | Reason::Guard(_) => Code::GuardFailed,
        };
        let kind = refused.wanted().kind;
        let allowed: Vec<_> = refused.allowed(kind).map(str::to_owned).collect();
        let text = refused.advice(path.as_deref());
        let mut refusal = Refusal::new(code).because(text);
        if matches!(refused.reason(), Reason::Held { .. }) {
            refusal = refusal.awaiting(SETTLED);
        }
        Self {
            refusal,
            gate: Some(Box::new(Guidance {
                state: refused.state().to_owned(),
                allowed,
                approval: None,
                path: path.map(|path| path.iter().map(PathStep::from).collect()),
            })),
        }
    }

    /// The gate would admit the call, but it was not approved.
    pub(crate) fn unapproved(
        (workflow, at): (&Workflow, Position),
        kind: Kind,
        (code, text): (Code, String),
        approval: Option<&str>,
    ) -> Self {
        Self {
            refusal: Refusal::new(code).because(text),
            gate: Some(Box::new(Guidance {
                state: workflow.state_name(at.state).to_owned(),
                allowed: workflow.visible(at, kind).map(str::to_owned).collect(),
                approval: approval.map(str::to_owned),
                path: None,
            })),
        }
    }

    /// As the answer to a tool call: a result that the model reads.
    pub(crate) fn into_tool_result(self) -> CallToolResult {
        let text = ContentBlock::text(self.refusal.message().to_owned());
        let mut result = CallToolResult::error(vec![text]);
        let meta = [(REFUSAL.to_owned(), self.data())];
        result.meta = Some(MetaObject(JsonObject::from_iter(meta)));
        result
    }

    /// As the `error` member of an answer to anything else.
    pub(crate) fn into_error(self) -> Value {
        let mut error =
            serde_json::to_value(&self.refusal).expect("it holds only strings and numbers");
        error["data"]["refusal"] = self.data();
        error
    }

    /// The `data.refusal` object, which also stands under [`REFUSAL`].
    fn data(&self) -> Value {
        #[derive(Serialize)]
        struct WithGuidance<'a> {
            #[serde(flatten)]
            facts: RefusalData,
            #[serde(flatten)]
            gate: Option<&'a Guidance>,
        }
        let data = WithGuidance {
            facts: self.refusal.facts(),
            gate: self.gate.as_deref(),
        };
        serde_json::to_value(data).expect("it holds only strings and numbers")
    }
}

impl From<&Hop<'_>> for PathStep {
    fn from(hop: &Hop<'_>) -> Self {
        Self {
            kind: hop.artifact.kind,
            name: hop.artifact.name.clone(),
            outcome: hop.outcome,
        }
    }
}
