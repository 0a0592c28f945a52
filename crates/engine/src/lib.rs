//! Runs workflow instances on a store.
//!
//! A workflow says what may be called when. The engine keeps track of the instances that run through
//! it: it admits calls, reserves an instance for one call at a time, commits the step that a call
//! leads to together with its journal entry, fires timers, keeps what people are asked, runs effects
//! and lets operators see and decide. It knows the workflow, the store and the refusals of the
//! protocol; it never sees a frame, an HTTP request or a client.
//!
//! ```
//! use interlock_engine::{CallFacts, Engine, Principal, Reserved};
//! use interlock_workflow::{Kind, Outcome, Workflow, end};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let flow = Workflow::builder("shop")
//!     .state("cart", |s| s.initial().tool("checkout", |t| t.success("due")))
//!     .state("due", |s| s.tool("pay", |t| t.success(end("cart"))))
//!     .build()?;
//! let engine = Engine::builder(flow).build();
//! let instance = engine.connect(&Principal::anonymous())?.expect("a session has an instance");
//!
//! let pay = CallFacts::new(Kind::Tool, "pay");
//! assert!(instance.admit(&pay).is_err(), "nothing is due yet");
//!
//! let checkout = CallFacts::new(Kind::Tool, "checkout");
//! let Reserved::Exclusive(mut reservation) = instance.reserve(&checkout).await.expect("allowed") else {
//!     panic!("it moves the instance");
//! };
//! reservation.commit(Outcome::Success, None).await?;
//! drop(reservation);
//! assert!(instance.admit(&pay).is_ok());
//! # Ok(())
//! # }
//! ```
//!
//! | File | Holds |
//! |---|---|
//! | `engine.rs` | the engine and its builder: finds, starts and ends instances |
//! | `instance.rs` | one instance: where it stands, who watches it |
//! | `state.rs` | what is known of an instance, behind its lock |
//! | `turn.rs` | the right to move an instance, one holder at a time, and its steps; timers that are due and lost calls take theirs here |
//! | `reservation.rs` | a call that holds that right, and how it ends |
//! | `committed.rs` | what a committed step did |
//! | `commit.rs` | one change and its journal entry: to memory or to the store |
//! | `record.rs` | the record as it is stored |
//! | `journal/` | entries, replay, entries that are not stored yet |
//! | `approval_rules.rs` | what a person's yes is worth |
//! | `approval_asking.rs` | a call asks for that yes, and the questions to operators are kept |
//! | `sampling.rs` | what a state asks the client's model |
//! | `effect_port.rs` | the port for effects |
//! | `effect_running.rs` | effects run after their step |
//! | `timers.rs` | the one task that notices what is due and wakes its instance; the step is taken in `turn.rs` |
//! | `handles.rs`, `lease.rs` | instances that belong to no session: found by their ids, kept for a while |
//! | `handle_quota.rs` | how many of them there may be, and which give way |
//! | `operator.rs`, `orders.rs` | what operators see and decide |

mod approval_asking;
mod approval_rules;
mod clock;
mod commit;
mod committed;
mod digest;
mod effect_port;
mod effect_running;
mod engine;
mod error;
mod handle_quota;
mod handles;
mod instance;
pub mod journal;
mod lease;
mod observer;
mod operator;
mod orders;
mod principal;
mod record;
mod reservation;
mod sampling;
mod snapshot;
mod state;
mod store_timeout;
mod timers;
mod turn;

#[cfg(test)]
extern crate self as interlock_engine;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod testing;

pub use approval_rules::{Answer, ApprovalRequest, Consent, Means, Standing, Why};
pub use clock::{Clock, SystemClock, sleep_until};
pub use committed::Committed;
pub use digest::request_digest;
pub use effect_port::{Done, EffectRunner, EffectsOfStep, MemoryError, memory_as};
pub use engine::{Engine, EngineBuilder, Limits, OpenError, Source, StartError, random_id};
pub use error::EngineError;
pub use instance::{CallFacts, CallInput, Instance};
pub use observer::Observer;
pub use operator::{Details, Operator, OperatorError, Recorded, RunningCall, Summary};
pub use principal::Principal;
pub use reservation::{ApprovalQuestion, Reservation, ReserveError, Reserved};
pub use sampling::Asker;
pub use store_timeout::StoreTimeout;
pub use turn::Turn;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks plain data. A panic under the lock leaves it whole, so poisoning means nothing here.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
