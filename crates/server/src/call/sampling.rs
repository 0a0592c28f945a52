//! How a call asks its client's model what the state asks that it has led to.
//!
//! This is part of the commit: the step is taken, its lists are announced and its effects have run,
//! and the call has not been answered. A client with a connection is asked over it and waited for.
//! One of 2026-07-28 is told to come back, and what is left of the call travels with it, sealed;
//! when it comes back, no handler runs again. What is decided here is decided in
//! [`crate::sampling`].

use super::{No, Running};
use crate::{
    ask::AskError,
    caller::Way,
    clock,
    convert::{self, Answer},
    handler::{Prepared, Reply},
    instance::{Asker, Held, Instance, Moved, Turn},
    sampling::{self, Lapsed, Next, Reach, Said, Unfinished},
};
use interlock_proto::{Ability, Code, Refusal, invocation::Effect};
use interlock_workflow::{Outcome, Workflow};
use serde_json::Value;
use std::{sync::Arc, time::Duration};
use tokio::sync::oneshot;

impl Running {
    /// Whom the states ask that the call leads to.
    pub(super) fn asker(&self) -> Asker<'_> {
        let caller = &self.shared.caller;
        Asker {
            principal: &caller.principal,
            patience: self.inner().ask_timeout,
            comes_back: match &caller.way {
                Way::Session(_) => false,
                Way::Alone { .. } => true,
            },
        }
    }

    /// What is left of the call, if its client has come back with an answer.
    pub(super) fn unfinished(&self) -> Option<&Unfinished> {
        match &self.shared.caller.way {
            Way::Alone { round, .. } => round.unfinished(),
            Way::Session(_) => None,
        }
    }

    /// The client has come back to this instance: no handler runs, and in the end the call is
    /// answered with what was said before.
    pub(super) fn take_up(&mut self, instance: &Instance) -> Result<(), No> {
        let unfinished = self.unfinished();
        let unfinished = unfinished.filter(|left| left.instance == **instance.id());
        let unfinished = unfinished.cloned();
        let Some(Unfinished {
            told,
            warning,
            said,
            ..
        }) = unfinished
        else {
            return Err(sampling::spent().into());
        };
        self.told = told;
        self.warning = warning;
        self.kept = Some(Box::new(said));
        self.places = None;
        self.handler = Some(Prepared::new(|_| {
            let nothing = Reply::Text(Default::default());
            std::future::ready(Ok(nothing))
        }));
        Ok(())
    }

    /// Takes the turn at an instance that waits for this client. The ticket is good for once: it is
    /// gone with the step that the answer takes.
    pub(super) async fn resume(&mut self, held: Held, workflow: &Workflow) -> Result<Duration, No> {
        let inner = Arc::clone(self.inner());
        let Some(unfinished) = self.unfinished() else {
            return Err(sampling::spent().into());
        };
        match held.resume(inner.books(workflow), &unfinished.ticket).await {
            Ok(Some(turn)) => {
                self.turn = Some(turn);
                Ok(inner.times.execution)
            }
            Ok(None) => Err(sampling::spent().into()),
            Err(error) => Err(self.unsaved(error)),
        }
    }

    /// Goes on with what the client has come back with.
    pub(super) async fn go_on(&mut self, workflow: &Workflow, mut turn: Turn, outcome: Outcome) {
        let shared = Arc::clone(&self.shared);
        let Way::Alone { round, .. } = &shared.caller.way else {
            return;
        };
        // Whoever was kept from going on may come back another time.
        let Some(unfinished) = round.unfinished().filter(|_| outcome == Outcome::Success) else {
            return;
        };
        let asked = unfinished.asked;
        let answer = match round.answer(&sampling::key(asked)) {
            Some(said) => sampling::answer(Ok(said)),
            // It is asked again, as if it had not come back.
            None => match self.come_back(workflow, &turn, asked) {
                Ok(()) => return turn.leave_open(),
                Err(why) => Err(why),
            },
        };
        let no = match self.take_answer(workflow, &mut turn, answer).await {
            Ok(true) => return self.ask_model(workflow, turn, asked).await,
            // Somebody else was faster.
            Ok(false) => sampling::spent().into(),
            Err(no) => no,
        };
        self.kept = None;
        self.reply = None;
        self.no = Some(no);
    }

    /// Asks what the state asks that the last step has led to, and goes on until nothing is asked.
    /// So many questions have been asked in this call before.
    pub(super) async fn ask_model(
        &mut self,
        workflow: &Workflow,
        mut turn: Turn,
        mut asked: usize,
    ) {
        while turn.asks() {
            let next = sampling::next(asked, self.reach());
            asked += 1;
            let answer = match next {
                Next::Ask => self.ask_for_sample(workflow, &turn).await,
                Next::ComeBack => match self.come_back(workflow, &turn, asked) {
                    Ok(()) => return turn.leave_open(),
                    Err(why) => Err(why),
                },
                Next::Fail(why) => Err(why),
                Next::Leave(why) => {
                    let inner = Arc::clone(self.inner());
                    if let Err(error) = turn.unasked(inner.books(workflow), &why).await {
                        self.unsaved(error);
                    }
                    return;
                }
            };
            // If the step could not be saved, what the call did holds all the same and is
            // answered, and the question ends without an answer.
            let Ok(true) = self.take_answer(workflow, &mut turn, answer).await else {
                return;
            };
        }
    }

    /// How the client can be asked now.
    fn reach(&mut self) -> Reach {
        while self.signals.ready().is_some() {}
        let caller = &self.shared.caller;
        if self.signals.has_heard_cancel() {
            return Reach::TookBack;
        }
        if self.signals.has_heard_shut_down() {
            return Reach::Ending;
        }
        match (caller.can(Ability::Sampling), &caller.way) {
            (Err(refusal), _) => Reach::Unable(refusal),
            (Ok(()), Way::Session(_)) => Reach::Here,
            (Ok(()), Way::Alone { .. }) => Reach::ComesBack,
        }
    }

    /// Asks the client over its connection, and waits. The call's own clock does not run: it has
    /// ended.
    async fn ask_for_sample(&mut self, workflow: &Workflow, turn: &Turn) -> Result<Value, String> {
        let shared = Arc::clone(&self.shared);
        let principal = shared.caller.principal.facts();
        let question = sampling::question(workflow, &turn.run(), &principal);
        let (Way::Session(peer), Some(question)) = (&shared.caller.way, question) else {
            return sampling::answer(Err(AskError::Ended));
        };
        let clock = &*shared.caller.inner().clock;
        let late = clock.now() + shared.caller.inner().ask_timeout;
        let (sender, answer) = oneshot::channel();
        let ask = match peer.ask(&question, sender, &self.route) {
            Ok(ask) => ask,
            Err((refusal, _)) => return sampling::answer(Err(AskError::NotNow(refusal))),
        };
        // However the call ends, the question is taken back.
        let number = shared.voice.number();
        self.dialogue().asks.insert(number, ask);
        let said = tokio::select! {
            biased;
            said = answer => Some(said.unwrap_or(Err(AskError::Ended))),
            _ = self.signals.next() => None,
            () = clock::sleep_until(clock, Some(late)) => Some(Err(AskError::Late)),
        };
        self.dialogue().asks.remove(&number);
        peer.withdraw(ask, &self.route);
        match said {
            Some(said) => sampling::answer(said),
            None => Err(self.reach().obstacle().unwrap_or_default()),
        }
    }

    /// Tells the client to come back, with all that is left of the call.
    fn come_back(&mut self, workflow: &Workflow, turn: &Turn, asked: usize) -> Result<(), String> {
        let cannot = || "the client cannot be told to come back".to_owned();
        let principal = self.shared.caller.principal.facts();
        let question = sampling::question(workflow, &turn.run(), &principal);
        let question = question.ok_or_else(cannot)?;
        let instance = self.shared.instance().ok_or_else(cannot)?;
        let unfinished = Unfinished {
            instance: instance.id().to_string(),
            ticket: turn.ticket().ok_or_else(cannot)?.to_owned(),
            asked,
            told: self.told.clone(),
            warning: self.warning.clone(),
            said: self.to_be_said().ok_or_else(cannot)?,
        };
        let until = turn.until().ok_or_else(cannot)?;
        let Way::Alone { round, .. } = &self.shared.caller.way else {
            return Err(cannot());
        };
        let question = (sampling::key(asked), &question);
        let sealer = &self.shared.caller.inner().sealer;
        let asks = round.ask_at_the_end(sealer, question, unfinished, until);
        let mut asks = asks.map_err(|refusal| refusal.message().to_owned())?;
        asks["_meta"] = self.stamp().meta().into();
        self.said = Some(Answer::Asks(asks));
        Ok(())
    }

    /// What the call would be answered with now.
    fn to_be_said(&self) -> Option<Said> {
        if let Some(said) = &self.kept {
            return Some(Said::clone(said));
        }
        let stamp = self.inner().stamp(self.shared.caller.version, None);
        if let Some(Effect::Refuse(refusal)) = self.orders.peek() {
            let no = No::from(Refusal::clone(refusal));
            return Said::of(&convert::refused(self.kind, no, stamp));
        }
        match self.reply.as_ref()? {
            Ok(reply) => Said::of_reply(reply),
            Err(failure) => Said::of(&convert::failed(self.kind, failure, stamp)),
        }
    }

    /// Takes the step for an answer, or for none, and does what follows. False: it was not taken,
    /// as somebody else has moved the instance.
    async fn take_answer(
        &mut self,
        workflow: &Workflow,
        turn: &mut Turn,
        answer: Result<Value, String>,
    ) -> Result<bool, No> {
        let inner = Arc::clone(self.inner());
        let said = answer.as_ref().map_err(String::as_str);
        let sampled = turn.sampled(inner.books(workflow), said, self.asker());
        match sampled.await {
            Ok(Some(moved)) => {
                self.follow(workflow, turn, moved, |_| answer.ok()).await;
                Ok(true)
            }
            Ok(None) => {
                let name = &*self.name;
                tracing::warn!(name, "an instance moved while its client was asked");
                self.after = None;
                Ok(false)
            }
            Err(error) => Err(self.unsaved(error)),
        }
    }

    /// What follows a step: everybody hears of it, and what it sets off runs.
    pub(super) async fn follow(
        &mut self,
        workflow: &Workflow,
        turn: &mut Turn,
        mut moved: Moved,
        result: impl FnOnce(&Self) -> Option<Value> + Send,
    ) {
        let set_off = moved.set_off.take();
        self.moved(&moved);
        let Some(mut set_off) = set_off else {
            return;
        };
        let inner = Arc::clone(self.inner());
        let effects = inner.effects.as_ref();
        if effects.is_some_and(|effects| effects.want_result(&set_off.names)) {
            set_off.done.result = result(self);
        }
        if let Some(moved) = turn.perform(inner.books(workflow), *set_off).await {
            self.moved(&moved);
        }
    }

    /// Answers with what was said before its client was told to come back.
    pub(super) fn respond_as_kept(&mut self, said: Said) {
        let answer = match said.restored(self.kind) {
            Ok(mut reply) => {
                self.warn_in(&mut reply);
                convert::replied(reply, self.stamp())
            }
            Err(Lapsed::Error(code, mut error)) => {
                if let (Some(warning), Some(message)) =
                    (self.warning.take(), error["message"].as_str())
                {
                    error["message"] = format!("{message} {warning}").into();
                }
                Answer::Error(code, error)
            }
            Err(Lapsed::Unreadable) => No::from(Refusal::new(Code::InternalError)).into(),
        };
        self.said = Some(answer);
    }
}
