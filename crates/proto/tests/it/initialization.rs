//! The initialization property, for every method of every version, at the level of the machines:
//! before `initialize` nothing but `initialize`, after it no second one, and no way back.
//!
//! A [`Server`] here is no more than the connection and the negotiation machine in a row.

use crate::subject::{handshake, stateless};
use interlock_proto::{
    Code, Refusal, RequestId, RpcCode, Time, Version,
    connection::{self, EarlyPing, Effect, Ledger, Noise, Rules, State},
    era::{Capability, Era, Method},
    machine::Machine,
    negotiation::{self, Agreement, Negotiation, Offer},
};
use std::collections::BTreeSet;

const NOW: Time = Time(1);
const RULES: negotiation::Rules = negotiation::Rules {
    patience: std::time::Duration::from_secs(5),
};
/// Names that no version has, near to some that exist.
const UNKNOWN: &[&str] = &[
    "",
    "Initialize",
    "initialize ",
    "initialized",
    "notifications/initialized",
    "tools",
    "tools/List",
    "rpc.discover",
    "nobody/knows",
];

fn names() -> impl Iterator<Item = &'static str> {
    let known = Method::ALL.iter().map(|method| method.name());
    known.chain(UNKNOWN.iter().copied())
}

fn handshake_versions() -> impl Iterator<Item = Version> {
    let all = Version::ALL.iter().copied();
    all.filter(|version| version.era() == Era::Handshake)
}

#[derive(Clone, Debug, PartialEq)]
struct Server {
    rules: Rules,
    state: State,
    ledger: Ledger,
    negotiation: negotiation::State,
}

impl Server {
    fn new(rules: Rules) -> Self {
        Self {
            rules,
            state: rules.first(Time(0)),
            ledger: Ledger::default(),
            negotiation: Negotiation::first(Time(0)),
        }
    }

    /// One that has been initialized with this version, in each state that comes after it.
    fn initialized(version: Version) -> Vec<Self> {
        let mut server = Self::new(Rules::default());
        server.ask("initialize", version).unwrap();
        let initializing = server.clone();
        server.connection(connection::Input::Ready).unwrap();
        let ready = negotiation::Input::Ready;
        server.negotiation = negotiation::step(&RULES, &server.negotiation, ready, NOW)
            .unwrap()
            .state;
        let initialized = server.clone();
        let subscribed = connection::Input::Subscribed("note://a".to_owned());
        server.connection(subscribed).unwrap();
        vec![initializing, initialized, server]
    }

    /// What a request without modern `_meta` comes to; it is answered at once.
    fn ask(&mut self, method: &str, version: Version) -> Result<(), Refusal> {
        let id = RequestId::from(7);
        let input = match Method::parse(method) {
            Some(Method::Initialize) => connection::Input::Initialize {
                id,
                version: Ok(version),
            },
            Some(Method::Ping) => connection::Input::Ping { id },
            Some(_) | None => connection::Input::Request(handshake(7)),
        };
        let served = match &self.connection(input)?[..] {
            [Effect::Negotiate(..)] => self.negotiate(version),
            [Effect::Serve(_)] => self.serve(method),
            other => panic!("{other:?}"),
        };
        self.connection(connection::Input::Settled(handshake(7)))
            .unwrap();
        served
    }

    fn connection(&mut self, input: connection::Input) -> Result<Vec<Effect>, Refusal> {
        let step = connection::step(&self.rules, &self.state, &self.ledger, input, NOW)?;
        self.ledger.apply(&step.effects, NOW);
        self.state = step.state;
        Ok(step.effects.to_vec())
    }

    fn negotiate(&mut self, version: Version) -> Result<(), Refusal> {
        let offer = negotiation::Input::Offer(Offer {
            version,
            client: BTreeSet::new(),
            unsupported: Vec::new(),
            client_name: version.as_str().into(),
        });
        for input in [offer, negotiation::Input::Have(everything())] {
            self.negotiation = negotiation::step(&RULES, &self.negotiation, input, NOW)?.state;
        }
        Ok(())
    }

    fn serve(&self, method: &str) -> Result<(), Refusal> {
        let known = Method::parse(method).ok_or_else(|| Refusal::method_not_found(method))?;
        if known == Method::Ping {
            return Ok(());
        }
        negotiation::step(
            &RULES,
            &self.negotiation,
            negotiation::Input::Call(known),
            NOW,
        )
        .map(|_| ())
    }
}

fn everything() -> BTreeSet<Capability> {
    Method::ALL
        .iter()
        .filter_map(|method| method.capability())
        .collect()
}

/// Before `initialize`, also after 2026-07-28 requests, which leave nothing behind.
fn uninitialized(rules: Rules) -> Vec<Server> {
    let server = Server::new(rules);
    let mut stateless_before = server.clone();
    for input in [
        connection::Input::Request(stateless(1, 1)),
        connection::Input::Settled(stateless(1, 1)),
    ] {
        stateless_before.connection(input).unwrap();
    }
    assert_eq!(stateless_before.state, State::Stateless);
    vec![server, stateless_before]
}

#[test]
fn before_initialize_every_other_method_is_refused_and_nothing_changes() {
    let strict = Rules {
        early_ping: EarlyPing::Refused,
        ..Rules::default()
    };
    for rules in [Rules::default(), strict] {
        for fresh in uninitialized(rules) {
            for (method, version) in
                names().flat_map(|name| handshake_versions().map(move |version| (name, version)))
            {
                let mut server = fresh.clone();
                let asked = server.ask(method, version);
                if method == "initialize" {
                    assert_eq!(asked, Ok(()));
                    assert_eq!(server.state, State::Initializing(version));
                    continue;
                }
                if method == "ping" && rules.early_ping == EarlyPing::Answered {
                    assert_eq!(asked, Ok(()));
                    assert_eq!(server.state, fresh.state);
                    assert_eq!(server.negotiation, fresh.negotiation);
                    continue;
                }
                let refusal = asked.unwrap_err();
                assert_eq!(refusal.code(), Code::ServerUninitialized, "{method}");
                assert_eq!(refusal.rpc_code(), RpcCode::INVALID_PARAMS, "{method}");
                assert!(refusal.message().contains("`initialize`"), "{refusal}");
                assert!(
                    refusal.message().contains("2026-07-28 `_meta`"),
                    "{refusal}"
                );
                assert_eq!(server, fresh, "{method}");
            }
        }
    }
}

#[test]
fn after_initialize_another_one_is_refused_and_changes_nothing() {
    for version in handshake_versions() {
        for initialized in Server::initialized(version) {
            for other in handshake_versions() {
                let mut server = initialized.clone();
                let refusal = server.ask("initialize", other).unwrap_err();
                assert_eq!(refusal.rpc_code(), RpcCode::INVALID_REQUEST);
                assert_eq!(server, initialized);
                // Not even the client's name, should the offer get as far as that.
                server.negotiate(other).unwrap();
                assert_eq!(server.negotiation, initialized.negotiation);
            }
        }
    }
}

#[test]
fn after_initialize_exactly_the_methods_of_the_version_are_served() {
    for version in handshake_versions() {
        for initialized in Server::initialized(version) {
            for method in names().filter(|name| *name != "initialize") {
                let mut server = initialized.clone();
                let exists = Method::parse(method).is_some_and(|known| known.exists_in(version));
                let asked = server.ask(method, version).map_err(|no| no.rpc_code());
                let expected = if exists {
                    Ok(())
                } else {
                    Err(RpcCode::METHOD_NOT_FOUND)
                };
                assert_eq!(asked, expected, "{method} in {version}");
                assert_eq!(server.state, initialized.state, "{method}");
                assert_eq!(server.negotiation, initialized.negotiation, "{method}");
            }
        }
    }
}

#[test]
fn a_modern_request_is_served_whatever_the_state_and_leaves_nothing_behind() {
    let open = handshake_versions().flat_map(Server::initialized);
    for before in uninitialized(Rules::default()).into_iter().chain(open) {
        let mut server = before.clone();
        let served = server.connection(connection::Input::Request(stateless(7, 9)));
        assert_eq!(served, Ok(vec![Effect::Serve(stateless(7, 9))]));
        server
            .connection(connection::Input::Settled(stateless(7, 9)))
            .unwrap();
        assert_eq!(server.ledger.pending(), 0);
        assert_eq!(server.ledger.subscriptions(), before.ledger.subscriptions());
        assert_eq!(server.negotiation, before.negotiation);
        match before.state {
            State::NotInitialized { .. } => assert_eq!(server.state, State::Stateless),
            State::Stateless
            | State::Initializing(_)
            | State::Initialized(_)
            | State::Subscribed(_)
            | State::Draining { .. }
            | State::Closed => assert_eq!(server.state, before.state),
        }
    }
}

#[test]
fn a_modern_request_is_allowed_exactly_the_methods_of_its_version() {
    for version in Version::STATELESS {
        let agreement = Agreement {
            version: *version,
            server: everything(),
            client: BTreeSet::new(),
            unsupported: Vec::new(),
        };
        for method in Method::ALL {
            assert_eq!(
                agreement.allows(*method).is_ok(),
                method.exists_in(*version)
            );
        }
        assert!(agreement.allows(Method::Initialize).is_err());
    }
}

#[test]
fn what_is_told_before_initialize_is_ignored_and_changes_nothing() {
    for fresh in uninitialized(Rules::default()) {
        for (input, noise) in [
            (connection::Input::Ready, Noise::Notification),
            (connection::Input::Notification, Noise::Notification),
            (
                connection::Input::Cancelled { id: 7.into() },
                Noise::UnknownCancelled,
            ),
            (connection::Input::Response(None), Noise::StrayResponse),
        ] {
            let mut server = fresh.clone();
            assert_eq!(server.connection(input), Ok(vec![Effect::Ignore(noise)]));
            assert_eq!(server, fresh);
        }
    }
}

#[test]
fn a_malformed_initialize_is_refused_and_a_good_one_may_follow() {
    let bad = || connection::Input::Initialize {
        id: 7.into(),
        version: Err(Refusal::new(Code::InvalidProtocolVersion)),
    };
    for fresh in uninitialized(Rules::default()) {
        let mut server = fresh.clone();
        let refusal = server.connection(bad()).unwrap_err();
        assert_eq!(refusal.code(), Code::InvalidProtocolVersion);
        assert_eq!(server, fresh);
        server.ask("initialize", Version::V2025_06_18).unwrap();
        assert_eq!(server.state, State::Initializing(Version::V2025_06_18));
    }
}
