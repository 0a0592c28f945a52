//! A future that is looked at only when it has something to say.
//!
//! Beside one that is looked at all the time, a timer or a signal would be looked at as often, and
//! for nothing.

use crate::bell::{Bell, Ear};
use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

/// A future that is polled only if it has woken its task.
#[derive(Debug)]
pub(crate) struct Seldom<F> {
    future: F,
    ear: Ear,
    waker: Waker,
}

impl<F: Future + Unpin> Seldom<F> {
    pub(crate) fn new(future: F) -> Self {
        let bell = Arc::new(Bell::default());
        // It has to be looked at once.
        bell.ring();
        let waker = Arc::clone(&bell).into();
        Self {
            future,
            ear: Ear::of(bell),
            waker,
        }
    }
}

impl<F: Future + Unpin> Future for Seldom<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.get_mut();
        if !this.ear.hears(cx) {
            return Poll::Pending;
        }
        Pin::new(&mut this.future).poll(&mut Context::from_waker(&this.waker))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use std::{
        future::poll_fn,
        sync::atomic::{AtomicUsize, Ordering},
    };
    use tokio::sync::Notify;

    #[test]
    fn it_is_looked_at_once_and_then_only_when_it_rings() {
        let looks = AtomicUsize::new(0);
        let told = Notify::new();
        let mut waits = Box::pin(told.notified());
        let mut seldom = Seldom::new(poll_fn(|cx| {
            looks.fetch_add(1, Ordering::Relaxed);
            waits.as_mut().poll(cx)
        }));
        for _ in 0..3 {
            assert!((&mut seldom).now_or_never().is_none());
        }
        assert_eq!(looks.load(Ordering::Relaxed), 1);
        told.notify_one();
        assert!((&mut seldom).now_or_never().is_some());
        assert_eq!(looks.load(Ordering::Relaxed), 2);
    }

    #[tokio::test]
    async fn it_wakes_its_task() {
        let told = Arc::new(Notify::new());
        let heard = Arc::clone(&told);
        let waits = Box::pin(async move { heard.notified().await });
        let task = tokio::spawn(Seldom::new(waits));
        tokio::task::yield_now().await;
        told.notify_one();
        task.await.unwrap();
    }

    #[tokio::test]
    async fn it_wakes_its_task_as_often_as_it_rings() {
        let told = Arc::new(Notify::new());
        let heard = Arc::clone(&told);
        let (say, mut said) = tokio::sync::mpsc::unbounded_channel();
        let waits = Box::pin(async move {
            for turn in 0..3 {
                heard.notified().await;
                say.send(turn).unwrap();
            }
        });
        let task = tokio::spawn(Seldom::new(waits));
        for turn in 0..3 {
            told.notify_one();
            assert_eq!(said.recv().await, Some(turn));
        }
        task.await.unwrap();
    }

    #[tokio::test]
    async fn it_wakes_the_task_that_looked_last() {
        let told = Arc::new(Notify::new());
        let heard = Arc::clone(&told);
        let mut seldom = Seldom::new(Box::pin(async move { heard.notified().await }));
        assert!((&mut seldom).now_or_never().is_none());
        let task = tokio::spawn(seldom);
        tokio::task::yield_now().await;
        told.notify_one();
        task.await.unwrap();
    }
}
