//! What operators do to an instance, and how they see it.

use crate::{
    committed::Committed,
    engine::Shared,
    error::EngineError,
    instance::{Instance, KIND},
    journal::{Entry, What},
    lock,
    operator::OperatorError,
    record::Written,
    turn::Turn,
};
use interlock_store::{Key, Version};
use interlock_workflow::{Artifact, Instance as Run, Outcome, StateId, Trace};
use std::sync::Arc;

/// What an operator decides.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Order<'a> {
    /// It begins anew.
    Reset,
    /// It comes to this state.
    Move(StateId),
    /// It ends where it is.
    Abort,
    /// The call of which nobody knew what it did has ended so.
    Settle(Outcome),
    /// Whether the call that this question is about may run.
    Answer(&'a str, bool),
}

/// Who decides, and why.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decision<'a> {
    pub(crate) by: &'a str,
    pub(crate) reason: &'a str,
}

impl Decision<'_> {
    pub(crate) fn entry(&self, now: u64, what: What) -> Entry {
        Entry {
            by: Some(self.by.to_owned()),
            reason: Some(self.reason.to_owned()),
            ..Entry::new(now, None, what)
        }
    }
}

/// Why an order was not obeyed.
#[derive(Debug)]
pub(crate) enum OrderError {
    /// It may be obeyed another time.
    Engine(EngineError),
    Refused(OperatorError),
}

impl From<EngineError> for OrderError {
    fn from(error: EngineError) -> Self {
        Self::Engine(error)
    }
}

/// What the store, or else the memory, knows of an instance, be it of another definition.
pub(crate) struct Glance {
    pub(crate) written: Written,
    /// The instance, if it is of the definition that is served here.
    pub(crate) run: Option<Arc<Run>>,
    /// None if it is not written down yet.
    pub(crate) version: Option<Version>,
}

/// The key of an id that somebody says; nothing if it can be none.
pub(crate) fn key_of(id: &str) -> Option<Key> {
    Key::new(KIND, id).ok()
}

impl Shared {
    /// What the store knows under this key.
    pub(crate) async fn look_up(&self, key: &Key) -> Result<Option<Glance>, EngineError> {
        if let Some(live) = self.registry.get(key.id()) {
            live.write_record().await?;
        }
        let Some(record) = self.store.load(key, self.store_time()).await? else {
            return Ok(None);
        };
        let written = Written::read(&record)?;
        Ok(Some(Glance {
            run: written.run(&self.workflow).ok().map(Arc::new),
            written,
            version: Some(record.version),
        }))
    }
}

impl Instance {
    /// What is known of it here.
    pub(crate) fn look(&self) -> Option<Glance> {
        let state = lock(&self.state);
        (!state.ended).then(|| Glance {
            written: self.known(&state),
            run: Some(Arc::clone(state.run())),
            version: state.stored.version,
        })
    }
}

impl Turn {
    /// Whether there is such an instance: it is written down, or in memory and not over.
    pub(crate) fn exists(&self, is_live: bool) -> bool {
        let state = lock(&self.instance.state);
        !state.ended && (is_live || state.stored.version.is_some())
    }

    /// Looks how the store knows the instance, and lets it catch up.
    pub(crate) async fn refresh(&self) -> Result<(), EngineError> {
        // What was lost here, the store takes for something that runs elsewhere.
        let is_lost = lock(&self.instance.state).occupancy.lost.is_some();
        if !is_lost {
            self.instance.reload().await?;
        }
        self.catch_up().await.map(|_| ())
    }

    /// Does what an operator has decided, on the instance as it is.
    pub(crate) async fn obey(
        &self,
        order: Order<'_>,
        decision: Decision<'_>,
    ) -> Result<(), OrderError> {
        if let Some(moved) = self.decided(order, decision).await? {
            self.follow(moved).await;
        }
        Ok(())
    }

    /// As if it had just been made: it has nothing to warn of, either.
    async fn reset(&self, run: &Arc<Run>, entry: Entry) -> Result<Committed, EngineError> {
        let unclear = lock(&self.instance.state).known.set_unclear(None);
        let anew = (self.instance.workflow().start(entry.at), true);
        let put = self.commit_run(run, anew, entry).await;
        if put.is_err() {
            lock(&self.instance.state).known.set_unclear(unclear);
        }
        put
    }

    async fn decided(
        &self,
        order: Order<'_>,
        decision: Decision<'_>,
    ) -> Result<Option<Committed>, OrderError> {
        let instance = &self.instance;
        let (workflow, now) = (instance.workflow(), instance.shared.now().0);
        let run = instance.run();
        let id = || instance.id().to_string();
        let moved = match order {
            Order::Reset => {
                let entry = decision.entry(now, What::Reset);
                self.reset(&run, entry).await?
            }
            Order::Move(to) => {
                let step = workflow.put(&run, to);
                let entry = |trace| decision.entry(now, What::Moved { trace });
                self.commit_step(&run, step, entry, None).await?
            }
            Order::Abort => {
                if run.position().finished {
                    return Err(OrderError::Refused(OperatorError::Finished(id())));
                }
                let trace = Trace::abort(workflow.state_name(run.position().state));
                let mut after = run.as_ref().clone();
                let known = after.retrace(workflow, &trace, now);
                known.map_err(|_| EngineError::Foreign(workflow.name().to_owned()))?;
                let entry = decision.entry(now, What::Aborted { trace });
                self.commit_run(&run, (after, false), entry).await?
            }
            Order::Settle(outcome) => {
                let not_held = || OrderError::Refused(OperatorError::NotHeld(id()));
                let held = run.held().ok_or_else(not_held)?;
                let step = workflow.settle(&run, outcome, None);
                let unsettled = || OperatorError::Unsettled { id: id(), outcome };
                let step = step.ok_or_else(|| OrderError::Refused(unsettled()))?;
                let entry = |trace| decision.entry(now, What::Settled { outcome, trace });
                let mut moved = self.commit_step(&run, step, entry, None).await?;
                if let Some(effects) = &mut moved.effects {
                    let artifact = Artifact::clone(&held.artifact);
                    let done = &mut effects.done;
                    done.of_call(artifact, outcome, &held.args, &held.principal);
                }
                moved
            }
            Order::Answer(id, yes) => {
                self.answer((id, yes), decision).await?;
                return Ok(None);
            }
        };
        Ok(Some(moved))
    }
}
