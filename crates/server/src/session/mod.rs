//! One client's session: a connection on stdio, a session over HTTP.
//!
//! The connection machine decides about every input, and the session performs its effects. A
//! session knows dispatch, calls and what lies to their right, and no transport. Taking an input
//! never waits: a call that has to wait runs as a task of its own. The state is behind one lock,
//! which is never held while user code runs.
//!
//! | File | Holds |
//! |---|---|
//! | `inbound.rs` | takes messages, lets the connection machine decide, performs its effects |
//! | `mod.rs` | `settle`: writes an answer under the lock, before its id is free again |
//! | `requests.rs` | serves a request, launches calls, sends answers |
//! | `calls.rs` | the calls that have not ended, and the signals that end them early |
//! | `questions.rs` | what the client is asked |
//! | `handshake.rs`, `profile.rs`, `subscriptions.rs`, `state.rs` | what is known of the client |
//! | `instance.rs` | its workflow instance: loaded, saved, ended |
//! | `persisted.rs` | what is saved when the session leaves memory |

pub(crate) mod instance;

mod calls;
mod handshake;
mod inbound;
mod persisted;
mod profile;
mod questions;
mod requests;
mod state;
mod subscriptions;

pub(crate) use persisted::SavedSession;

use crate::{
    context::{
        client::ClientInfo,
        client_link::{AnswerSender, ClientLink},
        environment::Environment,
    },
    core::{Core, rates::SessionUse},
    model::{
        change::{ChangeNotification, ServerChange},
        elicitation::Question,
        failure::Failure,
        notification::Log,
    },
    outbound::{
        Route, lock,
        subscribers::{ChangeListener, Registration},
    },
    wire::{
        self, AnswerKind,
        workflow_meta::{MetaPrefix, SessionInstance},
    },
};
use futures_util::future::BoxFuture;
use inbound::{Inbound, Payload};
use interlock_engine::{Instance, Observer, Principal, sleep_until};
use interlock_proto::{
    AskId, Level, Refusal, Time, Version,
    connection::{self, Input, Key, State},
    elicitation,
    frame::ErrorId,
    negotiation, subscription,
};
use interlock_workflow::Kind;
use serde::Serialize;
use serde_json::Value;
use state::{SessionState, SessionStatus};
use std::{
    fmt, io,
    sync::{Arc, Mutex, OnceLock, Weak},
};
use tokio::sync::Notify;

/// One client, and everything that is known of it.
pub(crate) struct ClientSession {
    pub(crate) core: Arc<Core>,
    principal: Principal,
    rules: connection::Rules,
    /// What counts against its rates.
    used: SessionUse,
    /// Where messages go that belong to no request.
    route: Route,
    instance: Option<Arc<Instance>>,
    /// How results begin that tell where the instance stands.
    meta_prefix: Option<MetaPrefix>,
    /// Until it is dropped, the session is notified of changes.
    registration: Registration,
    state: Mutex<SessionState>,
    /// Notified when a request of a closing session has been answered.
    settled: Notify,
    on_write: OnceLock<OnWrite>,
}

/// Writes a session's data to its store.
type OnWrite = Box<dyn Fn() -> BoxFuture<'static, Result<(), Failure>> + Send + Sync>;

impl ClientSession {
    /// The session of a client that has sent nothing yet.
    pub(crate) fn new(
        core: &Arc<Core>,
        principal: Principal,
        rules: connection::Rules,
        route: Route,
    ) -> io::Result<Arc<Self>> {
        let instance = core.instance(&principal)?;
        let state = SessionState::new(&rules, core.clock.now());
        Ok(Self::with_state(
            core, principal, rules, route, instance, state,
        ))
    }

    fn with_state(
        core: &Arc<Core>,
        principal: Principal,
        rules: connection::Rules,
        route: Route,
        instance: Option<Arc<Instance>>,
        state: SessionState,
    ) -> Arc<Self> {
        let session = Arc::new_cyclic(|session: &Weak<Self>| Self {
            core: Arc::clone(core),
            used: core.call_rates.of_session(&principal, core.clock.now()),
            principal,
            rules,
            route,
            meta_prefix: instance.as_ref().map(|one| MetaPrefix::new(one.id())),
            instance,
            registration: core.subscribers.add_session(session.clone()),
            state: Mutex::new(state),
            settled: Notify::new(),
            on_write: OnceLock::new(),
        });
        if let Some(instance) = &session.instance {
            let observer = Arc::downgrade(&session);
            instance.observe(observer);
        }
        session
    }

    pub(crate) const fn principal(&self) -> &Principal {
        &self.principal
    }

    fn home(&self) -> Option<SessionInstance<'_>> {
        let (prefix, instance) = (self.meta_prefix.as_ref()?, self.instance.as_ref()?);
        Some(SessionInstance {
            prefix,
            workflow: instance.workflow(),
        })
    }

    /// The agreed version, once there is one.
    pub(crate) fn version(&self) -> Option<Version> {
        lock(&self.state).connection.version()
    }

    pub(crate) fn status(&self) -> SessionStatus {
        let now = self.core.clock.now();
        lock(&self.state).status(&self.rules, now)
    }

    /// When the session needs a [`tick`](Self::tick), if nothing else happens.
    pub(crate) fn wake_at(&self) -> Option<Time> {
        lock(&self.state).wake_at(&self.rules)
    }

    /// Takes what arrives at that time, and answers it on that route.
    pub(crate) const fn inbound<'a>(
        self: &'a Arc<Self>,
        route: &'a Route,
        at: Time,
    ) -> Inbound<'a> {
        Inbound {
            session: self,
            route,
            at,
            body: None,
        }
    }

    /// Lets the connection machine decide about something that came with no message.
    fn step(self: &Arc<Self>, input: Input) {
        let at = self.core.clock.now();
        self.inbound(&self.route, at).step(input, Payload::Nothing);
    }

    /// Takes no new work; requests in flight may end.
    pub(crate) fn drain(self: &Arc<Self>) {
        self.step(Input::Drain);
        subscriptions::end_streams(self);
    }

    /// The client closed its side: the session drains, and open questions get no answer.
    pub(crate) fn input_closed(self: &Arc<Self>) {
        self.step(Input::Silent);
        subscriptions::end_streams(self);
    }

    /// What is written to the client is lost.
    pub(crate) fn disconnected(self: &Arc<Self>) {
        self.step(Input::Gone);
    }

    /// Lets every machine of the session look at the time.
    pub(crate) fn tick(self: &Arc<Self>) {
        handshake::negotiate(self, negotiation::Input::Tick);
        subscriptions::tick(self);
        let connection = || lock(&self.state).connection;
        let was_uninitialized = matches!(connection(), State::NotInitialized { .. });
        self.step(Input::Tick);
        if was_uninitialized && connection() == State::Closed {
            tracing::warn!("no client said `initialize` in time");
        }
    }

    /// Gives back memory that an idle session does not need.
    pub(crate) fn release_memory(&self) {
        let mut state = lock(&self.state);
        state.calls.shrink();
        state.ledger.shrink();
    }

    /// Ends every call that is still running, without waiting for it.
    pub(crate) fn abort(&self) {
        let running = lock(&self.state).calls.take_running();
        for task in running {
            task.abort();
        }
    }

    /// Drains, waits for requests in flight, and aborts those that take too long.
    pub(crate) async fn shut_down(self: &Arc<Self>) {
        self.drain();
        loop {
            let settled = self.settled.notified();
            let status = self.status();
            if status.is_done || status.is_overdue {
                break;
            }
            tokio::select! {
                () = settled => {}
                () = sleep_until(&*self.core.clock, status.wake_at) => self.tick(),
            }
        }
        self.abort();
    }

    /// Sets what writes the session's data to its store.
    pub(crate) fn on_write(&self, on_write: OnWrite) {
        let _ = self.on_write.set(on_write);
    }

    /// Closes a question, which has ended so.
    fn close_question(&self, ask: AskId, end: elicitation::Input) -> Option<AnswerSender> {
        let now = self.core.clock.now();
        let (answer, ended) = lock(&self.state).questions.close(ask, end, now)?;
        ended.trace();
        Some(answer)
    }

    /// Answers a request, or leaves it without an answer. The answer is written under the lock:
    /// before the client can use the request's id again.
    fn settle(self: &Arc<Self>, key: &Key, now: Time, answer: impl FnOnce()) {
        let mut state = lock(&self.state);
        answer();
        state.calls.remove(key);
        let stepped = state.step(&self.rules, Input::Settled(key.clone()), now);
        let connection = state.connection;
        drop(state);
        if let Ok((step, transition)) = stepped {
            transition.trace();
            let inbound = self.inbound(&self.route, now);
            inbound.perform_all(&step.effects, Payload::Nothing);
        }
        let is_closing = matches!(connection, State::Draining { .. } | State::Closed);
        if is_closing {
            self.settled.notify_waiters();
        }
        // The transport may have looked before the last call ended, or before the idle time began.
        if is_closing || self.rules.idle.is_some() {
            self.route.wake();
        }
    }

    fn answer(self: &Arc<Self>, key: &Key, result: &(impl Serialize + ?Sized), route: &Route) {
        self.settle(key, self.core.clock.now(), || {
            route.answer(AnswerKind::Result, |out| wire::result(out, &key.id, result));
        });
    }

    fn refuse(self: &Arc<Self>, key: &Key, refusal: &Refusal, route: &Route) {
        let id = ErrorId::Known(key.id.clone());
        self.settle(key, self.core.clock.now(), || {
            let kind = AnswerKind::Error(refusal.rpc_code());
            route.answer(kind, |out| wire::error(out, &id, refusal));
        });
    }
}

impl ClientLink for ClientSession {
    fn environment(&self) -> &Arc<Environment> {
        &self.core.environment
    }

    fn client(&self) -> Arc<ClientInfo> {
        Arc::clone(&lock(&self.state).profile.client)
    }

    fn level(&self) -> Level {
        lock(&self.state).profile.level
    }

    fn instance(&self) -> Option<&Arc<Instance>> {
        self.instance.as_ref()
    }

    fn ask(
        &self,
        question: &Question,
        answer: AnswerSender,
        route: &Route,
    ) -> Result<AskId, (Refusal, AnswerSender)> {
        let now = self.core.clock.now();
        let mut state = lock(&self.state);
        let ask = state.questions.next_id();
        match state.step(&self.rules, Input::Ask(ask), now) {
            Ok((_, transition)) => {
                let rules = elicitation::Rules {
                    ttl: self.core.environment.ask_timeout,
                    ..elicitation::Rules::default()
                };
                let is_for_person = question.method == "elicitation/create";
                let elicitation = is_for_person.then(|| rules.first(now));
                state.questions.open(ask, answer, elicitation);
                route.send_required(|out| wire::request(out, ask, question));
                route.asks_person();
                drop(state);
                transition.trace();
                Ok(ask)
            }
            Err(refusal) => Err((refusal, answer)),
        }
    }

    fn withdraw(&self, ask: AskId, route: &Route) {
        let now = self.core.clock.now();
        let mut state = lock(&self.state);
        let end = state.questions.given_up(ask, now);
        let Some((answer, ended)) = state.questions.close(ask, end, now) else {
            return;
        };
        // For the machine the question is answered, so that it ignores a late answer.
        let stepped = state.step(&self.rules, Input::Response(Some(ask)), now);
        let id = i64::try_from(ask.0).unwrap_or(i64::MAX).into();
        route.send(|out| wire::cancelled(out, &id, "nobody waits for the answer any more"));
        drop(state);
        drop(answer);
        ended.trace();
        if let Ok((_, transition)) = stepped {
            transition.trace();
        }
    }

    fn tell_visited(&self, id: &str) {
        self.route.send(|out| wire::elicitation_complete(out, id));
    }

    fn get(&self, name: &str) -> Option<Value> {
        lock(&self.state).profile.get(name)
    }

    fn set<'a>(&'a self, name: &'a str, value: Value) -> BoxFuture<'a, Result<(), Failure>> {
        Box::pin(async move {
            lock(&self.state).profile.set(name, value)?;
            match self.on_write.get() {
                Some(on_write) => on_write().await,
                None => Ok(()),
            }
        })
    }
}

impl ChangeListener for ClientSession {
    fn changed(self: Arc<Self>, news: &ServerChange) {
        match news {
            // Before the handshake, the client has seen no list that could have changed.
            ServerChange::List(_) => {
                if self.version().is_some() {
                    self.route.notify(ChangeNotification {
                        change: news.clone(),
                        subscription: None,
                    });
                }
            }
            ServerChange::Resource(uri) => {
                subscriptions::step(&self, uri, subscription::Input::Updated);
            }
        }
    }

    fn deleted(self: Arc<Self>, uri: &str) {
        subscriptions::step(&self, uri, subscription::Input::Deleted);
    }

    fn renegotiate(self: Arc<Self>) {
        let has_agreed = lock(&self.state).handshake.state.agreement().is_some();
        if has_agreed {
            let have = negotiation::Input::Have(self.core.capabilities());
            handshake::negotiate(&self, have);
        }
    }
}

impl Observer for ClientSession {
    fn lists_changed(self: Arc<Self>, kinds: &[Kind]) {
        for kind in kinds {
            Arc::clone(&self).changed(&ServerChange::List(*kind));
        }
    }

    fn logged(&self, level: Level, logger: &str, data: &Value) {
        if level >= self.level() {
            let log = Log {
                level,
                logger: Some(logger.to_owned()),
                data: data.clone(),
            };
            self.route.send(|out| wire::log(out, &log));
        }
    }
}

impl fmt::Debug for ClientSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientSession")
            .field("principal", &self.principal)
            .finish_non_exhaustive()
    }
}
