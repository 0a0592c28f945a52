//! The endpoint: what a POST, a GET and a DELETE lead to.
//!
//! Both eras share it. A request with modern `_meta` stands alone; everything else belongs to a
//! session. Whatever has an HTTP status of its own is decided before the headers go out.

use crate::{
    context::body_memory::BodyShare,
    outbound::{
        Route,
        exchange::{Exchange, Exchanged, First},
        stream::{Retention, Stream},
        subscribers::QuotaOwner,
    },
    session::instance::{self, Arrival},
    transport::http::{
        body::BodyBytes,
        event_stream::{EventStream, EventStreamOptions},
        headers::{Accepts, HeaderValues, KnownHeaders, is_json},
        in_flight::{ReadBy, Slot},
        response::{self, ErrorResponse, Response},
        resumption::resume,
        sessions::SessionGuard,
        state::HttpState,
        stateless,
    },
};
use axum::extract::ConnectInfo;
use http::{Method, StatusCode, request::Parts};
use hyper::body::Body;
use interlock_engine::Principal;
use interlock_proto::{
    Code, Refusal, Version,
    batch::{self, Incoming},
    era::Era,
    frame::{ErrorId, Frame},
    post::{self, Way},
};
use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

/// Answers any request to the endpoint.
pub(crate) async fn respond<B>(http: &Arc<HttpState>, parts: &Parts, body: B) -> Response
where
    B: Body<Data: AsRef<[u8]>> + Unpin,
{
    let answered = match parts.method {
        Method::POST => post(http, parts, body).await,
        Method::GET => get(http, parts).await,
        Method::DELETE => delete(http, parts).await,
        _ => other_method(http, parts).await,
    };
    answered.unwrap_or_else(|refused| *refused)
}

/// Only an admitted client learns that there is no such method.
async fn other_method(http: &HttpState, parts: &Parts) -> Result<Response, ErrorResponse> {
    http.admit(parts, &KnownHeaders::read(&parts.headers))
        .await?;
    let refusal =
        Refusal::new(Code::ProtocolError).because("this endpoint allows only POST, GET and DELETE");
    Err(response::method_not_allowed(&refusal, "POST, GET, DELETE"))
}

/// A message from a client.
async fn post<B>(http: &Arc<HttpState>, parts: &Parts, body: B) -> Result<Response, ErrorResponse>
where
    B: Body<Data: AsRef<[u8]>> + Unpin,
{
    let headers = &KnownHeaders::read(&parts.headers);
    let principal = http.admit(parts, headers).await?;
    check_media_types(headers)?;
    let client = Client::new(principal, parts);
    let body = http.read(&client, body).await?;
    let slot = http.enter(&client)?;
    let held = ReadBy(Arc::clone(&slot));
    let unread = body.share.beside();
    let mut response = take(http, headers, client, slot, body).await?;
    if response.body_mut().hold(held, unread) {
        return Ok(response);
    }
    let refusal = Refusal::new(Code::QueueByteCapExceeded)
        .because("the answers that you have not read are too large together")
        .having_begun();
    Err(response::refused(&refusal))
}

/// Passes on a message that was read.
async fn take(
    http: &Arc<HttpState>,
    headers: &KnownHeaders<'_>,
    client: Client,
    slot: Arc<Slot>,
    BodyBytes { bytes, share }: BodyBytes,
) -> Result<Response, ErrorResponse> {
    let share = Arc::new(share);
    let principal = &client.principal;
    // Over HTTP/2 a request may outlive its connection, whose task is the only one waited for.
    let _begun = http.inner.background.token();
    let version = version_text(headers.version);
    let session = session_id(headers.session)?;
    // Whether a batch is allowed depends on the version of its session.
    let spoken = match session {
        Some(id) if batch::is_likely(&bytes) => {
            let guard = enter(http, id, principal).await?;
            guard.session.peer.version()
        }
        Some(_) | None => None,
    };
    let message = batch::parse(&bytes, &http.inner.limits, spoken).map_err(|malformed| {
        let spoken = post::named(version).ok().flatten();
        response::malformed(&malformed, spoken)
    })?;
    let way = match &message {
        Incoming::One(frame) => post::way(version, session.is_some(), frame),
        Incoming::Batch(_) => post::of_session(version, session.is_some()),
    };
    let way = way.map_err(|refusal| {
        let refusal = refusal.supporting(Version::NEWEST_FIRST);
        response::with_status(StatusCode::BAD_REQUEST, &error_id(&message), &refusal)
    })?;
    match (way, &message) {
        (Way::Alone(modern), Incoming::One(Frame::Request(request))) => {
            let counted = Counted { slot, share };
            stateless::serve(http, headers, client, counted, request, &modern).await
        }
        (Way::NewSession, message) => {
            let guard = create_session(http, &client, message).await?;
            Ok(exchange(http, guard, Counted { slot, share }, true, message).await)
        }
        (Way::Session, message) => {
            let id = session.unwrap_or_default();
            let entered = http.sessions.enter(id, principal).await;
            let guard = entered.map_err(|refusal| no_session(&refusal, &error_id(message)))?;
            if is_answered(message) {
                return Ok(exchange(http, guard, Counted { slot, share }, false, message).await);
            }
            let route = Route::Session(Arc::clone(&guard.session.stream));
            let peer = &guard.session.peer;
            http.inner.with_snapshot(|snapshot| {
                let inbound = peer.inbound(&route, guard.at).counted(&share);
                inbound.on_incoming(message, snapshot);
            });
            Ok(response::accepted())
        }
        (Way::Alone(_) | Way::Nothing, _) => Ok(response::accepted()),
    }
}

/// Whether the body is JSON as it is, and the client accepts both kinds of answer.
fn check_media_types(headers: &KnownHeaders<'_>) -> Result<(), ErrorResponse> {
    if !is_json(headers) {
        return Err(response::refused(&Refusal::new(Code::InvalidContentType)));
    }
    if headers.content_encoding.is_present() {
        let refusal = Refusal::new(Code::UnsupportedEncoding);
        return Err(response::refused(
            &refusal.because("packed bodies are not unpacked"),
        ));
    }
    let accepts = Accepts::read(headers);
    if !accepts.json || !accepts.events {
        return Err(response::not_acceptable(
            "the client must accept both application/json and text/event-stream",
        ));
    }
    Ok(())
}

async fn create_session(
    http: &HttpState,
    client: &Client,
    message: &Incoming<'_>,
) -> Result<SessionGuard, ErrorResponse> {
    let created = http.sessions.create(client, Retention::Replayable);
    let guard = created.map_err(|refusal| no_session(&refusal, &error_id(message)))?;
    if http.inner.engine.is_some() {
        let found = instance::load(&guard.session.peer, Arrival::New);
        Box::pin(found).await;
    }
    Ok(guard)
}

/// The id of the request that an error answers.
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

/// Begins a request of a session that answers no message.
async fn enter(
    http: &HttpState,
    id: &str,
    principal: &Principal,
) -> Result<SessionGuard, ErrorResponse> {
    let entered = http.sessions.enter(id, principal).await;
    entered.map_err(|refusal| no_session(&refusal, &ErrorId::Absent))
}

/// Why a session cannot be used. 404 means only that there is none: clients open a new session on
/// it.
pub(crate) fn no_session(refusal: &Refusal, request: &ErrorId) -> ErrorResponse {
    let status = if refusal.code() == Code::SessionInvalid {
        StatusCode::NOT_FOUND
    } else {
        response::status_of(refusal)
    };
    response::with_status(status, request, refusal)
}

/// Who sends a request.
pub(crate) struct Client {
    pub(crate) principal: Principal,
    /// Where it comes from; none where whoever serves does not say.
    pub(crate) address: Option<IpAddr>,
}

impl Client {
    pub(crate) fn new(principal: Principal, parts: &Parts) -> Self {
        let address = parts.extensions.get::<ConnectInfo<SocketAddr>>();
        Self {
            principal,
            address: address.map(|ConnectInfo(address)| address.ip()),
        }
    }

    /// Against whose quotas its requests count.
    pub(crate) fn quota_owner(&self) -> QuotaOwner {
        QuotaOwner::over_http(self.principal.clone(), self.address)
    }
}

/// What a request is counted by.
pub(crate) struct Counted {
    /// Until its call is over.
    pub(crate) slot: Arc<Slot>,
    /// Until its calls are over.
    pub(crate) share: Arc<BodyShare>,
}

/// A request of a session, which is in use while the exchange lasts.
#[derive(Debug)]
struct InSession {
    guard: SessionGuard,
    slot: Arc<Slot>,
}

impl Exchanged for InSession {
    fn open_stream(&self) -> Arc<Stream> {
        self.guard.session.new_stream()
    }

    fn asks_person(&self) {
        self.slot.wait();
    }
}

/// Passes a request to its session, and answers with a message or a stream.
async fn exchange(
    http: &HttpState,
    guard: SessionGuard,
    Counted { slot, share }: Counted,
    is_new: bool,
    message: &Incoming<'_>,
) -> Response {
    let (session, at) = (Arc::clone(&guard.session), guard.at);
    let exchange = Exchange::new(InSession { guard, slot });
    let _expected = exchange.expect_reader();
    let route = Route::Own(Arc::clone(&exchange));
    let inbound = session.peer.inbound(&route, at).counted(&share);
    http.inner
        .with_snapshot(|snapshot| inbound.on_incoming(message, snapshot));
    let mut response = match first(http, &exchange).await {
        First::Answer(_, message) => response::json(StatusCode::OK, message),
        // The client has cancelled the call, so there is no answer.
        First::Ended => response::nothing(),
        first @ (First::Stream | First::Disconnect) => {
            let stream = exchange.stream();
            session.keep_stream(&stream);
            let prime = session.peer.version().is_some_and(has_priming);
            let options = EventStreamOptions {
                prime,
                // The session is in use until the answer was read.
                guard: Some(Box::new(Arc::clone(&exchange))),
                ..http.stream_options()
            };
            let body = EventStream::new(&stream, options);
            if first == First::Disconnect {
                stream.disconnect();
            }
            response::events(body)
        }
    };
    if is_new {
        if session.peer.version().is_some() {
            response::add_session(&mut response, &session.id);
        } else {
            // The handshake has failed, so there is nothing to keep.
            let principal = session.peer.principal();
            let _ = http.sessions.destroy(&session.id, principal).await;
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

/// Waits for the answer, or for something sent before it, or until it has taken too long.
pub(crate) async fn first(http: &HttpState, exchange: &Exchange) -> First {
    if let Some(first) = exchange.ready() {
        return first;
    }
    let first = http.within(http.patience, exchange.first()).await;
    first.unwrap_or(First::Stream)
}

/// A client that listens to what belongs to no request, or resumes a stream.
async fn get(http: &HttpState, parts: &Parts) -> Result<Response, ErrorResponse> {
    let headers = &KnownHeaders::read(&parts.headers);
    let principal = http.admit(parts, headers).await?;
    if !Accepts::read(headers).events {
        return Err(response::not_acceptable(
            "the client must accept text/event-stream",
        ));
    }
    has_sessions(headers)?;
    let Some(id) = session_id(headers.session)? else {
        return Err(missing_session());
    };
    let guard = enter(http, id, &principal).await?;
    let session = Arc::clone(&guard.session);
    let prime = session.peer.version().is_some_and(has_priming);
    let (stream, after) = resume(&session, headers.all)?;
    session.stream.touch();
    let options = EventStreamOptions {
        after: Some(after),
        prime,
        // The session is in use while its client listens.
        guard: Some(Box::new(guard)),
        ..http.stream_options()
    };
    Ok(response::events(EventStream::new(&stream, options)))
}

/// A client that ends its session.
async fn delete(http: &HttpState, parts: &Parts) -> Result<Response, ErrorResponse> {
    let headers = &KnownHeaders::read(&parts.headers);
    let principal = http.admit(parts, headers).await?;
    has_sessions(headers)?;
    let Some(id) = session_id(headers.session)? else {
        return Err(missing_session());
    };
    http.sessions
        .destroy(id, &principal)
        .await
        .map_err(|refusal| no_session(&refusal, &ErrorId::Absent))?;
    Ok(response::no_content())
}

/// 2026-07-28 has no sessions, so there is nothing to listen to and nothing to end.
fn has_sessions(headers: &KnownHeaders<'_>) -> Result<(), ErrorResponse> {
    let named = post::named(version_text(headers.version));
    let version =
        named.map_err(|refusal| response::refused(&refusal.supporting(Version::NEWEST_FIRST)))?;
    if version.is_some_and(|version| version.era() == Era::Stateless) {
        let refusal = Refusal::new(Code::ProtocolError).because("2026-07-28 has only POST");
        return Err(response::method_not_allowed(&refusal, "POST"));
    }
    Ok(())
}

fn missing_session() -> ErrorResponse {
    let refusal =
        Refusal::new(Code::SessionInvalid).because("the header Mcp-Session-Id is missing");
    response::refused_with(StatusCode::BAD_REQUEST, &refusal)
}

/// The session's id, if the request names one.
fn session_id(values: HeaderValues<'_>) -> Result<Option<&str>, ErrorResponse> {
    const MOST: usize = 128;
    let wrong = || response::refused(&Refusal::new(Code::InvalidSessionId));
    let bytes = match values {
        HeaderValues::None => return Ok(None),
        HeaderValues::One(value) => value.as_bytes(),
        HeaderValues::Many => return Err(wrong()),
    };
    if !(1..=MOST).contains(&bytes.len()) {
        return Err(wrong());
    }
    // Without an early exit, so that many bytes are compared at a time.
    let graphic = bytes.iter().map(u8::is_ascii_graphic);
    let graphic = graphic.fold(true, |all, is| all & is);
    let text = str::from_utf8(bytes).ok().filter(|_| graphic);
    text.map(Some).ok_or_else(wrong)
}

/// The version that the headers name. Two values name none that there is.
fn version_text(values: HeaderValues<'_>) -> Option<&str> {
    match values {
        HeaderValues::None => None,
        HeaderValues::One(value) => Some(value.to_str().unwrap_or_default()),
        HeaderValues::Many => Some(""),
    }
}
