//! One run through a workflow: where it stands, what it remembers, and until when.

use crate::{Artifact, Cause, Position, StateId, Step, Workflow};
use serde_json::{Map, Value};
use std::{collections::HashMap, time::Duration};

/// How much an instance may remember, in bytes of JSON or so. A value that would exceed it is not
/// remembered.
pub(crate) const MOST_MEMORY: usize = 64 * 1024;

/// One run through a workflow: everything that decides what may happen next.
///
/// It is plain data and changes only by [`apply`](Self::apply). Times are milliseconds since the
/// epoch.
#[derive(Clone, Debug, PartialEq)]
pub struct Instance {
    position: Position,
    memory: Map<String, Value>,
    visits: HashMap<StateId, u32>,
    due: Option<u64>,
    held: Option<Held>,
}

/// A call of which nobody knows what it did.
#[derive(Clone, Debug, PartialEq)]
pub struct Held {
    /// What was called.
    pub artifact: Artifact,
    /// What it was called with.
    pub args: Value,
}

impl Workflow {
    /// A new instance.
    ///
    /// ```
    /// use interlock_workflow::{Workflow, end};
    /// use std::time::Duration;
    ///
    /// let flow = Workflow::builder("offer")
    ///     .state("open", |s| {
    ///         s.initial()
    ///             .tool("accept", |t| t.success(end("accepted")))
    ///             .after(Duration::from_secs(60), end("lapsed"))
    ///     })
    ///     .build()?;
    /// let instance = flow.start(1_000);
    /// assert_eq!(instance.due(), Some(61_000));
    /// assert!(flow.expire(&instance, 60_999).is_none());
    /// assert!(flow.expire(&instance, 61_000).is_some());
    /// # Ok::<(), interlock_workflow::Invalid>(())
    /// ```
    pub fn start(&self, now: u64) -> Instance {
        let mut instance = Instance::from(self.initial());
        instance.visits.clear();
        instance.enter(self, now);
        instance
    }
}

/// An instance of which nothing is known but where it stands: it came there once, remembers
/// nothing, and no time is running.
impl From<Position> for Instance {
    fn from(position: Position) -> Self {
        Self {
            position,
            memory: Map::new(),
            visits: HashMap::from([(position.state, 1)]),
            due: None,
            held: None,
        }
    }
}

impl Instance {
    /// Where it stands.
    pub fn position(&self) -> Position {
        self.position
    }

    /// What it remembers: `ctx` in guards.
    pub fn memory(&self) -> &Map<String, Value> {
        &self.memory
    }

    /// How often it has come to a state since it began.
    pub fn visits(&self, state: StateId) -> u32 {
        self.visits.get(&state).copied().unwrap_or_default()
    }

    /// When its time in this state is up, if it has any.
    pub fn due(&self) -> Option<u64> {
        self.due
    }

    /// The call that an operator must decide about.
    pub fn held(&self) -> Option<&Held> {
        self.held.as_ref()
    }

    /// What it remembers, in bytes of JSON or so.
    pub(crate) fn memory_size(&self) -> usize {
        let memory = self.memory.iter();
        memory.map(|(key, value)| weight(key, value)).sum()
    }

    /// Takes a step. The step must be one of this instance as it is.
    pub fn apply(&mut self, workflow: &Workflow, step: &Step<'_>, now: u64) {
        self.held.clone_from(&step.held);
        for (key, value) in &step.set {
            self.memory.insert((*key).to_owned(), value.clone());
        }
        let by_time = |edge| matches!(workflow.edge(edge).cause, Cause::Time { .. });
        if step.taken.is_some_and(by_time) {
            // A timer fires once, even if it leads nowhere.
            self.due = None;
        }
        if self.position == step.after && !step.enters {
            return;
        }
        self.position = step.after;
        self.due = None;
        if step.terminal && !step.after.finished {
            let keep = &workflow.settings().keep;
            self.memory.retain(|key, _| keep.contains(key));
            self.visits.clear();
        }
        if step.enters {
            self.enter(workflow, now);
        }
    }

    fn enter(&mut self, workflow: &Workflow, now: u64) {
        let state = self.position.state;
        let visits = self.visits.entry(state).or_default();
        *visits = visits.saturating_add(1);
        let soonest = workflow.state(state).timers.first();
        self.due = soonest.map(|timer| now.saturating_add(milliseconds(timer.after)));
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// What it costs to remember a value: about its length in JSON.
pub(crate) fn weight(key: &str, value: &Value) -> usize {
    const EACH: usize = 8;
    let inside = match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => EACH,
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(|item| weight("", item)).sum(),
        Value::Object(map) => map.iter().map(|(key, value)| weight(key, value)).sum(),
    };
    EACH + key.len() + inside
}
