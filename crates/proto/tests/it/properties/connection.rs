//! Connections: what is admitted ends once, and there is no way back.

use super::{Moment, live, millis, story, survive, wild_story};
use crate::subject::{Life, Subject};
use interlock_proto::{
    Code, Version,
    connection::{Duplicates, EarlyPing, Effect, Input, Key, Lane, Noise, Rules, State},
};
use proptest::prelude::*;
use std::collections::BTreeSet;

fn rules() -> impl Strategy<Value = Rules> {
    (
        prop::option::of(Just(millis(100))),
        prop::option::of(Just(millis(80))),
        0..4_usize,
        prop::bool::ANY,
        prop::bool::ANY,
    )
        .prop_map(|(initialize, idle, max_pending, ping, drop)| Rules {
            initialize,
            idle,
            drain: millis(50),
            max_pending,
            early_ping: if ping {
                EarlyPing::Answered
            } else {
                EarlyPing::Refused
            },
            duplicates: if drop {
                Duplicates::Dropped
            } else {
                Duplicates::Refused
            },
        })
}

fn inputs() -> Vec<Input> {
    Rules::default().inputs()
}

/// What was admitted and has not ended, counted from the effects alone.
#[derive(Default)]
struct Books {
    open: BTreeSet<Key>,
    negotiated: u32,
    version: Option<Version>,
}

impl Books {
    fn write(&mut self, moment: &Moment<'_, Rules>) {
        let Ok(effects) = moment.outcome else { return };
        for effect in effects {
            match effect {
                Effect::Negotiate(key, version) => {
                    self.negotiated += 1;
                    self.version = Some(*version);
                    assert!(self.open.insert(key.clone()), "admitted twice: {key:?}");
                }
                Effect::Serve(key) => {
                    assert!(self.open.insert(key.clone()), "admitted twice: {key:?}");
                }
                Effect::Forget(key) | Effect::Abandon(key, _) => {
                    assert!(self.open.remove(key), "ended, and was not open: {key:?}");
                }
                Effect::Cancel(key) => assert!(self.open.contains(key)),
                Effect::Activate
                | Effect::Settle(_)
                | Effect::SendAsk(_)
                | Effect::Subscribe(_)
                | Effect::Unsubscribe(_)
                | Effect::Ignore(_)
                | Effect::AbandonAsk(_)
                | Effect::Close => {}
            }
        }
    }
}

/// Whether an answer to this would look like the answer to something that is open.
fn clashes(input: &Input, open: &BTreeSet<Key>) -> bool {
    match input {
        Input::Initialize { id, .. }
        | Input::Ping { id }
        | Input::Malformed { id: Some(id), .. } => open.iter().any(|key| key.id == *id),
        Input::Request(asked) => open.iter().any(|key| {
            let both_numbered = key.lane != Lane::Handshake && asked.lane != Lane::Handshake;
            key.id == asked.id && (!both_numbered || key == asked)
        }),
        Input::Malformed { id: None, .. }
        | Input::Ready
        | Input::Cancelled { .. }
        | Input::Notification
        | Input::Response(_)
        | Input::Ask(_)
        | Input::Settled(_)
        | Input::Subscribed(_)
        | Input::Unsubscribed(_)
        | Input::Drain
        | Input::Silent
        | Input::Gone
        | Input::Tick => false,
    }
}

/// Ends a connection: by its deadline, after it was told to drain.
fn end(life: &mut Life<Rules>, books: &mut Books) {
    for input in [Input::Drain, Input::Tick] {
        let before = life.clone();
        let outcome = life.play(input.clone());
        books.write(&Moment {
            before: &before,
            input: &input,
            outcome: &outcome,
            after: life,
        });
        life.now = life.wake_at().unwrap_or(life.now);
    }
    let outcome = life.play(Input::Tick);
    books.write(&Moment {
        before: &life.clone(),
        input: &Input::Tick,
        outcome: &outcome,
        after: life,
    });
}

proptest! {
    #[test]
    fn every_admitted_request_ends_exactly_once(rules in rules(), story in story(inputs(), 1)) {
        let mut books = Books::default();
        let mut life = live(rules, story, |moment| {
            books.write(&moment);
            assert_eq!(moment.after.ledger.pending(), books.open.len());
        });
        end(&mut life, &mut books);
        assert_eq!(life.state, State::Closed);
        assert_eq!(books.open, BTreeSet::new());
    }

    #[test]
    fn no_more_is_in_flight_than_may_be_and_nothing_once_closed(
        rules in rules(),
        story in story(inputs(), 1),
    ) {
        live(rules, story, |moment| {
            let ledger = &moment.after.ledger;
            assert!(ledger.pending() <= rules.max_pending);
            if moment.after.state == State::Closed {
                let left = (ledger.pending(), ledger.asks(), ledger.subscriptions());
                assert_eq!(left, (0, 0, 0));
            }
        });
    }

    #[test]
    fn a_connection_is_initialized_once_and_for_good(rules in rules(), story in story(inputs(), 1)) {
        let mut books = Books::default();
        live(rules, story, |moment| {
            books.write(&moment);
            assert!(books.negotiated <= 1);
            let agreed = moment.after.state.version();
            if moment.after.state != State::Closed {
                assert_eq!(agreed, books.version);
            }
            if books.negotiated == 1 && matches!(moment.input, Input::Initialize { .. }) {
                let first = moment.before.state.version().is_none();
                assert!(first || !matches!(moment.outcome, Ok(effects)
                    if effects.iter().any(|effect| matches!(effect, Effect::Negotiate(..)))));
            }
        });
    }

    #[test]
    fn nothing_of_the_handshake_era_is_served_before_initialize(
        rules in rules(),
        story in story(inputs(), 1),
    ) {
        live(rules, story, |moment| {
            let (State::NotInitialized { .. } | State::Stateless) = moment.before.state else {
                return;
            };
            match moment.input {
                Input::Request(key) if key.lane == Lane::Handshake => {
                    assert!(matches!(
                        moment.outcome.as_deref(),
                        Err(Code::ServerUninitialized | Code::EntityDuplicate)
                            | Ok([Effect::Ignore(Noise::Duplicate)])
                    ));
                    assert!(moment.before.is_same_as(moment.after));
                }
                Input::Ready | Input::Notification | Input::Response(_) => {
                    assert!(matches!(moment.outcome.as_deref(), Ok([Effect::Ignore(_)])));
                    assert!(moment.before.is_same_as(moment.after));
                }
                Input::Ask(_) => assert_eq!(*moment.outcome, Err(Code::ServerUninitialized)),
                Input::Initialize { .. }
                | Input::Ping { .. }
                | Input::Request(_)
                | Input::Malformed { .. }
                | Input::Cancelled { .. }
                | Input::Settled(_)
                | Input::Subscribed(_)
                | Input::Unsubscribed(_)
                | Input::Drain
                | Input::Silent
                | Input::Gone
                | Input::Tick => {}
            }
        });
    }

    #[test]
    fn nothing_new_is_taken_while_draining(rules in rules(), story in story(inputs(), 1)) {
        live(rules, story, |moment| {
            let (State::Draining { .. } | State::Closed) = moment.before.state else {
                return;
            };
            for effect in moment.outcome.iter().flatten() {
                assert!(!matches!(
                    effect,
                    Effect::Negotiate(..) | Effect::Serve(_) | Effect::SendAsk(_) | Effect::Subscribe(_)
                ));
            }
        });
    }

    #[test]
    fn a_duplicate_on_a_shared_stream_is_never_answered(
        rules in rules(),
        story in story(inputs(), 1),
    ) {
        let rules = Rules { duplicates: Duplicates::Dropped, ..rules };
        let mut books = Books::default();
        live(rules, story, |moment| {
            let dropped = Ok(vec![Effect::Ignore(Noise::Duplicate)]);
            assert_eq!(*moment.outcome == dropped, clashes(moment.input, &books.open));
            if *moment.outcome == dropped {
                assert!(moment.before.is_same_as(moment.after));
            }
            books.write(&moment);
        });
    }

    #[test]
    fn subscribed_means_at_least_one_subscription(rules in rules(), story in story(inputs(), 1)) {
        live(rules, story, |moment| {
            let some = moment.after.ledger.subscriptions() > 0;
            match moment.after.state {
                State::Subscribed(_) => assert!(some),
                State::Initialized(_) | State::NotInitialized { .. } | State::Stateless => {
                    assert!(!some);
                }
                State::Initializing(_) | State::Draining { .. } | State::Closed => {}
            }
        });
    }

    #[test]
    fn no_time_is_too_far(rules in rules(), story in wild_story(inputs())) {
        survive(rules, story);
    }
}
