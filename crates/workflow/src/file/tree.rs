//! YAML, and JSON as the part of YAML that it is, as a tree that knows where everything stands.
//!
//! A plain scalar means what JSON would make of it (`null` also as `~` or as nothing at all), and
//! everything else is text: `no`, `on`, `010` and `0x1F` are what they look like. Anchors and
//! aliases work within a budget; tags and merge keys are refused.
//!
//! The parser and the tree are bounded in depth and size, so what walks the tree may recurse.

use super::{
    MAX_BYTES, MAX_DEPTH, MAX_NODES,
    report::{FileProblem, Findings},
};
use crate::Span;
use serde_json::Number;
use serde_saphyr::granit_parser::{
    self, ErrorKind, Event, Marker, Parser, ScalarStyle, ScanError, StructureStyle,
};
use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
};

/// A value and its place.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) value: Value,
    /// A scalar's own place. For a list or map that is the key it belongs to, since marking its
    /// whole body would help nobody; without a key, it is where it begins.
    pub(super) span: Span,
}

#[derive(Clone, Debug)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Number { number: Number, written: String },
    Text(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// One pair of a map. No two entries of a map have the same key.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) key: Key,
    pub(super) value: Node,
}

#[derive(Clone, Debug)]
pub(super) struct Key {
    pub(super) text: String,
    pub(super) span: Span,
}

impl Value {
    /// What it is, in a sentence.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Bool(_) => "a boolean",
            Self::Number { .. } => "a number",
            Self::Text(_) => "text",
            Self::List(_) => "a list",
            Self::Map(_) => "a map",
        }
    }

    /// The text of a scalar that says something, as it was written.
    pub(super) fn written(&self) -> Option<&str> {
        match self {
            Self::Bool(true) => Some("true"),
            Self::Bool(false) => Some("false"),
            Self::Number { written, .. } => Some(written),
            Self::Text(text) => Some(text),
            Self::Null | Self::List(_) | Self::Map(_) => None,
        }
    }

    /// The same value without its places.
    pub(super) fn to_json(&self) -> serde_json::Value {
        match self {
            Self::Null => serde_json::Value::Null,
            Self::Bool(value) => (*value).into(),
            Self::Number { number, .. } => number.clone().into(),
            Self::Text(text) => text.as_str().into(),
            Self::List(items) => items.iter().map(|item| item.value.to_json()).collect(),
            Self::Map(entries) => entries
                .iter()
                .map(|entry| (entry.key.text.clone(), entry.value.value.to_json()))
                .collect::<serde_json::Map<_, _>>()
                .into(),
        }
    }
}

/// Reads a text. What can be skipped is reported and skipped; `None` means that it was given up.
pub(super) fn parse(text: &str, findings: &mut Findings) -> Option<Node> {
    let options = granit_parser::options! {
        emit_comments: false,
        flow_nesting_limit: MAX_DEPTH,
        block_nesting_limit: MAX_DEPTH,
    };
    let mut builder = Builder {
        text,
        findings,
        open: Vec::new(),
        root: None,
        nodes: 0,
        anchors: HashMap::new(),
        copied: 0,
    };
    for event in Parser::new_from_str_with_options(text, options) {
        let taken = match event {
            Ok((event, span)) => builder.take(event, span),
            Err(error) => Err(syntax_error(text, &error)),
        };
        if let Err((span, problem)) = taken {
            builder.findings.error(span, problem);
            return None;
        }
    }
    let root = builder.root;
    if root.is_none() {
        findings.error(place(text, 0, 0), FileProblem::Empty);
    }
    root
}

/// The place of some bytes of the text; both ends are moved back to a character's first byte.
pub(super) fn place(text: &str, start: usize, end: usize) -> Span {
    let start = text.floor_char_boundary(start);
    let end = text.floor_char_boundary(end).max(start);
    let before = &text[..start];
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let line = 1 + before.bytes().filter(|byte| *byte == b'\n').count();
    let column = 1 + before[line_start..]
        .trim_start_matches('\u{feff}')
        .chars()
        .count();
    Span {
        start,
        end,
        line: small(line),
        column: small(column),
    }
}

/// Why reading stops, and where.
type Stop = (Span, FileProblem);

struct Builder<'t, 'f> {
    text: &'t str,
    findings: &'f mut Findings,
    /// The lists and maps that are not closed yet, outermost first.
    open: Vec<Open>,
    root: Option<Node>,
    nodes: usize,
    anchors: HashMap<usize, Node>,
    /// What aliases have copied so far, by [`weight`].
    copied: usize,
}

struct Open {
    body: Body,
    span: Span,
    anchor: usize,
}

enum Body {
    List(Vec<Node>),
    Map {
        entries: Vec<Entry>,
        seen: HashSet<String>,
        next: Next,
    },
}

/// What a map waits for.
enum Next {
    Key,
    ValueOf(Key),
    /// The value of a key that was refused.
    Ignored,
}

impl Builder<'_, '_> {
    fn take(&mut self, event: Event<'_>, at: granit_parser::Span) -> Result<(), Stop> {
        let span = self.span(at);
        let tag = event.tag().map(|_| self.span(at.tag_span().unwrap_or(at)));
        if let Some(tag) = tag {
            self.findings.error(tag, FileProblem::Tag);
        }
        #[allow(
            clippy::wildcard_enum_match_arm,
            reason = "one of the parser's variants exists only with one of its features"
        )]
        match event {
            Event::DocumentStart(..) if self.root.is_some() => {
                Err((span, FileProblem::SecondDocument))
            }
            Event::Scalar(text, style, anchor, _) => {
                self.count(span)?;
                let value = match tag {
                    None => scalar(text, style),
                    // It was text that should have been in quotes.
                    Some(tag) => Value::Text(self.text[tag.start..tag.end].to_owned()),
                };
                self.close(Node { value, span }, anchor)
            }
            Event::SequenceStart(style, anchor, _) => {
                self.begin(Body::List(Vec::new()), style, span, anchor)
            }
            Event::MappingStart(style, anchor, _) => {
                let body = Body::Map {
                    entries: Vec::new(),
                    seen: HashSet::new(),
                    next: Next::Key,
                };
                self.begin(body, style, span, anchor)
            }
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(open) => {
                    let value = match open.body {
                        Body::List(items) => Value::List(items),
                        Body::Map { entries, .. } => Value::Map(entries),
                    };
                    let span = open.span;
                    self.close(Node { value, span }, open.anchor)
                }
                None => Ok(()),
            },
            Event::Alias(anchor) => {
                let copy = self.copy(anchor, span)?;
                self.close(copy, 0)
            }
            _ => Ok(()),
        }
    }

    fn begin(
        &mut self,
        body: Body,
        style: StructureStyle,
        mut span: Span,
        anchor: usize,
    ) -> Result<(), Stop> {
        self.count(span)?;
        if self.open.len() >= MAX_DEPTH {
            return Err((span, FileProblem::TooDeep));
        }
        if style == StructureStyle::Block {
            // A block begins with nothing of its own: mark what is left of the line.
            let rest = self.text[span.start..].lines().next().unwrap_or_default();
            span.end = span.start + rest.trim_end().len();
        }
        self.open.push(Open { body, span, anchor });
        Ok(())
    }

    /// Puts a complete value where it belongs.
    fn close(&mut self, mut node: Node, anchor: usize) -> Result<(), Stop> {
        if anchor != 0 {
            self.charge(&node)?;
            self.anchors.insert(anchor, node.clone());
        }
        let Some(open) = self.open.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        match &mut open.body {
            Body::List(items) => items.push(node),
            Body::Map {
                entries,
                seen,
                next,
            } => match std::mem::replace(next, Next::Key) {
                Next::Key => *next = key(&node, self.text, seen, self.findings),
                Next::Ignored => {}
                Next::ValueOf(key) => {
                    if node.value.written().is_none() {
                        node.span = key.span;
                    }
                    entries.push(Entry { key, value: node });
                }
            },
        }
        Ok(())
    }

    fn copy(&mut self, anchor: usize, span: Span) -> Result<Node, Stop> {
        // An anchor gets its value when that value is complete.
        let mut node = match self.anchors.get(&anchor) {
            Some(node) => node.clone(),
            None => return Err((span, FileProblem::AliasLoop)),
        };
        node.span = span;
        if self.open.len() + height(&node) > MAX_DEPTH {
            return Err((span, FileProblem::TooDeep));
        }
        self.charge(&node)?;
        Ok(node)
    }

    fn charge(&mut self, node: &Node) -> Result<(), Stop> {
        self.copied += weight(node);
        if self.copied > MAX_BYTES {
            return Err((node.span, FileProblem::AliasBomb));
        }
        Ok(())
    }

    fn count(&mut self, span: Span) -> Result<(), Stop> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            return Err((span, FileProblem::TooMany));
        }
        Ok(())
    }

    fn span(&self, at: granit_parser::Span) -> Span {
        let start = offset(self.text, at.start);
        let end = offset(self.text, at.end).max(start);
        Span {
            start,
            // The parser counts the white space after a block scalar to it.
            end: start + self.text[start..end].trim_end().len(),
            line: small(at.start.line()),
            column: small(at.start.col() + 1),
        }
    }
}

fn key(node: &Node, file: &str, seen: &mut HashSet<String>, findings: &mut Findings) -> Next {
    let Some(text) = node.value.written() else {
        findings.error(node.span, FileProblem::KeyNotText);
        return Next::Ignored;
    };
    // In quotes it is a name like any other.
    if text == "<<" && file[node.span.start..node.span.end] == *text {
        findings.error(node.span, FileProblem::MergeKey);
        return Next::Ignored;
    }
    if !seen.insert(text.to_owned()) {
        let key = text.to_owned();
        findings.error(node.span, FileProblem::DuplicateKey { key });
        return Next::Ignored;
    }
    Next::ValueOf(Key {
        text: text.to_owned(),
        span: node.span,
    })
}

fn scalar(text: Cow<'_, str>, style: ScalarStyle) -> Value {
    if style != ScalarStyle::Plain {
        return Value::Text(text.into_owned());
    }
    match text.as_ref() {
        "" | "~" | "null" => Value::Null,
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        other => match other.parse() {
            Ok(number) => Value::Number {
                number,
                written: text.into_owned(),
            },
            Err(_) => Value::Text(text.into_owned()),
        },
    }
}

/// What a copy of the node costs, in bytes of an imagined file.
fn weight(node: &Node) -> usize {
    const EACH: usize = 16;
    EACH + match &node.value {
        Value::Null | Value::Bool(_) => 0,
        Value::Number { written: text, .. } | Value::Text(text) => text.len(),
        Value::List(items) => items.iter().map(weight).sum(),
        Value::Map(entries) => entries
            .iter()
            .map(|entry| EACH + entry.key.text.len() + weight(&entry.value))
            .sum(),
    }
}

/// How many lists and maps are inside each other.
fn height(node: &Node) -> usize {
    match &node.value {
        Value::Null | Value::Bool(_) | Value::Number { .. } | Value::Text(_) => 0,
        Value::List(items) => 1 + items.iter().map(height).max().unwrap_or(0),
        Value::Map(entries) => {
            1 + entries
                .iter()
                .map(|entry| height(&entry.value))
                .max()
                .unwrap_or(0)
        }
    }
}

fn syntax_error(text: &str, error: &ScanError) -> Stop {
    let at = offset(text, *error.marker());
    let span = place(text, at, at + 1);
    let kind = error.kind();
    if matches!(kind, ErrorKind::RecursionLimitExceeded) {
        return (span, FileProblem::TooDeep);
    }
    json_error(text).unwrap_or_else(|| {
        let problem = FileProblem::Syntax {
            message: kind.to_string(),
            help: syntax_help(kind),
        };
        (span, problem)
    })
}

fn syntax_help(kind: &ErrorKind) -> Option<&'static str> {
    if matches!(
        kind,
        ErrorKind::TabNotAllowed
            | ErrorKind::TabInBlockIndentation
            | ErrorKind::TabInIndentation
            | ErrorKind::TabAtBlockScalarStart
            | ErrorKind::TabInPlainScalar
    ) {
        Some("indent with spaces")
    } else if matches!(kind, ErrorKind::MappingValueNotAllowed) {
        Some("text that holds a colon and a space must be in quotes")
    } else if matches!(
        kind,
        ErrorKind::InvalidTrailingSingleQuotedScalar | ErrorKind::InvalidTrailingDoubleQuotedScalar
    ) {
        Some("text that begins with a quote must be in quotes as a whole, such as `'\"a\" == b'`")
    } else if matches!(kind, ErrorKind::ExpectedBlockMappingKey) {
        Some("keys of one map begin in the same column, and special text is in quotes")
    } else {
        None
    }
}

/// What a JSON parser has to say, if the text means to be JSON: its words fit better there.
fn json_error(text: &str) -> Option<Stop> {
    let body = text.trim_start_matches('\u{feff}');
    let inside = body.trim_start().strip_prefix('{')?;
    if !inside.trim_start().starts_with('"') {
        return None;
    }
    let error = serde_json::from_str::<serde::de::IgnoredAny>(body).err()?;
    let full = error.to_string();
    let message = full
        .rfind(" at line ")
        .map_or(full.as_str(), |end| &full[..end]);
    let line_start: usize = body
        .split_inclusive('\n')
        .take(error.line().saturating_sub(1))
        .map(str::len)
        .sum();
    // The column is the count of bytes that were read from this line.
    let at = text.len() - body.len() + line_start + error.column().saturating_sub(1);
    let message = message.to_owned();
    let problem = FileProblem::Syntax {
        message,
        help: None,
    };
    Some((place(text, at, at + 1), problem))
}

fn offset(text: &str, marker: Marker) -> usize {
    // Text that is read from a string always has byte offsets.
    text.floor_char_boundary(marker.byte_offset().unwrap_or(0))
}

pub(super) fn small(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
