//! Handlers that were written for rmcp, served by us.

#![expect(
    deprecated,
    reason = "what 2026-07-28 deprecates is served until it is gone"
)]

mod calls;
mod changes;
mod handler;
mod isolation;
mod questions;
mod serving;
