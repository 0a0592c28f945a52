//! Messages on their way to one client, in bounded queues.
//!
//! | File | Holds |
//! |---|---|
//! | `route.rs` | where the messages of a request go: to one of the next four |
//! | `shared_queue.rs`, `write_buffer.rs` | stdio: one queue for all messages, and what its loop is writing |
//! | `exchange.rs` | the answer to one HTTP request: a message, or a stream if something precedes it |
//! | `session_stream.rs` | what belongs to no request of an HTTP session |
//! | `batch.rs` | the answers to a batch, until they are complete |
//! | `stream.rs` | messages over HTTP with at most one reader, who may come back |
//! | `backlog.rs` | which of them are to be sent, kept or dropped: pure; `rewind` decides what comes again |
//! | `replay_memory.rs` | how much all streams of a server keep for clients that may come back |
//! | `subscribers.rs` | who is notified of changes |
//!
//! This room knows encoded messages and the changes that clients are told of. It knows no hyper,
//! no HTTP status and no session, and it never holds a lock while it waits or wakes a task.

pub(crate) mod backlog;
pub(crate) mod batch;
pub(crate) mod exchange;
pub(crate) mod replay_memory;
mod route;
pub(crate) mod session_stream;
pub(crate) mod shared_queue;
pub(crate) mod stream;
pub(crate) mod subscribers;
pub(crate) mod write_buffer;

pub(crate) use route::Route;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks even after a panic: what these locks guard is never left half changed.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
