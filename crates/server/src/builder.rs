//! Collects the parts of a server, checks them and assembles it.

use crate::{
    api::{Prompt, Resource, ResourceTemplate, Tool, lifespan::Lifespan},
    catalog::{
        Catalog,
        build_error::{BuildError, BuildErrors},
        handle_argument::{HandleTools, warn_of_what_has_no_place},
        snapshot::{self, LiveCatalog},
    },
    context::{environment::Environment, request_state::Sealer},
    core::{
        Bounds, Core,
        rates::{CallRates, Rates},
    },
    effect_runner::{self, Effect, Effects},
    model::{Implementation, failure::Failure},
    mount::{Mount, Mounted},
    outbound::subscribers::Subscribers,
    server::Server,
    wire::result_meta::EncodedMeta,
};
use interlock_engine::{Clock, Engine, EngineBuilder, StoreTimeout, SystemClock};
use interlock_proto::{connection, frame::Limits, invocation::Times, subscription};
use interlock_store::{MemoryStore, Store};
use interlock_workflow::{Catalogue, Finding, Severity, Workflow};
use std::{fmt, future::Future, num::NonZeroUsize, sync::Arc, time::Duration};
use tokio_util::task::TaskTracker;

/// How long an instance behind a handle is kept after its last use.
const HANDLE_IDLE: Duration = Duration::from_secs(24 * 60 * 60);

/// Collects what a server is made of. Nothing fails before [`build`](Self::build).
#[must_use]
pub struct Builder {
    info: Implementation,
    instructions: Option<String>,
    mounts: Vec<Arc<Mounted>>,
    tools: Vec<Tool>,
    resources: Vec<Resource>,
    templates: Vec<ResourceTemplate>,
    prompts: Vec<Prompt>,
    page_size: Option<NonZeroUsize>,
    workflow: Option<Workflow>,
    effects: Vec<Effect>,
    store: Option<Arc<dyn Store>>,
    clock: Arc<dyn Clock>,
    rules: connection::Rules,
    limits: Limits,
    times: Times,
    tool_timeout: Option<Duration>,
    ask_timeout: Duration,
    subscriptions: subscription::Rules,
    bounds: Bounds,
    call_rates: Rates,
    completion_rates: Rates,
    secret: Option<Vec<u8>>,
    older_secrets: Vec<Vec<u8>>,
    lifespan: Lifespan,
    handle_idle: Duration,
}

impl Builder {
    pub(crate) fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self {
            info: Implementation::new(name.into(), version.into()),
            instructions: None,
            mounts: Vec::new(),
            tools: Vec::new(),
            resources: Vec::new(),
            templates: Vec::new(),
            prompts: Vec::new(),
            page_size: None,
            workflow: None,
            effects: Vec::new(),
            store: None,
            clock: Arc::new(SystemClock::new()),
            rules: connection::Rules::default(),
            limits: Limits::default(),
            times: Times::default(),
            tool_timeout: None,
            ask_timeout: Duration::from_secs(5 * 60),
            subscriptions: subscription::Rules::default(),
            bounds: Bounds::default(),
            call_rates: Rates::CALLS,
            completion_rates: Rates::COMPLETIONS,
            secret: None,
            older_secrets: Vec::new(),
            lifespan: Lifespan::default(),
            handle_idle: HANDLE_IDLE,
        }
    }

    /// What the model is told about the server as a whole.
    pub fn instructions(mut self, text: impl Into<String>) -> Self {
        self.instructions = Some(text.into());
        self
    }

    /// Adds a tool.
    pub fn tool(mut self, tool: Tool) -> Self {
        self.tools.push(tool);
        self
    }

    /// Adds a resource.
    pub fn resource(mut self, resource: Resource) -> Self {
        self.resources.push(resource);
        self
    }

    /// Adds a resource template.
    pub fn template(mut self, template: ResourceTemplate) -> Self {
        self.templates.push(template);
        self
    }

    /// Adds a prompt.
    pub fn prompt(mut self, prompt: Prompt) -> Self {
        self.prompts.push(prompt);
        self
    }

    /// Adds everything that a handler of rmcp's has. Its instructions become the server's, if that
    /// has none yet.
    pub fn mount(mut self, mount: Mount) -> Self {
        let parts = mount.into_parts();
        self.instructions = self.instructions.or(parts.instructions);
        self.tools.extend(parts.tools);
        self.resources.extend(parts.resources);
        self.templates.extend(parts.templates);
        self.prompts.extend(parts.prompts);
        self.mounts.push(parts.mounted);
        self
    }

    /// How many entries a page of a list holds at most. By default, lists come whole.
    pub const fn page_size(mut self, entries: NonZeroUsize) -> Self {
        self.page_size = Some(entries);
        self
    }

    /// Puts everything behind a workflow: what it does not name cannot be called any more.
    pub fn workflow(mut self, workflow: Workflow) -> Self {
        self.workflow = Some(workflow);
        self
    }

    /// Adds what is done after a step whose edge names it: see [`Effect`].
    pub fn effect(mut self, effect: Effect) -> Self {
        self.effects.push(effect);
        self
    }

    /// Where instances and their whole journals are stored. By default they stay in memory, with the
    /// last 1,000 entries of each journal, and end with their session.
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = Some(store);
        self
    }

    /// The clock; by default, the system's.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// The timeouts and limits of connections. Over HTTP a session begins with `initialize`, and
    /// [`HttpOptions::session`](crate::HttpOptions::session) says when an idle one ends.
    pub const fn connections(mut self, rules: connection::Rules) -> Self {
        self.rules = rules;
        self
    }

    /// How large messages may be.
    pub const fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// How long a call may run unless its tool or its binding says otherwise. This
    /// overrides the workflow's settings.
    pub const fn tool_timeout(mut self, timeout: Duration) -> Self {
        self.tool_timeout = Some(timeout);
        self
    }

    /// How long a call may wait for its turn.
    pub const fn queue_timeout(mut self, timeout: Duration) -> Self {
        self.times.queue = timeout;
        self
    }

    /// How long a handler that was asked to stop may take to do so.
    pub const fn cancel_grace(mut self, grace: Duration) -> Self {
        self.times.grace = grace;
        self
    }

    /// How long a client has to answer a question of a handler or a state, and to come back with
    /// answers; five minutes by default.
    ///
    /// A state that asks the client's model (`sampling`) does so within the call that leads there,
    /// before it is answered, and keeps the instance reserved meanwhile. If the client does not answer
    /// in time, cannot be asked, refuses or disconnects, the edge of `error` is taken. At most [`MOST_IN_ONE_CALL`](interlock_workflow::Sampling::MOST_IN_ONE_CALL)
    /// questions are asked in one call; then the instance waits in the state that it has reached.
    /// A timer, an operator or a failed effect that moves an instance there asks nothing.
    ///
    /// ```
    /// use interlock::{Context, NoArguments, Server, Tool, Workflow, workflow::to};
    /// use std::time::Duration;
    ///
    /// let flow = Workflow::builder("mail")
    ///     .state("new", |s| {
    ///         s.initial().tool("fetch", |t| {
    ///             t.success(to("sort").set("text", "result.content[0].text"))
    ///         })
    ///     })
    ///     .state("sort", |s| {
    ///         s.sampling(10, |m| {
    ///             m.system("You sort mail.")
    ///                 .user("Is this urgent? Answer yes or no.\n{{ctx.text}}")
    ///                 .success(to("urgent").when("result.content.text == 'yes'"))
    ///                 .success("later")
    ///                 .error("unsorted")
    ///         })
    ///     })
    ///     .state("urgent", |s| s.terminal())
    ///     .state("later", |s| s.terminal())
    ///     .state("unsorted", |s| s.terminal())
    ///     .build()?;
    /// let server = Server::builder("mail", "1.0.0")
    ///     .tool(Tool::new("fetch", |_: NoArguments, _: Context| async { "The house burns." }))
    ///     .workflow(flow)
    ///     .ask_timeout(Duration::from_secs(60))
    ///     .build()?;
    /// # let _ = server;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub const fn ask_timeout(mut self, timeout: Duration) -> Self {
        self.ask_timeout = timeout;
        self
    }

    /// The secret that seals the state which clients carry between requests. Replicas must share it;
    /// by default it is random. At least 32 bytes.
    pub fn secret(mut self, secret: impl Into<Vec<u8>>) -> Self {
        self.secret = Some(secret.into());
        self
    }

    /// A secret that was in use before: states that were sealed with it are still accepted.
    pub fn older_secret(mut self, secret: impl Into<Vec<u8>>) -> Self {
        self.older_secrets.push(secret.into());
        self
    }

    /// What handlers find by [`Context::app`](crate::Context::app).
    pub fn app<T: Send + Sync + 'static>(mut self, app: T) -> Self {
        self.lifespan = Lifespan::of(Arc::new(app));
        self
    }

    /// Hooks that run when the server begins to serve, and when it has stopped. Handlers find what
    /// `start` returns by [`Context::app`](crate::Context::app).
    ///
    /// ```
    /// use interlock::Server;
    ///
    /// struct Database;
    ///
    /// let server = Server::builder("shop", "1.0.0")
    ///     .lifespan(
    ///         || async { Ok(Database) },
    ///         |_database| async { /* close it */ },
    ///     );
    /// # let _ = server;
    /// ```
    pub fn lifespan<T, S, SF, E, EF>(mut self, start: S, stop: E) -> Self
    where
        T: Send + Sync + 'static,
        S: Fn() -> SF + Send + Sync + 'static,
        SF: Future<Output = Result<T, Failure>> + Send + 'static,
        E: Fn(Arc<T>) -> EF + Send + Sync + 'static,
        EF: Future<Output = ()> + Send + 'static,
    {
        self.lifespan = Lifespan::new(start, stop);
        self
    }

    /// Limits on what is kept for clients.
    pub const fn bounds(mut self, bounds: Bounds) -> Self {
        self.bounds = bounds;
        self
    }

    /// How many calls of tools, resources and prompts a client may make: 10,000 per second unless
    /// this says otherwise. What is beyond is refused, and told how long to wait (1057, 1058).
    ///
    /// All sessions of a principal are one client. An anonymous client is a session (on stdio a
    /// connection); without a session all anonymous clients are one.
    ///
    /// ```
    /// use interlock::{Rates, Server};
    /// use std::num::NonZeroU32;
    ///
    /// let server = Server::builder("shop", "1.0.0").call_rates(Rates {
    ///     per_second: NonZeroU32::new(50),
    ///     per_minute: NonZeroU32::new(600),
    /// });
    /// # let _ = server;
    /// ```
    pub const fn call_rates(mut self, rates: Rates) -> Self {
        self.call_rates = rates;
        self
    }

    /// How many completions of arguments a client may ask for: 1,000 per second unless this says
    /// otherwise. They are counted as calls are, and apart from them.
    pub const fn completion_rates(mut self, rates: Rates) -> Self {
        self.completion_rates = rates;
        self
    }

    /// How long a workflow that was started by `workflow_start` is kept after its last use; 24
    /// hours by default. Then its id is unknown.
    pub const fn handle_idle(mut self, idle: Duration) -> Self {
        self.handle_idle = idle;
        self
    }

    /// When subscriptions end by themselves; by default, never.
    pub const fn subscriptions(mut self, rules: subscription::Rules) -> Self {
        self.subscriptions = rules;
        self
    }

    /// Checks what was collected, and builds the server.
    ///
    /// # Errors
    ///
    /// Everything that is wrong, at once.
    pub fn build(self) -> Result<Server, BuildErrors> {
        let mut errors = Vec::new();
        let catalog = self.catalog(&mut errors);
        let warnings = self.check_workflow(&catalog, &mut errors);
        effect_runner::check(&self.effects, self.workflow.as_ref(), &mut errors);
        let sealer = sealer(self.secret.as_deref(), &self.older_secrets)
            .map_err(|error| errors.push(BuildError::Secret(error)));
        match sealer {
            Ok(sealer) if errors.is_empty() => Ok(self.assemble(catalog, warnings, sealer)),
            Ok(_) | Err(()) => Err(BuildErrors(errors)),
        }
    }

    /// What the server offers so far: a workflow can be built for it
    /// ([`build_for`](interlock_workflow::Builder::build_for)), and then names only what there is.
    ///
    /// ```
    /// use interlock::{Context, NoArguments, Server, Tool, Workflow};
    ///
    /// let shop = Server::builder("shop", "1.0.0")
    ///     .tool(Tool::new("checkout", |_: NoArguments, _: Context| async { "42 to pay" }));
    /// let wrong = Workflow::builder("shop")
    ///     .state("cart", |s| s.initial().tool("chekout", |t| t.success("due")))
    ///     .state("due", |s| s.terminal())
    ///     .build_for(&shop.catalogue());
    /// assert!(wrong.is_err(), "there is no `chekout`");
    /// ```
    #[must_use]
    pub fn catalogue(&self) -> Catalogue {
        // What is wrong with a part is told when the server is built.
        self.catalog(&mut Vec::new()).summary()
    }

    fn catalog(&self, errors: &mut Vec<BuildError>) -> Catalog {
        let mut catalog = Catalog::new(self.workflow.as_ref().and_then(HandleTools::of));
        for tool in self.tools.iter().cloned() {
            catalog.add_tool(tool, errors);
        }
        for resource in self.resources.iter().cloned() {
            catalog.add_resource(resource, errors);
        }
        for template in self.templates.iter().cloned() {
            catalog.add_template(template, errors);
        }
        for prompt in self.prompts.iter().cloned() {
            catalog.add_prompt(prompt, errors);
        }
        catalog
    }

    /// Checks the workflow against the catalog, and returns the findings that are only warnings.
    fn check_workflow(&self, catalog: &Catalog, errors: &mut Vec<BuildError>) -> Vec<Finding> {
        let Some(workflow) = &self.workflow else {
            return Vec::new();
        };
        let summary = catalog.summary_beside(errors);
        let findings = snapshot::findings(workflow, &summary).into_iter();
        let (wrong, warnings): (Vec<_>, Vec<_>) =
            findings.partition(|finding| finding.severity() == Severity::Error);
        warnings.iter().for_each(snapshot::warn);
        let wrong = wrong.into_iter().map(Box::new);
        errors.extend(wrong.map(BuildError::Workflow));
        warn_of_what_has_no_place(workflow);
        warnings
    }

    fn assemble(self, catalog: Catalog, warnings: Vec<Finding>, sealer: Sealer) -> Server {
        let workflow = self.workflow;
        let by_workflow = || Some(workflow.as_ref()?.settings().tool_timeout);
        let execution = self.tool_timeout.or_else(by_workflow);
        let times = Times {
            execution: execution.unwrap_or(self.times.execution),
            ..self.times
        };
        let lifespan = Arc::new(self.lifespan);
        let effects = Effects::new(self.effects, &self.clock, &lifespan).map(Arc::new);
        let environment = Environment {
            clock: Arc::clone(&self.clock),
            ask_timeout: self.ask_timeout,
        };
        let catalog = LiveCatalog::new(catalog, workflow.as_ref(), warnings, self.page_size);
        let limits = interlock_engine::Limits {
            handle_idle: self.handle_idle,
            handles: self.bounds.handles,
            anonymous_handles: self.bounds.anonymous_handles,
        };
        let engine = workflow.map(|workflow| {
            let engine = Engine::builder(workflow).limits(limits);
            let engine = engine.clock(Arc::clone(&self.clock));
            engine_with(engine, self.store.as_ref(), effects.as_ref())
        });
        let store: Arc<dyn Store> = match self.store {
            // A store that is not in memory may not answer.
            Some(store) => Arc::new(StoreTimeout::new(store, Arc::clone(&self.clock))),
            None => Arc::new(MemoryStore::default()),
        };
        let background = TaskTracker::new();
        // It only says that waiting for the last task may end; more tasks can follow.
        background.close();
        let now = self.clock.now();
        let call_rates = CallRates::new(self.call_rates, self.completion_rates, now);
        let core = Core {
            server_meta: EncodedMeta::of_server(&self.info),
            info: self.info,
            instructions: self.instructions,
            catalog,
            engine,
            store,
            clock: self.clock,
            rules: self.rules,
            limits: self.limits,
            times,
            subscribers: Subscribers::default(),
            sealer,
            environment: Arc::new(environment),
            subscriptions: self.subscriptions,
            bounds: self.bounds,
            call_rates,
            lifespan,
            keeps_meta: !self.mounts.is_empty(),
            background,
        };
        Server::new(core, self.mounts, effects.as_deref())
    }
}

fn engine_with(
    engine: EngineBuilder,
    store: Option<&Arc<dyn Store>>,
    effects: Option<&Arc<Effects>>,
) -> Engine {
    let engine = match store {
        Some(store) => engine.store(Arc::clone(store)),
        None => engine,
    };
    match effects.cloned() {
        Some(effects) => engine.effects(effects).build(),
        None => engine.build(),
    }
}

fn sealer(secret: Option<&[u8]>, older: &[Vec<u8>]) -> Result<Sealer, String> {
    let sealer = match secret {
        Some(secret) => Sealer::new(secret).map_err(|error| error.to_string())?,
        None => Sealer::random().map_err(|error| error.to_string())?,
    };
    older.iter().try_fold(sealer, |sealer, secret| {
        sealer.also_opens(secret).map_err(|error| error.to_string())
    })
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Builder").field(&self.info.name).finish()
    }
}
