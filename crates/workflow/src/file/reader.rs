//! The means to read a tree: each takes a value, or reports what is wrong with it.

use super::{
    artifacts, bindings, document, duration,
    report::{FileProblem, Findings},
    servers, settings, states,
    tree::{Entry, Key, Node, Value},
};
use crate::{DraftText, Kind, Span, model::is_disguise, nearest::Nearest};
use std::time::Duration;

/// A kind of map in the file: what may stand in it.
pub(super) struct Shape {
    /// What it is, in a sentence.
    pub(super) what: &'static str,
    /// The keys that are read.
    pub(super) keys: &'static [&'static str],
}

/// Reads the tree of one text.
pub(super) struct Reader<'t> {
    pub(super) text: &'t str,
    pub(super) findings: Findings,
    nearest: Nearest,
}

impl<'t> Reader<'t> {
    pub(super) fn new(text: &'t str, findings: Findings) -> Self {
        let nearest = Nearest::new();
        Self {
            text,
            findings,
            nearest,
        }
    }

    /// The entries of a map. Nothing at all is as good as an empty map.
    pub(super) fn map<'n>(&mut self, key: &str, node: &'n Node) -> Option<&'n [Entry]> {
        match &node.value {
            Value::Map(entries) => Some(entries),
            Value::Null => Some(&[]),
            Value::Bool(_) | Value::Number { .. } | Value::Text(_) | Value::List(_) => {
                self.wrong_type(key, node, "a map")
            }
        }
    }

    /// The items of a list. Nothing at all is as good as an empty list.
    pub(super) fn list<'n>(&mut self, key: &str, node: &'n Node) -> Option<&'n [Node]> {
        match &node.value {
            Value::List(items) => Some(items),
            Value::Null => Some(&[]),
            Value::Bool(_) | Value::Number { .. } | Value::Text(_) | Value::Map(_) => {
                self.wrong_type(key, node, "a list")
            }
        }
    }

    /// Text; a number or a boolean is taken as it is written.
    pub(super) fn text<'n>(&mut self, key: &str, node: &'n Node) -> Option<&'n str> {
        match node.value.written() {
            Some(written) => Some(written),
            None => self.wrong_type(key, node, "text"),
        }
    }

    /// As [`text`](Self::text), for whoever keeps it.
    pub(super) fn owned(&mut self, key: &str, node: &Node) -> Option<String> {
        self.text(key, node).map(str::to_owned)
    }

    /// As [`text`](Self::text), with its place.
    pub(super) fn placed(&mut self, key: &str, node: &Node) -> Option<DraftText> {
        let text = self.owned(key, node)?;
        let place = node.span.into();
        Some(DraftText { text, place })
    }

    /// A whole number from 1 on.
    pub(super) fn count(&mut self, key: &'static str, node: &Node) -> Option<u32> {
        const WANTED: &str = "a whole number from 1 on";
        let Value::Number { written, .. } = &node.value else {
            return self.wrong_type(key, node, WANTED);
        };
        let count = written.parse().ok().filter(|count| *count > 0);
        if count.is_none() {
            self.bad_value(key, WANTED, node.span, written);
        }
        count
    }

    /// `true` or `false`.
    pub(super) fn flag(&mut self, key: &str, node: &Node) -> Option<bool> {
        match node.value {
            Value::Bool(flag) => Some(flag),
            Value::Null
            | Value::Number { .. }
            | Value::Text(_)
            | Value::List(_)
            | Value::Map(_) => self.wrong_type(key, node, "true or false"),
        }
    }

    /// One of the given words.
    pub(super) fn choice<T: Copy>(
        &mut self,
        key: &'static str,
        node: &Node,
        choices: &[(&'static str, T)],
    ) -> Option<T> {
        let written = self.text(key, node)?;
        let chosen = choices.iter().find(|(word, _)| *word == written);
        if chosen.is_none() {
            let words = choices.iter().map(|(word, _)| *word);
            let problem = FileProblem::BadValue {
                key,
                wanted: one_of(words.clone()),
                written: written.to_owned(),
                help: self.meant(written, words),
            };
            self.error(node.span, problem);
        }
        chosen.map(|(_, value)| *value)
    }

    /// A duration with its unit.
    pub(super) fn duration(&mut self, key: &str, node: &Node) -> Option<Duration> {
        let written = self.text(key, node)?;
        self.duration_text(written, node.span)
    }

    /// As [`duration`](Self::duration), where it is a key.
    pub(super) fn duration_text(&mut self, written: &str, span: Span) -> Option<Duration> {
        let duration = duration::parse(written);
        duration
            .map_err(|fault| {
                let written = written.to_owned();
                self.error(span, FileProblem::BadDuration { written, fault });
            })
            .ok()
    }

    /// Reports the keys that should be there and are not.
    pub(super) fn require(
        &mut self,
        shape: &Shape,
        span: Span,
        entries: &[Entry],
        keys: &[&'static str],
    ) {
        for key in keys {
            if entries.iter().all(|entry| entry.key.text != *key) {
                let place = shape.what;
                self.error(span, FileProblem::MissingKey { key, place });
            }
        }
    }

    /// Reports a key that is not known in this place.
    pub(super) fn stray(&mut self, shape: &Shape, key: &Key) {
        let all = format!("it may have {}", shape.keys.join(", "));
        let help = self
            .meant(&key.text, shape.keys.iter().copied())
            .or_else(|| {
                Some(format!(
                    "`{}` belongs in {}; {all}",
                    key.text,
                    home(&key.text)?
                ))
            });
        let help = help.unwrap_or(all);
        let problem = FileProblem::UnknownKey {
            key: key.text.clone(),
            place: shape.what,
            help,
        };
        self.error(key.span, problem);
    }

    /// Checks the name of a tool or prompt, or the URI of a resource.
    pub(super) fn artifact_name(&mut self, kind: Kind, key: &Key) {
        let (place, rule, fits) = match kind {
            Kind::Tool => ("a tool", PLAIN, is_plain(&key.text)),
            Kind::Prompt => ("a prompt", PLAIN, is_plain(&key.text)),
            Kind::Resource => ("a resource", URI, is_uri(&key.text)),
        };
        if !fits {
            self.bad_name(place, rule, &key.text, key.span);
        }
    }

    /// Checks a name of letters, digits, `_` and `-`.
    pub(super) fn plain_name(&mut self, place: &'static str, name: &str, span: Span) {
        if !is_plain(name) {
            self.bad_name(place, PLAIN, name, span);
        }
    }

    /// Checks what an instance remembers a value under: guards find it as `ctx.key`.
    pub(super) fn memory_key(&mut self, name: &str, span: Span) {
        if !is_selector(name) {
            self.bad_name("a remembered value", SELECTOR, name, span);
        }
    }

    /// Checks the name of a state, of an effect, or of the workflow itself.
    pub(super) fn free_name(&mut self, place: &'static str, name: &str, span: Span) -> bool {
        let length = name.chars().count();
        let fits = length <= 128 && !name.trim().is_empty() && !name.contains(is_disguise);
        if !fits {
            self.bad_name(place, FREE, name, span);
        }
        fits
    }

    /// Checks the name under which something is bound, which somebody else may have chosen. It is
    /// told with every edge, so it must not be long.
    pub(super) fn bound_name(&mut self, kind: Kind, key: &Key) -> bool {
        match kind {
            Kind::Tool => self.free_name("a tool", &key.text, key.span),
            Kind::Prompt => self.free_name("a prompt", &key.text, key.span),
            Kind::Resource => {
                let fits =
                    (1..=LONGEST_URI).contains(&key.text.len()) && !key.text.contains(is_disguise);
                if !fits {
                    self.bad_name("a resource", SHORT_URI, &key.text, key.span);
                }
                fits
            }
        }
    }

    /// Reports a name that breaks a rule.
    pub(super) fn bad_name(
        &mut self,
        place: &'static str,
        rule: &'static str,
        name: &str,
        span: Span,
    ) {
        let name = name.to_owned();
        self.error(span, FileProblem::BadName { name, place, rule });
    }

    /// Reports a value that is not one of those that would do.
    pub(super) fn bad_value(
        &mut self,
        key: &'static str,
        wanted: impl Into<String>,
        span: Span,
        written: &str,
    ) {
        let problem = FileProblem::BadValue {
            key,
            wanted: wanted.into(),
            written: written.to_owned(),
            help: None,
        };
        self.error(span, problem);
    }

    /// Reports a value of the wrong type.
    pub(super) fn wrong_type<T>(
        &mut self,
        key: &str,
        node: &Node,
        wanted: &'static str,
    ) -> Option<T> {
        let problem = FileProblem::WrongType {
            key: key.to_owned(),
            wanted,
            found: node.value.kind(),
        };
        self.error(node.span, problem);
        None
    }

    /// A question after the name that was probably meant.
    pub(super) fn meant<'n>(
        &mut self,
        written: &str,
        known: impl Iterator<Item = &'n str>,
    ) -> Option<String> {
        let name = self.nearest.find(written, known)?;
        Some(format!("did you mean `{name}`?"))
    }

    pub(super) fn error(&mut self, span: Span, problem: FileProblem) {
        self.findings.error(span, problem);
    }
}

/// Every kind of map there is, to tell where a key belongs.
pub(super) const SHAPES: &[&Shape] = &[
    &document::FILE,
    &settings::SETTINGS,
    &servers::SERVER,
    &artifacts::TOOL,
    &artifacts::ANNOTATIONS,
    &artifacts::RESOURCE,
    &artifacts::PROMPT,
    &artifacts::ARGUMENT,
    &states::ALWAYS,
    &states::STATE,
    &bindings::BINDING,
    &bindings::GUARD,
    &bindings::APPROVAL,
    &bindings::EDGE,
    &states::SAMPLING,
    &states::MESSAGE,
];

/// Where a key belongs, if that is not almost everywhere.
fn home(key: &str) -> Option<String> {
    let known = SHAPES.iter().filter(|shape| shape.keys.contains(&key));
    let homes: Vec<_> = known.map(|shape| shape.what).collect();
    (1..=2).contains(&homes.len()).then(|| homes.join(" or "))
}

/// What every model API accepts as the name of a tool.
const PLAIN: &str = "it must have 1 to 64 letters, digits, `_` or `-`";
const URI: &str = "it must be a URI such as `note://rules`, or a template such as `order://{id}`, \
                   of at most 2048 bytes";
const SELECTOR: &str = "guards find it as `ctx.name`, so it must have letters, digits or `_`, \
                        begin with no digit and be no word of CEL";
const SHORT_URI: &str = "it must have 1 to 2048 bytes and no invisible characters";
const LONGEST_URI: usize = 2_048;
const FREE: &str = "it must have 1 to 128 characters, none of them invisible";

fn is_plain(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

/// What CEL takes after a dot.
fn is_selector(name: &str) -> bool {
    const WORDS: [&str; 4] = ["true", "false", "null", "in"];
    (1..=64).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && !name.starts_with(|first: char| first.is_ascii_digit())
        && !WORDS.contains(&name)
}

/// `a`, `b` or `c`.
fn one_of<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let words: Vec<_> = words.map(|word| format!("`{word}`")).collect();
    match words.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => String::new(),
    }
}

/// A scheme, a colon and something. Braces make it a template (RFC 6570).
fn is_uri(name: &str) -> bool {
    let Some((scheme, rest)) = name.split_once(':') else {
        return false;
    };
    scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
        && !rest.is_empty()
        && name.len() <= LONGEST_URI
        && !rest.contains(|c: char| c.is_whitespace() || is_disguise(c))
}
