//! Findings, as a person or a program wants to read them.

use crate::{
    load::Source,
    terminal::{Look, printable},
};
use interlock::workflow::{Finding, Severity, Span};
use miette::{
    Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, NamedSource, SourceCode,
};
use serde_json::{Map, Value};
use std::fmt::{self, Write};

/// A longer line is not drawn: it would be repeated for every finding in it.
const LONGEST_LINE: usize = 500;

/// All findings, each with its place.
pub(crate) fn findings(source: &Source, findings: &[Finding], look: Look) -> String {
    let theme = match look {
        Look::Plain => return plain(source, findings),
        Look::Drawn => GraphicalTheme::unicode_nocolor(),
        Look::Coloured => GraphicalTheme::unicode(),
    };
    // Spans count bytes, so they fit a text only if it is one.
    let Ok(text) = std::str::from_utf8(&source.text) else {
        return plain(source, findings);
    };
    let handler = GraphicalReportHandler::new_themed(theme);
    let code = NamedSource::new(source.name(), text.to_owned());
    let mut out = String::new();
    for finding in findings {
        let drawn = Drawn {
            finding,
            code: finding
                .span
                .is_some_and(|span| is_fit_to_draw(text, span))
                .then_some(&code),
        };
        if handler.render_report(&mut out, &drawn).is_err() || drawn.code.is_none() {
            out.push_str(&plain(source, std::slice::from_ref(finding)));
        }
    }
    out
}

/// `3 errors, 1 warning`.
pub(crate) fn count(findings: &[Finding]) -> String {
    let of = |severity| {
        findings
            .iter()
            .filter(|finding| finding.severity() == severity)
            .count()
    };
    let (errors, warnings) = (of(Severity::Error), of(Severity::Warning));
    match (errors, warnings) {
        (0, _) => plural(warnings, "warning"),
        (_, 0) => plural(errors, "error"),
        (_, _) => format!(
            "{}, {}",
            plural(errors, "error"),
            plural(warnings, "warning")
        ),
    }
}

/// `1 tool`, `2 tools`.
pub(crate) fn plural(count: usize, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    }
}

/// `file:line:column: severity[code]: message`, and a line of help where there is any.
fn plain(source: &Source, findings: &[Finding]) -> String {
    let path = source.name();
    let mut out = String::new();
    for finding in findings {
        let gap = if finding.span.is_some() { "" } else { " " };
        let told = printable(&finding.to_string());
        writeln!(out, "{path}:{gap}{told}").expect("writing to a string cannot fail");
        if let Some(help) = finding.problem.help() {
            let help = printable(&help);
            writeln!(out, "  help: {help}").expect("writing to a string cannot fail");
        }
    }
    out
}

/// All findings as JSON, each with its place if it has one.
pub(crate) fn json(source: &Source, findings: &[Finding]) -> Value {
    let objects = findings.iter().map(|finding| object(source, finding));
    objects.collect()
}

fn object(source: &Source, finding: &Finding) -> Value {
    let mut object = Map::new();
    let mut put = |key: &str, value: Value| object.insert(key.to_owned(), value);
    put("severity", finding.severity().to_string().into());
    put("code", finding.problem.code().into());
    put("message", finding.problem.to_string().into());
    if let Some(help) = finding.problem.help() {
        put("help", help.into());
    }
    if let Some(span) = finding.span {
        let (end_line, end_column) = end(&source.text, span);
        put("line", span.line.into());
        put("column", span.column.into());
        put("endLine", end_line.into());
        put("endColumn", end_column.into());
        put("start", span.start.into());
        put("end", span.end.into());
    }
    object.into()
}

/// Line and column of what follows a span, counted as its beginning is.
fn end(text: &[u8], span: Span) -> (u32, u32) {
    let inside = text.get(span.start..span.end).unwrap_or_default();
    let (mut line, mut column) = (span.line, span.column);
    for c in String::from_utf8_lossy(inside).chars() {
        match c {
            '\n' => (line, column) = (line.saturating_add(1), 1),
            _ => column = column.saturating_add(1),
        }
    }
    (line, column)
}

/// Whether the lines of a span are short, and hold nothing that a terminal would obey.
fn is_fit_to_draw(text: &str, span: Span) -> bool {
    let from = |text: &str| text.find('\n').unwrap_or(text.len());
    let (Some(before), Some(after)) = (text.get(..span.start), text.get(span.end..)) else {
        return false;
    };
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    let end = span.end + from(after);
    // One line before and after is drawn with them.
    let first = before[..start.saturating_sub(1)]
        .rfind('\n')
        .map_or(0, |at| at + 1);
    let last = text.get(end + 1..).map_or(end, |rest| end + 1 + from(rest));
    let obeyed = |c: char| c.is_control() && !matches!(c, '\n' | '\r' | '\t');
    end - start <= LONGEST_LINE && !text[first..last].contains(obeyed)
}

/// A finding in miette's words.
struct Drawn<'a> {
    finding: &'a Finding,
    code: Option<&'a NamedSource<String>>,
}

impl fmt::Debug for Drawn<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.finding.fmt(f)
    }
}

impl fmt::Display for Drawn<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.finding.problem)
    }
}

impl std::error::Error for Drawn<'_> {}

impl Diagnostic for Drawn<'_> {
    fn code<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        // In words: not everybody sees colours, or knows the signs.
        let severity = self.finding.severity();
        Some(Box::new(format!(
            "{severity}[{}]",
            self.finding.problem.code()
        )))
    }

    fn severity(&self) -> Option<miette::Severity> {
        Some(match self.finding.severity() {
            Severity::Warning => miette::Severity::Warning,
            Severity::Error => miette::Severity::Error,
        })
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        let help = self.finding.problem.help()?;
        Some(Box::new(help))
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.code.map(|code| code as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        self.code?;
        let span = self.finding.span?;
        let label = LabeledSpan::new(Some("here".to_owned()), span.start, span.end - span.start);
        Some(Box::new(std::iter::once(label)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use interlock::workflow::file;

    fn judged(text: &str) -> (Source, Vec<Finding>) {
        let source = Source {
            path: "flow.yaml".into(),
            text: text.into(),
        };
        let findings = file::read(text.as_bytes()).unwrap_err().findings;
        (source, findings)
    }

    const WRONG: &str = "interlock: 1\nname: x\nstats: {}\nstates:\n  a: { initial: true, tools: { go: nowhere } }\n\
    tools: { go: { description: Go, command: [go] } }\n";

    #[test]
    fn plain_findings_are_lines_that_other_programs_can_read() {
        let (source, found) = judged(WRONG);
        assert_eq!(
            findings(&source, &found, Look::Plain),
            "flow.yaml:3:1: error[unknown-key]: the file has no key `stats`\n  \
             help: did you mean `states`?\n\
             flow.yaml:5:36: error[unknown-target]: success of tool \"go\" in state \"a\" leads to \
             \"nowhere\", which is not defined\n"
        );
        assert_eq!(count(&found), "2 errors");
    }

    #[test]
    fn drawn_findings_show_the_line_and_its_place() {
        let (source, found) = judged(WRONG);
        let drawn = findings(&source, &found, Look::Drawn);
        assert!(drawn.contains("flow.yaml:3:1"), "{drawn}");
        assert!(drawn.contains("stats: {}"), "{drawn}");
        assert!(drawn.contains("error[unknown-key]"), "{drawn}");
        assert!(drawn.contains("did you mean `states`?"), "{drawn}");
        assert!(!drawn.contains('\x1b'), "{drawn}");
        let coloured = findings(&source, &found, Look::Coloured);
        assert!(coloured.contains('\x1b'), "{coloured}");
    }

    #[test]
    fn a_long_line_is_not_drawn_but_told() {
        let names: Vec<_> = (0..100).map(|n| format!("key{n}: 1")).collect();
        let text = format!("{{interlock: 1, name: x, {}}}\n", names.join(", "));
        let (source, found) = judged(&text);
        let drawn = findings(&source, &found, Look::Drawn);
        assert!(
            drawn.contains("flow.yaml:1:25: error[unknown-key]"),
            "{drawn}"
        );
        assert!(drawn.len() < 100 * text.len(), "{}", drawn.len());
    }

    #[test]
    fn what_a_terminal_would_obey_is_not_drawn() {
        let text = "interlock: 1\nname: x\n# \x1b[2J\nstats: {}\n";
        let start = text.find("stats").unwrap();
        let span = Span {
            start,
            end: start + "stats".len(),
            line: 4,
            column: 1,
        };
        assert!(!is_fit_to_draw(text, span));
        assert!(is_fit_to_draw(&text.replace('\x1b', " "), span));
    }

    #[test]
    fn the_end_of_a_span_is_counted_in_characters() {
        let text = "ä: öü\nßx: y";
        let span = Span {
            start: text.find('ö').unwrap(),
            end: text.find("x:").unwrap(),
            line: 1,
            column: 4,
        };
        assert_eq!(end(text.as_bytes(), span), (2, 2));
        let span = Span {
            end: span.start + "öü".len(),
            ..span
        };
        assert_eq!(end(text.as_bytes(), span), (1, 6));
        let beyond = Span { end: 1000, ..span };
        assert_eq!(end(text.as_bytes(), beyond), (1, 4));
    }

    #[test]
    fn what_is_no_text_is_told_plainly() {
        let source = Source {
            path: "flow.yaml".into(),
            text: b"interlock: \xff".to_vec(),
        };
        let found = file::read(&source.text).unwrap_err().findings;
        let told = findings(&source, &found, Look::Coloured);
        assert!(told.starts_with("flow.yaml:"), "{told}");
    }
}
