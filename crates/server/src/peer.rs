//! One client as the server knows it: the loop-less half of a connection or a session.
//!
//! It lets the connection machine decide, and does what the machine orders. It never waits: a call
//! that is not done at once runs as a task of its own. Everybody may hold it, so what it knows is
//! behind a lock, which is never held while a handler runs.

mod asking;
mod book;
mod handshake;
mod memory;
mod serving;
mod subscribing;

pub(crate) use memory::Memory;

use crate::{
    caller::Client,
    clock, convert,
    failure::Failure,
    instance::Instance,
    offering::Offering,
    principal::Principal,
    route::{Gathering, Route, Tone, lock},
    server::Inner,
    signal::Signal,
    standing::Home,
    wire::{self, Transition},
};
use book::{Beginning, Book, Running};
use futures_util::future::BoxFuture;
use interlock_proto::{
    CallId, Level, Refusal, RequestId, RpcCode, Time, Version,
    batch::{self, Batch, Incoming},
    connection::{self, Effect, Input, Key, Lane, Ledger, Noise, State},
    era::{self, Method, Modern},
    frame::{self, ErrorId, Frame, Malformed, Notification, Reply, Request},
    negotiation::{self, Offer},
    subscription,
};
use interlock_workflow::Kind;
use serde_json::{Value, value::RawValue};
use std::{
    collections::{BTreeMap, HashMap},
    fmt, io,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicU8, Ordering},
    },
};
use tokio::sync::Notify;

/// One client: on stdio a connection, over HTTP a session.
pub(crate) struct Peer {
    pub(crate) inner: Arc<Inner>,
    principal: Principal,
    rules: connection::Rules,
    /// Where things go that belong to no request.
    route: Route,
    instance: Option<Arc<Instance>>,
    /// From which level on the client wants log messages.
    level: AtomicU8,
    book: Mutex<Book>,
    /// Somebody may wait for what is left to end.
    settled: Notify,
    /// Writes down what the session remembers, where that is done.
    on_write: OnceLock<OnWrite>,
}

/// What time will bring.
pub(crate) struct Outlook {
    /// Closed, and no call is left that could say anything.
    pub(crate) is_quiet: bool,
    /// Closed, and what is left has taken too long to be said.
    pub(crate) is_late: bool,
    /// When something has to be done, if nothing else happens.
    pub(crate) wake_at: Option<Time>,
}

/// Writes down what a session remembers.
type OnWrite = Box<dyn Fn() -> BoxFuture<'static, Result<(), Failure>> + Send + Sync>;

/// What came with an input, for whoever performs its effects.
enum Carried<'c, 'a> {
    Nothing,
    Request(&'c mut Arrived<'a>),
    /// What could not be read, as an error calls it.
    Malformed(ErrorId),
    Response(Result<&'a RawValue, &'a RawValue>),
}

/// A request on its way through the machine.
struct Arrived<'a> {
    request: &'a Request<'a>,
    /// What there was to be used when it came.
    offering: &'a Offering,
    method: Option<Method>,
    modern: Option<Modern<'a>>,
    /// In which version the connection lets it call its method, if that has been asked.
    allowed: Option<Result<Version, Refusal>>,
    offer: Option<Offer>,
    /// When it came.
    at: Time,
}

/// How much a session may remember.
const MOST_DATA: usize = 1024 * 1024;

impl Peer {
    /// A client of whom nothing is known but on whose behalf it acts.
    pub(crate) fn new(
        inner: &Arc<Inner>,
        principal: Principal,
        rules: connection::Rules,
        route: Route,
    ) -> io::Result<Arc<Self>> {
        let instance = inner.instance(&principal)?;
        Ok(Self::with_instance(
            inner, principal, rules, route, instance,
        ))
    }

    fn with_instance(
        inner: &Arc<Inner>,
        principal: Principal,
        rules: connection::Rules,
        route: Route,
        instance: Option<Arc<Instance>>,
    ) -> Arc<Self> {
        let now = inner.clock.now();
        let peer = Arc::new(Self {
            inner: Arc::clone(inner),
            principal,
            rules,
            route,
            instance,
            level: AtomicU8::new(Level::Info as u8),
            book: Mutex::new(Book {
                state: rules.first(now),
                ledger: Ledger::default(),
                negotiation: negotiation::State::NotNegotiated,
                initialize: None,
                client: Arc::default(),
                beginning: Vec::new(),
                calls: HashMap::default(),
                asks: BTreeMap::new(),
                listens: BTreeMap::new(),
                subscriptions: BTreeMap::new(),
                data: None,
                next_call: 0,
                next_ask: 0,
                close_by: now,
                seat: None,
            }),
            settled: Notify::new(),
            on_write: OnceLock::new(),
        });
        let seat = inner.audience.join(Arc::downgrade(&peer));
        lock(&peer.book).seat = Some(seat);
        if let Some(instance) = &peer.instance {
            instance.watch(&peer);
        }
        peer
    }

    pub(crate) const fn principal(&self) -> &Principal {
        &self.principal
    }

    pub(crate) const fn instance(&self) -> Option<&Arc<Instance>> {
        self.instance.as_ref()
    }

    fn home(&self) -> Option<Home<'_>> {
        let (workflow, instance) = (self.inner.workflow.as_ref()?, self.instance.as_ref()?);
        Some(Home {
            instance: instance.named(),
            workflow,
        })
    }

    /// What the client said of itself.
    pub(crate) fn client(&self) -> Arc<Client> {
        Arc::clone(&lock(&self.book).client)
    }

    /// The version that was agreed on, once there is one.
    pub(crate) fn version(&self) -> Option<Version> {
        lock(&self.book).state.version()
    }

    /// From which level on the client wants log messages.
    pub(crate) fn level(&self) -> Level {
        Level::ALL[usize::from(self.level.load(Ordering::Relaxed)) % Level::ALL.len()]
    }

    pub(crate) fn is_closed(&self) -> bool {
        lock(&self.book).state == State::Closed
    }

    /// What time will bring.
    pub(crate) fn outlook(&self) -> Outlook {
        let book = lock(&self.book);
        let is_closed = book.state == State::Closed;
        Outlook {
            is_quiet: is_closed && book.beginning.is_empty() && book.calls.is_empty(),
            is_late: is_closed && self.inner.clock.now() >= book.close_by,
            wake_at: self.due(&book),
        }
    }

    /// When something has to be done, if nothing else happens.
    pub(crate) fn wake_at(&self) -> Option<Time> {
        self.due(&lock(&self.book))
    }

    fn due(&self, book: &Book) -> Option<Time> {
        match book.state {
            State::Closed => Some(book.close_by),
            State::NotInitialized { .. }
            | State::Stateless
            | State::Initializing(_)
            | State::Initialized(_)
            | State::Subscribed(_)
            | State::Draining { .. } => {
                let connection = book.state.wake_at(&self.rules, &book.ledger);
                let subscriptions = book.subscriptions.values();
                let subscriptions = subscriptions.filter_map(subscription::State::wake_at);
                connection
                    .into_iter()
                    .chain(book.negotiation.wake_at())
                    .chain(subscriptions)
                    .min()
            }
        }
    }

    /// Takes one message, or one batch of them.
    pub(crate) fn on_message(self: &Arc<Self>, bytes: &[u8], offering: &Offering, route: &Route) {
        let (limits, at) = (&self.inner.limits, self.inner.clock.now());
        // Only for a batch does it matter what was agreed on. What was read stays where it is.
        if batch::is_likely(bytes) {
            match batch::parse(bytes, limits, self.version()) {
                Ok(ref incoming) => self.on_incoming(incoming, offering, route, at),
                Err(malformed) => self.on_malformed(malformed, route, at),
            }
        } else {
            match frame::parse(bytes, limits) {
                Ok(ref frame) => self.on_frame(frame, offering, route, at),
                Err(malformed) => self.on_malformed(malformed, route, at),
            }
        }
    }

    /// Takes what came at that time, when this was there to be used. A member of a batch finds what
    /// the one before it has left.
    pub(crate) fn on_incoming(
        self: &Arc<Self>,
        incoming: &Incoming<'_>,
        offering: &Offering,
        route: &Route,
        at: Time,
    ) {
        match incoming {
            Incoming::One(frame) => self.on_frame(frame, offering, route, at),
            Incoming::Batch(batch) => self.on_batch(batch, route),
        }
    }

    fn on_frame(self: &Arc<Self>, frame: &Frame<'_>, offering: &Offering, route: &Route, at: Time) {
        match frame {
            Frame::Request(request) => self.on_request(request, offering, route, at),
            Frame::Notification(notification) => self.on_notification(notification, route, at),
            Frame::Response(response) => {
                let input = Input::Response(asking::ask_id(response.id.as_ref()));
                self.judge(input, Carried::Response(response.outcome), route, at);
            }
        }
    }

    /// Takes a batch. What is said about its members is said together.
    fn on_batch(self: &Arc<Self>, batch: &Batch<'_>, route: &Route) {
        let gathering = Gathering::route(batch.answers(), route.clone());
        if gathering.is_none() {
            route.silent();
        }
        let route = gathering.as_ref().unwrap_or(route);
        for member in &batch.members {
            // What one does at once must not count for the next.
            let at = self.inner.clock.now();
            match member {
                Ok(frame) => self
                    .inner
                    .with_offering(|offering| self.on_frame(frame, offering, route, at)),
                Err(malformed) => self.on_malformed(malformed.clone(), route, at),
            }
        }
    }

    fn on_request(
        self: &Arc<Self>,
        request: &Request<'_>,
        offering: &Offering,
        route: &Route,
        at: Time,
    ) {
        let modern = match era::modern(request.params.as_ref()) {
            Ok(modern) => modern,
            Err(refusal) => {
                let malformed = Malformed {
                    id: Some(request.id.clone()),
                    refusal: refusal.supporting(Version::NEWEST_FIRST),
                    reply: Reply::Error,
                };
                return self.on_malformed(malformed, route, at);
            }
        };
        let id = request.id.clone();
        let mut arrived = Arrived {
            request,
            offering,
            method: Method::parse(&request.method),
            modern,
            allowed: None,
            offer: None,
            at,
        };
        let input = match arrived.method {
            Some(Method::Initialize) if arrived.modern.is_none() => {
                let version = match Offer::read(request.params.as_ref()) {
                    Ok(offer) => Ok(arrived.offer.insert(offer).version),
                    Err(refusal) => Err(refusal),
                };
                Input::Initialize { id, version }
            }
            Some(Method::Ping) if arrived.modern.is_none() => Input::Ping { id },
            Some(_) | None => {
                let lane = match arrived.modern {
                    Some(_) => Lane::Stateless(self.next_call()),
                    None => Lane::Handshake,
                };
                Input::Request(Key { id, lane })
            }
        };
        self.judge(input, Carried::Request(&mut arrived), route, at);
    }

    fn next_call(&self) -> CallId {
        let mut book = lock(&self.book);
        book.next_call += 1;
        CallId(book.next_call)
    }

    fn on_notification(self: &Arc<Self>, notification: &Notification<'_>, route: &Route, at: Time) {
        let input = match &*notification.method {
            "notifications/initialized" => Input::Ready,
            "notifications/cancelled" => {
                let id = notification
                    .params
                    .and_then(|params| era::member(params, "requestId"))
                    .and_then(RequestId::read);
                // One that cannot be read is ignored, as the specification asks.
                id.map_or(Input::Notification, |id| Input::Cancelled { id })
            }
            _ => Input::Notification,
        };
        self.judge(input, Carried::Nothing, route, at);
    }

    pub(crate) fn on_malformed(self: &Arc<Self>, malformed: Malformed, route: &Route, at: Time) {
        tracing::debug!(refusal = %malformed.refusal, "malformed message");
        let Malformed { id, refusal, reply } = malformed;
        if reply == Reply::None {
            return;
        }
        let unread = ErrorId::unread(self.version());
        let error_id = id.clone().map_or(unread, ErrorId::Known);
        let input = Input::Malformed { id, refusal };
        self.judge(input, Carried::Malformed(error_id), route, at);
    }

    /// No new work is taken; what is in flight may end.
    pub(crate) fn drain(self: &Arc<Self>) {
        self.wind_down(Input::Drain);
    }

    /// The client closed its side: the same, and nobody answers what it was asked.
    pub(crate) fn silent(self: &Arc<Self>) {
        self.wind_down(Input::Silent);
    }

    fn wind_down(self: &Arc<Self>, why: Input) {
        self.tell(why);
        let listens = std::mem::take(&mut lock(&self.book).listens);
        for (key, (route, seat)) in listens {
            drop(seat);
            route.say(|out| wire::unsubscribed(out, &key.id, "the server ends"));
            self.settle(&key, self.inner.clock.now(), || {
                route.answer(Tone::Result, |out| wire::listened(out, &key.id));
            });
        }
    }

    /// What is written to the client is lost.
    pub(crate) fn gone(self: &Arc<Self>) {
        self.tell(Input::Gone);
    }

    /// Time has passed.
    pub(crate) fn tick(self: &Arc<Self>) {
        self.negotiate(negotiation::Input::Tick);
        self.tick_subscriptions();
        let was_early = matches!(lock(&self.book).state, State::NotInitialized { .. });
        self.tell(Input::Tick);
        if was_early && self.is_closed() {
            tracing::warn!("no client said `initialize` in time");
        }
    }

    /// Nothing happens for now: what was needed for more is given back.
    pub(crate) fn rest(&self) {
        let mut book = lock(&self.book);
        book.beginning.shrink_to_fit();
        book.calls.shrink_to_fit();
        book.ledger.shrink();
    }

    /// Ends every call that is still running, without waiting for it.
    pub(crate) fn abort(&self) {
        let calls: Vec<_> = {
            let mut book = lock(&self.book);
            book.beginning.clear();
            book.calls.drain().collect()
        };
        for (_, running) in calls {
            if let Some(task) = running.task {
                task.abort();
            }
        }
    }

    fn tell(self: &Arc<Self>, input: Input) {
        let now = self.inner.clock.now();
        self.judge(input, Carried::Nothing, &self.route, now);
    }

    /// Lets the machine decide, and does what it orders.
    fn judge(
        self: &Arc<Self>,
        input: Input,
        mut carried: Carried<'_, '_>,
        route: &Route,
        now: Time,
    ) {
        let mut book = lock(&self.book);
        let mut transition = Transition::default();
        let stepped = book.step(&self.rules, input, now, &mut transition);
        if let (Ok(step), Carried::Request(arrived)) = (&stepped, &mut carried) {
            book.let_in(&step.effects, arrived);
        }
        let state = book.state;
        drop(book);
        match stepped {
            Ok(step) => {
                transition.trace();
                self.perform_all(&step.effects, carried, route);
            }
            Err(refusal) => {
                let spoken = state.version().unwrap_or(Version::COUNTER_OFFER);
                let (id, method, version) = match carried {
                    Carried::Request(arrived) => (
                        ErrorId::Known(arrived.request.id.clone()),
                        arrived.method,
                        arrived
                            .modern
                            .as_ref()
                            .map_or(spoken, |modern| modern.version),
                    ),
                    Carried::Malformed(id) => (id, None, spoken),
                    Carried::Nothing | Carried::Response(_) => (ErrorId::Absent, None, spoken),
                };
                match id {
                    // What is our fault rather than the client's, a model reads as a result.
                    ErrorId::Known(id)
                        if method == Some(Method::ToolsCall)
                            && refusal.rpc_code() == RpcCode::INTERNAL_ERROR =>
                    {
                        let stamp = self.inner.stamp(version, None);
                        let answer = convert::refused(Kind::Tool, refusal.into(), stamp);
                        route.answer(Tone::Result, |out| {
                            wire::answer(out, &id, &answer, self.home());
                        });
                    }
                    ErrorId::Known(_) | ErrorId::Absent | ErrorId::Null => {
                        let tone = Tone::Error(refusal.rpc_code());
                        route.answer(tone, |out| wire::error(out, &id, &refusal));
                    }
                }
            }
        }
    }

    fn perform_all(
        self: &Arc<Self>,
        effects: &[Effect],
        mut carried: Carried<'_, '_>,
        route: &Route,
    ) {
        for effect in effects {
            self.perform(effect, &mut carried, route);
        }
    }

    fn perform(self: &Arc<Self>, effect: &Effect, carried: &mut Carried<'_, '_>, route: &Route) {
        match effect {
            Effect::Negotiate(key, _) => {
                if let Carried::Request(arrived) = carried
                    && let Some(offer) = arrived.offer.take()
                {
                    self.introduce(key.clone(), arrived.request, offer, route);
                }
            }
            Effect::Serve(key) => {
                if let Carried::Request(arrived) = carried {
                    self.serve(key, arrived, route);
                }
            }
            Effect::Activate => self.negotiate(negotiation::Input::Ready),
            Effect::Cancel(key) => {
                self.signal(key, Signal::Cancel);
                self.unlisten(key);
            }
            Effect::Abandon(key, _) => {
                self.signal(key, Signal::ShutDown);
                self.unlisten(key);
            }
            Effect::Settle(ask) => {
                let asked = lock(&self.book).asks.remove(ask);
                if let (Some(asked), Carried::Response(outcome)) = (asked, carried) {
                    let _ = asked.send(asking::answered(*outcome));
                }
            }
            Effect::AbandonAsk(ask) => {
                // Whoever waits for it learns by the end of the channel.
                lock(&self.book).asks.remove(ask);
            }
            Effect::Ignore(noise) => {
                tracing::debug!(?noise, "ignored");
                if *noise == Noise::Duplicate {
                    route.silent();
                }
            }
            Effect::Close => {
                lock(&self.book).subscriptions.clear();
                self.route.wake();
            }
            // The ledger has done its part.
            Effect::Forget(_)
            | Effect::SendAsk(_)
            | Effect::Subscribe(_)
            | Effect::Unsubscribe(_) => {}
        }
    }

    /// A request has its answer, or will get none. The answer is written before anybody can reuse
    /// the request's id.
    fn settle(self: &Arc<Self>, key: &Key, now: Time, answer: impl FnOnce()) {
        let mut book = lock(&self.book);
        answer();
        book.forget(key);
        let mut transition = Transition::default();
        let input = Input::Settled(key.clone());
        let stepped = book.step(&self.rules, input, now, &mut transition);
        let state = book.state;
        drop(book);
        if let Ok(step) = &stepped {
            transition.trace();
            self.perform_all(&step.effects, Carried::Nothing, &self.route);
        }
        if matches!(state, State::Draining { .. } | State::Closed) {
            self.settled.notify_waiters();
            // The last call has gone, perhaps after whoever writes looked for it.
            self.route.wake();
        } else if self.rules.idle.is_some() {
            // Its end sets the clock, at which whoever writes may have looked before.
            self.route.wake();
        }
    }

    /// Takes no new work, waits for what is in flight, and ends what takes too long.
    pub(crate) async fn wind_up(self: &Arc<Self>) {
        self.drain();
        loop {
            let settled = self.settled.notified();
            let outlook = self.outlook();
            if outlook.is_quiet || outlook.is_late {
                break;
            }
            tokio::select! {
                () = settled => {}
                () = clock::sleep_until(&*self.inner.clock, outlook.wake_at) => self.tick(),
            }
        }
        self.abort();
    }

    fn answer(
        self: &Arc<Self>,
        key: &Key,
        result: &(impl serde::Serialize + ?Sized),
        route: &Route,
    ) {
        self.settle(key, self.inner.clock.now(), || {
            route.answer(Tone::Result, |out| wire::result(out, &key.id, result));
        });
    }

    fn refuse(self: &Arc<Self>, key: &Key, refusal: &Refusal, route: &Route) {
        let id = ErrorId::Known(key.id.clone());
        self.settle(key, self.inner.clock.now(), || {
            let tone = Tone::Error(refusal.rpc_code());
            route.answer(tone, |out| wire::error(out, &id, refusal));
        });
    }

    /// What the session remembers under this name.
    pub(crate) fn get(&self, name: &str) -> Option<Value> {
        lock(&self.book).data.as_ref()?.get(name).cloned()
    }

    /// From now on this is done whenever the session is to remember something.
    pub(crate) fn on_write(&self, on_write: OnWrite) {
        let _ = self.on_write.set(on_write);
    }

    /// Lets the session remember something.
    pub(crate) async fn set(&self, name: &str, value: Value) -> Result<(), Failure> {
        self.remember(name, value)?;
        match self.on_write.get() {
            Some(on_write) => on_write().await,
            None => Ok(()),
        }
    }

    fn remember(&self, name: &str, value: Value) -> Result<(), Failure> {
        let mut book = lock(&self.book);
        let data = book.data.get_or_insert_default();
        let before = data.insert(name.to_owned(), value);
        let size = serde_json::to_string(data).map_or(usize::MAX, |text| text.len());
        if size <= MOST_DATA {
            return Ok(());
        }
        match before {
            Some(before) => data.insert(name.to_owned(), before),
            None => data.shift_remove(name),
        };
        Err(Failure::new(format!(
            "a session may remember {MOST_DATA} bytes at most"
        )))
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peer")
            .field("principal", &self.principal)
            .finish_non_exhaustive()
    }
}
