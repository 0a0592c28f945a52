//! States that ask the client's model.

mod connection;
mod sequences;
mod stateless;
