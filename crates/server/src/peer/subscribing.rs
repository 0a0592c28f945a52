//! What the client wants to hear of.

use super::Peer;
use crate::{
    audience::{Filter, Listen, Owner, Seat},
    note::{News, Note},
    route::{Route, lock},
    wire,
};
use interlock_proto::{
    Code, Refusal, Version,
    connection::{Input, Key},
    subscription,
};
use serde::Deserialize;
use std::sync::Arc;

impl Peer {
    pub(super) fn subscribe(
        self: &Arc<Self>,
        params: Option<&str>,
        version: Version,
    ) -> Result<(), Refusal> {
        let uri: Arc<str> = uri("resources/subscribe", params)?.into();
        let known = self.inner.can_read(&uri, self.instance.as_deref(), version);
        {
            let mut book = lock(&self.book);
            let most = self.inner.bounds.subscriptions;
            if book.subscriptions.len() >= most && !book.subscriptions.contains_key(&uri) {
                return Err(Refusal::new(Code::QuotaExceeded)
                    .because(format!("a client may have {most} subscriptions")));
            }
            let state = book.subscriptions.get(&uri);
            let state = state.cloned().unwrap_or(subscription::State::Unsubscribed);
            let step = subscription::step(
                &self.inner.subscriptions,
                &state,
                subscription::Input::Subscribe(known),
                self.inner.clock.now(),
            )?;
            book.subscriptions.insert(Arc::clone(&uri), step.state);
        }
        self.tell(Input::Subscribed(uri.to_string()));
        Ok(())
    }

    pub(super) fn unsubscribe(self: &Arc<Self>, params: Option<&str>) -> Result<(), Refusal> {
        let uri = uri("resources/unsubscribe", params)?;
        self.step_subscription(&uri, subscription::Input::Unsubscribe);
        Ok(())
    }

    /// Lets one subscription take a step, if there is one.
    fn step_subscription(self: &Arc<Self>, uri: &str, input: subscription::Input) {
        let now = self.inner.clock.now();
        let mut ended = None;
        let effects = {
            let mut book = lock(&self.book);
            let Some((name, state)) = book.subscriptions.get_key_value(uri) else {
                return;
            };
            let name = Arc::clone(name);
            let rules = &self.inner.subscriptions;
            let Ok(step) = subscription::step(rules, state, input, now) else {
                return;
            };
            match step.state {
                subscription::State::Subscribed { .. } => {
                    book.subscriptions.insert(name, step.state);
                }
                // Nothing of ours has to be cleaned up, so it is done at once.
                subscription::State::Unsubscribing | subscription::State::Unsubscribed => {
                    book.subscriptions.remove(&name);
                    ended = Some(name);
                }
            }
            step.effects
        };
        if let Some(name) = ended {
            // So that no more can wait to be told than can be subscribed to.
            self.route.take_back(&Note {
                news: News::Updated(name),
                subscription: None,
            });
        }
        for effect in effects {
            match effect {
                subscription::Effect::Notify(_) => self.route.note(Note {
                    news: News::Updated(uri.into()),
                    subscription: None,
                }),
                subscription::Effect::Detach => self.tell(Input::Unsubscribed(uri.to_owned())),
                subscription::Effect::Invalidate
                | subscription::Effect::Attach
                | subscription::Effect::Forget => {}
            }
        }
    }

    pub(super) fn tick_subscriptions(self: &Arc<Self>) {
        if self.inner.subscriptions.idle.is_none() {
            return;
        }
        let uris: Vec<_> = lock(&self.book).subscriptions.keys().cloned().collect();
        for uri in uris {
            self.step_subscription(&uri, subscription::Input::Tick);
        }
    }

    /// Tells the client of a change, if it is one that it hears of.
    pub(crate) fn hear(self: &Arc<Self>, news: &News) {
        match news {
            // Before the handshake, nobody has seen a list that could have changed.
            News::List(_) => {
                if self.version().is_some() {
                    self.route.note(Note {
                        news: news.clone(),
                        subscription: None,
                    });
                }
            }
            News::Updated(uri) => self.step_subscription(uri, subscription::Input::Updated),
        }
    }

    /// A resource is gone: whoever listened to it is told once more, and then no longer.
    pub(crate) fn hear_deleted(self: &Arc<Self>, uri: &str) {
        self.step_subscription(uri, subscription::Input::Deleted);
    }

    /// Opens a stream of changes; it stays open until either side ends it.
    pub(super) fn listen(self: &Arc<Self>, key: Key, params: Option<&str>, route: &Route) {
        match self.reserve(params) {
            Ok((filter, seat)) => {
                route.insist(|out| wire::acknowledged(out, &key.id, &filter));
                seat.listen(Listen {
                    id: key.id.clone(),
                    route: route.clone(),
                    filter,
                });
                lock(&self.book).listens.insert(key, (route.clone(), seat));
            }
            Err(refusal) => self.refuse(&key, &refusal, route),
        }
    }

    fn reserve(&self, params: Option<&str>) -> Result<(Filter, Seat), Refusal> {
        let filter = Filter::read(params, &self.inner)?;
        let own = lock(&self.book).seat.as_ref().map_or(0, Seat::number);
        let (audience, bounds) = (&self.inner.audience, &self.inner.bounds);
        let seat = audience.reserve(Owner::Peer(own), &filter, bounds)?;
        Ok((filter, seat))
    }

    /// Ends a stream of changes that its client has ended.
    pub(super) fn unlisten(self: &Arc<Self>, key: &Key) {
        let listen = lock(&self.book).listens.remove(key);
        if let Some((route, seat)) = listen {
            drop(seat);
            self.settle(key, self.inner.clock.now(), || route.silent());
        }
    }
}

fn uri(method: &str, params: Option<&str>) -> Result<String, Refusal> {
    #[derive(Deserialize)]
    struct Subscribe {
        uri: String,
    }
    let Subscribe { uri } = crate::methods::read(method, params)?;
    Ok(uri)
}
