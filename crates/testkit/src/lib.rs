//! For tests: a client and a server in one process, and a clock that the test drives.
//!
//! Nothing here waits for time to pass. A test that needs a deadline to come moves the clock; one
//! that needs the server to have seen something asks it something else, since a connection takes
//! its messages in order.

mod pair;
pub mod pipes;
pub mod schemas;
pub mod web;

pub use interlock::testing::{Connection, ManualClock, PATIENCE, soon};
pub use pair::{Client, connect};
