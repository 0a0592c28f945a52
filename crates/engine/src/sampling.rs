//! What a state asks the client's model, as an instance and its record know it.
//!
//! The step that leads to such a state and the note that somebody is being asked are one commit,
//! and so are the answer's step and the end of that note. Until then no other call moves the
//! instance. A question that is given up ends as one without an answer: at once if its call was
//! dropped here, else at its deadline.

use crate::{
    committed::Committed,
    error::EngineError,
    instance::Instance,
    journal::{Entry, What},
    lock,
    principal::Principal,
    record::{Question, Running},
    reservation::Reservation,
    turn::Turn,
};
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use interlock_proto::Time;
use interlock_workflow::{Instance as Run, Outcome, Trace};
use serde_json::Value;
use std::{sync::Arc, time::Duration};

/// How many characters of why there is no answer the journal keeps.
const MOST_WORDS: usize = 1_000;

/// Who is asked what a state asks, and how long that may take.
#[derive(Clone, Copy, Debug)]
pub struct Asker<'a> {
    /// Whose model is asked.
    pub principal: &'a Principal,
    /// How long the client has to answer.
    pub timeout: Duration,
    /// The client cannot be asked over its connection, and has to come back.
    pub comes_back: bool,
}

impl Asker<'_> {
    /// The note that somebody is being asked, by the call of that number. Effects of the step come
    /// before the question.
    pub(crate) fn question(self, instance: &Instance, of: &Running, effects: &[String]) -> Running {
        let before = instance.shared.effects.as_deref();
        let before = before.map(|all| all.time_for(effects)).unwrap_or_default();
        let until = instance.shared.now() + before + self.timeout;
        Running {
            until: until.0,
            input: None,
            question: Some(Box::new(Question {
                principal: self.principal.facts(),
                ticket: self.comes_back.then(ticket).flatten(),
            })),
            ..of.clone()
        }
    }
}

/// A word that cannot be guessed and is never made again.
fn ticket() -> Option<String> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).ok()?;
    Some(BASE64_URL_SAFE_NO_PAD.encode(random))
}

impl Turn {
    /// Takes up the question of a client that comes back with its answer. `None` if that is not
    /// what is waited for: the ticket has been used, is too late, or never was.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub async fn resume(self, ticket: &str) -> Result<Option<Reservation>, EngineError> {
        let instance = &self.instance;
        instance.reload().await?;
        let running = lock(&instance.state).occupancy.elsewhere.clone();
        let now = instance.shared.now().0;
        let is_meant =
            |running: &Arc<Running>| running.ticket() == Some(ticket) && now < running.until;
        let running = running.filter(is_meant);
        Ok(running.map(|running| Reservation::resumed(self, running)))
    }

    /// A question was given up, so there is no answer.
    pub(crate) async fn unanswered(
        &self,
        run: &Arc<Run>,
        asked: &Running,
    ) -> Result<Option<Committed>, EngineError> {
        let why = if asked.until <= self.instance.shared.now().0 {
            "the client did not answer in time"
        } else {
            "the call was dropped while the client was asked"
        };
        self.answered(run, asked, Err(why), None).await
    }

    /// Commits the step for an answer, or for none. `None` if the state asks nothing, which the
    /// note rules out.
    async fn answered(
        &self,
        run: &Arc<Run>,
        asked: &Running,
        answer: Result<&Value, &str>,
        asker: Option<Asker<'_>>,
    ) -> Result<Option<Committed>, EngineError> {
        let unknown = Value::Null;
        let principal = asked.question.as_ref().map(|question| &question.principal);
        let principal = principal.unwrap_or(&unknown);
        let workflow = self.instance.workflow();
        let Some(step) = workflow.sampled(run, answer.ok(), principal) else {
            self.clear(run, None).await?;
            return Ok(None);
        };
        let outcome = match answer {
            Ok(_) => Outcome::Success,
            Err(_) => Outcome::Error,
        };
        let why = answer.err().map(|why| why.chars().take(MOST_WORDS));
        let why = why.map(Iterator::collect);
        let now = self.instance.shared.now().0;
        let entry = |trace: Trace| {
            let what = What::Sampled {
                outcome,
                why,
                trace,
            };
            Entry::new(now, Some(asked.call), what)
        };
        let asker = asker.map(|asker| (asker, asked));
        let mut committed = self.commit_step(run, step, entry, asker).await?;
        if let Some(effects) = &mut committed.effects {
            effects.done.outcome = Some(outcome);
            effects.done.principal = Principal::of_facts(principal);
        }
        Ok(Some(committed))
    }
}

/// What a state asks the client's model, once a step has led there.
impl Reservation {
    fn question(&self) -> Option<&Arc<Running>> {
        let running = self.running.as_ref();
        running.filter(|running| running.question.is_some())
    }

    /// Whether the client's model is to be asked, or has been.
    pub fn asks(&self) -> bool {
        self.question().is_some()
    }

    /// Whether the question waits for a client that comes back; dropped, it stays open and is not
    /// lost.
    pub const fn waits_for_client(&self) -> bool {
        self.waits_for_client
    }

    /// What the client comes back with.
    pub fn ticket(&self) -> Option<&str> {
        self.running.as_ref()?.ticket()
    }

    /// When the answer has to be there.
    pub fn until(&self) -> Option<Time> {
        self.running.as_ref().map(|running| Time(running.until))
    }

    /// Commits the step for an answer, or for why there is none. `None` if nobody was asked, or
    /// another process has moved the instance, which makes the answer void.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub async fn sampled(
        &mut self,
        answer: Result<&Value, &str>,
        asker: Asker<'_>,
    ) -> Result<Option<Committed>, EngineError> {
        let Some(asked) = self.question().cloned() else {
            return Ok(None);
        };
        let instance = Arc::clone(self.instance());
        let run = {
            let state = lock(&instance.state);
            let occupancy = &state.occupancy;
            let open = occupancy.running.as_ref().or(occupancy.elsewhere.as_ref());
            open.is_some_and(|open| Arc::ptr_eq(open, &asked))
                .then(|| Arc::clone(state.run()))
        };
        let Some(run) = run else {
            self.running = None;
            return Ok(None);
        };
        match self.turn.answered(&run, &asked, answer, Some(asker)).await {
            Ok(mut committed) => {
                self.running = committed.as_mut().and_then(|done| done.asks.take());
                self.waits_for_client = false;
                Ok(committed)
            }
            Err(error) if error.is_conflict() => {
                self.running = None;
                instance.reload().await?;
                Ok(None)
            }
            // The question is lost with the reservation, and the timers look after it.
            Err(error) => Err(error),
        }
    }

    /// Nobody is asked what the state asks: the instance waits there, and the journal says why.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub async fn unasked(&mut self, why: &str) -> Result<(), EngineError> {
        let Some(running) = self.question().cloned() else {
            return Ok(());
        };
        let instance = self.instance();
        let run = instance.run();
        let state = instance.workflow().state_name(run.position().state);
        let what = What::Unasked {
            state: state.to_owned(),
            why: why.to_owned(),
        };
        let entry = Entry::new(instance.shared.now().0, Some(running.call), what);
        self.turn.clear(&run, Some(entry.into())).await?;
        self.running = None;
        Ok(())
    }

    /// The client has been told to come back. The first to come back goes on.
    pub fn leave_open(mut self) {
        self.waits_for_client = true;
    }
}
