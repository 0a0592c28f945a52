//! Finds the part of a scalar that a finding about it means.

use super::tree;
use crate::{Problem, Span};

/// In a longer scalar nothing is looked for: each finding about it would cost a walk through it.
const LONGEST: usize = 16_000;

/// The part of an expression that a problem is about, where the expression stands in the file
/// letter by letter; or else all of it.
pub(super) fn to_the_part(text: &str, whole: Span, problem: &Problem) -> Span {
    let Some(at) = problem.at() else {
        return whole;
    };
    let Some(written) = text.get(whole.start..whole.end) else {
        return whole;
    };
    let part = verbatim(written).and_then(|(skipped, source)| {
        let before = source.get(..at.start)?;
        let part = source.get(at.clone())?;
        let start = whole.start + skipped + at.start;
        Some(Span {
            start,
            end: start + part.len(),
            line: whole.line,
            column: whole.column + tree::small(skipped + before.chars().count()),
        })
    });
    part.unwrap_or(whole)
}

/// What a scalar says, if it says it letter by letter, and how far inside it begins.
fn verbatim(written: &str) -> Option<(usize, &str)> {
    if written.len() > LONGEST || written.contains(['\n', '\r']) {
        return None;
    }
    match written.chars().next()? {
        // An alias stands for something that is written elsewhere.
        '*' | '&' | '!' => None,
        quote @ ('"' | '\'') => {
            let inside = written.get(1..written.len() - 1)?;
            let closed = written.len() >= 2 && written.ends_with(quote);
            // A quote or a backslash inside begins an escape.
            (closed && !inside.contains([quote, '\\'])).then_some((1, inside))
        }
        _ => Some((0, written)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_stands_letter_by_letter_is_verbatim() {
        assert_eq!(verbatim("args.a"), Some((0, "args.a")));
        assert_eq!(verbatim("'args.a'"), Some((1, "args.a")));
        assert_eq!(verbatim("\"args.a == 'b'\""), Some((1, "args.a == 'b'")));
        assert_eq!(verbatim("'a == ''b'''"), None);
        assert_eq!(verbatim("\"a == \\\"b\\\"\""), None);
        assert_eq!(verbatim("args.a &&\n  args.b"), None);
        assert_eq!(verbatim("*guard"), None);
        assert_eq!(verbatim("'"), None);
        assert_eq!(verbatim(""), None);
    }
}
