//! How instances are kept, without a server around them.

mod journal;

use super::*;
use crate::instance::{Alarms, Brief, Judged, Marked, Moved, Turn};
use futures_util::FutureExt;
use interlock_store::{Key, MemoryStore};
use interlock_workflow::{Binding, Kind, Outcome, Pass, Workflow, end};

const NOW: Time = Time(1_000);

fn flow() -> Workflow {
    Workflow::builder("w")
        .state("a", |s| {
            s.initial()
                .tool("go", |t| t.success(end("a")).unknown("unclear"))
        })
        .state("unclear", |s| s.tool("end", |t| t.success(end("a"))))
        .build()
        .unwrap()
}

/// Every call of `go` leads on, and nothing has to be worked out for that.
fn ring() -> Workflow {
    Workflow::builder("ring")
        .state("a", |s| s.initial().tool("go", |t| t.success("b")))
        .state("b", |s| {
            s.tool("go", |t| t.success("a"))
                .tool("end", |t| t.success(end("a")))
        })
        .build()
        .unwrap()
}

fn books<'a>(store: &'a MemoryStore, workflow: &'a Workflow, now: Time) -> Books<'a> {
    Books {
        store,
        workflow,
        now,
        journal_limit: Some(10),
        effects: None,
    }
}

fn instance(workflow: &Workflow) -> Arc<Instance> {
    Instance::new("i", workflow, &Arc::<Alarms>::default(), NOW)
}

async fn begin(instance: &Arc<Instance>, books: Books<'_>, until: Time) -> Turn {
    let held = Arc::clone(instance).turn(Busy::Wait).await.unwrap();
    let run = held.catch_up(books).await.unwrap();
    let Ok(Pass::Bound(binding)) = books.workflow.admit(run.position(), Kind::Tool, "go") else {
        panic!("it is not bound");
    };
    match held
        .mark(books, (run, binding), (None, None), until)
        .await
        .unwrap()
    {
        Marked::Yes(turn) => turn,
        Marked::Stale(_) => panic!("nobody else is here"),
    }
}

fn state(instance: &Instance, workflow: &Workflow) -> String {
    workflow.state_name(instance.position().state).to_owned()
}

#[tokio::test]
async fn a_journal_is_kept_within_its_limit_whatever_fills_it() {
    let (store, flow) = (MemoryStore::default(), flow());
    let (books, instance) = (books(&store, &flow, NOW), instance(&flow));
    for _ in 0..100 {
        for _ in 0..20 {
            instance.refused(NOW, Kind::Tool, "end", (1081, "no"));
        }
        instance.write_untold(&books).await.unwrap();
        let mut turn = begin(&instance, books, NOW).await;
        turn.commit(books, Outcome::Success, None, None)
            .await
            .unwrap();
    }
    let key = Key::new(super::super::KIND, "i").unwrap();
    let journal = store.journal(&key, Seq::START, 10_000).await.unwrap();
    assert!(journal.len() <= 10 + 256, "{}", journal.len());
    let last = journal.last().unwrap().seq;
    assert_eq!(last, Seq(1 + 100 * 21), "every entry was counted");
}

/// A process that dies leaves "running call N" behind, and nobody can tell whether it lives.
#[tokio::test]
async fn a_call_of_a_process_that_died_is_unknown_once_its_time_is_over() {
    let (store, flow) = (MemoryStore::default(), flow());
    let until = Time(5_000);
    let turn = begin(&instance(&flow), books(&store, &flow, NOW), until).await;
    std::mem::forget(turn);

    let other = instance(&flow);
    other.find(books(&store, &flow, NOW)).await.unwrap();
    let early = books(&store, &flow, Time(4_999));
    let held = Arc::clone(&other).turn(Busy::Wait).await.unwrap();
    let refused = held.catch_up(early).await;
    assert!(matches!(refused, Err(KeepError::RunningElsewhere)));
    assert_eq!(state(&other, &flow), "a");
    held.catch_up(books(&store, &flow, until)).await.unwrap();
    assert_eq!(state(&other, &flow), "unclear");
}

#[tokio::test]
async fn a_call_that_ended_elsewhere_leaves_the_instance_free() {
    let (store, flow) = (MemoryStore::default(), flow());
    let all = books(&store, &flow, NOW);
    let mut turn = begin(&instance(&flow), all, Time(5_000)).await;
    let other = instance(&flow);
    other.find(all).await.unwrap();
    turn.commit(all, Outcome::Unknown, None, None)
        .await
        .unwrap();
    let held = Arc::clone(&other).turn(Busy::Wait).await.unwrap();
    held.catch_up(all).await.unwrap();
    assert_eq!(state(&other, &flow), "unclear");
}

/// Whoever gives up a commit cannot know whether it lands. The instance must not be taken for
/// somebody else's over it.
#[tokio::test]
async fn a_mark_that_was_given_up_and_landed_is_ours() {
    let (store, flow) = (MemoryStore::default(), flow());
    let alarms = Arc::<Alarms>::default();
    let all = books(&store, &flow, NOW);
    let first = Instance::new("i", &flow, &alarms, NOW);
    std::mem::forget(begin(&first, all, Time(5_000)).await);
    // It knows as little as one whose commit was given up.
    let second = Instance::new("i", &flow, &alarms, NOW);
    let held = Arc::clone(&second).turn(Busy::Wait).await.unwrap();
    let run = held.catch_up(all).await.unwrap();
    let Ok(Pass::Bound(go)) = flow.admit(run.position(), Kind::Tool, "go") else {
        panic!("it is not bound");
    };
    let marked = held.mark(all, (run, go), (None, None), NOW).await;
    let Marked::Stale(held) = marked.unwrap() else {
        panic!("there was a record");
    };
    held.catch_up(all).await.unwrap();
    assert_eq!(state(&second, &flow), "unclear");
}

#[tokio::test]
async fn a_step_that_nobody_waits_for_is_unknown() {
    let (store, flow) = (MemoryStore::default(), flow());
    let (all, instance) = (books(&store, &flow, NOW), instance(&flow));
    let mut turn = begin(&instance, all, NOW).await;
    let pen = Grip::take(&instance.pen).await;
    let mut commit = Box::pin(turn.commit(all, Outcome::Success, None, None));
    assert!(futures_util::poll!(&mut commit).is_pending());
    drop(commit);
    drop(turn);
    drop(pen);
    let held = Arc::clone(&instance).turn(Busy::Wait).await.unwrap();
    held.catch_up(all).await.unwrap();
    assert_eq!(state(&instance, &flow), "unclear");
}

/// Whoever looks for an instance that somebody is just writing must not forget what was written.
#[tokio::test]
async fn looking_for_an_instance_while_it_is_written_forgets_nothing() {
    let (store, flow) = (MemoryStore::default(), flow());
    let (all, instance) = (books(&store, &flow, NOW), instance(&flow));
    let mut turn = begin(&instance, all, NOW).await;
    instance.find(all).await.unwrap();
    assert!(lock(&instance.seen).elsewhere.is_none());
    let moved = turn
        .commit(all, Outcome::Unknown, None, None)
        .await
        .unwrap();
    assert!(moved.is_some());
    assert_eq!(state(&instance, &flow), "unclear");
}

/// Between the judgement of a call and its mark, somebody may look for the instance and find what
/// another server has written. Seen to fail with a mark of the instance as it is then.
#[tokio::test]
async fn a_call_is_marked_only_on_the_instance_that_it_was_judged_on() {
    for (at_once, is_ours) in [(false, false), (true, false), (true, true)] {
        let (store, flow) = (MemoryStore::default(), flow());
        let all = Books {
            journal_limit: is_ours.then_some(10),
            ..books(&store, &flow, NOW)
        };
        let here = instance(&flow);
        let held = here.turn_at_once().unwrap();
        let judged = held.judge_at_once(&all, |run| {
            assert!(here.seen.try_lock().is_ok(), "guards are anybody's code");
            go(&flow, run)
        });
        let judged = judged.unwrap();
        let mut turn = begin(&instance(&flow), all, NOW).await;
        turn.commit(all, Outcome::Unknown, None, None)
            .await
            .unwrap();
        here.find(all).await.unwrap();
        let held = if at_once {
            match is_ours {
                true => held.begin_at_once(&all, &judged, NOW).err(),
                false => held.mark_at_once(&all, &judged, None, NOW).err(),
            }
        } else {
            let judged = (judged.on.unwrap(), judged.binding);
            match held.mark(all, judged, (None, None), NOW).await.unwrap() {
                Marked::Stale(held) => Some(held),
                Marked::Yes(_) => None,
            }
        };
        assert!(held.is_some(), "at once: {at_once}, ours: {is_ours}");
        assert_eq!(state(&here, &flow), "unclear");
    }
}

/// A call that begins at once, as one of a session does that has no store but the server's own.
fn begin_at_once(instance: &Arc<Instance>, books: Books<'_>) -> Brief {
    let held = instance.turn_at_once().unwrap();
    let judged = Judged::sure(go(books.workflow, &instance.run()).unwrap());
    held.begin_at_once(&books, &judged, Time(9_000))
        .ok()
        .unwrap()
}

/// How such a call ends, if nobody has to wait for that.
fn end_at_once(brief: Brief, books: &Books<'_>, outcome: Outcome) -> Option<Moved> {
    match brief.commit(books, outcome) {
        Ok(moved) => Some(moved),
        Err(brief) => {
            let mut turn = brief.into_turn(books.workflow, None);
            let committed = turn.commit_at_once(books, outcome, None)?;
            Some(committed.unwrap())
        }
    }
}

fn go<'w>(workflow: &'w Workflow, run: &Run) -> Option<&'w Binding> {
    match workflow.admit(run.position(), Kind::Tool, "go") {
        Ok(Pass::Bound(binding)) => Some(binding),
        Ok(Pass::Always) | Err(_) => None,
    }
}

/// Another server may move an instance while a call of it runs here. The step is taken of the
/// instance as it is then. Seen to fail with a step of the instance as it was when the call began.
#[tokio::test]
async fn a_call_that_ends_at_once_moves_the_instance_as_it_is() {
    for (outcome, ends) in [(Outcome::Success, true), (Outcome::Unknown, false)] {
        let (store, flow) = (MemoryStore::default(), flow());
        let (all, here) = (books(&store, &flow, NOW), instance(&flow));
        let brief = begin_at_once(&here, all);
        let mut other = begin(&instance(&flow), all, NOW).await;
        other.commit(all, outcome, None, None).await.unwrap();
        here.find(all).await.unwrap();
        // It is not bound where the other one came to, or it is again.
        let ended = end_at_once(brief, &all, Outcome::Success);
        assert_eq!(ended.is_some(), ends);
    }
}

/// What is shown without the lock is what is known under it.
#[tokio::test]
async fn what_is_shown_is_what_is_known() {
    let (store, flow) = (MemoryStore::default(), flow());
    let (all, here) = (books(&store, &flow, NOW), instance(&flow));
    for outcome in [Outcome::Success, Outcome::Error, Outcome::Unknown] {
        let brief = begin_at_once(&here, all);
        let after = end_at_once(brief, &all, outcome).unwrap().after;
        assert_eq!((here.position(), here.run().position()), (after, after));
    }
    assert_eq!(state(&here, &flow), "unclear");
}

/// Of a call that may have taken effect the model is told once, whoever found out.
#[tokio::test]
async fn what_is_unclear_is_told_once() {
    let flow = Workflow::builder("w")
        .state("a", |s| s.initial().tool("go", |t| t.success(end("a"))))
        .build()
        .unwrap();
    let store = MemoryStore::default();
    let (all, here) = (books(&store, &flow, NOW), instance(&flow));
    assert_eq!(here.tell_unclear(), None);
    let brief = begin_at_once(&here, all);
    assert!(end_at_once(brief, &all, Outcome::Unknown).is_some());
    let other = instance(&flow);
    other.find(all).await.unwrap();
    for one in [here, other] {
        assert!(one.tell_unclear().is_some());
        assert_eq!(one.tell_unclear(), None);
    }
}

/// Two steps: the first is written, and the record of the second is to follow.
fn get_behind(instance: &Arc<Instance>, books: Books<'_>) {
    for _ in 0..2 {
        step(instance, &books);
    }
    assert!(lock(&instance.seen).is_behind);
}

/// Seen to fail with a record that is written after its end: operators were told of a conflict.
#[tokio::test]
async fn what_has_ended_is_not_written_again() {
    let (store, flow) = (MemoryStore::default(), flow());
    let (books, instance) = (books(&store, &flow, NOW), instance(&flow));
    get_behind(&instance, books);
    instance.end(books).await.unwrap();
    instance.write_record(&books).await.unwrap();
    let found = store.load(&instance.key, time(NOW)).await.unwrap();
    assert_eq!(found, None);
}

/// Seen to fail with a record that is taken for a step, and with a version that is taken for
/// somebody else's.
#[tokio::test]
async fn a_call_that_is_lost_stays_lost_whenever_the_record_follows() {
    for writes_first in [true, false] {
        let (store, flow) = (MemoryStore::default(), flow());
        let (books, instance) = (books(&store, &flow, NOW), instance(&flow));
        get_behind(&instance, books);
        let turn = begin_at_once(&instance, books).into_turn(&flow, None);
        if writes_first {
            instance.write_record(&books).await.unwrap();
            drop(turn);
        } else {
            drop(turn);
            instance.write_record(&books).await.unwrap();
        }
        let held = Arc::clone(&instance).turn(Busy::Wait).await.unwrap();
        held.catch_up(books).await.unwrap();
        assert_eq!(state(&instance, &flow), "unclear", "{writes_first}");
    }
}

/// What the journal says, as somebody finds it who looks: the calls that ended, by number, and
/// everything else in words.
async fn told(instance: &Instance, books: &Books<'_>) -> Vec<String> {
    instance.write_untold(books).await.unwrap();
    let journal = books.store.journal(&instance.key, Seq::START, 1_000);
    let journal = journal.await.unwrap();
    let entries = journal.iter().map(|logged| {
        let entry: serde_json::Value = serde_json::from_slice(&logged.bytes).unwrap();
        match entry["what"].as_str().unwrap() {
            "step" => entry["call"].to_string(),
            "left_out" => format!("{} left out", entry["entries"]),
            other => other.to_owned(),
        }
    });
    entries.collect()
}

fn step(instance: &Arc<Instance>, books: &Books<'_>) {
    let brief = begin_at_once(instance, *books);
    end_at_once(brief, books, Outcome::Success).unwrap();
}

#[tokio::test]
async fn nothing_is_written_at_once_while_somebody_has_the_pen() {
    let (store, flow) = (MemoryStore::default(), flow());
    let (books, instance) = (books(&store, &flow, NOW), instance(&flow));
    get_behind(&instance, books);
    let end = Outcome::Success;
    let brief = begin_at_once(&instance, books);
    let pen = Grip::take(&instance.pen).await;
    let brief = brief.commit(&books, end).unwrap_err();
    let mut turn = brief.into_turn(&flow, None);
    assert!(turn.commit_at_once(&books, end, None).is_none());
    drop(pen);
    assert_eq!(told(&instance, &books).await, ["started", "1", "2"]);
    let committed = turn.commit_at_once(&books, end, None);
    assert!(committed.unwrap().is_ok());
    assert_eq!(told(&instance, &books).await, ["started", "1", "2", "3"]);
}

/// What a handler sees of an instance is what it was when it looked, however long it keeps that.
#[tokio::test]
async fn a_run_that_somebody_has_is_not_written_over() {
    let (store, flow) = (MemoryStore::default(), ring());
    let (books, instance) = (books(&store, &flow, NOW), instance(&flow));
    let mut kept = Vec::new();
    for now in 2_000..2_010 {
        let books = Books {
            now: Time(now),
            ..books
        };
        let brief = begin_at_once(&instance, books);
        // Those that nobody keeps are written over in between.
        if now % 3 == 0 {
            let seen = instance.run();
            kept.push((Arc::clone(&seen), (*seen).clone()));
        }
        let before = instance.position();
        let moved = end_at_once(brief, &books, Outcome::Success).unwrap();
        assert_eq!((moved.before, moved.after), (before, instance.position()));
        assert_ne!(moved.before, moved.after);
        assert!(kept.iter().all(|(seen, was)| **seen == *was));
    }
    assert_eq!(kept.len(), 3);
}

/// A call whose step is plain ends with the same look by which its turn is given back. Seen to fail
/// with one that is kept.
#[tokio::test]
async fn a_turn_is_given_back_with_the_step() {
    let (store, flow) = (MemoryStore::default(), ring());
    let (books, instance) = (books(&store, &flow, NOW), instance(&flow));
    // The first step is written down.
    step(&instance, &books);
    let brief = begin_at_once(&instance, books);
    let mut next = Box::pin(Arc::clone(&instance).turn(Busy::Wait));
    assert!(next.as_mut().now_or_never().is_none());
    assert!(brief.commit(&books, Outcome::Success).is_ok());
    let held = next.now_or_never().flatten().expect("it is next");
    assert!(instance.turn_at_once().is_none());
    drop(held);
    assert!(instance.turn_at_once().is_some());
    assert_eq!(told(&instance, &books).await, ["started", "1", "2"]);
}

/// The turn is handed to whoever comes next. If that one goes away before it looks, what fell due in
/// between must not be forgotten.
#[tokio::test]
async fn a_turn_that_is_not_taken_up_is_free_again_and_somebody_looks_after_the_instance() {
    let minute = std::time::Duration::from_secs(60);
    let flow = Workflow::builder("w")
        .state("a", |s| {
            s.initial()
                .tool("go", |t| t.success("b"))
                .after(minute, "b")
        })
        .state("b", |s| s.tool("end", |t| t.success(end("a"))))
        .build()
        .unwrap();
    let instance = instance(&flow);
    let held = instance.turn_at_once().unwrap();
    let mut next = Box::pin(Arc::clone(&instance).turn(Busy::Wait));
    assert!(next.as_mut().now_or_never().is_none());
    drop(held);
    // Whoever looks after it finds it taken.
    assert!(lock(&instance.seen).armed.take().is_some());
    assert!(instance.turn_to_attend().is_none());
    drop(next);
    assert!(lock(&instance.seen).armed.is_some());
    assert!(instance.turn_to_attend().is_some());
}
