//! Calls of tools.

use super::{Asked, Call, Limits, Plan, Wanted, Whose, reading};
use crate::{
    catalogue::CheckedTool,
    handle::{self, OwnTool},
    handler::{self, Arguments, Prepared},
    http::modern::mismatch,
    model::JsonObject,
    round::Round,
    server::Inner,
};
use interlock_proto::{Code, Refusal, era, refusal::shortened};
use interlock_workflow::Kind;
use serde_json::Value;
use std::sync::Arc;

impl Inner {
    pub(super) fn call_tool(&self, asked: Asked<'_>) -> Result<Plan, Refusal> {
        match self.call_at_a_glance(asked) {
            Some(plan) => Ok(plan),
            None => self.call_with_care(asked),
        }
    }

    /// Most calls: the arguments are right as they are written, whose instance it is about is
    /// known, and nothing else has to be looked at. What is different is none of these.
    fn call_at_a_glance(&self, asked: Asked<'_>) -> Option<Plan> {
        let about = asked.params?.about()?;
        let comes_back = about.input_responses.is_some() || about.request_state.is_some();
        if about.is_odd || comes_back || asked.can_answer() || self.uses_handles(asked.version) {
            return None;
        }
        let name = era::text(about.name?)?;
        let arguments = about.arguments.unwrap_or("{}");
        let tool = asked.offering.catalogue.tool(&name)?;
        if asked.headers.is_some() && !tool.headers.is_empty() {
            return None;
        }
        let wanted = self.wanted(tool);
        let instance = match self.whose(asked, &wanted, None) {
            Ok(Whose::Nobodys) => None,
            Ok(Whose::Known(instance)) => Some(instance),
            Ok(Whose::Sought(_)) | Err(_) => return None,
        };
        if !tool.schema.takes_at_a_glance(arguments) {
            return None;
        }
        let handler = prepared(tool, Arguments::Written(arguments)).ok()?;
        let prepare = |_: &Self, _, keep: bool| {
            let read = || serde_json::from_str(arguments);
            let kept = keep.then(read).transpose();
            Ok((handler, kept.map_err(|why| wrong(tool, &why.to_string()))?))
        };
        let limits = limits_of(tool);
        Some(self.let_in(asked, wanted, limits, Round::default(), instance, prepare))
    }

    fn call_with_care(&self, asked: Asked<'_>) -> Result<Plan, Refusal> {
        let (name, mut arguments, retry) = Call::read(asked)?;
        let uses_handles = self.uses_handles(asked.version);
        if let Some(own) = OwnTool::named(&name).filter(|_| uses_handles) {
            return Ok(self.call_own(own, asked.version, arguments.unwrap_or_default()));
        }
        let Some(tool) = asked.offering.catalogue.tool(&name) else {
            return Err(Refusal::new(Code::ToolNotFound)
                .because(format!("unknown tool: {}", shortened(&name))));
        };
        if let Some(headers) = asked.headers {
            tool.headers
                .check(headers, arguments.as_ref())
                .map_err(mismatch)?;
        }
        let round = self.round(asked, &name, arguments.as_ref(), retry)?;
        // The handler never sees it, nor does its schema.
        let handle = match &mut arguments {
            Some(arguments) if uses_handles && tool.with_handle.is_some() => {
                arguments.shift_remove(handle::ARGUMENT)
            }
            Some(_) | None => None,
        };
        let (wanted, limits) = (self.wanted(tool), limits_of(tool));
        let tool = Arc::clone(tool);
        let arguments = Value::Object(arguments.unwrap_or_default());
        let prepare = move |_: &Self, _, keep: bool| {
            let checked = reading(|| tool.schema.check(&arguments))?;
            checked.map_err(|mistakes| wrong(&tool, &mistakes))?;
            let kept = keep.then(|| arguments.clone());
            let handler = prepared(&tool, Arguments::Read(object(arguments)))?;
            Ok((handler, kept))
        };
        self.admitted(asked, wanted, handle, limits, round, prepare)
    }

    fn wanted(&self, tool: &CheckedTool) -> Wanted {
        let workflow = self.workflow.as_ref();
        Wanted {
            symbol: workflow.and_then(|workflow| tool.symbol(workflow)),
            ..Wanted::new(Kind::Tool, tool.tool.model.name.clone())
        }
    }
}

fn limits_of(tool: &CheckedTool) -> Limits {
    (tool.tool.timeout, tool.tool.concurrency.clone())
}

/// The handler of a tool that has its arguments. What it returns is checked, too.
fn prepared(tool: &CheckedTool, arguments: Arguments<'_>) -> Result<Prepared, Refusal> {
    let handler = reading(|| tool.tool.prepare(arguments))?;
    let handler = handler.map_err(|mistakes| wrong(tool, &mistakes))?;
    Ok(match &tool.output {
        Some(schema) => handler::checked(handler, Arc::clone(schema)),
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
