//! What is bound in a state, and where its outcomes lead.

use super::{
    reader::{Reader, Shape},
    report::FileProblem,
    tree::{Entry, Key, Node, Value},
};
use crate::{
    Artifact, DraftApproval, DraftBinding, DraftEdge, Expression, Kind, Outcome, Target,
    builder::{APPROVAL_EXPIRES, to},
};

pub(super) const BINDING: Shape = Shape {
    what: "a binding",
    keys: &[
        "when",
        "approve",
        "success",
        "error",
        "timeout",
        "cancelled",
        "unknown",
        "idempotent",
        "deadline",
    ],
};

pub(super) const GUARD: Shape = Shape {
    what: "a guard",
    keys: &["if", "otherwise"],
};

pub(super) const APPROVAL: Shape = Shape {
    what: "an approval",
    keys: &["message", "expires"],
};

pub(super) const EDGE: Shape = Shape {
    what: "an edge",
    keys: &["when", "to", "terminal", "set", "effects"],
};

/// What stands for an instance that waits for an operator, where a state is expected.
pub(super) const HOLD: &str = "hold";

/// What a guard or a remembered value is.
pub(super) const CEL: &str = "a CEL expression";

const EDGES: &str = "the name of a state, a map with `to`, or a list of those";

impl Reader<'_> {
    pub(super) fn bindings(
        &mut self,
        kind: Kind,
        key: &Key,
        node: &Node,
        bindings: &mut Vec<DraftBinding>,
    ) {
        for Entry { key, value } in self.map(&key.text, node).unwrap_or_default() {
            if !self.bound_name(kind, key) {
                continue;
            }
            let artifact = Artifact::new(kind, key.text.as_str());
            let mut binding = DraftBinding {
                place: key.span.into(),
                ..DraftBinding::new(artifact)
            };
            if value.value.written().is_some() {
                // The name of a state is short for `success` and that state.
                self.edges(Outcome::Success, key, value, &mut binding.edges);
            } else {
                self.binding(key, value, &mut binding);
            }
            bindings.push(binding);
        }
    }

    fn binding(&mut self, key: &Key, node: &Node, binding: &mut DraftBinding) {
        for Entry { key, value } in self.map(&key.text, node).unwrap_or_default() {
            let outcome = match key.text.as_str() {
                "when" => {
                    self.guard(key, value, binding);
                    continue;
                }
                "approve" => {
                    binding.approval = self.approval(key, value);
                    continue;
                }
                "idempotent" => {
                    binding.idempotent = self.flag("idempotent", value).unwrap_or_default();
                    continue;
                }
                "deadline" => {
                    binding.deadline = self.duration("deadline", value);
                    continue;
                }
                "unknown" if value.value.written() == Some(HOLD) => {
                    binding.hold = true;
                    continue;
                }
                "success" => Outcome::Success,
                "error" => Outcome::Error,
                "timeout" => Outcome::Timeout,
                "cancelled" => Outcome::Cancelled,
                "unknown" => Outcome::Unknown,
                _ => {
                    self.stray(&BINDING, key);
                    continue;
                }
            };
            self.edges(outcome, key, value, &mut binding.edges);
        }
        // The order of the keys says nothing.
        binding.edges.sort_by_key(|edge| edge.outcome);
    }

    /// CEL, or a map of CEL and what to say where it is not true.
    fn guard(&mut self, key: &Key, node: &Node, binding: &mut DraftBinding) {
        let Value::Map(entries) = &node.value else {
            binding.when = self.expression("when", node);
            return;
        };
        self.require(&GUARD, key.span, entries, &["if"]);
        for Entry { key, value } in entries {
            match key.text.as_str() {
                "if" => binding.when = self.expression("if", value),
                "otherwise" => binding.otherwise = self.placed("otherwise", value),
                _ => self.stray(&GUARD, key),
            }
        }
    }

    fn approval(&mut self, key: &Key, node: &Node) -> Option<DraftApproval> {
        let Value::Map(entries) = &node.value else {
            let message = self.placed("approve", node)?;
            let expires = APPROVAL_EXPIRES;
            return Some(DraftApproval { message, expires });
        };
        self.require(&APPROVAL, key.span, entries, &["message"]);
        let (mut message, mut expires) = (None, None);
        for Entry { key, value } in entries {
            match key.text.as_str() {
                "message" => message = self.placed("message", value),
                "expires" => expires = self.duration("expires", value),
                _ => self.stray(&APPROVAL, key),
            }
        }
        Some(DraftApproval {
            message: message?,
            expires: expires.unwrap_or(APPROVAL_EXPIRES),
        })
    }

    /// Adds where an outcome leads.
    pub(super) fn edges(
        &mut self,
        outcome: Outcome,
        key: &Key,
        node: &Node,
        edges: &mut Vec<DraftEdge>,
    ) {
        let targets = self.targets(&key.text, node);
        edges.extend(
            targets
                .into_iter()
                .map(|target| DraftEdge { outcome, target }),
        );
    }

    /// The name of a state, a map, or a list of those, which are tried in order.
    pub(super) fn targets(&mut self, key: &str, node: &Node) -> Vec<Target> {
        let items = match &node.value {
            Value::List(items) => items.as_slice(),
            Value::Null
            | Value::Bool(_)
            | Value::Number { .. }
            | Value::Text(_)
            | Value::Map(_) => std::slice::from_ref(node),
        };
        if items.is_empty() {
            let key = key.to_owned();
            self.error(node.span, FileProblem::NoEdges { key });
        }
        items
            .iter()
            .filter_map(|item| self.target(key, item))
            .collect()
    }

    fn target(&mut self, key: &str, node: &Node) -> Option<Target> {
        if let Some(state) = node.value.written() {
            let place = node.span.into();
            let fits = self.free_name("a state", state, node.span);
            return fits.then(|| Target { place, ..to(state) });
        }
        match &node.value {
            Value::Map(entries) => self.target_map(node, entries),
            Value::Null
            | Value::Bool(_)
            | Value::Number { .. }
            | Value::Text(_)
            | Value::List(_) => self.wrong_type(key, node, EDGES),
        }
    }

    fn target_map(&mut self, node: &Node, entries: &[Entry]) -> Option<Target> {
        self.require(&EDGE, node.span, entries, &["to"]);
        let mut target = None;
        let mut rest = to("");
        for Entry { key, value } in entries {
            match key.text.as_str() {
                "to" => {
                    let named = self.placed("to", value);
                    target = named.filter(|to| self.free_name("a state", &to.text, value.span));
                }
                "terminal" => rest.terminal = self.flag("terminal", value).unwrap_or_default(),
                "when" => rest.when = self.expression("when", value),
                "set" => rest.set = self.memory(value),
                "effects" => rest.effects = self.effects(value),
                _ => self.stray(&EDGE, key),
            }
        }
        let target = target?;
        Some(Target {
            to: target.text,
            place: target.place,
            ..rest
        })
    }

    fn memory(&mut self, node: &Node) -> Vec<(String, Expression)> {
        let mut memory = Vec::new();
        for Entry { key, value } in self.map("set", node).unwrap_or_default() {
            self.memory_key(&key.text, key.span);
            if let Some(expression) = self.expression(&key.text, value) {
                memory.push((key.text.clone(), expression));
            }
        }
        memory
    }

    fn effects(&mut self, node: &Node) -> Vec<String> {
        let items = self.list("effects", node).unwrap_or_default();
        items
            .iter()
            .filter_map(|item| {
                let name = self.owned("effects", item)?;
                self.free_name("an effect", &name, item.span);
                Some(name)
            })
            .collect()
    }

    /// CEL; a number or a boolean is the literal as which it is written.
    fn expression(&mut self, key: &str, node: &Node) -> Option<Expression> {
        match &node.value {
            Value::Bool(_) | Value::Number { .. } | Value::Text(_) => {
                let source = self.text(key, node)?;
                Some(Expression::cel_at(source, node.span.into()))
            }
            Value::Null | Value::List(_) | Value::Map(_) => self.wrong_type(key, node, CEL),
        }
    }
}
