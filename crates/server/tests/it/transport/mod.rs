//! Bytes and HTTP: what is a message, what ends a connection, and how much a client may want.

mod http;
mod races;
mod stdio;
