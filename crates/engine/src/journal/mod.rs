//! What an instance goes through, as its journal tells it.
//!
//! Entries become known together with the change they tell of, in one commit where a store was given,
//! so a journal that is kept whole gives the present state: [`replay`] takes every step again.

mod pending;
pub(crate) mod unstored;

pub(crate) use pending::{Pending, ran};

use interlock_workflow::{Instance, Kind, Outcome, Trace, UnknownState, Workflow};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The format in which entries are written now.
pub const FORMAT: u32 = 2;

/// One thing that happened to an instance.
///
/// ```
/// use interlock_engine::journal::Entry;
///
/// let written = r#"{"format":2,"at":7,"call":1,"what":"step","kind":"tool","name":"pay",
///     "outcome":"success","from":"due","to":"paid","terminal":true,"after":"new","enters":true}"#;
/// let entry: Entry = serde_json::from_str(written)?;
/// assert_eq!(entry.at, 7);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Entry {
    /// The format of the entry.
    pub format: u32,
    /// When it happened, in milliseconds since the epoch.
    pub at: u64,
    /// The call it belongs to, counted from the beginning of the instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<u64>,
    /// Who decided it, if it was an operator: free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Why, in the operator's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What happened.
    #[serde(flatten)]
    pub what: What,
}

/// What happened to an instance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
#[non_exhaustive]
pub enum What {
    /// It began.
    Started {
        /// The workflow it runs through.
        workflow: String,
        /// The number of that workflow's definition.
        fingerprint: u64,
    },
    /// A call was refused, and nothing changed.
    Refused {
        /// What kind of thing was called.
        kind: Kind,
        /// What it is called, cut if it is long.
        name: String,
        /// The number of the refusal.
        code: u16,
        /// The refusal in words.
        why: String,
    },
    /// A call was taken back by its client before it ran, and nothing changed.
    TakenBack {
        /// What kind of thing was called.
        kind: Kind,
        /// What it is called, cut if it is long.
        name: String,
    },
    /// A handler was over because it asked its client something, and nothing changed. It begins anew
    /// when the client comes back with an answer.
    Paused {
        /// What kind of thing was called.
        kind: Kind,
        /// What it is called, cut if it is long.
        name: String,
    },
    /// A call ended that could not move the instance.
    Ran {
        /// What kind of thing was called.
        kind: Kind,
        /// What it is called.
        name: String,
        /// How it ended.
        outcome: Outcome,
        /// The state in which it was admitted.
        state: String,
    },
    /// The journal is not kept whole: what was here has been let go of before anybody read it.
    LeftOut {
        /// How many entries.
        entries: u64,
    },
    /// Entries are missing here: too many were waiting to be stored, or the store failed. They told of
    /// what changed nothing: refusals, calls that could not move the instance, handlers that paused,
    /// effects, questions and their answers.
    Unwritten {
        /// How many entries.
        entries: u64,
    },
    /// A person was asked whether a call may run.
    Asked {
        /// What kind of thing is called.
        kind: Kind,
        /// What it is called.
        name: String,
        /// The question.
        question: String,
        /// Under which id an operator answers; nothing if the client was asked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        approval: Option<String>,
    },
    /// A person agreed to a call.
    Approved {
        /// What kind of thing is called.
        kind: Kind,
        /// What it is called.
        name: String,
        /// Which question an operator answered; nothing if the client was asked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        approval: Option<String>,
    },
    /// Nobody agreed to a call.
    Denied {
        /// What kind of thing is called.
        kind: Kind,
        /// What it is called.
        name: String,
        /// Which question an operator answered; nothing if the client was asked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        approval: Option<String>,
        /// Why not.
        why: String,
    },
    /// A call ended.
    Step {
        /// What kind of thing was called.
        kind: Kind,
        /// What it is called.
        name: String,
        /// How it ended.
        outcome: Outcome,
        /// What that did.
        #[serde(flatten)]
        trace: Trace,
    },
    /// A call ended of which nobody knows what it did, and an operator must decide.
    Held {
        /// What kind of thing was called.
        kind: Kind,
        /// What it is called.
        name: String,
        /// What that did.
        #[serde(flatten)]
        trace: Trace,
    },
    /// Its time in a state was up.
    Timer {
        /// What that did.
        #[serde(flatten)]
        trace: Trace,
    },
    /// An effect of a step ran.
    Effect {
        /// What it is called.
        name: String,
        /// What went wrong, if it failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failed: Option<String>,
    },
    /// An effect failed, and is one that leads somewhere if it fails.
    Diverted {
        /// What it is called.
        effect: String,
        /// What that did.
        #[serde(flatten)]
        trace: Trace,
    },
    /// The client's model was asked what the state asks, and answered or did not.
    Sampled {
        /// Success or error.
        outcome: Outcome,
        /// Why there is no answer, if there is none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
        /// What that did.
        #[serde(flatten)]
        trace: Trace,
    },
    /// The client's model was not asked what the state asks, and nothing changed.
    Unasked {
        /// The state.
        state: String,
        /// Why not.
        why: String,
    },
    /// An operator has found out how a call ended.
    Settled {
        /// How.
        outcome: Outcome,
        /// What that did.
        #[serde(flatten)]
        trace: Trace,
    },
    /// An operator put it into another state.
    Moved {
        /// From where to where.
        #[serde(flatten)]
        trace: Trace,
    },
    /// An operator let it begin anew, with nothing in its memory.
    Reset,
    /// An operator ended it.
    Aborted {
        /// Where that left it.
        #[serde(flatten)]
        trace: Trace,
    },
    /// Its session ended, and it was forgotten.
    Ended,
}

impl What {
    /// Whether it tells of a call that did not run.
    pub(crate) const fn is_unrun(&self) -> bool {
        matches!(self, Self::Refused { .. } | Self::TakenBack { .. })
    }
}

/// Why a journal does not tell where an instance stands.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// It does not begin with the beginning: the rest was pruned.
    #[error("the journal does not begin with the beginning of the instance")]
    NoBeginning,
    /// It is of a format that this version does not know.
    #[error("an entry has format {0}, which is not known")]
    Format(u32),
    /// It belongs to another definition.
    #[error(transparent)]
    Foreign(#[from] UnknownState),
}

impl Entry {
    pub(crate) const fn new(at: u64, call: Option<u64>, what: What) -> Self {
        Self {
            format: FORMAT,
            at,
            call,
            by: None,
            reason: None,
            what,
        }
    }

    /// As it is stored.
    pub(crate) fn written(&self) -> Arc<[u8]> {
        serde_json::to_vec(self).expect("it holds only JSON").into()
    }
}

/// Where the instance stands of which these are all the entries, in order: every step is taken
/// again, and nothing is judged again.
///
/// # Errors
///
/// If the beginning is missing, or the entries belong to another workflow.
///
/// ```
/// use interlock_engine::journal::{Entry, replay};
/// use interlock_workflow::{Workflow, end};
///
/// let flow = Workflow::builder("hello")
///     .state("new", |s| s.initial().tool("greet", |t| t.success("met")))
///     .state("met", |s| s.tool("leave", |t| t.success(end("new"))))
///     .build()?;
/// let entries: Vec<Entry> = serde_json::from_str(r#"[
///     {"format":2,"at":7,"what":"started","workflow":"hello","fingerprint":0},
///     {"format":2,"at":8,"call":1,"what":"step","kind":"tool","name":"greet",
///      "outcome":"success","from":"new","to":"met","enters":true}
/// ]"#)?;
/// let instance = replay(&flow, &entries)?;
/// assert_eq!(flow.state_name(instance.position().state), "met");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn replay<'a>(
    workflow: &Workflow,
    entries: impl IntoIterator<Item = &'a Entry>,
) -> Result<Instance, ReplayError> {
    let mut found = None;
    for entry in entries {
        if entry.format != FORMAT {
            return Err(ReplayError::Format(entry.format));
        }
        match &entry.what {
            What::Started { .. } | What::Reset => found = Some(workflow.start(entry.at)),
            What::Step { trace, .. }
            | What::Held { trace, .. }
            | What::Timer { trace }
            | What::Diverted { trace, .. }
            | What::Sampled { trace, .. }
            | What::Settled { trace, .. }
            | What::Moved { trace }
            | What::Aborted { trace } => {
                let instance = found.as_mut().ok_or(ReplayError::NoBeginning)?;
                instance.retrace(workflow, trace, entry.at)?;
            }
            What::LeftOut { .. } => found = None,
            What::Refused { .. }
            | What::TakenBack { .. }
            | What::Paused { .. }
            | What::Ran { .. }
            | What::Unwritten { .. }
            | What::Unasked { .. }
            | What::Asked { .. }
            | What::Approved { .. }
            | What::Denied { .. }
            | What::Effect { .. }
            | What::Ended => {}
        }
    }
    found.ok_or(ReplayError::NoBeginning)
}

#[cfg(test)]
mod tests;
