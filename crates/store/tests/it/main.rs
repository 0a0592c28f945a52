//! Tests of the store from outside: the memory backend, the feed, and the suite itself.

// Clippy allows `unwrap` in functions marked as tests; their helpers are tests, too.
#![allow(clippy::unwrap_used)]

mod broken;
mod feed;
mod memory;
