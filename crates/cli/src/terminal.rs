//! What may be written to a stream, by what is at its other end.

use std::io::{self, IsTerminal, Write};

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

/// Standard output for whoever still reads it. A command whose reader has seen enough goes on, so
/// that it ends as it would have.
pub(crate) struct Output(io::Stdout);

/// Standard output.
pub(crate) fn output() -> Output {
    Output(io::stdout())
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.write(bytes) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(bytes.len()),
            written => written,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.0.flush() {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            flushed => flushed,
        }
    }
}

impl Output {
    /// How it is dressed.
    pub(crate) fn look(&self) -> Look {
        Look::of(&self.0)
    }
}

/// Says something on standard error, if anybody listens.
pub(crate) fn say(text: &str) {
    let told = writeln!(io::stderr(), "{}", printable(text));
    // There is nobody left to tell that it could not be told.
    drop(told);
}

/// A text of others with what could garble a terminal escaped. Lines stay lines.
pub(crate) fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        let moves_others = matches!(c, '\u{61c}' | '\u{feff}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}');
        if moves_others || (c.is_control() && !matches!(c, '\n' | '\t')) {
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
            printable("a\tb\n\x1b[31mred\r\u{9b}é\u{202e}x"),
            "a\tb\n\\u{1b}[31mred\\r\\u{9b}é\\u{202e}x"
        );
    }
}
