//! How a client introduced itself, and what handlers remember for it.

use crate::{
    context::client::ClientInfo,
    model::{JsonObject, failure::Failure},
};
use interlock_proto::Level;
use serde_json::Value;
use std::sync::Arc;

/// How many bytes of JSON a session may remember.
const MOST_DATA: usize = 1024 * 1024;

pub(super) struct Profile {
    pub(super) client: Arc<ClientInfo>,
    /// The least level of log messages that the client wants.
    pub(super) level: Level,
    /// The values that handlers have set. Most sessions have none.
    data: Option<Box<JsonObject>>,
}

impl Profile {
    pub(super) fn new(client: ClientInfo, level: Level, data: JsonObject) -> Self {
        Self {
            client: Arc::new(client),
            level,
            data: (!data.is_empty()).then(|| Box::new(data)),
        }
    }

    pub(super) fn data(&self) -> Option<&JsonObject> {
        self.data.as_deref()
    }

    pub(super) fn get(&self, name: &str) -> Option<Value> {
        self.data()?.get(name).cloned()
    }

    /// Remembers a value, unless the session would remember too much.
    pub(super) fn set(&mut self, name: &str, value: Value) -> Result<(), Failure> {
        let data = self.data.get_or_insert_default();
        let before = data.insert(name.to_owned(), value);
        let size = serde_json::to_string(data).map_or(usize::MAX, |text| text.len());
        if size <= MOST_DATA {
            return Ok(());
        }
        match before {
            Some(before) => data.insert(name.to_owned(), before),
            None => data.shift_remove(name),
        };
        Err(Failure::new(format!(
            "a session may remember {MOST_DATA} bytes at most"
        )))
    }
}

impl Default for Profile {
    fn default() -> Self {
        Self::new(ClientInfo::default(), Level::Info, JsonObject::new())
    }
}
