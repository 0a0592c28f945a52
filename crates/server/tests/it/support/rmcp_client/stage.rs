//! rmcp's client on every wire, and what it hears.

use interlock::{HttpOptions, Server};
use interlock_testkit::PATIENCE;
use rmcp::{
    ClientHandler, ErrorData, RoleClient, ServerHandler, ServiceError,
    model::{
        CallToolRequest, CallToolRequestParams, CallToolResult, CancelledNotificationParam,
        ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult,
        ElicitRequestParams, ElicitResult, ElicitationAction, Implementation, ListRootsResult,
        LoggingMessageNotificationParam, ProgressNotificationParam, ProtocolVersion,
        ResourceUpdatedNotificationParam, Root, SamplingMessage,
    },
    service::{
        ClientInitializeError, ClientLifecycleMode, NotificationContext, PeerRequestOptions,
        RequestContext, RequestHandle, RunningService, serve_client_with_lifecycle, serve_server,
    },
    transport::{
        IntoTransport, StreamableHttpClientTransport,
        streamable_http_client::StreamableHttpClientTransportConfig,
    },
};
use serde_json::{Value, json};
use std::{io, net::SocketAddr};
use tokio::{
    net::{
        TcpListener,
        unix::pipe::{Receiver, Sender, pipe},
    },
    sync::{mpsc, oneshot},
    task::JoinHandle,
};

/// How a client and a server are connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire {
    Stdio,
    Http,
}

/// How a client begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// With `initialize`, asking for this version.
    Handshake(&'static str),
    /// With `server/discover`.
    Discover,
}

/// The newest version that has a handshake.
pub(crate) const HANDSHAKE: Start = Start::Handshake("2025-11-25");

/// The version that has none.
pub(crate) const MODERN: Start = Start::Discover;

/// Makes a test of each function, on each wire and for each start.
macro_rules! on_every_wire {
    ($start:ident; $($test:ident)*) => {
        mod stdio {
            $(#[tokio::test]
            async fn $test() {
                super::$test($crate::support::rmcp_client::stage::Wire::Stdio, $crate::support::rmcp_client::stage::$start).await;
            })*
        }

        mod http {
            $(#[tokio::test]
            async fn $test() {
                super::$test($crate::support::rmcp_client::stage::Wire::Http, $crate::support::rmcp_client::stage::$start).await;
            })*
        }
    };
}
pub(crate) use on_every_wire;

/// What a client heard without having asked.
#[derive(Debug)]
pub(crate) enum Heard {
    Progress(ProgressNotificationParam),
    Log(LoggingMessageNotificationParam),
    Updated(String),
    Tools,
    Resources,
    Prompts,
    /// A question that it does not answer.
    Asked,
    /// The server does not want the answer to this any more.
    Cancelled(CancelledNotificationParam),
}

/// A client's own side: it writes down what it hears, and answers what it is asked.
pub(crate) struct Ears {
    heard: mpsc::UnboundedSender<Heard>,
    config: ClientConfig,
}

/// What the client of these tests says that it can do.
pub(crate) fn able() -> ClientCapabilities {
    let abilities = json!({
        "roots": {"listChanged": true},
        "sampling": {"tools": {}},
        "elicitation": {"form": {}, "url": {}},
    });
    serde_json::from_value(abilities).unwrap()
}

impl Ears {
    fn new(
        capabilities: ClientCapabilities,
        start: Start,
    ) -> (Self, mpsc::UnboundedReceiver<Heard>) {
        let (heard, hears) = mpsc::unbounded_channel();
        let mut config = ClientConfig::new(capabilities, Implementation::new("guest", "7"));
        if let Start::Handshake(version) = start {
            config.protocol_version = version_of(version);
        }
        (Self { heard, config }, hears)
    }

    fn note(&self, heard: Heard) {
        let _ = self.heard.send(heard);
    }
}

pub(crate) fn version_of(text: &str) -> ProtocolVersion {
    serde_json::from_value(text.into()).unwrap()
}

impl ClientHandler for Ears {
    async fn create_message(
        &self,
        params: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let asked = serde_json::to_value(&params.messages[0].content).unwrap();
        let said = format!("I was asked: {}", asked["text"].as_str().unwrap());
        Ok(CreateMessageResult::new(
            SamplingMessage::assistant_text(said),
            "a-model".to_owned(),
        ))
    }

    async fn list_roots(
        &self,
        _: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, ErrorData> {
        Ok(ListRootsResult::new(vec![
            Root::new("file:///home/ada").with_name("home"),
        ]))
    }

    /// Declines or ignores what it is told to, and is Ada otherwise.
    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let request = serde_json::to_value(&request).unwrap();
        let message = request["message"].as_str().unwrap();
        if message.contains("decline") {
            return Ok(ElicitResult::new(ElicitationAction::Decline));
        }
        if message.contains("ignore") {
            self.note(Heard::Asked);
            std::future::pending::<()>().await;
        }
        let accepted = ElicitResult::new(ElicitationAction::Accept);
        Ok(match request["mode"].as_str() {
            Some("url") => accepted,
            _ => accepted.with_content(json!({"name": "Ada"})),
        })
    }

    async fn on_progress(
        &self,
        said: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.note(Heard::Progress(said));
    }

    async fn on_logging_message(
        &self,
        said: LoggingMessageNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.note(Heard::Log(said));
    }

    async fn on_resource_updated(
        &self,
        said: ResourceUpdatedNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.note(Heard::Updated(said.uri));
    }

    async fn on_resource_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.note(Heard::Resources);
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.note(Heard::Tools);
    }

    async fn on_prompt_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.note(Heard::Prompts);
    }

    async fn on_cancelled(
        &self,
        said: CancelledNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.note(Heard::Cancelled(said));
    }

    fn get_info(&self) -> ClientConfig {
        self.config.clone()
    }
}

/// A client that is being served.
pub(crate) struct Guest {
    pub(crate) client: RunningService<RoleClient, Ears>,
    hears: mpsc::UnboundedReceiver<Heard>,
    pub(crate) host: Host,
}

/// Whoever serves it.
pub(crate) struct Host {
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<io::Result<()>>,
    address: Option<SocketAddr>,
}

impl Host {
    /// Ends the server as a signal would, and waits until it has ended.
    pub(crate) async fn end(mut self) {
        self.stop();
        crate::support::ends::ended(self.task).await;
    }

    pub(crate) fn stop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
    }

    /// How a client reaches it over HTTP.
    pub(crate) fn config(&self) -> StreamableHttpClientTransportConfig {
        let address = self.address.expect("it is served over HTTP");
        StreamableHttpClientTransportConfig::with_uri(format!("http://{address}/mcp"))
    }

    /// Ends a server over HTTP, and lets another take its place.
    pub(crate) async fn replaced_by(self, server: &Server) -> Self {
        let address = self.address.expect("it is served over HTTP");
        self.end().await;
        over_http(server, address, HttpOptions::default()).await
    }

    /// Waits until the server has ended by itself.
    pub(crate) async fn ended(self) {
        crate::support::ends::ended(self.task).await;
    }
}

/// Serves one able client.
pub(crate) async fn join(server: &Server, wire: Wire, start: Start) -> Guest {
    join_as(server, wire, start, able()).await
}

/// Serves one client that can do this.
pub(crate) async fn join_as(
    server: &Server,
    wire: Wire,
    start: Start,
    capabilities: ClientCapabilities,
) -> Guest {
    let joined = try_join(server, wire, start, capabilities).await;
    joined.unwrap_or_else(|error| panic!("the client must be let in: {error:?}"))
}

pub(crate) async fn try_join(
    server: &Server,
    wire: Wire,
    start: Start,
    capabilities: ClientCapabilities,
) -> Result<Guest, ClientInitializeError> {
    match wire {
        Wire::Stdio => {
            let (stream, host) = over_pipes(server);
            meet(stream, host, start, capabilities).await
        }
        Wire::Http => {
            let host = over_http(server, LOOPBACK.into(), HttpOptions::default()).await;
            let transport = StreamableHttpClientTransport::from_config(host.config());
            meet(transport, host, start, capabilities).await
        }
    }
}

/// Serves one able client over HTTP, in this way.
pub(crate) async fn join_by(
    server: &Server,
    options: HttpOptions,
    start: Start,
    client: impl FnOnce(StreamableHttpClientTransportConfig) -> StreamableHttpClientTransportConfig,
) -> Result<Guest, ClientInitializeError> {
    let host = over_http(server, LOOPBACK.into(), options).await;
    let transport = StreamableHttpClientTransport::from_config(client(host.config()));
    meet(transport, host, start, able()).await
}

/// Any free port of this machine.
pub(crate) const LOOPBACK: ([u8; 4], u16) = ([127, 0, 0, 1], 0);

/// Serves one able client by rmcp's own server.
pub(crate) async fn join_rmcp(handler: impl ServerHandler, start: Start) -> Guest {
    let (theirs, ours) = tokio::io::duplex(64 * 1024);
    let task = tokio::spawn(async move {
        let served = serve_server(handler, ours)
            .await
            .map_err(io::Error::other)?;
        served.waiting().await?;
        Ok(())
    });
    let host = Host {
        stop: None,
        task,
        address: None,
    };
    let joined = meet(theirs, host, start, able()).await;
    joined.unwrap_or_else(|error| panic!("the client must be let in: {error:?}"))
}

async fn meet<T, E, A>(
    transport: T,
    host: Host,
    start: Start,
    capabilities: ClientCapabilities,
) -> Result<Guest, ClientInitializeError>
where
    T: IntoTransport<RoleClient, E, A>,
    E: std::error::Error + Send + Sync + 'static,
{
    let (client, hears) = greet(transport, start, capabilities).await?;
    Ok(Guest {
        client,
        hears,
        host,
    })
}

/// A client that begins like this, and what it hears.
pub(crate) async fn greet<T, E, A>(
    transport: T,
    start: Start,
    capabilities: ClientCapabilities,
) -> Result<
    (
        RunningService<RoleClient, Ears>,
        mpsc::UnboundedReceiver<Heard>,
    ),
    ClientInitializeError,
>
where
    T: IntoTransport<RoleClient, E, A>,
    E: std::error::Error + Send + Sync + 'static,
{
    let (ears, hears) = Ears::new(capabilities, start);
    let mode = match start {
        Start::Handshake(_) => ClientLifecycleMode::Initialize,
        Start::Discover => ClientLifecycleMode::Discover {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        },
    };
    let client = serve_client_with_lifecycle(ears, transport, mode).await?;
    Ok((client, hears))
}

/// Serves one client in memory.
pub(crate) fn over_pipes(server: &Server) -> ((Receiver, Sender), Host) {
    let (to_server, input) = pipe().unwrap();
    let (output, from_server) = pipe().unwrap();
    let (stop, stopped) = oneshot::channel();
    let server = server.clone();
    let task = tokio::spawn(async move { server.serve(input, output, until(stopped)).await });
    let host = Host {
        stop: Some(stop),
        task,
        address: None,
    };
    ((from_server, to_server), host)
}

/// Serves over HTTP.
pub(crate) async fn over_http(server: &Server, address: SocketAddr, options: HttpOptions) -> Host {
    let listener = TcpListener::bind(address).await.unwrap();
    let address = listener.local_addr().ok();
    let (stop, stopped) = oneshot::channel();
    let server = server.clone();
    let task = tokio::spawn(async move {
        server
            .serve_http_until(listener, options, until(stopped))
            .await
    });
    Host {
        stop: Some(stop),
        task,
        address,
    }
}

async fn until(stopped: oneshot::Receiver<()>) {
    if stopped.await.is_err() {
        std::future::pending::<()>().await;
    }
}

impl Guest {
    /// The next thing that it hears.
    pub(crate) async fn hears(&mut self) -> Heard {
        let heard = tokio::time::timeout(PATIENCE, self.hears.recv()).await;
        heard.expect("the client must hear something").unwrap()
    }

    /// Everything that it has heard so far.
    pub(crate) fn has_heard(&mut self) -> Vec<Heard> {
        std::iter::from_fn(|| self.hears.try_recv().ok()).collect()
    }

    /// Begins a call of a tool, which can be taken back.
    pub(crate) async fn begin(&self, tool: &'static str) -> RequestHandle<RoleClient> {
        let request = CallToolRequest::new(call(tool, json!({})));
        let options = PeerRequestOptions::no_options();
        let begun = self
            .client
            .send_cancellable_request(request.into(), options);
        begun.await.unwrap()
    }

    pub(crate) async fn call(&self, tool: &'static str, arguments: Value) -> CallToolResult {
        let call = self.client.call_tool(call(tool, arguments));
        let result = tokio::time::timeout(PATIENCE, call).await;
        let result = result.expect("the call must be answered");
        result.unwrap_or_else(|error| panic!("{tool} must be answered with a result: {error:?}"))
    }
}

pub(crate) fn call(tool: &'static str, arguments: Value) -> CallToolRequestParams {
    CallToolRequestParams::new(tool).with_arguments(arguments.as_object().unwrap().clone())
}

/// The text of a result's first content.
pub(crate) fn text(result: &CallToolResult) -> &str {
    let content = result.content.first().and_then(|content| content.as_text());
    &content.unwrap_or_else(|| panic!("{result:?}")).text
}

/// The code of an error that the server sent.
pub(crate) fn code(error: ServiceError) -> i32 {
    let ServiceError::McpError(error) = error else {
        panic!("{error:?}");
    };
    error.code.0
}
