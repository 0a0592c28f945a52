//! What the binary says about itself.

use crate::stage::Stage;

/// Every command, and what stands behind it in its first example.
const COMMANDS: [(&str, &str); 8] = [
    ("check", " flow.yaml"),
    ("graph", " flow.yaml"),
    ("paths", " flow.yaml"),
    ("play", " flow.yaml"),
    ("serve", " flow.yaml"),
    ("test", " flow.yaml"),
    ("schema", " > "),
    ("completions", " bash"),
];

#[test]
fn without_arguments_it_helps() {
    let ended = Stage::new().run(&[]);
    assert_eq!(ended.code, Some(0));
    assert!(ended.stdout.contains("Usage:"), "{}", ended.stdout);
    assert!(ended.stdout.contains("Exit codes:"), "{}", ended.stdout);
    for (command, _) in COMMANDS {
        let (listed, example) = (
            format!("\n  {command} "),
            format!("\n  interlock {command}"),
        );
        assert!(ended.stdout.contains(&listed), "{listed}: {}", ended.stdout);
        assert!(
            ended.stdout.contains(&example),
            "{example}: {}",
            ended.stdout
        );
    }
}

#[test]
fn every_command_has_help_with_exit_codes_and_examples() {
    let stage = Stage::new();
    for (command, first) in COMMANDS {
        let ended = stage.run(&[command, "--help"]);
        assert_eq!(ended.code, Some(0));
        assert!(ended.stdout.contains("Exit codes:"), "{}", ended.stdout);
        let example = format!("\n  interlock {command}{first}");
        assert!(ended.stdout.contains(&example), "{}", ended.stdout);
        assert!(!ended.stdout.contains('\x1b'), "{}", ended.stdout);
    }
}

#[test]
fn it_tells_its_version() {
    let ended = Stage::new().run(&["--version"]);
    let version = format!("interlock {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!((ended.code, ended.stdout), (Some(0), version));
}

#[test]
fn wrong_usage_is_exit_code_2() {
    let stage = Stage::new().with("flow.yaml", "interlock: 1\nname: x\n");
    for arguments in [
        &["chek"][..],
        &["check"],
        &["check", "missing.yaml"],
        &["check", "."],
        &["check", "flow.yaml", "missing.yaml", "--jason"],
        &["graph", "missing.yaml"],
        &["graph", "flow.yaml", "--format", "png"],
        &["paths", "missing.yaml"],
        &["schema", "flow.yaml"],
        &["completions"],
        &["completions", "csh"],
        &["serve", "missing.yaml"],
        &["serve", "flow.yaml", "--log", "loud"],
        &["serve", "flow.yaml", "--drain-timeout", "30"],
        &["play", "flow.yaml", "--script", "missing.txt"],
    ] {
        let ended = stage.run(arguments);
        assert_eq!(ended.code, Some(2), "{arguments:?}: {ended:?}");
        assert!(ended.stderr.starts_with("error: "), "{}", ended.stderr);
        assert!(ended.stdout.is_empty(), "{}", ended.stdout);
        assert!(!ended.stderr.contains('\x1b'), "{}", ended.stderr);
    }
    let unreadable = stage.run(&["check", "missing.yaml"]).stderr;
    assert!(
        unreadable.starts_with("error: cannot read `missing.yaml`: "),
        "{unreadable}"
    );
    let mut variable = stage.interlock(&["serve", "flow.yaml"]);
    let output = variable.env("INTERLOCK_LOG", "loud").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}
