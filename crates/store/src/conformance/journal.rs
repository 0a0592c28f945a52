//! Promises about journals: numbering, reading, outliving the record, pruning.

use crate::{Entry, Journal, Key, Logged, Seq, Store, Time, Value};

use super::{NOW, create, delete, fresh, journal, key, together, yield_now};

/// Each journal counts for itself from 1, in the order of commits and within each commit, and
/// every entry bears the time of its commit.
pub async fn entries_are_numbered_from_one_without_gaps(store: &dyn Store) {
    let kind = fresh();
    let (a, b) = (key(&kind, "a"), key(&kind, "b"));
    let largest = Time(u64::MAX);
    for (now, entries) in [
        (NOW, vec![Entry::new(a.clone(), *b"a1")]),
        (Time(0), vec![]),
        (
            largest,
            [(&b, *b"b1"), (&a, *b"a2"), (&b, *b"b2"), (&a, *b"a3")]
                .map(entry)
                .into(),
        ),
        (Time(0), vec![Entry::new(a.clone(), [])]),
    ] {
        store
            .commit(&[], &entries, now)
            .await
            .expect("entries alone cannot conflict");
    }
    let told = |entries: Vec<Logged>| -> Vec<(u64, Time, Vec<u8>)> {
        entries
            .into_iter()
            .map(|entry| (entry.seq.0, entry.at, entry.bytes.to_vec()))
            .collect()
    };
    assert_eq!(
        told(journal(store, &a).await),
        [
            (1, NOW, b"a1".to_vec()),
            (2, largest, b"a2".to_vec()),
            (3, largest, b"a3".to_vec()),
            (4, Time(0), vec![]),
        ]
    );
    assert_eq!(
        told(journal(store, &b).await),
        [(1, largest, b"b1".to_vec()), (2, largest, b"b2".to_vec())]
    );
}

/// A reader gets what lies behind its place, no more than it asks for, and nothing at the end.
pub async fn a_journal_is_read_page_by_page(store: &dyn Store) {
    let key = key(&fresh(), "a");
    write(store, &key, 5).await;
    for (after, limit, expected) in [
        (0, 2, 1..=2),
        (2, 2, 3..=4),
        (4, 2, 5..=5),
        (0, usize::MAX, 1..=5),
        (3, 1, 4..=4),
    ] {
        let page = store
            .journal(&key, Seq(after), limit)
            .await
            .expect("reading works");
        assert!(
            page.iter().map(|entry| entry.seq.0).eq(expected),
            "behind {after}: {page:?}"
        );
    }
    for (after, limit) in [(0, 0), (5, 2), (6, 2), (u64::MAX, usize::MAX)] {
        let page = store
            .journal(&key, Seq(after), limit)
            .await
            .expect("reading works");
        assert_eq!(page, [], "behind {after}");
    }
}

/// Entries can be written before there is a record, and stay and go on when it is deleted.
pub async fn a_journal_needs_no_record_and_outlives_it(store: &dyn Store) {
    let key = key(&fresh(), "a");
    assert_eq!(journal(store, &key).await, [], "nothing was written yet");
    write(store, &key, 1).await;
    let seen = create(store, &key, Value::new(*b"record")).await;
    write(store, &key, 1).await;
    delete(store, &key, seen).await;
    assert_eq!(
        numbers(store, &key).await,
        [1, 2],
        "evidence outlives its record"
    );
    write(store, &key, 1).await;
    create(store, &key, Value::new(*b"again")).await;
    write(store, &key, 1).await;
    assert_eq!(numbers(store, &key).await, [1, 2, 3, 4]);
}

/// Writers that append at once get numbers without gaps, each commit's in a row.
pub async fn numbers_stay_dense_under_concurrency(store: &dyn Store) {
    let key = &key(&fresh(), "a");
    together((0..16).map(async |writer: u8| {
        for _ in 0..3 {
            let entries = [0, 1].map(|half| Entry::new(key.clone(), [writer, half]));
            yield_now().await;
            store
                .commit(&[], &entries, NOW)
                .await
                .expect("entries alone cannot conflict");
        }
    }))
    .await;
    let written = journal(store, key).await;
    assert!(
        written.iter().map(|entry| entry.seq.0).eq(1..=96),
        "not dense: {written:?}"
    );
    for pair in written.chunks(2) {
        assert_eq!(
            pair[0].bytes[0], pair[1].bytes[0],
            "another commit came in between"
        );
        assert_eq!((pair[0].bytes[1], pair[1].bytes[1]), (0, 1), "out of order");
    }
}

/// Pruned entries are gone, later ones keep their numbers, and so do those yet to come.
pub async fn pruning_drops_the_oldest_and_numbering_goes_on(store: &dyn Store) {
    let kind = fresh();
    let (key, neighbour) = (key(&kind, "a"), key(&kind, "b"));
    create(store, &key, Value::new(*b"record")).await;
    write(store, &key, 5).await;
    write(store, &neighbour, 2).await;
    for (up_to, left) in [
        (0, vec![1, 2, 3, 4, 5]),
        (2, vec![3, 4, 5]),
        (1, vec![3, 4, 5]),
    ] {
        store.prune(&key, Seq(up_to)).await.expect("pruning works");
        assert_eq!(numbers(store, &key).await, left, "pruned up to {up_to}");
    }
    let page = store.journal(&key, Seq(3), 1).await.expect("reading works");
    assert_eq!(page[0].seq, Seq(4), "a reader's place stays valid");
    store
        .prune(&key, Seq(u64::MAX))
        .await
        .expect("pruning works");
    assert_eq!(numbers(store, &key).await, [0; 0], "everything is pruned");
    write(store, &key, 2).await;
    assert_eq!(numbers(store, &key).await, [6, 7], "numbering goes on");
    assert_eq!(
        numbers(store, &neighbour).await,
        [1, 2],
        "another journal is untouched"
    );
}

/// The end of a journal is the number of its newest entry, also of one that was pruned.
pub async fn a_journal_knows_its_end(store: &dyn Store) {
    let key = key(&fresh(), "a");
    let end = async || store.journal_end(&key).await.expect("reading works");
    assert_eq!(end().await, Seq::START, "nothing is written");
    create(store, &key, Value::new(*b"record")).await;
    assert_eq!(end().await, Seq::START, "a record is no entry");
    write(store, &key, 3).await;
    assert_eq!(end().await, Seq(3), "three are written");
    store.prune(&key, Seq(2)).await.expect("pruning works");
    assert_eq!(end().await, Seq(3), "the last one is left");
    store.prune(&key, Seq(3)).await.expect("pruning works");
    assert_eq!(end().await, Seq(3), "all is pruned");
    write(store, &key, 1).await;
    assert_eq!(end().await, Seq(4), "numbering goes on");
}

/// Pruning everything forgets a journal only if its record is gone, too.
pub async fn a_journal_is_forgotten_only_with_its_record_gone(store: &dyn Store) {
    let key = key(&fresh(), "a");
    let seen = create(store, &key, Value::new(*b"record")).await;
    write(store, &key, 2).await;
    store.prune(&key, Seq(2)).await.expect("pruning works");
    let emptied = [Journal {
        key: key.clone(),
        first: Seq(3),
        last: Seq(2),
    }];
    assert_eq!(
        journals(store, &key).await,
        emptied,
        "its number is remembered"
    );

    delete(store, &key, seen).await;
    assert_eq!(
        journals(store, &key).await,
        emptied,
        "a delete leaves journals alone"
    );
    store.prune(&key, Seq(2)).await.expect("pruning works");
    assert_eq!(
        journals(store, &key).await,
        [],
        "nothing is left to remember"
    );

    write(store, &key, 2).await;
    assert_eq!(
        numbers(store, &key).await,
        [1, 2],
        "a new journal begins at 1"
    );
    store.prune(&key, Seq(1)).await.expect("pruning works");
    assert_eq!(
        numbers(store, &key).await,
        [2],
        "an entry that is left is kept"
    );
}

/// An operator finds every journal, also of records that are gone, and what it holds.
pub async fn journals_are_listed_with_what_they_hold(store: &dyn Store) {
    let kind = fresh();
    let [a, b, c] = ["A", "a", "b"].map(|id| key(&kind, id));
    write(store, &c, 1).await;
    write(store, &a, 3).await;
    write(store, &b, 2).await;
    write(store, &key(&fresh(), "of another kind"), 1).await;
    let seen = create(store, &b, Value::new(*b"record")).await;
    delete(store, &b, seen).await;
    create(
        store,
        &key(&kind, "without journal"),
        Value::new(*b"record"),
    )
    .await;
    store.prune(&a, Seq(1)).await.expect("pruning works");

    let expected = [(&a, 2, 3), (&b, 1, 2), (&c, 1, 1)].map(|(key, first, last)| Journal {
        key: key.clone(),
        first: Seq(first),
        last: Seq(last),
    });
    for (after, limit, range) in [
        (None, usize::MAX, 0..3),
        (None, 2, 0..2),
        (Some(&b), 2, 2..3),
        (Some(&c), 2, 3..3),
        (None, 0, 0..0),
    ] {
        let page = store
            .journals(&kind, after, limit)
            .await
            .expect("listing works");
        assert_eq!(page, expected[range], "behind {after:?}");
    }
}

fn entry((key, bytes): (&Key, [u8; 2])) -> Entry {
    Entry::new(key.clone(), bytes)
}

/// Appends some entries, each in a commit of its own.
async fn write(store: &dyn Store, key: &Key, entries: usize) {
    for _ in 0..entries {
        let entry = Entry::new(key.clone(), *b"entry");
        store
            .commit(&[], &[entry], NOW)
            .await
            .expect("entries alone cannot conflict");
    }
}

async fn numbers(store: &dyn Store, key: &Key) -> Vec<u64> {
    journal(store, key)
        .await
        .iter()
        .map(|entry| entry.seq.0)
        .collect()
}

/// All journals of the key's kind.
async fn journals(store: &dyn Store, key: &Key) -> Vec<Journal> {
    store
        .journals(key.kind(), None, usize::MAX)
        .await
        .expect("listing works")
}
