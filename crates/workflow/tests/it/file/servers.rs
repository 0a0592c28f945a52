//! Servers behind this one, and the names of what they have.

use super::{HEAD, accepted, check_error, refused};
use interlock_workflow::file;

#[track_caller]
fn prefixes(servers: &str) -> Vec<String> {
    let file = accepted(&format!("{HEAD}servers: {servers}\n"));
    file.servers
        .into_iter()
        .map(|server| server.prefix)
        .collect()
}

#[test]
fn names_have_a_prefix_where_servers_must_be_told_apart() {
    assert_eq!(prefixes("{ shop: { command: [x] } }"), [""]);
    assert_eq!(prefixes("{ shop: { command: [x], prefix: s- } }"), ["s-"]);
    let two = "{ shop: { command: [x] }, mail: { command: [x] } }";
    assert_eq!(prefixes(two), ["shop_", "mail_"]);
    let bare = "{ shop: { command: [x], prefix: \"\" }, mail: { command: [x] } }";
    assert_eq!(prefixes(bare), ["", "mail_"]);
    assert!(prefixes("").is_empty());
}

/// A file with two servers and one tool in one state.
fn calling(tool: &str) -> String {
    format!(
        "{HEAD}servers: {{ shop: {{ command: [x] }}, mail: {{ command: [x] }} }}\n\
         states: {{ a: {{ initial: true, tools: {{ {tool}: b }}, resources: {{ \"any://{{id}}\": a }} }}, b: {{ terminal: true }} }}\n"
    )
}

#[test]
fn what_begins_with_the_prefix_of_a_server_is_expected_to_be_there() {
    assert_eq!(accepted(&calling("shop_refund")).warnings, []);
    assert_eq!(accepted(&calling("mail_send")).warnings, []);
    let invalid = refused(&calling("shp_refund"));
    assert_eq!(invalid.findings[0].problem.code(), "unknown-artifact");
}

#[test]
fn a_template_is_bound_where_a_server_may_have_it_and_must_else_be_declared() {
    accepted(&calling("shop_refund"));
    let alone = format!(
        "{HEAD}prompts: {{ p: {{ text: x }} }}\n\
         states: {{ a: {{ initial: true, prompts: {{ p: b }}, resources: {{ \"any://{{id}}\": a }} }}, b: {{ terminal: true }} }}\n"
    );
    check_error(&alone, "unknown-artifact", 4, 63, "any://{id}");
}

#[test]
fn a_mistake_in_a_server_does_not_hide_what_is_wrong_with_the_states() {
    let invalid = refused(&format!(
        "{HEAD}servers: {{ shop: {{ command: [x], evn: {{}} }} }}\nstates: {{ a: {{ initial: true }} }}\n"
    ));
    let codes: Vec<_> = invalid.errors().map(|error| error.problem.code()).collect();
    assert_eq!(codes, ["unknown-key", "no-reachable-end"]);
}

#[test]
fn an_address_may_be_a_variable() {
    accepted(&format!(
        "{HEAD}servers: {{ shop: {{ url: \"${{SHOP_URL}}/mcp\" }} }}\n"
    ));
    accepted(&format!(
        "{HEAD}servers: {{ shop: {{ url: \"HTTPS://shop.example:8443/mcp\" }} }}\n"
    ));
}

#[test]
fn variables_are_left_to_whoever_has_an_environment() {
    let file = accepted(&format!(
        "{HEAD}servers: {{ shop: {{ command: [run, \"--key=${{KEY}}\", \"$${{KEY}}\", $5] }} }}\n"
    ));
    let file::Transport::Command(file::Program { command, .. }) = &file.servers[0].transport else {
        panic!("{:?}", file.servers);
    };
    let lookup = |name: &str| (name == "KEY").then(|| "k".to_owned());
    let words: Vec<_> = command
        .iter()
        .map(|word| file::expand(word, lookup).unwrap())
        .collect();
    assert_eq!(words, ["run", "--key=k", "${KEY}", "$5"]);
}
