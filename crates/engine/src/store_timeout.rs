//! A store that is not waited for without end.

use crate::clock::{self, Clock};
use async_trait::async_trait;
use futures_util::poll;
use interlock_store::{
    Change, Entry, Feed, Journal, Key, Kind, Logged, Record, Seq, Store, StoreError, Time, Version,
};
use std::{future::Future, pin::pin, sync::Arc, task::Poll, time::Duration};

/// How long a store has to answer.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A store that fails if it does not answer in time. What was to be written may land all the same:
/// the versions tell. [`EngineBuilder::store`](crate::EngineBuilder::store) wraps its store so.
///
/// ```
/// use interlock_engine::{StoreTimeout, SystemClock};
/// use interlock_store::{Kind, MemoryStore, Store, Time};
/// use std::sync::Arc;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), interlock_store::StoreError> {
/// let store = StoreTimeout::new(Arc::new(MemoryStore::default()), Arc::new(SystemClock::new()));
/// let keys = store.list(&Kind::from_static("instance"), None, 10, Time(0)).await?;
/// assert!(keys.is_empty());
/// # Ok(())
/// # }
/// ```
pub struct StoreTimeout {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
}

impl StoreTimeout {
    /// Fails what takes longer than 30 seconds.
    pub const fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        Self { store, clock }
    }

    async fn within<T>(
        &self,
        work: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        let mut work = pin!(work);
        // Most need not be waited for.
        if let Poll::Ready(done) = poll!(&mut work) {
            return done;
        }
        let until = self.clock.now() + TIMEOUT;
        tokio::select! {
            biased;
            done = work => done,
            () = clock::sleep_until(&*self.clock, Some(until)) => {
                let why = format!("it did not answer within {TIMEOUT:?}");
                Err(StoreError::Unavailable(why.into()))
            }
        }
    }
}

#[async_trait]
impl Store for StoreTimeout {
    async fn load(&self, key: &Key, now: Time) -> Result<Option<Record>, StoreError> {
        self.within(self.store.load(key, now)).await
    }

    async fn commit(
        &self,
        changes: &[Change],
        entries: &[Entry],
        now: Time,
    ) -> Result<Vec<Version>, StoreError> {
        self.within(self.store.commit(changes, entries, now)).await
    }

    async fn list(
        &self,
        kind: &Kind,
        after: Option<&Key>,
        limit: usize,
        now: Time,
    ) -> Result<Vec<Key>, StoreError> {
        self.within(self.store.list(kind, after, limit, now)).await
    }

    async fn expired(
        &self,
        kind: &Kind,
        now: Time,
        limit: usize,
    ) -> Result<Vec<(Key, Record)>, StoreError> {
        self.within(self.store.expired(kind, now, limit)).await
    }

    async fn journal(
        &self,
        key: &Key,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Logged>, StoreError> {
        self.within(self.store.journal(key, after, limit)).await
    }

    async fn journal_end(&self, key: &Key) -> Result<Seq, StoreError> {
        self.within(self.store.journal_end(key)).await
    }

    async fn journals(
        &self,
        kind: &Kind,
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Vec<Journal>, StoreError> {
        self.within(self.store.journals(kind, after, limit)).await
    }

    async fn prune(&self, key: &Key, up_to: Seq) -> Result<(), StoreError> {
        self.within(self.store.prune(key, up_to)).await
    }

    async fn changes(&self) -> Result<Feed, StoreError> {
        self.within(self.store.changes()).await
    }
}
