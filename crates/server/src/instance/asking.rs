//! What a state asks the client's model, as an instance and its record know it.
//!
//! The step that leads to such a state and the note that somebody is being asked are one commit,
//! and so are the answer's step and the end of that note. Until then nobody else moves the
//! instance. A question of which nobody hears any more ends as one without an answer: at once if
//! its call was dropped here, else at its deadline.

use super::{
    Books, Held, KeepError, Moved, Turn,
    stored::{Question, Running},
};
use crate::{
    journal::{Entry, What},
    principal::Principal,
    route::lock,
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
pub(crate) struct Asker<'a> {
    pub(crate) principal: &'a Principal,
    pub(crate) patience: Duration,
    /// The client cannot be asked over its connection, and has to come back.
    pub(crate) comes_back: bool,
}

impl Asker<'_> {
    /// The note that somebody is being asked, by the call that was `of` that number. Effects of
    /// the step come before the question.
    pub(super) fn question(self, books: &Books<'_>, of: &Running, effects: &[String]) -> Running {
        let before = books.effects.map(|all| all.time_for(effects));
        let until = books.now + before.unwrap_or_default() + self.patience;
        Running {
            until: until.0,
            made: None,
            question: Some(Box::new(Question {
                principal: self.principal.facts(),
                ticket: self.comes_back.then(ticket).flatten(),
            })),
            ..of.clone()
        }
    }
}

/// A word that nobody can guess and that is never made again.
fn ticket() -> Option<String> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).ok()?;
    Some(BASE64_URL_SAFE_NO_PAD.encode(random))
}

impl Held {
    /// The instance as a client left it that now comes back with an answer. `None` if that is not
    /// what is waited for: the ticket has been used, is too late, or never was.
    pub(crate) async fn resume(
        self,
        books: Books<'_>,
        ticket: &str,
    ) -> Result<Option<Turn>, KeepError> {
        self.instance.reload(&books).await?;
        let (running, version) = {
            let seen = lock(&self.instance.seen);
            (seen.elsewhere.clone(), seen.version)
        };
        let is_meant =
            |running: &Running| running.ticket() == Some(ticket) && books.now.0 < running.until;
        Ok(running.filter(is_meant).map(|running| Turn {
            held: self,
            reads_result: false,
            bound: None,
            running: Some(running),
            version,
            is_written: true,
            is_open: true,
        }))
    }

    /// Nobody hears of a question any more, so there is no answer.
    pub(super) async fn unanswered(
        &self,
        books: &Books<'_>,
        run: &Arc<Run>,
        asked: &Running,
    ) -> Result<Option<Moved>, KeepError> {
        let why = if asked.until <= books.now.0 {
            "the client did not answer in time"
        } else {
            "the call was dropped while the client was asked"
        };
        self.answered(books, run, asked, Err(why), None).await
    }

    /// Takes the step for an answer, or for none. `None` if the state asks nothing, which the note
    /// rules out.
    async fn answered(
        &self,
        books: &Books<'_>,
        run: &Arc<Run>,
        asked: &Running,
        answer: Result<&Value, &str>,
        asker: Option<Asker<'_>>,
    ) -> Result<Option<Moved>, KeepError> {
        let nobody = Value::Null;
        let principal = asked.question.as_ref().map(|question| &question.principal);
        let principal = principal.unwrap_or(&nobody);
        let Some(step) = books.workflow.sampled(run, answer.ok(), principal) else {
            self.clear(books, run, asked, None).await?;
            return Ok(None);
        };
        let outcome = match answer {
            Ok(_) => Outcome::Success,
            Err(_) => Outcome::Error,
        };
        let why = answer.err().map(|why| why.chars().take(MOST_WORDS));
        let why = why.map(Iterator::collect);
        let entry = |trace: Trace| {
            let what = What::Sampled {
                outcome,
                why,
                trace,
            };
            Entry::new(books.now.0, Some(asked.call), what)
        };
        let asker = asker.map(|asker| (asker, asked));
        let taken = self.take_asking(books, run, step, entry, asker);
        let mut moved = taken.await?;
        if let Some(set_off) = &mut moved.set_off {
            set_off.done.outcome = Some(outcome);
            set_off.done.principal = Principal::of_facts(principal);
        }
        Ok(Some(moved))
    }
}

impl Turn {
    /// Whether the client's model is to be asked, or has been.
    pub(crate) fn asks(&self) -> bool {
        let running = self.running.as_ref();
        running.is_some_and(|running| running.question.is_some())
    }

    /// Whether the client has been told to come back with the answer.
    pub(crate) const fn is_open(&self) -> bool {
        self.is_open
    }

    /// What the client comes back with.
    pub(crate) fn ticket(&self) -> Option<&str> {
        self.running.as_ref()?.ticket()
    }

    /// When the answer has to be there.
    pub(crate) fn until(&self) -> Option<Time> {
        self.running.as_ref().map(|running| Time(running.until))
    }

    /// The instance as it asks.
    pub(crate) fn run(&self) -> Arc<Run> {
        self.held.instance.run()
    }

    /// Takes the step for an answer, or says why there is none; the turn is kept until it is
    /// dropped. `None` if nobody was asked, or somebody else has moved the instance, which makes
    /// the answer void.
    pub(crate) async fn sampled(
        &mut self,
        books: Books<'_>,
        answer: Result<&Value, &str>,
        asker: Asker<'_>,
    ) -> Result<Option<Moved>, KeepError> {
        let Some(asked) = self.running.as_ref().filter(|_| self.asks()) else {
            return Ok(None);
        };
        let (run, version) = {
            let seen = lock(&self.held.instance.seen);
            (Arc::clone(seen.known.run()), seen.version)
        };
        if version != self.version {
            self.running = None;
            return Ok(None);
        }
        let answered = self.held.answered(&books, &run, asked, answer, Some(asker));
        match answered.await {
            Ok(mut moved) => {
                self.goes_on_with(moved.as_mut().and_then(|moved| moved.asks.take()));
                self.is_open = false;
                Ok(moved)
            }
            Err(error) if error.is_conflict() => {
                self.running = None;
                self.held.instance.reload(&books).await?;
                Ok(None)
            }
            // It is lost with the turn, and somebody looks after it.
            Err(error) => Err(error),
        }
    }

    /// Nobody is asked what the state asks: the instance waits there, and the journal says why.
    pub(crate) async fn unasked(&mut self, books: Books<'_>, why: &str) -> Result<(), KeepError> {
        let Some(running) = self.running.as_ref().filter(|_| self.asks()) else {
            return Ok(());
        };
        let run = self.held.instance.run();
        let what = What::Unasked {
            state: books.workflow.state_name(run.position().state).to_owned(),
            why: why.to_owned(),
        };
        let entry = Entry::new(books.now.0, Some(running.call), what);
        self.held.clear(&books, &run, running, Some(entry)).await?;
        self.running = None;
        Ok(())
    }

    /// The client has been told to come back, and whoever comes first goes on.
    pub(crate) fn leave_open(mut self) {
        self.is_open = true;
    }
}
