//! Subscriptions: a client, a resource that changes and goes, one clock.

use super::{Exhaustive, Modelled, Moment, Notes, always, check, millis, sometimes};
use interlock_proto::subscription::{Change, Effect, Input, Rules, State};
use stateright::Property;
use std::time::Duration;

const RULES: Rules = Rules {
    idle: Some(millis(10)),
};

/// What is attached and known, counted from the effects alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Memory {
    attached: i8,
    known: i8,
}

impl Modelled for Rules {
    type Memory = Memory;
    const TIMES: &'static [u64] = &[0, 5, 9, 10, 15, 19, 20, 30];
    const LONGEST: Duration = millis(10);

    fn must_end(state: &State, (): &()) -> bool {
        matches!(state, State::Subscribed { .. })
    }

    fn judge(notes: &mut Notes<Memory>, moment: &Moment<'_, Self>) {
        let (before, after) = (&moment.before.state, &moment.after.state);
        let open = matches!(before, State::Subscribed { .. });
        for effect in moment.effects() {
            match effect {
                Effect::Attach => {
                    notes.memory.attached += 1;
                    notes.memory.known += 1;
                }
                Effect::Detach => notes.memory.attached -= 1,
                Effect::Forget => notes.memory.known -= 1,
                Effect::Notify(_) => notes.deny("only a subscriber is told", !open),
                Effect::Invalidate => {}
            }
        }
        let expected = match after {
            State::Unsubscribed => (0, 0),
            State::Subscribed { .. } => (1, 1),
            State::Unsubscribing => (0, 1),
        };
        notes.deny(
            "one listener while subscribed and none else",
            (notes.memory.attached, notes.memory.known) != expected,
        );
        notes.deny(
            "it is cleaned up on the way out",
            open && *after == State::Unsubscribed,
        );
        let told = |change| moment.effects().contains(&Effect::Notify(change));
        for (example, is_one) in [
            ("a change is told", told(Change::Updated)),
            ("a deletion is told", told(Change::Deleted)),
            (
                "it ends for want of changes",
                open && matches!(moment.input, Input::Tick) && *after == State::Unsubscribing,
            ),
            (
                "the client subscribes again during the clean-up",
                *before == State::Unsubscribing && matches!(after, State::Subscribed { .. }),
            ),
            ("what does not exist is refused", moment.outcome.is_err()),
        ] {
            notes.show(example, is_one);
        }
    }

    fn properties() -> Vec<Property<Exhaustive<Self>>> {
        vec![
            always!("only a subscriber is told"),
            always!("one listener while subscribed and none else"),
            always!("it is cleaned up on the way out"),
            sometimes!("a change is told"),
            sometimes!("a deletion is told"),
            sometimes!("it ends for want of changes"),
            sometimes!("the client subscribes again during the clean-up"),
            sometimes!("what does not exist is refused"),
        ]
    }
}

#[test]
fn every_subscription() {
    check(RULES, 100);
}
