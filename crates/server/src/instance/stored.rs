//! The record of an instance, as it is stored.

use super::{KeepError, keeping::Books};
use crate::{approval::ApprovalRequest, principal::Principal};
use interlock_store::Record as Kept;
use interlock_workflow::{Binding, Call, Instance as Run, Kind, Outcome, Position, Record, json};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::{collections::BTreeMap, ops::Range, sync::Arc};

/// The format in which records are written now.
const FORMAT: u32 = 2;

/// With what a call was made, for those who ask about it later.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Made {
    pub(crate) args: Value,
    /// Who calls; null if nobody knows.
    pub(crate) principal: Value,
}

impl Made {
    /// How deep arguments may nest. Readers of JSON stop at 128 levels, and these are kept inside
    /// other objects.
    pub(crate) const DEEPEST: usize = 100;

    /// Whether what was kept of a call could not be read again.
    pub(crate) fn is_too_deep(args: &Value) -> bool {
        is_deeper(args, Self::DEEPEST)
    }

    /// The call as the gate judges it.
    pub(crate) fn call<'a>(made: Option<&'a Self>, kind: Kind, name: &'a str) -> Call<'a> {
        let Self { args, principal } = made.unwrap_or(&NOTHING);
        Call {
            kind,
            name,
            args,
            principal,
        }
    }
}

/// Whether a value nests deeper than that.
fn is_deeper(value: &Value, most: usize) -> bool {
    let Some(left) = most.checked_sub(1) else {
        return value.is_array() || value.is_object();
    };
    match value {
        Value::Array(items) => items.iter().any(|item| is_deeper(item, left)),
        Value::Object(members) => members.values().any(|member| is_deeper(member, left)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// A call of which nobody wants to know more.
pub(super) static NOTHING: Made = Made {
    args: Value::Null,
    principal: Value::Null,
};

/// A call that has its turn.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Running {
    pub(crate) call: u64,
    pub(crate) kind: Kind,
    #[serde(with = "shared_text")]
    pub(crate) name: Arc<str>,
    /// When it must be over, in milliseconds since the epoch: what stands here after that belongs
    /// to a process that has died.
    #[serde(default)]
    pub(crate) until: u64,
    /// Which server runs it.
    #[serde(default)]
    pub(super) server: u64,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "shared")]
    pub(super) made: Option<Arc<Made>>,
    /// It has ended, and led to a state that asks the client's model, who has not answered yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) question: Option<Box<Question>>,
}

/// A question of a state that is open.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Question {
    /// Who is asked; null if nobody knows.
    pub(super) principal: Value,
    /// What a client comes back with that cannot be asked over its connection. It is made for this
    /// question alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) ticket: Option<String>,
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
    pub(super) fn of(binding: &Binding) -> Option<Self> {
        let says = binding.written_for(Outcome::Unknown) == Some(Outcome::Unknown);
        let artifact = binding.artifact();
        (!says && !binding.holds()).then(|| Self {
            kind: artifact.kind,
            name: artifact.name.clone(),
            repeatable: binding.is_idempotent(),
        })
    }

    /// In words, for the model.
    pub(super) fn told(&self) -> String {
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
    use super::{Arc, Deserialize, Made, Serialize};
    use serde::{Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        made: &Option<Arc<Made>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        made.as_deref().serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Arc<Made>>, D::Error> {
        Ok(Option::<Made>::deserialize(deserializer)?.map(Arc::new))
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
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"call\":");
        json::number(out, self.call);
        out.extend_from_slice(b",\"kind\":");
        json::word(out, self.kind.name());
        out.extend_from_slice(b",\"name\":");
        json::text(out, &self.name);
        out.extend_from_slice(b",\"until\":");
        json::number(out, self.until);
        out.extend_from_slice(b",\"server\":");
        json::number(out, self.server);
        if let Some(made) = self.made.as_deref() {
            out.extend_from_slice(b",\"made\":");
            json::value(out, made);
        }
        if let Some(question) = &self.question {
            out.extend_from_slice(b",\"question\":");
            json::value(out, question);
        }
        out.push(b'}');
    }

    pub(super) fn made(&self) -> &Made {
        self.made.as_deref().unwrap_or(&NOTHING)
    }

    /// What a client comes back with to go on, if that is what is waited for.
    pub(super) fn ticket(&self) -> Option<&str> {
        self.question.as_ref()?.ticket.as_deref()
    }
}

#[derive(Deserialize)]
struct Stored {
    workflow: String,
    fingerprint: u64,
    calls: u64,
    run: Record,
    running: Option<Running>,
    /// How often it has changed.
    #[serde(default)]
    edition: u64,
    /// What operators are asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    asked: Vec<ApprovalRequest>,
    /// For whom it is kept, if it is behind a handle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    owner: Option<Owner>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unclear: Option<Unclear>,
}

/// Whoever a handle was made for.
#[derive(Debug, Serialize, Deserialize)]
struct Owner {
    /// Nobody in particular if it is not said.
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

/// What instances could remember before they could remember anything.
#[derive(Deserialize)]
struct StoredAtFirst {
    workflow: String,
    fingerprint: u64,
    state: String,
    finished: bool,
    calls: u64,
    running: Option<Running>,
}

/// What is to be read before anything else.
#[derive(Deserialize)]
struct Format {
    format: u32,
}

/// What a record says.
pub(super) struct Found {
    pub(super) run: Run,
    pub(super) calls: u64,
    pub(super) running: Option<Running>,
    pub(super) edition: u64,
    pub(super) asked: Vec<ApprovalRequest>,
    pub(super) unclear: Option<Unclear>,
    owner: Option<Owner>,
}

impl Found {
    /// For whom it is kept, if it is behind a handle.
    pub(super) fn owner(self) -> Option<Principal> {
        self.owner.map(Owner::into_principal)
    }

    /// Whether it is behind a handle that was made for this principal.
    pub(super) fn is_of(&self, principal: &Principal) -> bool {
        self.owner.as_ref().is_some_and(|owner| owner.is(principal))
    }
}

/// What is stored besides where an instance stands and whose it is.
#[derive(Clone, Copy, Default)]
pub(super) struct Besides<'a> {
    pub(super) calls: u64,
    pub(super) running: Option<&'a Running>,
    pub(super) edition: u64,
    pub(super) asked: &'a [ApprovalRequest],
    pub(super) unclear: Option<&'a Unclear>,
}

/// A record as it is stored, and where in it the run stands: what did not change need not be
/// written anew.
#[derive(Clone, Debug)]
pub(super) struct Text {
    pub(super) bytes: Arc<[u8]>,
    /// Where the head ends that all records of an instance begin with.
    head: usize,
    run: Range<usize>,
}

impl Text {
    fn head(&self) -> &[u8] {
        &self.bytes[..self.head]
    }

    fn run(&self) -> &[u8] {
        &self.bytes[self.run.clone()]
    }
}

/// Writes a record. If there is one from before, its head still holds, and perhaps what it says of
/// the run.
pub(super) fn written(
    books: &Books<'_>,
    run: &Run,
    besides: Besides<'_>,
    owner: Option<&Principal>,
    before: Option<(&Text, bool)>,
) -> Text {
    let mut out = Vec::with_capacity(before.map_or(512, |(text, _)| text.bytes.len() + 256));
    match before {
        Some((text, _)) => out.extend_from_slice(text.head()),
        None => {
            out.extend_from_slice(b"{\"format\":");
            json::number(&mut out, FORMAT.into());
            out.extend_from_slice(b",\"workflow\":");
            json::text(&mut out, books.workflow.name());
            out.extend_from_slice(b",\"fingerprint\":");
            json::number(&mut out, books.workflow.fingerprint().0);
        }
    }
    let head = out.len();
    out.extend_from_slice(b",\"calls\":");
    json::number(&mut out, besides.calls);
    out.extend_from_slice(b",\"run\":");
    let begin = out.len();
    match before {
        Some((text, true)) => out.extend_from_slice(text.run()),
        Some((_, false)) | None => run.write_record(books.workflow, &mut out),
    }
    let run = begin..out.len();
    out.extend_from_slice(b",\"running\":");
    match besides.running {
        Some(running) => running.write(&mut out),
        None => out.extend_from_slice(b"null"),
    }
    out.extend_from_slice(b",\"edition\":");
    json::number(&mut out, besides.edition);
    if !besides.asked.is_empty() {
        out.extend_from_slice(b",\"asked\":");
        json::value(&mut out, besides.asked);
    }
    if let Some(unclear) = besides.unclear {
        out.extend_from_slice(b",\"unclear\":");
        json::value(&mut out, unclear);
    }
    if let Some(owner) = owner {
        out.extend_from_slice(b",\"owner\":");
        json::value(&mut out, &Owner::new(owner));
    }
    out.push(b'}');
    Text {
        bytes: out.into(),
        head,
        run,
    }
}

/// Reads a record of this format or the one before.
pub(super) fn read(books: &Books<'_>, record: &Kept) -> Result<Found, KeepError> {
    let bytes = &record.value.bytes;
    let Format { format } = serde_json::from_slice(bytes).map_err(KeepError::Unreadable)?;
    let known = books.workflow.fingerprint().0;
    match format {
        1 => {
            let stored: StoredAtFirst =
                serde_json::from_slice(bytes).map_err(KeepError::Unreadable)?;
            let state = books.workflow.state_id(&stored.state);
            let state = state.filter(|_| stored.fingerprint == known);
            let position = Position {
                state: state.ok_or(KeepError::Foreign(stored.workflow))?,
                finished: stored.finished,
            };
            Ok(Found {
                run: position.into(),
                calls: stored.calls,
                running: stored.running,
                edition: stored.calls,
                asked: Vec::new(),
                unclear: None,
                owner: None,
            })
        }
        FORMAT => {
            let stored: Stored = serde_json::from_slice(bytes).map_err(KeepError::Unreadable)?;
            if stored.fingerprint != known {
                return Err(KeepError::Foreign(stored.workflow));
            }
            let foreign = |_| KeepError::Foreign(stored.workflow);
            Ok(Found {
                run: books.workflow.restore(stored.run).map_err(foreign)?,
                calls: stored.calls,
                running: stored.running,
                edition: stored.edition,
                asked: stored.asked,
                unclear: stored.unclear,
                owner: stored.owner,
            })
        }
        other => Err(KeepError::Format(other)),
    }
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
    pub(super) fn of(books: &Books<'_>, run: &Run, calls: u64) -> Self {
        let record = run.record(books.workflow);
        Self {
            due: run.due(),
            is_ours: true,
            ..Self::recorded(books.workflow.name().to_owned(), record, calls)
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
pub(super) fn glance(books: &Books<'_>, record: &Kept) -> Result<Glance, KeepError> {
    match read(books, record) {
        Ok(found) => Ok(Glance {
            running: found.running,
            asked: found.asked,
            ..Glance::of(books, &found.run, found.calls)
        }),
        Err(KeepError::Foreign(workflow)) => {
            let stored: Result<Stored, _> = serde_json::from_slice(&record.value.bytes);
            let stored = stored.map_err(|_| KeepError::Foreign(workflow))?;
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
    use interlock_proto::Time;
    use interlock_store::{MemoryStore, Value as Bytes, Version};
    use interlock_workflow::{Artifact, Workflow, end};

    fn flow(name: &str) -> Workflow {
        Workflow::builder(name)
            .state("a", |s| s.initial().tool("go", |t| t.success("b")))
            .state("b", |s| s.tool("go", |t| t.success(end("a"))))
            .build()
            .unwrap()
    }

    fn reads(workflow: &Workflow, bytes: Vec<u8>) -> Result<Found, KeepError> {
        let store = MemoryStore::default();
        let books = Books {
            store: &store,
            workflow,
            now: Time(0),
            journal_limit: None,
            effects: None,
        };
        let record = Kept {
            version: Version(1),
            value: Bytes::new(bytes),
        };
        read(&books, &record)
    }

    #[test]
    fn a_record_of_the_first_format_is_read() {
        let flow = flow("w");
        let old = serde_json::json!({
            "format": 1, "workflow": "w", "fingerprint": flow.fingerprint().0,
            "state": "b", "finished": false, "calls": 7, "running": null,
        });
        let found = reads(&flow, old.to_string().into()).unwrap();
        assert_eq!(flow.state_name(found.run.position().state), "b");
        assert_eq!(found.calls, 7);
    }

    #[test]
    fn a_record_of_a_format_to_come_is_refused_by_its_number() {
        let refused = reads(&flow("w"), br#"{"format": 9}"#.to_vec());
        let refused = refused.err().unwrap().to_string();
        assert_eq!(
            refused,
            "the stored instance has format 9, which is not known"
        );
    }

    #[test]
    fn a_record_is_of_the_principal_for_whom_it_was_written() {
        let flow = flow("w");
        let store = MemoryStore::default();
        let books = Books {
            store: &store,
            workflow: &flow,
            now: Time(0),
            journal_limit: None,
            effects: None,
        };
        let everybody = [
            Principal::anonymous(),
            Principal::new("anonymous"),
            Principal::new("alice"),
        ];
        let of = |owner| {
            let text = written(&books, &flow.start(0), Besides::default(), owner, None);
            let found = reads(&flow, text.bytes.to_vec()).unwrap();
            everybody.each_ref().map(|one| found.is_of(one))
        };
        assert_eq!(of(None), [false; 3]);
        assert_eq!(of(Some(&everybody[0])), [true, false, false]);
        assert_eq!(of(Some(&everybody[1])), [false, true, false]);
        assert_eq!(of(Some(&everybody[2])), [false, false, true]);
    }

    #[test]
    fn what_is_written_is_read_again_be_it_copied_from_the_record_before() {
        let flow = flow("a \"w\"");
        let store = MemoryStore::default();
        let books = Books {
            store: &store,
            workflow: &flow,
            now: Time(0),
            journal_limit: None,
            effects: None,
        };
        let running = Running {
            call: 8,
            kind: Kind::Prompt,
            name: "a\nb".into(),
            until: u64::MAX,
            server: 3,
            made: Some(Arc::new(Made {
                args: serde_json::json!({ "x": 1 }),
                principal: Value::Null,
            })),
            question: Some(Box::new(Question {
                principal: Value::Null,
                ticket: Some("t".to_owned()),
            })),
        };
        let run = flow.start(5);
        let first = written(&books, &run, Besides::default(), None, None);
        let alice = Principal::new("alice");
        let go = Artifact::new(Kind::Tool, "go");
        let holds = std::time::Duration::from_secs(1);
        let args = serde_json::json!({ "n": 1 });
        let call = (&alice, &go, &args);
        let asked = [ApprovalRequest::new(call, "Go?".to_owned(), holds, Time(0))];
        let unclear = Unclear {
            kind: Kind::Tool,
            name: "go".to_owned(),
            repeatable: true,
        };
        let marks = Besides {
            calls: 8,
            running: Some(&running),
            edition: 4,
            asked: &asked,
            unclear: Some(&unclear),
        };
        let anew = written(&books, &run, marks, Some(&alice), None);
        for holds in [true, false] {
            let before = Some((&first, holds));
            let copied = written(&books, &run, marks, Some(&alice), before);
            assert_eq!(anew.bytes, copied.bytes);
        }
        let found = reads(&flow, anew.bytes.to_vec()).unwrap();
        assert_eq!((found.calls, found.edition), (8, 4));
        assert_eq!(found.asked, asked);
        assert_eq!(found.unclear.as_ref().unwrap().told(), unclear.told());
        assert!(found.run == run && found.is_of(&alice));
        let serde = serde_json::to_value(found.running.unwrap()).unwrap();
        assert_eq!(serde, serde_json::to_value(&running).unwrap());
    }

    #[test]
    fn a_record_of_another_definition_is_refused() {
        let (one, other) = (flow("one"), flow("other"));
        let store = MemoryStore::default();
        let books = Books {
            store: &store,
            workflow: &one,
            now: Time(0),
            journal_limit: None,
            effects: None,
        };
        let text = written(&books, &one.start(0), Besides::default(), None, None);
        let bytes = text.bytes.to_vec();
        assert!(reads(&one, bytes.clone()).is_ok());
        let refused = reads(&other, bytes).err().unwrap();
        assert!(matches!(refused, KeepError::Foreign(name) if name == "one"));
    }
}
