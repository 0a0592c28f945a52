//! A mounted handler, and our connection to it.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "what rmcp can say may become more"
)]

use crate::{
    core::Core,
    model::{ClientCapabilities, Implementation, change::ServerChange},
    mount::{
        Handler, MountError,
        inventory::{Inventory, Lister},
        sync::{self, Stale},
        transport::HandlerConnection,
    },
};
use interlock_workflow::Kind;
use rmcp::{
    ErrorData, RoleServer, Service,
    model::{
        ClientNotification, ClientRequest, InitializeRequest, InitializeRequestParams,
        InitializedNotification, JsonRpcMessage, ProtocolVersion, RequestId, ServerConfig,
        ServerNotification, ServerResult,
    },
    service::{NotificationContext, RequestContext, ServiceRole},
};
use std::{
    borrow::Cow,
    fmt,
    sync::{Arc, Mutex, OnceLock, Weak, atomic::AtomicI64},
};

/// A mounted handler.
pub(crate) struct Mounted {
    pub(super) handler: Arc<Handler>,
    /// The connection on which it can speak outside of calls, as long as it is mounted.
    pub(super) connection: HandlerConnection<SharedHandler>,
    /// The id of its next call.
    pub(super) next_call: AtomicI64,
    /// What the names of its tools and prompts begin with here.
    pub(super) prefix: OnceLock<String>,
    /// What it answered to `initialize`.
    info: OnceLock<ServerConfig>,
    pub(super) stale: Arc<Stale>,
    /// What the server has of it.
    pub(super) synced: Mutex<Inventory>,
    /// The server that it is mounted in, once that is built.
    server: OnceLock<Weak<Core>>,
}

/// rmcp's connection wants a service of its own.
pub(super) struct SharedHandler(Arc<Handler>);

impl Service<RoleServer> for SharedHandler {
    async fn handle_request(
        &self,
        request: <RoleServer as ServiceRole>::PeerReq,
        context: RequestContext<RoleServer>,
    ) -> Result<ServerResult, ErrorData> {
        self.0.handle_request(request, context).await
    }

    async fn handle_notification(
        &self,
        notification: ClientNotification,
        context: NotificationContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.0.handle_notification(notification, context).await
    }

    fn get_info(&self) -> ServerConfig {
        self.0.get_info()
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        self.0.supported_protocol_versions()
    }
}

impl Mounted {
    pub(super) fn new(handler: Arc<Handler>) -> Arc<Self> {
        let service = SharedHandler(Arc::clone(&handler));
        let (connection, messages) = HandlerConnection::open(service, client_info());
        let mounted = Arc::new(Self {
            handler,
            connection,
            next_call: AtomicI64::new(0),
            prefix: OnceLock::new(),
            info: OnceLock::new(),
            stale: Arc::default(),
            synced: Mutex::default(),
            server: OnceLock::new(),
        });
        tokio::spawn(sync::run(Arc::downgrade(&mounted), messages));
        mounted
    }

    /// Initializes the handler, as its client.
    pub(super) async fn initialize(&self) -> Result<&ServerConfig, MountError> {
        let request = ClientRequest::InitializeRequest(InitializeRequest::new(client_info()));
        let answer = self.handler.handle_request(request, self.context()).await;
        let info =
            if let ServerResult::InitializeResult(info) = answer.map_err(MountError::Initialize)? {
                info
            } else {
                self.handler.get_info()
            };
        let ready = ClientNotification::InitializedNotification(InitializedNotification::default());
        self.connection.send(JsonRpcMessage::notification(ready));
        Ok(self.info.get_or_init(|| info))
    }

    /// Reads the handler's lists, outside of any call.
    pub(super) fn lister(&self) -> Lister<'_> {
        Lister {
            handler: &*self.handler,
            context: self.context(),
        }
    }

    fn context(&self) -> RequestContext<RoleServer> {
        RequestContext::new(RequestId::Number(0), self.connection.peer().clone())
    }

    /// The server's name for a tool or a prompt of the handler.
    pub(super) fn prefixed(&self, name: &str) -> String {
        let prefix = self.prefix.get().map_or("", String::as_str);
        format!("{prefix}{name}")
    }

    /// Whether it completes arguments.
    pub(super) fn completes(&self) -> bool {
        let info = self.info.get();
        info.is_some_and(|info| info.capabilities.completions.is_some())
    }

    /// Attaches the handler to the server that was built with it.
    pub(crate) fn attach(&self, core: &Arc<Core>) {
        if self.server.set(Arc::downgrade(core)).is_ok() {
            self.stale.wake();
        }
    }

    /// The server that it is mounted in, while that lives.
    pub(super) fn server(&self) -> Option<Arc<Core>> {
        self.server.get()?.upgrade()
    }

    /// Takes a notification that is not about one call.
    pub(super) fn on_notification(&self, notification: ServerNotification) {
        match notification {
            ServerNotification::ResourceUpdatedNotification(said) => {
                if let Some(server) = self.server() {
                    server
                        .subscribers
                        .notify(&ServerChange::Resource(said.params.uri.into()));
                }
            }
            ServerNotification::ToolListChangedNotification(_) => self.stale.mark(Kind::Tool),
            ServerNotification::ResourceListChangedNotification(_) => {
                self.stale.mark(Kind::Resource);
            }
            ServerNotification::PromptListChangedNotification(_) => self.stale.mark(Kind::Prompt),
            other => tracing::debug!(
                ?other,
                "a notification of a mounted handler is not passed on"
            ),
        }
    }
}

impl fmt::Debug for Mounted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let info = self.info.get();
        let name = info.map(|info| &info.server_info.name);
        f.debug_tuple("Mounted").field(&name).finish()
    }
}

/// How we introduce ourselves to a handler.
fn client_info() -> InitializeRequestParams {
    let name = Implementation::new("interlock", env!("CARGO_PKG_VERSION"));
    InitializeRequestParams::new(ClientCapabilities::default(), name)
        .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
}
