//! rmcp's client, which others wrote, as a client of ours: everything it can do, on every wire.

#![expect(
    deprecated,
    reason = "what 2026-07-28 deprecates is served until it is gone"
)]

mod handles;
mod handshake;
mod http;
mod modern;

mod server;
pub(crate) mod stage;
pub(crate) mod tap;
