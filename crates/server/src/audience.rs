//! Who hears of changes: every client of the handshake era, and every open
//! `subscriptions/listen` of 2026-07-28.

use crate::{
    note::{Listed, News, Note},
    peer::Peer,
    route::{Route, Tone, lock},
    server::Inner,
    wire,
};
use interlock_proto::{Code, Refusal, RequestId, era::Capability};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, Weak},
};

/// Everybody who hears of changes.
#[derive(Debug, Default)]
pub(crate) struct Audience(Arc<Mutex<Seats>>);

#[derive(Debug, Default)]
struct Seats {
    taken: HashMap<u64, Listener>,
    next: u64,
}

/// Somebody who hears of changes.
#[derive(Clone, Debug)]
pub(crate) enum Listener {
    /// A client of the handshake era.
    Peer(Weak<Peer>),
    /// A request of 2026-07-28 that stays open.
    Listen(Listen),
}

/// A request that stays open to hear of changes.
#[derive(Clone, Debug)]
pub(crate) struct Listen {
    pub(crate) id: RequestId,
    pub(crate) route: Route,
    pub(crate) filter: Filter,
}

/// A place in the audience. Who lets go of it hears nothing more.
#[derive(Debug)]
pub(crate) struct Seat {
    seats: Weak<Mutex<Seats>>,
    number: u64,
}

impl Drop for Seat {
    fn drop(&mut self) {
        if let Some(seats) = self.seats.upgrade() {
            let listener = lock(&seats).taken.remove(&self.number);
            drop(listener);
        }
    }
}

impl Audience {
    pub(crate) fn join(&self, listener: Listener) -> Seat {
        let mut seats = lock(&self.0);
        seats.next += 1;
        let number = seats.next;
        seats.taken.insert(number, listener);
        Seat {
            seats: Arc::downgrade(&self.0),
            number,
        }
    }

    /// Tells everybody who wants to know.
    pub(crate) fn tell(&self, news: &News) {
        for listener in self.listeners() {
            match listener {
                Listener::Peer(peer) => {
                    if let Some(peer) = peer.upgrade() {
                        peer.hear(news);
                    }
                }
                Listener::Listen(listen) if listen.filter.wants(news) => {
                    listen.route.note(Note {
                        news: news.clone(),
                        subscription: Some(listen.id),
                    });
                }
                Listener::Listen(_) => {}
            }
        }
    }

    /// Ends every stream of changes that has an HTTP response of its own, both ways.
    pub(crate) fn end_streams(&self) {
        for listener in self.listeners() {
            if let Listener::Listen(Listen { id, route, .. }) = listener
                && matches!(route, Route::Own(_))
            {
                route.say(|out| wire::unsubscribed(out, &id, "the server ends"));
                route.answer(Tone::Result, |out| wire::listened(out, &id));
            }
        }
    }

    /// Every client of the handshake era.
    pub(crate) fn peers(&self) -> Vec<Arc<Peer>> {
        let listeners = self.listeners().into_iter();
        listeners
            .filter_map(|listener| match listener {
                Listener::Peer(peer) => peer.upgrade(),
                Listener::Listen(_) => None,
            })
            .collect()
    }

    /// Those who are there now. Nobody is told while the lock is held.
    fn listeners(&self) -> Vec<Listener> {
        lock(&self.0).taken.values().cloned().collect()
    }
}

/// What a request that stays open wants to hear of, as far as the server has such things.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Filter {
    #[serde(skip_serializing_if = "is_false")]
    tools_list_changed: bool,
    #[serde(skip_serializing_if = "is_false")]
    prompts_list_changed: bool,
    #[serde(skip_serializing_if = "is_false")]
    resources_list_changed: bool,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    resource_subscriptions: BTreeSet<Arc<str>>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
const fn is_false(value: &bool) -> bool {
    !*value
}

impl Filter {
    /// Reads what is wanted, and leaves out what there is not.
    pub(crate) fn read(params: Option<&RawValue>, inner: &Inner) -> Result<Self, Refusal> {
        #[derive(Default, Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        struct Wanted {
            tools_list_changed: bool,
            prompts_list_changed: bool,
            resources_list_changed: bool,
            resource_subscriptions: Vec<String>,
        }
        #[derive(Deserialize)]
        struct Params<'a> {
            #[serde(borrow)]
            notifications: &'a RawValue,
        }
        let method = "subscriptions/listen";
        let Params { notifications } = crate::methods::read(method, params)?;
        // The reader of parameters reads objects, and nothing else.
        let notifications: Wanted = crate::methods::read(method, Some(notifications))?;
        let most = inner.bounds.subscriptions;
        if notifications.resource_subscriptions.len() > most {
            return Err(Refusal::new(Code::QuotaExceeded)
                .because(format!("a client may have {most} subscriptions")));
        }
        let has = inner.stateless_capabilities();
        let resources = has.contains(&Capability::Resources);
        let uris = notifications.resource_subscriptions.into_iter();
        Ok(Self {
            tools_list_changed: notifications.tools_list_changed
                && has.contains(&Capability::Tools),
            prompts_list_changed: notifications.prompts_list_changed
                && has.contains(&Capability::Prompts),
            resources_list_changed: notifications.resources_list_changed && resources,
            resource_subscriptions: uris
                .filter(|uri| resources && inner.is_free_resource(uri))
                .map(Arc::from)
                .collect(),
        })
    }

    fn wants(&self, news: &News) -> bool {
        match news {
            News::List(Listed::Tools) => self.tools_list_changed,
            News::List(Listed::Prompts) => self.prompts_list_changed,
            News::List(Listed::Resources) => self.resources_list_changed,
            News::Updated(uri) => self.resource_subscriptions.contains(uri),
        }
    }
}
