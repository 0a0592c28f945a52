//! Who is notified of changes: every session of the handshake era, and every open
//! `subscriptions/listen` request of 2026-07-28.

use crate::{
    model::change::{ChangeNotification, ServerChange, SubscribedUri},
    outbound::{Route, lock},
    wire::{self, AnswerKind},
};
use interlock_engine::Principal;
use interlock_proto::{Code, Refusal, RequestId};
use interlock_workflow::Kind;
use serde::Serialize;
use std::{
    collections::{BTreeSet, HashMap},
    fmt,
    net::IpAddr,
    sync::{Arc, Mutex, Weak},
};

/// A session of the handshake era. No lock of [`Subscribers`] is held over its methods.
pub(crate) trait ChangeListener: fmt::Debug + Send + Sync {
    /// A list or a resource has changed.
    fn changed(self: Arc<Self>, news: &ServerChange);

    /// A resource has been removed.
    fn deleted(self: Arc<Self>, uri: &str);

    /// What the server offers has changed.
    fn renegotiate(self: Arc<Self>);
}

/// Everything that is notified of changes.
#[derive(Debug, Default)]
pub(crate) struct Subscribers(Arc<Mutex<SubscriberRegistry>>);

#[derive(Debug, Default)]
struct SubscriberRegistry {
    entries: HashMap<u64, SubscriberEntry>,
    last_id: u64,
    /// What open requests take up, in all and for each owner.
    all: ListenLoad,
    by_owner: HashMap<QuotaOwner, ListenLoad>,
}

#[derive(Debug)]
struct SubscriberEntry {
    /// None until a reserved registration is activated.
    subscriber: Option<Subscriber>,
    /// What counts against a quota. Sessions count against none.
    counted: Option<Box<(QuotaOwner, ListenLoad)>>,
}

#[derive(Clone, Debug)]
enum Subscriber {
    Session(Weak<dyn ChangeListener>),
    Stream(Arc<ChangeStream>),
}

/// An open `subscriptions/listen` request.
#[derive(Debug)]
pub(crate) struct ChangeStream {
    pub(crate) id: RequestId,
    pub(crate) route: Route,
    pub(crate) filter: Filter,
}

/// What open requests take up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ListenLoad {
    pub(crate) listens: usize,
    pub(crate) uris: usize,
}

impl ListenLoad {
    const fn add(&mut self, other: Self) {
        self.listens += other.listens;
        self.uris += other.uris;
    }

    const fn remove(&mut self, other: Self) {
        self.listens -= other.listens;
        self.uris -= other.uris;
    }

    /// Whether the sum of both is within the limit.
    const fn fits(self, other: Self, most: Self) -> bool {
        self.listens + other.listens <= most.listens && self.uris + other.uris <= most.uris
    }
}

/// How much open requests may take up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quota {
    pub(crate) each: ListenLoad,
    pub(crate) all: ListenLoad,
}

/// Against whose quota an open request counts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum QuotaOwner {
    /// A connection, or a session of HTTP+SSE, by the id of its registration.
    Session(u64),
    /// Over HTTP, the principal.
    Principal(Principal),
    /// Over HTTP, the address that anonymous clients come from. There may be many of them.
    Address(IpAddr),
}

/// A quarter is what one address may have of what is listened to, and what it leaves of the rest.
const OF_ALL: usize = 4;

impl QuotaOwner {
    /// Against whose quota the requests count that come over HTTP.
    pub(crate) fn over_http(principal: Principal, address: Option<IpAddr>) -> Self {
        match address {
            Some(address) if principal.is_anonymous() => Self::Address(address),
            Some(_) | None => Self::Principal(principal),
        }
    }

    /// How many this client may have of so many: an address leaves a quarter to others. Where not even
    /// addresses are known, anonymous clients cannot be told apart.
    pub(crate) fn share(&self, of: usize, per_principal: usize) -> usize {
        match self {
            Self::Principal(principal) if principal.is_anonymous() => of,
            Self::Session(_) | Self::Principal(_) => per_principal,
            Self::Address(_) => of - of / OF_ALL,
        }
    }

    /// How much it may take up. Where not even addresses are known of anonymous clients, only the
    /// quota of all holds for them.
    fn most(&self, quota: &Quota) -> ListenLoad {
        let Quota { each, all } = *quota;
        match self {
            Self::Principal(principal) if principal.is_anonymous() => all,
            Self::Session(_) | Self::Principal(_) => each,
            Self::Address(_) => ListenLoad {
                listens: each.listens.max(all.listens / OF_ALL),
                uris: each.uris.max(all.uris / OF_ALL),
            },
        }
    }
}

/// An entry among the subscribers. Dropping it removes the entry.
#[derive(Debug)]
pub(crate) struct Registration {
    registry: Weak<Mutex<SubscriberRegistry>>,
    id: u64,
}

impl Registration {
    pub(crate) const fn id(&self) -> u64 {
        self.id
    }

    /// From now on the stream is notified.
    pub(crate) fn activate(&self, stream: ChangeStream) {
        if let Some(registry) = self.registry.upgrade()
            && let Some(entry) = lock(&registry).entries.get_mut(&self.id)
        {
            entry.subscriber = Some(Subscriber::Stream(Arc::new(stream)));
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if let Some(registry) = self.registry.upgrade() {
            let removed = lock(&registry).remove(self.id);
            drop(removed);
        }
    }
}

impl SubscriberRegistry {
    fn insert(&mut self, entry: SubscriberEntry) -> u64 {
        self.last_id += 1;
        self.entries.insert(self.last_id, entry);
        self.last_id
    }

    fn remove(&mut self, id: u64) -> Option<SubscriberEntry> {
        let removed = self.entries.remove(&id)?;
        if let Some((owner, load)) = removed.counted.as_deref() {
            self.all.remove(*load);
            if let Some(own) = self.by_owner.get_mut(owner) {
                own.remove(*load);
                if *own == ListenLoad::default() {
                    self.by_owner.remove(owner);
                }
            }
        }
        Some(removed)
    }
}

impl Subscribers {
    pub(crate) fn add_session(&self, session: Weak<dyn ChangeListener>) -> Registration {
        let id = lock(&self.0).insert(SubscriberEntry {
            subscriber: Some(Subscriber::Session(session)),
            counted: None,
        });
        self.registration(id)
    }

    /// Reserves an entry for a `subscriptions/listen` request. It is activated after the request
    /// has been acknowledged, because no change may come before that.
    ///
    /// # Errors
    ///
    /// 1059 if there are too many, or they name too many resources together.
    pub(crate) fn reserve(
        &self,
        owner: QuotaOwner,
        filter: &Filter,
        quota: &Quota,
    ) -> Result<Registration, Refusal> {
        let load = ListenLoad {
            listens: 1,
            uris: filter.resource_subscriptions.len(),
        };
        let mut registry = lock(&self.0);
        let own = registry.by_owner.get(&owner).copied().unwrap_or_default();
        let most = owner.most(quota);
        if !own.fits(load, most) {
            return Err(Refusal::new(Code::QuotaExceeded).because(format!(
                "a client may have {} requests open to listen to changes, of {} resources together",
                most.listens, most.uris
            )));
        }
        if !registry.all.fits(load, quota.all) {
            return Err(Refusal::new(Code::QuotaExceeded)
                .because("too many requests are open to listen to changes"));
        }
        registry.all.add(load);
        registry
            .by_owner
            .entry(owner.clone())
            .or_default()
            .add(load);
        let id = registry.insert(SubscriberEntry {
            subscriber: None,
            counted: Some(Box::new((owner, load))),
        });
        Ok(self.registration(id))
    }

    fn registration(&self, id: u64) -> Registration {
        Registration {
            registry: Arc::downgrade(&self.0),
            id,
        }
    }

    /// Notifies all sessions, and the streams that want this change.
    pub(crate) fn notify(&self, news: &ServerChange) {
        for subscriber in self.subscribers() {
            match subscriber {
                Subscriber::Session(session) => {
                    if let Some(session) = session.upgrade() {
                        session.changed(news);
                    }
                }
                Subscriber::Stream(stream) => {
                    if let Some(change) = stream.filter.wanted(news) {
                        stream.route.notify(ChangeNotification {
                            change,
                            subscription: Some(stream.id.clone()),
                        });
                    }
                }
            }
        }
    }

    /// Notifies all sessions that a resource has been removed.
    pub(crate) fn notify_deleted(&self, uri: &str) {
        for session in self.sessions() {
            session.deleted(uri);
        }
    }

    /// Lets all sessions compare what they agreed on with what is offered now.
    pub(crate) fn renegotiate(&self) {
        for session in self.sessions() {
            session.renegotiate();
        }
    }

    /// Ends every stream of changes that has an HTTP response of its own.
    pub(crate) fn end_streams(&self) {
        for subscriber in self.subscribers() {
            if let Subscriber::Stream(stream) = subscriber
                && let ChangeStream { id, route, .. } = &*stream
                && matches!(route, Route::Own(_))
            {
                route.send(|out| wire::subscription_cancelled(out, id, "the server ends"));
                route.answer(AnswerKind::Result, |out| wire::subscription_ended(out, id));
            }
        }
    }

    fn sessions(&self) -> impl Iterator<Item = Arc<dyn ChangeListener>> {
        let subscribers = self.subscribers().into_iter();
        subscribers.filter_map(|subscriber| match subscriber {
            Subscriber::Session(session) => session.upgrade(),
            Subscriber::Stream(_) => None,
        })
    }

    /// A copy, so that the lock is not held while they are notified.
    fn subscribers(&self) -> Vec<Subscriber> {
        let registry = lock(&self.0);
        let entries = registry.entries.values();
        entries
            .filter_map(|entry| entry.subscriber.clone())
            .collect()
    }
}

/// The changes that an open request asked for, as far as the server has such things.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Filter {
    #[serde(skip_serializing_if = "is_false")]
    pub(crate) tools_list_changed: bool,
    #[serde(skip_serializing_if = "is_false")]
    pub(crate) prompts_list_changed: bool,
    #[serde(skip_serializing_if = "is_false")]
    pub(crate) resources_list_changed: bool,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) resource_subscriptions: BTreeSet<SubscribedUri>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
const fn is_false(value: &bool) -> bool {
    !*value
}

impl Filter {
    /// The change as it is told to whoever asked for it.
    fn wanted(&self, news: &ServerChange) -> Option<ServerChange> {
        let is_wanted = match news {
            ServerChange::List(Kind::Tool) => self.tools_list_changed,
            ServerChange::List(Kind::Prompt) => self.prompts_list_changed,
            ServerChange::List(Kind::Resource) => self.resources_list_changed,
            ServerChange::Resource(uri) => {
                let uri = SubscribedUri::new(Arc::clone(uri));
                let asked_for = self.resource_subscriptions.get(&uri)?;
                return Some(ServerChange::Resource(Arc::clone(asked_for.as_written())));
            }
        };
        is_wanted.then(|| news.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUOTA: Quota = Quota {
        each: ListenLoad {
            listens: 2,
            uris: 4,
        },
        all: ListenLoad {
            listens: 5,
            uris: 8,
        },
    };

    fn filter(uris: &[&str]) -> Filter {
        Filter {
            resource_subscriptions: uris.iter().map(|uri| SubscribedUri::new(*uri)).collect(),
            ..Filter::default()
        }
    }

    fn reserve(
        subscribers: &Subscribers,
        owner: &QuotaOwner,
        uris: &[&str],
    ) -> Option<Registration> {
        match subscribers.reserve(owner.clone(), &filter(uris), &QUOTA) {
            Ok(registration) => Some(registration),
            Err(refusal) => {
                assert_eq!(refusal.code(), Code::QuotaExceeded);
                None
            }
        }
    }

    fn known(name: &str) -> QuotaOwner {
        QuotaOwner::Principal(Principal::new(name))
    }

    #[test]
    fn a_client_may_listen_only_so_often_at_once() {
        for owner in [QuotaOwner::Session(1), known("alice")] {
            let subscribers = Subscribers::default();
            let first = reserve(&subscribers, &owner, &[]);
            let second = reserve(&subscribers, &owner, &[]);
            assert!(first.is_some() && second.is_some());
            assert!(reserve(&subscribers, &owner, &[]).is_none());
            assert!(reserve(&subscribers, &known("bob"), &[]).is_some());
            drop(first);
            assert!(reserve(&subscribers, &owner, &[]).is_some());
        }
    }

    #[test]
    fn resources_count_over_all_requests_of_a_client() {
        let subscribers = Subscribers::default();
        let alice = known("alice");
        let first = reserve(&subscribers, &alice, &["x:a", "x:b", "x:c"]);
        assert!(first.is_some());
        assert!(reserve(&subscribers, &alice, &["x:a", "x:d"]).is_none());
        assert!(reserve(&subscribers, &alice, &["x:d"]).is_some());
        drop(first);
        assert!(reserve(&subscribers, &alice, &["x:a", "x:b", "x:c", "x:d"]).is_some());
    }

    #[test]
    fn anonymous_clients_of_one_address_leave_room_for_those_of_others() {
        let nobody = Principal::anonymous;
        let [one, other] = [[10, 0, 0, 1], [10, 0, 0, 2]]
            .map(|address| QuotaOwner::over_http(nobody(), Some(address.into())));
        let subscribers = Subscribers::default();
        let _registrations = [(); 2].map(|()| reserve(&subscribers, &one, &[]).unwrap());
        assert!(reserve(&subscribers, &one, &[]).is_none());
        assert!(reserve(&subscribers, &other, &["x:a", "x:b", "x:c", "x:d"]).is_some());
        let alice = QuotaOwner::over_http(Principal::new("alice"), Some([10, 0, 0, 1].into()));
        assert_eq!(alice, known("alice"));
    }

    #[test]
    fn all_together_may_listen_only_so_much() {
        let subscribers = Subscribers::default();
        let nobody = QuotaOwner::Principal(Principal::anonymous());
        let _registrations = [(); 5].map(|()| reserve(&subscribers, &nobody, &[]).unwrap());
        assert!(reserve(&subscribers, &nobody, &[]).is_none());
        assert!(reserve(&subscribers, &known("alice"), &[]).is_none());
        let subscribers = Subscribers::default();
        let _registrations =
            [(); 2].map(|()| reserve(&subscribers, &nobody, &["x:a", "x:b", "x:c"]).unwrap());
        assert!(reserve(&subscribers, &known("alice"), &["x:a", "x:b", "x:c"]).is_none());
        assert!(reserve(&subscribers, &known("alice"), &["x:a", "x:b"]).is_some());
    }

    #[test]
    fn nothing_is_left_of_those_who_have_gone() {
        let subscribers = Subscribers::default();
        let registrations = [known("alice"), known("bob"), QuotaOwner::Session(1)]
            .map(|owner| reserve(&subscribers, &owner, &["x:a"]).unwrap());
        drop(registrations);
        let registry = lock(&subscribers.0);
        assert_eq!(registry.all, ListenLoad::default());
        assert!(registry.by_owner.is_empty() && registry.entries.is_empty());
    }
}
