//! Why an instance could not be loaded or changed.

use interlock_store::StoreError;

/// Why an instance could not be loaded or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The record belongs to another definition of the workflow of this name.
    #[error("the stored instance belongs to another definition of workflow `{0}`")]
    Foreign(String),
    /// The record has a format that this version does not know.
    #[error("the stored instance has format {0}, which is not known")]
    Format(u32),
    /// Another process runs a call of the instance, or died while it did.
    #[error("another server runs a call of this instance")]
    RunningElsewhere,
    /// The record is no JSON of the known shape.
    #[error("the stored instance cannot be read")]
    Unreadable(#[source] serde_json::Error),
}

impl EngineError {
    /// Whether another writer was faster, so that it helps to load again.
    #[must_use]
    pub const fn is_conflict(&self) -> bool {
        matches!(self, Self::Store(StoreError::Conflict { .. }))
    }
}
