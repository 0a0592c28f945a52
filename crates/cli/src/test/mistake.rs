//! What is wrong with a scenario file, and where.

use crate::simulate::{nearest, shortened};
use serde_saphyr::{Error, Location};

/// One thing that is wrong. Sorted, they come in the order of the file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Mistake {
    line: u64,
    column: u64,
    what: String,
    help: Option<String>,
}

impl Mistake {
    pub(super) fn new(at: Location, what: impl Into<String>, meant: Option<&str>) -> Self {
        Self {
            line: at.line().max(1),
            column: at.column().max(1),
            what: shortened(&what.into()),
            help: meant.map(|meant| format!("did you mean `{meant}`?")),
        }
    }

    /// `flow.test.yaml:3:5: there is no tool `refnd``, and what to do about it on a second line.
    pub(super) fn told(&self, file: &str) -> String {
        let Self {
            line, column, what, ..
        } = self;
        let told = format!("{file}:{line}:{column}: {what}");
        match &self.help {
            Some(help) => format!("{told}\n  help: {help}"),
            None => told,
        }
    }
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the reader can grow more errors, and its own words do for most"
)]
impl From<Error> for Mistake {
    fn from(error: Error) -> Self {
        let at = error.location().unwrap_or(Location::UNKNOWN);
        match error.without_snippet() {
            Error::SerdeUnknownField {
                field, expected, ..
            } => Self::among(
                at,
                format!("there is no key `{field}` here"),
                field,
                expected,
            ),
            Error::SerdeUnknownVariant {
                variant, expected, ..
            } => Self::among(
                at,
                format!("`{variant}` cannot stand here"),
                variant,
                expected,
            ),
            Error::SerdeMissingField { field, .. } => {
                Self::new(at, format!("the key `{field}` is missing"), None)
            }
            Error::SerdeInvalidType {
                unexpected,
                expected,
                ..
            }
            | Error::SerdeInvalidValue {
                unexpected,
                expected,
                ..
            } => Self::new(at, format!("expected {expected}, found {unexpected}"), None),
            Error::Unexpected { expected, .. } => Self::new(at, structure(expected), None),
            Error::InvalidScalar { .. } => Self::new(at, "expected a whole number", None),
            Error::Eof { .. } => Self::new(at, "the file ends too early", None),
            Error::DuplicateMappingKey { key: Some(key), .. } => {
                Self::new(at, format!("the key `{key}` is there already"), None)
            }
            other => Self::new(at, without_place(&other.to_string()), None),
        }
    }
}

/// The reader's words for what it wanted, in those of a person.
fn structure(expected: &str) -> String {
    match expected {
        "mapping start" => "expected a map".to_owned(),
        "sequence start" => "expected a list".to_owned(),
        other => format!("expected {other}"),
    }
}

impl Mistake {
    /// A word that is not among those that can stand there.
    fn among(at: Location, what: String, written: &str, expected: &[&'static str]) -> Self {
        let help = match nearest(written, expected.iter().copied()) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("there are: {}", expected.join(", ")),
        };
        Self {
            help: Some(shortened(&help)),
            ..Self::new(at, what, None)
        }
    }
}

/// The first line of a message, without the place that it is told with anyway.
fn without_place(message: &str) -> String {
    let line = message.lines().next().unwrap_or_default();
    let end = line.find(" at line ").unwrap_or(line.len());
    line[..end].to_owned()
}
