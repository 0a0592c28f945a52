//! What belongs to an application may panic when it is dropped.

use std::{mem, panic::AssertUnwindSafe};

/// Drops a value of the application, and ignores a panic of its `Drop`.
pub(crate) fn drop_quietly<T>(value: T) {
    if let Err(payload) = std::panic::catch_unwind(AssertUnwindSafe(|| drop(value))) {
        // The payload's own `Drop` may panic as well, so it leaks.
        mem::forget(payload);
    }
}
