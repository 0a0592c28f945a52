//! Whose an instance is, and where it is kept: the same must hold for all.

use futures_util::FutureExt;
use interlock::{store::MemoryStore, workflow::Scope};
use std::{panic::AssertUnwindSafe, sync::Arc};

/// Whose an instance is, and where it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// Everybody's, in a store that others could have.
    Shared,
    /// A session's, in such a store.
    Session,
    /// A session's, nowhere but in the server: the record is written when somebody looks.
    Own,
}

impl Kept {
    pub(crate) const ALL: [Self; 3] = [Self::Shared, Self::Session, Self::Own];

    pub(crate) const fn scope(self) -> Scope {
        match self {
            Self::Shared => Scope::Global,
            Self::Session | Self::Own => Scope::Session,
        }
    }

    /// Gives a server a store, unless it is to have none.
    pub(crate) fn keep(self, server: interlock::Builder) -> interlock::Builder {
        match self {
            Self::Shared | Self::Session => server.store(Arc::new(MemoryStore::default())),
            Self::Own => server,
        }
    }
}

/// Checks the same wherever an instance is kept, and says where it failed.
pub(crate) async fn wherever_it_is_kept(check: impl AsyncFn(Kept)) {
    for kept in Kept::ALL {
        let checked = AssertUnwindSafe(check(kept)).catch_unwind().await;
        assert!(checked.is_ok(), "see above: it failed with {kept:?}");
    }
}

/// Whose the instance of this id is.
pub(crate) fn scope_of(id: &str) -> Scope {
    match id.starts_with("global:") {
        true => Scope::Global,
        false => Scope::Session,
    }
}
