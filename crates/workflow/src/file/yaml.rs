//! Prints a tree as YAML that a person could have written.
//!
//! Names and texts stand without quotes where no reader of YAML, old or new, could take them for
//! something else. What fits on a line stands on one.

use super::tree::{Entry, Node, Value};
use std::fmt::Write;

/// Longer maps and lists are not put on one line.
const LINE: usize = 80;

/// Prints a map.
pub(super) fn print(entries: &[Entry]) -> String {
    let mut out = String::new();
    for (at, entry) in entries.iter().enumerate() {
        let nested = entry.value.value.written().is_none();
        if nested && at > 0 {
            out.push('\n');
        }
        print_entry(entry, 0, &mut out);
    }
    out
}

fn print_entry(Entry { key, value }: &Entry, depth: usize, out: &mut String) {
    indent(depth, out);
    out.push_str(&scalar(&key.text, Context::Block));
    out.push(':');
    print_value(&value.value, depth, out);
}

/// Prints what stands behind a colon or a dash, and ends the line.
fn print_value(value: &Value, depth: usize, out: &mut String) {
    let column = out.len() - out.rfind('\n').map_or(0, |at| at + 1);
    if let Some(text) = on_one_line(value, LINE.saturating_sub(column)) {
        return end_line(&text, out);
    }
    match value {
        Value::Map(entries) => {
            out.push('\n');
            for entry in entries {
                print_entry(entry, depth + 1, out);
            }
        }
        Value::List(items) => {
            out.push('\n');
            for item in items {
                print_item(item, depth + 1, out);
            }
        }
        Value::Text(text) => print_lines(text, depth + 1, out),
        // These always fit on a line.
        Value::Null | Value::Bool(_) | Value::Number { .. } => out.push('\n'),
    }
}

fn print_item(item: &Node, depth: usize, out: &mut String) {
    indent(depth, out);
    out.push('-');
    let Value::Map(entries) = &item.value else {
        return print_value(&item.value, depth, out);
    };
    if let Some(text) = on_one_line(&item.value, LINE.saturating_sub(2 * depth)) {
        return end_line(&text, out);
    }
    // The first key stands beside the dash, the others below it.
    let mut body = String::new();
    for entry in entries {
        print_entry(entry, depth + 1, &mut body);
    }
    out.push(' ');
    out.push_str(body.trim_start_matches(' '));
}

fn end_line(text: &str, out: &mut String) {
    out.push(' ');
    out.push_str(text);
    out.push('\n');
}

/// A text of several lines, each on its own.
fn print_lines(text: &str, depth: usize, out: &mut String) {
    let (mark, body) = match text.strip_suffix('\n') {
        Some(body) => (" |\n", body),
        None => (" |-\n", text),
    };
    out.push_str(mark);
    for line in body.split('\n') {
        if !line.is_empty() {
            indent(depth, out);
            out.push_str(line);
        }
        out.push('\n');
    }
}

fn indent(depth: usize, out: &mut String) {
    out.extend(std::iter::repeat_n("  ", depth));
}

/// A scalar, or a map or list of scalars that fits into the room.
fn on_one_line(value: &Value, room: usize) -> Option<String> {
    let line = match value {
        Value::Null => return Some("null".to_owned()),
        Value::Bool(_) | Value::Number { .. } => return value.written().map(str::to_owned),
        Value::Text(text) if is_lines(text) => return None,
        Value::Text(text) => return Some(scalar(text, Context::Block)),
        Value::Map(entries) if entries.is_empty() => return Some("{}".to_owned()),
        Value::Map(entries) => {
            let pairs = entries.iter().map(|entry| {
                let key = scalar(&entry.key.text, Context::Flow);
                Some(format!("{key}: {}", inside_flow(&entry.value.value)?))
            });
            format!("{{ {} }}", joined(pairs)?)
        }
        Value::List(items) => format!(
            "[{}]",
            joined(items.iter().map(|item| inside_flow(&item.value)))?
        ),
    };
    (line.chars().count() < room).then_some(line)
}

fn joined(parts: impl Iterator<Item = Option<String>>) -> Option<String> {
    let parts: Option<Vec<_>> = parts.collect();
    Some(parts?.join(", "))
}

fn inside_flow(value: &Value) -> Option<String> {
    match value {
        Value::Text(text) if text.contains('\n') => None,
        Value::Text(text) => Some(scalar(text, Context::Flow)),
        Value::Bool(_) | Value::Number { .. } => value.written().map(str::to_owned),
        Value::Null | Value::List(_) | Value::Map(_) => None,
    }
}

/// What a scalar stands in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Context {
    /// A line of its own.
    Block,
    /// Brackets or braces.
    Flow,
}

/// A text on one line, in quotes where it needs them.
fn scalar(text: &str, context: Context) -> String {
    if is_plain(text, context) {
        text.to_owned()
    } else if text.contains(['"', '\\']) && !text.contains('\'') && text.chars().all(is_printable) {
        format!("'{text}'")
    } else {
        quoted(text)
    }
}

/// Whether every reader of YAML takes the text for itself.
fn is_plain(text: &str, context: Context) -> bool {
    let ordinary = |c: char| matches!(c, ' '..='~') || (c.is_alphanumeric() && is_printable(c));
    let begins = |c: char| c.is_alphabetic() || matches!(c, '_' | '/' | '(');
    let flow = match context {
        Context::Block => false,
        Context::Flow => text.contains([',', '[', ']', '{', '}', ':']),
    };
    text.chars().all(ordinary)
        && (text.starts_with(begins) || super::parse_duration(text).is_ok())
        && !text.ends_with([' ', ':'])
        && !text.contains(": ")
        && !text.contains(" #")
        && !flow
        && !is_word(text)
}

/// Whether some reader of YAML takes the word for a boolean or for nothing.
fn is_word(text: &str) -> bool {
    let words = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    words.iter().any(|word| text.eq_ignore_ascii_case(word))
}

/// Whether the text is best written on several lines, and reads the same then.
fn is_lines(text: &str) -> bool {
    let body = text.strip_suffix('\n').unwrap_or(text);
    body.contains('\n')
        && !body.starts_with([' ', '\n'])
        && !body.ends_with('\n')
        && body
            .split('\n')
            .all(|line| line.chars().all(is_printable) && !line.ends_with(' '))
}

/// Whether YAML allows the character as it is, and a person can see it or knows it as a blank.
fn is_printable(c: char) -> bool {
    match c {
        ' '..='~' => true,
        '\0'..='\u{a0}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}' => false,
        _ => !c.is_whitespace(),
    }
}

/// The text in double quotes, with whatever could be lost escaped.
fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        let written = match c {
            '"' => write!(out, "\\\""),
            '\\' => write!(out, "\\\\"),
            '\n' => write!(out, "\\n"),
            '\t' => write!(out, "\\t"),
            '\r' => write!(out, "\\r"),
            _ if is_printable(c) => write!(out, "{c}"),
            _ => write!(out, "\\u{:04x}", u32::from(c)),
        };
        written.expect("writing to a string cannot fail");
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::{report::Findings, tree};

    #[track_caller]
    fn read(text: &str) -> Vec<Entry> {
        let mut findings = Findings::default();
        let root = tree::parse(text, &mut findings);
        findings.judge().unwrap();
        let Value::Map(entries) = root.unwrap().value else {
            panic!("{text}");
        };
        entries
    }

    fn json(entries: &[Entry]) -> serde_json::Value {
        Value::Map(entries.to_vec()).to_json()
    }

    #[test]
    fn a_tree_is_printed_as_a_person_would_write_it() {
        let text = "\
interlock: 1
name: refund

states:
  new:
    initial: true
    tools: { look_up: found }
  found:
    description: |-
      The order is known.

      Pay it back.
    tools:
      refund:
        when: args.order == ctx.order && args.amount > 0
        approve: Refund {{args.amount}} for \"{{ctx.order}}\"?
        success:
          - { when: result.structuredContent.partial == true, to: found }
          - to: paid
            set: { order: args.order, done: true, what: '\"a\"', count: 1 }
            effects: [mail, log]
        timeout: \"no\"
    after: { 30m: expired }
    resources: { \"note://rules\": found }
  paid: { terminal: true }
  empty: {}
";
        let entries = read(text);
        assert_eq!(print(&entries), text);
    }

    #[test]
    fn every_text_is_read_back_as_it_was() {
        let texts = [
            "",
            " ",
            "a ",
            " a",
            "no",
            "On",
            "010",
            "0x1F",
            "1e3",
            "12:30",
            "null",
            "~",
            "true",
            "True",
            "-",
            "- a",
            "? a",
            "a: b",
            "a:",
            "a #b",
            "#a",
            "a:b",
            "*a",
            "&a",
            "!a",
            "|",
            ">",
            "%a",
            "@a",
            "`a",
            "'",
            "\"",
            "a'b\"c\\",
            "[a]",
            "{a}",
            "a, b",
            "<<",
            "=",
            "---",
            "...",
            "a\nb",
            "a\nb\n",
            "a\n",
            "\n",
            "\n\na",
            "a\n\n",
            "a\n b\n",
            " a\nb",
            "a\tb",
            "\ta",
            "a\n\tb",
            "a \nb",
            "a\r\nb",
            "\0",
            "\u{1b}[2J",
            "\u{7f}",
            "\u{85}",
            "\u{a0}",
            "\u{2028}",
            "\u{feff}",
            "\u{feff}a",
            "é",
            "日本",
            "🔑",
            "\u{fffe}",
            "\u{ffff}",
            "\u{10ffff}",
            "\u{e000}",
            "30m",
            "30",
            "a\u{301}",
            "\u{200b}",
            "\u{202e}",
            "1_000",
            ".5",
            ".inf",
            "+1",
            "2001-01-01",
            "a\n# b",
            "a\n---\nb",
            "x\n\n\ny",
            "y",
            "n",
            "NULL",
            "a\u{3000}b\nc",
            "\u{3000}",
            "// a",
            "(a)",
            "/a/",
            "_",
        ];
        for text in texts {
            let node = |value| Node {
                value,
                span: tree::place("", 0, 0),
            };
            let scalar = || node(Value::Text(text.to_owned()));
            let entry = |key: &str, value| Entry {
                key: tree::Key {
                    text: key.to_owned(),
                    span: tree::place("", 0, 0),
                },
                value,
            };
            let entries = vec![
                entry("value", scalar()),
                entry("list", node(Value::List(vec![scalar(), scalar()]))),
                entry("flow", node(Value::Map(vec![entry(text, scalar())]))),
                entry(
                    "block",
                    node(Value::Map(vec![
                        entry(
                            text,
                            node(Value::List(vec![node(Value::List(vec![scalar()]))])),
                        ),
                        entry("deep", node(Value::Map(vec![entry("deeper", scalar())]))),
                    ])),
                ),
                entry(
                    "items",
                    node(Value::List(vec![node(Value::Map(vec![
                        entry(text, scalar()),
                        entry(
                            "other",
                            node(Value::List(vec![node(Value::List(Vec::new()))])),
                        ),
                    ]))])),
                ),
            ];
            let printed = print(&entries);
            assert_eq!(json(&read(&printed)), json(&entries), "{text:?}\n{printed}");
        }
    }
}
