//! A step as plain data, for whoever writes it down and takes it again.

use crate::{
    Cause, Edge, EdgeId, Fault, Held, Instance, Outcome, Position, StateId, Step, UnknownState,
    Workflow, instance::Going, json,
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
    /// Writes the members of what [`trace`](Self::trace) says as JSON, without the braces and
    /// without making a trace first, if the step is one of those that most are.
    pub fn write_trace(&self, workflow: &Workflow, out: &mut Vec<u8>) {
        let is_plain = self.set.is_empty() && self.faults.is_empty() && self.held.is_none();
        if !is_plain {
            let written = serde_json::to_string(&self.trace(workflow)).expect("it holds only JSON");
            let members = written
                .strip_prefix('{')
                .and_then(|rest| rest.strip_suffix('}'));
            out.extend_from_slice(members.unwrap_or_default().as_bytes());
            return;
        }
        let by_time = |edge| matches!(workflow.edge(edge).cause, Cause::Time { .. });
        out.extend_from_slice(b"\"from\":");
        out.extend_from_slice(workflow.state(self.from).quoted_name());
        out.extend_from_slice(b",\"to\":");
        out.extend_from_slice(workflow.state(self.to).quoted_name());
        if self.terminal {
            out.extend_from_slice(b",\"terminal\":true");
        }
        if self.after.state != self.to {
            out.extend_from_slice(b",\"after\":");
            out.extend_from_slice(workflow.state(self.after.state).quoted_name());
        }
        if self.after.finished {
            out.extend_from_slice(b",\"finished\":true");
        }
        if self.enters {
            out.extend_from_slice(b",\"enters\":true");
        }
        if self.taken.is_some_and(by_time) {
            out.extend_from_slice(b",\"by_time\":true");
        }
    }
}

impl Step<'_> {
    /// The edge that was taken, if it says all that there is to say of a call that ended so and took
    /// this step: see [`Edge::told`].
    pub fn usual(&self, workflow: &Workflow, outcome: Outcome) -> Option<EdgeId> {
        let id = self.taken?;
        let edge = workflow.edge(id);
        let is_usual = self.from == edge.from
            && !self.terminal
            && !self.after.finished
            && self.faults.is_empty()
            && self.held.is_none()
            && edge.cause.is_end(outcome);
        (is_usual && !edge.told.is_empty()).then_some(id)
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
    /// What a journal says of a call that took this edge, as members of a JSON object: kind, name,
    /// outcome and what [`Step::trace`] says. Empty if every step along it has its own story.
    pub fn told(&self) -> &[u8] {
        &self.told
    }

    /// What is [told](Self::told).
    pub(crate) fn tell(&self, workflow: &Workflow) -> Vec<u8> {
        let mut out = Vec::new();
        let Cause::Call { artifact, outcome } = &self.cause else {
            return out;
        };
        if self.terminal || !self.set.is_empty() {
            return out;
        }
        out.extend_from_slice(b"\"kind\":");
        json::word(&mut out, artifact.kind.name());
        out.extend_from_slice(b",\"name\":");
        json::text(&mut out, &artifact.name);
        out.extend_from_slice(b",\"outcome\":");
        json::word(&mut out, outcome.name());
        out.push(b',');
        let after = Position {
            state: self.to,
            finished: false,
        };
        let step = Step {
            enters: !self.stays(),
            to: self.to,
            after,
            ..Step::nowhere(&Instance::from(Position {
                state: self.from,
                finished: false,
            }))
        };
        step.write_trace(workflow, &mut out);
        out
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
            state: state.ok_or_else(|| UnknownState(name.clone()))?,
            finished: trace.finished,
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

    #[test]
    fn what_is_written_by_hand_is_the_trace() {
        let flow = Workflow::builder("w")
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
            .unwrap();
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
            let mut written = b"{".to_vec();
            step.write_trace(&flow, &mut written);
            written.push(b'}');
            let read: Trace = serde_json::from_slice(&written).unwrap();
            assert_eq!(read, step.trace(&flow));
        }
    }
}
