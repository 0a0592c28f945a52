//! What is written down of a client, so that it can leave memory and come back.

use super::Peer;
use crate::{
    caller::Client,
    model::JsonObject,
    note::{News, Note},
    principal::Principal,
    route::{Route, lock},
    server::Inner,
};
use interlock_proto::{
    Level, Version,
    connection::{self, Effect, State},
    era::{self, Capability},
    negotiation::{self, Agreement},
    subscription,
};
use interlock_workflow::Kind;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::{
    io,
    sync::{Arc, atomic::Ordering},
};

/// What is written down of a client.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Memory {
    version: String,
    /// Whether it has said `initialized`.
    ready: bool,
    capabilities: Box<RawValue>,
    info: Option<Box<RawValue>>,
    level: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    subscriptions: Vec<String>,
    #[serde(default, skip_serializing_if = "JsonObject::is_empty")]
    data: JsonObject,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    instance: Option<String>,
    /// How many questions it was asked: their ids must not come again.
    asked: u64,
}

impl Memory {
    /// The instance that belonged to this client.
    pub(crate) fn into_instance(self) -> Option<String> {
        self.instance
    }
}

impl Peer {
    /// What to write down; nothing before the handshake.
    pub(crate) fn memory(&self) -> Option<Memory> {
        let book = lock(&self.book);
        // What was agreed on outlives the connection.
        let version = book.negotiation.agreement()?.version;
        Some(Memory {
            version: version.as_str().to_owned(),
            ready: matches!(book.negotiation, negotiation::State::Active(_)),
            capabilities: book.client.capabilities.clone(),
            info: book.client.info.clone(),
            level: self.level().as_str().to_owned(),
            subscriptions: book.subscriptions.keys().map(ToString::to_string).collect(),
            data: book.data.as_deref().cloned().unwrap_or_default(),
            instance: self.instance.as_ref().map(|one| one.id().to_string()),
            asked: book.next_ask,
        })
    }

    /// The client, as it was written down.
    pub(crate) fn restore(
        inner: &Arc<Inner>,
        principal: Principal,
        rules: connection::Rules,
        route: Route,
        memory: Memory,
    ) -> io::Result<Arc<Self>> {
        let unreadable = || io::Error::from(io::ErrorKind::InvalidData);
        let version = Version::parse(&memory.version).ok_or_else(unreadable)?;
        let level = Level::parse(&memory.level).ok_or_else(unreadable)?;
        let instance = inner.instance_of(memory.instance, &principal)?;
        let peer = Self::with_instance(inner, principal, rules, route, instance);
        peer.level.store(level as u8, Ordering::Relaxed);
        let now = inner.clock.now();
        let (client, unsupported) = era::declared(&memory.capabilities).ok_or_else(unreadable)?;
        let agreement = Agreement {
            version,
            server: inner.capabilities(),
            client: client.into_iter().collect(),
            unsupported,
        };
        {
            let mut book = lock(&peer.book);
            book.client = Arc::new(Client {
                capabilities: memory.capabilities,
                info: memory.info,
            });
            book.data = (!memory.data.is_empty()).then(|| Box::new(memory.data));
            book.next_ask = memory.asked;
            for uri in memory.subscriptions {
                book.ledger.apply(&[Effect::Subscribe(uri.clone())], now);
                let rules = &inner.subscriptions;
                let input = subscription::Input::Subscribe(Ok(()));
                if let Ok(step) =
                    subscription::step(rules, &subscription::State::Unsubscribed, input, now)
                {
                    book.subscriptions.insert(uri.into(), step.state);
                }
            }
            (book.state, book.negotiation) = if !memory.ready {
                let negotiated = negotiation::State::Negotiated(agreement);
                (State::Initializing(version), negotiated)
            } else if book.subscriptions.is_empty() {
                let active = negotiation::State::Active(agreement);
                (State::Initialized(version), active)
            } else {
                let active = negotiation::State::Active(agreement);
                (State::Subscribed(version), active)
            };
        }
        peer.catch_up();
        Ok(peer)
    }

    /// Nobody told the client what changed while it was away: it may all have.
    fn catch_up(&self) {
        let kinds = [
            (Capability::Tools, Kind::Tool),
            (Capability::Resources, Kind::Resource),
            (Capability::Prompts, Kind::Prompt),
        ];
        let offered = self.inner.capabilities();
        let lists = kinds.into_iter();
        let lists = lists.filter(|(capability, _)| offered.contains(capability));
        let lists = lists.map(|(_, kind)| News::List(kind.into()));
        let uris: Vec<_> = lock(&self.book).subscriptions.keys().cloned().collect();
        for news in lists.chain(uris.into_iter().map(News::Updated)) {
            self.route.note(Note {
                news,
                subscription: None,
            });
        }
    }
}
