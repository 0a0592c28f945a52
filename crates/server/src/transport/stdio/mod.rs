//! Standard input and output, and the signals that end a process.
//!
//! This transport turns lines into messages for one session, and messages into lines. It knows the
//! session, and nothing of workflows.

pub(crate) mod connection;
mod lines;

use crate::core::Core;
use futures_util::future::BoxFuture;
use std::{future::Future, io, sync::Arc};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::task::AbortOnDropHandle;

/// Serves the client on standard input and output.
pub(crate) async fn serve(core: &Arc<Core>) -> io::Result<()> {
    until_signalled(|stop| {
        core.watch_handles();
        let serving = connection::run(Arc::clone(core), input(), output(), stop);
        core.lifespan.around(as_task(serving))
    })
    .await
}

/// Spawns the work. On a runtime of several threads, a future inside `block_on` is woken by the
/// thread that polls for input, so that each message would cost a change of threads.
async fn as_task(work: impl Future<Output = io::Result<()>> + Send + 'static) -> io::Result<()> {
    match AbortOnDropHandle::new(tokio::spawn(work)).await {
        Ok(done) => done,
        Err(ended) => match ended.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(io::Error::other("the runtime has ended")),
        },
    }
}

/// Runs some work until it is done. SIGTERM, SIGINT, SIGHUP or SIGQUIT completes the future that the
/// work is given, so that it can wind up; a second signal drops the work at once.
///
/// ```no_run
/// # async fn run(server: interlock::Server, listener: tokio::net::TcpListener) -> std::io::Result<()> {
/// let options = interlock::HttpOptions::default();
/// interlock::until_signalled(|stop| server.serve_http_until(listener, options, stop)).await
/// # }
/// ```
///
/// # Errors
///
/// If the work fails, or was dropped: then the kind of the error is `Interrupted`.
pub async fn until_signalled<F, W>(work: F) -> io::Result<()>
where
    F: FnOnce(BoxFuture<'static, ()>) -> W,
    W: Future<Output = io::Result<()>>,
{
    let mut signals = ProcessSignals::new()?;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let work = work(Box::pin(async {
        if stopped.await.is_err() {
            std::future::pending::<()>().await;
        }
    }));
    let mut work = std::pin::pin!(work);
    tokio::select! {
        done = &mut work => return done,
        () = signals.next() => tracing::info!("draining"),
    }
    let _ = stop.send(());
    tokio::select! {
        done = work => done,
        () = signals.next() => Err(io::Error::from(io::ErrorKind::Interrupted)),
    }
}

type Input = Box<dyn AsyncRead + Unpin + Send>;
type Output = Box<dyn AsyncWrite + Unpin + Send>;

/// Clients start a server with pipes or sockets, which can be polled. A terminal or a file needs a
/// thread that reads it, and nothing can interrupt that thread.
#[cfg(unix)]
fn input() -> Input {
    use std::os::fd::AsFd;
    let stdin = || io::stdin().as_fd().try_clone_to_owned();
    if let Ok(pipe) = stdin().and_then(tokio::net::unix::pipe::Receiver::from_owned_fd) {
        return Box::new(pipe);
    }
    if let Some(socket) = stdin().ok().and_then(socket) {
        return Box::new(socket);
    }
    Box::new(tokio::io::stdin())
}

#[cfg(unix)]
fn output() -> Output {
    use std::os::fd::AsFd;
    let stdout = || io::stdout().as_fd().try_clone_to_owned();
    if let Ok(pipe) = stdout().and_then(tokio::net::unix::pipe::Sender::from_owned_fd) {
        return Box::new(pipe);
    }
    if let Some(socket) = stdout().ok().and_then(socket) {
        return Box::new(socket);
    }
    Box::new(tokio::io::stdout())
}

#[cfg(unix)]
fn socket(fd: std::os::fd::OwnedFd) -> Option<tokio::net::UnixStream> {
    let stream = std::os::unix::net::UnixStream::from(fd);
    // Only a socket has an address.
    stream.local_addr().ok()?;
    stream.set_nonblocking(true).ok()?;
    tokio::net::UnixStream::from_std(stream).ok()
}

#[cfg(not(unix))]
fn input() -> Input {
    Box::new(tokio::io::stdin())
}

#[cfg(not(unix))]
fn output() -> Output {
    Box::new(tokio::io::stdout())
}

/// The signals that end a process by default. Handled, so that the server can drain first.
#[cfg(unix)]
struct ProcessSignals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
    hangup: tokio::signal::unix::Signal,
    quit: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl ProcessSignals {
    fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
            quit: signal(SignalKind::quit())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            _ = self.hangup.recv() => {}
            _ = self.quit.recv() => {}
        }
    }
}

#[cfg(not(unix))]
struct ProcessSignals;

#[cfg(not(unix))]
impl ProcessSignals {
    fn new() -> io::Result<Self> {
        Ok(Self)
    }

    async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
