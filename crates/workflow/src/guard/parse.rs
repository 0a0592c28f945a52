//! Reads an expression with the parser of the crate `cel`, and says in plain words what it refuses.

use std::ops::Range;
use std::sync::Arc;

use cel::common::ast::{IdedExpr, SourceInfo};
use cel::parser::{ParseError, PrattParser};

use super::LONGEST;
use super::flaw::{Fault, Flaw};

/// How often brackets and calls can nest. The parser takes about 3 KB of stack for each in a debug
/// build; the other parser of the crate takes 100 KB, which is why it is not used.
const MOST_BRACKETS: u16 = 32;

/// An expression that is CEL, though it may still mean nothing.
pub(super) struct Parsed<'s> {
    pub(super) source: &'s str,
    pub(super) expression: IdedExpr,
    positions: Option<Arc<SourceInfo>>,
}

/// Reads the source.
pub(super) fn parse(source: &str) -> Result<Parsed<'_>, Flaw> {
    let length = source.chars().count();
    if length > LONGEST {
        return Err(Flaw::new(Fault::TooLong { found: length }, None));
    }
    if source.trim().is_empty() {
        return Err(Flaw::new(Fault::Empty, None));
    }
    match parser().parse(source) {
        Ok(expression) => Ok(Parsed {
            source,
            expression,
            positions: positions(source),
        }),
        Err(errors) => Err(errors
            .errors
            .first()
            .map_or_else(unexplained, |error| explain(error, source))),
    }
}

fn parser() -> PrattParser {
    PrattParser::new().max_recursion_depth(MOST_BRACKETS)
}

/// Where each node stands. The parser numbers the nodes in the order in which it meets them, and
/// hands out their places with an error only, so it is given the same text with an error at its end.
fn positions(source: &str) -> Option<Arc<SourceInfo>> {
    let errors = parser().parse(&format!("{source}\n)")).err()?;
    errors
        .errors
        .into_iter()
        .find_map(|error| error.source_info)
}

impl Parsed<'_> {
    /// Where the token stands that made this node: a name, an operator, the bracket of a call.
    pub(super) fn token(&self, id: u64) -> Option<Range<usize>> {
        let (start, end) = self.positions.as_ref()?.offset_for(id)?;
        Some(within(self.source, start as usize, end as usize))
    }

    /// Where the name of a called function stands.
    pub(super) fn called(&self, id: u64, name: &str) -> Option<Range<usize>> {
        let token = self.token(id)?;
        if self.source[token.start..].starts_with(name) {
            return Some(token.start..token.start + name.len());
        }
        // For a method the token is the bracket after the name.
        let before = self.source[..token.start].trim_end();
        let start = before.strip_suffix(name)?.len();
        Some(start..before.len())
    }

    /// Where a word stands that follows this token, with nothing but `between` and space between.
    pub(super) fn after(&self, id: u64, between: &str, word: &str) -> Option<Range<usize>> {
        let rest = &self.source[self.token(id)?.end..];
        let rest = rest.trim_start().strip_prefix(between)?.trim_start();
        let start = self.source.len() - rest.len();
        rest.starts_with(word).then(|| start..start + word.len())
    }

    /// Where the text of a string literal stands, without its quotes if it has no escapes.
    pub(super) fn text(&self, id: u64, text: &str) -> Option<Range<usize>> {
        let token = self.token(id)?;
        let inner = token.start + 1..token.end.saturating_sub(1);
        if self.source.get(inner.clone()) == Some(text) {
            return Some(inner);
        }
        Some(token)
    }
}

/// The range, widened to whole characters; the parser counts bytes.
fn within(source: &str, start: usize, end: usize) -> Range<usize> {
    let start = source.floor_char_boundary(start);
    start..source.ceil_char_boundary(end.max(start))
}

fn unexplained() -> Flaw {
    let message = "the expression cannot be read".to_owned();
    Flaw::new(
        Fault::Syntax {
            message,
            hint: None,
        },
        None,
    )
}

fn explain(error: &ParseError, source: &str) -> Flaw {
    if error.msg.contains("recursion limit") {
        return Flaw::new(Fault::TooDeep, None);
    }
    let at = place(error, source);
    let found = at.clone().and_then(|at| source.get(at));
    let braces = source.contains("{{");
    let braces = braces.then_some("braces are for texts: write `args.amount`");
    Flaw::new(in_plain_words(&error.msg, found, braces), at)
}

fn place(error: &ParseError, source: &str) -> Option<Range<usize>> {
    let known = error.source_info.as_ref();
    if let Some((start, end)) = known.and_then(|info| info.offset_for(error.expr_id)) {
        return Some(within(source, start as usize, end as usize));
    }
    let (line, column) = error.pos;
    let line = usize::try_from(line).ok()?.checked_sub(1)?;
    let column = usize::try_from(column).ok()?.checked_sub(1)?;
    let before: usize = source.split_inclusive('\n').take(line).map(str::len).sum();
    Some(within(source, before + column, before + column + 1))
}

/// What is wrong, in one line.
fn in_plain_words(message: &str, found: Option<&str>, hint: Option<&'static str>) -> Fault {
    let wrong = |message, better: Option<&'static str>| Fault::Syntax {
        message,
        hint: better.or(hint),
    };
    let ends = |message| match hint {
        Some(_) => wrong(message, None),
        None => Fault::Unfinished { message },
    };
    let message = message.strip_prefix("Syntax error: ").unwrap_or(message);
    let found = found.map(|found| found.trim().escape_debug().to_string());
    let found = found.filter(|found| !found.is_empty());
    if let Some(missing) = message.strip_prefix("expected '") {
        let missing = missing.split('\'').next().unwrap_or_default();
        return match found {
            Some(found) => wrong(
                format!("found `{found}` where `{missing}` is expected"),
                None,
            ),
            None => ends(format!("the expression ends where `{missing}` is expected")),
        };
    }
    if message.starts_with("mismatched input") || message.starts_with("unexpected") {
        return match found {
            Some(found) => wrong(format!("unexpected `{found}`"), meant(&found)),
            None => ends("the expression ends too early".to_owned()),
        };
    }
    let hint = match message {
        "unsupported syntax '.?'" | "unsupported syntax '?'" => {
            Some("use `has(args.key) ? args.key : null`")
        }
        "unsupported syntax: '`'" | "expected identifier after '.'" => {
            Some("a key that is not a plain name is written `args[\"the key\"]`")
        }
        "invalid argument to has() macro" => Some("write `has(args.key)`"),
        "argument must be a simple name" => Some("write `list.all(item, condition)`"),
        _ => None,
    };
    wrong(message.replace('\'', "`"), hint)
}

fn meant(found: &str) -> Option<&'static str> {
    match found {
        "=" => Some("did you mean `==`?"),
        "&" | "and" => Some("did you mean `&&`?"),
        "|" | "or" => Some("did you mean `||`?"),
        "not" => Some("did you mean `!`?"),
        _ => None,
    }
}
