//! A client that shakes hands and keeps a session.

use super::{Answer, Events, Request, Site, Web};
use serde_json::{Value, json};

/// How a client introduces itself.
#[derive(Clone, Debug)]
#[must_use]
pub struct Hello {
    version: String,
    capabilities: Value,
    token: Option<String>,
}

impl Hello {
    /// A client of this version that can do nothing.
    pub fn version(version: &str) -> Self {
        Self {
            version: version.to_owned(),
            capabilities: json!({}),
            token: None,
        }
    }

    /// A client that can do this.
    pub fn capabilities(mut self, capabilities: Value) -> Self {
        self.capabilities = capabilities;
        self
    }

    /// A client that has this token.
    pub fn token(mut self, token: &str) -> Self {
        self.token = Some(token.to_owned());
        self
    }

    /// The request that opens a session.
    pub fn request(&self) -> Request {
        let request = Request::post(&json!({
            "jsonrpc": "2.0",
            "id": 0,
            "method": "initialize",
            "params": {
                "protocolVersion": self.version,
                "capabilities": self.capabilities,
                "clientInfo": {"name": "testkit", "version": "0"},
            },
        }));
        match &self.token {
            Some(token) => request.token(token),
            None => request,
        }
    }

    /// Opens a session and says that it is ready.
    ///
    /// # Panics
    ///
    /// If there is none to be had.
    pub async fn open(self, site: &Site) -> Session {
        self.open_at(site.web()).await
    }

    /// As [`open`](Self::open), at a site that somebody else has opened.
    ///
    /// # Panics
    ///
    /// If there is none to be had.
    pub async fn open_at(self, web: Web) -> Session {
        let session = self.begin(web).await;
        session.notify("notifications/initialized", json!({})).await;
        session
    }

    /// Opens a session, and does not say that it is ready.
    ///
    /// # Panics
    ///
    /// If there is none to be had.
    pub async fn open_only(self, site: &Site) -> Session {
        self.begin(site.web()).await
    }

    async fn begin(self, web: Web) -> Session {
        let answer = web.send(self.request()).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let id = answer.header("mcp-session-id").map(str::to_owned);
        let id = id.expect("a session has an id");
        let answer = answer.message().await;
        let version = answer["result"]["protocolVersion"].as_str();
        Session {
            web,
            id,
            version: version.expect("a version is agreed on").to_owned(),
            token: self.token,
            hello: answer["result"].clone(),
            next_id: std::sync::atomic::AtomicI64::new(1),
        }
    }
}

/// A client that keeps a session.
#[derive(Debug)]
pub struct Session {
    web: Web,
    /// The id of the session.
    pub id: String,
    /// The version that was agreed on.
    pub version: String,
    /// What the server said of itself.
    pub hello: Value,
    token: Option<String>,
    next_id: std::sync::atomic::AtomicI64,
}

impl Session {
    /// A session of a 2025-11-25 client that can do nothing.
    pub async fn open(site: &Site) -> Self {
        Hello::version("2025-11-25").open(site).await
    }

    fn mine(&self, request: Request) -> Request {
        let request = request.header("mcp-session-id", &self.id);
        let request = match self.version.as_str() {
            // Before 2025-06-18 there was no such header.
            "2025-03-26" | "2024-11-05" => request,
            version => request.header("mcp-protocol-version", version),
        };
        match &self.token {
            Some(token) => request.token(token),
            None => request,
        }
    }

    /// An id that was not used yet.
    pub fn fresh_id(&self) -> i64 {
        self.next_id
            .fetch_add(1, std::sync::atomic::Ordering::Relaxed)
    }

    /// A POST of one message in this session.
    pub fn post(&self, message: &Value) -> Request {
        self.mine(Request::post(message))
    }

    /// A POST of a request in this session.
    pub fn ask(&self, method: &str, params: Value) -> Request {
        let id = self.fresh_id();
        self.post(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
    }

    /// A POST of a call of a tool in this session.
    pub fn tool(&self, name: &str, arguments: Value) -> Request {
        self.ask("tools/call", json!({"name": name, "arguments": arguments}))
    }

    /// A GET of a stream in this session.
    pub fn get(&self) -> Request {
        self.mine(Request::get())
    }

    /// The end of this session.
    pub fn delete(&self) -> Request {
        self.mine(Request::delete())
    }

    /// Sends a request.
    pub async fn send(&self, request: Request) -> Answer {
        self.web.send(request).await
    }

    /// Opens the stream on which the server speaks by itself.
    ///
    /// # Panics
    ///
    /// If there is none to be had.
    pub async fn listen(&self) -> Events {
        let answer = self.send(self.get()).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.events()
    }

    /// Takes up a stream after the event with this id.
    ///
    /// # Panics
    ///
    /// If it cannot be taken up.
    pub async fn resume(&self, last_id: &str) -> Events {
        let request = self.get().header("last-event-id", last_id);
        let answer = self.send(request).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.events()
    }

    /// Sends a request and gives its answer, with what came before it on its stream.
    pub async fn exchange(&self, method: &str, params: Value) -> (Vec<Value>, Value) {
        self.send(self.ask(method, params)).await.exchange().await
    }

    /// Sends a request and gives its answer.
    pub async fn request(&self, method: &str, params: Value) -> Value {
        self.exchange(method, params).await.1
    }

    /// Calls a tool and gives its result.
    pub async fn call(&self, name: &str, arguments: Value) -> Value {
        let answer = self.send(self.tool(name, arguments)).await;
        answer.message().await["result"].take()
    }

    /// Sends a notification.
    pub async fn notify(&self, method: &str, params: Value) {
        self.tell(&json!({"jsonrpc": "2.0", "method": method, "params": params}))
            .await;
    }

    /// Sends a notification or a response.
    ///
    /// # Panics
    ///
    /// If it is not accepted.
    pub async fn tell(&self, message: &Value) {
        let answer = self.send(self.post(message)).await;
        assert_eq!(answer.status, 202, "{answer:?}");
        assert!(answer.bytes().await.is_empty(), "202 has no body");
    }
}
