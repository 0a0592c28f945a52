//! What operators do: see where instances stand, and unstick them.

use crate::{
    approval::ApprovalRequest,
    clock,
    instance::{
        self, Books, Decision, Disobeyed, Found, Held, Instance, KeepError, Order, key_of, look_up,
    },
    journal::Entry,
    server::{Inner, Server},
};
use interlock_proto::{Refusal, Time};
use interlock_store::{self as store, Key, Seq, StoreError};
use interlock_workflow::{Artifact, Busy, Held as HeldCall, Outcome, Workflow};
use serde::Serialize;
use serde_json::{Map, Value};
use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

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

/// Sees where the instances of a server stand, and decides where calls cannot. Cloning it is cheap.
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
/// use interlock::{Context, NoArguments, OperatorError, Server, Tool, Workflow, workflow::end};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let flow = Workflow::builder("hello")
///     .state("new", |s| s.initial().tool("greet", |t| t.success(end("new"))))
///     .build()?;
/// let server = Server::builder("hello", "1.0.0")
///     .tool(Tool::new("greet", |_: NoArguments, _: Context| async { "hello" }))
///     .workflow(flow)
///     .build()?;
///
/// let operator = server.operator().by("alice");
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
    inner: Arc<Inner>,
    by: Arc<str>,
    patience: Duration,
}

/// Why an operator did not get what it wanted. Then nothing has changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OperatorError {
    /// The server has no workflow, and so no instances.
    #[error("the server has no workflow")]
    NoWorkflow,
    /// There is no such instance.
    #[error("there is no instance `{0}`")]
    NotFound(String),
    /// There is no such state.
    #[error("the workflow has no state `{0}`")]
    NoState(String),
    /// A call kept its turn for longer than the operator waited.
    #[error("instance `{id}` is busy: a call runs that did not end within {waited:?}")]
    Busy {
        /// The instance.
        id: String,
        /// How long the operator waited.
        waited: Duration,
    },
    /// The instance is over already.
    #[error("instance `{0}` is finished already")]
    Finished(String),
    /// There is no call to decide about.
    #[error("instance `{0}` holds no call that could be settled")]
    NotHeld(String),
    /// That outcome does not settle anything.
    #[error("the call that instance `{id}` holds cannot be settled as {outcome}")]
    Unsettled {
        /// The instance.
        id: String,
        /// The outcome.
        outcome: Outcome,
    },
    /// No call waits for that answer: it was never asked, or the instance has changed since.
    #[error("no call of instance `{0}` waits for this decision any more")]
    NotAsked(String),
    /// It was decided otherwise, or it is too late.
    #[error("a call of instance `{id}` cannot be decided so: {}", .refusal.message())]
    Decided {
        /// The instance.
        id: String,
        /// Why not.
        refusal: Refusal,
    },
    /// It belongs to another definition of the workflow.
    #[error("instance `{id}` belongs to another definition of workflow `{workflow}`")]
    Foreign {
        /// The instance.
        id: String,
        /// What its workflow is called.
        workflow: String,
    },
    /// What is stored cannot be read.
    #[error("what is stored of instance `{id}` cannot be read: {why}")]
    Unreadable {
        /// The instance.
        id: String,
        /// What is wrong with it.
        why: String,
    },
    /// The store could not do it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Where an instance stands.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Summary {
    /// The instance.
    pub id: String,
    /// What its workflow is called.
    pub workflow: String,
    /// It belongs to another definition than the one that is served, and cannot be changed.
    pub foreign: bool,
    /// The state it is in.
    pub state: String,
    /// It goes nowhere from there.
    pub finished: bool,
    /// Since when, in milliseconds since the epoch.
    pub since: u64,
    /// When its time there is up.
    pub due: Option<u64>,
    /// The call of which nobody knows what it did: see [`Operator::settle`].
    pub held: Option<HeldCall>,
    /// The call that has its turn.
    pub running: Option<RunningCall>,
    /// The calls that wait for an operator's yes, or have got an answer and not used it: see
    /// [`Operator::approve`].
    pub approvals: Vec<ApprovalRequest>,
    /// How many calls have had their turn.
    pub calls: u64,
    /// Its version in the store; none if it is not written down yet.
    pub version: Option<u64>,
}

/// A call that has its turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RunningCall {
    /// Its number, counted from the beginning of the instance.
    pub number: u64,
    /// What is called.
    pub artifact: Artifact,
    /// When it must be over, in milliseconds since the epoch. If it is still there then, its
    /// process has died.
    pub until: u64,
}

/// All there is to see of an instance.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Details {
    /// Where it stands.
    #[serde(flatten)]
    pub summary: Summary,
    /// What it remembers.
    pub memory: Map<String, Value>,
    /// How often it has come to each state.
    pub visits: BTreeMap<String, u32>,
    /// What can be called now, guards aside.
    pub next: Vec<Artifact>,
}

/// One entry of an instance's journal.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Recorded {
    /// Its number in the journal.
    pub number: u64,
    /// What it says.
    pub entry: Entry,
}

impl Server {
    /// What operators can do.
    #[must_use]
    pub fn operator(&self) -> Operator {
        Operator {
            inner: Arc::clone(&self.0),
            by: Arc::from("operator"),
            patience: PATIENCE,
        }
    }
}

impl Operator {
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
        let now = self.inner.clock.now();
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
        let workflow = self.workflow()?;
        let books = self.inner.books(workflow);
        let limit = limit.min(MOST);
        let mut found = Vec::new();
        let mut after = after.and_then(key_of);
        while found.len() < limit {
            let now = store::Time(books.now.0);
            let kind = instance::KIND;
            let keys = books.store.list(&kind, after.as_ref(), PAGE, now).await?;
            if keys.is_empty() {
                break;
            }
            for key in &keys {
                match look_up(&books, &self.inner.alarms, key).await {
                    Ok(Some(one)) => {
                        found.extend(Some(summary(key.id(), one).0).filter(&wanted));
                        if found.len() == limit {
                            break;
                        }
                    }
                    // It was forgotten meanwhile.
                    Ok(None) => {}
                    Err(KeepError::Store(error)) => return Err(error.into()),
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
        let workflow = self.workflow()?;
        let books = self.inner.books(workflow);
        let found = self.found(&books, id).await?;
        let is_stuck = found.glance.finished || found.glance.held.is_some();
        let is_ours = found.glance.is_ours && !is_stuck;
        let state = workflow.state_id(&found.glance.state);
        let bindings = state.filter(|_| is_ours).map(|at| workflow.bindings(at));
        let next = bindings.unwrap_or_default().iter();
        let next = next.map(|binding| binding.artifact().clone()).collect();
        let (summary, memory, visits) = summary(id, found);
        Ok(Details {
            summary,
            memory,
            visits,
            next,
        })
    }

    /// Up to `limit` entries (at most 1,000) of an instance's journal with numbers greater than
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
        after: u64,
        limit: usize,
    ) -> Result<Vec<Recorded>, OperatorError> {
        let workflow = self.workflow()?;
        let books = self.inner.books(workflow);
        let key = key_of(id).ok_or_else(|| OperatorError::NotFound(id.to_owned()))?;
        if let Some(live) = Instance::live(id, &self.inner.alarms) {
            let written = live.write_untold(&books).await;
            written.map_err(|error| self.kept(id, error))?;
        }
        let limit = limit.min(MOST);
        let journal = books.store.journal(&key, Seq(after), limit).await?;
        if journal.is_empty() && after == 0 {
            // Nobody has written about it yet, or it is not there.
            self.found(&books, id).await?;
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
        let to = self.workflow()?.state_id(state);
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
    /// it. `approval` is the [id](ApprovalRequest::id) of the question. The yes is for that call
    /// of the instance as it is, holds for as long as the question did, and is void once the
    /// instance has changed.
    ///
    /// ```no_run
    /// # async fn run(operator: interlock::Operator) -> Result<(), interlock::OperatorError> {
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

    fn workflow(&self) -> Result<&Workflow, OperatorError> {
        let workflow = self.inner.workflow.as_ref();
        workflow.ok_or(OperatorError::NoWorkflow)
    }

    /// What the store knows of an instance, or else the memory.
    async fn found(&self, books: &Books<'_>, id: &str) -> Result<Found, OperatorError> {
        let not_found = || OperatorError::NotFound(id.to_owned());
        let key = key_of(id).ok_or_else(not_found)?;
        let stored = look_up(books, &self.inner.alarms, &key).await;
        if let Some(found) = stored.map_err(|error| self.kept(id, error))? {
            return Ok(found);
        }
        let live = Instance::live(id, &self.inner.alarms);
        live.and_then(|live| live.look(books)).ok_or_else(not_found)
    }

    async fn decide(
        &self,
        id: &str,
        order: Order<'_>,
        reason: &str,
    ) -> Result<Summary, OperatorError> {
        let workflow = self.workflow()?;
        let key = key_of(id).ok_or_else(|| OperatorError::NotFound(id.to_owned()))?;
        let live = Instance::live(id, &self.inner.alarms);
        let is_live = live.is_some();
        let instance = match live {
            Some(live) => live,
            None => self.stored(&self.inner.books(workflow), &key).await?,
        };
        let until = self.inner.clock.now() + self.patience;
        let held = self.turn(&instance, until).await?;
        let decision = Decision {
            by: &self.by,
            reason,
        };
        for _ in 0..ATTEMPTS {
            self.refresh(&held, id, until).await?;
            if !held.exists(is_live) {
                break;
            }
            let books = self.inner.books(workflow);
            match held.obey(books, order, decision).await {
                Ok(()) => {
                    // It is done, and nothing that the store says now changes that.
                    let found = instance.look(&self.inner.books(workflow));
                    let found = found.ok_or_else(|| OperatorError::NotFound(id.to_owned()))?;
                    return Ok(summary(id, found).0);
                }
                Err(Disobeyed::Keep(error)) if error.is_conflict() => {}
                Err(error) => return Err(self.disobeyed(id, order, error)),
            }
        }
        if held.exists(is_live) {
            return Err(self.busy(id));
        }
        Err(OperatorError::NotFound(id.to_owned()))
    }

    /// An instance that nobody has in memory.
    async fn stored(&self, books: &Books<'_>, key: &Key) -> Result<Arc<Instance>, OperatorError> {
        let stored = books.store.load(key, store::Time(books.now.0)).await?;
        let stored = stored.ok_or_else(|| OperatorError::NotFound(key.id().to_owned()))?;
        let Inner {
            alarms,
            handle_idle,
            ..
        } = &*self.inner;
        let found = (key.id(), &stored);
        Ok(Instance::of_record(books, found, alarms, *handle_idle))
    }

    /// Waits for the turn as a call does, whatever the workflow says about those who come second.
    async fn turn(&self, instance: &Arc<Instance>, until: Time) -> Result<Held, OperatorError> {
        let turn = Arc::clone(instance).turn(Busy::Wait);
        let held = tokio::select! {
            biased;
            held = turn => held,
            () = clock::sleep_until(&*self.inner.clock, Some(until)) => None,
        };
        held.ok_or_else(|| self.busy(instance.id()))
    }

    /// Waits for a call that runs elsewhere, and sees how the instance stands then.
    async fn refresh(&self, held: &Held, id: &str, until: Time) -> Result<(), OperatorError> {
        let clock = &*self.inner.clock;
        loop {
            let books = self.inner.books(self.workflow()?);
            match held.refresh(books).await {
                Ok(()) => return Ok(()),
                Err(KeepError::RunningElsewhere) if clock.now() < until => {
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

    fn kept(&self, id: &str, error: KeepError) -> OperatorError {
        let id = id.to_owned();
        match error {
            KeepError::Store(error) => error.into(),
            KeepError::Foreign(workflow) => OperatorError::Foreign { id, workflow },
            KeepError::RunningElsewhere => self.busy(&id),
            error @ (KeepError::Format(_) | KeepError::Unreadable(_)) => {
                let why = error.to_string();
                OperatorError::Unreadable { id, why }
            }
        }
    }

    fn disobeyed(&self, id: &str, order: Order<'_>, error: Disobeyed) -> OperatorError {
        let id = id.to_owned();
        match (error, order) {
            (Disobeyed::Keep(error), _) => self.kept(&id, error),
            (Disobeyed::Finished, _) => OperatorError::Finished(id),
            (Disobeyed::Unsettled, Order::Settle(outcome)) => {
                OperatorError::Unsettled { id, outcome }
            }
            (Disobeyed::NotHeld | Disobeyed::Unsettled, _) => OperatorError::NotHeld(id),
            (Disobeyed::NotAsked, _) => OperatorError::NotAsked(id),
            (Disobeyed::Refused(refusal), _) => OperatorError::Decided { id, refusal },
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

fn summary(id: &str, found: Found) -> (Summary, Map<String, Value>, BTreeMap<String, u32>) {
    let Found { glance, version } = found;
    let summary = Summary {
        id: id.to_owned(),
        workflow: glance.workflow,
        foreign: !glance.is_ours,
        state: glance.state,
        finished: glance.finished,
        since: glance.since,
        due: glance.due,
        held: glance.held,
        running: glance.running.map(|running| RunningCall {
            number: running.call,
            artifact: Artifact::new(running.kind, &*running.name),
            until: running.until,
        }),
        approvals: glance.asked,
        calls: glance.calls,
        version: version.map(|version| version.0),
    };
    (summary, glance.memory, glance.visits)
}
