//! A client in memory whose messages are held against the protocol's schemas.

use crate::schemas;
use interlock::{
    Server,
    testing::{self, Connection, Direction, LineClient},
};
use serde_json::{Value, json};
use std::{
    collections::HashMap,
    ops::{Deref, DerefMut},
};
use tokio::io::{AsyncRead, AsyncWrite};

/// The client's end of a connection.
#[derive(Debug)]
pub struct Client(LineClient);

/// Serves one client in memory.
#[must_use]
pub fn connect(server: &Server) -> (Client, Connection) {
    let (client, connection) = testing::connect(server);
    (Client::checked(client), connection)
}

/// What the answers have to fit.
#[derive(Default)]
struct Asked {
    /// What the handshake agreed on.
    version: Option<String>,
    /// Version and method of requests by their ids.
    open: HashMap<String, (Option<String>, String)>,
}

impl Asked {
    fn note(&mut self, message: &Value) {
        // What was taken back is not answered, and its id is free.
        if message["method"] == "notifications/cancelled" {
            let id = message["params"]["requestId"].to_string();
            self.open.remove(&id);
        }
        if let (Some(id), Some(method)) = (message.get("id"), message["method"].as_str()) {
            let modern = "io.modelcontextprotocol/protocolVersion";
            let version = message["params"]["_meta"][modern].as_str();
            let known = (version.map(str::to_owned), method.to_owned());
            // A second request with an id in flight is not the one that is answered.
            self.open.entry(id.to_string()).or_insert(known);
        }
    }

    #[track_caller]
    fn check(&mut self, message: &Value) {
        let known = match message.get("method") {
            Some(_) => None,
            None => self.open.remove(&message["id"].to_string()),
        };
        let (version, method) = known.unzip();
        if method.as_deref() == Some("initialize") && self.version.is_none() {
            let agreed = message["result"]["protocolVersion"].as_str();
            self.version = agreed.map(str::to_owned);
        }
        let subscription = "io.modelcontextprotocol/subscriptionId";
        let version = match version.flatten() {
            _ if message["params"]["_meta"].get(subscription).is_some() => {
                Some("2026-07-28".to_owned())
            }
            Some(modern) => Some(modern),
            None => self.version.clone(),
        };
        if let Some(version) = version {
            schemas::check_message(&version, method.as_deref(), message);
        }
    }
}

impl Client {
    /// A client over any two directions.
    pub fn over(
        from_server: impl AsyncRead + Send + Unpin + 'static,
        to_server: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        Self::checked(LineClient::over(from_server, to_server))
    }

    fn checked(mut client: LineClient) -> Self {
        let mut asked = Asked::default();
        client.observe(move |direction, message| match direction {
            Direction::ToServer => asked.note(message),
            Direction::FromServer => asked.check(message),
        });
        Self(client)
    }

    /// Takes what comes as it is: for handlers that do not keep to the protocol.
    pub fn unchecked(&mut self) {
        self.0.observe(|_, _| {});
    }

    /// The handshake of 2025-11-25.
    pub async fn initialize(&mut self) -> Value {
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "testkit", "version": "0"},
        });
        let answer = self.request("initialize", params).await;
        self.notify("notifications/initialized", json!({})).await;
        answer
    }

    /// Calls a tool and gives the result, with the methods of the notifications before it.
    pub async fn call(&mut self, tool: &str, arguments: Value) -> (Vec<String>, Value) {
        let params = json!({"name": tool, "arguments": arguments});
        let (before, answer) = self.exchange("tools/call", params).await;
        let methods = before
            .iter()
            .filter_map(|message| message["method"].as_str().map(str::to_owned))
            .collect();
        (methods, answer["result"].clone())
    }

    /// The names of the tools that are listed now.
    pub async fn tools(&mut self) -> Vec<String> {
        let answer = self.request("tools/list", json!({})).await;
        let tools = answer["result"]["tools"].as_array();
        tools
            .into_iter()
            .flatten()
            .filter_map(|tool| tool["name"].as_str().map(str::to_owned))
            .collect()
    }
}

impl Deref for Client {
    type Target = LineClient;

    fn deref(&self) -> &LineClient {
        &self.0
    }
}

impl DerefMut for Client {
    fn deref_mut(&mut self) -> &mut LineClient {
        &mut self.0
    }
}
