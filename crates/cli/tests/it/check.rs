//! `interlock check`.

use crate::stage::{Ended, Stage, example};
use serde_json::{Value, json};
use std::process::Stdio;

const GOOD: &str = "interlock: 1
name: x
tools: { go: { description: Go, command: [go] } }
states: { a: { initial: true, tools: { go: end } }, end: { terminal: true } }
";

/// Good, but for a state that nobody comes to.
const ODD: &str = "interlock: 1
name: x
tools: { go: { description: Go, command: [go] } }
states:
  a: { initial: true, tools: { go: end } }
  lost: { tools: { go: end } }
  end: { terminal: true }
";

fn json(ended: &Ended) -> Value {
    serde_json::from_str(&ended.stdout).unwrap()
}

#[test]
fn a_good_file_is_summed_up() {
    let path = example("crossroads/interlock.yaml");
    let ended = Stage::new().run(&["check", path.to_str().unwrap()]);
    let summary = "ok: 6 states, 16 transitions, 7 tools\n";
    assert_eq!((ended.code, &*ended.stdout), (Some(0), summary));
    assert_eq!(ended.stderr, "");
}

/// An effect has no closure here.
const NOT_SERVED: &str = r#"
interlock: 1
name: x
settings: { scope: principal }
tools: { ask: { description: Ask, command: [echo] } }
states:
  new: { initial: true, tools: { ask: { success: { to: end, effects: [mail] } } } }
  end: { terminal: true }
"#;

#[test]
fn what_serve_refuses_is_said_and_is_not_wrong() {
    let stage = Stage::new().with("flow.yaml", NOT_SERVED);
    let ended = stage.run(&["check", "flow.yaml", "--deny-warnings"]);
    assert_eq!(
        (ended.code, &*ended.stdout),
        (
            Some(0),
            "valid: 2 states, 1 transition, 1 tool\n\
             `interlock serve` refuses it for: the scope `principal`, an effect (`effects`)\n"
        )
    );
    let served = stage.run(&["serve", "flow.yaml"]);
    assert_eq!((served.code, &*served.stdout), (Some(1), ""));
    assert_eq!(
        served.stderr,
        "error: `flow.yaml` is valid, but cannot be served for: the scope `principal`, an effect \
         (`effects`)\n"
    );
}

#[test]
fn guards_approval_and_timers_are_served() {
    let path = example("expenses/interlock.yaml");
    let ended = Stage::new().run(&["check", path.to_str().unwrap(), "--deny-warnings"]);
    let summary = "ok: 5 states, 9 transitions, 4 tools, 1 resource\n";
    assert_eq!((ended.code, &*ended.stdout), (Some(0), summary));
}

#[test]
fn the_tools_of_upstream_servers_are_taken_on_trust() {
    let stage = Stage::new().with(
        "flow.yaml",
        "interlock: 1
name: x
servers: { shop: { command: [shop] } }
states: { a: { initial: true, tools: { buy: end } }, end: { terminal: true } }
",
    );
    let ended = stage.run(&["check", "flow.yaml"]);
    assert_eq!(
        (ended.code, &*ended.stdout),
        (
            Some(0),
            "valid: 2 states, 1 transition, 1 server\n\
             `interlock serve` refuses it for: upstream servers (`servers`)\n"
        )
    );
    for command in ["graph", "paths"] {
        assert_eq!(
            stage.run(&[command, "flow.yaml"]).code,
            Some(0),
            "{command}"
        );
    }
}

#[test]
fn what_cannot_be_served_yet_is_refused_by_those_who_would_serve_it() {
    let stage = Stage::new().with("asks.yaml", NOT_SERVED).with(
        "upstream.yaml",
        "interlock: 1\nname: x\nservers: { shop: { command: [shop] } }\n",
    );
    for (command, words) in [
        ("serve", "cannot be served"),
        ("play", "--dry plays it without a server"),
    ] {
        for (file, uses) in [("asks.yaml", "effect"), ("upstream.yaml", "`servers`")] {
            let ended = stage.run(&[command, file]);
            assert_eq!((ended.code, &*ended.stdout), (Some(1), ""), "{command}");
            for words in [words, uses] {
                assert!(ended.stderr.contains(words), "{command}: {}", ended.stderr);
            }
        }
    }
}

#[test]
fn several_files_are_told_apart() {
    let stage = Stage::new()
        .with("good.yaml", GOOD)
        .with("odd.yaml", ODD)
        .with("wrong.yaml", "interlock: 2\nname: x\n");
    let ended = stage.run(&["check", "good.yaml", "odd.yaml"]);
    assert_eq!(
        (ended.code, &*ended.stdout),
        (
            Some(0),
            "good.yaml: ok: 2 states, 1 transition, 1 tool\n\
             odd.yaml:6:3: warning[unreachable-state]: state \"lost\" cannot be reached\n  \
             help: lead an edge to it, or remove it\n\
             odd.yaml: ok: 3 states, 2 transitions, 1 tool; 1 warning\n"
        )
    );
    let ended = stage.run(&["check", "wrong.yaml", "good.yaml"]);
    assert_eq!(ended.code, Some(1));
    assert!(
        ended
            .stdout
            .contains("\nwrong.yaml: 1 error\ngood.yaml: ok: "),
        "{}",
        ended.stdout
    );
}

#[test]
fn a_file_that_cannot_be_read_does_not_hide_the_others() {
    let stage = Stage::new().with("good.yaml", GOOD);
    let files = ["check", "gone.yaml", "good.yaml", "lost.yaml"];
    let ended = stage.run(&files);
    assert_eq!(ended.code, Some(2));
    assert!(
        ended.stdout.starts_with("good.yaml: ok: "),
        "{}",
        ended.stdout
    );
    for name in ["gone.yaml", "lost.yaml"] {
        let complaint = format!("cannot read `{name}`: ");
        assert!(ended.stderr.contains(&complaint), "{}", ended.stderr);
    }
    let ended = stage.run(&["check", "gone.yaml", "good.yaml", "--json"]);
    assert_eq!(ended.code, Some(2));
    let files = &json(&ended)["files"];
    assert_eq!(
        (&files[0]["ok"], &files[1]["ok"]),
        (&false.into(), &true.into())
    );
    let error = files[0]["error"].as_str().unwrap();
    assert!(error.starts_with("cannot read `gone.yaml`: "), "{error}");
}

#[test]
fn denied_warnings_are_a_failure() {
    let stage = Stage::new().with("odd.yaml", ODD).with("good.yaml", GOOD);
    let ended = stage.run(&["check", "odd.yaml", "--deny-warnings"]);
    assert_eq!(ended.code, Some(1));
    assert!(
        ended.stdout.ends_with("\n1 warning, which is denied\n"),
        "{}",
        ended.stdout
    );
    let ended = stage.run(&["check", "good.yaml", "--deny-warnings"]);
    assert_eq!(ended.code, Some(0));
    let ended = stage.run(&["check", "odd.yaml", "--deny-warnings", "--json"]);
    assert_eq!(
        (ended.code, &json(&ended)["files"][0]["ok"]),
        (Some(1), &true.into())
    );
}

#[test]
fn json_holds_the_summary_and_every_finding_with_its_place() {
    let stage = Stage::new()
        .with("odd.yaml", ODD)
        .with("wrong.yaml", "{interlock: 1, name: ä, stats: {}}\n");
    let ended = stage.run(&["check", "odd.yaml", "wrong.yaml", "--json"]);
    assert_eq!(ended.code, Some(1));
    assert_eq!(
        json(&ended),
        json!({ "files": [
            {
                "file": "odd.yaml",
                "ok": true,
                "summary": {
                    "states": 3, "transitions": 2, "tools": 1,
                    "resources": 0, "prompts": 0, "servers": 0,
                },
                "notServed": [],
                "findings": [{
                    "severity": "warning",
                    "code": "unreachable-state",
                    "message": "state \"lost\" cannot be reached",
                    "help": "lead an edge to it, or remove it",
                    "line": 6, "column": 3, "endLine": 6, "endColumn": 7,
                    "start": 124, "end": 128,
                }],
            },
            {
                "file": "wrong.yaml",
                "ok": false,
                "findings": [{
                    "severity": "error",
                    "code": "unknown-key",
                    "message": "the file has no key `stats`",
                    "help": "did you mean `states`?",
                    "line": 1, "column": 25, "endLine": 1, "endColumn": 30,
                    "start": 25, "end": 30,
                }],
            },
        ]})
    );
}

#[cfg(unix)]
#[test]
fn the_name_of_a_file_is_not_obeyed() {
    let name = "a\n\x1b[2J.yaml";
    let stage = Stage::new().with(name, ODD);
    let ended = stage.run(&["check", name, name]);
    let shown = "a\\n\\u{1b}[2J.yaml";
    assert!(
        ended.stdout.starts_with(&format!("{shown}:6:3: warning")),
        "{}",
        ended.stdout
    );
    assert!(!ended.stdout.contains('\x1b'));
    for arguments in [
        ["check", "no\x1b[2J\n.yaml"],
        ["graph", "no\x1b[2J\n.yaml"],
        ["serve", "no\x1b[2J\n.yaml"],
    ] {
        let ended = stage.run(&arguments);
        assert!(
            ended
                .stderr
                .starts_with("error: cannot read `no\\u{1b}[2J\\n.yaml`: "),
            "{}",
            ended.stderr
        );
    }
}

#[test]
fn everything_that_is_wrong_is_said_at_once_with_its_place() {
    let stage = Stage::new().with(
        "flow.yaml",
        "interlock: 1
name: x
stats: {}
tools: { go: { description: Go, command: [go], timeout: 5 } }
states:
  a: { initial: true, tools: { gone: b } }
",
    );
    let ended = stage.run(&["check", "flow.yaml"]);
    assert_eq!(ended.code, Some(1));
    let places: Vec<_> = ended
        .stdout
        .lines()
        .filter_map(|line| line.split_once(": error["))
        .map(|(place, rest)| (place, rest.split(']').next().unwrap()))
        .collect();
    assert_eq!(
        places,
        [
            ("flow.yaml:3:1", "unknown-key"),
            ("flow.yaml:4:57", "bad-duration"),
            ("flow.yaml:6:32", "unknown-artifact"),
            ("flow.yaml:6:38", "unknown-target"),
        ],
        "{}",
        ended.stdout
    );
    assert!(ended.stdout.contains("\n  help: did you mean `states`?\n"));
    assert!(
        ended.stdout.ends_with("\n4 errors, 1 warning\n"),
        "{}",
        ended.stdout
    );
    assert!(!ended.stdout.contains('\x1b'));
}

#[test]
fn warnings_alone_are_no_failure() {
    let stage = Stage::new().with("flow.yaml", ODD);
    let ended = stage.run(&["check", "flow.yaml"]);
    assert_eq!(
        (ended.code, &*ended.stdout),
        (
            Some(0),
            "flow.yaml:6:3: warning[unreachable-state]: state \"lost\" cannot be reached\n  \
             help: lead an edge to it, or remove it\n\
             ok: 3 states, 2 transitions, 1 tool; 1 warning\n"
        )
    );
}

#[test]
fn a_schema_that_cannot_be_used_is_found_at_its_tool() {
    let stage = Stage::new().with(
        "flow.yaml",
        r#"interlock: 1
name: x
tools:
  go:
    description: Go
    command: [go]
    input: { type: object, properties: { a: { pattern: "(" } } }
"#,
    );
    let ended = stage.run(&["check", "flow.yaml"]);
    assert_eq!(ended.code, Some(1));
    assert!(
        ended
            .stdout
            .starts_with("flow.yaml:4:3: error[unusable-schema]: the input schema of tool `go`"),
        "{}",
        ended.stdout
    );
}

/// One mistake used to hide another: a key that is not known hid the schema, and the schema made its
/// tool one that there is not.
#[test]
fn all_that_is_wrong_is_told_at_once() {
    const WRONG: &str = r#"interlock: 1
name: x
tools:
  go:
    description: Go
    command: [go]
    input: { type: object, properties: { a: { pattern: "(" } } }
states:
  a: { initial: true, tools: { go: b } }
  b: { terminal: true }
"#;
    for (more, codes) in [
        ("", &["unusable-schema"][..]),
        ("stats: {}\n", &["unusable-schema", "unknown-key"]),
    ] {
        let stage = Stage::new().with("flow.yaml", &format!("{WRONG}{more}"));
        let ended = stage.run(&["check", "flow.yaml"]);
        assert_eq!(ended.code, Some(1));
        let errors = ended
            .stdout
            .lines()
            .filter_map(|line| line.split_once("error["));
        let told: Vec<_> = errors
            .filter_map(|(_, rest)| rest.split(']').next())
            .collect();
        assert_eq!(told, codes, "{}", ended.stdout);
    }
}

/// Whoever reads only the beginning still gets the right exit code.
#[test]
fn a_verdict_stands_though_nobody_reads_it() {
    let stage = Stage::new().with("wrong.yaml", "interlock: 1\nname: x\nstats: {}\n");
    for (arguments, code) in [
        (&["check", "wrong.yaml"][..], 1),
        (&["check", "--json", "wrong.yaml"], 1),
        (&["check", "nope.yaml"], 2),
        (&["graph", "nope.yaml"], 2),
    ] {
        let mut command = stage.interlock(arguments);
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        drop((child.stdout.take(), child.stderr.take()));
        assert_eq!(child.wait().unwrap().code(), Some(code), "{arguments:?}");
    }
}
