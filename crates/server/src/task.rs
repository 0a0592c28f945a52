//! A task that ends with whoever waits for it.

use std::{
    future::Future,
    io,
    pin::Pin,
    task::{Context, Poll},
};
use tokio::task::{JoinError, JoinHandle};

/// A task that is ended when it is dropped.
#[derive(Debug)]
pub(crate) struct Task<T>(pub(crate) JoinHandle<T>);

impl<T> Future for Task<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(task)
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Does it as a task. On a runtime of several threads, a future that somebody blocks on is woken
/// by a thread that waits for input, so that each message would cost a change of threads.
pub(crate) async fn as_task<T: Send + 'static>(
    work: impl Future<Output = io::Result<T>> + Send + 'static,
) -> io::Result<T> {
    match Task(tokio::spawn(work)).await {
        Ok(done) => done,
        Err(ended) => match ended.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(io::Error::other("the runtime has ended")),
        },
    }
}
