//! Durable records changed by compare-and-swap, with a journal and a change feed.
//!
//! A [`Store`] remembers what Interlock must not forget: sessions with their subscriptions, and
//! workflow instances with the questions that wait for operators. It keeps bytes under a [`Key`] and
//! knows nothing of what they mean. Several nodes may share one store; compare-and-swap is what lets
//! any of them take the next step.
//!
//! It is not a database: there are no queries, no snapshot over several records, no clock and no
//! background work. Time comes in as an argument, and what has expired is removed by whoever
//! runs the store, with an ordinary commit.
//!
//! # Rules of use
//!
//! - **Load, decide, commit.** Every change names the [`Version`] it was decided on. On
//!   [`StoreError::Conflict`] load again and decide again; repeating the same commit cannot help.
//! - **One commit per step.** Records and journal entries that belong together go into one
//!   [`Store::commit`]: all of it lands, or none.
//! - **`now` should not run backwards** on one node. Nodes may disagree a little: a version
//!   decides who wins, time only decides what has expired.
//! - **Reload after [`Notice::Lagged`].** The feed has forgotten something; the store has not.
//! - **An id is not a secret.** Keys appear in errors, logs and listings.
//! - **Prune.** Journals outlive their records; [`Store::journals`] finds them and
//!   [`Store::prune`] bounds them.
//!
//! # Map
//!
//! | File | Holds |
//! |---|---|
//! | `record.rs` | the plain data: [`Key`], [`Version`], [`Value`], [`Change`], [`Entry`], [`Time`] |
//! | `error.rs` | [`StoreError`]: what can go wrong, and whose turn it is to act |
//! | `feed.rs` | the change [`Feed`] and, for backends, the [`Feeds`] that fan it out |
//! | `memory.rs` | [`MemoryStore`], gone with the process |
//! | `conformance.rs` | with the feature of that name: every promise as a test, for backends |
//!
//! # Example
//!
//! ```
//! use interlock_store::{Change, Entry, Key, Kind, MemoryStore, Seq, Store, Time, Value};
//!
//! const INSTANCE: Kind = Kind::from_static("instance");
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), interlock_store::StoreError> {
//! let store = MemoryStore::default();
//! let now = Time(1_000);
//! let key = Key::new(INSTANCE, "refund-7")?;
//!
//! store.commit(&[Change::create(key.clone(), Value::new(*b"new"))], &[], now).await?;
//!
//! let seen = store.load(&key, now).await?.expect("it was just created");
//! store
//!     .commit(
//!         &[Change::update(key.clone(), seen.version, Value::new(*b"paid"))],
//!         &[Entry::new(key.clone(), *b"new -> paid")],
//!         now,
//!     )
//!     .await?;
//!
//! assert_eq!(*store.journal(&key, Seq::START, 10).await?[0].bytes, *b"new -> paid");
//! # Ok(())
//! # }
//! ```

#[cfg(feature = "conformance")]
pub mod conformance;
mod error;
mod feed;
mod memory;
mod record;

use async_trait::async_trait;

pub use error::{BadKey, StoreError};
pub use feed::{Feed, Feeds, Notice, Readers};
pub use memory::MemoryStore;
pub use record::{
    Change, Entry, Journal, Key, Kind, Logged, Record, Seq, Time, Value, Version, check,
};

/// Durable records, changed only by compare-and-swap.
///
/// **Expiry.** At `now`, a record whose expiry is at or before `now` is not seen by
/// [`load`](Self::load) or [`list`](Self::list), and a [`Change::Create`] may take its place.
/// It stays stored until a commit removes it. A writer that still holds its version may update or
/// delete it: versions decide who wins, not clocks.
///
/// **Cancelling** a call by dropping its future leaves it open whether a commit landed. It is
/// never half done.
#[async_trait]
pub trait Store: Send + Sync {
    /// The record under `key`, unless there is none or it has expired at `now`.
    async fn load(&self, key: &Key, now: Time) -> Result<Option<Record>, StoreError>;

    /// Applies all `changes` and appends all `entries`, or does nothing at all.
    ///
    /// Each change succeeds only on the version it names, and `now` decides whether a
    /// [`Change::Create`] finds the place free. Returns the new version of each change, in the
    /// order of `changes`; a delete has one, too. Versions of a key only grow, also after it was
    /// deleted and created again, so a writer with an old version can never succeed.
    ///
    /// The entries of one key are numbered consecutively, in the order given, and stamped with
    /// `now`. They need no record. Without changes there is nothing to conflict with.
    ///
    /// # Errors
    ///
    /// - [`StoreError::Conflict`] names one key whose record is not as the change expects it.
    /// - [`StoreError::Twice`] if one key has two changes, [`StoreError::TooLarge`] if a value or
    ///   an entry is longer than [`Value::MAX_BYTES`].
    /// - After [`StoreError::Unavailable`] the commit may have landed. Repeating it is safe if it
    ///   has a change, since the repetition conflicts if the first did land; entries alone could
    ///   be written twice.
    async fn commit(
        &self,
        changes: &[Change],
        entries: &[Entry],
        now: Time,
    ) -> Result<Vec<Version>, StoreError>;

    /// Up to `limit` keys of one kind that [`load`](Self::load) would find at `now`, in the byte
    /// order of their ids, behind `after` (the last key of the page before; only its id counts).
    async fn list(
        &self,
        kind: &Kind,
        after: Option<&Key>,
        limit: usize,
        now: Time,
    ) -> Result<Vec<Key>, StoreError>;

    /// Up to `limit` records of one kind that have expired at `now` and are still stored, the
    /// longest expired first.
    ///
    /// It only finds them. To remove one, commit its [`Change::Delete`] with the version found
    /// here, together with whatever its end means elsewhere. If somebody refreshed the record in
    /// between, it has another version and the delete conflicts; if two nodes sweep at once, one
    /// of them conflicts. Both may ignore that.
    ///
    /// ```
    /// # use interlock_store::{Change, Key, Kind, MemoryStore, Store, StoreError, Time, Value};
    /// async fn sweep(store: &dyn Store, kind: &Kind, now: Time) -> Result<(), StoreError> {
    ///     for (key, record) in store.expired(kind, now, 100).await? {
    ///         match store.commit(&[Change::delete(key, record.version)], &[], now).await {
    ///             Ok(_) | Err(StoreError::Conflict { .. }) => {}
    ///             Err(error) => return Err(error),
    ///         }
    ///     }
    ///     Ok(())
    /// }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), StoreError> {
    /// # let store = MemoryStore::default();
    /// # let kind = Kind::from_static("session");
    /// # let key = Key::new(kind.clone(), "a")?;
    /// # let value = Value::new(*b"").until(Time(5));
    /// # store.commit(&[Change::create(key, value)], &[], Time(1)).await?;
    /// # sweep(&store, &kind, Time(5)).await?;
    /// # assert!(store.expired(&kind, Time(5), 100).await?.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    async fn expired(
        &self,
        kind: &Kind,
        now: Time,
        limit: usize,
    ) -> Result<Vec<(Key, Record)>, StoreError>;

    /// Up to `limit` entries of the journal of `key` with numbers greater than `after`, in order.
    ///
    /// A journal is evidence: deleting the record leaves it as it is.
    async fn journal(&self, key: &Key, after: Seq, limit: usize)
    -> Result<Vec<Logged>, StoreError>;

    /// The number of the newest entry that the journal of `key` has had, be it pruned or not, and
    /// [`Seq::START`] if there has been none.
    async fn journal_end(&self, key: &Key) -> Result<Seq, StoreError>;

    /// Up to `limit` journals of one kind, in the byte order of their ids, behind `after`.
    ///
    /// This is how an operator finds the journals of records that are gone, and how much each
    /// of them holds.
    async fn journals(
        &self,
        kind: &Kind,
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Vec<Journal>, StoreError>;

    /// Removes the entries of the journal of `key` up to and including `up_to`.
    ///
    /// Numbering goes on where it was, so a journal that does not begin at 1 shows that it was
    /// pruned. Only when no entry is left and no record is stored under `key` is the journal
    /// forgotten altogether, so that what is gone costs nothing; a later entry would be 1 again.
    async fn prune(&self, key: &Key, up_to: Seq) -> Result<(), StoreError>;

    /// A feed of every record change that is committed from now on, by anybody.
    ///
    /// A change is heard once [`load`](Self::load) shows it, and the changes of one key are heard
    /// in the order of their versions. One's own commits are heard as well: a version not greater
    /// than the one already known is no news. Journal entries are not heard.
    ///
    /// Each feed is queued for separately, so a process takes one and hands the news on itself.
    async fn changes(&self) -> Result<Feed, StoreError>;
}
