//! Messages over HTTP: one endpoint for both eras, and streams that clients can resume.
//!
//! Statuses are decided before the headers go out. Nothing here knows what a message means to a
//! workflow.
//!
//! | File | Holds |
//! |---|---|
//! | `serve.rs`, `activity.rs` | connections: accepted, served, and closed when a client is too slow |
//! | `response_progress.rs` | responses: dropped when a client takes nothing of them |
//! | `routes.rs` | which path leads where |
//! | `cors.rs` | what browsers are told about pages of allowed origins |
//! | `state.rs` | what all requests share: who may come in, and limits |
//! | `host_check.rs`, `in_flight.rs`, `body.rs` | the limits: names, requests at work, sizes (rates: `core/rates.rs`) |
//! | `headers.rs` | the headers of a request, and whether they agree with its body |
//! | `endpoint.rs` | what a POST, a GET and a DELETE lead to |
//! | `stateless.rs` | a 2026-07-28 request, served alone |
//! | `sse_2024.rs` | HTTP+SSE, the transport of 2024-11-05 |
//! | `response.rs`, `event_stream.rs` | responses: a message, or a stream of events |
//! | `resumption.rs` | after which event a client goes on, by its `Last-Event-ID` |
//! | `kept_streams.rs` | how long streams are kept for a client that may come back |
//! | `settings.rs` | what whoever serves may choose |
//!
//! These are about sessions:
//!
//! | File | Holds |
//! |---|---|
//! | `proto/src/session.rs` | the life of an id: a pure machine, which decides when a session ends |
//! | `sessions.rs`, `sessions/room.rs` | all sessions of a server: makes and finds them, drives their machines, runs their clocks |
//! | `session.rs` | one of them: its machine, its client and its streams |
//! | `session_table.rs` | how many there are, whose, and which of them gives way to a new one: pure |
//! | `session_store.rs` | how they are written down and read |
//! | `session/` (a room) | the client itself, on stdio as well: its connection, handshake and calls |

mod activity;
mod body;
mod cors;
mod endpoint;
mod event_stream;
mod headers;
pub(crate) mod host_check;
mod in_flight;
mod kept_streams;
mod response;
mod response_progress;
mod resumption;
mod routes;
mod serve;
mod session;
mod session_store;
mod session_table;
mod sessions;
pub(crate) mod settings;
mod sse_2024;
pub(crate) mod state;
mod stateless;

use crate::core::Core;
use axum::Router;
use routes::Routes;
use serve::ServeOptions;
use settings::HttpOptions;
use state::HttpState;
use std::{future::Future, io, sync::Arc, time::Duration};
use tokio::{
    net::TcpListener,
    time::{Instant, timeout_at},
};

/// How long the last answers may take to get out.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// A router that serves the server, for an application of axum's, and what has to be closed in the
/// end.
pub(crate) fn router(
    inner: &Arc<Core>,
    options: &HttpOptions,
) -> io::Result<(Router, Arc<HttpState>)> {
    let routes = Routes::new(inner, options)?;
    let http = Arc::clone(routes.http());
    Ok((routes.into_router(), http))
}

/// Serves until `stop` completes, and then ends all sessions and calls.
pub(crate) async fn serve_until(
    inner: &Arc<Core>,
    listener: TcpListener,
    options: &HttpOptions,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    let routes = Routes::new(inner, options)?;
    let http = Arc::clone(routes.http());
    // Calls that are aborted in the end are answered, and the answers have to get out.
    let drain = inner.rules.drain + LAST_ANSWERS;
    let serving = ServeOptions {
        header_timeout: options.header_timeout,
        max_connections: options.connections,
        drain,
        ..ServeOptions::default()
    };
    let mut closing = None;
    let mut last = None;
    let stopped = async {
        stop.await;
        http.sessions.begin_closing();
        last = Some(Instant::now() + drain);
        closing = Some(tokio::spawn(Arc::clone(&http).close()));
    };
    let served = serve::serve(listener, routes, serving, stopped).await;
    match closing {
        Some(closing) => {
            let _ = closing.await;
        }
        None => Arc::clone(&http).close().await,
    }
    // The caller may drop what handlers use once this has returned.
    let soonest = Instant::now() + LAST_ANSWERS;
    let last = last.map_or(soonest, |last| soonest.max(last));
    if timeout_at(last, inner.background.wait()).await.is_err() {
        tracing::warn!("some calls have not ended");
    }
    served
}
