//! What a run is told in: names for edges, times, refusals.

use super::Reply;
use interlock::workflow::{Binding, Call, Cause, Edge, EdgeId, Kind, Outcome, Position, Workflow};
use serde_json::{Value, json};
use std::time::Duration;

/// How alike two names must be, from 0 to 1, before one is offered for the other.
const ALIKE: f64 = 0.8;

/// Longer names are not compared.
const LONGEST_NAME: usize = 64;

/// Longer guards are not repeated in the name of an edge.
const LONGEST_GUARD: usize = 60;

/// An edge as people call it: `found: refund (timeout) -> review`.
pub(crate) fn edge_name(workflow: &Workflow, id: EdgeId) -> String {
    let edge = workflow.edge(id);
    let cause = match &edge.cause {
        Cause::Call { artifact, outcome } => match outcome {
            Outcome::Success => artifact.name.clone(),
            Outcome::Error | Outcome::Timeout | Outcome::Cancelled | Outcome::Unknown => {
                format!("{} ({outcome})", artifact.name)
            }
        },
        Cause::Time { after } => format!("after {}", spelt(*after)),
        Cause::Sampling { outcome } => format!("model ({outcome})"),
    };
    format!(
        "{}: {cause} -> {}{}",
        workflow.state_name(edge.from),
        workflow.state_name(edge.to),
        condition(workflow, id, edge)
    )
}

/// The binding whose call takes an edge, if a call does.
pub(crate) fn binding_of<'w>(workflow: &'w Workflow, edge: &Edge) -> Option<&'w Binding> {
    let Cause::Call { artifact, .. } = &edge.cause else {
        return None;
    };
    let mut bindings = workflow.bindings(edge.from).iter();
    bindings.find(|binding| binding.artifact() == artifact)
}

/// What tells an edge from the others of the same cause.
fn condition(workflow: &Workflow, id: EdgeId, edge: &Edge) -> String {
    match edge.when.as_ref().map(ToString::to_string) {
        Some(guard) if guard.chars().count() > LONGEST_GUARD => {
            let start: String = guard.chars().take(LONGEST_GUARD).collect();
            format!(" when {start}…")
        }
        Some(guard) => format!(" when {guard}"),
        None => {
            let mut others = workflow.edges_from(edge.from);
            let is_last = others.any(|(other, of)| other != id && of.cause == edge.cause);
            if is_last { " otherwise" } else { "" }.to_owned()
        }
    }
}

/// How many names are told before the rest is only counted.
const MOST_NAMES: usize = 20;

/// The first few names, and how many more there are.
pub(crate) fn some(names: &[String]) -> Vec<String> {
    let mut told: Vec<_> = names.iter().take(MOST_NAMES).cloned().collect();
    if names.len() > MOST_NAMES {
        told.push(format!("and {} more", names.len() - MOST_NAMES));
    }
    told
}

/// How many characters of a text of others are told.
const LONGEST_TOLD: usize = 200;

/// A text of others, or its beginning if it is long.
pub(crate) fn shortened(text: &str) -> String {
    match text.char_indices().nth(LONGEST_TOLD) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

/// A time in the units that a file has: `1h 30m`.
pub(crate) fn spelt(time: Duration) -> String {
    let mut left = time.as_millis();
    let units = [
        (86_400_000, "d"),
        (3_600_000, "h"),
        (60_000, "m"),
        (1_000, "s"),
        (1, "ms"),
    ];
    let mut words = Vec::new();
    for (unit, name) in units {
        if left >= unit {
            words.push(format!("{}{name}", left / unit));
            left %= unit;
        }
    }
    match words.is_empty() {
        true => "0s".to_owned(),
        false => words.join(" "),
    }
}

/// Where an instance stands.
pub(super) fn place(workflow: &Workflow, at: Position) -> String {
    let state = workflow.state_name(at.state);
    match at.finished {
        true => format!("finished in state {state}"),
        false => format!("in state {state}"),
    }
}

/// What the catalogue calls the refusals that a run can meet.
pub(crate) const fn refusal_name(code: u16) -> &'static str {
    match code {
        1021 => "invalid_params",
        1022 => "invalid_json_schema",
        1046 => "resource_not_found",
        1048 => "tool_not_found",
        1050 => "prompt_not_found",
        1069 => "timeout",
        1071 => "approval_pending",
        1081 => "not_in_state",
        1082 => "guard_failed",
        1083 => "approval_denied",
        1084 => "instance_busy",
        1085 => "instance_finished",
        _ => "refused",
    }
}

/// What a call comes to of which nobody said what. One that did not come to its end comes to
/// nothing.
pub(super) fn plain_result(call: &Call<'_>, outcome: Outcome) -> Option<Value> {
    let text = match outcome {
        Outcome::Success => "(dry) success",
        Outcome::Error => "(dry) error",
        Outcome::Timeout | Outcome::Cancelled | Outcome::Unknown => return None,
    };
    Some(match (call.kind, outcome) {
        (Kind::Tool, Outcome::Error) => {
            json!({ "content": [{ "type": "text", "text": text }], "isError": true })
        }
        (Kind::Tool, _) => json!({ "content": [{ "type": "text", "text": text }] }),
        (Kind::Resource, Outcome::Success) => {
            json!({ "contents": [{ "uri": call.name, "text": text }] })
        }
        (Kind::Prompt, Outcome::Success) => {
            let content = json!({ "type": "text", "text": text });
            json!({ "messages": [{ "role": "user", "content": content }] })
        }
        (Kind::Resource | Kind::Prompt, _) => return None,
    })
}

/// An answer of the client's model that is this text.
pub(crate) fn text_answer(text: &str) -> Reply {
    let content = json!({ "type": "text", "text": text });
    Some(json!({ "role": "assistant", "content": content, "model": "dry" }))
}

/// Whether two values are the same; 5 and 5.0 are.
pub(crate) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            let there = |(key, a)| b.get(key).is_some_and(|b| same(a, b));
            a.len() == b.len() && a.iter().all(there)
        }
        (
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_)
            | Value::Object(_),
            _,
        ) => a == b,
    }
}

/// The name that was probably meant.
pub(crate) fn nearest<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    if wanted.len() > LONGEST_NAME {
        return None;
    }
    let names = names.filter(|name| name.len() <= LONGEST_NAME);
    let scored = names.map(|name| (strsim::jaro_winkler(wanted, name), name));
    let alike = scored.filter(|(alike, _)| *alike >= ALIKE);
    let best = alike.max_by(|(a, _), (b, _)| a.total_cmp(b))?;
    Some(best.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_spelt_in_the_units_of_a_file() {
        for (milliseconds, words) in [
            (0, "0s"),
            (250, "250ms"),
            (90_000, "1m 30s"),
            (5_400_000, "1h 30m"),
            (86_400_000, "1d"),
        ] {
            assert_eq!(spelt(Duration::from_millis(milliseconds)), words);
        }
    }

    #[test]
    fn a_long_list_of_names_is_cut() {
        let names: Vec<_> = (0..25).map(|n| n.to_string()).collect();
        let told = some(&names);
        assert_eq!((told.len(), &*told[20]), (21, "and 5 more"));
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(shortened(&"é".repeat(200)), "é".repeat(200));
        assert_eq!(shortened(&"é".repeat(201)), format!("{}…", "é".repeat(200)));
    }

    #[test]
    fn numbers_are_the_same_however_they_are_written() {
        assert!(same(&json!({"a": [5, "x"]}), &json!({"a": [5.0, "x"]})));
        assert!(!same(&json!({"a": 5}), &json!({"a": 5, "b": 1})));
        assert!(!same(&json!([1]), &json!([1, 2])));
        assert!(!same(&json!(1), &json!("1")));
        assert!(!same(&json!(null), &json!(false)));
    }

    #[test]
    fn a_slip_finds_the_name_that_was_meant() {
        let names = || ["found", "review", "paid"].into_iter();
        assert_eq!(nearest("fuond", names()), Some("found"));
        assert_eq!(nearest("xyz", names()), None);
        assert_eq!(nearest(&"f".repeat(100), names()), None);
    }
}
