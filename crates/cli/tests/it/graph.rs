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
    let svg = written(&["graph", "flow.yaml", "-o", "a.svg"], "a.svg");
    assert!(
        svg.starts_with("<svg ") && svg.ends_with("</svg>\n"),
        "{svg}"
    );
    let machine = written(&["graph", "flow.yaml", "-o", "a.json"], "a.json");
    let machine: serde_json::Value = serde_json::from_str(&machine).unwrap();
    assert_eq!(
        (&machine["id"], &machine["initial"]),
        (&"hello".into(), &"new".into())
    );
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
    assert_eq!(stateless.stderr, "error: `plain.yaml` has no states\n");
    let wrong = stage.run(&["graph", "wrong.yaml"]);
    assert_eq!((wrong.code, &*wrong.stdout), (Some(1), ""));
    assert!(
        wrong.stderr.starts_with("wrong.yaml:3:"),
        "{}",
        wrong.stderr
    );
}

#[test]
fn a_state_is_highlighted_in_pictures_and_not_in_machines() {
    let stage = Stage::new().with("flow.yaml", FLOW);
    let drawn = |format: &str| {
        let arguments = ["graph", "flow.yaml", "--state", "new", "--format", format];
        stage.run(&arguments)
    };
    assert!(drawn("svg").stdout.contains("Now in new."));
    let machine = drawn("xstate");
    assert_eq!((machine.code, &*machine.stdout), (Some(2), ""));
    assert!(machine.stderr.contains("--state"), "{}", machine.stderr);
}

#[test]
fn the_workflow_file_itself_is_not_written_over() {
    let flow = r#"{"interlock": 1, "name": "x", "tools": {"go": {"description": "Go", "command": ["go"]}},
        "states": {"a": {"initial": true, "tools": {"go": {"success": {"to": "a", "terminal": true}}}}}}"#;
    let stage = Stage::new().with("flow.json", flow);
    let ended = stage.run(&["graph", "flow.json", "-o", "./flow.json"]);
    assert_eq!(ended.code, Some(2), "{ended:?}");
    let kept = std::fs::read_to_string(stage.path("flow.json")).unwrap();
    assert_eq!(kept, flow);
    let beside = stage.run(&["graph", "flow.json", "-o", "machine.json"]);
    assert_eq!(beside.code, Some(0), "{beside:?}");
}

#[test]
fn what_is_too_large_for_a_picture_can_still_be_had_as_text() {
    let state = |n: usize| format!("  s{n}: {{ tools: {{ go: s{} }} }}\n", n + 1);
    let states: String = (1..2000).map(state).collect();
    let flow = format!(
        "interlock: 1\nname: x\ntools: {{ go: {{ description: Go, command: [go] }} }}\nstates:\n  \
         s0: {{ initial: true, tools: {{ go: s1 }} }}\n{states}  s2000: {{ terminal: true }}\n"
    );
    let stage = Stage::new().with("flow.yaml", &flow);
    let ended = stage.run(&["graph", "flow.yaml", "-o", "flow.svg"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(
        ended
            .stderr
            .ends_with("more than a picture could show: try --format mermaid or dot\n"),
        "{}",
        ended.stderr
    );
    assert!(!stage.path("flow.svg").exists());
    assert_eq!(stage.run(&["graph", "flow.yaml"]).code, Some(0));
}
