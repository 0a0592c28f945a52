//! What is written is read back as it was.

use super::{
    YAML, accepted,
    keys::{EVERYTHING, everything},
};
use interlock_workflow::{
    Artifact, Draft, DraftAlways, Kind, Place, Settings, Targets, Workflow,
    file::{NotWritable, read_definition, write, write_json},
    rust, to,
};
use std::time::Duration;

#[track_caller]
fn check(draft: &Draft) {
    for text in [write(draft).unwrap(), write_json(draft).unwrap()] {
        let read = read_definition(text.as_bytes()).unwrap();
        assert_eq!(read, *draft, "{text}");
    }
}

fn closed(draft: Draft) -> Draft {
    Draft {
        targets: Targets::Closed,
        ..draft
    }
}

#[test]
fn a_definition_with_everything_in_it_comes_back() {
    check(&everything());
    check(&read_definition(YAML.as_bytes()).unwrap());
    check(&accepted(EVERYTHING).workflow.unwrap().definition());
}

#[test]
fn what_is_written_is_what_a_person_would_write() {
    let text = write(&everything()).unwrap();
    super::wrong::golden("tests/fixtures/files/everything.written.yaml", &text);
}

#[test]
fn names_and_texts_that_yaml_would_misread_come_back() {
    let names = [
        "no", "on", "010", "null", "true", "~", "a: b", "a #b", " a ", "- a", "*", "é", "日本",
        "🔑", "<<", "0x1F", "1e3", "hold", "a\u{a0}b", "{a}", "[a]", "'a'", "\"a\"", "a\\b", "%",
        "@", "`", "y",
    ];
    let texts = [
        "",
        " ",
        "a\nb\n",
        "a\nb",
        "\n",
        "a\t\u{1b}\0",
        " a\n b ",
        "x: y # z",
        "\r\n",
        "\u{85}",
        "\u{2028}\u{feff}\u{202e}",
        "a\\nb",
        "'\"'",
    ];
    let mut builder = Workflow::builder("no");
    for (at, name) in names.iter().enumerate() {
        let text = texts[at % texts.len()];
        builder = builder.state(*name, |s| {
            s.description(text)
                .instructions(text)
                .tool(*name, |t| {
                    t.when(text)
                        .approve(text)
                        .success(to(*name).effect(*name))
                        .unknown(*name)
                })
                .prompt(*name, |p| p.success(*name))
                .sampling(1, |m| m.system(text).user(text).assistant(text))
        });
        builder = builder
            .always_prompt(format!("{name}!"))
            .always_resource(*name);
    }
    let draft = closed(builder.description("").into_draft());
    check(&draft);
    check(&Draft {
        name: "~".into(),
        ..draft
    });
}

#[test]
fn the_kind_of_what_is_always_callable_comes_back() {
    let one = |kind, name: &str| DraftAlways {
        artifact: Artifact::new(kind, name),
        place: Place::default(),
    };
    let draft = closed(Draft {
        name: "x".into(),
        always: vec![
            one(Kind::Tool, "a"),
            one(Kind::Prompt, "b"),
            one(Kind::Resource, "c:d"),
            one(Kind::Resource, "e"),
            one(Kind::Tool, "f:g"),
            one(Kind::Tool, "*"),
            one(Kind::Tool, "both"),
            one(Kind::Prompt, "both"),
        ],
        always_everything: true,
        ..Draft::default()
    });
    check(&draft);
    let text = write(&draft).unwrap();
    for short in ["  - \"*\"\n", "  - a\n", "  - c:d\n"] {
        assert!(text.contains(short), "{text}");
    }
    assert!(text.contains("  - { tool: both }\n"), "{text}");
}

#[test]
fn a_name_that_another_kind_has_as_well_is_written_with_its_kind() {
    let draft = closed(
        Workflow::builder("x")
            .state("a", |s| s.prompt("search", |p| p.success("a")))
            .always_tool("search")
            .into_draft(),
    );
    check(&draft);
    assert!(write(&draft).unwrap().contains("{ tool: search }"));
}

#[test]
fn settings_are_written_where_they_differ() {
    let draft = |settings| Draft {
        name: "x".into(),
        settings,
        targets: Targets::Closed,
        ..Draft::default()
    };
    assert_eq!(
        write(&draft(Settings::default())).unwrap(),
        "interlock: 1\nname: x\n"
    );
    let text = write(&draft(Settings {
        tool_timeout: Duration::from_millis(1_500),
        keep: vec!["a".into()],
        ..Settings::default()
    }));
    let expected = "interlock: 1\nname: x\n\nsettings:\n  tool_timeout: 1500ms\n  keep: [a]\n";
    assert_eq!(text.unwrap(), expected);
}

#[test]
fn states_that_are_only_led_to_are_written_too() {
    let draft = Workflow::builder("x")
        .state("a", |s| {
            s.initial()
                .tool("t", |t| t.success("b").error("c"))
                .after(Duration::from_secs(1), "d")
        })
        .into_draft();
    let read = read_definition(write(&draft).unwrap().as_bytes()).unwrap();
    let names: Vec<_> = read.states.iter().map(|state| &*state.name).collect();
    assert_eq!(names, ["a", "b", "c", "d"]);
}

#[test]
fn what_says_nothing_need_not_come_back() {
    let draft = closed(
        Workflow::builder("x")
            .state("a", |s| {
                s.prompt("p", |p| p.success("a"))
                    .tool("t", |t| t.error("a").success("a").unknown("a").hold())
            })
            .into_draft(),
    );
    let expected = closed(
        Workflow::builder("x")
            .state("a", |s| {
                s.tool("t", |t| t.success("a").error("a").hold())
                    .prompt("p", |p| p.success("a"))
            })
            .into_draft(),
    );
    let read = read_definition(write(&draft).unwrap().as_bytes()).unwrap();
    assert_eq!(read, expected);
}

#[test]
fn a_function_in_rust_cannot_be_written_and_is_named() {
    let draft = Workflow::builder("x")
        .state("a", |s| {
            s.tool("t", |t| t.success(to("a").set("k", rust("double", |_| 2))))
        })
        .into_draft();
    let error = write(&draft).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the value of `k` for success of tool \"t\" in state \"a\" is the Rust function \"double\", \
         which no file can hold"
    );
    let NotWritable::Function { name, .. } = error else {
        panic!("{error:?}");
    };
    assert_eq!(name, "double");
}

#[test]
fn what_no_file_can_say_is_refused_instead_of_written_wrongly() {
    #[track_caller]
    fn check(draft: Draft, words: &str) {
        for written in [write(&draft), write_json(&draft)] {
            let error = written.unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
    let named = |name: &str| Workflow::builder("x").state(name, |s| s).into_draft();
    check(named(""), "cannot be the name of a state");
    check(named("a\nb"), "cannot be the name of a state");
    check(named(&"a".repeat(200)), "cannot be the name of a state");
    check(Draft::default(), "cannot be the name of a workflow");
    let twice = Workflow::builder("x").state("a", |s| s).state("a", |s| s);
    check(twice.into_draft(), "`a` is given twice");
    let tool = |define: fn(interlock_workflow::BindingBuilder) -> _| {
        Workflow::builder("x")
            .state("a", |s| s.tool("t", define))
            .into_draft()
    };
    check(
        tool(|t| t.deadline(Duration::from_nanos(5))),
        "whole milliseconds",
    );
    check(tool(|t| t.deadline(Duration::ZERO)), "whole milliseconds");
    check(
        tool(|t| t.success(to("a").set("a-b", "1"))),
        "a remembered value",
    );
    let visits = Workflow::builder("x").state("a", |s| s.max_visits(0));
    check(visits.into_draft(), "1 or more");
    let long = Workflow::builder("x").description("x".repeat(1_000_000));
    check(long.into_draft(), "more than the 1000000 bytes");
}
