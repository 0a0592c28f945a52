//! The `_meta` that the server adds to results.

use crate::{
    model::{Implementation, JsonObject},
    wire::workflow_meta::{SessionInstance, WORKFLOW, WorkflowMeta},
};
use interlock_proto::{Version, era::Era};
use interlock_workflow::StateId;
use serde_json::{Value, json};
use std::sync::Arc;

/// Where a stateless result names the server that answers.
pub(crate) const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

/// What the server adds to the result of a call.
pub(crate) struct ResultMeta<'a> {
    pub(crate) version: Version,
    /// The call's instance, if it has one.
    pub(crate) workflow: Option<WorkflowMeta<'a>>,
    /// Who answers.
    pub(crate) server: &'a Implementation,
    /// The same, encoded once for all results.
    pub(crate) server_meta: &'a EncodedMeta,
}

impl ResultMeta<'_> {
    /// The `_meta` of a result that has none of its own.
    pub(crate) fn object(&self) -> JsonObject {
        let mut meta = JsonObject::new();
        self.merge_into(&mut meta);
        meta
    }

    /// As [`object`](Self::object), encoded; none if it is empty.
    pub(super) fn encoded(&self) -> Option<EncodedMeta> {
        match (self.version.era(), &self.workflow) {
            (Era::Handshake, None) => None,
            (Era::Stateless, None) => Some(self.server_meta.clone()),
            (Era::Handshake, Some(workflow)) => Some(workflow.encoded()),
            (Era::Stateless, Some(_)) => Some(EncodedMeta::new(&self.object().into())),
        }
    }

    pub(super) fn merge_into(&self, meta: &mut JsonObject) {
        if self.version.era() == Era::Stateless
            && let Ok(server) = serde_json::to_value(self.server)
        {
            meta.insert(SERVER_INFO.to_owned(), server);
        }
        if let Some(workflow) = &self.workflow {
            meta.insert(WORKFLOW.to_owned(), workflow.value());
        }
    }
}

/// The `_meta` member of a result, encoded as far as it is known.
#[derive(Clone, Debug)]
pub(crate) enum EncodedMeta {
    /// The whole member.
    Text(Arc<str>),
    /// That the session's instance is in this state, and nothing else. The session adds which
    /// instance that is.
    SessionState(StateId),
}

impl EncodedMeta {
    pub(crate) fn of_server(server: &Implementation) -> Self {
        Self::new(&json!({ SERVER_INFO: server }))
    }

    pub(super) fn new(meta: &Value) -> Self {
        Self::Text(format!("\"_meta\":{meta}").into())
    }

    /// Adds it to the object at the end of `out`.
    pub(super) fn append_to(&self, out: &mut Vec<u8>, session: Option<SessionInstance<'_>>) {
        let parts = match (self, session) {
            (Self::Text(text), _) => [text, "", ""],
            (Self::SessionState(state), Some(session)) => session.meta_in(*state),
            // A result about the session's state is only ever encoded by that session.
            (Self::SessionState(_), None) => return,
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
