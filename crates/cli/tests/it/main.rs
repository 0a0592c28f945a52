//! The real binary, on files and over pipes.

#![allow(clippy::unwrap_used, reason = "all of it is tests")]

mod check;
mod graph;
mod help;
mod play;
mod serve;
mod stage;
