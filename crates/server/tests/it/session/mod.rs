//! One client: how it begins, in which era it speaks, which ids it uses, and what it is told.

mod batches;
mod before_initialize;
mod duplicate_ids;
mod eras;
mod handshake;
mod stateless;
mod tracing;
