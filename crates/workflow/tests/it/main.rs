//! The workflow crate from outside, as a server would use it.

#![allow(clippy::unwrap_used, reason = "all of it is tests")]

mod file;
mod properties;
mod reference;
mod scale;
