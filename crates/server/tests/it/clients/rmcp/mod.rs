//! rmcp's client, which others wrote, as a client of ours: everything it can do, on every wire.

#![expect(
    deprecated,
    reason = "what 2026-07-28 deprecates is served until it is gone"
)]

mod every_version;
mod handles;
mod handshake;
mod http;
mod server;
mod stateless;
