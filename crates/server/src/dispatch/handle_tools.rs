//! Runs the server's own tools, `workflow_start` and `workflow_status`.

use crate::{
    api::{HandlerCall, Reply},
    call::{Purpose, Start},
    catalog::{handle_argument::ARGUMENT, own_tools::OwnTool},
    context::{Belongs, Context, multi_round::Round},
    core::{Core, handle_refusals},
    dispatch::Plan,
    model::{CallToolResult, ContentBlock, JsonObject, failure::Failure},
    wire::{refusal::CallRefusal, result, workflow_meta},
};
use interlock_engine::{Engine, Instance, OpenError, Principal, Source, StartError};
use interlock_proto::{Code, Refusal, Version};
use interlock_workflow::Kind;
use serde_json::{Value, json};
use std::sync::Arc;

/// Calls a tool of our own.
pub(crate) fn call_own(
    core: &Arc<Core>,
    own: OwnTool,
    version: Version,
    mut arguments: JsonObject,
) -> Plan {
    let core = Arc::clone(core);
    let handler = match (own, arguments.shift_remove(ARGUMENT)) {
        (OwnTool::Start, _) => {
            HandlerCall::new(|context| async move { start(&core, context).await })
        }
        (OwnTool::Status, Some(Value::String(id))) => {
            HandlerCall::new(|context| async move { status(&core, context, &id).await })
        }
        (OwnTool::Status, _) => {
            let stamp = core.stamp(version, None);
            let refused = result::refused(Kind::Tool, handle_refusals::missing(own.name()), stamp);
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
        input: None,
        binding: None,
        belongs: Belongs::ToNone,
        sought: None,
    };
    Plan::Call(start, Round::default())
}

async fn start(core: &Core, context: Context) -> Result<Reply, Failure> {
    let engine = engine(core)?;
    let started = engine.start(context.principal()).await;
    let instance = started.map_err(|error| refused(not_started(&error)))?;
    Ok(told(&context, &instance, OwnTool::Start))
}

async fn status(core: &Core, context: Context, id: &str) -> Result<Reply, Failure> {
    let engine = engine(core)?;
    let source = Source::Handle(id.to_owned());
    let opened = engine.open(&source, context.principal()).await;
    let instance = opened.map_err(|error| match error {
        OpenError::Engine(error) => refused(handle_refusals::not_looked_up(&error)),
        OpenError::Unknown | OpenError::Unauthenticated | OpenError::NoRandomness(_) => {
            refused(handle_refusals::unknown())
        }
    })?;
    Ok(told(&context, &instance, OwnTool::Status))
}

fn engine(core: &Core) -> Result<&Engine, Failure> {
    let engine = core.engine.as_ref();
    engine.ok_or_else(|| refused(handle_refusals::unknown()))
}

fn not_started(error: &StartError) -> CallRefusal {
    let refusal = match error {
        StartError::TooMany { most, wait } => Refusal::new(Code::QuotaExceeded).because(format!(
            "There are too many workflows that were started and have not ended: {most} are \
             allowed. Go on with one of them, or try again in {} s.",
            wait.as_millis().div_ceil(1_000)
        )),
        StartError::NoRandomness(error) => {
            tracing::error!(%error, "there is no randomness");
            Refusal::new(Code::InternalError)
        }
        StartError::Engine(error) => return handle_refusals::not_looked_up(error),
    };
    refusal.into()
}

fn refused(no: CallRefusal) -> Failure {
    Failure::refused(no.refusal)
}

/// Where the workflow stands, as a structure and as text.
fn told(context: &Context, instance: &Arc<Instance>, own: OwnTool) -> Reply {
    let mut said = json!({ ARGUMENT: &**instance.id() });
    describe(&mut said, instance, context.principal(), own);
    context.found(Arc::clone(instance));
    let text = ContentBlock::text(said.to_string());
    let mut result = CallToolResult::success(vec![text]);
    result.structured_content = Some(said);
    result.into()
}

fn describe(said: &mut Value, instance: &Instance, principal: &Principal, own: OwnTool) {
    let workflow = instance.workflow();
    let run = instance.run();
    let at = run.position();
    let mut place = workflow_meta::position(instance.id(), workflow, at);
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
    told.extend(instance.take_warning());
    if !told.is_empty() {
        said["instructions"] = told.join("\n").into();
    }
}
