//! How changes reach memory and the store.

mod journal;

use crate::{
    error::EngineError,
    instance::Instance,
    lock,
    observer::Observer,
    testing::{LIMIT, NOW},
    testing::{World, flow, get_behind, refuse, reserve, ring, run, state_of, step},
};
use futures_util::FutureExt;
use interlock_proto::{Level, Time};
use interlock_store::{Seq, Store};
use interlock_workflow::{Busy, Kind, Outcome, Workflow, end};
use serde_json::Value;
use std::sync::{Arc, Weak};

#[tokio::test]
async fn a_journal_is_kept_within_its_limit_whatever_fills_it() {
    let world = World::volatile(flow());
    let instance = world.instance();
    for _ in 0..100 {
        for _ in 0..20 {
            refuse(&instance);
        }
        instance.write_journal().await.unwrap();
        step(&instance).await;
    }
    instance.write_journal().await.unwrap();
    let journal = world.store.journal(&instance.key, Seq::START, 10_000).await;
    let journal = journal.unwrap();
    assert!(journal.len() as u64 <= LIMIT + 256, "{}", journal.len());
    let last = journal.last().unwrap().seq;
    assert_eq!(last, Seq(1 + 100 * 21), "every entry was counted");
}

/// A process that dies leaves "running call N" behind, and no other process can tell whether it lives.
#[tokio::test]
async fn a_call_of_a_process_that_died_is_unknown_once_its_time_is_over() {
    let world = World::durable(flow());
    std::mem::forget(reserve(&world.instance(), Time(5_000)).await);

    let other = world.instance();
    other.find().await.unwrap();
    world.pass(Time(4_999));
    let turn = other.turn(Busy::Wait).await.unwrap();
    let refused = turn.catch_up().await;
    assert!(matches!(refused, Err(EngineError::RunningElsewhere)));
    assert_eq!(state_of(&other), "a");
    world.pass(Time(5_000));
    turn.catch_up().await.unwrap();
    assert_eq!(state_of(&other), "unclear");
}

#[tokio::test]
async fn a_call_that_ended_elsewhere_leaves_the_instance_free() {
    let world = World::durable(flow());
    let mut reservation = reserve(&world.instance(), Time(5_000)).await;
    let other = world.instance();
    other.find().await.unwrap();
    assert_eq!(other.busy_until(), Some(Time(5_000)));
    reservation.commit(Outcome::Unknown, None).await.unwrap();
    let turn = other.turn(Busy::Wait).await.unwrap();
    turn.catch_up().await.unwrap();
    assert_eq!(
        (state_of(&other).as_str(), other.busy_until()),
        ("unclear", None)
    );
}

#[tokio::test]
async fn a_step_that_nobody_waits_for_is_unknown() {
    let world = World::durable(flow());
    let instance = world.instance();
    let mut reservation = reserve(&instance, NOW).await;
    let writer = instance.writer.lock().await;
    let mut commit = Box::pin(reservation.commit(Outcome::Success, None));
    assert!(futures_util::poll!(&mut commit).is_pending());
    drop(commit);
    drop(reservation);
    drop(writer);
    let turn = instance.turn(Busy::Wait).await.unwrap();
    turn.catch_up().await.unwrap();
    assert_eq!(state_of(&instance), "unclear");
}

/// A look for an instance that is just being written must not forget what was written.
#[tokio::test]
async fn looking_for_an_instance_while_it_is_written_forgets_nothing() {
    for world in [World::durable(flow()), World::volatile(flow())] {
        let instance = world.instance();
        let mut reservation = reserve(&instance, NOW).await;
        instance.find().await.unwrap();
        assert!(lock(&instance.state).occupancy.elsewhere.is_none());
        let committed = reservation.commit(Outcome::Unknown, None).await.unwrap();
        assert_ne!(committed.before, committed.after);
        assert_eq!(state_of(&instance), "unclear");
    }
}

/// Another process may take a call for dead and move its instance. The end of the call moves nothing
/// then.
#[tokio::test]
async fn a_call_that_was_taken_for_dead_moves_nothing() {
    let world = World::durable(flow());
    let here = world.instance();
    let mut reservation = reserve(&here, Time(5_000)).await;
    world.pass(Time(5_000));
    let other = world.instance();
    other.find().await.unwrap();
    let turn = other.turn(Busy::Wait).await.unwrap();
    turn.catch_up().await.unwrap();
    let committed = reservation.commit(Outcome::Success, None).await;
    assert!(committed.unwrap_err().is_conflict());
    drop(reservation);
    let turn = here.turn(Busy::Wait).await.unwrap();
    turn.catch_up().await.unwrap();
    assert_eq!(
        (state_of(&here), state_of(&other)),
        ("unclear".into(), "unclear".into())
    );
    assert_eq!(world.told(&here).await, ["started", "1"], "it ended once");
}

/// What is shown without the lock is what is known under it.
#[tokio::test]
async fn what_is_shown_is_what_is_known() {
    for world in [World::durable(flow()), World::volatile(flow())] {
        let here = world.instance();
        for outcome in [Outcome::Success, Outcome::Error, Outcome::Unknown] {
            let after = run(&here, outcome).await.after;
            assert_eq!((here.position(), here.run().position()), (after, after));
        }
        assert_eq!(state_of(&here), "unclear");
    }
}

/// Of a call that may have taken effect the model is told once, whichever process found out.
#[tokio::test]
async fn what_is_unclear_is_told_once() {
    let flow = Workflow::builder("w")
        .state("a", |s| s.initial().tool("go", |t| t.success(end("a"))))
        .build()
        .unwrap();
    for world in [World::durable(flow.clone()), World::volatile(flow)] {
        let here = world.instance();
        assert_eq!(here.take_warning(), None);
        run(&here, Outcome::Unknown).await;
        here.write_record().await.unwrap();
        let other = world.instance();
        other.find().await.unwrap();
        for one in [here, other] {
            assert!(one.take_warning().is_some());
            assert_eq!(one.take_warning(), None);
        }
    }
}

/// Seen to fail with a record that is written after its end: operators were told of a conflict.
#[tokio::test]
async fn what_has_ended_is_not_written_again() {
    let world = World::volatile(flow());
    let instance = world.instance();
    get_behind(&instance).await;
    instance.end().await.unwrap();
    instance.write_record().await.unwrap();
    let now = instance.shared.store_time();
    let found = world.store.load(&instance.key, now).await.unwrap();
    assert_eq!(found, None);
}

/// Seen to fail with a record that is taken for a step, and with a version that is taken for another
/// process's.
#[tokio::test]
async fn a_call_that_is_lost_stays_lost_whenever_the_record_follows() {
    for writes_first in [true, false] {
        let world = World::volatile(flow());
        let instance = world.instance();
        get_behind(&instance).await;
        let reservation = reserve(&instance, Time(9_000)).await;
        if writes_first {
            instance.write_record().await.unwrap();
            drop(reservation);
        } else {
            drop(reservation);
            instance.write_record().await.unwrap();
        }
        let turn = instance.turn(Busy::Wait).await.unwrap();
        turn.catch_up().await.unwrap();
        assert_eq!(state_of(&instance), "unclear", "{writes_first}");
    }
}

/// An instance that lives in memory alone changes without waiting, also while its record is written.
#[tokio::test]
async fn a_volatile_commit_is_ready_at_the_first_poll() {
    let world = World::volatile(flow());
    let instance = world.instance();
    step(&instance).await;
    let writer = instance.writer.lock().await;
    for outcome in [Outcome::Success, Outcome::Error, Outcome::Unknown] {
        let run = run(&instance, outcome).now_or_never();
        assert!(run.is_some(), "{outcome}");
    }
    drop(writer);
    assert_eq!(world.told(&instance).await, ["started", "1", "2", "3", "4"]);
}

/// What a handler sees of an instance is what it was when it looked, however long it keeps that.
#[tokio::test]
async fn a_run_that_somebody_has_is_not_written_over() {
    let world = World::volatile(ring());
    let instance = world.instance();
    let mut kept = Vec::new();
    for now in 2_000..2_010 {
        world.pass(Time(now));
        let mut reservation = reserve(&instance, Time(9_000)).await;
        // Those that no handler keeps are written over in between.
        if now % 3 == 0 {
            let seen = instance.run();
            kept.push((Arc::clone(&seen), (*seen).clone()));
        }
        let before = instance.position();
        let moved = reservation.commit(Outcome::Success, None).await.unwrap();
        assert_eq!((moved.before, moved.after), (before, instance.position()));
        assert_ne!(moved.before, moved.after);
        assert!(kept.iter().all(|(seen, was)| **seen == *was));
    }
    assert_eq!(kept.len(), 3);
}

/// A call may be released, or an operator's answer committed, while the record is written. Both leave
/// the run and the edition alone. Seen to fail with a record that is taken to be up to date.
#[tokio::test]
async fn a_change_during_a_write_is_written_next_time() {
    let world = World::volatile(flow());
    let instance = world.instance();
    get_behind(&instance).await;
    let reservation = reserve(&instance, Time(9_000)).await;
    let running = async || {
        let now = instance.shared.store_time();
        let record = world.store.load(&instance.key, now).await.unwrap();
        let record = record.unwrap();
        crate::record::Written::read(&record).unwrap().running
    };
    let changes = lock(&instance.state).stored.missing();
    reservation.release(false).await.unwrap();
    // The record was drafted before, and is stored now.
    {
        let mut state = lock(&instance.state);
        let version = state.stored.version;
        state.stored.written(version, changes);
        assert!(state.stored.is_behind());
    }
    instance.write_record().await.unwrap();
    assert_eq!(running().await, None);
}

/// A client that reads its instance when it is told of it.
struct Reads(Weak<Instance>);

impl Observer for Reads {
    fn lists_changed(self: Arc<Self>, _: &[Kind]) {
        let instance = self.0.upgrade().unwrap();
        assert!(
            instance.writer.try_lock().is_ok(),
            "observers are foreign code"
        );
        assert!(
            instance.state.try_lock().is_ok(),
            "observers are foreign code"
        );
        *lock(&instance.observers) = Vec::new();
    }

    fn logged(&self, _: Level, _: &str, _: &Value) {}
}

#[tokio::test]
async fn observers_are_told_without_a_lock() {
    let world = World::durable(flow());
    let here = world.instance();
    here.find().await.unwrap();
    let observer: Arc<dyn Observer> = Arc::new(Reads(Arc::downgrade(&here)));
    here.observe(Arc::downgrade(&observer));
    run(&world.instance(), Outcome::Unknown).await;
    here.reload().await.unwrap();
    assert_eq!(state_of(&here), "unclear");
    assert!(lock(&here.observers).is_empty(), "it was told");
}
