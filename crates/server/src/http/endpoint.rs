//! The endpoint: what a POST, a GET and a DELETE lead to.
//!
//! Both eras come through the same door. A request with modern `_meta` stands alone; everything
//! else belongs to a session. Whatever has an HTTP status of its own is decided before the headers
//! go out.

use super::{
    event::parse_event_id,
    exchange::{Asked, Exchange, First},
    headers::{Accepts, LAST_EVENT, Lines, Noted, is_json},
    intake::{Intake, Unread, Whole},
    keep_alive::KeepAlive,
    modern,
    options::HttpOptions,
    origin::Doors,
    reply::{self, Refused, Response},
    sessions::{Sessions, Visit},
    stream::BodyOptions,
};
use crate::{
    auth::Authenticator,
    driver::{self, Is},
    principal::Principal,
    rates::{RateKeeper, Rates},
    route::Route,
    server::Inner,
};
use futures_util::FutureExt;
use http::{HeaderMap, Method, StatusCode, request::Parts};
use hyper::body::Body;
use interlock_proto::{
    Code, Refusal, Version,
    batch::{self, Incoming},
    era::Era,
    frame::{ErrorId, Frame, Malformed},
    post::{self, Way},
};
use std::{io, pin::pin, sync::Arc, time::Duration};
use tokio::sync::watch;

/// What the endpoint needs to know.
pub(crate) struct Web {
    pub(crate) inner: Arc<Inner>,
    pub(crate) sessions: Arc<Sessions>,
    doors: Doors,
    authenticator: Option<Arc<dyn Authenticator>>,
    /// None: everybody may come as often as they like.
    rates: Option<RateKeeper>,
    in_flight: Arc<()>,
    most_in_flight: usize,
    intake: Intake,
    body_timeout: Duration,
    pub(crate) patience: Duration,
    pub(crate) keep_alive: Option<KeepAlive>,
    pub(crate) retry: Duration,
    /// The server ends and waits no longer.
    overdue: watch::Sender<bool>,
}

/// One of the requests that are in flight: until nobody works on it, and its answer was read. They
/// hold on to the same thing, which so knows how many they are.
#[derive(Debug)]
pub(crate) struct InFlight {
    _one: Arc<()>,
}

impl InFlight {
    /// Counts one more, and says how many others there are.
    pub(crate) fn count(all: &Arc<()>) -> (Self, usize) {
        let one = Arc::clone(all);
        let others = Arc::strong_count(all).saturating_sub(2);
        (Self { _one: one }, others)
    }
}

impl Web {
    /// # Errors
    ///
    /// If a host or an origin in the options is none.
    pub(crate) fn new(inner: &Arc<Inner>, options: &HttpOptions) -> io::Result<Arc<Self>> {
        let wrong =
            |names: Vec<String>| io::Error::new(io::ErrorKind::InvalidInput, names.join("; "));
        Ok(Arc::new(Self {
            inner: Arc::clone(inner),
            sessions: Sessions::new(inner, options),
            doors: options.hosts.doors().map_err(wrong)?,
            authenticator: options.authenticator.clone(),
            rates: (options.rates != Rates::default())
                .then(|| RateKeeper::new(options.rates, inner.clock.now())),
            in_flight: Arc::default(),
            most_in_flight: options.in_flight,
            intake: Intake::new(inner.limits.bytes, options.body_memory),
            body_timeout: options.body_timeout,
            patience: options.patience,
            keep_alive: KeepAlive::new(&inner.clock, options.keep_alive),
            retry: options.retry,
            overdue: watch::Sender::new(false),
        }))
    }

    /// Whether the request may come in, and on whose behalf.
    pub(crate) async fn admit(
        self: &Arc<Self>,
        parts: &Parts,
        headers: &Noted<'_>,
    ) -> Result<Principal, Refused> {
        self.doors
            .check(&parts.uri, headers)
            .map_err(|refusal| reply::refused(&refusal))?;
        let principal = match &self.authenticator {
            None => Principal::anonymous(),
            Some(authenticator) => authenticator
                .authenticate(parts)
                .await
                .map_err(|denied| reply::denied(&denied))?,
        };
        if let Some(rates) = &self.rates {
            rates
                .check(&principal, self.inner.clock.now())
                .map_err(|exceeded| reply::exceeded(&exceeded))?;
        }
        Ok(principal)
    }

    /// Whether anybody wants to know where a request comes from.
    pub(crate) const fn asks_who(&self) -> bool {
        self.authenticator.is_some()
    }

    /// Completes when the server ends and waits no longer.
    pub(crate) async fn overdue(&self) {
        let _ = self.overdue.subscribe().wait_for(|overdue| *overdue).await;
    }

    /// The server ends: what is in flight is given the drain time.
    pub(crate) async fn close(self: Arc<Self>) {
        self.inner.audience.end_streams();
        let clock = &*self.inner.clock;
        let late = clock.sleep_until(clock.now() + self.inner.rules.drain);
        let web = Arc::downgrade(&self);
        tokio::spawn(async move {
            late.await;
            if let Some(web) = web.upgrade() {
                web.overdue.send_replace(true);
            }
        });
        self.sessions.close().await;
    }

    /// Counts a request that may do work.
    pub(crate) fn enter(&self) -> Result<InFlight, Refused> {
        let (entered, others) = InFlight::count(&self.in_flight);
        if others >= self.most_in_flight {
            return Err(reply::refused(&Refusal::new(Code::BackpressureActive)));
        }
        Ok(entered)
    }

    /// What the work leads to, unless it takes too long.
    async fn within<T>(&self, time: Duration, work: impl Future<Output = T>) -> Option<T> {
        let clock = &*self.inner.clock;
        tokio::select! {
            biased;
            done = work => Some(done),
            () = clock.sleep_until(clock.now() + time) => None,
        }
    }

    /// Reads the whole body, within bounds of size and time.
    pub(crate) async fn read<B>(&self, body: B) -> Result<Whole<'_>, Refused>
    where
        B: Body<Data: AsRef<[u8]>> + Unpin,
    {
        // Mostly it has come with the headers: then there is nothing to wait for.
        let mut reading = pin!(self.intake.read(body));
        let read = match reading.as_mut().now_or_never() {
            Some(read) => Some(read),
            None => self.within(self.body_timeout, reading).await,
        };
        match read {
            Some(Ok(whole)) => Ok(whole),
            Some(Err(Unread::TooLarge)) => {
                let malformed = Malformed::too_large(&self.inner.limits);
                Err(reply::refused(&malformed.refusal))
            }
            Some(Err(Unread::NoRoom)) => Err(reply::refused(
                &Refusal::new(Code::QueueByteCapExceeded)
                    .because("the messages that are being read are too large together"),
            )),
            Some(Err(Unread::Broken)) => Err(reply::refused(
                &Refusal::new(Code::ProtocolError).because("the body could not be read"),
            )),
            None => Err(reply::with_status(
                StatusCode::REQUEST_TIMEOUT,
                &ErrorId::Absent,
                &Refusal::new(Code::Timeout).because("the body took too long to arrive"),
            )),
        }
    }
}

/// Whatever comes to the endpoint.
pub(crate) async fn any<B>(web: &Arc<Web>, parts: &Parts, body: B) -> Response
where
    B: Body<Data: AsRef<[u8]>> + Unpin,
{
    let answered = match parts.method {
        Method::POST => take(web, parts, body).await,
        Method::GET => listen(web, parts).await,
        Method::DELETE => end(web, parts).await,
        _ => elsewise(web, parts).await,
    };
    answered.unwrap_or_else(|refused| *refused)
}

/// Not even that a method is not there is told to whoever may not come in.
async fn elsewise(web: &Arc<Web>, parts: &Parts) -> Result<Response, Refused> {
    web.admit(parts, &Noted::read(&parts.headers)).await?;
    let refusal = Refusal::new(Code::ProtocolError).because("there are POST, GET and DELETE");
    Err(reply::method_not_allowed(&refusal, "POST, GET, DELETE"))
}

async fn take<B>(web: &Arc<Web>, parts: &Parts, body: B) -> Result<Response, Refused>
where
    B: Body<Data: AsRef<[u8]>> + Unpin,
{
    let headers = &Noted::read(&parts.headers);
    let principal = web.admit(parts, headers).await?;
    let in_flight = web.enter()?;
    if !is_json(headers) {
        return Err(reply::refused(&Refusal::new(Code::InvalidContentType)));
    }
    if headers.content_encoding.are_there() {
        let refusal = Refusal::new(Code::UnsupportedEncoding);
        return Err(reply::refused(
            &refusal.because("packed bodies are not unpacked"),
        ));
    }
    let accepts = Accepts::read(headers);
    if !accepts.json || !accepts.events {
        return Err(reply::not_acceptable(
            "the client must accept both application/json and text/event-stream",
        ));
    }
    let bytes = web.read(body).await?;
    // Over HTTP/2 it may outlive its connection, and nobody waits for its task.
    let _begun = web.inner.calls.begin();
    let version = version_text(headers.version);
    let session = session_id(headers.session)?;
    let spoken = match session {
        Some(id) if batch::is_likely(&bytes) => {
            visit(web, id, &principal).await?.client.peer.version()
        }
        Some(_) | None => None,
    };
    let message = batch::parse(&bytes, &web.inner.limits, spoken).map_err(|malformed| {
        let spoken = post::named(version).ok().flatten();
        reply::malformed(&malformed, spoken)
    })?;
    let way = match &message {
        Incoming::One(frame) => post::way(version, session.is_some(), frame),
        Incoming::Batch(_) => post::of_session(version, session.is_some()),
    };
    let way = way.map_err(|refusal| {
        let refusal = refusal.supporting(Version::NEWEST_FIRST);
        reply::with_status(StatusCode::BAD_REQUEST, &error_id(&message), &refusal)
    })?;
    match (way, &message) {
        (Way::Alone(modern), Incoming::One(Frame::Request(request))) => {
            modern::serve(web, headers, principal, in_flight, request, &modern).await
        }
        (Way::NewSession, message) => {
            let made = web.sessions.create(&principal);
            let visit = made.map_err(|refusal| no_session(&refusal, &error_id(message)))?;
            if web.inner.workflow.is_some() {
                let found = driver::find_instance(&web.inner, &visit.client.peer, Is::New);
                Box::pin(found).await;
            }
            Ok(converse(web, visit, in_flight, true, message).await)
        }
        (Way::Session, message) => {
            let name = session.unwrap_or_default();
            let entered = web.sessions.enter(name, &principal).await;
            let visit = entered.map_err(|refusal| no_session(&refusal, &error_id(message)))?;
            if is_answered(message) {
                return Ok(converse(web, visit, in_flight, false, message).await);
            }
            let route = Route::Feed(Arc::clone(&visit.client.feed));
            let peer = &visit.client.peer;
            web.inner.with_offering(|offering| {
                peer.on_incoming(message, offering, &route, visit.at);
            });
            Ok(reply::accepted())
        }
        (Way::Alone(_) | Way::Nothing, _) => Ok(reply::accepted()),
    }
}

/// How an error says what it answers.
fn error_id(message: &Incoming<'_>) -> ErrorId {
    match message {
        Incoming::One(Frame::Request(request)) => ErrorId::Known(request.id.clone()),
        Incoming::One(_) | Incoming::Batch(_) => ErrorId::Absent,
    }
}

/// Whether anything in it waits for an answer.
fn is_answered(message: &Incoming<'_>) -> bool {
    match message {
        Incoming::One(frame) => matches!(frame, Frame::Request(_)),
        Incoming::Batch(batch) => !batch.answers().is_complete(),
    }
}

async fn visit(web: &Web, id: &str, principal: &Principal) -> Result<Visit, Refused> {
    let entered = web.sessions.enter(id, principal).await;
    entered.map_err(|refusal| no_session(&refusal, &ErrorId::Absent))
}

/// Why a session cannot be used. 404 means that there is none, and nothing else: clients begin
/// anew on it.
pub(crate) fn no_session(refusal: &Refusal, request: &ErrorId) -> Refused {
    let status = if refusal.code() == Code::SessionInvalid {
        StatusCode::NOT_FOUND
    } else {
        reply::status_of(refusal)
    };
    reply::with_status(status, request, refusal)
}

/// Hands a request of a session on, and answers with a message or a stream of them.
async fn converse(
    web: &Arc<Web>,
    visit: Visit,
    in_flight: InFlight,
    is_new: bool,
    message: &Incoming<'_>,
) -> Response {
    let (client, at) = (Arc::clone(&visit.client), visit.at);
    let exchange = Exchange::new(Asked::InSession(visit), in_flight);
    let _expected = exchange.expected();
    let route = Route::Own(Arc::clone(&exchange));
    web.inner
        .with_offering(|offering| client.peer.on_incoming(message, offering, &route, at));
    let mut response = match first(web, &exchange).await {
        First::Answer(_, message) => reply::json(StatusCode::OK, message),
        // The client took the call back, so there is nothing to say.
        First::Ended => reply::nothing(),
        first @ (First::Spoke | First::HungUp) => {
            let stream = exchange.stream();
            client.keep(&stream);
            let prime = client.peer.version().is_some_and(has_priming);
            let body = stream.body(BodyOptions {
                prime,
                keep_alive: web.keep_alive.clone(),
                // The request is in flight until its answer was read.
                guard: Some(Box::new(Arc::clone(&exchange))),
                ..BodyOptions::default()
            });
            if first == First::HungUp {
                stream.disconnect();
            }
            reply::events(body)
        }
    };
    if is_new {
        if client.peer.version().is_some() {
            reply::add_session(&mut response, &client.id);
        } else {
            // The handshake failed, so there is nothing to keep.
            let principal = client.peer.principal();
            let _ = web.sessions.destroy(&client.id, principal).await;
        }
    }
    response
}

const fn has_priming(version: Version) -> bool {
    match version {
        Version::V2025_11_25 => true,
        Version::V2024_11_05
        | Version::V2025_03_26
        | Version::V2025_06_18
        | Version::V2026_07_28 => false,
    }
}

/// Waits for the answer, or for something said before it, or until it has taken too long.
pub(crate) async fn first(web: &Web, exchange: &Exchange) -> First {
    if let Some(first) = exchange.ready() {
        return first;
    }
    let first = web.within(web.patience, exchange.first()).await;
    first.unwrap_or(First::Spoke)
}

/// A client that wants to hear what belongs to no request, or the rest of a stream.
async fn listen(web: &Arc<Web>, parts: &Parts) -> Result<Response, Refused> {
    let headers = &Noted::read(&parts.headers);
    let principal = web.admit(parts, headers).await?;
    if !Accepts::read(headers).events {
        return Err(reply::not_acceptable(
            "the client must accept text/event-stream",
        ));
    }
    has_sessions(headers)?;
    let Some(id) = session_id(headers.session)? else {
        return Err(missing_session());
    };
    let visit = visit(web, id, &principal).await?;
    let client = Arc::clone(&visit.client);
    let prime = client.peer.version().is_some_and(has_priming);
    let (stream, after) = match last_event(headers.all)? {
        None => {
            let stream = Arc::clone(client.feed.stream());
            let sent = stream.last_sent();
            (stream, Some(sent))
        }
        Some((number, seq)) => {
            let stream = client.stream(number).ok_or_else(nothing_to_resume)?;
            (stream, Some(seq))
        }
    };
    client.feed.touch();
    let body = stream.body(BodyOptions {
        after,
        prime,
        keep_alive: web.keep_alive.clone(),
        // The session is in use while somebody listens.
        guard: Some(Box::new(visit)),
        ..BodyOptions::default()
    });
    Ok(reply::events(body))
}

/// A client that ends its session.
async fn end(web: &Arc<Web>, parts: &Parts) -> Result<Response, Refused> {
    let headers = &Noted::read(&parts.headers);
    let principal = web.admit(parts, headers).await?;
    has_sessions(headers)?;
    let Some(id) = session_id(headers.session)? else {
        return Err(missing_session());
    };
    web.sessions
        .destroy(id, &principal)
        .await
        .map_err(|refusal| no_session(&refusal, &ErrorId::Absent))?;
    Ok(reply::no_content())
}

/// 2026-07-28 has no sessions, so there is nothing to listen to and nothing to end.
fn has_sessions(headers: &Noted<'_>) -> Result<(), Refused> {
    let named = post::named(version_text(headers.version));
    let version = named.map_err(|refusal| reply::refused(&refusal))?;
    if version.is_some_and(|version| version.era() == Era::Stateless) {
        let refusal = Refusal::new(Code::ProtocolError).because("2026-07-28 has only POST");
        return Err(reply::method_not_allowed(&refusal, "POST"));
    }
    Ok(())
}

fn missing_session() -> Refused {
    let refusal =
        Refusal::new(Code::SessionInvalid).because("the header Mcp-Session-Id is missing");
    reply::refused_with(StatusCode::BAD_REQUEST, &refusal)
}

fn nothing_to_resume() -> Refused {
    let refusal = Refusal::new(Code::InvalidHeader)
        .because("there is no stream with this Last-Event-ID in this session");
    reply::refused(&refusal)
}

/// The session's id, if the request names one.
fn session_id(lines: Lines<'_>) -> Result<Option<&str>, Refused> {
    const MOST: usize = 128;
    let wrong = || reply::refused(&Refusal::new(Code::InvalidSessionId));
    let bytes = match lines {
        Lines::None => return Ok(None),
        Lines::One(value) => value.as_bytes(),
        Lines::Many => return Err(wrong()),
    };
    if !(1..=MOST).contains(&bytes.len()) {
        return Err(wrong());
    }
    // All of them are looked at, whatever they are: so they can be looked at many at a time.
    let graphic = bytes.iter().map(u8::is_ascii_graphic);
    let graphic = graphic.fold(true, |all, is| all & is);
    let text = str::from_utf8(bytes).ok().filter(|_| graphic);
    text.map(Some).ok_or_else(wrong)
}

/// The version that the headers name, as they do. Two are none that there is.
fn version_text(lines: Lines<'_>) -> Option<&str> {
    match lines {
        Lines::None => None,
        Lines::One(value) => Some(value.to_str().unwrap_or_default()),
        Lines::Many => Some(""),
    }
}

fn last_event(headers: &HeaderMap) -> Result<Option<(u64, u64)>, Refused> {
    let mut values = headers.get_all(&LAST_EVENT).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    let event = value.to_str().ok().and_then(parse_event_id);
    match event {
        Some(event) if values.next().is_none() => Ok(Some(event)),
        Some(_) | None => Err(nothing_to_resume()),
    }
}
