//! What all HTTP requests of a server share: admission, limits, and the end.

use crate::{
    api::auth::Authenticator,
    core::{Core, rates::RateLimits},
    transport::http::{
        body::{BodyBytes, BodyError, BodyReader},
        endpoint::Client,
        event_stream::{EventStreamOptions, KeepAlive},
        headers::KnownHeaders,
        host_check::HostCheck,
        in_flight::{Bounds, InFlight, Slot},
        response::{self, ErrorResponse},
        sessions::Sessions,
        settings::HttpOptions,
    },
};
use futures_util::FutureExt;
use http::{HeaderValue, StatusCode, header, request::Parts};
use hyper::body::Body;
use interlock_engine::Principal;
use interlock_proto::{
    Code, Refusal,
    frame::{ErrorId, Malformed},
};
use std::{io, pin::pin, sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

/// What all HTTP requests of a server share.
pub(crate) struct HttpState {
    pub(crate) inner: Arc<Core>,
    pub(crate) sessions: Arc<Sessions>,
    host_check: HostCheck,
    authenticator: Option<Arc<dyn Authenticator>>,
    rates: RateLimits,
    in_flight: Arc<InFlight>,
    bodies: BodyReader,
    body_timeout: Duration,
    /// How long a POST waits for its answer before it becomes a stream.
    pub(crate) patience: Duration,
    keep_alive: Option<KeepAlive>,
    retry: Duration,
    /// Cancelled when the server ends and the drain time is over.
    overdue: CancellationToken,
}

impl HttpState {
    /// # Errors
    ///
    /// If a host or an origin in the options is none.
    pub(crate) fn new(inner: &Arc<Core>, options: &HttpOptions) -> io::Result<Arc<Self>> {
        let wrong =
            |names: Vec<String>| io::Error::new(io::ErrorKind::InvalidInput, names.join("; "));
        Ok(Arc::new(Self {
            inner: Arc::clone(inner),
            sessions: Sessions::new(inner, options),
            host_check: options.hosts.host_check().map_err(wrong)?,
            authenticator: options.authenticator.clone(),
            rates: RateLimits::new(options.rates, inner.clock.now()),
            in_flight: InFlight::new(Bounds {
                at_work: options.in_flight,
                waiting: options.waiting,
                per_principal: options.in_flight_per_principal,
            }),
            bodies: BodyReader::new(inner.limits.bytes, options.body_memory),
            body_timeout: options.body_timeout,
            patience: options.patience,
            keep_alive: KeepAlive::new(&inner.clock, options.keep_alive),
            retry: options.retry,
            overdue: CancellationToken::new(),
        }))
    }

    /// Whether the request may come in, and on whose behalf.
    pub(crate) async fn admit(
        &self,
        parts: &Parts,
        headers: &KnownHeaders<'_>,
    ) -> Result<Principal, ErrorResponse> {
        self.host_check
            .check(&parts.uri, headers)
            .map_err(|refusal| response::refused(&refusal))?;
        let principal = match &self.authenticator {
            None => Principal::anonymous(),
            Some(authenticator) => authenticator
                .authenticate(parts)
                .await
                .map_err(|denied| response::denied(&denied))?,
        };
        self.rates
            .check(&principal, self.inner.clock.now())
            .map_err(|refusal| response::exceeded(&refusal))?;
        Ok(principal)
    }

    /// The origin of the page that sends a request, if it may come in.
    pub(crate) fn page_origin<'a>(&self, parts: &'a Parts) -> Option<&'a HeaderValue> {
        let origin = parts.headers.get(header::ORIGIN)?;
        let headers = KnownHeaders::read(&parts.headers);
        let checked = self.host_check.check(&parts.uri, &headers);
        checked.is_ok().then_some(origin)
    }

    /// Counts a request whose body has come.
    pub(crate) fn enter(&self, client: &Client) -> Result<Arc<Slot>, ErrorResponse> {
        let entered = self.in_flight.enter(client.quota_owner());
        entered.map_err(|refusal| response::refused(&refusal))
    }

    /// Does the work, unless it takes too long.
    pub(crate) async fn within<T>(
        &self,
        time: Duration,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        let clock = &*self.inner.clock;
        tokio::select! {
            biased;
            done = work => Some(done),
            () = clock.sleep_until(clock.now() + time) => None,
        }
    }

    /// Reads the whole body, within bounds of size and time.
    pub(crate) async fn read<B>(&self, client: &Client, body: B) -> Result<BodyBytes, ErrorResponse>
    where
        B: Body<Data: AsRef<[u8]>> + Unpin,
    {
        let memory = self.bodies.memory_of(client.quota_owner());
        // Mostly it has come with the headers, and no timer is needed.
        let mut reading = pin!(self.bodies.read(&memory, body));
        let read = match reading.as_mut().now_or_never() {
            Some(read) => Some(read),
            None => self.within(self.body_timeout, reading).await,
        };
        let refusal = match read {
            Some(Ok(bytes)) => return Ok(bytes),
            Some(Err(BodyError::TooLarge)) => Malformed::too_large(&self.inner.limits).refusal,
            Some(Err(BodyError::NoRoom)) => Refusal::new(Code::QueueByteCapExceeded)
                .because("the messages that are being read and worked on are too large together"),
            Some(Err(BodyError::Broken)) => {
                Refusal::new(Code::ProtocolError).because("the body could not be read")
            }
            None => {
                let refusal =
                    Refusal::new(Code::Timeout).because("the body took too long to arrive");
                let status = StatusCode::REQUEST_TIMEOUT;
                return Err(response::with_status(status, &ErrorId::Absent, &refusal));
            }
        };
        Err(response::refused(&refusal))
    }

    /// What all event streams have in common.
    pub(crate) fn stream_options(&self) -> EventStreamOptions {
        EventStreamOptions {
            retry: self.retry,
            keep_alive: self.keep_alive.clone(),
            ..EventStreamOptions::default()
        }
    }

    /// Completes when the server ends and the drain time is over.
    pub(crate) async fn overdue(&self) {
        self.overdue.cancelled().await;
    }

    /// The server ends: what is in flight is given the drain time.
    pub(crate) async fn close(self: Arc<Self>) {
        self.inner.subscribers.end_streams();
        let clock = &*self.inner.clock;
        let late = clock.sleep_until(clock.now() + self.inner.rules.drain);
        let overdue = self.overdue.clone();
        tokio::spawn(async move {
            late.await;
            overdue.cancel();
        });
        self.sessions.close().await;
    }
}
