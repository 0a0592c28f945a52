//! Promises of a store that outlives its process.
//!
//! Each takes a function that opens the store; it is called again only after the store it
//! returned before was dropped.

use std::slice;

use crate::{Change, Entry, Journal, Seq, Store, Time, Value};

use super::{NOW, conflicts, create, delete, fresh, journal, key, load};

/// Records with their versions and expiries, deletions, journals and what was pruned of them.
pub async fn what_was_committed_survives_reopening<S: Store>(open: &impl AsyncFn() -> S) {
    let kind = fresh();
    let [kept, gone] = ["kept", "gone"].map(|id| key(&kind, id));
    let value = Value::new(*b"kept").until(Time(5_000));

    let store = open().await;
    let entries = [*b"1", *b"2", *b"3"].map(|bytes| Entry::new(kept.clone(), bytes));
    let changes = [Change::create(kept.clone(), value.clone())];
    let version = store
        .commit(&changes, &entries, NOW)
        .await
        .expect("nothing against it")[0];
    store.prune(&kept, Seq(1)).await.expect("pruning works");
    let seen = create(&store, &gone, Value::new(*b"gone").until(Time(4_000))).await;
    delete(&store, &gone, seen).await;
    let written = journal(&store, &kept).await;
    drop(store);

    let store = open().await;
    let record = load(&store, &kept).await.expect("it was committed");
    assert_eq!((record.version, &record.value), (version, &value));
    assert_eq!(load(&store, &gone).await, None, "it was deleted");
    assert_eq!(journal(&store, &kept).await, written);
    let journals = store
        .journals(&kind, None, usize::MAX)
        .await
        .expect("listing works");
    assert_eq!(
        journals,
        [Journal {
            key: kept.clone(),
            first: Seq(2),
            last: Seq(3)
        }]
    );
    let listed = store
        .list(&kind, None, usize::MAX, NOW)
        .await
        .expect("listing works");
    assert_eq!(listed, slice::from_ref(&kept));
    let expired = store
        .expired(&kind, Time(5_000), 10)
        .await
        .expect("finding works");
    assert_eq!(expired, [(kept.clone(), record)]);
    store
        .commit(&[], &[Entry::new(kept.clone(), *b"4")], NOW)
        .await
        .expect("cannot conflict");
    assert_eq!(
        journal(&store, &kept).await.last().map(|entry| entry.seq),
        Some(Seq(4))
    );
}

/// A version from before cannot be met again, not even for a record that was deleted then.
pub async fn versions_go_on_after_reopening<S: Store>(open: &impl AsyncFn() -> S) {
    let key = key(&fresh(), "a");
    let store = open().await;
    let old = create(&store, &key, Value::new(*b"first life")).await;
    let deleted = delete(&store, &key, old).await;
    drop(store);

    let store = open().await;
    let new = create(&store, &key, Value::new(*b"second life")).await;
    assert!(
        old < deleted && deleted < new,
        "not growing: {old:?}, {deleted:?}, {new:?}"
    );
    conflicts(
        &store,
        Change::delete(key.clone(), old),
        "a version of an earlier life",
    )
    .await;
}
