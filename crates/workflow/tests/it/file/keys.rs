//! Every key of a definition, and what it becomes.

use super::{HEAD, accepted, check_error, column_of, refused};
use interlock_workflow::{
    Draft, Kind, Outcome, Scope, Settings, Targets, Workflow, end,
    file::{self, Content, Program, Transport},
    to,
};
use std::time::Duration;

pub(super) const EVERYTHING: &str = include_str!("../../fixtures/files/everything.yaml");

/// The definition of that file, in Rust.
pub(super) fn everything() -> Draft {
    let minutes = |count: u64| Duration::from_secs(count * 60);
    let draft = Workflow::builder("refund")
        .description("Find the order, get a human's yes, pay it back.")
        .settings(Settings {
            scope: Scope::Principal,
            keep: vec!["order".into()],
            ..Settings::default()
        })
        .state("new", |s| {
            s.initial().tool("shop_lookup_order", |t| {
                t.success(
                    to("found")
                        .set("order", "args.order")
                        .set("tries", "0")
                        .set("fresh", "true")
                        .set("kind", "\"plain\""),
                )
            })
        })
        .state("found", |s| {
            s.description("The order is known.")
                .instructions("Ask before you pay for order {{ctx.order}}.")
                .max_visits(3)
                .tool("print_label", |t| {
                    t.success(to("found").effect("count").effect("log"))
                        .deadline(Duration::from_secs(5))
                })
                .tool("shop_refund", |t| {
                    t.when("args.order == ctx.order && args.amount > 0")
                        .approve("Refund {{args.amount}} for order {{ctx.order}}?")
                        .success(to("found").when("result.structuredContent.partial == true"))
                        .success("paid")
                        .error("found")
                        .timeout("review")
                        .cancelled("found")
                        .hold()
                })
                .resource("note://rules", |r| r.success("found"))
                .resource("order://{id}", |r| r.success("found"))
                .prompt("apologise", |p| p.success("found"))
                .after(minutes(30), "expired")
                .after(minutes(120), to("review").when("ctx.tries > 2"))
                .after(minutes(120), end("hold"))
        })
        .state("review", |s| {
            s.tool("shop_refund", |t| {
                t.approve_within("Second look: refund {{args.amount}}?", minutes(60))
                    .success(to("paid").set("tries", "ctx.tries + 1"))
                    .unknown("hold")
                    .idempotent()
            })
        })
        .state("hold", |s| s.tool("shop_ask", |t| t.success("sorting")))
        .state("sorting", |s| {
            s.sampling(200, |m| {
                m.user("Is this urgent? {{ctx.order}}")
                    .assistant("Yes or no?")
                    .user("You say.")
                    .system("You sort.")
                    .success(to("review").when("result.content.text.contains('yes')"))
                    .success("hold")
                    .error("hold")
            })
        })
        .state("paid", |s| s.terminal())
        .state("expired", |s| s.terminal())
        .always_tool("post-search")
        .always_prompt("post-greet")
        .always_resource("order://all")
        .into_draft();
    Draft {
        targets: Targets::Closed,
        ..draft
    }
}

#[test]
fn every_key_says_the_same_as_its_method_in_rust() {
    let read = file::read_definition(EVERYTHING.as_bytes()).unwrap();
    assert_eq!(read, everything());
}

#[test]
fn a_file_with_every_key_is_accepted_as_a_whole() {
    let file = accepted(EVERYTHING);
    assert_eq!(file.settings.scope, Scope::Principal);
    let workflow = file.workflow.unwrap();
    assert_eq!(workflow.definition().states, everything().states);
    let start = workflow.initial();
    let visible = |kind| workflow.visible(start, kind).collect::<Vec<_>>();
    assert_eq!(visible(Kind::Tool), ["shop_lookup_order", "post-search"]);
    assert_eq!(visible(Kind::Prompt), ["post-greet"]);
    assert_eq!(visible(Kind::Resource), ["order://all"]);
}

#[test]
fn tools_and_resources_are_programs_with_an_environment() {
    let file = accepted(EVERYTHING);
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let label = &file.tools[0];
    assert_eq!(
        label.program,
        Program {
            command: vec!["./label.sh".into(), "${PRINTER}".into()],
            env: vec![pair("LANG", "de")],
            env_from: vec!["PRINTER_KEY".into()],
            cwd: Some("./labels".into()),
        }
    );
    assert_eq!(label.concurrency, Some(2));
    let order = &file.resources[1];
    assert!(order.is_template() && !file.resources[0].is_template());
    assert_eq!(
        order.content,
        Content::Command(Program {
            command: vec!["./order.sh".into()],
            env: vec![pair("FORM", "long")],
            env_from: vec!["SHOP_KEY".into()],
            cwd: Some("./shop".into()),
        })
    );
}

#[test]
fn servers_are_programs_and_addresses() {
    let file = accepted(EVERYTHING);
    let [shop, mail] = &file.servers[..] else {
        panic!("{:?}", file.servers);
    };
    assert_eq!((&*shop.name, &*shop.prefix), ("shop", "shop_"));
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    assert_eq!(
        shop.transport,
        Transport::Command(Program {
            command: vec!["python3".into(), "shop.py".into()],
            env: vec![pair("SHOP_DB", "./shop.db")],
            env_from: vec!["SHOP_KEY".into()],
            cwd: Some("./shop".into()),
        })
    );
    assert_eq!((&*mail.name, &*mail.prefix), ("mail", "post-"));
    assert_eq!(
        mail.transport,
        Transport::Http {
            url: "http://127.0.0.1:9000/mcp".into(),
            headers: vec![pair("authorization", "Bearer ${MAIL_TOKEN}")],
        }
    );
    assert_eq!(
        mail.place.0.map(|span| (span.line, span.column)),
        Some((7, 3))
    );
}

#[test]
fn json_can_say_all_of_it_too() {
    let text = file::write_json(&everything()).unwrap();
    assert_eq!(
        file::read_definition(text.as_bytes()).unwrap(),
        everything()
    );
}

#[test]
fn what_is_left_out_is_as_the_rust_builder_has_it() {
    let text = format!(
        "{HEAD}states:\n  a: {{ initial: true, tools: {{ t: {{ approve: sure?, success: b }} }} }}\n  \
         b: {{ sampling: {{ messages: [hello] }} }}\n"
    );
    let expected = Workflow::builder("x")
        .state("a", |s| {
            s.initial().tool("t", |t| t.approve("sure?").success("b"))
        })
        .state("b", |s| s.sampling(1_000, |m| m.user("hello")))
        .into_draft();
    let read = file::read_definition(text.as_bytes()).unwrap();
    assert_eq!(read.states, expected.states);
    assert_eq!(read.settings, Settings::default());
}

#[test]
fn the_order_of_keys_says_nothing() {
    let read = |body: &str| {
        let text = format!("{HEAD}states: {{ a: {body} }}\n");
        file::read_definition(text.as_bytes()).unwrap()
    };
    assert_eq!(
        read("{ prompts: { p: a }, tools: { t: { error: a, success: a } } }"),
        read("{ tools: { t: { success: a, error: a } }, prompts: { p: a } }"),
    );
}

#[test]
fn a_state_that_is_called_hold_can_be_reached() {
    let binding = |unknown: &str| {
        let text = format!("{HEAD}states: {{ a: {{ tools: {{ t: {{ unknown: {unknown} }} }} }} }}");
        let draft = file::read_definition(text.as_bytes()).unwrap();
        draft.states[0].bindings[0].clone()
    };
    let (hold, state, list) = (binding("hold"), binding("{ to: hold }"), binding("[hold]"));
    assert!(hold.hold && hold.edges.is_empty());
    assert!(!state.hold);
    assert_eq!(state.edges[0].target, to("hold"));
    assert_eq!(state.edges[0].outcome, Outcome::Unknown);
    assert_eq!(list, state);
}

#[test]
fn a_definition_needs_no_tools_and_is_not_judged() {
    let draft = file::read_definition(
        format!("{HEAD}tools: 7\nalways: [t, \"*\", \"a:b\"]\nstates: {{ a: {{ tools: {{ t: nowhere }} }} }}")
            .as_bytes(),
    )
    .unwrap();
    assert!(draft.always_everything);
    let kinds: Vec<_> = draft.always.iter().map(|one| one.artifact.kind).collect();
    assert_eq!(kinds, [Kind::Tool, Kind::Resource]);
    let invalid = file::read_definition(b"interlock: 1\nname: x\nstatess: {}\n").unwrap_err();
    assert_eq!(invalid.findings[0].problem.code(), "unknown-key");
}

#[test]
fn a_name_in_always_stands_for_every_kind_that_has_it_and_a_kind_for_one() {
    let visible = |always: &str| {
        let file = accepted(&format!(
            "{HEAD}tools: {{ s: {{ description: d, command: [c] }}, go: {{ description: d, command: [c] }} }}\n\
             prompts: {{ s: {{ text: x }} }}\nalways: {always}\n\
             states: {{ a: {{ initial: true, tools: {{ go: b }} }}, b: {{ terminal: true }} }}\n"
        ));
        let workflow = file.workflow.unwrap();
        let count = |kind| workflow.visible(workflow.initial(), kind).count();
        (count(Kind::Tool) - 1, count(Kind::Prompt))
    };
    assert_eq!(visible("[s]"), (1, 1));
    assert_eq!(visible("[{ tool: s }]"), (1, 0));
    assert_eq!(visible("[{ prompt: s }]"), (0, 1));
    assert_eq!(visible("[{ tool: s }, s]"), (1, 1));
}

/// A file with one guard.
fn guarded(when: &str) -> String {
    format!(
        "{HEAD}prompts: {{ p: {{ text: x }} }}\nstates:\n  a:\n    initial: true\n    prompts:\n      \
         p:\n        when: {when}\n        success: b\n  b: {{ terminal: true }}\n"
    )
}

#[test]
fn a_finding_points_at_the_part_of_an_expression_that_it_means() {
    #[track_caller]
    fn check(when: &str, marked: &str) {
        let text = guarded(when);
        let invalid = refused(&text);
        let span = invalid.findings[0].span.unwrap();
        assert_eq!(&text[span.start..span.end], marked, "{invalid}");
        assert_eq!(column_of(&text, span.start), span.column, "{invalid}");
    }
    check("1 == 1 && arg.amount > 1", "arg");
    check("\"1 == 1 && arg.amount > 1\"", "arg");
    check("'1 == 1 && arg.amount > 1'", "arg");
    check("'state == ''a'' && arg.b'", "'state == ''a'' && arg.b'");
    check(
        "\"state == \\\"a\\\" && arg.b\"",
        "\"state == \\\"a\\\" && arg.b\"",
    );
    check("state == 'ä' && arg.b", "arg");
    check("|\n          arg.b\n", "arg");
    check("1 == 1 &&\n          arg.b", "1 == 1 &&\n          arg.b");
}

#[test]
fn a_finding_points_at_the_slot_of_a_text_that_it_means() {
    let text = format!(
        "{HEAD}prompts: {{ p: {{ text: x }} }}\nstates:\n  a: {{ initial: true, prompts: {{ p: {{ approve: \"Pay {{{{amount}}}}?\", success: b }} }} }}\n  \
         b: {{ terminal: true }}\n"
    );
    let invalid = refused(&text);
    let span = invalid.errors().next().unwrap().span.unwrap();
    assert_eq!(&text[span.start..span.end], "{{amount}}", "{invalid}");
}

#[test]
fn a_key_that_is_kept_and_never_set_is_pointed_at() {
    let file = accepted(&format!(
        "{HEAD}settings: {{ keep: [order] }}\nprompts: {{ p: {{ text: x }} }}\n\
         states: {{ a: {{ initial: true, prompts: {{ p: b }} }}, b: {{ terminal: true }} }}\n"
    ));
    let [warning] = &file.warnings[..] else {
        panic!("{:?}", file.warnings);
    };
    let span = warning.span.unwrap();
    assert_eq!(
        (warning.problem.code(), span.line, span.column),
        ("never-set", 3, 20)
    );
}

#[test]
fn what_a_lost_edge_would_have_set_is_not_reported_besides() {
    check_error(
        &format!(
            "{HEAD}prompts: {{ p: {{ text: x }} }}\nstates:\n  \
             a: {{ initial: true, prompts: {{ p: {{ success: {{ to: b, sett: {{ order: args.order }} }} }} }} }}\n  \
             b: {{ prompts: {{ p: {{ when: ctx.order == 1, success: c }} }} }}\n  c: {{ terminal: true }}\n"
        ),
        "unknown-key",
        5,
        57,
        "did you mean `set`?",
    );
}

#[test]
fn a_destructive_tool_is_known_as_one() {
    let codes = |annotations: &str| -> Vec<_> {
        let file = accepted(&format!(
            "{HEAD}tools: {{ t: {{ description: d, command: [c], annotations: {annotations} }} }}\n\
             states: {{ a: {{ initial: true, tools: {{ t: {{ success: b, unknown: hold }} }} }}, b: {{ terminal: true }} }}\n"
        ));
        file.warnings
            .iter()
            .map(|warning| warning.problem.code())
            .collect()
    };
    assert_eq!(codes("{ destructiveHint: true }"), ["unapproved"]);
    assert!(codes("{ destructiveHint: false }").is_empty());
}
