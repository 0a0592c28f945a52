//! The step `examples`: every folder of `examples/` that holds a workflow file does what it says.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::process;
use crate::steps::Ran;
use crate::workspace::Workspace;

/// What is done with an example that holds a certain file. A new kind of check is one more row.
const CHECKS: &[Check] = &[
    Check {
        name: "check",
        wherever: WORKFLOW,
        run: check,
    },
    Check {
        name: "test",
        wherever: SCENARIOS,
        run: test,
    },
    Check {
        name: "play",
        wherever: SCRIPT,
        run: |example| play(example, SCRIPT, "script.out", &[]),
    },
    Check {
        name: "play --dry",
        wherever: DRY_SCRIPT,
        run: |example| play(example, DRY_SCRIPT, "dry.out", &["--dry"]),
    },
    Check {
        name: "picture",
        wherever: README,
        run: picture,
    },
    Check {
        name: "diagram",
        wherever: README,
        run: diagram,
    },
];

struct Check {
    name: &'static str,
    wherever: &'static str,
    run: fn(&Example<'_>) -> Result<()>,
}

const LIMIT: Duration = Duration::from_secs(60);
const WORKFLOW: &str = "interlock.yaml";
const SCENARIOS: &str = "interlock.test.yaml";
const SCRIPT: &str = "script.txt";
const DRY_SCRIPT: &str = "dry.txt";
const PICTURE: &str = "graph.svg";
const README: &str = "README.md";
/// The example that the README at the root shows.
const FRONT: &str = "examples/refund";

pub(crate) fn run(workspace: &Workspace) -> Result<Ran> {
    build(workspace)?;
    let folders = folders(&workspace.root)?;
    let mut failures = Vec::new();
    for folder in &folders {
        let example = Example { workspace, folder };
        let at_hand = |check: &&Check| workspace.root.join(example.file(check.wherever)).exists();
        for check in CHECKS.iter().filter(at_hand) {
            let what = format!("{} {}", check.name, folder.display());
            match (check.run)(&example) {
                Ok(()) => println!("  {what}: ok"),
                Err(error) => failures.push(format!("{what}: {error:#}")),
            }
        }
    }
    match readme(workspace) {
        Ok(()) => println!("  check README.md: ok"),
        Err(error) => failures.push(format!("README.md: {error:#}")),
    }
    if !failures.is_empty() {
        bail!("{}", failures.join("\n"));
    }
    Ok(Ran::Done)
}

/// Builds the command line and the Rust examples, which other steps run too.
pub(crate) fn build(workspace: &Workspace) -> Result<()> {
    process::run(process::cargo(workspace).args([
        "build",
        "--workspace",
        "--bins",
        "--examples",
        "--locked",
    ]))
}

/// A folder with a workflow file, by its path from the root: output then names no machine.
struct Example<'a> {
    workspace: &'a Workspace,
    folder: &'a Path,
}

impl Example<'_> {
    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn interlock(&self) -> Command {
        let mut command = Command::new(self.workspace.built("interlock"));
        command.current_dir(&self.workspace.root);
        command
    }
}

/// The workflow file has no error.
fn check(example: &Example<'_>) -> Result<()> {
    process::output_within(
        example.interlock().arg("check").arg(example.file(WORKFLOW)),
        LIMIT,
    )?;
    Ok(())
}

/// Its scenarios pass, and so do the paths that can be generated.
fn test(example: &Example<'_>) -> Result<()> {
    let mut command = example.interlock();
    command.arg("test").arg(example.file(WORKFLOW));
    let (status, printed) = process::ended_within(&mut command, LIMIT)?;
    match status {
        Some(status) if status.success() => Ok(()),
        Some(_) | None => bail!("{}", printed.trim_end()),
    }
}

/// A script plays as stored beside it.
fn play(example: &Example<'_>, script: &str, stored: &str, flags: &[&str]) -> Result<()> {
    let printed = process::output_within(
        example
            .interlock()
            .arg("play")
            .arg(example.file(WORKFLOW))
            .arg("--script")
            .arg(example.file(script))
            .args(flags),
        LIMIT,
    )?;
    expect_stored(
        &example.workspace.root.join(example.file(stored)),
        &printed,
        Stored::from_environment(),
    )
}

/// The picture beside the text is the one that the command line draws, and the text shows it.
fn picture(example: &Example<'_>) -> Result<()> {
    let drawn = process::output_within(
        example
            .interlock()
            .arg("graph")
            .arg(example.file(WORKFLOW))
            .args(["--format", "svg"]),
        LIMIT,
    )?;
    let root = &example.workspace.root;
    expect_stored(
        &root.join(example.file(PICTURE)),
        &drawn,
        Stored::from_environment(),
    )?;
    let text = fs::read_to_string(root.join(example.file(README)))?;
    if !shows(&text, PICTURE) {
        bail!("{README} does not show {PICTURE}");
    }
    Ok(())
}

/// The diagram in the text is the one that the command line draws.
fn diagram(example: &Example<'_>) -> Result<()> {
    let drawn = process::output_within(
        example.interlock().arg("graph").arg(example.file(WORKFLOW)),
        LIMIT,
    )?;
    let root = &example.workspace.root;
    let mut shown_in = vec![root.join(example.file(README))];
    if example.folder == Path::new(FRONT) {
        shown_in.push(root.join(README));
    }
    for file in shown_in {
        let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        let current = with_diagram(&text, &drawn)
            .with_context(|| format!("{}: it has no mermaid block", file.display()))?;
        expect_stored(&file, &current, Stored::from_environment())?;
    }
    Ok(())
}

/// The workflow file in the README at the root has no error.
fn readme(workspace: &Workspace) -> Result<()> {
    let text = fs::read_to_string(workspace.root.join(README))?;
    let file = block(&text, "yaml").context("README.md has no yaml block")?;
    let path = workspace.target.join("readme.yaml");
    fs::write(&path, &text[file])?;
    let mut check = Command::new(workspace.built("interlock"));
    process::output_within(check.arg("check").arg(&path), LIMIT)?;
    Ok(())
}

/// Where the content of the first block of this language stands.
fn block(text: &str, language: &str) -> Option<Range<usize>> {
    let fence = format!("```{language}\n");
    let start = text.find(&fence)? + fence.len();
    let length = text[start..].find("```")?;
    Some(start..start + length)
}

/// A text whose first mermaid block is this diagram; `None` if it has no such block.
fn with_diagram(text: &str, drawn: &str) -> Option<String> {
    let shown = block(text, "mermaid")?;
    let (before, after) = (&text[..shown.start], &text[shown.end..]);
    Some(format!("{before}{drawn}{after}"))
}

/// Whether a text in Markdown shows this picture.
fn shows(text: &str, picture: &str) -> bool {
    let images = text.split("![").skip(1);
    let mut targets = images.filter_map(|image| image.split_once("](")?.1.split_once(')'));
    targets.any(|(target, _)| target == picture)
}

/// Whether stored output is compared with, or replaced.
#[derive(Clone, Copy)]
enum Stored {
    Compare,
    Update,
}

impl Stored {
    fn from_environment() -> Self {
        match std::env::var("UPDATE_EXPECT").as_deref() {
            Ok("1") => Self::Update,
            Ok(_) | Err(_) => Self::Compare,
        }
    }
}

fn expect_stored(file: &Path, printed: &str, stored: Stored) -> Result<()> {
    match stored {
        Stored::Update => {
            fs::write(file, printed).with_context(|| file.display().to_string())?;
            Ok(())
        }
        Stored::Compare => {
            let expected = fs::read_to_string(file)
                .with_context(|| format!("{}: UPDATE_EXPECT=1 writes it", file.display()))?;
            match difference(&expected, printed) {
                None => Ok(()),
                Some(difference) => bail!(
                    "{}: {difference}\nif that is meant, UPDATE_EXPECT=1 rewrites it",
                    file.display()
                ),
            }
        }
    }
}

/// The first line in which two texts differ, told for a reader.
fn difference(expected: &str, actual: &str) -> Option<String> {
    if expected == actual {
        return None;
    }
    let mut expected_lines = expected.split('\n');
    let mut actual_lines = actual.split('\n');
    let mut number = 1;
    loop {
        match (expected_lines.next(), actual_lines.next()) {
            (Some(stored), Some(printed)) if stored == printed => number += 1,
            (stored, printed) => {
                let show =
                    |line: Option<&str>| line.map_or("nothing".to_owned(), |l| format!("{l:?}"));
                return Some(format!(
                    "line {number} is stored as {} and printed as {}",
                    show(stored),
                    show(printed)
                ));
            }
        }
    }
}

fn folders(root: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root.join("examples")).context("examples/")? {
        let entry = entry?;
        if entry.path().join(WORKFLOW).exists() {
            found.push(Path::new("examples").join(entry.file_name()));
        }
    }
    found.sort();
    if found.is_empty() {
        bail!("examples/ holds no folder with an {WORKFLOW}");
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_that_differs_is_told() {
        assert_eq!(difference("a\nb\n", "a\nb\n"), None);
        assert_eq!(
            difference("a\nb\n", "a\nc\n").unwrap(),
            r#"line 2 is stored as "b" and printed as "c""#
        );
        assert_eq!(
            difference("a", "a\nb").unwrap(),
            r#"line 2 is stored as nothing and printed as "b""#
        );
    }

    #[test]
    fn the_diagram_of_a_text_is_replaced_and_nothing_else() {
        assert_eq!(
            with_diagram("a\n```mermaid\nold\n```\nb ```\n", "new\n").unwrap(),
            "a\n```mermaid\nnew\n```\nb ```\n"
        );
        assert_eq!(with_diagram("a\n```sh\nb\n```\n", "new\n"), None);
    }

    #[test]
    fn a_text_shows_the_pictures_that_it_embeds() {
        assert!(shows("a\n\n![one](a.svg) ![two](b.svg)\n", "b.svg"));
        assert!(!shows("[a link](b.svg), b.svg\n![one](a.svg)\n", "b.svg"));
    }

    #[test]
    fn stored_output_is_compared_and_updated() {
        let folder = std::env::temp_dir().join(format!("interlock-xtask-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join("script.out");
        let missing = expect_stored(&file, "new\n", Stored::Compare).unwrap_err();
        assert!(format!("{missing:#}").contains("UPDATE_EXPECT=1"));
        expect_stored(&file, "old\n", Stored::Update).unwrap();
        expect_stored(&file, "old\n", Stored::Compare).unwrap();
        let stale = expect_stored(&file, "new\n", Stored::Compare).unwrap_err();
        assert!(stale.to_string().contains(r#"stored as "old""#));
        expect_stored(&file, "new\n", Stored::Update).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new\n");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn only_folders_with_a_workflow_file_are_examples() {
        let root = std::env::temp_dir().join(format!("interlock-folders-{}", std::process::id()));
        for folder in ["examples/b", "examples/a", "examples/notes"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        assert!(folders(&root).is_err());
        for folder in ["examples/b", "examples/a"] {
            fs::write(root.join(folder).join(WORKFLOW), "interlock: 1\n").unwrap();
        }
        let found = folders(&root).unwrap();
        assert_eq!(found, [Path::new("examples/a"), Path::new("examples/b")]);
        fs::remove_dir_all(&root).unwrap();
    }
}
