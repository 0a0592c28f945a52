//! A tool that says when it starts and waits until it is let go.

use interlock::{Context, Failure, NoArguments, Tool};
use interlock_testkit::PATIENCE;
use std::sync::Arc;
use tokio::sync::{Semaphore, mpsc};

/// What a held tool does when its call is taken back.
#[derive(Clone, Copy)]
pub(crate) enum OnCancel {
    /// It takes no notice.
    GoesOn,
    /// It stops and says so.
    Stops,
}

/// The other end of a tool that says when it starts and waits until it is let go.
pub(crate) struct Held {
    started: mpsc::UnboundedReceiver<()>,
    stopped: mpsc::UnboundedReceiver<()>,
    go: Arc<Semaphore>,
}

impl Held {
    /// Waits until one more call has started.
    pub(crate) async fn started(&mut self) {
        let started = tokio::time::timeout(PATIENCE, self.started.recv()).await;
        started.expect("a call must start").unwrap();
    }

    /// Waits until one more call has heard that it was taken back, and stops.
    pub(crate) async fn stopped(&mut self) {
        let stopped = tokio::time::timeout(PATIENCE, self.stopped.recv()).await;
        stopped.expect("a call must stop").unwrap();
    }

    /// Whether every call that has started was waited for.
    pub(crate) fn is_quiet(&mut self) -> bool {
        self.started.try_recv().is_err()
    }

    /// Lets so many calls go.
    pub(crate) fn let_go(&self, calls: usize) {
        self.go.add_permits(calls);
    }
}

/// A tool that says when it starts and waits until it is let go.
pub(crate) fn held(name: &'static str, on_cancel: OnCancel) -> (Tool, Held) {
    let (on_start, started) = mpsc::unbounded_channel();
    let (on_stop, stopped) = mpsc::unbounded_channel();
    let go = Arc::new(Semaphore::new(0));
    let gate = Arc::clone(&go);
    let tool = Tool::new(name, move |_: NoArguments, context: Context| {
        let (on_start, on_stop, gate) = (on_start.clone(), on_stop.clone(), Arc::clone(&gate));
        async move {
            on_start.send(()).unwrap();
            let stop = async {
                match on_cancel {
                    OnCancel::GoesOn => std::future::pending().await,
                    OnCancel::Stops => context.cancelled().await,
                }
            };
            tokio::select! {
                permit = gate.acquire() => permit.unwrap().forget(),
                () = stop => {
                    on_stop.send(()).unwrap();
                    return Err(Failure::stopped());
                }
            }
            Ok("done")
        }
    });
    let held = Held {
        started,
        stopped,
        go,
    };
    (tool, held)
}
