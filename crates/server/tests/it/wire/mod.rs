//! What is sent, against the schemas of the protocol.

mod protocol_schemas;
