//! `interlock check`.

use crate::stage::{Stage, example};

#[test]
fn a_good_file_is_summed_up() {
    for (file, summary) in [
        ("refund", "ok: 4 states, 3 tools, 1 resource, 1 prompt\n"),
        ("crossroads", "ok: 6 states, 7 tools\n"),
    ] {
        let path = example(&format!("{file}/interlock.yaml"));
        let ended = Stage::new().run(&["check", path.to_str().unwrap()]);
        assert_eq!((ended.code, &*ended.stdout), (Some(0), summary));
        assert_eq!(ended.stderr, "");
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
    let stage = Stage::new().with(
        "flow.yaml",
        "interlock: 1
name: x
tools: { go: { description: Go, command: [go] } }
states:
  a: { initial: true, tools: { go: end } }
  lost: { tools: { go: end } }
  end: { terminal: true }
",
    );
    let ended = stage.run(&["check", "flow.yaml"]);
    assert_eq!(
        (ended.code, &*ended.stdout),
        (
            Some(0),
            "flow.yaml:6:3: warning[unreachable-state]: state \"lost\" cannot be reached\n  \
             help: lead an edge to it, or remove it\n\
             ok: 3 states, 1 tool; 1 warning\n"
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
