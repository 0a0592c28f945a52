//! Turns that are taken and moves that are made at once, for calls that need not wait.
//!
//! Nothing is decided here that is decided elsewhere: what is written is the same, in the same
//! order, by the same functions. Whatever is out of the ordinary is left to those who may wait, and
//! then nothing has been done.

use super::{
    Books, Held, Instance, KeepError, Made, Moved, Seen, Turn, approving::Asking, keeping::Writing,
    turn::Ending,
};
use crate::route::lock;
use interlock_proto::Time;
use interlock_workflow::{Binding, Instance as Run, Outcome};
use serde_json::Value;
use std::sync::Arc;

impl Instance {
    /// The turn, if nobody has it.
    pub(crate) fn turn_at_once(self: &Arc<Self>) -> Option<Held> {
        let grip = self.turn.try_take()?;
        Some(Held::new(Arc::clone(self), grip))
    }
}

impl Held {
    /// The instance as it is, if it has nothing to catch up with.
    pub(crate) fn run_at_once(&self, books: &Books<'_>) -> Option<Arc<Run>> {
        let run = {
            let seen = lock(&self.instance.seen);
            let is_alone = seen.lost.is_none() && seen.elsewhere.is_none();
            is_alone.then(|| Arc::clone(&seen.run))?
        };
        let is_due = books.workflow.expire(&run, books.now.0).is_some();
        (!is_due).then_some(run)
    }

    /// Writes "running call N" of the instance as it was judged, which must be over by then. It is
    /// given back if that takes waiting, or if somebody else has written.
    ///
    /// Of an instance that lives and dies with us, nobody would ever read that of a call that is over
    /// at once: there [`Turn::write_down`] writes it if the call takes its time.
    pub(crate) fn mark_at_once(
        self,
        books: &Books<'_>,
        (run, binding): (Arc<Run>, &Binding),
        made: Option<&Arc<Made>>,
        until: Time,
    ) -> Result<Result<Turn, KeepError>, Self> {
        if self.instance.lives_here(books) {
            let begun = lock(&self.instance.seen).begin(&run);
            let Some(call) = begun else {
                return Err(self);
            };
            let running = self.marking(call, binding, made, until);
            return Ok(Ok(self.into_turn(running, binding, false)));
        }
        let running = self.marking(self.next_call(), binding, made, until);
        let writing = Writing {
            running: Some(&running),
            asking: Asking::Void,
            ..Writing::unmoved(&run, running.call)
        };
        match self.instance.write_at_once(books, writing) {
            Some(Ok(())) => Ok(Ok(self.into_turn(running, binding, true))),
            Some(Err(error)) if !error.is_conflict() => Ok(Err(error)),
            Some(Err(_)) | None => Err(self),
        }
    }
}

impl Seen {
    /// A call begins on the instance as it was judged, which counts as a change. Which call it is;
    /// `None` if the instance is not that any more.
    fn begin(&mut self, judged: &Arc<Run>) -> Option<u64> {
        if !Arc::ptr_eq(judged, &self.run) {
            return None;
        }
        self.calls = self.next_call();
        (self.edition, self.asked) = self.asking(&Asking::Void);
        Some(self.calls)
    }
}

impl Turn {
    /// Writes down that the call runs, if that has not been done.
    pub(crate) async fn write_down(&mut self, books: &Books<'_>) {
        if let Some(writing) = self.begun() {
            let written = self.held.instance.write(books, writing).await;
            self.has_written(written);
        }
    }

    /// The same, if nobody has to wait for anything.
    pub(crate) fn write_down_at_once(&mut self, books: &Books<'_>) {
        if let Some(writing) = self.begun()
            && let Some(written) = self.held.instance.write_at_once(books, writing)
        {
            self.has_written(written);
        }
    }

    /// What says that the call runs, if that is not written yet.
    fn begun(&self) -> Option<Writing<'_>> {
        let running = self.running.as_ref().filter(|_| !self.is_written)?;
        let run = self.held.instance.run();
        Some(Writing {
            running: Some(running),
            ..Writing::unmoved(&run, running.call)
        })
    }

    fn has_written(&mut self, written: Result<(), KeepError>) {
        // Only those who look at it miss something if it could not be written.
        if let Err(error) = written {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "it could not be written down that a call runs");
        }
        self.is_written = true;
        self.version = lock(&self.held.instance.seen).version;
    }

    /// Takes the step for this end of the call, as [`commit`](Self::commit) does, if nothing has to
    /// be waited for and nothing follows that may take its time.
    pub(crate) fn commit_at_once(
        &mut self,
        books: &Books<'_>,
        outcome: Outcome,
        result: Option<&Value>,
    ) -> Option<Result<Moved, KeepError>> {
        let running = self.running.as_ref().filter(|_| !self.is_open)?;
        let run = self.held.instance.run();
        let (at, binding) = (run.position(), books.workflow.binding(self.bound?));
        if !binding.is_at(at) {
            return None;
        }
        let end = (binding, outcome, result);
        let Ending {
            moved,
            writing,
            asks,
        } = self.held.ending(books, &run, running, end);
        if asks || moved.set_off.is_some() {
            return None;
        }
        let written = self.held.instance.write_at_once(books, writing)?;
        // If it failed, what became of the call is not known.
        if written.is_ok() {
            self.running = None;
        }
        Some(written.map(|()| moved))
    }
}
