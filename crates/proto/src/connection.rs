//! A connection's life, from its first byte to its last.
//!
//! `initialize` opens the handshake era; a request with 2026-07-28 `_meta` is served statelessly
//! whatever the state. Before `initialize` everything else is refused and nothing changes; after
//! it, a second one is refused and nothing changes; there is no way back. What is in flight is in
//! the [`Ledger`]; draining answers or drops each of it, and `Closed` is the end.

use crate::{
    AskId, Code, Refusal, RequestId, RpcCode, Time, Version,
    machine::{Effects, Step},
};

mod drawn;
mod ledger;
mod pending;
mod settings;
#[cfg(test)]
mod tests;

pub use ledger::{Key, Lane, Ledger};
pub use settings::{Duplicates, EarlyPing, Rules};

/// The connection machine.
#[derive(Debug)]
pub struct Connection;

/// Where a connection is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u64)] // Copied in whole words.
pub enum State {
    /// Nothing has been agreed on.
    NotInitialized {
        /// When the patience ends.
        until: Option<Time>,
    },
    /// A 2026-07-28 request has come, so nobody waits for `initialize` any more.
    Stateless,
    /// `initialize` has been accepted; the client has not said `initialized` yet.
    Initializing(Version),
    /// The handshake is complete.
    Initialized(Version),
    /// As `Initialized`, with at least one subscription.
    Subscribed(Version),
    /// No new work is taken; what is in flight may end.
    Draining {
        /// When the patience ends.
        until: Time,
        /// Whether anybody is still there to be answered.
        peer: Peer,
        /// What had been agreed on.
        version: Option<Version>,
    },
    /// The end.
    Closed,
}

/// Whether anybody is still there to be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Peer {
    /// It may still be reading.
    Present,
    /// What is written to it is lost.
    Gone,
}

impl State {
    /// The handshake version, once there is one.
    #[must_use]
    pub const fn version(&self) -> Option<Version> {
        match self {
            Self::Initializing(version)
            | Self::Initialized(version)
            | Self::Subscribed(version) => Some(*version),
            Self::Draining { version, .. } => *version,
            Self::NotInitialized { .. } | Self::Stateless | Self::Closed => None,
        }
    }

    /// When the connection next needs a [`Input::Tick`], if nothing else happens.
    #[must_use]
    pub fn wake_at(&self, rules: &Rules, ledger: &Ledger) -> Option<Time> {
        match self {
            Self::NotInitialized { until } => *until,
            Self::Draining { until, .. } => Some(*until),
            Self::Initialized(_)
            | Self::Subscribed(_)
            | Self::Initializing(_)
            | Self::Stateless => {
                // Work in flight is not idleness; its end sets the clock anew.
                rules
                    .idle
                    .filter(|_| ledger.pending.is_empty())
                    .map(|idle| ledger.active_at + idle)
            }
            Self::Closed => None,
        }
    }
}

/// What can happen to a connection.
#[derive(Clone, Debug)]
pub enum Input {
    /// `initialize` came; its parameters were read already, or could not be.
    Initialize {
        /// The request's id.
        id: RequestId,
        /// The version to speak, or what is wrong with the parameters.
        version: Result<Version, Refusal>,
    },
    /// `ping` came without modern `_meta`.
    Ping {
        /// The request's id.
        id: RequestId,
    },
    /// Any other request came.
    Request(Key),
    /// A request came that cannot be read.
    Malformed {
        /// Its id, where that could be read.
        id: Option<RequestId>,
        /// What is wrong with it.
        refusal: Refusal,
    },
    /// `notifications/initialized` came.
    Ready,
    /// `notifications/cancelled` came.
    Cancelled {
        /// Which request is meant.
        id: RequestId,
    },
    /// Any other notification came.
    Notification,
    /// An answer came; without a number if its id is none that we give.
    Response(Option<AskId>),
    /// We ask the client something.
    Ask(AskId),
    /// A request of the client's has its answer, or will get none because it was cancelled.
    Settled(Key),
    /// The client subscribed to a resource.
    Subscribed(String),
    /// A subscription ended.
    Unsubscribed(String),
    /// We were told to stop.
    Drain,
    /// The client closed its side: it may still be reading, and says nothing any more.
    Silent,
    /// Writing to the client failed.
    Gone,
    /// Time has passed.
    Tick,
}

/// What a connection orders.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(u64)] // Moved in whole words.
pub enum Effect {
    /// Negotiate, and answer this `initialize`.
    Negotiate(Key, Version),
    /// Hand this request on.
    Serve(Key),
    /// The client is ready: our own requests may begin.
    Activate,
    /// The client takes this request back.
    Cancel(Key),
    /// This request of ours has its answer.
    Settle(AskId),
    /// Send this request of ours.
    SendAsk(AskId),
    /// This request is no longer in flight.
    Forget(Key),
    /// The peer is active on this subscription from now on.
    Subscribe(String),
    /// The peer is no longer subscribed to this.
    Unsubscribe(String),
    /// Nothing is done; say in the log why.
    Ignore(Noise),
    /// Tear this request down; answer it with 1077 if the peer is present, drop it otherwise.
    Abandon(Key, Peer),
    /// Nobody will answer this request of ours.
    AbandonAsk(AskId),
    /// Close the transport.
    Close,
}

/// Why something was ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Noise {
    /// A notification before `initialize`, or one that says nothing new.
    Notification,
    /// An answer to nothing that we asked.
    StrayResponse,
    /// A cancellation of nothing that is in flight.
    UnknownCancelled,
    /// A request whose id is in flight. An error with that id would settle the first call at the
    /// client, so on a shared stream it is dropped.
    Duplicate,
}

/// The only place where a connection changes. A refusal leaves it untouched.
///
/// ```
/// use interlock_proto::{Code, Time, connection::{Input, Key, Lane, Ledger, Rules, step}};
///
/// let rules = Rules::default();
/// let state = rules.first(Time(0));
/// let call = Input::Request(Key { id: 1.into(), lane: Lane::Handshake });
/// let refusal = step(&rules, &state, &Ledger::default(), call, Time(1)).unwrap_err();
/// assert_eq!(refusal.code(), Code::ServerUninitialized);
/// ```
///
/// # Errors
///
/// The refusal that answers the request.
pub fn step(
    rules: &Rules,
    state: &State,
    ledger: &Ledger,
    input: Input,
    now: Time,
) -> Result<Step<State, Effect>, Refusal> {
    // Before anything else: whatever is said about it would carry the id of the first call, and
    // settle that one at the client.
    if ledger.is_duplicate(&input) {
        return match rules.duplicates {
            Duplicates::Dropped => ignore(state, Noise::Duplicate),
            Duplicates::Refused => {
                Err(Refusal::new(Code::EntityDuplicate).with_rpc(RpcCode::INVALID_REQUEST))
            }
        };
    }
    match state {
        State::NotInitialized { until: Some(until) }
            if matches!(input, Input::Tick) && now >= *until =>
        {
            close(ledger, Peer::Present)
        }
        State::NotInitialized { .. } | State::Stateless => {
            unopened(rules, state, ledger, input, now)
        }
        State::Initializing(version) => initializing(rules, *version, ledger, input, now),
        State::Initialized(_) | State::Subscribed(_) => open(rules, state, ledger, input, now),
        State::Draining {
            until,
            peer,
            version,
        } => draining((*until, *peer, *version), ledger, input, now),
        State::Closed => closed(input),
    }
}

type Stepped = Result<Step<State, Effect>, Refusal>;

/// There is no handshake yet; a request that says everything about itself needs none.
fn unopened(rules: &Rules, here: &State, ledger: &Ledger, input: Input, now: Time) -> Stepped {
    match input {
        Input::Initialize { id, version } => initialize(rules, ledger, id, version),
        Input::Ping { id } => match rules.early_ping {
            EarlyPing::Answered => admit(rules, here, ledger, handshake(id)),
            EarlyPing::Refused => Err(Refusal::new(Code::ServerUninitialized)),
        },
        Input::Request(key) => match key.lane {
            Lane::Stateless(_) => admit(rules, &State::Stateless, ledger, key),
            Lane::Handshake => Err(Refusal::new(Code::ServerUninitialized)),
        },
        Input::Malformed { refusal, .. } => Err(refusal),
        Input::Settled(key) => settled(here, ledger, key),
        Input::Cancelled { id } => cancelled(here, ledger, &id),
        Input::Ready | Input::Notification => ignore(here, Noise::Notification),
        Input::Response(_) => ignore(here, Noise::StrayResponse),
        Input::Ask(_) | Input::Subscribed(_) | Input::Unsubscribed(_) => {
            Err(Refusal::new(Code::ServerUninitialized))
        }
        Input::Drain | Input::Silent | Input::Gone => drain(rules, here, ledger, &input, now),
        Input::Tick => idle(rules, here, ledger, now),
    }
}

fn initializing(
    rules: &Rules,
    version: Version,
    ledger: &Ledger,
    input: Input,
    now: Time,
) -> Stepped {
    let here = State::Initializing(version);
    match input {
        Input::Ready => {
            let next = if ledger.subscriptions.is_empty() {
                State::Initialized(version)
            } else {
                State::Subscribed(version)
            };
            go(next, [Effect::Activate])
        }
        // The client is not ready for requests of ours.
        Input::Ask(_) => Err(Refusal::new(Code::ServerUninitialized)),
        Input::Subscribed(uri) => go(here, [Effect::Subscribe(uri)]),
        Input::Initialize { .. }
        | Input::Ping { .. }
        | Input::Request(_)
        | Input::Malformed { .. }
        | Input::Cancelled { .. }
        | Input::Notification
        | Input::Response(_)
        | Input::Settled(_)
        | Input::Unsubscribed(_)
        | Input::Drain
        | Input::Silent
        | Input::Gone
        | Input::Tick => open(rules, &here, ledger, input, now),
    }
}

/// The handshake is done, or as good as done.
fn open(rules: &Rules, here: &State, ledger: &Ledger, input: Input, now: Time) -> Stepped {
    match input {
        Input::Initialize { .. } => Err(Refusal::new(Code::ProtocolError)
            .with_rpc(RpcCode::INVALID_REQUEST)
            .because("the connection is initialized already")),
        Input::Ping { id } => admit(rules, here, ledger, handshake(id)),
        Input::Request(key) => admit(rules, here, ledger, key),
        Input::Malformed { refusal, .. } => Err(refusal),
        Input::Settled(key) => settled(here, ledger, key),
        Input::Cancelled { id } => cancelled(here, ledger, &id),
        Input::Ready | Input::Notification => ignore(here, Noise::Notification),
        Input::Response(ask) => response(here, ledger, ask),
        Input::Ask(ask) if ledger.asks.contains(&ask) => stay(here),
        Input::Ask(ask) => go(*here, [Effect::SendAsk(ask)]),
        Input::Subscribed(uri) => {
            let next = match here.version() {
                Some(version) => State::Subscribed(version),
                None => *here,
            };
            go(next, [Effect::Subscribe(uri)])
        }
        Input::Unsubscribed(uri) => {
            let last = ledger.subscriptions.keys().all(|known| *known == uri);
            let next = match here {
                State::Subscribed(version) if last => State::Initialized(*version),
                State::Subscribed(_)
                | State::NotInitialized { .. }
                | State::Stateless
                | State::Initializing(_)
                | State::Initialized(_)
                | State::Draining { .. }
                | State::Closed => *here,
            };
            go(next, [Effect::Unsubscribe(uri)])
        }
        Input::Drain | Input::Silent | Input::Gone => drain(rules, here, ledger, &input, now),
        Input::Tick => idle(rules, here, ledger, now),
    }
}

fn draining(
    (until, peer, version): (Time, Peer, Option<Version>),
    ledger: &Ledger,
    input: Input,
    now: Time,
) -> Stepped {
    let here = State::Draining {
        until,
        peer,
        version,
    };
    match input {
        Input::Initialize { .. }
        | Input::Ping { .. }
        | Input::Request(_)
        | Input::Ask(_)
        | Input::Subscribed(_) => Err(Refusal::new(Code::ServerShuttingDown)),
        Input::Malformed { refusal, .. } => Err(refusal),
        Input::Settled(key) => {
            let last = ledger.pending.is_at_most(&key);
            let mut step = settled(&here, ledger, key)?;
            if last {
                step.state = State::Closed;
                step.effects.extend(unanswered(ledger));
                step.effects.push(Effect::Close);
            }
            Ok(step)
        }
        Input::Cancelled { id } => cancelled(&here, ledger, &id),
        Input::Response(ask) => response(&here, ledger, ask),
        Input::Ready | Input::Notification => ignore(&here, Noise::Notification),
        Input::Unsubscribed(uri) => go(here, [Effect::Unsubscribe(uri)]),
        Input::Drain => stay(&here),
        Input::Silent => go(here, unanswered(ledger).collect::<Effects<_>>()),
        Input::Gone if peer == Peer::Gone => stay(&here),
        Input::Gone => {
            let gone = State::Draining {
                until,
                peer: Peer::Gone,
                version,
            };
            go(gone, lost(ledger))
        }
        Input::Tick if now >= until => close(ledger, peer),
        Input::Tick => stay(&here),
    }
}

fn closed(input: Input) -> Stepped {
    match input {
        Input::Initialize { .. }
        | Input::Ping { .. }
        | Input::Request(_)
        | Input::Malformed { .. }
        | Input::Ask(_)
        | Input::Subscribed(_) => Err(Refusal::new(Code::ServerShuttingDown)),
        Input::Ready
        | Input::Cancelled { .. }
        | Input::Notification
        | Input::Response(_)
        | Input::Settled(_)
        | Input::Unsubscribed(_)
        | Input::Drain
        | Input::Silent
        | Input::Gone
        | Input::Tick => stay(&State::Closed),
    }
}

fn initialize(
    rules: &Rules,
    ledger: &Ledger,
    id: RequestId,
    version: Result<Version, Refusal>,
) -> Stepped {
    let version = version?;
    let key = handshake(id);
    room(rules, ledger)?;
    go(
        State::Initializing(version),
        [Effect::Negotiate(key, version)],
    )
}

fn admit(rules: &Rules, next: &State, ledger: &Ledger, key: Key) -> Stepped {
    room(rules, ledger)?;
    go(*next, [Effect::Serve(key)])
}

fn room(rules: &Rules, ledger: &Ledger) -> Result<(), Refusal> {
    if ledger.pending.len() >= rules.max_pending {
        return Err(Refusal::new(Code::QueueCapExceeded));
    }
    Ok(())
}

fn settled(here: &State, ledger: &Ledger, key: Key) -> Stepped {
    if ledger.pending.contains(&key) {
        go(*here, [Effect::Forget(key)])
    } else {
        stay(here)
    }
}

fn cancelled(here: &State, ledger: &Ledger, id: &RequestId) -> Stepped {
    let mut lanes: Vec<_> = ledger.pending.with_id(id).collect();
    lanes.sort_unstable();
    let cancel = |lane| {
        let id = id.clone();
        Effect::Cancel(Key { id, lane })
    };
    let meant: Effects<_> = lanes.into_iter().map(cancel).collect();
    if meant.is_empty() {
        ignore(here, Noise::UnknownCancelled)
    } else {
        go(*here, meant)
    }
}

fn response(here: &State, ledger: &Ledger, ask: Option<AskId>) -> Stepped {
    match ask.filter(|ask| ledger.asks.contains(ask)) {
        Some(ask) => go(*here, [Effect::Settle(ask)]),
        None => ignore(here, Noise::StrayResponse),
    }
}

fn idle(rules: &Rules, here: &State, ledger: &Ledger, now: Time) -> Stepped {
    match rules.idle {
        Some(idle)
            if !matches!(here, State::NotInitialized { .. })
                && ledger.pending.is_empty()
                && now >= ledger.active_at + idle =>
        {
            close(ledger, Peer::Present)
        }
        Some(_) | None => stay(here),
    }
}

/// Nothing new is taken any more, for this reason.
fn drain(rules: &Rules, here: &State, ledger: &Ledger, why: &Input, now: Time) -> Stepped {
    let peer = match matches!(why, Input::Gone) {
        true => Peer::Gone,
        false => Peer::Present,
    };
    if ledger.pending.is_empty() {
        return close(ledger, peer);
    }
    let effects = match peer {
        Peer::Gone => lost(ledger),
        Peer::Present if matches!(why, Input::Silent) => unanswered(ledger).collect(),
        Peer::Present => Effects::default(),
    };
    let next = State::Draining {
        until: now + rules.drain,
        peer,
        version: here.version(),
    };
    go(next, effects)
}

/// A lost connection is a cancellation on 2026-07-28 and none before: there the call goes on.
/// Either way nobody will answer what we asked.
fn lost(ledger: &Ledger) -> Effects<Effect> {
    let pending = ledger.pending.sorted().into_iter();
    let cancelled = pending
        .filter(|key| matches!(key.lane, Lane::Stateless(_)))
        .map(Effect::Cancel);
    cancelled.chain(unanswered(ledger)).collect()
}

/// Nobody will answer what we asked.
fn unanswered(ledger: &Ledger) -> impl Iterator<Item = Effect> {
    ledger.asks.iter().map(|ask| Effect::AbandonAsk(*ask))
}

fn close(ledger: &Ledger, peer: Peer) -> Stepped {
    let asks = unanswered(ledger);
    let pending = ledger.pending.sorted().into_iter();
    let pending = pending.map(|key| Effect::Abandon(key, peer));
    let effects: Effects<_> = asks.chain(pending).chain([Effect::Close]).collect();
    go(State::Closed, effects)
}

const fn handshake(id: RequestId) -> Key {
    Key {
        id,
        lane: Lane::Handshake,
    }
}

fn go(state: State, effects: impl Into<Effects<Effect>>) -> Stepped {
    Ok(Step {
        state,
        effects: effects.into(),
    })
}

fn stay(here: &State) -> Stepped {
    go(*here, [])
}

fn ignore(here: &State, noise: Noise) -> Stepped {
    go(*here, [Effect::Ignore(noise)])
}
