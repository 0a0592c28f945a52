//! Scripts: one step or expectation per line.

use super::{
    client::section,
    line::{Ended, Expectation, Meaning, parse},
    session::{End, Session, Told},
    show,
};
use crate::{
    Stop,
    load::shown,
    report::plural,
    simulate::{same, shortened},
    terminal::{output, printable, say},
};
use anyhow::{Context, anyhow};
use interlock::workflow::Kind;
use serde_json::Value;
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

#[cfg(test)]
mod tests {
    use super::*;

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
