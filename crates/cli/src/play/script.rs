//! Scripts: one step or expectation per line.

use super::{
    client::section,
    dry::{Dry, Outcome},
    session::{Action, End, Session, Told},
    show,
};
use crate::{Stop, report::plural, terminal::printable};
use anyhow::{Context, anyhow};
use interlock::workflow::Kind;
use serde_json::{Map, Value};
use std::{
    collections::BTreeSet,
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

/// A script that has been understood.
pub(crate) struct Script {
    path: PathBuf,
    lines: Vec<Line>,
}

/// A line as written, and what it means.
struct Line {
    written: String,
    meaning: Meaning,
}

#[derive(Clone, Debug, PartialEq)]
enum Meaning {
    /// A comment, or nothing.
    Nothing,
    Do(Action),
    List,
    State,
    Outcome(Outcome),
    Expect(Expectation),
}

#[derive(Clone, Debug, PartialEq)]
enum Expectation {
    State(String),
    Tools(BTreeSet<String>),
    /// Of the last step.
    Last(Ended),
}

#[derive(Clone, Debug, PartialEq)]
enum Ended {
    Refused(u64),
    Text(String),
    Error,
    Ok,
}

/// Longer scripts are refused.
const MOST_BYTES: u64 = 16 * 1024 * 1024;

fn read_bounded(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let file = std::fs::File::open(path)?;
    let read = file.take(MOST_BYTES + 1).read_to_string(&mut text)?;
    if u64::try_from(read).is_ok_and(|read| read <= MOST_BYTES) {
        Ok(text)
    } else {
        Err(io::Error::other("it is longer than 16 MB"))
    }
}

impl Script {
    /// Reads a script; what is wrong with it is said before anything is played.
    pub(crate) fn read(path: &Path) -> Result<Self, Stop> {
        let text = read_bounded(path)
            .with_context(|| format!("cannot read `{}`", path.display()))
            .map_err(Stop::Misused)?;
        let mut lines = Vec::new();
        let mut faults = Vec::new();
        for (at, written) in text.lines().enumerate() {
            match parse(written) {
                Ok(meaning) => lines.push(Line {
                    written: written.trim().to_owned(),
                    meaning,
                }),
                Err(why) => faults.push(format!("{}:{}: {why}", path.display(), at + 1)),
            }
        }
        if !faults.is_empty() {
            let faults = faults.join("\n");
            return Err(Stop::Misused(anyhow!(
                "the script cannot be played\n{faults}"
            )));
        }
        Ok(Self {
            path: path.to_owned(),
            lines,
        })
    }

    /// Whether it says how calls end, which they do only in a dry run.
    pub(crate) fn has_outcomes(&self) -> bool {
        let mut lines = self.lines.iter();
        lines.any(|line| matches!(line.meaning, Meaning::Outcome(_)))
    }
}

/// Plays a script to its end and prints what happens.
pub(crate) async fn play(
    script: Script,
    mut session: Session,
    dry: Option<&Dry>,
) -> Result<(), Stop> {
    let mut out = io::stdout();
    let mut last = None;
    let (mut met, mut failed) = (0, Vec::new());
    writeln!(out, "{}", show::place(&session))?;
    for (at, line) in script.lines.iter().enumerate() {
        match &line.meaning {
            Meaning::Nothing => {
                writeln!(out, "{}", line.written)?;
                continue;
            }
            Meaning::Do(_)
            | Meaning::List
            | Meaning::State
            | Meaning::Outcome(_)
            | Meaning::Expect(_) => writeln!(out, "> {}", line.written)?,
        }
        match &line.meaning {
            Meaning::Nothing => {}
            Meaning::Do(action) => {
                let told = session.perform(action).await?;
                writeln!(out, "{}", show::told(&told))?;
                last = Some(told);
            }
            Meaning::List => writeln!(out, "{}", show::menu(session.items()))?,
            Meaning::State => writeln!(out, "  {}", show::state(&session))?,
            Meaning::Outcome(outcome) => {
                if let Some(dry) = dry {
                    dry.expect(*outcome);
                }
            }
            Meaning::Expect(expectation) => match judge(expectation, &session, last.as_ref()) {
                Ok(()) => met += 1,
                Err(why) => {
                    let why = printable(&why);
                    writeln!(out, "  FAILED: {why}")?;
                    failed.push(format!("{}:{}: {why}", script.path.display(), at + 1));
                }
            },
        }
    }
    let of = plural(met + failed.len(), "expectation");
    writeln!(out, "{met} of {of} met")?;
    if failed.is_empty() {
        return Ok(());
    }
    for failure in failed {
        eprintln!("{failure}");
    }
    Err(Stop::Told)
}

/// Whether things are as expected, and how they are if not.
fn judge(expectation: &Expectation, session: &Session, last: Option<&Told>) -> Result<(), String> {
    match expectation {
        Expectation::State(expected) => match session.state() {
            Some(state) if state == expected => Ok(()),
            Some(state) => Err(format!("expected state {expected}, but it is {state}")),
            None => Err(format!(
                "expected state {expected}, but there is no workflow"
            )),
        },
        Expectation::Tools(expected) => {
            let listed: BTreeSet<_> = session
                .items()
                .filter(|item| item.kind == Kind::Tool)
                .map(|item| item.name.clone())
                .collect();
            if listed == *expected {
                return Ok(());
            }
            let names = |names: &BTreeSet<String>| {
                let names: Vec<_> = names.iter().map(String::as_str).collect();
                names.join(" ")
            };
            Err(format!(
                "expected the {} [{}], but listed are [{}]",
                section(Kind::Tool),
                names(expected),
                names(&listed)
            ))
        }
        Expectation::Last(expected) => match last {
            Some(told) => judge_last(expected, told),
            None => Err("there is no step before this".to_owned()),
        },
    }
}

fn judge_last(expected: &Ended, told: &Told) -> Result<(), String> {
    let (held, expected) = match expected {
        Ended::Refused(expected) => (
            matches!(told.end, End::Refused { code, .. } if code == *expected),
            format!("refused {expected}"),
        ),
        Ended::Text(expected) => (
            told.text.contains(expected),
            format!("a text with `{expected}`"),
        ),
        Ended::Error => (told.end == End::Error, "error".to_owned()),
        Ended::Ok => (told.end == End::Ok, "ok".to_owned()),
    };
    if held {
        return Ok(());
    }
    let end = match &told.end {
        End::Ok => "ok".to_owned(),
        End::Error => "error".to_owned(),
        End::Refused { code, .. } => format!("refused {code}"),
    };
    Err(format!(
        "expected {expected}, but the last step ended {end}"
    ))
}

fn parse(line: &str) -> Result<Meaning, String> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(Meaning::Nothing);
    }
    let (verb, rest) = split(line);
    match verb {
        "list" | "state" if !rest.is_empty() => Err(format!("`{verb}` stands alone")),
        "list" => Ok(Meaning::List),
        "state" => Ok(Meaning::State),
        "outcome" => Outcome::ALL
            .into_iter()
            .find(|outcome| outcome.name() == rest)
            .map(Meaning::Outcome)
            .ok_or_else(|| "an outcome is success, error or timeout".to_owned()),
        "expect" => expectation(rest).map(Meaning::Expect),
        _ => match action(line)? {
            Some(action) => Ok(Meaning::Do(action)),
            None => Err(format!(
                "no step `{verb}`; there are: call, read, get, list, state, outcome, expect"
            )),
        },
    }
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
        "text" => Ok(Expectation::Last(Ended::Text(valued()?))),
        "error" | "ok" if !value.is_empty() => Err(format!("`expect {what}` stands alone")),
        "error" => Ok(Expectation::Last(Ended::Error)),
        "ok" => Ok(Expectation::Last(Ended::Ok)),
        _ => Err("expected can be: state, tools, refused, text, error, ok".to_owned()),
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
    use serde_json::json;

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
            ("outcome timeout", Ok(Meaning::Outcome(Outcome::Timeout))),
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
            ("outcome unknown", "success, error or timeout"),
            ("expect", "expected can be"),
            ("expect state", "needs a value"),
            ("expect refused late", "by its code"),
            ("expect ok then", "stands alone"),
        ] {
            let told = parse(line).unwrap_err();
            assert!(told.contains(why), "{line:?}: {told}");
        }
    }

    #[test]
    fn an_expectation_of_a_step_is_met_or_told() {
        let told = Told {
            end: End::Refused {
                code: 1081,
                name: "not_in_state".into(),
            },
            text: "Tool 'a' is not allowed".into(),
            structured: None,
            moved: None,
            changes: Vec::new(),
        };
        let check = |expected| judge_last(&expected, &told);
        assert_eq!(check(Ended::Refused(1081)), Ok(()));
        assert_eq!(check(Ended::Text("not allowed".into())), Ok(()));
        for expected in [
            Ended::Refused(1082),
            Ended::Text("allowed now".into()),
            Ended::Error,
            Ended::Ok,
        ] {
            let why = check(expected).unwrap_err();
            assert!(
                why.ends_with("but the last step ended refused 1081"),
                "{why}"
            );
        }
    }
}
