//! What may be written to a stream, by what is at its other end.

use std::io::IsTerminal;

/// How output is dressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// For programs and files: one fact per line, no colours.
    Plain,
    /// For a person who wants no colours.
    Drawn,
    /// For a person.
    Coloured,
}

impl Look {
    pub(crate) fn of(stream: &impl IsTerminal) -> Self {
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        match stream.is_terminal() {
            false => Self::Plain,
            true if no_color || dumb => Self::Drawn,
            true => Self::Coloured,
        }
    }
}

/// A text of others with what could garble a terminal escaped. Lines stay lines.
pub(crate) fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() && !matches!(c, '\n' | '\t') {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown_and_not_obeyed() {
        assert_eq!(
            printable("a\tb\n\x1b[31mred\r\u{9b}é"),
            "a\tb\n\\u{1b}[31mred\\r\\u{9b}é"
        );
    }
}
