//! Who hears of changes: every client of the handshake era, and every open
//! `subscriptions/listen` of 2026-07-28.

use crate::{
    builder::Bounds,
    note::{Listed, News, Note},
    peer::Peer,
    principal::Principal,
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
    taken: HashMap<u64, Taken>,
    next: u64,
    /// What the requests that stay open take up, of all and of each owner.
    all: Load,
    by_owner: HashMap<Owner, Load>,
}

#[derive(Debug)]
struct Taken {
    /// Nobody yet, if the seat is only reserved.
    listener: Option<Listener>,
    /// Who pays for it, and how much. Clients of the handshake era do not, and they are many.
    counted: Option<Box<(Owner, Load)>>,
}

/// What requests that stay open take up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Load {
    listens: usize,
    uris: usize,
}

impl Load {
    const fn add(&mut self, other: Self) {
        self.listens += other.listens;
        self.uris += other.uris;
    }

    const fn remove(&mut self, other: Self) {
        self.listens -= other.listens;
        self.uris -= other.uris;
    }

    /// Whether it would still be within these limits with the other one.
    const fn fits(self, other: Self, most: Self) -> bool {
        self.listens + other.listens <= most.listens && self.uris + other.uris <= most.uris
    }
}

/// Whose a request that stays open is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Owner {
    /// A connection's, or that of a session of HTTP+SSE, by its number.
    Peer(u64),
    /// Over HTTP, of everybody who acts on behalf of this principal.
    Principal(Principal),
}

impl Owner {
    /// How much it may take up. Those who are nobody in particular cannot be told apart, so only
    /// the bounds of all hold for them.
    const fn most(&self, bounds: &Bounds) -> Load {
        match self {
            Self::Principal(principal) if principal.is_anonymous() => most_of_all(bounds),
            Self::Peer(_) | Self::Principal(_) => Load {
                listens: bounds.listens,
                uris: bounds.subscriptions,
            },
        }
    }
}

const fn most_of_all(bounds: &Bounds) -> Load {
    Load {
        listens: bounds.all_listens,
        uris: bounds.all_subscriptions,
    }
}

/// Somebody who hears of changes.
#[derive(Clone, Debug)]
pub(crate) enum Listener {
    /// A client of the handshake era.
    Peer(Weak<Peer>),
    /// A request of 2026-07-28 that stays open.
    Listen(Arc<Listen>),
}

/// A request that stays open to hear of changes.
#[derive(Debug)]
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

impl Seat {
    pub(crate) const fn number(&self) -> u64 {
        self.number
    }

    /// From now on the one for whom the seat was reserved hears of changes.
    pub(crate) fn listen(&self, listen: Listen) {
        if let Some(seats) = self.seats.upgrade()
            && let Some(taken) = lock(&seats).taken.get_mut(&self.number)
        {
            taken.listener = Some(Listener::Listen(Arc::new(listen)));
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if let Some(seats) = self.seats.upgrade() {
            let left = lock(&seats).leave(self.number);
            drop(left);
        }
    }
}

impl Seats {
    fn take(&mut self, taken: Taken) -> u64 {
        self.next += 1;
        self.taken.insert(self.next, taken);
        self.next
    }

    fn leave(&mut self, number: u64) -> Option<Taken> {
        let left = self.taken.remove(&number);
        let counted = left.as_ref().and_then(|left| left.counted.as_deref());
        if let Some((owner, load)) = counted {
            self.all.remove(*load);
            if let Some(own) = self.by_owner.get_mut(owner) {
                own.remove(*load);
                if *own == Load::default() {
                    self.by_owner.remove(owner);
                }
            }
        }
        left
    }
}

impl Audience {
    pub(crate) fn join(&self, peer: Weak<Peer>) -> Seat {
        self.seat(lock(&self.0).take(Taken {
            listener: Some(Listener::Peer(peer)),
            counted: None,
        }))
    }

    /// A seat for a request that stays open. Its client is told before anything else that it has
    /// one, so nobody sits on it yet.
    ///
    /// # Errors
    ///
    /// 1059 if there are too many, or they want to hear of too much together.
    pub(crate) fn reserve(
        &self,
        owner: Owner,
        filter: &Filter,
        bounds: &Bounds,
    ) -> Result<Seat, Refusal> {
        let load = Load {
            listens: 1,
            uris: filter.resource_subscriptions.len(),
        };
        let mut seats = lock(&self.0);
        let own = seats.by_owner.get(&owner).copied().unwrap_or_default();
        let most = owner.most(bounds);
        if !own.fits(load, most) {
            return Err(Refusal::new(Code::QuotaExceeded).because(format!(
                "a client may have {} requests open to listen to changes, of {} resources together",
                most.listens, most.uris
            )));
        }
        if !seats.all.fits(load, most_of_all(bounds)) {
            return Err(Refusal::new(Code::QuotaExceeded)
                .because("too many requests are open to listen to changes"));
        }
        seats.all.add(load);
        seats.by_owner.entry(owner.clone()).or_default().add(load);
        let number = seats.take(Taken {
            listener: None,
            counted: Some(Box::new((owner, load))),
        });
        Ok(self.seat(number))
    }

    fn seat(&self, number: u64) -> Seat {
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
                        subscription: Some(listen.id.clone()),
                    });
                }
                Listener::Listen(_) => {}
            }
        }
    }

    /// Ends every stream of changes that has an HTTP response of its own, both ways.
    pub(crate) fn end_streams(&self) {
        for listener in self.listeners() {
            if let Listener::Listen(listen) = listener
                && let Listen { id, route, .. } = &*listen
                && matches!(route, Route::Own(_))
            {
                route.say(|out| wire::unsubscribed(out, id, "the server ends"));
                route.answer(Tone::Result, |out| wire::listened(out, id));
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
        let seats = lock(&self.0);
        let taken = seats.taken.values();
        taken.filter_map(|taken| taken.listener.clone()).collect()
    }
}

/// What a request that stays open wants to hear of, as far as the server has such things.
#[derive(Debug, Default, Serialize)]
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
    pub(crate) fn read(params: Option<&str>, inner: &Inner) -> Result<Self, Refusal> {
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
        let notifications: Wanted = crate::methods::read(method, Some(notifications.get()))?;
        let most = inner.bounds.subscriptions;
        if notifications.resource_subscriptions.len() > most {
            return Err(Refusal::new(Code::QuotaExceeded)
                .because(format!("a client may have {most} subscriptions")));
        }
        let has = inner.capabilities();
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

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds {
        subscriptions: 4,
        listens: 2,
        all_listens: 5,
        all_subscriptions: 8,
        handles: 0,
        anonymous_handles: 0,
    };

    fn filter(uris: &[&str]) -> Filter {
        Filter {
            resource_subscriptions: uris.iter().map(|uri| Arc::from(*uri)).collect(),
            ..Filter::default()
        }
    }

    fn reserve(audience: &Audience, owner: &Owner, uris: &[&str]) -> Option<Seat> {
        match audience.reserve(owner.clone(), &filter(uris), &BOUNDS) {
            Ok(seat) => Some(seat),
            Err(refusal) => {
                assert_eq!(refusal.code(), Code::QuotaExceeded);
                None
            }
        }
    }

    fn known(name: &str) -> Owner {
        Owner::Principal(Principal::new(name))
    }

    #[test]
    fn a_client_may_listen_only_so_often_at_once() {
        for owner in [Owner::Peer(1), known("alice")] {
            let audience = Audience::default();
            let first = reserve(&audience, &owner, &[]);
            let second = reserve(&audience, &owner, &[]);
            assert!(first.is_some() && second.is_some());
            assert!(reserve(&audience, &owner, &[]).is_none());
            assert!(reserve(&audience, &known("bob"), &[]).is_some());
            drop(first);
            assert!(reserve(&audience, &owner, &[]).is_some());
        }
    }

    #[test]
    fn resources_count_over_all_requests_of_a_client() {
        let audience = Audience::default();
        let alice = known("alice");
        let first = reserve(&audience, &alice, &["x:a", "x:b", "x:c"]);
        assert!(first.is_some());
        assert!(reserve(&audience, &alice, &["x:a", "x:d"]).is_none());
        assert!(reserve(&audience, &alice, &["x:d"]).is_some());
        drop(first);
        assert!(reserve(&audience, &alice, &["x:a", "x:b", "x:c", "x:d"]).is_some());
    }

    #[test]
    fn all_together_may_listen_only_so_much() {
        let audience = Audience::default();
        let nobody = Owner::Principal(Principal::anonymous());
        let _seats = [(); 5].map(|()| reserve(&audience, &nobody, &[]).unwrap());
        assert!(reserve(&audience, &nobody, &[]).is_none());
        assert!(reserve(&audience, &known("alice"), &[]).is_none());
        let audience = Audience::default();
        let _seats = [(); 2].map(|()| reserve(&audience, &nobody, &["x:a", "x:b", "x:c"]).unwrap());
        assert!(reserve(&audience, &known("alice"), &["x:a", "x:b", "x:c"]).is_none());
        assert!(reserve(&audience, &known("alice"), &["x:a", "x:b"]).is_some());
    }

    #[test]
    fn nothing_is_left_of_those_who_have_gone() {
        let audience = Audience::default();
        let seats = [known("alice"), known("bob"), Owner::Peer(1)]
            .map(|owner| reserve(&audience, &owner, &["x:a"]).unwrap());
        drop(seats);
        let seats = lock(&audience.0);
        assert_eq!(seats.all, Load::default());
        assert!(seats.by_owner.is_empty() && seats.taken.is_empty());
    }
}
