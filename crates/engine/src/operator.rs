//! What operators do: see where instances stand, and unstick them.

mod error;
mod view;

pub use error::OperatorError;
pub use view::{Details, Recorded, RunningCall, Summary};

use crate::{
    clock,
    engine::Shared,
    error::EngineError,
    instance::{Instance, KIND},
    orders::{Decision, Glance, Order, OrderError, key_of},
    turn::Turn,
};
use interlock_proto::Time;
use interlock_store::{self as store, Key, Seq};
use interlock_workflow::{Busy, Outcome};
use std::{fmt, sync::Arc, time::Duration};

/// How long an operator waits for a call unless it says otherwise.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long it waits until it looks again for a call that runs elsewhere.
const PAUSE: Duration = Duration::from_millis(100);

/// How often a decision is tried if others write in between.
const ATTEMPTS: usize = 16;

/// How many instances are looked for at once.
const PAGE: usize = 100;

/// How many instances or entries come at once.
const MOST: usize = 1_000;

/// Sees where instances stand, and decides where calls cannot. Cloning it is cheap.
///
/// It goes through the store, and so it knows instances that no process has in memory. What has
/// taken no call yet is not written down: it is not listed, but it can be named.
///
/// Whatever changes an instance takes its turn like a call: it waits for a call that runs, but no
/// longer than [`patience`](Self::patience) says (10 seconds), and what is due happens first. The
/// change and its journal entry are one commit, and every client of the instance on this server
/// hears of lists that are not what they were. A call that waited meanwhile is judged again.
///
/// ```
/// use interlock_engine::{Engine, OperatorError};
/// use interlock_workflow::{Workflow, end};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let flow = Workflow::builder("hello")
///     .state("new", |s| s.initial().tool("greet", |t| t.success(end("new"))))
///     .build()?;
/// let engine = Engine::builder(flow).build();
///
/// let operator = engine.operator().by("alice");
/// for instance in operator.instances(None, 100).await? {
///     println!("{} is in {}", instance.id, instance.state);
/// }
/// let unknown = operator.reset("nobody", "it was stuck").await;
/// assert!(matches!(unknown, Err(OperatorError::NotFound(_))));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Operator {
    /// None if there is no workflow, and so no instances.
    shared: Option<Arc<Shared>>,
    by: Arc<str>,
    patience: Duration,
}

impl Operator {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared: Some(shared),
            ..Self::without_workflow()
        }
    }

    /// The operator of a server that has no workflow. It finds nothing.
    #[must_use]
    pub fn without_workflow() -> Self {
        Self {
            shared: None,
            by: Arc::from("operator"),
            patience: PATIENCE,
        }
    }

    fn shared(&self) -> Result<&Arc<Shared>, OperatorError> {
        self.shared.as_ref().ok_or(OperatorError::NoWorkflow)
    }

    /// Who decides, as the journal tells it; `operator` unless said otherwise.
    #[must_use]
    pub fn by(mut self, who: impl Into<Arc<str>>) -> Self {
        self.by = who.into();
        self
    }

    /// How long to wait for a call that runs; 10 seconds unless said otherwise.
    #[must_use]
    pub const fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Up to `limit` instances (at most 1,000) in the order of their ids, behind `after`. What
    /// cannot be read is logged and left out.
    ///
    /// # Errors
    ///
    /// If there is no workflow, or the store fails.
    pub async fn instances(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Summary>, OperatorError> {
        self.select(after, limit, |_| true).await
    }

    /// As [`instances`](Self::instances), but only those that wait for an operator: a call of
    /// theirs is to be [approved](Self::approve) or [settled](Self::settle).
    ///
    /// # Errors
    ///
    /// If there is no workflow, or the store fails.
    pub async fn waiting(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Summary>, OperatorError> {
        let now = self.shared()?.clock.now();
        let waits = |one: &Summary| {
            let mut approvals = one.approvals.iter();
            one.held.is_some() || approvals.any(|asked| asked.is_pending(now))
        };
        self.select(after, limit, waits).await
    }

    async fn select(
        &self,
        after: Option<&str>,
        limit: usize,
        wanted: impl Fn(&Summary) -> bool + Send,
    ) -> Result<Vec<Summary>, OperatorError> {
        let shared = self.shared()?;
        let limit = limit.min(MOST);
        let mut found = Vec::new();
        let mut after = after.and_then(key_of);
        while found.len() < limit {
            let now = shared.store_time();
            let keys = shared.store.list(&KIND, after.as_ref(), PAGE, now).await?;
            if keys.is_empty() {
                break;
            }
            for key in &keys {
                match shared.look_up(key).await {
                    Ok(Some(one)) => {
                        found.extend(
                            Some(Details::new(key.id(), one, Vec::new()).summary).filter(&wanted),
                        );
                        if found.len() == limit {
                            break;
                        }
                    }
                    // It was forgotten meanwhile.
                    Ok(None) => {}
                    Err(EngineError::Store(error)) => return Err(error.into()),
                    Err(error) => tracing::warn!(id = key.id(), %error, "an instance is left out"),
                }
            }
            after = keys.into_iter().next_back();
        }
        Ok(found)
    }

    /// All there is to see of one instance.
    ///
    /// # Errors
    ///
    /// If there is none, or it cannot be read.
    pub async fn show(&self, id: &str) -> Result<Details, OperatorError> {
        let workflow = &self.shared()?.workflow;
        let glance = self.found(id).await?;
        let run = glance.run.as_deref();
        let run = run.filter(|run| !run.position().finished && run.held().is_none());
        let bindings = run.map(|run| workflow.bindings(run.position().state));
        let next = bindings.unwrap_or_default().iter();
        let next = next.map(|binding| binding.artifact().clone()).collect();
        Ok(Details::new(id, glance, next))
    }

    /// Up to `limit` entries (at most 1,000) of an instance's journal behind the number
    /// `after`, in order. The journal may outlive the instance. Of a session on a server to which no
    /// store was given, entries get their numbers when somebody reads them; those that nobody read
    /// in time are counted by a [`LeftOut`](crate::journal::What::LeftOut).
    ///
    /// # Errors
    ///
    /// If there never was such an instance, or an entry cannot be read.
    pub async fn history(
        &self,
        id: &str,
        after: Option<u64>,
        limit: usize,
    ) -> Result<Vec<Recorded>, OperatorError> {
        let key = key_of(id).ok_or_else(|| OperatorError::NotFound(id.to_owned()))?;
        if let Some(live) = self.shared()?.registry.get(id) {
            let written = live.write_journal().await;
            written.map_err(|error| self.kept(id, error))?;
        }
        let limit = limit.min(MOST);
        let journal = self
            .shared()?
            .store
            .journal(&key, Seq(after.unwrap_or_default()), limit)
            .await?;
        if journal.is_empty() && after.unwrap_or_default() == 0 {
            // Nobody has written about it yet, or it is not there.
            self.found(id).await?;
        }
        let read = |logged: store::Logged| match serde_json::from_slice(&logged.bytes) {
            Ok(entry) => Ok(Recorded {
                number: logged.seq.0,
                entry,
            }),
            Err(error) => Err(OperatorError::Unreadable {
                id: id.to_owned(),
                why: format!("journal entry {}: {error}", logged.seq.0),
            }),
        };
        journal.into_iter().map(read).collect()
    }

    /// Lets an instance begin anew, as if it had just been made: it remembers nothing, not even
    /// what the workflow keeps.
    ///
    /// # Errors
    ///
    /// If there is none, or a call runs that does not end in time.
    pub async fn reset(&self, id: &str, reason: &str) -> Result<Summary, OperatorError> {
        self.decide(id, Order::Reset, reason).await
    }

    /// Puts an instance into a state, with all that it remembers. It comes there as by an edge
    /// without effects; a terminal state ends it as the workflow says. One that was finished goes
    /// on, and one that held a call does not any more.
    ///
    /// # Errors
    ///
    /// If there is no such instance or state, or a call runs that does not end in time.
    pub async fn move_to(
        &self,
        id: &str,
        state: &str,
        reason: &str,
    ) -> Result<Summary, OperatorError> {
        let to = self.shared()?.workflow.state_id(state);
        let to = to.ok_or_else(|| OperatorError::NoState(state.to_owned()))?;
        self.decide(id, Order::Move(to), reason).await
    }

    /// Ends an instance where it stands: further calls are refused with 1085, whatever the workflow
    /// says about ends.
    ///
    /// # Errors
    ///
    /// If there is none, it is finished already, or a call runs that does not end in time.
    pub async fn abort(&self, id: &str, reason: &str) -> Result<Summary, OperatorError> {
        self.decide(id, Order::Abort, reason).await
    }

    /// Tells how a call ended of which nobody knew what it did, and lets its instance go on from
    /// there: the edges of that outcome are taken, with their effects.
    ///
    /// # Errors
    ///
    /// If there is no such instance, it holds no call, or the outcome is unknown still.
    pub async fn settle(
        &self,
        id: &str,
        outcome: Outcome,
        reason: &str,
    ) -> Result<Summary, OperatorError> {
        self.decide(id, Order::Settle(outcome), reason).await
    }

    /// Lets a call run for which the workflow wants a person's yes, once: whoever made it repeats
    /// it. `approval` is the [id](crate::ApprovalRequest::id) of the question. The yes is for that call
    /// of the instance as it is, holds for as long as the question did, and is void once the
    /// instance has changed.
    ///
    /// ```no_run
    /// # async fn run(operator: interlock_engine::Operator) -> Result<(), interlock_engine::OperatorError> {
    /// for instance in operator.waiting(None, 100).await? {
    ///     for asked in &instance.approvals {
    ///         println!("{}: {}", instance.id, asked.question);
    ///         operator.approve(&instance.id, &asked.id, "I know this customer").await?;
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// If no call waits for it any more, it was denied already, or it is too late. The same answer
    /// twice is none.
    pub async fn approve(
        &self,
        id: &str,
        approval: &str,
        reason: &str,
    ) -> Result<Summary, OperatorError> {
        self.decide(id, Order::Answer(approval, true), reason).await
    }

    /// Refuses a call for which the workflow wants a person's yes: whoever repeats it is told 1083,
    /// for as long as the question would have held.
    ///
    /// # Errors
    ///
    /// As for [`approve`](Self::approve).
    pub async fn deny(
        &self,
        id: &str,
        approval: &str,
        reason: &str,
    ) -> Result<Summary, OperatorError> {
        self.decide(id, Order::Answer(approval, false), reason)
            .await
    }

    /// What the store knows of an instance, or else the memory.
    async fn found(&self, id: &str) -> Result<Glance, OperatorError> {
        let not_found = || OperatorError::NotFound(id.to_owned());
        let key = key_of(id).ok_or_else(not_found)?;
        let stored = self.shared()?.look_up(&key).await;
        if let Some(found) = stored.map_err(|error| self.kept(id, error))? {
            return Ok(found);
        }
        let live = self.shared()?.registry.get(id);
        live.and_then(|live| live.look()).ok_or_else(not_found)
    }

    async fn decide(
        &self,
        id: &str,
        order: Order<'_>,
        reason: &str,
    ) -> Result<Summary, OperatorError> {
        let key = key_of(id).ok_or_else(|| OperatorError::NotFound(id.to_owned()))?;
        let live = self.shared()?.registry.get(id);
        let is_live = live.is_some();
        let instance = match live {
            Some(live) => live,
            None => self.stored(&key).await?,
        };
        let until = self.shared()?.clock.now() + self.patience;
        let turn = self.turn(&instance, until).await?;
        let decision = Decision {
            by: &self.by,
            reason,
        };
        for _ in 0..ATTEMPTS {
            self.refresh(&turn, id, until).await?;
            if !turn.exists(is_live) {
                break;
            }
            match turn.obey(order, decision).await {
                Ok(()) => {
                    // It is done, and nothing that the store says now changes that.
                    let found = instance.look();
                    let found = found.ok_or_else(|| OperatorError::NotFound(id.to_owned()))?;
                    return Ok(Details::new(id, found, Vec::new()).summary);
                }
                Err(OrderError::Engine(error)) if error.is_conflict() => {}
                Err(OrderError::Engine(error)) => return Err(self.kept(id, error)),
                Err(OrderError::Refused(error)) => return Err(error),
            }
        }
        if turn.exists(is_live) {
            return Err(self.busy(id));
        }
        Err(OperatorError::NotFound(id.to_owned()))
    }

    /// An instance that is not in memory.
    async fn stored(&self, key: &Key) -> Result<Arc<Instance>, OperatorError> {
        let stored = self.shared()?.load(key.id()).await?;
        let stored = stored.ok_or_else(|| OperatorError::NotFound(key.id().to_owned()))?;
        Ok(self.shared()?.instance_of(key.id(), &stored))
    }

    /// Waits for the turn as a call does, whatever the workflow says about those who come second.
    async fn turn(&self, instance: &Arc<Instance>, until: Time) -> Result<Turn, OperatorError> {
        let turn = tokio::select! {
            biased;
            turn = instance.turn(Busy::Wait) => turn,
            () = clock::sleep_until(&*self.shared()?.clock, Some(until)) => None,
        };
        turn.ok_or_else(|| self.busy(instance.id()))
    }

    /// Waits for a call that runs elsewhere, and sees how the instance stands then.
    async fn refresh(&self, turn: &Turn, id: &str, until: Time) -> Result<(), OperatorError> {
        let clock = &*self.shared()?.clock;
        loop {
            match turn.refresh().await {
                Ok(()) => return Ok(()),
                Err(EngineError::RunningElsewhere) if clock.now() < until => {
                    let again = until.min(clock.now() + PAUSE);
                    clock::sleep_until(clock, Some(again)).await;
                }
                Err(error) => return Err(self.kept(id, error)),
            }
        }
    }

    fn busy(&self, id: &str) -> OperatorError {
        OperatorError::Busy {
            id: id.to_owned(),
            waited: self.patience,
        }
    }

    fn kept(&self, id: &str, error: EngineError) -> OperatorError {
        let id = id.to_owned();
        match error {
            EngineError::Store(error) => error.into(),
            EngineError::Foreign(workflow) => OperatorError::Foreign { id, workflow },
            EngineError::RunningElsewhere => self.busy(&id),
            error @ (EngineError::Format(_) | EngineError::Unreadable(_)) => {
                let why = error.to_string();
                OperatorError::Unreadable { id, why }
            }
        }
    }
}

impl fmt::Debug for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Operator")
            .field("by", &self.by)
            .field("patience", &self.patience)
            .finish_non_exhaustive()
    }
}
