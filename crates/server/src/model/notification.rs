//! What a handler tells its client before the result.

use interlock_proto::Level;
use serde_json::Value;

/// How far a handler has come.
#[derive(Debug)]
pub(crate) struct Progress {
    pub(crate) progress: f64,
    pub(crate) total: Option<f64>,
    pub(crate) message: Option<String>,
}

/// A message for the client's log.
#[derive(Debug)]
pub(crate) struct Log {
    pub(crate) level: Level,
    pub(crate) logger: Option<String>,
    pub(crate) data: Value,
}
