//! A client that does the protocol's part by itself, so that a test says only what it is about.

#![expect(
    deprecated,
    reason = "2026-07-28 deprecates sampling; until it is gone, it is served"
)]

use super::{
    answer::Answer,
    lines::{Connection, LineClient, connect},
};
use crate::{
    Server, Version,
    model::{CreateMessageRequestParams, CreateMessageResult, ElicitResult},
};
use serde::Serialize;
use serde_json::{Value, json};
use std::{collections::BTreeMap, fmt};

/// A client in memory. It does the handshake, keeps notifications for later, and answers the
/// server's questions by closures.
///
/// What does not come within 20 seconds fails the test.
///
/// ```
/// use interlock::{
///     Context, Failure, Form, NoArguments, Server, Tool,
///     model::{ElicitResult, ElicitationAction},
///     schemars,
///     testing::TestClient,
/// };
/// use serde_json::json;
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Name { name: String }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let greet = Tool::new("greet", |_: NoArguments, context: Context| async move {
///     let said = context.elicit("who", &Form::of::<Name>("Who are you?")).await?;
///     Ok::<_, Failure>(format!("Hello, {}", said.content.unwrap_or_default()["name"]))
/// });
/// let server = Server::builder("s", "1.0.0").tool(greet).build()?;
/// let mut client = TestClient::builder()
///     .on_elicit(|asked| {
///         assert_eq!(asked["message"], "Who are you?");
///         ElicitResult::new(ElicitationAction::Accept).with_content(json!({"name": "Ada"}))
///     })
///     .connect(&server)
///     .await;
/// assert_eq!(client.call("greet", json!({})).await.text(), "Hello, \"Ada\"");
/// # Ok(())
/// # }
/// ```
pub struct TestClient {
    lines: LineClient,
    connection: Connection,
    questions: Questions,
    told: Vec<Value>,
    /// Answers that came while another one was waited for.
    early: BTreeMap<i64, Value>,
}

/// A request that has not been answered yet.
#[derive(Debug)]
#[must_use = "its answer is found by `finish`"]
pub struct Pending(i64);

/// What a [`TestClient`] is like before it connects.
#[must_use]
pub struct TestClientBuilder {
    version: Version,
    questions: Questions,
}

/// How the server's questions are answered. What nothing answers is not offered.
#[derive(Default)]
struct Questions {
    elicit: Option<Box<dyn FnMut(Value) -> ElicitResult + Send>>,
    sample: Option<Box<dyn FnMut(CreateMessageRequestParams) -> CreateMessageResult + Send>>,
}

impl TestClientBuilder {
    /// The version that the client asks for; 2025-11-25 by default. 2026-07-28 has no handshake, and
    /// is spoken with [`TestClient::request`] and a `_meta` of your own.
    pub const fn version(mut self, version: Version) -> Self {
        self.version = version;
        self
    }

    /// Answers whatever a person is asked: forms and visits. The closure gets the parameters of
    /// `elicitation/create`.
    pub fn on_elicit(mut self, answer: impl FnMut(Value) -> ElicitResult + Send + 'static) -> Self {
        self.questions.elicit = Some(Box::new(answer));
        self
    }

    /// Answers as the client's model.
    pub fn on_sample(
        mut self,
        answer: impl FnMut(CreateMessageRequestParams) -> CreateMessageResult + Send + 'static,
    ) -> Self {
        self.questions.sample = Some(Box::new(answer));
        self
    }

    /// Connects to a server, and does the handshake.
    ///
    /// # Panics
    ///
    /// If the server does not answer it.
    pub async fn connect(self, server: &Server) -> TestClient {
        let (lines, connection) = connect(server);
        let mut client = TestClient {
            lines,
            connection,
            questions: self.questions,
            told: Vec::new(),
            early: BTreeMap::new(),
        };
        let params = json!({
            "protocolVersion": self.version.as_str(),
            "capabilities": client.questions.capabilities(),
            "clientInfo": { "name": "interlock-test-client", "version": "0" },
        });
        let answer = client.request("initialize", params).await;
        assert!(!answer.is_error(), "{answer:?}");
        client.notify("notifications/initialized", json!({})).await;
        client
    }
}

impl Questions {
    fn capabilities(&self) -> Value {
        let mut capabilities = json!({});
        if self.elicit.is_some() {
            capabilities["elicitation"] = json!({ "form": {}, "url": {} });
        }
        if self.sample.is_some() {
            capabilities["sampling"] = json!({});
        }
        capabilities
    }

    /// The `result` or `error` member that answers a request of the server's.
    fn answer(&mut self, method: &str, params: Value) -> (&'static str, Value) {
        let written = match (method, &mut self.elicit, &mut self.sample) {
            ("ping", _, _) => Ok(json!({})),
            ("elicitation/create", Some(elicit), _) => serde_json::to_value(elicit(params)),
            ("sampling/createMessage", _, Some(sample)) => serde_json::from_value(params)
                .and_then(|params| serde_json::to_value(sample(params))),
            _ => {
                return (
                    "error",
                    json!({ "code": -32601, "message": "method not found" }),
                );
            }
        };
        (
            "result",
            written.expect("questions and their answers are JSON"),
        )
    }
}

impl TestClient {
    /// Connects to a server with the version 2025-11-25. The server can ask it nothing.
    ///
    /// # Panics
    ///
    /// If the server does not answer the handshake.
    pub async fn connect(server: &Server) -> Self {
        Self::builder().connect(server).await
    }

    /// A client that can be asked, or that speaks another version.
    pub fn builder() -> TestClientBuilder {
        TestClientBuilder {
            version: Version::V2025_11_25,
            questions: Questions::default(),
        }
    }

    /// Calls a tool.
    ///
    /// # Panics
    ///
    /// If the server does not answer, or the arguments are not JSON.
    pub async fn call(&mut self, tool: &str, arguments: impl Serialize) -> Answer {
        let pending = self.begin_call(tool, arguments).await;
        self.finish(pending).await
    }

    /// Calls a tool, and does not wait for the answer: so that the test can move its clock meanwhile.
    ///
    /// # Panics
    ///
    /// If the server does not take it, or the arguments are not JSON.
    pub async fn begin_call(&mut self, tool: &str, arguments: impl Serialize) -> Pending {
        let params = json!({ "name": tool, "arguments": as_json(arguments) });
        self.begin("tools/call", params).await
    }

    /// Reads a resource.
    ///
    /// # Panics
    ///
    /// If the server does not answer.
    pub async fn read(&mut self, uri: &str) -> Answer {
        self.request("resources/read", json!({ "uri": uri })).await
    }

    /// Gets a prompt.
    ///
    /// # Panics
    ///
    /// If the server does not answer, or the arguments are not JSON.
    pub async fn prompt(&mut self, name: &str, arguments: impl Serialize) -> Answer {
        let params = json!({ "name": name, "arguments": as_json(arguments) });
        self.request("prompts/get", params).await
    }

    /// The names of the tools that are listed now.
    ///
    /// # Panics
    ///
    /// If the server does not answer.
    pub async fn tools(&mut self) -> Vec<String> {
        self.list("tools", "name").await
    }

    /// The URIs of the resources that are listed now.
    ///
    /// # Panics
    ///
    /// If the server does not answer.
    pub async fn resources(&mut self) -> Vec<String> {
        self.list("resources", "uri").await
    }

    /// The names of the prompts that are listed now.
    ///
    /// # Panics
    ///
    /// If the server does not answer.
    pub async fn prompts(&mut self) -> Vec<String> {
        self.list("prompts", "name").await
    }

    async fn list(&mut self, what: &str, name: &str) -> Vec<String> {
        let mut names = Vec::new();
        let mut params = json!({});
        loop {
            let answer = self.request(&format!("{what}/list"), params).await;
            let result = &answer.message()["result"];
            let items = result[what].as_array().into_iter().flatten();
            names.extend(items.filter_map(|item| item[name].as_str().map(str::to_owned)));
            match result["nextCursor"].as_str() {
                Some(cursor) => params = json!({ "cursor": cursor }),
                None => return names,
            }
        }
    }

    /// Sends any request, and waits for the answer.
    ///
    /// # Panics
    ///
    /// If the server does not answer, or the parameters are not JSON.
    pub async fn request(&mut self, method: &str, params: impl Serialize) -> Answer {
        let pending = self.begin(method, params).await;
        self.finish(pending).await
    }

    /// Sends any request, and does not wait for the answer.
    ///
    /// # Panics
    ///
    /// If the server does not take it, or the parameters are not JSON.
    pub async fn begin(&mut self, method: &str, params: impl Serialize) -> Pending {
        Pending(self.lines.begin(method, as_json(params)).await)
    }

    /// Waits for the answer to a request, and answers what the server asks meanwhile.
    ///
    /// # Panics
    ///
    /// If the server does not answer.
    pub async fn finish(&mut self, Pending(id): Pending) -> Answer {
        loop {
            if let Some(answer) = self.early.remove(&id) {
                return Answer(answer);
            }
            let mut message = self.lines.receive().await.expect("the server must answer");
            let of = message["id"].as_i64();
            match (message["method"].as_str(), message.get("id").cloned()) {
                (Some(method), Some(asked)) => {
                    let method = method.to_owned();
                    let (member, value) = self.questions.answer(&method, message["params"].take());
                    let mut answer = json!({ "jsonrpc": "2.0", "id": asked });
                    answer[member] = value;
                    self.lines.send(answer).await;
                }
                (Some(_), None) => self.told.push(message),
                (None, _) => {
                    let of = of.unwrap_or_else(|| panic!("nobody asked for this: {message}"));
                    self.early.insert(of, message);
                }
            }
        }
    }

    /// Takes a request back. The server does not answer it any more.
    ///
    /// # Panics
    ///
    /// If the server does not take the message.
    pub async fn cancel(&mut self, Pending(id): Pending) {
        self.notify("notifications/cancelled", json!({ "requestId": id }))
            .await;
    }

    /// Sends a notification.
    ///
    /// # Panics
    ///
    /// If the server does not take it, or the parameters are not JSON.
    pub async fn notify(&mut self, method: &str, params: impl Serialize) {
        self.lines.notify(method, as_json(params)).await;
    }

    /// The notifications that have come before the last answer, and have not been taken yet.
    pub fn notifications(&mut self) -> Vec<Value> {
        std::mem::take(&mut self.told)
    }

    /// As [`notifications`](Self::notifications), only their methods.
    pub fn told(&mut self) -> Vec<String> {
        let told = self.notifications().into_iter();
        told.filter_map(|it| it["method"].as_str().map(str::to_owned))
            .collect()
    }

    /// Hangs up, and waits until the server is done with this client.
    ///
    /// # Panics
    ///
    /// If the server does not end, or fails.
    pub async fn hang_up(mut self) {
        self.lines.hang_up();
        // What is still written must be read, or the server would wait.
        while self.lines.receive().await.is_some() {}
        self.connection.ended().await;
    }
}

fn as_json(value: impl Serialize) -> Value {
    serde_json::to_value(value).expect("arguments and parameters are JSON")
}

impl fmt::Debug for TestClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestClient").finish_non_exhaustive()
    }
}

impl fmt::Debug for TestClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = &self.version;
        f.debug_struct("TestClientBuilder")
            .field("version", version)
            .finish_non_exhaustive()
    }
}
