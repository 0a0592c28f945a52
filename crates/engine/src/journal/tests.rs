//! What journals say and replay, and the format in which they are stored.

use super::*;
use crate::golden;
use interlock_workflow::end;

fn flow() -> Workflow {
    Workflow::builder("w")
        .state("a", |s| s.initial().tool("go", |t| t.success("b")))
        .state("b", |s| s.tool("go", |t| t.success(end("a"))))
        .build()
        .unwrap()
}

fn entry(at: u64, what: What) -> Entry {
    Entry::new(at, None, what)
}

fn started() -> What {
    What::Started {
        workflow: "w".to_owned(),
        fingerprint: 0,
    }
}

#[test]
fn what_operators_do_is_replayed() {
    let flow = flow();
    let moved = What::Moved {
        trace: Trace::put("a", "b"),
    };
    let mut entries = vec![entry(1, started()), entry(5, moved)];
    let state = |entries: &[Entry]| {
        let instance = replay(&flow, entries).unwrap();
        let position = instance.position();
        (flow.state_name(position.state).to_owned(), instance)
    };
    let (name, instance) = state(&entries);
    assert_eq!(name, "b");
    assert_eq!(instance.visits(flow.state_id("b").unwrap()), 1);
    let aborted = What::Aborted {
        trace: Trace::abort("b"),
    };
    entries.push(entry(7, aborted));
    let (name, instance) = state(&entries);
    assert_eq!((&*name, instance.position().finished), ("b", true));
    entries.push(entry(9, What::Reset));
    assert_eq!(state(&entries).1, flow.start(9));
}

#[test]
fn a_journal_that_was_cut_or_is_of_something_else_tells_nothing() {
    let flow = flow();
    let step = |to| What::Timer {
        trace: Trace::put("a", to),
    };
    let cut = [entry(1, step("b"))];
    assert_eq!(replay(&flow, &cut), Err(ReplayError::NoBeginning));
    assert_eq!(replay(&flow, &[]), Err(ReplayError::NoBeginning));
    let other = [entry(1, started()), entry(2, step("elsewhere"))];
    let mut gap = vec![entry(1, started()), entry(2, What::LeftOut { entries: 3 })];
    assert_eq!(replay(&flow, &gap), Err(ReplayError::NoBeginning));
    gap.push(entry(3, step("b")));
    assert_eq!(replay(&flow, &gap), Err(ReplayError::NoBeginning));
    let foreign = ReplayError::Foreign(UnknownState("elsewhere".to_owned()));
    assert_eq!(replay(&flow, &other), Err(foreign));
    let mut newer = entry(1, started());
    newer.format = 99;
    assert_eq!(replay(&flow, &[newer]), Err(ReplayError::Format(99)));
}

/// Lists the kinds of entries. The match knows no wildcard, so a new variant of [`What`] does not
/// compile until it is listed here, and then its golden line is missing.
macro_rules! kinds {
    ($($kind:ident),* $(,)?) => {
        const KINDS: &[&str] = &[$(stringify!($kind)),*];

        const fn kind(what: &What) -> &'static str {
            match what {
                $(What::$kind { .. } => stringify!($kind)),*
            }
        }
    };
}

kinds![
    Started, Refused, TakenBack, Paused, Ran, LeftOut, Unwritten, Asked, Approved, Denied, Step,
    Held, Timer, Effect, Diverted, Sampled, Unasked, Settled, Moved, Reset, Aborted, Ended,
];

#[test]
fn every_kind_of_entry_is_written_as_in_its_golden_file() {
    let entries: Vec<Entry> = golden::read("journal.jsonl");
    let mut kinds: Vec<_> = entries.iter().map(|entry| kind(&entry.what)).collect();
    kinds.dedup();
    assert_eq!(kinds, KINDS, "every kind has a line, in this order");
}

#[test]
fn an_entry_in_full_is_as_in_its_golden_file() {
    let entries: Vec<Entry> = golden::read("entry-full.json");
    let [entry] = &entries[..] else {
        panic!("it has one line");
    };
    assert_eq!((entry.format, entry.call), (FORMAT, Some(7)));
    assert_eq!(entry.by.as_deref(), Some("alice"));
    assert_eq!(entry.reason.as_deref(), Some("the bank said \"yes\""));
    let What::Settled { outcome, trace } = &entry.what else {
        panic!("it was settled");
    };
    assert_eq!(*outcome, Outcome::Success);
    let faults = ["no answer".to_owned()];
    assert_eq!((&*trace.to, &trace.faults[..]), ("b", &faults[..]));
}
