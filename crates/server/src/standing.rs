//! Where an instance stands, as results tell it.

use crate::convert::{self, Signature, WORKFLOW};
use interlock_workflow::{Position, StateId, Workflow};
use serde_json::{Value, json};
use std::sync::Arc;

/// The id of an instance, and how results tell it: with every call, so it is written once.
#[derive(Debug)]
pub(crate) struct Named {
    pub(crate) id: Arc<str>,
    /// The beginning of the `_meta` of a result, up to where the instance stands.
    beginning: String,
}

impl Named {
    pub(crate) fn new(id: Arc<str>) -> Self {
        let quoted = Value::from(&*id);
        let beginning = format!("\"_meta\":{{\"{WORKFLOW}\":{{\"instance\":{quoted},");
        Self { id, beginning }
    }
}

/// The instance of a session, for whoever writes what is said in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Home<'a> {
    pub(crate) instance: &'a Named,
    pub(crate) workflow: &'a Workflow,
}

impl<'a> Home<'a> {
    /// The `_meta` of a result that says that it stands there and nothing else, in parts.
    pub(crate) fn says(self, state: StateId) -> [&'a str; 3] {
        let standing = self.workflow.standing(state);
        [&self.instance.beginning, standing, "}}"]
    }
}

/// Where an instance stands, and what the states that it came to tell the model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing<'a> {
    pub(crate) instance: &'a Named,
    /// It is the instance of the session in which this is said.
    pub(crate) is_sessions: bool,
    pub(crate) workflow: &'a Workflow,
    pub(crate) at: Position,
    pub(crate) told: &'a [String],
}

impl Standing<'_> {
    pub(crate) fn value(&self) -> Value {
        let mut place = convert::place(&self.instance.id, self.workflow, self.at);
        if !self.told.is_empty() {
            place["instructions"] = self.told.join("\n").into();
        }
        place
    }

    /// The `_meta` of a result that says what [`value`](Self::value) does and nothing else.
    pub(crate) fn signature(&self) -> Signature {
        if self.at.finished || !self.told.is_empty() {
            return Signature::written(&json!({ WORKFLOW: self.value() }));
        }
        if self.is_sessions {
            return Signature::Standing(self.at.state);
        }
        let home = Home {
            instance: self.instance,
            workflow: self.workflow,
        };
        Signature::Usual(home.says(self.at.state).concat().into())
    }
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
        let told = ["now".to_owned(), "then".to_owned()];
        let named = Named::new("a \"i\"".into());
        for (at, told) in [(here, &told[..0]), (over, &told[..0]), (here, &told[..])] {
            let home = Home {
                instance: &named,
                workflow: &flow,
            };
            let texts = [("{}", ""), (r#"{"x":1}"#, r#""x":1,"#)];
            let texts = texts
                .into_iter()
                .flat_map(|text| [(text, true), (text, false)]);
            for ((before, after), is_sessions) in texts {
                let standing = Standing {
                    instance: &named,
                    is_sessions,
                    workflow: &flow,
                    at,
                    told,
                };
                let mut written = before.as_bytes().to_vec();
                let home = is_sessions.then_some(home);
                standing.signature().sign(&mut written, home);
                let wanted = format!(
                    r#"{{{after}"_meta":{{"{WORKFLOW}":{}}}}}"#,
                    standing.value()
                );
                assert_eq!(String::from_utf8(written).unwrap(), wanted);
            }
        }
    }
}
