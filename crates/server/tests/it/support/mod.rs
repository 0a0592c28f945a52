//! What tests of several rooms share: servers, handlers and stores that do as the test says, and
//! checks that are made often. No tests live here.

pub(crate) mod client;
pub(crate) mod desk;
pub(crate) mod dice;
pub(crate) mod ends;
pub(crate) mod handles;
pub(crate) mod held;
pub(crate) mod http;
pub(crate) mod journal;
pub(crate) mod kept;
pub(crate) mod messages;
pub(crate) mod puppet;
pub(crate) mod refund;
pub(crate) mod rmcp_client;
pub(crate) mod sampling;
pub(crate) mod store;
pub(crate) mod tools;
