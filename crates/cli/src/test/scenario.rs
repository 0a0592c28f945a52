//! Scenario files: what is called, how it ends, and what is expected to come of it.

use super::mistake::Mistake;
use crate::simulate::{Consent, Inventory, Reply, Stub, nearest};
use interlock::workflow::{
    Kind, Outcome, Workflow,
    file::{DurationFault, parse_duration},
};
use serde::{
    Deserialize, Deserializer,
    de::{
        MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer, value::SeqAccessDeserializer,
    },
};
use serde_json::{Map, Value};
use serde_saphyr::{Location, Spanned};
use std::{collections::BTreeSet, fmt, time::Duration};

/// Longer files are not read.
pub(super) const MOST_BYTES: usize = 1_000_000;

/// How many lists and maps may be inside each other.
const DEEPEST: usize = 64;

/// How many values, lists and maps a file may hold, those that aliases stand for included.
const MOST_NODES: usize = 100_000;

/// One story, from a new instance on.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scenario {
    pub(super) name: String,
    /// Who calls; null if nobody says.
    pub(super) principal: Value,
    pub(super) steps: Vec<Step>,
}

/// One thing that happens, and what is expected of it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Step {
    pub(super) action: Action,
    pub(super) expect: Expect,
    pub(super) line: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Action {
    Call {
        kind: Kind,
        name: String,
        args: Value,
        stub: Stub,
    },
    Wait(Duration),
    Settle(Outcome),
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call { kind, name, .. } => match kind {
                Kind::Tool => write!(f, "call {name}"),
                Kind::Resource => write!(f, "read {name}"),
                Kind::Prompt => write!(f, "get {name}"),
            },
            Self::Wait(time) => write!(f, "wait {}", crate::simulate::spelt(*time)),
            Self::Settle(outcome) => write!(f, "settle {outcome}"),
        }
    }
}

/// What is expected after a step. What is not named may be as it likes, but a refusal is expected
/// by its code.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Expect {
    pub(super) state: Option<String>,
    pub(super) ended: Option<Ended>,
    pub(super) refused: Option<u16>,
    /// Exactly what is callable, by kind.
    pub(super) lists: Vec<(Kind, BTreeSet<String>)>,
    /// What is remembered among other things; null is nothing.
    pub(super) ctx: Map<String, Value>,
    pub(super) effects: Option<Vec<String>>,
    /// What the refusal or the question to a person holds.
    pub(super) text: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    No,
    Anywhere,
    In(String),
}

/// Reads a scenario file, and compares its names with those of the workflow.
pub(super) fn read(
    text: &str,
    workflow: &Workflow,
    inventory: &Inventory<'_>,
) -> Result<Vec<Scenario>, Vec<Mistake>> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_documents: 1,
            max_depth: DEEPEST,
            flow_nesting_limit: DEEPEST,
            max_nodes: MOST_NODES,
            max_events: 3 * MOST_NODES,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: MOST_NODES,
        },
        strict_booleans: true,
        with_snippet: false,
    };
    let document: Document =
        serde_saphyr::from_str_with_options(text, options).map_err(|error| vec![error.into()])?;
    let mut reader = Reader {
        workflow,
        inventory,
        mistakes: Vec::new(),
    };
    let scenarios = document.scenarios.into_iter();
    let scenarios: Vec<_> = scenarios.map(|raw| reader.scenario(raw)).collect();
    let mut mistakes = reader.mistakes;
    mistakes.sort();
    match mistakes.is_empty() {
        true => Ok(scenarios),
        false => Err(mistakes),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    scenarios: Vec<RawScenario>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawScenario {
    name: String,
    #[serde(default)]
    principal: Value,
    steps: Spanned<Vec<Spanned<RawStep>>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawStep {
    call: Option<Spanned<String>>,
    read: Option<Spanned<String>>,
    get: Option<Spanned<String>>,
    wait: Option<Spanned<String>>,
    settle: Option<Spanned<Outcome>>,
    args: Option<Map<String, Value>>,
    outcome: Option<Outcome>,
    result: Option<Value>,
    approve: Option<Consent>,
    #[serde(deserialize_with = "one_or_several")]
    sampling: Vec<RawAnswer>,
    expect: Option<RawExpect>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawAnswer {
    outcome: Answered,
    result: Option<Value>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Answered {
    Success,
    Error,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawExpect {
    state: Option<Spanned<String>>,
    ended: Option<Spanned<Value>>,
    refused: Option<u16>,
    tools: Option<Vec<Spanned<String>>>,
    resources: Option<Vec<Spanned<String>>>,
    prompts: Option<Vec<Spanned<String>>>,
    ctx: Map<String, Value>,
    effects: Option<Vec<String>>,
    text: Option<String>,
}

/// One answer of the client's model, or a list of them.
fn one_or_several<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<RawAnswer>, D::Error> {
    struct OneOrSeveral;

    impl<'de> Visitor<'de> for OneOrSeveral {
        type Value = Vec<RawAnswer>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an answer such as { outcome: success, result: {} }, or a list of them")
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
            RawAnswer::deserialize(MapAccessDeserializer::new(map)).map(|answer| vec![answer])
        }

        fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
            Vec::deserialize(SeqAccessDeserializer::new(list))
        }
    }

    from.deserialize_any(OneOrSeveral)
}

/// Compares what was written with what there is.
struct Reader<'a> {
    workflow: &'a Workflow,
    inventory: &'a Inventory<'a>,
    mistakes: Vec<Mistake>,
}

impl Reader<'_> {
    fn scenario(&mut self, raw: RawScenario) -> Scenario {
        if raw.steps.value.is_empty() {
            self.mistake(
                raw.steps.referenced,
                "a scenario has at least one step",
                None,
            );
        }
        let steps = raw.steps.value.into_iter();
        Scenario {
            name: raw.name,
            principal: raw.principal,
            steps: steps.filter_map(|step| self.step(step)).collect(),
        }
    }

    fn step(
        &mut self,
        Spanned {
            value, referenced, ..
        }: Spanned<RawStep>,
    ) -> Option<Step> {
        let mut raw = value;
        let expect = self.expect(raw.expect.take().unwrap_or_default());
        let calls = [
            (Kind::Tool, raw.call.take()),
            (Kind::Resource, raw.read.take()),
            (Kind::Prompt, raw.get.take()),
        ];
        let mut actions = Vec::new();
        for (kind, name) in calls {
            if let Some(name) = name {
                self.artifact(kind, &name);
                actions.push(call(kind, name.value, &mut raw));
            }
        }
        let mut written = actions.len();
        if let Some(time) = raw.wait.take() {
            written += 1;
            actions.extend(self.time(&time).map(Action::Wait));
        }
        if let Some(outcome) = raw.settle.take() {
            written += 1;
            actions.extend(self.decision(&outcome).map(Action::Settle));
        }
        // A call has taken what belongs to it.
        if written > 0 && raw.is_of_calls() {
            self.mistake(
                referenced,
                "only a step that calls something has `args`, `outcome`, `result`, `approve` or `sampling`",
                None,
            );
        }
        if written != 1 {
            let what = "a step has exactly one of `call`, `read`, `get`, `wait` and `settle`";
            self.mistake(referenced, what, None);
        }
        Some(Step {
            action: actions.pop()?,
            expect,
            line: referenced.line(),
        })
    }

    fn expect(&mut self, raw: RawExpect) -> Expect {
        if let Some(state) = &raw.state {
            self.state(&state.value, state.referenced);
        }
        let ended = raw.ended.and_then(|ended| self.ended(ended));
        let mut lists = Vec::new();
        for (kind, names) in [
            (Kind::Tool, raw.tools),
            (Kind::Resource, raw.resources),
            (Kind::Prompt, raw.prompts),
        ] {
            let Some(names) = names else { continue };
            for name in &names {
                self.artifact(kind, name);
            }
            let names = names.into_iter().map(|name| name.value);
            lists.push((kind, names.collect()));
        }
        Expect {
            state: raw.state.map(|state| state.value),
            ended,
            refused: raw.refused,
            lists,
            ctx: raw.ctx,
            effects: raw.effects,
            text: raw.text,
        }
    }

    fn artifact(&mut self, kind: Kind, name: &Spanned<String>) {
        if self.inventory.may_have(self.workflow, kind, &name.value) {
            return;
        }
        let own = self.inventory.names(kind);
        let names = self.workflow.artifacts(kind).chain(own);
        let meant = nearest(&name.value, names).map(str::to_owned);
        let what = format!("there is no {kind} `{}`", name.value);
        self.mistake(name.referenced, what, meant.as_deref());
    }

    fn state(&mut self, name: &str, at: Location) {
        if self.workflow.state_id(name).is_some() {
            return;
        }
        let workflow = self.workflow;
        let names = workflow.states().map(|state| workflow.state_name(state));
        let meant = nearest(name, names).map(str::to_owned);
        self.mistake(at, format!("there is no state `{name}`"), meant.as_deref());
    }

    fn ended(
        &mut self,
        Spanned {
            value, referenced, ..
        }: Spanned<Value>,
    ) -> Option<Ended> {
        match value {
            Value::Bool(true) => Some(Ended::Anywhere),
            Value::Bool(false) => Some(Ended::No),
            Value::String(name) => {
                self.state(&name, referenced);
                Some(Ended::In(name))
            }
            Value::Null | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                let what = "`ended` is true, false or the name of a state";
                self.mistake(referenced, what, None);
                None
            }
        }
    }

    fn time(&mut self, written: &Spanned<String>) -> Option<Duration> {
        let fault = match parse_duration(&written.value) {
            Ok(time) => return Some(time),
            Err(fault) => fault,
        };
        let meant = match fault {
            DurationFault::NoUnit => Some(format!("{}s", written.value)),
            DurationFault::Malformed | DurationFault::Zero | DurationFault::TooLong => None,
        };
        let what = format!(
            "`{}` {fault}: write a time such as 30s, 10m or 2h",
            written.value
        );
        self.mistake(written.referenced, what, meant.as_deref());
        None
    }

    fn decision(&mut self, outcome: &Spanned<Outcome>) -> Option<Outcome> {
        match outcome.value {
            Outcome::Unknown => {
                let what = "`settle` says how the call ended, so it cannot be unknown";
                self.mistake(outcome.referenced, what, None);
                None
            }
            Outcome::Success | Outcome::Error | Outcome::Timeout | Outcome::Cancelled => {
                Some(outcome.value)
            }
        }
    }

    fn mistake(&mut self, at: Location, what: impl Into<String>, meant: Option<&str>) {
        self.mistakes.push(Mistake::new(at, what, meant));
    }
}

impl RawStep {
    /// Whether it says something that only a call can have.
    fn is_of_calls(&self) -> bool {
        self.args.is_some()
            || self.outcome.is_some()
            || self.result.is_some()
            || self.approve.is_some()
            || !self.sampling.is_empty()
    }
}

fn call(kind: Kind, name: String, raw: &mut RawStep) -> Action {
    let answers = std::mem::take(&mut raw.sampling).into_iter();
    Action::Call {
        kind,
        name,
        args: Value::Object(raw.args.take().unwrap_or_default()),
        stub: Stub {
            outcome: raw.outcome.take(),
            result: raw.result.take(),
            consent: raw.approve.take().unwrap_or_default(),
            answers: answers.map(answer).collect(),
        },
    }
}

fn answer(raw: RawAnswer) -> Reply {
    match raw.outcome {
        Answered::Success => Some(raw.result.unwrap_or_else(|| Value::Object(Map::new()))),
        Answered::Error => None,
    }
}
