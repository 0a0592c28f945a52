//! Promises about expiry: what is not seen, what is found, and that versions beat clocks.

use crate::{Change, Key, Kind, Store, Time, Value};

use super::{NOW, conflicts, create, delete, fresh, key, load, update};

const BEFORE: Time = Time(4_999);
const AT: Time = Time(5_000);

/// From its expiry on, and not a millisecond earlier, a record is neither loaded nor listed.
pub async fn an_expired_record_is_not_seen(store: &dyn Store) {
    let kind = fresh();
    let [a, b, c] = ["a", "b", "c"].map(|id| key(&kind, id));
    create(store, &a, brief()).await;
    create(store, &b, Value::new(*b"stays")).await;
    create(store, &c, Value::new(*b"longer").until(Time(5_001))).await;
    for (now, expected) in [
        (BEFORE, vec![a.clone(), b.clone(), c.clone()]),
        (AT, vec![b.clone(), c.clone()]),
        (Time(u64::MAX), vec![b.clone()]),
    ] {
        for key in [&a, &b, &c] {
            let loaded = store.load(key, now).await.expect("loading works");
            assert_eq!(loaded.is_some(), expected.contains(key), "{key} at {now:?}");
        }
        let listed = store
            .list(&kind, None, usize::MAX, now)
            .await
            .expect("listing works");
        assert_eq!(listed, expected, "at {now:?}");
        let first = store
            .list(&kind, None, 1, now)
            .await
            .expect("listing works");
        assert_eq!(
            first,
            expected[..1],
            "an expired record takes up room on a page"
        );
    }
}

/// Where a record has expired the place is free; the version goes on.
pub async fn a_create_takes_the_place_of_an_expired_record(store: &dyn Store) {
    let key = key(&fresh(), "a");
    let old = create(store, &key, brief()).await;
    let again = [Change::create(key.clone(), Value::new(*b"again"))];
    let early = store.commit(&again, &[], BEFORE).await;
    assert!(early.is_err(), "the place was not free yet");
    let new = store
        .commit(&again, &[], AT)
        .await
        .expect("the place is free")[0];
    assert!(new > old, "versions did not grow");
    let record = store
        .load(&key, AT)
        .await
        .expect("loading works")
        .expect("it was created");
    assert_eq!((record.version, record.value), (new, Value::new(*b"again")));
    conflicts(
        store,
        Change::delete(key.clone(), old),
        "a version of the expired record",
    )
    .await;
    assert_eq!(
        found(store, key.kind(), Time(u64::MAX)).await,
        [],
        "its expiry is gone with it"
    );
}

/// What has expired is found with its record, in the order of expiry, until it is removed.
pub async fn the_expired_are_found_longest_expired_first(store: &dyn Store) {
    let kind = fresh();
    for (id, expires) in [
        ("a", Some(4_000)),
        ("b", Some(2_000)),
        ("c", None),
        ("d", Some(3_000)),
    ] {
        let value = Value {
            expires: expires.map(Time),
            ..Value::new(id.as_bytes())
        };
        create(store, &key(&kind, id), value).await;
    }
    create(
        store,
        &key(&fresh(), "of another kind"),
        Value::new(*b"x").until(Time(2_000)),
    )
    .await;

    for (now, ids) in [(1_999, &[][..]), (2_000, &["b"]), (3_999, &["b", "d"])] {
        let expected: Vec<Key> = ids.iter().map(|id| key(&kind, id)).collect();
        assert_eq!(found(store, &kind, Time(now)).await, expected, "at {now}");
    }
    for (limit, ids) in [
        (0, &[][..]),
        (2, &["b", "d"]),
        (usize::MAX, &["b", "d", "a"]),
    ] {
        let expired = store
            .expired(&kind, AT, limit)
            .await
            .expect("finding works");
        assert!(
            expired
                .iter()
                .map(|(key, _)| key.id())
                .eq(ids.iter().copied()),
            "limit {limit}"
        );
        for (key, record) in expired {
            assert_eq!(
                *record.value.bytes,
                *key.id().as_bytes(),
                "another's record"
            );
            assert_eq!(
                store.load(&key, NOW).await.expect("loading works"),
                Some(record)
            );
        }
    }
    let (first, record) = store
        .expired(&kind, AT, 1)
        .await
        .expect("finding works")
        .remove(0);
    delete(store, &first, record.version).await;
    assert_eq!(
        found(store, &kind, AT).await,
        [key(&kind, "d"), key(&kind, "a")]
    );
}

/// Whoever sweeps names the version it found, so a record refreshed meanwhile stays.
pub async fn a_record_refreshed_in_between_is_not_swept(store: &dyn Store) {
    let key = key(&fresh(), "a");
    create(store, &key, brief()).await;
    let (found_key, record) = store
        .expired(key.kind(), AT, 1)
        .await
        .expect("finding works")
        .remove(0);
    assert_eq!(found_key, key);
    let later = Value::new(*b"refreshed").until(Time(9_000));
    update(store, &key, record.version, later.clone()).await;
    conflicts(
        store,
        Change::delete(found_key, record.version),
        "it was refreshed",
    )
    .await;
    let stored = store
        .load(&key, AT)
        .await
        .expect("loading works")
        .expect("it was refreshed");
    assert_eq!(stored.value, later);
    assert_eq!(
        found(store, key.kind(), AT).await,
        [],
        "it has not expired any more"
    );
    update(store, &key, stored.version, Value::new(*b"for good")).await;
    assert_eq!(
        found(store, key.kind(), Time(u64::MAX)).await,
        [],
        "it does not expire any more"
    );
}

/// A version decides who wins, not a clock: one who loaded in time may save late.
pub async fn a_writer_that_saw_the_record_live_may_still_save_it(store: &dyn Store) {
    let key = key(&fresh(), "a");
    let seen = create(store, &key, brief()).await;
    let save = Change::update(key.clone(), seen, Value::new(*b"saved"));
    store
        .commit(&[save], &[], AT)
        .await
        .expect("nobody else has changed it");
    assert_eq!(
        load(store, &key).await.expect("it was saved").value,
        Value::new(*b"saved")
    );
}

fn brief() -> Value {
    Value::new(*b"brief").until(AT)
}

async fn found(store: &dyn Store, kind: &Kind, now: Time) -> Vec<Key> {
    let expired = store
        .expired(kind, now, usize::MAX)
        .await
        .expect("finding works");
    expired.into_iter().map(|(key, _)| key).collect()
}
