//! The answer of a call, with what the model has to be told besides.

use crate::{
    api::Reply,
    call::{Call, Purpose, sampling_rules::Lapsed},
    context::{Belongs, client::Way, multi_round::FinalAnswer},
    model::{CallToolResult, ContentBlock, failure::Failure},
    wire::{
        refusal::CallRefusal,
        result::{self, Answer},
        result_meta::ResultMeta,
        workflow_meta::WorkflowMeta,
    },
};
use interlock_engine::{EngineError, Instance};
use interlock_proto::{
    Code, Refusal, Time,
    invocation::{self, End, State},
};
use interlock_workflow::{Kind, Position};

/// What a call has come to.
#[derive(Default)]
pub(super) struct Results {
    /// What its handler returned.
    pub(super) reply: Option<Result<Reply, Failure>>,
    /// Why it did not run, or why its step does not hold.
    pub(super) refusal: Option<Box<CallRefusal>>,
    /// What it was to be answered with before its client was told to come back.
    pub(super) kept: Option<Box<FinalAnswer>>,
    pub(super) answer: Option<Answer>,
}

/// What the model is told besides the result.
#[derive(Default)]
pub(super) struct Advice {
    /// What the states that the call led to tell the model.
    pub(super) told: Vec<String>,
    /// What it has to know of an earlier call that may have taken effect.
    pub(super) warning: Option<String>,
    /// Where the instance stood after this call had moved it. Others may have moved it since.
    pub(super) after: Option<Position>,
}

/// Takes the warning before the step of a call that is answered is committed: then it is not given
/// again after a restart. A client that cancelled its call is told nothing.
pub(super) fn take_warning(call: &mut Call, outcome: invocation::Outcome) {
    use invocation::Outcome as Ended;
    if call.signals.is_cancelled() {
        return;
    }
    match outcome {
        Ended::Success | Ended::Error | Ended::Timeout => warn(call),
        Ended::Cancelled | Ended::Unknown => {}
    }
}

fn warn(call: &mut Call) {
    if call.start.purpose == Purpose::Use && call.advice.warning.is_none() {
        let warning = call.instance().and_then(|instance| instance.take_warning());
        call.advice.warning = warning;
    }
}

/// Answers with what the handler returned.
pub(super) fn respond(call: &mut Call) {
    if call.results.answer.is_some() {
        // Its client has to come back first.
        return;
    }
    if let Some(said) = call.results.kept.take() {
        return respond_as_kept(call, *said);
    }
    let answer = match call.results.reply.take() {
        Some(Ok(reply)) => replied(call, reply),
        Some(Err(failure)) => match warned_failure(call, &failure) {
            Some(reply) => result::replied(reply, stamp(call)),
            None => result::failed(call.start.kind, &failure, stamp(call)),
        },
        // The step could not be saved, so what the handler returned does not hold.
        None => {
            let no = call.results.refusal.take().map(|no| *no);
            let no = no.unwrap_or_else(|| Refusal::new(Code::InternalError).into());
            return refuse(call, no);
        }
    };
    call.results.answer = Some(answer);
}

fn replied(call: &mut Call, mut reply: Reply) -> Answer {
    warn(call);
    let advice = &mut call.advice;
    if let Some(warning) = &advice.warning {
        reply.add_warning(warning);
    }
    reply.add_texts(&advice.told);
    advice.told.extend(advice.warning.take());
    result::replied(reply, stamp(call))
}

/// A failure that a model reads, if it has to be warned besides.
fn warned_failure(call: &mut Call, failure: &Failure) -> Option<Reply> {
    warn(call);
    let is_read = failure.refusal().is_none() && failure.rpc_error().is_none();
    let warning = call.advice.warning.take()?;
    let reply = (call.start.kind == Kind::Tool && is_read).then(|| {
        let texts = [failure.to_string(), warning.clone()];
        CallToolResult::error(texts.map(ContentBlock::text).into()).into()
    });
    call.advice.told.push(warning);
    reply
}

/// Answers with what was to be said before its client was told to come back.
fn respond_as_kept(call: &mut Call, said: FinalAnswer) {
    let answer = match said.restored(call.start.kind) {
        Ok(reply) => replied(call, reply),
        Err(Lapsed::Error(code, mut error)) => {
            let warning = call.advice.warning.take();
            if let (Some(warning), Some(message)) = (warning, error["message"].as_str()) {
                error["message"] = format!("{message} {warning}").into();
            }
            result::errored(code, error, &stamp(call))
        }
        Err(Lapsed::Unreadable) => CallRefusal::from(Refusal::new(Code::InternalError)).into(),
    };
    call.results.answer = Some(answer);
}

/// Answers with the questions that the client has to come back with.
pub(super) fn with_questions(call: &mut Call) {
    let questions = std::mem::take(&mut call.conversation().questions);
    let Way::Alone { round, .. } = &call.shared.caller.way else {
        return;
    };
    let (now, timeout) = (call.core.clock.now(), call.core.environment.ask_timeout);
    let approving = call.approving.as_deref();
    let sealed = approving.and_then(|approving| approving.sealed.clone());
    // A client that comes back too late for a person's yes is told so, and not that the seal is
    // broken.
    let until = sealed.as_ref().map_or(now, |sealed| Time(sealed.until));
    let expires = now.max(until) + timeout;
    match round.ask(&call.core.sealer, &questions, sealed, expires) {
        Ok(mut result) => {
            result["_meta"] = stamp(call).object().into();
            call.results.answer = Some(Answer::Asks(result));
        }
        Err(refusal) => refuse(call, refusal.into()),
    }
}

/// Does not answer: the client has cancelled the call.
pub(super) fn suppress(call: &Call) {
    if *call.machine.state() == State::Result(End::NotRun) {
        call.note(Instance::note_cancelled);
    }
}

/// Answers with the refusal that the machine has ordered.
pub(super) fn refuse_ended(call: &mut Call, refusal: Refusal) {
    let no = call.results.refusal.take();
    if no.is_none() && *call.machine.state() == State::Result(End::NotRun) {
        // It is not the gate's, which journals its own.
        let said = (refusal.code().number(), refusal.message());
        call.note(|instance, kind, name| instance.note_refused(kind, name, said));
    }
    let has_failed = *call.machine.state() == State::Result(End::Ran(invocation::Outcome::Error));
    if has_failed && no.is_none() && call.start.kind != Kind::Tool {
        // A handler that panicked took the edge of an error, as one does that says so.
        call.results.reply = Some(Err(Failure::new(refusal.message())));
        return respond(call);
    }
    let refusal = match call.machine.state() {
        State::Result(End::Ran(_)) => refusal.having_begun(),
        State::Idle | State::Pending { .. } | State::Executing { .. } | State::Result(_) => refusal,
    };
    let gate = no.and_then(|no| no.gate);
    refuse(call, CallRefusal { refusal, gate });
}

fn refuse(call: &mut Call, mut no: CallRefusal) {
    if call.results.answer.is_some() {
        return;
    }
    warn(call);
    if let Some(warning) = call.advice.warning.take() {
        let text = format!("{} {warning}", no.refusal.message());
        no.refusal = no.refusal.because(text);
    }
    let is_about_state = no.refusal.code() == Code::InvalidParams && call.unfinished().is_some();
    let answer = match is_about_state {
        true => no.into(),
        false => result::refused(call.start.kind, no, stamp(call)),
    };
    call.results.answer = Some(answer);
}

/// What the result says besides, as its `_meta`.
pub(super) fn stamp(call: &Call) -> ResultMeta<'_> {
    call.core.stamp(call.shared.caller.version, standing(call))
}

fn standing(call: &Call) -> Option<WorkflowMeta<'_>> {
    let engine = call.core.engine.as_ref()?;
    let instance = call.instance().or(call.shared.found.get())?;
    if call.start.purpose == Purpose::Complete {
        return None;
    }
    let at = call.advice.after.unwrap_or_else(|| instance.position());
    Some(WorkflowMeta {
        instance: instance.id(),
        is_sessions: matches!(call.shared.belongs, Belongs::ToSession),
        workflow: engine.workflow(),
        at,
        instructions: &call.advice.told,
    })
}

/// Logs that an instance could not be loaded or changed, and refuses.
pub(super) fn unsaved(error: &EngineError) -> CallRefusal {
    let error = error as &dyn std::error::Error;
    tracing::error!(error, "could not save an instance");
    let refusal = Refusal::new(Code::InternalError);
    refusal.because("the step could not be saved").into()
}
