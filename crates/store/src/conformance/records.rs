//! Promises about records: compare-and-swap, all or nothing, versions, listing.

use crate::{Change, Entry, Key, Store, StoreError, Time, Value, Version};

use super::{
    NOW, commit, conflicts, create, delete, fresh, increment, journal, key, load, numbered,
    together, update, was_incremented, yield_now,
};

/// Bytes, expiry and version come back as they went in, for any key there can be.
pub async fn what_was_committed_is_loaded(store: &dyn Store) {
    let kind = fresh();
    let longest = "i".repeat(Key::MAX_ID_BYTES);
    for (id, value) in [
        ("plain", Value::new(*b"text")),
        ("no bytes", Value::new([])),
        ("all bytes", Value::new((0..=255).collect::<Vec<u8>>())),
        ("late", Value::new(*b"x").until(Time(u64::MAX))),
        ("../%2e\\ 'quoted\"; -- ü 👩‍🚀", Value::new(*b"odd id")),
        (&longest, Value::new(*b"long id")),
    ] {
        let key = key(&kind, id);
        assert_eq!(
            load(store, &key).await,
            None,
            "nothing was stored under {id:?} yet"
        );
        let version = create(store, &key, value.clone()).await;
        let record = load(store, &key).await.expect("it was just created");
        assert_eq!(
            (record.version, record.value),
            (version, value),
            "under {id:?}"
        );
    }
    let namesake = key(&fresh(), "plain");
    assert_eq!(
        load(store, &namesake).await,
        None,
        "the same id in another kind"
    );
}

/// A create conflicts where there is a record, and works where it was deleted.
pub async fn a_create_needs_a_free_place(store: &dyn Store) {
    let key = key(&fresh(), "a");
    let version = create(store, &key, Value::new(*b"first")).await;
    let second = Change::create(key.clone(), Value::new(*b"second"));
    conflicts(store, second.clone(), "there already is a record").await;
    assert_eq!(
        *load(store, &key).await.expect("it stays").value.bytes,
        *b"first"
    );
    delete(store, &key, version).await;
    commit(store, second).await;
}

/// An update on a version that is no longer stored conflicts and changes nothing.
pub async fn the_second_writer_conflicts(store: &dyn Store) {
    let key = key(&fresh(), "a");
    let seen = create(store, &key, Value::new(*b"start")).await;
    let first = update(store, &key, seen, Value::new(*b"first")).await;
    let second = Change::update(key.clone(), seen, Value::new(*b"second"));
    conflicts(store, second, "the second writer saw an old version").await;
    let unheard_of = Change::update(key.clone(), Version(u64::MAX), Value::new(*b"second"));
    conflicts(store, unheard_of, "nobody was given this version").await;
    let record = load(store, &key).await.expect("it stays");
    assert_eq!(
        (record.version, &*record.value.bytes),
        (first, &b"first"[..])
    );
}

/// A delete conflicts unless it names the stored version; what is gone cannot be changed.
pub async fn a_delete_needs_the_version_last_seen(store: &dyn Store) {
    let key = key(&fresh(), "a");
    let old = create(store, &key, Value::new(*b"old")).await;
    let new = update(store, &key, old, Value::new(*b"new")).await;
    conflicts(
        store,
        Change::delete(key.clone(), old),
        "the record has moved on",
    )
    .await;
    assert_eq!(
        load(store, &key).await.map(|record| record.version),
        Some(new)
    );
    delete(store, &key, new).await;
    assert_eq!(load(store, &key).await, None, "it was deleted");
    conflicts(store, Change::delete(key.clone(), new), "it is gone").await;
    let late = Change::update(key.clone(), new, Value::new(*b"late"));
    conflicts(store, late, "it is gone").await;
    assert_eq!(
        load(store, &key).await,
        None,
        "a refused update stores nothing"
    );
}

/// The versions of a key grow, through deletion and re-creation, so that a writer from an earlier
/// life of the record cannot succeed in a later one.
pub async fn versions_grow_and_never_come_back(store: &dyn Store) {
    let key = key(&fresh(), "a");
    let mut seen = Vec::new();
    for _ in 0..3 {
        let created = create(store, &key, Value::new(*b"same")).await;
        for old in &seen {
            let update = Change::update(key.clone(), *old, Value::new(*b"stale"));
            conflicts(store, update, "a version of an earlier life").await;
            conflicts(
                store,
                Change::delete(key.clone(), *old),
                "a version of an earlier life",
            )
            .await;
        }
        let updated = update(store, &key, created, Value::new(*b"same")).await;
        let deleted = delete(store, &key, updated).await;
        seen.extend([created, updated, deleted]);
    }
    assert!(
        seen.is_sorted_by(|a, b| a < b),
        "versions did not grow: {seen:?}"
    );
}

/// The versions returned are those of the changes, one each, in their order.
pub async fn each_change_gets_its_own_version_in_order(store: &dyn Store) {
    let kind = fresh();
    let [a, b, c, d] = ["a", "b", "c", "d"].map(|id| key(&kind, id));
    let seen_b = create(store, &b, Value::new(*b"1")).await;
    let seen_c = create(store, &c, Value::new(*b"1")).await;
    let changes = [
        Change::create(d.clone(), Value::new(*b"d")),
        Change::delete(c.clone(), seen_c),
        Change::update(b.clone(), seen_b, Value::new(*b"b")),
        Change::create(a.clone(), Value::new(*b"a")),
    ];
    let versions = store
        .commit(&changes, &[], NOW)
        .await
        .expect("nothing stands against it");
    assert_eq!(versions.len(), changes.len());
    for (change, version) in changes.iter().zip(versions) {
        let stored = load(store, change.key()).await;
        assert_eq!(stored.as_ref().map(|record| &record.value), change.value());
        assert!(
            stored.is_none_or(|record| record.version == version),
            "of {change:?}"
        );
    }
    assert_eq!(
        store.commit(&[], &[], NOW).await.expect("nothing to do"),
        []
    );
}

/// Wherever in a commit the conflict is, nothing of the commit is left behind.
pub async fn a_commit_is_all_or_nothing(store: &dyn Store) {
    let kind = fresh();
    let [new, old, gone, taken] = ["new", "old", "gone", "taken"].map(|id| key(&kind, id));
    let seen_old = create(store, &old, Value::new(*b"old")).await;
    let seen_gone = create(store, &gone, Value::new(*b"gone")).await;
    create(store, &taken, Value::new(*b"taken")).await;
    let good = [
        Change::create(new.clone(), Value::new(*b"!")),
        Change::update(old.clone(), seen_old, Value::new(*b"!")),
        Change::delete(gone.clone(), seen_gone),
    ];
    let entries = [&new, &old, &taken].map(|key| Entry::new(key.clone(), *b"!"));
    for place in 0..=good.len() {
        let mut changes = good.to_vec();
        changes.insert(place, Change::create(taken.clone(), Value::new(*b"!")));
        match store.commit(&changes, &entries, NOW).await {
            Err(StoreError::Conflict { key }) => assert_eq!(key, taken),
            other => panic!("expected a conflict, got {other:?}"),
        }
        assert_eq!(load(store, &new).await, None, "half a commit was created");
        for (key, bytes) in [(&old, &b"old"[..]), (&gone, b"gone"), (&taken, b"taken")] {
            let record = load(store, key).await.expect("half a commit was deleted");
            assert_eq!(&*record.value.bytes, bytes, "half a commit was updated");
        }
        for key in [&new, &old, &gone, &taken] {
            assert_eq!(
                journal(store, key).await,
                [],
                "half a commit was journalled"
            );
        }
    }
    store
        .commit(&good, &entries, NOW)
        .await
        .expect("without the conflict it lands");
    assert_eq!(load(store, &gone).await, None);
    assert_eq!(journal(store, &old).await.len(), 1);
}

/// Two changes of one record in one commit are refused, even if either alone would do.
pub async fn a_record_changes_once_per_commit(store: &dyn Store) {
    let key = key(&fresh(), "a");
    let twice = [*b"1", *b"2"].map(|bytes| Change::create(key.clone(), Value::new(bytes)));
    match store
        .commit(&twice, &[Entry::new(key.clone(), *b"!")], NOW)
        .await
    {
        Err(StoreError::Twice { key: named }) => assert_eq!(named, key),
        other => panic!("expected a refusal, got {other:?}"),
    }
    assert_eq!(
        load(store, &key).await,
        None,
        "a refused commit left a record"
    );
    assert_eq!(
        journal(store, &key).await,
        [],
        "a refused commit left an entry"
    );
}

/// The longest value is stored, one byte more is refused; the same goes for entries.
pub async fn what_is_too_large_is_refused(store: &dyn Store) {
    let key = key(&fresh(), "a");
    let over = vec![7; Value::MAX_BYTES + 1];
    let record = Change::create(key.clone(), Value::new(&over[..]));
    let entry = Entry::new(key.clone(), &over[..]);
    let fine = Change::create(key.clone(), Value::new(*b"fine"));
    for (changes, entries) in [(vec![record], vec![]), (vec![fine], vec![entry])] {
        match store.commit(&changes, &entries, NOW).await {
            Err(StoreError::TooLarge {
                key: named,
                bytes,
                limit,
            }) => {
                assert_eq!(
                    (named, bytes, limit),
                    (key.clone(), over.len(), Value::MAX_BYTES)
                );
            }
            other => panic!("expected a refusal, got {other:?}"),
        }
        assert_eq!(
            load(store, &key).await,
            None,
            "a refused commit left a record"
        );
        assert_eq!(
            journal(store, &key).await,
            [],
            "a refused commit left an entry"
        );
    }
    create(store, &key, Value::new(&over[1..])).await;
    let stored = load(store, &key)
        .await
        .expect("the longest value is stored");
    assert!(
        *stored.value.bytes == over[1..],
        "the longest value came back changed"
    );
}

/// Keys of one kind come in the byte order of their ids, whatever size the pages have.
pub async fn keys_are_listed_in_byte_order_page_by_page(store: &dyn Store) {
    let (kind, other) = (fresh(), fresh());
    let ids = [
        "B",
        "a",
        "a b",
        "a-b",
        "ab",
        "a\u{e9}",
        "\u{ff61}",
        "\u{1f680}",
    ];
    assert!(ids.is_sorted(), "the standard library compares bytes");
    for id in ids.iter().rev() {
        create(store, &key(&kind, id), Value::new([])).await;
        create(store, &key(&other, id), Value::new([])).await;
    }
    let gone = key(&kind, "aa");
    let seen = create(store, &gone, Value::new([])).await;
    delete(store, &gone, seen).await;

    for limit in [1, 3, ids.len(), usize::MAX] {
        let mut listed: Vec<Key> = Vec::new();
        loop {
            let page = store
                .list(&kind, listed.last(), limit, NOW)
                .await
                .expect("listing works");
            assert!(page.len() <= limit, "more than was asked for");
            if page.is_empty() {
                break;
            }
            listed.extend(page);
            assert!(listed.len() <= ids.len(), "too much is listed: {listed:?}");
        }
        assert_eq!(listed, ids.map(|id| key(&kind, id)), "in pages of {limit}");
    }
    assert_eq!(
        store
            .list(&kind, None, 0, NOW)
            .await
            .expect("listing works"),
        []
    );
    let behind_gone = store
        .list(&kind, Some(&gone), 1, NOW)
        .await
        .expect("listing works");
    assert_eq!(
        behind_gone,
        [key(&kind, "ab")],
        "a page may begin behind a key that is gone"
    );
}

/// Of two writers that saw the same version, one wins and the other is told so.
pub async fn of_two_racing_writers_exactly_one_wins(store: &dyn Store) {
    let key = &key(&fresh(), "a");
    let mut seen = create(store, key, Value::new(*b"start")).await;
    for _ in 0..20 {
        let outcomes = together([*b"left ", *b"right"].map(async |bytes| {
            let change = Change::update(key.clone(), seen, Value::new(bytes));
            yield_now().await;
            (
                bytes,
                store
                    .commit(&[change], &[Entry::new(key.clone(), bytes)], NOW)
                    .await,
            )
        }))
        .await;
        let record = load(store, key).await.expect("it stays");
        let mut winners = 0;
        for (bytes, outcome) in outcomes {
            match outcome {
                Ok(versions) => {
                    winners += 1;
                    assert_eq!(*record.value.bytes, bytes, "the loser's value was kept");
                    assert_eq!(versions, [record.version]);
                    let last = journal(store, key).await.pop().expect("the winner's entry");
                    assert_eq!(*last.bytes, bytes, "the loser's entry was kept");
                }
                Err(StoreError::Conflict { key: named }) => assert_eq!(named, *key),
                Err(error) => panic!("a race is no reason to fail: {error:?}"),
            }
        }
        assert_eq!(winners, 1, "of two racing writers exactly one wins");
        seen = record.version;
    }
    assert_eq!(
        journal(store, key).await.len(),
        20,
        "one entry for each winner"
    );
}

/// Of many that create the same record, one wins.
pub async fn of_racing_creators_exactly_one_wins(store: &dyn Store) {
    let key = &key(&fresh(), "a");
    let outcomes = together((0..8).map(async |creator| {
        let change = Change::create(key.clone(), numbered(creator));
        yield_now().await;
        (creator, store.commit(&[change], &[], NOW).await)
    }))
    .await;
    let record = load(store, key).await.expect("somebody created it");
    let winners = outcomes
        .iter()
        .filter_map(|(creator, outcome)| match outcome {
            Ok(versions) => Some((numbered(*creator), versions[0])),
            Err(StoreError::Conflict { .. }) => None,
            Err(error) => panic!("a race is no reason to fail: {error:?}"),
        });
    let winners: Vec<_> = winners.collect();
    assert_eq!(
        winners,
        [(record.value, record.version)],
        "of racing creators exactly one wins"
    );
}

/// Writers that load again after a conflict lose nothing of each other's work.
pub async fn every_increment_lands(store: &dyn Store) {
    let key = &key(&fresh(), "counter");
    create(store, key, numbered(0)).await;
    together((0..16).map(async |_| {
        increment(store, &[key]).await;
        increment(store, &[key]).await;
    }))
    .await;
    was_incremented(store, key, 32).await;
}

/// Commits that name the same records in different orders do not lock each other out.
pub async fn commits_over_the_same_records_in_opposite_order_all_finish(store: &dyn Store) {
    let kind = fresh();
    let [a, b] = &["a", "b"].map(|id| key(&kind, id));
    create(store, a, numbered(0)).await;
    create(store, b, numbered(0)).await;
    together((0..8).map(async |writer| {
        let keys = if writer % 2 == 0 { [a, b] } else { [b, a] };
        increment(store, &keys).await;
    }))
    .await;
    for key in [a, b] {
        was_incremented(store, key, 8).await;
    }
}
