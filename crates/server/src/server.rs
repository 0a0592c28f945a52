//! A server, and the ways to serve it.

mod changes;

use crate::{
    builder::Builder,
    core::Core,
    effect_runner::Effects,
    model::change::ServerChange,
    mount::Mounted,
    outbound::lock,
    transport::{
        http::{self, settings::HttpOptions, state::HttpState},
        stdio::{self, connection as driver},
    },
};
use interlock_engine::{Engine, Operator};
use interlock_workflow::{Catalogue, Finding};
use std::{
    fmt,
    future::Future,
    io,
    sync::{Arc, Mutex, Weak},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, ToSocketAddrs},
};

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
pub struct Server(Arc<Parts>);

struct Parts {
    core: Arc<Core>,
    /// Handlers that are mounted. They live as long as the server.
    mounts: Vec<Arc<Mounted>>,
    /// What the routers serve that were handed out.
    routers: Mutex<Vec<Weak<HttpState>>>,
}

/// A server that may be gone.
#[derive(Clone, Default)]
pub(crate) struct WeakServer(Weak<Parts>);

impl WeakServer {
    pub(crate) fn upgrade(&self) -> Option<Server> {
        self.0.upgrade().map(Server)
    }
}

impl Server {
    /// Begins a server by its name and version.
    pub fn builder(name: impl Into<String>, version: impl Into<String>) -> Builder {
        Builder::new(name, version)
    }

    pub(crate) fn new(core: Core, mounts: Vec<Arc<Mounted>>, effects: Option<&Effects>) -> Self {
        let core = Arc::new(core);
        let server = Self(Arc::new(Parts {
            core,
            mounts,
            routers: Mutex::default(),
        }));
        if let Some(effects) = effects {
            effects.belong_to(server.downgrade());
        }
        for mount in &server.0.mounts {
            mount.attach(&server.0.core);
        }
        server
    }

    fn downgrade(&self) -> WeakServer {
        WeakServer(Arc::downgrade(&self.0))
    }

    /// What the server offers now: a workflow can be checked against it
    /// ([`Workflow::check`](interlock_workflow::Workflow::check)).
    #[must_use]
    pub fn catalogue(&self) -> Catalogue {
        self.0
            .core
            .with_snapshot(|snapshot| snapshot.catalog.summary())
    }

    /// What operators can do.
    #[must_use]
    pub fn operator(&self) -> Operator {
        let engine = self.0.core.engine.as_ref();
        engine.map_or_else(Operator::without_workflow, Engine::operator)
    }

    /// Serves one client over standard input and output, until either ends or SIGTERM, SIGINT,
    /// SIGHUP or SIGQUIT comes. Calls that run are given the drain time to end; a second signal ends at once.
    ///
    /// # Errors
    ///
    /// If reading fails, or a second signal cut the drain short.
    pub async fn serve_stdio(&self) -> io::Result<()> {
        stdio::serve(&self.0.core).await
    }

    /// Runs the application's start hook, if nobody did so before: only a server that is mounted by
    /// its [`router`](Self::router) has to be told.
    ///
    /// # Errors
    ///
    /// If the hook fails.
    pub async fn start(&self) -> io::Result<()> {
        self.0.core.watch_handles();
        self.0.core.lifespan.enter().await
    }

    /// The counterpart of [`start`](Self::start): winds up what was served by routers of this
    /// server, and runs the application's stop hook if nobody else serves. It belongs into the
    /// shutdown of whoever serves the router, for streams stay open until then.
    pub async fn stop(&self) {
        let mounted: Vec<_> = lock(&self.0.routers).drain(..).collect();
        let mounted = mounted
            .iter()
            .filter_map(Weak::upgrade)
            .map(HttpState::close);
        futures_util::future::join_all(mounted).await;
        self.0.core.lifespan.leave().await;
    }

    /// Serves clients over HTTP at this address, until SIGTERM, SIGINT, SIGHUP or SIGQUIT comes.
    /// What is in flight is given the drain time to end; a second signal ends at once.
    ///
    /// # Errors
    ///
    /// If the address cannot be listened on, the options name a host that is none, or a second
    /// signal cut the drain short.
    pub async fn serve_http(&self, address: impl ToSocketAddrs) -> io::Result<()> {
        let listener = TcpListener::bind(address).await?;
        self.serve_http_with(listener, HttpOptions::default()).await
    }

    /// As [`serve_http`](Self::serve_http), on a listener that is there, and with options.
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn serve_http_with(
        &self,
        listener: TcpListener,
        options: HttpOptions,
    ) -> io::Result<()> {
        stdio::until_signalled(|stop| self.serve_http_until(listener, options, stop)).await
    }

    /// Serves clients over HTTP until `stop` completes; then what is in flight is given the drain
    /// time to end.
    ///
    /// # Errors
    ///
    /// If the options name a host that is none.
    pub async fn serve_http_until(
        &self,
        listener: TcpListener,
        options: HttpOptions,
        stop: impl Future<Output = ()>,
    ) -> io::Result<()> {
        self.0.core.watch_handles();
        let serving = http::serve_until(&self.0.core, listener, &options, stop);
        self.0.core.lifespan.around(serving).await
    }

    /// A router that serves clients over HTTP, to be mounted in an application that has one.
    ///
    /// ```no_run
    /// # fn mount(server: interlock::Server) -> std::io::Result<axum::Router> {
    /// let app = axum::Router::new().merge(server.router(interlock::HttpOptions::default())?);
    /// # Ok(app)
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// If the options name a host that is none.
    pub fn router(&self, options: HttpOptions) -> io::Result<axum::Router> {
        let (router, state) = http::router(&self.0.core, &options)?;
        lock(&self.0.routers).push(Arc::downgrade(&state));
        Ok(router)
    }

    /// What somebody should look at in the workflow, and in how it fits what the server has now. The
    /// same was logged.
    ///
    /// ```
    /// use interlock::{Context, NoArguments, Server, Tool, Workflow};
    ///
    /// let shop = Workflow::builder("shop")
    ///     .state("cart", |s| s.initial().tool("pay", |t| t.success("paid").error("broke")))
    ///     .state("paid", |s| s.terminal())
    ///     .build()?;
    /// let server = Server::builder("shop", "1.0.0")
    ///     .tool(Tool::new("pay", |_: NoArguments, _: Context| async { "paid" }))
    ///     .workflow(shop)
    ///     .build()?;
    /// let warnings: Vec<_> = server.warnings().iter().map(ToString::to_string).collect();
    /// assert_eq!(warnings, ["warning[trap]: no end can be reached from state \"broke\""]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn warnings(&self) -> Vec<Finding> {
        self.0.core.snapshot().findings.clone()
    }

    /// Tells every client that wants to know: this resource has changed.
    pub fn resource_updated(&self, uri: &str) {
        self.0
            .core
            .subscribers
            .notify(&ServerChange::Resource(uri.into()));
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
        self.0.core.watch_handles();
        let serving = driver::run(Arc::clone(&self.0.core), reader, writer, stop);
        self.0.core.lifespan.around(serving).await
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Server")
            .field(&self.0.core.info.name)
            .finish()
    }
}
