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

/// A trace in which everything is set.
fn full_trace() -> Trace {
    let mut trace = Trace::put("a", "b");
    trace.terminal = true;
    trace.after = Some("a \"b\"".to_owned());
    trace.finished = true;
    trace.by_time = true;
    trace.set.insert("order".to_owned(), "A\n7".into());
    trace.forgets = vec!["x".to_owned()];
    trace.held = serde_json::from_value(serde_json::json!({
        "artifact": { "kind": "tool", "name": "pay" },
        "args": { "amount": 1.5 },
        "principal": null,
    }))
    .unwrap();
    trace.faults = vec!["no answer".to_owned()];
    trace
}

/// At least one of every kind, in the order in which they are declared.
// Long: one value of each variant.
fn every_kind() -> Vec<What> {
    let (kind, name) = (Kind::Tool, || "pay".to_owned());
    let (why, approval) = (|| "no".to_owned(), || Some("1f".to_owned()));
    let trace = || Trace::put("a", "b");
    vec![
        What::Started {
            workflow: "a \"w\"".to_owned(),
            fingerprint: u64::MAX,
        },
        What::Refused {
            kind,
            name: name(),
            code: 1081,
            why: why(),
        },
        What::TakenBack { kind, name: name() },
        What::Paused { kind, name: name() },
        What::Ran {
            kind: Kind::Prompt,
            name: name(),
            outcome: Outcome::Timeout,
            state: "a".to_owned(),
        },
        What::LeftOut { entries: 3 },
        What::Unwritten { entries: 3 },
        What::Asked {
            kind,
            name: name(),
            question: "Pay?".to_owned(),
            approval: approval(),
        },
        What::Approved {
            kind,
            name: name(),
            approval: None,
        },
        What::Approved {
            kind,
            name: name(),
            approval: approval(),
        },
        What::Denied {
            kind,
            name: name(),
            approval: approval(),
            why: why(),
        },
        What::Step {
            kind,
            name: name(),
            outcome: Outcome::Success,
            trace: trace(),
        },
        What::Step {
            kind: Kind::Resource,
            name: name(),
            outcome: Outcome::Cancelled,
            trace: full_trace(),
        },
        What::Held {
            kind,
            name: name(),
            trace: full_trace(),
        },
        What::Timer { trace: trace() },
        What::Effect {
            name: "mail".to_owned(),
            failed: None,
        },
        What::Effect {
            name: "mail".to_owned(),
            failed: Some(why()),
        },
        What::Diverted {
            effect: "mail".to_owned(),
            trace: trace(),
        },
        What::Sampled {
            outcome: Outcome::Success,
            why: None,
            trace: trace(),
        },
        What::Sampled {
            outcome: Outcome::Error,
            why: Some(why()),
            trace: trace(),
        },
        What::Unasked {
            state: "a".to_owned(),
            why: why(),
        },
        What::Settled {
            outcome: Outcome::Unknown,
            trace: trace(),
        },
        What::Moved { trace: trace() },
        What::Reset,
        What::Aborted {
            trace: Trace::abort("b"),
        },
        What::Ended,
    ]
}

#[test]
fn a_journal_of_every_kind_is_as_in_its_golden_file() {
    let mut kinds: Vec<_> = every_kind().iter().map(kind).collect();
    kinds.dedup();
    assert_eq!(kinds, KINDS, "every kind has a line, in this order");
    let entries = (1..).zip(every_kind());
    let entries: Vec<_> = entries.map(|(at, what)| entry(at, what)).collect();
    let lines = entries.iter().map(|entry| {
        let written = entry.written();
        format!("{}\n", std::str::from_utf8(&written).unwrap())
    });
    let written: String = lines.collect();
    golden::check("journal.jsonl", &written);
    let read = written.lines().map(serde_json::from_str::<Entry>);
    let read: Result<Vec<_>, _> = read.collect();
    assert_eq!(read.unwrap(), entries);
}

#[test]
fn an_entry_in_full_is_as_in_its_golden_file() {
    let entry = Entry {
        format: FORMAT,
        at: 1_700_000_000_000,
        call: Some(7),
        by: Some("alice".to_owned()),
        reason: Some("the bank said \"yes\"".to_owned()),
        what: What::Settled {
            outcome: Outcome::Success,
            trace: full_trace(),
        },
    };
    let written = entry.written();
    let written = std::str::from_utf8(&written).unwrap();
    golden::check("entry-full.json", &format!("{written}\n"));
    assert_eq!(serde_json::from_str::<Entry>(written).unwrap(), entry);
}
