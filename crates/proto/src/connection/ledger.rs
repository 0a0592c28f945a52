//! What is in flight on a connection.

use super::{Effect, Input, pending::Pending};
use crate::{AskId, CallId, RequestId, Time};
use std::collections::{BTreeMap, BTreeSet};

/// Which way a request takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Lane {
    /// It relies on what `initialize` agreed on.
    Handshake,
    /// It says everything about itself. Its id need not be unique, so we number it.
    Stateless(CallId),
}

/// A request in flight.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// The client's id for it.
    pub id: RequestId,
    /// Which way it takes.
    pub lane: Lane,
}

/// What is in flight on a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ledger {
    pub(super) pending: Pending,
    pub(super) asks: BTreeSet<AskId>,
    pub(super) subscriptions: BTreeMap<String, Time>,
    pub(super) active_at: Time,
}

impl Ledger {
    /// Brings the ledger up to date with a step.
    pub fn apply(&mut self, effects: &[Effect], now: Time) {
        for effect in effects {
            match effect {
                Effect::Negotiate(key, _) | Effect::Serve(key) => {
                    self.pending.insert(key.clone());
                    self.active_at = now;
                }
                Effect::Forget(key) => {
                    self.pending.remove(key);
                    self.active_at = now;
                }
                Effect::Abandon(key, _) => {
                    self.pending.remove(key);
                }
                Effect::SendAsk(ask) => {
                    self.asks.insert(*ask);
                }
                Effect::Settle(ask) | Effect::AbandonAsk(ask) => {
                    self.asks.remove(ask);
                }
                Effect::Subscribe(uri) => {
                    self.subscriptions.insert(uri.clone(), now);
                }
                Effect::Unsubscribe(uri) => {
                    self.subscriptions.remove(uri);
                }
                Effect::Close => self.subscriptions.clear(),
                Effect::Activate | Effect::Cancel(_) | Effect::Ignore(_) => {}
            }
        }
    }

    /// Gives back memory that was needed when more was in flight.
    pub fn shrink(&mut self) {
        self.pending.shrink();
    }

    /// How many requests of the client's are in flight.
    #[must_use]
    pub const fn pending(&self) -> usize {
        self.pending.len()
    }

    /// How many requests of ours wait for the client's answer.
    #[must_use]
    pub fn asks(&self) -> usize {
        self.asks.len()
    }

    /// How many subscriptions the client has.
    #[must_use]
    pub fn subscriptions(&self) -> usize {
        self.subscriptions.len()
    }

    /// Whether the id of this request is in flight already: its answer would look like the answer to
    /// the first. Requests that say everything about themselves may share an id with each other.
    pub(super) fn is_duplicate(&self, input: &Input) -> bool {
        let (id, lane) = match input {
            Input::Initialize { id, .. } | Input::Ping { id } => (id, Lane::Handshake),
            Input::Malformed { id: Some(id), .. } => (id, Lane::Handshake),
            Input::Request(key) => (&key.id, key.lane),
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
            | Input::Tick => return false,
        };
        let mut taken = self.pending.with_id(id);
        match lane {
            Lane::Handshake => taken.next().is_some(),
            Lane::Stateless(_) => taken.any(|other| other == Lane::Handshake || other == lane),
        }
    }
}
