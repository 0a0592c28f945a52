//! What a server does after a step, by name: the effects of a workflow, not the orders of a machine.

use crate::{
    api::{drop_quietly, lifespan::Lifespan},
    catalog::build_error::BuildError,
    context::environment::App,
    model::failure::Failure,
    server::{Server, WeakServer},
};
use async_trait::async_trait;
use futures_util::{FutureExt, future::BoxFuture};
use interlock_engine::{Clock, Done, EffectRunner, Observer, sleep_until};
use interlock_proto::{Level, Time};
use interlock_workflow::Workflow;
use serde::Serialize;
use std::{
    collections::{BTreeSet, HashMap},
    fmt,
    future::Future,
    panic::AssertUnwindSafe,
    sync::{Arc, OnceLock, Weak},
    time::Duration,
};

/// How long an effect may take unless it says otherwise.
const DEADLINE: Duration = Duration::from_secs(30);

/// How many characters of what went wrong are kept.
const MOST_WORDS: usize = 1_000;

type Act = dyn Fn(Done, EffectContext) -> BoxFuture<'static, Result<(), Failure>> + Send + Sync;

/// What a server does after a step whose edge names it (`effects` in a file, `effect` in Rust).
///
/// Effects run once the step is committed and the lists that it changed are announced, in the
/// order in which the edge names them, and before the call that took the step is answered. The
/// instance's turn is kept meanwhile: the next call waits. A timer's step has its effects, too,
/// and no caller.
///
/// Nothing that an effect does undoes the step. One that fails, panics or exceeds its deadline (30
/// seconds unless [`deadline`](Self::deadline) says otherwise) has failed, and
/// [`on_failure`](Self::on_failure) says what follows. The journal tells of each run. An effect
/// runs at most once for a step: if the process dies in between, it is not run again, and the
/// journal does not have it.
///
/// ```
/// use interlock::{
///     Context, Done, Effect, EffectContext, NoArguments, OnFailure, Server, Tool, Workflow,
///     workflow::to,
/// };
///
/// let flow = Workflow::builder("shop")
///     .state("cart", |s| s.initial().tool("pay", |t| t.success(to("paid").effect("receipt"))))
///     .state("unsent", |s| s.tool("pay", |t| t.success("paid")))
///     .state("paid", |s| s.terminal())
///     .build()?;
/// let receipt = Effect::new("receipt", |done: Done, _: EffectContext| async move {
///     println!("{} went from {} to {}", done.instance, done.from, done.to);
///     Ok(())
/// });
/// let server = Server::builder("shop", "1.0.0")
///     .tool(Tool::new("pay", |_: NoArguments, _: Context| async { "thank you" }))
///     .effect(receipt.on_failure(OnFailure::take("unsent")))
///     .workflow(flow)
///     .build()?;
/// # let _ = server;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
#[must_use]
pub struct Effect {
    name: Arc<str>,
    act: Arc<Act>,
    deadline: Duration,
    on_failure: OnFailure,
    wants_result: bool,
}

/// What follows if an effect fails. Whatever it is, the journal and the log tell of the failure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnFailure {
    /// Nothing else. The next effect of the step runs.
    #[default]
    Log,
    /// The instance takes a step to this state, wherever it stands then. The other effects of the
    /// step that set it off do not run.
    Take(String),
}

impl OnFailure {
    /// The instance takes a step to this state.
    pub fn take(state: impl Into<String>) -> Self {
        Self::Take(state.into())
    }
}

impl Effect {
    /// What is done under this name. It must not block its thread.
    pub fn new<F, R>(name: impl Into<Arc<str>>, act: F) -> Self
    where
        F: Fn(Done, EffectContext) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        Self {
            name: name.into(),
            act: Arc::new(move |done, context| act(done, context).boxed()),
            deadline: DEADLINE,
            on_failure: OnFailure::default(),
            wants_result: false,
        }
    }

    /// How long it may take.
    pub const fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// What follows if it fails.
    pub fn on_failure(mut self, on_failure: OnFailure) -> Self {
        self.on_failure = on_failure;
        self
    }

    /// Lets it see what the call came to, which is not made JSON for others.
    pub const fn with_result(mut self) -> Self {
        self.wants_result = true;
        self
    }

    pub(crate) const fn name(&self) -> &Arc<str> {
        &self.name
    }

    pub(crate) const fn policy(&self) -> &OnFailure {
        &self.on_failure
    }
}

impl fmt::Debug for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Effect")
            .field("name", &self.name)
            .field("deadline", &self.deadline)
            .field("on_failure", &self.on_failure)
            .finish_non_exhaustive()
    }
}

/// What an effect knows besides the step.
#[derive(Clone)]
pub struct EffectContext {
    effect: Arc<str>,
    until: Time,
    app: Option<App>,
    server: WeakServer,
    observers: Vec<Weak<dyn Observer>>,
}

impl EffectContext {
    /// What the effect is called.
    #[must_use]
    pub fn effect(&self) -> &str {
        &self.effect
    }

    /// When it is given up.
    #[must_use]
    pub const fn until(&self) -> Time {
        self.until
    }

    /// What the application's start hook made, if it made a `T`.
    #[must_use]
    pub fn app<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.app.as_ref()?.downcast_ref()
    }

    /// The server: to tell of resources, to add and remove what it has. Nothing if it is gone.
    ///
    /// ```
    /// use interlock::{Done, Effect, EffectContext, Level};
    ///
    /// let told = Effect::new("tell", |done: Done, context: EffectContext| async move {
    ///     if let Some(server) = context.server() {
    ///         server.resource_updated("note://rules");
    ///     }
    ///     context.log(Level::Info, format!("{} is in {}", done.instance, done.to));
    ///     Ok(())
    /// });
    /// # let _ = told;
    /// ```
    ///
    /// The instance of the step is busy until the effect is done, also for operators.
    #[must_use]
    pub fn server(&self) -> Option<Server> {
        self.server.upgrade()
    }

    /// Writes to the log of every client of the instance that is connected and takes messages of
    /// this level. Secrets do not belong there.
    pub fn log(&self, level: Level, data: impl Serialize) {
        let data = match serde_json::to_value(data) {
            Ok(data) => data,
            Err(error) => return tracing::warn!(%error, "a log message is not representable"),
        };
        for observer in self.observers.iter().filter_map(Weak::upgrade) {
            observer.logged(level, &self.effect, &data);
        }
    }
}

impl fmt::Debug for EffectContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EffectContext")
            .field("effect", &self.effect)
            .field("until", &self.until)
            .finish_non_exhaustive()
    }
}

/// The effects of a server, and what it takes to run them.
pub(crate) struct Effects {
    by_name: HashMap<Arc<str>, Effect>,
    clock: Arc<dyn Clock>,
    lifespan: Arc<Lifespan>,
    server: OnceLock<WeakServer>,
}

impl Effects {
    /// Nothing if there are none, so that nobody looks for them.
    pub(crate) fn new(
        effects: Vec<Effect>,
        clock: &Arc<dyn Clock>,
        lifespan: &Arc<Lifespan>,
    ) -> Option<Self> {
        if effects.is_empty() {
            return None;
        }
        let named = |effect: Effect| (Arc::clone(&effect.name), effect);
        Some(Self {
            by_name: effects.into_iter().map(named).collect(),
            clock: Arc::clone(clock),
            lifespan: Arc::clone(lifespan),
            server: OnceLock::new(),
        })
    }

    /// Says which server they belong to.
    pub(crate) fn belong_to(&self, server: WeakServer) {
        let _ = self.server.set(server);
    }

    fn named<'a>(&'a self, names: &'a [String]) -> impl Iterator<Item = &'a Effect> {
        names.iter().filter_map(|name| self.by_name.get(&**name))
    }
}

#[async_trait]
impl EffectRunner for Effects {
    fn time_for(&self, names: &[String]) -> Duration {
        let deadlines = self.named(names).map(|effect| effect.deadline);
        deadlines.fold(Duration::ZERO, Duration::saturating_add)
    }

    fn wants_result(&self, names: &[String]) -> bool {
        self.named(names).any(|effect| effect.wants_result)
    }

    fn on_failure(&self, name: &str) -> Option<&str> {
        match self.by_name.get(name)?.policy() {
            OnFailure::Log => None,
            OnFailure::Take(state) => Some(state),
        }
    }

    async fn run(
        &self,
        name: &str,
        done: &Done,
        observers: Vec<Weak<dyn Observer>>,
    ) -> Result<(), String> {
        // A server is only built if it has all of them.
        let Some(effect) = self.by_name.get(name) else {
            return Ok(());
        };
        let until = self.clock.now() + effect.deadline;
        let context = EffectContext {
            effect: Arc::clone(&effect.name),
            until,
            app: self.lifespan.app(),
            server: self.server.get().cloned().unwrap_or_default(),
            observers,
        };
        let mut done = done.clone();
        if !effect.wants_result {
            done.result = None;
        }
        let act = Arc::clone(&effect.act);
        let doing = AssertUnwindSafe(async move { act(done, context).await });
        let mut doing = doing.catch_unwind().boxed();
        let ended = tokio::select! {
            biased;
            ended = &mut doing => Some(ended),
            () = sleep_until(&*self.clock, Some(until)) => None,
        };
        drop_quietly(doing);
        let failed = match ended {
            Some(Ok(Ok(()))) => return Ok(()),
            Some(Ok(Err(failure))) => failure.to_string(),
            Some(Err(payload)) => {
                drop_quietly(payload);
                "it panicked".to_owned()
            }
            None => format!("it was not done within {:?}", effect.deadline),
        };
        Err(failed.chars().take(MOST_WORDS).collect())
    }
}

/// Whether the effects of a server and of its workflow are the same.
pub(crate) fn check(effects: &[Effect], workflow: Option<&Workflow>, errors: &mut Vec<BuildError>) {
    let mut known = BTreeSet::new();
    for effect in effects {
        if !known.insert(&**effect.name()) {
            let name = effect.name().to_string();
            errors.push(BuildError::DuplicateEffect { name });
        }
        if let OnFailure::Take(state) = effect.policy()
            && workflow.is_some_and(|flow| flow.state_id(state).is_none())
        {
            errors.push(BuildError::EffectState {
                effect: effect.name().to_string(),
                state: state.clone(),
            });
        }
    }
    let edges = workflow.into_iter().flat_map(Workflow::edges);
    let named: BTreeSet<&str> = edges
        .flat_map(|(_, edge)| edge.effects.iter().map(String::as_str))
        .collect();
    let missing: Vec<_> = named.difference(&known).map(ToString::to_string).collect();
    if !missing.is_empty() {
        errors.push(BuildError::Effects { names: missing });
    }
    for unused in unused(effects, workflow) {
        tracing::warn!(effect = unused, "no edge of the workflow names the effect");
    }
}

/// The effects that no edge names.
fn unused<'a>(effects: &'a [Effect], workflow: Option<&Workflow>) -> Vec<&'a str> {
    let is_named = |name: &str| {
        let mut edges = workflow.into_iter().flat_map(Workflow::edges);
        edges.any(|(_, edge)| edge.effects.iter().any(|named| named == name))
    };
    let names = effects.iter().map(|effect| &**effect.name());
    names.filter(|name| !is_named(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use interlock_workflow::to;

    #[test]
    fn an_effect_that_no_edge_names_is_found() {
        let effect = |name| Effect::new(name, |_: Done, _: EffectContext| async { Ok(()) });
        let effects = ["sent", "forgotten", "timed"].map(effect);
        let flow = Workflow::builder("w")
            .state("a", |s| {
                s.initial()
                    .tool("go", |t| t.success(to("b").effect("sent")))
                    .after(Duration::from_secs(1), to("b").effect("timed"))
            })
            .state("b", |s| s.terminal())
            .build()
            .unwrap();
        assert_eq!(unused(&effects, Some(&flow)), ["forgotten"]);
        assert_eq!(unused(&effects, None), ["sent", "forgotten", "timed"]);
        let mut errors = Vec::new();
        check(&effects, Some(&flow), &mut errors);
        assert!(errors.is_empty(), "it is no error: {errors:?}");
    }
}
