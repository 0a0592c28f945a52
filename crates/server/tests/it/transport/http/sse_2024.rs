//! HTTP+SSE, the transport of 2024-11-05.

use crate::support::{
    http::{is_served, plain, plain_site},
    messages::{codes, hello, request, text},
    puppet::{Act, puppet},
};
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use interlock::{BearerTokens, Context, HttpOptions, NoArguments, Server, Tool};
use interlock_testkit::{
    soon,
    web::{Events, Request, Session, Site},
};
use serde_json::{Value, json};
use std::sync::Arc;

async fn site(server: &Server) -> Site {
    Site::open(server, HttpOptions::default().legacy_sse(true)).await
}

/// A client: its stream, and where it sends its messages.
struct Old {
    events: Events,
    endpoint: String,
}

impl Old {
    async fn connect(site: &Site) -> Self {
        Self::connect_as(site, None).await
    }

    async fn connect_as(site: &Site, token: Option<&str>) -> Self {
        let mut request = Request::get().path("/sse");
        if let Some(token) = token {
            request = request.token(token);
        }
        let answer = site.send(request).await;
        assert_eq!(answer.status, 200);
        let mut events = answer.events();
        let first = events.event().await.unwrap();
        assert_eq!(first.event.as_deref(), Some("endpoint"), "{first:?}");
        let endpoint = first.data.unwrap();
        assert!(endpoint.starts_with('/'), "{endpoint}");
        Self { events, endpoint }
    }

    /// A message as clients of that time send it.
    fn post(&self, message: &Value) -> Request {
        Request::post(message)
            .without("accept")
            .path(&self.endpoint)
    }

    async fn send(&self, site: &Site, message: &Value) {
        let answer = site.send(self.post(message)).await;
        assert_eq!(answer.status, 202, "{message}");
    }

    async fn receive(&mut self) -> Value {
        let event = self.events.event().await.unwrap();
        assert_eq!(event.event.as_deref(), Some("message"), "{event:?}");
        serde_json::from_str(&event.data.unwrap()).unwrap()
    }

    async fn initialize(&mut self, site: &Site) -> Value {
        self.send(site, &request(0, "initialize", hello("2024-11-05")))
            .await;
        let answer = self.receive().await;
        self.send(
            site,
            &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        )
        .await;
        answer
    }
}

#[tokio::test]
async fn it_is_not_there_unless_it_is_switched_on() {
    let site = plain_site().await;
    let get = site.send(Request::get().path("/sse")).await;
    assert!([404, 405].contains(&get.status));
    let post = Request::post(&request(0, "initialize", hello("2024-11-05")));
    let post = site.send(post.path("/messages?sessionId=x")).await;
    assert!([404, 405].contains(&post.status));
}

#[tokio::test]
async fn one_stream_carries_every_answer() {
    let site = site(&plain().build().unwrap()).await;
    let mut client = Old::connect(&site).await;
    let answer = client.initialize(&site).await;
    assert_eq!(
        answer["result"]["protocolVersion"], "2024-11-05",
        "{answer}"
    );
    client
        .send(
            &site,
            &request(
                "a",
                "tools/call",
                json!({"name": "echo", "arguments": {"text": "hi"}}),
            ),
        )
        .await;
    let answer = client.receive().await;
    assert_eq!((answer["id"].as_str(), text(&answer)), (Some("a"), "hi"));
    let walk =
        json!({"name": "walk", "arguments": {"steps": [1, 2]}, "_meta": {"progressToken": 5}});
    client.send(&site, &request("b", "tools/call", walk)).await;
    for step in [1.0, 2.0] {
        let message = client.receive().await;
        assert_eq!(message["params"]["progress"], step, "{message}");
        assert_eq!(message["params"]["progressToken"], 5, "{message}");
    }
    assert_eq!(text(&client.receive().await), "there");
    client
        .send(&site, &request("c", "nobody/knows", json!({})))
        .await;
    assert_eq!(client.receive().await["error"]["code"], -32601);
}

#[tokio::test]
async fn the_initialization_property_holds_here_too() {
    let site = site(&plain().build().unwrap()).await;
    let mut client = Old::connect(&site).await;
    client
        .send(
            &site,
            &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        )
        .await;
    client
        .send(&site, &request(1, "tools/list", json!({})))
        .await;
    let answer = client.receive().await;
    assert_eq!(codes(&answer), (-32602, 1076), "{answer}");
    client.initialize(&site).await;
    client
        .send(&site, &request(2, "initialize", hello("2024-11-05")))
        .await;
    let answer = client.receive().await;
    assert!(answer["error"].is_object(), "{answer}");
}

#[tokio::test]
async fn messages_go_to_their_own_client_and_no_other() {
    let server = plain().build().unwrap();
    let site = site(&server).await;
    let (mut one, mut two) = (Old::connect(&site).await, Old::connect(&site).await);
    assert_ne!(one.endpoint, two.endpoint);
    for client in [&mut one, &mut two] {
        client.initialize(&site).await;
    }
    one.send(
        &site,
        &request(1, "resources/subscribe", json!({"uri": "note://rules"})),
    )
    .await;
    assert_eq!(one.receive().await["result"], json!({}));
    server.resource_updated("note://rules");
    assert_eq!(one.receive().await["params"]["uri"], "note://rules");
    two.send(&site, &request(2, "ping", json!({}))).await;
    assert_eq!(two.receive().await["id"], 2, "nothing came before");
}

#[tokio::test]
async fn a_client_that_is_not_there_is_404_and_one_that_is_not_named_400() {
    let site = site(&plain().build().unwrap()).await;
    let ping = request(1, "ping", json!({}));
    let to = |path: &str| Request::post(&ping).path(path);
    assert_eq!(site.send(to("/messages")).await.status, 400);
    assert_eq!(
        site.send(to("/messages?sessionId=made-up")).await.status,
        404
    );
    let client = Old::connect(&site).await;
    let post = client.post(&ping);
    drop(client);
    soon("a session must end with its stream", async {
        while site.send(post.clone()).await.status != 404 {}
    })
    .await;
}

#[tokio::test]
async fn a_call_of_a_client_that_leaves_is_not_left_running() {
    let (tool, mut puppet) = puppet("act");
    let site = site(&plain().tool(tool).build().unwrap()).await;
    let mut client = Old::connect(&site).await;
    client.initialize(&site).await;
    client
        .send(&site, &request(1, "tools/call", json!({"name": "act"})))
        .await;
    let call = puppet.call().await;
    call.tell(Act::Return("done"));
    assert_eq!(text(&client.receive().await), "done");
}

#[tokio::test]
async fn another_principal_cannot_speak_for_a_client() {
    let tokens = BearerTokens::new()
        .token("secret-of-alice", "alice")
        .token("secret-of-bob", "bob");
    let options = HttpOptions::default()
        .legacy_sse(true)
        .authenticator(tokens);
    let site = Site::open(&plain().build().unwrap(), options).await;
    let client = Old::connect_as(&site, Some("secret-of-alice")).await;
    let ping = client.post(&request(1, "ping", json!({})));
    assert_eq!(site.send(ping.clone()).await.status, 401);
    assert_eq!(
        site.send(ping.clone().token("secret-of-bob")).await.status,
        404
    );
    assert_eq!(site.send(ping.token("secret-of-alice")).await.status, 202);
}

#[tokio::test]
async fn a_foreign_page_is_refused() {
    let site = site(&plain().build().unwrap()).await;
    let client = Old::connect(&site).await;
    for request in [
        Request::get().path("/sse"),
        client.post(&request(1, "ping", json!({}))),
    ] {
        assert_eq!(
            site.send(request.header("origin", "https://evil.example"))
                .await
                .status,
            403
        );
    }
}

#[tokio::test]
async fn the_other_transports_are_served_beside_it() {
    let site = site(&plain().build().unwrap()).await;
    let mut client = Old::connect(&site).await;
    client.initialize(&site).await;
    let session = Session::open(&site).await;
    is_served(&session).await;
    let answer = site
        .send(Request::modern(1, "server/discover", json!({})))
        .await;
    assert_eq!(answer.status, 200);
    client.send(&site, &request(1, "ping", json!({}))).await;
    assert_eq!(client.receive().await["result"], json!({}));
}

#[tokio::test]
async fn a_site_that_stops_closes_its_streams() {
    let mut site = site(&plain().build().unwrap()).await;
    let mut client = Old::connect(&site).await;
    client.initialize(&site).await;
    site.drain();
    assert_eq!(client.events.event().await, None);
    site.ended().await;
}

#[test]
fn a_stream_that_outlives_the_runtime_goes_quietly() {
    let held = Arc::new(());
    let tool_holds = Arc::clone(&held);
    let tool = Tool::new("t", move |_: NoArguments, _: Context| {
        let _held = Arc::clone(&tool_holds);
        async { "" }
    });
    let server = Server::builder("s", "1").tool(tool).build().unwrap();
    let options = HttpOptions::default().legacy_sse(true);
    let router = TowerToHyperService::new(server.router(options).unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let stream = runtime.block_on(async {
        let request = axum::extract::Request::get("/sse")
            .header("host", "localhost")
            .header("accept", "text/event-stream")
            .body(axum::body::Body::empty());
        router.call(request.unwrap()).await.unwrap()
    });
    assert_eq!(stream.status(), 200);
    drop((runtime, router, server));
    assert!(Arc::strong_count(&held) > 1, "the stream holds the server");
    drop(stream);
    assert_eq!(Arc::strong_count(&held), 1);
}
