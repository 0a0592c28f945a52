//! Who calls, what they can do, and how they can be asked.

use crate::{
    model::{ClientCapabilities, Implementation},
    peer::Peer,
    principal::Principal,
    round::Round,
    server::Inner,
};
use interlock_proto::{Ability, Level, Refusal, Version};
use serde_json::value::RawValue;
use std::sync::Arc;

/// A client, as it introduced itself.
#[derive(Debug)]
pub(crate) struct Client {
    /// Its capabilities object.
    pub(crate) capabilities: Box<RawValue>,
    /// Its name and version, if it said so.
    pub(crate) info: Option<Box<RawValue>>,
}

/// How much of a client's introduction is kept at most.
pub(crate) const INTRODUCTION: usize = 64 * 1024;

impl Client {
    pub(crate) fn new(capabilities: &RawValue, info: Option<&RawValue>) -> Self {
        let short = |raw: &&RawValue| raw.get().len() <= INTRODUCTION;
        let capabilities = Some(capabilities).filter(short).map(RawValue::to_owned);
        Self {
            capabilities: capabilities.unwrap_or_else(nothing),
            info: info.filter(short).map(RawValue::to_owned),
        }
    }

    /// What it can do, by the ecosystem's type.
    pub(crate) fn capabilities(&self) -> ClientCapabilities {
        serde_json::from_str(self.capabilities.get()).unwrap_or_default()
    }

    /// Who it is.
    pub(crate) fn info(&self) -> Option<Implementation> {
        let info = self.info.as_ref()?;
        serde_json::from_str(info.get()).ok()
    }
}

impl Default for Client {
    fn default() -> Self {
        Self {
            capabilities: nothing(),
            info: None,
        }
    }
}

fn nothing() -> Box<RawValue> {
    RawValue::from_string("{}".to_owned()).expect("it is JSON")
}

/// Who makes a call.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) principal: Principal,
    pub(crate) version: Version,
    pub(crate) way: Way,
    /// What progress is reported with, if it is wanted.
    pub(crate) progress: Option<Box<RawValue>>,
    /// The request's own `_meta`, if anything on this server reads it.
    pub(crate) meta: Option<Box<RawValue>>,
}

/// How the caller can be reached while its call runs.
#[derive(Debug)]
pub(crate) enum Way {
    /// It keeps a connection or a session, and is asked over it.
    Session(Arc<Peer>),
    /// It has to come back with answers.
    Alone {
        inner: Arc<Inner>,
        client: Client,
        /// From which level on it wants log messages.
        level: Option<Level>,
        /// The answers so far.
        round: Round,
    },
}

impl Caller {
    /// The server that is called.
    pub(crate) fn inner(&self) -> &Arc<Inner> {
        match &self.way {
            Way::Session(peer) => &peer.inner,
            Way::Alone { inner, .. } => inner,
        }
    }

    /// What the caller said of itself, in the hands of whoever asks.
    pub(crate) fn introduced<T>(&self, ask: impl FnOnce(&Client) -> T) -> T {
        match &self.way {
            Way::Session(peer) => ask(&peer.client()),
            Way::Alone { client, .. } => ask(client),
        }
    }

    /// Whether the caller comes back to a call that has been served, with an answer.
    pub(crate) fn is_back(&self) -> bool {
        match &self.way {
            Way::Session(_) => false,
            Way::Alone { round, .. } => round.unfinished().is_some(),
        }
    }

    /// Whether the caller's log takes a message of this level.
    pub(crate) fn wants(&self, level: Level) -> bool {
        match &self.way {
            Way::Session(peer) => level >= peer.level(),
            Way::Alone { level: least, .. } => least.is_some_and(|least| level >= least),
        }
    }

    /// Whether the caller said that it can do this.
    pub(crate) fn can(&self, ability: Ability) -> Result<(), Refusal> {
        let is_declared = |client: &Client| ability.is_declared(&client.capabilities, self.version);
        if self.introduced(is_declared) {
            Ok(())
        } else {
            Err(Refusal::missing_capability(ability, self.version))
        }
    }
}
