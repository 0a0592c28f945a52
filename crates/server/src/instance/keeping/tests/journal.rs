//! What the journals of instances say, and how long they are.

use super::*;
use crate::{instance::MOST_RUNS, journal};

#[tokio::test]
async fn what_was_refused_before_a_move_at_once_stands_before_it_in_the_journal() {
    let (store, flow) = (MemoryStore::default(), flow());
    let (books, instance) = (books(&store, &flow, NOW), instance(&flow));
    get_behind(&instance, books);
    instance.refused(NOW, Kind::Tool, "end", (1081, "no"));
    step(&instance, &books);
    instance.refused(NOW, Kind::Tool, "end", (1081, "no"));
    let wanted = ["started", "1", "2", "refused", "3", "refused"];
    assert_eq!(told(&instance, &books).await, wanted);
    // Whoever looks twice finds the same.
    assert_eq!(told(&instance, &books).await, wanted);
}

/// Seen to fail with a journal whose older half stays: replaying it would go wrong.
#[tokio::test]
async fn a_journal_that_was_cut_in_memory_has_no_gap() {
    for looks_before in [true, false] {
        let (store, flow) = (MemoryStore::default(), flow());
        let (books, instance) = (books(&store, &flow, NOW), instance(&flow));
        get_behind(&instance, books);
        if looks_before {
            assert_eq!(told(&instance, &books).await, ["started", "1", "2"]);
        }
        for _ in 0..25 {
            step(&instance, &books);
        }
        let left_out = if looks_before { 15 } else { 16 };
        let wanted = cut(left_out, 18..=27);
        assert_eq!(told(&instance, &books).await, wanted, "{looks_before}");
        step(&instance, &books);
        assert_eq!(told(&instance, &books).await.last().unwrap(), "28");
    }
}

/// Seen to fail with entries that are forgotten when they cannot be written at once.
#[tokio::test]
async fn what_cannot_be_told_at_once_is_told_later() {
    let (store, flow) = (MemoryStore::default(), flow());
    let (books, instance) = (books(&store, &flow, NOW), instance(&flow));
    for _ in 0..25 {
        step(&instance, &books);
    }
    // The journal has been cut, and what is stored of it has to go first.
    let mut turn = begin_at_once(&instance, books).into_turn(&flow, None);
    turn.write_down_at_once(&books);
    assert!(!turn.is_written());
    turn.write_down(&books).await;
    drop(turn);
    assert_eq!(told(&instance, &books).await, cut(14, 16..=25));
}

/// An instance that comes back knows less of what is stored than the store does.
#[tokio::test]
async fn a_journal_that_was_cut_has_no_gap_though_its_instance_came_back() {
    let (store, flow) = (MemoryStore::default(), ring());
    let books = books(&store, &flow, NOW);
    let first = instance(&flow);
    first.refused(NOW, Kind::Tool, "end", (1081, "no"));
    assert_eq!(told(&first, &books).await, ["started", "refused"]);
    drop(first);
    let back = instance(&flow);
    back.find(books).await.unwrap();
    back.refused(NOW, Kind::Tool, "end", (1081, "no"));
    let wanted = ["started", "refused", "refused"];
    assert_eq!(told(&back, &books).await, wanted, "it is one journal");
    for _ in 0..25 {
        step(&back, &books);
    }
    assert_eq!(told(&back, &books).await, cut(14, 16..=25));
}

/// What a journal says whose older part was let go of.
fn cut(left_out: u64, calls: std::ops::RangeInclusive<u64>) -> Vec<String> {
    let calls = calls.map(|call| call.to_string());
    std::iter::once(format!("{left_out} left out"))
        .chain(calls)
        .collect()
}

/// Whatever is kept in memory until somebody reads it must not go with whoever reads it.
#[tokio::test]
async fn entries_stay_until_they_are_stored() {
    let (store, flow) = (MemoryStore::default(), ring());
    let (books, instance) = (books(&store, &flow, NOW), instance(&flow));
    for _ in 0..3 {
        step(&instance, &books);
    }
    instance.refused(NOW, Kind::Tool, "end", (1081, "no"));
    // Somebody begins to write, and is dropped before the store has answered.
    let pen = Grip::take(&instance.pen).await;
    let run = instance.run();
    let draft = instance
        .draft(&books, &mut Writing::unmoved(&run, 3))
        .ok()
        .unwrap();
    assert_eq!(draft.entries.len(), 3);
    drop((draft, pen));
    let wanted = ["started", "1", "2", "3", "refused"];
    assert_eq!(told(&instance, &books).await, wanted);
}

/// Calls that move nothing are told of: in order with those that do where nobody else has the store,
/// and soon elsewhere. There only so many wait to be told of, and the rest is counted.
#[tokio::test]
async fn what_moved_nothing_is_told_of() {
    let (store, flow) = (MemoryStore::default(), ring());
    let ours = books(&store, &flow, NOW);
    let here = instance(&flow);
    let bound = go(&flow, &here.run()).unwrap().id();
    here.ran(&ours, bound, Outcome::Success);
    step(&here, &ours);
    here.ran(&ours, bound, Outcome::Error);
    let pen = Grip::take(&here.pen).await;
    here.ran(&ours, bound, Outcome::Success);
    drop(pen);
    step(&here, &ours);
    let wanted = ["started", "ran", "1", "ran", "ran", "2"];
    assert_eq!(told(&here, &ours).await, wanted);
    // Another server may have this store.
    let (store, there) = (MemoryStore::default(), instance(&flow));
    let shared = Books {
        store: &store,
        journal_limit: None,
        ..ours
    };
    for _ in 0..MOST_RUNS + 3 {
        there.ran(&shared, bound, Outcome::Success);
    }
    assert!(lock(&there.seen).armed.is_some());
    there.write_untold(&shared).await.unwrap();
    let journal = store.journal(&there.key, Seq::START, 10_000);
    let journal = journal.await.unwrap();
    assert_eq!(journal.len(), 1 + MOST_RUNS + 1);
    let last: Entry = serde_json::from_slice(&journal.last().unwrap().bytes).unwrap();
    let left = What::Unwritten {
        refusals: 0,
        ran: 3,
        others: 0,
    };
    assert_eq!(last.what, left);
    // Its journal went with it.
    here.end(ours).await.unwrap();
    here.ran(&ours, bound, Outcome::Success);
    assert!(told(&here, &ours).await.is_empty());
}

/// What is known of calls that moved nothing when their session ends is told, if it is kept at all.
#[tokio::test]
async fn the_last_calls_of_a_session_are_told_of() {
    let (store, flow) = (MemoryStore::default(), ring());
    let kept = Books {
        journal_limit: None,
        ..books(&store, &flow, NOW)
    };
    let (quiet, busy) = (
        instance(&flow),
        Instance::new("j", &flow, &Arc::default(), NOW),
    );
    quiet.end(kept).await.unwrap();
    let bound = go(&flow, &busy.run()).unwrap().id();
    busy.ran(&kept, bound, Outcome::Success);
    busy.end(kept).await.unwrap();
    let kind = crate::instance::KIND;
    let journals = store.journals(&kind, None, 10).await.unwrap();
    assert_eq!(journals.len(), 1, "of nothing nothing is told");
    assert_eq!(journals[0].last, Seq(3), "it began, a call ran, it ended");
}

/// A call may run beside another one that has its turn and waits for its client. Whoever looks then
/// must not write over the note of the other. Seen to fail with a record that is taken to be behind.
#[tokio::test]
async fn what_moved_nothing_leaves_the_record_alone() {
    let (store, flow) = (MemoryStore::default(), ring());
    let (books, here) = (books(&store, &flow, NOW), instance(&flow));
    let turn = begin(&here, books, Time(5_000)).await;
    let bound = go(&flow, &here.run()).unwrap().id();
    let version = lock(&here.seen).version;
    here.ran(&books, bound, Outcome::Success);
    here.write_record(&books).await.unwrap();
    assert_eq!(lock(&here.seen).version, version);
    assert_eq!(told(&here, &books).await, ["started", "ran"]);
    drop(turn);
    assert!(lock(&here.seen).lost.is_some());
}

/// Entries that were let go of are counted first in what is left, however much that is. Seen to fail
/// with a journal that is pruned once more.
#[tokio::test]
async fn a_long_journal_that_was_cut_says_so() {
    const LONG: u64 = 1_000;
    for is_stored in [true, false] {
        let (store, flow) = (MemoryStore::default(), ring());
        let books = Books {
            journal_limit: Some(LONG),
            ..books(&store, &flow, NOW)
        };
        let here = instance(&flow);
        let bound = go(&flow, &here.run()).unwrap().id();
        if is_stored {
            step(&here, &books);
        }
        // Whoever looks in between leaves numbers behind.
        here.ran(&books, bound, Outcome::Success);
        here.write_untold(&books).await.unwrap();
        let looked_at = store.journal_end(&here.key).await.unwrap();
        for times in 1..3 {
            for _ in 0..LONG + 300 {
                here.ran(&books, bound, Outcome::Success);
            }
            here.write_untold(&books).await.unwrap();
            let journal = store.journal(&here.key, Seq::START, 10_000);
            let journal = journal.await.unwrap();
            let first: Entry = serde_json::from_slice(&journal[0].bytes).unwrap();
            assert_eq!(
                first.what,
                What::LeftOut { entries: 300 },
                "{is_stored} {times}"
            );
            assert_eq!(journal.len() as u64, LONG + 1);
            // Whoever has read up to there misses nothing of what is left.
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
        let (store, flow) = (MemoryStore::default(), ring());
        let books = Books {
            journal_limit: Some(LONG),
            ..books(&store, &flow, NOW)
        };
        let mut started = 0;
        for times in 0..10 {
            let here = instance(&flow);
            here.find(books).await.unwrap();
            if is_stored && times == 0 {
                step(&here, &books);
            }
            let bound = go(&flow, &here.run()).unwrap().id();
            for _ in 0..LONG - 10 {
                here.ran(&books, bound, Outcome::Success);
            }
            here.write_record(&books).await.unwrap();
            let journal = store.journal(&here.key, Seq::START, 10_000).await.unwrap();
            assert!(
                journal.len() as u64 <= LONG,
                "{is_stored} {}",
                journal.len()
            );
            let entries = journal.iter().map(|logged| {
                let entry: Entry = serde_json::from_slice(&logged.bytes).unwrap();
                entry.what
            });
            started += entries
                .filter(|what| matches!(what, What::Started { .. }))
                .count();
        }
        assert_eq!(started, 1, "{is_stored}");
    }
}

/// Whether somebody has written before it ended makes no difference to what a kept journal says.
#[tokio::test]
async fn a_journal_that_is_kept_says_that_its_session_ended() {
    for is_written in [true, false] {
        let (store, flow) = (MemoryStore::default(), ring());
        let kept = Books {
            journal_limit: None,
            ..books(&store, &flow, NOW)
        };
        let here = instance(&flow);
        here.refused(NOW, Kind::Tool, "end", (1081, "no"));
        if is_written {
            here.write_untold(&kept).await.unwrap();
        }
        here.end(kept).await.unwrap();
        let journal = store.journal(&here.key, Seq::START, 10).await.unwrap();
        let what = journal.iter().map(|logged| {
            let entry: serde_json::Value = serde_json::from_slice(&logged.bytes).unwrap();
            entry["what"].as_str().unwrap().to_owned()
        });
        assert_eq!(what.collect::<Vec<_>>(), ["started", "refused", "ended"]);
    }
}

/// A call that is over at once is told of as of the time it came. Those that ended meanwhile did not
/// end before it.
#[tokio::test]
async fn times_in_a_journal_do_not_run_backwards() {
    let (store, flow) = (MemoryStore::default(), ring());
    let (books, here) = (books(&store, &flow, NOW), instance(&flow));
    let bound = go(&flow, &here.run()).unwrap().id();
    let later = Books {
        now: Time(NOW.0 + 300),
        ..books
    };
    step(&here, &later);
    here.ran(&books, bound, Outcome::Success);
    here.refused(NOW, Kind::Tool, "end", (1081, "no"));
    here.write_untold(&later).await.unwrap();
    here.ran(&books, bound, Outcome::Success);
    here.write_untold(&later).await.unwrap();
    let journal = store.journal(&here.key, Seq::START, 10).await.unwrap();
    let times = journal.iter().map(|logged| {
        let entry: Entry = serde_json::from_slice(&logged.bytes).unwrap();
        entry.at
    });
    let times: Vec<_> = times.collect();
    assert_eq!((times.len(), times.is_sorted()), (5, true), "{times:?}");
}

/// A step may be decided before something of which the journal tells first. Seen to fail with steps
/// that keep their time.
#[tokio::test]
async fn a_step_did_not_happen_before_what_is_told_first() {
    const LATER: Time = Time(NOW.0 + 5);
    let minute = std::time::Duration::from_secs(60);
    let flow = Workflow::builder("w")
        .state("a", |s| {
            let s = s.initial().tool("go", |t| t.success("b"));
            s.after(minute, end("a"))
        })
        .state("b", |s| {
            s.tool("go", |t| t.success("a")).after(minute, end("a"))
        })
        .build()
        .unwrap();
    for journal_limit in [None, Some(10)] {
        let store = MemoryStore::default();
        let books = Books {
            journal_limit,
            ..books(&store, &flow, NOW)
        };
        let here = instance(&flow);
        let refuse = |at| here.refused(at, Kind::Tool, "end", (1081, "no"));
        let mut turn = begin(&here, books, Time(5_000)).await;
        refuse(LATER);
        let committed = turn.commit(books, Outcome::Success, None, None).await;
        committed.unwrap();
        drop(turn);
        let mut turn = begin(&here, books, Time(5_000)).await;
        refuse(LATER);
        here.write_untold(&books).await.unwrap();
        let committed = turn.commit_at_once(&books, Outcome::Success, None);
        committed.unwrap().unwrap();
        drop(turn);
        if journal_limit.is_some() {
            let brief = begin_at_once(&here, books);
            refuse(LATER);
            end_at_once(brief, &books, Outcome::Success).unwrap();
        }
        here.write_record(&books).await.unwrap();
        let effect = What::Effect {
            name: "mail".to_owned(),
            failed: None,
        };
        let noted = here.note(&books, Entry::new(NOW.0, None, effect));
        noted.await.unwrap();
        let journal = store.journal(&here.key, Seq::START, 1_000).await.unwrap();
        let journal = journal
            .iter()
            .map(|logged| serde_json::from_slice(&logged.bytes).unwrap());
        let journal: Vec<Entry> = journal.collect();
        let times: Vec<_> = journal.iter().map(|entry| entry.at).collect();
        assert!(times.is_sorted(), "{times:?}");
        let replayed = journal::replay(&flow, &journal).unwrap();
        assert_eq!(replayed.record(&flow), here.run().record(&flow));
        assert_eq!(replayed.due(), Some(LATER.0 + 60_000), "{journal_limit:?}");
    }
}
