//! Whole behaviours of the engine, through its public surface.

#![allow(clippy::unwrap_used, reason = "a test may")]
#![allow(clippy::duplicate_mod, reason = "an example brings its own clock")]

mod approvals;
#[path = "../support/clock.rs"]
mod clock;
mod effects;
mod examples;
mod handles;
mod operator;
mod processes;
mod reservations;
mod sampling;
mod support;
mod timers;
