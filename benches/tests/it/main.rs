//! The benchmark as a whole, on numbers too small to measure anything.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "all of it is tests")]

mod limit;

use std::process::{Command, Output};

/// Runs the benchmark for a moment, with another program in the place of ours.
fn bench(names: &[&str], ours: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_bench"))
        .args(names)
        .args(["--quick", "--seconds", "0.02", "--ours", ours])
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn every_way_of_asking_is_answered_by_the_limit_and_by_rmcp() {
    let names = ["stdio", "http", "http-2026", "list", "list-http"];
    // The limit understands what ours is told.
    let output = bench(&names, env!("CARGO_BIN_EXE_limit"));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let printed = text(&output.stdout);
    for name in names {
        assert!(printed.contains(&format!("### `{name}`: ")), "{printed}");
    }
    assert!(printed.contains("### Targets"), "{printed}");
    assert!(
        printed.contains("| rmcp macros, `stdio_pipes` | "),
        "{printed}"
    );
}

#[test]
fn what_the_gate_costs_is_told_beside_what_it_costs_without() {
    let names = ["gate", "gate-http", "gate-states", "gate-sessions"];
    // The limit has no gate, which is what ours is held against here.
    let output = bench(&names, env!("CARGO_BIN_EXE_limit"));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let printed = text(&output.stdout);
    for told in [
        "| `gate`: CPU per call of gated: stay / interlock | ",
        "| `gate-http`: CPU per call of gated: move / interlock | ",
        "| `gate`: CPU per call of gated: move, lists follow / interlock | ",
        "| `gate`: CPU per call of gated: move with a guard / interlock | ",
        "| `gate-states`: CPU per call of gated: move, 10000 states / gated: move | ",
        "| `gate-sessions`: CPU per call of gated: move / gated: move, in one session | ",
    ] {
        assert!(printed.contains(told), "{told}: {printed}");
    }
}

#[test]
fn sessions_are_opened_and_left() {
    let output = bench(&["idle"], env!("CARGO_BIN_EXE_limit"));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let printed = text(&output.stdout);
    assert!(
        printed.contains("an idle session over HTTP, 1,000 open"),
        "{printed}"
    );
}

#[test]
fn a_server_that_does_not_work_fails_the_run_and_is_named() {
    for (name, ours) in [
        ("stdio", "cat"),
        ("http", "true"),
        ("stdio", "no-such-program"),
    ] {
        let output = bench(&[name], ours);
        assert!(!output.status.success(), "{ours}");
        let complaint = text(&output.stderr);
        assert!(
            complaint.contains("bench: measuring interlock"),
            "{complaint}"
        );
    }
}

#[test]
fn a_row_that_there_is_not_is_an_error_that_tells_which_there_are() {
    let output = bench(&["stdoi"], "true");
    assert!(!output.status.success());
    let complaint = text(&output.stderr);
    assert!(
        complaint.contains("no row `stdoi`; there are: stdio, "),
        "{complaint}"
    );
}
