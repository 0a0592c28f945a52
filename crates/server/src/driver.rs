//! One connection: the loop around the connection machine.
//!
//! It waits for one thing, lets the machine decide, and does what the machine orders. It never
//! waits for a handler, nor for a client that does not read: a call that is not done at once runs
//! as a task of its own, and reading stops while too much is waiting to be written.

use crate::{
    call::{self, Line as CallLine, Signal, Start},
    clock,
    instance::{Inbox, Instance},
    methods::{Asked, Plan},
    server::Inner,
    transport::lines::{Line, Lines},
};
use futures_util::FutureExt;
use interlock_proto::{
    AskId, CallId, Code, Refusal, RequestId, Time, Version,
    connection::{self, Connection, Effect, Input, Key, Lane, Ledger, Peer, State},
    era::{self, Method, Modern},
    frame::{self, ErrorId, Frame, Malformed, Notification, Reply, Request},
    machine::Machine,
    negotiation::{self, Agreement, Negotiation, Offer},
};
use interlock_workflow::Kind;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::{collections::HashMap, future::Future, io, panic::AssertUnwindSafe, sync::Arc};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    sync::{mpsc, watch},
    task::JoinSet,
};

/// While so much is waiting to be written, nothing more is read.
const ENOUGH: usize = 1024 * 1024;

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
            written = writer.write(&driver.out), if !driver.out.is_empty() => match written {
                Ok(n) if n > 0 => { driver.out.drain(..n); }
                Ok(_) | Err(_) => driver.on_gone(),
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
            kinds = driver.inbox.changed() => driver.on_lists_changed(kinds),
            () = clock::sleep_until(&*driver.clock, wake_at) => driver.on_tick(),
            () = &mut stop => driver.input(Input::Drain, None),
        }
    }
    let flushed = clock::sleep_until(&*driver.clock, Some(driver.close_by));
    tokio::select! {
        // A client that has gone away is not our failure.
        _ = writer.flush() => {}
        () = flushed => {}
    }
    reading.map(|_| ())
}

struct Driver {
    inner: Arc<Inner>,
    clock: Arc<dyn crate::Clock>,
    state: State,
    ledger: Ledger,
    negotiation: negotiation::State,
    instance: Option<Arc<Instance>>,
    inbox: Arc<Inbox>,
    /// What is waiting to be written: whole lines, the first of which may be half gone.
    out: Vec<u8>,
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
    lines: Vec<u8>,
}

/// A request on its way through the machine.
struct Incoming<'a> {
    request: &'a Request<'a>,
    modern: Option<Modern>,
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
            instance,
            inbox,
            out: Vec::new(),
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
            && ((self.calls.is_empty() && self.out.is_empty()) || self.clock.now() >= self.close_by)
    }

    /// While too much is waiting to be written, nothing more is taken in.
    fn has_room(&self) -> bool {
        self.out.len() < ENOUGH
    }

    fn wake_at(&self) -> Option<Time> {
        match self.state {
            State::Closed => Some(self.close_by),
            State::NotInitialized { .. }
            | State::Stateless
            | State::Initializing(_)
            | State::Initialized(_)
            | State::Subscribed(_)
            | State::Draining { .. } => self.state.wake_at(&self.inner.rules, &self.ledger),
        }
    }

    fn on_line(&mut self, line: &Line<'_>) {
        match line {
            Line::Whole(bytes) => match frame::parse(bytes, &self.inner.limits) {
                Ok(Frame::Request(request)) => self.on_request(&request),
                Ok(Frame::Notification(notification)) => self.on_notification(&notification),
                Ok(Frame::Response(response)) => {
                    let ask = match response.id {
                        Some(RequestId::Number(number)) => u64::try_from(number).ok().map(AskId),
                        Some(RequestId::Text(_)) | None => None,
                    };
                    self.input(Input::Response(ask), None);
                }
                Err(malformed) => self.on_malformed(malformed),
            },
            Line::TooLong => self.on_malformed(Malformed::too_large(&self.inner.limits)),
            Line::End => self.input(Input::Drain, None),
        }
    }

    fn on_request(&mut self, request: &Request<'_>) {
        let modern = match era::modern(request.params) {
            Ok(modern) => modern,
            Err(refusal) => return self.refuse(request.id.clone(), &refusal),
        };
        let id = request.id.clone();
        let mut incoming = Incoming {
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
                let params = notification.params.map_or("null", RawValue::get);
                let id = serde_json::from_str(params)
                    .ok()
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
        match (malformed.reply, malformed.id) {
            (Reply::None, _) => {}
            (Reply::Error, Some(id)) => self.refuse(id, &malformed.refusal),
            (Reply::Error, None) => {
                // Left out from 2025-11-25 on, null before.
                let id = match self.state.version() {
                    Some(version) if version < Version::V2025_11_25 => ErrorId::Null,
                    Some(_) | None => ErrorId::Absent,
                };
                self.write_error(&id, &malformed.refusal);
            }
        }
    }

    fn on_ended(&mut self, ended: Ended) {
        while self.tasks.try_join_next().is_some() {}
        self.say(&ended.lines);
        self.settle(ended.key);
    }

    fn on_lists_changed(&mut self, kinds: impl Iterator<Item = Kind>) {
        // Before that, nobody has seen a list that could have changed.
        if matches!(self.state, State::Initialized(_) | State::Subscribed(_)) {
            let mut lines = Vec::new();
            kinds.for_each(|kind| call::write_list_changed(&mut lines, kind));
            self.say(&lines);
        }
    }

    fn on_gone(&mut self) {
        self.peer = Peer::Gone;
        self.out.clear();
        self.input(Input::Gone, None);
    }

    fn on_tick(&mut self) {
        self.negotiate(negotiation::Input::Tick, None);
        self.input(Input::Tick, None);
    }

    /// Lets the machine decide, and does what it orders.
    fn input(&mut self, input: Input, incoming: Option<Incoming<'_>>) {
        let now = self.clock.now();
        let event = Connection::input_name(&input);
        match connection::step(&self.inner.rules, &self.state, &self.ledger, input, now) {
            Ok(step) => {
                call::trace::<Connection>(&self.state, event, &step.state);
                self.ledger.apply(&step.effects, now);
                self.state = step.state;
                let mut incoming = incoming;
                for effect in step.effects {
                    self.perform(effect, &mut incoming);
                }
            }
            Err(refusal) => {
                if let Some(incoming) = incoming {
                    self.refuse(incoming.request.id.clone(), &refusal);
                }
            }
        }
    }

    fn perform(&mut self, effect: Effect, incoming: &mut Option<Incoming<'_>>) {
        match effect {
            Effect::Negotiate(key, _) => {
                if let Some(offer) = incoming.take().and_then(|incoming| incoming.offer) {
                    tracing::info!(client = %offer.client_name, version = %offer.version, "initialize");
                    self.negotiate(negotiation::Input::Offer(offer), Some(key));
                }
            }
            Effect::Serve(key) => {
                if let Some(incoming) = incoming.take() {
                    self.serve(key, &incoming);
                }
            }
            Effect::Activate => self.negotiate(negotiation::Input::Ready, None),
            Effect::Cancel(key) => self.signal(&key, Signal::Cancel),
            Effect::Abandon(key, peer) => {
                self.peer = peer;
                self.signal(&key, Signal::Shutdown);
            }
            Effect::Ignore(noise) => tracing::debug!(?noise, "ignored"),
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

    fn negotiate(&mut self, input: negotiation::Input, initialize: Option<Key>) {
        let now = self.clock.now();
        let event = Negotiation::input_name(&input);
        let Ok(step) = negotiation::step(&self.negotiation, input, now) else {
            return;
        };
        call::trace::<Negotiation>(&self.negotiation, event, &step.state);
        self.negotiation = step.state;
        for effect in step.effects {
            match effect {
                negotiation::Effect::Gather => {
                    let have = negotiation::Input::Have(self.inner.capabilities());
                    self.negotiate(have, initialize.clone());
                }
                negotiation::Effect::Answer(agreement) => {
                    if let Some(key) = initialize.clone() {
                        let result = self.inner.initialize_result(agreement.version);
                        self.answer(key, &result);
                    }
                }
                negotiation::Effect::Fail(refusal) => {
                    if let Some(key) = initialize.clone() {
                        self.refuse(key.id.clone(), &refusal);
                        self.settle(key);
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

    fn serve(&mut self, key: Key, incoming: &Incoming<'_>) {
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
                let mut lines = Vec::new();
                call::write_answer(&mut lines, &key.id, answer);
                self.say(&lines);
                self.settle(key);
            }
            Ok(Plan::Call(start)) => self.call(key, *start),
            Err(refusal) => {
                self.refuse(key.id.clone(), &refusal);
                self.settle(key);
            }
        }
    }

    /// Whether the method exists for this request, and in which version it is spoken.
    fn allowed(&self, incoming: &Incoming<'_>) -> Result<(Method, Version), Refusal> {
        let name = &incoming.request.method;
        let method = Method::parse(name).ok_or_else(|| Refusal::method_not_found(name))?;
        if let Some(modern) = &incoming.modern {
            let agreement = Agreement {
                version: modern.version,
                server: self.inner.stateless_capabilities(),
                client: modern.client.iter().copied().collect(),
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
        negotiation::step(&self.negotiation, call, self.clock.now())?;
        let agreement = self.negotiation.agreement();
        let version = agreement.map_or(Version::COUNTER_OFFER, |agreement| agreement.version);
        Ok((method, version))
    }

    /// Runs a call: here and now if it does not have to wait, else as a task.
    fn call(&mut self, key: Key, start: Start) {
        let (signal, signals) = watch::channel(Signal::Go);
        let line = CallLine {
            id: key.id.clone(),
            inbox: Arc::clone(&self.inbox),
            signals,
        };
        let call = call::run(Arc::clone(&self.inner), start, line);
        let mut call = Box::pin(AssertUnwindSafe(call).catch_unwind());
        let failed = |id: &RequestId| {
            let mut lines = Vec::new();
            let refusal = Refusal::new(Code::InternalError);
            frame::write_error(&mut lines, &ErrorId::Known(id.clone()), &refusal);
            lines.push(b'\n');
            lines
        };
        if let Some(ended) = call.as_mut().now_or_never() {
            let lines = ended.unwrap_or_else(|_| failed(&key.id));
            self.say(&lines);
            return self.settle(key);
        }
        self.calls.insert(key.clone(), signal);
        let on_end = self.on_end.clone();
        self.tasks.spawn(async move {
            let lines = call.await.unwrap_or_else(|_| failed(&key.id));
            // If nobody receives it, the connection is gone.
            let _ = on_end.send(Ended { key, lines }).await;
        });
    }

    fn signal(&self, key: &Key, signal: Signal) {
        if let Some(call) = self.calls.get(key) {
            call.send_replace(signal);
        }
    }

    fn settle(&mut self, key: Key) {
        self.calls.remove(&key);
        self.input(Input::Settled(key), None);
    }

    fn answer(&mut self, key: Key, result: &(impl serde::Serialize + ?Sized)) {
        let mut lines = Vec::new();
        frame::write_result(&mut lines, &key.id, result).expect("our own results are JSON");
        lines.push(b'\n');
        self.say(&lines);
        self.settle(key);
    }

    fn refuse(&mut self, id: RequestId, refusal: &Refusal) {
        self.write_error(&ErrorId::Known(id), refusal);
    }

    fn write_error(&mut self, id: &ErrorId, refusal: &Refusal) {
        let mut lines = Vec::new();
        frame::write_error(&mut lines, id, refusal);
        lines.push(b'\n');
        self.say(&lines);
    }

    fn say(&mut self, lines: &[u8]) {
        if self.peer == Peer::Present {
            self.out.extend_from_slice(lines);
        }
    }
}
