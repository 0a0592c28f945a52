//! One connection: the loop around the connection machine.
//!
//! It waits for one thing, lets the machine decide, and does what the machine orders. It never
//! waits for a handler, nor for a client that does not read: a call that is not done at once runs
//! as a task of its own, and reading stops while too much is waiting to be written.

use crate::{
    batches::Batches,
    call::{self, Line as CallLine, Said, Signal, Signals, Start},
    clock, convert,
    instance::{Inbox, Instance},
    methods::{Asked, Plan},
    outbox::Outbox,
    server::Inner,
    transport::lines::{Line, Lines},
    wire,
};
use futures_util::FutureExt;
use interlock_proto::{
    AskId, CallId, Code, Refusal, RequestId, RpcCode, Time, Version,
    batch::{self, Batch, Incoming},
    connection::{self, Connection, Effect, Input, Key, Lane, Ledger, Noise, Peer, State},
    era::{self, Method, Modern},
    frame::{ErrorId, Frame, Malformed, Notification, Reply, Request},
    machine::Machine,
    negotiation::{self, Agreement, Negotiation, Offer},
};
use interlock_workflow::{Kind, Scope};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::{collections::HashMap, future::Future, io, panic::AssertUnwindSafe, sync::Arc};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::{mpsc, watch},
    task::JoinSet,
};

/// Serves one client until it is done.
pub(crate) async fn run<R, W>(
    inner: Arc<Inner>,
    reader: R,
    mut writer: W,
    stop: impl Future<Output = ()>,
) -> io::Result<()>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let mut lines = Lines::new(reader, inner.limits.bytes);
    let mut driver = Driver::new(inner)?;
    within_drain_time(&driver, driver.find_instance()).await;
    let mut stop = std::pin::pin!(stop.fuse());
    let mut reading = Ok(true);
    loop {
        while matches!(reading, Ok(true)) && driver.has_room() {
            match lines.ready() {
                Some(line) => driver.on_line(&line),
                None => break,
            }
        }
        if driver.is_over() {
            break;
        }
        let (room, wake_at) = (driver.has_room(), driver.wake_at());
        tokio::select! {
            pushed = driver.out.push(&mut writer), if !driver.out.is_done() => match pushed {
                Ok(pushed) => driver.out.pushed(pushed),
                Err(error) => driver.on_gone(&error),
            },
            line = lines.next(), if room && matches!(reading, Ok(true)) => {
                let line = line.unwrap_or_else(|error| {
                    reading = Err(error);
                    Line::End
                });
                if line == Line::End && reading.is_ok() {
                    reading = Ok(false);
                }
                driver.on_line(&line);
            }
            Some(ended) = driver.ended.recv(), if room => driver.on_ended(ended),
            kinds = driver.inbox.changed(), if room => driver.on_lists_changed(kinds),
            () = clock::sleep_until(&*driver.clock, wake_at) => driver.on_tick(),
            () = &mut stop => driver.input(Input::Drain, None),
        }
    }
    driver.tasks.abort_all();
    within_drain_time(&driver, driver.forget_instance()).await;
    reading.map(|_| ())
}

/// What a store does not do by then, it does without us.
async fn within_drain_time(driver: &Driver, work: impl Future<Output = ()>) {
    let patience = driver.clock.now() + driver.inner.rules.drain;
    tokio::select! {
        () = work => {}
        () = clock::sleep_until(&*driver.clock, Some(patience)) => {}
    }
}

struct Driver {
    inner: Arc<Inner>,
    clock: Arc<dyn crate::Clock>,
    state: State,
    ledger: Ledger,
    negotiation: negotiation::State,
    /// The `initialize` that is being negotiated.
    initialize: Option<Key>,
    instance: Option<Arc<Instance>>,
    inbox: Arc<Inbox>,
    out: Outbox,
    batches: Batches,
    peer: Peer,
    calls: HashMap<Key, watch::Sender<Signal>>,
    tasks: JoinSet<()>,
    ended: mpsc::Receiver<Ended>,
    on_end: mpsc::Sender<Ended>,
    next_call: u64,
    /// Once closed: until when what is left may be written.
    close_by: Time,
}

/// A call that ran as a task is done.
struct Ended {
    key: Key,
    said: Said,
}

/// A request on its way through the machine.
struct Arrived<'a> {
    request: &'a Request<'a>,
    modern: Option<Modern<'a>>,
    offer: Option<Offer>,
}

impl Driver {
    fn new(inner: Arc<Inner>) -> io::Result<Self> {
        let (on_end, ended) = mpsc::channel(64);
        let instance = inner.instance()?;
        let inbox = Arc::new(Inbox::default());
        if let Some(instance) = &instance {
            instance.watch(&inbox);
        }
        let clock = Arc::clone(&inner.clock);
        let now = clock.now();
        Ok(Self {
            state: inner.rules.first(now),
            clock,
            inner,
            ledger: Ledger::default(),
            negotiation: negotiation::State::NotNegotiated,
            initialize: None,
            instance,
            inbox,
            out: Outbox::default(),
            batches: Batches::default(),
            peer: Peer::Present,
            calls: HashMap::new(),
            tasks: JoinSet::new(),
            ended,
            on_end,
            next_call: 0,
            close_by: now,
        })
    }

    /// Everything has been said, or nobody listens, or it took too long.
    fn is_over(&self) -> bool {
        self.state == State::Closed
            && ((self.calls.is_empty() && self.out.is_done()) || self.clock.now() >= self.close_by)
    }

    /// While too much is waiting to be written, nothing more is taken in.
    fn has_room(&self) -> bool {
        self.out.has_room()
    }

    fn wake_at(&self) -> Option<Time> {
        match self.state {
            State::Closed => Some(self.close_by),
            State::NotInitialized { .. }
            | State::Stateless
            | State::Initializing(_)
            | State::Initialized(_)
            | State::Subscribed(_)
            | State::Draining { .. } => {
                let connection = self.state.wake_at(&self.inner.rules, &self.ledger);
                connection
                    .into_iter()
                    .chain(self.negotiation.wake_at())
                    .min()
            }
        }
    }

    /// An instance that is shared may have been moved before this server was there.
    async fn find_instance(&self) {
        let workflow = self.inner.workflow.as_ref();
        let Some((workflow, instance)) = workflow.zip(self.instance.as_ref()) else {
            return;
        };
        if workflow.settings().scope == Scope::Global
            && let Err(error) = instance.find(self.inner.books(workflow)).await
        {
            tracing::warn!(%error, "the shared instance could not be looked up");
        }
    }

    /// Forgets what belonged to this connection alone.
    async fn forget_instance(&self) {
        let workflow = self.inner.workflow.as_ref();
        let Some((workflow, instance)) = workflow.zip(self.instance.as_ref()) else {
            return;
        };
        if workflow.settings().scope == Scope::Session
            && let Err(error) = instance.end(self.inner.books(workflow)).await
        {
            tracing::warn!(%error, "an instance could not be deleted");
        }
    }

    fn on_line(&mut self, line: &Line<'_>) {
        match line {
            Line::Whole(bytes) => {
                match batch::parse(bytes, &self.inner.limits, self.state.version()) {
                    Ok(Incoming::One(frame)) => self.on_frame(&frame),
                    Ok(Incoming::Batch(batch)) => self.on_batch(batch),
                    Err(malformed) => self.on_malformed(malformed),
                }
            }
            Line::TooLong => self.on_malformed(Malformed::too_large(&self.inner.limits)),
            Line::End => self.input(Input::Drain, None),
        }
    }

    fn on_frame(&mut self, frame: &Frame<'_>) {
        match frame {
            Frame::Request(request) => self.on_request(request),
            Frame::Notification(notification) => self.on_notification(notification),
            Frame::Response(response) => {
                let ask = match response.id {
                    Some(RequestId::Number(number)) => u64::try_from(number).ok().map(AskId),
                    Some(RequestId::Text(_)) | None => None,
                };
                self.input(Input::Response(ask), None);
            }
        }
    }

    fn on_batch(&mut self, batch: Batch<'_>) {
        let answers = batch.answers();
        if !answers.is_complete() {
            let id = self.batches.open(answers);
            self.batches.reading = Some(id);
        }
        for member in batch.members {
            match member {
                Ok(frame) => self.on_frame(&frame),
                Err(malformed) => self.on_malformed(malformed),
            }
        }
        self.batches.reading = None;
    }

    fn on_request(&mut self, request: &Request<'_>) {
        let modern = match era::modern(request.params) {
            Ok(modern) => modern,
            Err(refusal) => {
                return self.on_malformed(Malformed {
                    id: Some(request.id.clone()),
                    refusal: refusal.supporting(self.inner.announced()),
                    reply: Reply::Error,
                });
            }
        };
        let id = request.id.clone();
        let mut incoming = Arrived {
            request,
            modern,
            offer: None,
        };
        let input = match Method::parse(&request.method) {
            Some(Method::Initialize) if incoming.modern.is_none() => {
                let version = match Offer::read(request.params) {
                    Ok(offer) => Ok(incoming.offer.insert(offer).version),
                    Err(refusal) => Err(refusal),
                };
                Input::Initialize { id, version }
            }
            Some(Method::Ping) if incoming.modern.is_none() => Input::Ping { id },
            Some(_) | None => {
                let lane = match incoming.modern {
                    Some(_) => {
                        self.next_call += 1;
                        Lane::Stateless(CallId(self.next_call))
                    }
                    None => Lane::Handshake,
                };
                Input::Request(Key { id, lane })
            }
        };
        self.input(input, Some(incoming));
    }

    fn on_notification(&mut self, notification: &Notification<'_>) {
        #[derive(Deserialize)]
        struct Cancelled<'a> {
            #[serde(borrow, rename = "requestId")]
            id: &'a RawValue,
        }
        let input = match &*notification.method {
            "notifications/initialized" => Input::Ready,
            "notifications/cancelled" => {
                let params = notification.params.map(RawValue::get);
                // Serde would read a struct from an array as well.
                let object = params.filter(|params| params.starts_with('{'));
                let id = object
                    .and_then(|params| serde_json::from_str(params).ok())
                    .and_then(|Cancelled { id }| RequestId::read(id));
                // One that cannot be read is ignored, as the specification asks.
                id.map_or(Input::Notification, |id| Input::Cancelled { id })
            }
            _ => Input::Notification,
        };
        self.input(input, None);
    }

    fn on_malformed(&mut self, malformed: Malformed) {
        tracing::debug!(refusal = %malformed.refusal, "malformed message");
        let Malformed { id, refusal, reply } = malformed;
        if reply == Reply::None {
            return;
        }
        let unread = ErrorId::unread(self.state.version());
        let error_id = id.clone().map_or(unread, ErrorId::Known);
        self.judge(Input::Malformed { id, refusal }, None, error_id);
    }

    fn on_ended(&mut self, ended: Ended) {
        while self.tasks.try_join_next().is_some() {}
        self.said(ended.key, &ended.said);
    }

    fn on_lists_changed(&mut self, kinds: impl Iterator<Item = Kind>) {
        // Before the handshake, nobody has seen a list that could have changed.
        if self.state.version().is_some() {
            for kind in kinds {
                self.write(|out| wire::list_changed(out, kind));
            }
        }
    }

    fn on_gone(&mut self, error: &io::Error) {
        // Clients go as they like; anything else somebody should know.
        if error.kind() != io::ErrorKind::BrokenPipe {
            tracing::warn!(%error, "writing to the client failed");
        }
        self.peer = Peer::Gone;
        self.out = Outbox::default();
        self.input(Input::Gone, None);
    }

    fn on_tick(&mut self) {
        self.negotiate(negotiation::Input::Tick);
        let was_early = matches!(self.state, State::NotInitialized { .. });
        self.input(Input::Tick, None);
        if was_early && self.state == State::Closed {
            tracing::warn!("no client said `initialize` in time");
        }
    }

    /// Lets the machine decide, and does what it orders.
    fn input(&mut self, input: Input, incoming: Option<Arrived<'_>>) {
        let id = incoming
            .as_ref()
            .map(|incoming| ErrorId::Known(incoming.request.id.clone()));
        self.judge(input, incoming, id.unwrap_or(ErrorId::Absent));
    }

    fn judge(&mut self, input: Input, mut incoming: Option<Arrived<'_>>, id: ErrorId) {
        let now = self.clock.now();
        let event = Connection::input_name(&input);
        match connection::step(&self.inner.rules, &self.state, &self.ledger, input, now) {
            Ok(step) => {
                wire::trace::<Connection>(&self.state, event, &step.state);
                self.ledger.apply(&step.effects, now);
                self.state = step.state;
                for effect in step.effects {
                    self.perform(effect, &mut incoming);
                }
            }
            Err(refusal) => {
                let spoken = self.state.version().unwrap_or(Version::COUNTER_OFFER);
                let (method, version) = incoming.map_or((None, spoken), |incoming| {
                    let method = Method::parse(&incoming.request.method);
                    let modern = incoming.modern.map(|modern| modern.version);
                    (method, modern.unwrap_or(spoken))
                });
                let batch = self.batches.reading;
                self.reply(batch, |out| match id {
                    // What is our fault rather than the client's, a model reads as a result.
                    ErrorId::Known(id)
                        if method == Some(Method::ToolsCall)
                            && refusal.rpc_code() == RpcCode::INTERNAL_ERROR =>
                    {
                        let answer = convert::refused(Kind::Tool, refusal.into(), None, version);
                        wire::answer(out, &id, answer);
                    }
                    ErrorId::Known(_) | ErrorId::Absent | ErrorId::Null => {
                        wire::error(out, &id, &refusal);
                    }
                });
            }
        }
    }

    fn perform(&mut self, effect: Effect, incoming: &mut Option<Arrived<'_>>) {
        match effect {
            Effect::Negotiate(key, _) => {
                self.batches.belongs(&key);
                if let Some(offer) = incoming.take().and_then(|incoming| incoming.offer) {
                    tracing::info!(client = %offer.client_name, version = %offer.version, "initialize");
                    self.initialize = Some(key);
                    self.negotiate(negotiation::Input::Offer(offer));
                }
            }
            Effect::Serve(key) => {
                self.batches.belongs(&key);
                if let Some(incoming) = incoming.take() {
                    self.serve(key, &incoming);
                }
            }
            Effect::Activate => self.negotiate(negotiation::Input::Ready),
            Effect::Cancel(key) => self.signal(&key, |signal| signal.cancel = true),
            Effect::Abandon(key, peer) => {
                self.peer = peer;
                self.signal(&key, |signal| signal.shutdown = true);
            }
            Effect::Ignore(noise) => {
                tracing::debug!(?noise, "ignored");
                if noise == Noise::Duplicate {
                    self.no_reply(self.batches.reading);
                }
            }
            Effect::Close => self.close_by = self.clock.now() + self.inner.rules.drain,
            // The ledger has done its part, and nothing is asked of clients yet.
            Effect::Forget(_)
            | Effect::Settle(_)
            | Effect::SendAsk(_)
            | Effect::AbandonAsk(_)
            | Effect::Subscribe(_)
            | Effect::Unsubscribe(_) => {}
        }
    }

    fn negotiate(&mut self, input: negotiation::Input) {
        let now = self.clock.now();
        let event = Negotiation::input_name(&input);
        let Ok(step) = negotiation::step(&self.inner.negotiation, &self.negotiation, input, now)
        else {
            return;
        };
        wire::trace::<Negotiation>(&self.negotiation, event, &step.state);
        self.negotiation = step.state;
        for effect in step.effects {
            match effect {
                negotiation::Effect::Gather => {
                    self.negotiate(negotiation::Input::Have(self.inner.capabilities()));
                }
                negotiation::Effect::Answer(agreement) => {
                    if let Some(key) = self.initialize.take() {
                        let result = self.inner.initialize_result(agreement.version);
                        self.answer(key, &result);
                    }
                }
                negotiation::Effect::Fail(refusal) => {
                    if let Some(key) = self.initialize.take() {
                        self.refuse(key, &refusal);
                    }
                    self.input(Input::Drain, None);
                }
                negotiation::Effect::Changed(agreement) => {
                    tracing::info!(?agreement, "the agreement has changed");
                }
                negotiation::Effect::Serve(_) => {}
            }
        }
    }

    fn serve(&mut self, key: Key, incoming: &Arrived<'_>) {
        let inner = Arc::clone(&self.inner);
        let served = self.allowed(incoming).and_then(|(method, version)| {
            inner.plan(Asked {
                method,
                params: incoming.request.params,
                version,
                instance: match key.lane {
                    Lane::Handshake => self.instance.as_ref(),
                    Lane::Stateless(_) => None,
                },
            })
        });
        match served {
            Ok(Plan::Ready(result)) => self.answer(key, &*result),
            Ok(Plan::Answer(answer)) => {
                self.reply(self.batches.of(&key), |out| {
                    wire::answer(out, &key.id, answer)
                });
                self.settle(key);
            }
            Ok(Plan::Call(start)) => self.call(key, *start),
            Err(refusal) => self.refuse(key, &refusal),
        }
    }

    /// Whether the method exists for this request, and in which version it is spoken.
    fn allowed(&self, incoming: &Arrived<'_>) -> Result<(Method, Version), Refusal> {
        let name = &incoming.request.method;
        let method = Method::parse(name).ok_or_else(|| Refusal::method_not_found(name))?;
        if let Some(modern) = &incoming.modern {
            let agreement = Agreement {
                version: modern.version,
                server: self.inner.stateless_capabilities(),
                client: Default::default(),
                unsupported: Vec::new(),
            };
            agreement.allows(method)?;
            return Ok((method, modern.version));
        }
        if method == Method::Ping {
            // The connection machine has let it through, be it before `initialize`.
            return Ok((method, Version::COUNTER_OFFER));
        }
        let call = negotiation::Input::Call(method);
        negotiation::step(
            &self.inner.negotiation,
            &self.negotiation,
            call,
            self.clock.now(),
        )?;
        let agreement = self.negotiation.agreement();
        let version = agreement.map_or(Version::COUNTER_OFFER, |agreement| agreement.version);
        Ok((method, version))
    }

    /// Runs a call: here and now if it does not have to wait, else as a task.
    fn call(&mut self, key: Key, start: Start) {
        let (signal, signals) = watch::channel(Signal::default());
        let line = CallLine {
            id: key.id.clone(),
            inbox: Arc::clone(&self.inbox),
            signals: Signals::new(signals),
        };
        let call = call::run(Arc::clone(&self.inner), start, line);
        let mut call = Box::pin(AssertUnwindSafe(call).catch_unwind());
        // Without the runtime's rationing: a call that has to wait must at least get in line now,
        // or the calls behind it would overtake it.
        if let Some(ended) = tokio::task::unconstrained(call.as_mut()).now_or_never() {
            let said = ended.unwrap_or_else(|_| broken(&key.id));
            return self.said(key, &said);
        }
        self.calls.insert(key.clone(), signal);
        let on_end = self.on_end.clone();
        self.tasks.spawn(async move {
            let said = call.await.unwrap_or_else(|_| broken(&key.id));
            // If nobody receives it, the connection is gone.
            let _ = on_end.send(Ended { key, said }).await;
        });
    }

    fn signal(&self, key: &Key, change: impl FnOnce(&mut Signal)) {
        if let Some(call) = self.calls.get(key) {
            call.send_modify(change);
        }
    }

    fn settle(&mut self, key: Key) {
        self.calls.remove(&key);
        self.batches.forget(&key);
        self.input(Input::Settled(key), None);
    }

    fn answer(&mut self, key: Key, result: &(impl serde::Serialize + ?Sized)) {
        self.reply(self.batches.of(&key), |out| {
            wire::result(out, &key.id, result)
        });
        self.settle(key);
    }

    fn refuse(&mut self, key: Key, refusal: &Refusal) {
        let id = ErrorId::Known(key.id.clone());
        self.reply(self.batches.of(&key), |out| wire::error(out, &id, refusal));
        self.settle(key);
    }

    fn said(&mut self, key: Key, said: &Said) {
        self.write(|out| out.extend_from_slice(&said.before));
        let batch = self.batches.of(&key);
        match &said.answer {
            Some(answer) => self.reply(batch, |out| out.extend_from_slice(answer)),
            None => self.no_reply(batch),
        }
        self.settle(key);
    }

    /// Writes an answer: at once, or with those of its batch.
    fn reply(&mut self, batch: Option<u64>, answer: impl FnOnce(&mut Vec<u8>)) {
        let Some(batch) = batch else {
            return self.write(answer);
        };
        let mut line = Vec::new();
        answer(&mut line);
        let complete = self.batches.answered(batch, line.trim_ascii_end());
        self.write(|out| out.extend(complete));
    }

    /// There is no answer, for which a batch need not wait.
    fn no_reply(&mut self, batch: Option<u64>) {
        if let Some(batch) = batch {
            let complete = self.batches.suppressed(batch);
            self.write(|out| out.extend(complete));
        }
    }

    fn write(&mut self, lines: impl FnOnce(&mut Vec<u8>)) {
        if self.peer == Peer::Present {
            lines(self.out.lines());
        }
    }
}

/// What is said for a call whose own loop has panicked.
fn broken(id: &RequestId) -> Said {
    let mut line = Vec::new();
    let refusal = Refusal::new(Code::InternalError);
    wire::error(&mut line, &ErrorId::Known(id.clone()), &refusal);
    Said {
        before: Vec::new(),
        answer: Some(line),
    }
}
