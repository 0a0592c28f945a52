//! The server's own tools as they are listed: `workflow_start` and `workflow_status`.

use crate::{
    catalog::handle_argument::{ARGUMENT, property},
    model::{ToolAnnotations, ToolModel},
};
use serde_json::{Value, json};
use std::sync::Arc;

/// A tool of the server itself. Its name is taken wherever handles are in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnTool {
    Start,
    Status,
}

impl OwnTool {
    pub(crate) const ALL: [Self; 2] = [Self::Start, Self::Status];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Start => "workflow_start",
            Self::Status => "workflow_status",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|own| own.name() == name)
    }

    const fn title(self) -> &'static str {
        match self {
            Self::Start => "Start a workflow",
            Self::Status => "Where a workflow stands",
        }
    }

    const fn description(self) -> &'static str {
        match self {
            Self::Start => {
                "Starts a workflow and returns its id. Pass the id as `workflow` with every tool \
                 that asks for it. `next` names what can be called first. Start one for each \
                 piece of work; one that has ended cannot be used again."
            }
            Self::Status => {
                "Tells in which state a workflow is, what can be called next, and whether it has \
                 ended. It changes nothing."
            }
        }
    }

    fn input(self) -> Value {
        match self {
            Self::Start => json!({ "type": "object", "properties": {} }),
            Self::Status => json!({
                "type": "object",
                "properties": { ARGUMENT: property() },
                "required": [ARGUMENT],
            }),
        }
    }

    fn output(self) -> Value {
        let mut properties = json!({
            ARGUMENT: { "type": "string" },
            "state": { "type": "string" },
            "next": { "type": "array", "items": { "type": "string" } },
            "instructions": { "type": "string" },
        });
        let mut required = vec![ARGUMENT, "state", "next"];
        if self == Self::Status {
            properties["finished"] = json!({ "type": "boolean" });
            required.push("finished");
        }
        json!({ "type": "object", "properties": properties, "required": required })
    }

    pub(crate) fn model(self) -> ToolModel {
        let object = |value: Value| Arc::new(value.as_object().cloned().unwrap_or_default());
        let mut model = ToolModel::new(self.name(), self.description(), object(self.input()));
        model.title = Some(self.title().to_owned());
        model.output_schema = Some(object(self.output()));
        let annotations = ToolAnnotations::new()
            .read_only(self == Self::Status)
            .destructive(false)
            .idempotent(self == Self::Status)
            .open_world(false);
        model.annotations = Some(annotations);
        model
    }
}
