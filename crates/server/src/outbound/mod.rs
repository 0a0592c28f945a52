//! Messages on their way to one client, in bounded queues.
//!
//! On stdio all messages share one [queue](shared_queue). Over HTTP a request is answered through
//! an [exchange], which becomes a [stream] only if something precedes the answer; what belongs to
//! no request goes to the [stream of its session](session_stream).
//!
//! This room knows encoded messages and the changes that clients are told of. It knows no hyper,
//! no HTTP status and no session, and it never holds a lock while it waits or wakes a task.

pub(crate) mod backlog;
pub(crate) mod batch;
pub(crate) mod exchange;
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
