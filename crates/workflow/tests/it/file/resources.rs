//! Resources: texts, files and what programs print, by URI or by template.

use super::{HEAD, accepted, check_error};
use interlock_workflow::{Kind, file::Content};

/// A file with this resource, which its first state binds.
fn with(resource: &str) -> String {
    format!("{HEAD}resources: {{ {resource} }}\n")
}

#[test]
fn a_template_is_declared_and_bound_as_a_whole_or_in_part() {
    let file = accepted(&format!(
        "{}states: {{ a: {{ initial: true, resources: {{ \"doc://{{name}}\": b }} }}, \
         b: {{ resources: {{ \"doc://terms\": c }} }}, c: {{ terminal: true }} }}\n",
        with("\"doc://{name}\": { file: \"docs/{{name}}.md\" }")
    ));
    assert_eq!(file.warnings, []);
    let [doc] = &file.resources[..] else {
        panic!("{:?}", file.resources);
    };
    assert!(doc.is_template());
    assert_eq!(doc.content, Content::File("docs/{{name}}.md".into()));
    let workflow = file.workflow.unwrap();
    let start = workflow.initial();
    let visible: Vec<_> = workflow.visible(start, Kind::Resource).collect();
    assert_eq!(visible, ["doc://{name}"]);
}

#[test]
fn a_resource_holds_one_thing() {
    let none = with("\"a://b\": { name: x }");
    check_error(
        &none,
        "missing-key",
        3,
        14,
        "a resource needs `text`, `file` or `command`",
    );
    let two = with("\"a://b\": { text: x, file: y }");
    check_error(
        &two,
        "two-contents",
        3,
        34,
        "one of `text`, `file` and `command`",
    );
    let useless = with("\"a://b\": { text: x, cwd: y }");
    check_error(
        &useless,
        "useless-key",
        3,
        34,
        "`cwd` is of no use without `command`",
    );
    for outside in ["", "../x", "a/../../x", "/etc/passwd"] {
        let outside = with(&format!("\"a://b\": {{ file: \"{outside}\" }}"));
        let words = "the path of a file inside the folder of this one";
        check_error(&outside, "bad-value", 3, 31, words);
    }
    let no_program = with("\"a://b\": { command: [] }");
    check_error(&no_program, "no-program", 3, 25, "names no program");
}

#[test]
fn a_template_names_its_variables() {
    let unknown = with("\"a://{id}\": { text: \"{{is}}\" }");
    check_error(
        &unknown,
        "unknown-argument",
        3,
        35,
        "the template has no variable `is`",
    );
    let broken = with("\"a://{id\": { text: x }");
    check_error(&broken, "bad-template", 3, 14, "never closed");
    // Without variables, braces are a text like any other.
    accepted(&with("\"a://b\": { text: \"{{is}}\" }"));
}
