//! Who makes a call, what the client can do, and how it can be asked.

use crate::{
    context::{
        body_memory::BodyShare, client_link::ClientLink, environment::Environment,
        multi_round::Round,
    },
    model::{ClientCapabilities, Implementation},
};
use interlock_engine::Principal;
use interlock_proto::{Ability, Level, Refusal, Version};
use serde_json::value::RawValue;
use std::sync::Arc;

/// How a client introduced itself.
#[derive(Debug)]
pub(crate) struct ClientInfo {
    /// Its capabilities object.
    pub(crate) capabilities: Box<RawValue>,
    /// Its name and version, if it has sent them.
    pub(crate) info: Option<Box<RawValue>>,
}

/// How many bytes of each part are kept. A longer part counts as absent.
const MOST_BYTES: usize = 64 * 1024;

impl ClientInfo {
    pub(crate) fn new(capabilities: &RawValue, info: Option<&RawValue>) -> Self {
        let short = |raw: &&RawValue| raw.get().len() <= MOST_BYTES;
        let capabilities = Some(capabilities).filter(short).map(RawValue::to_owned);
        Self {
            capabilities: capabilities.unwrap_or_else(no_capabilities),
            info: info.filter(short).map(RawValue::to_owned),
        }
    }

    /// Its capabilities, as the public type.
    pub(crate) fn capabilities(&self) -> ClientCapabilities {
        serde_json::from_str(self.capabilities.get()).unwrap_or_default()
    }

    /// Its name and version, as the public type.
    pub(crate) fn info(&self) -> Option<Implementation> {
        let info = self.info.as_ref()?;
        serde_json::from_str(info.get()).ok()
    }
}

impl Default for ClientInfo {
    fn default() -> Self {
        Self {
            capabilities: no_capabilities(),
            info: None,
        }
    }
}

fn no_capabilities() -> Box<RawValue> {
    RawValue::from_string("{}".to_owned()).expect("it is JSON")
}

/// Who makes a call.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) principal: Principal,
    pub(crate) version: Version,
    pub(crate) way: Way,
    /// The token for progress notifications, if the client wants them.
    pub(crate) progress: Option<Box<RawValue>>,
    /// The request's own `_meta`, if a handler of this server reads it.
    pub(crate) meta: Option<Box<RawValue>>,
    /// Counts the arguments as long as the call has them, if they came over HTTP.
    pub(crate) _body: Option<Arc<BodyShare>>,
}

/// How the client can be asked while its call runs.
#[derive(Debug)]
pub(crate) enum Way {
    /// Over its connection or session.
    Session(Arc<dyn ClientLink>),
    /// By a result that tells it to come back with answers.
    Alone {
        environment: Arc<Environment>,
        client: ClientInfo,
        /// The least level of log messages that it wants.
        level: Option<Level>,
        /// The answers so far.
        round: Round,
    },
}

impl Caller {
    pub(crate) fn environment(&self) -> &Environment {
        match &self.way {
            Way::Session(link) => link.environment(),
            Way::Alone { environment, .. } => environment,
        }
    }

    /// Reads something of how the client introduced itself.
    pub(crate) fn with_client<T>(&self, read: impl FnOnce(&ClientInfo) -> T) -> T {
        match &self.way {
            Way::Session(link) => read(&link.client()),
            Way::Alone { client, .. } => read(client),
        }
    }

    /// Whether the client comes back with an answer to a call whose handler has run.
    pub(crate) fn is_returning(&self) -> bool {
        match &self.way {
            Way::Session(_) => false,
            Way::Alone { round, .. } => round.unfinished().is_some(),
        }
    }

    /// Whether the client wants log messages of this level.
    pub(crate) fn wants(&self, level: Level) -> bool {
        match &self.way {
            Way::Session(link) => level >= link.level(),
            Way::Alone { level: least, .. } => least.is_some_and(|least| level >= least),
        }
    }

    /// Refuses unless the client has declared that it can do this.
    pub(crate) fn can(&self, ability: Ability) -> Result<(), Refusal> {
        let is_declared =
            |client: &ClientInfo| ability.is_declared(&client.capabilities, self.version);
        if self.with_client(is_declared) {
            Ok(())
        } else {
            Err(Refusal::missing_capability(ability, self.version))
        }
    }
}
