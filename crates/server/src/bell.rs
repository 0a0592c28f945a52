//! What somebody rings and one task hears.

use futures_util::task::AtomicWaker;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake},
};

/// What anybody can ring, and one [`Ear`] hears.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    rung: AtomicBool,
    task: AtomicWaker,
}

impl Bell {
    pub(crate) fn ring(&self) {
        // In this order: who looks after it was woken finds it rung.
        self.rung.store(true, Ordering::Release);
        self.task.wake();
    }
}

/// The one who hears a bell.
#[derive(Debug)]
pub(crate) struct Ear(Arc<Bell>);

impl Ear {
    /// Nobody else must listen to this bell.
    pub(crate) const fn of(bell: Arc<Bell>) -> Self {
        Self(bell)
    }

    /// Whether it has been rung since it was heard last. If not, whoever asks is woken when it is.
    pub(crate) fn hears(&mut self, context: &Context<'_>) -> bool {
        // Before looking, so that no ringing in between is missed.
        self.0.task.register(context.waker());
        let rung = &self.0.rung;
        rung.load(Ordering::Acquire) && rung.swap(false, Ordering::AcqRel)
    }

    /// Completes when it hears something.
    pub(crate) async fn heard(&mut self) {
        std::future::poll_fn(|context| match self.hears(context) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await;
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.ring();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ring();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn what_was_rung_is_heard_once() {
        let bell = Arc::<Bell>::default();
        let mut ear = Ear::of(Arc::clone(&bell));
        assert!(ear.heard().now_or_never().is_none());
        bell.ring();
        bell.ring();
        assert!(ear.heard().now_or_never().is_some());
        assert!(ear.heard().now_or_never().is_none());
    }

    /// Two threads, so that it rings whenever it likes: between a look and the sleep after it, too.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn no_ringing_is_missed() {
        const TIMES: usize = 20_000;
        let (bell, back) = (Arc::<Bell>::default(), Arc::<Bell>::default());
        let echo = tokio::spawn({
            let (mut ear, back) = (Ear::of(Arc::clone(&bell)), Arc::clone(&back));
            async move {
                for _ in 0..TIMES {
                    ear.heard().await;
                    back.ring();
                }
            }
        });
        let mut ear = Ear::of(back);
        let rings = async {
            for _ in 0..TIMES {
                bell.ring();
                ear.heard().await;
            }
        };
        let patience = std::time::Duration::from_secs(60);
        let in_time = tokio::time::timeout(patience, rings).await;
        assert!(in_time.is_ok(), "somebody was not woken");
        echo.await.unwrap();
    }

    #[tokio::test]
    async fn whoever_listened_last_is_woken() {
        let bell = Arc::<Bell>::default();
        let mut ear = Ear::of(Arc::clone(&bell));
        assert!(ear.heard().now_or_never().is_none());
        let task = tokio::spawn(async move { ear.heard().await });
        tokio::task::yield_now().await;
        bell.ring();
        task.await.unwrap();
    }
}
