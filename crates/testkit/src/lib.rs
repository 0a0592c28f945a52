//! For tests: a client and a server in one process, and a clock that the test drives.
//!
//! Nothing here waits for time to pass. A test that needs a deadline to come moves the clock; one
//! that needs the server to have seen something asks it something else, since a connection takes
//! its messages in order.

mod clock;
mod pair;
pub mod pipes;
pub mod schemas;
pub mod web;

use std::{future::Future, time::Duration};

pub use clock::ManualClock;
pub use pair::{Client, Connection, connect};

/// How long a test waits for what must come. Only a failing test ever waits that long.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Waits for what must come.
///
/// # Panics
///
/// If it does not come.
pub async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(value) => value,
        Err(_) => panic!("{what}"),
    }
}
