//! A call that has an instance to itself, and how it ends.

use crate::{
    approval_asking::{Agreed, Asked},
    approval_rules::{Consent, Means, Why},
    commit::Change,
    committed::Committed,
    effect_port::EffectsOfStep,
    error::EngineError,
    instance::{CallFacts, Instance},
    journal::{Entry, Pending, What},
    lock,
    record::Running,
    sampling::Asker,
    turn::Turn,
};
use interlock_proto::{Refusal, Time, refusal::shortened};
use interlock_workflow::{
    Binding, BindingId, EdgeId, Instance as Run, Outcome, Pass, Position, Refused,
};
use serde_json::Value;
use std::{sync::Arc, time::Duration};

/// How often a call is judged anew because another process wrote in between.
const ATTEMPTS: usize = 16;

/// What came of an attempt to reserve an instance for a call.
#[derive(Debug)]
pub enum Reserved {
    /// The call has the instance to itself until it commits.
    Exclusive(Reservation),
    /// The call cannot move the instance, and runs beside others: by this binding, or by none if it
    /// is always callable.
    Beside(Option<BindingId>),
    /// A person must agree first. The turn is given back; ask, and reserve again with the answer.
    Ask(ApprovalQuestion),
}

/// A question that a client is to be asked before its call may run.
#[derive(Clone, Debug)]
pub struct ApprovalQuestion {
    /// What the person is asked.
    pub text: String,
    /// The edition of the instance that the answer holds for.
    pub edition: u64,
    /// How long the question, and its answer, hold.
    pub expires: Duration,
    /// How the person is asked.
    pub means: Means,
}

/// Why an instance was not reserved for a call.
#[derive(Debug, thiserror::Error)]
pub enum ReserveError<'w> {
    /// The workflow does not allow the call now.
    #[error("{0}")]
    Refused(Refused<'w>),
    /// Another call holds the instance, and the workflow says not to wait.
    #[error("another call holds the instance")]
    Busy,
    /// An operator has to agree. The call is to be repeated then.
    #[error("an operator must approve this call first: {question}")]
    ApprovalPending {
        /// Where the instance stands.
        at: Position,
        /// What the operator is asked.
        question: String,
        /// The id of the question.
        id: String,
        /// The journal says so already.
        journalled: bool,
    },
    /// Nobody agreed.
    #[error("the call was not approved: {}", .why.words())]
    ApprovalDenied {
        /// Where the instance stands.
        at: Position,
        /// Why not.
        why: Why,
        /// The journal says so already.
        journalled: bool,
    },
    /// Too many calls wait for an operator already.
    #[error("{}", .0.message())]
    TooManyApprovals(Refusal),
    /// The instance could not be loaded or changed.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl ReserveError<'_> {
    pub(crate) fn pending(run: &Run, question: String, id: String, journalled: bool) -> Self {
        Self::ApprovalPending {
            at: run.position(),
            question,
            id,
            journalled,
        }
    }

    pub(crate) fn denied(run: &Run, why: Why, journalled: bool) -> Self {
        Self::ApprovalDenied {
            at: run.position(),
            why,
            journalled,
        }
    }
}

/// A call that has an instance to itself. Dropped without a commit, its outcome is unknown.
///
/// ```
/// use interlock_engine::{CallFacts, Engine, Principal, Reserved};
/// use interlock_workflow::{Kind, Outcome, Workflow, end};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let flow = Workflow::builder("shop")
///     .state("due", |s| s.initial().tool("pay", |t| t.success(end("due"))))
///     .build()?;
/// let engine = Engine::builder(flow).build();
/// let instance = engine.connect(&Principal::anonymous())?.expect("a session has an instance");
///
/// let pay = CallFacts::new(Kind::Tool, "pay");
/// if let Ok(Reserved::Exclusive(mut reservation)) = instance.reserve(&pay).await {
///     assert!(instance.try_turn().is_none(), "others wait");
///     reservation.commit(Outcome::Success, None).await?;
/// }
/// assert!(instance.try_turn().is_some());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Reservation {
    pub(crate) turn: Turn,
    /// Taken by the commit, unless that leads to a question to the client's model.
    pub(crate) running: Option<Arc<Running>>,
    binding: Option<BindingId>,
    /// The question waits for a client that comes back; dropped, it stays open and is not lost.
    pub(crate) waits_for_client: bool,
}

impl Instance {
    /// Waits for the turn and reserves the instance for a call that needs nobody's yes, or has an
    /// operator's.
    ///
    /// # Errors
    ///
    /// Why it was not reserved.
    pub async fn reserve<'w>(
        self: &'w Arc<Self>,
        call: &CallFacts<'_>,
    ) -> Result<Reserved, ReserveError<'w>> {
        let turn = self.turn(self.workflow().settings().busy).await;
        let turn = turn.ok_or(ReserveError::Busy)?;
        self.reserve_in_turn(turn, call, &|| (None, Means::Operator))
            .await
    }

    /// Reserves the instance for a call that has the turn: it is judged on the state that is found
    /// now, a person's yes is checked, and it is committed that the call runs. `consent` is asked only
    /// for a binding that needs approval: what the client has brought, and how a person can be asked.
    ///
    /// # Errors
    ///
    /// Why it was not reserved.
    pub async fn reserve_in_turn<'w>(
        self: &'w Arc<Self>,
        mut turn: Turn,
        call: &CallFacts<'_>,
        consent: &(dyn Fn() -> (Option<Consent>, Means) + Sync),
    ) -> Result<Reserved, ReserveError<'w>> {
        let workflow = self.workflow();
        // Until something has to be waited for.
        let mut now = call.now;
        for _ in 0..ATTEMPTS {
            let run = match now.and_then(|now| turn.up_to_date(now)) {
                Some(run) => run,
                None => {
                    now = None;
                    turn.catch_up().await?
                }
            };
            let binding = match call.judge(workflow, &run).map_err(ReserveError::Refused)? {
                Pass::Always => return Ok(Reserved::Beside(None)),
                Pass::Bound(binding) if !binding.moves() => {
                    return Ok(Reserved::Beside(Some(binding.id())));
                }
                Pass::Bound(binding) => binding,
            };
            let approved = match binding.needs_approval() {
                false => None,
                true => {
                    now = None;
                    match Box::pin(turn.agreed(call, consent(), (&run, binding))).await? {
                        Agreed::Yes(approved) => approved,
                        Agreed::Ask(question) => return Ok(Reserved::Ask(question)),
                        Agreed::Stale => continue,
                    }
                }
            };
            let at = now.take().unwrap_or_else(|| self.shared.now());
            match turn.mark(&run, binding, (call, at), approved).await? {
                Ok(reservation) => return Ok(Reserved::Exclusive(reservation)),
                Err(again) => turn = again,
            }
        }
        Err(ReserveError::Busy)
    }

    /// Journals that a person did not agree to a call.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub async fn note_denied(
        self: &Arc<Self>,
        call: &CallFacts<'_>,
        why: Why,
    ) -> Result<(), EngineError> {
        let what = What::Denied {
            kind: call.kind,
            name: call.name.to_owned(),
            approval: None,
            why: why.words().to_owned(),
        };
        let now = self.shared.now().0;
        self.note(Entry::new(now, None, what)).await
    }

    /// The edition of the instance: another number after each change.
    pub fn edition(&self) -> u64 {
        lock(&self.state).edition
    }
}

impl Turn {
    /// Commits "running call N" on the instance that the call was judged on, and that a person agreed
    /// to it if one did. The turn comes back if the instance is another one by now.
    async fn mark(
        self,
        run: &Arc<Run>,
        binding: &Binding,
        (call, now): (&CallFacts<'_>, Time),
        approved: Option<Box<What>>,
    ) -> Result<Result<Reservation, Self>, EngineError> {
        let instance = &self.instance;
        let number = lock(&instance.state).calls.saturating_add(1);
        let time = binding.deadline().unwrap_or(call.time);
        let until = now + time.saturating_add(call.grace);
        let running = Arc::new(Running {
            call: number,
            kind: binding.artifact().kind,
            name: binding.shared_name(),
            until: until.0,
            node: instance.shared.node,
            input: call.input.cloned(),
            question: None,
        });
        let approved = approved.map(|what| Entry::new(now.0, Some(number), *what).into());
        let change = Change {
            running: Some(Arc::clone(&running)),
            entry: approved,
            asked: Asked::Void,
            ..Change::none(run)
        };
        match instance.commit(change).await {
            Ok(()) => Ok(Ok(Reservation {
                turn: self,
                running: Some(running),
                binding: Some(binding.id()),
                waits_for_client: false,
            })),
            Err(error) if error.is_conflict() => {
                Box::pin(instance.reload()).await?;
                Ok(Err(self))
            }
            Err(error) => Err(error),
        }
    }
}

impl Reservation {
    /// Takes up a question again whose client has come back with the answer.
    pub(crate) const fn resumed(turn: Turn, running: Arc<Running>) -> Self {
        Self {
            turn,
            running: Some(running),
            binding: None,
            waits_for_client: true,
        }
    }

    /// The instance that it is for.
    pub const fn instance(&self) -> &Arc<Instance> {
        &self.turn.instance
    }

    /// The binding by which the call runs; none if a client has come back with an answer.
    pub fn binding(&self) -> Option<&Binding> {
        let workflow = self.instance().workflow();
        self.binding.map(|binding| workflow.binding(binding))
    }

    /// Whether the step depends on the result of the call.
    pub fn reads_result(&self) -> bool {
        self.binding().is_some_and(Binding::reads_result)
    }

    /// Commits the step that this outcome leads to, with its journal entry. The instance stays
    /// reserved until this is dropped, so that effects run before the next call.
    ///
    /// # Errors
    ///
    /// If the store fails. Then the outcome of the call is unknown.
    pub async fn commit(
        &mut self,
        outcome: Outcome,
        result: Option<&Value>,
    ) -> Result<Committed, EngineError> {
        self.commit_asking(outcome, result, None).await
    }

    /// As [`commit`](Self::commit), by a call whose client can be asked what a state asks.
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn commit_asking(
        &mut self,
        outcome: Outcome,
        result: Option<&Value>,
        asker: Option<Asker<'_>>,
    ) -> Result<Committed, EngineError> {
        let instance = Arc::clone(self.instance());
        let workflow = instance.workflow();
        // Cloned, not taken: if this future is dropped before the store answers, `Drop` must still find
        // `running` and mark the outcome unknown.
        let running = self.running.clone();
        let running = running.filter(|_| !self.waits_for_client);
        let Some((running, binding)) = running.zip(self.binding) else {
            let at = instance.position();
            return Ok(Committed::plain(at, at));
        };
        let binding = workflow.binding(binding);
        if let Some(edge) = binding.plain(outcome)
            && let Some(committed) = instance.commit_plain(binding, edge, running.call)
        {
            self.running = None;
            return Ok(committed);
        }
        let run = instance.run();
        // Another process may have moved it, if this one was taken for dead.
        let binding = match workflow.admit(run.position(), running.kind, &running.name) {
            Ok(Pass::Bound(binding)) => binding,
            Ok(Pass::Always) | Err(_) => {
                self.running = None;
                let at = run.position();
                return Ok(Committed::plain(at, at));
            }
        };
        let end = (binding, outcome, result);
        let ending = Box::pin(self.turn.commit_call_end(&run, &running, end, asker));
        let mut committed = ending.await?;
        self.running = committed.asks.take();
        Ok(committed)
    }

    /// Runs the effects of a step. The step that a failure leads to, if one does; then nobody is
    /// asked what the state asks that was left by it.
    pub async fn perform(&mut self, effects: EffectsOfStep) -> Option<Committed> {
        let diverted = self.turn.perform(effects).await;
        if diverted.is_some() {
            self.running = None;
        }
        diverted
    }

    /// Gives the instance back. The call never began, or its handler has paused.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub async fn release(mut self, has_paused: bool) -> Result<(), EngineError> {
        if self.waits_for_client {
            // Its client may come back another time.
            return Ok(());
        }
        let Some(running) = self.running.take() else {
            return Ok(());
        };
        let instance = self.instance();
        let paused = has_paused.then(|| What::Paused {
            kind: running.kind,
            name: shortened(&running.name),
        });
        let now = instance.shared.now().0;
        let entry = paused.map(|what| Entry::new(now, Some(running.call), what).into());
        let run = instance.run();
        // If this fails the record says "running" until the next call overwrites it. The call did
        // nothing, so its outcome is not unknown.
        self.turn.clear(&run, entry).await
    }
}

impl Instance {
    /// Commits a step that follows from its edge alone, if this needs no store: nothing is worked
    /// out, and the run changes in place.
    fn commit_plain(&self, binding: &Binding, edge: EdgeId, call: u64) -> Option<Committed> {
        let now = self.shared.now().0;
        let mut state = lock(&self.state);
        let most = self.memory_limit(&state)?;
        let before = state.run().position();
        if !binding.is_at(before) {
            return None;
        }
        let at = state.journal.at(now);
        state.journal.push(Pending::Usual { at, call, edge }, most);
        (state.edition, state.asked) = state.after(&Asked::Void);
        state.occupancy.running = None;
        state.stored.miss();
        let workflow = self.workflow();
        let after = state
            .known
            .change_run(|run| run.go_along(workflow, edge, at));
        Some(Committed::plain(before, after))
    }
}

impl Drop for Reservation {
    /// The outcome of a call that did not commit is unknown, unless another process has committed
    /// it since. A question whose client comes back stays open.
    fn drop(&mut self) {
        let Some(running) = self.running.take() else {
            return;
        };
        let mut state = lock(&self.turn.instance.state);
        let occupancy = &mut state.occupancy;
        let is_ours = |at: &Arc<Running>| Arc::ptr_eq(at, &running);
        if occupancy.running.as_ref().is_some_and(is_ours) {
            occupancy.running = None;
            match self.waits_for_client {
                true => occupancy.elsewhere = Some(running),
                false => occupancy.lost = Some(running),
            }
        }
    }
}

#[cfg(test)]
mod tests;
