//! Who watches an instance: the clients that are told when another client moves it.

use interlock_proto::Level;
use interlock_workflow::Kind;
use serde_json::Value;
use std::sync::Arc;

/// A client of an instance.
pub trait Observer: Send + Sync {
    /// The lists of these kinds are not what they were.
    fn lists_changed(self: Arc<Self>, kinds: &[Kind]);

    /// An effect of the instance has logged something.
    fn logged(&self, level: Level, logger: &str, data: &Value);
}
