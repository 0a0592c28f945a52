//! Promises of a store that several processes may have open at once.
//!
//! Each takes a function that opens another handle to the same store, as another process would.

use crate::{Change, Store, Value};

use super::{
    NOW, create, fresh, heard_until, increment, key, load, numbered, subscribe, together,
    was_incremented, without_lag,
};

/// What one commits the other loads, hears of, and cannot overwrite unseen.
pub async fn a_commit_is_seen_and_heard_through_another_handle<S: Store>(
    open: &impl AsyncFn() -> S,
) {
    let (here, there) = (open().await, open().await);
    without_lag(async || {
        let kind = fresh();
        let [a, marker] = ["a", "marker"].map(|id| key(&kind, id));
        let mut feed = subscribe(&there).await;
        let version = create(&here, &a, Value::new(*b"here")).await;
        let seen = load(&there, &a).await.expect("it was committed");
        assert_eq!((seen.version, seen.value), (version, Value::new(*b"here")));
        let taken = [Change::create(a.clone(), Value::new(*b"there"))];
        there
            .commit(&taken, &[], NOW)
            .await
            .expect_err("the place is taken");
        create(&here, &marker, Value::new([])).await;
        assert_eq!(heard_until(&mut feed, &marker).await?, [(a, version)]);
        Some(())
    })
    .await;
}

/// Writers in two processes lose nothing of each other's work.
pub async fn increments_through_two_handles_all_land<S: Store>(open: &impl AsyncFn() -> S) {
    let (here, there) = (open().await, open().await);
    let key = &key(&fresh(), "counter");
    create(&here, key, numbered(0)).await;
    let (here, there) = (&here, &there);
    together((0..16).map(async |writer| {
        increment(if writer % 2 == 0 { here } else { there }, &[key]).await;
    }))
    .await;
    was_incremented(here, key, 16).await;
}
