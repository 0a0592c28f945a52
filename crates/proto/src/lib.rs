//! The Model Context Protocol as pure functions: frames, versions, refusals and lifecycles.
//!
//! This crate decides and never performs. It has no clock, no I/O, no tasks, no randomness and no
//! logging: time and ids come in as arguments, and what is to be done goes out as values. That is
//! what lets every lifecycle be walked, drawn and tested exhaustively.
//!
//! Rules of use
//!
//! - A machine is one function `step`. It borrows the state, so a refusal changes nothing.
//! - Effects are performed in the order in which they stand.
//! - What grows (requests in flight) is a ledger beside the state; bring it up to date with
//!   `Ledger::apply` after each step.
//! - Ask `wake_at` when to come back with a `Tick`.
//!
//! The map
//!
//! | Module | What it is |
//! |---|---|
//! | [`frame`] | bytes to JSON-RPC message and back |
//! | [`batch`] | several messages in one array |
//! | [`era`] | protocol versions, which methods they have, modern `_meta` |
//! | [`messages`] | every message of every version, and who may send it |
//! | [`refusal`] | every way of saying no |
//! | [`post`] | what a message that comes by HTTP POST leads to |
//! | [`connection`] | a connection's life |
//! | [`negotiation`] | how client and server come to terms |
//! | [`invocation`] | one call, from its arrival to its one end |
//! | [`session`] | a session, from its id to its end |
//! | [`subscription`] | one client's interest in one resource |
//! | [`task`], [`tasks`] | a call that outlives its request, and all of them (no server drives them yet) |
//! | [`elicitation`] | something a person is asked |
//! | [`machine`] | what machines have in common, for walking and drawing them |

mod ability;
pub mod batch;
pub mod connection;
pub mod elicitation;
pub mod era;
pub mod frame;
mod ids;
pub mod invocation;
mod level;
pub mod machine;
pub mod messages;
pub mod negotiation;
mod params;
pub mod post;
pub mod refusal;
pub mod scan;
pub mod session;
pub mod subscription;
pub mod task;
pub mod tasks;
mod time;

pub use ability::Ability;
pub use era::Version;
pub use ids::{AskId, CallId, RequestId};
pub use level::Level;
pub use params::{About, Params};
pub use refusal::{Code, Refusal, RpcCode};
pub use time::Time;
