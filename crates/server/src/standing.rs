//! Where an instance stands, as results tell it.

use crate::convert;
use interlock_workflow::{Position, Workflow, json};
use serde_json::Value;

/// Where an instance stands, and what the states that it came to tell the model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing<'a> {
    pub(crate) instance: &'a str,
    pub(crate) workflow: &'a Workflow,
    pub(crate) at: Position,
    pub(crate) told: &'a [String],
}

impl Standing<'_> {
    pub(crate) fn value(&self) -> Value {
        let mut place = convert::place(self.instance, self.workflow, self.at);
        if !self.told.is_empty() {
            place["instructions"] = self.told.join("\n").into();
        }
        place
    }

    /// Writes what [`value`](Self::value) says.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        if !self.told.is_empty() {
            return json::value(out, &self.value());
        }
        out.extend_from_slice(b"{\"instance\":");
        json::text(out, self.instance);
        let state = self.workflow.state(self.at.state);
        out.extend_from_slice(b",\"state\":");
        out.extend_from_slice(state.quoted_name());
        out.extend_from_slice(b",\"next\":");
        out.extend_from_slice(match self.at.finished {
            true => b"[]",
            false => state.quoted_next(),
        });
        out.push(b'}');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use interlock_workflow::end;

    #[test]
    fn what_is_written_by_hand_is_what_its_value_says() {
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
        for (at, told) in [(here, &told[..0]), (over, &told[..0]), (here, &told[..])] {
            let standing = Standing {
                instance: "i",
                workflow: &flow,
                at,
                told,
            };
            let mut written = Vec::new();
            standing.write(&mut written);
            assert_eq!(written, standing.value().to_string().into_bytes());
        }
    }
}
