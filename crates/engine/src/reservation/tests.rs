//! How an instance is reserved for a call, and what becomes of the reservation.

use crate::{
    instance::{CallFacts, CallInput, Instance},
    journal::What,
    lock,
    reservation::{Committed, Reserved},
    testing::{
        NOW, World, call_until, exclusive, flow, go, refused, reserve, ring, run, state_of, step,
    },
};
use interlock_proto::Time;
use interlock_workflow::{Busy, Kind, Outcome, Workflow, end, rust, to};
use serde_json::json;
use std::sync::{
    Arc, OnceLock, Weak,
    atomic::{AtomicUsize, Ordering},
};

/// A write that was given up may land all the same. The instance must not be taken for another
/// process's over it.
#[tokio::test]
async fn a_mark_that_was_given_up_and_landed_is_ours() {
    let world = World::durable(flow());
    let process = world.process();
    let [first, second] = [0, 1].map(|_| Instance::new(&process, "i".into(), None));
    std::mem::forget(reserve(&first, Time(5_000)).await);
    // The second one knows as little as an instance whose commit was given up.
    let call = call_until("go", NOW);
    refused(second.reserve(&call).await);
    assert_eq!(state_of(&second), "unclear");
}

/// Between the judgement of a call and its reservation, a look for the instance may find what another
/// process has written. Seen to fail with a reservation of the instance as it is then.
#[tokio::test]
async fn a_call_is_marked_only_on_the_instance_that_it_was_judged_on() {
    for world in [World::durable(flow()), World::volatile(flow())] {
        let here = world.instance();
        let turn = here.turn(Busy::Wait).await.unwrap();
        let judged = turn.catch_up().await.unwrap();
        let call = call_until("go", NOW);
        let binding = go(&world.flow, &judged).unwrap();
        let other = world.instance();
        run(&other, Outcome::Unknown).await;
        other.write_record().await.unwrap();
        here.find().await.unwrap();
        let marked = turn
            .mark(&judged, binding, (&call, Time(0)), None)
            .await
            .unwrap();
        assert!(marked.is_err(), "the turn comes back");
        assert_eq!(state_of(&here), "unclear");
    }
}

/// A workflow whose guards count how often they run. `go` has a guard, and so has each of its edges.
struct Counted {
    world: World,
    guards: Arc<AtomicUsize>,
    results: Arc<AtomicUsize>,
    /// The guards look whether the instance is locked: they are foreign code.
    instance: Arc<OnceLock<Weak<Instance>>>,
}

impl Counted {
    fn new(place: fn(Workflow) -> World) -> Self {
        let (guards, results) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let instance = Arc::<OnceLock<Weak<Instance>>>::default();
        let count = |count: &Arc<AtomicUsize>| {
            let (count, instance) = (Arc::clone(count), Arc::clone(&instance));
            move || {
                count.fetch_add(1, Ordering::Relaxed);
                let instance = instance.get().and_then(Weak::upgrade).unwrap();
                assert!(instance.state.try_lock().is_ok(), "guards are foreign code");
                assert!(
                    instance.writer.try_lock().is_ok(),
                    "guards are foreign code"
                );
            }
        };
        let (guard, result) = (count(&guards), count(&results));
        let guard = rust("guard", move |_| {
            guard();
            true
        });
        let result = rust("result", move |facts| {
            result();
            facts.result.is_some()
        });
        let flow = Workflow::builder("w")
            .state("a", |s| {
                s.initial().tool("go", |t| {
                    t.when(guard)
                        .success(to("a").when(result).set("n", "1"))
                        .success("b")
                        .error("b")
                })
            })
            .state("b", |s| s.tool("end", |t| t.success(end("a"))))
            .build()
            .unwrap();
        Self {
            world: place(flow),
            guards,
            results,
            instance,
        }
    }

    fn start(&self) -> Arc<Instance> {
        let instance = self.world.instance();
        self.instance.set(Arc::downgrade(&instance)).unwrap();
        instance
    }

    /// How often guards of bindings and of edges have run since the last look.
    fn taken(&self) -> [usize; 2] {
        [&self.guards, &self.results].map(|count| count.swap(0, Ordering::Relaxed))
    }
}

fn call(input: &Arc<CallInput>) -> CallFacts<'_> {
    CallFacts {
        input: Some(input),
        ..CallFacts::new(Kind::Tool, "go")
    }
}

#[tokio::test]
async fn a_guard_runs_once_before_the_reservation_and_once_on_the_reserved_state() {
    let input = Arc::<CallInput>::default();
    for place in [World::durable, World::volatile] {
        let counted = Counted::new(place);
        let instance = counted.start();
        // The first call stores the instance, the second need not.
        for _ in 0..2 {
            let call = call(&input);
            assert!(instance.admit(&call).is_ok());
            assert_eq!(counted.taken(), [1, 0]);
            let mut reservation = exclusive(instance.reserve(&call).await);
            assert_eq!(counted.taken(), [1, 0]);
            let result = json!({});
            let committed = reservation.commit(Outcome::Success, Some(&result)).await;
            committed.unwrap();
            assert_eq!(counted.taken(), [0, 1]);
        }
    }
}

#[tokio::test]
async fn a_guard_runs_as_often_for_a_call_that_waits_for_its_turn() {
    let input = Arc::<CallInput>::default();
    for place in [World::durable, World::volatile] {
        let counted = Counted::new(place);
        let instance = counted.start();
        let call = call(&input);
        let mut first = exclusive(instance.reserve(&call).await);
        assert_eq!(counted.taken(), [1, 0]);
        assert!(instance.admit(&call).is_ok());
        let mut second = Box::pin(instance.reserve(&call));
        assert!(futures_util::poll!(&mut second).is_pending());
        assert_eq!(counted.taken(), [1, 0], "it is not judged while it waits");
        let result = json!({});
        first.commit(Outcome::Success, Some(&result)).await.unwrap();
        drop(first);
        assert_eq!(counted.taken(), [0, 1]);
        let mut second = exclusive(second.await);
        assert_eq!(counted.taken(), [1, 0]);
        second
            .commit(Outcome::Success, Some(&result))
            .await
            .unwrap();
        assert_eq!(counted.taken(), [0, 1]);
    }
}

#[tokio::test]
async fn a_call_is_judged_anew_after_a_conflict() {
    let counted = Counted::new(World::durable);
    let here = counted.start();
    let input = Arc::<CallInput>::default();
    let call = call(&input);
    let other = counted.world.instance();
    other.try_turn().unwrap().begin().await.unwrap();
    let reserved = here.reserve(&call).await;
    assert!(matches!(reserved, Ok(Reserved::Exclusive(_))));
    assert_eq!(
        counted.taken(),
        [2, 0],
        "on what was known, and on what was found"
    );
}

/// Known bindings spare a look-up by name, and not the judgement.
#[tokio::test]
async fn a_known_binding_is_judged_where_the_instance_stands() {
    let world = World::volatile(ring());
    let instance = world.instance();
    let known = go(&world.flow, &instance.run()).unwrap().id();
    let call = CallFacts {
        binding: Some(known),
        ..CallFacts::new(Kind::Tool, "go")
    };
    step(&instance).await;
    let reservation = exclusive(instance.reserve(&call).await);
    let bound = reservation.binding().unwrap();
    assert_ne!(bound.id(), known);
    assert_eq!(world.flow.state_name(bound.state()), "b");
}

#[tokio::test]
async fn a_call_that_cannot_move_the_instance_runs_beside_others() {
    let flow = Workflow::builder("w")
        .always_tool("help")
        .state("a", |s| {
            s.initial()
                .tool("look", |t| t.success("a"))
                .tool("go", |t| t.success(end("a")))
        })
        .build()
        .unwrap();
    let world = World::volatile(flow);
    let instance = world.instance();
    for (name, is_bound) in [("help", false), ("look", true)] {
        let call = CallFacts::new(Kind::Tool, name);
        match instance.reserve(&call).await {
            Ok(Reserved::Beside(binding)) => assert_eq!(binding.is_some(), is_bound),
            Ok(_) | Err(_) => panic!("{name} runs beside others"),
        }
        assert!(instance.try_turn().is_some(), "the turn is given back");
    }
}

#[tokio::test]
async fn a_released_call_never_ran_and_a_paused_one_says_so() {
    for world in [World::durable(flow()), World::volatile(flow())] {
        let instance = world.instance();
        for has_paused in [false, true] {
            let reservation = reserve(&instance, Time(9_000)).await;
            reservation.release(has_paused).await.unwrap();
            assert_eq!(state_of(&instance), "a");
        }
        assert_eq!(world.told(&instance).await, ["started", "paused"]);
        let journal = world.journal(&instance).await;
        assert_eq!(journal.last().unwrap().call, Some(2));
    }
}

#[tokio::test]
async fn a_reservation_commits_once() {
    let world = World::durable(ring());
    let instance = world.instance();
    let mut reservation = reserve(&instance, Time(9_000)).await;
    let first = reservation.commit(Outcome::Success, None).await.unwrap();
    assert_ne!(first.before, first.after);
    let second = reservation.commit(Outcome::Success, None).await.unwrap();
    assert_eq!((second.before, second.after), (first.after, first.after));
    drop(reservation);
    assert!(lock(&instance.state).occupancy.lost.is_none());
    assert_eq!(world.told(&instance).await, ["started", "1"]);
}

/// The step of a plain edge is the same in memory and in the store.
#[tokio::test]
async fn a_plain_step_is_the_same_in_memory_and_in_the_store() {
    let places = [World::durable(ring()), World::volatile(ring())];
    let mut found = Vec::new();
    for world in &places {
        let instance = world.instance();
        step(&instance).await;
        let Committed { before, after, .. } = run(&instance, Outcome::Success).await;
        instance.write_record().await.unwrap();
        let journal = world.journal(&instance).await;
        let (run, calls) = (instance.run(), lock(&instance.state).calls);
        found.push((before, after, journal, run, calls));
    }
    assert_eq!(found[0], found[1]);
}

#[tokio::test]
async fn what_a_call_was_made_with_comes_to_its_guards_and_its_journal() {
    let flow = Workflow::builder("w")
        .state("a", |s| {
            s.initial().tool("go", |t| {
                t.when("args.amount <= 5")
                    .success(to("b").set("by", "principal.id"))
            })
        })
        .state("b", |s| s.tool("end", |t| t.success(end("a"))))
        .build()
        .unwrap();
    let world = World::volatile(flow);
    let instance = world.instance();
    let made = |amount: u32| {
        Arc::new(CallInput {
            args: json!({ "amount": amount }),
            principal: json!({ "id": "alice" }),
        })
    };
    let (too_much, fine) = (made(6), made(5));
    refused(instance.reserve(&call(&too_much)).await);
    let mut reservation = exclusive(instance.reserve(&call(&fine)).await);
    reservation.commit(Outcome::Success, None).await.unwrap();
    drop(reservation);
    assert_eq!(instance.run().memory()["by"], "alice");
    instance.write_journal().await.unwrap();
    let journal = world.journal(&instance).await;
    let What::Step { trace, .. } = &journal.last().unwrap().what else {
        panic!("it took a step");
    };
    assert_eq!(trace.set["by"], "alice");
}
