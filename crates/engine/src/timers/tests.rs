//! When instances are looked after.

use crate::{
    engine::{Engine, Shared},
    lock,
    principal::Principal,
    testing::{MINUTE, NOW, World, flow, refuse, reserve, state_of, timed},
    timers::{AT_ONCE, PAUSE, Queue, Work},
};
use interlock_proto::Time;
use std::sync::{Arc, Weak};

fn queue(times: &[(u64, u64)]) -> Queue {
    let mut queue = Queue::default();
    for (at, number) in times {
        queue.times.insert(*number, *at);
        queue.due.insert((*at, *number), Weak::new());
    }
    queue
}

#[test]
fn the_next_time_is_the_earliest_of_instances_and_of_the_sweep() {
    assert_eq!(Queue::default().next(), None);
    let mut queue = queue(&[(30, 1), (20, 2)]);
    assert_eq!(queue.next(), Some(Time(20)));
    queue.sweep = Some(10);
    assert_eq!(queue.next(), Some(Time(10)));
    queue.sweep = Some(40);
    assert_eq!(queue.next(), Some(Time(20)));
    queue.clear(2);
    assert_eq!(queue.next(), Some(Time(30)));
    queue.clear(2);
    queue.clear(1);
    assert_eq!(queue.next(), Some(Time(40)));
    assert!(queue.times.is_empty());
}

#[test]
fn what_is_due_is_taken_in_order_and_no_more_than_there_is_room_for() {
    let world = World::durable(flow());
    let instances: Vec<_> = (0..3).map(|_| world.instance()).collect();
    let mut queue = Queue {
        sweep: Some(15),
        ..Queue::default()
    };
    for (number, instance) in (0..).zip(&instances) {
        let at = 30 - 10 * number;
        queue.times.insert(number, at);
        queue.due.insert((at, number), Arc::downgrade(instance));
    }
    let mut take = |now: u64, most: usize| {
        let work = queue.take(Time(now), most);
        let words = work.iter().map(|one| match one {
            Work::Sweep => "sweep".to_owned(),
            Work::Instance(one) => {
                let is_it = |other: &&Arc<_>| one.as_ptr() == Arc::as_ptr(other);
                instances
                    .iter()
                    .position(|other| is_it(&other))
                    .unwrap()
                    .to_string()
            }
        });
        words.collect::<Vec<_>>()
    };
    assert!(take(9, 8).is_empty());
    assert!(take(15, 0).is_empty(), "there is no room");
    assert_eq!(take(15, 1), ["sweep"]);
    assert_eq!(take(19, 8), ["2"]);
    assert_eq!(take(30, 1), ["1"]);
    assert_eq!(take(29, 8), Vec::<String>::new());
    assert_eq!(take(30, 8), ["0"]);
    assert!(queue.times.is_empty() && queue.due.is_empty());
}

#[test]
fn an_instance_that_is_gone_is_no_work() {
    let mut queue = queue(&[(10, 1), (20, 2)]);
    assert!(queue.take(Time(20), 8).is_empty());
    assert!(queue.due.is_empty() && queue.times.is_empty());
}

fn set(shared: &Shared) -> Vec<u64> {
    let queue = lock(&shared.timers.queue);
    assert_eq!(queue.due.len(), queue.times.len());
    queue.due.keys().map(|(at, _)| *at).collect()
}

#[tokio::test]
async fn an_instance_is_in_the_queue_once_and_leaves_it_when_it_is_dropped() {
    let world = World::durable(timed());
    let instance = world.instance();
    let shared = Arc::clone(&instance.shared);
    let due = NOW.0 + 60_000;
    instance.find().await.unwrap();
    assert_eq!(set(&shared), [due]);
    instance.find().await.unwrap();
    assert_eq!(set(&shared), [due]);
    refuse(&instance);
    assert_eq!(set(&shared), [0], "entries wait");
    instance.write_journal().await.unwrap();
    instance.arm();
    assert_eq!(set(&shared), [due]);
    drop(instance);
    assert!(set(&shared).is_empty());
}

#[tokio::test]
async fn a_lost_call_is_looked_after_at_once() {
    let world = World::durable(timed());
    let instance = world.instance();
    drop(reserve(&instance, Time(9_000)).await);
    assert_eq!(set(&instance.shared), [0]);
    Arc::clone(&instance).attend().await;
    assert!(lock(&instance.state).occupancy.lost.is_none());
    assert_eq!(set(&instance.shared), [NOW.0 + 60_000]);
}

#[tokio::test]
async fn a_call_of_another_process_is_looked_after_when_its_time_is_over() {
    let world = World::durable(timed());
    std::mem::forget(reserve(&world.instance(), Time(5_000)).await);
    let other = world.instance();
    other.find().await.unwrap();
    assert_eq!(set(&other.shared), [5_000]);
}

#[tokio::test]
async fn an_instance_that_a_call_has_is_looked_after_when_the_call_is_over() {
    let world = World::durable(timed());
    let instance = world.instance();
    let reservation = reserve(&instance, Time(90_000)).await;
    world.pass(NOW + MINUTE);
    Arc::clone(&instance).attend().await;
    assert!(
        set(&instance.shared).is_empty(),
        "it is not tried again and again"
    );
    assert_eq!(state_of(&instance), "a");
    reservation.release(false).await.unwrap();
    assert_eq!(set(&instance.shared), [NOW.0 + 60_000]);
    Arc::clone(&instance).attend().await;
    assert_eq!(state_of(&instance), "b");
}

#[tokio::test]
async fn an_instance_that_cannot_be_looked_after_is_tried_again_after_a_pause() {
    let world = World::durable(timed());
    let instance = world.instance();
    instance.find().await.unwrap();
    let turn = instance.turn_to_attend().unwrap();
    let again = NOW.0 + PAUSE;
    turn.give_up(again);
    assert_eq!(set(&instance.shared), [again]);
    assert!(instance.try_turn().is_some());
}

#[tokio::test]
async fn what_has_ended_is_not_looked_after() {
    let world = World::durable(timed());
    let instance = world.instance();
    instance.find().await.unwrap();
    instance.end().await.unwrap();
    world.pass(NOW + MINUTE);
    Arc::clone(&instance).attend().await;
    assert_eq!(state_of(&instance), "a");
    assert_eq!(world.told(&instance).await, ["started", "ended"]);
}

#[test]
fn there_is_room_for_many_at_once() {
    let times: Vec<_> = (0..100).map(|number| (number, number)).collect();
    let world = World::durable(flow());
    let instance = world.instance();
    let mut queue = queue(&times);
    for one in queue.due.values_mut() {
        *one = Arc::downgrade(&instance);
    }
    assert_eq!(queue.take(Time(1_000), AT_ONCE).len(), AT_ONCE);
    assert_eq!(queue.due.len(), 100 - AT_ONCE);
}

#[test]
fn every_instance_has_a_number_of_its_own() {
    let process = World::durable(flow()).process();
    let numbers = [(); 3].map(|()| process.timers.number());
    assert_eq!(numbers, [0, 1, 2]);
}

/// An engine that is dropped on one runtime and used on another has timers there.
#[test]
fn timers_start_again_on_another_runtime() {
    let world = World::durable(timed());
    let engine = Engine::builder(world.flow.clone())
        .store(world.store.clone())
        .clock(world.clock.clone())
        .build();
    let instance = engine.connect(&Principal::anonymous()).unwrap().unwrap();
    let is_running = || lock(&instance.shared.timers.queue).runs;
    for _ in 0..2 {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let runtime = runtime.unwrap();
        runtime.block_on(async {
            refuse(&instance);
            assert!(is_running());
            tokio::task::yield_now().await;
        });
        drop(runtime);
        assert!(!is_running());
    }
}
