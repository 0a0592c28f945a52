//! URI templates such as `order://{id}`, read backwards: which URIs fit, and with what values.
//!
//! The gate and whoever serves the resource ask the same code, so that they mean the same.

mod fit;

use crate::normalised_uri;
use serde_json::{Map, Value};
use std::{borrow::Cow, fmt, str::FromStr};

/// Longer templates are none.
const LONGEST_TEMPLATE: usize = 2_048;
/// Templates with more expressions are none.
const MOST_PIECES: usize = 64;
/// The longest prefix that `{x:1}` can ask for.
const LONGEST_PREFIX: usize = 9_999;

/// Whether it is a template and not the URI of one resource.
pub(crate) fn is_template(name: &str) -> bool {
    name.contains('{')
}

/// What every URI that fits a template begins with.
pub(crate) fn beginning(template: &str) -> &str {
    template
        .find('{')
        .map_or(template, |open| &template[..open])
}

/// Whether a URI fits a template, or is the one URI that this is.
pub(crate) fn matches(template: &str, uri: &str) -> bool {
    if !is_template(template) {
        return normalised_uri(template) == normalised_uri(uri);
    }
    UriTemplate::parse(template).is_ok_and(|template| template.matches(uri))
}

/// A URI template, ready to be compared with URIs.
///
/// A template of RFC 6570 says how a URI is made of values. Which values a URI was made of can
/// often be told, but not always, so this is what is taken for what:
///
/// | Expression | Stands for |
/// |---|---|
/// | `{x}` | one character or more, but none of `/`, `?` and `#` |
/// | `{+x}` | one character or more; no `?` or `#` if a query or a fragment can follow |
/// | `{#x}` | nothing, or `#` and anything |
/// | `{.x}`, `{/x}` | nothing, or that character and what `{x}` stands for, or nothing after it |
/// | `{;x}` | nothing, or `;x`, or `;x=` and a value |
/// | `{?x,y}`, `{&x,y}` | nothing, or that character and a query: the values are found by their names, in any order, and other names say nothing |
///
/// `{x,y}` is split at its commas, `{.x,y}` at its dots; what is too much belongs to the last, or
/// to one that is exploded (`{x*}`, a list). `{x:3}` takes three characters at most. Where a URI
/// can still be read in several ways, what comes first takes as much as it can. A name that comes
/// twice must mean the same. Values are percent-decoded. Template and URI are compared as
/// [`normalised_uri`] writes them.
///
/// ```
/// use interlock_workflow::UriTemplate;
/// use serde_json::json;
///
/// let orders = UriTemplate::parse("shop://{region}/orders/{id}{?lines}")?;
/// let values = orders.values("shop://eu/orders/A%2F1?lines=5").unwrap();
/// assert_eq!(values["region"], "eu");
/// assert_eq!(values["id"], "A/1");
/// assert_eq!(values["lines"], "5");
/// assert!(orders.matches("shop://eu/orders/A1"));
/// assert!(!orders.matches("shop://eu/orders"));
/// # Ok::<(), interlock_workflow::TemplateError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UriTemplate {
    text: String,
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    /// As it is written, and with what no URI may hold percent-encoded, if that differs.
    Literal {
        raw: String,
        encoded: Option<String>,
    },
    Run(Run),
}

/// A part of a URI that variables stand for.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Run {
    operator: Operator,
    /// What it begins with.
    first: String,
    /// One at least.
    variables: Vec<Variable>,
    /// Whether an expression for a query comes after it.
    before_query: bool,
    /// Whether an expression for a fragment comes after it.
    before_fragment: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Simple,
    Reserved,
    Fragment,
    Label,
    Path,
    Parameter,
    Query,
    Continuation,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Variable {
    name: String,
    /// It is a list.
    explode: bool,
    /// How many characters of it there are at most.
    prefix: Option<usize>,
}

/// Why a text is no URI template. Places are counted in bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// A brace is never closed.
    #[error("the brace at {at} is never closed")]
    Unclosed {
        /// Where it is.
        at: usize,
    },
    /// A brace closes nothing.
    #[error("the brace at {at} closes nothing")]
    Stray {
        /// Where it is.
        at: usize,
    },
    /// An operator that nobody has given a meaning.
    #[error("the operator `{operator}` at {at} means nothing")]
    Operator {
        /// Where it is.
        at: usize,
        /// Which one.
        operator: char,
    },
    /// What stands between braces is not the name of a variable.
    #[error(
        "`{name}` at {at} is no name of a variable: letters, digits, `_`, `-` and `.` are allowed"
    )]
    Name {
        /// Where it is.
        at: usize,
        /// What stands there.
        name: String,
    },
    /// A variable is asked for in a way that there is not.
    #[error(
        "`{modifier}` at {at} says nothing: after a name comes `*`, or `:` and a number up to 9999"
    )]
    Modifier {
        /// Where it is.
        at: usize,
        /// What stands there.
        modifier: String,
    },
    /// No URI holds this.
    #[error("{character:?} at {at} cannot be part of a URI")]
    Character {
        /// Where it is.
        at: usize,
        /// What it is.
        character: char,
    },
    /// It is too long.
    #[error("it has more than {LONGEST_TEMPLATE} bytes or {MOST_PIECES} parts")]
    TooLarge,
}

impl UriTemplate {
    /// Longer URIs fit no template.
    pub const LONGEST_URI: usize = 8 * 1024;

    /// Reads a template.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        if text.len() > LONGEST_TEMPLATE {
            return Err(TemplateError::TooLarge);
        }
        let mut read = pieces(text)?;
        if let Cow::Owned(normalised) = normalised_uri(text) {
            read = pieces(&normalised)?;
        }
        if read.len() > MOST_PIECES {
            return Err(TemplateError::TooLarge);
        }
        look_ahead(&mut read);
        Ok(Self {
            text: text.to_owned(),
            pieces: read,
        })
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The names of its variables, each once, in the order in which they come.
    pub fn variables(&self) -> Vec<&str> {
        let mut names = Vec::new();
        for variable in self.runs().flat_map(|run| &run.variables) {
            if !names.contains(&&*variable.name) {
                names.push(&variable.name);
            }
        }
        names
    }

    /// Whether a URI fits.
    pub fn matches(&self, uri: &str) -> bool {
        self.values(uri).is_some()
    }

    /// What a URI that fits was made of: strings, and lists of strings for what is exploded. A
    /// variable for which nothing stands in the URI is left out.
    ///
    /// It takes time in proportion to the length of the URI times the number of expressions.
    pub fn values(&self, uri: &str) -> Option<Map<String, Value>> {
        if uri.len() > Self::LONGEST_URI {
            return None;
        }
        fit::values(&self.pieces, &normalised_uri(uri))
    }

    fn runs(&self) -> impl Iterator<Item = &Run> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Run(run) => Some(run),
            Piece::Literal { .. } => None,
        })
    }
}

impl fmt::Display for UriTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for UriTemplate {
    type Err = TemplateError;

    fn from_str(text: &str) -> Result<Self, TemplateError> {
        Self::parse(text)
    }
}

/// A text as pieces.
fn pieces(text: &str) -> Result<Vec<Piece>, TemplateError> {
    let mut pieces = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        if let Some(inside) = rest.strip_prefix('{') {
            let close = inside.find('}').ok_or(TemplateError::Unclosed { at })?;
            expression(&inside[..close], at + 1, &mut pieces)?;
            at += close + 2;
        } else {
            let end = rest.find('{').unwrap_or(rest.len());
            pieces.push(literal(&rest[..end], at)?);
            at += end;
        }
    }
    Ok(pieces)
}

/// Text that is there as it is.
fn literal(text: &str, at: usize) -> Result<Piece, TemplateError> {
    let mut encoded = String::with_capacity(text.len());
    for (offset, character) in text.char_indices() {
        let at = at + offset;
        match character {
            '}' => return Err(TemplateError::Stray { at }),
            '%' if !is_triplet(&text.as_bytes()[offset..]) => {
                return Err(TemplateError::Character { at, character });
            }
            '"' | '<' | '>' | '\\' | '^' | '`' | '|' => {
                return Err(TemplateError::Character { at, character });
            }
            _ if character.is_control() || character.is_whitespace() => {
                return Err(TemplateError::Character { at, character });
            }
            _ if character.is_ascii() => encoded.push(character),
            _ => {
                let mut buffer = [0; 4];
                for byte in character.encode_utf8(&mut buffer).bytes() {
                    encoded.push_str(&format!("%{byte:02X}"));
                }
            }
        }
    }
    Ok(Piece::Literal {
        raw: text.to_owned(),
        encoded: (encoded != text).then_some(encoded),
    })
}

/// What stands between two braces.
fn expression(text: &str, at: usize, pieces: &mut Vec<Piece>) -> Result<(), TemplateError> {
    let (operator, names) = match text.chars().next() {
        Some('+') => (Operator::Reserved, &text[1..]),
        Some('#') => (Operator::Fragment, &text[1..]),
        Some('.') => (Operator::Label, &text[1..]),
        Some('/') => (Operator::Path, &text[1..]),
        Some(';') => (Operator::Parameter, &text[1..]),
        Some('?') => (Operator::Query, &text[1..]),
        Some('&') => (Operator::Continuation, &text[1..]),
        Some(operator @ ('=' | ',' | '!' | '@' | '|')) => {
            return Err(TemplateError::Operator { at, operator });
        }
        Some(_) | None => (Operator::Simple, text),
    };
    let mut at = at + text.len() - names.len();
    let mut variables = Vec::new();
    for name in names.split(',') {
        variables.push(variable(name, at)?);
        at += name.len() + 1;
    }
    let run = |first: String, variables| {
        Piece::Run(Run {
            operator,
            first,
            variables,
            before_query: false,
            before_fragment: false,
        })
    };
    match operator {
        Operator::Simple | Operator::Reserved => pieces.push(run(String::new(), variables)),
        Operator::Fragment => pieces.push(run("#".to_owned(), variables)),
        Operator::Label => pieces.push(run(".".to_owned(), variables)),
        Operator::Query => pieces.push(run("?".to_owned(), variables)),
        Operator::Continuation => pieces.push(run("&".to_owned(), variables)),
        // Each of these has a beginning of its own.
        Operator::Path => {
            pieces.extend(
                variables
                    .into_iter()
                    .map(|one| run("/".to_owned(), vec![one])),
            );
        }
        Operator::Parameter => pieces.extend(
            variables
                .into_iter()
                .map(|one| run(format!(";{}", one.name), vec![one])),
        ),
    }
    Ok(())
}

fn variable(text: &str, at: usize) -> Result<Variable, TemplateError> {
    let end = text.find(['*', ':']).unwrap_or(text.len());
    let (name, modifier) = text.split_at(end);
    if !is_name(name) {
        let name = name.to_owned();
        return Err(TemplateError::Name { at, name });
    }
    let prefix = modifier.strip_prefix(':').and_then(length);
    if !matches!(modifier, "" | "*") && prefix.is_none() {
        return Err(TemplateError::Modifier {
            at: at + end,
            modifier: modifier.to_owned(),
        });
    }
    Ok(Variable {
        name: name.to_owned(),
        explode: modifier == "*",
        prefix,
    })
}

/// `varname` of RFC 6570, and `-`, which many write.
fn is_name(name: &str) -> bool {
    let allowed = |(at, byte): (usize, u8)| match byte {
        b'%' => is_triplet(&name.as_bytes()[at..]),
        _ => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'),
    };
    let parts_are_there = name.split('.').all(|part| !part.is_empty());
    parts_are_there && name.bytes().enumerate().all(allowed)
}

fn length(digits: &str) -> Option<usize> {
    let plain = !digits.starts_with('0') && digits.bytes().all(|byte| byte.is_ascii_digit());
    let length = digits.parse().ok().filter(|_| plain)?;
    (length <= LONGEST_PREFIX).then_some(length)
}

/// A percent sign and two hexadecimal digits.
fn is_triplet(bytes: &[u8]) -> bool {
    matches!(bytes, [b'%', high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit())
}

/// Tells every run what can come after it.
fn look_ahead(pieces: &mut [Piece]) {
    let (mut query, mut fragment) = (false, false);
    for piece in pieces.iter_mut().rev() {
        if let Piece::Run(run) = piece {
            (run.before_query, run.before_fragment) = (query, fragment);
            query |= run.operator == Operator::Query;
            fragment |= run.operator == Operator::Fragment;
        }
    }
}

#[cfg(test)]
mod tests;
