//! Calls of tools.

use crate::{
    api as handler,
    api::{Arguments, HandlerCall},
    call::admission::Wanted,
    catalog::{CheckedTool, handle_argument::ARGUMENT, own_tools::OwnTool},
    context::multi_round::Round,
    core::Core,
    dispatch::{
        Limits, Plan, Request,
        handle_tools::call_own,
        params::Call,
        plan_call::{Deciding, deciding_instance, plan_admitted, plan_call, round, uses_handles},
        reading,
    },
    model::JsonObject,
};
use interlock_proto::{Code, Refusal, era, refusal::shortened};
use interlock_workflow::Kind;
use serde_json::Value;
use std::sync::Arc;

pub(super) fn call_tool(core: &Arc<Core>, request: Request<'_>) -> Result<Plan, Refusal> {
    match call_plain(core, request) {
        Some(plan) => Ok(plan),
        None => call_any(core, request),
    }
}

/// The plain call, as most are: its arguments fit the schema as they are written, its instance is
/// known, and no header or answer comes with it. `None` for any other.
fn call_plain(core: &Core, request: Request<'_>) -> Option<Plan> {
    let about = request.params?.about()?;
    let comes_back = about.input_responses.is_some() || about.request_state.is_some();
    if about.is_odd || comes_back || request.can_answer() || uses_handles(core, request.version) {
        return None;
    }
    let name = era::text(about.name?)?;
    let arguments = about.arguments.unwrap_or("{}");
    let tool = request.snapshot.catalog.tool(&name)?;
    if request.headers.is_some() && !tool.headers.is_empty() {
        return None;
    }
    let wanted = wanted(core, tool);
    let instance = match deciding_instance(core, request, &wanted, None) {
        Ok(Deciding::None) => None,
        Ok(Deciding::Instance(instance)) => Some(instance),
        Ok(Deciding::Find(_)) | Err(_) => return None,
    };
    if !tool.schema.accepts_unparsed(arguments) {
        return None;
    }
    let handler = handler_call(tool, Arguments::Written(arguments)).ok()?;
    let prepare = |_: &Core, _, keep: bool| {
        let read = || serde_json::from_str(arguments);
        let kept = keep.then(read).transpose();
        Ok((handler, kept.map_err(|why| wrong(tool, &why.to_string()))?))
    };
    let limits = limits_of(tool);
    Some(plan_admitted(
        core,
        request,
        wanted,
        limits,
        Round::default(),
        instance,
        prepare,
    ))
}

fn call_any(core: &Arc<Core>, request: Request<'_>) -> Result<Plan, Refusal> {
    let (name, mut arguments, retry) = Call::read(request)?;
    let uses_handles = uses_handles(core, request.version);
    if let Some(own) = OwnTool::named(&name).filter(|_| uses_handles) {
        return Ok(call_own(
            core,
            own,
            request.version,
            arguments.unwrap_or_default(),
        ));
    }
    let Some(tool) = request.snapshot.catalog.tool(&name) else {
        return Err(
            Refusal::new(Code::ToolNotFound).because(format!("unknown tool: {}", shortened(&name)))
        );
    };
    if let Some(headers) = request.headers {
        headers.check(&tool.headers, arguments.as_ref())?;
    }
    let round = round(core, request, &name, arguments.as_ref(), retry)?;
    // Neither the handler nor its schema sees the handle.
    let handle = match &mut arguments {
        Some(arguments) if uses_handles && tool.with_handle.is_some() => {
            arguments.shift_remove(ARGUMENT)
        }
        Some(_) | None => None,
    };
    let (wanted, limits) = (wanted(core, tool), limits_of(tool));
    let tool = Arc::clone(tool);
    let arguments = Value::Object(arguments.unwrap_or_default());
    let prepare = move |_: &Core, _, keep: bool| {
        let checked = reading(|| tool.schema.check(&arguments))?;
        checked.map_err(|mistakes| wrong(&tool, &mistakes))?;
        let kept = keep.then(|| arguments.clone());
        let handler = handler_call(&tool, Arguments::Read(object(arguments)))?;
        Ok((handler, kept))
    };
    plan_call(core, request, wanted, handle, limits, round, prepare)
}

fn wanted(core: &Core, tool: &CheckedTool) -> Wanted {
    let workflow = core.workflow();
    Wanted {
        symbol: workflow.and_then(|workflow| tool.symbol(workflow)),
        ..Wanted::new(Kind::Tool, tool.tool.model.name.clone())
    }
}

fn limits_of(tool: &CheckedTool) -> Limits {
    (tool.tool.timeout, tool.tool.places.clone())
}

/// The handler of a tool that has its arguments. What it returns is checked, too.
fn handler_call(tool: &CheckedTool, arguments: Arguments<'_>) -> Result<HandlerCall, Refusal> {
    let handler = reading(|| tool.tool.prepare(arguments))?;
    let handler = handler.map_err(|mistakes| wrong(tool, &mistakes))?;
    Ok(match &tool.output {
        Some(schema) => handler::with_checked_output(handler, Arc::clone(schema)),
        None => handler,
    })
}

fn wrong(tool: &CheckedTool, mistakes: &str) -> Refusal {
    let name = &tool.tool.model.name;
    Refusal::new(Code::InvalidJsonSchema).because(format!(
        "the arguments do not match the schema of '{name}': {mistakes}"
    ))
}

fn object(value: Value) -> JsonObject {
    match value {
        Value::Object(object) => object,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            JsonObject::new()
        }
    }
}
