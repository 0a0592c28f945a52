//! HTTP: in a session, or without one as in 2026-07-28. Every answer is plain JSON.

use std::{
    collections::HashSet,
    convert::Infallible,
    io,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{
    HeaderMap, Method, Request, Response, StatusCode,
    body::Incoming,
    header::{CONTENT_TYPE, HeaderName, HeaderValue},
    service::service_fn,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
};
use tokio::net::TcpListener;

use crate::answer::{Era, Message, Params, Server};

static SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
static VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
static METHOD: HeaderName = HeaderName::from_static("mcp-method");
static NAME: HeaderName = HeaderName::from_static("mcp-name");
const STATELESS: &str = "2026-07-28";
const HEADERS_WITHIN: Duration = Duration::from_secs(10);

type Sessions = Mutex<HashSet<Box<str>>>;
type Answer = Response<Full<Bytes>>;

pub(crate) async fn serve(server: Arc<Server>, address: &str) -> io::Result<()> {
    let listener = TcpListener::bind(address).await?;
    let sessions = Arc::new(Sessions::default());
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let (server, sessions) = (Arc::clone(&server), Arc::clone(&sessions));
        // Both versions of HTTP on one port, and nobody takes for ever to send headers.
        let mut builder = auto::Builder::new(TokioExecutor::new());
        let http1 = &mut builder.http1();
        http1.timer(TokioTimer::new());
        http1.header_read_timeout(HEADERS_WITHIN);
        tokio::spawn(async move {
            let service = service_fn(|request| {
                let (server, sessions) = (Arc::clone(&server), Arc::clone(&sessions));
                async move { Ok::<_, Infallible>(handle(&server, &sessions, request).await) }
            });
            let connection = builder.serve_connection(TokioIo::new(stream), service);
            // A client that goes away in the middle has nobody to be told.
            let _ = connection.await;
        });
    }
}

async fn handle(server: &Server, sessions: &Sessions, request: Request<Incoming>) -> Answer {
    if request.uri().path() != "/mcp" {
        return bare(StatusCode::NOT_FOUND);
    }
    if request.method() != Method::POST {
        return bare(StatusCode::METHOD_NOT_ALLOWED);
    }
    let (head, body) = request.into_parts();
    let Ok(body) = body.collect().await else {
        return bare(StatusCode::BAD_REQUEST);
    };
    let body = body.to_bytes();
    let message = serde_json::from_slice::<Message<'_>>(&body).ok();
    let Some(message) = message.filter(Message::is_of_version_two) else {
        return bare(StatusCode::BAD_REQUEST);
    };
    let era = if says(&head.headers, &VERSION, STATELESS) {
        match message.params() {
            Some(params) if agrees(&head.headers, &message, &params) => Era::Stateless(params),
            Some(_) | None => return bare(StatusCode::BAD_REQUEST),
        }
    } else {
        if message.method == "initialize" {
            return open(server, sessions, &message);
        }
        if !is_open(sessions, &head.headers) {
            return bare(StatusCode::NOT_FOUND);
        }
        Era::Sessions
    };
    reply(server, &message, era)
}

/// Whether the headers of a request say what its body says.
fn agrees(headers: &HeaderMap, message: &Message<'_>, params: &Params<'_>) -> bool {
    let version = params
        .meta
        .as_ref()
        .and_then(|meta| meta.version.as_deref());
    let name = params.name.as_deref();
    version == Some(STATELESS)
        && says(headers, &METHOD, &message.method)
        && name.is_none_or(|name| says(headers, &NAME, name))
}

fn says(headers: &HeaderMap, name: &HeaderName, value: &str) -> bool {
    headers.get(name).is_some_and(|header| header == value)
}

fn is_open(sessions: &Sessions, headers: &HeaderMap) -> bool {
    let id = headers.get(&SESSION).and_then(|id| id.to_str().ok());
    let sessions = sessions.lock().unwrap_or_else(PoisonError::into_inner);
    id.is_some_and(|id| sessions.contains(id))
}

fn open(server: &Server, sessions: &Sessions, message: &Message<'_>) -> Answer {
    let mut random = [0; 16];
    if getrandom::fill(&mut random).is_err() {
        return bare(StatusCode::INTERNAL_SERVER_ERROR);
    }
    let id = format!("{:032x}", u128::from_ne_bytes(random));
    let mut answer = reply(server, message, Era::Sessions);
    let value = HeaderValue::from_str(&id).expect("hexadecimal digits are a header's value");
    answer.headers_mut().insert(&SESSION, value);
    let mut sessions = sessions.lock().unwrap_or_else(PoisonError::into_inner);
    sessions.insert(id.into_boxed_str());
    answer
}

fn reply(server: &Server, message: &Message<'_>, era: Era<'_>) -> Answer {
    let mut out = Vec::with_capacity(512);
    if !server.answer_to(message, era, &mut out) {
        return bare(StatusCode::ACCEPTED);
    }
    let mut answer = Response::new(Full::new(Bytes::from(out)));
    let json = HeaderValue::from_static("application/json");
    answer.headers_mut().insert(CONTENT_TYPE, json);
    answer
}

fn bare(status: StatusCode) -> Answer {
    let mut answer = Response::new(Full::default());
    *answer.status_mut() = status;
    answer
}
