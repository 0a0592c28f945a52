//! The answers to calls, from what their handlers returned.

use crate::{
    model::{CallToolResult, ContentBlock, JsonObject, MetaObject, failure::Failure, reply::Reply},
    wire::{
        refusal::CallRefusal,
        result_meta::{EncodedMeta, ResultMeta},
        workflow_meta::WORKFLOW,
    },
};
use interlock_proto::{RpcCode, era::Era, invocation};
use interlock_workflow::{Kind, Outcome};
use rmcp::model::ResultType;
use serde_json::{Value, json};

/// The answer to a call.
pub(crate) enum Answer {
    /// The `result` member, and the `_meta` to add to it.
    Result(Reply, Option<EncodedMeta>),
    /// The `result` member of a request whose client has to come back with answers.
    Asks(Value),
    /// The `error` member, and its code.
    Error(RpcCode, Value),
}

impl From<CallRefusal> for Answer {
    /// As a JSON-RPC error.
    fn from(refusal: CallRefusal) -> Self {
        Self::Error(refusal.refusal.rpc_code(), refusal.into_error())
    }
}

/// The answer to a call that is refused: only the model of a tool call reads it as a result. Both
/// say where the instance stands.
pub(crate) fn refused(kind: Kind, refusal: CallRefusal, meta: ResultMeta<'_>) -> Answer {
    match kind {
        Kind::Tool => replied(refusal.into_tool_result().into(), meta),
        Kind::Resource | Kind::Prompt => {
            errored(refusal.refusal.rpc_code(), refusal.into_error(), &meta)
        }
    }
}

/// The answer to a call that ends in this error, with where its instance stands among the `data`.
pub(crate) fn errored(code: RpcCode, mut error: Value, meta: &ResultMeta<'_>) -> Answer {
    if let (Some(workflow), Value::Object(error)) = (&meta.workflow, &mut error) {
        let data = error.entry("data").or_insert_with(|| json!({}));
        // What a mounted handler says in another form is passed on as it is.
        if let Value::Object(data) = data {
            data.insert(WORKFLOW.to_owned(), workflow.value());
        }
    }
    Answer::Error(code, error)
}

/// The answer to a call whose handler has failed. That is no refusal: the call has ended in its
/// `error` outcome, which may have moved the instance.
pub(crate) fn failed(kind: Kind, failure: &Failure, meta: ResultMeta<'_>) -> Answer {
    if let Some(refusal) = failure.refusal() {
        let refusal = CallRefusal::from(refusal.clone());
        // The client is to see this code, which the protocol has for the purpose.
        return if refusal.refusal.rpc_code() == RpcCode::MISSING_CAPABILITY {
            refusal.into()
        } else {
            refused(kind, refusal, meta)
        };
    }
    if let Some((code, error)) = failure.rpc_error() {
        return errored(code, error, &meta);
    }
    match kind {
        Kind::Tool => {
            let content = vec![ContentBlock::text(failure.to_string())];
            replied(CallToolResult::error(content).into(), meta)
        }
        Kind::Resource | Kind::Prompt => {
            let code = RpcCode::INTERNAL_ERROR;
            let error = json!({ "code": code.0, "message": failure.to_string() });
            errored(code, error, &meta)
        }
    }
}

/// The answer to a call whose handler has returned this.
pub(crate) fn replied(mut reply: Reply, server_meta: ResultMeta<'_>) -> Answer {
    let era = server_meta.version.era();
    let complete = match era {
        Era::Handshake => None,
        Era::Stateless => Some(ResultType::COMPLETE),
    };
    let (result_type, meta) = match &mut reply {
        Reply::Text(text) => {
            text.says_complete = complete.is_some();
            return Answer::Result(reply, server_meta.encoded());
        }
        Reply::Raw(object) => {
            add_meta(object, &server_meta);
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
            server_meta.merge_into(meta);
            Answer::Result(reply, None)
        }
        None => Answer::Result(reply, server_meta.encoded()),
    }
}

/// As [`replied`] does, to a result that was not read into a type.
fn add_meta(object: &mut JsonObject, server_meta: &ResultMeta<'_>) {
    let era = server_meta.version.era();
    match era {
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
    if era == Era::Stateless || server_meta.workflow.is_some() {
        let meta = object.entry("_meta").or_insert_with(|| json!({}));
        if !meta.is_object() {
            *meta = json!({});
        }
        if let Value::Object(meta) = meta {
            server_meta.merge_into(meta);
        }
    }
}

/// The result of a call as guards see it: as the client does, without what the server adds.
pub(crate) fn guard_value(kind: Kind, reply: &Result<Reply, Failure>) -> Option<Value> {
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

/// The outcome that the invocation machine reports, for the workflow.
pub(crate) const fn workflow_outcome(outcome: invocation::Outcome) -> Outcome {
    match outcome {
        invocation::Outcome::Success => Outcome::Success,
        invocation::Outcome::Error => Outcome::Error,
        invocation::Outcome::Timeout => Outcome::Timeout,
        invocation::Outcome::Cancelled => Outcome::Cancelled,
        invocation::Outcome::Unknown => Outcome::Unknown,
    }
}
