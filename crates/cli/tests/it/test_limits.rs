//! What `interlock test` does not do without end, nor to files that it should leave alone.

use crate::{
    stage::Stage,
    test::{FLOW, SCENARIOS, has, stage},
};

/// Two states that take turns every millisecond.
const BLINK: &str = "interlock: 1
name: x
tools: { stop: { description: Stop, command: [false] } }
states:
  on: { initial: true, tools: { stop: end }, after: { 1ms: off } }
  off: { after: { 1ms: on } }
  end: { terminal: true }
";

#[test]
fn a_scenario_that_is_stopped_before_its_end_fails() {
    let stage = Stage::new().with("flow.yaml", BLINK).with(
        "flow.test.yaml",
        "scenarios: [{ name: long, steps: [{ wait: 1s }, { wait: 1h }] }]",
    );
    let ended = stage.run(&["test", "flow.yaml"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    has(
        &ended,
        "  FAILED  long: step 2 (wait 1h, line 1): 10000 timers fired in one wait, and no more will\n",
    );
}

#[test]
fn results_are_not_written_over_what_was_read() {
    let stage = stage(SCENARIOS);
    std::fs::hard_link(stage.path("flow.test.yaml"), stage.path("linked.xml")).unwrap();
    for out in ["flow.yaml", "./flow.test.yaml", "linked.xml"] {
        let ended = stage.run(&["test", "flow.yaml", "--junit", out]);
        assert_eq!((ended.code, &*ended.stdout), (Some(2), ""), "{out}");
        assert!(
            ended.stderr.contains("would be written over `flow."),
            "{}",
            ended.stderr
        );
    }
    let read = |name: &str| std::fs::read_to_string(stage.path(name)).unwrap();
    assert_eq!(
        (&*read("flow.yaml"), &*read("flow.test.yaml")),
        (FLOW, SCENARIOS)
    );
}

#[test]
fn results_that_cannot_be_written_are_told_all_the_same() {
    let ended = stage(SCENARIOS).run(&["test", "flow.yaml", "--junit", "nowhere/out.xml"]);
    assert_eq!(ended.code, Some(1));
    has(&ended, "cases passed\n");
    assert!(
        ended
            .stderr
            .starts_with("error: cannot write `nowhere/out.xml`: "),
        "{}",
        ended.stderr
    );
}

#[test]
fn no_scenarios_and_no_paths_are_nothing_to_play() {
    let ended = stage("scenarios: []").run(&["test", "flow.yaml", "--no-generated"]);
    assert_eq!((ended.code, &*ended.stdout), (Some(2), ""), "{ended:?}");
    assert!(ended.stderr.contains("nothing to play"), "{}", ended.stderr);
    assert_eq!(
        stage("scenarios: []").run(&["test", "flow.yaml"]).code,
        Some(0)
    );
}

#[test]
fn a_pipe_that_nobody_named_is_not_read() {
    let stage = stage(SCENARIOS);
    stage.pipe("flow.more.test.yaml");
    let ended = stage.run(&["test", "flow.yaml"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(!ended.stdout.contains("flow.more"));
}

#[test]
fn mistakes_beyond_the_first_hundred_are_only_counted() {
    let long = "x".repeat(500);
    let step = format!("      - {{ call: {long} }}\n");
    let scenarios = format!("scenarios:\n  - name: x\n    steps:\n{}", step.repeat(150));
    let ended = stage(&scenarios).run(&["test", "flow.yaml"]);
    assert_eq!(ended.code, Some(2));
    let lines: Vec<_> = ended.stderr.lines().collect();
    assert_eq!((lines.len(), lines[101]), (102, "and 50 more"));
    assert!(lines[1].ends_with("xx…"), "{}", lines[1]);
}

#[test]
fn a_workflow_with_too_many_paths_says_so() {
    let mut flow = String::from(
        "interlock: 1\nname: x\ntools: { go: { description: Go, command: [false] }, back: { description: Back, command: [false] } }\nstates:\n",
    );
    for at in 0..1_000 {
        let initial = if at == 0 { "initial: true, " } else { "" };
        let next = if at == 999 {
            "end".to_owned()
        } else {
            format!("s{}", at + 1)
        };
        flow += &format!("  s{at}: {{ {initial}tools: {{ go: {next}, back: s0 }} }}\n");
    }
    flow += "  end: { terminal: true }\n";
    let ended = Stage::new()
        .with("flow.yaml", &flow)
        .run(&["test", "flow.yaml"]);
    assert_eq!((ended.code, &*ended.stderr), (Some(0), ""));
    has(
        &ended,
        "the workflow is too large for all its paths to be found\n",
    );
    has(&ended, "  not taken: and ");
    assert!(!ended.stdout.contains("out of reach"));
}
