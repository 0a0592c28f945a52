//! What a handler says before its result, and what becomes of it.

use crate::{
    call::Call,
    context::{
        channel::{HandlerMessage, PendingQuestion},
        client::Way,
    },
    model::{elicitation::AskError, notification::Progress},
    wire,
};
use interlock_proto::{AskId, invocation::Input};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

/// What a handler says before its result.
#[derive(Default)]
pub(super) struct Conversation {
    pub(super) messages: VecDeque<HandlerMessage>,
    /// The last progress that was sent, and one that is to be sent.
    reached: Option<f64>,
    progress: Option<Progress>,
    /// What the client is being asked, by the handler's numbers.
    pub(super) asks: BTreeMap<u64, AskId>,
    /// What the client has to come back with.
    pub(super) questions: Vec<PendingQuestion>,
}

impl Conversation {
    pub(super) fn has_messages(&self) -> bool {
        !self.messages.is_empty()
    }
}

/// Passes on what the handler said. What that means to the machine, if anything.
pub(super) fn pass_on(call: &mut Call, message: HandlerMessage) -> Option<Input> {
    match message {
        HandlerMessage::Progress(progress) => {
            let conversation = call.conversation();
            let reached = conversation.reached;
            if reached.is_some_and(|reached| progress.progress <= reached) {
                return None;
            }
            conversation.progress = Some(progress);
            Some(Input::Progress)
        }
        HandlerMessage::Log(log) => {
            call.route.send(|out| wire::log(out, &log));
            None
        }
        HandlerMessage::Ask(asking) => ask(call, asking),
        HandlerMessage::HangUp => {
            call.route.disconnect();
            None
        }
        HandlerMessage::Withdraw(number) => {
            let conversation = call.conversation();
            let questions = &mut conversation.questions;
            questions.retain(|asking| asking.number != number);
            let ask = conversation.asks.remove(&number)?;
            let was_last = conversation.asks.is_empty();
            if let Some(link) = call.link() {
                link.withdraw(ask, &call.route);
            }
            was_last.then_some(Input::Resume)
        }
    }
}

fn ask(call: &mut Call, asking: PendingQuestion) -> Option<Input> {
    let Way::Session(link) = &call.shared.caller.way else {
        call.conversation().questions.push(asking);
        return None;
    };
    let link = Arc::clone(link);
    let PendingQuestion {
        number,
        question,
        answer,
        ..
    } = asking;
    match link.ask(&question, answer, &call.route) {
        Ok(ask) => {
            let asks = &mut call.conversation().asks;
            let first = asks.is_empty();
            asks.insert(number, ask);
            first.then_some(Input::Wait)
        }
        Err((refusal, answer)) => {
            let _ = answer.send(Err(AskError::NotNow(refusal)));
            None
        }
    }
}

/// Sends the handler's progress.
pub(super) fn forward(call: &mut Call) {
    let Some(conversation) = &mut call.conversation else {
        return;
    };
    let progress = conversation.progress.take();
    let token = call.shared.caller.progress.as_ref();
    if let Some((progress, token)) = progress.zip(token) {
        conversation.reached = Some(progress.progress);
        call.route.send(|out| wire::progress(out, token, &progress));
    }
}
