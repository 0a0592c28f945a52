//! Connections: taken in, watched over, and let go.
//!
//! A connection is HTTP/1 or HTTP/2, whichever its client speaks. One that asks nothing is closed,
//! so that the places go to clients that do. Bodies are the business of whoever reads them.

use super::{
    endpoint::{self, Web},
    pulse::{Line, Pulse, Running},
    reply,
};
use crate::seldom::Seldom;
use axum::{Router, body::Body, extract::ConnectInfo};
use bytes::Bytes;
use futures_util::{FutureExt, future::BoxFuture};
use http::{Method, Request, Response, request::Parts};
use hyper::{
    body::{Body as HttpBody, Frame, Incoming, SizeHint},
    service::{Service, service_fn},
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
    service::TowerToHyperService,
};
use std::{
    convert::Infallible,
    io,
    net::SocketAddr,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    task::{JoinError, JoinSet},
    time::{sleep, timeout},
};

/// A request's headers are at most this large.
const HEADERS: u32 = 64 * 1024;
/// So many requests of one HTTP/2 connection run at once.
const CONCURRENT: u32 = 256;
/// A silent HTTP/2 client is asked this often whether it is still there.
const PING: Duration = Duration::from_secs(30);
const PING_ANSWER: Duration = Duration::from_secs(20);
/// The pause after an accept that failed, at first and at most.
const PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// What a server grants its clients.
#[derive(Clone, Debug)]
pub(crate) struct ServeOptions {
    /// A request's headers have to be there after this time, from the opening of the connection
    /// or from the end of the request before. So it is also how long HTTP/1 is kept alive.
    pub(crate) header_timeout: Duration,
    /// An HTTP/2 connection is closed when it has had no request for this time, and any when the
    /// client has taken nothing of what it is sent for so long.
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

/// What is served: a router, and an endpoint that is found without it. Nearly every request is for
/// the endpoint, and a router costs as much as reading the message does.
pub(crate) struct Site {
    router: Router,
    endpoint: Option<(String, Arc<Web>)>,
}

impl Site {
    pub(crate) const fn new(router: Router) -> Self {
        Self {
            router,
            endpoint: None,
        }
    }

    /// The router has the same endpoint at the same path.
    pub(crate) fn with_endpoint(mut self, path: &str, web: &Arc<Web>) -> Self {
        self.endpoint = Some((path.to_owned(), Arc::clone(web)));
        self
    }

    /// The endpoint, if a request is for it. Methods that HTTP has rules of its own for, such as
    /// HEAD, are left to the router.
    fn endpoint(&self, parts: &Parts) -> Option<&Arc<Web>> {
        let (path, web) = self.endpoint.as_ref()?;
        let known = matches!(parts.method, Method::POST | Method::GET | Method::DELETE);
        (known && parts.uri.path() == path).then_some(web)
    }
}

/// Serves until `stop`, then lets what is running finish within the time for that, and returns
/// when every connection is closed. Handlers find their client's address in
/// [`ConnectInfo<SocketAddr>`](ConnectInfo). Fails only if the listener is not one.
pub(crate) async fn serve(
    listener: TcpListener,
    site: Site,
    options: ServeOptions,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    serve_from(listener, site, options, stop).await
}

async fn serve_from(
    listener: impl Accept,
    site: Site,
    options: ServeOptions,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    let mut door = Door::new(listener, options.max_connections);
    let drain = options.drain;
    let host = Arc::new(Host::new(site, options));
    let (stopping, stopped) = watch::channel(false);
    let mut connections = JoinSet::new();
    let mut stop = pin!(stop);
    let outcome = loop {
        tokio::select! {
            biased;
            () = &mut stop => break Ok(()),
            Some(ended) = connections.join_next() => report(ended),
            guest = door.next() => match guest {
                Ok(guest) => {
                    connections.spawn(Arc::clone(&host).entertain(guest, stopped.clone()));
                }
                Err(error) => break Err(error),
            },
        }
    };
    drop(door);
    stopping.send_replace(true);
    let finished = timeout(drain, async {
        while let Some(ended) = connections.join_next().await {
            report(ended);
        }
    });
    if finished.await.is_err() {
        tracing::warn!(left = connections.len(), "closing unfinished connections");
        connections.shutdown().await;
    }
    outcome
}

fn report(ended: Result<(), JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "a connection's task failed");
    }
}

/// Where connections come from.
trait Accept {
    fn accept(&self) -> impl Future<Output = io::Result<(TcpStream, SocketAddr)>> + Send;
}

impl Accept for TcpListener {
    fn accept(&self) -> impl Future<Output = io::Result<(TcpStream, SocketAddr)>> + Send {
        Self::accept(self)
    }
}

/// Lets in as many as there are places for.
struct Door<L> {
    listener: L,
    places: Arc<Semaphore>,
    /// How often in a row accepting has failed.
    failures: u32,
}

struct Guest {
    stream: TcpStream,
    remote: SocketAddr,
    /// Given back when the connection is closed.
    _place: OwnedSemaphorePermit,
}

impl<L: Accept> Door<L> {
    fn new(listener: L, places: usize) -> Self {
        Self {
            listener,
            places: Arc::new(Semaphore::new(places.clamp(1, Semaphore::MAX_PERMITS))),
            failures: 0,
        }
    }

    /// The next connection. Dropping the future loses none. Whoever calls again after a connection
    /// was closed cuts a pause short, which is right: there may be a free descriptor now.
    async fn next(&mut self) -> io::Result<Guest> {
        loop {
            let place = Arc::clone(&self.places).acquire_owned().await;
            let place = place.expect("the semaphore is never closed");
            match self.listener.accept().await {
                Ok((stream, remote)) => {
                    self.failures = 0;
                    return Ok(Guest {
                        stream,
                        remote,
                        _place: place,
                    });
                }
                Err(error) => match After::of(&error) {
                    After::GoOn => {}
                    After::Pause => {
                        tracing::warn!(%error, "no connection could be accepted");
                        let pause = pause(self.failures);
                        self.failures = self.failures.saturating_add(1);
                        sleep(pause).await;
                    }
                    After::GiveUp => return Err(error),
                },
            }
        }
    }
}

/// What to do about an accept that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    /// That connection was gone before it was accepted.
    GoOn,
    /// Descriptors or memory ran out; a moment later there may be some.
    Pause,
    /// This is no listener, and will not become one.
    GiveUp,
}

impl After {
    fn of(error: &io::Error) -> Self {
        let kind = error.kind();
        if matches!(
            kind,
            io::ErrorKind::ConnectionRefused
                | io::ErrorKind::ConnectionAborted
                | io::ErrorKind::ConnectionReset
        ) {
            Self::GoOn
        } else if kind == io::ErrorKind::InvalidInput {
            Self::GiveUp
        } else {
            Self::Pause
        }
    }
}

fn pause(failures: u32) -> Duration {
    PAUSE
        .saturating_mul(2_u32.saturating_pow(failures))
        .min(LONGEST_PAUSE)
}

/// What all connections share.
struct Host {
    site: Site,
    builder: auto::Builder<TokioExecutor>,
    options: ServeOptions,
}

impl Host {
    fn new(site: Site, options: ServeOptions) -> Self {
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder
            .http1()
            // Hyper would set a timer for each request. One for each connection does, too.
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
            .keep_alive_timeout(PING_ANSWER);
        Self {
            site,
            builder,
            options,
        }
    }

    /// Serves one connection to its end.
    async fn entertain(self: Arc<Self>, guest: Guest, mut stopped: watch::Receiver<bool>) {
        if let Err(error) = guest.stream.set_nodelay(true) {
            tracing::debug!(%error, "small packets may be delayed");
        }
        let pulse = Arc::new(Pulse::new());
        let service = self.service(guest.remote, Arc::clone(&pulse));
        let stream = TokioIo::new(Line::new(guest.stream, Arc::clone(&pulse)));
        let mut connection = pin!(self.builder.serve_connection(stream, service));
        let over = Box::pin(async {
            tokio::select! {
                () = pulse.stops(&self.options) => {}
                _ = stopped.wait_for(|stopped| *stopped) => {}
            }
        });
        tokio::select! {
            biased;
            served = connection.as_mut() => return note(served),
            () = Seldom::new(over) => {}
        }
        if pulse.is_lost(&self.options) {
            return;
        }
        connection.as_mut().graceful_shutdown();
        // A client that does not take leave is not waited for.
        tokio::select! {
            biased;
            served = connection => note(served),
            () = pulse.rests(self.options.header_timeout) => {}
        }
    }

    fn service(
        self: &Arc<Self>,
        remote: SocketAddr,
        pulse: Arc<Pulse>,
    ) -> impl Service<
        Request<Incoming>,
        Response = Response<Watched>,
        Error = Infallible,
        Future: Send + 'static,
    > + use<> {
        // Requests count what their connection shares, and not what all connections do: that would
        // go to and fro between processors.
        let shared = Arc::new(Arc::clone(self));
        service_fn(move |request: Request<Incoming>| {
            let running = Pulse::begin(&pulse, request.version());
            let host = Arc::clone(&shared);
            let (mut parts, body) = request.into_parts();
            async move {
                let endpoint = host.site.endpoint(&parts);
                if endpoint.is_none_or(|web| web.asks_who()) {
                    parts.extensions.insert(ConnectInfo(remote));
                }
                let response = match endpoint {
                    Some(web) => endpoint::any(web, &parts, body).await.map(Served::Direct),
                    None => host.route(Request::from_parts(parts, body)).await,
                };
                Ok(response.map(|body| Watched {
                    body,
                    _running: running,
                }))
            }
        })
    }

    /// What the router answers; in a box, since nearly nothing comes here.
    fn route(&self, request: Request<Incoming>) -> BoxFuture<'static, Response<Served>> {
        let router = TowerToHyperService::new(self.site.router.clone());
        let response = router.call(request).map(|response| match response {
            Ok(response) => response.map(Served::Routed),
            Err(never) => match never {},
        });
        response.boxed()
    }
}

/// A client that breaks off or breaks the rules is its own affair.
fn note(served: Result<(), Box<dyn std::error::Error + Send + Sync>>) {
    if let Err(error) = served {
        tracing::debug!(error, "a connection ended early");
    }
}

/// A response's body, which is running until it is dropped.
struct Watched {
    body: Served,
    _running: Running,
}

enum Served {
    /// From the endpoint.
    Direct(reply::Body),
    /// From the router.
    Routed(Body),
}

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        match &mut self.get_mut().body {
            Served::Direct(body) => {
                let frame = ready!(Pin::new(body).poll_frame(cx));
                Poll::Ready(frame.map(|frame| frame.map_err(|never| match never {})))
            }
            Served::Routed(body) => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.body {
            Served::Direct(body) => body.is_end_stream(),
            Served::Routed(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.body {
            Served::Direct(body) => body.size_hint(),
            Served::Routed(body) => body.size_hint(),
        }
    }
}

#[cfg(test)]
mod tests;
