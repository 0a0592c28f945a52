//! `cargo xtask mutants`: is every line of the machines, and of what the engine decides without
//! waiting, held in place by a test?
//!
//! cargo-mutants changes one thing at a time. The transition tests, which take no time, see each
//! mutant first; only what they let pass meets the properties and models. What is not behaviour
//! is left out by `.cargo/mutants.toml`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::tools;
use crate::workspace::Workspace;

/// What is changed of one crate.
struct Target {
    package: &'static str,
    folder: &'static str,
    files: &'static [&'static str],
}

const TARGETS: &[Target] = &[
    Target {
        package: "interlock-proto",
        folder: "crates/proto/src",
        files: PROTO,
    },
    Target {
        package: "interlock-engine",
        folder: "crates/engine/src",
        files: ENGINE,
    },
];
const ENGINE: &[&str] = &[
    "approval_rules.rs",
    "journal/unstored.rs",
    "lease.rs",
    "state.rs",
    "timers.rs",
];
const PROTO: &[&str] = &[
    "connection.rs",
    "connection/ledger.rs",
    "connection/pending.rs",
    "connection/settings.rs",
    "elicitation.rs",
    "frame.rs",
    "invocation.rs",
    "negotiation.rs",
    "session.rs",
    "subscription.rs",
    "task.rs",
    "tasks.rs",
];
/// The share of mutants, in per cent, that the tests must notice.
const WANTED: f64 = 95.0;

/// Which files to change, with how many hands.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Options {
    files: Vec<String>,
    jobs: usize,
    list: bool,
}

impl Options {
    pub(crate) fn parse(arguments: &[String]) -> Result<Self> {
        let mut options = Self {
            files: Vec::new(),
            jobs: std::thread::available_parallelism().map_or(1, usize::from),
            list: false,
        };
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--file" => {
                    let file = words.next().context("--file needs a name")?;
                    if !files().any(|known| known == file) {
                        let known: Vec<_> = files().collect();
                        bail!("no file `{file}`; there are: {}", known.join(", "));
                    }
                    options.files.push(file.clone());
                }
                "--jobs" => {
                    let jobs = words.next().context("--jobs needs a number")?;
                    options.jobs = jobs.parse().context("--jobs needs a number")?;
                }
                "--list" => options.list = true,
                other => bail!("no option `{other}`; there are: --file F, --jobs N, --list"),
            }
        }
        if options.files.is_empty() {
            options.files = files().map(str::to_owned).collect();
        }
        Ok(options)
    }
}

/// No two targets have a file of the same name.
fn files() -> impl Iterator<Item = &'static str> {
    let files = TARGETS.iter().flat_map(|target| target.files);
    files.copied()
}

/// Whether enough mutants were noticed.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<bool> {
    let program = tools::MUTANTS.installed(workspace)?;
    let folder = workspace.target.join("mutants");
    if options.list {
        let mut command = mutants(workspace, &program, options);
        crate::process::run(command.arg("--list"))?;
        return Ok(true);
    }
    if folder.exists() {
        fs::remove_dir_all(&folder).context("the last run's results")?;
    }
    fs::create_dir_all(&folder)?;
    let mut tally = Tally::default();
    for tests in ["--lib", "--test=it"] {
        println!("[{tests}]");
        let mut command = mutants(workspace, &program, options);
        command
            .args(["--iterate", "--no-shuffle", "--jobs"])
            .arg(options.jobs.to_string())
            .arg("--output")
            .arg(&folder)
            .arg(format!("--cargo-arg={tests}"))
            // Nobody debugs a mutant.
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            // Jobs that share one folder would test each other's mutants.
            .env_remove("CARGO_TARGET_DIR");
        let status = command.status().context("cargo mutants")?;
        // Unnoticed and hanging mutants have codes of their own; others mean it did not work.
        if !matches!(status.code(), Some(0 | 2 | 3)) {
            bail!("cargo mutants ended with {status}");
        }
        tally.add(&folder.join("mutants.out"))?;
        if tally.survived.is_empty() {
            break;
        }
    }
    let survivors = folder.join("survivors.txt");
    let list: String = tally.survived.iter().map(|m| format!("{m}\n")).collect();
    fs::write(&survivors, list).with_context(|| survivors.display().to_string())?;
    let percentage = tally.percentage().context(
        "there was nothing to change, so nothing was shown: do the files still hold functions?",
    )?;
    println!("{}", tally.report(percentage, &survivors));
    Ok(percentage >= WANTED)
}

fn mutants(workspace: &Workspace, program: &Path, options: &Options) -> Command {
    let mut command = Command::new(program);
    command.arg("mutants").current_dir(&workspace.root);
    for target in TARGETS {
        let is_wanted = |file: &&&str| options.files.iter().any(|wanted| wanted == **file);
        let mut files = target.files.iter().filter(is_wanted).peekable();
        if files.peek().is_some() {
            command.args(["--package", target.package]);
        }
        for file in files {
            command
                .arg("--file")
                .arg(format!("{}/{file}", target.folder));
        }
    }
    command
}

/// What became of the mutants, over all rounds so far.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    killed: BTreeSet<String>,
    timeout: BTreeSet<String>,
    unviable: BTreeSet<String>,
    survived: BTreeSet<String>,
}

impl Tally {
    /// A mutant that one round noticed does not survive by passing another.
    fn add(&mut self, round: &Path) -> Result<()> {
        self.killed.extend(lines(&round.join("caught.txt"))?);
        self.timeout.extend(lines(&round.join("timeout.txt"))?);
        self.unviable.extend(lines(&round.join("unviable.txt"))?);
        self.survived = lines(&round.join("missed.txt"))?
            .into_iter()
            .filter(|mutant| !self.timeout.contains(mutant))
            .collect();
        self.timeout = &self.timeout - &self.killed;
        Ok(())
    }

    /// A hanging test suite is noticed, too. `None` if there was no mutant to notice.
    fn percentage(&self) -> Option<f64> {
        let noticed = self.killed.len() + self.timeout.len();
        match noticed + self.survived.len() {
            0 => None,
            all => Some(100.0 * noticed as f64 / all as f64),
        }
    }

    fn report(&self, percentage: f64, survivors: &Path) -> String {
        format!(
            "{} killed, {} survived, {} timeout, {} unviable: {percentage:.1} % noticed, {WANTED} % wanted\n\
             survivors: {}",
            self.killed.len(),
            self.survived.len(),
            self.timeout.len(),
            self.unviable.len(),
            survivors.display()
        )
    }
}

fn lines(file: &PathBuf) -> Result<Vec<String>> {
    let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
    Ok(text.lines().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options> {
        let words: Vec<_> = line.split_whitespace().map(str::to_owned).collect();
        Options::parse(&words)
    }

    #[test]
    fn every_machine_is_changed_unless_told_otherwise() {
        assert_eq!(parse("").unwrap().files, files().collect::<Vec<_>>());
        let some = parse("--file task.rs --file tasks.rs --jobs 3").unwrap();
        assert_eq!(some.files, ["task.rs", "tasks.rs"]);
        assert_eq!((some.jobs, some.list), (3, false));
        for line in ["--file nothing.rs", "--jobs many", "--fast"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn every_file_is_there() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for target in TARGETS {
            for file in target.files {
                assert!(root.join(target.folder).join(file).exists(), "{file}");
            }
        }
        let names: BTreeSet<_> = files().collect();
        assert_eq!(names.len(), files().count(), "`--file` names one of them");
    }

    #[test]
    fn what_hangs_counts_as_noticed_and_what_survives_does_not() {
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let tally = Tally {
            killed: set(&["a", "b"]),
            timeout: set(&["c"]),
            unviable: set(&["d"]),
            survived: set(&["e"]),
        };
        assert_eq!(tally.percentage(), Some(75.0));
        let report = tally.report(75.0, Path::new("list"));
        let expected = "2 killed, 1 survived, 1 timeout, 1 unviable: 75.0 % noticed";
        assert!(report.starts_with(expected), "{report}");
    }

    #[test]
    fn a_run_without_a_mutant_shows_nothing() {
        assert_eq!(Tally::default().percentage(), None);
        let unviable = Tally {
            unviable: BTreeSet::from(["a".to_owned()]),
            ..Tally::default()
        };
        assert_eq!(unviable.percentage(), None);
    }
}
