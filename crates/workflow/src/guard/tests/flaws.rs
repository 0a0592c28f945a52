//! What is refused when an expression is built, and how that is told.

use crate::guard::flaw::Fault;
use crate::guard::{Flaw, Program, Root};

fn flaws(source: &str) -> Vec<Flaw> {
    match Program::compile(source, &Root::ALL) {
        Err(flaws) => flaws,
        Ok(_) => panic!("{source} has no flaws"),
    }
}

/// The one flaw: its message, its help, and the text that it points at.
#[track_caller]
fn flawed(source: &str, message: &str, help: &str, at: &str) {
    let flaws = flaws(source);
    let [flaw] = flaws.as_slice() else {
        panic!("{source} has {} flaws: {flaws:?}", flaws.len());
    };
    assert_eq!(flaw.to_string(), message, "{source}");
    assert_eq!(flaw.help().unwrap_or_default(), help, "{source}");
    let place = flaw.at.clone().map(|at| &source[at]);
    assert_eq!(place.unwrap_or("?"), at, "{source}");
}

#[test]
fn an_unknown_name_is_told_with_what_was_meant() {
    flawed(
        "arg.order == 1",
        "unknown name `arg`",
        "did you mean `args`?",
        "arg",
    );
    flawed(
        "args.x == True",
        "unknown name `True`",
        "did you mean `true`?",
        "True",
    );
    flawed(
        "args.x.all(line, lime > 0)",
        "unknown name `lime`",
        "did you mean `line`?",
        "lime",
    );
    let known =
        "here an expression can begin with `args`, `result`, `ctx`, `principal`, `state`, `visits`";
    flawed("1 <\n  zebra", "unknown name `zebra`", known, "zebra");
    flawed("args.a.all(x, true) && x", "unknown name `x`", known, "x");
    flawed("int", "unknown name `int`", known, "int");
    flawed(".args", "unknown name `.args`", "did you mean `args`?", ".");
}

#[test]
fn a_name_that_is_not_known_yet_is_refused() {
    let flaws = Program::compile("result.ok && args.x", &[Root::Args]).unwrap_err();
    assert_eq!(flaws.len(), 1);
    assert_eq!(flaws[0].to_string(), "`result` cannot be used here");
    let help = "`result` is known only after the call: use it on an edge";
    assert_eq!(flaws[0].help().unwrap(), help);
    assert_eq!(flaws[0].at, Some(0..6));
    let flaws = Program::compile("visits", &[Root::Args, Root::Ctx]).unwrap_err();
    assert_eq!(
        flaws[0].help().unwrap(),
        "here an expression can begin with `args`, `ctx`"
    );
}

#[test]
fn all_flaws_are_told_at_once_in_their_order() {
    let told: Vec<String> = flaws("foo.bar && args.x.cotains('y') && size(1, 2) && b'x' == zebra")
        .iter()
        .map(Flaw::to_string)
        .collect();
    let expected = [
        "unknown name `foo`",
        "unknown function `cotains`",
        "`size` takes one argument, found 2",
        "a byte string cannot be used in an expression",
        "unknown name `zebra`",
    ];
    assert_eq!(told, expected);
}

#[test]
fn functions_are_checked_by_name_form_and_arguments() {
    flawed(
        "args.x.startWith('a')",
        "unknown function `startWith`",
        "did you mean `startsWith`?",
        "startWith",
    );
    flawed(
        "length(args.x)",
        "unknown function `length`",
        &functions(),
        "length",
    );
    flawed("now()", "unknown function `now`", &functions(), "now");
    flawed(
        "contains(args.x, 'a')",
        "`contains` is not called like this",
        "write `text.contains(part)`",
        "contains",
    );
    flawed(
        "args.x . int ( )",
        "`int` is not called like this",
        "write `int(x)`",
        "int",
    );
    flawed(
        "args.x.contains()",
        "`contains` takes one argument, found 0",
        "write `text.contains(part)`",
        "contains",
    );
    flawed(
        "args.x.all(y)",
        "`all` takes two arguments, found 1",
        "write `list.all(item, condition)`",
        "all",
    );
    flawed(
        "exists(args.x, y, true)",
        "`exists` is not called like this",
        "write `list.exists(item, condition)`",
        "exists",
    );
    flawed(
        "args.x.map(y)",
        "`map` takes two or three arguments, found 1",
        "write `list.map(item, value)`",
        "map",
    );
    flawed(
        "has()",
        "`has` takes one argument, found 0",
        "write `has(args.key)`",
        "has",
    );
    flawed(
        "args.x.size(1)",
        "`size` takes no arguments, found 1",
        "write `size(x)`",
        "size",
    );
}

fn functions() -> String {
    let known = Fault::UnknownFunction {
        name: String::new(),
        nearest: None,
    };
    known.help().unwrap()
}

#[test]
fn patterns_are_compiled_when_the_expression_is() {
    let help = "write the pattern in quotes, such as `args.id.matches(\"^[0-9]+$\")`";
    let message = "the pattern for `matches` is not a string literal";
    flawed("args.x.matches(args.y)", message, help, ".");
    let message = "the pattern for `matches` cannot be used: unclosed group";
    flawed("args.x.matches('(a')", message, "", "'(a'");
    let message = "the pattern for `matches` cannot be used: it is too large";
    flawed(
        "args.x.matches('(\\\\w{50}){50}')",
        message,
        "",
        "'(\\\\w{50}){50}'",
    );
}

#[test]
fn loop_variables_do_not_hide_facts() {
    let message = "the loop variable `ctx` hides the fact of that name";
    flawed(
        "args.x.all( ctx, ctx > 0)",
        message,
        "give the variable another name",
        "ctx",
    );
}

#[test]
fn maps_have_text_for_keys() {
    let help = "write the key in quotes, such as `{\"order\": args.order}`";
    flawed("{1: 2}", "a map's key is not a string literal", help, "1");
    flawed(
        "{args.x: 2}",
        "a map's key is not a string literal",
        help,
        ".",
    );
    flawed(
        r#"{'a\n': 1, "a\n": 2}"#,
        r"the map has the key `a\n` twice",
        "remove one of them",
        r#""a\n""#,
    );
    flawed(
        "{'a': 1, 'a': 2}",
        "the map has the key `a` twice",
        "remove one of them",
        "'a'",
    );
}

#[test]
fn what_json_does_not_have_is_refused() {
    let help = "facts are JSON: use numbers, strings, booleans, null, lists and maps";
    flawed(
        "b'abc'",
        "a byte string cannot be used in an expression",
        help,
        "b'abc'",
    );
    flawed(
        "Order{id: 1}",
        "a message cannot be used in an expression",
        help,
        "Order",
    );
}

#[test]
fn syntax_is_explained_in_one_line() {
    flawed("args.x = 5", "unexpected `=`", "did you mean `==`?", "=");
    flawed(
        "args.x and args.y",
        "unexpected `and`",
        "did you mean `&&`?",
        "and",
    );
    flawed(
        "args.x & args.y",
        "unexpected `&`",
        "did you mean `&&`?",
        "&",
    );
    let finished = "finish it, such as `args.amount > 0`";
    flawed("size(args.x", "the expression ends too early", finished, "");
    flawed("args.x ==", "the expression ends too early", finished, "");
    flawed(
        "args.x[1",
        "the expression ends where `]` is expected",
        finished,
        "",
    );
    flawed("[1, 2)", "found `)` where `]` is expected", "", ")");
    flawed(
        "args.x ? 1",
        "the expression ends where `:` is expected",
        finished,
        "",
    );
    flawed("args.x == 'abc", "unterminated string literal", "", "'abc");
    flawed("args.größe", "unexpected `ö`", "", "ö");
    flawed("for > 1", "reserved identifier: for", "", "for");
    flawed(
        "99999999999999999999",
        "invalid int literal",
        "",
        "99999999999999999999",
    );
    flawed(
        "has(args)",
        "invalid argument to has() macro",
        "write `has(args.key)`",
        "a",
    );
    flawed(
        "args.?x",
        "unsupported syntax `.?`",
        "use `has(args.key) ? args.key : null`",
        ".",
    );
    flawed("1 + ) + 2", "unexpected `)`", "", ")");
    flawed("1 + \0", "unexpected `\\0`", "", "\0");
    flawed(
        "  ",
        "the expression is empty",
        "write a condition or a value, such as `args.amount > 0`",
        "?",
    );
}
