//! The changes that a client subscribed to: `resources/subscribe` and open `subscriptions/listen`
//! requests.

use crate::{
    dispatch::{self, listen},
    model::change::{ChangeNotification, ServerChange, SubscribedUri},
    outbound::{
        Route, lock,
        subscribers::{ChangeStream, QuotaOwner, Registration},
    },
    session::ClientSession,
    wire::{self, AnswerKind, Transition},
};
use interlock_proto::{
    Code, Refusal, Time, Version, connection,
    connection::Key,
    machine::Effects,
    subscription::{self, Effect, Input, Rules, State, Subscription},
};
use serde::Deserialize;
use std::{collections::BTreeMap, sync::Arc};

#[derive(Default)]
pub(super) struct Subscriptions {
    resources: BTreeMap<SubscribedUri, State>,
    /// Open `subscriptions/listen` requests.
    streams: BTreeMap<Key, ListenRequest>,
}

/// An open `subscriptions/listen` request.
struct ListenRequest {
    route: Route,
    registration: Registration,
}

impl Subscriptions {
    pub(super) fn is_empty(&self) -> bool {
        self.resources.is_empty()
    }

    pub(super) fn uris(&self) -> Vec<Arc<str>> {
        let uris = self.resources.keys();
        uris.map(SubscribedUri::as_written).cloned().collect()
    }

    pub(super) fn wake_at(&self) -> Option<Time> {
        self.resources.values().filter_map(State::wake_at).min()
    }

    pub(super) fn clear(&mut self) {
        self.resources.clear();
    }

    /// Subscribes to a resource. `readable` tells whether the client may read it. The URI as it was
    /// written when it was subscribed to first.
    pub(super) fn subscribe(
        &mut self,
        uri: SubscribedUri,
        readable: Result<(), Refusal>,
        rules: &Rules,
        now: Time,
    ) -> Result<(Arc<str>, Transition), Refusal> {
        let known = self.resources.get_key_value(&uri);
        let (uri, state) = match known {
            Some((known, state)) => (known.clone(), state),
            None => (uri, &State::Unsubscribed),
        };
        let input = Input::Subscribe(readable);
        let transition = Transition::by::<Subscription>(state, &input);
        let step = subscription::step(rules, state, input, now)?;
        let transition = transition.to::<Subscription>(&step.state);
        let written = Arc::clone(uri.as_written());
        self.resources.insert(uri, step.state);
        Ok((written, transition))
    }

    /// Lets one subscription take a step. `None` if there is none, or it refuses the input.
    fn step(&mut self, uri: &str, input: Input, rules: &Rules, now: Time) -> Option<Stepped> {
        let (uri, state) = self.resources.get_key_value(&SubscribedUri::new(uri))?;
        let transition = Transition::by::<Subscription>(state, &input);
        let (uri, step) = (
            uri.clone(),
            subscription::step(rules, state, input, now).ok()?,
        );
        let transition = transition.to::<Subscription>(&step.state);
        let written = Arc::clone(uri.as_written());
        let has_ended = match step.state {
            State::Subscribed { .. } => {
                self.resources.insert(uri, step.state);
                false
            }
            // There is nothing to clean up, so unsubscribing is done at once.
            State::Unsubscribing | State::Unsubscribed => {
                self.resources.remove(&uri);
                true
            }
        };
        Some(Stepped {
            effects: step.effects,
            uri: written,
            has_ended,
            transition,
        })
    }
}

/// A step of one subscription.
struct Stepped {
    effects: Effects<Effect>,
    /// As its client wrote it.
    uri: Arc<str>,
    /// There is no subscription any more.
    has_ended: bool,
    transition: Transition,
}

pub(super) fn subscribe(
    session: &Arc<ClientSession>,
    params: Option<&str>,
    version: Version,
) -> Result<(), Refusal> {
    let uri = read_uri("resources/subscribe", params)?;
    let core = &session.core;
    let readable = core.can_read(&uri, session.instance.as_deref(), version);
    let uri = SubscribedUri::new(uri);
    let (most, now) = (core.bounds.subscriptions, core.clock.now());
    let (written, transition) = {
        let subscriptions = &mut lock(&session.state).subscriptions;
        let resources = &subscriptions.resources;
        if resources.len() >= most && !resources.contains_key(&uri) {
            return Err(Refusal::new(Code::QuotaExceeded)
                .because(format!("a client may have {most} subscriptions")));
        }
        subscriptions.subscribe(uri, readable, &core.subscriptions, now)?
    };
    transition.trace();
    session.step(connection::Input::Subscribed(written.to_string()));
    Ok(())
}

pub(super) fn unsubscribe(
    session: &Arc<ClientSession>,
    params: Option<&str>,
) -> Result<(), Refusal> {
    let uri = read_uri("resources/unsubscribe", params)?;
    step(session, &uri, Input::Unsubscribe);
    Ok(())
}

fn read_uri(method: &str, params: Option<&str>) -> Result<String, Refusal> {
    #[derive(Deserialize)]
    struct Subscribe {
        uri: String,
    }
    let Subscribe { uri } = dispatch::read(method, params)?;
    Ok(uri)
}

/// Lets one subscription take a step, if there is one.
pub(super) fn step(session: &Arc<ClientSession>, uri: &str, input: Input) {
    let core = &session.core;
    let (rules, now) = (&core.subscriptions, core.clock.now());
    let stepped = {
        let subscriptions = &mut lock(&session.state).subscriptions;
        subscriptions.step(uri, input, rules, now)
    };
    let Some(stepped) = stepped else {
        return;
    };
    stepped.transition.trace();
    let uri = stepped.uri;
    if stepped.has_ended {
        // An update that is still queued goes, too. Otherwise subscribing and unsubscribing in turn
        // would queue more updates than there can be subscriptions.
        session.route.retract(&updated(Arc::clone(&uri)));
    }
    for effect in stepped.effects {
        match effect {
            Effect::Notify(_) => session.route.notify(updated(Arc::clone(&uri))),
            Effect::Detach => session.step(connection::Input::Unsubscribed(uri.to_string())),
            Effect::Invalidate | Effect::Attach | Effect::Forget => {}
        }
    }
}

const fn updated(uri: Arc<str>) -> ChangeNotification {
    ChangeNotification {
        change: ServerChange::Resource(uri),
        subscription: None,
    }
}

pub(super) fn tick(session: &Arc<ClientSession>) {
    if session.core.subscriptions.idle.is_none() {
        return;
    }
    let uris = lock(&session.state).subscriptions.uris();
    for uri in uris {
        step(session, &uri, Input::Tick);
    }
}

/// Opens a stream of changes. It stays open until either side ends it.
pub(super) fn open_stream(
    session: &Arc<ClientSession>,
    key: Key,
    params: Option<&str>,
    route: &Route,
) {
    let owner = QuotaOwner::Session(session.registration.id());
    match listen::register(&session.core, params, owner) {
        Ok((filter, registration)) => {
            route.send_required(|out| wire::subscription_acknowledged(out, &key.id, &filter));
            registration.activate(ChangeStream {
                id: key.id.clone(),
                route: route.clone(),
                filter,
            });
            let stream = ListenRequest {
                route: route.clone(),
                registration,
            };
            lock(&session.state)
                .subscriptions
                .streams
                .insert(key, stream);
        }
        Err(refusal) => session.refuse(&key, &refusal, route),
    }
}

/// Ends a stream of changes that its client has cancelled.
pub(super) fn cancel_stream(session: &Arc<ClientSession>, key: &Key) {
    let stream = lock(&session.state).subscriptions.streams.remove(key);
    if let Some(ListenRequest {
        route,
        registration,
    }) = stream
    {
        drop(registration);
        session.settle(key, session.core.clock.now(), || route.end_unanswered());
    }
}

/// Ends all streams of changes from the server's side.
pub(super) fn end_streams(session: &Arc<ClientSession>) {
    let streams = std::mem::take(&mut lock(&session.state).subscriptions.streams);
    for (
        key,
        ListenRequest {
            route,
            registration,
        },
    ) in streams
    {
        drop(registration);
        route.send(|out| wire::subscription_cancelled(out, &key.id, "the server ends"));
        session.settle(&key, session.core.clock.now(), || {
            route.answer(AnswerKind::Result, |out| {
                wire::subscription_ended(out, &key.id)
            });
        });
    }
}
