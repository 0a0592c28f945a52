//! What the journals of instances say, and how long they are.

use crate::{
    instance::{Instance, KIND},
    journal::{
        self, Entry, What,
        unstored::{MOST_NOTES, MOST_REFUSALS},
    },
    lock,
    testing::{MINUTE, NOW, World, flow, get_behind, ran, refuse, reserve, ring, step},
};
use interlock_proto::Time;
use interlock_store::{Seq, Store};
use interlock_workflow::{Kind, Outcome, Workflow, end};
use std::ops::RangeInclusive;

#[tokio::test]
async fn what_was_refused_before_a_move_at_once_stands_before_it_in_the_journal() {
    let world = World::volatile(flow());
    let instance = world.instance();
    get_behind(&instance).await;
    refuse(&instance);
    step(&instance).await;
    refuse(&instance);
    let wanted = ["started", "1", "2", "refused", "3", "refused"];
    assert_eq!(world.told(&instance).await, wanted);
    // Whoever looks twice finds the same.
    assert_eq!(world.told(&instance).await, wanted);
}

/// Seen to fail with a journal whose older half stays: replaying it would go wrong.
#[tokio::test]
async fn a_journal_that_was_cut_in_memory_has_no_gap() {
    for looks_before in [true, false] {
        let world = World::volatile(flow());
        let instance = world.instance();
        get_behind(&instance).await;
        if looks_before {
            assert_eq!(world.told(&instance).await, ["started", "1", "2"]);
        }
        for _ in 0..25 {
            step(&instance).await;
        }
        let left_out = if looks_before { 15 } else { 17 };
        let wanted = cut(left_out, 18..=27);
        assert_eq!(world.told(&instance).await, wanted, "{looks_before}");
        step(&instance).await;
        assert_eq!(world.told(&instance).await.last().unwrap(), "28");
    }
}

/// An instance that comes back knows less of what is stored than the store does.
#[tokio::test]
async fn a_journal_that_was_cut_has_no_gap_though_its_instance_came_back() {
    let world = World::volatile(ring());
    let first = world.instance();
    refuse(&first);
    assert_eq!(world.told(&first).await, ["started", "refused"]);
    drop(first);
    let back = world.instance();
    back.find().await.unwrap();
    refuse(&back);
    let wanted = ["started", "refused", "refused"];
    assert_eq!(world.told(&back).await, wanted, "it is one journal");
    for _ in 0..25 {
        step(&back).await;
    }
    assert_eq!(world.told(&back).await, cut(15, 16..=25));
}

/// What a journal says whose older part was dropped.
fn cut(left_out: u64, calls: RangeInclusive<u64>) -> Vec<String> {
    let calls = calls.map(|call| call.to_string());
    std::iter::once(format!("{left_out} left out"))
        .chain(calls)
        .collect()
}

/// Entries that are kept in memory until an operator reads them must not go with a reader that gives
/// up.
#[tokio::test]
async fn entries_stay_until_they_are_stored() {
    let world = World::volatile(ring());
    let instance = world.instance();
    for _ in 0..3 {
        step(&instance).await;
    }
    refuse(&instance);
    // A write begins, and is dropped before the store has answered.
    let writer = instance.writer.lock().await;
    let draft = instance.draft(&mut lock(&instance.state));
    // The beginning was stored with the first reservation.
    assert_eq!(draft.bytes(&world.flow).count(), 4);
    drop((draft, writer));
    let wanted = ["started", "1", "2", "3", "refused"];
    assert_eq!(world.told(&instance).await, wanted);
}

/// Calls may end and be refused while the journal is written. Seen to fail with refusals that stood
/// in the journal twice: once as what was being written, once before the step that came meanwhile.
#[tokio::test]
async fn what_waited_when_a_write_began_is_written_once() {
    let world = World::volatile(ring());
    let instance = world.instance();
    get_behind(&instance).await;
    instance.write_record().await.unwrap();
    for _ in 0..MOST_REFUSALS + 2 {
        refuse(&instance);
    }
    let draft = instance.draft(&mut lock(&instance.state));
    step(&instance).await;
    refuse(&instance);
    let entries = instance.entries(&draft, None);
    let now = instance.shared.store_time();
    world.store.commit(&[], &entries, now).await.unwrap();
    let many = entries.len() as u64;
    lock(&instance.state).journal.stored(&draft, many);
    let told = world.told(&instance).await;
    let count = |word: &str| told.iter().filter(|one| *one == word).count();
    assert_eq!(count("refused"), MOST_REFUSALS + 1);
    assert_eq!(count("unwritten"), 1);
    let wanted = ["unwritten", "3", "refused"];
    assert_eq!(told.split_at(told.len() - 3).1, wanted);
}

/// Calls that move nothing are told of: in order with those that do where no other process has the
/// store, and soon elsewhere. There only so many wait to be told of, and the rest is counted.
#[tokio::test]
async fn what_moved_nothing_is_told_of() {
    let world = World::volatile(ring());
    let here = world.instance();
    ran(&here);
    step(&here).await;
    ran(&here);
    let writer = here.writer.lock().await;
    ran(&here);
    drop(writer);
    step(&here).await;
    let wanted = ["started", "ran", "1", "ran", "ran", "2"];
    assert_eq!(world.told(&here).await, wanted);
    // Its journal goes with it.
    here.end().await.unwrap();
    ran(&here);
    assert!(world.told(&here).await.is_empty());

    let shared = World::durable(ring());
    let there = shared.instance();
    for _ in 0..MOST_NOTES + 3 {
        ran(&there);
    }
    assert!(lock(&there.state).armed.is_some());
    there.write_journal().await.unwrap();
    let journal = shared.journal(&there).await;
    assert_eq!(journal.len(), 1 + MOST_NOTES + 1);
    let last = &journal.last().unwrap().what;
    assert_eq!(*last, What::Unwritten { entries: 3 });
}

/// What is known of calls that moved nothing when their session ends is told, if it is kept at all.
#[tokio::test]
async fn the_last_calls_of_a_session_are_told_of() {
    let world = World::durable(ring());
    let process = world.process();
    let [quiet, busy] = ["i", "j"].map(|id| Instance::new(&process, id.into(), None));
    quiet.end().await.unwrap();
    ran(&busy);
    busy.end().await.unwrap();
    let journals = world.store.journals(&KIND, None, 10).await.unwrap();
    assert_eq!(journals.len(), 1, "of nothing nothing is told");
    assert_eq!(journals[0].last, Seq(3), "it began, a call ran, it ended");
}

/// A call may run beside another one that has its turn and waits for its client. A look at the record
/// must not write over the note of the other. Seen to fail with a record that is taken to be behind.
#[tokio::test]
async fn what_moved_nothing_leaves_the_record_alone() {
    let world = World::volatile(ring());
    let here = world.instance();
    let reservation = reserve(&here, Time(5_000)).await;
    let version = lock(&here.state).stored.version;
    ran(&here);
    here.write_record().await.unwrap();
    assert_eq!(lock(&here.state).stored.version, version);
    assert_eq!(world.told(&here).await, ["started", "ran"]);
    drop(reservation);
    assert!(lock(&here.state).occupancy.lost.is_some());
}

/// A world whose journals have so many entries.
fn long(limit: u64) -> World {
    World {
        journal_limit: Some(limit),
        ..World::volatile(ring())
    }
}

/// Entries that were dropped are counted first in what is left, however much that is. Seen to fail
/// with a journal that is pruned once more.
#[tokio::test]
async fn a_long_journal_that_was_cut_says_so() {
    const LONG: u64 = 1_000;
    for is_stored in [true, false] {
        let world = long(LONG);
        let here = world.instance();
        if is_stored {
            step(&here).await;
        }
        // A look in between leaves numbers behind.
        ran(&here);
        here.write_journal().await.unwrap();
        let looked_at = world.store.journal_end(&here.key).await.unwrap();
        for times in 1..3 {
            for _ in 0..LONG + 300 {
                ran(&here);
            }
            here.write_journal().await.unwrap();
            let journal = world.store.journal(&here.key, Seq::START, 10_000).await;
            let journal = journal.unwrap();
            let first: Entry = serde_json::from_slice(&journal[0].bytes).unwrap();
            assert_eq!(
                first.what,
                What::LeftOut { entries: 300 },
                "{is_stored} {times}"
            );
            assert_eq!(journal.len() as u64, LONG + 1);
            // A reader that has read up to there misses nothing of what is left.
            let first = looked_at.0 + (times - 1) * (LONG + 1) + 1;
            assert_eq!(journal[0].seq, Seq(first), "{is_stored} {times}");
        }
    }
}

/// A session that comes back now and then has one journal, and that is as long as it may be. Seen to
/// fail with an instance that believes its record, or that it is new because there is none.
#[tokio::test]
async fn a_journal_stays_short_however_often_its_instance_comes_back() {
    const LONG: u64 = 300;
    for is_stored in [true, false] {
        let world = long(LONG);
        let mut started = 0;
        for times in 0..10 {
            let here = world.instance();
            here.find().await.unwrap();
            if is_stored && times == 0 {
                step(&here).await;
            }
            for _ in 0..LONG - 10 {
                ran(&here);
            }
            here.write_record().await.unwrap();
            let journal = world.journal(&here).await;
            let many = journal.len() as u64;
            assert!(many <= LONG, "{is_stored} {many}");
            let entries = journal.iter();
            let begins = |entry: &&Entry| matches!(entry.what, What::Started { .. });
            started += entries.filter(begins).count();
        }
        assert_eq!(started, 1, "{is_stored}");
    }
}

/// Whether anything was written before it ended makes no difference to what a kept journal says.
#[tokio::test]
async fn a_journal_that_is_kept_says_that_its_session_ended() {
    for is_written in [true, false] {
        let world = World::durable(ring());
        let here = world.instance();
        refuse(&here);
        if is_written {
            here.write_journal().await.unwrap();
        }
        here.end().await.unwrap();
        assert_eq!(world.told(&here).await, ["started", "refused", "ended"]);
    }
}

/// A call is told of as of the time it came. Those that ended meanwhile did not end before it.
#[tokio::test]
async fn times_in_a_journal_do_not_run_backwards() {
    let world = World::volatile(ring());
    let here = world.instance();
    world.pass(Time(NOW.0 + 300));
    step(&here).await;
    ran(&here);
    refuse_at(&here, NOW);
    here.write_journal().await.unwrap();
    ran(&here);
    here.write_journal().await.unwrap();
    let journal = world.journal(&here).await;
    let times: Vec<_> = journal.iter().map(|entry| entry.at).collect();
    assert_eq!((times.len(), times.is_sorted()), (5, true), "{times:?}");
}

/// A refusal that is noted as of that time, whatever the clock says.
fn refuse_at(instance: &Instance, at: Time) {
    let what = What::Refused {
        kind: Kind::Tool,
        name: "end".to_owned(),
        code: 1081,
        why: "no".to_owned(),
    };
    let entry = Entry::new(at.0, None, what);
    lock(&instance.state).journal.note(at.0, entry);
}

/// A step may be decided before something of which the journal tells first. Seen to fail with steps
/// that keep their time.
#[tokio::test]
async fn a_step_did_not_happen_before_what_is_told_first() {
    const LATER: Time = Time(NOW.0 + 5);
    let flow = Workflow::builder("w")
        .state("a", |s| {
            let s = s.initial().tool("go", |t| t.success("b"));
            s.after(MINUTE, end("a"))
        })
        .state("b", |s| {
            s.tool("go", |t| t.success("a")).after(MINUTE, end("a"))
        })
        .build()
        .unwrap();
    for world in [World::durable(flow.clone()), World::volatile(flow)] {
        let here = world.instance();
        for writes in [false, true, false] {
            let mut reservation = reserve(&here, Time(5_000)).await;
            refuse_at(&here, LATER);
            if writes {
                here.write_journal().await.unwrap();
            }
            let committed = reservation.commit(Outcome::Success, None).await;
            committed.unwrap();
        }
        here.write_record().await.unwrap();
        let effect = What::Effect {
            name: "mail".to_owned(),
            failed: None,
        };
        let noted = here.note(Entry::new(NOW.0, None, effect));
        noted.await.unwrap();
        let journal = world.journal(&here).await;
        let times: Vec<_> = journal.iter().map(|entry| entry.at).collect();
        assert!(times.is_sorted(), "{times:?}");
        let replayed = journal::replay(&world.flow, &journal).unwrap();
        assert_eq!(replayed.record(&world.flow), here.run().record(&world.flow));
        assert_eq!(replayed.due(), Some(LATER.0 + 60_000));
    }
}
