//! A session as it is stored, so that it can leave memory and come back.

use crate::{
    context::client::ClientInfo,
    core::Core,
    model::{
        JsonObject,
        change::{ChangeNotification, ServerChange, SubscribedUri},
    },
    outbound::{Route, lock},
    session::{ClientSession, profile::Profile, state::SessionState},
};
use interlock_engine::Principal;
use interlock_proto::{
    Level, Version,
    connection::{self, Effect, State},
    era::{self, Capability},
    negotiation::{self, Agreement},
};
use interlock_workflow::Kind;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::{io, sync::Arc};

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SavedSession {
    version: String,
    /// Whether the client has sent `notifications/initialized`.
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
}

impl SavedSession {
    /// What to store of a session. `None` before the handshake.
    pub(crate) fn of(session: &ClientSession) -> Option<Self> {
        let state = lock(&session.state);
        // The agreement outlives the connection.
        let version = state.handshake.state.agreement()?.version;
        let profile = &state.profile;
        let uris = state.subscriptions.uris();
        Some(Self {
            version: version.as_str().to_owned(),
            ready: matches!(state.handshake.state, negotiation::State::Active(_)),
            capabilities: profile.client.capabilities.clone(),
            info: profile.client.info.clone(),
            level: profile.level.as_str().to_owned(),
            subscriptions: uris.iter().map(ToString::to_string).collect(),
            data: profile.data().cloned().unwrap_or_default(),
            instance: session.instance.as_ref().map(|one| one.id().to_string()),
        })
    }

    /// The instance that belonged to the session.
    pub(crate) fn into_instance(self) -> Option<String> {
        self.instance
    }

    pub(crate) fn restore(
        self,
        core: &Arc<Core>,
        principal: Principal,
        rules: connection::Rules,
        route: Route,
    ) -> io::Result<Arc<ClientSession>> {
        let unreadable = || io::Error::from(io::ErrorKind::InvalidData);
        let version = Version::parse(&self.version).ok_or_else(unreadable)?;
        let level = Level::parse(&self.level).ok_or_else(unreadable)?;
        let (declared, unsupported) = era::declared(&self.capabilities).ok_or_else(unreadable)?;
        let instance = core.instance_of(self.instance, &principal)?;
        let agreement = Agreement {
            version,
            server: core.capabilities(),
            client: declared.into_iter().collect(),
            unsupported,
        };
        let now = core.clock.now();
        let mut state = SessionState::new(&rules, now);
        let client = ClientInfo {
            capabilities: self.capabilities,
            info: self.info,
        };
        state.profile = Profile::new(client, level, self.data);
        for uri in self.subscriptions {
            state.ledger.apply(&[Effect::Subscribe(uri.clone())], now);
            let subscriptions = &mut state.subscriptions;
            // A machine that refuses it leaves the client without this subscription.
            let uri = SubscribedUri::new(uri);
            if let Ok((_, transition)) =
                subscriptions.subscribe(uri, Ok(()), &core.subscriptions, now)
            {
                transition.trace();
            }
        }
        state.handshake.state = if self.ready {
            negotiation::State::Active(agreement)
        } else {
            negotiation::State::Negotiated(agreement)
        };
        state.connection = match (self.ready, state.subscriptions.is_empty()) {
            (false, _) => State::Initializing(version),
            (true, true) => State::Initialized(version),
            (true, false) => State::Subscribed(version),
        };
        let session = ClientSession::with_state(core, principal, rules, route, instance, state);
        notify_of_everything(&session);
        Ok(session)
    }
}

/// Everything may have changed while the session was away, and the client was not notified.
fn notify_of_everything(session: &ClientSession) {
    let kinds = [
        (Capability::Tools, Kind::Tool),
        (Capability::Resources, Kind::Resource),
        (Capability::Prompts, Kind::Prompt),
    ];
    let offered = session.core.capabilities();
    let lists = kinds.into_iter();
    let lists = lists.filter(|(capability, _)| offered.contains(capability));
    let lists = lists.map(|(_, kind)| ServerChange::List(kind));
    let uris = lock(&session.state).subscriptions.uris();
    for news in lists.chain(uris.into_iter().map(ServerChange::Resource)) {
        session.route.notify(ChangeNotification {
            change: news,
            subscription: None,
        });
    }
}
