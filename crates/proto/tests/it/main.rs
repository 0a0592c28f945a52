//! What holds for every machine.

#![allow(clippy::unwrap_used, reason = "a test may")]
#![allow(clippy::print_stdout, reason = "a model says how much it has seen")]

mod diagrams;
mod initialization;
mod machines;
mod model;
mod properties;
mod subject;
