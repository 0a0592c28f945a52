//! What a player is shown, as text. Nothing in it differs from one run to the next: no times, no
//! names of instances.

use super::{
    client::section,
    session::{Argument, End, Item, Session, Told},
};
use crate::{simulate::Change, terminal::printable};
use interlock::workflow::Kind;

/// What came of a step.
pub(crate) fn told(told: &Told) -> String {
    let text = &told.text;
    let mut lines = told.asked.clone();
    lines.push(match &told.end {
        End::Ok => text.clone(),
        End::Error => format!("error: {text}"),
        End::Refused { code, name } => format!("refused ({code} {name}): {text}"),
    });
    lines.extend(
        told.structured
            .as_ref()
            .map(|value| format!("structured: {value}")),
    );
    if let Some((from, to)) = &told.moved {
        lines.push(format!("state: {from} -> {to}"));
    }
    lines.extend(told.changes.iter().map(change));
    lines.extend(told.notes.iter().cloned());
    indented(&lines.join("\n"))
}

/// The state, what is known about it, and the names of what is listed.
pub(crate) fn place(session: &Session<'_>) -> String {
    let mut lines = vec![standing(session)];
    for kind in Kind::ALL {
        let names: Vec<_> = session
            .items()
            .filter(|item| item.kind == kind)
            .map(|item| &*item.name)
            .collect();
        if !names.is_empty() {
            let listed = format!("{}: {}", section(kind), names.join(", "));
            lines.push(indented(&listed));
        }
    }
    lines.join("\n")
}

/// The state, in a line.
fn state(session: &Session<'_>) -> String {
    match session.state() {
        Some(state) => format!("state: {state}"),
        None => "there is no workflow: everything is callable".to_owned(),
    }
}

/// The state and what is known about it.
pub(crate) fn standing(session: &Session<'_>) -> String {
    let mut lines = vec![state(session)];
    lines.extend(session.facts());
    indented(&lines.join("\n"))
}

/// What is listed, with descriptions and arguments, and a number for each.
pub(crate) fn menu<'a>(items: impl Iterator<Item = &'a Item>) -> String {
    let items: Vec<_> = items.collect();
    let widest = items.iter().map(|item| item.name.chars().count()).max();
    let mut lines = Vec::new();
    for (at, item) in items.iter().enumerate() {
        let line = format!(
            "{:>2}  {:<8}  {:<width$}  {}",
            at + 1,
            item.kind.to_string(),
            item.name,
            item.description.as_deref().unwrap_or_default(),
            width = widest.unwrap_or_default(),
        );
        lines.push(line.trim_end().to_owned());
        lines.extend(item.arguments.iter().map(|argument| {
            let about = match &argument.description {
                Some(description) => format!(": {description}"),
                None => String::new(),
            };
            format!("              {}{about}", signature(argument))
        }));
    }
    if lines.is_empty() {
        lines.push("nothing is callable".to_owned());
    }
    indented(&lines.join("\n"))
}

/// `order (string, required)`.
pub(crate) fn signature(argument: &Argument) -> String {
    let required = argument.required.then_some("required");
    let facts: Vec<_> = argument.of.as_deref().into_iter().chain(required).collect();
    match facts.is_empty() {
        true => argument.name.clone(),
        false => format!("{} ({})", argument.name, facts.join(", ")),
    }
}

fn change(change: &Change) -> String {
    let marked = |mark: char, names: &[String]| -> Vec<_> {
        names.iter().map(|name| format!("{mark}{name}")).collect()
    };
    let mut words = marked('+', &change.appeared);
    words.extend(marked('-', &change.gone));
    if words.is_empty() {
        words.push("changed".to_owned());
    }
    format!("{}: {}", section(change.kind), words.join(" "))
}

fn indented(text: &str) -> String {
    let lines = printable(text);
    let lines: Vec<_> = lines
        .lines()
        .map(|line| format!("  {line}").trim_end().to_owned())
        .collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_step_is_told_with_all_that_it_changed() {
        let moved = Told {
            asked: vec!["asked: Go?".to_owned(), "answered: yes".to_owned()],
            end: End::Ok,
            text: "two\nlines\x1b".to_owned(),
            structured: Some(json!({"key": "k"})),
            moved: Some(("new".to_owned(), "found".to_owned())),
            changes: vec![Change {
                kind: Kind::Tool,
                appeared: vec!["refund".to_owned()],
                gone: vec!["lookup".to_owned()],
            }],
            notes: vec!["effects: mail".to_owned()],
        };
        assert_eq!(
            told(&moved),
            "  asked: Go?\n  answered: yes\n  two\n  lines\\u{1b}\n  structured: {\"key\":\"k\"}\n  state: new -> found\n  \
             tools: +refund -lookup\n  effects: mail"
        );
        let refused = Told {
            asked: Vec::new(),
            end: End::Refused {
                code: 1081,
                name: "not_in_state".to_owned(),
            },
            text: "No.".to_owned(),
            structured: None,
            moved: None,
            changes: Vec::new(),
            notes: Vec::new(),
        };
        assert_eq!(told(&refused), "  refused (1081 not_in_state): No.");
    }

    #[test]
    fn the_menu_numbers_what_can_be_called() {
        let item = |kind, name: &str, arguments| Item {
            kind,
            name: name.to_owned(),
            description: Some(format!("About {name}")),
            arguments,
        };
        let order = Argument {
            name: "order".to_owned(),
            description: None,
            required: true,
            of: Some("string".to_owned()),
        };
        let items = [
            item(Kind::Tool, "refund", vec![order]),
            item(Kind::Resource, "note://rules", vec![]),
        ];
        assert_eq!(
            menu(items.iter()),
            "   1  tool      refund        About refund\n                \
             order (string, required)\n   \
             2  resource  note://rules  About note://rules"
        );
        assert_eq!(menu([].iter()), "  nothing is callable");
    }
}
