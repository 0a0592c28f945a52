//! A client and a server in one process, with a clock that the tests drive.

#![allow(clippy::unwrap_used, reason = "a test may")]

mod walk;
