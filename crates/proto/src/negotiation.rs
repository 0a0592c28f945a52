//! How client and server come to terms over a handshake.
//!
//! On the wire the server answers with one version and its own capabilities. What both can use,
//! and what the client offered in vain, is kept here for traces and for operators.

use crate::{
    Code, Params, Refusal, Time, Version,
    era::{self, Capability, Method},
    machine::{Machine, Step},
    refusal::shortened,
};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::{collections::BTreeSet, time::Duration};

/// The negotiation machine.
#[derive(Debug)]
pub struct Negotiation;

/// What a server may choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// How long the server may take to say what it offers.
    pub patience: Duration,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            patience: Duration::from_secs(5),
        }
    }
}

/// Where a negotiation is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// There is no offer.
    NotNegotiated,
    /// The client has made its offer; the server has yet to say what it has.
    Negotiating {
        /// What the client offered.
        offer: Offer,
        /// When the patience ends.
        until: Time,
    },
    /// The answer is out; the client has not confirmed it.
    Negotiated(Agreement),
    /// The client has confirmed.
    Active(Agreement),
}

impl State {
    /// What both agreed on, once they did.
    #[must_use]
    pub const fn agreement(&self) -> Option<&Agreement> {
        match self {
            Self::Negotiated(agreement) | Self::Active(agreement) => Some(agreement),
            Self::NotNegotiated | Self::Negotiating { .. } => None,
        }
    }

    /// In which version this method may be called now. It is what a step says to
    /// [`Input::Call`], which changes nothing.
    ///
    /// # Errors
    ///
    /// The refusal that answers the call.
    pub fn allows(&self, method: Method) -> Result<Version, Refusal> {
        let agreement = self
            .agreement()
            .ok_or_else(|| Refusal::new(Code::ServerUninitialized))?;
        agreement.allows(method)?;
        Ok(agreement.version)
    }

    /// When the negotiation next needs a [`Input::Tick`], if nothing else happens.
    #[must_use]
    pub const fn wake_at(&self) -> Option<Time> {
        match self {
            Self::Negotiating { until, .. } => Some(*until),
            Self::NotNegotiated | Self::Negotiated(_) | Self::Active(_) => None,
        }
    }
}

/// What `initialize` says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Offer {
    /// The version to speak: the one asked for, or our counter-offer.
    pub version: Version,
    /// What the client can do, as far as we know such things.
    pub client: BTreeSet<Capability>,
    /// What it can do besides.
    pub unsupported: Vec<Box<str>>,
    /// What it calls itself, for logs only.
    pub client_name: Box<str>,
}

impl Offer {
    /// Reads the parameters of `initialize`.
    ///
    /// ```
    /// use interlock_proto::{Params, Version, negotiation::Offer};
    ///
    /// let raw = serde_json::value::RawValue::from_string(
    ///     r#"{"protocolVersion": "2099-01-01", "capabilities": {"roots": {}},
    ///         "clientInfo": {"name": "me", "version": "1"}}"#.to_owned(),
    /// ).unwrap();
    /// let params = Params::new(&raw);
    /// assert_eq!(Offer::read(Some(&params)).unwrap().version, Version::COUNTER_OFFER);
    /// ```
    ///
    /// # Errors
    ///
    /// 1027 if the version is no string, 1021 for anything else that is missing or wrong.
    pub fn read(params: Option<&Params<'_>>) -> Result<Self, Refusal> {
        #[derive(Deserialize)]
        struct Offered<'a> {
            #[serde(borrow, default, rename = "protocolVersion")]
            version: Option<&'a RawValue>,
            #[serde(borrow)]
            capabilities: &'a RawValue,
            #[serde(borrow, rename = "clientInfo")]
            client: &'a RawValue,
        }
        #[derive(Deserialize)]
        struct Client {
            name: String,
            #[expect(dead_code, reason = "it must be there, and that is all")]
            version: String,
        }

        let wrong = |why: String| Refusal::new(Code::InvalidParams).because(why);
        let params = params.ok_or_else(|| wrong("`initialize` needs parameters".to_owned()))?;
        let params: Offered<'_> = object("the parameters of `initialize`", params.get())?;
        let info: Client = object("`clientInfo`", params.client.get())?;
        let version: String = params
            .version
            .and_then(|raw| serde_json::from_str(raw.get()).ok())
            .ok_or_else(|| {
                Refusal::new(Code::InvalidProtocolVersion)
                    .because("`protocolVersion` must be a string")
            })?;
        let (client, unsupported) = era::declared(params.capabilities)
            .ok_or_else(|| wrong("`capabilities` must be an object".to_owned()))?;
        let version = Version::parse(&version)
            .filter(|version| version.era() == era::Era::Handshake)
            .unwrap_or(Version::COUNTER_OFFER);
        Ok(Self {
            version,
            client: client.into_iter().collect(),
            unsupported,
            // It goes into the log, so it must not look like two lines of it.
            client_name: shortened(&info.name).escape_debug().to_string().into(),
        })
    }
}

/// A derived reader would take an array for an object.
fn object<'a, T: Deserialize<'a>>(what: &str, text: &'a str) -> Result<T, Refusal> {
    let wrong = |why: String| Refusal::new(Code::InvalidParams).because(why);
    if !text.starts_with('{') {
        return Err(wrong(format!("{what} must be an object")));
    }
    serde_json::from_str(text).map_err(|error| wrong(format!("{what}: {error}")))
}

/// What may be used from now on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Agreement {
    /// The version both speak.
    pub version: Version,
    /// What the client may use of the server.
    pub server: BTreeSet<Capability>,
    /// What the server may use of the client.
    pub client: BTreeSet<Capability>,
    /// What the client can do besides, and nobody here wants.
    pub unsupported: Vec<Box<str>>,
}

impl Agreement {
    /// Whether this method may be called.
    ///
    /// # Errors
    ///
    /// −32601 if the version does not have it or the server does not offer it.
    pub fn allows(&self, method: Method) -> Result<(), Refusal> {
        allows(self.version, &self.server, method)
    }
}

/// Whether a method may be called in this version, of a server that can do this.
///
/// # Errors
///
/// −32601 if the version does not have it or the server does not offer it.
pub fn allows(
    version: Version,
    server: &BTreeSet<Capability>,
    method: Method,
) -> Result<(), Refusal> {
    let offered = method
        .capability()
        .is_none_or(|capability| server.contains(&capability));
    if offered && method.exists_in(version) {
        Ok(())
    } else {
        Err(Refusal::method_not_found(method.name()))
    }
}

/// What can happen to a negotiation.
#[derive(Clone, Debug)]
pub enum Input {
    /// `initialize` was accepted.
    Offer(Offer),
    /// The server says what it has.
    Have(BTreeSet<Capability>),
    /// The client confirmed.
    Ready,
    /// The client calls a method.
    Call(Method),
    /// Time has passed.
    Tick,
}

/// What a negotiation orders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Find out what the server has.
    Gather,
    /// Answer `initialize`.
    Answer(Agreement),
    /// Hand the call on.
    Serve(Method),
    /// What is agreed on has changed: trace it.
    Changed(Agreement),
    /// Answer `initialize` with this, and close.
    Fail(Refusal),
}

/// The only place where a negotiation changes. A refusal leaves it untouched.
///
/// ```
/// use interlock_proto::{Code, Time, era::Method, negotiation::{Input, Rules, State, step}};
///
/// let call = Input::Call(Method::ToolsList);
/// let refusal = step(&Rules::default(), &State::NotNegotiated, call, Time(0)).unwrap_err();
/// assert_eq!(refusal.code(), Code::ServerUninitialized);
/// ```
///
/// # Errors
///
/// The refusal that answers the call.
pub fn step(
    rules: &Rules,
    state: &State,
    input: Input,
    now: Time,
) -> Result<Step<State, Effect>, Refusal> {
    match state {
        State::NotNegotiated => match input {
            Input::Offer(offer) => {
                let until = now + rules.patience;
                go(State::Negotiating { offer, until }, [Effect::Gather])
            }
            Input::Call(method) => serve(state, method),
            Input::Have(_) | Input::Ready | Input::Tick => stay(state),
        },
        State::Negotiating { offer, until } => match input {
            Input::Have(server) => {
                let agreement = Agreement {
                    version: offer.version,
                    server,
                    client: offer.client.clone(),
                    unsupported: offer.unsupported.clone(),
                };
                let answer = Effect::Answer(agreement.clone());
                go(State::Negotiated(agreement), [answer])
            }
            Input::Tick if now >= *until => {
                let refusal =
                    Refusal::new(Code::Timeout).because("the server did not get ready in time");
                go(State::NotNegotiated, [Effect::Fail(refusal)])
            }
            Input::Call(method) => serve(state, method),
            Input::Offer(_) | Input::Ready | Input::Tick => stay(state),
        },
        State::Negotiated(agreement) => match input {
            Input::Ready => go(State::Active(agreement.clone()), []),
            Input::Call(method) => serve(state, method),
            Input::Have(server) => changed(State::Negotiated, agreement, server),
            Input::Offer(_) | Input::Tick => stay(state),
        },
        State::Active(agreement) => match input {
            Input::Call(method) => serve(state, method),
            Input::Have(server) => changed(State::Active, agreement, server),
            Input::Offer(_) | Input::Ready | Input::Tick => stay(state),
        },
    }
}

fn serve(here: &State, method: Method) -> Stepped {
    here.allows(method)?;
    go(here.clone(), [Effect::Serve(method)])
}

/// No notification tells a client of it; list-changed does where it applies.
fn changed(
    wrap: fn(Agreement) -> State,
    agreement: &Agreement,
    server: BTreeSet<Capability>,
) -> Stepped {
    if agreement.server == server {
        return go(wrap(agreement.clone()), []);
    }
    let agreement = Agreement {
        server,
        ..agreement.clone()
    };
    go(wrap(agreement.clone()), [Effect::Changed(agreement)])
}

type Stepped = Result<Step<State, Effect>, Refusal>;

fn go<const N: usize>(state: State, effects: [Effect; N]) -> Stepped {
    Ok(Step {
        state,
        effects: effects.into(),
    })
}

fn stay(here: &State) -> Stepped {
    go(here.clone(), [])
}

impl Machine for Negotiation {
    const NAME: &'static str = "negotiation";
    const EDGES: &'static [(&'static str, &'static str, &'static str)] = &[
        ("NotNegotiated", "offer", "Negotiating"),
        ("Negotiating", "have", "Negotiated"),
        ("Negotiating", "tick", "NotNegotiated"),
        ("Negotiated", "ready", "Active"),
    ];

    type State = State;
    type Ledger = ();
    type Input = Input;
    type Effect = Effect;

    fn first(_now: Time) -> State {
        State::NotNegotiated
    }

    fn samples() -> Vec<Input> {
        vec![
            Input::Offer(Offer {
                version: Version::COUNTER_OFFER,
                client: BTreeSet::from([Capability::Sampling]),
                unsupported: Vec::new(),
                client_name: "sample".into(),
            }),
            Input::Have(BTreeSet::from([Capability::Tools])),
            Input::Have(BTreeSet::new()),
            Input::Ready,
            Input::Call(Method::ToolsList),
            Input::Tick,
        ]
    }

    fn step(state: &State, (): &(), input: Input, now: Time) -> Stepped {
        step(&Rules::default(), state, input, now)
    }

    fn apply((): &mut (), _effects: &[Effect], _now: Time) {}

    fn state_name(state: &State) -> &'static str {
        match state {
            State::NotNegotiated => "NotNegotiated",
            State::Negotiating { .. } => "Negotiating",
            State::Negotiated(_) => "Negotiated",
            State::Active(_) => "Active",
        }
    }

    fn input_name(input: &Input) -> &'static str {
        match input {
            Input::Offer(_) => "offer",
            Input::Have(_) => "have",
            Input::Ready => "ready",
            Input::Call(_) => "call",
            Input::Tick => "tick",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(state: &State, input: Input, now: Time) -> Result<Step<State, Effect>, Refusal> {
        super::step(&Rules::default(), state, input, now)
    }

    fn read(params: &str) -> Result<Offer, Refusal> {
        let raw = RawValue::from_string(params.to_owned()).unwrap();
        Offer::read(Some(&Params::new(&raw)))
    }

    fn offer() -> Offer {
        read(
            r#"{"protocolVersion": "2025-06-18", "capabilities": {"roots": {}, "magic": {}},
                "clientInfo": {"name": "me", "version": "1"}}"#,
        )
        .unwrap()
    }

    fn negotiated() -> State {
        let state = step(&State::NotNegotiated, Input::Offer(offer()), Time(0))
            .unwrap()
            .state;
        let have = Input::Have(BTreeSet::from([Capability::Tools]));
        step(&state, have, Time(1)).unwrap().state
    }

    #[test]
    fn the_version_asked_for_is_agreed_on_if_it_has_a_handshake() {
        for (asked, agreed) in [
            ("2024-11-05", Version::V2024_11_05),
            ("2025-06-18", Version::V2025_06_18),
            ("2025-11-25", Version::V2025_11_25),
            ("2026-07-28", Version::V2025_11_25),
            ("tomorrow", Version::V2025_11_25),
            ("", Version::V2025_11_25),
        ] {
            let params = format!(
                r#"{{"protocolVersion": "{asked}", "capabilities": {{}},
                    "clientInfo": {{"name": "me", "version": "1"}}}}"#
            );
            assert_eq!(read(&params).unwrap().version, agreed, "{asked}");
        }
    }

    #[test]
    fn the_name_of_a_client_is_one_short_line_in_the_log() {
        let name = format!(r"me\nERROR forged\u001b[2J{}", "x".repeat(10_000));
        let params = format!(
            r#"{{"protocolVersion": "2025-06-18", "capabilities": {{}},
                "clientInfo": {{"name": "{name}", "version": "1"}}}}"#
        );
        let said = read(&params).unwrap().client_name;
        assert!(said.starts_with(r"me\nERROR forged\u{1b}[2J"), "{said}");
        assert!(said.len() < 200, "{said}");
    }

    #[test]
    fn a_malformed_offer_is_refused() {
        let code = |params: &str| read(params).unwrap_err().code();
        let client = r#""clientInfo": {"name": "me", "version": "1"}"#;
        assert_eq!(code("{}"), Code::InvalidParams);
        assert_eq!(code("[]"), Code::InvalidParams);
        assert_eq!(
            code(&format!(r#"{{"capabilities": {{}}, {client}}}"#)),
            Code::InvalidProtocolVersion
        );
        assert_eq!(
            code(&format!(
                r#"{{"protocolVersion": 5, "capabilities": {{}}, {client}}}"#
            )),
            Code::InvalidProtocolVersion
        );
        assert_eq!(
            code(&format!(
                r#"{{"protocolVersion": "2025-11-25", "capabilities": [], {client}}}"#
            )),
            Code::InvalidParams
        );
        for array in [
            r#"["2025-11-25", {}, {"name": "me", "version": "1"}]"#,
            r#"{"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": ["me", "1"]}"#,
        ] {
            assert_eq!(code(array), Code::InvalidParams, "{array}");
        }
        assert_eq!(Offer::read(None).unwrap_err().code(), Code::InvalidParams);
    }

    #[test]
    fn agreed_and_unsupported_are_kept_apart() {
        let state = negotiated();
        let agreement = state.agreement().unwrap();
        assert_eq!(agreement.version, Version::V2025_06_18);
        assert_eq!(agreement.server, BTreeSet::from([Capability::Tools]));
        assert_eq!(agreement.client, BTreeSet::from([Capability::Roots]));
        assert_eq!(agreement.unsupported, ["magic".into()]);
    }

    #[test]
    fn a_method_is_served_if_the_version_has_it_and_the_server_offers_it() {
        let state = negotiated();
        let call = |method| step(&state, Input::Call(method), Time(2));
        assert_eq!(
            call(Method::ToolsList).unwrap().effects,
            [Effect::Serve(Method::ToolsList)]
        );
        assert!(call(Method::Ping).is_ok());
        for missing in [Method::PromptsList, Method::Discover, Method::TasksGet] {
            assert_eq!(call(missing).unwrap_err().rpc_code().0, -32601);
        }
    }

    #[test]
    fn calls_before_the_end_of_the_negotiation_are_refused() {
        let negotiating = step(&State::NotNegotiated, Input::Offer(offer()), Time(0))
            .unwrap()
            .state;
        for state in [State::NotNegotiated, negotiating] {
            let refusal = step(&state, Input::Call(Method::Ping), Time(1)).unwrap_err();
            assert_eq!(refusal.code(), Code::ServerUninitialized);
        }
    }

    #[test]
    fn a_server_that_is_not_ready_in_time_fails_the_handshake() {
        let state = step(&State::NotNegotiated, Input::Offer(offer()), Time(0))
            .unwrap()
            .state;
        assert_eq!(state.wake_at(), Some(Time(5_000)));
        assert_eq!(step(&state, Input::Tick, Time(4_999)).unwrap().state, state);
        let step = step(&state, Input::Tick, Time(5_000)).unwrap();
        assert_eq!(step.state, State::NotNegotiated);
        assert!(matches!(&step.effects[..], [Effect::Fail(refusal)]
            if refusal.code() == Code::Timeout));
    }

    #[test]
    fn a_second_offer_changes_nothing() {
        let negotiating = step(&State::NotNegotiated, Input::Offer(offer()), Time(0))
            .unwrap()
            .state;
        let active = step(&negotiated(), Input::Ready, Time(2)).unwrap().state;
        for state in [negotiating, negotiated(), active] {
            let other = Offer {
                client_name: "another".into(),
                ..offer()
            };
            let step = step(&state, Input::Offer(other), Time(3)).unwrap();
            assert_eq!((step.state, step.effects), (state, [].into()));
        }
    }

    #[test]
    fn a_changed_server_is_traced_once() {
        let state = step(&negotiated(), Input::Ready, Time(2)).unwrap().state;
        assert!(matches!(state, State::Active(_)));
        let have = || Input::Have(BTreeSet::from([Capability::Tools, Capability::Prompts]));
        let first = step(&state, have(), Time(3)).unwrap();
        assert!(matches!(&first.effects[..], [Effect::Changed(_)]));
        assert_eq!(step(&first.state, have(), Time(3)).unwrap().effects, []);
    }
}
