//! Puts a server together, and judges it before it can be served.

use crate::{
    catalogue::Catalogue,
    clock::{Clock, SystemClock},
    convert::Signature,
    effect::{self, Effect, Effects},
    failure::Failure,
    handle::{self, Carriers, Handles},
    handler::{Prompt, Resource, ResourceTemplate, Tool},
    launch::Calls,
    lifespan::Lifespan,
    model::Implementation,
    mount::Mounted,
    offering::Offerings,
    patience::Patient,
    seal::Sealer,
    server::{Inner, Server},
};
use interlock_proto::{connection, frame::Limits, invocation::Times, negotiation};
use interlock_store::{MemoryStore, Store};
use interlock_workflow::{Finding, Kind, Severity, TemplateError, Workflow};
use std::{fmt, future::Future, num::NonZeroUsize, sync::Arc, time::Duration};

/// How many journal entries of one instance are kept in memory: so many that are stored, and a few
/// more, and so many that nobody has asked for yet.
const JOURNAL_LIMIT: u64 = 1_000;

/// How long an instance behind a handle is kept after its last use.
const HANDLE_IDLE: Duration = Duration::from_secs(24 * 60 * 60);

/// How much of what a server keeps for its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// How many resources a client may be subscribed to: by `resources/subscribe`, and by all of
    /// its `subscriptions/listen` requests together. 1,024 by default.
    pub subscriptions: usize,
    /// How many `subscriptions/listen` requests a client may have open; 64 by default. On stdio a
    /// client is a connection, over HTTP a principal: all who come with the same credentials.
    ///
    /// Anonymous clients over HTTP cannot be told apart. For them only the bounds of all hold, and
    /// each of their requests may name as many resources as
    /// [`subscriptions`](Self::subscriptions) says.
    pub listens: usize,
    /// How many `subscriptions/listen` requests may be open in all; 4,096 by default.
    pub all_listens: usize,
    /// How many resources these may name in all; 65,536 by default.
    pub all_subscriptions: usize,
    /// How many workflows a principal may have started by `workflow_start` that have not expired,
    /// finished or not. 1,000 by default.
    pub handles: usize,
    /// How many of them all anonymous clients may have together, who cannot be told apart. 10,000
    /// by default.
    pub anonymous_handles: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            subscriptions: 1024,
            listens: 64,
            all_listens: 4096,
            all_subscriptions: 65_536,
            handles: 1_000,
            anonymous_handles: 10_000,
        }
    }
}

/// Collects what a server is made of. Nothing fails before [`build`](Self::build).
#[must_use]
pub struct Builder {
    info: Implementation,
    pub(crate) instructions: Option<String>,
    pub(crate) mounts: Vec<Arc<Mounted>>,
    tools: Vec<Tool>,
    resources: Vec<Resource>,
    templates: Vec<ResourceTemplate>,
    prompts: Vec<Prompt>,
    page_size: Option<NonZeroUsize>,
    workflow: Option<Workflow>,
    effects: Vec<Effect>,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    rules: connection::Rules,
    negotiation: negotiation::Rules,
    limits: Limits,
    times: Times,
    tool_timeout: Option<Duration>,
    journal_limit: Option<u64>,
    ask_timeout: Duration,
    subscriptions: interlock_proto::subscription::Rules,
    bounds: Bounds,
    secret: Option<Vec<u8>>,
    older_secrets: Vec<Vec<u8>>,
    lifespan: Lifespan,
    handle_idle: Duration,
}

/// Why a server cannot be built. Each says whose name it is about.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Two artifacts of one kind have one name.
    #[error("there are two {kind}s called `{name}`")]
    Duplicate {
        /// Of which kind they are.
        kind: Kind,
        /// What they are called.
        name: String,
    },
    /// A name that clients and models would choke on.
    #[error("`{name}` cannot be the name of a {kind}: {rule}")]
    Name {
        /// Of which kind it is.
        kind: Kind,
        /// What it is called.
        name: String,
        /// What would do.
        rule: &'static str,
    },
    /// A schema of the tool's cannot be used.
    #[error("the {which} schema of tool `{tool}` is not usable: {why}")]
    Schema {
        /// Which of them: `input` or `output`.
        which: &'static str,
        /// Whose it is.
        tool: String,
        /// What is wrong with it.
        why: String,
    },
    /// A resource template cannot be read.
    #[error("`{template}` is no resource template: {why}")]
    Template {
        /// What was given for one.
        template: String,
        /// What is wrong with it.
        why: TemplateError,
    },
    /// Something completes an argument that there is not.
    #[error("{kind} `{name}` has no argument `{argument}` that could be completed")]
    Completion {
        /// Of which kind it is.
        kind: Kind,
        /// What it is called.
        name: String,
        /// What it does not take.
        argument: String,
    },
    /// The workflow does not fit the server.
    #[error("the workflow does not fit the server: {0}")]
    Workflow(Box<Finding>),
    /// The workflow names effects that nobody has registered.
    #[error("the workflow names effects that the server does not have: {}", listed(.names))]
    Effects {
        /// Their names.
        names: Vec<String>,
    },
    /// Two effects have one name.
    #[error("there are two effects called `{name}`")]
    DuplicateEffect {
        /// What they are called.
        name: String,
    },
    /// An effect leads to a state that is not there, if it fails.
    #[error(
        "if effect `{effect}` fails, it leads to state `{state}`, which the workflow does not have"
    )]
    EffectState {
        /// What it is called.
        effect: String,
        /// Where it would lead.
        state: String,
    },
    /// There is no secret to seal with.
    #[error("what clients carry for the server cannot be sealed: {0}")]
    Secret(String),
}

/// Everything that was wrong.
#[derive(Debug, thiserror::Error)]
#[error("the server cannot be built: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct BuildErrors(pub Vec<BuildError>);

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
            store: Arc::new(MemoryStore::default()),
            clock: Arc::new(SystemClock::new()),
            rules: connection::Rules::default(),
            negotiation: negotiation::Rules::default(),
            limits: Limits::default(),
            times: Times::default(),
            tool_timeout: None,
            journal_limit: Some(JOURNAL_LIMIT),
            ask_timeout: Duration::from_secs(5 * 60),
            subscriptions: interlock_proto::subscription::Rules::default(),
            bounds: Bounds::default(),
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

    /// How many entries a page of a list holds at most. Unless this is said, lists come whole.
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

    /// Where instances are kept, with their whole journals. Unless this is said they are kept in
    /// memory, with the last 1,000 entries of each journal, and are gone with their session.
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = store;
        self.journal_limit = None;
        self
    }

    /// What tells the time; the system's clock unless said otherwise.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// How connections are treated: their clocks and limits.
    pub const fn connections(mut self, rules: connection::Rules) -> Self {
        self.rules = rules;
        self
    }

    /// How long the handshake may take once the client has made its offer.
    pub const fn negotiation_timeout(mut self, patience: Duration) -> Self {
        self.negotiation = negotiation::Rules { patience };
        self
    }

    /// How large messages may be.
    pub const fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// How long a call may run unless its tool or its binding says otherwise. This goes before
    /// what the workflow's settings say.
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

    /// How long a client has to answer what a handler or a state asks it, and to come back with
    /// answers; five minutes unless said otherwise.
    ///
    /// A state that asks the client's model (`sampling`) does so within the call that leads there,
    /// before it is answered, and keeps the instance's turn meanwhile. A client that does not answer
    /// in time, cannot be asked, refuses or goes away has not answered, which takes the edge of
    /// `error`. At most [`MOST_IN_ONE_CALL`](interlock_workflow::Sampling::MOST_IN_ONE_CALL)
    /// questions are asked in one call; then the instance waits in the state that it has come to.
    /// Timers, operators and effects that fail bring an instance there without a question.
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

    /// With what the server seals what clients carry for it. Servers that stand in for each other
    /// must share it; one that stands alone makes up its own. At least 32 bytes.
    pub fn secret(mut self, secret: impl Into<Vec<u8>>) -> Self {
        self.secret = Some(secret.into());
        self
    }

    /// A secret that was in use before: what was sealed with it still opens.
    pub fn older_secret(mut self, secret: impl Into<Vec<u8>>) -> Self {
        self.older_secrets.push(secret.into());
        self
    }

    /// What handlers find by [`Context::app`](crate::Context::app).
    pub fn app<T: Send + Sync + 'static>(mut self, app: T) -> Self {
        self.lifespan = Lifespan::of(Arc::new(app));
        self
    }

    /// What to do when the server begins to serve, and when it has stopped. What `start` makes,
    /// handlers find by [`Context::app`](crate::Context::app).
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

    /// How much is kept for clients.
    pub const fn bounds(mut self, bounds: Bounds) -> Self {
        self.bounds = bounds;
        self
    }

    /// How long a workflow that was started by `workflow_start` is kept after its last use; 24
    /// hours unless said otherwise. Then its id is as good as made up.
    pub const fn handle_idle(mut self, idle: Duration) -> Self {
        self.handle_idle = idle;
        self
    }

    /// When subscriptions end by themselves; never unless said otherwise.
    pub const fn subscriptions(mut self, rules: interlock_proto::subscription::Rules) -> Self {
        self.subscriptions = rules;
        self
    }

    /// Judges what was collected.
    ///
    /// # Errors
    ///
    /// Everything that is wrong, at once.
    pub fn build(self) -> Result<Server, BuildErrors> {
        let mut errors = Vec::new();
        let mut catalogue = Catalogue::new();
        catalogue.let_carry(self.workflow.as_ref().and_then(Carriers::of));
        for tool in self.tools {
            catalogue.add_tool(tool, &mut errors);
        }
        for resource in self.resources {
            catalogue.add_resource(resource, &mut errors);
        }
        for template in self.templates {
            catalogue.add_template(template, &mut errors);
        }
        for prompt in self.prompts {
            catalogue.add_prompt(prompt, &mut errors);
        }
        let findings = match &self.workflow {
            Some(workflow) => workflow.check(&catalogue.summary()),
            None => Vec::new(),
        };
        let (wrong, odd): (Vec<_>, Vec<_>) = findings
            .into_iter()
            .partition(|finding| finding.severity() == Severity::Error);
        for finding in &odd {
            tracing::warn!(code = finding.problem.code(), "{finding}");
        }
        let wrong = wrong.into_iter().map(Box::new);
        errors.extend(wrong.map(BuildError::Workflow));
        effect::check(&self.effects, self.workflow.as_ref(), &mut errors);
        if let Some(workflow) = &self.workflow {
            handle::warn_of_what_has_no_place(workflow);
        }
        let sealer = sealer(self.secret.as_deref(), &self.older_secrets)
            .map_err(|error| errors.push(BuildError::Secret(error)));
        let (true, Ok(sealer)) = (errors.is_empty(), sealer) else {
            return Err(BuildErrors(errors));
        };
        let by_workflow = || Some(self.workflow.as_ref()?.settings().tool_timeout);
        let execution = self.tool_timeout.or_else(by_workflow);
        let times = Times {
            execution: execution.unwrap_or(self.times.execution),
            ..self.times
        };
        let store: Arc<dyn Store> = match self.journal_limit {
            // Whatever is not in memory may not answer.
            None => Arc::new(Patient::new(self.store, Arc::clone(&self.clock))),
            Some(_) => self.store,
        };
        let lifespan = Arc::new(self.lifespan);
        let server = Server::new(Inner {
            effects: Effects::new(self.effects, &self.clock, &lifespan),
            signature: Signature::of(&self.info),
            info: self.info,
            instructions: self.instructions,
            offerings: Offerings::new(catalogue, self.workflow.as_ref(), &odd, self.page_size),
            workflow: self.workflow,
            store,
            clock: self.clock,
            rules: self.rules,
            negotiation: self.negotiation,
            limits: self.limits,
            times,
            journal_limit: self.journal_limit,
            shared: std::sync::OnceLock::new(),
            by_principal: std::sync::Mutex::default(),
            audience: crate::audience::Audience::default(),
            sealer,
            ask_timeout: self.ask_timeout,
            subscriptions: self.subscriptions,
            bounds: self.bounds,
            lifespan,
            mounted_handlers: self.mounts,
            mounted: std::sync::Mutex::default(),
            calls: Calls::default(),
            alarms: Arc::default(),
            handles: Handles::default(),
            handle_idle: self.handle_idle,
        });
        for mounted in &server.0.mounted_handlers {
            mounted.settle(&server);
        }
        Ok(server)
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

/// `a`, `b` and so on.
fn listed(names: &[String]) -> String {
    let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Builder").field(&self.info.name).finish()
    }
}
