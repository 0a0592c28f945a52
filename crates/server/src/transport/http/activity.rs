//! Whether a connection is in use, and since when it is not.
//!
//! Hyper would set a timer for each request. Here one timer for each connection checks the activity
//! when it fires, so a request costs two counts and a look at the clock.

use crate::transport::http::{
    response_progress::{MonitoredBody, UnderWay},
    serve::ServeOptions,
};
use http::Version;
use hyper::body::Body;
use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::{Instant, sleep, sleep_until},
};

/// What happens on a connection.
pub(super) struct Activity {
    opened: Instant,
    requests: AtomicUsize,
    /// When a request last ended, or a blocked client last read something: in microseconds after
    /// the opening.
    last_active: AtomicU64,
    /// The client does not read what it is sent.
    blocked: AtomicBool,
    /// Known from its first request on.
    http2: AtomicBool,
    /// Responses that may be under way. Those that have ended are removed now and then.
    responses: Mutex<Vec<Weak<dyn UnderWay>>>,
}

/// When so many responses are known, those that have ended are removed.
const RESPONSES: usize = 64;

impl Activity {
    pub(super) fn new() -> Self {
        Self {
            opened: Instant::now(),
            requests: AtomicUsize::new(0),
            last_active: AtomicU64::new(0),
            blocked: AtomicBool::new(false),
            http2: AtomicBool::new(false),
            responses: Mutex::default(),
        }
    }

    pub(super) fn begin(this: &Arc<Self>, version: Version) -> ActiveRequest {
        this.requests.fetch_add(1, Ordering::AcqRel);
        if version == Version::HTTP_2 {
            this.http2.store(true, Ordering::Relaxed);
        }
        ActiveRequest(Arc::clone(this))
    }

    fn add_response(&self, response: Weak<dyn UnderWay>) {
        let mut responses = self.lock_responses();
        if responses.len() >= RESPONSES && responses.len() == responses.capacity() {
            responses.retain(|response| response.strong_count() > 0);
        }
        responses.push(response);
    }

    /// Drops the responses of which the client takes nothing.
    fn drop_stalled(&self, limit: Duration) {
        let mut responses = self.lock_responses();
        responses.retain(|response| response.strong_count() > 0);
        let under_way = responses.clone();
        drop(responses);
        for response in under_way.iter().filter_map(Weak::upgrade) {
            response.drop_if_stalled(limit);
        }
    }

    fn lock_responses(&self) -> MutexGuard<'_, Vec<Weak<dyn UnderWay>>> {
        self.responses
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn touch(&self) {
        let last_active = self.opened.elapsed().as_micros();
        let last_active = u64::try_from(last_active).unwrap_or(u64::MAX);
        self.last_active.store(last_active, Ordering::Relaxed);
    }

    /// Something was to be written; `accepted` if the socket took any of it.
    fn record_write(&self, accepted: bool) {
        if self.blocked.load(Ordering::Relaxed) == accepted {
            self.touch();
            self.blocked.store(!accepted, Ordering::Release);
        }
    }

    fn is_http2(&self) -> bool {
        self.http2.load(Ordering::Relaxed)
    }

    /// When the client has to have done something; never while it is the server's turn. The header
    /// timeout also holds for the first request on HTTP/2, because nothing else bounds how long a
    /// client takes to say which protocol it speaks.
    fn due(&self, options: &ServeOptions) -> Option<Instant> {
        let blocked = self.blocked.load(Ordering::Acquire);
        if self.requests.load(Ordering::Acquire) > 0 && !blocked {
            return None;
        }
        let timeout = if blocked || self.is_http2() {
            options.idle_timeout
        } else {
            options.header_timeout
        };
        let last_active = Duration::from_micros(self.last_active.load(Ordering::Relaxed));
        self.opened.checked_add(last_active.saturating_add(timeout))
    }

    /// Whether the client is overdue and a graceful shutdown is of no use: it reads nothing, or is
    /// in the middle of its headers, for which HTTP/1 would wait.
    pub(super) fn is_unresponsive(&self, options: &ServeOptions) -> bool {
        let idle = self.is_http2() && !self.blocked.load(Ordering::Relaxed);
        let due = self.due(options);
        !idle && due.is_some_and(|due| due <= Instant::now())
    }

    /// Waits until the client is overdue. Drops stalled responses meanwhile.
    pub(super) async fn overdue(&self, options: &ServeOptions) {
        loop {
            self.drop_stalled(options.idle_timeout);
            match self.due(options) {
                Some(due) if due <= Instant::now() => return,
                Some(due) => sleep_until(due).await,
                // Even if the server's turn ends right now, the client is not overdue before.
                None => sleep(options.header_timeout.min(options.idle_timeout)).await,
            }
        }
    }

    /// Waits for at least this time, and until no request runs.
    pub(super) async fn finished(&self, wait: Duration) {
        loop {
            sleep(wait).await;
            if self.requests.load(Ordering::Relaxed) == 0 {
                return;
            }
        }
    }
}

/// A request from its arrival to the end of its response.
pub(super) struct ActiveRequest(Arc<Activity>);

impl ActiveRequest {
    /// The request is active until its response is dropped.
    pub(super) fn respond<B: Body + Unpin + Send + 'static>(self, body: B) -> MonitoredBody<B> {
        let activity = Arc::clone(&self.0);
        let body = MonitoredBody::new(body, self);
        activity.add_response(body.under_way());
        body
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        self.0.touch();
        self.0.requests.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The connection to a client, which records whether the client reads what it is sent.
pub(super) struct MonitoredStream {
    stream: TcpStream,
    activity: Arc<Activity>,
}

impl MonitoredStream {
    pub(super) const fn new(stream: TcpStream, activity: Arc<Activity>) -> Self {
        Self { stream, activity }
    }
}

impl AsyncRead for MonitoredStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl AsyncWrite for MonitoredStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.activity.record_write(written.is_ready());
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.activity.record_write(written.is_ready());
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
