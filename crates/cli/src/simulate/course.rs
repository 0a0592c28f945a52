//! What happened to an instance from one moment to another.

use interlock::workflow::{Position, StateId, Step};
use serde_json::{Map, Value};

/// How many effects one course keeps, and how much their names may hold, in bytes.
const MOST_EFFECTS: usize = 10_000;
pub(super) const MOST_EFFECT_BYTES: usize = 1_000_000;

/// How many different faults one course tells.
const MOST_FAULTS: usize = 20;

/// What a call, a wait or a decision did to the instance.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Course {
    pub(crate) before: Position,
    pub(crate) after: Position,
    pub(crate) moves: Vec<Move>,
    /// What the server would do, by name and in this order.
    pub(crate) effects: Vec<String>,
    effect_bytes: usize,
    /// What is remembered anew, each key as it was last.
    pub(crate) remembered: Map<String, Value>,
    /// What could not be worked out, in words; each once.
    pub(crate) faults: Vec<String>,
    /// Why it was stopped before its end, if it was.
    pub(crate) cut: Option<String>,
}

/// Time that passes.
pub(crate) struct Wait {
    pub(super) until: u64,
    /// How many timers may still fire in it.
    pub(super) left: usize,
    pub(crate) course: Course,
}

/// One step of a course.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Move {
    pub(crate) from: StateId,
    /// Where the edge leads, which is not where the instance is if it ended there and began anew.
    pub(crate) to: StateId,
    /// It ended the workflow.
    pub(crate) terminal: bool,
}

/// Nothing has happened yet.
impl From<Position> for Course {
    fn from(before: Position) -> Self {
        Self {
            before,
            after: before,
            moves: Vec::new(),
            effects: Vec::new(),
            effect_bytes: 0,
            remembered: Map::new(),
            faults: Vec::new(),
            cut: None,
        }
    }
}

impl Course {
    /// The last state in which the workflow ended on this course.
    pub(crate) fn ended(&self) -> Option<StateId> {
        let mut ends = self.moves.iter().filter(|step| step.terminal);
        ends.next_back().map(|step| step.to)
    }

    pub(super) fn remember(&mut self, step: &Step<'_>) {
        for (key, value) in &step.set {
            match value {
                Some(value) => self.remembered.insert((*key).to_owned(), value.clone()),
                None => self.remembered.remove(*key),
            };
        }
    }

    /// Notes what could not be worked out, once.
    pub(super) fn note(&mut self, fault: String) {
        if self.faults.len() < MOST_FAULTS && !self.faults.contains(&fault) {
            self.faults.push(fault);
        }
    }

    /// Keeps effects, as long as there is room for them.
    pub(super) fn keep(&mut self, effects: &[String]) {
        for effect in effects {
            let bytes = self.effect_bytes.saturating_add(effect.len());
            if self.effects.len() == MOST_EFFECTS || bytes > MOST_EFFECT_BYTES {
                let why = "more effects are set off than can be kept";
                self.cut.get_or_insert_with(|| why.to_owned());
                return;
            }
            self.effect_bytes = bytes;
            self.effects.push(effect.clone());
        }
    }
}
