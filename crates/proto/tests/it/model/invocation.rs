//! Calls: every way to end, around three deadlines, with a clock that can stand still.

use super::{Exhaustive, Modelled, Moment, Notes, always, check, millis, sometimes};
use interlock_proto::invocation::{Clock, Effect, End, Input, Outcome, State, Stop, Times};
use stateright::Property;
use std::time::Duration;

const TIMES: Times = Times {
    queue: millis(10),
    execution: millis(10),
    grace: millis(5),
};

/// What this call has ordered so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Memory {
    ends: u8,
    commits: u8,
}

impl Modelled for Times {
    type Memory = Memory;
    const TIMES: &'static [u64] = &[0, 4, 5, 9, 10, 14, 15, 20, 25, 30];
    const LONGEST: Duration = millis(10);

    fn must_end(state: &State, (): &()) -> bool {
        match state {
            State::Pending { clock, .. } => matches!(clock, Clock::Running(_)),
            State::Executing { clock, stop } => {
                matches!(clock, Clock::Running(_)) || matches!(stop, Stop::Asked { .. })
            }
            State::Idle | State::Result(_) => false,
        }
    }

    fn judge(notes: &mut Notes<Memory>, moment: &Moment<'_, Self>) {
        let (before, after) = (&moment.before.state, &moment.after.state);
        if *before == State::Idle {
            notes.memory = Memory::default();
        }
        for effect in moment.effects() {
            match effect {
                Effect::Respond | Effect::Ask | Effect::Refuse(_) | Effect::Suppress => {
                    notes.memory.ends += 1;
                }
                Effect::Commit(_) => {
                    notes.deny("the commit comes before the answer", notes.memory.ends > 0);
                    notes.memory.commits += 1;
                }
                Effect::Enqueue
                | Effect::LeaveQueue
                | Effect::Start
                | Effect::Forward
                | Effect::AskToStop
                | Effect::TearDown => {}
            }
        }
        let Memory { ends, commits } = notes.memory;
        let (ended, committed) = match after {
            State::Idle => (ends, commits),
            State::Pending { .. } | State::Executing { .. } => (0, 0),
            State::Result(End::NotRun | End::Asked) => (1, 0),
            State::Result(End::Ran(_)) => (1, 1),
        };
        notes.deny("exactly one end per call", ends != ended);
        notes.deny(
            "what ran is committed once and what did not run is not",
            commits != committed,
        );
        notes.deny(
            "what executes comes to a result",
            matches!(before, State::Executing { .. })
                && !matches!(after, State::Executing { .. } | State::Result(_)),
        );
        let late = match before {
            State::Pending {
                clock: Clock::Running(until),
                ..
            } => moment.before.now >= *until,
            State::Idle | State::Pending { .. } | State::Executing { .. } | State::Result(_) => {
                false
            }
        };
        notes.deny(
            "no call starts after its deadline",
            late && matches!(after, State::Executing { .. }),
        );
        notes.deny(
            "nothing after the end changes it",
            matches!(before, State::Result(_))
                && before != after
                && !matches!(moment.input, Input::Settled),
        );
        let suppressed = moment.orders(|effect| *effect == Effect::Suppress);
        for (example, outcome) in [
            ("a call succeeds", Outcome::Success),
            ("a call fails", Outcome::Error),
            ("a call times out", Outcome::Timeout),
            ("a call is cancelled", Outcome::Cancelled),
            ("what became of a call is unknown", Outcome::Unknown),
        ] {
            notes.show(example, *after == State::Result(End::Ran(outcome)));
        }
        notes.show("a call asks", *after == State::Result(End::Asked));
        notes.show("a call does not run", *after == State::Result(End::NotRun));
        notes.show(
            "a call succeeds although it was taken back",
            suppressed && *after == State::Result(End::Ran(Outcome::Success)),
        );
        notes.show(
            "a call that stands still is taken back and ends",
            suppressed
                && matches!(
                    before,
                    State::Executing {
                        clock: Clock::Standing(_),
                        ..
                    }
                )
                && matches!(moment.input, Input::Tick),
        );
    }

    fn properties() -> Vec<Property<Exhaustive<Self>>> {
        vec![
            always!("exactly one end per call"),
            always!("what ran is committed once and what did not run is not"),
            always!("the commit comes before the answer"),
            always!("what executes comes to a result"),
            always!("no call starts after its deadline"),
            always!("nothing after the end changes it"),
            sometimes!("a call succeeds"),
            sometimes!("a call fails"),
            sometimes!("a call times out"),
            sometimes!("a call is cancelled"),
            sometimes!("what became of a call is unknown"),
            sometimes!("a call asks"),
            sometimes!("a call does not run"),
            sometimes!("a call succeeds although it was taken back"),
            sometimes!("a call that stands still is taken back and ends"),
        ]
    }
}

#[test]
fn every_call() {
    check(TIMES, 1_000);
}
