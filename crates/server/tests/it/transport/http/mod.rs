//! Streamable HTTP and HTTP+SSE: statuses, headers, sessions, streams and limits.

mod auth;
mod backpressure;
mod batches;
mod calls;
mod connection_reuse;
mod cors;
mod edge_cases;
mod exchange;
mod hostile_clients;
mod idle_sessions;
mod limits;
mod random_clients;
mod restart;
mod server_messages;
mod sessions;
mod shutdown;
mod sse_2024;
mod stateless;
mod streams;
mod subscriptions_listen;
