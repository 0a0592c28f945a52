//! How a call that need not wait takes its turn and moves its instance: where it came in.

use super::Running;
use crate::{
    convert::{self, No},
    instance::{Held, Made},
};
use interlock_proto::invocation::Outcome;
use interlock_workflow::Pass;
use std::{sync::Arc, time::Duration};

impl Running {
    /// Judges the call on the state that is found, and writes down that it runs. The turn is given
    /// back if something has to be waited for or is not as usual; then nothing has been done.
    pub(super) fn turn_at_once(&mut self, held: Held) -> Result<Result<Duration, No>, Held> {
        if self.places.is_some() || self.unfinished().is_some() {
            return Err(held);
        }
        let inner = self.shared.caller.inner();
        let Some(workflow) = &inner.workflow else {
            return Err(held);
        };
        // It has only just come.
        let books = inner.books_at(workflow, self.at);
        let Some(run) = held.run_at_once(&books) else {
            return Err(held);
        };
        let call = Made::call(self.made.as_deref(), self.kind, &self.name);
        let judged = match self.bound_at(workflow, run.position()) {
            Some(binding) => workflow.judge_bound(&run, binding, &call),
            None => workflow.judge(&run, &call),
        };
        let binding = match judged {
            Ok(Pass::Bound(binding)) if binding.moves() && binding.approval().is_none() => binding,
            Ok(Pass::Bound(_) | Pass::Always) | Err(_) => return Err(held),
        };
        let execution = self.execution(binding.deadline());
        let until = inner.must_be_over(books.now, execution);
        let made = self.made.as_ref();
        let marked = held.mark_at_once(&books, (run, binding), made, until)?;
        Ok(match marked {
            Ok(turn) => {
                self.turn = Some(turn);
                Ok(execution)
            }
            Err(error) => Err(self.unsaved(error)),
        })
    }

    /// Writes down how the call ended. Whether that could be done without waiting for anything; if
    /// not, nothing has been done.
    pub(super) fn commit_at_once(&mut self, outcome: Outcome) -> bool {
        let inner = Arc::clone(self.inner());
        self.be_warned(outcome);
        let Some((turn, workflow)) = self.turn.as_mut().zip(inner.workflow.as_ref()) else {
            return false;
        };
        let reply = self.reply.as_ref().filter(|_| turn.reads_result());
        let result = reply.and_then(|reply| convert::result(self.kind, reply));
        let (books, outcome) = (inner.books(workflow), convert::outcome(outcome));
        let Some(committed) = turn.commit_at_once(&books, outcome, result.as_ref()) else {
            return false;
        };
        match committed {
            Ok(moved) => self.moved(workflow, &moved),
            Err(error) => self.lost_step(error),
        }
        self.turn = None;
        true
    }
}
