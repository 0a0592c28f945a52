//! `${VAR}` in texts, which stands for a variable of the environment.
//!
//! `$${` is a way to write `${` where no variable is meant. A dollar sign alone is one.

/// A variable that a text needs and nobody has set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the environment has no variable `{name}`")]
pub struct Missing {
    /// Its name.
    pub name: String,
}

/// Fills in the variables of a text.
///
/// What is filled in is not looked at again, so a variable cannot bring in another one.
///
/// ```
/// use interlock_workflow::file::expand;
///
/// let lookup = |name: &str| (name == "TOKEN").then(|| "s3cr3t".to_owned());
/// assert_eq!(expand("Bearer ${TOKEN}", lookup).as_deref(), Ok("Bearer s3cr3t"));
/// assert_eq!(expand("$5 or $${TOKEN}", lookup).as_deref(), Ok("$5 or ${TOKEN}"));
/// let missing = expand("${HOST}", lookup).unwrap_err();
/// assert_eq!(missing.to_string(), "the environment has no variable `HOST`");
/// ```
pub fn expand(text: &str, lookup: impl Fn(&str) -> Option<String>) -> Result<String, Missing> {
    pieces(text)
        .map(|piece| match piece {
            Piece::Literal(text) | Piece::Broken { written: text, .. } => Ok(text.to_owned()),
            Piece::Variable(name) => lookup(name).ok_or_else(|| Missing {
                name: name.to_owned(),
            }),
        })
        .collect()
}

/// A piece of a text.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece<'t> {
    /// Stands for itself.
    Literal(&'t str),
    /// Stands for the variable of that name.
    Variable(&'t str),
    /// Looks like a variable and is none.
    Broken { written: &'t str, fault: Fault },
}

/// Why something is no variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Fault {
    #[error("is never closed")]
    Open,
    #[error("names no variable")]
    Empty,
    #[error("is not the name of a variable")]
    Odd,
}

/// Cuts a text into its pieces.
pub(super) fn pieces(text: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (piece, length) = first(rest);
        rest = &rest[length..];
        Some(piece)
    })
}

/// The first piece of a text that is not empty, and how many bytes of the text it takes.
fn first(text: &str) -> (Piece<'_>, usize) {
    if text.starts_with("$${") {
        return (Piece::Literal(&text[1..3]), 3);
    }
    if !text.starts_with("${") {
        let next = text.find("${").unwrap_or(text.len());
        // A dollar sign right before it makes it none.
        let escaped = next < text.len() && text[..next].ends_with('$');
        let end = if escaped { next - 1 } else { next };
        return (Piece::Literal(&text[..end]), end);
    }
    let Some(end) = text.find('}') else {
        let fault = Fault::Open;
        return (
            Piece::Broken {
                written: text,
                fault,
            },
            text.len(),
        );
    };
    let (written, name) = (&text[..=end], &text[2..end]);
    let piece = if name.is_empty() {
        let fault = Fault::Empty;
        Piece::Broken { written, fault }
    } else if is_name(name) {
        Piece::Variable(name)
    } else {
        let fault = Fault::Odd;
        Piece::Broken { written, fault }
    };
    (piece, end + 1)
}

fn is_name(name: &str) -> bool {
    !name.starts_with(|first: char| first.is_ascii_digit())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::{Piece::*, *};

    #[test]
    fn a_text_is_cut_at_its_variables() {
        #[track_caller]
        fn check(text: &str, expected: &[Piece<'_>]) {
            assert_eq!(pieces(text).collect::<Vec<_>>(), expected);
        }
        let broken = |written, fault| Broken { written, fault };
        check("", &[]);
        check("$ 5$", &[Literal("$ 5$")]);
        check("${A}", &[Variable("A")]);
        check(
            "a${A_1}${_b}é",
            &[Literal("a"), Variable("A_1"), Variable("_b"), Literal("é")],
        );
        check("a$${A}", &[Literal("a"), Literal("${"), Literal("A}")]);
        check("$$${A}", &[Literal("$"), Literal("${"), Literal("A}")]);
        check("a${", &[Literal("a"), broken("${", Fault::Open)]);
        check("${A ${B}", &[broken("${A ${B}", Fault::Odd)]);
        check("${}", &[broken("${}", Fault::Empty)]);
        check("${A:-b}", &[broken("${A:-b}", Fault::Odd)]);
        check("${1}", &[broken("${1}", Fault::Odd)]);
        check("${é", &[broken("${é", Fault::Open)]);
    }

    #[test]
    fn variables_are_filled_in_once() {
        let lookup = |name: &str| match name {
            "A" => Some("${B}".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        };
        assert_eq!(expand("x${A}${EMPTY}y", lookup).as_deref(), Ok("x${B}y"));
        assert_eq!(expand("${B}", lookup).unwrap_err().name, "B");
        assert_eq!(
            expand("${never closed", lookup).as_deref(),
            Ok("${never closed")
        );
    }
}
