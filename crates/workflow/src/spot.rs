//! The parts of a workflow, as findings name them.

use crate::{Artifact, Outcome, model::spelt};
use std::{fmt, sync::Arc, time::Duration};

/// The part of a workflow that something is wrong with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spot {
    /// A state.
    State {
        /// Its name.
        state: Arc<str>,
    },
    /// What is bound in a state.
    Binding {
        /// Where it is bound.
        state: Arc<str>,
        /// What is bound.
        artifact: Artifact,
    },
    /// An outcome of what is bound in a state.
    Call {
        /// Where it is bound.
        state: Arc<str>,
        /// What is bound.
        artifact: Artifact,
        /// How a call of it ends.
        outcome: Outcome,
    },
    /// A timer of a state.
    Timer {
        /// The state.
        state: Arc<str>,
        /// How long an instance is in it.
        after: Duration,
    },
    /// What the client's model is asked in a state.
    Sampling {
        /// The state.
        state: Arc<str>,
        /// How that ends.
        outcome: Outcome,
    },
}

impl fmt::Display for Spot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::State { state } => write!(f, "state {state:?}"),
            Self::Binding { state, artifact } => write!(f, "{artifact} in state {state:?}"),
            Self::Call {
                state,
                artifact,
                outcome,
            } => write!(f, "{outcome} of {artifact} in state {state:?}"),
            Self::Timer { state, after } => {
                write!(f, "the timer of {} in state {state:?}", spelt(*after))
            }
            Self::Sampling { state, outcome } => {
                write!(f, "{outcome} of sampling in state {state:?}")
            }
        }
    }
}

/// The part of a definition that is worked out when a call comes or ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// A guard.
    When,
    /// A value to remember under this key.
    Set {
        /// The key.
        key: String,
    },
    /// A text with `{{…}}` in it.
    Text,
}
