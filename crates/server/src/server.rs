//! A server, and the ways to serve it.

use crate::{
    audience::Audience,
    builder::{Bounds, Builder},
    call::quietly,
    clock::Clock,
    convert::{No, Signature, Stamp},
    driver,
    effect::Effects,
    handle::{self, Handles},
    http::{self, endpoint::Web, options::HttpOptions},
    instance::{Alarms, Books, Instance},
    launch::Calls,
    lifespan::Lifespan,
    lists::SERVER_INFO,
    model::Implementation,
    mount::Mounted,
    note::News,
    offering::{Offering, Offerings},
    principal::Principal,
    route::lock,
    seal::Sealer,
    standing::Standing,
    transport::stdio,
};
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use interlock_proto::{
    Params, Refusal, Time, Version, connection, era::Capability, frame::Limits, invocation::Times,
    negotiation, subscription,
};
use interlock_store::Store;
use interlock_workflow::{Kind, Scope, Visibility, Workflow};
use serde_json::{Value, json, value::RawValue};
use sha2::{Digest, Sha256};
use std::{
    collections::{BTreeSet, HashMap},
    fmt,
    future::Future,
    io,
    sync::{Arc, Mutex, OnceLock, Weak},
    time::Duration,
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
pub struct Server(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) info: Implementation,
    /// How stateless results say who made them.
    pub(crate) signature: Signature,
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
    /// The instances of principals, where each has its own.
    pub(crate) by_principal: Mutex<HashMap<Principal, Weak<Instance>>>,
    pub(crate) audience: Audience,
    pub(crate) sealer: Sealer,
    pub(crate) ask_timeout: Duration,
    pub(crate) subscriptions: subscription::Rules,
    pub(crate) bounds: Bounds,
    pub(crate) lifespan: Arc<Lifespan>,
    pub(crate) effects: Option<Effects>,
    /// Handlers that are mounted, whatever they have at the moment.
    pub(crate) mounted_handlers: Vec<Arc<Mounted>>,
    /// What routers were made of.
    pub(crate) mounted: Mutex<Vec<Weak<Web>>>,
    pub(crate) calls: Calls,
    pub(crate) alarms: Arc<Alarms>,
    pub(crate) handles: Handles,
    /// How long an instance behind a handle is kept after its last use.
    pub(crate) handle_idle: Duration,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.alarms.close();
    }
}

impl Server {
    /// Begins a server by its name and version.
    pub fn builder(name: impl Into<String>, version: impl Into<String>) -> Builder {
        Builder::new(name, version)
    }

    pub(crate) fn new(inner: Inner) -> Self {
        let inner = Arc::new(inner);
        inner.alarms.belong_to(Arc::downgrade(&inner));
        Self(inner)
    }

    /// Serves one client over standard input and output, until either ends or SIGTERM, SIGINT,
    /// SIGHUP or SIGQUIT comes. Calls that run are given the drain time to end; a second signal ends at once.
    ///
    /// # Errors
    ///
    /// If reading fails, or a second signal cut the drain short.
    pub async fn serve_stdio(&self) -> io::Result<()> {
        stdio::serve(&self.0).await
    }

    /// Runs the application's start hook, if nobody did so before: only a server that is mounted by
    /// its [`router`](Self::router) has to be told.
    ///
    /// # Errors
    ///
    /// If the hook fails.
    pub async fn start(&self) -> io::Result<()> {
        self.0.look_for_handles();
        self.0.lifespan.enter().await
    }

    /// The counterpart of [`start`](Self::start): winds up what was served by routers of this
    /// server, and runs the application's stop hook if nobody else serves. It belongs into the
    /// shutdown of whoever serves the router, for streams stay open until then.
    pub async fn stop(&self) {
        let mounted: Vec<_> = lock(&self.0.mounted).drain(..).collect();
        let mounted = mounted.iter().filter_map(Weak::upgrade).map(Web::close);
        futures_util::future::join_all(mounted).await;
        self.0.lifespan.leave().await;
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
        self.0.look_for_handles();
        let serving = http::serve_until(&self.0, listener, &options, stop);
        self.0.lifespan.around(serving).await
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
        let (router, web) = http::router(&self.0, &options)?;
        lock(&self.0.mounted).push(Arc::downgrade(&web));
        Ok(router)
    }

    /// Tells every client that wants to know: this resource has changed.
    pub fn resource_updated(&self, uri: &str) {
        self.0.audience.tell(&News::Updated(uri.into()));
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
        self.0.look_for_handles();
        let serving = driver::run(Arc::clone(&self.0), reader, writer, stop);
        self.0.lifespan.around(serving).await
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Server").field(&self.0.info.name).finish()
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Inner").field(&self.info.name).finish()
    }
}

impl Inner {
    /// The `_meta` of a request, if anything here reads it as it was written: mounted handlers do.
    pub(crate) fn kept_meta(&self, params: Option<&Params<'_>>) -> Option<Box<RawValue>> {
        if self.mounted_handlers.is_empty() {
            return None;
        }
        params?.meta().map(RawValue::to_owned)
    }

    /// Whether there is a resource of that URI, whoever may read it.
    pub(crate) fn has_resource(&self, uri: &str) -> bool {
        let offering = self.offering();
        let catalogue = &offering.catalogue;
        catalogue.resource(uri).is_some() || catalogue.templates_for(uri).next().is_some()
    }

    /// Whether there is a resource of that URI that no workflow binds.
    pub(crate) fn is_free_resource(&self, uri: &str) -> bool {
        let free = |workflow: &Workflow| workflow.is_always(Kind::Resource, uri);
        self.has_resource(uri) && self.workflow.as_ref().is_none_or(free)
    }

    /// Whether a client whose instance stands where it stands may read that resource.
    pub(crate) fn can_read(
        &self,
        uri: &str,
        instance: Option<&Instance>,
        version: Version,
    ) -> Result<(), Refusal> {
        if !self.has_resource(uri) {
            return Err(Refusal::resource_not_found(uri, version));
        }
        match (&self.workflow, instance) {
            (Some(workflow), Some(instance)) => {
                let admitted = workflow.admit(instance.position(), Kind::Resource, uri);
                admitted.map_err(|refused| No::from(refused).refusal)?;
            }
            (Some(workflow), None) if !workflow.is_always(Kind::Resource, uri) => {
                return Err(handle::no_place(Kind::Resource, uri).refusal);
            }
            (Some(_) | None, _) => {}
        }
        Ok(())
    }

    /// Whether the workflow can be served to such clients at all.
    ///
    /// # Errors
    ///
    /// If each principal has an instance of its own, and nobody says who is who.
    pub(crate) fn may_serve(&self, authenticated: bool) -> io::Result<()> {
        let scope = self.workflow.as_ref().map(|flow| flow.settings().scope);
        if scope == Some(Scope::Principal) && !authenticated {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the workflow has the scope `principal`, and nobody is authenticated here: serve \
                 it over HTTP with an authenticator",
            ));
        }
        Ok(())
    }

    /// The instance a new connection belongs to.
    pub(crate) fn instance(&self, principal: &Principal) -> io::Result<Option<Arc<Instance>>> {
        let Some(workflow) = &self.workflow else {
            return Ok(None);
        };
        Ok(Some(match workflow.settings().scope {
            // No connection has one: each call names its own.
            Scope::Handle => return Ok(None),
            Scope::Session => self.new_instance(random_id()?, workflow),
            Scope::Principal => {
                // An authenticator let in somebody whom it does not know.
                self.may_serve(!principal.is_anonymous())?;
                self.instance_of_principal(principal, workflow)
            }
            Scope::Global => Arc::clone(
                self.shared
                    .get_or_init(|| self.new_instance(shared_id(workflow), workflow)),
            ),
        }))
    }

    /// The one instance of a principal, however many sessions it has.
    fn instance_of_principal(&self, principal: &Principal, workflow: &Workflow) -> Arc<Instance> {
        const NOW_AND_THEN: usize = 64;
        let mut known = lock(&self.by_principal);
        if let Some(instance) = known.get(principal).and_then(Weak::upgrade) {
            return instance;
        }
        if known.len().is_multiple_of(NOW_AND_THEN) {
            known.retain(|_, instance| instance.strong_count() > 0);
        }
        let instance = self.new_instance(principal_id(principal, workflow), workflow);
        known.insert(principal.clone(), Arc::downgrade(&instance));
        instance
    }

    pub(crate) fn new_instance(&self, id: String, workflow: &Workflow) -> Arc<Instance> {
        Instance::shared(id, workflow, &self.alarms, self.clock.now())
    }

    /// The instance of that name, for a client that comes back.
    pub(crate) fn instance_of(
        &self,
        id: Option<String>,
        principal: &Principal,
    ) -> io::Result<Option<Arc<Instance>>> {
        match (&self.workflow, id) {
            (Some(workflow), Some(id)) if workflow.settings().scope == Scope::Session => {
                Ok(Some(self.new_instance(id, workflow)))
            }
            (Some(_), _) => self.instance(principal),
            (None, _) => Ok(None),
        }
    }

    /// Forgets an instance that belonged to a session of which nothing is left.
    pub(crate) async fn end_instance(&self, id: Option<String>) {
        let Some((workflow, id)) = self.workflow.as_ref().zip(id) else {
            return;
        };
        if workflow.settings().scope != Scope::Session {
            return;
        }
        let instance = self.new_instance(id, workflow);
        if instance.find(self.books(workflow)).await.is_ok()
            && let Err(error) = instance.end(self.books(workflow)).await
        {
            tracing::warn!(%error, "an instance could not be deleted");
        }
    }

    /// What a result says besides what it is the result of.
    pub(crate) const fn stamp<'a>(
        &'a self,
        version: Version,
        place: Option<Standing<'a>>,
    ) -> Stamp<'a> {
        Stamp {
            version,
            place,
            server: &self.info,
            signature: &self.signature,
        }
    }

    /// When a call that begins now must be over, be it that it waits for its client meanwhile.
    pub(crate) fn must_be_over(&self, now: Time, execution: Duration) -> Time {
        let longest = execution.saturating_add(self.times.grace);
        now + longest.saturating_add(self.ask_timeout)
    }

    pub(crate) fn books<'a>(&'a self, workflow: &'a Workflow) -> Books<'a> {
        self.books_at(workflow, self.clock.now())
    }

    /// The same, for whoever knows the time.
    pub(crate) fn books_at<'a>(&'a self, workflow: &'a Workflow, now: Time) -> Books<'a> {
        Books {
            store: &*self.store,
            workflow,
            now,
            journal_limit: self.journal_limit,
            effects: self.effects.as_ref(),
        }
    }

    /// Whether lists follow the state, so that clients are told of changes.
    pub(crate) fn lists_change(&self) -> bool {
        self.workflow.as_ref().is_some_and(|workflow| {
            let settings = workflow.settings();
            settings.visibility == Visibility::Dynamic && settings.scope != Scope::Handle
        })
    }

    /// What there is at the moment.
    pub(crate) fn offering(&self) -> Arc<Offering> {
        self.offerings.now()
    }

    /// Does something with what there is at the moment. What is not there any more may go with it,
    /// and its own clean-up may panic.
    pub(crate) fn with_offering<T>(&self, work: impl FnOnce(&Offering) -> T) -> T {
        let offering = self.offering();
        let done = work(&offering);
        quietly(|| drop(offering));
        done
    }

    /// What these kinds list is not what it was.
    pub(crate) fn lists_changed(&self, kinds: &[Kind]) {
        tracing::debug!(?kinds, server = self.info.name, "lists have changed");
        for peer in self.audience.peers() {
            peer.renegotiate();
        }
        for kind in kinds {
            self.audience.tell(&News::List((*kind).into()));
        }
    }

    /// What the handshake era may use of this server.
    pub(crate) fn capabilities(&self) -> BTreeSet<Capability> {
        self.offering().catalogue.capabilities().clone()
    }

    /// The result of `initialize`.
    pub(crate) fn initialize_result(&self, version: Version) -> Value {
        self.with_instructions(json!({
            "protocolVersion": version,
            "capabilities": advertised(&self.capabilities()),
            "serverInfo": self.info,
        }))
    }

    /// The result of `server/discover`.
    pub(crate) fn discover_result(&self) -> Value {
        let capabilities = advertised(&self.capabilities());
        self.with_instructions(json!({
            "resultType": "complete",
            "supportedVersions": Version::NEWEST_FIRST,
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

/// What a server says that it can do. Its lists can change while it runs.
fn advertised(capabilities: &BTreeSet<Capability>) -> serde_json::Map<String, Value> {
    let options = |capability| match capability {
        Capability::Tools | Capability::Prompts => json!({ "listChanged": true }),
        Capability::Resources => json!({ "listChanged": true, "subscribe": true }),
        Capability::Logging
        | Capability::Completions
        | Capability::Tasks
        | Capability::Roots
        | Capability::Sampling
        | Capability::Elicitation => json!({}),
    };
    let capabilities = capabilities.iter();
    capabilities
        .map(|capability| (capability.name().to_owned(), options(*capability)))
        .collect()
}

/// Short, printable, and another one for each workflow.
fn shared_id(workflow: &Workflow) -> String {
    format!("global:{}", short_name(workflow))
}

/// Short and printable whatever the principal is called, and the same in every process.
fn principal_id(principal: &Principal, workflow: &Workflow) -> String {
    let hash = Sha256::digest(principal.id());
    let hash = BASE64_URL_SAFE_NO_PAD.encode(hash);
    format!("principal:{}:{hash}", short_name(workflow))
}

fn short_name(workflow: &Workflow) -> String {
    let name = workflow.name().chars();
    name.filter(|c| !c.is_control()).take(128).collect()
}

/// 128 random bits: nobody comes by somebody else's instance by guessing.
pub(crate) fn random_id() -> io::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}
