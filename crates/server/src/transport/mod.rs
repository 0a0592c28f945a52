//! The transports: bytes or HTTP requests to sessions, and back.
//!
//! A transport knows sessions and what lies to their right. It decides about HTTP statuses, hosts,
//! rates and sizes, and never about workflows.

pub(crate) mod http;
pub(crate) mod stdio;
