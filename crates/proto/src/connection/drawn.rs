//! How the machine is walked and drawn: its edges, samples of all that can happen, and their names.

use super::{
    Connection, Duplicates, EarlyPing, Effect, Input, Key, Lane, Ledger, Rules, State, Stepped,
    handshake, step,
};
use crate::{AskId, CallId, Code, Refusal, RequestId, Time, Version, machine::Machine};
use std::time::Duration;

impl Machine for Connection {
    const NAME: &'static str = "connection";
    const EDGES: &'static [(&'static str, &'static str, &'static str)] = &[
        ("NotInitialized", "initialize", "Initializing"),
        ("NotInitialized", "stateless request", "Stateless"),
        ("NotInitialized", "drain", "Closed"),
        ("NotInitialized", "silent", "Closed"),
        ("NotInitialized", "gone", "Closed"),
        ("NotInitialized", "tick", "Closed"),
        ("NotInitialized", "drain", "Draining"),
        ("NotInitialized", "silent", "Draining"),
        ("NotInitialized", "gone", "Draining"),
        ("Stateless", "initialize", "Initializing"),
        ("Stateless", "drain", "Draining"),
        ("Stateless", "silent", "Draining"),
        ("Stateless", "gone", "Draining"),
        ("Stateless", "drain", "Closed"),
        ("Stateless", "silent", "Closed"),
        ("Stateless", "gone", "Closed"),
        ("Stateless", "tick", "Closed"),
        ("Initializing", "ready", "Initialized"),
        ("Initializing", "ready", "Subscribed"),
        ("Initializing", "drain", "Draining"),
        ("Initializing", "silent", "Draining"),
        ("Initializing", "gone", "Draining"),
        ("Initializing", "drain", "Closed"),
        ("Initializing", "silent", "Closed"),
        ("Initializing", "gone", "Closed"),
        ("Initializing", "tick", "Closed"),
        ("Initialized", "subscribed", "Subscribed"),
        ("Initialized", "drain", "Draining"),
        ("Initialized", "silent", "Draining"),
        ("Initialized", "gone", "Draining"),
        ("Initialized", "drain", "Closed"),
        ("Initialized", "silent", "Closed"),
        ("Initialized", "gone", "Closed"),
        ("Initialized", "tick", "Closed"),
        ("Subscribed", "unsubscribed", "Initialized"),
        ("Subscribed", "drain", "Draining"),
        ("Subscribed", "silent", "Draining"),
        ("Subscribed", "gone", "Draining"),
        ("Subscribed", "drain", "Closed"),
        ("Subscribed", "silent", "Closed"),
        ("Subscribed", "gone", "Closed"),
        ("Subscribed", "tick", "Closed"),
        ("Draining", "settled", "Closed"),
        ("Draining", "tick", "Closed"),
    ];

    type State = State;
    type Ledger = Ledger;
    type Input = Input;
    type Effect = Effect;

    fn first(now: Time) -> State {
        SAMPLE_RULES.first(now)
    }

    fn samples() -> Vec<Input> {
        let id = || RequestId::Number(1);
        // With an id of its own, so that a walk meets more than duplicates.
        let stateless = Key {
            id: RequestId::Number(2),
            lane: Lane::Stateless(CallId(1)),
        };
        vec![
            Input::Initialize {
                id: id(),
                version: Ok(Version::COUNTER_OFFER),
            },
            Input::Ping { id: id() },
            Input::Request(handshake(id())),
            Input::Request(stateless.clone()),
            Input::Malformed {
                id: Some(id()),
                refusal: Refusal::new(Code::ProtocolError),
            },
            Input::Ready,
            Input::Cancelled { id: id() },
            Input::Notification,
            Input::Response(Some(AskId(1))),
            Input::Ask(AskId(1)),
            Input::Settled(handshake(id())),
            Input::Settled(stateless),
            Input::Subscribed("note://a".to_owned()),
            Input::Unsubscribed("note://a".to_owned()),
            Input::Drain,
            Input::Silent,
            Input::Gone,
            Input::Tick,
        ]
    }

    fn step(state: &State, ledger: &Ledger, input: Input, now: Time) -> Stepped {
        step(&SAMPLE_RULES, state, ledger, input, now)
    }

    fn apply(ledger: &mut Ledger, effects: &[Effect], now: Time) {
        ledger.apply(effects, now);
    }

    fn state_name(state: &State) -> &'static str {
        match state {
            State::NotInitialized { .. } => "NotInitialized",
            State::Stateless => "Stateless",
            State::Initializing(_) => "Initializing",
            State::Initialized(_) => "Initialized",
            State::Subscribed(_) => "Subscribed",
            State::Draining { .. } => "Draining",
            State::Closed => "Closed",
        }
    }

    fn input_name(input: &Input) -> &'static str {
        match input {
            Input::Initialize { .. } => "initialize",
            Input::Ping { .. } => "ping",
            Input::Request(Key {
                lane: Lane::Handshake,
                ..
            }) => "request",
            Input::Request(Key {
                lane: Lane::Stateless(_),
                ..
            }) => "stateless request",
            Input::Malformed { .. } => "malformed",
            Input::Ready => "ready",
            Input::Cancelled { .. } => "cancelled",
            Input::Notification => "notification",
            Input::Response(_) => "response",
            Input::Ask(_) => "ask",
            Input::Settled(_) => "settled",
            Input::Subscribed(_) => "subscribed",
            Input::Unsubscribed(_) => "unsubscribed",
            Input::Drain => "drain",
            Input::Silent => "silent",
            Input::Gone => "gone",
            Input::Tick => "tick",
        }
    }
}

/// With every clock running, so that a walk meets all of them.
pub(super) const SAMPLE_RULES: Rules = Rules {
    initialize: Some(Duration::from_secs(30)),
    idle: Some(Duration::from_secs(300)),
    drain: Duration::from_secs(30),
    max_pending: 1024,
    early_ping: EarlyPing::Answered,
    duplicates: Duplicates::Dropped,
};
