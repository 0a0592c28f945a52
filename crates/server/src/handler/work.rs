//! A handler that has its arguments and waits for its turn, and the same handler at work: in one place,
//! for a call should not allocate twice what it needs once.

use super::Reply;
use crate::{context::Context, failure::Failure};
use pin_project_lite::pin_project;
use std::{
    future::{Future, poll_fn},
    pin::Pin,
    task::{self, Poll},
};

/// What a handler comes to.
pub(crate) type Done = Result<Reply, Failure>;

/// A handler that has its arguments.
pub(crate) struct Prepared(Pin<Box<dyn Stages>>);

impl Prepared {
    /// One that is called when its turn has come, and not before.
    pub(crate) fn new<Fut>(handler: impl FnOnce(Context) -> Fut + Send + 'static) -> Self
    where
        Fut: Future<Output = Done> + Send + 'static,
    {
        Self(Box::pin(Stage::Prepared { handler }))
    }

    /// Lets it begin. If it panics, it never comes to an end.
    pub(crate) fn begin(&mut self, context: Context) {
        self.0.as_mut().begin(context);
    }

    /// What it has come to, once it has begun.
    pub(crate) fn poll(&mut self, task: &mut task::Context<'_>) -> Poll<Done> {
        self.0.as_mut().poll(task)
    }

    /// Runs it from its beginning to its end.
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
    #[project = Now]
    #[project_replace = Before]
    enum Stage<F, Fut> {
        Prepared { handler: F },
        AtWork { #[pin] work: Fut },
        Neither,
    }
}

impl<F, Fut> Stages for Stage<F, Fut>
where
    F: FnOnce(Context) -> Fut + Send,
    Fut: Future<Output = Done> + Send,
{
    fn begin(mut self: Pin<&mut Self>, context: Context) {
        if let Before::Prepared { handler } = self.as_mut().project_replace(Self::Neither) {
            let work = handler(context);
            self.set(Self::AtWork { work });
        }
    }

    fn poll(self: Pin<&mut Self>, task: &mut task::Context<'_>) -> Poll<Done> {
        match self.project() {
            Now::AtWork { work } => work.poll(task),
            Now::Prepared { .. } | Now::Neither => Poll::Pending,
        }
    }
}
