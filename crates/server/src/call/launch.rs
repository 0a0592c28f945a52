//! The first poll of a call.

use crate::{
    call::{Call, CallOrigin, Start},
    wire::{refusal::CallRefusal, result::Answer},
};
use futures_util::{FutureExt, future::BoxFuture};
use interlock_proto::{Code, Refusal};
use std::{future::Future, panic::AssertUnwindSafe};

/// What is left of a call that has to wait. It runs as a task.
pub(crate) type Rest = BoxFuture<'static, Option<Answer>>;

/// What came of the first poll of a call.
pub(crate) enum Launched {
    /// It did not have to wait, and this is its answer.
    Ended(Option<Answer>),
    /// It has to wait.
    Waits(Rest),
}

/// Polls a call once, here. Most calls end with that; a call that has to wait has got in line by
/// then, so that the calls behind it do not overtake it.
pub(crate) fn launch(start: Start, origin: CallOrigin) -> Launched {
    let mut call = Box::pin(run(Call::new(start, origin)));
    // Unconstrained: the runtime's budget must not keep it from getting in line.
    match tokio::task::unconstrained(call.as_mut()).now_or_never() {
        Some(answer) => Launched::Ended(answer),
        None => Launched::Waits(call),
    }
}

/// A call that panics outside its handler costs itself and nothing else.
fn run(mut call: Call) -> impl Future<Output = Option<Answer>> + Send {
    // The call is captured, not passed on: an argument of an async function is stored twice.
    let call = AssertUnwindSafe(async move { call.run().await });
    let call = call.catch_unwind();
    call.map(|ended| ended.unwrap_or_else(|_| Some(broken())))
}

/// The answer of a call that has panicked outside its handler.
fn broken() -> Answer {
    CallRefusal::from(Refusal::new(Code::InternalError)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every call allocates its future, and allocators are fast up to about 1 KB. What few calls need
    /// is in boxes of its own.
    #[test]
    fn the_future_of_a_call_stays_small() {
        fn size<F>(_: fn(Call) -> F) -> usize {
            size_of::<F>()
        }
        let (size, call) = (size(run), size_of::<Call>());
        assert!(
            size <= 1_032,
            "{size} bytes, {call} of them the call itself"
        );
    }
}
