//! A mounted handler, and the connection that we keep to it.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "what rmcp can say may become more"
)]

use super::{
    Handler, MountError,
    inventory::{Asking, Inventory},
    line::Line,
    steward::{self, Stale},
};
use crate::{
    model::{ClientCapabilities, Implementation},
    note::News,
    server::{Inner, Server},
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
    /// Our own connection to it, on which it can speak as long as it is mounted.
    pub(super) line: Line<Shared>,
    /// How many calls there were.
    pub(super) calls: AtomicI64,
    /// What the names of its tools and prompts begin with here.
    pub(super) prefix: OnceLock<String>,
    /// What it said about itself.
    info: OnceLock<ServerConfig>,
    /// Which of its lists have to be looked at again.
    pub(super) stale: Arc<Stale>,
    /// What the server has of it.
    pub(super) shown: Mutex<Inventory>,
    /// The server that it is mounted in, once that is built.
    server: OnceLock<Weak<Inner>>,
}

/// A handler that several hold.
pub(super) struct Shared(Arc<Handler>);

impl Service<RoleServer> for Shared {
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
        let (line, words) = Line::open(Shared(Arc::clone(&handler)), ourselves());
        let mounted = Arc::new(Self {
            handler,
            line,
            calls: AtomicI64::new(0),
            prefix: OnceLock::new(),
            info: OnceLock::new(),
            stale: Arc::default(),
            shown: Mutex::default(),
            server: OnceLock::new(),
        });
        tokio::spawn(steward::serve(Arc::downgrade(&mounted), words));
        mounted
    }

    /// Comes to terms with the handler, as its client.
    pub(super) async fn introduce(&self) -> Result<&ServerConfig, MountError> {
        let request = ClientRequest::InitializeRequest(InitializeRequest::new(ourselves()));
        let answer = self.handler.handle_request(request, self.context()).await;
        let info =
            if let ServerResult::InitializeResult(info) = answer.map_err(MountError::Initialize)? {
                info
            } else {
                self.handler.get_info()
            };
        let ready = ClientNotification::InitializedNotification(InitializedNotification::default());
        self.line.send(JsonRpcMessage::notification(ready));
        Ok(self.info.get_or_init(|| info))
    }

    /// Asks the handler outside of any call.
    pub(super) fn asking(&self) -> Asking<'_> {
        Asking {
            handler: &*self.handler,
            context: self.context(),
        }
    }

    fn context(&self) -> RequestContext<RoleServer> {
        RequestContext::new(RequestId::Number(0), self.line.peer().clone())
    }

    /// Our name for something of the handler's.
    pub(super) fn named(&self, name: &str) -> String {
        let prefix = self.prefix.get().map_or("", String::as_str);
        format!("{prefix}{name}")
    }

    /// Whether it says that it completes arguments.
    pub(super) fn completes(&self) -> bool {
        let info = self.info.get();
        info.is_some_and(|info| info.capabilities.completions.is_some())
    }

    /// The server is built, and has what the handler had.
    pub(crate) fn settle(&self, server: &Server) {
        if self.server.set(Arc::downgrade(&server.0)).is_ok() {
            self.stale.look();
        }
    }

    /// The server that it is mounted in, while there is one.
    pub(super) fn server(&self) -> Option<Arc<Inner>> {
        self.server.get()?.upgrade()
    }

    /// What the handler says that is not about one call.
    pub(super) fn hear(&self, notification: ServerNotification) {
        match notification {
            ServerNotification::ResourceUpdatedNotification(said) => {
                if let Some(server) = self.server() {
                    server.audience.tell(&News::Updated(said.params.uri.into()));
                }
            }
            ServerNotification::ToolListChangedNotification(_) => self.stale.mark(Kind::Tool),
            ServerNotification::ResourceListChangedNotification(_) => {
                self.stale.mark(Kind::Resource);
            }
            ServerNotification::PromptListChangedNotification(_) => self.stale.mark(Kind::Prompt),
            other => tracing::debug!(?other, "what a mounted handler says is not passed on"),
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

/// Who a handler is mounted by.
fn ourselves() -> InitializeRequestParams {
    let name = Implementation::new("interlock", env!("CARGO_PKG_VERSION"));
    InitializeRequestParams::new(ClientCapabilities::default(), name)
        .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
}
