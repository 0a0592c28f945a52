//! How operators reach a server that runs: a Unix socket beside it.
//!
//! `interlock serve` listens, and `interlock pending`, `approve`, `deny`, `settle` and `reset`
//! connect. A peer must be the user that the server runs as, or root. Each message is one
//! line of JSON, and no line, no answer and no number of peers is without a bound.
//!
//! | File | Holds |
//! |---|---|
//! | `protocol.rs` | what is asked and answered |
//! | `place.rs` | where sockets lie, and which of them a command means |
//! | `server.rs` | the end of the server |
//! | `client.rs` | the end of a command |

mod client;
mod place;
mod protocol;
mod server;

pub(crate) use client::{Client, Target};
pub(crate) use place::default_path;
pub(crate) use protocol::{Decision, Request};
pub(crate) use server::{Listening, listen};
