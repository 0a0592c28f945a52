//! What a call waits for: its turn, a place, its handler.

use super::No;
use crate::{
    ask::AskError,
    context::Context,
    handler::{Done, Prepared},
    instance::{Held, Instance},
};
use futures_util::future::BoxFuture;
use interlock_workflow::BindingId;
use serde_json::Value;
use std::{
    fmt,
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    task::{self, Poll, Waker},
    time::Duration,
};
use tokio::sync::OwnedSemaphorePermit;

/// What the call waits for.
pub(super) enum Waiting {
    Nothing,
    /// For nothing: it need not take turns, and this is what became of it.
    Judged(Option<Result<Duration, No>>),
    /// For a place among the calls of its tool.
    Place(BoxFuture<'static, Option<OwnedSemaphorePermit>>),
    Turn(BoxFuture<'static, Option<Held>>),
    /// For nothing: nobody else had the turn.
    Held(Option<Held>),
    /// For the instance that it means.
    Instance(BoxFuture<'static, Result<Arc<Instance>, No>>),
    /// For what the client says to a question about it.
    Consent(BoxFuture<'static, Result<Value, AskError>>),
    Handler(Handler),
}

/// What it waited for.
pub(super) enum Came {
    Judgement(Result<Duration, No>),
    Place(Option<OwnedSemaphorePermit>),
    Turn(Option<Held>),
    Instance(Result<Arc<Instance>, No>),
    Consent(Result<Value, AskError>),
    Finished(Finished),
}

/// Whether a call may run, as things stand.
pub(super) enum Judged {
    /// So it is, for how long it may run, and by which binding if it is part of the workflow.
    Now(Result<(Duration, Option<BindingId>), No>),
    /// That shows when its turn has come, for which it waits here.
    InTurn(Waiting),
}

/// What a handler returned, or that it panicked.
pub(super) type Finished = std::thread::Result<Done>;

impl Waiting {
    /// What it waits for. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> Came {
        match self {
            Self::Nothing => std::future::pending().await,
            Self::Judged(judged) => match judged.take() {
                Some(judged) => Came::Judgement(judged),
                None => std::future::pending().await,
            },
            Self::Place(place) => Came::Place(place.await),
            Self::Turn(turn) => Came::Turn(turn.await),
            Self::Held(held) => match held.take() {
                Some(held) => Came::Turn(Some(held)),
                None => std::future::pending().await,
            },
            Self::Instance(instance) => Came::Instance(instance.await),
            Self::Consent(consent) => Came::Consent(consent.await),
            Self::Handler(handler) => Came::Finished(poll_fn(|task| handler.poll(task)).await),
        }
    }

    /// What it waits for, if that is there.
    pub(super) fn ready(&mut self) -> Option<Came> {
        match self {
            Self::Judged(judged) => judged.take().map(Came::Judgement),
            Self::Held(held) => held.take().map(|held| Came::Turn(Some(held))),
            Self::Nothing
            | Self::Place(_)
            | Self::Turn(_)
            | Self::Instance(_)
            | Self::Consent(_)
            | Self::Handler(_) => None,
        }
    }
}

/// A handler, in a box that panics do not leave.
pub(super) struct Handler {
    work: Prepared,
    /// Until it is started.
    context: Option<Context>,
}

impl Handler {
    pub(super) const fn new(work: Prepared, context: Context) -> Self {
        Self {
            work,
            context: Some(context),
        }
    }

    fn poll(&mut self, task: &mut task::Context<'_>) -> Poll<Finished> {
        match self.go_on(task) {
            Ok(Poll::Ready(result)) => Poll::Ready(Ok(result)),
            Ok(Poll::Pending) => Poll::Pending,
            Err(payload) => Poll::Ready(Err(payload)),
        }
    }

    /// What became of it, if it need not wait. Else nobody is woken later: whoever gets nothing has
    /// to wait for it.
    pub(super) fn finished(&mut self) -> Option<Finished> {
        match self.go_on(&mut task::Context::from_waker(Waker::noop())) {
            Ok(Poll::Ready(result)) => Some(Ok(result)),
            Ok(Poll::Pending) => None,
            Err(payload) => Some(Err(payload)),
        }
    }

    fn go_on(&mut self, task: &mut task::Context<'_>) -> std::thread::Result<Poll<Done>> {
        catch_unwind(AssertUnwindSafe(|| {
            if let Some(context) = self.context.take() {
                self.work.begin(context);
            }
            self.work.poll(task)
        }))
    }
}

impl fmt::Debug for Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Handler")
    }
}
