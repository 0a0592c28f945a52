//! A small MCP client: the handshake of 2025-11-25, one request at a time, and forms for a person.

use super::person::{Answered, Person};
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
    person: Person,
}

/// What came of a request.
pub(crate) struct Answer {
    /// The `result`, or the `error`.
    pub(crate) body: Result<Value, Value>,
    /// The lists that were said to have changed before the answer came.
    pub(crate) changed: BTreeSet<Kind>,
    /// What was asked meanwhile, and answered.
    pub(crate) asked: Vec<String>,
}

impl Client {
    /// Serves one client, and shakes hands as it.
    pub(crate) async fn connect(server: &Server, person: Person) -> Result<Self> {
        let (to_server, reader) = tokio::io::duplex(64 * 1024);
        let (writer, from_server) = tokio::io::duplex(64 * 1024);
        let server = server.clone();
        tokio::spawn(async move { server.serve(reader, writer, std::future::pending()).await });
        let mut client = Self {
            to_server,
            from_server: BufReader::new(from_server).lines(),
            next_id: 0,
            kinds: Vec::new(),
            person,
        };
        let hello = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": { "elicitation": { "form": {} } },
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

    /// Whoever answers what the server asks.
    pub(crate) const fn person(&mut self) -> &mut Person {
        &mut self.person
    }

    /// Sends a request and waits for its answer; what the server asks before that is answered.
    pub(crate) async fn request(&mut self, method: &str, params: Value) -> Result<Answer> {
        self.next_id += 1;
        let id = self.next_id;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
            .await?;
        let (mut changed, mut asked) = (BTreeSet::new(), Vec::new());
        loop {
            let Some(line) = self.from_server.next_line().await? else {
                bail!("the server has ended");
            };
            let mut message: Value =
                serde_json::from_str(&line).context("the server wrote something else than JSON")?;
            if let Some(method) = message["method"].as_str() {
                changed.extend(changed_list(method));
                // Ids of the server's requests may be the same as ours.
                if message.get("id").is_some() {
                    asked.extend(self.answer(&message).await?);
                }
                continue;
            }
            if message["id"] == id {
                let body = match message.get_mut("result").map(Value::take) {
                    Some(result) => Ok(result),
                    None => Err(message["error"].take()),
                };
                return Ok(Answer {
                    body,
                    changed,
                    asked,
                });
            }
        }
    }

    /// Answers a request of the server. What it asked, if it asked a person.
    async fn answer(&mut self, request: &Value) -> Result<Vec<String>> {
        let (id, method) = (&request["id"], &request["method"]);
        if method == "elicitation/create" {
            let Answered { result, told } = self.person.answer(&request["params"]).await;
            self.send(&json!({ "jsonrpc": "2.0", "id": id, "result": result }))
                .await?;
            return Ok(told);
        }
        let answer = if method == "ping" {
            json!({ "jsonrpc": "2.0", "id": id, "result": {} })
        } else {
            let error = json!({ "code": -32601, "message": "this client cannot do that" });
            json!({ "jsonrpc": "2.0", "id": id, "error": error })
        };
        self.send(&answer).await?;
        Ok(Vec::new())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::Consent;
    use tokio::io::AsyncReadExt;

    #[tokio::test]
    async fn what_the_server_asks_is_answered_even_under_an_id_of_ours() {
        let (to_server, mut heard) = tokio::io::duplex(4096);
        let (mut says, from_server) = tokio::io::duplex(4096);
        let mut client = Client {
            to_server,
            from_server: BufReader::new(from_server).lines(),
            next_id: 0,
            kinds: Vec::new(),
            person: Person::new(None),
        };
        client.person().say(Consent::Yes);
        for line in [
            json!({ "id": 1, "method": "ping" }),
            json!({ "id": 1, "method": "elicitation/create", "params": { "message": "Go?" } }),
            json!({ "id": "a", "method": "sampling/createMessage", "params": {} }),
            json!({ "method": "notifications/tools/list_changed" }),
            json!({ "id": 1, "result": { "content": [] } }),
        ] {
            says.write_all(format!("{line}\n").as_bytes())
                .await
                .unwrap();
        }
        let answer = client.request("tools/call", json!({})).await.unwrap();
        assert_eq!(answer.body, Ok(json!({ "content": [] })));
        assert_eq!(answer.changed, [Kind::Tool].into());
        assert_eq!(answer.asked, ["asked: Go?", "answered: yes"]);
        drop(client);
        let mut sent = String::new();
        heard.read_to_string(&mut sent).await.unwrap();
        let sent: Vec<Value> = sent
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let ids: Vec<_> = sent.iter().map(|message| &message["id"]).collect();
        assert_eq!(ids, [&json!(1), &json!(1), &json!(1), &json!("a")]);
        assert_eq!(sent[1]["result"], json!({}));
        assert_eq!(
            sent[2]["result"],
            json!({ "action": "accept", "content": {} })
        );
        assert_eq!(sent[3]["error"]["code"], -32601);
    }
}
