//! Questions: the one who is asked, a stranger, three answers, two clocks.

use super::{Exhaustive, Modelled, Moment, Notes, always, check, millis, sometimes};
use crate::subject::Subject;
use interlock_proto::{
    Code, Time,
    elicitation::{Answer, Effect, End, Input, Rules, State, Who},
};
use stateright::Property;
use std::time::Duration;

const RULES: Rules = Rules {
    ttl: millis(10),
    cleanup: millis(5),
};

/// How it ended first.
type Memory = Option<End>;

impl Modelled for Rules {
    type Memory = Memory;
    const TIMES: &'static [u64] = &[0, 4, 5, 9, 10, 14, 15, 20];
    const LONGEST: Duration = millis(10);

    fn must_end(state: &State, (): &()) -> bool {
        *state != State::CleanedUp
    }

    fn judge(notes: &mut Notes<Memory>, moment: &Moment<'_, Self>) {
        let (before, after) = (&moment.before.state, &moment.after.state);
        for effect in moment.effects() {
            if let Effect::Tell(end) = effect {
                notes.deny("the end is told once", notes.memory.is_some());
                notes.memory = Some(*end);
            }
        }
        let told = moment.effects().iter().position(Self::is_seen);
        notes.deny(
            "it is saved before anybody is told",
            told.is_some_and(|told| !moment.effects()[..told].contains(&Effect::Save)),
        );
        notes.deny(
            "the first end wins",
            matches!(after, State::Ended { end, .. } if notes.memory != Some(*end)),
        );
        notes.deny(
            "nothing is forgotten before somebody was told",
            *after == State::CleanedUp && notes.memory.is_none(),
        );
        let answered = matches!(notes.memory, Some(End::Completed(_) | End::Declined));
        notes.deny(
            "nobody answers after the deadline",
            told.is_some() && answered && moment.after.now >= Time(10),
        );
        notes.deny(
            "a stranger changes nothing",
            matches!(
                moment.input,
                Input::Complete(Who::Stranger, _)
                    | Input::Decline(Who::Stranger)
                    | Input::Cancel(Who::Stranger)
            ) && (moment.outcome.is_ok() || before != after),
        );
        let ended = |end| told.is_some() && notes.memory == Some(end);
        let examples = [
            ("it is answered", ended(End::Completed(Answer(1)))),
            ("it is declined", ended(End::Declined)),
            ("it is cancelled", ended(End::Cancelled)),
            ("it expires", ended(End::Expired)),
            (
                "a late answer is told so",
                *moment.outcome == Err(Code::Timeout),
            ),
            (
                "another answer is refused",
                *moment.outcome == Err(Code::EntityDuplicate),
            ),
            (
                "it is cleaned up",
                *after == State::CleanedUp && before != after,
            ),
        ];
        for (example, is_one) in examples {
            notes.show(example, is_one);
        }
    }

    fn properties() -> Vec<Property<Exhaustive<Self>>> {
        vec![
            always!("the end is told once"),
            always!("it is saved before anybody is told"),
            always!("the first end wins"),
            always!("nothing is forgotten before somebody was told"),
            always!("nobody answers after the deadline"),
            always!("a stranger changes nothing"),
            sometimes!("it is answered"),
            sometimes!("it is declined"),
            sometimes!("it is cancelled"),
            sometimes!("it expires"),
            sometimes!("a late answer is told so"),
            sometimes!("another answer is refused"),
            sometimes!("it is cleaned up"),
        ]
    }
}

#[test]
fn every_question() {
    check(RULES, 100);
}
