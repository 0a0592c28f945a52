//! How long functions are, as rustfmt lays them out.

use super::{Finding, Rule, Source};

/// Where functions are measured.
const MEASURED: &[&str] = &["crates/server/src/", "crates/engine/src/"];

/// More lines than this, from `fn` to the closing brace, are read more than once.
const MOST_LINES: usize = 60;

/// Above a function that is right to be longer, followed by the reason.
const EXCUSE: &str = "// Long: ";

/// Functions that are too long and give no reason for it.
pub(super) fn findings(source: &Source) -> Vec<Finding> {
    let is_measured = MEASURED
        .iter()
        .any(|folder| source.path.starts_with(folder));
    if !is_measured || !source.is_rust() {
        return Vec::new();
    }
    let lines: Vec<_> = source.text.lines().collect();
    let functions = (0..lines.len()).filter_map(|at| Some((at, name(lines[at])?)));
    let too_long = functions.filter_map(|(at, name)| {
        let length = length(&lines[at..]);
        if length <= MOST_LINES || is_excused(&lines[..at]) {
            return None;
        }
        let what = format!(
            "`{name}` has {length} lines, more than {MOST_LINES}: \
             split it, or say `{EXCUSE}` and why above it"
        );
        Some(source.finding(Rule::FunctionLength, at + 1, what))
    });
    too_long.collect()
}

/// The name of the function that begins in this line, if one does.
fn name(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace();
    let is_before = |word: &str| {
        // `pub(in path)` is two words.
        let is_visibility = word.starts_with("pub") || word.ends_with(')');
        is_visibility || matches!(word, "const" | "async")
    };
    words
        .find(|word| !is_before(word))
        .filter(|word| *word == "fn")?;
    let name = words.next()?;
    Some(name.split(['(', '<']).next().unwrap_or(name))
}

/// How many lines the function takes that begins in the first. It ends with the first line that is
/// indented like its beginning and closes it; without a body, with a semicolon.
fn length(lines: &[&str]) -> usize {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let closes = |line: &str| indent(line) == indent(lines[0]) && line.ends_with(['}', ';']);
    let last = lines.iter().position(|line| closes(line));
    last.map_or(lines.len(), |last| last + 1)
}

/// Whether a reason stands among the comments and attributes at the end of these lines.
fn is_excused(before: &[&str]) -> bool {
    let lines = before.iter().rev().map(|line| line.trim_start());
    let mut above = lines.take_while(|line| {
        let is_comment = line.starts_with("//");
        is_comment || !(line.is_empty() || line.ends_with(['{', '}', ';']))
    });
    above.any(|line| line.starts_with(EXCUSE))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines at which functions are too long in a file of the server.
    #[track_caller]
    fn check(text: &str, expected: &[usize]) {
        let source = Source {
            path: "crates/server/src/a.rs".to_owned(),
            text: text.to_owned(),
        };
        let lines: Vec<_> = findings(&source).iter().map(|found| found.line).collect();
        assert_eq!(lines, expected);
    }

    /// A function with so many lines.
    fn function(head: &str, lines: usize) -> String {
        format!(
            "    {head} {{\n{}    }}\n",
            "        a();\n".repeat(lines - 2)
        )
    }

    #[test]
    fn a_function_is_not_endless() {
        for head in ["fn f()", "pub(in crate::a) const fn f<T>()", "async fn f()"] {
            check(&function(head, MOST_LINES), &[]);
            check(&function(head, MOST_LINES + 1), &[1]);
        }
        check(&function("impl F", MOST_LINES + 1), &[]);
    }

    #[test]
    fn a_function_ends_where_it_is_closed() {
        let long = function("fn g()", MOST_LINES);
        check(&format!("    fn f() {{}}\n{long}"), &[]);
        check(
            &format!("    fn f(\n        a: A,\n    ) -> B;\n{long}"),
            &[],
        );
        let head = "fn f(\n        a: A,\n    ) -> B";
        check(&function(head, MOST_LINES - 2), &[]);
        check(&function(head, MOST_LINES - 1), &[1]);
    }

    #[test]
    fn a_reason_excuses_the_function_below_it() {
        let long = function("fn f()", MOST_LINES + 1);
        check(&format!("    // Long: a table.\n{long}"), &[]);
        let attribute = "    #[expect(\n        a,\n        reason = \"b\"\n    )]\n";
        check(
            &format!("    /// A.\n    // Long: a table.\n{attribute}{long}"),
            &[],
        );
        check(&format!("    // Long: a table.\n\n{long}"), &[3]);
        check(
            &format!("    // Long: a table.\n    fn a() {{}}\n{long}"),
            &[3],
        );
    }

    #[test]
    fn other_crates_are_not_measured() {
        let source = Source {
            path: "crates/cli/src/a.rs".to_owned(),
            text: function("fn f()", MOST_LINES + 1),
        };
        assert_eq!(findings(&source), []);
    }
}
