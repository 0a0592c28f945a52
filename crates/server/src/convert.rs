//! From what was decided to what is said on the wire.

use crate::{
    failure::Failure,
    handler::Reply,
    lists::SERVER_INFO,
    model::{CallToolResult, ContentBlock, Implementation, JsonObject, MetaObject},
    standing::{Home, Standing},
};
use interlock_proto::{
    Code, Refusal, RpcCode, Version, era::Era, invocation, refusal::RefusalData,
};
use interlock_workflow::{Hop, Kind, Outcome, Position, Reason, Refused, StateId, Workflow};
use rmcp::model::ResultType;
use serde::Serialize;
use serde_json::{Value, json};
use std::{fmt::Write, sync::Arc};

/// Where results say which instance they moved and what is next.
pub(crate) const WORKFLOW: &str = "dev.interlock/workflow";
/// Where tool results say why they were refused.
pub(crate) const REFUSAL: &str = "dev.interlock/refusal";

/// A no in the middle of a call, with what the gate knows about it.
#[derive(Clone, Debug)]
pub(crate) struct No {
    pub(crate) refusal: Refusal,
    pub(crate) gate: Option<Box<Teaching>>,
}

impl From<Refusal> for No {
    fn from(refusal: Refusal) -> Self {
        Self {
            refusal,
            gate: None,
        }
    }
}

/// What a refused caller is told so that it can do better.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Teaching {
    state: String,
    allowed: Vec<String>,
    /// Which question waits for an operator.
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

impl From<Refused<'_>> for No {
    fn from(refused: Refused<'_>) -> Self {
        let path = refused.path();
        Self::of(&refused, path)
    }
}

impl No {
    /// Why not, and the way to what was wanted.
    pub(crate) fn of(refused: &Refused<'_>, path: Option<Vec<Hop<'_>>>) -> Self {
        let code = match refused.reason() {
            Reason::NotInState => Code::NotInState,
            Reason::Finished => Code::InstanceFinished,
            Reason::Held { .. } => Code::InstanceBusy,
            Reason::TooManyVisits { .. } | Reason::Guard { .. } => Code::GuardFailed,
        };
        let wanted = refused.wanted();
        let allowed: Vec<_> = refused.allowed(wanted.kind).map(str::to_owned).collect();
        let mut text = match refused.reason() {
            Reason::NotInState => format!(
                "{} '{}' is not allowed in state '{}'.",
                title(wanted.kind),
                wanted.name,
                refused.state()
            ),
            Reason::Finished => format!(
                "{} '{}' is not allowed: the workflow has ended in state '{}'.",
                title(wanted.kind),
                wanted.name,
                refused.state()
            ),
            Reason::Held { artifact } => format!(
                "{} '{}' is not allowed: nobody knows what {} '{}' did, and an operator must decide.",
                title(wanted.kind),
                wanted.name,
                artifact.kind,
                artifact.name
            ),
            Reason::TooManyVisits { most } => format!(
                "{} '{}' is not allowed: state '{}' may be visited {}.",
                title(wanted.kind),
                wanted.name,
                refused.state(),
                match most {
                    1 => "once".to_owned(),
                    more => format!("{more} times"),
                }
            ),
            Reason::Guard { guard, failed } => format!(
                "{} '{}' is not allowed with these arguments: {guard} {}.",
                title(wanted.kind),
                wanted.name,
                match failed {
                    None => "is not true".to_owned(),
                    Some(failed) => format!("has no answer: {failed}"),
                }
            ),
        };
        if allowed.is_empty() {
            write!(text, " No {} is allowed now.", wanted.kind)
        } else {
            write!(text, " Allowed now: {}.", allowed.join(", "))
        }
        .expect("writing to a string cannot fail");
        if let Some(path) = &path {
            write!(text, " To get there: {}.", spoken(path))
                .expect("writing to a string cannot fail");
        }
        Self {
            refusal: Refusal::new(code).because(text),
            gate: Some(Box::new(Teaching {
                state: refused.state().to_owned(),
                allowed,
                approval: None,
                path: path.map(|path| path.iter().map(PathStep::from).collect()),
            })),
        }
    }
}

/// Nobody has agreed to a call that the gate would let in.
pub(crate) fn unapproved(
    (workflow, at): (&Workflow, Position),
    kind: Kind,
    (code, text): (Code, String),
    approval: Option<&str>,
) -> No {
    No {
        refusal: Refusal::new(code).because(text),
        gate: Some(Box::new(Teaching {
            state: workflow.state_name(at.state).to_owned(),
            allowed: workflow.visible(at, kind).map(str::to_owned).collect(),
            approval: approval.map(str::to_owned),
            path: None,
        })),
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

fn spoken(path: &[Hop<'_>]) -> String {
    let steps: Vec<_> = path
        .iter()
        .map(|hop| match hop.outcome {
            Outcome::Success => hop.artifact.name.clone(),
            Outcome::Error | Outcome::Timeout | Outcome::Cancelled | Outcome::Unknown => {
                format!("{} (if it ends in {})", hop.artifact.name, hop.outcome)
            }
        })
        .collect();
    steps.join(", then ")
}

const fn title(kind: Kind) -> &'static str {
    match kind {
        Kind::Tool => "Tool",
        Kind::Resource => "Resource",
        Kind::Prompt => "Prompt",
    }
}

/// The `data.refusal` object, and what stands under [`REFUSAL`].
#[derive(Serialize)]
struct Told<'a> {
    #[serde(flatten)]
    facts: RefusalData,
    #[serde(flatten)]
    gate: Option<&'a Teaching>,
}

impl No {
    fn told(&self) -> Value {
        let told = Told {
            facts: self.refusal.facts(),
            gate: self.gate.as_deref(),
        };
        serde_json::to_value(told).expect("it holds only strings and numbers")
    }

    /// As the answer to a tool call: a result that the model reads.
    pub(crate) fn into_tool_result(self) -> CallToolResult {
        let mut result =
            CallToolResult::error(vec![ContentBlock::text(self.refusal.message().to_owned())]);
        result.meta = Some(MetaObject(JsonObject::from_iter([(
            REFUSAL.to_owned(),
            self.told(),
        )])));
        result
    }

    /// As the `error` member of an answer to anything else.
    pub(crate) fn into_error(self) -> Value {
        let mut error =
            serde_json::to_value(&self.refusal).expect("it holds only strings and numbers");
        error["data"]["refusal"] = self.told();
        error
    }
}

/// The answer to a call.
pub(crate) enum Answer {
    /// The `result` member, and what is to be signed.
    Result(Reply, Option<Signature>),
    /// The `result` member of a request whose client has to come back with answers.
    Asks(Value),
    /// The `error` member, and its code.
    Error(RpcCode, Value),
}

/// What every result says besides what it is the result of.
pub(crate) struct Stamp<'a> {
    pub(crate) version: Version,
    /// Where the instance stands, if there is one.
    pub(crate) place: Option<Standing<'a>>,
    /// Who answers.
    pub(crate) server: &'a Implementation,
    pub(crate) signature: &'a Signature,
}

/// The `_meta` of a result that says what the server has to say and nothing else, as it is written.
#[derive(Clone, Debug)]
pub(crate) enum Signature {
    /// This text.
    Usual(Arc<str>),
    /// It says that the session's instance stands there, and nothing else. Whoever writes it knows
    /// which instance that is.
    Standing(StateId),
}

impl Signature {
    pub(crate) fn of(server: &Implementation) -> Self {
        Self::written(&json!({ SERVER_INFO: server }))
    }

    pub(crate) fn written(meta: &Value) -> Self {
        Self::Usual(format!("\"_meta\":{meta}").into())
    }

    /// Adds it to the object that has just been written.
    pub(crate) fn sign(&self, out: &mut Vec<u8>, home: Option<Home<'_>>) {
        let parts = match (self, home) {
            (Self::Usual(text), _) => [text, "", ""],
            (Self::Standing(state), Some(home)) => home.says(*state),
            // Nobody but the session answers what came in it.
            (Self::Standing(_), None) => return,
        };
        let Some(b'}') = out.pop() else {
            return;
        };
        if out.last() != Some(&b'{') {
            out.push(b',');
        }
        for part in parts {
            out.extend_from_slice(part.as_bytes());
        }
        out.push(b'}');
    }
}

impl Stamp<'_> {
    /// Of a result that stands alone, the client learns who made it.
    pub(crate) fn meta(&self) -> JsonObject {
        let mut meta = JsonObject::new();
        self.press(&mut meta);
        meta
    }

    /// What a result says that says nothing of the kind itself.
    fn signature(&self) -> Option<Signature> {
        match (self.version.era(), &self.place) {
            (Era::Handshake, None) => None,
            (Era::Stateless, None) => Some(self.signature.clone()),
            (Era::Handshake, Some(place)) => Some(place.signature()),
            (Era::Stateless, Some(_)) => Some(Signature::written(&self.meta().into())),
        }
    }

    fn press(&self, meta: &mut JsonObject) {
        if self.version.era() == Era::Stateless
            && let Ok(server) = serde_json::to_value(self.server)
        {
            meta.insert(SERVER_INFO.to_owned(), server);
        }
        if let Some(place) = &self.place {
            meta.insert(WORKFLOW.to_owned(), place.value());
        }
    }
}

/// What a call of that kind is answered with when it is refused.
pub(crate) fn refused(kind: Kind, no: No, stamp: Stamp<'_>) -> Answer {
    match kind {
        Kind::Tool => replied(no.into_tool_result().into(), stamp),
        Kind::Resource | Kind::Prompt => error(no),
    }
}

fn error(no: No) -> Answer {
    no.into()
}

impl From<No> for Answer {
    /// As the protocol's own error.
    fn from(no: No) -> Self {
        Self::Error(no.refusal.rpc_code(), no.into_error())
    }
}

/// What a call of that kind is answered with when its handler fails.
pub(crate) fn failed(kind: Kind, failure: &Failure, stamp: Stamp<'_>) -> Answer {
    if let Some(refusal) = failure.refusal() {
        let no = No::from(refusal.clone());
        // The protocol has a code of its own for it, which a client is to see.
        return if refusal.rpc_code() == RpcCode::MISSING_CAPABILITY {
            error(no)
        } else {
            refused(kind, no, stamp)
        };
    }
    if let Some((code, error)) = failure.rpc_error() {
        return Answer::Error(code, error);
    }
    match kind {
        Kind::Tool => {
            let content = vec![ContentBlock::text(failure.to_string())];
            replied(CallToolResult::error(content).into(), stamp)
        }
        Kind::Resource | Kind::Prompt => {
            let refusal = Refusal::new(Code::InternalError).because(failure.to_string());
            error(refusal.into())
        }
    }
}

/// What a call is answered with when its handler has done its work.
pub(crate) fn replied(mut reply: Reply, stamp: Stamp<'_>) -> Answer {
    let era = stamp.version.era();
    let complete = match era {
        Era::Handshake => None,
        Era::Stateless => Some(ResultType::COMPLETE),
    };
    let (result_type, meta) = match &mut reply {
        Reply::Text(text) => {
            text.says_complete = complete.is_some();
            return Answer::Result(reply, stamp.signature());
        }
        Reply::Raw(object) => {
            mark_raw(object, &stamp);
            return Answer::Result(reply, None);
        }
        Reply::Tool(result) => {
            // Only from 2026-07-28 on may structured content be anything but an object.
            if era == Era::Handshake {
                result
                    .structured_content
                    .take_if(|value| !value.is_object());
            }
            (&mut result.result_type, &mut result.meta)
        }
        Reply::Resource(result) => (&mut result.result_type, &mut result.meta),
        Reply::Prompt(result) => (&mut result.result_type, &mut result.meta),
        Reply::Completion(result) => (&mut result.result_type, &mut result.meta),
    };
    *result_type = complete;
    match meta {
        Some(MetaObject(meta)) => {
            stamp.press(meta);
            Answer::Result(reply, None)
        }
        None => Answer::Result(reply, stamp.signature()),
    }
}

fn mark_raw(object: &mut JsonObject, stamp: &Stamp<'_>) {
    match stamp.version.era() {
        Era::Handshake => {
            object.shift_remove("resultType");
            if !object.get("structuredContent").is_none_or(Value::is_object) {
                object.shift_remove("structuredContent");
            }
        }
        Era::Stateless => {
            object.insert("resultType".to_owned(), "complete".into());
        }
    }
    if stamp.version.era() == Era::Stateless || stamp.place.is_some() {
        let meta = object.entry("_meta").or_insert_with(|| json!({}));
        if !meta.is_object() {
            *meta = json!({});
        }
        if let Value::Object(meta) = meta {
            stamp.press(meta);
        }
    }
}

/// What a call came to, as guards see it: what the client is told, but for what we add to it.
pub(crate) fn result(kind: Kind, reply: &Result<Reply, Failure>) -> Option<Value> {
    let value = match (reply, kind) {
        (Ok(reply), _) => serde_json::to_value(reply),
        (Err(failure), Kind::Tool) => {
            let content = vec![ContentBlock::text(failure.to_string())];
            serde_json::to_value(CallToolResult::error(content))
        }
        (Err(_), Kind::Resource | Kind::Prompt) => return None,
    };
    value.ok()
}

/// Where an instance stands, as results tell it.
pub(crate) fn place(instance: &str, workflow: &Workflow, at: Position) -> Value {
    let next: Vec<_> = next(workflow, at).collect();
    json!({
        "instance": instance,
        "state": workflow.state_name(at.state),
        "next": next,
    })
}

/// What can be called there because the state binds it.
pub(crate) fn next(workflow: &Workflow, at: Position) -> impl Iterator<Item = &str> {
    let bindings = match at.finished {
        true => &[],
        false => workflow.bindings(at.state),
    };
    bindings
        .iter()
        .map(|binding| binding.artifact().name.as_str())
}

/// The machine's word for an outcome in the workflow's.
pub(crate) const fn outcome(outcome: invocation::Outcome) -> Outcome {
    match outcome {
        invocation::Outcome::Success => Outcome::Success,
        invocation::Outcome::Error => Outcome::Error,
        invocation::Outcome::Timeout => Outcome::Timeout,
        invocation::Outcome::Cancelled => Outcome::Cancelled,
        invocation::Outcome::Unknown => Outcome::Unknown,
    }
}
