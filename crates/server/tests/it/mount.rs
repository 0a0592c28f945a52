//! Handlers that were written for rmcp, served by us.

#![expect(
    deprecated,
    reason = "what 2026-07-28 deprecates is served until it is gone"
)]

mod apart;
mod asking;
mod calls;
mod changing;
mod handler;
mod serving;
