//! The state of an instance, as results tell it.

use crate::wire::result_meta::EncodedMeta;
use interlock_workflow::{Position, StateId, Workflow};
use serde_json::{Value, json};

/// Where results say which instance they moved and what is next.
pub(super) const WORKFLOW: &str = "dev.interlock/workflow";

/// The beginning of the `_meta` of a result, up to the state. A session writes it with every
/// result, so it is encoded once.
#[derive(Debug)]
pub(crate) struct MetaPrefix(String);

impl MetaPrefix {
    pub(crate) fn new(instance: &str) -> Self {
        let quoted = Value::from(instance);
        Self(format!(
            "\"_meta\":{{\"{WORKFLOW}\":{{\"instance\":{quoted},"
        ))
    }
}

/// The instance of a session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionInstance<'a> {
    pub(crate) prefix: &'a MetaPrefix,
    pub(crate) workflow: &'a Workflow,
}

impl<'a> SessionInstance<'a> {
    /// The `_meta` of a result that says that the instance is in this state, in parts.
    pub(super) fn meta_in(self, state: StateId) -> [&'a str; 3] {
        let state = self.workflow.standing(state);
        [&self.prefix.0, state, "}}"]
    }
}

/// The state of an instance, and the instructions of the states that the call has entered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorkflowMeta<'a> {
    pub(crate) instance: &'a str,
    /// Whether it is the instance of the session that is answered.
    pub(crate) is_sessions: bool,
    pub(crate) workflow: &'a Workflow,
    pub(crate) at: Position,
    pub(crate) instructions: &'a [String],
}

impl WorkflowMeta<'_> {
    pub(crate) fn value(&self) -> Value {
        let mut value = position(self.instance, self.workflow, self.at);
        if !self.instructions.is_empty() {
            value["instructions"] = self.instructions.join("\n").into();
        }
        value
    }

    /// The `_meta` of a result that says what [`value`](Self::value) does and nothing else.
    pub(super) fn encoded(&self) -> EncodedMeta {
        if !self.at.is_open() || !self.instructions.is_empty() {
            return EncodedMeta::new(&json!({ WORKFLOW: self.value() }));
        }
        if self.is_sessions {
            return EncodedMeta::SessionState(self.at.state);
        }
        let instance = SessionInstance {
            prefix: &MetaPrefix::new(self.instance),
            workflow: self.workflow,
        };
        EncodedMeta::Text(instance.meta_in(self.at.state).concat().into())
    }
}

/// The state of an instance, and what can be called next.
pub(crate) fn position(instance: &str, workflow: &Workflow, at: Position) -> Value {
    let next: Vec<_> = next(workflow, at).collect();
    json!({
        "instance": instance,
        "state": workflow.state_name(at.state),
        "next": next,
    })
}

/// What can be called in a state because the state binds it.
pub(crate) fn next(workflow: &Workflow, at: Position) -> impl Iterator<Item = &str> {
    let bindings = match at.is_open() {
        true => workflow.bindings(at.state),
        false => &[],
    };
    bindings
        .iter()
        .map(|binding| binding.artifact().name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use interlock_workflow::end;

    #[test]
    fn what_is_written_beforehand_is_what_its_value_says() {
        let flow = Workflow::builder("w")
            .state("a \"b\"", |s| {
                s.initial()
                    .tool("one", |t| t.success(end("a \"b\"")))
                    .prompt("two\n", |t| t.success("a \"b\""))
            })
            .build()
            .unwrap();
        let here = flow.initial();
        let over = Position {
            finished: true,
            ..here
        };
        let both = ["now".to_owned(), "then".to_owned()];
        let prefix = MetaPrefix::new("a \"i\"");
        let blocked = Position {
            blocked: true,
            ..here
        };
        for (at, instructions) in [
            (here, &both[..0]),
            (over, &both[..0]),
            (blocked, &both[..0]),
            (here, &both[..]),
        ] {
            let session = SessionInstance {
                prefix: &prefix,
                workflow: &flow,
            };
            let texts = [("{}", ""), (r#"{"x":1}"#, r#""x":1,"#)];
            let texts = texts
                .into_iter()
                .flat_map(|text| [(text, true), (text, false)]);
            for ((before, after), is_sessions) in texts {
                let meta = WorkflowMeta {
                    instance: "a \"i\"",
                    is_sessions,
                    workflow: &flow,
                    at,
                    instructions,
                };
                let mut written = before.as_bytes().to_vec();
                let session = is_sessions.then_some(session);
                meta.encoded().append_to(&mut written, session);
                let wanted = format!(r#"{{{after}"_meta":{{"{WORKFLOW}":{}}}}}"#, meta.value());
                assert_eq!(String::from_utf8(written).unwrap(), wanted);
            }
        }
    }
}
