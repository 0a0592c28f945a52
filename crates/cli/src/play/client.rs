//! A small MCP client: the handshake of 2025-11-25, one request at a time.

use anyhow::{Context, Result, bail};
use interlock::{Server, workflow::Kind};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines};

/// The client's end of a connection to a server in the same process.
pub(crate) struct Client {
    to_server: DuplexStream,
    from_server: Lines<BufReader<DuplexStream>>,
    next_id: u64,
    kinds: Vec<Kind>,
}

/// What came of a request.
pub(crate) struct Answer {
    /// The `result`, or the `error`.
    pub(crate) body: Result<Value, Value>,
    /// The lists that were said to have changed before the answer came.
    pub(crate) changed: BTreeSet<Kind>,
}

impl Client {
    /// Serves one client, and shakes hands as it.
    pub(crate) async fn connect(server: &Server) -> Result<Self> {
        let (to_server, reader) = tokio::io::duplex(64 * 1024);
        let (writer, from_server) = tokio::io::duplex(64 * 1024);
        let server = server.clone();
        tokio::spawn(async move { server.serve(reader, writer, std::future::pending()).await });
        let mut client = Self {
            to_server,
            from_server: BufReader::new(from_server).lines(),
            next_id: 0,
            kinds: Vec::new(),
        };
        let hello = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": { "name": "interlock play", "version": env!("CARGO_PKG_VERSION") },
        });
        let hello = match client.request("initialize", hello).await?.body {
            Ok(hello) => hello,
            Err(error) => bail!("the handshake failed: {}", error["message"]),
        };
        let offered = |kind: &Kind| hello["capabilities"].get(section(*kind)).is_some();
        client.kinds = Kind::ALL.into_iter().filter(offered).collect();
        let done = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        client.send(&done).await?;
        Ok(client)
    }

    /// The kinds of things that the server has.
    pub(crate) fn kinds(&self) -> Vec<Kind> {
        self.kinds.clone()
    }

    /// Sends a request and waits for its answer.
    pub(crate) async fn request(&mut self, method: &str, params: Value) -> Result<Answer> {
        self.next_id += 1;
        let id = self.next_id;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
            .await?;
        let mut changed = BTreeSet::new();
        loop {
            let Some(line) = self.from_server.next_line().await? else {
                bail!("the server has ended");
            };
            let mut message: Value =
                serde_json::from_str(&line).context("the server wrote something else than JSON")?;
            changed.extend(message["method"].as_str().and_then(changed_list));
            if message["id"] == id {
                let body = match message.get_mut("result").map(Value::take) {
                    Some(result) => Ok(result),
                    None => Err(message["error"].take()),
                };
                return Ok(Answer { body, changed });
            }
        }
    }

    /// The entries of a list.
    pub(crate) async fn list(&mut self, kind: Kind) -> Result<Vec<Value>> {
        let section = section(kind);
        let answer = self.request(&format!("{section}/list"), json!({})).await?;
        match answer.body.map(|mut result| result[section].take()) {
            Ok(Value::Array(entries)) => Ok(entries),
            Ok(_) => bail!("the server has no list of {section}"),
            Err(error) => bail!(
                "the server does not list its {section}: {}",
                error["message"]
            ),
        }
    }

    async fn send(&mut self, message: &Value) -> Result<()> {
        let line = format!("{message}\n");
        self.to_server
            .write_all(line.as_bytes())
            .await
            .context("the server has ended")
    }
}

/// What methods and capabilities call things of a kind.
pub(crate) const fn section(kind: Kind) -> &'static str {
    match kind {
        Kind::Tool => "tools",
        Kind::Resource => "resources",
        Kind::Prompt => "prompts",
    }
}

fn changed_list(method: &str) -> Option<Kind> {
    let name = method
        .strip_prefix("notifications/")?
        .strip_suffix("/list_changed")?;
    Kind::ALL.into_iter().find(|kind| section(*kind) == name)
}
