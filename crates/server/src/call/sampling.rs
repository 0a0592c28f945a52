//! How a call asks its client's model what the state asks that it has led to.
//!
//! This is part of the commit: the step is taken, its lists are announced and its effects have run,
//! and the call has not been answered. A connected client is asked over its connection and waited
//! for. A client of 2026-07-28 is told to come back, and what is left of the call travels with it,
//! sealed; when it comes back, no handler runs again. What is done about a question is decided in
//! `sampling_rules.rs`.

use crate::{
    api::{HandlerCall, Reply},
    call::{
        Call, CallRefusal, Stop, commit, reserve, respond,
        sampling_rules::{self as rules, Next, Reach},
    },
    context::{
        client::{Caller, Way},
        multi_round::{FinalAnswer, Unfinished},
    },
    core::Core,
    model::elicitation::AskError,
    wire::result::{self, Answer},
};
use interlock_engine::{Asker, Instance, Reservation, Turn, sleep_until};
use interlock_proto::{Ability, Refusal, invocation::Effect};
use interlock_workflow::{Busy, Outcome};
use serde_json::Value;
use std::{sync::Arc, time::Duration};
use tokio::sync::oneshot;

/// Whom the states ask that a call leads to.
pub(super) fn asker<'a>(core: &Core, caller: &'a Caller) -> Asker<'a> {
    Asker {
        principal: &caller.principal,
        timeout: core.environment.ask_timeout,
        comes_back: match &caller.way {
            Way::Session(_) => false,
            Way::Alone { .. } => true,
        },
    }
}

/// The client has come back to this instance: no handler runs, and in the end the call is answered
/// with what was to be said before.
pub(super) fn take_up(call: &mut Call, instance: &Instance) -> Result<(), CallRefusal> {
    let unfinished = call.unfinished();
    let unfinished = unfinished.filter(|left| left.instance == **instance.id());
    let Some(unfinished) = unfinished.cloned() else {
        return Err(rules::spent().into());
    };
    call.advice.told = unfinished.told;
    call.advice.warning = unfinished.warning;
    call.results.kept = Some(Box::new(unfinished.said));
    call.start.places = None;
    call.start.handler = Some(HandlerCall::new(|_| {
        let nothing = Reply::Text(Default::default());
        std::future::ready(Ok(nothing))
    }));
    Ok(())
}

/// Takes up the question of an instance that waits for this client. The ticket is good for once: it
/// is gone with the step that the answer takes.
pub(super) async fn resume(call: &mut Call, instance: &Arc<Instance>) -> Result<Duration, Stop> {
    let waiting = Arc::clone(instance);
    let turn = call.wait_for(async move { waiting.turn(Busy::Wait).await });
    let turn = turn.await?.ok_or_else(|| reserve::busy(call))?;
    let resumed = resume_in_turn(call, turn).await;
    call.now = call.core.clock.now();
    // A client that has gone away meanwhile may come back another time.
    call.check_signals()?;
    Ok(resumed?)
}

async fn resume_in_turn(call: &mut Call, turn: Turn) -> Result<Duration, CallRefusal> {
    let Some(unfinished) = call.unfinished() else {
        return Err(rules::spent().into());
    };
    match turn.resume(&unfinished.ticket).await {
        Ok(Some(reservation)) => {
            call.reservation = Some(reservation);
            Ok(call.core.times.execution)
        }
        Ok(None) => Err(rules::spent().into()),
        Err(error) => Err(reserve::unsaved(call, &error)),
    }
}

/// Goes on with what the client has come back with.
pub(super) async fn go_on(call: &mut Call, mut reservation: Reservation, outcome: Outcome) {
    let shared = Arc::clone(&call.shared);
    let Way::Alone { round, .. } = &shared.caller.way else {
        return;
    };
    // A client that was kept from going on may come back another time.
    let Some(unfinished) = round.unfinished().filter(|_| outcome == Outcome::Success) else {
        return;
    };
    let asked = unfinished.asked;
    let said = match round.answer(&rules::key(asked)) {
        Some(said) => rules::answer(Ok(said)),
        // It is asked again, as if it had not come back.
        None => match come_back(call, &reservation, asked) {
            Ok(()) => return reservation.leave_open(),
            Err(why) => Err(why),
        },
    };
    let no = match take_answer(call, &mut reservation, said).await {
        Ok(true) => return ask_model(call, reservation, asked).await,
        // Another request was faster.
        Ok(false) => rules::spent().into(),
        Err(no) => no,
    };
    call.results.kept = None;
    call.results.reply = None;
    call.results.refusal = Some(Box::new(no));
}

/// Asks what the state asks that the last step has led to, and goes on until nothing is asked. So
/// many questions have been asked in this call before.
pub(super) async fn ask_model(call: &mut Call, mut reservation: Reservation, mut asked: usize) {
    while reservation.asks() {
        let next = rules::next(asked, reach(call));
        asked += 1;
        let said = match next {
            Next::Ask => ask_for_sample(call, &reservation).await,
            Next::ComeBack => match come_back(call, &reservation, asked) {
                Ok(()) => return reservation.leave_open(),
                Err(why) => Err(why),
            },
            Next::Fail(why) => Err(why),
            Next::Leave(why) => {
                if let Err(error) = reservation.unasked(&why).await {
                    reserve::unsaved(call, &error);
                }
                return;
            }
        };
        // If the step could not be saved, what the call did holds all the same and is answered, and
        // the question ends without an answer.
        let Ok(true) = take_answer(call, &mut reservation, said).await else {
            return;
        };
    }
}

/// How the client can be asked now.
fn reach(call: &mut Call) -> Reach {
    while call.signals.ready().is_some() {}
    let caller = &call.shared.caller;
    if call.signals.is_cancelled() {
        return Reach::TookBack;
    }
    if call.signals.is_shutting_down() {
        return Reach::Ending;
    }
    match (caller.can(Ability::Sampling), &caller.way) {
        (Err(refusal), _) => Reach::Unable(refusal),
        (Ok(()), Way::Session(_)) => Reach::Here,
        (Ok(()), Way::Alone { .. }) => Reach::ComesBack,
    }
}

/// Asks the client over its connection, and waits. The call's own clock does not run: it has ended.
async fn ask_for_sample(call: &mut Call, reservation: &Reservation) -> Result<Value, String> {
    let principal = call.shared.caller.principal.facts();
    let instance = reservation.instance();
    let question = rules::question(instance.workflow(), &instance.run(), &principal);
    let (Some(link), Some(question)) = (call.link().cloned(), question) else {
        return rules::answer(Err(AskError::Ended));
    };
    let clock = Arc::clone(&call.core.clock);
    let late = clock.now() + call.core.environment.ask_timeout;
    let (sender, answer) = oneshot::channel();
    let ask = match link.ask(&question, sender, &call.route) {
        Ok(ask) => ask,
        Err((refusal, _)) => return rules::answer(Err(AskError::NotNow(refusal))),
    };
    // However the call ends, the question is withdrawn.
    let number = call.shared.channel.next_question_number();
    call.conversation().asks.insert(number, ask);
    let said = tokio::select! {
        biased;
        said = answer => Some(said.unwrap_or(Err(AskError::Ended))),
        _ = call.signals.next() => None,
        () = sleep_until(&*clock, Some(late)) => Some(Err(AskError::Late)),
    };
    call.conversation().asks.remove(&number);
    link.withdraw(ask, &call.route);
    match said {
        Some(said) => rules::answer(said),
        None => Err(reach(call).obstacle().unwrap_or_default()),
    }
}

/// Tells the client to come back, with all that is left of the call.
fn come_back(call: &mut Call, reservation: &Reservation, asked: usize) -> Result<(), String> {
    let cannot = || "the client cannot be told to come back".to_owned();
    let principal = call.shared.caller.principal.facts();
    let instance = reservation.instance();
    let question = rules::question(instance.workflow(), &instance.run(), &principal);
    let question = question.ok_or_else(cannot)?;
    let unfinished = Unfinished {
        instance: instance.id().to_string(),
        ticket: reservation.ticket().ok_or_else(cannot)?.to_owned(),
        asked,
        told: call.advice.told.clone(),
        warning: call.advice.warning.clone(),
        said: to_be_said(call).ok_or_else(cannot)?,
    };
    let until = reservation.until().ok_or_else(cannot)?;
    let Way::Alone { round, .. } = &call.shared.caller.way else {
        return Err(cannot());
    };
    let question = (rules::key(asked), &question);
    let asks = round.ask_at_the_end(&call.core.sealer, question, unfinished, until);
    let mut asks = asks.map_err(|refusal| refusal.message().to_owned())?;
    asks["_meta"] = respond::stamp(call).object().into();
    call.results.answer = Some(Answer::Asks(asks));
    Ok(())
}

/// What the call would be answered with now.
fn to_be_said(call: &Call) -> Option<FinalAnswer> {
    if let Some(said) = &call.results.kept {
        return Some(FinalAnswer::clone(said));
    }
    let stamp = call.core.stamp(call.shared.caller.version, None);
    if let Some(Effect::Refuse(refusal)) = call.machine.peek() {
        let no = CallRefusal::from(Refusal::clone(refusal));
        return FinalAnswer::of(&result::refused(call.start.kind, no, stamp));
    }
    match call.results.reply.as_ref()? {
        Ok(reply) => FinalAnswer::of_reply(reply),
        Err(failure) => FinalAnswer::of(&result::failed(call.start.kind, failure, stamp)),
    }
}

/// Commits the step for an answer, or for none, and does what follows. False: it was not taken, as
/// another request has moved the instance.
async fn take_answer(
    call: &mut Call,
    reservation: &mut Reservation,
    said: Result<Value, String>,
) -> Result<bool, CallRefusal> {
    let asker = asker(&call.core, &call.shared.caller);
    let answer = said.as_ref().map_err(String::as_str);
    match reservation.sampled(answer, asker).await {
        Ok(Some(mut committed)) => {
            commit::follow(call, reservation, &mut committed, |_| said.ok()).await;
            Ok(true)
        }
        Ok(None) => {
            let name = &*call.start.name;
            tracing::warn!(name, "an instance moved while its client was asked");
            call.advice.after = None;
            Ok(false)
        }
        Err(error) => Err(reserve::unsaved(call, &error)),
    }
}
