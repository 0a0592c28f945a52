//! How a call gets its instance, a turn at it, and a place among the calls of its tool.

use crate::{
    call::{Call, Purpose, Stop, admission, approval, respond, sampling},
    context::Belongs,
    wire::refusal::CallRefusal,
};
use futures_util::{FutureExt, poll};
use interlock_engine::{
    ApprovalQuestion, EngineError, Instance, OpenError, ReserveError, Reserved, Turn,
};
use interlock_proto::{
    Code, Refusal,
    invocation::{End, State},
};
use interlock_workflow::{Binding, Pass};
use std::{sync::Arc, task::Poll, time::Duration};

/// Finds the instance of a call that came without one. Only then can the call be admitted.
pub(super) async fn find_instance(call: &mut Call) -> Result<(), Stop> {
    let Some(sought) = call.start.sought.take() else {
        return Ok(());
    };
    let core = Arc::clone(&call.core);
    let Some(engine) = &core.engine else {
        return Err(admission::unknown_handle().into());
    };
    let principal = call.shared.caller.principal.clone();
    let opened = engine.open(&sought.source, &principal).boxed();
    let instance = call.wait_for(opened).await?.map_err(not_opened)?;
    call.shared_mut().belongs = Belongs::To(Arc::clone(&instance));
    if call.start.purpose == Purpose::Complete {
        // It looks at the gate itself, and leaves no entry in the journal.
        let (handler, _) =
            (sought.prepare)(&core, Some(instance.position()), false).map_err(CallRefusal::from)?;
        call.start.handler = Some(handler);
        return Ok(());
    }
    if call.shared.caller.is_returning() {
        return Ok(sampling::take_up(call, &instance)?);
    }
    let wanted = admission::Wanted::new(call.start.kind, call.start.name.clone());
    let admitted = admission::examine(&core, Some(&instance), &principal, &wanted, sought.prepare)?;
    call.start.handler = Some(admitted.handler);
    call.start.input = admitted.input;
    call.start.binding = admitted.binding;
    Ok(())
}

/// What a call does next.
pub(super) enum Next {
    /// Its handler runs for so long at most.
    Run(Duration),
    /// A person answers this first.
    AskPerson(ApprovalQuestion),
}

/// Whether a call needs the turn.
enum Ready {
    /// It has the turn.
    Turn(Turn),
    /// It cannot move the instance. Its handler runs beside others for so long at most.
    Beside(Duration),
}

/// Reserves the instance, if the call can move it.
pub(super) async fn reserve(call: &mut Call) -> Result<Next, Stop> {
    let Some(instance) = deciding_instance(call)? else {
        take_place(call).await?;
        return Ok(Next::Run(call.execution(None)));
    };
    if call.unfinished().is_some() {
        return Ok(Next::Run(
            Box::pin(sampling::resume(call, &instance)).await?,
        ));
    }
    let turn = match turn_at_once(call, &instance) {
        Some(turn) => turn,
        None => match Box::pin(judge_and_wait(call, &instance)).await? {
            Ready::Turn(turn) => turn,
            Ready::Beside(execution) => return Ok(Next::Run(execution)),
        },
    };
    // With the turn in hand: a call that waits for its instance must not keep a place from others.
    take_place(call).await?;
    let reserved = {
        let (approving, caller) = (call.approving.as_deref(), &call.shared.caller);
        let consent = || {
            let consent = approval::consent(approving, caller, instance.id());
            (consent, approval::means(approving, caller))
        };
        let facts = call.facts();
        let mut reserving = Box::pin(instance.reserve_in_turn(turn, &facts, &consent));
        match poll!(&mut reserving) {
            Poll::Ready(reserved) => reserved,
            Poll::Pending => {
                let reserved = reserving.await;
                // The handler is not charged for the time that the store took.
                call.now = call.core.clock.now();
                reserved
            }
        }
    };
    let reserved = reserved.map(|reserved| keep(call, &instance, reserved));
    // The call may have been cancelled while the store was asked.
    call.check_signals()?;
    Ok(reserved.map_err(|error| not_reserved(call, &instance, error))?)
}

/// Keeps a reservation with its call.
fn keep(call: &mut Call, instance: &Arc<Instance>, reserved: Reserved) -> Next {
    match reserved {
        Reserved::Ask(question) => {
            // A call that waits for a person must not keep a place from others.
            call.place = None;
            Next::AskPerson(question)
        }
        Reserved::Beside(binding) => {
            call.start.binding = binding;
            let workflow = instance.workflow();
            let binding = binding.map(|binding| workflow.binding(binding));
            Next::Run(call.execution(binding.and_then(Binding::deadline)))
        }
        Reserved::Exclusive(reservation) => {
            let binding = reservation.binding();
            let execution = call.execution(binding.and_then(Binding::deadline));
            let approval = binding.and_then(Binding::approval).cloned();
            call.start.binding = binding.map(Binding::id);
            call.reservation = Some(reservation);
            if let Some(approval) = approval {
                approval::used(call, instance, approval.expires);
            }
            Next::Run(execution)
        }
    }
}

/// The instance that decides about the call, if there is one.
fn deciding_instance(call: &Call) -> Result<Option<Arc<Instance>>, Stop> {
    if call.start.purpose == Purpose::Complete || call.core.engine.is_none() {
        return Ok(None);
    }
    match (&call.shared.belongs, call.instance()) {
        (_, Some(instance)) => Ok(Some(Arc::clone(instance))),
        (Belongs::ToNone, None) => Ok(None),
        // What cannot be judged does not run.
        (Belongs::ToSession | Belongs::To(_), None) => {
            Err(CallRefusal::from(Refusal::new(Code::InternalError)).into())
        }
    }
}

/// The turn, if it is free and the call can move the instance. Then it is judged once: on the
/// reserved state.
fn turn_at_once(call: &Call, instance: &Arc<Instance>) -> Option<Turn> {
    let binding = call.start.binding?;
    let moves = instance.workflow().binding(binding).moves();
    // A call that may have to wait for a place is judged before it waits.
    let is_free = moves && call.start.places.is_none();
    is_free.then(|| instance.try_turn()).flatten()
}

/// Judges the call before it waits for its turn.
async fn judge_and_wait(call: &mut Call, instance: &Arc<Instance>) -> Result<Ready, Stop> {
    match run_beside(call, instance).await? {
        Some(execution) => Ok(Ready::Beside(execution)),
        None => wait_for_turn(call, instance).await.map(Ready::Turn),
    }
}

/// How long the handler may run, if the call cannot move the instance.
async fn run_beside(call: &mut Call, instance: &Arc<Instance>) -> Result<Option<Duration>, Stop> {
    loop {
        let pass = instance.admit(&call.facts());
        let pass = pass.map_err(|refused| admission::refused(instance, refused))?;
        let (binding, deadline) = match pass {
            Pass::Bound(binding) if binding.moves() => return Ok(None),
            Pass::Bound(binding) => (Some(binding.id()), binding.deadline()),
            Pass::Always => (None, None),
        };
        if !take_place(call).await? {
            call.start.binding = binding;
            return Ok(Some(call.execution(deadline)));
        }
        // It has waited, and the state may be another one by now.
    }
}

async fn wait_for_turn(call: &mut Call, instance: &Arc<Instance>) -> Result<Turn, Stop> {
    // It waited for a place alone, and now needs its turn first.
    call.place = None;
    let waiting = Arc::clone(instance);
    let busy_rule = instance.workflow().settings().busy;
    let turn = call.wait_for(async move { waiting.turn(busy_rule).await });
    Ok(turn.await?.ok_or_else(|| busy(call))?)
}

/// Takes a place among the calls that run, if there are only so many. Whether it had to wait.
async fn take_place(call: &mut Call) -> Result<bool, Stop> {
    let Some(places) = call.start.places.clone().filter(|_| call.place.is_none()) else {
        return Ok(false);
    };
    call.place = places.try_take();
    if call.place.is_some() {
        return Ok(false);
    }
    let waiting = call.wait_for(async move { places.take().await });
    call.place = Some(Box::pin(waiting).await?);
    Ok(true)
}

/// Gives the instance back: the call never began, or its handler has paused.
pub(super) async fn release(call: &mut Call) {
    let has_begun = call.start.handler.is_none();
    let has_paused = has_begun && *call.machine.state() == State::Result(End::Asked);
    let Some(reservation) = call.reservation.take() else {
        if has_paused {
            call.note(Instance::note_paused);
        }
        return;
    };
    if let Err(error) = reservation.release(has_paused).await {
        respond::unsaved(&error);
    }
}

fn not_opened(error: OpenError) -> CallRefusal {
    match error {
        OpenError::Unknown => admission::unknown_handle(),
        OpenError::Unauthenticated | OpenError::NoRandomness(_) => {
            let refusal = Refusal::new(Code::AuthMissing).because(error.to_string());
            refusal.into()
        }
        OpenError::Engine(error) => admission::not_looked_up(&error),
    }
}

fn not_reserved(call: &Call, instance: &Arc<Instance>, error: ReserveError<'_>) -> CallRefusal {
    let (no, journalled) = match error {
        ReserveError::Refused(refused) => {
            return admission::refused(instance, refused);
        }
        ReserveError::Busy => return busy(call),
        ReserveError::Engine(error) => return unsaved(call, &error),
        ReserveError::TooManyApprovals(refusal) => return refusal.into(),
        ReserveError::ApprovalPending {
            at,
            question,
            id,
            journalled,
        } => {
            let no = approval::pending(call, (instance.workflow(), at), (&question, &id));
            (no, journalled)
        }
        ReserveError::ApprovalDenied {
            at,
            why,
            journalled,
        } => {
            let no = approval::denied(call, (instance.workflow(), at), why);
            (no, journalled)
        }
    };
    if !journalled {
        let said = (no.refusal.code().number(), no.refusal.message());
        instance.note_refused(call.start.kind, &call.start.name, said);
    }
    no
}

/// Another call holds the instance.
pub(super) fn busy(call: &Call) -> CallRefusal {
    let refusal = Refusal::new(Code::InstanceBusy);
    if let Some(instance) = call.instance() {
        let said = (Code::InstanceBusy.number(), refusal.message());
        instance.note_refused(call.start.kind, &call.start.name, said);
    }
    refusal.into()
}

/// The instance could not be loaded or changed.
pub(super) fn unsaved(call: &Call, error: &EngineError) -> CallRefusal {
    if !matches!(error, EngineError::RunningElsewhere) {
        return respond::unsaved(error);
    }
    // Whether that process still runs or has died, this one cannot tell. For how long it matters, it
    // can.
    let no = busy(call);
    let until = call.instance().and_then(|instance| instance.busy_until());
    let Some(until) = until else {
        return no;
    };
    let left = call.core.clock.now().until(until);
    let refusal = no.refusal.because(format!(
        "Another server runs a call of this workflow, or has died while it did. It is over in {} \
         seconds at the latest: try again then.",
        left.as_millis().div_ceil(1_000)
    ));
    refusal.into()
}
