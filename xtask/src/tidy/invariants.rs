//! Each invariant names the tests that hold it, and they are there.
//!
//! `docs/invariants.md` has a row for each `**Invariant:**` of `docs/architecture.md`.
//! `docs/machines.md` has such tables of its own, written by the tests of `interlock-proto`.

use std::collections::BTreeSet;

use super::{Finding, Rule, Source};

const ARCHITECTURE: &str = "docs/architecture.md";
const PAGE: &str = "docs/invariants.md";
const MACHINES: &str = "docs/machines.md";
/// The tests that [`MACHINES`] names lie here, and its models here.
const MACHINE_TESTS: &str = "crates/proto/";
const MODELS: &str = "crates/proto/tests/it/model";
/// A suite that runs against every store: each public function is one test.
const SUITE: &str = "crates/store/src/conformance/";

const HEADING: &str = "| Invariant | Held by |";
const MARK: &str = "- **Invariant:** ";

/// Every invariant without a row, row without an invariant, and holder that is not there.
pub(super) fn findings(sources: &[Source]) -> Vec<Finding> {
    let find = |path: &str| sources.iter().find(|source| source.path == path);
    let mut findings = Vec::new();
    for page in [PAGE, MACHINES].into_iter().filter_map(find) {
        for row in rows(page) {
            if row.holders.is_empty() {
                findings.push(page.finding(Rule::Invariant, row.line, "name a test that holds it"));
            }
            let wrong = row.holders.iter();
            let wrong = wrong.filter(|holder| !exists(holder, &page.path, sources));
            findings.extend(wrong.map(|holder| {
                let what = format!("there is no test {holder}, which holds an invariant");
                page.finding(Rule::Invariant, row.line, what)
            }));
        }
    }
    if let Some(architecture) = find(ARCHITECTURE) {
        findings.extend(unmatched(architecture, find(PAGE)));
    }
    findings
}

/// A row is of the invariant that begins as its first cell reads.
fn unmatched(architecture: &Source, page: Option<&Source>) -> Vec<Finding> {
    let text = architecture.text.replace("\n  ", " ");
    let invariants: Vec<_> = text
        .lines()
        .filter_map(|line| line.strip_prefix(MARK))
        .collect();
    let rows = page.map(rows).unwrap_or_default();
    let mut findings = Vec::new();
    for invariant in &invariants {
        if !rows.iter().any(|row| invariant.starts_with(row.says)) {
            let what = format!("no row of {PAGE} names the tests that hold `{invariant}`");
            findings.push(architecture.finding(Rule::Invariant, 1, what));
        }
    }
    for (row, page) in rows.iter().zip(page.into_iter().cycle()) {
        if !invariants.iter().any(|says| says.starts_with(row.says)) {
            let what = format!("no invariant of {ARCHITECTURE} begins like this row");
            findings.push(page.finding(Rule::Invariant, row.line, what));
        }
    }
    findings
}

/// A row of a table of invariants.
struct Row<'a> {
    line: usize,
    says: &'a str,
    holders: Vec<&'a str>,
}

fn rows(page: &Source) -> Vec<Row<'_>> {
    let mut rows = Vec::new();
    let mut is_inside = false;
    for (line, text) in page.lines() {
        is_inside = text == HEADING || is_inside && text.starts_with('|');
        let cells: Vec<_> = text.trim_matches('|').split(" | ").map(str::trim).collect();
        if let [says, held] = cells[..]
            && is_inside
            && text != HEADING
        {
            let holders = held.split("<br>").filter(|holder| !holder.is_empty());
            let holders = holders.collect();
            rows.push(Row {
                line,
                says,
                holders,
            });
        }
    }
    rows
}

/// `path::test`, or on the page of the machines also `test`, `model: *property*` and `not yet: why`.
fn exists(holder: &str, page: &str, sources: &[Source]) -> bool {
    let below = |folder: &'static str| {
        let below = sources.iter();
        below.filter(move |source| source.path.starts_with(folder) && source.is_rust())
    };
    if let Some(property) = holder.strip_prefix("model: ") {
        let named = format!("\"{}\"", property.trim_matches('*'));
        return below(MODELS).any(|source| source.text.contains(&named));
    }
    let name = holder.trim_matches('`');
    match name.split_once("::") {
        Some((path, test)) => {
            let mut file = sources.iter().filter(|source| source.path == path);
            file.any(|source| tests_of(source).contains(test))
        }
        None if page == MACHINES => {
            holder.starts_with("not yet: ")
                || below(MACHINE_TESTS).any(|source| tests_of(source).contains(name))
        }
        None => false,
    }
}

/// The names of the tests of a file.
fn tests_of(source: &Source) -> BTreeSet<&str> {
    let mut tests = BTreeSet::new();
    let mut is_marked = false;
    for (_, line) in source.lines() {
        let line = line.trim_start();
        let promise = line.strip_prefix("pub async fn ");
        let promise = promise.filter(|_| source.path.starts_with(SUITE));
        let test = line
            .strip_prefix("async ")
            .unwrap_or(line)
            .strip_prefix("fn ");
        if let Some(rest) = promise.or(test.filter(|_| is_marked)) {
            tests.extend(rest.split(['(', '<']).next());
        }
        let is_test = line.starts_with("#[test]") || line.starts_with("#[tokio::test");
        let goes_on = line.starts_with("#[") || line.starts_with("//");
        is_marked = is_test || is_marked && goes_on;
    }
    tests
}

#[cfg(test)]
mod tests {
    use super::super::sources;
    use super::*;
    use crate::workspace::Workspace;

    fn source(path: &str, text: &str) -> Source {
        Source {
            path: path.to_owned(),
            text: text.to_owned(),
        }
    }

    /// What is found if the invariant `ours` is held by this on a page.
    fn held_by(page: &str, holder: &str) -> Vec<String> {
        let sources = [
            source(ARCHITECTURE, "# A\n\n- **Invariant:** ours\n  is long.\n"),
            source(
                page,
                &format!("{HEADING}\n|---|---|\n| ours is | {holder} |\n"),
            ),
            source(
                PAGE,
                &format!("{HEADING}\n|---|---|\n| ours is | `a/b.rs::good` |\n"),
            ),
            source(
                "a/b.rs",
                "#[test]\nfn good() {}\n\nfn helper() {}\n\n#[tokio::test(start_paused = true)]\n\
                 // Why.\n#[should_panic]\nasync fn also_good() {}\n",
            ),
            source(
                "crates/proto/tests/it/a.rs",
                "    #[test]\n    fn moves(a in b()) {}\n",
            ),
            source(
                "crates/proto/tests/it/model/a.rs",
                "always(\"it holds\")\nfn not_one() {}\n",
            ),
            source(
                "crates/store/src/conformance/a.rs",
                "pub async fn is_kept(s: &S) {}\n",
            ),
        ];
        findings(&sources[..])
            .iter()
            .map(Finding::to_string)
            .collect()
    }

    #[test]
    fn a_holder_is_a_test_in_the_file_that_is_named() {
        for good in [
            "`a/b.rs::good`",
            "`a/b.rs::also_good`<br>`a/b.rs::good`",
            "`crates/store/src/conformance/a.rs::is_kept`",
        ] {
            assert_eq!(held_by(PAGE, good), [""; 0], "{good}");
        }
        for wrong in [
            "`a/b.rs::helper`",
            "`a/b.rs::gone`",
            "`a/c.rs::good`",
            "`good`",
            "a lint",
            "",
            "`a/b.rs::good`<br>`a/b.rs::gone`",
        ] {
            assert_eq!(held_by(PAGE, wrong).len(), 1, "{wrong}");
        }
    }

    #[test]
    fn the_page_of_the_machines_names_tests_and_properties_of_its_crate() {
        for good in [
            "`moves`",
            "model: *it holds*",
            "not yet: no",
            "`a/b.rs::good`",
        ] {
            assert_eq!(held_by(MACHINES, good), [""; 0], "{good}");
        }
        for wrong in ["`not_one`", "`good`", "model: *it fails*"] {
            assert_eq!(held_by(MACHINES, wrong).len(), 1, "{wrong}");
        }
    }

    #[test]
    fn every_invariant_has_a_row_and_every_row_an_invariant() {
        let architecture = source(
            ARCHITECTURE,
            "- **Invariant:** one.\n- **Invariant:** two.\n",
        );
        let page = source(
            PAGE,
            &format!("{HEADING}\n|---|---|\n| one | x |\n| three | x |\n"),
        );
        let found = unmatched(&architecture, Some(&page));
        let found: Vec<_> = found.iter().map(Finding::to_string).collect();
        assert_eq!(
            found,
            [
                "docs/architecture.md:1: no row of docs/invariants.md names the tests that hold `two.`",
                "docs/invariants.md:4: no invariant of docs/architecture.md begins like this row",
            ]
        );
        assert_eq!(unmatched(&architecture, None).len(), 2);
    }

    fn all() -> Vec<Source> {
        sources(&Workspace::load().unwrap().root).unwrap()
    }

    #[test]
    fn the_pure_crates_may_not_ask_for_the_time() {
        let sources = all();
        for package in ["proto", "workflow"] {
            let path = format!("crates/{package}/clippy.toml");
            let rules = sources.iter().find(|source| source.path == path).unwrap();
            for function in ["std::time::Instant::now", "std::time::SystemTime::now"] {
                assert!(
                    rules.text.contains(&format!("path = \"{function}\"")),
                    "{path}"
                );
            }
        }
    }

    #[test]
    fn rmcp_gives_types_and_serves_nothing_but_what_is_mounted() {
        for source in all() {
            let is_ours = source.path.starts_with("crates/") && source.path.contains("/src/");
            if !is_ours || source.path.starts_with("crates/server/src/mount/") {
                continue;
            }
            let code = source.lines().map(|(_, line)| line.trim_start());
            let mut code = code.filter(|line| !line.starts_with("//"));
            let wrong = code.find(|line| line.replace("rmcp::model", "").contains("rmcp::"));
            assert_eq!(wrong, None, "{}", source.path);
        }
    }

    #[test]
    fn every_crate_forbids_unsafe_code_and_warns_of_unwrap() {
        for source in all() {
            let text = &source.text;
            if source.path == "Cargo.toml" {
                assert!(text.contains("\nunsafe_code = \"forbid\"\n"));
                assert!(text.contains("\nunwrap_used = \"warn\"\n"));
            } else if source.path.ends_with("/Cargo.toml") && !source.path.starts_with("fuzz/") {
                assert!(
                    text.contains("[lints]\nworkspace = true\n"),
                    "{}",
                    source.path
                );
            }
        }
    }
}
