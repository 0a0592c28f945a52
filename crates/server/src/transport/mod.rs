//! Bytes in and bytes out. Nothing here knows what they mean.

pub(crate) mod lines;
pub(crate) mod stdio;
