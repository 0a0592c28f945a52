//! Why a server cannot be built.

use interlock_workflow::{Finding, Kind, TemplateError};
use std::fmt;

/// Why a server cannot be built. Each error names the item that it is about.
///
/// `Debug` writes what `Display` does, and what to do about it: a `main` that returns it prints that.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Two artifacts of one kind have one name.
    #[error("there are two {kind}s called `{name}`")]
    Duplicate {
        /// Of which kind they are.
        kind: Kind,
        /// What they are called.
        name: String,
    },
    /// A name that the protocol does not allow.
    #[error("`{name}` cannot be the name of a {kind}: {rule}")]
    Name {
        /// Of which kind it is.
        kind: Kind,
        /// What it is called.
        name: String,
        /// What would do.
        rule: &'static str,
    },
    /// A schema of a tool cannot be used.
    #[error("the {which} schema of tool `{tool}` is not usable: {why}")]
    Schema {
        /// Which of them: `input` or `output`.
        which: &'static str,
        /// Whose it is.
        tool: String,
        /// What is wrong with it.
        why: String,
    },
    /// A resource template cannot be read.
    #[error("`{template}` is no resource template: {why}")]
    Template {
        /// What was given for one.
        template: String,
        /// What is wrong with it.
        why: TemplateError,
    },
    /// An argument is completed that does not exist.
    #[error("{kind} `{name}` has no argument `{argument}` that could be completed")]
    Completion {
        /// Of which kind it is.
        kind: Kind,
        /// What it is called.
        name: String,
        /// What it does not take.
        argument: String,
    },
    /// The workflow does not fit the server.
    #[error("the workflow does not fit the server: {0}")]
    Workflow(Box<Finding>),
    /// The workflow names effects that were not registered.
    #[error("the workflow names effects that the server does not have: {}", listed(.names))]
    Effects {
        /// Their names.
        names: Vec<String>,
    },
    /// Two effects have one name.
    #[error("there are two effects called `{name}`")]
    DuplicateEffect {
        /// What they are called.
        name: String,
    },
    /// An effect leads to a state that is not there, if it fails.
    #[error(
        "if effect `{effect}` fails, it leads to state `{state}`, which the workflow does not have"
    )]
    EffectState {
        /// What it is called.
        effect: String,
        /// Where it would lead.
        state: String,
    },
    /// The secret that seals request states cannot be used.
    #[error("what clients carry for the server cannot be sealed: {0}")]
    Secret(String),
}

impl BuildError {
    /// The artifact that it is about, if it is about one.
    pub(crate) fn artifact(&self) -> Option<(Kind, &str)> {
        match self {
            Self::Duplicate { kind, name }
            | Self::Name { kind, name, .. }
            | Self::Completion { kind, name, .. } => Some((*kind, name)),
            Self::Schema { tool, .. } => Some((Kind::Tool, tool)),
            Self::Template { template, .. } => Some((Kind::Resource, template)),
            Self::Workflow(_)
            | Self::Effects { .. }
            | Self::DuplicateEffect { .. }
            | Self::EffectState { .. }
            | Self::Secret(_) => None,
        }
    }
}

impl fmt::Debug for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::Workflow(finding) = self {
            return write!(f, "{}", finding.with_help());
        }
        fmt::Display::fmt(self, f)
    }
}

/// Everything that was wrong.
///
/// `Debug` writes a line for each error, and one for its help: a `main` that returns it prints that.
#[derive(thiserror::Error)]
#[error("the server cannot be built: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct BuildErrors(pub Vec<BuildError>);

impl fmt::Debug for BuildErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the server cannot be built")?;
        self.0.iter().try_for_each(|error| write!(f, "\n{error:?}"))
    }
}

fn listed(names: &[String]) -> String {
    let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}
