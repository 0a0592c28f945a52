//! The real binary, on files and over pipes.

#![allow(clippy::unwrap_used, reason = "all of it is tests")]

mod check;
mod completions;
mod graph;
mod help;
#[cfg(unix)]
mod operate;
mod paths;
mod play;
mod play_agrees;
mod play_dry;
mod schema;
mod serve;
mod served;
mod stage;
mod test;
mod test_limits;
