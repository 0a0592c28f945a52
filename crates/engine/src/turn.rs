//! The right to move an instance: one holder at a time, in the order in which they asked.

use crate::{
    approval_asking::Asked,
    commit::Change,
    committed::Committed,
    digest::shortened,
    effect_port::{Done, EffectsOfStep},
    error::EngineError,
    instance::Instance,
    journal::{Entry, Pending, What},
    lock,
    principal::Principal,
    record::{Running, Unclear},
    sampling::Asker,
};
use interlock_proto::Time;
use interlock_workflow::{
    Artifact, Binding, Busy, End, Instance as Run, Outcome, Pass, StateId, Step, Trace,
};
use serde_json::{Map, Value};
use std::{mem, sync::Arc};

/// How many steps an instance takes at once to catch up with time. Then others get a chance.
const MOST_STEPS: usize = 64;

/// How large the arguments may be that are kept of a call that an operator must decide about, in bytes
/// of JSON: as much as an instance may remember.
const MOST_HELD: usize = 64 * 1024;

/// The right to move an instance, until it is dropped.
#[derive(Debug)]
pub struct Turn {
    pub(crate) instance: Arc<Instance>,
    /// When the timers try again, if the instance could not be looked after.
    retry_at: Option<u64>,
}

impl Instance {
    /// The turn, if it is free.
    pub fn try_turn(self: &Arc<Self>) -> Option<Turn> {
        self.turn.try_acquire().ok()?.forget();
        Some(Turn::new(self))
    }

    /// Waits for the turn, or refuses to wait. `None`: another call holds the instance.
    pub async fn turn(self: &Arc<Self>, busy: Busy) -> Option<Turn> {
        if let Some(turn) = self.try_turn() {
            return Some(turn);
        }
        if busy == Busy::Refuse {
            let state = lock(&self.state);
            // A timer holds the turn only for a moment, so no call is refused for it. A record is
            // taken over under this lock, which is free again by now.
            if !state.occupancy.attended {
                return self.try_turn();
            }
        }
        let waiting = Waiting(self);
        let permit = self.turn.acquire().await;
        permit.expect("the semaphore is never closed").forget();
        mem::forget(waiting);
        Some(Turn::new(self))
    }

    /// The turn for a timer, unless a call has it.
    pub(crate) fn turn_to_attend(self: &Arc<Self>) -> Option<Turn> {
        // Under the lock: whoever finds the turn taken also finds out by whom.
        let mut state = lock(&self.state);
        if state.ended {
            return None;
        }
        self.turn.try_acquire().ok()?.forget();
        state.occupancy.attended = true;
        drop(state);
        Some(Turn::new(self))
    }
}

/// A caller that waits for its turn. A timer may have found the turn taken just when it was handed
/// to this caller, so a caller that leaves lets the timers look again.
struct Waiting<'a>(&'a Arc<Instance>);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.arm();
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut state = lock(&self.instance.state);
        state.occupancy.attended = false;
        self.instance.turn.add_permits(1);
        // After the turn is free, or the timers would find it taken and nobody would wake them.
        let alarm = match self.retry_at {
            Some(at) => Some(state.arm_at(at)),
            None => state.rearm(),
        };
        drop(state);
        if let Some(alarm) = alarm {
            self.instance.set_alarm(alarm);
        }
    }
}

impl Turn {
    fn new(instance: &Arc<Instance>) -> Self {
        Self {
            instance: Arc::clone(instance),
            retry_at: None,
        }
    }

    /// Gives the turn back of an instance that could not be looked after. The timers try again then.
    pub(crate) fn give_up(mut self, again: u64) {
        self.retry_at = Some(again);
    }

    /// The instance as it is, now that no other call of this process can move it.
    ///
    /// What is overdue happens first: the outcome of a call that was dropped while it ran is
    /// unknown, and a state whose time is up is left.
    ///
    /// # Errors
    ///
    /// If the store fails, or another process runs a call.
    pub async fn catch_up(&self) -> Result<Arc<Run>, EngineError> {
        match self.up_to_date(self.instance.shared.now()) {
            Some(run) => Ok(run),
            None => Box::pin(self.take_overdue_steps()).await,
        }
    }

    /// The instance as it is, if nothing is overdue.
    pub(crate) fn up_to_date(&self, now: Time) -> Option<Arc<Run>> {
        let state = lock(&self.instance.state);
        state.is_up_to_date(now).then(|| Arc::clone(state.run()))
    }

    async fn take_overdue_steps(&self) -> Result<Arc<Run>, EngineError> {
        let instance = &self.instance;
        for _ in 0..MOST_STEPS {
            let now = instance.shared.now();
            let (lost, elsewhere, run) = {
                let state = lock(&instance.state);
                if state.is_up_to_date(now) {
                    return Ok(Arc::clone(state.run()));
                }
                let occupancy = &state.occupancy;
                let (lost, elsewhere) = (occupancy.lost.clone(), occupancy.elsewhere.clone());
                (lost, elsewhere, Arc::clone(state.run()))
            };
            let committed = if let Some(elsewhere) = elsewhere {
                if now.0 < elsewhere.until {
                    instance.reload().await?;
                    if lock(&instance.state).occupancy.elsewhere.is_some() {
                        return Err(EngineError::RunningElsewhere);
                    }
                    continue;
                }
                self.commit_unknown(&run, &elsewhere).await
            } else if let Some(lost) = lost {
                self.commit_unknown(&run, &lost).await
            } else if let Some(step) = instance.workflow().expire(&run, now.0) {
                let timer = |trace| Entry::new(now.0, None, What::Timer { trace });
                self.commit_step(&run, step, timer, None).await.map(Some)
            } else {
                return Ok(run);
            };
            match committed {
                Ok(Some(committed)) => self.follow(committed).await,
                Ok(None) => {}
                Err(error) if error.is_conflict() => instance.reload().await?,
                Err(error) => return Err(error),
            }
        }
        Ok(instance.run())
    }

    /// Does what follows a step that no call took: tells every observer, and runs its effects.
    pub(crate) async fn follow(&self, committed: Committed) {
        let (before, after) = (committed.before, committed.after);
        self.instance.tell_all(before, after);
        if let Some(effects) = committed.effects
            && let Some(diverted) = self.perform(*effects).await
        {
            self.instance.tell_all(diverted.before, diverted.after);
        }
    }

    /// Commits that the outcome of a call is unknown.
    async fn commit_unknown(
        &self,
        run: &Arc<Run>,
        lost: &Running,
    ) -> Result<Option<Committed>, EngineError> {
        if lost.question.is_some() {
            return self.unanswered(run, lost).await;
        }
        let workflow = self.instance.workflow();
        match workflow.admit(run.position(), lost.kind, &lost.name) {
            Ok(Pass::Bound(binding)) => {
                let end = (binding, Outcome::Unknown, None);
                self.commit_call_end(run, lost, end, None).await.map(Some)
            }
            // It could not have moved anything.
            Ok(Pass::Always) | Err(_) => {
                self.clear(run, None).await?;
                Ok(None)
            }
        }
    }

    /// Commits that no call runs any more, with what the journal says about that.
    pub(crate) async fn clear(
        &self,
        run: &Arc<Run>,
        entry: Option<Pending>,
    ) -> Result<(), EngineError> {
        let change = Change {
            entry,
            ..Change::none(run)
        };
        self.instance.commit(change).await
    }

    /// Stores an instance that has no record yet.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub async fn begin(&self) -> Result<(), EngineError> {
        let run = {
            let state = lock(&self.instance.state);
            if state.stored.version.is_some() {
                return Ok(());
            }
            Arc::clone(state.run())
        };
        match self.instance.commit(Change::none(&run)).await {
            Err(error) if error.is_conflict() => self.instance.reload().await,
            done @ (Ok(()) | Err(_)) => done,
        }
    }

    /// Commits a step of the instance as it is. With an asker, the step may lead to a question to
    /// the client's model; that somebody is being asked is part of the same commit.
    pub(crate) async fn commit_step(
        &self,
        run: &Arc<Run>,
        step: Step<'_>,
        entry: impl FnOnce(Trace) -> Entry + Send,
        asker: Option<(Asker<'_>, &Running)>,
    ) -> Result<Committed, EngineError> {
        let step = self.as_leased(step);
        let entry = entry(step.trace(self.instance.workflow()));
        let call = entry.call;
        let entry = (entry.into(), call);
        self.commit_entry(run, &step, entry, asker).await
    }

    async fn commit_entry(
        &self,
        run: &Arc<Run>,
        step: &Step<'_>,
        (entry, call): (Pending, Option<u64>),
        asker: Option<(Asker<'_>, &Running)>,
    ) -> Result<Committed, EngineError> {
        let instance = &self.instance;
        let (mut committed, after) = self.outcome_of(run, step, entry.at(), call);
        let asks = asker.filter(|_| step.asks);
        let asks = asks.map(|(asker, of)| Arc::new(asker.question(instance, of, step.effects)));
        let change = Change {
            known: run,
            run: after,
            enters: step.enters,
            running: asks.clone(),
            entry: Some(entry),
            asked: Asked::Void,
        };
        instance.commit(change).await?;
        committed.asks = asks;
        Ok(committed)
    }

    /// An instance behind a handle never begins again.
    fn as_leased<'w>(&self, step: Step<'w>) -> Step<'w> {
        match self.instance.lease {
            Some(_) => step.finishing(),
            None => step,
        }
    }

    /// What a step does to the instance once it is committed, and the instance after it.
    fn outcome_of(
        &self,
        run: &Run,
        step: &Step<'_>,
        now: u64,
        call: Option<u64>,
    ) -> (Committed, Arc<Run>) {
        let workflow = self.instance.workflow();
        let mut after = run.clone();
        after.apply(workflow, step, now);
        let after = Arc::new(after);
        let leaves = step.enters || step.terminal;
        let anew = step.enters && step.after.state != step.to;
        let entered = [leaves.then_some(step.to), anew.then_some(step.after.state)];
        let tells = |state: StateId| workflow.state(state).instructions().is_some();
        let has_effects = self.instance.shared.effects.is_some() && !step.effects.is_empty();
        let committed = Committed {
            before: run.position(),
            after: after.position(),
            run: (entered.into_iter().flatten().any(tells)).then(|| Arc::clone(&after)),
            entered,
            memory: (anew && tells(step.to)).then(|| Box::new(remembered(run, step))),
            effects: has_effects.then(|| {
                Box::new(EffectsOfStep {
                    names: step.effects.to_vec(),
                    done: Done {
                        instance: Arc::clone(self.instance.id()),
                        from: workflow.state_name(step.from).to_owned(),
                        to: workflow.state_name(step.to).to_owned(),
                        ended: step.terminal,
                        call: None,
                        outcome: None,
                        args: Value::Null,
                        result: None,
                        memory: remembered(run, step),
                        principal: Principal::anonymous(),
                    },
                    call,
                })
            }),
            asks: None,
        };
        (committed, after)
    }

    /// Commits a run that no step leads to, such as the beginning.
    pub(crate) async fn commit_run(
        &self,
        run: &Arc<Run>,
        (after, enters): (Run, bool),
        entry: Entry,
    ) -> Result<Committed, EngineError> {
        let at = after.position();
        let change = Change {
            run: Arc::new(after),
            enters,
            entry: Some(entry.into()),
            asked: Asked::Void,
            ..Change::none(run)
        };
        self.instance.commit(change).await?;
        Ok(Committed::plain(run.position(), at))
    }

    /// Commits the step that the end of a call leads to.
    pub(crate) async fn commit_call_end(
        &self,
        run: &Arc<Run>,
        running: &Running,
        (binding, outcome, result): (&Binding, Outcome, Option<&Value>),
        asker: Option<Asker<'_>>,
    ) -> Result<Committed, EngineError> {
        let instance = &self.instance;
        let workflow = instance.workflow();
        let input = running.input();
        let end = End {
            outcome,
            result,
            args: &input.args,
            principal: &input.principal,
        };
        if outcome == Outcome::Unknown
            && let Some(unclear) = Unclear::of(binding)
        {
            lock(&instance.state).known.set_unclear(Some(unclear));
        }
        let mut step = self.as_leased(workflow.step(run, binding, &end));
        if let Some(held) = &mut step.held
            && let Some(shortened) = shortened(&held.args, MOST_HELD)
        {
            held.args = Value::Null;
            held.shortened = Some(shortened);
        }
        let entry = Pending::of_call(workflow, (running, outcome), &step, instance.shared.now().0);
        let entry = (entry, Some(running.call));
        let asker = asker.map(|asker| (asker, running));
        let mut committed = self.commit_entry(run, &step, entry, asker).await?;
        if let Some(effects) = &mut committed.effects {
            let artifact = Artifact::new(running.kind, &*running.name);
            let done = &mut effects.done;
            done.of_call(artifact, outcome, &input.args, &input.principal);
        }
        Ok(committed)
    }
}

/// What an instance remembers before it begins again.
fn remembered(run: &Run, step: &Step<'_>) -> Map<String, Value> {
    let mut memory = run.memory().clone();
    for (key, value) in &step.set {
        match value {
            Some(value) => memory.insert((*key).to_owned(), value.clone()),
            None => memory.shift_remove(*key),
        };
    }
    memory
}

#[cfg(test)]
mod tests;
