//! An instance as plain data, for whoever keeps it.

use crate::{Held, Instance, Position, Workflow};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::{collections::BTreeMap, sync::Arc};

/// An instance as plain data: names in the place of numbers, so that it can be kept and read.
///
/// ```
/// use interlock_workflow::{Record, Workflow, end};
///
/// let flow = Workflow::builder("hello")
///     .state("new", |s| s.initial().tool("greet", |t| t.success(end("done"))))
///     .build()?;
/// let instance = flow.start(7);
/// let kept = serde_json::to_string(&instance.record(&flow))?;
/// let record: Record = serde_json::from_str(&kept)?;
/// assert_eq!(flow.restore(record)?, instance);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Record {
    /// The state it is in.
    pub state: String,
    /// It took a terminal edge and goes nowhere from here.
    pub finished: bool,
    /// When it came to its state, in milliseconds since the epoch.
    pub since: u64,
    /// How many timers of the state have fired since.
    pub fired: usize,
    /// What it remembers.
    pub memory: Map<String, Value>,
    /// How often it has come to each state.
    pub visits: BTreeMap<String, u32>,
    /// The call that an operator must decide about.
    pub held: Option<Held>,
}

/// A record names a state that the workflow does not have: it belongs to another definition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the instance knows a state {0:?}, which its workflow does not have")]
pub struct UnknownState(pub String);

impl Instance {
    /// The instance as plain data.
    pub fn record(&self, workflow: &Workflow) -> Record {
        let visits = self.visits.iter();
        Record {
            state: workflow.state_name(self.position.state).to_owned(),
            finished: self.position.finished,
            since: self.since,
            fired: self.fired,
            memory: self.memory().clone(),
            visits: visits
                .map(|(state, visits)| (workflow.state_name(state).to_owned(), visits))
                .collect(),
            held: self.held().cloned(),
        }
    }
}

impl Workflow {
    /// The instance that a record is of.
    ///
    /// # Errors
    ///
    /// If the record names a state that this workflow does not have. Whether it is of the same
    /// definition otherwise, a [`fingerprint`](Self::fingerprint) tells.
    pub fn restore(&self, record: Record) -> Result<Instance, UnknownState> {
        let id = |name: String| self.state_id(&name).ok_or(UnknownState(name));
        let position = Position {
            finished: record.finished,
            ..id(record.state)?.into()
        };
        let mut instance = Instance {
            memory: Arc::new(record.memory),
            since: record.since,
            fired: record.fired,
            held: record.held.map(Box::new),
            ..Instance::from(position)
        };
        instance.visits.clear();
        for (state, visits) in record.visits {
            instance.visits.set(id(state)?, visits);
        }
        if !position.finished {
            instance.wind_up(self);
        }
        instance.note_blocked(self);
        Ok(instance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::end;

    #[test]
    fn a_record_that_is_written_and_read_gives_its_instance_back() {
        let flow = Workflow::builder("w")
            .state("a \"b\"", |s| {
                s.initial().tool("go", |t| t.success("z").hold())
            })
            .state("z", |s| s.tool("go", |t| t.success(end("done"))))
            .build()
            .unwrap();
        let mut instance = flow.start(u64::MAX);
        let check = |instance: &Instance| {
            let written = serde_json::to_vec(&instance.record(&flow)).unwrap();
            let read: Record = serde_json::from_slice(&written).unwrap();
            assert_eq!(read, instance.record(&flow));
            assert_eq!(flow.restore(read).unwrap(), *instance);
        };
        check(&instance);
        let artifact = crate::Artifact::new(crate::Kind::Tool, "go");
        let (args, principal) = (serde_json::json!({ "x": [1] }), Value::Null);
        instance.held = Some(Box::new(Held {
            artifact,
            args,
            shortened: None,
            principal,
        }));
        Arc::make_mut(&mut instance.memory).insert("k\n".to_owned(), Value::from(0.5));
        instance.position.state = flow.state_id("z").unwrap();
        instance.visits.set(instance.position.state, 1_000_000);
        instance.position.finished = true;
        instance.fired = 3;
        instance.note_blocked(&flow);
        check(&instance);
    }

    #[test]
    fn a_record_of_another_workflow_is_refused() {
        let flow = |state: &str| {
            let builder = Workflow::builder("w").state(state, |s| {
                s.initial().tool("go", |t| t.success(end("done")))
            });
            builder.build().unwrap()
        };
        let (old, new) = (flow("old"), flow("new"));
        let mut record = old.start(0).record(&old);
        let unknown = Err(UnknownState("old".to_owned()));
        assert_eq!(new.restore(record.clone()), unknown);
        record.state = "new".to_owned();
        assert_eq!(new.restore(record), unknown, "its visits name it, too");
    }
}
