//! Scripts: one step or expectation per line.

use super::{
    client::section,
    dry::{Prepared, outcome_named},
    person::consent_named,
    session::{Action, End, Session, Told},
    show,
};
use crate::{
    Stop,
    load::shown,
    report::plural,
    simulate::{same, shortened, text_answer},
    terminal::{output, printable, say},
};
use anyhow::{Context, anyhow};
use interlock::workflow::{Kind, Outcome, file::parse_duration};
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

/// Longer scripts are refused.
const MOST_BYTES: u64 = 16 * 1024 * 1024;

/// How many mistakes or failures are told.
const MOST_TOLD: usize = 100;

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
            .with_context(|| format!("cannot read `{}`", shown(path)))
            .map_err(Stop::Misused)?;
        let mut lines = Vec::new();
        let (mut faults, mut more) = (Vec::new(), 0);
        for (at, written) in text.lines().enumerate() {
            match parse(written) {
                Ok(meaning) => lines.push(Line {
                    written: written.trim().to_owned(),
                    meaning,
                }),
                Err(_) if faults.len() == MOST_TOLD => more += 1,
                Err(why) => {
                    let why = shortened(&why);
                    faults.push(format!("{}:{}: {why}", shown(path), at + 1));
                }
            }
        }
        if more > 0 {
            faults.push(format!("and {more} more"));
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

    /// The first line that means something only in a dry run.
    pub(crate) fn dry_line(&self) -> Option<&str> {
        let mut lines = self.lines.iter();
        let line = lines.find(|line| line.meaning.needs_dry())?;
        Some(&line.written)
    }
}

impl Meaning {
    /// Whether it is about time, memory or how calls end, which only a dry run decides.
    fn needs_dry(&self) -> bool {
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

/// Plays a script to its end and prints what happens.
pub(crate) async fn play(script: Script, mut session: Session<'_>) -> Result<(), Stop> {
    let mut out = output();
    let mut last = None;
    let mut score = Score::default();
    let name = shown(&script.path);
    writeln!(out, "{}", show::place(&session))?;
    for (at, line) in script.lines.iter().enumerate() {
        // Whoever wants it to end must be heard between two lines.
        tokio::task::yield_now().await;
        let written = printable(&line.written);
        let place = || format!("{name}:{}", at + 1);
        match &line.meaning {
            Meaning::Nothing => {
                writeln!(out, "{written}")?;
                continue;
            }
            Meaning::Do(_)
            | Meaning::List
            | Meaning::State
            | Meaning::Memory
            | Meaning::Prepare(_)
            | Meaning::Expect(_) => writeln!(out, "> {written}")?,
        }
        match &line.meaning {
            Meaning::Nothing => {}
            Meaning::Do(action) => {
                let told = session.perform(action).await?;
                writeln!(out, "{}", show::told(&told))?;
                last = Some(told);
                if let Some(why) = session.dry().and_then(|dry| dry.cut()) {
                    score.fail(format!("{}: {why}", place()));
                }
            }
            Meaning::List => writeln!(out, "{}", show::menu(session.items()))?,
            Meaning::State => writeln!(out, "{}", show::standing(&session))?,
            Meaning::Memory => {
                if let Some(dry) = session.dry() {
                    writeln!(out, "  {}", printable(&dry.memory()))?;
                }
            }
            Meaning::Prepare(prepared) => session.prepare(prepared),
            Meaning::Expect(expectation) => match judge(expectation, &mut session, last.as_ref()) {
                Ok(()) => score.met += 1,
                Err(why) => {
                    writeln!(out, "  FAILED: {}", printable(&why))?;
                    score.unmet += 1;
                    score.fail(format!("{}: {why}", place()));
                }
            },
        }
    }
    let of = plural(score.met + score.unmet, "expectation");
    writeln!(out, "{} of {of} met", score.met)?;
    score.tell()
}

/// How many expectations were met, and what went wrong.
#[derive(Default)]
struct Score {
    met: usize,
    unmet: usize,
    failures: Vec<String>,
    /// How many failures are only counted.
    more: usize,
}

impl Score {
    fn fail(&mut self, failure: String) {
        match self.failures.len() < MOST_TOLD {
            true => self.failures.push(failure),
            false => self.more += 1,
        }
    }

    fn tell(self) -> Result<(), Stop> {
        if self.failures.is_empty() {
            return Ok(());
        }
        for failure in &self.failures {
            say(failure);
        }
        if self.more > 0 {
            say(&format!("and {} more", self.more));
        }
        Err(Stop::Told)
    }
}

/// Whether things are as expected, and how they are if not.
fn judge(
    expectation: &Expectation,
    session: &mut Session<'_>,
    last: Option<&Told>,
) -> Result<(), String> {
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
        Expectation::Memory(key, expected) => {
            let dry = session.dry();
            match dry
                .and_then(|dry| dry.remembered(key))
                .unwrap_or(&Value::Null)
            {
                found if same(found, expected) => Ok(()),
                found => Err(format!(
                    "expected ctx {key} {}, but it is {}",
                    shortened(&expected.to_string()),
                    shortened(&found.to_string())
                )),
            }
        }
        Expectation::Last(expected) => match last {
            Some(told) => judge_last(expected, told),
            None => Err("there is no step before this".to_owned()),
        },
    }
}

fn judge_last(expected: &Ended, told: &Told) -> Result<(), String> {
    let (held, wanted) = match expected {
        Ended::Refused(expected) => (
            matches!(told.end, End::Refused { code, .. } if code == *expected),
            format!("refused {expected}"),
        ),
        Ended::Text(expected) => (
            told.text.contains(expected),
            format!("a text with `{}`", shortened(expected)),
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
    let text = match expected {
        Ended::Text(_) => format!(" with `{}`", shortened(&told.text)),
        Ended::Refused(_) | Ended::Error | Ended::Ok => String::new(),
    };
    Err(format!(
        "expected {wanted}, but the last step ended {end}{text}"
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

    #[test]
    fn an_expectation_of_a_step_is_met_or_told() {
        let told = Told {
            asked: Vec::new(),
            end: End::Refused {
                code: 1081,
                name: "not_in_state".into(),
            },
            text: "Tool 'a' is not allowed".into(),
            structured: None,
            moved: None,
            changes: Vec::new(),
            notes: Vec::new(),
        };
        let check = |expected| judge_last(&expected, &told);
        assert_eq!(check(Ended::Refused(1081)), Ok(()));
        assert_eq!(check(Ended::Text("not allowed".into())), Ok(()));
        assert_eq!(
            check(Ended::Text("allowed now".into())).unwrap_err(),
            "expected a text with `allowed now`, but the last step ended refused 1081 with \
             `Tool 'a' is not allowed`"
        );
        for expected in [Ended::Refused(1082), Ended::Error, Ended::Ok] {
            let why = check(expected).unwrap_err();
            assert!(
                why.ends_with("but the last step ended refused 1081"),
                "{why}"
            );
        }
    }
}
