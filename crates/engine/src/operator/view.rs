//! Instances and their journals as operators see them.

use crate::{approval_rules::ApprovalRequest, journal::Entry, orders::Glance};
use interlock_workflow::{Artifact, Held as HeldCall};
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Where an instance stands.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Summary {
    /// The instance.
    pub id: String,
    /// What its workflow is called.
    pub workflow: String,
    /// It belongs to another definition than the one that is served, and cannot be changed.
    pub foreign: bool,
    /// The state it is in.
    pub state: String,
    /// It goes nowhere from there.
    pub finished: bool,
    /// Since when, in milliseconds since the epoch.
    pub since: u64,
    /// When its time there is up.
    pub due: Option<u64>,
    /// The call of which nobody knows what it did: see [`Operator::settle`](crate::Operator::settle).
    pub held: Option<HeldCall>,
    /// The call that has its turn.
    pub running: Option<RunningCall>,
    /// The calls that wait for an operator's yes, or have got an answer and not used it: see
    /// [`Operator::approve`](crate::Operator::approve).
    pub approvals: Vec<ApprovalRequest>,
    /// How many calls have had their turn.
    pub calls: u64,
    /// Its version in the store; none if it is not written down yet.
    pub version: Option<u64>,
}

/// A call that has its turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RunningCall {
    /// Its number, counted from the beginning of the instance.
    pub number: u64,
    /// What is called.
    pub artifact: Artifact,
    /// When it must be over, in milliseconds since the epoch. If it is still there then, its
    /// process has died.
    pub until: u64,
}

/// All there is to see of an instance.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Details {
    /// Where it stands.
    #[serde(flatten)]
    pub summary: Summary,
    /// What it remembers.
    pub memory: Map<String, Value>,
    /// How often it has come to each state.
    pub visits: BTreeMap<String, u32>,
    /// What can be called now, guards aside.
    pub next: Vec<Artifact>,
}

/// One entry of an instance's journal.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Recorded {
    /// Its number in the journal.
    pub number: u64,
    /// What it says.
    pub entry: Entry,
}

impl Details {
    pub(super) fn new(id: &str, glance: Glance, next: Vec<Artifact>) -> Self {
        let Glance {
            written,
            run,
            version,
        } = glance;
        let record = written.run;
        let summary = Summary {
            id: id.to_owned(),
            workflow: written.workflow,
            foreign: run.is_none(),
            state: record.state,
            finished: record.finished,
            since: record.since,
            due: run.as_ref().and_then(|run| run.due()),
            held: record.held,
            running: written.running.map(|running| RunningCall {
                number: running.call,
                artifact: Artifact::new(running.kind, &*running.name),
                until: running.until,
            }),
            // Nobody can answer what another definition asks.
            approvals: run.map(|_| written.asked).unwrap_or_default(),
            calls: written.calls,
            version: version.map(|version| version.0),
        };
        Self {
            summary,
            memory: record.memory,
            visits: record.visits,
            next,
        }
    }
}
