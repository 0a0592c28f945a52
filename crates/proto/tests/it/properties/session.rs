//! Sessions: nothing ends under a running request, and nothing serves a stranger.

use super::{live, millis, story, survive, wild_story};
use crate::subject::Subject;
use interlock_proto::{
    Code, Time,
    session::{Effect, Input, Rules, State, Who},
};
use proptest::prelude::*;

const RULES: Rules = Rules {
    unused: millis(100),
    idle: millis(80),
    life: millis(1_000),
    max_running: 2,
};

proptest! {
    #[test]
    fn only_its_owner_ends_it_while_requests_run(story in story(RULES.inputs(), 1)) {
        live(RULES, story, |moment| {
            let left = matches!(moment.before.state, State::Active { .. })
                && !matches!(moment.after.state, State::Active { .. });
            if left && moment.before.ledger.running() > 0 {
                assert!(matches!(moment.input, Input::Destroy(Who::Owner)));
            }
            if matches!(moment.after.state, State::Idle { .. }) {
                assert_eq!(moment.after.ledger.running(), 0);
            }
        });
    }

    #[test]
    fn a_stranger_changes_nothing_and_learns_nothing(story in story(RULES.inputs(), 1)) {
        live(RULES, story, |moment| {
            if let Input::Begin(Who::Stranger) | Input::Destroy(Who::Stranger) = moment.input {
                assert_eq!(*moment.outcome, Err(Code::SessionInvalid));
                assert!(moment.before.is_same_as(moment.after));
            }
        });
    }

    #[test]
    fn only_a_session_that_is_not_in_use_gives_way(story in story(RULES.inputs(), 1)) {
        live(RULES, story, |moment| {
            if let Input::GiveWay = moment.input {
                let ended = moment.outcome.iter().flatten().any(|effect| *effect == Effect::Delete);
                let quiet = matches!(moment.before.state, State::Created { .. } | State::Idle { .. });
                assert_eq!(ended, quiet);
            }
        });
    }

    #[test]
    fn nothing_is_served_after_its_end_or_its_life(story in story(RULES.inputs(), 1)) {
        live(RULES, story, |moment| {
            let serves = moment.outcome.iter().flatten().any(|effect| *effect == Effect::Serve);
            if serves {
                assert!(moment.after.now < Time(1_000));
                assert!(matches!(moment.after.state, State::Active { .. }));
                assert!(moment.after.ledger.running() <= RULES.max_running);
            }
            if let State::Cleanup | State::Destroyed = moment.before.state
                && let Input::Begin(_) | Input::Read | Input::Write | Input::Destroy(_) = moment.input
            {
                assert_eq!(*moment.outcome, Err(Code::SessionInvalid));
            }
        });
    }

    #[test]
    fn it_is_saved_when_it_idles_and_loaded_when_it_comes_back(story in story(RULES.inputs(), 1)) {
        live(RULES, story, |moment| {
            let effects = moment.outcome.as_deref().unwrap_or_default();
            match (&moment.before.state, &moment.after.state) {
                (State::Active { .. }, State::Idle { .. }) => {
                    assert_eq!(effects, [Effect::Save, Effect::Unload]);
                }
                (State::Idle { .. }, State::Active { .. }) => {
                    assert_eq!(effects, [Effect::Load, Effect::Serve]);
                }
                (State::Created { .. } | State::Active { .. } | State::Idle { .. }, State::Cleanup) => {
                    assert!(matches!(effects, [Effect::Delete, Effect::Record(_)]));
                }
                (
                    State::Created { .. }
                    | State::Active { .. }
                    | State::Idle { .. }
                    | State::Cleanup
                    | State::Destroyed,
                    _,
                ) => assert!(!effects.contains(&Effect::Unload) && !effects.contains(&Effect::Delete)),
            }
        });
    }

    #[test]
    fn no_time_is_too_far(story in wild_story(RULES.inputs())) {
        survive(RULES, story);
    }
}
