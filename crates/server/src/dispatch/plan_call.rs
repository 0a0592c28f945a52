//! Plans a call: which instance decides about it, and whether that admits it.

use crate::{
    call::{
        Purpose, Sought, Start,
        admission::{self, Examined, Wanted},
        sampling_rules,
    },
    catalog::handle_argument::in_use,
    context::{
        Belongs,
        multi_round::{RequestIdentity, RetryParams, Round},
    },
    core::{Core, handle_refusals},
    dispatch::{Limits, Plan, Request},
    model::JsonObject,
    wire::{refusal::CallRefusal, result, workflow_meta::WorkflowMeta},
};
use interlock_engine::{Instance, Source};
use interlock_proto::{Refusal, Version};
use interlock_workflow::{Kind, Position, Scope};
use serde_json::Value;
use std::sync::Arc;

/// Which instance decides about a call.
pub(super) enum Deciding<'a> {
    /// No instance: the call is part of no workflow.
    None,
    /// The instance of the connection.
    Instance(&'a Arc<Instance>),
    /// One that has to be found first.
    Find(Source),
}

/// Plans a call. Its instance is known, or has to be found first.
pub(super) fn plan_call(
    core: &Core,
    request: Request<'_>,
    wanted: Wanted,
    handle: Option<Value>,
    limits: Limits,
    round: Round,
    prepare: impl FnOnce(&Core, Option<Position>, bool) -> Examined + Send + 'static,
) -> Result<Plan, Refusal> {
    let instance = match deciding_instance(core, request, &wanted, handle) {
        // Only an instance that was found can have sent its client away.
        Ok(Deciding::None | Deciding::Instance(_)) if round.unfinished().is_some() => {
            return Err(sampling_rules::spent());
        }
        Ok(Deciding::None) => None,
        Ok(Deciding::Instance(instance)) => Some(instance),
        Ok(Deciding::Find(source)) => {
            let prepare = Box::new(prepare);
            let start = Start {
                sought: Some(Box::new(Sought { source, prepare })),
                ..start(wanted, limits, request.belongs())
            };
            return Ok(Plan::Call(start, round));
        }
        Err(no) => return Ok(refuse(core, request, wanted.kind, no)),
    };
    Ok(plan_admitted(
        core, request, wanted, limits, round, instance, prepare,
    ))
}

/// Plans a call whose instance is known, or that has none.
pub(super) fn plan_admitted(
    core: &Core,
    request: Request<'_>,
    wanted: Wanted,
    limits: Limits,
    round: Round,
    instance: Option<&Arc<Instance>>,
    prepare: impl FnOnce(&Core, Option<Position>, bool) -> Examined,
) -> Plan {
    match admission::examine(core, instance, request.principal, &wanted, prepare) {
        Ok(admitted) => {
            let start = Start {
                handler: Some(admitted.handler),
                input: admitted.input,
                binding: admitted.binding,
                ..start(wanted, limits, request.belongs())
            };
            Plan::Call(start, round)
        }
        Err(no) => refuse(core, request, wanted.kind, no),
    }
}

pub(super) fn refuse(core: &Core, request: Request<'_>, kind: Kind, no: CallRefusal) -> Plan {
    let place = request.instance.map(|instance| WorkflowMeta {
        instance: instance.id(),
        is_sessions: request.modern.is_none(),
        workflow: instance.workflow(),
        at: instance.position(),
        instructions: &[],
    });
    Plan::Answer(result::refused(
        kind,
        no,
        core.stamp(request.version, place),
    ))
}

/// Which instance decides about a call.
pub(super) fn deciding_instance<'a>(
    core: &Core,
    request: Request<'a>,
    Wanted { kind, name, .. }: &Wanted,
    handle: Option<Value>,
) -> Result<Deciding<'a>, CallRefusal> {
    let Some(engine) = &core.engine else {
        return Ok(Deciding::None);
    };
    let workflow = engine.workflow();
    if let Some(instance) = request.instance
        && !engine.others_may_move()
    {
        return Ok(Deciding::Instance(instance));
    }
    if workflow.is_always(*kind, name) {
        return Ok(Deciding::None);
    }
    match (workflow.settings().scope, kind, handle) {
        (Scope::Principal | Scope::Global, _, _) => Ok(Deciding::Find(Source::Caller)),
        (Scope::Session | Scope::Handle, Kind::Tool, Some(Value::String(id))) => {
            Ok(Deciding::Find(Source::Handle(id)))
        }
        (Scope::Session | Scope::Handle, Kind::Tool, _) => Err(handle_refusals::missing(name)),
        (Scope::Session | Scope::Handle, Kind::Resource | Kind::Prompt, _) => {
            Err(handle_refusals::no_place(*kind, name))
        }
    }
}

/// Whether clients of that version find their instances by handles.
pub(super) fn uses_handles(core: &Core, version: Version) -> bool {
    let workflow = core.workflow();
    workflow.is_some_and(|workflow| in_use(workflow, version.era()))
}

/// The answers that a 2026-07-28 client has brought. A client that cannot be asked brings none.
pub(super) fn round(
    core: &Core,
    request: Request<'_>,
    name: &str,
    arguments: Option<&JsonObject>,
    retry: RetryParams,
) -> Result<Round, Refusal> {
    if !request.can_answer() && retry.request_state.is_none() {
        return Ok(Round::default());
    }
    let request = RequestIdentity {
        principal: request.principal.clone(),
        method: request.method.name(),
        name: name.to_owned(),
        arguments: arguments.cloned(),
    };
    Round::open(&core.sealer, retry, request, core.clock.now())
}

/// A call that is not admitted yet.
#[inline]
pub(super) fn start(
    Wanted { kind, name, .. }: Wanted,
    (timeout, places): Limits,
    belongs: Belongs,
) -> Start {
    Start {
        purpose: Purpose::Use,
        kind,
        name,
        timeout,
        places,
        handler: None,
        input: None,
        binding: None,
        belongs,
        sought: None,
    }
}
