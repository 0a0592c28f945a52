//! The record of an instance, as it is stored.

use crate::{
    approval_rules::ApprovalRequest,
    error::EngineError,
    instance::{CallInput, NO_INPUT},
    principal::Principal,
};
use interlock_store::Record as Kept;
use interlock_workflow::{Binding, Instance as Run, Kind, Outcome, Record, Workflow};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

/// The format in which records are written now.
const FORMAT: u32 = 2;

/// A call that has its turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Running {
    pub(crate) call: u64,
    pub(crate) kind: Kind,
    pub(crate) name: Arc<str>,
    /// When it must be over, in milliseconds since the epoch: what stands here after that belongs
    /// to a process that has died.
    #[serde(default)]
    pub(crate) until: u64,
    /// Which process runs it.
    #[serde(default, rename = "server")]
    pub(crate) node: u64,
    #[serde(default, rename = "made", skip_serializing_if = "Option::is_none")]
    pub(crate) input: Option<Arc<CallInput>>,
    /// It has ended, and led to a state that asks the client's model, who has not answered yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) question: Option<Box<Question>>,
}

/// A question of a state that is open.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Question {
    /// Who is asked; null if nobody knows.
    pub(crate) principal: Value,
    /// What a client comes back with that cannot be asked over its connection. It is made for this
    /// question alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ticket: Option<String>,
}

/// A call that may have taken effect, where the workflow does not say what that means.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Unclear {
    kind: Kind,
    name: String,
    /// It can be run again whatever it did.
    #[serde(default)]
    repeatable: bool,
}

impl Unclear {
    /// What is to be told of a call whose outcome is unknown. Nothing if the workflow leads
    /// somewhere for that, or waits for an operator.
    pub(crate) fn of(binding: &Binding) -> Option<Self> {
        let says = binding.written_for(Outcome::Unknown) == Some(Outcome::Unknown);
        let artifact = binding.artifact();
        (!says && !binding.holds()).then(|| Self {
            kind: artifact.kind,
            name: artifact.name.clone(),
            repeatable: binding.is_idempotent(),
        })
    }

    /// In words, for the model.
    pub(crate) fn text(&self) -> String {
        let Self { kind, name, .. } = self;
        let next = if self.repeatable {
            "It may be repeated safely."
        } else {
            "Find out before you repeat it."
        };
        format!(
            "Nobody knows how an earlier call of {kind} '{name}' ended, and it may have taken \
             effect. {next}"
        )
    }
}

impl Running {
    pub(crate) fn input(&self) -> &CallInput {
        self.input.as_deref().unwrap_or(&NO_INPUT)
    }

    /// What a client comes back with to go on, if that is what is waited for.
    pub(crate) fn ticket(&self) -> Option<&str> {
        self.question.as_ref()?.ticket.as_deref()
    }
}

/// What the record of an instance says.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Written {
    pub(crate) format: u32,
    pub(crate) workflow: String,
    pub(crate) fingerprint: u64,
    pub(crate) calls: u64,
    pub(crate) run: Record,
    pub(crate) running: Option<Arc<Running>>,
    /// Another number after each change, not a count.
    #[serde(default)]
    pub(crate) edition: u64,
    /// What operators are asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) asked: Vec<ApprovalRequest>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) unclear: Option<Unclear>,
    /// For whom it is kept, if it is behind a handle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) owner: Option<Owner>,
}

/// The principal for whom a handle was made.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Owner {
    /// Anonymous if it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    principal: Option<String>,
}

/// The part of a record that every format has. It is read first, so that a record of an unknown
/// format is refused by its number.
#[derive(Deserialize)]
struct Format {
    format: u32,
}

impl Written {
    /// An instance that stands so, of which nothing else is known.
    pub(crate) fn new(workflow: &Workflow, run: &Run, owner: Option<&Principal>) -> Self {
        let named = |owner: &Principal| (!owner.is_anonymous()).then(|| owner.id().to_owned());
        Self {
            format: FORMAT,
            workflow: workflow.name().to_owned(),
            fingerprint: workflow.fingerprint().0,
            calls: 0,
            run: run.record(workflow),
            running: None,
            edition: 0,
            asked: Vec::new(),
            unclear: None,
            owner: owner.map(|owner| Owner {
                principal: named(owner),
            }),
        }
    }

    /// As it is stored.
    pub(crate) fn bytes(&self) -> Arc<[u8]> {
        serde_json::to_vec(self).expect("it holds only JSON").into()
    }

    /// Reads a record of the present format, of whatever workflow.
    pub(crate) fn read(record: &Kept) -> Result<Self, EngineError> {
        let bytes = &record.value.bytes;
        let Format { format } = serde_json::from_slice(bytes).map_err(EngineError::Unreadable)?;
        if format != FORMAT {
            return Err(EngineError::Format(format));
        }
        serde_json::from_slice(bytes).map_err(EngineError::Unreadable)
    }

    /// The instance, if it runs through this very workflow.
    pub(crate) fn run(&self, workflow: &Workflow) -> Result<Run, EngineError> {
        let is_ours = self.fingerprint == workflow.fingerprint().0;
        let run = is_ours.then(|| workflow.restore(self.run.clone()).ok());
        run.flatten()
            .ok_or_else(|| EngineError::Foreign(self.workflow.clone()))
    }

    /// For whom it is kept, if it is behind a handle.
    pub(crate) fn owner(&self) -> Option<Principal> {
        let named = |owner: &Owner| owner.principal.as_deref().map(Principal::new);
        let owner = self.owner.as_ref();
        owner.map(|owner| named(owner).unwrap_or(Principal::ANONYMOUS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden;
    use interlock_store::{Value as Bytes, Version};
    use interlock_workflow::{Workflow, end};

    fn flow(name: &str) -> Workflow {
        Workflow::builder(name)
            .state("a", |s| s.initial().tool("go", |t| t.success("b")))
            .state("b", |s| s.tool("go", |t| t.success(end("a"))))
            .build()
            .unwrap()
    }

    fn record(bytes: impl Into<Arc<[u8]>>) -> Kept {
        Kept {
            version: Version(1),
            value: Bytes::new(bytes),
        }
    }

    /// Everything has a value.
    #[test]
    fn a_full_record_is_as_in_its_golden_file() {
        let flow = flow("a \"w\"");
        let found: Vec<Written> = golden::read("record-full.json");
        let [found] = &found[..] else {
            panic!("it has one line");
        };
        let run = found.run(&flow).unwrap();
        assert_eq!(run.record(&flow), found.run);
        assert_eq!((&*found.run.state, run.held().is_some()), ("b", true));
        assert_eq!((found.calls, found.edition), (8, 4));
        let running = found.running.as_deref().unwrap();
        assert_eq!((running.node, running.ticket()), (3, Some("t")));
        assert_eq!(running.input().principal["id"], "alice");
        assert_eq!(found.asked[0].question, "Go?");
        assert!(found.unclear.as_ref().unwrap().repeatable);
        assert_eq!(found.owner(), Some(Principal::new("alice")));
    }

    #[test]
    fn a_minimal_record_is_as_in_its_golden_file() {
        let flow = flow("w");
        let run = flow.start(5);
        let written = Written::new(&flow, &run, None);
        let golden: Vec<Written> = golden::read("record-minimal.json");
        assert_eq!(golden, [written]);
        assert_eq!(golden[0].run(&flow).unwrap(), run);
    }

    #[test]
    fn a_record_of_another_format_is_refused_by_its_number() {
        for format in [1, 9] {
            let bytes = format!(r#"{{"format": {format}}}"#).into_bytes();
            let refused = Written::read(&record(bytes)).unwrap_err().to_string();
            let wanted = format!("the stored instance has format {format}, which is not known");
            assert_eq!(refused, wanted);
        }
    }

    #[test]
    fn a_record_is_of_the_principal_for_whom_it_was_written() {
        let flow = flow("w");
        let of = |owner: Option<&Principal>| {
            let bytes = Written::new(&flow, &flow.start(0), owner).bytes();
            Written::read(&record(bytes)).unwrap().owner()
        };
        assert_eq!(of(None), None);
        for name in [None, Some("anonymous"), Some("alice")] {
            let owner = name.map_or_else(Principal::anonymous, Principal::new);
            assert_eq!(of(Some(&owner)), Some(owner));
        }
    }

    #[test]
    fn a_record_of_another_definition_is_refused() {
        let (one, other) = (flow("one"), flow("other"));
        let written = Written::new(&one, &one.start(0), None);
        assert!(written.run(&one).is_ok());
        let refused = written.run(&other).unwrap_err();
        assert!(matches!(refused, EngineError::Foreign(name) if name == "one"));
    }
}
