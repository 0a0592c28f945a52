//! One client as the server knows it: the loop-less half of a connection or a session.
//!
//! It lets the connection machine decide, and does what the machine orders. It never waits: a call
//! that is not done at once runs as a task of its own. Everybody may hold it, so what it knows is
//! behind a lock, which is never held while a handler runs.

use crate::{
    ask::{AskError, Question},
    audience::{Filter, Listen, Listener, Seat},
    call::{self, Line, Said, Signal, Signals, Start},
    caller::{Caller, Client, Way},
    clock, convert,
    failure::Failure,
    instance::Instance,
    methods::{Asked, Plan},
    model::JsonObject,
    note::{News, Note},
    principal::Principal,
    round::Round,
    route::{Gathering, Route, Tone, lock},
    server::Inner,
    wire,
};
use futures_util::FutureExt;
use interlock_proto::{
    AskId, CallId, Code, Level, Refusal, RequestId, RpcCode, Time, Version,
    batch::{self, Batch, Incoming},
    connection::{self, Connection, Effect, Input, Key, Lane, Ledger, Noise, State},
    era::{self, Meta, Method, Modern},
    frame::{ErrorId, Frame, Malformed, Notification, Reply, Request},
    machine::Machine,
    negotiation::{self, Agreement, Negotiation, Offer},
    refusal::shortened,
    subscription,
};
use interlock_workflow::Kind;
use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use std::{
    collections::{BTreeMap, HashMap},
    fmt, io,
    panic::AssertUnwindSafe,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU8, Ordering},
    },
};
use tokio::{
    sync::{Notify, oneshot, watch},
    task::AbortHandle,
};

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
}

/// What is known about a client.
struct Book {
    state: State,
    ledger: Ledger,
    negotiation: negotiation::State,
    /// The `initialize` that is being negotiated, and where it is answered.
    initialize: Option<(Key, Route)>,
    client: Arc<Client>,
    calls: HashMap<Key, Running>,
    asks: HashMap<AskId, oneshot::Sender<Result<Value, AskError>>>,
    listens: HashMap<Key, (Route, Seat)>,
    subscriptions: BTreeMap<Arc<str>, subscription::State>,
    data: JsonObject,
    next_call: u64,
    next_ask: u64,
    /// Once closed: until when what is left may be written.
    close_by: Time,
    _seat: Option<Seat>,
}

/// A call that runs as a task.
struct Running {
    signal: watch::Sender<Signal>,
    task: AbortHandle,
}

/// What came with an input, for whoever performs its effects.
enum Carried<'a> {
    Nothing,
    Request(Arrived<'a>),
    Response(Result<&'a RawValue, &'a RawValue>),
}

/// A request on its way through the machine.
struct Arrived<'a> {
    request: &'a Request<'a>,
    modern: Option<Modern<'a>>,
    offer: Option<Offer>,
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
        let now = inner.clock.now();
        let peer = Arc::new(Self {
            inner: Arc::clone(inner),
            principal,
            rules,
            route,
            instance: inner.instance()?,
            level: AtomicU8::new(Level::Info as u8),
            book: Mutex::new(Book {
                state: rules.first(now),
                ledger: Ledger::default(),
                negotiation: negotiation::State::NotNegotiated,
                initialize: None,
                client: Arc::default(),
                calls: HashMap::new(),
                asks: HashMap::new(),
                listens: HashMap::new(),
                subscriptions: BTreeMap::new(),
                data: JsonObject::new(),
                next_call: 0,
                next_ask: 0,
                close_by: now,
                _seat: None,
            }),
            settled: Notify::new(),
        });
        let seat = inner.audience.join(Listener::Peer(Arc::downgrade(&peer)));
        lock(&peer.book)._seat = Some(seat);
        if let Some(instance) = &peer.instance {
            instance.watch(&peer);
        }
        Ok(peer)
    }

    pub(crate) const fn principal(&self) -> &Principal {
        &self.principal
    }

    pub(crate) const fn instance(&self) -> Option<&Arc<Instance>> {
        self.instance.as_ref()
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

    /// Closed, and nothing is left to be said, or it took too long to say it.
    pub(crate) fn is_over(&self, written: bool) -> bool {
        let book = lock(&self.book);
        book.state == State::Closed
            && ((book.calls.is_empty() && written) || self.inner.clock.now() >= book.close_by)
    }

    /// When something has to be done, if nothing else happens.
    pub(crate) fn wake_at(&self) -> Option<Time> {
        let book = lock(&self.book);
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
    pub(crate) fn on_message(self: &Arc<Self>, bytes: &[u8], route: &Route) {
        match batch::parse(bytes, &self.inner.limits, self.version()) {
            Ok(Incoming::One(frame)) => self.on_frame(&frame, route),
            Ok(Incoming::Batch(batch)) => self.on_batch(batch, route),
            Err(malformed) => self.on_malformed(malformed, route),
        }
    }

    pub(crate) fn on_frame(self: &Arc<Self>, frame: &Frame<'_>, route: &Route) {
        match frame {
            Frame::Request(request) => self.on_request(request, route),
            Frame::Notification(notification) => self.on_notification(notification, route),
            Frame::Response(response) => {
                let input = Input::Response(ask_id(response.id.as_ref()));
                self.judge(
                    input,
                    Carried::Response(response.outcome),
                    ErrorId::Absent,
                    route,
                );
            }
        }
    }

    /// Takes a batch. What is said about its members is said together.
    pub(crate) fn on_batch(self: &Arc<Self>, batch: Batch<'_>, route: &Route) {
        let gathering = Gathering::new(batch.answers(), route.clone());
        if gathering.is_none() {
            route.silent();
        }
        let route = gathering.as_ref().unwrap_or(route);
        for member in batch.members {
            match member {
                Ok(frame) => self.on_frame(&frame, route),
                Err(malformed) => self.on_malformed(malformed, route),
            }
        }
    }

    fn on_request(self: &Arc<Self>, request: &Request<'_>, route: &Route) {
        let modern = match era::modern(request.params) {
            Ok(modern) => modern,
            Err(refusal) => {
                let malformed = Malformed {
                    id: Some(request.id.clone()),
                    refusal: refusal.supporting(self.inner.announced()),
                    reply: Reply::Error,
                };
                return self.on_malformed(malformed, route);
            }
        };
        let id = request.id.clone();
        let mut arrived = Arrived {
            request,
            modern,
            offer: None,
        };
        let input = match Method::parse(&request.method) {
            Some(Method::Initialize) if arrived.modern.is_none() => {
                let version = match Offer::read(request.params) {
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
        let id = ErrorId::Known(request.id.clone());
        self.judge(input, Carried::Request(arrived), id, route);
    }

    fn next_call(&self) -> CallId {
        let mut book = lock(&self.book);
        book.next_call += 1;
        CallId(book.next_call)
    }

    fn on_notification(self: &Arc<Self>, notification: &Notification<'_>, route: &Route) {
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
        self.judge(input, Carried::Nothing, ErrorId::Absent, route);
    }

    pub(crate) fn on_malformed(self: &Arc<Self>, malformed: Malformed, route: &Route) {
        tracing::debug!(refusal = %malformed.refusal, "malformed message");
        let Malformed { id, refusal, reply } = malformed;
        if reply == Reply::None {
            return;
        }
        let unread = ErrorId::unread(self.version());
        let error_id = id.clone().map_or(unread, ErrorId::Known);
        self.judge(
            Input::Malformed { id, refusal },
            Carried::Nothing,
            error_id,
            route,
        );
    }

    /// No new work is taken; what is in flight may end.
    pub(crate) fn drain(self: &Arc<Self>) {
        self.tell(Input::Drain);
        let listens: Vec<_> = lock(&self.book).listens.drain().collect();
        for (key, (route, seat)) in listens {
            drop(seat);
            route.say(|out| wire::unsubscribed(out, &key.id, "the server ends"));
            self.settle(key.clone(), || {
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

    /// Ends every call that is still running, without waiting for it.
    pub(crate) fn abort(&self) {
        let calls: Vec<_> = lock(&self.book).calls.drain().collect();
        for (_, running) in calls {
            running.task.abort();
        }
    }

    fn tell(self: &Arc<Self>, input: Input) {
        self.judge(input, Carried::Nothing, ErrorId::Absent, &self.route);
    }

    /// Lets the machine decide, and does what it orders.
    fn judge(self: &Arc<Self>, input: Input, carried: Carried<'_>, id: ErrorId, route: &Route) {
        let stepped = lock(&self.book).step(&self.rules, input, self.inner.clock.now());
        match stepped {
            Ok(effects) => self.perform_all(effects, carried, route),
            Err((refusal, spoken)) => {
                let spoken = spoken.unwrap_or(Version::COUNTER_OFFER);
                let (method, version) = match carried {
                    Carried::Request(arrived) => (
                        Method::parse(&arrived.request.method),
                        arrived.modern.map_or(spoken, |modern| modern.version),
                    ),
                    Carried::Nothing | Carried::Response(_) => (None, spoken),
                };
                match id {
                    // What is our fault rather than the client's, a model reads as a result.
                    ErrorId::Known(id)
                        if method == Some(Method::ToolsCall)
                            && refusal.rpc_code() == RpcCode::INTERNAL_ERROR =>
                    {
                        let answer = convert::refused(Kind::Tool, refusal.into(), None, version);
                        route.answer(Tone::Result, |out| {
                            wire::answer(out, &id, answer);
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
        effects: Vec<Effect>,
        mut carried: Carried<'_>,
        route: &Route,
    ) {
        for effect in effects {
            self.perform(effect, &mut carried, route);
        }
    }

    fn perform(self: &Arc<Self>, effect: Effect, carried: &mut Carried<'_>, route: &Route) {
        match effect {
            Effect::Negotiate(key, _) => {
                if let Carried::Request(Arrived {
                    request,
                    offer: Some(offer),
                    ..
                }) = std::mem::replace(carried, Carried::Nothing)
                {
                    self.introduce(key, request, offer, route);
                }
            }
            Effect::Serve(key) => {
                if let Carried::Request(arrived) = std::mem::replace(carried, Carried::Nothing) {
                    self.serve(key, &arrived, route);
                }
            }
            Effect::Activate => self.negotiate(negotiation::Input::Ready),
            Effect::Cancel(key) => {
                self.signal(&key, |signal| signal.cancel = true);
                self.unlisten(key);
            }
            Effect::Abandon(key, _) => {
                self.signal(&key, |signal| signal.shutdown = true);
                self.unlisten(key);
            }
            Effect::Settle(ask) => {
                let asked = lock(&self.book).asks.remove(&ask);
                if let (Some(asked), Carried::Response(outcome)) = (asked, carried) {
                    let _ = asked.send(answer(*outcome));
                }
            }
            Effect::AbandonAsk(ask) => {
                // Whoever waits for it learns by the end of the channel.
                lock(&self.book).asks.remove(&ask);
            }
            Effect::Ignore(noise) => {
                tracing::debug!(?noise, "ignored");
                if noise == Noise::Duplicate {
                    route.silent();
                }
            }
            Effect::Close => {
                let mut book = lock(&self.book);
                book.close_by = self.inner.clock.now() + self.rules.drain;
                book.subscriptions.clear();
                drop(book);
                self.route.wake();
            }
            // The ledger has done its part.
            Effect::Forget(_)
            | Effect::SendAsk(_)
            | Effect::Subscribe(_)
            | Effect::Unsubscribe(_) => {}
        }
    }

    /// The client has said who it is; what it may use is negotiated.
    fn introduce(self: &Arc<Self>, key: Key, request: &Request<'_>, offer: Offer, route: &Route) {
        tracing::info!(client = %offer.client_name, version = %offer.version, "initialize");
        let member = |name| request.params.and_then(|params| era::member(params, name));
        let client = member("capabilities")
            .map(|capabilities| Client::new(capabilities, member("clientInfo")));
        {
            let mut book = lock(&self.book);
            book.initialize = Some((key, route.clone()));
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

    fn negotiate(self: &Arc<Self>, input: negotiation::Input) {
        let now = self.inner.clock.now();
        let event = Negotiation::input_name(&input);
        let effects = {
            let mut book = lock(&self.book);
            let rules = &self.inner.negotiation;
            let Ok(step) = negotiation::step(rules, &book.negotiation, input, now) else {
                return;
            };
            wire::trace::<Negotiation>(&book.negotiation, event, &step.state);
            book.negotiation = step.state;
            step.effects
        };
        for effect in effects {
            match effect {
                negotiation::Effect::Gather => {
                    self.negotiate(negotiation::Input::Have(self.inner.capabilities()));
                }
                negotiation::Effect::Answer(agreement) => {
                    let asked = lock(&self.book).initialize.take();
                    if let Some((key, route)) = asked {
                        let result = self.inner.initialize_result(agreement.version);
                        self.answer(key, &result, &route);
                    }
                }
                negotiation::Effect::Fail(refusal) => {
                    let asked = lock(&self.book).initialize.take();
                    if let Some((key, route)) = asked {
                        self.refuse(key, &refusal, &route);
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

    fn serve(self: &Arc<Self>, key: Key, arrived: &Arrived<'_>, route: &Route) {
        let inner = Arc::clone(&self.inner);
        let (method, version) = match self.allowed(arrived) {
            Ok(allowed) => allowed,
            Err(refusal) => return self.refuse(key, &refusal, route),
        };
        let params = arrived.request.params;
        let own = match method {
            Method::LoggingSetLevel => Some(self.set_level(params)),
            Method::ResourcesSubscribe => Some(self.subscribe(params, version)),
            Method::ResourcesUnsubscribe => Some(self.unsubscribe(params)),
            Method::SubscriptionsListen => return self.listen(key, params, route),
            Method::Initialize
            | Method::Ping
            | Method::Discover
            | Method::ToolsList
            | Method::ToolsCall
            | Method::ResourcesList
            | Method::ResourcesTemplatesList
            | Method::ResourcesRead
            | Method::PromptsList
            | Method::PromptsGet
            | Method::CompletionComplete
            | Method::TasksGet
            | Method::TasksResult
            | Method::TasksList
            | Method::TasksCancel
            | Method::TasksUpdate => None,
        };
        if let Some(done) = own {
            return match done {
                Ok(()) => self.answer(key, &serde_json::json!({}), route),
                Err(refusal) => self.refuse(key, &refusal, route),
            };
        }
        let served = inner.plan(Asked {
            method,
            params,
            version,
            instance: match key.lane {
                Lane::Handshake => self.instance.as_ref(),
                Lane::Stateless(_) => None,
            },
            principal: &self.principal,
            modern: arrived.modern.as_ref(),
            headers: None,
        });
        match served {
            Ok(Plan::Ready(result)) => self.answer(key, &*result, route),
            Ok(Plan::Answer(answer)) => {
                let mut line = Vec::new();
                let tone = wire::answer(&mut line, &key.id, answer);
                self.said(key, Some(Said { tone, line }), route);
            }
            Ok(Plan::Call(start, round)) => {
                let caller = self.caller(arrived, version, round);
                self.call(key, *start, caller, route);
            }
            Err(refusal) => self.refuse(key, &refusal, route),
        }
    }

    fn caller(self: &Arc<Self>, arrived: &Arrived<'_>, version: Version, round: Round) -> Caller {
        let (client, way) = match &arrived.modern {
            Some(modern) => {
                let client = Arc::new(Client::new(modern.capabilities, modern.client));
                let level = modern.level;
                (client, Way::Alone { level, round })
            }
            None => (
                Arc::clone(&lock(&self.book).client),
                Way::Session(Arc::clone(self)),
            ),
        };
        let progress = Meta::read(arrived.request.params).progress;
        Caller {
            principal: self.principal.clone(),
            version,
            client,
            way,
            progress: progress.map(RawValue::to_owned),
        }
    }

    /// Whether the method exists for this request, and in which version it is spoken.
    fn allowed(&self, arrived: &Arrived<'_>) -> Result<(Method, Version), Refusal> {
        let name = &arrived.request.method;
        let method = Method::parse(name).ok_or_else(|| Refusal::method_not_found(name))?;
        if let Some(modern) = &arrived.modern {
            self.inner.allows(method, modern.version)?;
            return Ok((method, modern.version));
        }
        if method == Method::Ping {
            // The connection machine has let it through, be it before `initialize`.
            return Ok((method, Version::COUNTER_OFFER));
        }
        let book = lock(&self.book);
        let call = negotiation::Input::Call(method);
        let now = self.inner.clock.now();
        negotiation::step(&self.inner.negotiation, &book.negotiation, call, now)?;
        let agreement = book.negotiation.agreement();
        let version = agreement.map_or(Version::COUNTER_OFFER, |agreement| agreement.version);
        Ok((method, version))
    }

    /// Runs a call: here and now if it does not have to wait, else as a task.
    fn call(self: &Arc<Self>, key: Key, start: Start, caller: Caller, route: &Route) {
        let (signal, signals) = watch::channel(Signal::default());
        let line = Line {
            id: key.id.clone(),
            route: route.clone(),
            caller: Arc::new(caller),
            signals: Signals::new(signals),
        };
        let call = call::run(Arc::clone(&self.inner), start, line);
        let mut call = Box::pin(AssertUnwindSafe(call).catch_unwind());
        // Without the runtime's rationing: a call that has to wait must at least get in line now,
        // or the calls behind it would overtake it.
        if let Some(ended) = tokio::task::unconstrained(call.as_mut()).now_or_never() {
            let said = ended.unwrap_or_else(|_| Some(broken(&key.id)));
            return self.said(key, said, route);
        }
        let (peer, route, name) = (Arc::clone(self), route.clone(), key.clone());
        let mut book = lock(&self.book);
        let task = tokio::spawn(async move {
            let said = call.await.unwrap_or_else(|_| Some(broken(&key.id)));
            peer.said(key, said, &route);
        });
        let task = task.abort_handle();
        book.calls.insert(name, Running { signal, task });
    }

    fn signal(&self, key: &Key, change: impl FnOnce(&mut Signal)) {
        if let Some(call) = lock(&self.book).calls.get(key) {
            call.signal.send_modify(change);
        }
    }

    /// A request has its answer, or will get none. The answer is written before anybody can reuse
    /// the request's id.
    fn settle(self: &Arc<Self>, key: Key, answer: impl FnOnce()) {
        let stepped = {
            let mut book = lock(&self.book);
            answer();
            book.calls.remove(&key);
            book.step(&self.rules, Input::Settled(key), self.inner.clock.now())
        };
        if let Ok(effects) = stepped {
            self.perform_all(effects, Carried::Nothing, &self.route);
        }
        self.settled.notify_waiters();
    }

    /// Takes no new work, waits for what is in flight, and ends what takes too long.
    pub(crate) async fn wind_up(self: &Arc<Self>) {
        self.drain();
        loop {
            let settled = self.settled.notified();
            if self.is_over(true) {
                break;
            }
            tokio::select! {
                () = settled => {}
                () = clock::sleep_until(&*self.inner.clock, self.wake_at()) => self.tick(),
            }
        }
        self.abort();
    }

    fn answer(
        self: &Arc<Self>,
        key: Key,
        result: &(impl serde::Serialize + ?Sized),
        route: &Route,
    ) {
        let id = key.id.clone();
        self.settle(key, || {
            route.answer(Tone::Result, |out| wire::result(out, &id, result));
        });
    }

    fn refuse(self: &Arc<Self>, key: Key, refusal: &Refusal, route: &Route) {
        let id = ErrorId::Known(key.id.clone());
        self.settle(key, || {
            let tone = Tone::Error(refusal.rpc_code());
            route.answer(tone, |out| wire::error(out, &id, refusal));
        });
    }

    fn said(self: &Arc<Self>, key: Key, said: Option<Said>, route: &Route) {
        self.settle(key, || match said {
            Some(said) => route.answer(said.tone, |out| out.extend(said.line)),
            None => route.silent(),
        });
    }

    /// Sends a question of ours to the client, on the stream of the call that asks.
    pub(crate) fn ask(
        &self,
        question: &Question,
        answer: oneshot::Sender<Result<Value, AskError>>,
        route: &Route,
    ) -> Result<AskId, (Refusal, oneshot::Sender<Result<Value, AskError>>)> {
        let mut book = lock(&self.book);
        book.next_ask += 1;
        let ask = AskId(book.next_ask);
        match book.step(&self.rules, Input::Ask(ask), self.inner.clock.now()) {
            Ok(_) => {
                book.asks.insert(ask, answer);
                route.say(|out| wire::request(out, ask, question));
                Ok(ask)
            }
            Err((refusal, _)) => Err((refusal, answer)),
        }
    }

    /// Nobody waits for the answer to that question any more.
    pub(crate) fn withdraw(&self, ask: AskId, route: &Route) {
        let mut book = lock(&self.book);
        if book.asks.remove(&ask).is_none() {
            return;
        }
        // For the machine, the question is answered: a late answer is a stray one.
        let _ = book.step(
            &self.rules,
            Input::Response(Some(ask)),
            self.inner.clock.now(),
        );
        let id = i64::try_from(ask.0).unwrap_or(i64::MAX).into();
        route.say(|out| wire::cancelled(out, &id, "nobody waits for the answer any more"));
    }

    fn set_level(&self, params: Option<&RawValue>) -> Result<(), Refusal> {
        #[derive(Deserialize)]
        struct SetLevel {
            level: String,
        }
        let SetLevel { level } = crate::methods::read("logging/setLevel", params)?;
        let level = Level::parse(&level).ok_or_else(|| {
            let known: Vec<_> = Level::ALL.iter().map(|level| level.as_str()).collect();
            Refusal::new(Code::InvalidParams).because(format!(
                "`{}` is no log level; there are: {}",
                shortened(&level),
                known.join(", ")
            ))
        })?;
        self.level.store(level as u8, Ordering::Relaxed);
        Ok(())
    }

    fn subscribe(
        self: &Arc<Self>,
        params: Option<&RawValue>,
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

    fn unsubscribe(self: &Arc<Self>, params: Option<&RawValue>) -> Result<(), Refusal> {
        let uri = uri("resources/unsubscribe", params)?;
        self.step_subscription(&uri, subscription::Input::Unsubscribe);
        Ok(())
    }

    /// Lets one subscription take a step, if there is one.
    fn step_subscription(self: &Arc<Self>, uri: &str, input: subscription::Input) {
        let now = self.inner.clock.now();
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
                }
            }
            step.effects
        };
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

    fn tick_subscriptions(self: &Arc<Self>) {
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
    fn listen(self: &Arc<Self>, key: Key, params: Option<&RawValue>, route: &Route) {
        match Filter::read(params, &self.inner) {
            Ok(filter) => {
                route.say(|out| wire::acknowledged(out, &key.id, &filter));
                let seat = self.inner.audience.join(Listener::Listen(Listen {
                    id: key.id.clone(),
                    route: route.clone(),
                    filter,
                }));
                lock(&self.book).listens.insert(key, (route.clone(), seat));
            }
            Err(refusal) => self.refuse(key, &refusal, route),
        }
    }

    /// Ends a stream of changes that its client has ended.
    fn unlisten(self: &Arc<Self>, key: Key) {
        let listen = lock(&self.book).listens.remove(&key);
        if let Some((route, seat)) = listen {
            drop(seat);
            self.settle(key, || route.silent());
        }
    }

    /// What the session remembers under this name.
    pub(crate) fn get(&self, name: &str) -> Option<Value> {
        lock(&self.book).data.get(name).cloned()
    }

    /// Lets the session remember something.
    pub(crate) async fn set(&self, name: &str, value: Value) -> Result<(), Failure> {
        let mut book = lock(&self.book);
        book.data.insert(name.to_owned(), value);
        let size = serde_json::to_string(&book.data).map_or(usize::MAX, |text| text.len());
        if size > MOST_DATA {
            book.data.shift_remove(name);
            return Err(Failure::new(format!(
                "a session may remember {MOST_DATA} bytes at most"
            )));
        }
        Ok(())
    }
}

impl Book {
    /// Lets the connection machine take a step, and brings the ledger up to date.
    fn step(
        &mut self,
        rules: &connection::Rules,
        input: Input,
        now: Time,
    ) -> Result<Vec<Effect>, (Refusal, Option<Version>)> {
        let event = Connection::input_name(&input);
        match connection::step(rules, &self.state, &self.ledger, input, now) {
            Ok(step) => {
                wire::trace::<Connection>(&self.state, event, &step.state);
                self.ledger.apply(&step.effects, now);
                self.state = step.state;
                Ok(step.effects)
            }
            Err(refusal) => Err((refusal, self.state.version())),
        }
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peer")
            .field("principal", &self.principal)
            .finish_non_exhaustive()
    }
}

/// What is said for a call whose own loop has panicked.
pub(crate) fn broken(id: &RequestId) -> Said {
    let mut line = Vec::new();
    let refusal = Refusal::new(Code::InternalError);
    wire::error(&mut line, &ErrorId::Known(id.clone()), &refusal);
    Said {
        tone: Tone::Error(refusal.rpc_code()),
        line,
    }
}

/// Our own ids are numbers.
fn ask_id(id: Option<&RequestId>) -> Option<AskId> {
    match id {
        Some(RequestId::Number(number)) => u64::try_from(*number).ok().map(AskId),
        Some(RequestId::Text(_)) | None => None,
    }
}

/// What a client answered, read.
fn answer(outcome: Result<&RawValue, &RawValue>) -> Result<Value, AskError> {
    #[derive(Deserialize)]
    struct Error {
        code: i64,
        message: String,
    }
    match outcome {
        Ok(result) => serde_json::from_str(result.get())
            .map_err(|error| AskError::Invalid(shortened(&error.to_string()))),
        Err(error) => Err(match serde_json::from_str(error.get()) {
            Ok(Error { code, message }) => AskError::Failed {
                code,
                message: shortened(&message),
            },
            Err(_) => AskError::Invalid("the error is none".to_owned()),
        }),
    }
}

fn uri(method: &str, params: Option<&RawValue>) -> Result<String, Refusal> {
    #[derive(Deserialize)]
    struct Subscribe {
        uri: String,
    }
    let Subscribe { uri } = crate::methods::read(method, params)?;
    Ok(uri)
}

/// The version that a stateless request is answered in, and what it may call.
pub(crate) fn stateless_agreement(inner: &Inner, version: Version) -> Agreement {
    Agreement {
        version,
        server: inner.stateless_capabilities(),
        client: Default::default(),
        unsupported: Vec::new(),
    }
}
