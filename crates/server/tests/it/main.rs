//! A client and a server in one process, with a clock that the tests drive.

#![allow(clippy::unwrap_used, reason = "a test may")]

mod arguments;
mod asking;
mod batches;
mod before;
mod cancel;
mod changes;
mod common;
mod completions;
mod duplicates;
mod ending;
mod frames;
mod handlers;
mod handshake;
mod lifespan;
mod lists;
mod load;
mod pages;
mod params;
mod prompts;
mod reference;
mod resources;
mod schemas;
mod stateless;
mod states;
mod stores;
mod storm;
mod templates;
mod tools;
mod walk;
