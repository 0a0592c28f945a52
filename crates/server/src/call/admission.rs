//! Whether a call may run as things stand: the gate first, then its arguments.
//!
//! What is not allowed now is not worth checking. Guards are judged later: once before the call has
//! to wait, and once on the state that it has reserved.

use crate::{
    api::HandlerCall,
    core::{Core, handle_refusals},
    wire::refusal::CallRefusal,
};
use interlock_engine::{CallInput, Instance, Principal};
use interlock_proto::{Code, Refusal};
use interlock_workflow::{
    Binding, BindingId, Finish, Kind, Pass, Position, Reason, Refused, SymbolId,
};
use serde_json::Value;
use std::{borrow::Cow, sync::Arc};

pub(super) use handle_refusals::{not_looked_up, unknown as unknown_handle};

/// Takes the arguments of a call that the gate has admitted. It is told where the instance stands,
/// and whether the arguments have to be kept for guards, approvals or effects.
pub(crate) type Examine = Box<dyn FnOnce(&Core, Option<Position>, bool) -> Examined + Send>;

/// A handler that has its arguments, and a copy of them if they have to be kept.
pub(crate) type Examined = Result<(HandlerCall, Option<Value>), Refusal>;

/// A call that the gate has admitted, with arguments that its handler takes.
pub(crate) struct Admitted {
    pub(crate) handler: HandlerCall,
    pub(crate) input: Option<Arc<CallInput>>,
    pub(crate) binding: Option<BindingId>,
}

/// What is called.
pub(crate) struct Wanted {
    pub(crate) kind: Kind,
    pub(crate) name: Cow<'static, str>,
    /// Its symbol in the workflow, if that is known without looking up its name.
    pub(crate) symbol: Option<SymbolId>,
}

impl Wanted {
    pub(crate) const fn new(kind: Kind, name: Cow<'static, str>) -> Self {
        Self {
            kind,
            name,
            symbol: None,
        }
    }
}

/// Admits a call and checks its arguments.
pub(crate) fn examine(
    core: &Core,
    instance: Option<&Arc<Instance>>,
    principal: &Principal,
    wanted: &Wanted,
    prepare: impl FnOnce(&Core, Option<Position>, bool) -> Examined,
) -> Result<Admitted, CallRefusal> {
    let at = instance.map(|instance| instance.position());
    let binding = admit(instance.zip(at), wanted)?;
    let keeps_input = binding.is_some_and(Binding::reads_call);
    let prepared = prepare(core, at, keeps_input).and_then(|prepared| match &prepared.1 {
        Some(args) if CallInput::is_too_deep(args) => Err(too_deep(&wanted.name)),
        Some(_) | None => Ok(prepared),
    });
    let (handler, args) = prepared.inspect_err(|refusal| {
        if let (Some(instance), Some(_)) = (instance, binding) {
            let said = (refusal.code().number(), refusal.message());
            instance.note_refused(wanted.kind, &wanted.name, said);
        }
    })?;
    let input = args.map(|args| {
        let principal = principal.facts();
        Arc::new(CallInput { args, principal })
    });
    Ok(Admitted {
        handler,
        input,
        binding: binding.map(Binding::id),
    })
}

/// Whether the call may run as things stand, whatever its arguments. The binding that admits it, if
/// it is part of the workflow.
fn admit<'w>(
    stands: Option<(&'w Arc<Instance>, Position)>,
    wanted: &Wanted,
) -> Result<Option<&'w Binding>, CallRefusal> {
    let Some((instance, at)) = stands else {
        return Ok(None);
    };
    let workflow = instance.workflow();
    let known = wanted.symbol;
    let known = known.and_then(|symbol| workflow.bound_at(at, symbol));
    if known.is_some() {
        return Ok(known);
    }
    match workflow.admit(at, wanted.kind, &wanted.name) {
        Ok(Pass::Bound(binding)) => Ok(Some(binding)),
        Ok(Pass::Always) => Ok(None),
        Err(refused) => Err(self::refused(instance, refused)),
    }
}

/// Journals that the gate refused a call, and says why.
pub(crate) fn refused(instance: &Arc<Instance>, refused: Refused<'_>) -> CallRefusal {
    let wanted = refused.wanted();
    let said = (refused.code(), &*refused.to_string());
    instance.note_refused(wanted.kind, &wanted.name, said);
    let (is_leased, is_over) = (instance.is_leased(), *refused.reason() == Reason::Finished);
    let mut no = match is_leased {
        // An instance behind a handle never begins again.
        true => CallRefusal::by_gate(&refused, refused.path_if(Finish::Stay)),
        false => refused.into(),
    };
    if is_leased && is_over {
        let text = format!("{}{}", no.refusal.message(), handle_refusals::another());
        no.refusal = no.refusal.because(text);
    }
    if let Some(warning) = instance.take_warning() {
        let text = format!("{} {warning}", no.refusal.message());
        no.refusal = no.refusal.because(text);
    }
    no
}

fn too_deep(name: &str) -> Refusal {
    Refusal::new(Code::InvalidJsonSchema).because(format!(
        "The arguments of '{name}' nest deeper than they can be kept: {} levels are allowed.",
        CallInput::DEEPEST
    ))
}
