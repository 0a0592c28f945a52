//! Turns that are taken and moves that are made at once, for calls that need not wait.
//!
//! Nothing is decided here that is decided elsewhere: what is written is the same, in the same
//! order, by the same functions. Whatever is out of the ordinary is left to those who may wait, and
//! then nothing has been done.

use super::{
    Books, Held, Instance, KeepError, Made, Moved, Seen, Sight, Turn, approving::Asking,
    keeping::Writing, turn::Ending,
};
use crate::route::lock;
use interlock_proto::Time;
use interlock_workflow::{Binding, Instance as Run, Outcome};
use serde_json::Value;
use std::sync::Arc;

impl Instance {
    /// The turn, if nobody has it.
    pub(crate) fn turn_at_once(self: &Arc<Self>) -> Option<Held> {
        let is_ours = self.turn.try_take();
        is_ours.then(|| Held::new(Arc::clone(self)))
    }
}

/// A call that may run, and what it was judged on.
pub(crate) struct Judged<'w> {
    pub(crate) sight: Sight,
    pub(crate) binding: &'w Binding,
    /// Which call it is, if it has begun already.
    begun: Option<u64>,
    spare: Option<Arc<Run>>,
}

impl Held {
    /// Judges a call on the instance as it is, if that has nothing to catch up with.
    ///
    /// Where nothing can refuse a call that is bound there, it is `sure` to run. Then it begins with
    /// the same look, if the instance lives and dies with us.
    pub(crate) fn judge_at_once<'w>(
        &self,
        books: &Books<'_>,
        sure: Option<&'w Binding>,
        judge: impl FnOnce(&Run) -> Option<&'w Binding>,
    ) -> Option<Judged<'w>> {
        let sure = sure.filter(|_| self.instance.lives_here(books));
        let (sight, begun, spare) = {
            let mut seen = lock(&self.instance.seen);
            let run = seen.known.run();
            let is_alone = seen.lost.is_none() && seen.elsewhere.is_none();
            let is_due = run.due().is_some_and(|due| due <= books.now.0);
            if !is_alone || is_due {
                return None;
            }
            let (at, is_free) = (run.position(), run.held().is_none());
            let sure = sure.filter(|binding| binding.is_at(at) && is_free);
            let begun = sure.map(|binding| (binding, seen.begin()));
            (seen.known.sight(), begun, seen.spare.take())
        };
        // Guards may be anybody's code, so nothing is locked by now.
        let (binding, begun) = match begun {
            Some((binding, call)) => (binding, Some(call)),
            None => (judge(&sight.run)?, None),
        };
        Some(Judged {
            sight,
            binding,
            begun,
            spare,
        })
    }

    /// Writes "running call N" of the instance as it was judged, which must be over by then. It is
    /// given back if that takes waiting, or if somebody else has written.
    ///
    /// Of an instance that lives and dies with us, nobody would ever read that of a call that is over
    /// at once: there [`Turn::write_down`] writes it if the call takes its time.
    pub(crate) fn mark_at_once(
        self,
        books: &Books<'_>,
        judged: Judged<'_>,
        made: Option<&Arc<Made>>,
        until: Time,
    ) -> Result<Result<(Turn, Sight), KeepError>, Self> {
        let Judged {
            sight,
            binding,
            begun,
            spare,
        } = judged;
        let follows = self.instance.lives_here(books);
        let call = match begun {
            None if follows => lock(&self.instance.seen).begin_on(&sight.run),
            None => Some(self.next_call()),
            Some(_) => begun,
        };
        let Some(call) = call else {
            return Err(self);
        };
        let running = self.marking(call, binding, made, until);
        if !follows {
            let writing = Writing {
                running: Some(&running),
                asking: Asking::Void,
                ..Writing::unmoved(&sight.run, running.call)
            };
            match self.instance.write_at_once(books, writing) {
                Some(Ok(())) => {}
                Some(Err(error)) if !error.is_conflict() => return Ok(Err(error)),
                Some(Err(_)) | None => return Err(self),
            }
        }
        let mut turn = self.into_turn(running, binding, !follows);
        turn.spare = spare;
        Ok(Ok((turn, sight)))
    }
}

impl Seen {
    /// A call begins on the instance as it is, which counts as a change. Which call it is.
    fn begin(&mut self) -> u64 {
        self.calls = self.next_call();
        (self.edition, self.asked) = self.asking(&Asking::Void);
        self.calls
    }

    /// The same on the instance as it was judged; `None` if it is not that any more.
    fn begin_on(&mut self, judged: &Arc<Run>) -> Option<u64> {
        Arc::ptr_eq(judged, self.known.run()).then(|| self.begin())
    }
}

impl Turn {
    /// Writes down that the call runs, if that has not been done.
    pub(crate) async fn write_down(&mut self, books: &Books<'_>) {
        if self.is_written {
            return;
        }
        let run = self.held.instance.run();
        if let Some(writing) = self.begun(&run) {
            let written = self.held.instance.write(books, writing).await;
            self.has_written(written);
        }
    }

    /// The same, if nobody has to wait for anything.
    pub(crate) fn write_down_at_once(&mut self, books: &Books<'_>) {
        if self.is_written {
            return;
        }
        let run = self.held.instance.run();
        if let Some(writing) = self.begun(&run)
            && let Some(written) = self.held.instance.write_at_once(books, writing)
        {
            self.has_written(written);
        }
    }

    /// What says that the call runs.
    fn begun<'a>(&'a self, run: &'a Arc<Run>) -> Option<Writing<'a>> {
        let running = self.running.as_ref()?;
        Some(Writing {
            running: Some(running),
            ..Writing::unmoved(run, running.call)
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
    /// be waited for and nothing follows that may take its time. Whoever has seen the instance since
    /// the turn was taken spares it another look, if it still stands so.
    pub(crate) fn commit_at_once(
        &mut self,
        books: &Books<'_>,
        outcome: Outcome,
        result: Option<&Value>,
        sight: Option<&Sight>,
    ) -> Option<Result<Moved, KeepError>> {
        let running = self.running.as_ref().filter(|_| !self.is_open)?;
        let instance = &self.held.instance;
        let looked;
        let run = match sight.filter(|sight| instance.is_still(sight)) {
            Some(sight) => &sight.run,
            None => {
                looked = instance.run();
                &looked
            }
        };
        let (at, binding) = (run.position(), books.workflow.binding(self.bound?));
        if !binding.is_at(at) {
            return None;
        }
        let end = (binding, outcome, result);
        let Ending {
            moved,
            writing,
            asks,
        } = self
            .held
            .ending(books, run, running, end, self.spare.take());
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
