//! What can go wrong in a store, and whose turn it is to act.

use std::error::Error;

use crate::record::{Key, Kind};

/// Why a store did not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Somebody saved first. Load again and repeat the step.
    #[error("record {key} was changed by another writer")]
    Conflict {
        /// The record that is not as it was last seen.
        key: Key,
    },
    /// The same call may succeed later.
    #[error("the store is unavailable")]
    Unavailable(#[source] Box<dyn Error + Send + Sync>),
    /// What is stored cannot be read. The operator must look at it.
    #[error("the store holds something it cannot read")]
    Corrupt(#[source] Box<dyn Error + Send + Sync>),
    /// A value or a journal entry is longer than [`Value::MAX_BYTES`](crate::Value::MAX_BYTES).
    #[error("{bytes} bytes for {key} are more than the {limit} a store takes")]
    TooLarge {
        /// The record or journal it was meant for.
        key: Key,
        /// Its length.
        bytes: usize,
        /// The longest that is taken.
        limit: usize,
    },
    /// One commit holds two changes for the same record.
    #[error("record {key} is changed twice in one commit")]
    Twice {
        /// The record that has two changes.
        key: Key,
    },
    /// The key could not be made in the first place.
    #[error(transparent)]
    BadKey(#[from] BadKey),
}

impl StoreError {
    /// Whether the very same call may succeed later.
    ///
    /// A conflict is not transient: versions never come back, so the caller has to load and
    /// decide again.
    ///
    /// ```
    /// use interlock_store::{Key, Kind, StoreError};
    ///
    /// assert!(StoreError::Unavailable("connection refused".into()).is_transient());
    ///
    /// let key = Key::new(Kind::from_static("task"), "7")?;
    /// assert!(!StoreError::Conflict { key }.is_transient());
    /// # Ok::<(), StoreError>(())
    /// ```
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unavailable(_) => true,
            Self::Conflict { .. }
            | Self::Corrupt(_)
            | Self::TooLarge { .. }
            | Self::Twice { .. }
            | Self::BadKey(_) => false,
        }
    }
}

/// Why something is not a [`Key`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadKey {
    /// The kind is empty, too long or has other characters than it may.
    #[error("a kind is a lower-case letter followed by at most {} of a-z, 0-9, _ and -", Kind::MAX_BYTES - 1)]
    Kind,
    /// The id is empty.
    #[error("an id cannot be empty")]
    EmptyId,
    /// The id is longer than [`Key::MAX_ID_BYTES`].
    #[error("an id of {bytes} bytes is longer than {}", Key::MAX_ID_BYTES)]
    LongId {
        /// Its length.
        bytes: usize,
    },
    /// The id has a control character, which not every backend could keep.
    #[error("an id cannot contain control characters")]
    ControlInId,
    /// A written key has no slash between kind and id.
    #[error("a key is written kind/id")]
    NoSlash,
}
