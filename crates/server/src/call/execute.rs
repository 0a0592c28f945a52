//! Runs the handler of a call, and passes on what it says before its result.

use crate::{
    api::{Done, HandlerCall, drop_quietly},
    call::{Call, outgoing},
    context::Context,
};
use futures_util::poll;
use interlock_engine::sleep_until;
use interlock_proto::invocation::{Effect, Finish, Input, State};
use std::{
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::{self, Poll},
};

/// What a handler returned, or that it panicked.
type Finished = std::thread::Result<Done>;

/// Runs the handler until the machine says that the call has ended.
pub(super) async fn run(call: &mut Call) {
    // No call starts after its deadline.
    let State::Executing { .. } = call.machine.state() else {
        return;
    };
    let Some(handler) = call.start.handler.take() else {
        return;
    };
    let mut handler = Handler {
        handler,
        context: Some(Context::new(Arc::clone(&call.shared))),
    };
    let first = poll!(&mut handler);
    if Arc::strong_count(&call.shared) > 1 {
        // What the handler sees of the instance is what it was when it began, or soon after: most
        // handlers are done before another call could have moved it, and few look at all.
        call.shared.run();
    }
    let finished = match first {
        Poll::Ready(done) if !call.shared.channel.is_used() => {
            drop(handler);
            let input = ended(call, done);
            return call.step(input);
        }
        Poll::Ready(done) => {
            let messages = call.shared.channel.take();
            call.conversation().messages = messages;
            Some(done)
        }
        Poll::Pending => {
            // It is not polled again in place: what it does after its first wait belongs to a task.
            tokio::task::yield_now().await;
            None
        }
    };
    Box::pin(drive(call, Some(handler), finished)).await;
}

/// Drives a handler that has to be waited for, or has said something.
async fn drive(call: &mut Call, mut handler: Option<Handler>, mut finished: Option<Finished>) {
    while let State::Executing { .. } = call.machine.state() {
        let input = next(call, &mut handler, &mut finished).await;
        call.now = call.core.clock.now();
        call.step(input);
        obey(call, &mut handler);
    }
    drop_quietly(handler);
}

/// Does what the machine orders about the handler.
fn obey(call: &mut Call, handler: &mut Option<Handler>) {
    while let Some(order) = call.machine.peek() {
        match order {
            Effect::Forward => outgoing::forward(call),
            Effect::AskToStop => call.shared.channel.stop(),
            Effect::TearDown => {
                call.shared.channel.stop();
                drop_quietly(handler.take());
            }
            // `Enqueue` and `Start` are not performed as orders: `Call::run` does both in its own
            // flow. The rest is done in `conclude`.
            Effect::Enqueue
            | Effect::LeaveQueue
            | Effect::Start
            | Effect::Commit(_)
            | Effect::Respond
            | Effect::Ask
            | Effect::Refuse(_)
            | Effect::Suppress => return,
        }
        call.machine.next_order();
    }
}

/// The next thing that the machine has to know. What a handler has done is done, even if its client
/// does not want it any more.
async fn next(
    call: &mut Call,
    handler: &mut Option<Handler>,
    finished: &mut Option<Finished>,
) -> Input {
    loop {
        if let Some(input) = pass_on_messages(call).await {
            return input;
        }
        if let Some(done) = finished.take() {
            drop_quietly(handler.take());
            return ended(call, done);
        }
        // A handler that speaks without end keeps neither the machine nor other tasks waiting.
        tokio::task::consume_budget().await;
        let clock = &*call.core.clock;
        let wake_at = call.machine.state().wake_at();
        if let Some(signal) = call.signals.ready() {
            return signal;
        }
        if wake_at.is_some_and(|due| clock.now() >= due) {
            return Input::Tick;
        }
        let messages = tokio::select! {
            biased;
            done = poll_handler(handler) => {
                *finished = Some(done);
                // What it said before its result goes first.
                call.shared.channel.take()
            }
            messages = call.shared.channel.next() => messages,
            signal = call.signals.next() => return signal,
            () = sleep_until(clock, wake_at) => return Input::Tick,
        };
        if !messages.is_empty() {
            call.conversation().messages.extend(messages);
        }
    }
}

/// Passes on what the handler has said, as soon as there is room; the handler waits with it.
async fn pass_on_messages(call: &mut Call) -> Option<Input> {
    while call.conversation.as_ref()?.has_messages() {
        let wake_at = call.machine.state().wake_at();
        tokio::select! {
            biased;
            () = call.route.wait_for_room() => {}
            signal = call.signals.next() => return Some(signal),
            () = sleep_until(&*call.core.clock, wake_at) => return Some(Input::Tick),
        }
        let message = call.conversation().messages.pop_front()?;
        let input = outgoing::pass_on(call, message);
        if input.is_some() {
            return input;
        }
    }
    let asks = !call.conversation.as_ref()?.questions.is_empty();
    asks.then_some(Input::Asked)
}

async fn poll_handler(handler: &mut Option<Handler>) -> Finished {
    match handler {
        Some(handler) => poll_fn(|task| Pin::new(&mut *handler).poll(task)).await,
        None => std::future::pending().await,
    }
}

fn ended(call: &mut Call, finished: Finished) -> Input {
    let result = match finished {
        Ok(result) => call.results.reply.insert(result),
        Err(payload) => {
            drop_quietly(payload);
            return Input::Panicked;
        }
    };
    match result {
        Ok(reply) => {
            reply.remove_server_meta();
            Input::Finished(match reply.is_error() {
                true => Finish::Error,
                false => Finish::Success,
            })
        }
        Err(failure) if failure.is_stopped() => Input::Stopped,
        Err(_) => Input::Finished(Finish::Error),
    }
}

/// A handler that cannot panic through its caller.
struct Handler {
    handler: HandlerCall,
    /// Until it is started.
    context: Option<Context>,
}

impl Future for Handler {
    type Output = Finished;

    fn poll(mut self: Pin<&mut Self>, task: &mut task::Context<'_>) -> Poll<Finished> {
        let polled = catch_unwind(AssertUnwindSafe(|| {
            if let Some(context) = self.context.take() {
                self.handler.begin(context);
            }
            self.handler.poll(task)
        }));
        match polled {
            Ok(Poll::Ready(done)) => Poll::Ready(Ok(done)),
            Ok(Poll::Pending) => Poll::Pending,
            Err(payload) => Poll::Ready(Err(payload)),
        }
    }
}
