//! Entries that are not stored yet.
//!
//! A journal in memory holds up to a thousand of them for each instance. So the two most frequent
//! kinds are kept small: without the names and states that the workflow knows.

use crate::{
    journal::{Entry, What},
    record::Running,
};
use interlock_workflow::{Binding, BindingId, Cause, Edge, EdgeId, Outcome, Step, Workflow};
use std::borrow::Cow;

/// An entry that is not stored yet.
#[derive(Clone, Debug)]
pub(crate) enum Pending {
    /// Any entry.
    Entry(Box<Entry>),
    /// The end of a call whose step is [usual](Step::usual): the edge says everything else.
    Usual { at: u64, call: u64, edge: EdgeId },
    /// The end of a call that could not move the instance.
    Ran {
        at: u64,
        bound: BindingId,
        outcome: Outcome,
    },
}

impl From<Entry> for Pending {
    fn from(entry: Entry) -> Self {
        Self::Entry(Box::new(entry))
    }
}

impl Pending {
    /// The end of a call, and its step.
    pub(crate) fn of_call(
        workflow: &Workflow,
        (running, outcome): (&Running, Outcome),
        step: &Step<'_>,
        at: u64,
    ) -> Self {
        let call = running.call;
        if let Some(edge) = step.usual(workflow, outcome) {
            return Self::Usual { at, call, edge };
        }
        let (kind, name) = (running.kind, running.name.to_string());
        let trace = step.trace(workflow);
        let what = match trace.held {
            Some(_) => What::Held { kind, name, trace },
            None => What::Step {
                kind,
                name,
                outcome,
                trace,
            },
        };
        Entry::new(at, Some(call), what).into()
    }

    /// When it happened.
    pub(crate) const fn at(&self) -> u64 {
        match self {
            Self::Entry(entry) => entry.at,
            Self::Usual { at, .. } | Self::Ran { at, .. } => *at,
        }
    }

    /// Changes when it happened.
    pub(crate) const fn set_at(&mut self, then: u64) {
        match self {
            Self::Entry(entry) => entry.at = then,
            Self::Usual { at, .. } | Self::Ran { at, .. } => *at = then,
        }
    }

    /// The entry in full.
    pub(crate) fn entry(&self, workflow: &Workflow) -> Cow<'_, Entry> {
        match self {
            Self::Entry(entry) => Cow::Borrowed(entry),
            Self::Usual { at, call, edge } => {
                let what = along(workflow.edge(*edge), workflow);
                Cow::Owned(Entry::new(*at, Some(*call), what))
            }
            Self::Ran { at, bound, outcome } => {
                Cow::Owned(ran(*at, workflow.binding(*bound), *outcome, workflow))
            }
        }
    }
}

/// A step along an edge that says everything about it.
fn along(edge: &Edge, workflow: &Workflow) -> What {
    let trace = edge.trace(workflow);
    match &edge.cause {
        Cause::Call { artifact, outcome } => What::Step {
            kind: artifact.kind,
            name: artifact.name.clone(),
            outcome: *outcome,
            trace,
        },
        Cause::Time { .. } => What::Timer { trace },
        Cause::Sampling { outcome } => What::Sampled {
            outcome: *outcome,
            why: None,
            trace,
        },
    }
}

/// The entry of a call that could not move its instance.
pub(crate) fn ran(at: u64, binding: &Binding, outcome: Outcome, workflow: &Workflow) -> Entry {
    let artifact = binding.artifact();
    let what = What::Ran {
        kind: artifact.kind,
        name: artifact.name.clone(),
        outcome,
        state: workflow.state_name(binding.state()).to_owned(),
    };
    Entry::new(at, None, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::running;
    use interlock_workflow::{End, Kind, Pass, end, to};

    // Long: every way to end a call, against its entry in full.
    #[test]
    fn the_end_of_a_call_has_the_same_entry_in_every_form() {
        // To an end, to another state, back to the same, and with something to remember.
        let flow = Workflow::builder("w")
            .state("a \"b\"", |s| {
                s.initial()
                    .tool("end \"it\"", |t| t.success(end("c")).hold())
                    .tool("go \"on\"", |t| t.success("c").error("a \"b\""))
                    .prompt("remember", |t| {
                        let broken = to("c").set("x", "result.missing");
                        t.success(to("c").set("x", "1")).error(broken)
                    })
            })
            .state("c", |s| s.tool("go \"on\"", |t| t.success("a \"b\"")))
            .build()
            .unwrap();
        let instance = flow.start(0);
        let here = instance.position();
        let bound = |kind, name| match flow.admit(here, kind, name) {
            Ok(Pass::Bound(binding)) => binding,
            Ok(Pass::Always) | Err(_) => panic!("it is bound"),
        };
        let called = [
            (Kind::Tool, "end \"it\""),
            (Kind::Tool, "go \"on\""),
            (Kind::Prompt, "remember"),
        ];
        let ways = called
            .into_iter()
            .flat_map(|called| Outcome::ALL.map(|outcome| (called, outcome)));
        // A call that cannot move may end elsewhere than it began.
        let mut elsewhere = instance.clone();
        let there = flow.put(&instance, flow.state_id("c").unwrap());
        elsewhere.apply(&flow, &there, 0);
        let mut usual = 0;
        for ((kind, name), outcome) in ways {
            let (binding, end) = (bound(kind, name), End::from(outcome));
            let steps = [&instance, &elsewhere].map(|from| flow.step(from, binding, &end));
            let finishing = steps.clone().map(Step::finishing);
            for step in steps.into_iter().chain(finishing) {
                let running = running((3, 0), (kind, name));
                let (name, trace) = (name.to_owned(), step.trace(&flow));
                let what = match trace.held {
                    Some(_) => What::Held { kind, name, trace },
                    None => What::Step {
                        kind,
                        name,
                        outcome,
                        trace,
                    },
                };
                let mut pending = Pending::of_call(&flow, (&running, outcome), &step, 7);
                usual += usize::from(matches!(pending, Pending::Usual { .. }));
                let mut entry = Entry::new(7, Some(3), what);
                assert_eq!(*pending.entry(&flow), entry, "{outcome}");
                pending.set_at(9);
                entry.at = 9;
                assert_eq!(*pending.entry(&flow), entry, "{outcome}");
                assert_eq!(pending.at(), 9);
            }
        }
        assert_eq!(usual, 4, "both ends of one tool, as they are and finishing");
    }

    #[test]
    fn a_call_that_moved_nothing_has_an_entry_that_names_its_state() {
        let flow = Workflow::builder("w")
            .state("a", |s| s.initial().tool("go", |t| t.success(end("a"))))
            .build()
            .unwrap();
        let Ok(Pass::Bound(go)) = flow.admit(flow.start(0).position(), Kind::Tool, "go") else {
            panic!("it is bound")
        };
        let mut pending = Pending::Ran {
            at: 7,
            bound: go.id(),
            outcome: Outcome::Error,
        };
        pending.set_at(9);
        let what = What::Ran {
            kind: Kind::Tool,
            name: "go".to_owned(),
            outcome: Outcome::Error,
            state: "a".to_owned(),
        };
        assert_eq!(*pending.entry(&flow), Entry::new(9, None, what));
    }

    #[test]
    fn a_pending_entry_is_small() {
        assert_eq!(size_of::<Pending>(), 24);
    }
}
