//! Turns that are taken and moves that are made at once, for calls that need not wait.
//!
//! Nothing is decided here that is decided elsewhere: what becomes of an instance and what its
//! journal says is the same, in the same order. Whatever is out of the ordinary is left to those who
//! may wait, and then nothing has been done.

use super::{
    Books, Held, Instance, KeepError, MOST_RUNS, Made, Moved, Seen, Turn, approving::Asking,
    keeping::Writing, turn::Ending,
};
use crate::{
    baton::Bears,
    journal::{self, Told},
    route::lock,
};
use interlock_proto::Time;
use interlock_workflow::{Binding, BindingId, Instance as Run, Outcome, Workflow};
use serde_json::Value;
use std::sync::Arc;

impl Instance {
    /// The turn, if nobody has it.
    pub(crate) fn turn_at_once(self: &Arc<Self>) -> Option<Held> {
        let is_ours = self.turn.try_take();
        is_ours.then(|| Held::new(Arc::clone(self)))
    }

    /// Whether its journal can be told something that is not stored: not after its end, nor while
    /// somebody writes.
    fn may_be_told(&self, seen: &Seen) -> bool {
        !seen.ended && !self.pen.baton().is_taken()
    }

    /// Remembers that a call has ended which could not move it, until somebody writes that down.
    /// Nobody waits for that.
    pub(crate) fn ran(self: &Arc<Self>, books: &Books<'_>, bound: BindingId, outcome: Outcome) {
        let most = books.journal_limit.filter(|_| self.lives_here(books));
        {
            let mut seen = lock(&self.seen);
            if seen.ended {
                // Its journal is closed.
                return;
            }
            let at = seen.now_or_later(books.now);
            if let Some(most) = most
                && self.may_be_told(&seen)
            {
                return seen.tell(Told::Ran { at, bound, outcome }, most);
            }
            if seen.notes.len() >= MOST_RUNS {
                seen.unwritten.ran += 1;
                return;
            }
            let binding = books.workflow.binding(bound);
            let entry = journal::ran(at, binding, outcome, books.workflow);
            seen.notes.push(entry);
        }
        self.arm();
    }
}

/// A call that may run.
pub(crate) struct Judged<'w> {
    pub(crate) binding: &'w Binding,
    /// What it was judged on; nothing if it is bound where the instance stood and nobody but the
    /// state has a say in it.
    pub(super) on: Option<Arc<Run>>,
}

impl<'w> Judged<'w> {
    /// Nothing can refuse a call where it is bound so.
    pub(crate) const fn sure(binding: &'w Binding) -> Self {
        Self { binding, on: None }
    }
}

/// The turn of a call that nobody has written down. Its instance lives and dies with us, and if it is
/// over at once, nobody will ever have asked.
#[derive(Debug)]
pub(crate) struct Brief {
    held: Held,
    bound: BindingId,
    call: u64,
    /// When it must be over.
    until: Time,
}

impl Held {
    /// Whether its instance lives and dies with us.
    pub(crate) fn lives_here(&self, books: &Books<'_>) -> bool {
        self.instance.lives_here(books)
    }

    /// Judges a call on the instance as it is, if that has nothing to catch up with.
    pub(crate) fn judge_at_once<'w>(
        &self,
        books: &Books<'_>,
        judge: impl FnOnce(&Run) -> Option<&'w Binding>,
    ) -> Option<Judged<'w>> {
        let run = {
            let seen = lock(&self.instance.seen);
            let is_up_to_date = seen.is_up_to_date(books.now);
            is_up_to_date.then(|| Arc::clone(seen.known.run()))?
        };
        // Guards may be anybody's code, so nothing is locked by now.
        let binding = judge(&run)?;
        Some(Judged {
            binding,
            on: Some(run),
        })
    }

    /// Begins a call of an instance that lives and dies with us, of which nobody is told unless it
    /// takes its time. It is given back if the instance is not what the call was judged on.
    pub(crate) fn begin_at_once(
        self,
        books: &Books<'_>,
        judged: &Judged<'_>,
        until: Time,
    ) -> Result<Brief, Self> {
        debug_assert!(self.lives_here(books));
        let call = {
            let mut seen = lock(&self.instance.seen);
            let run = seen.known.run();
            let holds = match &judged.on {
                Some(on) => Arc::ptr_eq(on, run),
                None => judged.binding.is_at(run.position()) && run.held().is_none(),
            };
            (holds && seen.is_up_to_date(books.now)).then(|| seen.begin())
        };
        match call {
            Some(call) => Ok(Brief {
                held: self,
                bound: judged.binding.id(),
                call,
                until,
            }),
            None => Err(self),
        }
    }

    /// Writes "running call N" of the instance as it was judged, which must be over by then. It is
    /// given back if that takes waiting, or if somebody else has written.
    pub(crate) fn mark_at_once(
        self,
        books: &Books<'_>,
        judged: &Judged<'_>,
        made: Option<&Arc<Made>>,
        until: Time,
    ) -> Result<Result<Turn, KeepError>, Self> {
        let (binding, Some(on)) = (judged.binding, &judged.on) else {
            return Err(self);
        };
        let running = self.marking(self.next_call(), binding, made, until);
        let writing = Writing {
            running: Some(&running),
            asking: Asking::Void,
            ..Writing::unmoved(on, running.call)
        };
        match self.instance.write_at_once(books, writing) {
            Some(Ok(())) => Ok(Ok(self.into_turn(running, binding, true))),
            Some(Err(error)) if !error.is_conflict() => Ok(Err(error)),
            Some(Err(_)) | None => Err(self),
        }
    }
}

impl Brief {
    /// Takes the step for this end of the call, if nothing has to be worked out for that and nobody
    /// has to wait: the instance goes on, and its journal is to tell of it. Then the turn is given
    /// back. Else nothing has been done.
    pub(crate) fn commit(mut self, books: &Books<'_>, outcome: Outcome) -> Result<Moved, Self> {
        let workflow = books.workflow;
        let binding = workflow.binding(self.bound);
        let plain = binding.plain(outcome);
        let (Some(edge), Some(most)) = (plain, books.journal_limit) else {
            return Err(self);
        };
        let call = self.call;
        let went = self.held.give_back_after(|seen| {
            let before = seen.known.run().position();
            let is_usual = binding.is_at(before) && seen.is_stored() && seen.is_alone();
            is_usual.then(|| {
                let now = seen.now_or_later(books.now);
                let told = Told::Usual {
                    at: now,
                    call,
                    edge,
                };
                seen.tell(told, most);
                (seen.edition, seen.asked) = seen.asking(&Asking::Void);
                let go = |run: &mut Run| run.go_along(workflow, edge, now);
                (before, seen.known.goes_on(go))
            })
        });
        match went {
            Some((before, after)) => Ok(Moved::plainly(before, after)),
            None => Err(self),
        }
    }

    /// The call takes its time, or has an end that is out of the ordinary.
    pub(crate) fn into_turn(self, workflow: &Workflow, made: Option<&Arc<Made>>) -> Turn {
        let Self {
            held,
            bound,
            call,
            until,
        } = self;
        let binding = workflow.binding(bound);
        let running = held.marking(call, binding, made, until);
        held.into_turn(running, binding, false)
    }
}

impl Held {
    /// Does something to an instance that lives and dies with us, and gives the turn back with the
    /// same look. If that comes to nothing, or somebody has the pen, the turn is kept.
    fn give_back_after<T>(&mut self, work: impl FnOnce(&mut Seen) -> Option<T>) -> Option<T> {
        let instance = &self.instance;
        let (done, arranged) = {
            let mut seen = lock(&instance.seen);
            if !instance.may_be_told(&seen) {
                return None;
            }
            let done = work(&mut seen)?;
            seen.is_behind = true;
            self.has_turn = false;
            (done, instance.hand_on(&mut seen))
        };
        if let Some(arranged) = arranged {
            instance.arrange(arranged);
        }
        Some(done)
    }

    /// Takes over what is to be written of an instance that lives and dies with us, and gives the
    /// turn back: record and journal follow when somebody else is to read them. What is to be written
    /// is given back if the store knows nothing of the instance yet, or somebody has the pen.
    fn remember<'a>(&mut self, books: &Books<'_>, writing: Writing<'a>) -> Result<(), Writing<'a>> {
        let most = books.journal_limit.filter(|_| self.lives_here(books));
        let Some(most) = most else {
            return Err(writing);
        };
        let mut writing = Some(writing);
        self.give_back_after(|seen| {
            let is_usual = seen.is_stored();
            let is_known = |writing: &mut Writing<'_>| {
                is_usual && writing.what.is_some() && Arc::ptr_eq(writing.known, seen.known.run())
            };
            let mut writing = writing.take_if(is_known)?;
            writing.not_before(books.workflow, seen.now_or_later(books.now));
            if let Some(what) = writing.what.take() {
                seen.tell(what, most);
            }
            let asking = seen.asking(&writing.asking);
            seen.stands(writing, asking);
            Some(())
        });
        match writing {
            None => Ok(()),
            Some(writing) => Err(writing),
        }
    }
}

impl Seen {
    /// Whether nobody else runs a call, or has left one behind.
    const fn is_alone(&self) -> bool {
        self.lost.is_none() && self.elsewhere.is_none()
    }

    /// Whether there is nothing to catch up with.
    fn is_up_to_date(&self, now: Time) -> bool {
        let due = self.known.run().due();
        self.is_alone() && due.is_none_or(|due| now.0 < due)
    }

    /// Whether the store knows of it.
    const fn is_stored(&self) -> bool {
        self.version.is_some() && self.began.is_none()
    }

    /// The journal is to say so, after what was refused before.
    fn tell(&mut self, what: Told, most: u64) {
        if self.has_notes() {
            self.tell_notes(what.at(), most);
        }
        self.tail.push(what, most);
    }

    /// A call begins on the instance as it is, which counts as a change. Which call it is.
    fn begin(&mut self) -> u64 {
        self.calls = self.next_call();
        (self.edition, self.asked) = self.asking(&Asking::Void);
        self.calls
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
    /// be waited for and nothing follows that may take its time.
    pub(crate) fn commit_at_once(
        &mut self,
        books: &Books<'_>,
        outcome: Outcome,
        result: Option<&Value>,
    ) -> Option<Result<Moved, KeepError>> {
        let running = self.running.as_ref().filter(|_| !self.is_open)?;
        let run = &self.held.instance.run();
        let (at, binding) = (run.position(), books.workflow.binding(self.bound?));
        if !binding.is_at(at) {
            return None;
        }
        let end = (binding, outcome, result);
        let Ending {
            moved,
            writing,
            asks,
        } = self.held.ending(books, run, running, end);
        if asks || moved.set_off.is_some() {
            return None;
        }
        let written = match self.held.remember(books, writing) {
            Ok(()) => Ok(()),
            Err(writing) => self.held.instance.write_at_once(books, writing)?,
        };
        // If it failed, what became of the call is not known.
        if written.is_ok() {
            self.running = None;
        }
        Some(written.map(|()| moved))
    }
}
