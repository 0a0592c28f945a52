//! A no, in the words and with the code of a server.

use interlock::workflow::{Kind, Refused};
use std::fmt;

/// A call that may not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) code: u16,
    /// Why, as the caller is told.
    why: String,
    /// What a person was asked before.
    pub(crate) asked: Option<String>,
}

impl Refusal {
    fn plain(code: u16, why: String) -> Self {
        Self {
            code,
            why,
            asked: None,
        }
    }

    fn asked(code: u16, question: &str, why: String) -> Self {
        Self {
            asked: Some(question.to_owned()),
            ..Self::plain(code, why)
        }
    }

    /// There is no such thing.
    pub(super) fn unknown(kind: Kind, name: &str) -> Self {
        match kind {
            Kind::Tool => Self::plain(1048, format!("unknown tool: {name}")),
            Kind::Resource => Self::plain(1046, format!("resource not found: {name}")),
            Kind::Prompt => Self::plain(1050, format!("unknown prompt: {name}")),
        }
    }

    /// The arguments do not fit.
    pub(super) fn wrong_arguments(kind: Kind, why: String) -> Self {
        match kind {
            Kind::Tool => Self::plain(1022, why),
            Kind::Resource | Kind::Prompt => Self::plain(1021, why),
        }
    }

    /// A person said no.
    pub(crate) fn denied(question: &str) -> Self {
        let why = "the call was not approved: a person said no.";
        Self::asked(1083, question, why.to_owned())
    }

    /// A person would not say anything.
    pub(crate) fn dismissed(question: &str) -> Self {
        let why = "the call was not approved: the person who was asked dismissed the question.";
        Self::asked(1083, question, why.to_owned())
    }

    /// An operator has not said anything yet.
    pub(crate) fn pending(question: &str) -> Self {
        let why = format!(
            "an operator must approve this call first: {question} Repeat the same call once it is \
             approved."
        );
        Self::asked(1071, question, why)
    }
}

impl From<Refused<'_>> for Refusal {
    fn from(refused: Refused<'_>) -> Self {
        let why = refused.advice(refused.path().as_deref());
        Self::plain(refused.code(), why)
    }
}

/// As its caller is told it.
impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}
