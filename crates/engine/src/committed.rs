//! What a committed step did, for those who tell others of it.

use crate::{effect_port::EffectsOfStep, principal::Principal, record::Running};
use interlock_workflow::{Facts, Instance as Run, Position, StateId, Workflow};
use serde_json::{Map, Value};
use std::sync::Arc;

/// What a step did.
#[derive(Clone, Debug)]
pub struct Committed {
    /// Where the instance stood.
    pub before: Position,
    /// Where it stands.
    pub after: Position,
    /// The effects of the step. [`Reservation::perform`](crate::Reservation::perform) runs them.
    pub effects: Option<Box<EffectsOfStep>>,
    /// The instance after it, if a state that it came to tells the model something.
    pub(crate) run: Option<Arc<Run>>,
    /// The states that it came to: where the edge leads, and where it began again after an end.
    pub(crate) entered: [Option<StateId>; 2],
    /// What it remembered when it ended, if it has begun again and its texts read that.
    pub(crate) memory: Option<Box<Map<String, Value>>>,
    /// The question that it leads to.
    pub(crate) asks: Option<Arc<Running>>,
}

impl Committed {
    /// A step that nothing follows.
    pub(crate) const fn plain(before: Position, after: Position) -> Self {
        Self {
            before,
            after,
            effects: None,
            run: None,
            entered: [None; 2],
            memory: None,
            asks: None,
        }
    }

    /// What the states that it came to tell the model.
    pub fn instructions(&self, workflow: &Workflow, principal: &Principal) -> Vec<String> {
        let Some(run) = &self.run else {
            return Vec::new();
        };
        let entered = self.entered.iter().flatten();
        let texts = entered.filter_map(|state| {
            let text = workflow.state(*state).instructions()?;
            let is_left = *state != self.after.state;
            let memory = self.memory.as_deref().filter(|_| is_left);
            Some(text.fill(&Facts {
                args: &Value::Null,
                result: None,
                ctx: memory.unwrap_or_else(|| run.memory()),
                principal: &principal.facts(),
                state: workflow.state_name(*state),
                visits: run.visits(*state).max(1),
            }))
        });
        texts.collect()
    }
}
