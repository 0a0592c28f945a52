//! Connections: accepted, served as HTTP/1 or HTTP/2, and closed when idle or at the end.
//!
//! A connection without requests is closed, so that its place goes to a client that has some.
//! How long a body may take is decided by those who read it.

mod accept;

use crate::transport::http::{
    activity::{Activity, MonitoredStream},
    response_progress::MonitoredBody,
};
use accept::{Accept, Accepted, Acceptor};
use axum::extract::ConnectInfo;
use bytes::Bytes;
use http::{Request, Response};
use hyper::{
    body::{Body, Incoming},
    service::{Service, service_fn},
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
};
use std::{
    convert::Infallible, error::Error, io, net::SocketAddr, pin::pin, sync::Arc, time::Duration,
};
use tokio::{
    net::TcpListener,
    task::{JoinError, JoinSet},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

/// A request's headers are at most this large.
const HEADERS: u32 = 64 * 1024;
/// So many requests of one HTTP/2 connection run at once.
const CONCURRENT: u32 = 256;
/// How often a silent HTTP/2 client is pinged, and how long it may take to answer.
const PING: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(20);

/// How connections are served.
#[derive(Clone, Debug)]
pub(crate) struct ServeOptions {
    /// A request's headers have to be there after this time, from the opening of the connection
    /// or from the end of the request before. So it is also how long HTTP/1 is kept alive.
    pub(crate) header_timeout: Duration,
    /// An HTTP/2 connection is closed when it has had no request for this time, and any when the
    /// client has read nothing of what it is sent for so long. A response of which nothing was
    /// taken for so long is dropped.
    pub(crate) idle_timeout: Duration,
    /// While there are so many connections, no other is accepted.
    pub(crate) max_connections: usize,
    /// How long requests may go on after the stop.
    pub(crate) drain: Duration,
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self {
            header_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(120),
            max_connections: 10_000,
            drain: Duration::from_secs(30),
        }
    }
}

/// Answers requests.
pub(crate) trait Respond: Send + Sync + 'static {
    type Body: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>>
        + Send
        + Unpin
        + 'static;

    /// The request knows the client's address, as [`ConnectInfo<SocketAddr>`](ConnectInfo).
    fn respond(
        &self,
        request: Request<Incoming>,
    ) -> impl Future<Output = Response<Self::Body>> + Send;
}

/// Serves until `stop`, then lets what is running finish within the drain time, and returns when
/// every connection is closed. Fails only if the listener is not one.
pub(crate) async fn serve(
    listener: TcpListener,
    site: impl Respond,
    options: ServeOptions,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    serve_from(listener, site, options, stop).await
}

async fn serve_from(
    listener: impl Accept,
    site: impl Respond,
    options: ServeOptions,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    let mut acceptor = Acceptor::new(listener, options.max_connections);
    let drain = options.drain;
    let server = Arc::new(ConnectionServer::new(site, options));
    let stopped = CancellationToken::new();
    let mut connections = JoinSet::new();
    let mut stop = pin!(stop);
    let outcome = loop {
        tokio::select! {
            biased;
            () = &mut stop => break Ok(()),
            Some(ended) = connections.join_next() => log_panic(ended),
            accepted = acceptor.next() => match accepted {
                Ok(accepted) => {
                    let server = Arc::clone(&server);
                    connections.spawn(server.serve_connection(accepted, stopped.clone()));
                }
                Err(error) => break Err(error),
            },
        }
    };
    drop(acceptor);
    stopped.cancel();
    let finished = timeout(drain, async {
        while let Some(ended) = connections.join_next().await {
            log_panic(ended);
        }
    });
    if finished.await.is_err() {
        tracing::warn!(left = connections.len(), "closing unfinished connections");
        connections.shutdown().await;
    }
    outcome
}

fn log_panic(ended: Result<(), JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "a connection's task failed");
    }
}

/// What all connections share.
struct ConnectionServer<S> {
    site: S,
    builder: auto::Builder<TokioExecutor>,
    options: ServeOptions,
}

impl<S: Respond> ConnectionServer<S> {
    fn new(site: S, options: ServeOptions) -> Self {
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder
            .http1()
            // Hyper would set a timer for each request. `Activity` has one for each connection.
            .header_read_timeout(None)
            .keep_alive(true)
            .half_close(false)
            .max_buf_size(HEADERS as usize);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(CONCURRENT)
            .max_header_list_size(HEADERS)
            .keep_alive_interval(PING)
            .keep_alive_timeout(PING_TIMEOUT);
        Self {
            site,
            builder,
            options,
        }
    }

    /// Serves one connection to its end.
    async fn serve_connection(self: Arc<Self>, accepted: Accepted, stopped: CancellationToken) {
        if let Err(error) = accepted.stream.set_nodelay(true) {
            tracing::debug!(%error, "small packets may be delayed");
        }
        let activity = Arc::new(Activity::new());
        let service = self.service(accepted.remote, Arc::clone(&activity));
        let stream = MonitoredStream::new(accepted.stream, Arc::clone(&activity));
        let served = self.builder.serve_connection(TokioIo::new(stream), service);
        let mut connection = pin!(served);
        tokio::select! {
            biased;
            served = connection.as_mut() => return log_early_end(served),
            () = activity.overdue(&self.options) => {}
            () = stopped.cancelled() => {}
        }
        if activity.is_unresponsive(&self.options) {
            return;
        }
        connection.as_mut().graceful_shutdown();
        // A client that does not close its side is not waited for.
        tokio::select! {
            biased;
            served = connection => log_early_end(served),
            () = activity.finished(self.options.header_timeout) => {}
        }
    }

    fn service(
        self: &Arc<Self>,
        remote: SocketAddr,
        activity: Arc<Activity>,
    ) -> impl Service<
        Request<Incoming>,
        Response = Response<MonitoredBody<S::Body>>,
        Error = Infallible,
        Future: Send + 'static,
    > + use<S> {
        // Each request clones this connection's own count, not the one that all connections share:
        // that would be contended between processors.
        let server = Arc::new(Arc::clone(self));
        service_fn(move |mut request: Request<Incoming>| {
            let active = Activity::begin(&activity, request.version());
            let server = Arc::clone(&server);
            async move {
                request.extensions_mut().insert(ConnectInfo(remote));
                let response = server.site.respond(request).await;
                Ok(response.map(|body| active.respond(body)))
            }
        })
    }
}

/// A client that disconnects or breaks the protocol is no fault of the server's.
fn log_early_end(served: Result<(), Box<dyn Error + Send + Sync>>) {
    if let Err(error) = served {
        tracing::debug!(error, "a connection ended early");
    }
}

#[cfg(test)]
mod tests;
