//! The sections `states` and `always`.

use super::{
    reader::{Place, Reader},
    report::FileProblem,
    tree::{Entry, Key, Node, Value},
};
use crate::{Artifact, Catalogue, DraftAlways, DraftBinding, DraftEdge, DraftState, Kind, Outcome};
use std::collections::HashSet;

const STATE: Place = Place {
    what: "a state",
    keys: &[
        "initial",
        "terminal",
        "description",
        "tools",
        "resources",
        "prompts",
    ],
    later: &[
        ("after", "states have no deadlines in this version"),
        ("max_visits", "visits are not counted in this version"),
        (
            "sampling",
            "the client's model is not asked in this version",
        ),
        (
            "instructions",
            "nothing is told to the model on entry in this version",
        ),
    ],
};

const BINDING: Place = Place {
    what: "a binding",
    keys: &[
        "success",
        "error",
        "timeout",
        "cancelled",
        "unknown",
        "deadline",
    ],
    later: &[
        ("when", "guards are not judged in this version"),
        ("approve", "nobody is asked before a call in this version"),
        ("idempotent", "no call is run again in this version"),
    ],
};

const EDGE: Place = Place {
    what: "an edge",
    keys: &["to", "terminal"],
    later: &[
        ("when", "guards are not judged in this version"),
        (
            "set",
            "instances remember nothing but their state in this version",
        ),
        ("effects", "nothing runs after a step in this version"),
    ],
};

/// What `always` holds.
#[derive(Debug, Default)]
pub(super) struct Always {
    pub(super) artifacts: Vec<DraftAlways>,
    /// It holds `"*"`.
    pub(super) everything: bool,
}

impl Reader<'_> {
    pub(super) fn states(&mut self, entries: &[Entry]) -> Vec<DraftState> {
        entries.iter().map(|entry| self.state(entry)).collect()
    }

    /// Each name stands for every tool, resource and prompt that is called so.
    pub(super) fn always(&mut self, node: &Node, catalogue: &Catalogue) -> Always {
        let mut always = Always::default();
        let mut seen = HashSet::new();
        for item in self.list("always", node).unwrap_or_default() {
            let Some(name) = self.text("always", item) else {
                continue;
            };
            if !seen.insert(name) {
                let name = name.to_owned();
                self.error(item.span, FileProblem::ListedTwice { name });
                continue;
            }
            if name == "*" {
                always.everything = true;
                continue;
            }
            let before = always.artifacts.len();
            let kinds = Kind::ALL
                .into_iter()
                .filter(|kind| catalogue.has(*kind, name));
            always.artifacts.extend(kinds.map(|kind| DraftAlways {
                artifact: artifact(kind, name),
                span: Some(item.span),
            }));
            if always.artifacts.len() == before {
                let known = Kind::ALL.into_iter().flat_map(|kind| catalogue.names(kind));
                let help = self.meant(name, known);
                let name = name.to_owned();
                self.error(item.span, FileProblem::UnknownName { name, help });
            }
        }
        always
    }

    fn state(&mut self, Entry { key, value }: &Entry) -> DraftState {
        self.free_name(STATE.what, &key.text, key.span);
        let mut state = DraftState {
            name: key.text.clone(),
            span: Some(key.span),
            ..DraftState::default()
        };
        for Entry { key, value } in self.map(&key.text, value).unwrap_or_default() {
            match key.text.as_str() {
                "initial" => state.initial = self.flag("initial", value).unwrap_or_default(),
                "terminal" => state.terminal = self.flag("terminal", value).unwrap_or_default(),
                "description" => state.description = self.owned("description", value),
                "tools" => self.bindings(Kind::Tool, key, value, &mut state),
                "resources" => self.bindings(Kind::Resource, key, value, &mut state),
                "prompts" => self.bindings(Kind::Prompt, key, value, &mut state),
                _ => self.stray(&STATE, key),
            }
        }
        state
    }

    fn bindings(&mut self, kind: Kind, key: &Key, node: &Node, state: &mut DraftState) {
        for Entry { key, value } in self.map(&key.text, node).unwrap_or_default() {
            let mut binding = DraftBinding {
                artifact: artifact(kind, &key.text),
                span: Some(key.span),
                edges: Vec::new(),
                deadline: None,
            };
            self.binding(key, value, &mut binding);
            state.bindings.push(binding);
        }
    }

    fn binding(&mut self, key: &Key, node: &Node, binding: &mut DraftBinding) {
        if node.value.written().is_some() {
            // The name of a state is short for `success` and that state.
            binding.edges.extend(self.edge(Outcome::Success, key, node));
            return;
        }
        for Entry { key, value } in self.map(&key.text, node).unwrap_or_default() {
            let outcome = match key.text.as_str() {
                "success" => Outcome::Success,
                "error" => Outcome::Error,
                "timeout" => Outcome::Timeout,
                "cancelled" => Outcome::Cancelled,
                "unknown" => Outcome::Unknown,
                "deadline" => {
                    binding.deadline = self.duration("deadline", value);
                    continue;
                }
                _ => {
                    self.stray(&BINDING, key);
                    continue;
                }
            };
            binding.edges.extend(self.edge(outcome, key, value));
        }
    }

    fn edge(&mut self, outcome: Outcome, key: &Key, node: &Node) -> Option<DraftEdge> {
        if let Some(to) = node.value.written() {
            if outcome == Outcome::Unknown && to == "hold" {
                let reason = "no instance waits for an operator in this version";
                let key = "unknown: hold".to_owned();
                self.error(node.span, FileProblem::NotYet { key, reason });
                return None;
            }
            return Some(DraftEdge {
                outcome,
                to: to.to_owned(),
                terminal: false,
                effects: Vec::new(),
                span: Some(node.span),
            });
        }
        match &node.value {
            Value::Map(entries) => self.edge_map(outcome, node, entries),
            Value::List(_) => {
                let key = format!("{}: [...]", key.text);
                let reason = "an outcome leads to one state in this version";
                self.error(node.span, FileProblem::NotYet { key, reason });
                None
            }
            Value::Null | Value::Bool(_) | Value::Number { .. } | Value::Text(_) => {
                self.wrong_type(&key.text, node, "the name of a state")
            }
        }
    }

    fn edge_map(&mut self, outcome: Outcome, node: &Node, entries: &[Entry]) -> Option<DraftEdge> {
        self.require(&EDGE, node.span, entries, &["to"]);
        let (mut target, mut terminal) = (None, false);
        for Entry { key, value } in entries {
            match key.text.as_str() {
                "to" => target = self.text("to", value).map(|to| (to, value.span)),
                "terminal" => terminal = self.flag("terminal", value).unwrap_or_default(),
                _ => self.stray(&EDGE, key),
            }
        }
        let (to, span) = target?;
        Some(DraftEdge {
            outcome,
            to: to.to_owned(),
            terminal,
            effects: Vec::new(),
            span: Some(span),
        })
    }
}

fn artifact(kind: Kind, name: &str) -> Artifact {
    Artifact {
        kind,
        name: name.to_owned(),
    }
}
