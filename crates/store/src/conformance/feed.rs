//! Promises about the change feed: what is heard, when, by whom, and what is never lost silently.

use std::collections::BTreeSet;
use std::slice;

use crate::{Change, Entry, Feed, Key, Notice, Store, Value, Version};

use super::{
    NOW, create, delete, fresh, heard_until, key, load, next, subscribe, update, without_lag,
};

/// Creation, update and deletion are heard with the versions that the commits returned, in that
/// order, and what is heard can be loaded.
pub async fn changes_are_heard_in_order_once_they_can_be_loaded(store: &dyn Store) {
    without_lag(async || {
        let key = key(&fresh(), "a");
        let mut feed = subscribe(store).await;
        let created = create(store, &key, Value::new(*b"1")).await;
        assert_eq!(hear(&mut feed, &key).await?, created);
        assert_eq!(
            load(store, &key).await.map(|record| record.version),
            Some(created)
        );
        let updated = update(store, &key, created, Value::new(*b"2")).await;
        let deleted = delete(store, &key, updated).await;
        let again = create(store, &key, Value::new(*b"3")).await;
        assert_eq!(hear(&mut feed, &key).await?, updated);
        assert_eq!(hear(&mut feed, &key).await?, deleted);
        assert_eq!(hear(&mut feed, &key).await?, again);
        Some(())
    })
    .await;
}

/// Feeds are independent: each hears everything, whether or not the others listen.
pub async fn every_feed_hears_every_change(store: &dyn Store) {
    without_lag(async || {
        let kind = fresh();
        let [a, b, marker] = ["a", "b", "marker"].map(|id| key(&kind, id));
        let mut first = subscribe(store).await;
        let mut second = subscribe(store).await;
        drop(subscribe(store).await);
        let both = [&a, &b].map(|key| Change::create(key.clone(), Value::new(*b"1")));
        let versions = store
            .commit(&both, &[], NOW)
            .await
            .expect("nothing stands against it");
        create(store, &marker, Value::new([])).await;
        let expected: BTreeSet<_> = [a, b].into_iter().zip(versions).collect();
        for feed in [&mut first, &mut second] {
            let heard = heard_until(feed, &marker).await?;
            assert_eq!(heard.len(), 2, "heard {heard:?}");
            assert_eq!(heard.into_iter().collect::<BTreeSet<_>>(), expected);
        }
        Some(())
    })
    .await;
}

/// Nothing of a commit that was refused is heard, and entries are not.
pub async fn a_refused_commit_is_not_heard(store: &dyn Store) {
    without_lag(async || {
        let kind = fresh();
        let [new, taken, marker] = ["new", "taken", "marker"].map(|id| key(&kind, id));
        create(store, &taken, Value::new(*b"1")).await;
        // Where news travels, that of `taken` may still be on its way; this is heard after it.
        let mut feed = subscribe(store).await;
        let start = key(&kind, "start");
        create(store, &start, Value::new([])).await;
        heard_until(&mut feed, &start).await?;

        let refused = [&new, &taken].map(|key| Change::create(key.clone(), Value::new(*b"2")));
        let entry = Entry::new(new, *b"!");
        store
            .commit(&refused, slice::from_ref(&entry), NOW)
            .await
            .expect_err("one place is taken");
        store
            .commit(&[], &[entry], NOW)
            .await
            .expect("entries alone cannot conflict");
        create(store, &marker, Value::new([])).await;
        assert_eq!(
            heard_until(&mut feed, &marker).await?,
            [],
            "nothing has changed"
        );
        Some(())
    })
    .await;
}

/// A reader that does not listen delays no writer. It hears everything in the end, or that it
/// has lagged, and goes on hearing either way.
pub async fn a_slow_reader_misses_nothing_without_being_told(store: &dyn Store) {
    let kind = fresh();
    let mut feed = subscribe(store).await;
    let mut missing: BTreeSet<_> = (0..=Feed::CAPACITY)
        .map(|id| key(&kind, &id.to_string()))
        .collect();
    let creates: Vec<Change> = missing
        .iter()
        .map(|key| Change::create(key.clone(), Value::new([])))
        .collect();
    for some in creates.chunks(100) {
        store
            .commit(some, &[], NOW)
            .await
            .expect("nothing stands against it");
    }
    let marker = key(&kind, "marker");
    let mut seen = create(store, &marker, Value::new([])).await;
    loop {
        match next(&mut feed).await {
            Notice::Changed { key, .. } if key == marker => break,
            Notice::Changed { key, .. } => {
                missing.remove(&key);
            }
            // Whoever lagged loads again. The marker may be among what was lost, too.
            Notice::Lagged => {
                missing.clear();
                seen = update(store, &marker, seen, Value::new([])).await;
            }
        }
    }
    assert_eq!(
        missing,
        BTreeSet::new(),
        "never heard, and not told to have lagged"
    );
}

/// The version of the next change of `key`, or nothing if the feed lagged.
async fn hear(feed: &mut Feed, key: &Key) -> Option<Version> {
    loop {
        match next(feed).await {
            Notice::Changed {
                key: heard,
                version,
            } if heard == *key => return Some(version),
            Notice::Changed { .. } => {}
            Notice::Lagged => return None,
        }
    }
}
