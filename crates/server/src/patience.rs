//! A store that is not waited for without end.

use crate::clock::{self, Clock};
use async_trait::async_trait;
use futures_util::poll;
use interlock_store::{
    Change, Entry, Feed, Journal, Key, Kind, Logged, Record, Seq, Store, StoreError, Time, Version,
};
use std::{future::Future, pin::pin, sync::Arc, task::Poll, time::Duration};

/// How long a store has to answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// A store that fails if it does not answer in time, so that whoever waits for it can say so.
/// Whether what was to be written lands all the same, nobody knows: the versions tell.
pub(crate) struct Patient {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
}

impl Patient {
    pub(crate) const fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
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
        let until = self.clock.now() + PATIENCE;
        tokio::select! {
            biased;
            done = work => done,
            () = clock::sleep_until(&*self.clock, Some(until)) => {
                let why = format!("it did not answer within {PATIENCE:?}");
                Err(StoreError::Unavailable(why.into()))
            }
        }
    }
}

#[async_trait]
impl Store for Patient {
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

    fn commit_at_once(
        &self,
        changes: &[Change],
        entries: &[Entry],
        now: Time,
    ) -> Option<Result<Vec<Version>, StoreError>> {
        self.store.commit_at_once(changes, entries, now)
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
