//! The step `conformance`: the official MCP conformance suite judges the example of that name.
//!
//! The suite calls a scenario passed if nothing failed. We ask for more: nothing was warned of,
//! nothing was left out, and something was really tried. So we read what it wrote down.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::npm::Npm;
use crate::process;
use crate::server::{self, Running};
use crate::steps::Ran;
use crate::workspace::{Profile, Workspace};

/// The suite, in two versions; the older one is its latest that is no preview.
const NEW: &str = "conformance-0.2";
const OLD: &str = "conformance-0.1";

/// What is run, and how many scenarios that has to be.
const RUNS: &[Run] = &[
    Run::revision(NEW, "2025-06-18", 27),
    Run::revision(NEW, "2025-11-25", 33),
    Run::revision(NEW, "2026-07-28", 40),
    Run::requirements(NEW, "2025-11-25", 33),
    Run::requirements(NEW, "2026-07-28", 40),
    Run::revision(OLD, "2025-06-18", 26),
    Run::revision(OLD, "2025-11-25", 32),
];

/// Scenarios of extensions; the requirement sets try them and do not score them.
const EXTENSIONS: &[&str] = &["tasks-", "sep-2640-"];

/// Checks that stand for a scenario: they have to be there, and to succeed.
const REQUIRED: &[(&str, &str)] = &[("server-sse-polling", "server-sse-disconnect-resume")];

/// What the suite notes of a server that does as it should.
const EXCUSED: &[&str] = &[
    // Plain JSON is the answer wherever nothing is said before the result.
    "server-sse-streams-functional",
];

const LIMIT: Duration = Duration::from_secs(300);

pub(crate) fn run(workspace: &Workspace) -> Result<Ran> {
    let npm = match Npm::installed(workspace) {
        Ok(npm) => npm,
        Err(error) => return Ok(Ran::Skipped(format!("{error:#}"))),
    };
    let build = "build --release --locked --package mcp-interlock --example conformance";
    process::run(process::cargo(workspace).args(build.split(' ')))?;
    let server = server::conformance(&workspace.example(Profile::Release, "conformance"))?;
    let folder = workspace.target.join("conformance");
    let judged = judge_all(&npm, &server, &folder);
    server.stop()?;
    match judged? {
        0 => Ok(Ran::Done),
        open => bail!("{open} open, above; all is in {}", folder.display()),
    }
}

/// How many things are open, after all runs.
fn judge_all(npm: &Npm, server: &Running, folder: &Path) -> Result<usize> {
    let mut open = 0;
    for run in RUNS {
        let verdict = run.judged(npm, server, folder)?;
        println!("  {}", verdict.line(run));
        for what in &verdict.open {
            println!("    open: {what}");
        }
        open += verdict.open.len();
    }
    Ok(open)
}

/// One run of the suite.
struct Run {
    package: &'static str,
    choice: Choice,
    revision: &'static str,
    scenarios: usize,
}

/// Which scenarios of a revision are run.
#[derive(Clone, Copy)]
enum Choice {
    All,
    Required,
}

impl Run {
    const fn revision(package: &'static str, revision: &'static str, scenarios: usize) -> Self {
        Self {
            package,
            choice: Choice::All,
            revision,
            scenarios,
        }
    }

    const fn requirements(package: &'static str, revision: &'static str, scenarios: usize) -> Self {
        Self {
            choice: Choice::Required,
            ..Self::revision(package, revision, scenarios)
        }
    }

    fn name(&self) -> String {
        let choice = match self.choice {
            Choice::All => "all",
            Choice::Required => "required",
        };
        format!("{} {} {choice}", self.package, self.revision)
    }

    fn judged(&self, npm: &Npm, server: &Running, folder: &Path) -> Result<Verdict> {
        let folder = folder.join(self.name().replace(' ', "-"));
        if folder.exists() {
            fs::remove_dir_all(&folder).context("removing the last run's results")?;
        }
        let results = folder.join("results");
        fs::create_dir_all(&results)?;
        let mut command = npm.script(&format!("node_modules/{}/dist/index.js", self.package));
        command.args(["server", "--url", &server.url()]);
        match self.choice {
            Choice::All => command.args(["--suite", "all", "--spec-version", self.revision]),
            Choice::Required => command.args(["--requirements", self.revision]),
        };
        command.arg("--output-dir").arg(&results);
        command.stderr(File::create(folder.join("stderr"))?);
        let (status, printed) = process::ended_within(&mut command, LIMIT)?;
        fs::write(folder.join("stdout"), printed)?;
        let mut verdict = self.read(&results)?;
        match status {
            Some(status) if status.success() => {}
            Some(status) => verdict.open.push(format!("the suite ended with {status}")),
            None => verdict.open.push(format!("not done within {LIMIT:?}")),
        }
        Ok(verdict)
    }

    /// Judges what a run wrote: one folder per scenario, with a list of its checks.
    fn read(&self, results: &Path) -> Result<Verdict> {
        let mut verdict = Verdict::default();
        for folder in sorted(results)? {
            let name = folder.file_name().unwrap_or_default().to_string_lossy();
            let scenario = scenario(&name);
            if EXTENSIONS.iter().any(|start| scenario.starts_with(start)) {
                verdict.extensions += 1;
                continue;
            }
            // A scenario that broke off may have written nothing, or half of it.
            let written = fs::read_to_string(folder.join("checks.json")).unwrap_or_default();
            let checks = serde_json::from_str(&written).unwrap_or(Value::Null);
            verdict.add(scenario, &checks);
        }
        let tried = verdict.clean + verdict.failing;
        if tried != self.scenarios {
            verdict.open.push(format!(
                "{tried} scenarios were run, not {}",
                self.scenarios
            ));
        }
        Ok(verdict)
    }
}

/// What a run came to.
#[derive(Debug, Default)]
struct Verdict {
    clean: usize,
    failing: usize,
    extensions: usize,
    open: Vec<String>,
}

impl Verdict {
    fn add(&mut self, scenario: &str, checks: &Value) {
        let open = open(scenario, checks);
        if open.is_empty() {
            self.clean += 1;
        } else {
            self.failing += 1;
        }
        self.open.extend(open);
    }

    fn line(&self, run: &Run) -> String {
        let mut line = format!(
            "{}: {} scenarios clean, {} failing",
            run.name(),
            self.clean,
            self.failing
        );
        if self.extensions > 0 {
            line.push_str(&format!(", {} of extensions not judged", self.extensions));
        }
        line
    }
}

/// What is open in one scenario; nothing if it is clean.
fn open(scenario: &str, checks: &Value) -> Vec<String> {
    let Some(checks) = checks.as_array() else {
        return vec![format!("{scenario}: its checks are no list")];
    };
    let text = |check: &Value, key: &str| check[key].as_str().unwrap_or_default().to_owned();
    let mut open: Vec<_> = checks
        .iter()
        .filter(|check| !is_settled(&text(check, "id"), &text(check, "status")))
        .map(|check| {
            let (status, id) = (text(check, "status"), text(check, "id"));
            format!("{scenario}: {status} {id}: {}", reason(check))
        })
        .collect();
    let succeeded = |wanted: &dyn Fn(&str) -> bool| {
        checks
            .iter()
            .any(|check| text(check, "status") == "SUCCESS" && wanted(&text(check, "id")))
    };
    // Messages that have the right shape say nothing of what they mean.
    if !succeeded(&|id| !id.starts_with("wire-schema")) {
        open.push(format!("{scenario}: no check of its own succeeded"));
    }
    for (_, check) in REQUIRED.iter().filter(|(name, _)| *name == scenario) {
        if !succeeded(&|id| id == *check) {
            open.push(format!("{scenario}: {check} did not succeed"));
        }
    }
    open
}

/// Whether a check with this end leaves nothing to be done.
fn is_settled(id: &str, status: &str) -> bool {
    match status {
        "SUCCESS" => true,
        // The log of an exchange is information; a verdict on the server is not.
        "INFO" => !id.starts_with("server-") || EXCUSED.contains(&id),
        _ => false,
    }
}

/// What the suite says of a check, in one line.
fn reason(check: &Value) -> String {
    let said = [&check["errorMessage"], &check["details"]["message"]];
    let said = said.iter().find_map(|text| text.as_str());
    let words: Vec<_> = said
        .unwrap_or("no reason given")
        .split_whitespace()
        .collect();
    words.join(" ")
}

/// `ping`, of the folder `server-ping-2026-07-28T10-00-00-000Z`.
fn scenario(folder: &str) -> &str {
    let name = folder.strip_prefix("server-").unwrap_or(folder);
    let time = "-2026-07-28T10-00-00-000Z".len();
    let end = name.len().saturating_sub(time);
    match name.get(end..) {
        Some(time) if time.starts_with("-20") && time.ends_with('Z') => &name[..end],
        Some(_) | None => name,
    }
}

fn sorted(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    let mut paths = entries.collect::<Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(id: &str, status: &str) -> Value {
        json!({"id": id, "status": status, "errorMessage": "it\n  broke"})
    }

    #[test]
    fn a_scenario_with_a_success_of_its_own_is_clean() {
        let checks = json!([
            check("ping", "SUCCESS"),
            check("wire-schema-valid", "SUCCESS"),
            check("incoming-response", "INFO"),
            check("server-sse-streams-functional", "INFO"),
        ]);
        assert_eq!(open("ping", &checks), Vec::<String>::new());
    }

    #[test]
    fn whatever_is_neither_success_nor_a_log_is_open() {
        for (id, status) in [
            ("ping", "FAILURE"),
            ("ping", "WARNING"),
            ("ping", "SKIPPED"),
            ("ping", "PUZZLED"),
            ("server-sse-retry-field", "INFO"),
        ] {
            let checks = json!([check("other", "SUCCESS"), check(id, status)]);
            let expected = format!("ping: {status} {id}: it broke");
            assert_eq!(open("ping", &checks), [expected]);
        }
        assert_eq!(open("ping", &json!({})), ["ping: its checks are no list"]);
    }

    #[test]
    fn shapes_alone_do_not_make_a_scenario_clean() {
        let checks = json!([check("wire-schema-valid", "SUCCESS")]);
        let expected = "ping: no check of its own succeeded";
        assert_eq!(open("ping", &checks), [expected]);
        assert_eq!(open("ping", &json!([])), [expected]);
    }

    #[test]
    fn a_stream_has_really_to_be_resumed() {
        let (scenario, wanted) = REQUIRED[0];
        let without = json!([check("server-sse-priming-event", "SUCCESS")]);
        assert_eq!(
            open(scenario, &without),
            [format!("{scenario}: {wanted} did not succeed")]
        );
        let with = json!([check(wanted, "SUCCESS")]);
        assert_eq!(open(scenario, &with), Vec::<String>::new());
    }

    #[test]
    fn the_name_of_a_scenario_is_read_from_its_folder() {
        for name in ["ping", "server-sse-polling", "sep-2164-resource-not-found"] {
            let folder = format!("server-{name}-2026-11-16T02-13-20-554Z");
            assert_eq!(scenario(&folder), name);
        }
        assert_eq!(scenario("server-ping"), "ping");
        assert_eq!(scenario("é"), "é");
    }

    #[test]
    fn a_run_with_too_few_scenarios_is_not_clean() {
        let folder = std::env::temp_dir().join(format!("interlock-suite-{}", std::process::id()));
        for name in ["ping", "tools-list", "tasks-lifecycle"] {
            let scenario = folder.join(format!("server-{name}-2026-11-16T02-13-20-554Z"));
            fs::create_dir_all(&scenario).unwrap();
            let checks = json!([check(name, "SUCCESS")]).to_string();
            fs::write(scenario.join("checks.json"), checks).unwrap();
        }
        let run = Run::revision(NEW, "2025-11-25", 2);
        let verdict = run.read(&folder).unwrap();
        assert_eq!(verdict.open, Vec::<String>::new());
        assert_eq!(
            verdict.line(&run),
            "conformance-0.2 2025-11-25 all: 2 scenarios clean, 0 failing, 1 of extensions not judged"
        );
        let run = Run::requirements(NEW, "2025-11-25", 3);
        let verdict = run.read(&folder).unwrap();
        assert_eq!(verdict.open, ["2 scenarios were run, not 3"]);
        fs::remove_dir_all(&folder).unwrap();
    }
}
