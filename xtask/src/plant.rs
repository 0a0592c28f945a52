//! `cargo xtask plant`: do the tests catch the bugs that people really make?
//!
//! Each patch in `plants/MACHINE/` plants one bug in a copy of the protocol crate below the target
//! folder. The crate's tests must fail there; a bug that goes unnoticed is an error. That a page
//! made from the machine looks otherwise does not count.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::process;
use crate::workspace::Workspace;

const PACKAGE: &str = "interlock-proto";
/// What the crate needs to be built and tested alone, by its path from the root.
const COPIED: &[&str] = &["Cargo.lock", "crates/proto", "docs"];
/// The transition tests take no time; properties and models see what those let pass.
const ROUNDS: &[&str] = &["--lib", "--test=it"];

/// The test that compares the machines with the page that was made from them. It fails for any
/// change, so it notices no bug.
const GOLDEN: &str = "machines::the_page_about_the_machines_is_current";

/// A bug can make tests run for ever, which is one way to notice it.
const LIMIT: Duration = Duration::from_secs(60);

/// Plants every bug, or those whose name holds one of the words, and tells who caught it.
pub(crate) fn run(workspace: &Workspace, words: &[String]) -> Result<()> {
    let patches = patches(&workspace.root.join("plants"), words)?;
    let field = Field {
        source: &workspace.root,
        tree: workspace.target.join("plant/tree"),
        target: workspace.target.join("plant/build"),
    };
    field.copy()?;
    if let Verdict::Caught(tests) = field.test()? {
        bail!("without any plant these fail: {}", tests.join(", "));
    }
    let mut unnoticed = Vec::new();
    for patch in &patches {
        let began = Instant::now();
        field.apply(patch)?;
        let verdict = field.test().with_context(|| patch.name.clone())?;
        field.copy()?;
        let seconds = began.elapsed().as_secs_f64();
        match verdict {
            Verdict::Caught(tests) => {
                println!("  {:<50} {seconds:>4.1} s  {}", patch.name, summary(&tests));
            }
            Verdict::Unnoticed => {
                println!("  {:<50} {seconds:>4.1} s  UNNOTICED", patch.name);
                unnoticed.push(patch.name.as_str());
            }
        }
    }
    ensure!(
        unnoticed.is_empty(),
        "{} of {} bugs go unnoticed: {}",
        unnoticed.len(),
        patches.len(),
        unnoticed.join(", ")
    );
    println!("  {} of {} caught", patches.len(), patches.len());
    Ok(())
}

/// One bug.
struct Patch {
    /// Its path below `plants`, without the ending.
    name: String,
    path: PathBuf,
}

fn patches(folder: &Path, words: &[String]) -> Result<Vec<Patch>> {
    let mut patches = Vec::new();
    for machine in entries(folder)? {
        if !machine.is_dir() {
            continue;
        }
        for path in entries(&machine)? {
            let name = path.strip_prefix(folder)?.with_extension("");
            let name = name.display().to_string();
            if words.is_empty() || words.iter().any(|word| name.contains(word)) {
                patches.push(Patch { name, path });
            }
        }
    }
    ensure!(!patches.is_empty(), "no plant is called like that");
    Ok(patches)
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut paths = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

/// Where bugs are planted: a copy of the crate, and the folder it is built in.
struct Field<'a> {
    source: &'a Path,
    tree: PathBuf,
    target: PathBuf,
}

/// What the tests said.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// These failed.
    Caught(Vec<String>),
    Unnoticed,
}

impl Field<'_> {
    /// Makes the copy equal to the source. What is equal already keeps its time stamp, so that
    /// cargo builds only what a patch changes.
    fn copy(&self) -> Result<()> {
        for path in COPIED {
            mirror(&self.source.join(path), &self.tree.join(path))?;
        }
        let manifest = fs::read_to_string(self.source.join("Cargo.toml"))?;
        let alone = alone(&manifest)?;
        write_if_changed(alone.as_bytes(), &self.tree.join("Cargo.toml"))
    }

    fn apply(&self, patch: &Patch) -> Result<()> {
        let mut git = Command::new("git");
        git.args(["apply", "--whitespace=nowarn"])
            .arg(&patch.path)
            .current_dir(&self.tree)
            // The copy is no repository; inside of one, git would look for the paths elsewhere.
            .env(
                "GIT_CEILING_DIRECTORIES",
                self.target.parent().unwrap_or(&self.target),
            )
            .env_remove("GIT_DIR")
            .env_remove("GIT_WORK_TREE");
        process::output(&mut git).with_context(|| {
            format!(
                "plants/{0}.patch no longer applies: plant the bug by hand in crates/proto, run \
                 `git diff crates/proto > plants/{0}.patch`, and undo it with `git checkout -p`",
                patch.name
            )
        })?;
        Ok(())
    }

    fn test(&self) -> Result<Verdict> {
        for round in ROUNDS {
            let mut tests = Command::new(self.built(round)?);
            tests
                .args(["--exact", "--skip", GOLDEN])
                .current_dir(self.tree.join("crates/proto"))
                .stderr(Stdio::null());
            match process::ended_within(&mut tests, LIMIT)? {
                (Some(status), _) if status.success() => {}
                (Some(_), printed) => return Ok(Verdict::Caught(failures(&printed)?)),
                (None, _) => return Ok(Verdict::Caught(vec![format!("{round} does not end")])),
            }
        }
        Ok(Verdict::Unnoticed)
    }

    /// The tests of one round as a program. A crate that cannot be built catches nothing.
    fn built(&self, round: &str) -> Result<PathBuf> {
        let messages = process::output(
            Command::new(process::cargo_path())
                .args(["test", "--package", PACKAGE, round, "--no-run", "--quiet"])
                .arg("--message-format=json-render-diagnostics")
                .arg("--target-dir")
                .arg(&self.target)
                // Nobody debugs a bug that was planted, and what it leaves unused is no news.
                .env("CARGO_PROFILE_DEV_DEBUG", "0")
                .env("RUSTFLAGS", "--cap-lints=allow")
                .current_dir(&self.tree),
        )?;
        program(&messages).context("cargo built no tests")
    }
}

/// The program that cargo says it built as a test.
fn program(messages: &str) -> Option<PathBuf> {
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| message["profile"]["test"] == true)
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
}

/// The tests that failed.
fn failures(printed: &str) -> Result<Vec<String>> {
    let failed: Vec<_> = printed
        .lines()
        .filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"))
        .map(str::to_owned)
        .collect();
    ensure!(!failed.is_empty(), "the tests ended early: {printed}");
    Ok(failed)
}

fn summary(tests: &[String]) -> String {
    match tests {
        [] => String::new(),
        [only] => only.clone(),
        [first, rest @ ..] => format!("{first} (+{})", rest.len()),
    }
}

/// The manifest of a workspace in which the protocol crate is alone.
fn alone(manifest: &str) -> Result<String> {
    let mut members = 0;
    let lines = manifest.lines().filter_map(|line| {
        if line.starts_with("members = ") {
            members += 1;
            return Some("members = [\"crates/proto\"]");
        }
        (!line.starts_with("default-members = ")).then_some(line)
    });
    let alone: String = lines.map(|line| format!("{line}\n")).collect();
    ensure!(members == 1, "the workspace names its members on one line");
    Ok(alone)
}

/// Makes `copy` equal to `original`, without what is not in it.
fn mirror(original: &Path, copy: &Path) -> Result<()> {
    if !original.is_dir() {
        let content = fs::read(original).with_context(|| original.display().to_string())?;
        return write_if_changed(&content, copy);
    }
    fs::create_dir_all(copy)?;
    for path in entries(copy)? {
        let name = path.file_name().context("an entry has a name")?;
        if !original.join(name).exists() {
            if path.is_dir() {
                fs::remove_dir_all(&path)?;
            } else {
                fs::remove_file(&path)?;
            }
        }
    }
    for path in entries(original)? {
        let name = path.file_name().context("an entry has a name")?;
        mirror(&path, &copy.join(name))?;
    }
    Ok(())
}

fn write_if_changed(content: &[u8], path: &Path) -> Result<()> {
    if fs::read(path).is_ok_and(|old| old == content) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, content).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_protocol_crate_stands_alone_in_its_workspace() {
        let manifest = "[workspace]\nmembers = [\"crates/*\", \"xtask\"]\n\
                        default-members = [\"crates/cli\"]\n\n[workspace.package]\n";
        assert_eq!(
            alone(manifest).unwrap(),
            "[workspace]\nmembers = [\"crates/proto\"]\n\n[workspace.package]\n"
        );
        assert!(alone("[package]\n").is_err());
    }

    #[test]
    fn what_cargo_built_and_what_failed_are_read_from_what_is_printed() {
        let messages = r#"
            {"reason":"compiler-artifact","profile":{"test":false},"executable":null}
            {"reason":"compiler-artifact","profile":{"test":true},"executable":"/t/it-1"}
            {"reason":"build-finished","success":true}"#;
        assert_eq!(program(messages), Some(PathBuf::from("/t/it-1")));
        assert_eq!(program(r#"{"reason":"build-finished"}"#), None);
        let printed = "test a::b ... FAILED\ntest c ... ok\n";
        assert_eq!(failures(printed).unwrap(), ["a::b"]);
        assert!(failures("running 2 tests\n").is_err());
    }

    #[test]
    fn the_test_that_notices_no_bug_is_there() {
        let (file, test) = GOLDEN.split_once("::").unwrap();
        let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/proto/tests/it");
        let text = fs::read_to_string(tests.join(file).with_extension("rs")).unwrap();
        assert!(text.contains(&format!("#[test]\nfn {test}()")));
    }

    #[test]
    fn every_machine_has_three_plants_or_more() {
        let plants = Path::new(env!("CARGO_MANIFEST_DIR")).join("../plants");
        for machine in [
            "connection",
            "elicitation",
            "frame",
            "invocation",
            "negotiation",
            "session",
            "subscription",
            "task",
        ] {
            assert!(entries(&plants.join(machine)).unwrap().len() >= 3);
        }
    }
}
