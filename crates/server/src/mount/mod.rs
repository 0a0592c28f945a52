//! Serves handlers that were written for rmcp's own server.
//!
//! This room turns what a handler lists into the server's own tools, resources and prompts, keeps
//! them alike, and translates calls and questions both ways. It is the only user of
//! `rmcp::service`. It knows the core and what lies to its right, and no session or transport.

mod artifacts;
mod call;
mod convert;
mod handler;
mod inventory;
mod questions;
mod sync;
mod transport;

pub(crate) use handler::Mounted;

use crate::{
    api::{Prompt, Resource, ResourceTemplate, Tool},
    outbound::lock,
};
use inventory::Inventory;
use rmcp::{ErrorData, RoleServer, Service, service::DynService};
use std::{fmt, sync::Arc};

/// A handler, whatever its type.
type Handler = dyn DynService<RoleServer>;

/// A handler that was written for [rmcp]'s own server, to be served by ours as it is.
///
/// Its tools, resources, resource templates and prompts become the server's own: they are listed
/// as the handler describes them, a workflow decides when they can be called, arguments are checked
/// against their schemas, calls have deadlines, are taken back and are journalled. Anything that
/// implements rmcp's `ServerHandler` will do, with or without rmcp's macros.
///
/// ```
/// use interlock::{Mount, Server, Workflow};
/// use rmcp::{
///     ErrorData, RoleServer, ServerHandler,
///     model::{
///         CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, JsonObject,
///         ListToolsResult, PaginatedRequestParams, Tool,
///     },
///     service::RequestContext,
/// };
/// use std::sync::Arc;
///
/// struct Till;
///
/// impl ServerHandler for Till {
///     async fn list_tools(
///         &self,
///         _: Option<PaginatedRequestParams>,
///         _: RequestContext<RoleServer>,
///     ) -> Result<ListToolsResult, ErrorData> {
///         let schema = JsonObject::from_iter([("type".to_owned(), "object".into())]);
///         let tool = |name| Tool::new(name, "A step", Arc::new(schema.clone()));
///         Ok(ListToolsResult::with_all_items(vec![tool("checkout"), tool("pay")]))
///     }
///
///     async fn call_tool(
///         &self,
///         _: CallToolRequestParams,
///         _: RequestContext<RoleServer>,
///     ) -> Result<CallToolResponse, ErrorData> {
///         Ok(CallToolResult::success(vec![ContentBlock::text("done")]).into())
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let order = Workflow::builder("till")
///     .state("cart", |s| s.initial().tool("checkout", |t| t.success("due")))
///     .state("due", |s| s.tool("pay", |t| t.success("paid")))
///     .state("paid", |s| s.terminal())
///     .build()?;
/// let server = Server::builder("shop", "1.0.0")
///     .mount(Mount::new(Till).await?)
///     .workflow(order)
///     .build()?;
/// # let _ = server;
/// # Ok(())
/// # }
/// ```
///
/// # What the handler finds
///
/// For each call a `RequestContext` with a peer of its own, which leads to the client that calls:
///
/// - progress and log messages come in the order in which they were sent, before the result;
/// - what it asks of the client (a form, a visit to a URL, a sample, the roots) is put to it as by
///   [`Context`](crate::Context). A client of 2026-07-28 is told to come back with the answers, and
///   then **the handler runs again from its start**; so it must ask the same in the same order, and
///   do what must be done once after the last answer. A handler that asks by its result
///   (`InputRequiredResult`) is given the answers in that way, too;
/// - `meta` is the request's own `_meta`, with its progress token. What it says there of its client
///   (version, capabilities, name, level of the log) is passed on from 2026-07-28 requests only, to
///   handlers that speak 2026-07-28; others find what the client said in `initialize`;
/// - `id` is a number of the handler's own, another one for each call;
/// - `ct` is cancelled when the client takes the call back, at its deadline and at its end. An error
///   that is returned after that says that the handler has stopped;
/// - `extensions` holds our [`Context`](crate::Context), and no HTTP request.
///
/// A call's peer is closed when the call ends. A handler that wants to speak later keeps the peer
/// that it gets in `on_initialized`: we initialize it once, as its client, and it is open as long as
/// the server is there.
///
/// When it says on any peer that a resource was updated, everybody who subscribed hears of it; when
/// it says that a list has changed, it is asked for that list again, and the server has what is on
/// it now. Whom to tell is the server's business, so `subscribe`, `unsubscribe`, `set_level`, `ping`
/// and `listen` do not reach the handler. Nor do notifications of clients, or methods that are not
/// the protocol's. Tasks are not passed on, either: the handler does not hear of clients that know
/// them.
///
/// # What the client gets
///
/// What the handler returns, as far as rmcp has types for it: members that rmcp does not know were
/// lost before we saw them. Results are checked against the tool's output schema.
///
/// An error of a resource, a prompt or a completion keeps its code, message and data. Of a tool it
/// becomes a result that says so (`isError`), for the model to read, unless its code says that the
/// request was at fault: parse error, invalid request, method not found, invalid params, missing
/// client capability, and on 2025-11-25 URL elicitation required.
///
/// What the handler does not list cannot be read, even if the handler would answer.
///
/// # What it costs
///
/// The handler is called as one of ours would be, and if it need not wait, it runs to its end where
/// its call came in. But rmcp makes a peer only together with a connection and a task that serves
/// it, and what is said on a peer does not tell for which call; so each call has its own, whether
/// the handler uses it or not. That alone costs somewhat more than a call of ours over stdio.
///
/// rmcp writes a few lines to the log (`tracing`, at the level of information, target `rmcp`) for
/// every connection that it opens, and each call is one.
///
/// [rmcp]: https://docs.rs/rmcp
pub struct Mount {
    mounted: Arc<Mounted>,
    instructions: Option<String>,
    inventory: Inventory,
    prefix: String,
}

/// Everything that a handler has, as parts of a server.
pub(crate) struct Parts {
    pub(crate) mounted: Arc<Mounted>,
    pub(crate) instructions: Option<String>,
    pub(crate) tools: Vec<Tool>,
    pub(crate) resources: Vec<Resource>,
    pub(crate) templates: Vec<ResourceTemplate>,
    pub(crate) prompts: Vec<Prompt>,
}

/// Why a handler cannot be mounted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MountError {
    /// It does not take `initialize`.
    #[error("the handler refuses `initialize`: {0}")]
    Initialize(ErrorData),
    /// It does not tell what it has.
    #[error("the handler does not list its {what}: {error}")]
    List {
        /// Of what.
        what: &'static str,
        /// What it says instead.
        error: ErrorData,
    },
    /// It answers a list with something else.
    #[error("what the handler answers is no list of {what}")]
    NoList {
        /// Of what.
        what: &'static str,
    },
    /// It has one more page after each.
    #[error("the handler's list of {what} does not end")]
    Endless {
        /// Of what.
        what: &'static str,
    },
}

impl Mount {
    /// Initializes a handler, and asks it what it has.
    ///
    /// # Errors
    ///
    /// If it does not say so.
    pub async fn new(handler: impl Service<RoleServer>) -> Result<Self, MountError> {
        let mounted = Mounted::new(Arc::new(handler));
        let instructions = mounted.initialize().await?.instructions.clone();
        let inventory = mounted.lister().all().await?;
        Ok(Self {
            mounted,
            instructions,
            inventory,
            prefix: String::new(),
        })
    }

    /// What the names of its tools and prompts begin with here, to tell them from those of another
    /// handler. Resources keep their URIs.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    pub(crate) fn into_parts(self) -> Parts {
        let Self {
            mounted,
            instructions,
            inventory,
            prefix,
        } = self;
        mounted.prefix.get_or_init(|| prefix);
        let tools = inventory.tools.iter().cloned();
        let resources = inventory.resources.iter().cloned();
        let templates = inventory.templates.iter().cloned();
        let prompts = inventory.prompts.iter().cloned();
        let parts = Parts {
            instructions,
            tools: tools.map(|model| mounted.tool(model)).collect(),
            resources: resources.map(|model| mounted.resource(model)).collect(),
            templates: templates.map(|model| mounted.template(model)).collect(),
            prompts: prompts.map(|model| mounted.prompt(model)).collect(),
            mounted: Arc::clone(&mounted),
        };
        *lock(&mounted.synced) = inventory;
        parts
    }
}

impl fmt::Debug for Mount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Mount").field(&self.mounted).finish()
    }
}
