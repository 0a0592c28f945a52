//! A server, and the ways to serve it.

use crate::{
    builder::Builder,
    clock::Clock,
    driver,
    instance::{Books, Instance},
    lists::SERVER_INFO,
    model::Implementation,
    offering::{Offering, Offerings},
    transport::stdio,
};
use interlock_proto::{
    Version, connection, era::Capability, frame::Limits, invocation::Times, negotiation,
};
use interlock_store::Store;
use interlock_workflow::{Kind, Scope, Visibility, Workflow};
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    fmt,
    future::Future,
    io,
    sync::{Arc, OnceLock},
};
use tokio::io::{AsyncRead, AsyncWrite};

/// An MCP server that cannot be used out of order. Cloning it is cheap.
///
/// ```
/// use interlock::{Context, NoArguments, Server, Tool, Workflow};
///
/// let order = Workflow::builder("shop")
///     .state("cart", |s| s.initial().tool("checkout", |t| t.success("due")))
///     .state("due", |s| s.tool("pay", |t| t.success("paid")))
///     .state("paid", |s| s.terminal())
///     .build()?;
/// let server = Server::builder("shop", "1.0.0")
///     .tool(Tool::new("checkout", |_: NoArguments, _: Context| async { "42 to pay" }))
///     .tool(Tool::new("pay", |_: NoArguments, _: Context| async { "thank you" }))
///     .workflow(order)
///     .build()?;
/// # let _ = server;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Server(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) info: Implementation,
    pub(crate) instructions: Option<String>,
    pub(crate) offerings: Offerings,
    pub(crate) workflow: Option<Workflow>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) rules: connection::Rules,
    pub(crate) negotiation: negotiation::Rules,
    pub(crate) limits: Limits,
    pub(crate) times: Times,
    pub(crate) journal_limit: Option<u64>,
    /// The one instance that everybody shares, where the workflow says so.
    pub(crate) shared: OnceLock<Arc<Instance>>,
}

impl Server {
    /// Begins a server by its name and version.
    pub fn builder(name: impl Into<String>, version: impl Into<String>) -> Builder {
        Builder::new(name, version)
    }

    pub(crate) fn new(inner: Inner) -> Self {
        Self(Arc::new(inner))
    }

    /// Serves one client over standard input and output, until either ends or SIGTERM, SIGINT,
    /// SIGHUP or SIGQUIT comes. Calls that run are given the drain time to end; a second signal ends at once.
    ///
    /// # Errors
    ///
    /// If reading fails, or a second signal cut the drain short.
    pub async fn serve_stdio(&self) -> io::Result<()> {
        stdio::serve(Arc::clone(&self.0)).await
    }

    /// Serves one client over any pair of byte streams, one message per line, until the reader
    /// ends or `stop` completes.
    ///
    /// # Errors
    ///
    /// If reading fails.
    pub async fn serve<R, W>(
        &self,
        reader: R,
        writer: W,
        stop: impl Future<Output = ()>,
    ) -> io::Result<()>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        driver::run(Arc::clone(&self.0), reader, writer, stop).await
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Server").field(&self.0.info.name).finish()
    }
}

impl Inner {
    /// The instance a new connection belongs to.
    pub(crate) fn instance(&self) -> io::Result<Option<Arc<Instance>>> {
        let Some(workflow) = &self.workflow else {
            return Ok(None);
        };
        Ok(Some(match workflow.settings().scope {
            // The builder refuses the latter two. Sharing nothing is the safe answer.
            Scope::Session | Scope::Handle | Scope::Principal => {
                Instance::new(random_id()?, workflow)
            }
            Scope::Global => Arc::clone(
                self.shared
                    .get_or_init(|| Instance::new(shared_id(workflow), workflow)),
            ),
        }))
    }

    pub(crate) fn books<'a>(&'a self, workflow: &'a Workflow) -> Books<'a> {
        Books {
            store: &*self.store,
            workflow,
            now: self.clock.now(),
            journal_limit: self.journal_limit,
        }
    }

    /// Whether lists follow the state, so that clients are told of changes.
    pub(crate) fn lists_change(&self) -> bool {
        self.workflow
            .as_ref()
            .is_some_and(|workflow| workflow.settings().visibility == Visibility::Dynamic)
    }

    /// What there is at the moment.
    pub(crate) fn offering(&self) -> Arc<Offering> {
        self.offerings.now()
    }

    /// What these kinds list is not what it was.
    pub(crate) fn lists_changed(&self, kinds: &[Kind]) {
        tracing::debug!(?kinds, server = self.info.name, "lists have changed");
    }

    /// What the handshake era may use of this server.
    pub(crate) fn capabilities(&self) -> BTreeSet<Capability> {
        self.offering().catalogue.capabilities().clone()
    }

    /// What stateless requests may use of this server, as far as no workflow binds it.
    pub(crate) fn stateless_capabilities(&self) -> BTreeSet<Capability> {
        self.capabilities()
    }

    /// The result of `initialize`.
    pub(crate) fn initialize_result(&self, version: Version) -> Value {
        let listed = if self.lists_change() {
            json!({ "listChanged": true })
        } else {
            json!({})
        };
        let capabilities: serde_json::Map<_, _> = self
            .capabilities()
            .into_iter()
            .map(|capability| {
                let is_list = capability != Capability::Completions;
                let said = if is_list { listed.clone() } else { json!({}) };
                (capability.name().to_owned(), said)
            })
            .collect();
        self.with_instructions(json!({
            "protocolVersion": version,
            "capabilities": capabilities,
            "serverInfo": self.info,
        }))
    }

    /// The versions that clients are told of.
    ///
    /// A workflow is served in the handshake era only, so a server that has one announces only
    /// those versions: a client that can speak both then finds the workflow. What no workflow
    /// binds is served to stateless requests all the same.
    pub(crate) const fn announced(&self) -> &'static [Version] {
        match self.workflow {
            Some(_) => Version::HANDSHAKE,
            None => Version::NEWEST_FIRST,
        }
    }

    /// The result of `server/discover`.
    pub(crate) fn discover_result(&self) -> Value {
        let capabilities: serde_json::Map<_, _> = self
            .stateless_capabilities()
            .into_iter()
            .map(|capability| (capability.name().to_owned(), json!({})))
            .collect();
        self.with_instructions(json!({
            "resultType": "complete",
            "supportedVersions": self.announced(),
            "capabilities": capabilities,
            "ttlMs": 3_600_000,
            "cacheScope": "public",
            "_meta": { SERVER_INFO: self.info },
        }))
    }

    fn with_instructions(&self, mut result: Value) -> Value {
        if let Some(text) = &self.instructions {
            result["instructions"] = text.as_str().into();
        }
        result
    }
}

/// Short, printable, and another one for each workflow.
fn shared_id(workflow: &Workflow) -> String {
    let name: String = workflow
        .name()
        .chars()
        .filter(|c| !c.is_control())
        .take(128)
        .collect();
    format!("global:{name}")
}

/// 128 random bits: nobody comes by somebody else's instance by guessing.
fn random_id() -> io::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}
