//! How the client and the server come to terms.

use super::Peer;
use crate::{
    caller::Client,
    route::{Route, lock},
    wire::Transition,
};
use interlock_proto::{
    connection::Key,
    frame::Request,
    negotiation::{self, Negotiation, Offer},
};
use std::sync::Arc;

impl Peer {
    /// The client has said who it is; what it may use is negotiated.
    pub(super) fn introduce(
        self: &Arc<Self>,
        key: Key,
        request: &Request<'_>,
        offer: Offer,
        route: &Route,
    ) {
        tracing::info!(client = %offer.client_name, version = %offer.version, "initialize");
        let member = |name| request.params.and_then(|params| params.member(name));
        let client = member("capabilities")
            .map(|capabilities| Client::new(capabilities, member("clientInfo")));
        {
            let mut book = lock(&self.book);
            book.initialize = Some(Box::new((key, route.clone())));
            book.client = Arc::new(client.unwrap_or_default());
        }
        self.negotiate(negotiation::Input::Offer(offer));
    }

    /// What the server offers has changed.
    pub(crate) fn renegotiate(self: &Arc<Self>) {
        if lock(&self.book).negotiation.agreement().is_some() {
            self.negotiate(negotiation::Input::Have(self.inner.capabilities()));
        }
    }

    pub(super) fn negotiate(self: &Arc<Self>, input: negotiation::Input) {
        let now = self.inner.clock.now();
        let (effects, transition) = {
            let mut book = lock(&self.book);
            let rules = &self.inner.negotiation;
            let transition = Transition::by::<Negotiation>(&book.negotiation, &input);
            let Ok(step) = negotiation::step(rules, &book.negotiation, input, now) else {
                return;
            };
            let transition = transition.to::<Negotiation>(&step.state);
            book.negotiation = step.state;
            (step.effects, transition)
        };
        transition.trace();
        for effect in effects {
            match effect {
                negotiation::Effect::Gather => {
                    self.negotiate(negotiation::Input::Have(self.inner.capabilities()));
                }
                negotiation::Effect::Answer(agreement) => {
                    let asked = lock(&self.book).initialize.take();
                    if let Some((key, route)) = asked.map(|asked| *asked) {
                        let result = self.inner.initialize_result(agreement.version);
                        self.answer(&key, &result, &route);
                    }
                }
                negotiation::Effect::Fail(refusal) => {
                    let asked = lock(&self.book).initialize.take();
                    if let Some((key, route)) = asked.map(|asked| *asked) {
                        self.refuse(&key, &refusal, &route);
                    }
                    self.drain();
                }
                negotiation::Effect::Changed(agreement) => {
                    tracing::info!(?agreement, "the agreement has changed");
                }
                negotiation::Effect::Serve(_) => {}
            }
        }
    }
}
