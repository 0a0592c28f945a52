//! What is wrong with an expression, said to its author.

use std::fmt;
use std::ops::Range;

use super::{DEEPEST, LONGEST, Root};

/// One thing that is wrong with an expression, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{fault}")]
pub(crate) struct Flaw {
    /// What is wrong.
    pub(crate) fault: Fault,
    /// Where in the source it is, in bytes, if that is known.
    pub(crate) at: Option<Range<usize>>,
}

impl Flaw {
    pub(super) fn new(fault: Fault, at: Option<Range<usize>>) -> Self {
        Self { fault, at }
    }

    /// What to do instead.
    pub(crate) fn help(&self) -> Option<String> {
        self.fault.help()
    }
}

/// What can be wrong with an expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fault {
    /// There is nothing but space.
    #[error("the expression is empty")]
    Empty,
    /// It has too many characters.
    #[error("the expression has {found} characters; at most {LONGEST} are read")]
    TooLong {
        /// How many it has.
        found: usize,
    },
    /// It nests too deep, or is too long a chain of operators.
    #[error("the expression nests deeper than {DEEPEST} levels")]
    TooDeep,
    /// It is not CEL.
    #[error("{message}")]
    Syntax {
        /// What the parser stumbled over.
        message: String,
        /// What to write instead.
        hint: Option<&'static str>,
    },
    /// It ends where something must follow.
    #[error("{message}")]
    Unfinished {
        /// What is missing, if that is known.
        message: String,
    },
    /// It begins with a name that stands for nothing.
    #[error("unknown name `{name}`")]
    UnknownName {
        /// The name.
        name: String,
        /// A known name that resembles it.
        nearest: Option<String>,
        /// The names that are known here.
        allowed: Vec<Root>,
    },
    /// It uses a name that stands for nothing in this place.
    #[error("`{}` cannot be used here", root.name())]
    NotAllowedHere {
        /// The name.
        root: Root,
        /// The names that are known here.
        allowed: Vec<Root>,
    },
    /// It calls a function that does not exist.
    #[error("unknown function `{name}`")]
    UnknownFunction {
        /// The name.
        name: String,
        /// A function that resembles it.
        nearest: Option<String>,
    },
    /// It calls a function with too few or too many arguments.
    #[error("`{function}` takes {wanted}, found {found}")]
    WrongArity {
        /// The function.
        function: &'static str,
        /// How many arguments it takes, in words.
        wanted: &'static str,
        /// How many it was given.
        found: usize,
        /// How it is called.
        usage: &'static str,
    },
    /// It calls a method as a function, or a function as a method.
    #[error("`{function}` is not called like this")]
    WrongForm {
        /// The function.
        function: &'static str,
        /// How it is called.
        usage: &'static str,
    },
    /// The pattern for `matches` is made while the expression runs.
    #[error("the pattern for `matches` is not a string literal")]
    PatternNotLiteral,
    /// The pattern for `matches` is no regular expression, or too large a one.
    #[error("the pattern for `matches` cannot be used: {message}")]
    BadPattern {
        /// Why.
        message: String,
    },
    /// A loop's variable has the name of a fact.
    #[error("the loop variable `{name}` hides the fact of that name")]
    Shadowed {
        /// The name.
        name: String,
    },
    /// A map is written with a key that is not a string literal.
    #[error("a map's key is not a string literal")]
    KeyNotText,
    /// A map is written with one key twice.
    #[error("the map has the key `{}` twice", key.escape_debug())]
    RepeatedKey {
        /// The key.
        key: String,
    },
    /// It uses a part of CEL that has no meaning for JSON.
    #[error("{what} cannot be used in an expression")]
    Unsupported {
        /// The part.
        what: &'static str,
    },
}

impl Fault {
    /// What to do instead.
    pub(crate) fn help(&self) -> Option<String> {
        match self {
            Self::Empty => {
                Some("write a condition or a value, such as `args.amount > 0`".to_owned())
            }
            Self::TooLong { .. } | Self::TooDeep => {
                Some("split it: store a part of it with `set:` in an earlier state".to_owned())
            }
            Self::Syntax { hint, .. } => hint.map(str::to_owned),
            Self::Unfinished { .. } => Some("finish it, such as `args.amount > 0`".to_owned()),
            Self::UnknownName {
                nearest, allowed, ..
            } => Some(did_you_mean(nearest.as_deref()).unwrap_or_else(|| begins_with(allowed))),
            Self::NotAllowedHere { root, allowed } => Some(instead_of(*root, allowed)),
            Self::UnknownFunction { nearest, .. } => {
                Some(did_you_mean(nearest.as_deref()).unwrap_or_else(functions))
            }
            Self::WrongArity { usage, .. } | Self::WrongForm { usage, .. } => {
                Some(format!("write `{usage}`"))
            }
            Self::PatternNotLiteral => Some(
                "write the pattern in quotes, such as `args.id.matches(\"^[0-9]+$\")`".to_owned(),
            ),
            Self::BadPattern { .. } => None,
            Self::Shadowed { .. } => Some("give the variable another name".to_owned()),
            Self::KeyNotText => {
                Some("write the key in quotes, such as `{\"order\": args.order}`".to_owned())
            }
            Self::RepeatedKey { .. } => Some("remove one of them".to_owned()),
            Self::Unsupported { .. } => Some(
                "facts are JSON: use numbers, strings, booleans, null, lists and maps".to_owned(),
            ),
        }
    }
}

fn did_you_mean(nearest: Option<&str>) -> Option<String> {
    nearest.map(|name| format!("did you mean `{name}`?"))
}

fn begins_with(allowed: &[Root]) -> String {
    if allowed.is_empty() {
        return "an expression can use no names here".to_owned();
    }
    format!("here an expression can begin with {}", Names(allowed))
}

fn instead_of(root: Root, allowed: &[Root]) -> String {
    match root {
        Root::Result => "`result` is known only after the call: use it on an edge".to_owned(),
        Root::Args | Root::Ctx | Root::Principal | Root::State | Root::Visits => {
            begins_with(allowed)
        }
    }
}

fn functions() -> String {
    let functions = super::node::Function::ALL.map(|function| function.signature());
    let macros = super::node::Signature::MACROS;
    let names: Vec<String> = functions
        .iter()
        .chain(&macros)
        .map(|known| format!("`{}`", known.name))
        .collect();
    format!("these functions exist: {}", names.join(", "))
}

struct Names<'a>(&'a [Root]);

impl fmt::Display for Names<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, root) in self.0.iter().enumerate() {
            let between = if index > 0 { ", " } else { "" };
            write!(f, "{between}`{}`", root.name())?;
        }
        Ok(())
    }
}
