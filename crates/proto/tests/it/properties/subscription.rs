//! Subscriptions: what is attached is detached once, and only a subscriber is told.

use super::{live, millis, story, survive, wild_story};
use crate::subject::Subject;
use interlock_proto::subscription::{Effect, Rules, State};
use proptest::prelude::*;

fn rules() -> impl Strategy<Value = Rules> {
    prop::option::of(Just(millis(100))).prop_map(|idle| Rules { idle })
}

fn inputs() -> Vec<interlock_proto::subscription::Input> {
    Rules::default().inputs()
}

proptest! {
    #[test]
    fn what_is_attached_is_detached_exactly_once(rules in rules(), story in story(inputs(), 1)) {
        let mut attached = 0;
        let mut kept = 0;
        live(rules, story, |moment| {
            for effect in moment.outcome.iter().flatten() {
                match effect {
                    Effect::Attach => {
                        attached += 1;
                        kept += 1;
                    }
                    Effect::Detach => attached -= 1,
                    Effect::Forget => kept -= 1,
                    Effect::Invalidate | Effect::Notify(_) => {}
                }
            }
            let (listens, known) = match moment.after.state {
                State::Unsubscribed => (0, 0),
                State::Subscribed { .. } => (1, 1),
                State::Unsubscribing => (0, 1),
            };
            assert_eq!((attached, kept), (listens, known));
        });
    }

    #[test]
    fn only_a_subscriber_is_told(rules in rules(), story in story(inputs(), 1)) {
        live(rules, story, |moment| {
            let told = moment.outcome.iter().flatten().any(rules_say_seen);
            if told {
                assert!(matches!(moment.before.state, State::Subscribed { .. }));
            }
        });
    }

    #[test]
    fn no_time_is_too_far(rules in rules(), story in wild_story(inputs())) {
        survive(rules, story);
    }
}

fn rules_say_seen(effect: &Effect) -> bool {
    Rules::is_seen(effect)
}
