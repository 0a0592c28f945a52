//! Tasks: one handler at a time, one end, and none is told before it is saved.

use super::{live, millis, story, survive, wild_story};
use crate::subject::Subject;
use interlock_proto::{
    Code,
    task::{Effect, Finish, Input, Rules, State},
};
use proptest::prelude::*;

fn rules() -> impl Strategy<Value = Rules> {
    (0..3_u32, prop::option::of(Just(millis(100)))).prop_map(|(retries, ttl)| Rules {
        retries,
        ttl,
        poll_interval: millis(10),
        max_unfinished: 1,
    })
}

fn inputs() -> Vec<Input> {
    Rules::default().inputs()
}

proptest! {
    #[test]
    fn what_has_ended_stays_as_it_ended_until_it_is_deleted(
        rules in rules(),
        story in story(inputs(), 1),
    ) {
        live(rules, story, |moment| {
            let State::Done { .. } = moment.before.state else { return };
            let deleted = moment.after.state == State::Expired;
            assert!(deleted || moment.after.is_same_as(moment.before));
            assert_eq!(deleted, matches!(moment.outcome.as_deref(), Ok([Effect::Delete])));
            if matches!(moment.input, Input::Cancel) {
                assert_eq!(*moment.outcome, Err(Code::InvalidParams));
            }
        });
    }

    #[test]
    fn every_word_about_it_is_saved_first(rules in rules(), story in story(inputs(), 1)) {
        live(rules, story, |moment| {
            let effects = moment.outcome.as_deref().unwrap_or_default();
            if let Some(told) = effects.iter().position(Rules::is_seen) {
                assert!(effects[..told].contains(&Effect::Save));
                assert_eq!(
                    effects[told],
                    Effect::Notify(moment.after.state.status().unwrap())
                );
            }
        });
    }

    #[test]
    fn one_handler_runs_at_a_time_and_none_when_it_is_over(
        rules in rules(),
        story in story(inputs(), 1),
    ) {
        let mut running = false;
        let mut runs = 0;
        live(rules, story, |moment| {
            // A handler that is stopped may still say something; that is nobody's second end.
            running &= !matches!(moment.input, Input::Finished(_));
            for effect in moment.outcome.iter().flatten() {
                match effect {
                    Effect::Run => {
                        assert!(!running, "two handlers at once");
                        running = true;
                        runs += 1;
                    }
                    Effect::StopHandler => {
                        assert!(running, "there was nothing to stop");
                        running = false;
                    }
                    Effect::Save | Effect::Notify(_) | Effect::Delete => {}
                }
            }
            assert!(runs <= rules.retries + 1);
            let works = matches!(moment.after.state, State::Working { .. } | State::InputRequired { .. });
            assert_eq!(running, works);
        });
    }

    #[test]
    fn only_what_may_pass_and_works_is_tried_again(rules in rules(), story in story(inputs(), 1)) {
        live(rules, story, |moment| {
            let runs = moment.outcome.iter().flatten().any(|effect| *effect == Effect::Run);
            if runs && !matches!(moment.input, Input::Start) {
                assert!(matches!(moment.input, Input::Finished(Finish::Transient)));
                assert!(matches!(moment.before.state, State::Working { .. }));
            }
        });
    }

    #[test]
    fn no_time_is_too_far(rules in rules(), story in wild_story(inputs())) {
        survive(rules, story);
    }
}
