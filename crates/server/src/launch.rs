//! How a call is set going, and how the end of those is waited for that nobody else waits for.

use crate::{
    call::{Line, Running, Start, quietly},
    convert::{Answer, No},
    signal::Signals,
};
use futures_util::{FutureExt, future::BoxFuture};
use interlock_proto::{Code, Refusal};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, atomic::AtomicUsize, atomic::Ordering},
};
use tokio::sync::Notify;

/// What is left of a call that has to wait. Whoever gets it runs it as a task.
pub(crate) type Rest = BoxFuture<'static, ()>;

/// How a call has begun.
pub(crate) enum Launched {
    /// It did not have to wait, and this is said in the end.
    Ended(Option<Answer>),
    /// It has to wait.
    Waits(Rest),
    /// It had to wait, but nothing is left of it.
    Gone,
}

/// Begins a call.
///
/// Of one that has to wait, `waits` gets to know. It says where the call hears from its connection,
/// and who hears what is said in the end; or that it is not wanted any more, and then nothing is.
pub(crate) fn launch<Done: FnOnce(Option<Answer>) + Send + 'static>(
    start: Start,
    line: Line,
    waits: impl FnOnce() -> Option<(Signals, Done)>,
) -> Launched {
    let mut call = Running::new(start, line);
    let begun = catch_unwind(AssertUnwindSafe(|| call.begin()));
    if !matches!(begun, Ok(false)) {
        let mut said = call.said();
        // What a handler leaves behind may panic when it is cleaned up.
        let ended = catch_unwind(AssertUnwindSafe(|| call.let_go()));
        for payload in [begun.err(), ended.err()].into_iter().flatten() {
            quietly(|| drop(payload));
            said = Some(broken());
        }
        return Launched::Ended(said);
    }
    let counted = call.inner().calls.begin();
    let Some((signals, done)) = waits() else {
        return Launched::Gone;
    };
    call.settle_in(signals);
    let stands_in_line = call.stands_in_line();
    let mut rest = Box::pin(async move {
        let ended = AssertUnwindSafe(call.run()).catch_unwind().await;
        done(ended.unwrap_or_else(|_| Some(broken())));
        drop(counted);
    });
    // Without the runtime's rationing: a call that has to wait must at least get in line now, or
    // the calls behind it would overtake it.
    if stands_in_line
        && tokio::task::unconstrained(rest.as_mut())
            .now_or_never()
            .is_some()
    {
        return Launched::Gone;
    }
    Launched::Waits(rest)
}

/// What is said for a call whose own loop has panicked.
fn broken() -> Answer {
    No::from(Refusal::new(Code::InternalError)).into()
}

/// What runs on tasks that nobody joins: calls that wait for something, and requests over HTTP. A
/// call that need not wait is over when whatever it came in by is.
#[derive(Debug, Default)]
pub(crate) struct Calls(Arc<Count>);

#[derive(Debug, Default)]
struct Count {
    running: AtomicUsize,
    /// How many wait for the end of all.
    waiting: AtomicUsize,
    /// The last one has ended.
    none: Notify,
}

/// One of them, until it is dropped.
#[derive(Debug)]
pub(crate) struct Counted(Arc<Count>);

impl Calls {
    pub(crate) fn begin(&self) -> Counted {
        self.0.running.fetch_add(1, Ordering::SeqCst);
        Counted(Arc::clone(&self.0))
    }

    /// Completes when none of them runs. By then their handlers have let go of what they had.
    pub(crate) async fn ended(&self) {
        // Either this sees the last one end, or the last one sees that somebody waits.
        self.0.waiting.fetch_add(1, Ordering::SeqCst);
        let _waits = Waits(&self.0);
        loop {
            let none = self.0.none.notified();
            if self.0.running.load(Ordering::SeqCst) == 0 {
                return;
            }
            none.await;
        }
    }
}

impl Count {
    fn end(&self) {
        if self.running.fetch_sub(1, Ordering::SeqCst) == 1
            && self.waiting.load(Ordering::SeqCst) > 0
        {
            self.none.notify_waiters();
        }
    }
}

/// One who waits for the end of all calls, until it is dropped.
struct Waits<'a>(&'a Count);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.end();
    }
}

#[cfg(test)]
mod tests {
    use super::Calls;
    use futures_util::FutureExt;

    #[test]
    fn the_end_of_all_calls_is_the_end_of_the_last() {
        let calls = Calls::default();
        assert!(calls.ended().now_or_never().is_some());
        let (one, other) = (calls.begin(), calls.begin());
        let mut ended = Box::pin(calls.ended());
        assert!(ended.as_mut().now_or_never().is_none());
        drop(other);
        assert!(ended.as_mut().now_or_never().is_none());
        drop(one);
        assert!(ended.as_mut().now_or_never().is_some());
    }
}
