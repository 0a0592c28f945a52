//! Questions: the first end wins and is told once.

use super::{live, millis, story, survive, wild_story};
use crate::subject::Subject;
use interlock_proto::{
    Code, Time,
    elicitation::{Effect, End, Input, Rules, State, Who},
};
use proptest::prelude::*;

const RULES: Rules = Rules {
    ttl: millis(100),
    cleanup: millis(60),
};

proptest! {
    #[test]
    fn the_first_end_wins_and_is_told_once(story in story(RULES.inputs(), 1)) {
        let mut first = None;
        live(RULES, story, |moment| {
            for effect in moment.outcome.iter().flatten() {
                if let Effect::Tell(end) = effect {
                    assert_eq!(first, None, "told twice");
                    first = Some(*end);
                }
            }
            match &moment.after.state {
                State::Pending { .. } => assert_eq!(first, None),
                State::Ended { end, .. } => assert_eq!(first, Some(*end)),
                State::CleanedUp => assert!(first.is_some()),
            }
        });
    }

    #[test]
    fn another_answer_is_refused_and_the_same_is_not(story in story(RULES.inputs(), 1)) {
        live(RULES, story, |moment| {
            let State::Ended { end, .. } = moment.before.state else { return };
            let Input::Complete(Who::Asked, answer) = moment.input else { return };
            assert!(moment.before.is_same_as(moment.after));
            match end {
                End::Completed(first) if first == *answer => assert_eq!(*moment.outcome, Ok(vec![])),
                End::Expired => assert_eq!(*moment.outcome, Err(Code::Timeout)),
                End::Completed(_) | End::Declined | End::Cancelled => {
                    assert_eq!(*moment.outcome, Err(Code::EntityDuplicate));
                }
            }
        });
    }

    #[test]
    fn nobody_answers_after_the_deadline(story in story(RULES.inputs(), 1)) {
        live(RULES, story, |moment| {
            if let Ok(effects) = moment.outcome
                && let Some(Effect::Tell(End::Completed(_) | End::Declined)) = effects.last()
            {
                assert!(moment.after.now < Time(100));
            }
        });
    }

    #[test]
    fn a_stranger_changes_nothing(story in story(RULES.inputs(), 1)) {
        live(RULES, story, |moment| {
            if let Input::Complete(Who::Stranger, _)
            | Input::Decline(Who::Stranger)
            | Input::Cancel(Who::Stranger) = moment.input
            {
                assert!(moment.outcome.is_err());
                assert!(moment.before.is_same_as(moment.after));
            }
        });
    }

    #[test]
    fn every_end_is_saved_before_it_is_told(story in story(RULES.inputs(), 1)) {
        live(RULES, story, |moment| {
            let effects = moment.outcome.as_deref().unwrap_or_default();
            if let Some(told) = effects.iter().position(Rules::is_seen) {
                assert!(effects[..told].contains(&Effect::Save));
            }
        });
    }

    #[test]
    fn no_time_is_too_far(story in wild_story(RULES.inputs())) {
        survive(RULES, story);
    }
}
