//! For tests: a client and a server in one process, and a clock that the test drives.
//!
//! Nothing here waits for time to pass. A test that needs a deadline to come moves the clock; one
//! that needs the server to have seen something asks it something else, since a connection takes
//! its messages in order.

mod clock;
mod pair;

pub use clock::ManualClock;
pub use pair::{Client, Connection, connect};
