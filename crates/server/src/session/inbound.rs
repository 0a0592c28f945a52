//! Messages on their way through the connection machine, and the effects that it orders.

use crate::{
    catalog::snapshot::CatalogSnapshot,
    context::{
        body_memory::BodyShare,
        cancellation::{Signal, Signals},
    },
    outbound::{Route, batch::BatchAnswers, lock},
    session::{ClientSession, handshake, questions, state::SessionState, subscriptions},
    wire::{self, AnswerKind, result},
};
use interlock_proto::{
    Refusal, RequestId, RpcCode, Time, Version,
    batch::{self, Batch, Incoming},
    connection::{Effect, Input, Key, Lane, Noise},
    elicitation,
    era::{self, Method, Modern},
    frame::{self, ErrorId, Frame, Malformed, Notification, Reply, Request},
    negotiation::{self, Offer},
};
use interlock_workflow::Kind;
use serde_json::value::RawValue;
use std::sync::Arc;

/// What arrives at one time, and is answered on one route.
#[derive(Clone, Copy)]
pub(crate) struct Inbound<'a> {
    pub(super) session: &'a Arc<ClientSession>,
    pub(super) route: &'a Route,
    pub(super) at: Time,
    pub(super) body: Option<&'a Arc<BodyShare>>,
}

/// What came with an input, for the effects of that input.
pub(super) enum Payload<'p, 'a> {
    Nothing,
    Request(&'p mut IncomingRequest<'a>),
    /// What could not be read, as an error names it.
    Malformed(ErrorId),
    Response(Result<&'a RawValue, &'a RawValue>),
}

/// A request on its way through the machine.
pub(super) struct IncomingRequest<'a> {
    pub(super) request: &'a Request<'a>,
    /// What the server offered when the request came.
    pub(super) snapshot: &'a CatalogSnapshot,
    pub(super) method: Option<Method>,
    pub(super) modern: Option<Modern<'a>>,
    /// In which version the agreement allows the method. Set once the machine lets the request in.
    pub(super) allowed: Option<Result<Version, Refusal>>,
    offer: Option<Offer>,
    /// What a call receives from its connection. Set once the machine lets the request in.
    pub(super) signals: Option<Signals>,
    pub(super) at: Time,
    /// Counts the arguments, if they came over HTTP.
    pub(super) body: Option<&'a Arc<BodyShare>>,
}

impl<'a> Inbound<'a> {
    /// Counts what arrives as the body of an HTTP request, until its calls are over.
    pub(crate) const fn counted(mut self, body: &'a Arc<BodyShare>) -> Self {
        self.body = Some(body);
        self
    }

    /// Takes one message, or one batch of them.
    pub(crate) fn on_message(self, bytes: &[u8], snapshot: &CatalogSnapshot) {
        let limits = &self.session.core.limits;
        // Only a batch needs the agreed version. The parsed message is matched in place.
        if batch::is_likely(bytes) {
            match batch::parse(bytes, limits, self.session.version()) {
                Ok(ref incoming) => self.on_incoming(incoming, snapshot),
                Err(malformed) => self.on_malformed(malformed),
            }
        } else {
            match frame::parse(bytes, limits) {
                Ok(ref frame) => self.on_frame(frame, snapshot),
                Err(malformed) => self.on_malformed(malformed),
            }
        }
    }

    /// Takes one parsed message, or one parsed batch.
    pub(crate) fn on_incoming(self, incoming: &Incoming<'_>, snapshot: &CatalogSnapshot) {
        match incoming {
            Incoming::One(frame) => self.on_frame(frame, snapshot),
            Incoming::Batch(batch) => self.on_batch(batch),
        }
    }

    fn on_frame(self, frame: &Frame<'_>, snapshot: &CatalogSnapshot) {
        match frame {
            Frame::Request(request) => self.on_request(request, snapshot),
            Frame::Notification(notification) => self.on_notification(notification),
            Frame::Response(response) => {
                let input = Input::Response(questions::ask_id(response.id.as_ref()));
                self.step(input, Payload::Response(response.outcome));
            }
        }
    }

    /// Takes a batch, and answers its members together. Each member finds what the one before has
    /// left: another time, and perhaps another snapshot.
    fn on_batch(self, batch: &Batch<'_>) {
        let members = BatchAnswers::collect(batch.answers(), self.route.clone());
        if members.is_none() {
            self.route.end_unanswered();
        }
        let core = &self.session.core;
        for member in &batch.members {
            let member_inbound = Inbound {
                session: self.session,
                route: members.as_ref().unwrap_or(self.route),
                at: core.clock.now(),
                body: self.body,
            };
            match member {
                Ok(frame) => {
                    core.with_snapshot(|snapshot| member_inbound.on_frame(frame, snapshot));
                }
                Err(malformed) => member_inbound.on_malformed(malformed.clone()),
            }
        }
    }

    fn on_request(self, request: &Request<'_>, snapshot: &CatalogSnapshot) {
        let modern = match era::modern(request.params.as_ref()) {
            Ok(modern) => modern,
            Err(refusal) => {
                return self.on_malformed(Malformed {
                    id: Some(request.id.clone()),
                    number: None,
                    refusal: refusal.supporting(Version::NEWEST_FIRST),
                    reply: Reply::Error,
                });
            }
        };
        let id = request.id.clone();
        let mut incoming = IncomingRequest {
            request,
            snapshot,
            method: Method::parse(&request.method),
            modern,
            allowed: None,
            offer: None,
            signals: None,
            at: self.at,
            body: self.body,
        };
        let input = match (incoming.method, &incoming.modern) {
            (Some(Method::Initialize), None) => {
                let version = match Offer::read(request.params.as_ref()) {
                    Ok(offer) => Ok(incoming.offer.insert(offer).version),
                    Err(refusal) => Err(refusal),
                };
                Input::Initialize { id, version }
            }
            (Some(Method::Ping), None) => Input::Ping { id },
            (_, modern) => {
                let lane = match modern {
                    Some(_) => Lane::Stateless(lock(&self.session.state).calls.next_id()),
                    None => Lane::Handshake,
                };
                Input::Request(Key { id, lane })
            }
        };
        self.step(input, Payload::Request(&mut incoming));
    }

    fn on_notification(self, notification: &Notification<'_>) {
        let input = match &*notification.method {
            "notifications/initialized" => Input::Ready,
            "notifications/cancelled" => {
                let id = notification
                    .params
                    .and_then(|params| era::member(params, "requestId"))
                    .and_then(RequestId::read);
                // The specification asks to ignore one that cannot be read.
                id.map_or(Input::Notification, |id| Input::Cancelled { id })
            }
            _ => Input::Notification,
        };
        self.step(input, Payload::Nothing);
    }

    pub(crate) fn on_malformed(self, malformed: Malformed) {
        tracing::debug!(refusal = %malformed.refusal, "malformed message");
        if malformed.reply == Reply::None {
            return;
        }
        let error_id = malformed.error_id(self.session.version());
        let Malformed { id, refusal, .. } = malformed;
        let input = Input::Malformed { id, refusal };
        self.step(input, Payload::Malformed(error_id));
    }

    /// Lets the machine decide, and performs the effects.
    pub(super) fn step(self, input: Input, mut payload: Payload<'_, '_>) {
        let session = self.session;
        let mut state = lock(&session.state);
        let stepped = state.step(&session.rules, input, self.at);
        if let (Ok((step, _)), Payload::Request(incoming)) = (&stepped, &mut payload) {
            let_in(&mut state, &step.effects, incoming);
        }
        let version = state.connection.version();
        drop(state);
        match stepped {
            Ok((step, transition)) => {
                transition.trace();
                self.perform_all(&step.effects, payload);
            }
            Err(refusal) => self.refuse(refusal, &payload, version),
        }
    }

    /// Answers an input that the machine refuses.
    fn refuse(self, refusal: Refusal, payload: &Payload<'_, '_>, agreed: Option<Version>) {
        let id = match payload {
            Payload::Request(incoming) => {
                let id = &incoming.request.id;
                let is_ours = refusal.rpc_code() == RpcCode::INTERNAL_ERROR;
                if is_ours && incoming.method == Some(Method::ToolsCall) {
                    // The model reads an internal error of a tool call as a result.
                    let modern = incoming.modern.as_ref().map(|modern| modern.version);
                    let version = modern.or(agreed).unwrap_or(Version::COUNTER_OFFER);
                    let stamp = self.session.core.stamp(version, None);
                    let answer = result::refused(Kind::Tool, refusal.into(), stamp);
                    return self.route.answer(AnswerKind::Result, |out| {
                        wire::answer(out, id, &answer, self.session.home());
                    });
                }
                ErrorId::Known(id.clone())
            }
            Payload::Malformed(id) => id.clone(),
            Payload::Nothing | Payload::Response(_) => ErrorId::Absent,
        };
        let kind = AnswerKind::Error(refusal.rpc_code());
        self.route
            .answer(kind, |out| wire::error(out, &id, &refusal));
    }

    pub(super) fn perform_all(self, effects: &[Effect], mut payload: Payload<'_, '_>) {
        for effect in effects {
            self.perform(effect, &mut payload);
        }
    }

    fn perform(self, effect: &Effect, payload: &mut Payload<'_, '_>) {
        let session = self.session;
        match effect {
            Effect::Negotiate(key, _) => {
                if let Payload::Request(incoming) = payload
                    && let Some(offer) = incoming.offer.take()
                {
                    handshake::initialize(
                        session,
                        key.clone(),
                        incoming.request,
                        offer,
                        self.route,
                    );
                }
            }
            Effect::Serve(key) => {
                if let Payload::Request(incoming) = payload {
                    session.serve(key, incoming, self.route);
                }
            }
            Effect::Activate => handshake::negotiate(session, negotiation::Input::Ready),
            Effect::Cancel(key) => {
                session.signal(key, Signal::Cancel);
                subscriptions::cancel_stream(session, key);
            }
            Effect::Abandon(key, _) => {
                session.signal(key, Signal::ShutDown);
                subscriptions::cancel_stream(session, key);
            }
            Effect::Settle(ask) => {
                if let Payload::Response(outcome) = payload {
                    let said = questions::read_answer(*outcome);
                    let answer = session.close_question(*ask, questions::ending(&said));
                    let _ = answer.map(|answer| answer.send(said));
                }
            }
            Effect::AbandonAsk(ask) => {
                session.close_question(*ask, elicitation::Input::ClientGone);
            }
            Effect::Ignore(noise) => {
                tracing::debug!(?noise, "ignored");
                if *noise == Noise::Duplicate {
                    self.route.end_unanswered();
                }
            }
            Effect::Close => {
                lock(&session.state).subscriptions.clear();
                session.route.wake();
            }
            // The ledger has applied these.
            Effect::Forget(_)
            | Effect::SendAsk(_)
            | Effect::Subscribe(_)
            | Effect::Unsubscribe(_) => {}
        }
    }
}

/// Prepares a request that the machine lets in: asks the agreement whether it allows the method,
/// and registers a call, so that it can be cancelled from now on.
fn let_in(state: &mut SessionState, effects: &[Effect], incoming: &mut IncomingRequest<'_>) {
    for effect in effects {
        let (Effect::Serve(key), Some(method)) = (effect, incoming.method) else {
            continue;
        };
        if incoming.modern.is_none() {
            incoming.allowed = Some(state.handshake.state.allows(method));
        }
        if method.is_call() {
            incoming.signals = Some(state.calls.start(key.clone()));
        }
    }
}
