//! What an instance goes through, as its journal tells it.
//!
//! Entries become known together with the change they tell of, in one commit where a store was given,
//! so a journal that is kept whole gives the present state: [`replay`] takes every step again.

use interlock_workflow::{
    Binding, BindingId, EdgeId, Instance, Kind, Outcome, Step, Trace, UnknownState, Workflow, json,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The format in which entries are written now.
pub const FORMAT: u32 = 2;

/// One thing that happened to an instance.
///
/// ```
/// use interlock::journal::Entry;
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
    /// So much happened at once that this was not written down, or the store could not be reached.
    Unwritten {
        /// How many calls were refused, or taken back before they ran.
        refusals: u64,
        /// How many calls ended that could not move the instance.
        #[serde(default, skip_serializing_if = "is_zero")]
        ran: u64,
        /// How much else: effects that ran, handlers that paused, questions and what came of them.
        #[serde(default, skip_serializing_if = "is_zero")]
        others: u64,
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

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
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
}

impl Entry {
    /// As it is stored.
    pub(crate) fn written(&self) -> Arc<[u8]> {
        serde_json::to_vec(self).expect("it holds only JSON").into()
    }

    pub(crate) fn told(&self) -> Told {
        let (at, entry) = (self.at, self.written());
        Told::Written { at, entry }
    }
}

/// What a journal is to say. Most of it is the end of a call that took a step along an edge, of
/// which little has to be kept until somebody wants to read it.
#[derive(Clone, Debug)]
pub(crate) enum Told {
    /// An entry as it is stored.
    Written { at: u64, entry: Arc<[u8]> },
    /// The end of a call, of which the edge says everything else.
    Usual { at: u64, call: u64, edge: EdgeId },
    /// The end of a call that could not move the instance.
    Ran {
        at: u64,
        bound: BindingId,
        outcome: Outcome,
    },
}

impl Told {
    /// When it happened.
    pub(crate) const fn at(&self) -> u64 {
        match self {
            Self::Written { at, .. } | Self::Usual { at, .. } | Self::Ran { at, .. } => *at,
        }
    }

    /// The same, as if it had happened then.
    pub(crate) fn happened(self, then: u64) -> Self {
        match self {
            Self::Usual { call, edge, .. } => Self::Usual {
                at: then,
                call,
                edge,
            },
            Self::Ran { bound, outcome, .. } => Self::Ran {
                at: then,
                bound,
                outcome,
            },
            Self::Written { at, entry } => match serde_json::from_slice(&entry) {
                Ok(entry) => Entry { at: then, ..entry }.told(),
                // It was written here, so this does not happen.
                Err(_) => Self::Written { at, entry },
            },
        }
    }

    /// The entry as it is stored.
    pub(crate) fn written(&self, workflow: &Workflow) -> Arc<[u8]> {
        match self {
            Self::Written { entry, .. } => Arc::clone(entry),
            Self::Ran { at, bound, outcome } => {
                ran(*at, workflow.binding(*bound), *outcome, workflow).written()
            }
            Self::Usual { at, call, edge } => {
                let told = workflow.edge(*edge).told();
                let mut out = begun(*at, *call, told.len());
                out.extend_from_slice(b",\"what\":\"step\",");
                out.extend_from_slice(told);
                out.push(b'}');
                out.into()
            }
        }
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

/// The beginning of the entry of a call, and room for the rest.
fn begun(at: u64, call: u64, rest: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(rest + 128);
    out.extend_from_slice(b"{\"format\":2,\"at\":");
    json::number(&mut out, at);
    out.extend_from_slice(b",\"call\":");
    json::number(&mut out, call);
    out
}

/// A call that ended, as far as its step does not tell.
pub(crate) struct Ended<'a> {
    pub(crate) at: u64,
    pub(crate) call: u64,
    pub(crate) kind: Kind,
    pub(crate) name: &'a str,
    pub(crate) outcome: Outcome,
}

impl Ended<'_> {
    /// What the journal says of it, without making an entry first.
    pub(crate) fn told(&self, workflow: &Workflow, step: &Step<'_>) -> Told {
        let (at, call) = (self.at, self.call);
        match step.usual(workflow, self.outcome) {
            Some(edge) => Told::Usual { at, call, edge },
            None => {
                let entry = self.written(workflow, step);
                Told::Written { at, entry }
            }
        }
    }

    fn written(&self, workflow: &Workflow, step: &Step<'_>) -> Arc<[u8]> {
        let mut out = begun(self.at, self.call, self.name.len() + 128);
        out.extend_from_slice(match step.held {
            Some(_) => b",\"what\":\"held\",\"kind\":",
            None => b",\"what\":\"step\",\"kind\":",
        });
        json::word(&mut out, self.kind.name());
        out.extend_from_slice(b",\"name\":");
        json::text(&mut out, self.name);
        if step.held.is_none() {
            out.extend_from_slice(b",\"outcome\":");
            json::word(&mut out, self.outcome.name());
        }
        out.push(b',');
        step.write_trace(workflow, &mut out);
        out.push(b'}');
        out.into()
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
/// use interlock::{Workflow, journal::{Entry, replay}, workflow::end};
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
mod tests {
    use super::*;
    use interlock_workflow::{End, Pass, end, to};

    fn flow() -> Workflow {
        Workflow::builder("w")
            .state("a", |s| s.initial().tool("go", |t| t.success("b")))
            .state("b", |s| s.tool("go", |t| t.success(end("a"))))
            .build()
            .unwrap()
    }

    fn entry(at: u64, what: What) -> Entry {
        Entry::new(at, None, what)
    }

    fn started() -> What {
        What::Started {
            workflow: "w".to_owned(),
            fingerprint: 0,
        }
    }

    #[test]
    fn what_operators_do_is_replayed() {
        let flow = flow();
        let moved = What::Moved {
            trace: Trace::put("a", "b"),
        };
        let mut entries = vec![entry(1, started()), entry(5, moved)];
        let state = |entries: &[Entry]| {
            let instance = replay(&flow, entries).unwrap();
            let position = instance.position();
            (flow.state_name(position.state).to_owned(), instance)
        };
        let (name, instance) = state(&entries);
        assert_eq!(name, "b");
        assert_eq!(instance.visits(flow.state_id("b").unwrap()), 1);
        let aborted = What::Aborted {
            trace: Trace::abort("b"),
        };
        entries.push(entry(7, aborted));
        let (name, instance) = state(&entries);
        assert_eq!((&*name, instance.position().finished), ("b", true));
        entries.push(entry(9, What::Reset));
        assert_eq!(state(&entries).1, flow.start(9));
    }

    #[test]
    fn a_journal_that_was_cut_or_is_of_something_else_tells_nothing() {
        let flow = flow();
        let step = |to| What::Timer {
            trace: Trace::put("a", to),
        };
        let cut = [entry(1, step("b"))];
        assert_eq!(replay(&flow, &cut), Err(ReplayError::NoBeginning));
        assert_eq!(replay(&flow, &[]), Err(ReplayError::NoBeginning));
        let other = [entry(1, started()), entry(2, step("elsewhere"))];
        let mut gap = vec![entry(1, started()), entry(2, What::LeftOut { entries: 3 })];
        assert_eq!(replay(&flow, &gap), Err(ReplayError::NoBeginning));
        gap.push(entry(3, step("b")));
        assert_eq!(replay(&flow, &gap), Err(ReplayError::NoBeginning));
        let foreign = ReplayError::Foreign(UnknownState("elsewhere".to_owned()));
        assert_eq!(replay(&flow, &other), Err(foreign));
        let mut newer = entry(1, started());
        newer.format = 99;
        assert_eq!(replay(&flow, &[newer]), Err(ReplayError::Format(99)));
    }

    #[test]
    fn what_is_written_by_hand_of_the_end_of_a_call_is_its_entry() {
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
        for ((kind, name), outcome) in ways {
            let (binding, end) = (bound(kind, name), End::from(outcome));
            let steps = [&instance, &elsewhere].map(|from| flow.step(from, binding, &end));
            let finishing = steps.clone().map(Step::finishing);
            for step in steps.into_iter().chain(finishing) {
                let ended = Ended {
                    at: 7,
                    call: 3,
                    kind,
                    name,
                    outcome,
                };
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
                let written = ended.told(&flow, &step).written(&flow);
                let read: Entry = serde_json::from_slice(&written).unwrap();
                assert_eq!(read, Entry::new(7, Some(3), what), "{outcome}");
            }
        }
    }

    #[test]
    fn entries_survive_being_written() {
        let trace = Trace::put("a", "b");
        for what in [
            started(),
            What::Refused {
                kind: Kind::Tool,
                name: "x".to_owned(),
                code: 1081,
                why: "no".to_owned(),
            },
            What::TakenBack {
                kind: Kind::Tool,
                name: "x".to_owned(),
            },
            What::Paused {
                kind: Kind::Tool,
                name: "x".to_owned(),
            },
            What::Unwritten {
                refusals: 3,
                ran: 2,
                others: 1,
            },
            What::LeftOut { entries: 3 },
            What::Ran {
                kind: Kind::Prompt,
                name: "p".to_owned(),
                outcome: Outcome::Timeout,
                state: "a".to_owned(),
            },
            What::Asked {
                kind: Kind::Tool,
                name: "pay".to_owned(),
                question: "Pay?".to_owned(),
                approval: Some("1f".to_owned()),
            },
            What::Approved {
                kind: Kind::Tool,
                name: "pay".to_owned(),
                approval: None,
            },
            What::Denied {
                kind: Kind::Tool,
                name: "pay".to_owned(),
                approval: None,
                why: "no".to_owned(),
            },
            What::Step {
                kind: Kind::Prompt,
                name: "p".to_owned(),
                outcome: Outcome::Unknown,
                trace: trace.clone(),
            },
            What::Timer {
                trace: trace.clone(),
            },
            What::Effect {
                name: "mail".to_owned(),
                failed: Some("no".to_owned()),
            },
            What::Diverted {
                effect: "mail".to_owned(),
                trace: trace.clone(),
            },
            What::Sampled {
                outcome: Outcome::Error,
                why: Some("no".to_owned()),
                trace,
            },
            What::Unasked {
                state: "a".to_owned(),
                why: "no".to_owned(),
            },
            What::Reset,
            What::Ended,
        ] {
            let entry = Entry::new(3, Some(4), what);
            let written = serde_json::to_vec(&entry).unwrap();
            assert_eq!(serde_json::from_slice::<Entry>(&written).unwrap(), entry);
        }
    }
}
