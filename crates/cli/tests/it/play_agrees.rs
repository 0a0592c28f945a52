//! What is played dry is told in the words and codes of a server.

use crate::stage::Stage;

const FLOW: &str = r#"
interlock: 1
name: till
tools:
  pick:
    description: Pick
    input: { type: object, properties: { a: { type: integer } }, required: [a] }
    command: [echo, picked]
  pay: { description: Pay, command: [echo, paid] }
prompts:
  sorry: { text: "Sorry, {{who}}.", arguments: [{ name: who, required: true }] }
resources: { "note://rules": { text: Be kind. } }
always: [sorry, "note://rules"]
states:
  new: { initial: true, tools: { pick: picked } }
  picked:
    tools:
      pay:
        when: { if: args.amount < 100, otherwise: Ask a manager first. }
        approve: "Pay {{args.amount}}?"
        success: done
  done: { terminal: true }
"#;

const STEPS: &str = r#"
call nowhere
read note://nowhere
get nobody
get sorry
get sorry {"who": 5}
call pay {"amount": 1}
call pick {"a": "x"}
call pick {"a": 1}
call pick {"a": 1}
call pay {"amount": 500}
call pay
approve no
call pay {"amount": 5}
approve later
call pay {"amount": 5}
approve yes
call pay {"amount": 5}
"#;

#[test]
fn a_dry_run_refuses_and_ends_in_the_words_of_a_server() {
    let stage = Stage::new()
        .with("flow.yaml", FLOW)
        .with("steps.txt", STEPS);
    let played = |more: &[&str]| {
        let all = [&["play", "flow.yaml", "--script", "steps.txt"], more].concat();
        let ended = stage.run(&all);
        assert_eq!((ended.code, &*ended.stderr), (Some(0), ""), "{ended:?}");
        let is_telling = |line: &&str| {
            let told = [
                "refused (",
                "ended: ",
                "state: ",
                "tools: ",
                "asked: ",
                "answered: ",
            ];
            told.iter().any(|begin| line.starts_with(begin))
        };
        let lines = ended.stdout.lines().map(str::trim).filter(is_telling);
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let (served, dry) = (played(&[]), played(&["--dry"]));
    let codes: Vec<_> = served
        .iter()
        .filter_map(|line| line.strip_prefix("refused (")?.get(..4))
        .collect();
    assert_eq!(
        codes,
        [
            "1048", "1046", "1050", "1021", "1021", "1081", "1022", "1081", "1082", "1082", "1083",
            "1083"
        ]
    );
    assert!(
        served.contains(&"ended: in state done".to_owned()),
        "{served:?}"
    );
    assert_eq!(dry, served);
}
