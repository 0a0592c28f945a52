//! Checks on the text of the repository that no compiler makes. They only read.
//!
//! They run as the step `tidy`, and as an ordinary test of this crate. Each finding names a file,
//! a line and what to do. A finding that is right to ignore gets a row in [`EXCEPTIONS`].

mod crates;
mod functions;
mod invariants;
mod paths;
mod rooms;

use std::fmt;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};

use crate::process;
use crate::steps::Ran;
use crate::workspace::Workspace;

/// Files that may break a rule, and why.
const EXCEPTIONS: &[Exception] = &[
    too_long("crates/proto/src/connection.rs"),
    too_long("crates/proto/src/frame.rs"),
    too_long("crates/proto/src/invocation.rs"),
    too_long("crates/proto/src/negotiation.rs"),
    too_long("crates/proto/src/refusal.rs"),
    too_long("crates/proto/src/session.rs"),
    too_long("crates/proto/src/task.rs"),
    too_long("crates/workflow/src/analysis.rs"),
    too_long("crates/workflow/src/builder.rs"),
    too_long("crates/workflow/src/diagram.rs"),
    too_long("crates/workflow/src/file/format.rs"),
    too_long("crates/workflow/src/file/write.rs"),
    too_long("crates/workflow/src/gate/tests.rs"),
    too_long("crates/workflow/src/problem.rs"),
    too_long("crates/workflow/src/svg/route.rs"),
    too_long("crates/workflow/src/svg/tests.rs"),
    too_long("crates/workflow/src/validate.rs"),
    too_long("crates/workflow/src/validate/tests.rs"),
    too_long("crates/workflow/src/workflow.rs"),
];

/// A file that may break a rule.
struct Exception {
    rule: Rule,
    path: &'static str,
    reason: &'static str,
}

const fn too_long(path: &'static str) -> Exception {
    Exception {
        rule: Rule::Length,
        path,
        reason: "it was written when more lines were allowed",
    }
}

/// More lines than this in one source file hold two ideas.
const MOST_LINES: usize = 500;

// The strings that are looked for are put together here, so that this file does not hold them.
const LEFTOVERS: &[&str] = &[
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("todo", "!("),
    concat!("#[ig", "nore"),
];
const SLEEP: &str = concat!("sle", "ep(");
const MACHINES: &[&str] = &[
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("registry.npm", "js"),
    concat!("pypi", ".org"),
    concat!("index.crates", ".io"),
    concat!("static.crates", ".io"),
];

/// The task `tidy`: the step by itself, or a list of the arrows between rooms.
pub(crate) fn task(workspace: &Workspace, arguments: &[String]) -> Result<()> {
    match arguments {
        [] => run(workspace).map(|_| ()),
        [option] if option == "--arrows" => {
            print!("{}", rooms::print(&sources(&workspace.root)?));
            Ok(())
        }
        [unknown, ..] => bail!("tidy does not know `{unknown}`"),
    }
}

/// The step `tidy`.
pub(crate) fn run(workspace: &Workspace) -> Result<Ran> {
    let findings = findings(workspace)?;
    for finding in &findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => Ok(Ran::Done),
        1 => bail!("1 finding, above"),
        several => bail!("{several} findings, above"),
    }
}

/// Everything that is untidy now, apart from what is excepted.
fn findings(workspace: &Workspace) -> Result<Vec<Finding>> {
    let sources = sources(&workspace.root)?;
    let mut findings: Vec<_> = sources.iter().flat_map(Source::findings).collect();
    findings.extend(rooms::findings(&sources));
    findings.extend(invariants::findings(&sources));
    findings.extend(crates::arrows(&workspace.packages, &sources));
    findings.extend(crates::published(&workspace.packages, &sources));
    findings.extend(crates::trees(workspace)?);
    let mut findings = without_exceptions(findings, EXCEPTIONS);
    findings.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
    Ok(findings)
}

/// What a finding is about; exceptions are made per rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// A source file begins by saying what it is.
    ModuleDocs,
    /// Nothing is left half done, and no test is switched off.
    Leftover,
    /// Tests do not wait for time to pass.
    Sleep,
    /// Files end with a newline; no trailing blanks; no tabs in Rust.
    Whitespace,
    /// A source file holds one idea.
    Length,
    /// A function is read in one go.
    FunctionLength,
    /// The project knows no particular machine or mirror.
    Machine,
    /// Crates know only the crates and the outside worlds that the table grants them.
    Arrow,
    /// Rooms of the server know only the rooms that the table grants them, and say what they are.
    Room,
    /// Every invariant names the tests that hold it.
    Invariant,
    /// What is published describes itself.
    Published,
}

/// One thing to put right.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    rule: Rule,
    path: String,
    line: usize,
    what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

fn without_exceptions(findings: Vec<Finding>, exceptions: &[Exception]) -> Vec<Finding> {
    let excuses = |exception: &Exception, finding: &Finding| {
        exception.rule == finding.rule && exception.path == finding.path
    };
    let unused = exceptions
        .iter()
        .filter(|exception| !findings.iter().any(|finding| excuses(exception, finding)))
        .map(|exception| Finding {
            rule: exception.rule,
            path: exception.path.to_owned(),
            line: 1,
            what: format!(
                "no longer breaks {:?}: remove its exception ({})",
                exception.rule, exception.reason
            ),
        });
    let unused: Vec<_> = unused.collect();
    findings
        .into_iter()
        .filter(|finding| {
            !exceptions
                .iter()
                .any(|exception| excuses(exception, finding))
        })
        .chain(unused)
        .collect()
}

/// One text file of the repository, by its path from the root.
struct Source {
    path: String,
    text: String,
}

impl Source {
    fn findings(&self) -> Vec<Finding> {
        let checks = [
            Self::module_docs,
            Self::leftovers,
            Self::sleeping_tests,
            Self::whitespace,
            Self::length,
            functions::findings,
            Self::machines,
        ];
        checks.iter().flat_map(|check| check(self)).collect()
    }

    fn module_docs(&self) -> Vec<Finding> {
        if !self.is_rust() || self.text.starts_with("//!") {
            return Vec::new();
        }
        let what = "begin the file with a `//!` line that says what it is";
        vec![self.finding(Rule::ModuleDocs, 1, what)]
    }

    fn leftovers(&self) -> Vec<Finding> {
        // Prose may speak of the rule; lock files are not ours.
        if self.path.ends_with(".md") || self.is_lock_file() {
            return Vec::new();
        }
        self.lines_with(LEFTOVERS, Rule::Leftover, "finish it, or drop it")
    }

    fn sleeping_tests(&self) -> Vec<Finding> {
        let first = match self.first_test_line() {
            Some(line) => line,
            None => return Vec::new(),
        };
        self.lines()
            .filter(|(line, text)| *line >= first && calls_sleep(text))
            .map(|(line, _)| {
                let what =
                    "a test that sleeps is slow or flaky: pass the time in, or wait for an event";
                self.finding(Rule::Sleep, line, what)
            })
            .collect()
    }

    fn whitespace(&self) -> Vec<Finding> {
        // Stored output, patches and inputs count byte by byte, so their blanks are meant.
        let is_exact = self.path.ends_with(".out")
            || self.path.ends_with(".patch")
            || self.path.starts_with("fuzz/seeds/")
            || self.path.starts_with("fuzz/regressions/");
        if is_exact || self.is_lock_file() {
            return Vec::new();
        }
        let mut findings = Vec::new();
        for (line, text) in self.lines() {
            if text.ends_with(char::is_whitespace) {
                findings.push(self.finding(
                    Rule::Whitespace,
                    line,
                    "remove the trailing whitespace",
                ));
            }
            if self.is_rust() && text.contains('\t') {
                findings.push(self.finding(Rule::Whitespace, line, "replace the tab by blanks"));
            }
        }
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            let last = self.lines().count();
            findings.push(self.finding(Rule::Whitespace, last, "end the file with a newline"));
        }
        findings
    }

    fn length(&self) -> Vec<Finding> {
        let mut folders = self.path.split('/');
        let is_source = folders.next() == Some("crates") && folders.nth(1) == Some("src");
        let lines = self.text.lines().count();
        if !is_source || !self.is_rust() || lines <= MOST_LINES {
            return Vec::new();
        }
        let what = format!("{lines} lines, more than {MOST_LINES}: split it by its ideas");
        vec![self.finding(Rule::Length, MOST_LINES + 1, what)]
    }

    fn machines(&self) -> Vec<Finding> {
        if self.is_lock_file() {
            return Vec::new();
        }
        let what = "name no path of one machine and no registry host";
        self.lines_with(MACHINES, Rule::Machine, what)
    }

    fn lines_with(&self, words: &[&str], rule: Rule, what: &str) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (line, text) in self.lines() {
            for word in words.iter().filter(|word| text.contains(**word)) {
                findings.push(self.finding(rule, line, format!("`{word}`: {what}")));
            }
        }
        findings
    }

    /// Where the test code of this file begins: by our custom, tests are last.
    fn first_test_line(&self) -> Option<usize> {
        let is_test_file = self
            .path
            .split('/')
            .any(|part| part == "tests" || part == "tests.rs");
        if is_test_file {
            return Some(1);
        }
        self.lines()
            .find(|(_, text)| self.is_rust() && text.trim_start().starts_with("mod tests"))
            .map(|(line, _)| line)
    }

    fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    fn is_lock_file(&self) -> bool {
        self.path.ends_with(".lock")
    }

    /// Lines with their numbers, as they stand, carriage returns included.
    fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        let text = self.text.strip_suffix('\n').unwrap_or(&self.text);
        (1..).zip(text.split('\n'))
    }

    fn finding(&self, rule: Rule, line: usize, what: impl Into<String>) -> Finding {
        Finding {
            rule,
            path: self.path.clone(),
            line,
            what: what.into(),
        }
    }
}

/// Whether a line of code calls it, under whatever path; names that merely end so do not count.
fn calls_sleep(text: &str) -> bool {
    let in_a_name = |before: &str| before.ends_with(|c: char| c == '_' || c.is_alphanumeric());
    !text.trim_start().starts_with("//")
        && text
            .match_indices(SLEEP)
            .any(|(at, _)| !in_a_name(&text[..at]))
}

/// Every text file that git tracks, or would if it were added.
fn sources(root: &Path) -> Result<Vec<Source>> {
    let listed = process::output(
        Command::new("git")
            .args([
                "ls-files",
                "-z",
                "--cached",
                "--others",
                "--exclude-standard",
            ])
            .current_dir(root),
    )?;
    let mut sources = Vec::new();
    for path in listed.split_terminator('\0') {
        // What cannot be read as text was deleted, is a link to a folder, or is a picture.
        if let Ok(text) = fs::read_to_string(root.join(path)) {
            let path = path.to_owned();
            sources.push(Source { path, text });
        }
    }
    Ok(sources)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_is_tidy() {
        let findings = findings(&Workspace::load().unwrap()).unwrap();
        let lines: Vec<_> = findings.iter().map(Finding::to_string).collect();
        assert!(lines.is_empty(), "{}", lines.join("\n"));
    }

    /// The rules and lines that a file with this text breaks.
    fn broken(path: &str, text: &str) -> Vec<(Rule, usize)> {
        let source = Source {
            path: path.to_owned(),
            text: text.to_owned(),
        };
        let findings = source.findings();
        findings
            .iter()
            .map(|finding| (finding.rule, finding.line))
            .collect()
    }

    #[test]
    fn a_rust_file_begins_with_what_it_is() {
        assert_eq!(broken("a.rs", "//! A.\n"), []);
        assert_eq!(broken("a.rs", "use b;\n"), [(Rule::ModuleDocs, 1)]);
        assert_eq!(broken("a.rs", ""), [(Rule::ModuleDocs, 1)]);
        assert_eq!(broken("a.py", "import b\n"), []);
    }

    #[test]
    fn nothing_is_left_half_done() {
        for leftover in LEFTOVERS {
            let text = format!("//! A.\n\n// {leftover}\n");
            assert_eq!(broken("a.rs", &text), [(Rule::Leftover, 3)]);
            assert_eq!(broken("guide.md", &text), []);
        }
    }

    #[test]
    fn tests_do_not_sleep() {
        let call = format!("{SLEEP}ms);\n");
        let text = format!("//! A.\n{call}mod tests {{\n    // {call}    {call}}}\n");
        assert_eq!(broken("crates/a/src/b.rs", &text), [(Rule::Sleep, 5)]);
        let text = format!("//! A.\n{call}");
        assert_eq!(broken("crates/a/src/b.rs", &text), []);
        assert_eq!(broken("crates/a/src/b/tests.rs", &text), [(Rule::Sleep, 2)]);
        assert_eq!(broken("crates/a/tests/it/b.rs", &text), [(Rule::Sleep, 2)]);
        assert_eq!(broken("tests/python/a.py", &call), [(Rule::Sleep, 1)]);
        let text = format!("//! A.\nfn clients_never_{SLEEP}) {{}}\n");
        assert_eq!(broken("crates/a/tests/it/b.rs", &text), []);
    }

    #[test]
    fn blanks_are_where_they_belong() {
        assert_eq!(
            broken("a.md", "a \nb\r\nc"),
            [1, 2, 3].map(|line| (Rule::Whitespace, line))
        );
        assert_eq!(broken("a.rs", "//! A.\n\tb\n"), [(Rule::Whitespace, 2)]);
        for exact in ["script.out", "plants/a/b.patch", "fuzz/regressions/a/b"] {
            assert_eq!(broken(exact, "a \nb"), []);
        }
        assert_eq!(broken("empty.txt", ""), []);
    }

    #[test]
    fn a_source_file_is_not_endless() {
        let text = "//! A.\n".repeat(MOST_LINES + 1);
        assert_eq!(
            broken("crates/a/src/b.rs", &text),
            [(Rule::Length, MOST_LINES + 1)]
        );
        assert_eq!(broken("crates/a/tests/it/b.rs", &text), []);
        let text = "//! A.\n".repeat(MOST_LINES);
        assert_eq!(broken("crates/a/src/b.rs", &text), []);
    }

    #[test]
    fn no_machine_and_no_mirror_is_named() {
        for word in MACHINES {
            let text = format!("see {word}x\n");
            assert_eq!(broken("README.md", &text), [(Rule::Machine, 1)]);
            assert_eq!(broken("Cargo.lock", &text), []);
        }
    }

    #[test]
    fn an_exception_excuses_its_rule_in_its_file_and_no_more() {
        let finding = |rule, path: &str| Finding {
            rule,
            path: path.to_owned(),
            line: 3,
            what: "broken".to_owned(),
        };
        let exceptions = [Exception {
            rule: Rule::Length,
            path: "a.rs",
            reason: "a table",
        }];
        let left = without_exceptions(
            vec![
                finding(Rule::Length, "a.rs"),
                finding(Rule::Sleep, "a.rs"),
                finding(Rule::Length, "b.rs"),
            ],
            &exceptions,
        );
        assert_eq!(
            left,
            [finding(Rule::Sleep, "a.rs"), finding(Rule::Length, "b.rs")]
        );
        let unused = without_exceptions(Vec::new(), &exceptions);
        assert_eq!(
            unused[0].to_string(),
            "a.rs:1: no longer breaks Length: remove its exception (a table)"
        );
    }
}
