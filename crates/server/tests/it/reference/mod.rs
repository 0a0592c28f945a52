//! The recorded behaviour of the reference automaton SDK, over every wire.
//!
//! Every case of the fixture is named in [`CASES`]. Where it says that we match, the wire shows
//! what was recorded; where it says that we differ, it shows the better thing named there.

mod graph;
mod player;
mod run;

use graph::judge;
use interlock::workflow::Kind;
use player::{Http, Pair, Pipes, Venue};
use run::{Run, listed, state};
use serde_json::Value;
use std::collections::BTreeSet;

/// Makes a test of each function, on each wire.
macro_rules! on_every_wire {
    ($($test:ident)*) => {
        on_every_wire! { pair Pair; $($test)* }
        on_every_wire! { pipes Pipes; $($test)* }
        on_every_wire! { http Http; $($test)* }
    };
    ($wire:ident $venue:ident; $($test:ident)*) => {
        mod $wire {
            $(#[tokio::test]
            async fn $test() {
                super::$test::<super::$venue>().await;
            })*
        }
    };
}

on_every_wire! {
    recorded_runs_go_as_recorded_or_better
    recorded_builds_are_judged_as_recorded_or_better
}

/// What we do with a case.
#[derive(Clone, Copy)]
enum Verdict {
    /// Exactly as recorded.
    Matches,
    /// Better, in the way described.
    Differs(&'static str),
}
use Verdict::{Differs, Matches};

#[rustfmt::skip]
const CASES: &[(&str, Verdict)] = &[
    ("A01", Matches),
    ("A04", Differs("the refusal also names what is allowed and the way to what was wanted")),
    ("A05", Differs("a name that is nowhere is a JSON-RPC error")),
    ("A06", Differs("the tool that is bound nowhere is warned of when the workflow meets the server")),
    ("B01", Differs("lists that change are announced without being told to")),
    ("B05", Differs("lists that change are announced without being told to")),
    ("C01", Differs("the refusal is -32602 with 1081 and the state, and the tool list is announced, too")),
    ("C04", Differs("the resource of the template is read with its parameters")),
    ("C06", Differs("no template is bound here, and the list of them is empty")),
    ("D01", Differs("refused arguments take no step")),
    ("D02", Differs("a result with isError is an error")),
    ("D05", Differs("a call that can move waits for the one before it and is judged again")),
    ("D07", Differs("terminal is a property of one edge")),
    ("D08", Differs("a cancelled call takes no step and the session lives")),
    ("E02", Differs("each client has a state of its own, and hears nothing of the others")),
    ("V01", Matches),
    ("V02", Matches),
    ("V03", Differs("unknown names do not hide the end behind them")),
    ("V04", Differs("nothing is removed, and the state is warned of")),
    ("V05", Differs("nothing is pruned, and the bindings are warned of")),
    ("V09", Differs("the traps are warned of")),
    ("V10", Differs("the tools that are bound nowhere are warned of")),
    ("V14", Differs("the tools that are bound nowhere are warned of")),
    ("V15", Differs("two edges for one symbol are an error that names both")),
];

#[test]
fn every_case_has_a_verdict_that_fits_it() {
    let fixture = fixture();
    let recorded: Vec<_> = cases(&fixture).map(|case| text(&case["id"])).collect();
    let judged: Vec<_> = CASES.iter().map(|(id, _)| *id).collect();
    assert_eq!(judged, recorded);
    for case in cases(&fixture) {
        match verdict(case) {
            Matches => assert!(case["deliberate_difference"].is_null(), "{}", case["id"]),
            Differs(how) => {
                assert!(case["deliberate_difference"].is_string(), "{}", case["id"]);
                assert!(!how.is_empty());
            }
        }
    }
}

const RUNS: [&str; 15] = [
    "A01", "A04", "A05", "A06", "B01", "B05", "C01", "C04", "C06", "D01", "D02", "D05", "D07",
    "D08", "E02",
];

/// Every case is a run or a build, and so is played by one of the functions below.
#[test]
fn every_case_is_played() {
    for case in cases(&fixture()) {
        let (run, build) = (case["steps"].is_array(), case["expect_build"].is_object());
        assert!(run != build, "{}", case["id"]);
    }
}

async fn recorded_runs_go_as_recorded_or_better<V: Venue>() {
    let fixture = fixture();
    for version in V::VERSIONS {
        let mut played = Vec::new();
        for case in cases(&fixture).filter(|case| case["steps"].is_array()) {
            let graph = &fixture["graphs"][text(&case["graph"])];
            Run::<V>::new(case, graph, version).await.play().await;
            played.push(text(&case["id"]));
        }
        assert_eq!(played, RUNS, "{version}");
    }
}

async fn recorded_builds_are_judged_as_recorded_or_better<V: Venue>() {
    #[rustfmt::skip]
    let expected: &[(&str, &[&str])] = &[
        ("V01", &["no-initial-state"]),
        ("V02", &["no-reachable-end"]),
        ("V03", &["unknown-artifact", "unknown-artifact", "unknown-artifact"]),
        ("V04", &["unreachable-state", "bound-nowhere", "bound-nowhere"]),
        ("V05", &["bindings-after-end", "bound-nowhere", "bound-nowhere"]),
        ("V09", &["trap", "trap"]),
        ("V10", &["bound-nowhere", "bound-nowhere", "bound-nowhere"]),
        ("V14", &["bound-nowhere", "bound-nowhere"]),
        ("V15", &["two-edges"]),
    ];
    let fixture = fixture();
    let mut built = Vec::new();
    for case in cases(&fixture).filter(|case| case["expect_build"].is_object()) {
        let id = text(&case["id"]);
        let ok = case["expect_build"]["ok"] == true;
        let (codes, server) = judge(&case["graph_inline"], ok);
        assert_eq!(server.is_some(), ok, "{id}");
        if let Some(server) = server {
            // What was built can be walked from its beginning.
            let version = V::VERSIONS[V::VERSIONS.len() - 1];
            let venue = V::open(&server).await;
            let mut client = venue.join(version).await;
            assert_eq!(state(&mut client).await, "s0", "{id}");
            let listed: BTreeSet<_> = listed(&mut client, Kind::Tool).await.into_iter().collect();
            let bindings = case["graph_inline"]["states"][0]["bindings"]
                .as_array()
                .unwrap();
            let bound: BTreeSet<_> = bindings
                .iter()
                .filter(|b| kind(b) == Kind::Tool)
                .map(|b| text(&b["ident"]).to_owned())
                .collect();
            assert_eq!(listed, bound, "{id}");
        }
        built.push((id, codes));
    }
    let expected = expected.iter().map(|(id, codes)| (*id, codes.to_vec()));
    assert_eq!(built, expected.collect::<Vec<_>>());
}

fn fixture() -> Value {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../workflow/tests/fixtures/reference.json"
    );
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn cases(fixture: &Value) -> impl Iterator<Item = &Value> {
    fixture["cases"].as_array().unwrap().iter()
}

fn verdict(case: &Value) -> Verdict {
    let id = text(&case["id"]);
    CASES.iter().find(|(known, _)| *known == id).unwrap().1
}

fn kind(value: &Value) -> Kind {
    serde_json::from_value(value["kind"].clone()).unwrap()
}

#[track_caller]
fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}
