//! Two ends in memory: a server, and a client that speaks whatever bytes the test gives it.

use crate::{PATIENCE, schemas};
use interlock::Server;
use serde_json::{Value, json};
use std::{collections::HashMap, fmt, io};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader},
    sync::oneshot,
    task::JoinHandle,
};

/// The server's end of a connection.
#[derive(Debug)]
pub struct Connection {
    task: JoinHandle<io::Result<()>>,
    stop: Option<oneshot::Sender<()>>,
}

/// The client's end of a connection.
pub struct Client {
    to_server: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    from_server: BufReader<Box<dyn AsyncRead + Send + Unpin>>,
    next_id: i64,
    asked: Asked,
}

/// What the answers have to fit.
#[derive(Default)]
struct Asked {
    /// What the handshake agreed on.
    version: Option<String>,
    /// Version and method of requests by their ids.
    open: HashMap<String, (Option<String>, String)>,
    unchecked: bool,
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
        if self.unchecked {
            return;
        }
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

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

/// Serves one client in memory.
#[must_use]
pub fn connect(server: &Server) -> (Client, Connection) {
    let (to_server, reader) = tokio::io::duplex(64 * 1024);
    let (writer, from_server) = tokio::io::duplex(64 * 1024);
    let (stop, stopped) = oneshot::channel();
    let server = server.clone();
    let task = tokio::spawn(async move {
        let stop = async {
            if stopped.await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        server.serve(reader, writer, stop).await
    });
    let client = Client::over(from_server, to_server);
    let connection = Connection {
        task,
        stop: Some(stop),
    };
    (client, connection)
}

impl Connection {
    /// As SIGTERM does: no new work is taken, and what runs may end.
    pub fn drain(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
    }

    /// Waits until the server is done with this client.
    ///
    /// # Panics
    ///
    /// If it does not end, or ends with an error.
    pub async fn ended(self) {
        tokio::time::timeout(PATIENCE, self.task)
            .await
            .expect("the server must end")
            .expect("the server must not panic")
            .expect("the server must not fail");
    }
}

impl Client {
    /// A client over any two directions.
    pub fn over(
        from_server: impl AsyncRead + Send + Unpin + 'static,
        to_server: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        Self {
            to_server: Some(Box::new(to_server)),
            from_server: BufReader::new(Box::new(from_server)),
            next_id: 0,
            asked: Asked::default(),
        }
    }

    /// Takes what comes as it is: for handlers that do not keep to the protocol.
    pub const fn unchecked(&mut self) {
        self.asked.unchecked = true;
    }

    /// Writes bytes as they are.
    ///
    /// # Panics
    ///
    /// If the server does not take them.
    pub async fn send_bytes(&mut self, bytes: &[u8]) {
        let to_server = self.to_server.as_mut().expect("the client has hung up");
        tokio::time::timeout(PATIENCE, to_server.write_all(bytes))
            .await
            .expect("the server must read")
            .expect("the server must be there");
    }

    /// Writes one message as a line.
    pub async fn send(&mut self, message: Value) {
        self.asked.note(&message);
        self.send_bytes(format!("{message}\n").as_bytes()).await;
    }

    /// The next line that the server writes; `None` at the end.
    ///
    /// # Panics
    ///
    /// If nothing comes, or something that is not JSON.
    pub async fn receive(&mut self) -> Option<Value> {
        let mut line = String::new();
        let read = self.from_server.read_line(&mut line);
        let n = tokio::time::timeout(PATIENCE, read)
            .await
            .expect("the server must write")
            .expect("the server must write UTF-8");
        if n == 0 {
            return None;
        }
        let message = serde_json::from_str(&line).expect("every line is JSON");
        self.asked.check(&message);
        Some(message)
    }

    /// Sends a request without waiting for its answer.
    pub async fn begin(&mut self, method: &str, params: Value) -> i64 {
        self.next_id += 1;
        let id = self.next_id;
        self.send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
            .await;
        id
    }

    /// Sends a notification.
    pub async fn notify(&mut self, method: &str, params: Value) {
        self.send(json!({"jsonrpc": "2.0", "method": method, "params": params}))
            .await;
    }

    /// Everything up to the answer to this request: notifications first, the answer last.
    ///
    /// # Panics
    ///
    /// If the server ends before, or answers something else.
    pub async fn until(&mut self, id: i64) -> (Vec<Value>, Value) {
        let mut before = Vec::new();
        loop {
            let message = self.receive().await.expect("the server must answer");
            if message.get("method").is_some() {
                before.push(message);
                continue;
            }
            assert_eq!(message["id"], id, "{message}");
            return (before, message);
        }
    }

    /// Sends a request and gives its answer, with the notifications that came before.
    pub async fn exchange(&mut self, method: &str, params: Value) -> (Vec<Value>, Value) {
        let id = self.begin(method, params).await;
        self.until(id).await
    }

    /// Sends a request and gives its answer.
    pub async fn request(&mut self, method: &str, params: Value) -> Value {
        self.exchange(method, params).await.1
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

    /// Closes the client's side; what the server still writes can be read.
    pub fn hang_up(&mut self) {
        self.to_server = None;
    }
}
