//! One call of a handler: first the handler with its arguments, then the future that it returned.
//!
//! `dispatch` makes it, `call/execute.rs` begins and polls it. Both stages share one allocation,
//! for every call has one.

use crate::{api::Reply, context::Context, model::failure::Failure};
use pin_project_lite::pin_project;
use std::{
    future::{Future, poll_fn},
    pin::Pin,
    task::{self, Poll},
};

/// How a handler ends.
pub(crate) type Done = Result<Reply, Failure>;

/// One call of a handler that has its arguments.
pub(crate) struct HandlerCall(Pin<Box<dyn Stages>>);

impl HandlerCall {
    /// Holds a handler that is called by [`begin`](Self::begin).
    pub(crate) fn new<Fut>(handler: impl FnOnce(Context) -> Fut + Send + 'static) -> Self
    where
        Fut: Future<Output = Done> + Send + 'static,
    {
        Self(Box::pin(Stage::NotCalled { handler }))
    }

    /// Calls the handler. If it panics, the future stays pending for ever.
    pub(crate) fn begin(&mut self, context: Context) {
        self.0.as_mut().begin(context);
    }

    /// Polls the handler's future. It is pending until the handler was called.
    pub(crate) fn poll(&mut self, task: &mut task::Context<'_>) -> Poll<Done> {
        self.0.as_mut().poll(task)
    }

    /// Calls the handler and waits for its end.
    pub(crate) async fn run(mut self, context: Context) -> Done {
        self.begin(context);
        poll_fn(|task| self.poll(task)).await
    }
}

trait Stages: Send {
    fn begin(self: Pin<&mut Self>, context: Context);
    fn poll(self: Pin<&mut Self>, task: &mut task::Context<'_>) -> Poll<Done>;
}

pin_project! {
    #[project = StageProjection]
    #[project_replace = StageReplaced]
    enum Stage<F, Fut> {
        NotCalled { handler: F },
        Running { #[pin] work: Fut },
        // The handler has been called and has not returned its future.
        Begun,
    }
}

impl<F, Fut> Stages for Stage<F, Fut>
where
    F: FnOnce(Context) -> Fut + Send,
    Fut: Future<Output = Done> + Send,
{
    fn begin(mut self: Pin<&mut Self>, context: Context) {
        if let StageReplaced::NotCalled { handler } = self.as_mut().project_replace(Self::Begun) {
            let work = handler(context);
            self.set(Self::Running { work });
        }
    }

    fn poll(self: Pin<&mut Self>, task: &mut task::Context<'_>) -> Poll<Done> {
        match self.project() {
            StageProjection::Running { work } => work.poll(task),
            StageProjection::NotCalled { .. } | StageProjection::Begun => Poll::Pending,
        }
    }
}
