//! What waits to be stored, what is dropped, and what is said about that.

use super::{Draft, MOST_NOTES, MOST_REFUSALS, Unstored};
use crate::{
    journal::{Entry, Pending, What},
    testing::ring,
};
use interlock_workflow::Kind;

const NOW: u64 = 1_000;

fn effect(name: &str) -> What {
    What::Effect {
        name: name.to_owned(),
        failed: None,
    }
}

fn refused() -> What {
    What::Refused {
        kind: Kind::Tool,
        name: "go".to_owned(),
        code: 1081,
        why: "no".to_owned(),
    }
}

fn entry(at: u64, what: What) -> Entry {
    Entry::new(at, None, what)
}

fn pending(at: u64, name: &str) -> Pending {
    entry(at, effect(name)).into()
}

fn draft(journal: &mut Unstored, now: u64) -> Draft {
    journal.draft(now, || What::Started {
        workflow: "w".to_owned(),
        fingerprint: 0,
    })
}

/// What a draft says, in order, with the times.
fn says(draft: &Draft) -> Vec<String> {
    let flow = ring();
    let words = draft.bytes(&flow).map(|bytes| {
        let entry: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        let what = entry["what"].as_str().unwrap();
        let what = match what {
            "effect" => entry["name"].as_str().unwrap().to_owned(),
            "left_out" | "unwritten" => format!("{what} {}", entry["entries"]),
            other => other.to_owned(),
        };
        format!("{}: {what}", entry["at"])
    });
    words.collect()
}

/// Stores what waits.
fn store(journal: &mut Unstored, now: u64) -> Vec<String> {
    let draft = draft(journal, now);
    let said = says(&draft);
    journal.stored(&draft, said.len() as u64);
    said
}

#[test]
fn the_beginning_is_said_first_and_once() {
    let mut journal = Unstored::new(NOW);
    let first = draft(&mut journal, NOW + 5);
    assert!(!first.is_something(), "that it began is not worth a write");
    assert_eq!(says(&first), ["1000: started"]);
    // The write was given up.
    journal.note(NOW + 6, entry(NOW + 6, effect("mail")));
    assert_eq!(
        store(&mut journal, NOW + 7),
        ["1000: started", "1006: mail"]
    );
    assert!(store(&mut journal, NOW + 8).is_empty());
    assert_eq!(journal.unpruned, 2);
}

#[test]
fn an_instance_that_came_back_has_begun_and_its_journal_may_be_long() {
    let mut journal = Unstored::new(NOW);
    journal.came_back();
    assert!(store(&mut journal, NOW).is_empty());
    assert_eq!(journal.unpruned, u64::MAX);
    journal.note(NOW, entry(NOW, effect("mail")));
    assert_eq!(store(&mut journal, NOW), ["1000: mail"]);
    assert_eq!(journal.unpruned, u64::MAX, "it does not run over");
}

#[test]
fn notes_stand_before_the_step_that_follows_them() {
    let mut journal = Unstored::default();
    journal.push(pending(1, "one"), 10);
    journal.note(2, entry(2, effect("noted")));
    assert!(journal.has_notes());
    journal.push(pending(3, "two"), 10);
    assert!(!journal.has_notes());
    journal.note(4, entry(4, effect("last")));
    let wanted = ["1: one", "2: noted", "3: two", "4: last"];
    assert_eq!(store(&mut journal, 5), wanted);
    assert!(!journal.has_notes());
}

#[test]
fn times_never_run_backwards() {
    let mut journal = Unstored::default();
    assert_eq!(journal.at(7), 7);
    journal.note(5, entry(5, effect("early")));
    journal.insist(entry(6, effect("insisted")));
    assert_eq!(journal.at(9), 9);
    assert_eq!(journal.at(8), 9);
    let draft = draft(&mut journal, 3);
    assert_eq!(draft.at, 9);
    assert_eq!(says(&draft), ["7: early", "7: insisted"]);
}

#[test]
fn only_so_many_refusals_wait_and_the_rest_is_counted() {
    let mut journal = Unstored::default();
    for _ in 0..MOST_REFUSALS + 3 {
        journal.note(NOW, entry(NOW, refused()));
    }
    // There is still room for what ran.
    journal.note(NOW, entry(NOW, effect("mail")));
    let said = store(&mut journal, NOW);
    assert_eq!(said.len(), MOST_REFUSALS + 2);
    let wanted = ["1000: mail", "1000: unwritten 3"];
    assert_eq!(said.split_at(MOST_REFUSALS).1, wanted);
    // What is stored makes room.
    journal.note(NOW, entry(NOW, refused()));
    assert_eq!(store(&mut journal, NOW), ["1000: refused"]);
}

#[test]
fn a_step_makes_room_for_refusals_too() {
    let mut journal = Unstored::default();
    for _ in 0..MOST_REFUSALS {
        journal.note(NOW, entry(NOW, refused()));
    }
    journal.push(pending(NOW, "step"), 1_000);
    journal.note(NOW, entry(NOW, refused()));
    let said = store(&mut journal, NOW);
    assert_eq!(said.len(), MOST_REFUSALS + 2);
    assert_eq!(said.last().unwrap(), "1000: refused");
}

#[test]
fn only_so_many_notes_wait_unless_somebody_waits_for_them() {
    let mut journal = Unstored::default();
    for _ in 0..=MOST_NOTES {
        journal.note(NOW, entry(NOW, effect("mail")));
    }
    journal.insist(entry(NOW, effect("asked")));
    let said = store(&mut journal, NOW);
    assert_eq!(said.len(), MOST_NOTES + 2);
    let wanted = ["1000: asked", "1000: unwritten 1"];
    assert_eq!(said.split_at(MOST_NOTES).1, wanted);
    assert!(!journal.has_notes());
}

#[test]
fn what_was_counted_alone_is_worth_a_write() {
    let mut journal = Unstored::default();
    journal.note(NOW, entry(NOW, refused()));
    let first = draft(&mut journal, NOW);
    assert!(first.is_something());
    journal.lost(&first);
    assert!(journal.has_notes());
    let second = draft(&mut journal, NOW + 1);
    assert!(second.is_something());
    assert_eq!(says(&second), ["1001: unwritten 1"]);
    journal.stored(&second, 1);
    assert!(!journal.has_notes());
    assert!(!draft(&mut journal, NOW + 2).is_something());
}

#[test]
fn notes_that_could_not_be_stored_are_counted_and_make_room() {
    let mut journal = Unstored::default();
    for _ in 0..MOST_REFUSALS {
        journal.note(NOW, entry(NOW, refused()));
    }
    let failed = draft(&mut journal, NOW);
    journal.note(NOW, entry(NOW, effect("later")));
    journal.lost(&failed);
    journal.note(NOW, entry(NOW, refused()));
    let wanted = [
        "1000: later".to_owned(),
        "1000: refused".to_owned(),
        format!("1000: unwritten {MOST_REFUSALS}"),
    ];
    assert_eq!(store(&mut journal, NOW), wanted);
}

#[test]
fn what_happens_during_a_write_stays() {
    let mut journal = Unstored::default();
    journal.push(pending(1, "one"), 10);
    journal.note(2, entry(2, effect("noted")));
    journal.number_notes(2);
    let writing = draft(&mut journal, 2);
    journal.push(pending(3, "two"), 10);
    journal.note(4, entry(4, effect("last")));
    assert_eq!(says(&writing), ["1: one", "2: noted"]);
    journal.stored(&writing, 2);
    assert_eq!(store(&mut journal, 5), ["3: two", "4: last"]);
    assert!(store(&mut journal, 6).is_empty());
}

#[test]
fn what_is_counted_during_a_write_is_said_next_time() {
    let mut journal = Unstored::default();
    for _ in 0..=MOST_REFUSALS {
        journal.note(NOW, entry(NOW, refused()));
    }
    let writing = draft(&mut journal, NOW);
    journal.note(NOW, entry(NOW, refused()));
    journal.stored(&writing, MOST_REFUSALS as u64 + 1);
    assert!(journal.has_notes());
    assert_eq!(store(&mut journal, NOW), ["1000: unwritten 1"]);
}

#[test]
fn a_journal_in_memory_drops_its_oldest_and_says_how_many() {
    let mut journal = Unstored::default();
    for at in 1..=5 {
        journal.push(pending(at, "step"), 3);
    }
    let first = draft(&mut journal, 5);
    assert!(first.is_cut());
    let wanted = ["2: left_out 2", "3: step", "4: step", "5: step"];
    assert_eq!(says(&first), wanted);
    journal.stored(&first, 4);
    let next = draft(&mut journal, 6);
    assert!(!next.is_cut() && !next.is_something());
    // Those that are stored are not missed.
    for at in 7..=10 {
        journal.push(pending(at, "step"), 3);
    }
    let wanted = ["7: left_out 1", "8: step", "9: step", "10: step"];
    assert_eq!(store(&mut journal, 11), wanted);
}

#[test]
fn entries_that_are_dropped_while_they_are_written_are_not_missed() {
    let mut journal = Unstored::default();
    for at in 1..=3 {
        journal.push(pending(at, "step"), 3);
    }
    let writing = draft(&mut journal, 3);
    for at in 4..=5 {
        journal.push(pending(at, "step"), 3);
    }
    journal.stored(&writing, 3);
    assert_eq!(store(&mut journal, 6), ["4: step", "5: step"]);
    let writing = draft(&mut journal, 6);
    for at in 7..=10 {
        journal.push(pending(at, "step"), 3);
    }
    journal.stored(&writing, 0);
    let wanted = ["7: left_out 1", "8: step", "9: step", "10: step"];
    assert_eq!(store(&mut journal, 11), wanted);
}

#[test]
fn numbering_notes_keeps_them_all_and_the_next_step_keeps_the_limit() {
    let mut journal = Unstored::default();
    for at in 1..=2 {
        journal.push(pending(at, "step"), 2);
    }
    journal.note(3, entry(3, effect("noted")));
    journal.number_notes(4);
    // The write was given up.
    assert_eq!(
        says(&draft(&mut journal, 4)),
        ["1: step", "2: step", "3: noted"]
    );
    journal.push(pending(5, "step"), 2);
    assert_eq!(
        store(&mut journal, 6),
        ["2: left_out 2", "3: noted", "5: step"]
    );
}
