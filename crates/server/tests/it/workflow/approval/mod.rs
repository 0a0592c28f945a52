//! A person's yes before a call runs, on each way to ask for it.

mod connection;
mod http_session;
mod stateless;
