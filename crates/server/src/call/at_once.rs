//! How a call that need not wait takes its turn and moves its instance: where it came in.

use super::Running;
use crate::{
    convert::{self, No},
    instance::{Held, Judged, Made},
};
use interlock_proto::invocation::Outcome;
use interlock_workflow::{Binding, Instance as Run, Pass};
use std::time::Duration;

impl Running {
    /// Judges the call on the state that is found, and writes down that it runs where anybody could
    /// read that. The turn is given back if something has to be waited for or is not as usual; then nothing has been done.
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
        let lives_here = held.lives_here(&books);
        let is_usual = |it: &&Binding| it.moves() && !it.needs_approval();
        let bound = self.bound.map(|bound| workflow.binding(bound));
        let sure = bound.filter(|it| lives_here && is_usual(it) && !it.is_conditional());
        let judge = |run: &Run| {
            let call = Made::call(self.made.as_deref(), self.kind, &self.name);
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
        let judged = match sure {
            Some(binding) => Some(Judged::sure(binding)),
            None => held.judge_at_once(&books, judge),
        };
        let Some(judged) = judged else {
            return Err(held);
        };
        let execution = self.execution(judged.binding.deadline());
        let until = inner.must_be_over(books.now, execution);
        if lives_here {
            self.brief = Some(held.begin_at_once(&books, &judged, until)?);
            return Ok(Ok(execution));
        }
        Ok(
            match held.mark_at_once(&books, &judged, self.made.as_ref(), until)? {
                Ok(turn) => {
                    self.turn = Some(turn);
                    Ok(execution)
                }
                Err(error) => Err(self.unsaved(error)),
            },
        )
    }

    /// The call takes its time, or ends in a way that is out of the ordinary: its turn is one like
    /// any other.
    pub(super) fn lengthen(&mut self) {
        let inner = self.shared.caller.inner();
        if let Some((brief, workflow)) = self.brief.take().zip(inner.workflow.as_ref()) {
            self.turn = Some(brief.into_turn(workflow, self.made.as_ref()));
        }
    }

    /// Writes down how the call ended. Whether that could be done without waiting for anything; if
    /// not, nothing has been done.
    pub(super) fn end_at_once(&mut self, outcome: Outcome) -> bool {
        if self.has_turn() {
            return self.commit_at_once(outcome);
        }
        self.ran(outcome, self.at);
        true
    }

    fn commit_at_once(&mut self, outcome: Outcome) -> bool {
        self.be_warned(outcome);
        let inner = self.shared.caller.inner();
        let Some(workflow) = &inner.workflow else {
            return false;
        };
        let (books, outcome) = (inner.books(workflow), convert::outcome(outcome));
        if let Some(brief) = self.brief.take() {
            match brief.commit(&books, outcome) {
                Ok(moved) => {
                    self.moved(&moved);
                    return true;
                }
                Err(brief) => self.turn = Some(brief.into_turn(workflow, self.made.as_ref())),
            }
        }
        let Some(turn) = &mut self.turn else {
            return false;
        };
        let reply = self.reply.as_ref().filter(|_| turn.reads_result());
        let result = reply.and_then(|reply| convert::result(self.kind, reply));
        let committed = turn.commit_at_once(&books, outcome, result.as_ref());
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
