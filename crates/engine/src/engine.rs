//! The engine and its builder: finds, starts and ends instances.

use crate::{
    clock::{Clock, SystemClock},
    commit::store_time,
    effect_port::EffectRunner,
    error::EngineError,
    handles::Registry,
    instance::Instance,
    operator::Operator,
    principal::Principal,
    store_timeout::StoreTimeout,
    timers::Timers,
};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use interlock_proto::Time;
use interlock_store::{self as store, MemoryStore, Store};
use interlock_workflow::{Scope, Workflow};
use sha2::{Digest, Sha256};
use std::{
    collections::hash_map::RandomState,
    fmt,
    hash::{BuildHasher, Hasher},
    io,
    sync::Arc,
    time::Duration,
};

/// How many entries a journal has that is kept in memory.
const JOURNAL_LIMIT: u64 = 1_000;

/// Runs the instances of one workflow. When it is dropped, its timers stop.
///
/// It needs a runtime of tokio for its timers, and nothing else. On a store of its own, instances
/// outlive the process, and other processes may run them too.
///
/// ```
/// use interlock_engine::{CallFacts, Engine, Principal, Reserved, Source};
/// use interlock_store::MemoryStore;
/// use interlock_workflow::{Kind, Outcome, Scope, Settings, Workflow, end};
/// use std::sync::Arc;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let flow = Workflow::builder("shop")
///     .settings(Settings { scope: Scope::Principal, ..Settings::default() })
///     .state("cart", |s| s.initial().tool("checkout", |t| t.success("due")))
///     .state("due", |s| s.tool("pay", |t| t.success(end("cart"))))
///     .build()?;
/// let (store, alice) = (Arc::new(MemoryStore::default()), Principal::new("alice"));
///
/// let engine = Engine::builder(flow.clone()).store(store.clone()).build();
/// let instance = engine.open(&Source::Caller, &alice).await?;
/// let checkout = CallFacts::new(Kind::Tool, "checkout");
/// if let Ok(Reserved::Exclusive(mut reservation)) = instance.reserve(&checkout).await {
///     reservation.commit(Outcome::Success, None).await?;
/// }
/// drop((instance, engine));
///
/// let restarted = Engine::builder(flow).store(store).build();
/// let instance = restarted.open(&Source::Caller, &alice).await?;
/// assert!(instance.admit(&CallFacts::new(Kind::Tool, "pay")).is_ok());
/// # Ok(())
/// # }
/// ```
pub struct Engine {
    shared: Arc<Shared>,
}

/// What the instances of an engine share.
pub(crate) struct Shared {
    pub(crate) workflow: Workflow,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) effects: Option<Arc<dyn EffectRunner>>,
    /// How many entries a journal keeps; all if the store was given.
    pub(crate) journal_limit: Option<u64>,
    pub(crate) limits: Limits,
    /// A number that no other process has.
    pub(crate) node: u64,
    pub(crate) timers: Timers,
    pub(crate) registry: Registry,
}

/// How many instances behind handles there may be, and for how long.
///
/// Beyond these numbers, instances give way to a new one that are finished, that no call has moved and
/// that were not used for a minute, or that were not used for ten minutes. None gives way that runs a
/// call or waits for an operator to settle one.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How long an instance behind a handle is kept after its last use; 24 hours by default.
    pub handle_idle: Duration,
    /// How many handles one principal may have; 1,000 by default.
    pub handles: usize,
    /// How many handles all anonymous clients may have together; 10,000 by default.
    pub anonymous_handles: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            handle_idle: Duration::from_secs(24 * 60 * 60),
            handles: 1_000,
            anonymous_handles: 10_000,
        }
    }
}

/// Collects what an engine needs.
#[must_use]
pub struct EngineBuilder {
    workflow: Workflow,
    store: Option<Arc<dyn Store>>,
    clock: Arc<dyn Clock>,
    effects: Option<Arc<dyn EffectRunner>>,
    limits: Limits,
}

impl EngineBuilder {
    /// Where instances are kept, with their whole journals. Unless this is said they are kept in
    /// memory, with the last 1,000 entries of each journal, and are gone with their session.
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = Some(store);
        self
    }

    /// What tells the time; the system's clock by default.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// What runs the effects that edges name.
    pub fn effects(mut self, effects: Arc<dyn EffectRunner>) -> Self {
        self.effects = Some(effects);
        self
    }

    /// How many handles there may be.
    pub const fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// The engine.
    #[must_use]
    pub fn build(mut self) -> Engine {
        let shared = match self.store.take() {
            Some(store) => {
                // A store that is not in memory may not answer.
                let store = StoreTimeout::new(store, Arc::clone(&self.clock));
                self.assemble(Arc::new(store), None)
            }
            None => self.assemble(Arc::new(MemoryStore::default()), Some(JOURNAL_LIMIT)),
        };
        Engine { shared }
    }

    pub(crate) fn assemble(self, store: Arc<dyn Store>, journal_limit: Option<u64>) -> Arc<Shared> {
        Arc::new(Shared {
            workflow: self.workflow,
            store,
            clock: self.clock,
            effects: self.effects,
            journal_limit,
            limits: self.limits,
            node: RandomState::new().build_hasher().finish(),
            timers: Timers::default(),
            registry: Registry::default(),
        })
    }
}

impl fmt::Debug for EngineBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EngineBuilder")
            .field(&self.workflow.name())
            .finish()
    }
}

impl Shared {
    pub(crate) fn now(&self) -> Time {
        self.clock.now()
    }

    pub(crate) fn store_time(&self) -> store::Time {
        store_time(self.now())
    }

    /// Whether no other process sees the store, which is gone with this one.
    pub(crate) const fn is_private(&self) -> bool {
        self.journal_limit.is_some()
    }
}

/// How an instance is found for a call that has none yet.
#[derive(Clone, Debug)]
pub enum Source {
    /// By the handle that the call brings.
    Handle(String),
    /// By the principal that makes the call, or it is the one that everybody shares.
    Caller,
}

/// Why an instance was not opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The handle was made for another principal, has expired, or never was.
    #[error("there is no instance behind this handle")]
    Unknown,
    /// Each principal has an instance of its own, and the caller is not authenticated.
    #[error(
        "the workflow has the scope `principal`, and nobody is authenticated here: serve it over \
         HTTP with an authenticator"
    )]
    Unauthenticated,
    /// The operating system gives no random bytes.
    #[error("there is no randomness: {0}")]
    NoRandomness(getrandom::Error),
    /// The instance could not be loaded.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl From<OpenError> for io::Error {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Unauthenticated => Self::new(io::ErrorKind::InvalidInput, error),
            OpenError::Unknown | OpenError::NoRandomness(_) | OpenError::Engine(_) => {
                Self::other(error)
            }
        }
    }
}

/// Why no instance was started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The principal has that many already, and none of them gives way to another one now.
    #[error("{most} workflows were started and have not ended")]
    TooMany {
        /// How many it may have.
        most: usize,
        /// When one of them might give way.
        wait: Duration,
    },
    /// The operating system gives no random bytes.
    #[error("there is no randomness: {0}")]
    NoRandomness(getrandom::Error),
    /// The instance could not be stored.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl Engine {
    /// Begins an engine for a workflow.
    pub fn builder(workflow: Workflow) -> EngineBuilder {
        EngineBuilder {
            workflow,
            store: None,
            clock: Arc::new(SystemClock::new()),
            effects: None,
            limits: Limits::default(),
        }
    }

    /// The workflow that it runs.
    #[must_use]
    pub fn workflow(&self) -> &Workflow {
        &self.shared.workflow
    }

    /// Whether another process may move the instances of connections, so that each call looks.
    #[must_use]
    pub fn others_may_move(&self) -> bool {
        match self.workflow().settings().scope {
            Scope::Principal | Scope::Global => !self.shared.is_private(),
            Scope::Session | Scope::Handle => false,
        }
    }

    /// Whether the store was given: then instances outlive this process.
    #[must_use]
    pub fn is_durable(&self) -> bool {
        !self.shared.is_private()
    }

    /// What runs the effects that edges name, if anything does.
    #[must_use]
    pub fn effects(&self) -> Option<&Arc<dyn EffectRunner>> {
        self.shared.effects.as_ref()
    }

    /// The instance that a new connection belongs to; none if each call names its own.
    ///
    /// # Errors
    ///
    /// If the caller has to be authenticated and is not, or there is no randomness.
    pub fn connect(&self, principal: &Principal) -> Result<Option<Arc<Instance>>, OpenError> {
        let workflow = self.workflow();
        let id = match workflow.settings().scope {
            Scope::Handle => return Ok(None),
            Scope::Session => random_id().map_err(OpenError::NoRandomness)?,
            Scope::Principal if principal.is_anonymous() => {
                return Err(OpenError::Unauthenticated);
            }
            Scope::Principal => principal_id(principal, workflow),
            Scope::Global => format!("global:{}", short_name(workflow)),
        };
        Ok(Some(self.shared.shared_instance(id)))
    }

    /// The instance of a connection that comes back. `id` is the one that it had.
    ///
    /// # Errors
    ///
    /// As for [`connect`](Self::connect).
    pub fn reconnect(
        &self,
        id: Option<String>,
        principal: &Principal,
    ) -> Result<Option<Arc<Instance>>, OpenError> {
        match id {
            Some(id) if self.workflow().settings().scope == Scope::Session => {
                Ok(Some(self.shared.shared_instance(id)))
            }
            Some(_) | None => self.connect(principal),
        }
    }

    /// The instance of a call that has none yet, as it is now.
    ///
    /// # Errors
    ///
    /// Why it was not found.
    pub async fn open(
        &self,
        source: &Source,
        principal: &Principal,
    ) -> Result<Arc<Instance>, OpenError> {
        if let Source::Handle(id) = source {
            return self.shared.find_handle(id, principal).await;
        }
        let instance = self.connect(principal)?;
        let instance = instance.ok_or(OpenError::Unauthenticated)?;
        let instance = self.shared.registry.keep(instance, self.shared.now());
        // Other processes may have moved it.
        let record = self.shared.load(instance.id()).await;
        if let Some(record) = record.map_err(EngineError::from)? {
            let before = instance.position();
            instance.adopt(&record)?;
            instance.tell_all(before, instance.position());
        }
        instance.find_quietly().await?;
        Ok(instance)
    }

    /// Starts an instance behind a handle for a principal. Its id is the handle.
    ///
    /// ```
    /// use interlock_engine::{Engine, OpenError, Principal, Source};
    /// use interlock_workflow::{Scope, Settings, Workflow, end};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let flow = Workflow::builder("hello")
    ///     .settings(Settings { scope: Scope::Handle, ..Settings::default() })
    ///     .state("new", |s| s.initial().tool("greet", |t| t.success(end("new"))))
    ///     .build()?;
    /// let engine = Engine::builder(flow).build();
    /// let (alice, bob) = (Principal::new("alice"), Principal::new("bob"));
    ///
    /// let handle = Source::Handle(engine.start(&alice).await?.id().to_string());
    /// assert!(engine.open(&handle, &alice).await.is_ok());
    /// assert!(matches!(engine.open(&handle, &bob).await, Err(OpenError::Unknown)));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// If there are too many already, or it could not be stored.
    pub async fn start(&self, principal: &Principal) -> Result<Arc<Instance>, StartError> {
        self.shared.start_handle(principal).await
    }

    /// Ends the instance of a session of which nothing is left but the id.
    pub async fn forget(&self, id: Option<String>) {
        let Some(id) = id.filter(|_| self.workflow().settings().scope == Scope::Session) else {
            return;
        };
        let instance = self.shared.shared_instance(id);
        if instance.find().await.is_ok()
            && let Err(error) = instance.end().await
        {
            tracing::warn!(%error, "could not delete an instance");
        }
    }

    /// Removes expired handles now and then, also those that other processes have left in the store.
    pub fn watch_handles(&self) {
        if self.is_durable() {
            self.shared.sweep_from(self.shared.now());
        }
    }

    /// What operators see and decide.
    #[must_use]
    pub fn operator(&self) -> Operator {
        Operator::new(Arc::clone(&self.shared))
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.shared.timers.close();
        self.shared.registry.clear();
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Engine")
            .field(&self.workflow().name())
            .finish()
    }
}

/// Short and printable whatever the principal is called, and the same in every process.
fn principal_id(principal: &Principal, workflow: &Workflow) -> String {
    let hash = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(principal.id()));
    format!("principal:{}:{hash}", short_name(workflow))
}

fn short_name(workflow: &Workflow) -> String {
    let name = workflow.name().chars();
    name.filter(|c| !c.is_control()).take(128).collect()
}

/// An id of 128 random bits.
///
/// # Errors
///
/// If the operating system gives no random bytes.
pub fn random_id() -> Result<String, getrandom::Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}
