//! Why an operator did not get what it wanted.

use interlock_proto::Refusal;
use interlock_store::StoreError;
use interlock_workflow::Outcome;
use std::time::Duration;

/// Why an operator did not get what it wanted. Then nothing has changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OperatorError {
    /// The server has no workflow, and so no instances.
    #[error("the server has no workflow")]
    NoWorkflow,
    /// There is no such instance.
    #[error("there is no instance `{0}`")]
    NotFound(String),
    /// There is no such state.
    #[error("the workflow has no state `{0}`")]
    NoState(String),
    /// A call kept its turn for longer than the operator waited.
    #[error("instance `{id}` is busy: a call runs that did not end within {waited:?}")]
    Busy {
        /// The instance.
        id: String,
        /// How long the operator waited.
        waited: Duration,
    },
    /// The instance is over already.
    #[error("instance `{0}` is finished already")]
    Finished(String),
    /// There is no call to decide about.
    #[error("instance `{0}` holds no call that could be settled")]
    NotHeld(String),
    /// That outcome does not settle anything.
    #[error("the call that instance `{id}` holds cannot be settled as {outcome}")]
    Unsettled {
        /// The instance.
        id: String,
        /// The outcome.
        outcome: Outcome,
    },
    /// No call waits for that answer: it was never asked, or the instance has changed since.
    #[error("no call of instance `{0}` waits for this decision any more")]
    NotAsked(String),
    /// It was decided otherwise, or it is too late.
    #[error("a call of instance `{id}` cannot be decided so: {}", .refusal.message())]
    Decided {
        /// The instance.
        id: String,
        /// Why not.
        refusal: Refusal,
    },
    /// It belongs to another definition of the workflow.
    #[error("instance `{id}` belongs to another definition of workflow `{workflow}`")]
    Foreign {
        /// The instance.
        id: String,
        /// What its workflow is called.
        workflow: String,
    },
    /// What is stored cannot be read.
    #[error("what is stored of instance `{id}` cannot be read: {why}")]
    Unreadable {
        /// The instance.
        id: String,
        /// What is wrong with it.
        why: String,
    },
    /// The store could not do it.
    #[error(transparent)]
    Store(#[from] StoreError),
}
