//! Connections: three requests, one question of ours, two subscriptions, three clocks.

use super::{Exhaustive, Modelled, Moment, Notes, always, check, millis, sometimes};
use crate::subject::{handshake, stateless};
use interlock_proto::{
    AskId, Code, Refusal, Version,
    connection::{
        Duplicates, EarlyPing, Effect, Input, Key, Lane, Ledger, Noise, Peer, Rules, State,
    },
};
use stateright::Property;
use std::{collections::BTreeSet, time::Duration};

const RULES: Rules = Rules {
    initialize: Some(millis(10)),
    idle: Some(millis(20)),
    drain: millis(10),
    max_pending: 2,
    early_ping: EarlyPing::Answered,
    duplicates: Duplicates::Dropped,
};

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Memory {
    /// Admitted, and not ended.
    open: BTreeSet<Key>,
    negotiated: bool,
    was_stateless: bool,
}

impl Modelled for Rules {
    type Memory = Memory;
    const TIMES: &'static [u64] = &[0, 9, 10, 20, 30];
    const LONGEST: Duration = millis(20);

    fn choices(&self) -> Vec<Input> {
        vec![
            Input::Initialize {
                id: 1.into(),
                version: Ok(Version::V2025_11_25),
            },
            Input::Ping { id: 1.into() },
            Input::Request(handshake(2)),
            Input::Request(stateless(3, 1)),
            Input::Malformed {
                id: Some(1.into()),
                refusal: Refusal::new(Code::ProtocolError),
            },
            Input::Ready,
            Input::Cancelled { id: 1.into() },
            Input::Notification,
            Input::Response(Some(AskId(1))),
            Input::Ask(AskId(1)),
            Input::Settled(handshake(1)),
            Input::Settled(handshake(2)),
            Input::Settled(stateless(3, 1)),
            Input::Subscribed("a".to_owned()),
            Input::Unsubscribed("a".to_owned()),
            Input::Drain,
            Input::Silent,
            Input::Gone,
            Input::Tick,
        ]
    }

    fn must_end(state: &State, ledger: &Ledger) -> bool {
        match state {
            State::NotInitialized { .. } | State::Draining { .. } => true,
            State::Stateless
            | State::Initializing(_)
            | State::Initialized(_)
            | State::Subscribed(_) => ledger.pending() == 0,
            State::Closed => false,
        }
    }

    fn judge(notes: &mut Notes<Memory>, moment: &Moment<'_, Self>) {
        let (before, after) = (&moment.before.state, &moment.after.state);
        let unopened = matches!(before, State::NotInitialized { .. } | State::Stateless);
        let draining = matches!(before, State::Draining { .. } | State::Closed);
        for effect in moment.effects() {
            match effect {
                Effect::Negotiate(key, _) => {
                    notes.deny("at most one handshake is begun", notes.memory.negotiated);
                    notes.memory.negotiated = true;
                    admit(notes, key);
                }
                Effect::Serve(key) => {
                    let early = unopened
                        && key.lane == Lane::Handshake
                        && !matches!(moment.input, Input::Ping { .. });
                    notes.deny(
                        "no request of the handshake era is served before initialize",
                        early,
                    );
                    notes.deny("nothing is served while draining", draining);
                    admit(notes, key);
                }
                Effect::Forget(key) | Effect::Abandon(key, _) => {
                    let known = notes.memory.open.remove(key);
                    notes.deny("what is admitted ends exactly once", !known);
                }
                Effect::Activate
                | Effect::Cancel(_)
                | Effect::Settle(_)
                | Effect::SendAsk(_)
                | Effect::Subscribe(_)
                | Effect::Unsubscribe(_)
                | Effect::Ignore(_)
                | Effect::AbandonAsk(_)
                | Effect::Close => {}
            }
        }
        let ledger = &moment.after.ledger;
        notes.deny(
            "the ledger holds what was admitted and has not ended",
            ledger.pending() != notes.memory.open.len() || ledger.pending() > RULES.max_pending,
        );
        notes.deny(
            "nothing is left of a closed connection",
            *after == State::Closed
                && (ledger.pending(), ledger.asks(), ledger.subscriptions()) != (0, 0, 0),
        );
        notes.deny(
            "what is initialized stays initialized",
            before.version().is_some() && after.version().is_none() && *after != State::Closed,
        );
        notes.deny(
            "a second initialize changes nothing",
            matches!(moment.input, Input::Initialize { .. })
                && before.version().is_some()
                && !moment.after.is_same_as(moment.before),
        );
        notes.deny(
            "subscribed means at least one subscription",
            match after {
                State::Subscribed(_) => ledger.subscriptions() == 0,
                State::Initialized(_) | State::NotInitialized { .. } | State::Stateless => {
                    ledger.subscriptions() > 0
                }
                State::Initializing(_) | State::Draining { .. } | State::Closed => false,
            },
        );
        notes.deny(
            "a silent client is never answered",
            matches!(
                moment.input,
                Input::Ready | Input::Notification | Input::Response(_)
            ) && (moment.outcome.is_err()
                || moment.orders(|effect| matches!(effect, Effect::Serve(_)))),
        );
        notes.show(
            "a stateless connection is initialized",
            notes.memory.was_stateless && matches!(after, State::Initialized(_)),
        );
        notes.memory.was_stateless = matches!(after, State::Stateless)
            || notes.memory.was_stateless && matches!(after, State::Initializing(_));
        examples(notes, moment);
    }

    fn properties() -> Vec<Property<Exhaustive<Self>>> {
        vec![
            always!("at most one handshake is begun"),
            always!("no request of the handshake era is served before initialize"),
            always!("nothing is served while draining"),
            always!("what is admitted ends exactly once"),
            always!("the ledger holds what was admitted and has not ended"),
            always!("nothing is left of a closed connection"),
            always!("what is initialized stays initialized"),
            always!("a second initialize changes nothing"),
            always!("subscribed means at least one subscription"),
            always!("a silent client is never answered"),
            sometimes!("a stateless connection is initialized"),
            sometimes!("there is a subscription"),
            sometimes!("a request is abandoned and its peer is told"),
            sometimes!("a request is abandoned and nobody is there"),
            sometimes!("the last request ends the drain"),
            sometimes!("a silent client is closed"),
            sometimes!("an idle connection is closed"),
            sometimes!("a duplicate is dropped"),
            sometimes!("too much is refused"),
            sometimes!("a request of ours is settled"),
            sometimes!("a request before initialize is refused"),
            sometimes!("a lost peer takes its stateless request back"),
        ]
    }
}

fn admit(notes: &mut Notes<Memory>, key: &Key) {
    let new = notes.memory.open.insert(key.clone());
    notes.deny("what is admitted ends exactly once", !new);
}

fn examples(notes: &mut Notes<Memory>, moment: &Moment<'_, Rules>) {
    let (before, after) = (&moment.before.state, &moment.after.state);
    let closed = *after == State::Closed && before != after;
    let ticked = matches!(moment.input, Input::Tick);
    let orders = |wanted: fn(&Effect) -> bool| moment.orders(wanted);
    for (example, is_one) in [
        (
            "there is a subscription",
            matches!(after, State::Subscribed(_)),
        ),
        (
            "a request is abandoned and its peer is told",
            orders(|effect| matches!(effect, Effect::Abandon(_, Peer::Present))),
        ),
        (
            "a request is abandoned and nobody is there",
            orders(|effect| matches!(effect, Effect::Abandon(_, Peer::Gone))),
        ),
        (
            "the last request ends the drain",
            closed && matches!(moment.input, Input::Settled(_)),
        ),
        (
            "a silent client is closed",
            closed && ticked && matches!(before, State::NotInitialized { .. }),
        ),
        (
            "an idle connection is closed",
            closed && ticked && matches!(before, State::Initialized(_)),
        ),
        (
            "a duplicate is dropped",
            orders(|effect| *effect == Effect::Ignore(Noise::Duplicate)),
        ),
        (
            "too much is refused",
            *moment.outcome == Err(Code::QueueCapExceeded),
        ),
        (
            "a request of ours is settled",
            orders(|effect| matches!(effect, Effect::Settle(_))),
        ),
        (
            "a request before initialize is refused",
            *moment.outcome == Err(Code::ServerUninitialized),
        ),
        (
            "a lost peer takes its stateless request back",
            matches!(moment.input, Input::Gone)
                && orders(|effect| matches!(effect, Effect::Cancel(_))),
        ),
    ] {
        notes.show(example, is_one);
    }
}

#[test]
fn every_connection_on_a_shared_stream() {
    check(RULES, 10_000);
}
