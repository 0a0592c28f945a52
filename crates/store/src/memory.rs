//! A store in memory: for stdio, for tests, and as the plainest reading of the promise.
//!
//! Everything is behind one lock that is never held across an `await`. Values are shared, not
//! copied, so the lock is held for a few map operations whatever their size.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use crate::Store;
use crate::error::StoreError;
use crate::feed::{Feed, Feeds};
use crate::record::{Change, Entry, Journal, Key, Kind, Logged, Record, Seq, Time, Version, check};

/// A [`Store`] that is gone with the process. A clone is another handle to the same data.
///
/// ```
/// use interlock_store::{Change, Key, Kind, MemoryStore, Store, Time, Value};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), interlock_store::StoreError> {
/// let store = MemoryStore::default();
/// let key = Key::new(Kind::from_static("session"), "a")?;
/// let value = Value::new(*b"active").until(Time(5_000));
/// store.commit(&[Change::create(key.clone(), value)], &[], Time(1_000)).await?;
///
/// assert!(store.load(&key, Time(4_999)).await?.is_some());
/// assert!(store.load(&key, Time(5_000)).await?.is_none());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct MemoryStore {
    shared: Arc<Shared>,
}

#[async_trait]
impl Store for MemoryStore {
    async fn load(&self, key: &Key, now: Time) -> Result<Option<Record>, StoreError> {
        let found = self.data().record(key).cloned();
        Ok(found.filter(|record| !record.value.is_expired(now)))
    }

    async fn commit(
        &self,
        changes: &[Change],
        entries: &[Entry],
        now: Time,
    ) -> Result<Vec<Version>, StoreError> {
        check(changes, entries)?;
        let mut data = self.data();
        data.admit(changes, now)?;
        let version = data.apply(changes);
        for Entry { key, bytes } in entries {
            data.append(key, Arc::clone(bytes), now);
        }
        if changes.is_empty() {
            // Of entries nobody hears.
            return Ok(Vec::new());
        }
        let news = changes.iter().map(|change| (change.key(), version));
        let readers = self.shared.feeds.publish_each(news);
        drop(data);
        readers.wake();
        Ok(vec![version; changes.len()])
    }

    async fn list(
        &self,
        kind: &Kind,
        after: Option<&Key>,
        limit: usize,
        now: Time,
    ) -> Result<Vec<Key>, StoreError> {
        let data = self.data();
        let Some(table) = data.tables.get(kind) else {
            return Ok(Vec::new());
        };
        let live = behind(&table.records, after).filter(|(_, found)| !found.value.is_expired(now));
        Ok(live.map(|(id, _)| key(kind, id)).take(limit).collect())
    }

    async fn expired(
        &self,
        kind: &Kind,
        now: Time,
        limit: usize,
    ) -> Result<Vec<(Key, Record)>, StoreError> {
        let data = self.data();
        let Some(table) = data.tables.get(kind) else {
            return Ok(Vec::new());
        };
        let due = table
            .expiries
            .iter()
            .take_while(|(expires, _)| *expires <= now);
        let found = due.filter_map(|(_, id)| Some((key(kind, id), table.records.get(id)?.clone())));
        Ok(found.take(limit).collect())
    }

    async fn journal(
        &self,
        key: &Key,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Logged>, StoreError> {
        let data = self.data();
        let Some(log) = data.log(key) else {
            return Ok(Vec::new());
        };
        let skip = usize::try_from(after.0.saturating_sub(log.pruned)).unwrap_or(usize::MAX);
        Ok(log.entries.iter().skip(skip).take(limit).cloned().collect())
    }

    async fn journal_end(&self, key: &Key) -> Result<Seq, StoreError> {
        Ok(self.data().log(key).map_or(Seq::START, Log::last))
    }

    async fn journals(
        &self,
        kind: &Kind,
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Vec<Journal>, StoreError> {
        let data = self.data();
        let Some(table) = data.tables.get(kind) else {
            return Ok(Vec::new());
        };
        let journals = behind(&table.logs, after).map(|(id, log)| Journal {
            key: key(kind, id),
            first: Seq(log.pruned + 1),
            last: log.last(),
        });
        Ok(journals.take(limit).collect())
    }

    async fn prune(&self, key: &Key, up_to: Seq) -> Result<(), StoreError> {
        let mut data = self.data();
        let Some(table) = data.tables.get_mut(&key.kind) else {
            return Ok(());
        };
        let Some(log) = table.logs.get_mut(&key.id) else {
            return Ok(());
        };
        log.prune(up_to);
        if log.entries.is_empty() && !table.records.contains_key(&key.id) {
            table.logs.remove(&key.id);
        }
        Ok(())
    }

    async fn changes(&self) -> Result<Feed, StoreError> {
        Ok(self.shared.feeds.subscribe())
    }
}

impl MemoryStore {
    /// No code but ours runs under the lock and none of it can panic half-way through a commit,
    /// so a poisoned lock still guards whole commits.
    fn data(&self) -> MutexGuard<'_, Data> {
        self.shared
            .data
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for MemoryStore {
    /// Leaves out the contents, which may be anybody's secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Shared {
    data: Mutex<Data>,
    feeds: Feeds,
}

#[derive(Default)]
struct Data {
    /// One number for all keys, taken anew by every commit: so no key sees one twice.
    last_version: u64,
    tables: BTreeMap<Kind, Table>,
}

impl Data {
    fn record(&self, key: &Key) -> Option<&Record> {
        self.tables.get(&key.kind)?.records.get(&key.id)
    }

    fn log(&self, key: &Key) -> Option<&Log> {
        self.tables.get(&key.kind)?.logs.get(&key.id)
    }

    fn log_mut(&mut self, key: &Key) -> Option<&mut Log> {
        self.tables.get_mut(&key.kind)?.logs.get_mut(&key.id)
    }

    fn table(&mut self, kind: &Kind) -> &mut Table {
        self.tables.entry(kind.clone()).or_default()
    }

    fn admit(&self, changes: &[Change], now: Time) -> Result<(), StoreError> {
        for change in changes {
            let found = self.record(change.key());
            let as_seen = match change {
                Change::Create { .. } => found.is_none_or(|record| record.value.is_expired(now)),
                Change::Update { seen, .. } | Change::Delete { seen, .. } => {
                    found.is_some_and(|record| record.version == *seen)
                }
            };
            if !as_seen {
                return Err(StoreError::Conflict {
                    key: change.key().clone(),
                });
            }
        }
        Ok(())
    }

    fn apply(&mut self, changes: &[Change]) -> Version {
        self.last_version += 1;
        let version = Version(self.last_version);
        for change in changes {
            let record = change.value().map(|value| Record {
                version,
                value: value.clone(),
            });
            self.table(&change.key().kind).put(&change.key().id, record);
        }
        version
    }

    fn append(&mut self, key: &Key, bytes: Arc<[u8]>, at: Time) {
        match self.log_mut(key) {
            Some(log) => log.push(at, bytes),
            None => {
                let logs = &mut self.table(&key.kind).logs;
                logs.entry(Arc::clone(&key.id)).or_default().push(at, bytes);
            }
        }
    }
}

/// Everything of one kind, by id.
#[derive(Default)]
struct Table {
    records: BTreeMap<Arc<str>, Record>,
    /// Exactly the records that have an expiry, so that finding the expired needs no search.
    expiries: BTreeSet<(Time, Arc<str>)>,
    logs: BTreeMap<Arc<str>, Log>,
}

impl Table {
    fn put(&mut self, id: &Arc<str>, record: Option<Record>) {
        let expires = record.as_ref().and_then(|record| record.value.expires);
        let replaced = match (record, self.records.get_mut(id)) {
            (Some(record), Some(found)) => Some(std::mem::replace(found, record)),
            (Some(record), None) => self.records.insert(Arc::clone(id), record),
            (None, _) => self.records.remove(id),
        };
        if let Some(was) = replaced.and_then(|record| record.value.expires) {
            self.expiries.remove(&(was, Arc::clone(id)));
        }
        if let Some(expires) = expires {
            self.expiries.insert((expires, Arc::clone(id)));
        }
    }
}

/// A journal: how many of its entries were pruned, and those that were not.
#[derive(Default)]
struct Log {
    pruned: u64,
    entries: VecDeque<Logged>,
}

impl Log {
    fn last(&self) -> Seq {
        self.entries
            .back()
            .map_or(Seq(self.pruned), |entry| entry.seq)
    }

    fn push(&mut self, at: Time, bytes: Arc<[u8]>) {
        self.entries.push_back(Logged {
            seq: Seq(self.last().0 + 1),
            at,
            bytes,
        });
    }

    fn prune(&mut self, up_to: Seq) {
        let last = self.last();
        self.entries
            .drain(..self.entries.partition_point(|entry| entry.seq <= up_to));
        self.pruned = self.pruned.max(up_to.min(last).0);
    }
}

fn key(kind: &Kind, id: &Arc<str>) -> Key {
    Key {
        kind: kind.clone(),
        id: Arc::clone(id),
    }
}

fn behind<'a, T>(
    map: &'a BTreeMap<Arc<str>, T>,
    after: Option<&'a Key>,
) -> impl Iterator<Item = (&'a Arc<str>, &'a T)> {
    let from = after.map_or(Bound::Unbounded, |key| Bound::Excluded(key.id()));
    map.range::<str, _>((from, Bound::Unbounded))
}
