//! The workflow file: what it says, and what is said about it.

#![allow(
    clippy::unwrap_used,
    reason = "the functions that tests share are tests as well"
)]

mod docs;
mod hostile;
mod keys;
mod resources;
mod servers;
mod writing;
mod wrong;

use interlock_workflow::{
    Busy, Finish, Invalid, Kind, Outcome, Scope, Settings, Visibility, Workflow,
    file::{self, Annotations, Content, File},
};
use serde_json::json;
use std::time::Duration;

const YAML: &str = include_str!("../fixtures/files/refund.yaml");
const JSON: &str = include_str!("../fixtures/files/refund.json");

/// Texts and what is wrong with them; [`HEAD`] belongs before each.
const ERRORS: &str = include_str!("../fixtures/files/errors.txt");
const HEAD: &str = "interlock: 1\nname: x\n";

/// Errors in whole files: text, code, line, column and a part of the message or help.
#[rustfmt::skip] // One row is one line.
const WHOLE: &[(&str, &str, u32, u32, &str)] = &[
    ("", "empty-file", 1, 1, "begins with `interlock: 1`"),
    ("# nothing\n\n", "empty-file", 1, 1, "the file is empty"),
    ("---\n", "empty-file", 1, 4, "the file is empty"),
    ("hello", "wrong-type", 1, 1, "a workflow file is a map, not text"),
    ("- a\n- b\n", "wrong-type", 1, 1, "a workflow file is a map, not a list"),
    ("[]", "wrong-type", 1, 1, "a map, not a list"),
    ("name: x", "missing-key", 1, 1, "the file needs the key `interlock`"),
    ("interlock: 1", "missing-key", 1, 1, "the file needs the key `name`"),
    ("# c\n\ninterlock: 1\n", "missing-key", 3, 1, "`name`"),
    ("interlock: 2\nnonsense: 1\n", "bad-value", 1, 12, "`interlock` must be 1, not `2`"),
    ("interlock: 1.0\nname: x", "bad-value", 1, 12, "not `1.0`"),
    ("interlock: {}\nname: x", "wrong-type", 1, 1, "`interlock` must be 1, not a map"),
    ("interlock: 1\nname: ''", "bad-name", 2, 7, "1 to 128 characters"),
    ("interlock: 1\nname: {}", "wrong-type", 2, 1, "`name` must be text"),
    ("interlock: 1\nname: 'a\u{1}'", "syntax", 2, 9, "unexpected character"),
    // Characters are counted, not bytes; and neither a mark of byte order nor a return is one.
    ("\u{feff}nome: x\r\ninterlock: 1\r\nname: x\r\n", "unknown-key", 1, 1, "`name`?"),
    ("{interlock: 1, name: \"🔑é\", nmae: 1}", "unknown-key", 1, 28, "`name`?"),
    ("interlock: 1\r\nname: x\r\n  \r\nnome: y\r\n", "unknown-key", 4, 1, "`name`?"),
    // JSON that is not JSON.
    ("{\n  \"interlock\": 1,\n  \"name\": \"x\"\n", "syntax", 4, 1, "EOF while parsing an object"),
    ("{\"interlock\": 1 \"name\": \"x\"}", "syntax", 1, 17, "expected `,` or `}`"),
    ("{\"interlock\": 1,\n \"é\": [\"a\" 2]}", "syntax", 2, 12, "expected `,` or `]`"),
    ("{\"interlock\": 1, \"name\": \"\\q\"}", "syntax", 1, 28, "invalid escape"),
    ("{\"interlock\": 1, \"name\": \"x\", \"name\": \"y\"}", "duplicate-key", 1, 31, "`name`"),
    ("{interlock: 1, name: x", "syntax", 1, 1, "unclosed bracket"),
];

#[test]
fn every_error_has_its_code_its_place_and_its_words() {
    let mut cases = 0;
    for case in ERRORS.split("\n==== ").skip(1) {
        let (expected, body) = case.split_once('\n').unwrap();
        let mut parts = expected.splitn(3, ' ');
        let mut part = || parts.next().unwrap();
        let (code, place, words) = (part(), part(), part());
        let (line, column) = place.split_once(':').unwrap();
        let (line, column) = (line.parse().unwrap(), column.parse().unwrap());
        check_error(&format!("{HEAD}{body}"), code, line, column, words);
        cases += 1;
    }
    assert!(cases >= 100, "only {cases} cases were found");
}

#[test]
fn errors_in_whole_files_have_their_places_too() {
    for &(text, code, line, column, words) in WHOLE {
        check_error(text, code, line, column, words);
    }
}

fn check_error(text: &str, code: &str, line: u32, column: u32, words: &str) {
    let invalid = refused(text);
    let errors: Vec<_> = invalid.errors().collect();
    let [error] = errors[..] else {
        panic!("{text}\nhas {} errors:\n{invalid}", errors.len());
    };
    let span = error.span.unwrap();
    let found = (error.problem.code(), span.line, span.column);
    assert_eq!(found, (code, line, column), "{text}\n{invalid}");
    assert!(invalid.to_string().contains(words), "{text}\n{invalid}");
    assert_eq!(
        column_of(text, span.start),
        span.column,
        "{text}\n{invalid}"
    );
    assert!(text.get(span.start..span.end).is_some(), "{text}\n{span:?}");
}

/// Counts for itself, to check that bytes and columns say the same.
fn column_of(text: &str, start: usize) -> u32 {
    let line = text[..start].rsplit('\n').next().unwrap();
    u32::try_from(line.replace('\u{feff}', "").chars().count() + 1).unwrap()
}

#[track_caller]
fn refused(text: &str) -> Invalid {
    match file::read(text.as_bytes()) {
        Ok(file) => panic!("{text}\nis accepted: {file:#?}"),
        Err(invalid) => invalid,
    }
}

#[track_caller]
fn accepted(text: &str) -> File {
    match file::read(text.as_bytes()) {
        Ok(file) => file,
        Err(invalid) => panic!("{text}\nis refused: {invalid}"),
    }
}

/// Each finding as code, line and column.
fn places(invalid: &Invalid) -> Vec<(&'static str, u32, u32)> {
    invalid
        .findings
        .iter()
        .map(|finding| {
            let span = finding.span.unwrap();
            (finding.problem.code(), span.line, span.column)
        })
        .collect()
}

#[test]
fn a_span_covers_what_it_is_about() {
    #[track_caller]
    fn check(text: &str, marked: &str) {
        let invalid = refused(text);
        let span = invalid.findings[0].span.unwrap();
        assert_eq!(&text[span.start..span.end], marked);
    }
    check("interlock: 1\nname: x\nstats:\n  a: b\n", "stats");
    check("interlock: 1\nname: x\n\"stats\": {}\n", "\"stats\"");
    check("interlock: 1\nname: x\ntools:\n  - a\n", "tools");
    check(
        "interlock: 1\nname: x\nsettings: {tool_timeout: 'ä'}",
        "'ä'",
    );
    check(
        "interlock: 1\nname: x\nprompts: {p: {text: 'a {{ b }}.'}}",
        "{{ b }}",
    );
    check("interlock: 1\nname: x\ndescription: !t\n  y", "!t");
    check(
        "interlock: 1\nname: x\nsettings:\n  tool_timeout: |\n    soon\n\n",
        "soon",
    );
    check("- a: b\n  c: d\n", "- a: b");
    check("{\"interlock\": 1}", "{");
}

#[test]
fn all_findings_come_at_once_in_the_order_of_the_file() {
    let invalid = refused(
        "interlock: 1
nome: x
states:
  new: { initial: true, tools: { lookup: { success: fond, approved: ok } } }
  found: { max_visits: 0, tools: { pay: {} } }
tools:
  lookup: { description: d, command: [c], timeout: 5 }
  lookup: {}
always: [serch]
settings: { busy: maybe, busy: wait }
",
    );
    assert_eq!(
        places(&invalid),
        [
            ("missing-key", 1, 1),
            ("unknown-key", 2, 1),
            ("unknown-target", 4, 53),
            ("unknown-key", 4, 59),
            ("bad-value", 5, 24),
            ("unknown-artifact", 5, 36),
            ("bad-duration", 7, 52),
            ("duplicate-key", 8, 3),
            ("unknown-name", 9, 10),
            ("bad-value", 10, 19),
            ("duplicate-key", 10, 26),
        ]
    );
}

#[test]
fn what_follows_from_a_slip_in_the_text_is_not_reported_besides() {
    // Without the slip, `b` could be reached, and would be the end.
    let invalid = refused(&format!(
        "{HEAD}prompts: {{ p: {{ text: x }} }}\n\
         states: {{ a: {{ initial: true, prompts: {{ p: {{ sucess: b }} }} }}, b: {{ terminal: true }} }}"
    ));
    assert_eq!(places(&invalid), [("unknown-key", 4, 47)]);
}

#[test]
fn a_slip_outside_the_states_does_not_hide_what_is_wrong_with_them() {
    let invalid = refused(&format!(
        "{HEAD}settings: {{ tool_timeout: 5 }}\nstates: {{ a: {{ initial: true }} }}"
    ));
    assert!(
        places(&invalid).contains(&("bad-duration", 3, 27)),
        "{invalid}"
    );
    assert!(
        places(&invalid).contains(&("no-reachable-end", 4, 11)),
        "{invalid}"
    );
}

#[test]
fn warnings_do_not_stand_in_the_way_and_say_where_they_belong() {
    let file = accepted(&format!(
        "{HEAD}tools: {{ idle: {{ description: d, command: [c] }} }}\n\
         prompts: {{ p: {{ text: x }} }}\n\
         states:\n  a: {{ initial: true, prompts: {{ p: end }} }}\n  lost: {{}}\n  end: {{ terminal: true }}\n"
    ));
    let warnings: Vec<_> = file
        .warnings
        .iter()
        .map(|finding| (finding.problem.code(), finding.span.unwrap().line))
        .collect();
    assert_eq!(warnings, [("bound-nowhere", 3), ("unreachable-state", 7)]);
}

#[test]
fn everything_that_a_file_can_say_is_read() {
    let file = accepted(YAML);
    assert_eq!(file.name, "refund");
    assert_eq!(
        file.description.as_deref(),
        Some("Find the order, then pay it back.")
    );
    assert_eq!(
        file.settings,
        Settings {
            scope: Scope::Global,
            busy: Busy::Refuse,
            visibility: Visibility::Static,
            finish: Finish::Stay,
            tool_timeout: Duration::from_secs(45),
            keep: Vec::new(),
        }
    );
    assert_eq!(file.warnings, []);
}

#[test]
fn tools_are_commands_with_schemas() {
    let file = accepted(YAML);
    let [lookup, refund, search] = &file.tools[..] else {
        panic!("{:?}", file.tools);
    };
    assert_eq!(lookup.name, "lookup_order");
    assert_eq!(lookup.title.as_deref(), Some("Look up an order"));
    assert_eq!(lookup.description, "Find an order by its number");
    assert_eq!(
        lookup.input,
        json!({
            "type": "object",
            "properties": { "order": { "type": "string" } },
            "required": ["order"],
        })
    );
    assert_eq!(
        lookup.output,
        Some(json!({
            "type": "object",
            "properties": {
                "partial": { "type": "boolean" },
                "amount": { "type": "number", "minimum": 0.5 },
            },
        }))
    );
    assert_eq!(
        lookup.program.command,
        ["python3", "shop.py", "lookup", "7"]
    );
    assert_eq!(lookup.timeout, None);
    assert_eq!(
        serde_json::to_value(&lookup.annotations).unwrap(),
        json!({ "readOnlyHint": true })
    );
    assert_eq!(
        refund.input,
        json!({ "type": "object", "properties": { "amount": { "type": "integer", "maximum": 100 } } })
    );
    assert_eq!(refund.timeout, Some(Duration::from_secs(10)));
    assert_eq!(
        refund.annotations,
        Some(Annotations {
            title: Some("Refund".into()),
            read_only_hint: Some(false),
            destructive_hint: Some(true),
            idempotent_hint: Some(false),
            open_world_hint: Some(true),
        })
    );
    assert_eq!(search.input, json!({ "type": "object" }));
    assert_eq!(
        (&search.title, &search.output, &search.annotations),
        (&None, &None, &None)
    );
}

#[test]
fn resources_and_prompts_are_texts() {
    let file = accepted(YAML);
    let [rules, terms] = &file.resources[..] else {
        panic!("{:?}", file.resources);
    };
    assert_eq!(rules.uri, "note://rules");
    assert_eq!(
        rules.content,
        Content::Text("Refunds over 100 need a manager.".into())
    );
    assert_eq!(
        (&rules.name, &rules.description, &rules.mime_type),
        (&None, &None, &None)
    );
    assert_eq!(terms.name.as_deref(), Some("Terms"));
    assert_eq!(
        terms.description.as_deref(),
        Some("What the customer agreed to")
    );
    assert_eq!(terms.mime_type.as_deref(), Some("text/markdown"));
    assert_eq!(
        terms.content,
        Content::Text("# Terms\nNo returns: none.\n".into())
    );

    let [apologise, search] = &file.prompts[..] else {
        panic!("{:?}", file.prompts);
    };
    assert_eq!(apologise.description.as_deref(), Some("Say sorry"));
    assert_eq!(apologise.arguments[0].name, "who");
    assert!(apologise.arguments[0].required);
    assert_eq!(
        search.arguments[0].description.as_deref(),
        Some("What to look for")
    );
    assert!(!search.arguments[0].required && !search.arguments[1].required);
    let filled = file::fill_in(&search.text, |name| (name == "what").then_some("{{where}}"));
    assert_eq!(filled, "Look for {{where}} in .");
}

#[test]
fn states_bindings_and_edges_become_the_workflow() {
    let workflow = accepted(YAML).workflow.unwrap();
    assert_eq!(workflow.name(), "refund");
    assert_eq!(workflow.settings().busy, Busy::Refuse);
    assert_eq!(workflow.state_name(workflow.initial().state), "new");
    assert_eq!(
        edges(&workflow, "new", "lookup_order"),
        ["found", "new", "new", "new", "review"]
    );
    // Where nothing is said: a timeout and what is not known are as an error, a cancelled call stays.
    assert_eq!(
        edges(&workflow, "found", "refund"),
        ["paid!", "found", "review", "found", "found"]
    );
    assert_eq!(edges(&workflow, "found", "note://rules"), ["found"; 5]);
    assert_eq!(edges(&workflow, "review", "refund")[0], "paid!");
    let new = workflow.initial();
    assert_eq!(
        workflow.bindings(new.state)[0].deadline(),
        Some(Duration::from_millis(250))
    );
    // `search` is a tool and a prompt, and both are always there.
    let visible = |kind| workflow.visible(new, kind).collect::<Vec<_>>();
    assert_eq!(visible(Kind::Tool), ["lookup_order", "search"]);
    assert_eq!(visible(Kind::Prompt), ["search"]);
    assert_eq!(visible(Kind::Resource), ["note://terms"]);
}

/// Where the outcomes lead, in their own order; an edge that ends the workflow has a mark.
fn edges(workflow: &Workflow, state: &str, name: &str) -> Vec<String> {
    let bindings = workflow.bindings(workflow.state_id(state).unwrap());
    let binding = bindings
        .iter()
        .find(|binding| binding.artifact().name == name)
        .unwrap();
    Outcome::ALL
        .iter()
        .map(
            |outcome| match workflow.alternatives(binding, *outcome).next() {
                Some((_, edge)) => {
                    let end = if edge.terminal { "!" } else { "" };
                    format!("{}{end}", workflow.state_name(edge.to))
                }
                None => state.to_owned(),
            },
        )
        .collect()
}

#[test]
fn json_says_the_same_as_yaml() {
    let (yaml, json) = (accepted(YAML), accepted(JSON));
    assert_eq!(yaml.tools, json.tools);
    assert_eq!(yaml.resources, json.resources);
    assert_eq!(yaml.prompts, json.prompts);
    assert_eq!(yaml.settings, json.settings);
    assert_eq!((yaml.name, yaml.description), (json.name, json.description));
    let (yaml, json) = (yaml.workflow.unwrap(), json.workflow.unwrap());
    assert_eq!(yaml.fingerprint(), json.fingerprint());
    // On one line as well, and as another program would write it.
    let value: serde_json::Value = serde_json::from_str(JSON).unwrap();
    for text in [
        value.to_string(),
        serde_json::to_string_pretty(&value).unwrap(),
    ] {
        let again = accepted(&text).workflow.unwrap();
        assert_eq!(again.fingerprint(), json.fingerprint());
    }
}

#[test]
fn escapes_of_json_are_read() {
    let long = "long ".repeat(1000);
    let description = format!("😀 \u{e9}\"\\/\u{8}\u{c}\n\r\t\u{0} {long}");
    let ascii = format!(r#""\ud83d\ude00 \u00E9\"\\\/\b\f\n\r\t\u0000 {long}""#);
    for written in [ascii, serde_json::to_string(&description).unwrap()] {
        let text = format!("{{\"interlock\":1,\"description\":{written},\"name\":\"x\"}}");
        assert_eq!(accepted(&text).description.as_deref(), Some(&*description));
    }
}

#[test]
fn a_plain_word_is_the_name_that_it_looks_like() {
    let file = accepted(&format!(
        "{HEAD}prompts: {{ no: {{ text: x }}, 1: {{ text: 2 }} }}
states:
  no: {{ initial: true, prompts: {{ no: on, 1: 010 }} }}
  on: {{ prompts: {{ no: 0x1F }} }}
  010: {{ prompts: {{ no: 1e3, 1: true }} }}
  0x1F: {{ prompts: {{ no: 12:30 }} }}
  1e3: {{ terminal: true }}
  true: {{ prompts: {{ no: Null }} }}
  12:30: {{ prompts: {{ no: 'null' }} }}
  Null: {{ terminal: true }}
  'null': {{ terminal: true }}
"
    ));
    let workflow = file.workflow.unwrap();
    assert_eq!(edges(&workflow, "no", "no")[0], "on");
    assert_eq!(edges(&workflow, "no", "1")[0], "010");
    assert_eq!(edges(&workflow, "010", "1")[0], "true");
    assert_eq!(edges(&workflow, "010", "no")[0], "1e3!");
    assert_eq!(edges(&workflow, "12:30", "no")[0], "null!");
    assert_eq!(file.prompts[1].text, "2");
}

#[test]
fn a_file_without_states_gates_nothing() {
    let file = accepted(&format!(
        "{HEAD}prompts: {{ p: {{ text: x }} }}\nalways: [p]\n"
    ));
    assert!(file.workflow.is_none());
    assert_eq!(file.settings, Settings::default());
    let file = accepted(&format!(
        "{HEAD}tools:\nresources:\nprompts:\nalways:\nsettings:\n"
    ));
    assert!(file.workflow.is_none());
    assert!(file.tools.is_empty() && file.resources.is_empty() && file.prompts.is_empty());
}

#[test]
fn states_that_were_all_taken_out_are_not_the_same_as_none() {
    // Somebody who comments out every state must not end up with an open gateway unawares.
    check_error(
        &format!("{HEAD}states:\n  # a: {{}}\n"),
        "no-states",
        3,
        1,
        "no states",
    );
}

#[test]
fn a_star_makes_the_rest_always_callable() {
    let file = accepted(&format!(
        "{HEAD}prompts: {{ p: {{ text: x }}, q: {{ text: y }} }}\nalways: [\"*\"]\n\
         states: {{ a: {{ initial: true, prompts: {{ p: b }} }}, b: {{ terminal: true }} }}\n"
    ));
    assert!(file.workflow.unwrap().always_everything());
    assert_eq!(file.warnings, []);
}

#[test]
fn an_alias_repeats_a_value_and_its_faults_are_told_once() {
    let file = accepted(&format!(
        "{HEAD}tools:\n  a: {{ description: d, command: &c [run, it], input: &i {{ properties: {{ n: {{}} }} }} }}\n  \
         b: {{ description: d, command: *c, input: *i }}\n"
    ));
    assert_eq!(file.tools[0].program, file.tools[1].program);
    assert_eq!(file.tools[0].input, file.tools[1].input);

    let invalid = refused(&format!(
        "{HEAD}prompts:\n  p: &p {{ text: x, a: 1, b: 2 }}\n  q: *p\n  r: *p\n"
    ));
    assert_eq!(
        places(&invalid),
        [("unknown-key", 4, 20), ("unknown-key", 4, 26)]
    );
}

#[test]
fn keys_of_a_schema_may_be_anything() {
    let file = accepted(&format!(
        "{HEAD}tools:\n  t:\n    description: d\n    command: [c]\n    input:\n      \
         properties: {{ name: {{ enum: [null, ~, true, 'true', -1.5, 1e2, yes] }}, 7: {{}} }}\n"
    ));
    assert_eq!(
        file.tools[0].input["properties"],
        json!({ "name": { "enum": [null, null, true, "true", -1.5, 1e2, "yes"] }, "7": {} })
    );
}
