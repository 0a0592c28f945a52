//! Negotiations: what is served was agreed on, and what is agreed on stays.

use super::{live, story, survive, wild_story};
use crate::subject::{Subject, Terms};
use interlock_proto::{
    Code,
    negotiation::{Effect, Input, State},
};
use proptest::prelude::*;

proptest! {
    #[test]
    fn only_what_was_agreed_on_is_served(story in story(Terms.inputs(), 50)) {
        live(Terms, story, |moment| {
            let Input::Call(method) = moment.input else { return };
            assert!(moment.before.is_same_as(moment.after));
            let Some(agreement) = moment.before.state.agreement() else {
                assert_eq!(*moment.outcome, Err(Code::ServerUninitialized));
                return;
            };
            let offered = method.capability().is_none_or(|what| agreement.server.contains(&what));
            if offered && method.exists_in(agreement.version) {
                assert_eq!(*moment.outcome, Ok(vec![Effect::Serve(*method)]));
            } else {
                assert_eq!(*moment.outcome, Err(Code::ProtocolError));
            }
        });
    }

    #[test]
    fn what_is_agreed_on_stays_but_for_what_the_server_has(story in story(Terms.inputs(), 50)) {
        live(Terms, story, |moment| {
            let Some(before) = moment.before.state.agreement() else { return };
            let after = moment.after.state.agreement().unwrap();
            assert_eq!(before.version, after.version);
            assert_eq!(before.client, after.client);
            assert_eq!(before.unsupported, after.unsupported);
            if matches!(moment.before.state, State::Active(_)) {
                assert!(matches!(moment.after.state, State::Active(_)));
            }
        });
    }

    #[test]
    fn each_offer_is_answered_or_failed_at_most_once(story in story(Terms.inputs(), 50)) {
        let mut waiting = false;
        live(Terms, story, |moment| {
            for effect in moment.outcome.iter().flatten() {
                match effect {
                    Effect::Gather => {
                        assert!(!waiting);
                        waiting = true;
                    }
                    Effect::Answer(_) | Effect::Fail(_) => {
                        assert!(waiting);
                        waiting = false;
                    }
                    Effect::Serve(_) | Effect::Changed(_) => {}
                }
            }
            assert_eq!(waiting, matches!(moment.after.state, State::Negotiating { .. }));
        });
    }

    #[test]
    fn no_time_is_too_far(story in wild_story(Terms.inputs())) {
        survive(Terms, story);
    }
}
