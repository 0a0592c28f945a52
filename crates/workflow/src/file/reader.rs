//! The means to read a tree: each takes a value, or reports what is wrong with it.

use super::{
    duration,
    report::{FileProblem, Findings},
    tree::{Entry, Key, Node, Value},
};
use crate::{Kind, Span, nearest::Nearest};
use std::time::Duration;

/// A kind of map in the file: what may stand in it.
pub(super) struct Place {
    /// What it is, in a sentence.
    pub(super) what: &'static str,
    /// The keys that are read.
    pub(super) keys: &'static [&'static str],
    /// The keys that are refused for now, and why.
    pub(super) later: &'static [(&'static str, &'static str)],
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
            let words: Vec<_> = choices
                .iter()
                .map(|(word, _)| format!("`{word}`"))
                .collect();
            self.bad_value(key, words.join(" or "), node.span, written);
        }
        chosen.map(|(_, value)| *value)
    }

    /// A duration with its unit.
    pub(super) fn duration(&mut self, key: &str, node: &Node) -> Option<Duration> {
        let written = self.text(key, node)?;
        duration::parse(written)
            .map_err(|fault| {
                let written = written.to_owned();
                self.error(node.span, FileProblem::BadDuration { written, fault });
            })
            .ok()
    }

    /// Reports the keys that should be there and are not.
    pub(super) fn require(
        &mut self,
        place: &Place,
        span: Span,
        entries: &[Entry],
        keys: &[&'static str],
    ) {
        for key in keys {
            if entries.iter().all(|entry| entry.key.text != *key) {
                let place = place.what;
                self.error(span, FileProblem::MissingKey { key, place });
            }
        }
    }

    /// Reports a key that is not read in this place: refused for now, or not known at all.
    pub(super) fn stray(&mut self, place: &Place, key: &Key) {
        let problem = match place.later.iter().find(|(later, _)| *later == key.text) {
            Some((key, reason)) => FileProblem::NotYet {
                key: (*key).to_owned(),
                reason,
            },
            None => FileProblem::UnknownKey {
                key: key.text.clone(),
                place: place.what,
                help: Some(
                    self.meant(&key.text, place.keys.iter().copied())
                        .unwrap_or_else(|| format!("it may have {}", place.keys.join(", "))),
                ),
            },
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

    /// Checks the name of a prompt's argument.
    pub(super) fn argument_name(&mut self, name: &str, span: Span) {
        if !is_plain(name) {
            self.bad_name("an argument", PLAIN, name, span);
        }
    }

    /// Checks the name of a state, or of the workflow itself.
    pub(super) fn free_name(&mut self, place: &'static str, name: &str, span: Span) {
        let length = name.chars().count();
        if !(1..=128).contains(&length) || name.contains(char::is_control) {
            self.bad_name(place, FREE, name, span);
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

/// What every model API accepts as the name of a tool.
const PLAIN: &str = "it must have 1 to 64 letters, digits, `_` or `-`";
const URI: &str = "it must be a URI such as `note://rules`";
const FREE: &str = "it must have 1 to 128 characters, none of them a control character";

fn is_plain(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

/// A scheme, a colon and something; braces would make it a template (RFC 6570).
fn is_uri(name: &str) -> bool {
    let Some((scheme, rest)) = name.split_once(':') else {
        return false;
    };
    scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
        && !rest.is_empty()
        && !rest.contains(|c: char| c.is_whitespace() || c.is_control() || matches!(c, '{' | '}'))
}
