//! What holds for every machine.

#![allow(clippy::unwrap_used, reason = "a test may")]

mod diagrams;
