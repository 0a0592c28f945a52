//! The promises of a [`Store`] as tests, for whoever writes a backend.
//!
//! One function per promise, each of which panics if the promise is broken; its name is the
//! promise. [`conformance_tests!`](crate::conformance_tests) makes a test of each:
//!
//! ```
//! # use interlock_store::{MemoryStore, conformance_tests};
//! // What every store promises. The expression opens a store; it is evaluated once per test.
//! conformance_tests!(async { MemoryStore::default() });
//!
//! # mod durable { use interlock_store::{MemoryStore, conformance_tests};
//! // What a durable store promises as well. The expression makes a function that opens the
//! // same store again and again, after the one before was dropped.
//! conformance_tests!(durable: async {
//!     let disk = MemoryStore::default();
//!     async move || disk.clone()
//! });
//! # }
//!
//! # mod shared { use interlock_store::{MemoryStore, conformance_tests};
//! // What a store promises that several processes may have open at once.
//! conformance_tests!(shared: async {
//!     let database = MemoryStore::default();
//!     async move || database.clone()
//! });
//! # }
//! ```
//!
//! The tests may share one database, with each other and with earlier runs: each works in kinds
//! of its own with random names, and bears other traffic in the feed. They never sleep; a feed
//! that stays silent shows as a test that does not end.

pub mod durable;
pub mod expiry;
pub mod feed;
pub mod journal;
pub mod records;
pub mod shared;

use std::future::poll_fn;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::pin::Pin;
use std::task::Poll;

use crate::{
    Change, Entry, Feed, Key, Kind, Logged, Notice, Record, Seq, Store, StoreError, Time, Value,
    Version,
};

/// Makes a `#[tokio::test]` of every promise in [`conformance`](crate::conformance), where its
/// three forms are shown. The crate that uses it needs tokio with `macros` and `rt`.
#[macro_export]
macro_rules! conformance_tests {
    (durable: $opener:expr) => {
        $crate::conformance_tests! { @each $opener; durable:
            what_was_committed_survives_reopening
            versions_go_on_after_reopening
        }
    };
    (shared: $opener:expr) => {
        $crate::conformance_tests! { @each $opener; shared:
            a_commit_is_seen_and_heard_through_another_handle
            increments_through_two_handles_all_land
        }
    };
    ($store:expr) => {
        $crate::conformance_tests! { @each $store; records:
            what_was_committed_is_loaded
            a_create_needs_a_free_place
            the_second_writer_conflicts
            a_delete_needs_the_version_last_seen
            versions_grow_and_never_come_back
            each_change_gets_its_own_version_in_order
            a_commit_is_all_or_nothing
            a_record_changes_once_per_commit
            what_is_too_large_is_refused
            keys_are_listed_in_byte_order_page_by_page
            of_two_racing_writers_exactly_one_wins
            of_racing_creators_exactly_one_wins
            every_increment_lands
            commits_over_the_same_records_in_opposite_order_all_finish
        }
        $crate::conformance_tests! { @each $store; journal:
            entries_are_numbered_from_one_without_gaps
            a_journal_is_read_page_by_page
            a_journal_needs_no_record_and_outlives_it
            numbers_stay_dense_under_concurrency
            pruning_drops_the_oldest_and_numbering_goes_on
            a_journal_knows_its_end
            a_journal_is_forgotten_only_with_its_record_gone
            journals_are_listed_with_what_they_hold
        }
        $crate::conformance_tests! { @each $store; expiry:
            an_expired_record_is_not_seen
            a_create_takes_the_place_of_an_expired_record
            the_expired_are_found_longest_expired_first
            a_record_refreshed_in_between_is_not_swept
            a_writer_that_saw_the_record_live_may_still_save_it
        }
        $crate::conformance_tests! { @each $store; feed:
            changes_are_heard_in_order_once_they_can_be_loaded
            every_feed_hears_every_change
            a_refused_commit_is_not_heard
            a_slow_reader_misses_nothing_without_being_told
        }
    };
    (@each $subject:expr; $module:ident: $($promise:ident)*) => {
        $(
            #[tokio::test]
            async fn $promise() {
                let subject = $subject.await;
                $crate::conformance::$module::$promise(&subject).await;
            }
        )*
    };
}

const NOW: Time = Time(1_000);

/// A kind that nobody else uses, now or in an earlier run.
fn fresh() -> Kind {
    // The standard library seeds its hasher from the operating system: random enough not to meet.
    let random = RandomState::new().build_hasher().finish();
    Kind::new(format!("conformance-{random:016x}")).expect("letters, digits and a dash")
}

fn key(kind: &Kind, id: &str) -> Key {
    Key::new(kind.clone(), id).expect("the suite uses good ids")
}

fn number(record: &Record) -> u64 {
    u64::from_be_bytes(
        record.value.bytes[..]
            .try_into()
            .expect("eight bytes were stored"),
    )
}

fn numbered(number: u64) -> Value {
    Value::new(number.to_be_bytes())
}

async fn load(store: &dyn Store, key: &Key) -> Option<Record> {
    store.load(key, NOW).await.expect("loading works")
}

async fn journal(store: &dyn Store, key: &Key) -> Vec<Logged> {
    store
        .journal(key, Seq::START, usize::MAX)
        .await
        .expect("reading a journal works")
}

/// Commits one change that nothing stands against.
async fn commit(store: &dyn Store, change: Change) -> Version {
    let versions = store
        .commit(&[change], &[], NOW)
        .await
        .expect("nothing stands against it");
    assert_eq!(versions.len(), 1, "one change gives one version");
    versions[0]
}

async fn create(store: &dyn Store, key: &Key, value: Value) -> Version {
    commit(store, Change::create(key.clone(), value)).await
}

async fn update(store: &dyn Store, key: &Key, seen: Version, value: Value) -> Version {
    commit(store, Change::update(key.clone(), seen, value)).await
}

async fn delete(store: &dyn Store, key: &Key, seen: Version) -> Version {
    commit(store, Change::delete(key.clone(), seen)).await
}

/// Checks that a change is refused because its record is not as it was last seen.
async fn conflicts(store: &dyn Store, change: Change, why: &str) {
    let key = change.key().clone();
    match store.commit(&[change], &[], NOW).await {
        Err(StoreError::Conflict { key: named }) => assert_eq!(named, key, "{why}"),
        other => panic!("{why}: expected a conflict, got {other:?}"),
    }
}

/// Loads counters, lets everybody else load, and commits one more than was found; until it works.
///
/// Writes entries with the same numbers, which therefore have to get those very sequence numbers.
async fn increment(store: &dyn Store, keys: &[&Key]) {
    for _ in 0..1_000 {
        let mut changes = Vec::new();
        let mut entries = Vec::new();
        for &key in keys {
            let seen = load(store, key).await.expect("the counter is there");
            let next = number(&seen) + 1;
            changes.push(Change::update(key.clone(), seen.version, numbered(next)));
            entries.push(Entry::new(key.clone(), next.to_be_bytes()));
        }
        yield_now().await;
        match store.commit(&changes, &entries, NOW).await {
            Ok(_) => return,
            Err(StoreError::Conflict { .. }) => {}
            Err(error) => panic!("a race is no reason to fail: {error:?}"),
        }
    }
    panic!("an increment never landed");
}

/// Checks that a counter and its journal tell of exactly `times` increments.
async fn was_incremented(store: &dyn Store, key: &Key, times: u64) {
    let record = load(store, key).await.expect("the counter is there");
    assert_eq!(number(&record), times, "increments were lost");
    for (entry, expected) in journal(store, key).await.iter().zip(1..) {
        assert_eq!(entry.seq, Seq(expected), "the journal has a gap");
        assert_eq!(
            *entry.bytes,
            expected.to_be_bytes(),
            "journal and record disagree"
        );
    }
    assert_eq!(
        journal(store, key).await.len() as u64,
        times,
        "entries were lost"
    );
}

/// Runs futures side by side, in turns, until all have finished.
async fn together<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut running: Vec<Pin<Box<F>>> = futures.into_iter().map(Box::pin).collect();
    let mut outputs: Vec<Option<F::Output>> = running.iter().map(|_| None).collect();
    poll_fn(|cx| {
        for (future, output) in running.iter_mut().zip(&mut outputs) {
            if output.is_none()
                && let Poll::Ready(done) = future.as_mut().poll(cx)
            {
                *output = Some(done);
            }
        }
        if outputs.iter().all(Option::is_some) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
    outputs.into_iter().flatten().collect()
}

/// Gives the others a turn.
async fn yield_now() {
    let mut had_its_turn = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut had_its_turn, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

async fn subscribe(store: &dyn Store) -> Feed {
    store.changes().await.expect("subscribing works")
}

async fn next(feed: &mut Feed) -> Notice {
    feed.next()
        .await
        .expect("the feed lives as long as its store")
}

/// The changes of the marker's kind up to the marker itself, or nothing if the feed lagged.
async fn heard_until(feed: &mut Feed, marker: &Key) -> Option<Vec<(Key, Version)>> {
    let mut heard = Vec::new();
    loop {
        match next(feed).await {
            Notice::Changed { key, .. } if key == *marker => return Some(heard),
            Notice::Changed { key, version } if key.kind() == marker.kind() => {
                heard.push((key, version));
            }
            Notice::Changed { .. } => {}
            Notice::Lagged => return None,
        }
    }
}

/// Repeats a scenario whose feed lagged, as it may where others use the same database.
async fn without_lag(scenario: impl AsyncFn() -> Option<()>) {
    for _ in 0..20 {
        if scenario().await.is_some() {
            return;
        }
    }
    panic!("the feed lagged again and again over a handful of changes");
}
