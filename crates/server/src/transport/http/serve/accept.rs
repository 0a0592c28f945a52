//! Accepts connections, as many as there are places for.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::sleep,
};

/// The pause after an accept that failed, at first and at most.
const PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Where connections come from.
pub(super) trait Accept {
    fn accept(&self) -> impl Future<Output = io::Result<(TcpStream, SocketAddr)>> + Send;
}

impl Accept for TcpListener {
    fn accept(&self) -> impl Future<Output = io::Result<(TcpStream, SocketAddr)>> + Send {
        Self::accept(self)
    }
}

/// Accepts connections while there is a place for another.
pub(super) struct Acceptor<L> {
    listener: L,
    places: Arc<Semaphore>,
    /// How often in a row accepting has failed.
    failures: u32,
}

/// A connection that was accepted.
pub(super) struct Accepted {
    pub(super) stream: TcpStream,
    pub(super) remote: SocketAddr,
    /// Given back when the connection is closed.
    _place: OwnedSemaphorePermit,
}

impl<L: Accept> Acceptor<L> {
    pub(super) fn new(listener: L, places: usize) -> Self {
        Self {
            listener,
            places: Arc::new(Semaphore::new(places.clamp(1, Semaphore::MAX_PERMITS))),
            failures: 0,
        }
    }

    /// The next connection. Cancel safe. A caller that calls again after a connection was closed
    /// cuts a pause short, which is right: there may be a free descriptor now.
    pub(super) async fn next(&mut self) -> io::Result<Accepted> {
        loop {
            let place = Arc::clone(&self.places).acquire_owned().await;
            let place = place.expect("the semaphore is never closed");
            match self.listener.accept().await {
                Ok((stream, remote)) => {
                    self.failures = 0;
                    return Ok(Accepted {
                        stream,
                        remote,
                        _place: place,
                    });
                }
                Err(error) => match Reaction::to(&error) {
                    Reaction::Retry => {}
                    Reaction::Pause => {
                        tracing::warn!(%error, "no connection could be accepted");
                        let pause = pause(self.failures);
                        self.failures = self.failures.saturating_add(1);
                        sleep(pause).await;
                    }
                    Reaction::Fail => return Err(error),
                },
            }
        }
    }
}

/// What to do about an accept that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reaction {
    /// That connection was closed before it was accepted.
    Retry,
    /// Descriptors or memory ran out; a moment later there may be some.
    Pause,
    /// This is no listener, and will not become one.
    Fail,
}

impl Reaction {
    pub(super) fn to(error: &io::Error) -> Self {
        use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, InvalidInput};
        let kind = error.kind();
        if [ConnectionRefused, ConnectionAborted, ConnectionReset].contains(&kind) {
            Self::Retry
        } else if kind == InvalidInput {
            Self::Fail
        } else {
            Self::Pause
        }
    }
}

pub(super) fn pause(failures: u32) -> Duration {
    PAUSE
        .saturating_mul(2_u32.saturating_pow(failures))
        .min(LONGEST_PAUSE)
}
