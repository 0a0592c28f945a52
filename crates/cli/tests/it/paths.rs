//! `interlock paths`.

use crate::stage::{Stage, example};
use serde_json::{Value, json};

/// A guard, a person, an alternative, a timer, and an edge that is never taken.
const FLOW: &str = r#"interlock: 1
name: refund
tools:
  lookup: { description: Look it up, command: [look] }
  refund:
    description: Pay it back
    command: [pay]
    input: { type: object, properties: { amount: { type: integer } } }
states:
  new: { initial: true, tools: { lookup: found } }
  found:
    tools:
      refund:
        when: args.amount > 0
        approve: Really?
        success: [{ when: args.amount < 10, to: found }, { to: paid }]
        timeout: new
        unknown: hold
    after: { 30m: expired }
  lost: { tools: { lookup: found } }
  paid: { terminal: true }
  expired: { terminal: true }
"#;

#[test]
fn paths_take_every_transition_and_say_what_they_assume() {
    let stage = Stage::new().with("flow.yaml", FLOW);
    let ended = stage.run(&["paths", "flow.yaml"]);
    let told = "1. new --lookup--> found --refund--> found --refund--> paid (end)
   found --refund--> found assumes: args.amount > 0; a person agrees; args.amount < 10
   found --refund--> paid (end) assumes: args.amount > 0; a person agrees; no guard before it is true
2. new --lookup--> found --refund (timeout)--> new --lookup--> found --after 30m--> expired (end)
   found --refund (timeout)--> new assumes: args.amount > 0; a person agrees
2 paths, 5 of 6 transitions
no path takes: lost --lookup--> found
";
    assert_eq!((ended.code, &*ended.stdout), (Some(0), told));
}

#[test]
fn json_names_each_transition_once_and_paths_by_their_places() {
    let stage = Stage::new().with("flow.yaml", FLOW);
    let ended = stage.run(&["paths", "flow.yaml", "--json"]);
    let found: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(found["paths"], json!([[0, 1, 2], [0, 3, 0, 4]]));
    assert_eq!(found["missed"], json!([5]));
    assert_eq!(found["complete"], true);
    assert_eq!(
        found["transitions"][2],
        json!({
            "from": "found", "to": "paid", "terminal": true,
            "cause": "call", "kind": "tool", "name": "refund", "outcome": "success",
            "assumes": ["args.amount > 0", "a person agrees", "no guard before it is true"],
        })
    );
    assert_eq!(
        found["transitions"][4],
        json!({
            "from": "found", "to": "expired", "terminal": true,
            "cause": "time", "afterMs": 1_800_000, "assumes": [],
        })
    );
}

#[test]
fn answers_of_the_model_are_told_even_where_they_lead_nowhere() {
    let flow = "interlock: 1
name: x
tools: { go: { description: Go, command: [go] } }
states:
  a: { initial: true, tools: { go: b } }
  b: { sampling: { messages: [Well?], success: c }, tools: { go: c } }
  c: { terminal: true }
";
    let stage = Stage::new().with("flow.yaml", flow);
    let ended = stage.run(&["paths", "flow.yaml"]);
    assert_eq!(
        ended.stdout,
        "1. a --go--> b --sampling (success)--> c (end)\n\
         2. a --go--> b --sampling (error), stays--> b --go--> c (end)\n\
         2 paths, 3 of 3 transitions\n"
    );
}

#[test]
fn guards_stay_on_their_line_and_are_not_obeyed() {
    let flow = "interlock: 1
name: x
tools: { go: { description: Go, command: [go] } }
states:
  a: { initial: true, tools: { go: { when: \"state !=\\n'\\u009b2J'\", success: end } } }
  end: { terminal: true }
";
    let stage = Stage::new().with("flow.yaml", flow);
    let ended = stage.run(&["paths", "flow.yaml"]);
    assert_eq!(
        ended.stdout,
        "1. a --go--> end (end)\n   a --go--> end (end) assumes: state !=\\n'\\u{9b}2J'\n\
         1 path, 1 of 1 transition\n",
        "{}",
        ended.stderr
    );
}

#[test]
fn every_transition_of_the_examples_is_on_a_path() {
    let stage = Stage::new().with("plain.yaml", "interlock: 1\nname: plain\n");
    for name in ["refund", "crossroads", "expenses"] {
        let path = example(&format!("{name}/interlock.yaml"));
        let ended = stage.run(&["paths", path.to_str().unwrap()]);
        assert_eq!(ended.code, Some(0));
        assert!(!ended.stdout.contains("no path takes"), "{}", ended.stdout);
    }
    let stateless = stage.run(&["paths", "plain.yaml"]);
    assert_eq!(
        (stateless.code, &*stateless.stderr),
        (Some(1), "error: `plain.yaml` has no states\n")
    );
}
