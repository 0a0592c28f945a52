//! A step as plain data, for whoever writes it down and takes it again.

use crate::{
    Cause, Edge, EdgeId, Fault, Held, Instance, Outcome, Position, StateId, Step, UnknownState,
    Workflow, instance::Going,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::sync::Arc;

/// What a step did to an instance, as plain data: names in the place of numbers, and values in the
/// place of what they were worked out from. It can be taken again where nobody knows the call.
///
/// ```
/// use interlock_workflow::{End, Kind, Outcome, Pass, Trace, Workflow, end};
///
/// let flow = Workflow::builder("hello")
///     .state("new", |s| s.initial().tool("greet", |t| t.success("met")))
///     .state("met", |s| s.tool("leave", |t| t.success(end("new"))))
///     .build()?;
/// let mut instance = flow.start(7);
/// let Ok(Pass::Bound(greet)) = flow.admit(instance.position(), Kind::Tool, "greet") else { panic!() };
/// let step = flow.step(&instance, greet, &End::from(Outcome::Success));
/// let written = serde_json::to_string(&step.trace(&flow))?;
/// instance.apply(&flow, &step, 8);
///
/// let trace: Trace = serde_json::from_str(&written)?;
/// assert_eq!((&*trace.from, &*trace.to), ("new", "met"));
/// let mut again = flow.start(7);
/// again.retrace(&flow, &trace, 8)?;
/// assert_eq!(again, instance);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Trace {
    /// The state before.
    pub from: String,
    /// The state that the edge leads to.
    pub to: String,
    /// It ends the workflow.
    #[serde(default, skip_serializing_if = "is_false")]
    pub terminal: bool,
    /// Where the instance stands then, if that is not where the edge leads: it began again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// It goes nowhere from there.
    #[serde(default, skip_serializing_if = "is_false")]
    pub finished: bool,
    /// It comes into a state, be it the one it was in.
    #[serde(default, skip_serializing_if = "is_false")]
    pub enters: bool,
    /// It was time that took it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub by_time: bool,
    /// What the instance remembers from then on, by key.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub set: Map<String, Value>,
    /// What it forgets, by key: it could not be worked out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forgets: Vec<String>,
    /// The call that an operator must decide about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<Held>,
    /// What could not be worked out, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_false(value: &bool) -> bool {
    !value
}

impl Trace {
    /// An instance is put into a state by somebody who may: it comes there as by an edge.
    pub fn put(from: impl Into<String>, to: impl Into<String>) -> Self {
        Self {
            from: from.into(),
            to: to.into(),
            enters: true,
            ..Self::default()
        }
    }

    /// An instance is ended in its state by somebody who may, and goes nowhere from there.
    pub fn abort(at: impl Into<String>) -> Self {
        let at = at.into();
        Self {
            from: at.clone(),
            to: at,
            terminal: true,
            finished: true,
            ..Self::default()
        }
    }
}

impl Step<'_> {
    /// The step as plain data.
    pub fn trace(&self, workflow: &Workflow) -> Trace {
        let name = |state: StateId| workflow.state_name(state).to_owned();
        let by_time = |edge| matches!(workflow.edge(edge).cause, Cause::Time { .. });
        let mut trace = Trace {
            from: name(self.from),
            to: name(self.to),
            terminal: self.terminal,
            after: (self.after.state != self.to).then(|| name(self.after.state)),
            finished: self.after.finished,
            enters: self.enters,
            by_time: self.taken.is_some_and(by_time),
            held: self.held.as_deref().cloned(),
            faults: self
                .faults
                .iter()
                .map(|fault| fault.told(workflow))
                .collect(),
            ..Trace::default()
        };
        for (key, value) in &self.set {
            match value {
                Some(value) => {
                    trace.set.insert((*key).to_owned(), value.clone());
                }
                None => trace.forgets.push((*key).to_owned()),
            }
        }
        trace
    }
}

impl Step<'_> {
    /// The edge that was taken, if it says all that there is to say of a call that ended so and took
    /// this step: then [`Edge::trace`] is the trace of the step.
    pub fn usual(&self, workflow: &Workflow, outcome: Outcome) -> Option<EdgeId> {
        let id = self.taken?;
        let edge = workflow.edge(id);
        let is_usual = self.from == edge.from
            && !self.terminal
            && !self.after.finished
            && self.faults.is_empty()
            && self.held.is_none()
            && edge.cause.is_end(outcome);
        (is_usual && edge.sets_and_ends_nothing()).then_some(id)
    }
}

impl Cause {
    /// Whether it is a call that ends so.
    pub(crate) fn is_end(&self, wanted: Outcome) -> bool {
        match self {
            Self::Call { outcome, .. } => *outcome == wanted,
            Self::Time { .. } | Self::Sampling { .. } => false,
        }
    }
}

impl Edge {
    /// What taking the edge from its own state does, as plain data. What depends on the instance is
    /// left out: the values that the edge sets, and where a run continues after an end. So it is the
    /// whole trace of a step only if [`Step::usual`] says so.
    pub fn trace(&self, workflow: &Workflow) -> Trace {
        Trace {
            from: workflow.state_name(self.from).to_owned(),
            to: workflow.state_name(self.to).to_owned(),
            terminal: self.terminal,
            enters: !self.stays(),
            by_time: matches!(self.cause, Cause::Time { .. }),
            ..Trace::default()
        }
    }
}

impl Fault {
    /// In words, for the journal.
    pub fn told(&self, workflow: &Workflow) -> String {
        match self {
            Self::Guard { edge, failed } => {
                let guard = workflow.edge(*edge).when.as_ref();
                let guard = guard.map(ToString::to_string).unwrap_or_default();
                format!("guard {guard:?} has no answer: {failed}")
            }
            Self::Set { key, failed, .. } => format!("{key:?} could not be worked out: {failed}"),
        }
    }
}

impl Instance {
    /// Takes a step again that was written down. It must be one of this instance as it is.
    ///
    /// # Errors
    ///
    /// If it names a state that the workflow does not have; then the instance is as it was.
    pub fn retrace(
        &mut self,
        workflow: &Workflow,
        trace: &Trace,
        now: u64,
    ) -> Result<(), UnknownState> {
        let name = trace.after.as_ref().unwrap_or(&trace.to);
        let state = workflow.state_id(name);
        let after = Position {
            finished: trace.finished,
            ..state.ok_or_else(|| UnknownState(name.clone()))?.into()
        };
        for (key, value) in &trace.set {
            Arc::make_mut(&mut self.memory).insert(key.clone(), value.clone());
        }
        for key in &trace.forgets {
            Arc::make_mut(&mut self.memory).remove(key);
        }
        self.held = trace.held.clone().map(Box::new);
        let going = Going {
            after,
            enters: trace.enters,
            terminal: trace.terminal,
            by_time: trace.by_time,
        };
        self.go(workflow, going, now);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{End, Kind, Outcome, Pass, end, to};
    use std::time::Duration;

    fn flow() -> Workflow {
        Workflow::builder("w")
            .state("a \"b\"", |s| {
                s.initial()
                    .tool("go", |t| t.success("b").error("a \"b\"").hold())
                    .tool("end", |t| t.success(end("b")))
                    .tool("note", |t| {
                        t.success(to("b").set("k", "1").set("x", "args.x"))
                    })
                    .after(Duration::from_secs(1), "b")
            })
            .state("b", |s| s.tool("go", |t| t.success("a \"b\"")))
            .build()
            .unwrap()
    }

    #[test]
    fn an_edge_that_says_all_of_a_step_has_its_trace() {
        let flow = flow();
        let instance = flow.start(0);
        // A call that cannot move may end elsewhere than it began.
        let mut elsewhere = instance.clone();
        let there = flow.put(&instance, flow.state_id("b").unwrap());
        elsewhere.apply(&flow, &there, 0);
        let mut usual = Vec::new();
        for name in ["go", "end", "note"] {
            let Ok(Pass::Bound(binding)) = flow.admit(instance.position(), Kind::Tool, name) else {
                panic!("{name} is bound")
            };
            for outcome in Outcome::ALL {
                let steps = [&instance, &elsewhere]
                    .map(|from| flow.step(from, binding, &End::from(outcome)));
                let finishing = steps.clone().map(Step::finishing);
                for step in steps.into_iter().chain(finishing) {
                    let Some(edge) = step.usual(&flow, outcome) else {
                        continue;
                    };
                    assert_eq!(flow.edge(edge).trace(&flow), step.trace(&flow), "{name}");
                    usual.push((name, outcome));
                }
            }
        }
        usual.dedup();
        let wanted = [("go", Outcome::Success), ("go", Outcome::Error)];
        assert_eq!(usual, wanted);
    }

    #[test]
    fn a_trace_that_is_written_and_read_is_the_same() {
        let flow = flow();
        let instance = flow.start(0);
        let mut steps = vec![
            flow.expire(&instance, 5_000).unwrap(),
            flow.put(&instance, flow.state_id("b").unwrap()),
        ];
        for name in ["go", "end", "note"] {
            let Ok(Pass::Bound(binding)) = flow.admit(instance.position(), Kind::Tool, name) else {
                panic!("{name} is bound")
            };
            for outcome in Outcome::ALL {
                let step = flow.step(&instance, binding, &End::from(outcome));
                steps.push(step.clone().finishing());
                steps.push(step);
            }
        }
        for step in steps {
            let trace = step.trace(&flow);
            let written = serde_json::to_vec(&trace).unwrap();
            assert_eq!(serde_json::from_slice::<Trace>(&written).unwrap(), trace);
        }
    }
}
