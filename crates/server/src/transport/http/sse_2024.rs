//! HTTP+SSE, the transport of 2024-11-05: one stream for all answers, and an address to post to.

use crate::{
    outbound::{Route, stream::Retention},
    session::instance::{self, Arrival},
    transport::http::{
        body::BodyBytes,
        endpoint::{Client, no_session},
        event_stream::{EventStream, EventStreamOptions},
        headers::{Accepts, KnownHeaders, is_json},
        response::{self, ErrorResponse, Response},
        sessions::SessionGuard,
        state::HttpState,
    },
};
use http::{StatusCode, request::Parts};
use hyper::body::Body;
use interlock_proto::{Code, Refusal, frame::ErrorId};
use std::sync::Arc;
use tokio::runtime::Handle;

/// Where a client listens.
pub(crate) const STREAM: &str = "/sse";
/// Where it sends its messages.
pub(crate) const MESSAGES: &str = "/messages";

/// Opens a session, and its one stream, which begins with the address for messages.
pub(crate) async fn stream(
    http: &Arc<HttpState>,
    parts: &Parts,
) -> Result<Response, ErrorResponse> {
    let headers = KnownHeaders::read(&parts.headers);
    let principal = http.admit(parts, &headers).await?;
    if !Accepts::read(&headers).events {
        return Err(response::not_acceptable(
            "the client must accept text/event-stream",
        ));
    }
    let refuse = |refusal: Refusal| response::refused(&refusal);
    let created = http
        .sessions
        .create(&Client::new(principal.clone(), parts), Retention::Once)
        .map_err(refuse)?;
    let entered = http.sessions.enter(&created.session.id, &principal).await;
    let guard = entered.map_err(refuse)?;
    if http.inner.engine.is_some() {
        let found = instance::load(&guard.session.peer, Arrival::New);
        Box::pin(found).await;
    }
    let address = format!("{MESSAGES}?sessionId={}", guard.session.id);
    let stream = Arc::clone(guard.session.stream.stream());
    let options = EventStreamOptions {
        endpoint: Some(address),
        guard: Some(Box::new(EndSession {
            http: Arc::clone(http),
            guard: Some(guard),
        })),
        ..http.stream_options()
    };
    Ok(response::events(EventStream::new(&stream, options)))
}

/// Ends the session with its one stream.
struct EndSession {
    http: Arc<HttpState>,
    guard: Option<SessionGuard>,
}

impl Drop for EndSession {
    fn drop(&mut self) {
        let Some(guard) = self.guard.take() else {
            return;
        };
        let session = Arc::clone(&guard.session);
        drop(guard);
        // Without a runtime the server is gone already.
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        let sessions = Arc::clone(&self.http.sessions);
        runtime.spawn(async move {
            let principal = session.peer.principal();
            let _ = sessions.destroy(&session.id, principal).await;
        });
    }
}

/// The session of a message. The ids that we mint need no decoding.
fn session_id(query: Option<&str>) -> Option<&str> {
    let mut pairs = query?.split('&');
    pairs.find_map(|pair| pair.strip_prefix("sessionId="))
}

/// Takes a message; the answer goes to the session's stream.
pub(crate) async fn message<B>(
    http: &Arc<HttpState>,
    parts: &Parts,
    body: B,
) -> Result<Response, ErrorResponse>
where
    B: Body<Data: AsRef<[u8]>> + Unpin,
{
    let headers = KnownHeaders::read(&parts.headers);
    let principal = http.admit(parts, &headers).await?;
    if !is_json(&headers) {
        return Err(response::refused(&Refusal::new(Code::InvalidContentType)));
    }
    let Some(id) = session_id(parts.uri.query()) else {
        let refusal = Refusal::new(Code::SessionInvalid).because("`sessionId` is missing");
        return Err(response::refused_with(StatusCode::BAD_REQUEST, &refusal));
    };
    let guard = http
        .sessions
        .enter(id, &principal)
        .await
        .map_err(|refusal| no_session(&refusal, &ErrorId::Absent))?;
    let session = &guard.session;
    // Answers on the one stream are never dropped, so a client that does not read it may not ask.
    let read = session.stream.stream().wait_until_read();
    if http.within(http.patience, read).await.is_none() {
        let refusal = Refusal::new(Code::BackpressureActive)
            .because("the client does not read its stream, and too much waits there already");
        return Err(response::refused(&refusal));
    }
    let client = Client::new(principal, parts);
    let BodyBytes { bytes, share } = http.read(&client, body).await?;
    let _slot = http.enter(&client)?;
    let share = Arc::new(share);
    let route = Route::Session(Arc::clone(&session.stream));
    let _begun = http.inner.background.token();
    let inbound = session.peer.inbound(&route, http.inner.clock.now());
    let inbound = inbound.counted(&share);
    http.inner
        .with_snapshot(|snapshot| inbound.on_message(&bytes, snapshot));
    Ok(response::accepted())
}
