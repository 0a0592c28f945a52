//! One run through a workflow: where it stands, what it remembers, and until when.

use crate::{Artifact, Cause, EdgeId, Position, StateId, Step, Workflow, visits::Visits};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::{collections::HashSet, sync::Arc, time::Duration};

/// How much an instance may remember, in bytes of JSON or so. A value that would exceed it is not
/// remembered.
pub(crate) const MOST_MEMORY: usize = 64 * 1024;

/// One run through a workflow: everything that decides what may happen next.
///
/// It changes only by [`apply`](Self::apply) and [`go_along`](Self::go_along) (and by
/// [`came_later`](Self::came_later), if they were told the wrong time), and is kept as a
/// [`Record`](crate::Record). Times are milliseconds since the epoch.
#[derive(Clone, Debug, PartialEq)]
pub struct Instance {
    pub(crate) position: Position,
    /// Shared with what it was before, as most steps change nothing of it.
    pub(crate) memory: Arc<Map<String, Value>>,
    pub(crate) visits: Visits,
    /// When it came to its state.
    pub(crate) since: u64,
    /// How many timers of the state have fired.
    pub(crate) fired: usize,
    pub(crate) due: Option<u64>,
    /// Boxed, for it is large and nearly always absent.
    pub(crate) held: Option<Box<Held>>,
}

/// Where a step leads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Going {
    pub(crate) after: Position,
    pub(crate) enters: bool,
    pub(crate) terminal: bool,
    pub(crate) by_time: bool,
}

/// A call of which nobody knows what it did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Held {
    /// What was called.
    pub artifact: Artifact,
    /// What it was called with; null if that was too large to keep.
    pub args: Value,
    /// What is kept instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shortened: Option<Shortened>,
    /// Who called; null if nobody said.
    pub principal: Value,
}

/// What is kept of arguments that are too large to keep.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shortened {
    /// How they begin, as JSON.
    pub begins: String,
    /// How many bytes of JSON they are.
    pub bytes: usize,
    /// The SHA-256 of that JSON, in hexadecimal digits.
    pub sha256: String,
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
        instance.note_blocked(self);
        instance
    }
}

/// An instance of which nothing is known but where it stands: it came there once, remembers
/// nothing, and no time is running.
impl From<Position> for Instance {
    fn from(position: Position) -> Self {
        let mut visits = Visits::default();
        visits.add(position.state);
        Self {
            position,
            memory: Arc::default(),
            visits,
            since: 0,
            fired: 0,
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

    /// How often it has come to a state since it began. In a workflow of more than 64 states only
    /// those are counted of which anything asks for it; of the others it is 0.
    pub fn visits(&self, state: StateId) -> u32 {
        self.visits.of(state)
    }

    /// How many timers of its state have fired since it came there.
    pub(crate) fn fired(&self) -> usize {
        self.fired
    }

    /// When its time in this state is up, if it has any.
    pub fn due(&self) -> Option<u64> {
        self.due
    }

    /// The call that an operator must decide about.
    pub fn held(&self) -> Option<&Held> {
        self.held.as_deref()
    }

    /// What it remembers under some keys, in bytes of JSON or so.
    pub(crate) fn memory_size(&self, of: impl Fn(&str) -> bool) -> usize {
        let memory = self.memory.iter().filter(|(key, _)| of(key));
        memory
            .map(|(key, value)| weight(key, value).unwrap_or(MOST_MEMORY))
            .sum()
    }

    /// Takes a step. The step must be one of this instance as it is.
    pub fn apply(&mut self, workflow: &Workflow, step: &Step<'_>, now: u64) {
        let by_time = |edge| matches!(workflow.edge(edge).cause, Cause::Time { .. });
        for (key, value) in &step.set {
            let memory = Arc::make_mut(&mut self.memory);
            match value {
                Some(value) => memory.insert((*key).to_owned(), value.clone()),
                None => memory.remove(*key),
            };
        }
        let going = Going {
            after: step.after,
            enters: step.enters,
            terminal: step.terminal,
            by_time: step.taken.is_some_and(by_time),
        };
        self.held = step.held.clone();
        self.go(workflow, going, now);
    }

    /// Takes the [plain](crate::Binding::plain) edge of a call that was admitted where it stands, and that
    /// no operator has to decide about: as [`step`](Workflow::step) and [`apply`](Self::apply) would.
    pub fn go_along(&mut self, workflow: &Workflow, edge: EdgeId, now: u64) {
        debug_assert!(workflow.edge(edge).is_plain());
        debug_assert_eq!(workflow.edge(edge).from, self.position.state);
        debug_assert!(!self.position.finished);
        let state = workflow.targets[edge.index()];
        let going = Going {
            after: Position::from(state),
            enters: state != self.position.state,
            terminal: false,
            by_time: false,
        };
        self.go(workflow, going, now);
    }

    /// It came to its state later than it was said when it took its step.
    pub fn came_later(&mut self, workflow: &Workflow, then: u64) {
        self.since = then;
        self.wind_up(workflow);
    }

    /// Goes where a step leads, once what it remembers is remembered.
    pub(crate) fn go(&mut self, workflow: &Workflow, going: Going, now: u64) {
        self.move_on(workflow, going, now);
        self.note_blocked(workflow);
    }

    fn move_on(&mut self, workflow: &Workflow, going: Going, now: u64) {
        if self.position.is_same_place(going.after) && !going.enters {
            if going.by_time {
                // A timer fires once, even if it leads nowhere; then it is the next one's turn.
                self.fired += 1;
                self.wind_up(workflow);
            }
            return;
        }
        self.position = going.after;
        self.due = None;
        if going.terminal && !going.after.finished {
            if !self.memory.is_empty() {
                let keep: HashSet<_> = workflow.settings().keep.iter().collect();
                Arc::make_mut(&mut self.memory).retain(|key, _| keep.contains(key));
            }
            self.visits.clear();
        }
        if going.enters {
            self.enter(workflow, now);
        }
    }

    /// Whether anything but a guard stands in the way of all that its state binds.
    pub(crate) fn note_blocked(&mut self, workflow: &Workflow) {
        self.position.blocked = self.held.is_some() || self.is_used_up(workflow).is_some();
    }

    /// How often its state may be visited, if it has been there more often.
    pub(crate) fn is_used_up(&self, workflow: &Workflow) -> Option<u32> {
        let state = self.position.state;
        let most = match workflow.state(state).limits_visits {
            true => workflow.state(state).max_visits()?,
            false => return None,
        };
        (self.visits(state) > most).then_some(most)
    }

    fn enter(&mut self, workflow: &Workflow, now: u64) {
        let state = self.position.state;
        if workflow.state(state).counts_visits {
            self.visits.add(state);
        }
        self.since = now;
        self.fired = 0;
        self.wind_up(workflow);
    }

    /// The next timer of the state is due so long after the instance came there.
    pub(crate) fn wind_up(&mut self, workflow: &Workflow) {
        let state = workflow.state(self.position.state);
        let timers = if state.is_timed { state.timers() } else { &[] };
        let next = timers.get(self.fired);
        self.due = next.map(|timer| self.since.saturating_add(milliseconds(timer.after)));
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// How deep a value can nest that is remembered. Readers of JSON stop at 128 levels, and it is kept
/// inside other objects.
const DEEPEST: usize = 100;

/// What it costs to remember a value: about its length in JSON. `None` if it nests too deep.
pub(crate) fn weight(key: &str, value: &Value) -> Option<usize> {
    weight_within(key, value, DEEPEST)
}

fn weight_within(key: &str, value: &Value, deepest: usize) -> Option<usize> {
    const EACH: usize = 8;
    let inside = match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => EACH,
        Value::String(text) => text.len(),
        Value::Array(items) => {
            let left = deepest.checked_sub(1)?;
            let mut items = items.iter().map(|item| weight_within("", item, left));
            items.try_fold(0_usize, |sum, item| Some(sum.saturating_add(item?)))?
        }
        Value::Object(map) => {
            let left = deepest.checked_sub(1)?;
            let mut members = map
                .iter()
                .map(|(key, value)| weight_within(key, value, left));
            members.try_fold(0_usize, |sum, member| Some(sum.saturating_add(member?)))?
        }
    };
    Some(EACH + key.len() + inside)
}
