//! How the end of a call moves its instance, and what follows.

use crate::{
    call::{Call, reserve, respond, sampling},
    model::change::{ChangeNotification, ServerChange},
    wire::result,
};
use interlock_engine::{Committed, EngineError, Observer, Reservation};
use interlock_proto::invocation::Outcome;
use serde_json::Value;

/// Commits the step that this outcome leads to. Then lists that changed are announced, effects run,
/// and the client's model is asked what the new state asks.
pub(super) async fn commit(call: &mut Call, outcome: Outcome) {
    let Some(mut reservation) = call.reservation.take() else {
        return note_ran(call, outcome);
    };
    respond::take_warning(call, outcome);
    let outcome = result::workflow_outcome(outcome);
    if reservation.waits_for_client() {
        return Box::pin(sampling::go_on(call, reservation, outcome)).await;
    }
    let reply = call.results.reply.as_ref();
    let reply = reply.filter(|_| reservation.reads_result());
    let result = reply.and_then(|reply| result::guard_value(call.start.kind, reply));
    let asker = sampling::asker(&call.core, &call.shared.caller);
    let committed = reservation.commit_asking(outcome, result.as_ref(), Some(asker));
    match committed.await {
        Ok(mut committed) => {
            let result = |call: &Call| {
                let reply = call.results.reply.as_ref()?;
                result::guard_value(call.start.kind, reply)
            };
            follow(call, &mut reservation, &mut committed, result).await;
            if reservation.asks() {
                Box::pin(sampling::ask_model(call, reservation, 0)).await;
            }
        }
        Err(error) => not_saved(call, &error),
    }
}

/// What follows a step: everybody hears of it, and its effects run.
pub(super) async fn follow(
    call: &mut Call,
    reservation: &mut Reservation,
    committed: &mut Committed,
    result: impl FnOnce(&Call) -> Option<Value>,
) {
    let effects = committed.effects.take();
    announce(call, committed);
    let Some(mut effects) = effects else {
        return;
    };
    let runner = call
        .core
        .engine
        .as_ref()
        .and_then(|engine| engine.effects());
    if runner.is_some_and(|runner| runner.wants_result(&effects.names)) {
        effects.done.result = result(call);
    }
    if let Some(diverted) = Box::pin(reservation.perform(*effects)).await {
        announce(call, &diverted);
    }
}

/// Tells the caller, on its own stream before its result, and every other client of the instance
/// which lists have changed.
fn announce(call: &mut Call, committed: &Committed) {
    call.advice.after = Some(committed.after);
    let Some(engine) = &call.core.engine else {
        return;
    };
    let workflow = engine.workflow();
    let caller = &call.shared.caller;
    let told = committed.instructions(workflow, &caller.principal);
    call.advice.told.extend(told);
    if !call.core.lists_change() {
        return;
    }
    let differ = workflow.lists_differ(committed.before, committed.after);
    let kinds: Vec<_> = differ.collect();
    // A client that cancelled the call may not read its stream any more. A client without a session
    // has lists that never change.
    let link = call.link().filter(|_| !call.signals.is_cancelled());
    for kind in kinds.iter().filter(|_| link.is_some()) {
        let note = ChangeNotification {
            change: ServerChange::List(*kind),
            subscription: None,
        };
        call.route.send_required(|out| note.write(out));
    }
    if let Some(instance) = call.instance() {
        let caller = link.map(|link| &**link as &dyn Observer);
        instance.tell_others(caller, &kinds);
    }
}

/// Journals that a call has ended that could not move its instance.
fn note_ran(call: &Call, outcome: Outcome) {
    if let (Some(instance), Some(binding)) = (call.instance(), call.start.binding) {
        instance.note_ran(binding, result::workflow_outcome(outcome), call.now);
    }
}

/// The step could not be saved, so what the handler returned does not hold.
fn not_saved(call: &mut Call, error: &EngineError) {
    call.results.reply = None;
    let refusal = reserve::unsaved(call, error).refusal;
    let refusal =
        refusal.because("the step could not be saved, and what was called may have taken effect");
    call.results.refusal = Some(Box::new(refusal.into()));
}
