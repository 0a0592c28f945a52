//! The steps of `cargo xtask test`: a table, and a runner that keeps count.

use std::ffi::OsStr;
use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::process;
use crate::workspace::Workspace;
use crate::{clients, conformance, examples, fuzz, plant, python, tidy};

/// One step. It passes, fails with an error, or says why it cannot run here.
pub(crate) struct Step {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    run: fn(&Workspace) -> Result<Ran>,
}

/// How a step that did not fail ended.
pub(crate) enum Ran {
    Done,
    /// This machine lacks what the step needs; the text says what.
    Skipped(String),
}

/// Every step, cheap ones first.
pub(crate) const STEPS: &[Step] = &[
    Step {
        name: "format",
        about: "cargo fmt --check, the fuzz targets too",
        run: |workspace| {
            cargo(workspace, &words("fmt --all --check"))?;
            // A workspace of its own; `--all` would format ours once more.
            cargo(
                workspace,
                &words("fmt --manifest-path fuzz/Cargo.toml --check"),
            )
        },
    },
    Step {
        name: "tidy",
        about: "arrows between crates and rooms, holders of invariants, module docs, leftovers, sleeping tests, whitespace, length",
        run: tidy::run,
    },
    Step {
        name: "clippy",
        about: "cargo clippy on all targets and features, warnings are errors",
        run: |workspace| {
            let options = "clippy --workspace --all-targets --all-features --locked -- -D warnings";
            cargo(workspace, &words(options))
        },
    },
    Step {
        name: "fuzz",
        about: "cargo clippy on the fuzz targets, which are a workspace of their own",
        run: |workspace| {
            fuzz::check(workspace)?;
            Ok(Ran::Done)
        },
    },
    Step {
        name: "test",
        about: "cargo test, documentation examples too",
        run: |workspace| {
            let options = "test --workspace --all-features --locked";
            cargo(workspace, &words(options))
        },
    },
    Step {
        name: "plant",
        about: "plant each known bug in the machines and see a test catch it",
        run: |workspace| {
            plant::run(workspace, &[])?;
            Ok(Ran::Done)
        },
    },
    Step {
        name: "docs",
        about: "cargo doc with private items, warnings are errors",
        run: |workspace| {
            let options = "doc --workspace --no-deps --document-private-items --locked";
            process::run(
                process::cargo(workspace)
                    .args(words(options))
                    .env("RUSTDOCFLAGS", "-D warnings"),
            )?;
            Ok(Ran::Done)
        },
    },
    Step {
        name: "examples",
        about: "check every example, play its script and compare with the stored output",
        run: examples::run,
    },
    Step {
        name: "python",
        about: "walk the examples with the official Python client, over stdio and HTTP",
        run: python::run,
    },
    Step {
        name: "typescript",
        about: "do everything that the official TypeScript client can do, over stdio and HTTP",
        run: clients::typescript,
    },
    Step {
        name: "inspector",
        about: "ask the MCP Inspector's command line about the examples",
        run: clients::inspector,
    },
    Step {
        name: "conformance",
        about: "run the official MCP conformance suite, all revisions, warnings are errors",
        run: conformance::run,
    },
];

/// What to do with the remaining steps once one has failed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnFailure {
    Stop,
    KeepGoing,
}

/// Whether a step may be left out on a machine that cannot run it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnSkip {
    Allow,
    Fail,
}

impl OnSkip {
    pub(crate) fn from_environment() -> Self {
        Self::of(std::env::var_os("INTERLOCK_NO_SKIP").as_deref())
    }

    /// Any value of the variable forbids skipping, but for nothing and 0.
    fn of(variable: Option<&OsStr>) -> Self {
        match variable {
            Some(value) if !value.is_empty() && value != "0" => Self::Fail,
            Some(_) | None => Self::Allow,
        }
    }
}

/// The steps named, in the table's order; all of them if none is.
pub(crate) fn choose<'a>(table: &'a [Step], names: &[&str]) -> Result<Vec<&'a Step>> {
    for name in names {
        if !table.iter().any(|step| step.name == *name) {
            let known: Vec<_> = table.iter().map(|step| step.name).collect();
            bail!("no step `{name}`; there are: {}", known.join(", "));
        }
    }
    let named = |step: &&Step| names.is_empty() || names.contains(&step.name);
    Ok(table.iter().filter(named).collect())
}

/// Runs the steps in order and tells how each ended.
pub(crate) fn run(
    steps: &[&Step],
    workspace: &Workspace,
    on_failure: OnFailure,
    on_skip: OnSkip,
) -> Summary {
    let mut summary = Summary::default();
    for step in steps {
        if on_failure == OnFailure::Stop && !summary.succeeded() {
            summary.lines.push((step.name, End::NotRun));
            continue;
        }
        println!("[{}] {}", step.name, step.about);
        let began = Instant::now();
        let end = match (step.run)(workspace) {
            Ok(Ran::Done) => End::Passed(began.elapsed()),
            Ok(Ran::Skipped(why)) => match on_skip {
                OnSkip::Allow => End::Skipped(why),
                OnSkip::Fail => End::Failed(began.elapsed(), format!("may not be skipped: {why}")),
            },
            Err(error) => End::Failed(began.elapsed(), format!("{error:#}")),
        };
        println!("[{}] {end}", step.name);
        summary.lines.push((step.name, end));
    }
    summary
}

/// How every step ended. Its last line is `N passed, M failed, K skipped`.
#[derive(Default)]
pub(crate) struct Summary {
    lines: Vec<(&'static str, End)>,
}

impl Summary {
    pub(crate) fn succeeded(&self) -> bool {
        self.count(|end| matches!(end, End::Failed(..))) == 0
    }

    fn count(&self, wanted: fn(&End) -> bool) -> usize {
        self.lines.iter().filter(|(_, end)| wanted(end)).count()
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, end) in &self.lines {
            writeln!(f, "{name:<11} {end}")?;
        }
        write!(
            f,
            "{} passed, {} failed, {} skipped",
            self.count(|end| matches!(end, End::Passed(_))),
            self.count(|end| matches!(end, End::Failed(..))),
            self.count(|end| matches!(end, End::Skipped(_))),
        )
    }
}

enum End {
    Passed(Duration),
    Failed(Duration, String),
    Skipped(String),
    NotRun,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passed(took) => write!(f, "passed in {:.1} s", took.as_secs_f64()),
            Self::Failed(took, why) => write!(f, "FAILED in {:.1} s: {why}", took.as_secs_f64()),
            Self::Skipped(why) => write!(f, "skipped: {why}"),
            Self::NotRun => write!(f, "not run"),
        }
    }
}

fn cargo(workspace: &Workspace, arguments: &[&str]) -> Result<Ran> {
    process::run(process::cargo(workspace).args(arguments))
        .with_context(|| format!("cargo {}", arguments[0]))?;
    Ok(Ran::Done)
}

fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &[Step] = &[
        Step {
            name: "good",
            about: "passes",
            run: |_| Ok(Ran::Done),
        },
        Step {
            name: "absent",
            about: "cannot run",
            run: |_| Ok(Ran::Skipped("no such tool".to_owned())),
        },
        Step {
            name: "bad",
            about: "fails",
            run: |_| bail!("it broke"),
        },
        Step {
            name: "last",
            about: "passes",
            run: |_| Ok(Ran::Done),
        },
    ];

    #[track_caller]
    fn check(names: &[&str], on_failure: OnFailure, on_skip: OnSkip, last_line: &str) -> String {
        let steps = choose(SAMPLE, names).unwrap();
        let summary = run(&steps, &Workspace::default(), on_failure, on_skip);
        let text = summary.to_string();
        assert_eq!(text.lines().last(), Some(last_line));
        assert_eq!(summary.succeeded(), last_line.contains(" 0 failed"));
        text
    }

    #[test]
    fn the_first_failure_stops_the_rest_and_is_told() {
        let text = check(
            &[],
            OnFailure::Stop,
            OnSkip::Allow,
            "1 passed, 1 failed, 1 skipped",
        );
        assert!(text.contains("it broke"));
        assert!(text.contains("last        not run"));
    }

    #[test]
    fn keep_going_runs_what_comes_after_a_failure() {
        let text = check(
            &[],
            OnFailure::KeepGoing,
            OnSkip::Allow,
            "2 passed, 1 failed, 1 skipped",
        );
        assert!(text.contains("last        passed"));
    }

    #[test]
    fn a_skip_is_a_failure_where_none_is_allowed() {
        let names = ["good", "absent", "last"];
        check(
            &names,
            OnFailure::Stop,
            OnSkip::Allow,
            "2 passed, 0 failed, 1 skipped",
        );
        let text = check(
            &names,
            OnFailure::Stop,
            OnSkip::Fail,
            "1 passed, 1 failed, 0 skipped",
        );
        assert!(text.contains("may not be skipped: no such tool"));
    }

    #[test]
    fn any_value_of_the_variable_but_nothing_and_0_forbids_skipping() {
        for value in ["1", "true", "yes", "00", " "] {
            assert_eq!(OnSkip::of(Some(value.as_ref())), OnSkip::Fail, "{value}");
        }
        for value in [None, Some(""), Some("0")] {
            let value = value.map(OsStr::new);
            assert_eq!(OnSkip::of(value), OnSkip::Allow, "{value:?}");
        }
    }

    #[test]
    fn named_steps_run_in_the_order_of_the_table() {
        let chosen = choose(SAMPLE, &["last", "good"]).unwrap();
        let names: Vec<_> = chosen.iter().map(|step| step.name).collect();
        assert_eq!(names, ["good", "last"]);
    }
}
