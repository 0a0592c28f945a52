//! The handshake: what the client and the server agree on.

use crate::{
    context::client::ClientInfo,
    outbound::{Route, lock},
    session::ClientSession,
    wire::Transition,
};
use interlock_proto::{
    Time,
    connection::Key,
    frame::Request,
    machine::Effects,
    negotiation::{self, Effect, Input, Negotiation, Offer, State},
};
use std::sync::Arc;

pub(super) struct Handshake {
    pub(super) state: State,
    /// The `initialize` that is being negotiated, and where it is answered.
    initialize: Option<Box<(Key, Route)>>,
}

impl Handshake {
    pub(super) const fn new() -> Self {
        Self {
            state: State::NotNegotiated,
            initialize: None,
        }
    }

    /// Lets the machine take a step. `None` if it refuses the input.
    fn step(
        &mut self,
        rules: &negotiation::Rules,
        input: Input,
        now: Time,
    ) -> Option<(Effects<Effect>, Transition)> {
        let transition = Transition::by::<Negotiation>(&self.state, &input);
        let step = negotiation::step(rules, &self.state, input, now).ok()?;
        let transition = transition.to::<Negotiation>(&step.state);
        self.state = step.state;
        Some((step.effects, transition))
    }
}

/// Takes an `initialize` request.
pub(super) fn initialize(
    session: &Arc<ClientSession>,
    key: Key,
    request: &Request<'_>,
    offer: Offer,
    route: &Route,
) {
    tracing::info!(client = %offer.client_name, version = %offer.version, "initialize");
    let member = |name| request.params.and_then(|params| params.member(name));
    let client = member("capabilities")
        .map(|capabilities| ClientInfo::new(capabilities, member("clientInfo")));
    {
        let mut state = lock(&session.state);
        state.handshake.initialize = Some(Box::new((key, route.clone())));
        state.profile.client = Arc::new(client.unwrap_or_default());
    }
    negotiate(session, Input::Offer(offer));
}

pub(super) fn negotiate(session: &Arc<ClientSession>, input: Input) {
    let (core, now) = (&session.core, session.core.clock.now());
    // What the server offers is there at once, so its patience is never needed.
    let rules = negotiation::Rules::default();
    let stepped = {
        let mut state = lock(&session.state);
        state.handshake.step(&rules, input, now)
    };
    let Some((effects, transition)) = stepped else {
        return;
    };
    transition.trace();
    let take_initialize = || lock(&session.state).handshake.initialize.take();
    for effect in effects {
        match effect {
            Effect::Gather => negotiate(session, Input::Have(core.capabilities())),
            Effect::Answer(agreement) => {
                if let Some((key, route)) = take_initialize().as_deref() {
                    let instance = session.instance.as_deref();
                    let result = core.initialize_result(agreement.version, instance);
                    session.answer(key, &result, route);
                }
            }
            Effect::Fail(refusal) => {
                if let Some((key, route)) = take_initialize().as_deref() {
                    session.refuse(key, &refusal, route);
                }
                session.drain();
            }
            Effect::Changed(agreement) => {
                tracing::info!(?agreement, "the agreement has changed");
            }
            Effect::Serve(_) => {}
        }
    }
}
