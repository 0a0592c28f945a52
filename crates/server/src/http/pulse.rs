//! Whether a connection is in use, and since when it is not.
//!
//! Hyper would set a timer for each request; here one for each connection does, which asks when it
//! rings. So a request costs two counts and a look at the clock.

use super::serve::ServeOptions;
use http::Version;
use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::{
        Arc,
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

/// Whether a connection is in use.
#[derive(Debug)]
pub(super) struct Pulse {
    opened: Instant,
    running: AtomicUsize,
    /// How long after the opening a request ended, or the client took something of what it had to
    /// be waited for, in microseconds.
    rested: AtomicU64,
    /// The client does not take what it is sent.
    stuck: AtomicBool,
    /// Known from its first request on.
    http2: AtomicBool,
}

impl Pulse {
    pub(super) fn new() -> Self {
        Self {
            opened: Instant::now(),
            running: AtomicUsize::new(0),
            rested: AtomicU64::new(0),
            stuck: AtomicBool::new(false),
            http2: AtomicBool::new(false),
        }
    }

    pub(super) fn begin(this: &Arc<Self>, version: Version) -> Running {
        this.running.fetch_add(1, Ordering::AcqRel);
        if version == Version::HTTP_2 {
            this.http2.store(true, Ordering::Relaxed);
        }
        Running(Arc::clone(this))
    }

    fn rest(&self) {
        let rested = self.opened.elapsed().as_micros();
        let rested = u64::try_from(rested).unwrap_or(u64::MAX);
        self.rested.store(rested, Ordering::Relaxed);
    }

    /// Something was to be written: whether the client took any of it.
    fn wrote(&self, taken: bool) {
        if self.stuck.load(Ordering::Relaxed) == taken {
            self.rest();
            self.stuck.store(!taken, Ordering::Release);
        }
    }

    fn is_http2(&self) -> bool {
        self.http2.load(Ordering::Relaxed)
    }

    /// When the client has to do something; never while it is the server's turn. The first request
    /// has to come as soon on HTTP/2: nobody else bounds how long a client takes to say which one
    /// it speaks.
    fn due(&self, options: &ServeOptions) -> Option<Instant> {
        let stuck = self.stuck.load(Ordering::Acquire);
        if self.running.load(Ordering::Acquire) > 0 && !stuck {
            return None;
        }
        let patience = if stuck || self.is_http2() {
            options.idle_timeout
        } else {
            options.header_timeout
        };
        let rested = Duration::from_micros(self.rested.load(Ordering::Relaxed));
        self.opened.checked_add(rested.saturating_add(patience))
    }

    /// The client is overdue, and nothing is to be said to it in parting: it takes nothing, or is
    /// in the middle of its headers, with which HTTP/1 would let it go on.
    pub(super) fn is_lost(&self, options: &ServeOptions) -> bool {
        let idle = self.is_http2() && !self.stuck.load(Ordering::Relaxed);
        let due = self.due(options);
        !idle && due.is_some_and(|due| due <= Instant::now())
    }

    /// Waits until the client is overdue.
    pub(super) async fn stops(&self, options: &ServeOptions) {
        loop {
            match self.due(options) {
                Some(due) if due <= Instant::now() => return,
                Some(due) => sleep_until(due).await,
                // Should the server's turn end right now, the client's does not end before.
                None => sleep(options.header_timeout.min(options.idle_timeout)).await,
            }
        }
    }

    /// Waits for at least this time, and until no request is running.
    pub(super) async fn rests(&self, wait: Duration) {
        loop {
            sleep(wait).await;
            if self.running.load(Ordering::Relaxed) == 0 {
                return;
            }
        }
    }
}

/// A request from its arrival to the end of its response.
pub(super) struct Running(Arc<Pulse>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.rest();
        self.0.running.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The line to a client, which feels whether the client takes what it is sent.
#[derive(Debug)]
pub(super) struct Line {
    stream: TcpStream,
    pulse: Arc<Pulse>,
}

impl Line {
    pub(super) const fn new(stream: TcpStream, pulse: Arc<Pulse>) -> Self {
        Self { stream, pulse }
    }
}

impl AsyncRead for Line {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl AsyncWrite for Line {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.pulse.wrote(written.is_ready());
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.pulse.wrote(written.is_ready());
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
