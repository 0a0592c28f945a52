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
use serde_json::{Map, Value};
use std::{collections::BTreeMap, sync::Arc};

/// The format in which records are written now.
const FORMAT: u32 = 2;

/// A call that has its turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Running {
    pub(crate) call: u64,
    pub(crate) kind: Kind,
    #[serde(with = "shared_text")]
    pub(crate) name: Arc<str>,
    /// When it must be over, in milliseconds since the epoch: what stands here after that belongs
    /// to a process that has died.
    #[serde(default)]
    pub(crate) until: u64,
    /// Which process runs it.
    #[serde(default, rename = "server")]
    pub(crate) node: u64,
    #[serde(
        default,
        rename = "made",
        skip_serializing_if = "Option::is_none",
        with = "shared"
    )]
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

mod shared {
    use super::{Arc, CallInput, Deserialize, Serialize};
    use serde::{Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        made: &Option<Arc<CallInput>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        made.as_deref().serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Arc<CallInput>>, D::Error> {
        Ok(Option::<CallInput>::deserialize(deserializer)?.map(Arc::new))
    }
}

mod shared_text {
    use super::{Arc, Deserialize};
    use serde::{Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        text: &Arc<str>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(text)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Arc<str>, D::Error> {
        String::deserialize(deserializer).map(Arc::from)
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

/// The whole record.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Stored {
    format: u32,
    workflow: String,
    fingerprint: u64,
    calls: u64,
    run: Record,
    running: Option<Running>,
    /// Another number after each change, not a count.
    #[serde(default)]
    edition: u64,
    /// What operators are asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    asked: Vec<ApprovalRequest>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unclear: Option<Unclear>,
    /// For whom it is kept, if it is behind a handle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    owner: Option<Owner>,
}

/// The principal for whom a handle was made.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Owner {
    /// Anonymous if it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    principal: Option<String>,
}

impl Owner {
    fn new(principal: &Principal) -> Self {
        Self {
            principal: (!principal.is_anonymous()).then(|| principal.id().to_owned()),
        }
    }

    fn into_principal(self) -> Principal {
        self.principal
            .map_or_else(Principal::anonymous, Principal::new)
    }

    fn is(&self, principal: &Principal) -> bool {
        match &self.principal {
            Some(id) => !principal.is_anonymous() && principal.id() == id,
            None => principal.is_anonymous(),
        }
    }
}

/// The part of a record that every format has. It is read first, so that a record of an unknown
/// format is refused by its number.
#[derive(Deserialize)]
struct Format {
    format: u32,
}

/// What a record says.
pub(crate) struct Found {
    pub(crate) run: Run,
    pub(crate) calls: u64,
    pub(crate) running: Option<Running>,
    pub(crate) edition: u64,
    pub(crate) asked: Vec<ApprovalRequest>,
    pub(crate) unclear: Option<Unclear>,
    owner: Option<Owner>,
}

impl Found {
    /// For whom it is kept, if it is behind a handle.
    pub(crate) fn owner(self) -> Option<Principal> {
        self.owner.map(Owner::into_principal)
    }

    /// Whether it is behind a handle that was made for this principal.
    pub(crate) fn is_of(&self, principal: &Principal) -> bool {
        self.owner.as_ref().is_some_and(|owner| owner.is(principal))
    }
}

/// What is stored besides where an instance stands and whose it is.
#[derive(Clone, Copy, Default)]
pub(crate) struct Besides<'a> {
    pub(crate) calls: u64,
    pub(crate) running: Option<&'a Running>,
    pub(crate) edition: u64,
    pub(crate) asked: &'a [ApprovalRequest],
    pub(crate) unclear: Option<&'a Unclear>,
}

/// The record as it is stored.
pub(crate) fn written(
    workflow: &Workflow,
    run: &Run,
    besides: Besides<'_>,
    owner: Option<&Principal>,
) -> Arc<[u8]> {
    let stored = Stored {
        format: FORMAT,
        workflow: workflow.name().to_owned(),
        fingerprint: workflow.fingerprint().0,
        calls: besides.calls,
        run: run.record(workflow),
        running: besides.running.cloned(),
        edition: besides.edition,
        asked: besides.asked.to_vec(),
        unclear: besides.unclear.cloned(),
        owner: owner.map(Owner::new),
    };
    let bytes = serde_json::to_vec(&stored).expect("it holds only JSON");
    bytes.into()
}

/// Reads a record of the present format.
pub(crate) fn read(workflow: &Workflow, record: &Kept) -> Result<Found, EngineError> {
    let bytes = &record.value.bytes;
    let Format { format } = serde_json::from_slice(bytes).map_err(EngineError::Unreadable)?;
    if format != FORMAT {
        return Err(EngineError::Format(format));
    }
    let stored: Stored = serde_json::from_slice(bytes).map_err(EngineError::Unreadable)?;
    if stored.fingerprint != workflow.fingerprint().0 {
        return Err(EngineError::Foreign(stored.workflow));
    }
    let foreign = |_| EngineError::Foreign(stored.workflow);
    Ok(Found {
        run: workflow.restore(stored.run).map_err(foreign)?,
        calls: stored.calls,
        running: stored.running,
        edition: stored.edition,
        asked: stored.asked,
        unclear: stored.unclear,
        owner: stored.owner,
    })
}

/// What can be told of an instance, be it of another definition.
pub(crate) struct Glance {
    pub(crate) workflow: String,
    /// It is of the definition that is served here.
    pub(crate) is_ours: bool,
    pub(crate) state: String,
    pub(crate) finished: bool,
    pub(crate) since: u64,
    pub(crate) due: Option<u64>,
    pub(crate) memory: Map<String, Value>,
    pub(crate) visits: BTreeMap<String, u32>,
    pub(crate) held: Option<interlock_workflow::Held>,
    pub(crate) calls: u64,
    pub(crate) running: Option<Running>,
    pub(crate) asked: Vec<ApprovalRequest>,
}

impl Glance {
    pub(crate) fn of(workflow: &Workflow, run: &Run, calls: u64) -> Self {
        let record = run.record(workflow);
        Self {
            due: run.due(),
            is_ours: true,
            ..Self::recorded(workflow.name().to_owned(), record, calls)
        }
    }

    fn recorded(workflow: String, record: Record, calls: u64) -> Self {
        Self {
            workflow,
            is_ours: false,
            state: record.state,
            finished: record.finished,
            since: record.since,
            due: None,
            memory: record.memory,
            visits: record.visits,
            held: record.held,
            calls,
            running: None,
            asked: Vec::new(),
        }
    }
}

/// Reads a record of whatever definition, as far as it can be told.
pub(crate) fn glance(workflow: &Workflow, record: &Kept) -> Result<Glance, EngineError> {
    match read(workflow, record) {
        Ok(found) => Ok(Glance {
            running: found.running,
            asked: found.asked,
            ..Glance::of(workflow, &found.run, found.calls)
        }),
        Err(EngineError::Foreign(workflow)) => {
            let stored: Result<Stored, _> = serde_json::from_slice(&record.value.bytes);
            let stored = stored.map_err(|_| EngineError::Foreign(workflow))?;
            Ok(Glance {
                running: stored.running,
                ..Glance::recorded(stored.workflow, stored.run, stored.calls)
            })
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden;
    use interlock_proto::Time;
    use interlock_store::{Value as Bytes, Version};
    use interlock_workflow::{Artifact, Workflow, end};

    fn flow(name: &str) -> Workflow {
        Workflow::builder(name)
            .state("a", |s| s.initial().tool("go", |t| t.success("b")))
            .state("b", |s| s.tool("go", |t| t.success(end("a"))))
            .build()
            .unwrap()
    }

    fn reads(workflow: &Workflow, bytes: impl Into<Arc<[u8]>>) -> Result<Found, EngineError> {
        let record = Kept {
            version: Version(1),
            value: Bytes::new(bytes),
        };
        read(workflow, &record)
    }

    /// Checks that a record is written as in its golden file, and read as what was written.
    #[track_caller]
    fn check(
        name: &str,
        workflow: &Workflow,
        run: &Run,
        besides: Besides<'_>,
        owner: Option<&Principal>,
    ) {
        let bytes = written(workflow, run, besides, owner);
        let text = std::str::from_utf8(&bytes).unwrap();
        golden::check(name, &format!("{text}\n"));
        let Found {
            run: found,
            calls,
            running,
            edition,
            asked,
            unclear,
            owner: of,
        } = reads(workflow, bytes).unwrap();
        assert_eq!(found, *run);
        assert_eq!((calls, edition), (besides.calls, besides.edition));
        assert_eq!(running.as_ref(), besides.running);
        assert_eq!(asked, besides.asked);
        assert_eq!(unclear.as_ref(), besides.unclear);
        assert_eq!(of, owner.map(Owner::new));
    }

    /// Everything has a value.
    #[test]
    fn a_full_record_is_as_in_its_golden_file() {
        let flow = flow("a \"w\"");
        let mut record = flow.start(5).record(&flow);
        record.state = "b".to_owned();
        record.finished = true;
        record.since = 1_700_000_000_000;
        record.fired = 1;
        record.memory.insert("order".to_owned(), "A\n7".into());
        record.visits.insert("b".to_owned(), 2);
        record.held = serde_json::from_value(serde_json::json!({
            "artifact": { "kind": "tool", "name": "go" },
            "args": { "amount": 1.5 },
            "principal": { "id": "alice" },
        }))
        .unwrap();
        let run = flow.restore(record).unwrap();
        let alice = Principal::new("alice");
        let running = Running {
            call: 8,
            kind: Kind::Prompt,
            name: "a\nb".into(),
            until: u64::MAX,
            node: 3,
            input: Some(Arc::new(CallInput {
                args: serde_json::json!({ "x": 1 }),
                principal: alice.facts(),
            })),
            question: Some(Box::new(Question {
                principal: Value::Null,
                ticket: Some("t".to_owned()),
            })),
        };
        let (go, args) = (Artifact::new(Kind::Tool, "go"), serde_json::json!([1]));
        let call = (&alice, &go, &args);
        let hour = std::time::Duration::from_secs(3_600);
        let asked = [ApprovalRequest::new(call, "Go?".to_owned(), hour, Time(6))];
        let unclear = Unclear {
            kind: Kind::Tool,
            name: "go".to_owned(),
            repeatable: true,
        };
        let besides = Besides {
            calls: 8,
            running: Some(&running),
            edition: 4,
            asked: &asked,
            unclear: Some(&unclear),
        };
        check("record-full.json", &flow, &run, besides, Some(&alice));
    }

    #[test]
    fn a_minimal_record_is_as_in_its_golden_file() {
        let flow = flow("w");
        let (run, besides) = (flow.start(5), Besides::default());
        check("record-minimal.json", &flow, &run, besides, None);
    }

    #[test]
    fn a_record_of_another_format_is_refused_by_its_number() {
        for format in [1, 9] {
            let record = format!(r#"{{"format": {format}}}"#);
            let refused = reads(&flow("w"), record.into_bytes());
            let refused = refused.err().unwrap().to_string();
            let wanted = format!("the stored instance has format {format}, which is not known");
            assert_eq!(refused, wanted);
        }
    }

    #[test]
    fn a_record_is_of_the_principal_for_whom_it_was_written() {
        let flow = flow("w");
        let everybody = [
            Principal::anonymous(),
            Principal::new("anonymous"),
            Principal::new("alice"),
        ];
        let of = |owner| {
            let bytes = written(&flow, &flow.start(0), Besides::default(), owner);
            let found = reads(&flow, bytes).unwrap();
            everybody.each_ref().map(|one| found.is_of(one))
        };
        assert_eq!(of(None), [false; 3]);
        assert_eq!(of(Some(&everybody[0])), [true, false, false]);
        assert_eq!(of(Some(&everybody[1])), [false, true, false]);
        assert_eq!(of(Some(&everybody[2])), [false, false, true]);
    }

    #[test]
    fn a_record_of_another_definition_is_refused() {
        let (one, other) = (flow("one"), flow("other"));
        let bytes = written(&one, &one.start(0), Besides::default(), None);
        assert!(reads(&one, Arc::clone(&bytes)).is_ok());
        let refused = reads(&other, bytes).err().unwrap();
        assert!(matches!(refused, EngineError::Foreign(name) if name == "one"));
    }
}
