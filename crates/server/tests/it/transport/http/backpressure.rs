//! What clients over HTTP may keep waiting, and how much of it.

use crate::support::{
    held::{OnCancel, held},
    messages::{hello, modern, notification, request},
    tools::tool,
};
use interlock::{BearerTokens, Bounds, Context, HttpOptions, NoArguments, Resource, Server, Tool};
use interlock_testkit::{PATIENCE, web};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
    time::timeout,
};

/// A site whose clients read when the test says so, and no earlier.
struct Site(web::Site);

async fn serve(server: &Server, options: HttpOptions) -> Site {
    Site(web::Site::open(server, options).await)
}

/// A response whose body is read as it comes. In HTTP/1.0 it is not cut into chunks.
struct Answer {
    status: u16,
    head: String,
    rest: BufReader<TcpStream>,
}

impl Site {
    /// Sends the head of a request and what is given of its body.
    async fn begin(&self, head: &str, body: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(self.0.web().address()).await.unwrap();
        let head = format!(
            "{head}Host: localhost\r\nAccept: application/json, text/event-stream\r\n\
             Content-Type: application/json\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(body).await.unwrap();
        stream
    }

    async fn get(&self, path: &str, headers: &str) -> Answer {
        let head = format!("GET {path} HTTP/1.0\r\n{headers}");
        Answer::read(self.begin(&head, b"").await).await
    }

    async fn post(&self, path: &str, headers: &str, message: &Value) -> Answer {
        let body = message.to_string();
        let length = body.len();
        let head = format!("POST {path} HTTP/1.0\r\nContent-Length: {length}\r\n{headers}");
        Answer::read(self.begin(&head, body.as_bytes()).await).await
    }

    /// A new session, as the header that names it.
    async fn session(&self) -> String {
        let begin = request(0, "initialize", hello("2025-11-25"));
        let answer = self.post("/mcp", "", &begin).await;
        let mut lines = answer.head.lines();
        let session = lines.find(|line| line.starts_with("mcp-session-id: "));
        let session = format!("{}\r\n", session.unwrap());
        let ready = notification("notifications/initialized", json!({}));
        assert_eq!(self.post("/mcp", &session, &ready).await.status, 202);
        session
    }
}

impl Answer {
    async fn read(stream: TcpStream) -> Self {
        let mut rest = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            let read = timeout(PATIENCE, rest.read_line(&mut head)).await;
            assert_ne!(read.expect("an answer must come").unwrap(), 0, "{head}");
        }
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Self { status, head, rest }
    }

    fn is_stream(&self) -> bool {
        self.head.contains("content-type: text/event-stream")
    }

    /// The next event's data.
    async fn data(&mut self) -> String {
        loop {
            let mut line = String::new();
            let read = timeout(PATIENCE, self.rest.read_line(&mut line)).await;
            assert_ne!(read.expect("an event must come").unwrap(), 0, "it ended");
            if let Some(data) = line.strip_prefix("data: ") {
                return data.trim().to_owned();
            }
        }
    }

    async fn event(&mut self) -> Value {
        serde_json::from_str(&self.data().await).unwrap()
    }

    async fn json(mut self) -> Value {
        let mut body = Vec::new();
        let read = timeout(PATIENCE, self.rest.read_to_end(&mut body)).await;
        read.expect("the body must end").unwrap();
        serde_json::from_slice(&body).unwrap()
    }

    /// With which status and refusal the server said no.
    async fn refusal(self) -> (u16, i64) {
        let status = self.status;
        let answer = self.json().await;
        let code = &answer["error"]["data"]["refusal"]["code"];
        (status, code.as_i64().unwrap_or_else(|| panic!("{answer}")))
    }
}

fn call(id: u64, name: &str) -> Value {
    request(id, "tools/call", json!({"name": name, "arguments": {}}))
}

/// The headers that 2026-07-28 wants with a request of this method.
fn modern_headers(method: &str) -> String {
    format!("MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\n")
}

#[tokio::test]
async fn a_client_of_http_sse_that_does_not_read_may_not_ask_and_loses_no_answer() {
    let server = Server::builder("s", "0")
        .tool(Tool::new("big", |_: NoArguments, _: Context| async {
            "x".repeat(400_000)
        }))
        .build()
        .unwrap();
    let options = HttpOptions::default()
        .legacy_sse(true)
        .patience(Duration::ZERO);
    let site = serve(&server, options).await;
    let mut events = site.get("/sse", "").await;
    let path = events.data().await;
    let begin = request(0, "initialize", hello("2024-11-05"));
    assert_eq!(site.post(&path, "", &begin).await.status, 202);
    assert_eq!(events.event().await["id"], 0);
    let ready = notification("notifications/initialized", json!({}));
    assert_eq!(site.post(&path, "", &ready).await.status, 202);
    let mut asked = 0;
    loop {
        let answer = site.post(&path, "", &call(asked + 1, "big")).await;
        if answer.status != 202 {
            assert_eq!(answer.refusal().await, (503, 1005));
            break;
        }
        asked += 1;
        assert!(asked < 1000, "nothing holds the client up");
    }
    assert!(asked > 0);
    for id in 1..=asked {
        assert_eq!(events.event().await["id"], id);
    }
    assert_eq!(site.post(&path, "", &call(9999, "big")).await.status, 202);
    assert_eq!(events.event().await["id"], 9999);
}

#[tokio::test]
async fn a_change_is_told_once_and_is_not_pushed_out_by_others() {
    let server = Server::builder("s", "0")
        .tool(tool("a"))
        .resource(Resource::text("r://a", "a"))
        .resource(Resource::text("r://b", "b"))
        .build()
        .unwrap();
    let site = serve(&server, HttpOptions::default()).await;
    let session = site.session().await;
    for (id, uri) in [(1, "r://a"), (2, "r://b")] {
        let subscribe = request(id, "resources/subscribe", json!({"uri": uri}));
        assert_eq!(site.post("/mcp", &session, &subscribe).await.status, 200);
    }
    server.add_tool(tool("b")).unwrap();
    for _ in 0..300 {
        server.resource_updated("r://a");
        server.resource_updated("r://b");
    }
    let unsubscribe = request(3, "resources/unsubscribe", json!({"uri": "r://a"}));
    assert_eq!(site.post("/mcp", &session, &unsubscribe).await.status, 200);
    let mut events = site.get("/mcp", &session).await;
    // The first event has an id and no message.
    assert_eq!(events.data().await, "");
    let first = events.event().await;
    assert_eq!(first["method"], "notifications/tools/list_changed");
    assert_eq!(events.event().await["params"]["uri"], "r://b");
    server.resource_updated("r://b");
    assert_eq!(events.event().await["params"]["uri"], "r://b");
    server.add_tool(tool("c")).unwrap();
    let last = events.event().await;
    assert_eq!(last["method"], "notifications/tools/list_changed");
}

#[tokio::test]
async fn a_principal_may_listen_only_so_often_at_once() {
    let server = Server::builder("s", "0")
        .tool(tool("a"))
        .bounds(Bounds {
            listens: 1,
            ..Bounds::default()
        })
        .build()
        .unwrap();
    let tokens = BearerTokens::new()
        .token("the-secret-of-alice", "alice")
        .token("the-secret-of-bob", "bob");
    let site = serve(&server, HttpOptions::default().authenticator(tokens)).await;
    let listen = |secret: &str| {
        let method = "subscriptions/listen";
        let headers = format!(
            "Authorization: Bearer {secret}\r\n{}",
            modern_headers(method)
        );
        let params = modern(json!({"notifications": {"toolsListChanged": true}}));
        let (site, message) = (&site, request(1, method, params));
        async move { site.post("/mcp", &headers, &message).await }
    };
    let mut first = listen("the-secret-of-alice").await;
    assert_eq!(
        first.event().await["method"],
        "notifications/subscriptions/acknowledged"
    );
    let (_, code) = listen("the-secret-of-alice").await.refusal().await;
    assert_eq!(code, 1059);
    let mut other = listen("the-secret-of-bob").await;
    assert_eq!(
        other.event().await["method"],
        "notifications/subscriptions/acknowledged"
    );
    server.add_tool(tool("b")).unwrap();
    for events in [&mut first, &mut other] {
        let changed = events.event().await;
        assert_eq!(changed["method"], "notifications/tools/list_changed");
    }
    drop(first);
    // The server learns of it in its own time.
    let again = async {
        while !listen("the-secret-of-alice").await.is_stream() {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, again).await.expect("there must be room");
}

fn modern_call(id: u64, name: &str) -> (String, Value) {
    let headers = format!("{}Mcp-Name: {name}\r\n", modern_headers("tools/call"));
    let params = modern(json!({"name": name, "arguments": {}}));
    (headers, request(id, "tools/call", params))
}

/// Asks again and again, since the server learns in its own time that a client has gone.
async fn until_served(site: &Site, headers: &str, message: &Value) {
    let served = async {
        while site.post("/mcp", headers, message).await.status != 200 {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, served).await.expect("there must be room");
}

/// One request may be in flight, and no answer is waited for.
fn one_at_a_time() -> HttpOptions {
    HttpOptions::default().in_flight(1).patience(Duration::ZERO)
}

#[tokio::test]
async fn a_call_is_in_flight_until_its_answer_was_read() {
    let (work, mut holds) = held("work", OnCancel::GoesOn);
    let server = Server::builder("s", "0").tool(work).tool(tool("a"));
    let site = serve(&server.build().unwrap(), one_at_a_time()).await;
    let (headers, message) = modern_call(1, "work");
    let mut answer = site.post("/mcp", &headers, &message).await;
    assert!(answer.is_stream(), "{}", answer.head);
    holds.started().await;
    let (headers, message) = modern_call(2, "a");
    let refused = site.post("/mcp", &headers, &message).await;
    assert_eq!(refused.refusal().await, (503, 1005));
    holds.let_go(1);
    assert_eq!(answer.event().await["id"], 1);
    until_served(&site, &headers, &message).await;
}

#[tokio::test]
async fn who_listens_takes_no_work_from_others() {
    let server = Server::builder("s", "0").tool(tool("a")).build().unwrap();
    let site = serve(&server, one_at_a_time()).await;
    let params = modern(json!({"notifications": {"toolsListChanged": true}}));
    let listen = request(1, "subscriptions/listen", params);
    let headers = modern_headers("subscriptions/listen");
    let listening = site.post("/mcp", &headers, &listen).await;
    assert!(listening.is_stream(), "{}", listening.head);
    let (headers, message) = modern_call(2, "a");
    let served = site.post("/mcp", &headers, &message).await;
    assert_eq!(served.status, 200);
}

#[tokio::test]
async fn a_post_of_http_sse_is_in_flight() {
    let server = Server::builder("s", "0").tool(tool("a")).build().unwrap();
    let site = serve(&server, one_at_a_time().in_flight(0).legacy_sse(true)).await;
    let mut listening = site.get("/sse", "").await;
    let path = listening.data().await;
    let begin = request(0, "initialize", hello("2024-11-05"));
    let refused = site.post(&path, "", &begin).await;
    assert_eq!(refused.refusal().await, (503, 1005));
}

#[tokio::test]
async fn bodies_that_are_too_large_together_are_refused_until_their_calls_are_over() {
    let (work, mut holds) = held("work", OnCancel::GoesOn);
    let server = Server::builder("s", "0").tool(work).tool(tool("a"));
    let options = HttpOptions::default()
        .body_memory(64 * 1024)
        .patience(Duration::ZERO);
    let site = serve(&server.build().unwrap(), options).await;
    let session = site.session().await;
    let large = |id, name| {
        let mut message = call(id, name);
        message["params"]["_meta"] = json!({"padding": "x".repeat(40_000)});
        message
    };
    let (first, second) = (large(1, "work"), large(2, "a"));
    // Its answer has begun long before its call is over.
    let mut first = site.post("/mcp", &session, &first).await;
    assert!(first.is_stream(), "{}", first.head);
    holds.started().await;
    let refused = site.post("/mcp", &session, &second).await;
    assert_eq!(refused.refusal().await, (429, 1002));
    let small = site.post("/mcp", &session, &call(3, "a")).await;
    assert_eq!(small.status, 200);
    holds.let_go(1);
    assert_eq!(first.data().await, "", "it begins with an id alone");
    assert_eq!(first.event().await["id"], 1);
    until_served(&site, &session, &second).await;
}
