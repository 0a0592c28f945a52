//! rmcp's client, on a stage that others can watch.

#![expect(
    deprecated,
    reason = "what 2026-07-28 deprecates is served until it is gone"
)]

pub(crate) mod stage;
pub(crate) mod tap;
