//! Texts with `{{…}}` in them: names in a prompt, paths such as `{{args.amount}}` in a workflow.

use crate::{
    guard::{Facts, Root},
    model::is_disguise,
};
use serde_json::Value;
use std::{ops::Range, sync::Arc};

/// A piece of a text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece<'t> {
    /// Stands for itself.
    Literal(&'t str),
    /// Stands for the argument of that name.
    Slot {
        /// The name, without the braces and the blanks around it.
        name: &'t str,
        /// The slot as written, with its braces.
        written: &'t str,
    },
}

/// Cuts a text into its pieces. Braces that are never closed stand for themselves.
pub(crate) fn pieces(text: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let slot = rest
            .find("{{")
            .and_then(|open| Some((open, open + rest[open..].find("}}")? + 2)));
        let (piece, length) = match slot {
            Some((0, end)) => {
                let (written, name) = (&rest[..end], rest[2..end - 2].trim());
                (Piece::Slot { name, written }, end)
            }
            Some((open, _)) => (Piece::Literal(&rest[..open]), open),
            None => (Piece::Literal(rest), rest.len()),
        };
        rest = &rest[length..];
        Some(piece)
    })
}

/// A text with its arguments filled in; those that are not given become nothing.
///
/// What is filled in is not looked at again, so an argument cannot bring in another one.
///
/// ```
/// use interlock_workflow::file::fill_in;
///
/// assert_eq!(fill_in("Write to {{who}}.", |_| Some("{{who}}")), "Write to {{who}}.");
/// assert_eq!(fill_in("Write to {{who}}.", |_| None), "Write to .");
/// ```
pub fn fill_in<'a>(text: &'a str, argument: impl Fn(&str) -> Option<&'a str>) -> String {
    pieces(text)
        .map(|piece| match piece {
            Piece::Literal(text) => text,
            Piece::Slot { name, .. } => argument(name).unwrap_or_default(),
        })
        .collect()
}

/// A text whose `{{…}}` are paths into what is known of a call: `{{args.amount}}`.
///
/// ```
/// use interlock_workflow::{Facts, Text};
/// use serde_json::{Map, Value, json};
///
/// let question = Text::new("Refund {{args.amount}} for {{ctx.order}}?");
/// let facts = Facts {
///     args: &json!({ "amount": 12 }),
///     result: None,
///     ctx: &Map::from_iter([("order".to_owned(), json!("A-1"))]),
///     principal: &Value::Null,
///     state: "found",
///     visits: 1,
/// };
/// assert_eq!(question.fill(&facts), "Refund 12 for A-1?");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text(Arc<str>);

/// A `{{…}}` of a text.
pub(crate) struct Slot<'t> {
    /// What stands between the braces.
    pub(crate) path: &'t str,
    /// The bytes of the text that it takes up, braces included.
    pub(crate) at: Range<usize>,
}

impl Text {
    /// A text as written.
    pub fn new(text: &str) -> Self {
        Self(text.into())
    }

    /// The text as written.
    pub fn written(&self) -> &str {
        &self.0
    }

    /// The text with every path filled in: text as it is, anything else as JSON, and what is not
    /// there as nothing. What is filled in is not looked at again.
    ///
    /// What would make it longer than a megabyte is left out.
    pub fn fill(&self, facts: &Facts<'_>) -> String {
        self.fill_by(|path| value_at(path, facts))
    }

    /// As [`fill`](Self::fill), for a person who must be able to trust what is seen.
    pub(crate) fn fill_shown(&self, facts: &Facts<'_>) -> String {
        self.fill_by(|path| shown(&value_at(path, facts)))
    }

    fn fill_by(&self, value: impl Fn(&str) -> String) -> String {
        const LONGEST: usize = 1 << 20;
        let mut filled = String::with_capacity(self.0.len());
        for piece in pieces(&self.0) {
            match piece {
                Piece::Literal(text) => filled.push_str(text),
                Piece::Slot { name, .. } => {
                    let value = value(name);
                    if filled.len() + value.len() <= LONGEST {
                        filled.push_str(&value);
                    }
                }
            }
        }
        filled
    }

    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot<'_>> {
        let mut from = 0;
        pieces(&self.0).filter_map(move |piece| match piece {
            Piece::Literal(text) => {
                from += text.len();
                None
            }
            Piece::Slot { name, written } => {
                let at = from..from + written.len();
                from = at.end;
                Some(Slot { path: name, at })
            }
        })
    }

    /// Where braces are opened and never closed.
    pub(crate) fn unclosed(&self) -> Option<Range<usize>> {
        let mut from = 0;
        for piece in pieces(&self.0) {
            match piece {
                Piece::Slot { written, .. } => from += written.len(),
                Piece::Literal(text) => {
                    if let Some(at) = text.find("{{") {
                        return Some(from + at..from + text.len());
                    }
                    from += text.len();
                }
            }
        }
        None
    }
}

impl Slot<'_> {
    /// Whether it is a path: names and numbers with dots between.
    pub(crate) fn is_path(&self) -> bool {
        let named = |step: &str| {
            let fits = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
            !step.is_empty() && step.chars().all(fits)
        };
        self.path.split('.').map(str::trim).all(named)
    }

    /// What its path begins with, if that exists.
    pub(crate) fn root(&self) -> Option<Root> {
        let first = self.path.split('.').next()?;
        Root::ALL.into_iter().find(|root| root.name() == first)
    }

    /// The key right behind that.
    pub(crate) fn key(&self) -> Option<&str> {
        self.path.split('.').nth(1)
    }

    /// What could be meant instead.
    pub(crate) fn help(&self, allowed: &[Root]) -> String {
        let names: Vec<_> = allowed.iter().map(|root| root.name()).collect();
        match self.root() {
            None if allowed.contains(&Root::Args) && !self.path.is_empty() => format!(
                "write `{{{{args.{path}}}}}` for an argument, or `{{{{ctx.{path}}}}}` for \
                 something remembered",
                path = self.path
            ),
            Some(_) if !self.is_path() => {
                "only a path such as `args.amount` can be filled in, not CEL".to_owned()
            }
            Some(_) | None => format!("a path begins with {}", names.join(", ")),
        }
    }
}

/// A value that cannot push the words around it away, nor pass for them.
fn shown(value: &str) -> String {
    const LONGEST: usize = 200;
    let mut shown: String = value
        .chars()
        .take(LONGEST)
        .map(|c| match is_disguise(c) {
            true => char::REPLACEMENT_CHARACTER,
            false => c,
        })
        .collect();
    if value.chars().nth(LONGEST).is_some() {
        shown.push('…');
    }
    shown
}

/// The value that a path such as `args.items.0.name` leads to.
fn value_at(path: &str, facts: &Facts<'_>) -> String {
    let mut steps = path.split('.').map(str::trim);
    let root = match steps.next() {
        Some("args") => Some(facts.args),
        Some("result") => facts.result,
        Some("principal") => Some(facts.principal),
        Some("ctx") => match steps.next() {
            Some(key) => facts.ctx.get(key),
            None => return Value::Object(facts.ctx.clone()).to_string(),
        },
        Some("state") => return facts.state.to_owned(),
        Some("visits") => return facts.visits.to_string(),
        Some(_) | None => None,
    };
    let found = steps.try_fold(root, |at, step| {
        let next = match at? {
            Value::Object(map) => map.get(step),
            Value::Array(items) => step.parse::<usize>().ok().and_then(|at| items.get(at)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
        };
        Some(next)
    });
    match found.flatten() {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Piece::Literal, *};
    use serde_json::{Map, json};

    #[test]
    fn paths_lead_into_what_is_known() {
        let ctx = Map::from_iter([("order".to_owned(), json!("A-1 {{state}}"))]);
        let facts = Facts {
            args: &json!({"items": [{"n": 1.5}], "flag": true, "none": null}),
            result: Some(&json!("done")),
            ctx: &ctx,
            principal: &json!({"subject": "ann"}),
            state: "found",
            visits: 2,
        };
        for (text, filled) in [
            ("{{ctx.order}}", "A-1 {{state}}"),
            ("{{args.items.0.n}} {{ args.flag }}", "1.5 true"),
            ("{{args.items}}", r#"[{"n":1.5}]"#),
            ("{{result}}{{state}}{{visits}}", "donefound2"),
            ("{{principal.subject}}", "ann"),
            (
                "<{{args.none}}{{args.x.y}}{{args.items.9}}{{nothing}}>",
                "<>",
            ),
        ] {
            assert_eq!(Text::new(text).fill(&facts), filled, "{text}");
        }
    }

    #[test]
    fn what_a_person_is_shown_cannot_be_disguised() {
        let args = json!({"a": "1\n\nRefund 1?\u{202e}\u{200b}", "long": "x".repeat(1000)});
        let facts = Facts {
            args: &args,
            result: None,
            ctx: &Map::new(),
            principal: &Value::Null,
            state: "s",
            visits: 1,
        };
        let shown = Text::new("Refund {{args.a}}?").fill_shown(&facts);
        assert_eq!(shown, "Refund 1\u{fffd}\u{fffd}Refund 1?\u{fffd}\u{fffd}?");
        let shown = Text::new("{{args.long}}").fill_shown(&facts);
        assert_eq!(shown.chars().count(), 201);
        let many = Text::new(&"{{args.long}}".repeat(2_000)).fill(&facts);
        assert!(many.len() <= 1 << 20);
    }

    #[test]
    fn slots_know_their_bytes() {
        let text = Text::new("é {{ args.a }}{{b}}");
        let slots: Vec<_> = text.slots().map(|slot| (slot.path, slot.at)).collect();
        assert_eq!(slots, [("args.a", 3..15), ("b", 15..20)]);
    }

    #[test]
    fn arguments_are_filled_in_once() {
        let argument = |name: &str| match name {
            "who" => Some("{{who}} & {{x}}"),
            "x" => Some("X"),
            _ => None,
        };
        assert_eq!(
            fill_in("Dear {{who}}, {{ x }}{{y}} {{open", argument),
            "Dear {{who}} & {{x}}, X {{open"
        );
    }

    #[test]
    fn a_text_is_cut_at_its_slots() {
        #[track_caller]
        fn check(text: &str, expected: &[Piece<'_>]) {
            assert_eq!(pieces(text).collect::<Vec<_>>(), expected);
        }
        let slot = |name, written| Piece::Slot { name, written };
        check("", &[]);
        check("plain", &[Literal("plain")]);
        check("{{a}}", &[slot("a", "{{a}}")]);
        check(
            "to {{ who }}!{{b}}",
            &[
                Literal("to "),
                slot("who", "{{ who }}"),
                Literal("!"),
                slot("b", "{{b}}"),
            ],
        );
        check("{{}}", &[slot("", "{{}}")]);
        check("open {{ end", &[Literal("open {{ end")]);
        check("é{{ü}}é", &[Literal("é"), slot("ü", "{{ü}}"), Literal("é")]);
        check("{{}", &[Literal("{{}")]);
        check("}}", &[Literal("}}")]);
    }
}
