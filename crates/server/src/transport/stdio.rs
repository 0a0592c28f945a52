//! Standard input and output, and the signals that end a process.

use crate::{driver, server::Inner};
use std::{io, sync::Arc};

/// Serves the client on standard input and output.
pub(crate) async fn serve(inner: Arc<Inner>) -> io::Result<()> {
    let mut signals = Signals::new()?;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let client = driver::run(inner, tokio::io::stdin(), tokio::io::stdout(), async {
        if stopped.await.is_err() {
            std::future::pending::<()>().await;
        }
    });
    let mut client = std::pin::pin!(client);
    tokio::select! {
        served = &mut client => return served,
        () = signals.next() => tracing::info!("draining"),
    }
    let _ = stop.send(());
    tokio::select! {
        served = client => served,
        () = signals.next() => Err(io::Error::from(io::ErrorKind::Interrupted)),
    }
}

#[cfg(unix)]
struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self)
    }

    async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
