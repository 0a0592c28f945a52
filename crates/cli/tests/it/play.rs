//! `interlock play`.

use crate::stage::{Ended, Stage};
use std::process::{Command, Stdio};

const FLOW: &str = r#"
interlock: 1
name: shop
tools:
  pick:
    description: Choose a thing
    input:
      type: object
      properties: { thing: { type: string }, count: { type: integer } }
      required: [thing]
    command: [sh, -c, "cat; echo"]
  pay: { description: Pay for it, command: [sh, -c, "echo 'no money' >&2; exit 1"] }
resources: { "note://price": { text: "42" } }
states:
  new: { initial: true, tools: { pick: due }, resources: { "note://price": new } }
  due: { tools: { pay: { success: end, error: due, timeout: new } } }
  end: { terminal: true }
"#;

fn script(arguments: &[&str], script: &str) -> Ended {
    let stage = Stage::new()
        .with("flow.yaml", FLOW)
        .with("steps.txt", script);
    let all: Vec<_> = ["play", "flow.yaml", "--script", "steps.txt"]
        .into_iter()
        .chain(arguments.iter().copied())
        .collect();
    stage.run(&all)
}

#[test]
fn a_script_plays_and_prints_what_happens() {
    let ended = script(
        &[],
        r#"# Paying comes second.
call pay
expect refused 1081
read note://price
expect text 42

call pick {"thing": "tea"}
expect ok
expect state due
call pay {}
expect error
state
"#,
    );
    assert_eq!((ended.code, &*ended.stderr), (Some(0), ""), "{ended:?}");
    assert_eq!(
        ended.stdout,
        r#"  state: new
  tools: pick
  resources: note://price
# Paying comes second.
> call pay
  refused (1081 not_in_state): Tool 'pay' is not allowed in state 'new'. Allowed now: pick. To get there: pick.
> expect refused 1081
> read note://price
  42
> expect text 42

> call pick {"thing": "tea"}
  {"thing":"tea"}
  state: new -> due
  tools: +pay -pick
  resources: -note://price
> expect ok
> expect state due
> call pay {}
  error: no money
> expect error
> state
  state: due
5 of 5 expectations met
"#
    );
}

#[test]
fn what_is_not_as_expected_is_told_with_its_line() {
    let ended = script(
        &[],
        "expect ok\nexpect state due\nexpect tools pay\ncall pick {\"thing\": \"tea\"}\nexpect error\nexpect ok\n",
    );
    assert_eq!(ended.code, Some(1));
    assert_eq!(
        ended.stderr,
        "steps.txt:1: there is no step before this
steps.txt:2: expected state due, but it is new
steps.txt:3: expected the tools [pay], but listed are [pick]
steps.txt:5: expected error, but the last step ended ok
"
    );
    assert!(
        ended
            .stdout
            .contains("> expect error\n  FAILED: expected error")
    );
    assert!(ended.stdout.ends_with("1 of 5 expectations met\n"));
}

#[test]
fn a_script_that_cannot_be_read_is_not_begun() {
    let ended = script(&[], "call pick\ncal pick\nexpect nothing\n");
    assert_eq!((ended.code, &*ended.stdout), (Some(2), ""));
    assert!(ended.stderr.contains("steps.txt:2: no step `cal`"));
    assert!(ended.stderr.contains("steps.txt:3: expected can be"));
    let outcome = script(&[], "outcome error\n");
    assert_eq!(outcome.code, Some(2));
    assert!(outcome.stderr.contains("--dry"));
}

#[test]
fn a_dry_run_ends_calls_as_it_is_told() {
    let ended = script(
        &["--dry"],
        r#"outcome error
call pick {"thing": "tea"}
expect error
expect state new
call pick {"thing": "tea"}
expect state due
outcome timeout
call pay
expect refused 1069
expect state new
outcome timeout
call pick {"thing": "tea"}
expect refused 1069
call pick {"thing": "tea"}
call pay
expect ok
expect state new
"#,
    );
    assert_eq!((ended.code, &*ended.stderr), (Some(0), ""), "{ended:?}");
    assert!(
        ended.stdout.ends_with("8 of 8 expectations met\n"),
        "{}",
        ended.stdout
    );
}

fn typed(arguments: &[&str], input: &str) -> Ended {
    let stage = Stage::new().with("flow.yaml", FLOW);
    let all: Vec<_> = ["play", "flow.yaml"]
        .into_iter()
        .chain(arguments.iter().copied())
        .collect();
    stage.run_with(&all, input)
}

#[test]
fn a_person_is_asked_for_arguments_and_shown_what_changes() {
    let ended = typed(&[], "pay\n1\ntea\n2\nstate\nquit\nnever\n");
    assert_eq!((ended.code, &*ended.stderr), (Some(0), ""), "{ended:?}");
    for shown in [
        "\n   1  tool      pick          Choose a thing\n                thing (string, required)\n",
        "> \n  refused (1081",
        "  thing (string, required): \n  count (integer): \n",
        "  {\"thing\":\"tea\",\"count\":2}\n  state: new -> due\n  tools: +pay -pick\n",
        "   1  tool      pay  Pay for it\n",
        "  state: due\n",
    ] {
        // What was typed is not in the output, nor is the end of its line.
        let shown = shown.replace(": \n", ": ").replace("> \n", "> ");
        assert!(ended.stdout.contains(&shown), "{shown}\n{}", ended.stdout);
    }
    assert!(!ended.stdout.contains("never"));
}

#[test]
fn the_end_of_input_is_the_end_even_in_the_middle_of_a_call() {
    for input in ["", "1\n", "1\ntea\n"] {
        assert_eq!(typed(&[], input).code, Some(0), "{input:?}");
    }
}

#[test]
fn a_person_says_how_calls_end_in_a_dry_run() {
    let ended = typed(
        &["--dry"],
        "pay\npick {\"thing\": \"tea\"}\nnonsense\nsuccess\n1\nt\n",
    );
    assert_eq!(ended.code, Some(0));
    let asked = ended.stdout.matches("would run").count();
    assert_eq!(
        asked, 3,
        "not for what is refused, again for nonsense: {}",
        ended.stdout
    );
    assert!(
        ended.stdout.contains("state: new -> due"),
        "{}",
        ended.stdout
    );
    assert!(
        ended.stdout.contains("state: due -> new"),
        "{}",
        ended.stdout
    );
}

#[test]
fn a_signal_ends_it_and_the_command_that_runs() {
    let stage = Stage::new()
        .with(
            "flow.yaml",
            r#"
interlock: 1
name: stuck
tools: { wait: { description: Wait, command: [sh, -c, "exec 3>held; echo begun >&3; read line <never"] } }
"#,
        )
        .with("steps.txt", "call wait\n");
    stage.pipe("never");
    let held = stage.listen("held");
    let mut play = stage
        .interlock(&["play", "flow.yaml", "--script", "steps.txt"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    assert_eq!(held.next().as_deref(), Some("begun"));
    let pid = play.id().to_string();
    let sent = Command::new("kill").args(["-TERM", &pid]).status().unwrap();
    assert!(sent.success());
    assert_eq!(held.next(), None, "the command is gone");
    assert_eq!(play.wait().unwrap().code(), Some(1));
}
