//! Who plays the recorded cases: a client, on one of three wires.

use crate::support::{
    messages::hello,
    rmcp_client::{
        stage::{Ears, Host, LOOPBACK, Start, able, greet, over_http, over_pipes},
        tap::{Log, tap},
    },
};
use interlock::{HttpOptions, Server};
use interlock_testkit::{Client, Connection, PATIENCE, connect};
use rmcp::{
    RoleClient, ServiceError,
    model::{
        CallToolRequest, ClientRequest, GetPromptRequest, ListPromptsRequest,
        ListResourceTemplatesRequest, ListResourcesRequest, ListToolsRequest, PingRequest,
        ReadResourceRequest,
    },
    service::{PeerRequestOptions, RequestHandle, RunningService},
    transport::{IntoTransport, StreamableHttpClientTransport},
};
use serde_json::{Value, json};
use std::collections::HashMap;

/// The versions with a handshake.
const ALL: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/// One server, and the way in which clients come to it.
pub(super) trait Venue: Sized {
    type Player: Player;

    /// The versions with a handshake that this wire has.
    const VERSIONS: &[&str];

    async fn open(server: &Server) -> Self;

    /// One more client, past its handshake.
    async fn join(&self, version: &'static str) -> Self::Player;
}

/// A client of the handshake era.
pub(super) trait Player {
    /// Sends a request without waiting for its answer, and gives its number.
    async fn begin(&mut self, method: &str, params: Value) -> i64;

    /// The answer to it, and the methods of the notifications that came before and were not told
    /// yet.
    async fn until(&mut self, id: i64) -> (Vec<String>, Value);

    /// Sends word that the answer is not wanted any more.
    async fn take_back(&mut self, id: i64);

    async fn exchange(&mut self, method: &str, params: Value) -> (Vec<String>, Value) {
        let id = self.begin(method, params).await;
        self.until(id).await
    }

    /// The answer to a request that moves nothing and of which nobody is told.
    async fn request(&mut self, method: &str, params: Value) -> Value {
        let (before, answer) = self.exchange(method, params).await;
        assert_eq!(before, [] as [&str; 0], "{method}");
        answer
    }
}

/// Two ends in memory, and a client made by hand.
pub(super) struct Pair(Server);

pub(super) struct ByHand {
    client: Client,
    _connection: Connection,
}

impl Venue for Pair {
    type Player = ByHand;

    const VERSIONS: &[&str] = &ALL;

    async fn open(server: &Server) -> Self {
        Self(server.clone())
    }

    async fn join(&self, version: &'static str) -> ByHand {
        let (mut client, connection) = connect(&self.0);
        let answer = client.request("initialize", hello(version)).await;
        assert_eq!(answer["result"]["protocolVersion"], version);
        let params = json!({});
        client.notify("notifications/initialized", params).await;
        ByHand {
            client,
            _connection: connection,
        }
    }
}

impl Player for ByHand {
    async fn begin(&mut self, method: &str, params: Value) -> i64 {
        self.client.begin(method, params).await
    }

    async fn until(&mut self, id: i64) -> (Vec<String>, Value) {
        let (before, answer) = self.client.until(id).await;
        let methods = before.iter().map(|one| super::text(&one["method"]));
        (methods.map(str::to_owned).collect(), answer)
    }

    async fn take_back(&mut self, id: i64) {
        let params = json!({"requestId": id});
        self.client.notify("notifications/cancelled", params).await;
    }
}

/// Pipes, and rmcp's client.
pub(super) struct Pipes(Server);

impl Venue for Pipes {
    type Player = Rmcp;

    const VERSIONS: &[&str] = &ALL;

    async fn open(server: &Server) -> Self {
        Self(server.clone())
    }

    async fn join(&self, version: &'static str) -> Rmcp {
        let (stream, host) = over_pipes(&self.0);
        Rmcp::new(stream, version, Some(host)).await
    }
}

/// A site on loopback, and rmcp's clients.
pub(super) struct Http(Host);

impl Venue for Http {
    type Player = Rmcp;

    /// The first one had another way over HTTP.
    const VERSIONS: &[&str] = ALL.split_at(1).1;

    async fn open(server: &Server) -> Self {
        Self(over_http(server, LOOPBACK.into(), HttpOptions::default()).await)
    }

    async fn join(&self, version: &'static str) -> Rmcp {
        let transport = StreamableHttpClientTransport::from_config(self.0.config());
        Rmcp::new(transport, version, None).await
    }
}

/// rmcp's client, and what came to it in the order in which it came.
pub(super) struct Rmcp {
    client: RunningService<RoleClient, Ears>,
    log: Log,
    open: HashMap<i64, RequestHandle<RoleClient>>,
    _host: Option<Host>,
}

impl Rmcp {
    async fn new<T, E, A: 'static>(transport: T, version: &'static str, host: Option<Host>) -> Self
    where
        T: IntoTransport<RoleClient, E, A>,
        E: std::error::Error + Send + Sync + 'static,
    {
        let (transport, log) = tap(transport);
        let start = Start::Handshake(version);
        let (client, _) = greet(transport, start, able()).await.unwrap();
        let agreed = &client.peer_info().unwrap().protocol_version;
        assert_eq!(agreed.as_str(), version);
        log.take();
        Self {
            client,
            log,
            open: HashMap::new(),
            _host: host,
        }
    }
}

impl Player for Rmcp {
    async fn begin(&mut self, method: &str, params: Value) -> i64 {
        let options = PeerRequestOptions::no_options();
        let request = typed(method, params);
        let sent = self.client.send_request_with_option(request, options).await;
        let handle = sent.unwrap();
        let id = serde_json::to_value(&handle.id).unwrap().as_i64().unwrap();
        self.open.insert(id, handle);
        id
    }

    async fn until(&mut self, id: i64) -> (Vec<String>, Value) {
        let handle = self.open.remove(&id).unwrap();
        let answer = tokio::time::timeout(PATIENCE, handle.await_response()).await;
        let answer = match answer.expect("the client must be answered") {
            Ok(result) => json!({"result": result}),
            Err(ServiceError::McpError(error)) => json!({"error": error}),
            Err(error) => panic!("{error:?}"),
        };
        let before = self.log.take_until(id);
        let methods = before.iter().filter_map(|one| one["method"].as_str());
        (methods.map(str::to_owned).collect(), answer)
    }

    async fn take_back(&mut self, id: i64) {
        let handle = self.open.remove(&id).unwrap();
        handle.cancel(None).await.unwrap();
    }
}

fn typed(method: &str, params: Value) -> ClientRequest {
    match method {
        "ping" => PingRequest::default().into(),
        "tools/list" => ListToolsRequest::default().into(),
        "resources/list" => ListResourcesRequest::default().into(),
        "resources/templates/list" => ListResourceTemplatesRequest::default().into(),
        "prompts/list" => ListPromptsRequest::default().into(),
        "tools/call" => CallToolRequest::new(serde_json::from_value(params).unwrap()).into(),
        "resources/read" => {
            ReadResourceRequest::new(serde_json::from_value(params).unwrap()).into()
        }
        "prompts/get" => GetPromptRequest::new(serde_json::from_value(params).unwrap()).into(),
        other => panic!("no case asks for {other}"),
    }
}
