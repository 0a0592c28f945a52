//! A number that is the same for the same automaton, anywhere.

use crate::{Artifact, Binding, Edge, Finish, Outcome, StateId, Workflow};
use std::{fmt, ops::Range};

/// A hash of a definition, by which a stored instance knows its own workflow again.
///
/// ```
/// use interlock_workflow::Fingerprint;
///
/// assert_eq!(Fingerprint(0xab).to_string(), "00000000000000ab");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint(pub u64);

/// Sixteen hexadecimal digits.
impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Hashes a canonical text of the workflow: sorted by name, every field preceded by its length.
pub(crate) fn of(workflow: &Workflow) -> Fingerprint {
    let mut hash = Fnv::new();
    hash.text("interlock-workflow 1");
    hash.text(workflow.name());
    hash.text(match workflow.settings().finish {
        Finish::Restart => "restart",
        Finish::Stay => "stay",
    });
    hash.text(workflow.state_name(workflow.initial().state));

    let mut states: Vec<_> = workflow.states().collect();
    states.sort_unstable_by_key(|&state| workflow.state_name(state));
    hash.number(states.len());
    for state in states {
        let mut bindings: Vec<_> = workflow.bindings(state).iter().collect();
        bindings.sort_unstable_by_key(|binding| binding.artifact());
        hash.text(workflow.state_name(state));
        hash.number(bindings.len());
        for binding in bindings {
            put_binding(&mut hash, workflow, binding);
        }
        put_state(&mut hash, workflow, state);
    }

    let mut always: Vec<_> = workflow
        .always
        .iter()
        .flatten()
        .map(|&id| (workflow.symbols[id].kind, &*workflow.symbols[id].name))
        .collect();
    always.sort_unstable();
    hash.number(always.len());
    for (kind, name) in always {
        hash.text(&kind.to_string());
        hash.text(name);
    }
    hash.number(usize::from(workflow.always_everything()));
    let mut keep: Vec<_> = workflow.settings().keep.iter().collect();
    keep.sort_unstable();
    for key in keep {
        hash.text("keep");
        hash.text(key);
    }
    Fingerprint(hash.0)
}

fn put_binding(hash: &mut Fnv, workflow: &Workflow, binding: &Binding) {
    let Artifact { kind, name } = binding.artifact();
    hash.text(&kind.to_string());
    hash.text(name);
    for outcome in Outcome::ALL {
        let edges = &binding.rest.routes[outcome.index()].edges;
        put_edges(hash, workflow, binding.state(), edges);
    }
    if let Some(guard) = binding.when() {
        hash.text("when");
        hash.text(&guard.to_string());
    }
    if binding.holds() {
        hash.text("hold");
    }
}

/// What a state has besides bindings. One that has nothing adds nothing.
fn put_state(hash: &mut Fnv, workflow: &Workflow, id: StateId) {
    let state = workflow.state(id);
    if let Some(most) = state.max_visits() {
        hash.text("max_visits");
        hash.number(most as usize);
    }
    for timer in state.timers() {
        hash.text("after");
        hash.text(&timer.after().as_millis().to_string());
        put_edges(hash, workflow, id, &timer.edges);
    }
    if let Some(sampling) = state.sampling() {
        hash.text("sampling");
        put_edges(hash, workflow, id, &sampling.success);
        put_edges(hash, workflow, id, &sampling.error);
    }
}

/// Where the last resort leads, and then, if there is more to it, all of it.
fn put_edges(hash: &mut Fnv, workflow: &Workflow, from: StateId, range: &Range<usize>) {
    let edges = workflow.edges.get(range.clone()).unwrap_or_default();
    let (to, terminal) = edges.last().map_or((from, false), |e| (e.to, e.terminal));
    hash.text(workflow.state_name(to));
    hash.number(usize::from(terminal));
    let is_plain = |edge: &Edge| edge.when.is_none() && edge.set.is_empty();
    if edges.iter().all(is_plain) {
        return;
    }
    hash.text("edges");
    hash.number(edges.len());
    for edge in edges {
        hash.text(workflow.state_name(edge.to));
        hash.number(usize::from(edge.terminal));
        let guard = edge.when.as_ref().map(ToString::to_string);
        hash.text(&guard.unwrap_or_default());
        hash.number(edge.set.len());
        let mut set: Vec<_> = edge.set.iter().collect();
        set.sort_unstable_by_key(|(key, _)| key);
        for (key, rule) in set {
            hash.text(key);
            hash.text(&rule.to_string());
        }
    }
}

/// FNV-1a with 64 bits.
struct Fnv(u64);

impl Fnv {
    fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    fn text(&mut self, text: &str) {
        self.number(text.len());
        self.bytes(text.as_bytes());
    }

    /// Eight bytes wherever it runs, however wide `usize` is there.
    fn number(&mut self, number: usize) {
        self.bytes(&(number as u64).to_le_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Builder, Settings, end, to};
    use std::time::Duration;

    fn two() -> Builder {
        Workflow::builder("two")
            .state("a", |s| {
                s.initial()
                    .tool("go", |t| t.success("b"))
                    .tool("stop", |t| t.success(end("b")))
            })
            .state("b", |s| s.tool("back", |t| t.success("a")))
    }

    fn print(builder: Builder) -> Fingerprint {
        builder.build().unwrap().fingerprint()
    }

    #[test]
    fn the_number_of_a_definition_never_changes() {
        // Stored instances carry it, so a different number here abandons them.
        assert_eq!(print(two()).to_string(), "c2203d00d911d510");
    }

    #[test]
    fn the_published_vectors_of_fnv_hold() {
        let hash = |text: &str| {
            let mut hash = Fnv::new();
            hash.bytes(text.as_bytes());
            hash.0
        };
        assert_eq!(hash(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(hash("a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(hash("foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn what_does_not_move_an_instance_does_not_count() {
        let other = Workflow::builder("two")
            .description("the same, told differently")
            .settings(Settings {
                tool_timeout: Duration::from_secs(1),
                ..Settings::default()
            })
            .state("b", |s| s.tool("back", |t| t.success("a").error("b")))
            .state("a", |s| {
                s.initial()
                    .tool("stop", |t| t.success(end("b").effect("mail")))
                    .tool("go", |t| t.success("b").deadline(Duration::from_secs(1)))
            });
        assert_eq!(print(other), print(two()));
    }

    #[test]
    fn what_moves_an_instance_counts() {
        let plain = print(two());
        let stay = Settings {
            finish: Finish::Stay,
            ..Settings::default()
        };
        let again = |target| two().state("b", |s| s.tool("back", |t| t.error(target)));
        let variants = [
            print(two().settings(stay)),
            print(two().always_tool("search")),
            print(two().always_prompt("search")),
            print(two().always_everything()),
            print(two().state("a", |s| s.tool("go", |t| t.error("b")))),
            print(two().state("b", |s| s.tool("stop", |t| t.success("b")))),
            print(two().state("c", |s| s)),
            print(two().state("b", |s| s.max_visits(2))),
            print(two().state("b", |s| s.max_visits(3))),
            print(two().state("b", |s| s.after(Duration::from_secs(1), "a"))),
            print(two().state("b", |s| s.after(Duration::from_secs(2), "a"))),
            print(two().state("b", |s| s.tool("back", |t| t.when("visits == 1")))),
            print(two().state("b", |s| s.tool("back", |t| t.hold()))),
            print(again(to("b").set("x", "1"))),
            print(again(to("b").set("x", "2"))),
            print(two().state("b", |s| s.sampling(9, |m| m.user("?").success("a")))),
        ];
        for (n, variant) in variants.iter().enumerate() {
            assert_ne!(*variant, plain);
            assert!(!variants[..n].contains(variant));
        }
    }
}
