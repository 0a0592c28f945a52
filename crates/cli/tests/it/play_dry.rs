//! `interlock play --dry`, against what a script makes up.

use crate::stage::{Ended, Stage};

/// Guards, memory, approval, time, alternatives, a hold and a question to the client's model.
const REFUND: &str = r#"
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
prompts: { sorry: { arguments: [{ name: who, required: true }], text: "Write to {{who}}." } }
states:
  new:
    initial: true
    tools: { lookup: { success: { to: found, set: { order: args.order } } }, ask: asked }
    prompts: { sorry: new }
  found:
    tools:
      refund:
        when: args.order == ctx.order && args.amount > 0
        approve: "Refund {{args.amount}} for order {{ctx.order}}?"
        success:
          - { when: "result.structuredContent.partial == true", to: found }
          - { to: paid, effects: [mail] }
        timeout: new
        unknown: hold
    resources: { "note://rules": found }
    after: { 30m: expired }
  asked:
    sampling:
      messages: [{ role: user, text: "Is it urgent?" }]
      max_tokens: 10
      success: [{ when: result.content.text == "yes", to: found }, { to: new }]
      error: expired
  paid: { terminal: true }
  expired: { terminal: true }
"#;

fn dry(script: &str) -> Ended {
    let stage = Stage::new()
        .with("flow.yaml", REFUND)
        .with("steps.txt", script);
    stage.run(&["play", "flow.yaml", "--dry", "--script", "steps.txt"])
}

#[test]
fn a_dry_script_decides_guards_approval_and_time() {
    let ended = dry(r#"call lookup {"order": 5}
expect refused 1022
call lookup {"order": "A-1"}
expect ctx order "A-1"
call refund {"order": "B-2", "amount": 5}
expect refused 1082
approve no
call refund {"order": "A-1", "amount": 5}
expect refused 1083
approve later
call refund {"order": "A-1", "amount": 5}
expect refused 1083
expect text dismissed
result {"structuredContent": {"partial": true}}
call refund {"order": "A-1", "amount": 5}
expect state found
wait 29m
state
wait 1m
expect state new
expect ctx order null
ctx
"#);
    assert_eq!((ended.code, &*ended.stderr), (Some(0), ""), "{ended:?}");
    for shown in [
        "  asked: Refund 5 for order A-1?\n  answered: no\n  refused (1083",
        "  remembered: order = \"A-1\"\n  timer: in 30m -> expired\n",
        "> wait 29m\n  time passes\n  timer: in 1m -> expired\n",
        "> state\n  state: found\n  timer: in 1m -> expired\n  ctx: {\"order\":\"A-1\"}\n",
        "> wait 1m\n  time passes\n  state: found -> new\n  tools: +lookup +ask -refund\n",
        "  ended: in state expired\n",
        "> ctx\n  ctx: {}\n9 of 9 expectations met\n",
    ] {
        assert!(ended.stdout.contains(shown), "{shown}\n{}", ended.stdout);
    }
}

#[test]
fn a_dry_script_settles_what_nobody_knows_the_end_of() {
    let ended = dry(r#"call lookup {"order": "A-1"}
outcome unknown
call refund {"order": "A-1", "amount": 5}
expect error
call refund {"order": "A-1", "amount": 5}
expect refused 1084
settle success
expect ok
expect state new
settle success
expect error
outcome cancelled
call lookup {"order": "A-1"}
expect error
expect state new
"#);
    assert_eq!((ended.code, &*ended.stderr), (Some(0), ""), "{ended:?}");
    assert!(
        ended.stdout.contains("  effects: mail\n"),
        "{}",
        ended.stdout
    );
}

#[test]
fn a_dry_script_answers_for_the_model_and_reads_the_texts_of_the_file() {
    let ended = dry(r#"sampling success {"content": {"text": "yes"}}
call ask
expect state found
read note://rules
expect text Never more
wait 30m
call ask
expect state new
sampling error
call ask
expect state new
get sorry {"who": "Ada"}
expect text Write to Ada.
get sorry
expect refused 1021
call nothing
expect refused 1048
read no:where
expect refused 1046
get nothing
expect refused 1050
"#);
    assert_eq!((ended.code, &*ended.stderr), (Some(0), ""), "{ended:?}");
    assert!(ended.stdout.contains("  ended: in state expired\n"));
}

#[test]
fn what_is_remembered_otherwise_is_told() {
    let ended = dry("call lookup {\"order\": \"A-1\"}\nexpect ctx order \"B-2\"\n");
    assert_eq!(ended.code, Some(1));
    assert_eq!(
        ended.stderr,
        "steps.txt:2: expected ctx order \"B-2\", but it is \"A-1\"\n"
    );
}

#[test]
fn a_person_is_asked_to_approve_in_the_words_of_the_file() {
    let stage = Stage::new().with("flow.yaml", REFUND);
    let ended = stage.run_with(
        &["play", "flow.yaml", "--dry"],
        "lookup {\"order\": \"A-1\"}\n\nrefund {\"order\": \"A-1\", \"amount\": 5}\nhm\nno\nctx\n\
         wait 30m\nask\n\nno hurry\nhelp\n",
    );
    assert_eq!((ended.code, &*ended.stderr), (Some(0), ""), "{ended:?}");
    let question = "Refund 5 for order A-1? (yes, no or later) [yes]: ";
    assert_eq!(
        ended.stdout.matches(question).count(),
        2,
        "{}",
        ended.stdout
    );
    for shown in [
        "refused (1083 approval_denied)",
        "  ctx: {\"order\":\"A-1\"}\n",
        "  ended: in state expired\n",
        "the client's model is asked:\n  user: Is it urgent?\n",
        "  wait 30m           let time pass",
    ] {
        assert!(ended.stdout.contains(shown), "{shown}\n{}", ended.stdout);
    }
}
