//! The suite can fail: for every promise a store that breaks it, and the words of the complaint.

use std::slice;

use async_trait::async_trait;
use interlock_store::{
    Change, Entry, Feed, Feeds, Journal, Key, Kind, Logged, MemoryStore, Record, Seq, Store,
    StoreError, Time, Value, Version, conformance,
};

macro_rules! is_caught {
    ($($module:ident::$promise:ident, $fault:ident, $complaint:literal;)*) => {$(
        #[tokio::test]
        #[should_panic(expected = $complaint)]
        async fn $promise() {
            conformance::$module::$promise(&Broken::by(Fault::$fault)).await;
        }
    )*};
}

is_caught! {
    records::what_was_committed_is_loaded, LosesExpiry, "under \"late\"";
    records::a_create_needs_a_free_place, IgnoresVersions, "there already is a record";
    records::the_second_writer_conflicts, IgnoresVersions, "the second writer saw an old version";
    records::a_delete_needs_the_version_last_seen, IgnoresVersions, "the record has moved on";
    records::versions_grow_and_never_come_back, IgnoresVersions, "of an earlier life";
    records::each_change_gets_its_own_version_in_order, OneVersionPerCommit, "left == right";
    records::a_commit_is_all_or_nothing, CommitsOneByOne, "half a commit was created";
    records::a_record_changes_once_per_commit, CommitsOneByOne, "expected a refusal";
    records::what_is_too_large_is_refused, Truncates, "expected a refusal";
    records::keys_are_listed_in_byte_order_page_by_page, IgnoresLimits, "more than was asked for";
    records::of_two_racing_writers_exactly_one_wins, IgnoresVersions, "the loser's value was kept";
    records::of_racing_creators_exactly_one_wins, IgnoresVersions, "exactly one wins";
    records::every_increment_lands, IgnoresVersions, "increments were lost";
    records::commits_over_the_same_records_in_opposite_order_all_finish, IgnoresVersions,
        "increments were lost";
    journal::entries_are_numbered_from_one_without_gaps, LosesEntries, "left == right";
    journal::a_journal_is_read_page_by_page, IgnoresLimits, "behind 0";
    journal::a_journal_needs_no_record_and_outlives_it, DeletesJournals,
        "evidence outlives its record";
    journal::numbers_stay_dense_under_concurrency, CommitsOneByOne, "another commit came in between";
    journal::pruning_drops_the_oldest_and_numbering_goes_on, PrunesNothing, "pruned up to 2";
    journal::a_journal_knows_its_end, ForgetsPruned, "all is pruned";
    journal::a_journal_is_forgotten_only_with_its_record_gone, DeletesJournals,
        "a delete leaves journals alone";
    journal::journals_are_listed_with_what_they_hold, IgnoresLimits, "behind None";
    expiry::an_expired_record_is_not_seen, LosesExpiry, "/a at Time(5000)";
    expiry::a_create_takes_the_place_of_an_expired_record, ObeysClocks, "the place is free";
    expiry::the_expired_are_found_longest_expired_first, IgnoresLimits, "limit 0";
    expiry::a_record_refreshed_in_between_is_not_swept, IgnoresVersions, "it was refreshed";
    expiry::a_writer_that_saw_the_record_live_may_still_save_it, ObeysClocks,
        "nobody else has changed it";
    feed::changes_are_heard_in_order_once_they_can_be_loaded, SpeaksTooSoon, "left == right";
    feed::every_feed_hears_every_change, SpeaksOfOne, "heard [";
    feed::a_refused_commit_is_not_heard, SpeaksTooSoon, "nothing has changed";
    feed::a_slow_reader_misses_nothing_without_being_told, SpeaksOfOne,
        "not told to have lagged";
}

#[tokio::test]
#[should_panic(expected = "half a commit was journalled")]
async fn a_journal_that_tells_of_refused_commits() {
    conformance::records::a_commit_is_all_or_nothing(&Broken::by(Fault::JournalsFirst)).await;
}

#[tokio::test]
#[should_panic(expected = "it was committed")]
async fn what_was_committed_survives_reopening() {
    let open = async || MemoryStore::default();
    conformance::durable::what_was_committed_survives_reopening(&open).await;
}

#[tokio::test]
#[should_panic(expected = "not growing")]
async fn versions_go_on_after_reopening() {
    let open = async || MemoryStore::default();
    conformance::durable::versions_go_on_after_reopening(&open).await;
}

#[tokio::test]
#[should_panic(expected = "it was committed")]
async fn a_commit_is_seen_and_heard_through_another_handle() {
    let open = async || MemoryStore::default();
    conformance::shared::a_commit_is_seen_and_heard_through_another_handle(&open).await;
}

#[tokio::test]
#[should_panic(expected = "increments were lost")]
async fn increments_through_two_handles_all_land() {
    let store = MemoryStore::default();
    let open = async || Broken {
        inner: store.clone(),
        ..Broken::by(Fault::IgnoresVersions)
    };
    conformance::shared::increments_through_two_handles_all_land(&open).await;
}

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    /// Every change is made to fit what is stored.
    IgnoresVersions,
    OneVersionPerCommit,
    /// Changes and entries are committed each by itself.
    CommitsOneByOne,
    /// Entries are written before it is known whether the changes fit.
    JournalsFirst,
    LosesEntries,
    LosesExpiry,
    /// What is too large is cut off.
    Truncates,
    IgnoresLimits,
    /// A journal goes with its record.
    DeletesJournals,
    PrunesNothing,
    /// A journal of which all was pruned ends where it began.
    ForgetsPruned,
    /// A record that has expired cannot be saved any more.
    ObeysClocks,
    /// Changes are announced before they are committed, so with a made-up version.
    SpeaksTooSoon,
    /// Of each commit only one change is announced.
    SpeaksOfOne,
}

struct Broken {
    inner: MemoryStore,
    feeds: Feeds,
    fault: Fault,
}

impl Broken {
    fn by(fault: Fault) -> Self {
        Self {
            inner: MemoryStore::default(),
            feeds: Feeds::default(),
            fault,
        }
    }

    fn limit(&self, limit: usize) -> usize {
        if self.fault == Fault::IgnoresLimits {
            usize::MAX
        } else {
            limit
        }
    }

    /// The change as this store misunderstands it.
    async fn misread(&self, change: &Change) -> Change {
        let mut change = change.clone();
        if self.fault == Fault::IgnoresVersions {
            let key = change.key().clone();
            let stored = self.inner.load(&key, Time(0)).await.unwrap();
            change = match (change.value().cloned(), stored.map(|record| record.version)) {
                (Some(value), Some(seen)) => Change::update(key, seen, value),
                (Some(value), None) => Change::create(key, value),
                (None, Some(seen)) => Change::delete(key, seen),
                (None, None) => change,
            };
        }
        if let Change::Create { value, .. } | Change::Update { value, .. } = &mut change {
            if self.fault == Fault::LosesExpiry {
                value.expires = None;
            }
            if self.fault == Fault::Truncates && value.bytes.len() > Value::MAX_BYTES {
                value.bytes = value.bytes[..Value::MAX_BYTES].into();
            }
        }
        change
    }

    async fn commit_one_by_one(
        &self,
        changes: &[Change],
        entries: &[Entry],
        now: Time,
    ) -> Result<Vec<Version>, StoreError> {
        let mut versions = Vec::new();
        for change in changes {
            versions.extend(self.inner.commit(slice::from_ref(change), &[], now).await?);
        }
        for entry in entries {
            self.inner.commit(&[], slice::from_ref(entry), now).await?;
            tokio::task::yield_now().await;
        }
        Ok(versions)
    }
}

#[async_trait]
impl Store for Broken {
    async fn load(&self, key: &Key, now: Time) -> Result<Option<Record>, StoreError> {
        self.inner.load(key, now).await
    }

    async fn commit(
        &self,
        changes: &[Change],
        entries: &[Entry],
        now: Time,
    ) -> Result<Vec<Version>, StoreError> {
        let mut misread = Vec::new();
        for change in changes {
            misread.push(self.misread(change).await);
        }
        let changes = &misread[..];
        let news = |version| {
            changes
                .iter()
                .map(move |change| (change.key().clone(), version))
        };
        match self.fault {
            Fault::CommitsOneByOne => self.commit_one_by_one(changes, entries, now).await,
            Fault::JournalsFirst => {
                self.inner.commit(&[], entries, now).await?;
                self.inner.commit(changes, &[], now).await
            }
            Fault::LosesEntries => self.inner.commit(changes, &[], now).await,
            Fault::OneVersionPerCommit => {
                let mut versions = self.inner.commit(changes, entries, now).await?;
                versions.truncate(1);
                Ok(versions)
            }
            Fault::DeletesJournals => {
                let versions = self.inner.commit(changes, entries, now).await?;
                for change in changes.iter().filter(|change| change.value().is_none()) {
                    self.inner.prune(change.key(), Seq(u64::MAX)).await?;
                }
                Ok(versions)
            }
            Fault::ObeysClocks => {
                for change in changes {
                    let seen_at = |now| self.inner.load(change.key(), now);
                    if seen_at(Time(0)).await?.is_some() && seen_at(now).await?.is_none() {
                        return Err(StoreError::Conflict {
                            key: change.key().clone(),
                        });
                    }
                }
                self.inner.commit(changes, entries, now).await
            }
            Fault::SpeaksTooSoon => {
                self.feeds.publish(news(Version(0))).wake();
                self.inner.commit(changes, entries, now).await
            }
            Fault::SpeaksOfOne => {
                let versions = self.inner.commit(changes, entries, now).await?;
                self.feeds.publish(news(versions[0]).take(1)).wake();
                Ok(versions)
            }
            Fault::IgnoresVersions
            | Fault::LosesExpiry
            | Fault::Truncates
            | Fault::IgnoresLimits
            | Fault::PrunesNothing
            | Fault::ForgetsPruned => self.inner.commit(changes, entries, now).await,
        }
    }

    async fn list(
        &self,
        kind: &Kind,
        after: Option<&Key>,
        limit: usize,
        now: Time,
    ) -> Result<Vec<Key>, StoreError> {
        self.inner.list(kind, after, self.limit(limit), now).await
    }

    async fn expired(
        &self,
        kind: &Kind,
        now: Time,
        limit: usize,
    ) -> Result<Vec<(Key, Record)>, StoreError> {
        self.inner.expired(kind, now, self.limit(limit)).await
    }

    async fn journal(
        &self,
        key: &Key,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Logged>, StoreError> {
        self.inner.journal(key, after, self.limit(limit)).await
    }

    async fn journal_end(&self, key: &Key) -> Result<Seq, StoreError> {
        let end = self.inner.journal_end(key).await?;
        if self.fault == Fault::ForgetsPruned
            && self.inner.journal(key, Seq::START, 1).await?.is_empty()
        {
            return Ok(Seq::START);
        }
        Ok(end)
    }

    async fn journals(
        &self,
        kind: &Kind,
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Vec<Journal>, StoreError> {
        self.inner.journals(kind, after, self.limit(limit)).await
    }

    async fn prune(&self, key: &Key, up_to: Seq) -> Result<(), StoreError> {
        if self.fault == Fault::PrunesNothing {
            return Ok(());
        }
        self.inner.prune(key, up_to).await
    }

    /// Only the stores that speak wrongly are listened to here.
    async fn changes(&self) -> Result<Feed, StoreError> {
        Ok(self.feeds.subscribe())
    }
}
