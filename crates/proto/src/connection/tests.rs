//! What a connection does, transition by transition.

use super::{drawn::SAMPLE_RULES, *};
use crate::{CallId, machine::Machine as _};
use std::time::Duration;

const NOW: Time = Time(1_000);
const V: Version = Version::V2025_11_25;

fn key(id: i64) -> Key {
    handshake(id.into())
}

fn modern(id: i64, call: u64) -> Key {
    Key {
        id: id.into(),
        lane: Lane::Stateless(CallId(call)),
    }
}

fn initialize(id: i64) -> Input {
    Input::Initialize {
        id: id.into(),
        version: Ok(V),
    }
}

/// A connection that plays its inputs and keeps the pair of state and ledger.
struct Line {
    rules: Rules,
    state: State,
    ledger: Ledger,
}

impl Line {
    fn new() -> Self {
        let rules = Rules::default();
        Self {
            rules,
            state: rules.first(Time(0)),
            ledger: Ledger::default(),
        }
    }

    fn initialized() -> Self {
        let mut line = Self::new();
        line.play(initialize(0), NOW).unwrap();
        line.play(Input::Settled(key(0)), NOW).unwrap();
        line.play(Input::Ready, NOW).unwrap();
        line
    }

    fn play(&mut self, input: Input, now: Time) -> Result<Vec<Effect>, Code> {
        let step = step(&self.rules, &self.state, &self.ledger, input, now)
            .map_err(|refusal| refusal.code())?;
        self.ledger.apply(&step.effects, now);
        self.state = step.state;
        Ok(step.effects.to_vec())
    }
}

#[test]
fn before_initialize_requests_are_refused_and_nothing_changes() {
    let mut line = Line::new();
    let before = (line.state, line.ledger.clone());
    assert_eq!(
        line.play(Input::Request(key(1)), NOW),
        Err(Code::ServerUninitialized)
    );
    assert_eq!(before, (line.state, line.ledger));
}

#[test]
fn a_refused_initialize_changes_nothing() {
    let mut line = Line::new();
    let input = Input::Initialize {
        id: 1.into(),
        version: Err(Refusal::new(Code::InvalidProtocolVersion)),
    };
    assert_eq!(line.play(input, NOW), Err(Code::InvalidProtocolVersion));
    assert_eq!(line.state, line.rules.first(Time(0)));
}

#[test]
fn a_second_initialize_is_refused_and_nothing_changes() {
    let mut line = Line::initialized();
    assert_eq!(line.play(initialize(1), NOW), Err(Code::ProtocolError));
    assert_eq!(line.state, State::Initialized(V));
    assert_eq!(line.ledger.pending(), 0);
}

#[test]
fn requests_between_initialize_and_initialized_are_served() {
    let mut line = Line::new();
    line.play(initialize(1), NOW).unwrap();
    assert_eq!(
        line.play(Input::Request(key(2)), NOW),
        Ok(vec![Effect::Serve(key(2))])
    );
    assert_eq!(line.state, State::Initializing(V));
}

#[test]
fn a_modern_request_is_served_in_every_open_state() {
    let mut line = Line::new();
    line.play(Input::Request(modern(1, 1)), NOW).unwrap();
    assert_eq!(line.state, State::Stateless);
    assert_eq!(
        line.play(Input::Request(key(9)), NOW),
        Err(Code::ServerUninitialized)
    );
    line.play(initialize(2), NOW).unwrap();
    assert_eq!(line.state, State::Initializing(V));
    line.play(Input::Ready, NOW).unwrap();
    line.play(Input::Request(modern(1, 2)), NOW).unwrap();
    assert_eq!(line.state, State::Initialized(V));
}

#[test]
fn ping_is_answered_before_initialize_unless_the_server_is_strict() {
    let ping = || Input::Ping { id: 1.into() };
    let mut line = Line::new();
    assert_eq!(line.play(ping(), NOW), Ok(vec![Effect::Serve(key(1))]));
    let mut line = Line::new();
    line.rules.early_ping = EarlyPing::Refused;
    assert_eq!(line.play(ping(), NOW), Err(Code::ServerUninitialized));
}

#[test]
fn early_notifications_and_stray_responses_are_ignored() {
    let mut line = Line::new();
    for (input, noise) in [
        (Input::Ready, Noise::Notification),
        (Input::Notification, Noise::Notification),
        (Input::Cancelled { id: 1.into() }, Noise::UnknownCancelled),
        (Input::Response(Some(AskId(1))), Noise::StrayResponse),
    ] {
        assert_eq!(line.play(input, NOW), Ok(vec![Effect::Ignore(noise)]));
    }
    assert_eq!(line.state, line.rules.first(Time(0)));
}

#[test]
fn a_silent_client_is_closed_at_the_deadline_and_not_before() {
    let mut line = Line::new();
    line.play(Input::Tick, Time(29_999)).unwrap();
    assert_ne!(line.state, State::Closed);
    assert_eq!(
        line.play(Input::Tick, Time(30_000)),
        Ok(vec![Effect::Close])
    );
    assert_eq!(line.state, State::Closed);
}

#[test]
fn a_modern_request_lifts_the_initialize_deadline() {
    let mut line = Line::new();
    line.play(Input::Request(modern(1, 1)), NOW).unwrap();
    line.play(Input::Tick, Time(u64::MAX)).unwrap();
    assert_eq!(line.state, State::Stateless);
    assert_eq!(line.state.wake_at(&line.rules, &line.ledger), None);
}

#[test]
fn a_duplicate_is_dropped_or_refused_and_the_first_goes_on() {
    let mut line = Line::initialized();
    line.play(Input::Request(key(1)), NOW).unwrap();
    assert_eq!(
        line.play(Input::Request(key(1)), NOW),
        Ok(vec![Effect::Ignore(Noise::Duplicate)])
    );
    line.rules.duplicates = Duplicates::Refused;
    assert_eq!(
        line.play(Input::Request(key(1)), NOW),
        Err(Code::EntityDuplicate)
    );
    assert_eq!(line.ledger.pending(), 1);
    line.play(Input::Settled(key(1)), NOW).unwrap();
    assert_eq!(
        line.play(Input::Request(key(1)), NOW),
        Ok(vec![Effect::Serve(key(1))])
    );
}

/// An error with the id of a call in flight would settle that call at the client, whatever the
/// error is about.
#[test]
fn a_dropped_duplicate_is_dropped_in_every_state_and_whatever_it_asks() {
    let ignored = || Ok(vec![Effect::Ignore(Noise::Duplicate)]);
    let ping = || Input::Ping { id: 1.into() };
    let mut early = Line::new();
    early.play(ping(), NOW).unwrap();
    let mut open = Line::initialized();
    open.play(Input::Request(key(1)), NOW).unwrap();
    let mut draining = Line::initialized();
    draining.play(Input::Request(key(1)), NOW).unwrap();
    draining.play(Input::Drain, NOW).unwrap();
    for mut line in [early, open, draining] {
        let before = (line.state, line.ledger.clone());
        for input in [initialize(1), ping(), Input::Request(key(1))] {
            assert_eq!(line.play(input, NOW), ignored(), "{:?}", before.0);
        }
        assert_eq!((line.state, line.ledger), before);
    }
}

#[test]
fn an_initialize_with_an_id_in_flight_is_refused_over_http() {
    let mut line = Line::new();
    line.rules.duplicates = Duplicates::Refused;
    line.play(Input::Ping { id: 1.into() }, NOW).unwrap();
    assert_eq!(line.play(initialize(1), NOW), Err(Code::EntityDuplicate));
    assert_eq!(
        line.play(Input::Request(key(1)), NOW),
        Err(Code::EntityDuplicate)
    );
    assert_eq!(line.state, line.rules.first(Time(0)));
}

#[test]
fn a_request_of_ours_is_sent_once() {
    let mut line = Line::initialized();
    line.play(Input::Ask(AskId(1)), NOW).unwrap();
    assert_eq!(line.play(Input::Ask(AskId(1)), NOW), Ok(vec![]));
    assert_eq!(line.ledger.asks(), 1);
    line.play(Input::Ask(AskId(2)), NOW).unwrap();
    assert_eq!(line.ledger.asks(), 2);
}

#[test]
fn nothing_is_answered_with_an_id_that_is_in_flight() {
    let malformed = |id: i64| Input::Malformed {
        id: Some(id.into()),
        refusal: Refusal::new(Code::ProtocolError),
    };
    let mut line = Line::initialized();
    line.play(Input::Request(key(1)), NOW).unwrap();
    line.play(Input::Request(modern(2, 1)), NOW).unwrap();
    let dropped = Ok(vec![Effect::Ignore(Noise::Duplicate)]);
    for _ in 0..2 {
        for input in [
            initialize(1),
            Input::Ping { id: 1.into() },
            malformed(1),
            malformed(2),
            Input::Request(modern(1, 2)),
            Input::Request(key(2)),
        ] {
            assert_eq!(line.play(input, NOW), dropped);
        }
        // While draining it is the same.
        line.play(Input::Drain, NOW).unwrap();
    }
    assert_eq!(line.play(malformed(3), NOW), Err(Code::ProtocolError));
}

#[test]
fn modern_requests_may_share_an_id_and_are_cancelled_together() {
    let mut line = Line::new();
    line.play(Input::Request(modern(7, 1)), NOW).unwrap();
    line.play(Input::Request(modern(7, 2)), NOW).unwrap();
    line.play(Input::Request(modern(8, 3)), NOW).unwrap();
    assert_eq!(
        line.play(Input::Cancelled { id: 7.into() }, NOW),
        Ok(vec![
            Effect::Cancel(modern(7, 1)),
            Effect::Cancel(modern(7, 2))
        ])
    );
}

#[test]
fn too_many_requests_are_refused() {
    let mut line = Line::initialized();
    line.rules.max_pending = 1;
    line.play(Input::Request(key(1)), NOW).unwrap();
    assert_eq!(
        line.play(Input::Request(key(2)), NOW),
        Err(Code::QueueCapExceeded)
    );
}

#[test]
fn draining_lets_work_end_and_takes_no_more() {
    let mut line = Line::initialized();
    line.play(Input::Request(key(1)), NOW).unwrap();
    line.play(Input::Request(key(2)), NOW).unwrap();
    assert_eq!(line.play(Input::Drain, NOW), Ok(vec![]));
    assert_eq!(
        line.play(Input::Request(key(3)), NOW),
        Err(Code::ServerShuttingDown)
    );
    assert_eq!(
        line.play(Input::Settled(key(1)), NOW),
        Ok(vec![Effect::Forget(key(1))])
    );
    assert_eq!(
        line.play(Input::Settled(key(2)), NOW),
        Ok(vec![Effect::Forget(key(2)), Effect::Close])
    );
    assert_eq!(line.state, State::Closed);
}

#[test]
fn what_outlasts_the_drain_is_abandoned() {
    let mut line = Line::initialized();
    line.play(Input::Request(key(1)), NOW).unwrap();
    line.play(Input::Ask(AskId(5)), NOW).unwrap();
    line.play(Input::Drain, NOW).unwrap();
    let end = NOW + line.rules.drain;
    assert_eq!(line.state.wake_at(&line.rules, &line.ledger), Some(end));
    assert_eq!(
        line.play(Input::Tick, end),
        Ok(vec![
            Effect::AbandonAsk(AskId(5)),
            Effect::Abandon(key(1), Peer::Present),
            Effect::Close
        ])
    );
    assert_eq!(line.ledger.pending(), 0);
}

#[test]
fn the_drain_ends_at_its_deadline_and_not_before() {
    let mut line = Line::initialized();
    line.play(Input::Request(key(1)), NOW).unwrap();
    line.play(Input::Drain, NOW).unwrap();
    let draining = line.state;
    let end = NOW + line.rules.drain;
    assert_eq!(line.play(Input::Tick, Time(end.0 - 1)), Ok(vec![]));
    assert_eq!(line.play(Input::Drain, Time(end.0 - 1)), Ok(vec![]));
    assert_eq!(line.state, draining);
    line.play(Input::Tick, end).unwrap();
    assert_eq!(line.state, State::Closed);
}

#[test]
fn a_peer_that_is_lost_while_draining_is_lost_once() {
    let mut line = Line::initialized();
    line.play(Input::Request(key(1)), NOW).unwrap();
    line.play(Input::Request(modern(2, 1)), NOW).unwrap();
    line.play(Input::Ask(AskId(5)), NOW).unwrap();
    line.play(Input::Drain, NOW).unwrap();
    assert_eq!(
        line.play(Input::Gone, NOW),
        Ok(vec![
            Effect::Cancel(modern(2, 1)),
            Effect::AbandonAsk(AskId(5))
        ])
    );
    let gone = line.state;
    assert!(matches!(
        gone,
        State::Draining {
            peer: Peer::Gone,
            ..
        }
    ));
    assert_eq!(line.play(Input::Gone, NOW), Ok(vec![]));
    assert_eq!(line.state, gone);
}

#[test]
fn a_client_that_is_silent_is_answered_and_answers_nothing() {
    for drains in [false, true] {
        let mut line = Line::initialized();
        line.play(Input::Request(key(1)), NOW).unwrap();
        line.play(Input::Request(modern(2, 1)), NOW).unwrap();
        line.play(Input::Ask(AskId(5)), NOW).unwrap();
        if drains {
            line.play(Input::Drain, NOW).unwrap();
        }
        let abandoned = vec![Effect::AbandonAsk(AskId(5))];
        assert_eq!(line.play(Input::Silent, NOW), Ok(abandoned));
        assert!(matches!(
            line.state,
            State::Draining {
                peer: Peer::Present,
                ..
            }
        ));
        assert_eq!(line.play(Input::Silent, NOW), Ok(vec![]));
        let late = line.play(Input::Response(Some(AskId(5))), NOW);
        assert_eq!(late, Ok(vec![Effect::Ignore(Noise::StrayResponse)]));
    }
}

#[test]
fn a_lost_peer_cancels_modern_calls_and_no_others() {
    let mut line = Line::initialized();
    line.play(Input::Request(key(1)), NOW).unwrap();
    line.play(Input::Request(modern(2, 1)), NOW).unwrap();
    assert_eq!(
        line.play(Input::Gone, NOW),
        Ok(vec![Effect::Cancel(modern(2, 1))])
    );
    line.play(Input::Settled(modern(2, 1)), NOW).unwrap();
    let end = NOW + line.rules.drain;
    assert_eq!(
        line.play(Input::Tick, end),
        Ok(vec![Effect::Abandon(key(1), Peer::Gone), Effect::Close])
    );
}

#[test]
fn the_first_and_last_subscription_move_the_state() {
    let mut line = Line::initialized();
    let uri = |name: &str| name.to_owned();
    line.play(Input::Subscribed(uri("a")), NOW).unwrap();
    line.play(Input::Subscribed(uri("b")), NOW).unwrap();
    assert_eq!(line.ledger.subscriptions(), 2);
    line.play(Input::Unsubscribed(uri("a")), NOW).unwrap();
    assert_eq!(line.state, State::Subscribed(V));
    line.play(Input::Unsubscribed(uri("c")), NOW).unwrap();
    assert_eq!(line.state, State::Subscribed(V));
    line.play(Input::Unsubscribed(uri("b")), NOW).unwrap();
    assert_eq!(line.state, State::Initialized(V));
}

#[test]
fn our_requests_are_settled_once() {
    let mut line = Line::initialized();
    line.play(Input::Ask(AskId(1)), NOW).unwrap();
    assert_eq!(
        line.play(Input::Response(Some(AskId(1))), NOW),
        Ok(vec![Effect::Settle(AskId(1))])
    );
    assert_eq!(
        line.play(Input::Response(Some(AskId(1))), NOW),
        Ok(vec![Effect::Ignore(Noise::StrayResponse)])
    );
}

#[test]
fn an_idle_connection_closes_only_when_nothing_runs() {
    let mut line = Line::initialized();
    line.rules.idle = Some(Duration::from_secs(300));
    line.play(Input::Request(key(1)), NOW).unwrap();
    assert_eq!(line.state.wake_at(&line.rules, &line.ledger), None);
    let late = NOW + Duration::from_secs(301);
    assert_eq!(line.play(Input::Tick, late), Ok(vec![]));
    line.play(Input::Settled(key(1)), late).unwrap();
    let end = late + Duration::from_secs(300);
    assert_eq!(line.state.wake_at(&line.rules, &line.ledger), Some(end));
    assert_eq!(line.play(Input::Tick, end), Ok(vec![Effect::Close]));
}

#[test]
fn closed_is_the_end() {
    for input in Connection::samples() {
        match step(
            &SAMPLE_RULES,
            &State::Closed,
            &Ledger::default(),
            input,
            NOW,
        ) {
            Ok(step) => assert_eq!((step.state, step.effects), (State::Closed, [].into())),
            Err(refusal) => assert_eq!(refusal.code(), Code::ServerShuttingDown),
        }
    }
}
