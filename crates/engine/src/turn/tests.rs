//! Who may move an instance, and what is overdue when the turn comes.

use crate::{
    error::EngineError,
    instance::{CallFacts, Instance},
    journal::What,
    lock,
    reservation::ReserveError,
    testing::{
        MINUTE, NOW, World, flow, get_behind, refused, reserve, ring, run, state_of, step, timed,
    },
    turn::Turn,
};
use futures_util::FutureExt;
use interlock_proto::Time;
use interlock_workflow::{Busy, Kind, Outcome, Settings, Workflow, end};
use std::{future::Future, pin::Pin, sync::Arc, thread};

type Waits<'a> = Pin<Box<dyn Future<Output = Option<Turn>> + Send + 'a>>;

/// Waits for the turn without getting it.
fn waits(instance: &Arc<Instance>) -> Waits<'_> {
    let mut next: Waits<'_> = Box::pin(instance.turn(Busy::Wait));
    assert!(next.as_mut().now_or_never().is_none());
    next
}

#[test]
fn one_has_the_turn_at_a_time() {
    let instance = World::durable(flow()).instance();
    let turn = instance.try_turn().unwrap();
    assert!(instance.try_turn().is_none());
    drop(turn);
    let again = instance.turn(Busy::Wait).now_or_never().flatten().unwrap();
    assert!(instance.try_turn().is_none());
    drop(again);
    assert!(instance.try_turn().is_some());
}

#[test]
fn it_is_handed_on_in_the_order_of_coming_and_nobody_gets_in_between() {
    let instance = World::durable(flow()).instance();
    let turn = instance.try_turn().unwrap();
    let line: Vec<_> = (0..3).map(|_| waits(&instance)).collect();
    drop(turn);
    for one in line {
        assert!(instance.try_turn().is_none());
        let turn = one.now_or_never().flatten().expect("it is next");
        assert!(instance.turn(Busy::Wait).now_or_never().is_none());
        drop(turn);
    }
    assert!(instance.try_turn().is_some());
}

#[test]
fn whoever_goes_away_is_passed_over() {
    let instance = World::durable(flow()).instance();
    let turn = instance.try_turn().unwrap();
    let mut line: Vec<_> = (0..4).map(|_| waits(&instance)).collect();
    drop(line.remove(0));
    drop(turn);
    // This one has been handed it, and goes away before it looks.
    drop(line.remove(0));
    let turn = line.remove(0).now_or_never().expect("it is next");
    drop(line);
    drop(turn);
    assert!(instance.try_turn().is_some());
}

/// The instance stays reserved after the step, so that effects run before the next call.
#[tokio::test]
async fn a_turn_is_given_back_with_the_reservation() {
    let world = World::volatile(ring());
    let instance = world.instance();
    step(&instance).await;
    let mut reservation = reserve(&instance, Time(9_000)).await;
    let mut next = waits(&instance);
    let committed = reservation.commit(Outcome::Success, None).now_or_never();
    assert!(committed.unwrap().is_ok());
    assert!(next.as_mut().now_or_never().is_none());
    drop(reservation);
    let turn = next.now_or_never().flatten().expect("it is next");
    assert!(instance.try_turn().is_none());
    drop(turn);
    assert!(instance.try_turn().is_some());
    assert_eq!(world.told(&instance).await, ["started", "1", "2"]);
}

/// The turn is handed to the caller that comes next. If that one goes away before it looks, what fell
/// due in between must not be forgotten.
#[tokio::test]
async fn a_turn_that_is_not_taken_up_is_free_again_and_somebody_looks_after_the_instance() {
    let instance = World::durable(timed()).instance();
    let turn = instance.try_turn().unwrap();
    let next = waits(&instance);
    drop(turn);
    // The timers find it taken.
    assert!(lock(&instance.state).armed.take().is_some());
    assert!(instance.turn_to_attend().is_none());
    drop(next);
    assert!(lock(&instance.state).armed.is_some());
    assert!(instance.turn_to_attend().is_some());
}

#[test]
fn a_call_that_does_not_wait_is_refused_for_a_call_and_not_for_a_timer() {
    let instance = World::durable(flow()).instance();
    let turn = instance.try_turn().unwrap();
    let refused = instance.turn(Busy::Refuse).now_or_never();
    assert!(refused.expect("it does not wait").is_none());
    drop(turn);
    let attended = instance.turn_to_attend().unwrap();
    let mut waits = Box::pin(instance.turn(Busy::Refuse));
    assert!(waits.as_mut().now_or_never().is_none());
    drop(attended);
    assert!(waits.now_or_never().flatten().is_some());
}

/// A record is taken over with the turn, under the lock. Seen to fail with a call that was refused
/// for it, though no other call was there.
#[test]
fn a_call_that_does_not_wait_is_not_refused_for_a_record_that_is_taken_over() {
    let instance = World::durable(flow()).instance();
    let other = Arc::clone(&instance);
    // Two threads, again and again: one of the times they meet.
    let takes_over = thread::spawn(move || {
        for _ in 0..10_000 {
            let state = lock(&other.state);
            drop(other.turn.try_acquire());
            drop(state);
        }
    });
    while !takes_over.is_finished() {
        let turn = instance.turn(Busy::Refuse).now_or_never();
        assert!(turn.flatten().is_some());
    }
    takes_over.join().unwrap();
}

#[tokio::test]
async fn a_workflow_may_say_that_calls_do_not_wait() {
    let refuses = Settings {
        busy: Busy::Refuse,
        ..Settings::default()
    };
    let flow = Workflow::builder("w")
        .settings(refuses)
        .state("a", |s| s.initial().tool("go", |t| t.success(end("a"))))
        .build()
        .unwrap();
    let instance = World::durable(flow).instance();
    let first = reserve(&instance, Time(9_000)).await;
    let call = CallFacts::new(Kind::Tool, "go");
    let second = instance.reserve(&call).await;
    assert!(matches!(second, Err(ReserveError::Busy)));
    drop(second);
    first.release(false).await.unwrap();
    assert!(instance.reserve(&call).await.is_ok());
}

#[tokio::test]
async fn what_is_overdue_happens_before_the_call() {
    for world in [World::durable(timed()), World::volatile(timed())] {
        let instance = world.instance();
        world.pass(NOW + MINUTE);
        let call = CallFacts::new(Kind::Tool, "go");
        refused(instance.reserve(&call).await);
        assert_eq!(state_of(&instance), "b");
        assert_eq!(world.told(&instance).await, ["started", "timer"]);
    }
}

/// An instance that was not looked at for long takes one step, however short the times are.
#[tokio::test]
async fn the_time_in_a_state_begins_when_it_is_entered() {
    let soon = std::time::Duration::from_millis(1);
    let flow = Workflow::builder("w")
        .state("a", |s| s.initial().after(soon, "b"))
        .state("b", |s| {
            s.after(soon, "a").tool("go", |t| t.success(end("a")))
        })
        .build()
        .unwrap();
    let world = World::durable(flow);
    let instance = world.instance();
    world.pass(NOW + MINUTE);
    let turn = instance.try_turn().unwrap();
    turn.catch_up().await.unwrap();
    let told = world.told(&instance).await;
    let timers = told.iter().filter(|one| *one == "timer").count();
    assert_eq!(timers, 1);
    assert_eq!(state_of(&instance), "b");
}

#[tokio::test]
async fn a_call_that_could_not_have_moved_anything_is_just_over() {
    let world = World::durable(ring());
    let instance = world.instance();
    let reservation = reserve(&instance, Time(5_000)).await;
    // Another definition may have bound it elsewhere.
    let running = reservation.running.as_deref().cloned().unwrap();
    drop(reservation);
    let gone = crate::record::Running {
        name: "gone".into(),
        ..running
    };
    lock(&instance.state).occupancy.lost = Some(Arc::new(gone));
    let turn = instance.try_turn().unwrap();
    turn.catch_up().await.unwrap();
    assert_eq!(state_of(&instance), "a");
    assert!(lock(&instance.state).occupancy.lost.is_none());
    assert_eq!(world.told(&instance).await, ["started"]);
}

#[tokio::test]
async fn beginning_stores_an_instance_once() {
    let world = World::durable(ring());
    let instance = world.instance();
    let turn = instance.try_turn().unwrap();
    turn.begin().await.unwrap();
    let version = lock(&instance.state).stored.version;
    assert!(version.is_some());
    turn.begin().await.unwrap();
    assert_eq!(lock(&instance.state).stored.version, version);
    drop(turn);
    // Another process that knows of no record takes over what is there.
    let other = world.instance();
    other.try_turn().unwrap().begin().await.unwrap();
    assert_eq!(lock(&other.state).stored.version, version);
    assert_eq!(world.told(&other).await, ["started"]);
}

#[tokio::test]
async fn a_step_elsewhere_is_found_by_the_next_turn_here() {
    let world = World::durable(ring());
    let [here, other] = [world.instance(), world.instance()];
    step(&here).await;
    other.find().await.unwrap();
    step(&other).await;
    // This one still believes in its own record, and loses the first attempt.
    let committed = run(&here, Outcome::Success).await;
    let names = [committed.before, committed.after].map(|at| world.flow.state_name(at.state));
    assert_eq!(names, ["a", "b"]);
    assert_eq!(world.told(&here).await, ["started", "1", "2", "3"]);
}

#[tokio::test]
async fn a_lost_call_of_this_process_is_not_taken_for_one_that_runs() {
    let world = World::volatile(flow());
    let instance = world.instance();
    get_behind(&instance).await;
    drop(reserve(&instance, Time(9_000)).await);
    let turn = instance.try_turn().unwrap();
    let caught_up = turn.catch_up().await;
    assert!(!matches!(caught_up, Err(EngineError::RunningElsewhere)));
    assert_eq!(state_of(&instance), "unclear");
    drop(turn);
    instance.write_record().await.unwrap();
    let journal = world.journal(&instance).await;
    let last = &journal.last().unwrap().what;
    assert!(matches!(last, What::Step { outcome, .. } if *outcome == Outcome::Unknown));
}
