//! Texts with `{{name}}` in them.

/// A piece of a text.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece<'t> {
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
pub(super) fn pieces(text: &str) -> impl Iterator<Item = Piece<'_>> {
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

#[cfg(test)]
mod tests {
    use super::{Piece::*, *};

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
        let slot = |name, written| Slot { name, written };
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
