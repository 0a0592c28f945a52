//! How a call that need not wait takes its turn and moves its instance: where it came in.

use super::Running;
use crate::{
    convert::{self, No},
    instance::{Held, Made},
};
use interlock_proto::invocation::Outcome;
use interlock_workflow::{Binding, Instance as Run, Pass};
use std::time::Duration;

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
        let call = Made::call(self.made.as_deref(), self.kind, &self.name);
        let is_usual = |it: &&Binding| it.moves() && it.approval().is_none();
        let sure = self.bound.map(|bound| workflow.binding(bound));
        let sure = sure.filter(|it| is_usual(it) && !it.is_conditional());
        let judge = |run: &Run| {
            let judged = match self.bound_at(workflow, run.position()) {
                Some(binding) => workflow.judge_bound(run, binding, &call),
                None => workflow.judge(run, &call),
            };
            match judged {
                Ok(Pass::Bound(binding)) => Some(binding),
                Ok(Pass::Always) | Err(_) => None,
            }
            .filter(is_usual)
        };
        let Some(judged) = held.judge_at_once(&books, sure, judge) else {
            return Err(held);
        };
        let execution = self.execution(judged.binding.deadline());
        let until = inner.must_be_over(books.now, execution);
        let made = self.made.as_ref();
        let marked = held.mark_at_once(&books, judged, made, until)?;
        Ok(match marked {
            Ok((turn, sight)) => {
                self.turn = Some(turn);
                self.sees(sight);
                Ok(execution)
            }
            Err(error) => Err(self.unsaved(error)),
        })
    }

    /// Writes down how the call ended. Whether that could be done without waiting for anything; if
    /// not, nothing has been done.
    pub(super) fn commit_at_once(&mut self, outcome: Outcome) -> bool {
        self.be_warned(outcome);
        let inner = self.shared.caller.inner();
        let Some((turn, workflow)) = self.turn.as_mut().zip(inner.workflow.as_ref()) else {
            return false;
        };
        let reply = self.reply.as_ref().filter(|_| turn.reads_result());
        let result = reply.and_then(|reply| convert::result(self.kind, reply));
        let (books, outcome) = (inner.books(workflow), convert::outcome(outcome));
        let seen = self.shared.sight.as_ref();
        let committed = turn.commit_at_once(&books, outcome, result.as_ref(), seen);
        let Some(committed) = committed else {
            return false;
        };
        match committed {
            Ok(moved) => self.moved(&moved),
            Err(error) => self.lost_step(error),
        }
        self.turn = None;
        true
    }
}
