//! Messages over HTTP: one endpoint for both eras, and streams that clients can take up again.

mod backlog;
pub(crate) mod endpoint;
pub(crate) mod event;
pub(crate) mod exchange;
pub(crate) mod feed;
pub(crate) mod headers;
mod intake;
mod keep_alive;
mod kept;
pub(crate) mod legacy;
pub(crate) mod modern;
pub(crate) mod options;
pub(crate) mod origin;
mod pulse;
mod reply;
mod resumable;
pub(crate) mod serve;
pub(crate) mod sessions;
pub(crate) mod stream;

use crate::server::Inner;
use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    response::Response,
    routing::{any, get, post},
};
use endpoint::Web;
use options::HttpOptions;
use std::{future::Future, io, sync::Arc, time::Duration};
use tokio::{
    net::TcpListener,
    time::{Instant, timeout_at},
};

/// A router that serves the server, and what has to be closed in the end.
pub(crate) fn router(inner: &Arc<Inner>, options: &HttpOptions) -> io::Result<(Router, Arc<Web>)> {
    check_path(options)?;
    inner.may_serve(options.authenticator.is_some())?;
    let web = Web::new(inner, options)?;
    let mut router = Router::new().route(&options.path, any(at_endpoint));
    if options.legacy {
        router = router
            .route(legacy::STREAM, get(at_stream))
            .route(legacy::MESSAGES, post(at_messages));
    }
    Ok((router.with_state(Arc::clone(&web)), web))
}

async fn at_endpoint(State(web): State<Arc<Web>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    endpoint::any(&web, &parts, body).await.map(Body::new)
}

async fn at_stream(State(web): State<Arc<Web>>, request: Request) -> Response {
    legacy::stream(web, request).await.map(Body::new)
}

async fn at_messages(State(web): State<Arc<Web>>, request: Request) -> Response {
    legacy::message(web, request).await.map(Body::new)
}

/// Whether there can be an endpoint at the path.
fn check_path(options: &HttpOptions) -> io::Result<()> {
    let path = &options.path;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.~".contains(&byte);
    let taken = options.legacy && [legacy::STREAM, legacy::MESSAGES].contains(&path.as_str());
    if path.starts_with('/') && path.bytes().all(plain) && !taken {
        return Ok(());
    }
    let why = format!("there can be no endpoint at the path `{path}`");
    Err(io::Error::new(io::ErrorKind::InvalidInput, why))
}

/// How long the last answers may take to get out.
const FAREWELL: Duration = Duration::from_secs(2);

/// Serves until `stop` completes, and then winds everything up.
pub(crate) async fn serve_until(
    inner: &Arc<Inner>,
    listener: TcpListener,
    options: &HttpOptions,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    let (router, web) = router(inner, options)?;
    // What is torn down in the end is answered, and that has to get out.
    let drain = inner.rules.drain + FAREWELL;
    let serving = serve::ServeOptions {
        header_timeout: options.header_timeout,
        max_connections: options.connections,
        drain,
        ..serve::ServeOptions::default()
    };
    let mut closing = None;
    let mut last = None;
    let stopped = async {
        stop.await;
        web.sessions.begin_closing();
        last = Some(Instant::now() + drain);
        closing = Some(tokio::spawn(Arc::clone(&web).close()));
    };
    let site = serve::Site::new(router).with_endpoint(&options.path, &web);
    let served = serve::serve(listener, site, serving, stopped).await;
    match closing {
        Some(closing) => {
            let _ = closing.await;
        }
        None => Arc::clone(&web).close().await,
    }
    // Whoever serves may let go of what handlers use once this has returned.
    let soonest = Instant::now() + FAREWELL;
    let last = last.map_or(soonest, |last| soonest.max(last));
    if timeout_at(last, inner.calls.ended()).await.is_err() {
        tracing::warn!("some calls have not ended");
    }
    served
}
