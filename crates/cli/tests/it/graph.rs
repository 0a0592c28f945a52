//! `interlock graph`.

use crate::stage::Stage;

const FLOW: &str = "interlock: 1
name: hello
tools: { greet: { description: Say hello, command: [echo, hello] } }
states:
  new: { initial: true, tools: { greet: done } }
  done: { terminal: true }
";

#[test]
fn it_draws_mermaid_unless_told_otherwise() {
    let stage = Stage::new().with("flow.yaml", FLOW);
    let ended = stage.run(&["graph", "flow.yaml"]);
    let mermaid = "stateDiagram-v2
    state \"new\" as s0
    state \"done\" as s1
    [*] --> s0
    s0 --> s1 : greet
    s1 --> [*]
";
    assert_eq!((ended.code, &*ended.stdout), (Some(0), mermaid));
    let dot = stage.run(&["graph", "flow.yaml", "--format", "dot"]);
    assert!(dot.stdout.starts_with("digraph \"hello\" {\n"));
    let here = stage.run(&["graph", "flow.yaml", "--state", "done"]);
    assert!(here.stdout.contains("class s1 here"), "{}", here.stdout);
}

#[test]
fn a_file_is_written_in_the_notation_of_its_name() {
    let stage = Stage::new().with("flow.yaml", FLOW);
    let written = |arguments: &[&str], name: &str| {
        let ended = stage.run(arguments);
        assert_eq!((ended.code, &*ended.stdout), (Some(0), ""), "{ended:?}");
        std::fs::read_to_string(stage.path(name)).unwrap()
    };
    let dot = written(&["graph", "flow.yaml", "-o", "a.dot"], "a.dot");
    assert!(dot.starts_with("digraph"));
    let mermaid = written(&["graph", "flow.yaml", "-o", "a.mmd"], "a.mmd");
    assert!(mermaid.starts_with("stateDiagram-v2"));
    let told = written(
        &["graph", "flow.yaml", "-o", "a.txt", "--format", "dot"],
        "a.txt",
    );
    assert!(told.starts_with("digraph"));
    let untold = stage.run(&["graph", "flow.yaml", "-o", "b.txt"]);
    assert_eq!(untold.code, Some(2));
    assert!(!stage.path("b.txt").exists());
}

#[test]
fn what_cannot_be_drawn_is_said() {
    let stage = Stage::new()
        .with("flow.yaml", FLOW)
        .with("plain.yaml", "interlock: 1\nname: plain\n")
        .with("wrong.yaml", "interlock: 1\nname: x\nstates: {}\n");
    let unknown = stage.run(&["graph", "flow.yaml", "--state", "nwe"]);
    assert_eq!(unknown.code, Some(2));
    assert_eq!(
        unknown.stderr,
        "error: there is no state `nwe`; there are: new, done\n"
    );
    let stateless = stage.run(&["graph", "plain.yaml"]);
    assert_eq!(stateless.code, Some(1));
    assert_eq!(
        stateless.stderr,
        "error: `plain.yaml` has no states to draw\n"
    );
    let wrong = stage.run(&["graph", "wrong.yaml"]);
    assert_eq!((wrong.code, &*wrong.stdout), (Some(1), ""));
    assert!(
        wrong.stderr.starts_with("wrong.yaml:3:"),
        "{}",
        wrong.stderr
    );
}
