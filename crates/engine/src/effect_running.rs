//! The effects of a step, run by the holder of the turn in which it was taken.

use crate::{
    committed::Committed,
    effect_port::EffectsOfStep,
    error::EngineError,
    journal::{Entry, What},
    lock,
    turn::Turn,
};
use interlock_workflow::{StateId, Trace};

/// How often a step is tried if another process writes in between.
const ATTEMPTS: usize = 16;

impl Turn {
    /// Runs effects in order. The step that a failure leads to, if one does.
    pub(crate) async fn perform(&self, step: EffectsOfStep) -> Option<Committed> {
        let instance = &self.instance;
        let effects = instance.shared.effects.as_deref()?;
        for name in &step.names {
            let observers = lock(&instance.observers).clone();
            let failed = effects.run(name, &step.done, observers).await.err();
            if let Some(why) = &failed {
                let instance = &**instance.id();
                tracing::warn!(effect = name, instance, why, "an effect has failed");
            }
            let state = failed.as_ref().and_then(|_| effects.on_failure(name));
            let state = state.and_then(|state| instance.workflow().state_id(state));
            let what = What::Effect {
                name: name.clone(),
                failed,
            };
            let entry = Entry::new(instance.shared.now().0, step.call, what);
            if let Err(error) = instance.note(entry).await {
                complain(&error, name, "could not journal the run of an effect");
            }
            if let Some(state) = state {
                let why = "could not commit the step to the effect's failure state";
                let diverted = self.divert(state, name).await;
                return diverted
                    .inspect_err(|error| complain(error, name, why))
                    .ok();
            }
        }
        None
    }

    /// Commits the step to the state that a failed effect leads to.
    async fn divert(&self, state: StateId, effect: &str) -> Result<Committed, EngineError> {
        let instance = &self.instance;
        let mut attempts = 0;
        loop {
            if lock(&instance.state).occupancy.elsewhere.is_some() {
                return Err(EngineError::RunningElsewhere);
            }
            let run = instance.run();
            let now = instance.shared.now().0;
            let what = |trace: Trace| {
                let effect = effect.to_owned();
                Entry::new(now, None, What::Diverted { effect, trace })
            };
            attempts += 1;
            let step = instance.workflow().put(&run, state);
            match self.commit_step(&run, step, what, None).await {
                Err(error) if error.is_conflict() && attempts < ATTEMPTS => {
                    instance.reload().await?;
                }
                taken @ (Ok(_) | Err(_)) => return taken,
            }
        }
    }
}

fn complain(error: &EngineError, effect: &str, why: &str) {
    let error = error as &dyn std::error::Error;
    tracing::error!(error, effect, "{why}");
}
