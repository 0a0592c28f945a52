//! `prompts/get`.

use crate::{
    call::admission::Wanted,
    core::Core,
    dispatch::{
        Plan, Request,
        params::Call,
        plan_call::{plan_call, round},
        reading,
    },
};
use interlock_proto::{Code, Refusal, refusal::shortened};
use interlock_workflow::Kind;
use serde_json::Value;
use std::sync::Arc;

pub(super) fn get_prompt(core: &Core, request: Request<'_>) -> Result<Plan, Refusal> {
    let (name, arguments, retry) = Call::read(request)?;
    let snapshot = request.snapshot;
    let Some(prompt) = snapshot.catalog.prompt(&name) else {
        return Err(unknown_prompt(&name));
    };
    let round = round(core, request, &name, arguments.as_ref(), retry)?;
    let wanted = Wanted::new(Kind::Prompt, name.into_owned().into());
    let prompt = Arc::clone(prompt);
    let prepare = move |_: &Core, _, keep: bool| {
        let arguments = arguments.unwrap_or_default();
        let kept = keep.then(|| Value::Object(arguments.clone()));
        let handler = reading(|| prompt.prepare(arguments))?;
        let handler = handler.map_err(|why| Refusal::new(Code::InvalidParams).because(why))?;
        Ok((handler, kept))
    };
    plan_call(core, request, wanted, None, (None, None), round, prepare)
}

pub(super) fn unknown_prompt(name: &str) -> Refusal {
    Refusal::new(Code::PromptNotFound).because(format!("unknown prompt: {}", shortened(name)))
}
