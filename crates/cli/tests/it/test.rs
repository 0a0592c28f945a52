//! `interlock test`.

use crate::stage::{Ended, Stage};

pub(crate) const FLOW: &str = r#"
interlock: 1
name: refund
tools:
  lookup:
    description: Find an order
    input: { type: object, properties: { order: { type: string } }, required: [order] }
    command: [false]
  refund: { description: Pay it back, command: [false] }
  ask: { description: Ask the model, command: [false] }
resources: { "note://rules": { text: Never more than was paid. } }
states:
  new:
    initial: true
    tools: { lookup: { success: { to: found, set: { order: args.order } } }, ask: asked }
  found:
    tools:
      refund:
        when: args.order == ctx.order && args.amount > 0
        approve: "Refund {{args.amount}} for order {{ctx.order}}?"
        success:
          - { when: "result.structuredContent.partial == true", to: found }
          - { to: paid, effects: [mail, print] }
        timeout: review
        unknown: hold
    resources: { "note://rules": found }
    after: { 30m: expired }
  review: { tools: { refund: { success: paid, unknown: hold, approve: "Again?" } } }
  asked:
    sampling:
      messages: [{ role: user, text: "Is it urgent?" }]
      max_tokens: 10
      success: [{ when: result.content.text == "yes", to: found }, { to: new }]
      error: expired
  paid: { terminal: true }
  expired: { terminal: true }
"#;

pub(crate) const SCENARIOS: &str = r#"
scenarios:
  - name: an order is paid back
    steps:
      - call: lookup
        args: { order: A-1 }
        expect: { state: found, ctx: { order: A-1, other: null }, tools: [refund], resources: ["note://rules"], prompts: [] }
      - read: note://rules
        expect: { state: found, ended: false }
      - call: refund
        args: { order: B-2, amount: 5 }
        expect: { refused: 1082, text: args.amount > 0 }
      - call: refund
        args: { order: A-1, amount: 5 }
        approve: no
        expect: { refused: 1083, text: "Refund 5 for order A-1?" }
      - call: refund
        args: { order: A-1, amount: 5 }
        approve: later
        expect: { refused: 1071 }
      - call: refund
        args: { order: A-1, amount: 5 }
        result: { structuredContent: { partial: true } }
        expect: { state: found, effects: [] }
      - call: refund
        args: { order: A-1, amount: 5 }
        expect: { ended: paid, state: new, effects: [mail, print], ctx: { order: null }, text: Refund 5 }
  - name: nobody comes
    steps:
      - call: lookup
        args: { order: 5 }
        expect: { refused: 1022 }
      - { call: lookup, args: { order: A-1 } }
      - { wait: 29m, expect: { state: found } }
      - { wait: 1m, expect: { ended: true, state: new } }
  - name: nobody knows
    steps:
      - { call: lookup, args: { order: A-1 } }
      - { call: refund, args: { order: A-1, amount: 5 }, outcome: unknown, expect: { state: found } }
      - { call: refund, args: { order: A-1, amount: 5 }, expect: { refused: 1084 } }
      - { settle: timeout, expect: { state: review } }
  - name: the model decides
    steps:
      - { call: ask, sampling: { outcome: success, result: { content: { text: "no" } } }, expect: { state: new } }
      - { call: ask, sampling: [{ outcome: success, result: { content: { text: "yes" } } }], expect: { state: found } }
"#;

pub(crate) fn stage(scenarios: &str) -> Stage {
    Stage::new()
        .with("flow.yaml", FLOW)
        .with("flow.test.yaml", scenarios)
}

#[track_caller]
pub(crate) fn has(ended: &Ended, shown: &str) {
    assert!(ended.stdout.contains(shown), "{shown}\n{}", ended.stdout);
}

#[test]
fn scenarios_beside_the_file_and_generated_paths_are_played_and_counted() {
    let ended = stage(SCENARIOS).run(&["test", "flow.yaml"]);
    assert_eq!((ended.code, &*ended.stderr), (Some(0), ""), "{ended:?}");
    let generated = ended
        .stdout
        .find("generated paths (guards are taken to be true)\n");
    let (scenarios, rest) = ended.stdout.split_at(generated.unwrap());
    assert_eq!(
        scenarios,
        "flow.test.yaml
  ok      an order is paid back
          note: step 7 (call refund, line 25): the guard of `found: refund -> found when result.structuredContent.partial == true` has no answer: there is no `result.structuredContent`
  ok      nobody comes
  ok      nobody knows
  ok      the model decides
"
    );
    assert!(rest.contains("\n  ok      path 1: lookup, "), "{rest}");
    let coverage = rest.find("by scenarios: ").unwrap();
    assert_eq!(
        &rest[coverage..],
        "by scenarios: states 6/6, transitions 9/11 (81.8%)
  not taken: review: refund -> paid
  not taken: asked: model (error) -> expired
with generated paths: states 6/6, transitions 11/11 (100%)
"
    );
    assert!(!rest.contains("only assumed"), "scenarios show every guard");
    let alone = stage("scenarios: []\n").run(&["test", "flow.yaml"]);
    has(
        &alone,
        "transitions 11/11 (100%)
  only assumed: found: refund when args.order == ctx.order && args.amount > 0
  only assumed: found: refund -> found when result.structuredContent.partial == true
",
    );
    assert!(!ended.stdout.contains('\x1b'));
}

#[test]
fn what_is_not_as_expected_is_told_with_its_step() {
    let stage = stage(
        r#"
scenarios:
  - name: wrong in many ways
    steps:
      - { call: lookup, args: { order: A-1 } }
      - call: refund
        args: { order: A-1, amount: 5 }
        expect: { state: paid, ended: expired, refused: 1082, tools: [refund], ctx: { order: B-2 }, effects: [mail], text: Three }
  - { name: refused without being asked, steps: [{ call: refund }] }
  - { name: nothing held, steps: [{ settle: success }] }
"#,
    );
    let ended = stage.run(&["test", "flow.yaml", "--no-generated"]);
    assert_eq!((ended.code, &*ended.stderr), (Some(1), ""), "{ended:?}");
    has(
        &ended,
        "  FAILED  wrong in many ways: step 2 (call refund, line 6): expected refused 1082, but it ran and \
         ended in success; expected state paid, but it is new; expected an end in expired, but it \
         ended in paid; expected the tools [refund], but callable are [ask, lookup]; expected \
         ctx.order to be \"B-2\", but nothing is remembered; expected the effects [mail], but they \
         are [mail, print]; expected a text with `Three`, but it is `Refund 5 for order A-1?`\n          \
         note: step 2 (call refund, line 6): the guard of `found: refund -> found when \
         result.structuredContent.partial == true` has no answer: there is no \
         `result.structuredContent`\n",
    );
    has(
        &ended,
        "  FAILED  refused without being asked: step 1 (call refund, line 9): it was refused 1081: \
         Tool 'refund' is not allowed in state 'new'. Allowed now: lookup, ask. To get there: lookup.\n",
    );
    has(
        &ended,
        "  FAILED  nothing held: step 1 (settle success, line 10): there is nothing to settle\n",
    );
    has(&ended, "\n0 of 3 cases passed\n");
    assert!(!ended.stdout.contains("generated"));
}

#[test]
fn mistakes_in_a_scenario_file_are_told_with_their_places_and_nothing_is_played() {
    let played = |scenarios: &str| {
        let ended = stage(scenarios).run(&["test", "flow.yaml"]);
        assert_eq!((ended.code, &*ended.stdout), (Some(2), ""), "{ended:?}");
        let told = ended
            .stderr
            .strip_prefix("error: the scenarios cannot be played\n");
        told.unwrap_or_else(|| panic!("{}", ended.stderr))
            .to_owned()
    };
    assert_eq!(
        played(
            "scenarios:
  - name: x
    steps:
      - call: refnd
        expect: { state: fuond, tools: [lokup], ended: 5 }
      - wait: 30
      - settle: unknown
      - { wait: 1s, outcome: error }
      - {}
      - { call: ask, read: note://rules }
"
        ),
        "flow.test.yaml:4:15: there is no tool `refnd`
  help: did you mean `refund`?
flow.test.yaml:5:26: there is no state `fuond`
  help: did you mean `found`?
flow.test.yaml:5:41: there is no tool `lokup`
  help: did you mean `lookup`?
flow.test.yaml:5:56: `ended` is true, false or the name of a state
flow.test.yaml:6:15: `30` has no unit: write a time such as 30s, 10m or 2h
  help: did you mean `30s`?
flow.test.yaml:7:17: `settle` says how the call ended, so it cannot be unknown
flow.test.yaml:8:9: only a step that calls something has `args`, `outcome`, `result`, `approve` or `sampling`
flow.test.yaml:9:9: a step has exactly one of `call`, `read`, `get`, `wait` and `settle`
flow.test.yaml:10:9: a step has exactly one of `call`, `read`, `get`, `wait` and `settle`
"
    );
    for (scenarios, told) in [
        (
            "scenarios: [{ name: x, step: [] }]",
            "flow.test.yaml:1:24: there is no key `step` here\n  help: did you mean `steps`?\n",
        ),
        (
            "scenarios: [{ name: x, steps: [{ call: ask, outcome: sucess }] }]",
            "flow.test.yaml:1:54: `sucess` cannot stand here\n  help: did you mean `success`?\n",
        ),
        (
            "scenarios: [{ name: x, steps: [{ call: ask, sampling: { outcome: success, reslt: 1 } }] }]",
            "flow.test.yaml:1:75: there is no key `reslt` here\n  help: did you mean `result`?\n",
        ),
        (
            "scenarios: [{ name: x, steps: [{ call: ask, args: 5 }] }]",
            "flow.test.yaml:1:51: expected a map\n",
        ),
        (
            "scenarios: [{ name: x, steps: [{ call: ask, expect: { refused: often } }] }]",
            "flow.test.yaml:1:64: expected a whole number\n",
        ),
        ("scenarios: {}", "flow.test.yaml:1:12: expected a list\n"),
        (
            "scenarios: [{ name: x, name: y, steps: [] }]",
            "flow.test.yaml:1:24: the key `name` is there already\n",
        ),
        (
            "scenarios: [{ name: x, steps: [] }]",
            "flow.test.yaml:1:31: a scenario has at least one step\n",
        ),
        (
            "scenarios: [{ name: x }]",
            "flow.test.yaml:1:15: the key `steps` is missing\n",
        ),
    ] {
        assert_eq!(played(scenarios), told, "{scenarios}");
    }
    for hostile in [
        format!("scenarios: {}", "[".repeat(10_000)),
        "a: &a [1]\nb: &b [*a, *a]\nscenarios: *c".to_owned(),
        "\0".to_owned(),
        String::new(),
    ] {
        assert!(played(&hostile).starts_with("flow.test.yaml:"));
    }
}

#[test]
fn a_scenario_file_that_is_too_long_or_missing_is_not_read() {
    let stage = stage("scenarios: []").with("long.yaml", &"#".repeat(1_000_001));
    let long = stage.run(&["test", "flow.yaml", "long.yaml"]);
    assert_eq!(long.code, Some(2));
    assert_eq!(
        long.stderr,
        "error: cannot read `long.yaml`: it is longer than 1 MB\n"
    );
    let missing = stage.run(&["test", "flow.yaml", "missing.yaml"]);
    assert_eq!(missing.code, Some(2));
    assert!(
        missing
            .stderr
            .starts_with("error: cannot read `missing.yaml`: ")
    );
}

#[test]
fn files_are_found_by_their_names_unless_they_are_named() {
    let one = |name: &str| format!("scenarios: [{{ name: {name}, steps: [{{ wait: 1s }}] }}]");
    let stage = stage(&one("first"))
        .with("flow.more.test.yaml", &one("second"))
        .with("flow.scenarios.yaml", &one("third"))
        .with("other.test.yaml", &one("other"))
        .with("flower.test.yaml", &one("flower"));
    std::fs::create_dir(stage.path("tests")).unwrap();
    let stage = stage
        .with("tests/any.test.yaml", &one("fourth"))
        .with("tests/notes.yaml", "not a scenario file");
    let ended = stage.run(&["test", "flow.yaml", "--no-generated"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let played: Vec<_> = ended
        .stdout
        .lines()
        .filter_map(|line| line.strip_prefix("  ok      "))
        .collect();
    assert_eq!(played, ["second", "third", "first", "fourth"]);
    let named = stage.run(&["test", "flow.yaml", "other.test.yaml", "--no-generated"]);
    assert!(
        named
            .stdout
            .starts_with("other.test.yaml\n  ok      other\n1 of 1 case passed\n")
    );
}

#[test]
fn too_little_coverage_by_scenarios_is_a_failure() {
    let stage = stage(SCENARIOS);
    let enough = stage.run(&["test", "flow.yaml", "--min-coverage", "81.8"]);
    assert_eq!(enough.code, Some(0), "{enough:?}");
    let low = stage.run(&["test", "flow.yaml", "--min-coverage", "90%"]);
    assert_eq!(low.code, Some(1));
    has(
        &low,
        "\nFAILED: scenarios take 81.8% of the transitions, and must take 90%\n",
    );
    let wrong = stage.run(&["test", "flow.yaml", "--min-coverage", "all"]);
    assert_eq!(wrong.code, Some(2));
}

#[test]
fn without_scenarios_paths_are_played_or_there_is_nothing_to_play() {
    let stage = Stage::new().with("flow.yaml", FLOW);
    let ended = stage.run(&["test", "flow.yaml"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stdout.starts_with("generated paths"));
    assert!(!ended.stdout.contains("by scenarios"));
    let nothing = stage.run(&["test", "flow.yaml", "--no-generated"]);
    assert_eq!(nothing.code, Some(2));
    assert!(
        nothing.stderr.contains("nothing to play"),
        "{}",
        nothing.stderr
    );
}

#[test]
fn a_transition_that_nothing_leads_to_is_out_of_reach() {
    let stage = Stage::new().with(
        "flow.yaml",
        "interlock: 1
name: x
tools: { go: { description: Go, command: [false] } }
states:
  a: { initial: true, tools: { go: end } }
  lost: { tools: { go: end } }
  end: { terminal: true }
",
    );
    let ended = stage.run(&["test", "flow.yaml"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    has(
        &ended,
        "with generated paths: states 2/3 (lost not visited), transitions 1/2 (50%)\n  \
         out of reach: lost: go -> end\n",
    );
}

#[test]
fn guards_may_ask_who_calls() {
    let stage = Stage::new()
        .with(
            "flow.yaml",
            "interlock: 1
name: x
tools: { go: { description: Go, command: [false] } }
states:
  a: { initial: true, tools: { go: { when: principal.subject == 'ann', success: end } } }
  end: { terminal: true }
",
        )
        .with(
            "flow.test.yaml",
            "scenarios:
  - { name: ann may, principal: { subject: ann }, steps: [{ call: go, expect: { ended: end } }] }
  - { name: bob may not, principal: { subject: bob }, steps: [{ call: go, expect: { refused: 1082 } }] }
  - { name: nobody may not, steps: [{ call: go, expect: { refused: 1082, text: has no answer } }] }
",
        );
    let ended = stage.run(&["test", "flow.yaml"]);
    assert_eq!((ended.code, &*ended.stderr), (Some(0), ""), "{ended:?}");
    has(&ended, "4 of 4 cases passed\n");
}

#[test]
fn results_are_written_as_junit_and_always_the_same() {
    let stage = stage(
        "scenarios:
  - { name: good & <new>, steps: [{ call: lookup, args: { order: A-1 }, expect: { state: found } }] }
  - { name: bad, steps: [{ call: lookup, args: { order: A-1 }, expect: { state: new } }] }
",
    );
    let run = || {
        let ended = stage.run(&["test", "flow.yaml", "--no-generated", "--junit", "out.xml"]);
        assert_eq!(ended.code, Some(1), "{ended:?}");
        std::fs::read_to_string(stage.path("out.xml")).unwrap()
    };
    let written = run();
    assert_eq!(
        written,
        r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites tests="2" failures="1" errors="0">
  <testsuite name="flow.test.yaml" tests="2" failures="1" errors="0">
    <testcase classname="flow.test.yaml" name="good &amp; &lt;new&gt;"/>
    <testcase classname="flow.test.yaml" name="bad">
      <failure message="step 1 (call lookup, line 3): expected state new, but it is found"/>
    </testcase>
  </testsuite>
</testsuites>
"#
    );
    assert_eq!(run(), written);
}

#[test]
fn a_file_with_errors_or_without_states_is_not_tested() {
    let stage = Stage::new()
        .with("wrong.yaml", "interlock: 1\nname: x\nstats: {}\n")
        .with("plain.yaml", "interlock: 1\nname: x\n");
    let wrong = stage.run(&["test", "wrong.yaml"]);
    assert_eq!((wrong.code, &*wrong.stdout), (Some(1), ""));
    assert!(wrong.stderr.contains("unknown-key"), "{}", wrong.stderr);
    let plain = stage.run(&["test", "plain.yaml"]);
    assert_eq!(plain.code, Some(1));
    assert_eq!(plain.stderr, "error: `plain.yaml` has no states to test\n");
    assert_eq!(stage.run(&["test", "missing.yaml"]).code, Some(2));
}

#[test]
fn what_could_not_be_worked_out_is_told_next_to_what_came_of_it() {
    let stage = Stage::new()
        .with(
            "flow.yaml",
            "interlock: 1
name: x
tools: { go: { description: Go, command: [false] } }
states:
  a: { initial: true, tools: { go: { success: [{ when: result.far == true, to: end }, { to: b, set: { k: args.k } }] } } }
  b: { tools: { go: end } }
  end: { terminal: true }
",
        )
        .with(
            "flow.test.yaml",
            "scenarios:
  - { name: as expected, steps: [{ call: go, args: { k: 1 }, expect: { state: b } }] }
  - { name: not so, steps: [{ call: go, expect: { state: a } }] }
",
        );
    let ended = stage.run(&["test", "flow.yaml", "--no-generated", "--junit", "out.xml"]);
    assert_eq!((ended.code, &*ended.stderr), (Some(1), ""), "{ended:?}");
    let guard = "the guard of `a: go -> end when result.far == true` has no answer: ";
    has(
        &ended,
        &format!("  ok      as expected\n          note: step 1 (call go, line 2): {guard}"),
    );
    has(
        &ended,
        &format!(
            "  FAILED  not so: step 1 (call go, line 3): expected state a, but it is b\n          \
             note: step 1 (call go, line 3): {guard}"
        ),
    );
    has(
        &ended,
        "note: step 1 (call go, line 3): `k` is not remembered by `a: go -> b otherwise`: ",
    );
    let junit = std::fs::read_to_string(stage.path("out.xml")).unwrap();
    assert!(junit.contains("<system-out>step 1"), "{junit}");
}
