//! Whether the client takes what a response gives.
//!
//! On HTTP/2 each response has a window of its own, and a client that opens none keeps it for ever,
//! however lively its connection is. So a response that nothing was taken of for too long is
//! dropped, and with it all that it holds.

use crate::transport::http::activity::ActiveRequest;
use hyper::body::{Body, Frame, SizeHint};
use std::{
    error::Error,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    task::{Context, Poll},
    time::Duration,
};
use tokio::time::Instant;

/// A response's body, whose request is active until it is dropped.
pub(super) struct MonitoredBody<B>(Arc<Mutex<Progress<B>>>);

struct Progress<B> {
    /// None once it was dropped because nothing was taken of it.
    body: Option<(B, ActiveRequest)>,
    /// Since when it is the client's turn to take something; none while the server has nothing.
    offered: Option<Instant>,
}

/// A response that is under way.
pub(super) trait UnderWay: Send + Sync {
    /// Drops it if nothing was taken of it for so long.
    fn drop_if_stalled(&self, limit: Duration);
}

impl<B: Body + Unpin> MonitoredBody<B> {
    pub(super) fn new(body: B, active: ActiveRequest) -> Self {
        Self(Arc::new(Mutex::new(Progress {
            body: Some((body, active)),
            offered: Some(Instant::now()),
        })))
    }
}

impl<B: Send + 'static> MonitoredBody<B> {
    pub(super) fn under_way(&self) -> Weak<dyn UnderWay> {
        let weak: Weak<Mutex<Progress<B>>> = Arc::downgrade(&self.0);
        weak
    }
}

impl<B: Send> UnderWay for Mutex<Progress<B>> {
    fn drop_if_stalled(&self, limit: Duration) {
        let mut progress = lock(self);
        let stalled = progress
            .offered
            .is_some_and(|since| since.elapsed() >= limit);
        let dropped = if stalled { progress.body.take() } else { None };
        drop(progress);
        if dropped.is_some() {
            tracing::debug!("a response was dropped of which its client takes nothing");
        }
    }
}

impl<B> Body for MonitoredBody<B>
where
    B: Body<Error: Into<Box<dyn Error + Send + Sync>>> + Unpin,
{
    type Data = B::Data;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, Self::Error>>> {
        let mut progress = lock(&self.0);
        let Some((body, _)) = &mut progress.body else {
            return Poll::Ready(Some(Err("nothing was taken of it for too long".into())));
        };
        let polled = Pin::new(body).poll_frame(cx);
        progress.offered = polled.is_ready().then(Instant::now);
        polled.map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        let progress = lock(&self.0);
        progress
            .body
            .as_ref()
            .is_some_and(|(body, _)| body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        let progress = lock(&self.0);
        progress
            .body
            .as_ref()
            .map_or_else(SizeHint::default, |(body, _)| body.size_hint())
    }
}

/// A panic of a body leaves nothing half changed here.
fn lock<B>(progress: &Mutex<Progress<B>>) -> MutexGuard<'_, Progress<B>> {
    progress.lock().unwrap_or_else(PoisonError::into_inner)
}
