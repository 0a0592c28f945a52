//! The transport of 2024-11-05, HTTP+SSE: one stream for everything, and an address to post to.

use super::{
    endpoint::{Web, no_session},
    headers::{Accepts, Noted, is_json},
    reply::{self, Response},
    sessions::Visit,
    stream::{BodyOptions, Stream},
};
use crate::driver::{self, Is};
use http::{Request, StatusCode};
use hyper::body::Body;
use interlock_proto::{Code, Refusal, frame::ErrorId};
use std::sync::Arc;
use tokio::runtime::Handle;

/// Where a client listens.
pub(crate) const STREAM: &str = "/sse";
/// Where it sends its messages.
pub(crate) const MESSAGES: &str = "/messages";

/// A client that wants to be served: it is told where to send its messages.
pub(crate) async fn stream<B>(web: Arc<Web>, request: Request<B>) -> Response {
    let (parts, _) = request.into_parts();
    let headers = Noted::read(&parts.headers);
    let principal = match web.admit(&parts, &headers).await {
        Ok(principal) => principal,
        Err(refused) => return *refused,
    };
    if !Accepts::read(&headers).events {
        return *reply::not_acceptable("the client must accept text/event-stream");
    }
    let made = match web.sessions.create_legacy(&principal) {
        Ok(made) => web.sessions.enter(&made.client.id, &principal).await,
        Err(refusal) => Err(refusal),
    };
    let visit = match made {
        Ok(visit) => visit,
        Err(refusal) => return *reply::refused(&refusal),
    };
    if web.inner.workflow.is_some() {
        let found = driver::find_instance(&web.inner, &visit.client.peer, Is::New);
        Box::pin(found).await;
    }
    let address = format!("{MESSAGES}?sessionId={}", visit.client.id);
    let stream = Arc::clone(visit.client.feed.stream());
    let ends = Ends(Arc::clone(&web), Some(visit));
    reply::events(stream.body(BodyOptions {
        endpoint: Some(address),
        keep_alive: web.keep_alive.clone(),
        guard: Some(Box::new(ends)),
        ..BodyOptions::default()
    }))
}

/// The session ends with its one stream.
struct Ends(Arc<Web>, Option<Visit>);

impl Drop for Ends {
    fn drop(&mut self) {
        if let Some(visit) = self.1.take() {
            let client = Arc::clone(&visit.client);
            drop(visit);
            // Where nothing runs any more, nothing is served either.
            let Ok(runtime) = Handle::try_current() else {
                return;
            };
            let sessions = Arc::clone(&self.0.sessions);
            runtime.spawn(async move {
                let _ = sessions.destroy(&client.id, client.peer.principal()).await;
            });
        }
    }
}

/// To which session a message belongs. Our own ids need no decoding.
fn session(query: Option<&str>) -> Option<&str> {
    let mut pairs = query?.split('&');
    pairs.find_map(|pair| pair.strip_prefix("sessionId="))
}

/// Whether there is room for more on the client's one stream, or will be soon. What is said there
/// is never thrown away, so who does not listen may not ask.
async fn has_room(web: &Web, stream: &Stream) -> bool {
    let clock = &*web.inner.clock;
    tokio::select! {
        biased;
        () = stream.drained_enough() => true,
        () = clock.sleep_until(clock.now() + web.patience) => false,
    }
}

/// A message from such a client; the answer goes to its stream.
pub(crate) async fn message<B>(web: Arc<Web>, request: Request<B>) -> Response
where
    B: Body<Data: AsRef<[u8]>> + Unpin,
{
    let (parts, body) = request.into_parts();
    let headers = Noted::read(&parts.headers);
    let principal = match web.admit(&parts, &headers).await {
        Ok(principal) => principal,
        Err(refused) => return *refused,
    };
    let _in_flight = match web.enter() {
        Ok(in_flight) => in_flight,
        Err(refused) => return *refused,
    };
    if !is_json(&headers) {
        return *reply::refused(&Refusal::new(Code::InvalidContentType));
    }
    let Some(session) = session(parts.uri.query()) else {
        let refusal = Refusal::new(Code::SessionInvalid).because("`sessionId` is missing");
        return *reply::refused_with(StatusCode::BAD_REQUEST, &refusal);
    };
    let visit = match web.sessions.enter(session, &principal).await {
        Ok(visit) => visit,
        Err(refusal) => return *no_session(&refusal, &ErrorId::Absent),
    };
    if !has_room(&web, visit.client.feed.stream()).await {
        let refusal = Refusal::new(Code::BackpressureActive)
            .because("the client does not read its stream, and too much waits there already");
        return *reply::refused(&refusal);
    }
    let bytes = match web.read(body).await {
        Ok(bytes) => bytes,
        Err(refused) => return *refused,
    };
    let route = crate::route::Route::Feed(Arc::clone(&visit.client.feed));
    let _begun = web.inner.calls.begin();
    web.inner
        .with_offering(|offering| visit.client.peer.on_message(&bytes, offering, &route));
    reply::accepted()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{http::options::HttpOptions, principal::Principal, server::Server};

    #[test]
    fn a_stream_that_outlives_the_runtime_goes_quietly() {
        let server = Server::builder("s", "1").build().unwrap();
        let web = Web::new(&server.0, &HttpOptions::default()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let made = runtime.block_on(async { web.sessions.create_legacy(&Principal::anonymous()) });
        let client = Arc::clone(&made.as_ref().unwrap().client);
        let ends = Ends(web, made.ok());
        drop(runtime);
        drop(ends);
        assert_eq!(Arc::strong_count(&client), 1);
    }
}
