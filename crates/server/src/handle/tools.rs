//! The server's own tools: one begins a workflow, the other tells where it stands.

use super::{ARGUMENT, missing, schema::property};
use crate::{
    call::{Purpose, Start},
    context::{Belongs, Context},
    convert::{self, No},
    failure::Failure,
    handler::{Prepared, Reply},
    instance::Instance,
    methods::Plan,
    model::{CallToolResult, ContentBlock, JsonObject, ToolAnnotations, ToolModel},
    principal::Principal,
    round::Round,
    server::Inner,
};
use interlock_proto::Version;
use interlock_workflow::{Kind, Workflow};
use serde_json::{Value, json};
use std::sync::Arc;

/// A tool of our own. Its name is taken wherever handles are in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnTool {
    Start,
    Status,
}

impl OwnTool {
    const ALL: [Self; 2] = [Self::Start, Self::Status];

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

    fn model(self) -> ToolModel {
        let object = |value: Value| match value {
            Value::Object(object) => Arc::new(object),
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_) => Arc::default(),
        };
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

/// Our own tools, as they are listed.
pub(crate) fn models() -> [ToolModel; 2] {
    OwnTool::ALL.map(OwnTool::model)
}

impl Inner {
    /// Calls a tool of our own.
    pub(crate) fn call_own(
        &self,
        own: OwnTool,
        version: Version,
        mut arguments: JsonObject,
    ) -> Plan {
        let handler = match (own, arguments.shift_remove(ARGUMENT)) {
            (OwnTool::Start, _) => Prepared::new(start),
            (OwnTool::Status, Some(Value::String(id))) => {
                Prepared::new(|context| async move { status(context, &id).await })
            }
            (OwnTool::Status, _) => {
                let stamp = self.stamp(version, None);
                let refused = convert::refused(Kind::Tool, missing(own.name()), stamp);
                return Plan::Answer(refused);
            }
        };
        let start = Start {
            purpose: Purpose::Use,
            kind: Kind::Tool,
            name: own.name().into(),
            timeout: None,
            places: None,
            handler: Some(handler),
            made: None,
            bound: None,
            belongs: Belongs::ToNone,
            sought: None,
        };
        Plan::Call(start, Round::default())
    }
}

async fn start(context: Context) -> Result<Reply, Failure> {
    let inner = context.inner();
    let instance = inner.start_handle(context.principal()).await;
    let instance = instance.map_err(refused)?;
    Ok(told(&context, &instance, OwnTool::Start))
}

async fn status(context: Context, id: &str) -> Result<Reply, Failure> {
    let inner = context.inner();
    let instance = inner.find_handle(id, context.principal()).await;
    let instance = instance.map_err(refused)?;
    Ok(told(&context, &instance, OwnTool::Status))
}

fn refused(no: No) -> Failure {
    Failure::refused(no.refusal)
}

/// Where the workflow stands, as a structure and as text.
fn told(context: &Context, instance: &Arc<Instance>, own: OwnTool) -> Reply {
    let mut said = json!({ ARGUMENT: &**instance.id() });
    if let Some(workflow) = &context.inner().workflow {
        describe(&mut said, workflow, instance, context.principal(), own);
        context.found(Arc::clone(instance));
    }
    let text = ContentBlock::text(said.to_string());
    let mut result = CallToolResult::success(vec![text]);
    result.structured_content = Some(said);
    result.into()
}

fn describe(
    said: &mut Value,
    workflow: &Workflow,
    instance: &Instance,
    principal: &Principal,
    own: OwnTool,
) {
    let run = instance.run();
    let at = run.position();
    let mut place = convert::place(instance.id(), workflow, at);
    for member in ["state", "next"] {
        said[member] = place[member].take();
    }
    if own == OwnTool::Status {
        said["finished"] = at.finished.into();
    }
    let mut told = Vec::new();
    if let Some(text) = workflow.state(at.state).instructions() {
        let principal = principal.facts();
        let facts = workflow.facts(&run, &Value::Null, &principal);
        told.push(text.fill(&facts));
    }
    told.extend(instance.tell_unclear());
    if !told.is_empty() {
        said["instructions"] = told.join("\n").into();
    }
}
