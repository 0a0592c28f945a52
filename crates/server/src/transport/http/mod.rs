//! Messages over HTTP: one endpoint for both eras, and streams that clients can resume.
//!
//! Connections are accepted in [serve] and their requests [routed](routes) to the [endpoint],
//! which passes them to a [session](sessions) or serves them [alone](stateless). Statuses are
//! decided before the headers go out. Nothing here knows what a message means to a workflow.

mod activity;
mod body;
mod endpoint;
mod event_stream;
mod headers;
pub(crate) mod host_check;
pub(crate) mod options;
mod response;
mod resumption;
mod routes;
mod serve;
mod session;
mod session_store;
mod sessions;
mod sse_2024;
pub(crate) mod state;
mod stateless;

use crate::core::Core;
use axum::Router;
use options::HttpOptions;
use routes::Routes;
use serve::ServeOptions;
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
