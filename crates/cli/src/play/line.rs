//! One line of a script, or of what is typed.

use super::{
    dry::{Prepared, outcome_named},
    person::consent_named,
    session::Action,
};
use crate::simulate::text_answer;
use interlock::workflow::{Outcome, file::parse_duration};
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// What a line means.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Meaning {
    /// A comment, or nothing.
    Nothing,
    Do(Action),
    List,
    State,
    /// What is remembered.
    Memory,
    Prepare(Prepared),
    Expect(Expectation),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expectation {
    State(String),
    Tools(BTreeSet<String>),
    /// What is remembered under a key; null is nothing.
    Memory(String, Value),
    /// Of the last step.
    Last(Ended),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Ended {
    Refused(u64),
    Text(String),
    Error,
    Ok,
}

impl Meaning {
    /// Whether it is about time, memory or how calls end, which only a dry run decides.
    pub(super) fn needs_dry(&self) -> bool {
        match self {
            Self::Nothing | Self::List | Self::State => false,
            Self::Memory => true,
            Self::Prepare(prepared) => match prepared {
                Prepared::Consent(_) => false,
                Prepared::Outcome(_) | Prepared::Result(_) | Prepared::Answer(_) => true,
            },
            Self::Do(action) => match action {
                Action::Call(..) | Action::Read(_) | Action::Get(..) => false,
                Action::Wait(_) | Action::Settle(_) => true,
            },
            Self::Expect(expectation) => match expectation {
                Expectation::State(_) | Expectation::Tools(_) | Expectation::Last(_) => false,
                Expectation::Memory(..) => true,
            },
        }
    }
}

pub(super) fn parse(line: &str) -> Result<Meaning, String> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(Meaning::Nothing);
    }
    let (verb, rest) = split(line);
    match verb {
        "list" | "state" if !rest.is_empty() => Err(format!("`{verb}` stands alone")),
        "list" => Ok(Meaning::List),
        "state" => Ok(Meaning::State),
        "expect" => expectation(rest).map(Meaning::Expect),
        "approve" => consent(rest).map(Meaning::Prepare),
        _ => match (action(line)?, dry(line)?) {
            (Some(action), _) => Ok(Meaning::Do(action)),
            (None, Some(meaning)) => Ok(meaning),
            (None, None) => Err(format!(
                "no step `{verb}`; there are: call, read, get, approve, list, state, expect, and \
                 with --dry: outcome, result, sampling, wait, settle, ctx"
            )),
        },
    }
}

/// What only a dry run understands; `None` if it is nothing of it.
pub(crate) fn dry(line: &str) -> Result<Option<Meaning>, String> {
    let (verb, rest) = split(line);
    let prepared = match verb {
        "outcome" => Prepared::Outcome(outcome(rest)?),
        "result" => Prepared::Result(json(rest, "result")?),
        "sampling" => sampling(rest)?,
        "wait" => {
            let time = parse_duration(rest)
                .map_err(|fault| format!("`{rest}` {fault}: write a time such as 30s or 10m"))?;
            return Ok(Some(Meaning::Do(Action::Wait(time))));
        }
        "settle" => return Ok(Some(Meaning::Do(Action::Settle(outcome(rest)?)))),
        "ctx" if rest.is_empty() => return Ok(Some(Meaning::Memory)),
        "ctx" => return Err("`ctx` stands alone".to_owned()),
        _ => return Ok(None),
    };
    Ok(Some(Meaning::Prepare(prepared)))
}

fn outcome(name: &str) -> Result<Outcome, String> {
    let named = outcome_named(name).filter(|outcome| outcome.to_string() == name);
    named.ok_or_else(|| "an outcome is success, error, timeout, cancelled or unknown".to_owned())
}

/// What a person says who will be asked.
pub(crate) fn consent(name: &str) -> Result<Prepared, String> {
    let consent = consent_named(name).map(Prepared::Consent);
    consent.ok_or_else(|| "an approval is yes, no or later".to_owned())
}

/// `success`, `success {json}` or `error`.
fn sampling(written: &str) -> Result<Prepared, String> {
    match split(written) {
        ("success", "") => Ok(Prepared::Answer(text_answer(""))),
        ("success", answer) => Ok(Prepared::Answer(Some(json(answer, "answer")?))),
        ("error", "") => Ok(Prepared::Answer(None)),
        _ => Err("the client's model answers `success`, `success {json}` or `error`".to_owned()),
    }
}

fn json(written: &str, what: &str) -> Result<Value, String> {
    serde_json::from_str(written).map_err(|error| format!("the {what} is no JSON: {error}"))
}

/// What `call`, `read` and `get` mean; `None` if it is none of them.
pub(crate) fn action(line: &str) -> Result<Option<Action>, String> {
    let (verb, rest) = split(line);
    let (name, json) = split(rest);
    let named = || match name {
        "" => Err(format!("`{verb}` needs a name")),
        name => Ok(name.to_owned()),
    };
    Ok(Some(match verb {
        "call" => Action::Call(named()?, arguments(json)?),
        "get" => Action::Get(named()?, arguments(json)?),
        "read" if json.is_empty() => Action::Read(named()?),
        "read" => return Err("`read` takes a URI and nothing else".to_owned()),
        _ => return Ok(None),
    }))
}

/// Arguments as a JSON object; nothing is no arguments.
pub(crate) fn arguments(json: &str) -> Result<Map<String, Value>, String> {
    if json.is_empty() {
        return Ok(Map::new());
    }
    serde_json::from_str(json).map_err(|error| format!("the arguments are not an object: {error}"))
}

fn expectation(rest: &str) -> Result<Expectation, String> {
    let (what, value) = split(rest);
    let valued = || match value {
        "" => Err(format!("`expect {what}` needs a value")),
        value => Ok(value.to_owned()),
    };
    match what {
        "state" => Ok(Expectation::State(valued()?)),
        "tools" => Ok(Expectation::Tools(
            value.split_whitespace().map(str::to_owned).collect(),
        )),
        "refused" => valued()?
            .parse()
            .map(|code| Expectation::Last(Ended::Refused(code)))
            .map_err(|_| "a refusal is expected by its code".to_owned()),
        "ctx" => {
            let valued = valued()?;
            let (key, value) = split(&valued);
            match value {
                "" => Err("`expect ctx` needs a key and a JSON value".to_owned()),
                value => Ok(Expectation::Memory(key.to_owned(), json(value, "value")?)),
            }
        }
        "text" => Ok(Expectation::Last(Ended::Text(valued()?))),
        "error" | "ok" if !value.is_empty() => Err(format!("`expect {what}` stands alone")),
        "error" => Ok(Expectation::Last(Ended::Error)),
        "ok" => Ok(Expectation::Last(Ended::Ok)),
        _ => Err("expected can be: state, tools, ctx, refused, text, error, ok".to_owned()),
    }
}

/// The first word, and what follows it.
pub(crate) fn split(line: &str) -> (&str, &str) {
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    (word, rest.trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::Consent;
    use serde_json::json;
    use std::time::Duration;

    fn object(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn every_kind_of_line_is_understood() {
        let expect = |expectation| Ok(Meaning::Expect(expectation));
        let last = |ended| expect(Expectation::Last(ended));
        for (line, meaning) in [
            ("", Ok(Meaning::Nothing)),
            ("  # call x", Ok(Meaning::Nothing)),
            ("list", Ok(Meaning::List)),
            (" state ", Ok(Meaning::State)),
            (
                "outcome timeout",
                Ok(Meaning::Prepare(Prepared::Outcome(Outcome::Timeout))),
            ),
            (
                "result {\"a\": 1}",
                Ok(Meaning::Prepare(Prepared::Result(json!({"a": 1})))),
            ),
            (
                "approve later",
                Ok(Meaning::Prepare(Prepared::Consent(Consent::Later))),
            ),
            (
                "sampling success {\"b\": 2}",
                Ok(Meaning::Prepare(Prepared::Answer(Some(json!({"b": 2}))))),
            ),
            (
                "sampling error",
                Ok(Meaning::Prepare(Prepared::Answer(None))),
            ),
            (
                "wait 30m",
                Ok(Meaning::Do(Action::Wait(Duration::from_secs(1800)))),
            ),
            (
                "settle cancelled",
                Ok(Meaning::Do(Action::Settle(Outcome::Cancelled))),
            ),
            ("ctx", Ok(Meaning::Memory)),
            (
                "expect ctx order \"A 1\"",
                expect(Expectation::Memory("order".into(), json!("A 1"))),
            ),
            (
                "call  refund  {\"a\": \"b c\"} ",
                Ok(Meaning::Do(Action::Call(
                    "refund".into(),
                    object(json!({"a": "b c"})),
                ))),
            ),
            (
                "call refund",
                Ok(Meaning::Do(Action::Call("refund".into(), Map::new()))),
            ),
            (
                "get sorry {}",
                Ok(Meaning::Do(Action::Get("sorry".into(), Map::new()))),
            ),
            (
                "read note://rules",
                Ok(Meaning::Do(Action::Read("note://rules".into()))),
            ),
            ("expect state a b", expect(Expectation::State("a b".into()))),
            (
                "expect tools b a",
                expect(Expectation::Tools(["a".into(), "b".into()].into())),
            ),
            ("expect tools", expect(Expectation::Tools(BTreeSet::new()))),
            ("expect refused 1081", last(Ended::Refused(1081))),
            (
                "expect text two  words",
                last(Ended::Text("two  words".into())),
            ),
            ("expect error", last(Ended::Error)),
            ("expect ok", last(Ended::Ok)),
        ] {
            assert_eq!(parse(line), meaning, "{line:?}");
        }
    }

    #[test]
    fn a_line_that_means_nothing_says_why() {
        for (line, why) in [
            ("cal x", "no step `cal`"),
            ("call", "needs a name"),
            ("call x [1]", "not an object"),
            ("call x {", "not an object"),
            ("read a b", "nothing else"),
            ("list all", "stands alone"),
            ("outcome good", "success, error, timeout"),
            ("outcome succ", "success, error, timeout"),
            ("result", "the result is no JSON"),
            ("approve", "yes, no or later"),
            ("sampling maybe", "answers"),
            ("sampling error {}", "answers"),
            ("wait 30", "has no unit"),
            ("wait", "not a duration"),
            ("settle", "success, error, timeout"),
            ("ctx order", "stands alone"),
            ("expect ctx order", "a key and a JSON value"),
            ("expect ctx order A-1", "no JSON"),
            ("expect", "expected can be"),
            ("expect state", "needs a value"),
            ("expect refused late", "by its code"),
            ("expect ok then", "stands alone"),
        ] {
            let told = parse(line).unwrap_err();
            assert!(told.contains(why), "{line:?}: {told}");
        }
    }
}
