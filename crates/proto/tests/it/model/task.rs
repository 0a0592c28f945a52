//! Tasks: a client that takes back, a handler that fails and asks, one clock.

use super::{Exhaustive, Modelled, Moment, Notes, always, check, millis, sometimes};
use crate::subject::Subject;
use interlock_proto::task::{Effect, End, Finish, Input, Rules, State};
use stateright::Property;
use std::time::Duration;

const RULES: Rules = Rules {
    retries: 2,
    ttl: Some(millis(10)),
    poll_interval: millis(1),
    max_unfinished: 1,
};

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Memory {
    running: bool,
    runs: u32,
    end: Option<End>,
}

impl Modelled for Rules {
    type Memory = Memory;
    const TIMES: &'static [u64] = &[0, 5, 9, 10, 20];
    const LONGEST: Duration = millis(10);

    fn must_end(state: &State, (): &()) -> bool {
        *state != State::Expired
    }

    fn judge(notes: &mut Notes<Memory>, moment: &Moment<'_, Self>) {
        let (before, after) = (&moment.before.state, &moment.after.state);
        if matches!(moment.input, Input::Finished(_)) {
            notes.memory.running = false;
        }
        for effect in moment.effects() {
            match effect {
                Effect::Run => {
                    notes.deny("one handler at a time", notes.memory.running);
                    notes.memory.running = true;
                    notes.memory.runs += 1;
                }
                Effect::StopHandler => {
                    notes.deny("only what runs is stopped", !notes.memory.running);
                    notes.memory.running = false;
                }
                Effect::Save | Effect::Notify(_) | Effect::Delete => {}
            }
        }
        let works = matches!(after, State::Working { .. } | State::InputRequired { .. });
        notes.deny(
            "a handler runs while it works and never else",
            notes.memory.running != works,
        );
        notes.deny(
            "it is tried so often and no more",
            notes.memory.runs > RULES.retries + 1,
        );
        let told = moment.effects().iter().position(Self::is_seen);
        notes.deny(
            "it is saved before anybody is told",
            told.is_some_and(|told| !moment.effects()[..told].contains(&Effect::Save)),
        );
        if let State::Done { end, .. } = after {
            notes.deny(
                "what has ended stays as it ended",
                notes.memory.end.is_some_and(|first| first != *end),
            );
            notes.memory.end = Some(*end);
        }
        notes.deny(
            "what has ended does not begin again",
            matches!(before, State::Done { .. } | State::Expired) && after.is_unfinished(),
        );
        notes.deny(
            "what has ended cannot be taken back",
            matches!(before, State::Done { .. } | State::Expired)
                && matches!(moment.input, Input::Cancel)
                && moment.outcome.is_ok(),
        );
        let ended =
            |end| before != after && matches!(after, State::Done { end: e, .. } if *e == end);
        for (example, is_one) in [
            ("it is completed", ended(End::Completed)),
            ("it fails", ended(End::Failed)),
            ("it is taken back", ended(End::Cancelled)),
            (
                "it is tried a third time",
                matches!(after, State::Working { attempt: 3, .. }) && before != after,
            ),
            (
                "it waits for the client",
                matches!(after, State::InputRequired { .. }),
            ),
            (
                "it is deleted while it works",
                matches!(before, State::Working { .. }) && *after == State::Expired,
            ),
            (
                "a handler speaks after its end",
                matches!(before, State::Done { .. })
                    && matches!(moment.input, Input::Finished(Finish::Success)),
            ),
        ] {
            notes.show(example, is_one);
        }
    }

    fn properties() -> Vec<Property<Exhaustive<Self>>> {
        vec![
            always!("one handler at a time"),
            always!("only what runs is stopped"),
            always!("a handler runs while it works and never else"),
            always!("it is tried so often and no more"),
            always!("it is saved before anybody is told"),
            always!("what has ended stays as it ended"),
            always!("what has ended does not begin again"),
            always!("what has ended cannot be taken back"),
            sometimes!("it is completed"),
            sometimes!("it fails"),
            sometimes!("it is taken back"),
            sometimes!("it is tried a third time"),
            sometimes!("it waits for the client"),
            sometimes!("it is deleted while it works"),
            sometimes!("a handler speaks after its end"),
        ]
    }
}

#[test]
fn every_task() {
    check(RULES, 100);
}
