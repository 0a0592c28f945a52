//! `interlock play`.

use crate::stage::{Ended, Stage};
use std::{
    io::Read,
    process::{Command, Stdio},
};

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
    assert!(outcome.stderr.contains("--dry"), "{}", outcome.stderr);
    let many = script(&[], &"cal\n".repeat(150));
    assert!(many.stderr.ends_with("and 50 more\n"), "{}", many.stderr);
}

#[test]
fn what_a_script_says_is_shown_and_not_obeyed() {
    let ended = script(
        &[],
        "# \x1b[31mred\ncall pick {\"thing\": \"tea\"} \x1b\nexpect text \x1b[2J\n",
    );
    assert_eq!(ended.code, Some(2));
    let ended = script(
        &[],
        "# \x1b[31mred\nread note://price\nexpect text \x1b[2J\n",
    );
    assert_eq!(ended.code, Some(1));
    assert!(!ended.stdout.contains('\x1b'), "{:?}", ended.stdout);
    assert!(!ended.stderr.contains('\x1b'), "{:?}", ended.stderr);
    assert!(
        ended
            .stderr
            .ends_with("but the last step ended ok with `42`\n"),
        "{}",
        ended.stderr
    );
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

#[test]
fn what_only_a_dry_run_decides_needs_one() {
    for line in [
        "outcome error",
        "result {}",
        "sampling error",
        "wait 1s",
        "settle error",
        "ctx",
        "expect ctx a 1",
    ] {
        let ended = script(&[], line);
        assert_eq!(ended.code, Some(2), "{line}");
        let told = format!("error: a script with `{line}` needs --dry\n");
        assert_eq!(ended.stderr, told);
    }
}

/// A payment that a person must allow.
const ASKS: &str = r#"
interlock: 1
name: till
tools:
  pay:
    description: Pay
    input: { type: object, properties: { amount: { type: integer } }, required: [amount] }
    command: [echo, paid]
states:
  due:
    initial: true
    tools: { pay: { when: args.amount < 10, approve: "Pay {{args.amount}}?", success: due, error: end } }
  end: { terminal: true }
"#;

#[test]
fn a_script_says_what_a_person_answers_and_nothing_is_a_no() {
    let stage = Stage::new().with("flow.yaml", ASKS).with(
        "steps.txt",
        r#"call pay {"amount": 10}
approve yes
call pay {"amount": 5}
call pay {"amount": 5}
expect refused 1083
approve no
call pay {"amount": 5}
approve later
call pay {"amount": 5}
expect refused 1083
approve yes
call pay {"amount": 6}
expect text paid
"#,
    );
    let ended = stage.run(&["play", "flow.yaml", "--script", "steps.txt"]);
    assert_eq!((ended.code, &*ended.stderr), (Some(0), ""), "{ended:?}");
    assert_eq!(
        ended.stdout,
        r#"  state: due
  tools: pay
> call pay {"amount": 10}
  refused (1082 guard_failed): Tool 'pay' is not allowed with these arguments: args.amount < 10 is not true. No other tool is allowed now.
> approve yes
> call pay {"amount": 5}
  asked: Pay 5?
  answered: yes
  paid
> call pay {"amount": 5}
  asked: Pay 5?
  answered: no, for the script says nothing; `approve yes` before the call agrees
  refused (1083 approval_denied): the call was not approved: a person said no.
> expect refused 1083
> approve no
> call pay {"amount": 5}
  asked: Pay 5?
  answered: no
  refused (1083 approval_denied): the call was not approved: a person said no.
> approve later
> call pay {"amount": 5}
  asked: Pay 5?
  answered: later
  refused (1083 approval_denied): the call was not approved: the person who was asked dismissed the question.
> expect refused 1083
> approve yes
> call pay {"amount": 6}
  asked: Pay 6?
  answered: yes
  paid
> expect text paid
3 of 3 expectations met
"#
    );
}

#[test]
fn the_person_at_the_prompt_is_asked_before_a_tool_runs() {
    let stage = Stage::new().with("flow.yaml", ASKS);
    let typed = "pay {\"amount\": 50}\npay {\"amount\": 5}\nhm\nyes\n\
                 pay {\"amount\": 6}\n\npay {\"amount\": 7}\nlater\n\
                 approve maybe\napprove y\npay {\"amount\": 8}\npay {\"amount\": 9}\n";
    let ended = stage.run_with(&["play", "flow.yaml"], typed);
    assert_eq!((ended.code, &*ended.stderr), (Some(0), ""), "{ended:?}");
    let shown = &ended.stdout;
    for (words, times) in [
        ("Pay 50?", 0),
        ("Pay 5? (yes, no or later) [no]: ", 2),
        ("`hm` is no answer: type yes, no or later\n", 1),
        ("Pay 6? (yes, no or later) [no]:   refused (1083", 1),
        ("Pay 7? (yes, no or later) [no]:   refused (1083", 1),
        ("  an approval is yes, no or later\n", 1),
        ("  asked: Pay 8?\n  answered: yes\n  paid\n", 1),
        // The end of input is no yes.
        ("Pay 9? (yes, no or later) [no]:   refused (1083", 1),
        ("  paid\n", 2),
        ("\x1b", 0),
    ] {
        assert_eq!(shown.matches(words).count(), times, "{words}\n{shown}");
    }
}

#[test]
fn a_file_without_states_is_played_dry_as_well() {
    let stage = Stage::new()
        .with(
            "flow.yaml",
            "interlock: 1\nname: x\ntools: { go: { description: Go, command: [false] } }\n",
        )
        .with("steps.txt", "call go\nexpect ok\nexpect tools go\n");
    let ended = stage.run(&["play", "flow.yaml", "--dry", "--script", "steps.txt"]);
    assert_eq!((ended.code, &*ended.stderr), (Some(0), ""), "{ended:?}");
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

#[test]
fn a_signal_ends_a_script_that_never_waits() {
    let stage = Stage::new()
        .with("flow.yaml", FLOW)
        .with("steps.txt", &"state\n".repeat(100_000));
    let mut play = stage
        .interlock(&["play", "flow.yaml", "--dry", "--script", "steps.txt"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It has begun, and cannot end before somebody reads what it shows.
    let mut shown = play.stdout.take().unwrap();
    let mut first = [0; 100];
    shown.read_exact(&mut first).unwrap();
    let pid = play.id().to_string();
    let sent = Command::new("kill").args(["-TERM", &pid]).status().unwrap();
    assert!(sent.success());
    let mut rest = String::new();
    shown.read_to_string(&mut rest).unwrap();
    let ended = play.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(1));
    assert_eq!(
        String::from_utf8(ended.stderr).unwrap(),
        "error: interrupted\n"
    );
    assert!(!rest.contains("expectations met"));
}

#[test]
fn a_script_that_is_stopped_before_its_end_fails() {
    let stage = Stage::new()
        .with(
            "flow.yaml",
            "interlock: 1
name: x
tools: { stop: { description: Stop, command: [false] } }
states:
  on: { initial: true, tools: { stop: end }, after: { 1ms: { to: off, set: { last: \"'off'\" } } } }
  off: { after: { 1ms: on } }
  end: { terminal: true }
",
        )
        .with("steps.txt", "wait 1h\n");
    let ended = stage.run(&["play", "flow.yaml", "--dry", "--script", "steps.txt"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let why = "10000 timers fired in one wait, and no more will";
    assert_eq!(ended.stderr, format!("steps.txt:1: {why}\n"));
    assert!(ended.stdout.contains(&format!("  fault: {why}\n")));
    assert_eq!(ended.stdout.matches("remembered: ").count(), 1);
}

#[test]
fn what_is_typed_need_not_be_text_and_mistakes_are_told() {
    let stage = Stage::new().with("flow.yaml", FLOW);
    let input = b"\xff\xfe\npick {\"thing\": \"tea\"}\n\xff\ns\nstate\nexpect state due\n";
    let typed = stage.path("typed");
    std::fs::write(&typed, input).unwrap();
    let ended = stage
        .interlock(&["play", "flow.yaml", "--dry"])
        .stdin(std::fs::File::open(typed).unwrap())
        .output()
        .unwrap();
    assert_eq!(ended.status.code(), Some(0));
    let shown = String::from_utf8(ended.stdout).unwrap();
    for line in [
        "`\u{fffd}` is no outcome: type success, error, timeout, cancelled or unknown",
        "> (dry) success",
        "  state: due\n",
        "there is no command `expect`",
    ] {
        let line = line.trim_start_matches("> ");
        assert!(shown.contains(line), "{line}\n{shown}");
    }
}
