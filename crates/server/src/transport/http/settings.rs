//! How a server is served over HTTP.

use crate::{
    api::auth::Authenticator, core::rates::Rates, transport::http::host_check::AllowedHosts,
};
use interlock_proto::session;
use std::{fmt, sync::Arc, time::Duration};

/// How a server is served over HTTP. The defaults are safe for a server on this machine.
///
/// ```
/// use interlock::{AllowedHosts, BearerTokens, HttpOptions};
///
/// let options = HttpOptions::default()
///     .authenticator(BearerTokens::new().token("a-long-secret", "alice"))
///     .hosts(AllowedHosts::new().allow_host("mcp.example.com"));
/// # let _ = options;
/// ```
#[derive(Clone)]
#[must_use]
pub struct HttpOptions {
    pub(crate) path: String,
    pub(crate) hosts: AllowedHosts,
    pub(crate) authenticator: Option<Arc<dyn Authenticator>>,
    pub(crate) rates: Rates,
    pub(crate) session: session::Rules,
    pub(crate) sessions: usize,
    sessions_per_principal: Option<usize>,
    pub(crate) in_flight: usize,
    pub(crate) in_flight_per_principal: usize,
    pub(crate) waiting: usize,
    pub(crate) body_memory: usize,
    pub(crate) replay_memory: usize,
    pub(crate) patience: Duration,
    pub(crate) keep_alive: Duration,
    pub(crate) retry: Duration,
    pub(crate) idle_stream: Duration,
    pub(crate) header_timeout: Duration,
    pub(crate) body_timeout: Duration,
    pub(crate) connections: usize,
    pub(crate) legacy: bool,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            path: "/mcp".to_owned(),
            hosts: AllowedHosts::new(),
            authenticator: None,
            rates: Rates::default(),
            session: session::Rules::default(),
            sessions: 10_000,
            sessions_per_principal: None,
            in_flight: 10_000,
            in_flight_per_principal: 1_000,
            waiting: 10_000,
            body_memory: 256 * 1024 * 1024,
            replay_memory: 256 * 1024 * 1024,
            patience: Duration::from_secs(3),
            keep_alive: Duration::from_secs(15),
            retry: Duration::from_secs(1),
            idle_stream: Duration::from_secs(5 * 60),
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
            connections: 10_000,
            legacy: false,
        }
    }
}

impl HttpOptions {
    /// The path of the endpoint. Default: `/mcp`.
    pub fn path(mut self, path: impl Into<String>) -> Self {
        self.path = path.into();
        self
    }

    /// Decides which clients may come in, and as which principal. Without one, all clients are the
    /// same anonymous principal.
    pub fn authenticator(mut self, authenticator: impl Authenticator) -> Self {
        self.authenticator = Some(Arc::new(authenticator));
        self
    }

    /// By which names the server may be addressed, and pages of which web origins may use it.
    /// Default: only those of this machine.
    pub fn hosts(mut self, hosts: AllowedHosts) -> Self {
        self.hosts = hosts;
        self
    }

    /// How many requests a principal may send, of whatever kind. Anonymous clients count together.
    /// Default: any number. Calls have rates of their own: see
    /// [`Builder::call_rates`](crate::Builder::call_rates).
    pub const fn rates(mut self, rates: Rates) -> Self {
        self.rates = rates;
        self
    }

    /// How long sessions live, and how much they may do at once.
    pub const fn session(mut self, rules: session::Rules) -> Self {
        self.session = rules;
        self
    }

    /// How many sessions there may be. Default: 10,000. When there are so many, a new one takes the
    /// place of the one that was used least recently, if that is not in use. One address of anonymous
    /// clients leaves a quarter of them to others.
    pub const fn sessions(mut self, most: usize) -> Self {
        self.sessions = most;
        self
    }

    /// How many sessions a principal may have. Default: 1,000; without an authenticator, where all
    /// clients are the same principal, as many as there may be.
    pub const fn sessions_per_principal(mut self, most: usize) -> Self {
        self.sessions_per_principal = Some(most);
        self
    }

    pub(crate) fn most_per_principal(&self) -> usize {
        let default = match self.authenticator {
            Some(_) => 1_000,
            None => self.sessions,
        };
        self.sessions_per_principal.unwrap_or(default)
    }

    /// How many POST requests may be in flight in all, from the end of the body until the answer is
    /// read. Default: 10,000.
    ///
    /// One address of anonymous clients leaves a quarter of them to others.
    pub const fn in_flight(mut self, most: usize) -> Self {
        self.in_flight = most;
        self
    }

    /// How many calls may wait for a person, or go on without a client that reads their answer.
    /// Default: 10,000. They are not in flight; one for which there is no room stays in flight.
    ///
    /// The shares are those of [`in_flight`](Self::in_flight), and
    /// [`max_running`](session::Rules::max_running) of its session bounds each.
    pub const fn waiting(mut self, most: usize) -> Self {
        self.waiting = most;
        self
    }

    /// How many requests in flight, and how many calls that wait, may be one principal's.
    /// Default: 1,000.
    pub const fn in_flight_per_principal(mut self, most: usize) -> Self {
        self.in_flight_per_principal = most;
        self
    }

    /// How many bytes the bodies of requests may have together until their calls are over, and those
    /// of responses until they are read. Default: 256 MiB. A body for which there is no room is refused with 429. An eighth is for
    /// bodies of up to 64 KiB alone, and every client leaves a quarter to others.
    pub const fn body_memory(mut self, bytes: usize) -> Self {
        self.body_memory = bytes;
        self
    }

    /// How many bytes all sessions may keep together for clients that come back for what they have
    /// missed. Default: 256 MiB. When it is more, what was kept for longest is dropped.
    pub const fn replay_memory(mut self, bytes: usize) -> Self {
        self.replay_memory = bytes;
        self
    }

    /// How long a POST waits for its answer before it becomes a stream. Default: 3 seconds.
    pub const fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// After how long without a message a comment is sent on a stream, to keep its connection open.
    /// Default: 15 seconds. Zero: never.
    pub const fn keep_alive(mut self, every: Duration) -> Self {
        self.keep_alive = every;
        self
    }

    /// How long a client should wait before it resumes a stream. Default: 1 second.
    pub const fn retry(mut self, after: Duration) -> Self {
        self.retry = after;
        self
    }

    /// After how long without a message a GET stream is closed, which its client may resume.
    /// Default: 5 minutes.
    pub const fn idle_stream(mut self, after: Duration) -> Self {
        self.idle_stream = after;
        self
    }

    /// How long a client may take to send the headers and the body of a request. Default: 10 and 30
    /// seconds.
    pub const fn request_timeouts(mut self, headers: Duration, body: Duration) -> Self {
        self.header_timeout = headers;
        self.body_timeout = body;
        self
    }

    /// How many connections may be open; further ones wait. Default: 10,000.
    pub const fn connections(mut self, most: usize) -> Self {
        self.connections = most;
        self
    }

    /// Serves the transport of 2024-11-05 as well: `GET /sse` and `POST /messages`.
    pub const fn legacy_sse(mut self, yes: bool) -> Self {
        self.legacy = yes;
        self
    }
}

impl fmt::Debug for HttpOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpOptions")
            .field("path", &self.path)
            .field("authenticated", &self.authenticator.is_some())
            .finish_non_exhaustive()
    }
}
