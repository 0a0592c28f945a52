//! A client and a server in one process, with a clock that the tests drive.

#![allow(clippy::unwrap_used, reason = "a test may")]

mod api;
mod call;
mod catalog;
mod clients;
mod context;
mod core;
mod dispatch;
mod examples;
mod mount;
mod reference;
mod session;
mod support;
mod testing;
mod transport;
mod wire;
mod workflow;
