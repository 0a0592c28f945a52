//! A store that fails or waits when the test says so.

use async_trait::async_trait;
use interlock::store::{
    Change, Entry, Feed, Journal, Key, Kind, Logged, MemoryStore, Record, Seq, Store, StoreError,
    Time, Version,
};
use interlock_testkit::PATIENCE;
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};
use tokio::sync::{Semaphore, mpsc};

/// A store that fails or waits when the test says so.
pub(crate) struct FaultyStore {
    pub(crate) inner: MemoryStore,
    /// So many of the next commits fail, and nothing of them lands.
    pub(crate) failing_commits: AtomicUsize,
    /// So many of the next looks into it fail.
    pub(crate) failing_loads: AtomicUsize,
    /// Whoever looks into it or writes waits for a permit, and gives it back.
    pub(crate) loads: Semaphore,
    pub(crate) commits: Semaphore,
    /// How many have begun to look into it, and to write.
    pub(crate) looked: AtomicUsize,
    pub(crate) wrote: AtomicUsize,
    /// What a commit that has landed waits for; nothing if it is acknowledged at once.
    acknowledgements: Option<Acknowledgements>,
}

/// Commits say that they have landed, and wait until the test says that they may tell.
struct Acknowledgements {
    landed: mpsc::UnboundedSender<()>,
    permits: Semaphore,
}

impl FaultyStore {
    /// A store that works until the test says otherwise.
    pub(crate) fn new(inner: &MemoryStore) -> Arc<Self> {
        Arc::new(Self::over(inner.clone(), None))
    }

    /// A store whose commits land at once and are acknowledged when the test says so, or never.
    pub(crate) fn slow() -> (Arc<Self>, mpsc::UnboundedReceiver<()>) {
        let (landed, has_landed) = mpsc::unbounded_channel();
        let acknowledgements = Acknowledgements {
            landed,
            permits: Semaphore::new(0),
        };
        let slow = Self::over(MemoryStore::default(), Some(acknowledgements));
        (Arc::new(slow), has_landed)
    }

    fn over(inner: MemoryStore, acknowledgements: Option<Acknowledgements>) -> Self {
        Self {
            inner,
            failing_commits: AtomicUsize::new(0),
            failing_loads: AtomicUsize::new(0),
            loads: Semaphore::new(1),
            commits: Semaphore::new(1),
            looked: AtomicUsize::new(0),
            wrote: AtomicUsize::new(0),
            acknowledgements,
        }
    }

    /// Acknowledges so many commits of a slow store.
    pub(crate) fn acknowledge(&self, commits: usize) {
        let slow = self.acknowledgements.as_ref();
        slow.expect("the store is slow")
            .permits
            .add_permits(commits);
    }

    /// Whether every commit fails from now on, or none.
    pub(crate) fn fail_commits(&self, all: bool) {
        let many = if all { usize::MAX } else { 0 };
        self.failing_commits.store(many, Ordering::SeqCst);
    }

    /// Whoever comes waits until the guard is dropped.
    pub(crate) async fn stop(gate: &Semaphore) -> tokio::sync::SemaphorePermit<'_> {
        gate.acquire().await.unwrap()
    }

    /// Waits until so many have been counted.
    pub(crate) async fn reaches(counter: &AtomicUsize, count: usize) {
        let counted = async {
            while counter.load(Ordering::SeqCst) < count {
                tokio::task::yield_now().await;
            }
        };
        let counted = tokio::time::timeout(PATIENCE, counted).await;
        counted.expect("it must come so far");
    }
}

#[async_trait]
impl Store for FaultyStore {
    async fn load(&self, key: &Key, now: Time) -> Result<Option<Record>, StoreError> {
        self.looked.fetch_add(1, Ordering::SeqCst);
        let _permit = self.loads.acquire().await.unwrap();
        if one_fewer(&self.failing_loads) {
            return Err(unavailable());
        }
        self.inner.load(key, now).await
    }

    async fn commit(
        &self,
        changes: &[Change],
        entries: &[Entry],
        now: Time,
    ) -> Result<Vec<Version>, StoreError> {
        self.wrote.fetch_add(1, Ordering::SeqCst);
        let permit = self.commits.acquire().await.unwrap();
        if one_fewer(&self.failing_commits) {
            return Err(unavailable());
        }
        let committed = self.inner.commit(changes, entries, now).await;
        drop(permit);
        if let Some(slow) = &self.acknowledgements {
            slow.landed.send(()).unwrap();
            slow.permits.acquire().await.unwrap().forget();
        }
        committed
    }

    async fn list(
        &self,
        kind: &Kind,
        after: Option<&Key>,
        limit: usize,
        now: Time,
    ) -> Result<Vec<Key>, StoreError> {
        self.inner.list(kind, after, limit, now).await
    }

    async fn expired(
        &self,
        kind: &Kind,
        now: Time,
        limit: usize,
    ) -> Result<Vec<(Key, Record)>, StoreError> {
        self.inner.expired(kind, now, limit).await
    }

    async fn journal(
        &self,
        key: &Key,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Logged>, StoreError> {
        self.inner.journal(key, after, limit).await
    }

    async fn journal_end(&self, key: &Key) -> Result<Seq, StoreError> {
        self.inner.journal_end(key).await
    }

    async fn journals(
        &self,
        kind: &Kind,
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Vec<Journal>, StoreError> {
        self.inner.journals(kind, after, limit).await
    }

    async fn prune(&self, key: &Key, up_to: Seq) -> Result<(), StoreError> {
        self.inner.prune(key, up_to).await
    }

    async fn changes(&self) -> Result<Feed, StoreError> {
        self.inner.changes().await
    }
}

fn one_fewer(counter: &AtomicUsize) -> bool {
    let fewer = |left: usize| left.checked_sub(1);
    let had = counter.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fewer);
    had.is_ok()
}

fn unavailable() -> StoreError {
    StoreError::Unavailable("on purpose".into())
}
