//! Whatever an expression and its facts are, judging it ends soon and needs little memory.

use std::thread;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{World, program};
use crate::guard::flaw::Fault;
use crate::guard::{DEEPEST_VALUE, Facts, Failed, LONGEST, MOST_TEXT, Program, Root};

fn with_items(count: i64) -> World {
    let items: Vec<i64> = (0..count).collect();
    World::new(
        json!({"items": items, "text": "ab".repeat(500_000), "order": "A"}),
        json!({"order": "A"}),
    )
}

#[test]
fn a_loop_over_too_many_items_stops() {
    let world = with_items(1_000_000);
    for source in [
        "args.items.all(x, x >= 0)",
        "args.items.exists(x, x < 0)",
        "args.items.exists_one(x, x == 0)",
        "args.items.map(x, x).size() > 0",
        "args.items.filter(x, x < 0).size() == 0",
        "args.items == args.items",
        "-1 in args.items",
        "(args.items + args.items).size() == 2",
    ] {
        assert_eq!(
            program(source).test(&world.facts()),
            Err(Failed::OutOfFuel),
            "{source}"
        );
    }
}

#[test]
fn a_loop_over_some_thousand_items_ends() {
    let world = with_items(15_000);
    let verdict = program("args.items.all(x, x >= 0)").test(&world.facts());
    assert_eq!(verdict, Ok(true));
}

#[test]
fn loops_in_loops_share_their_fuel() {
    let world = with_items(100);
    let nested = "args.items.all(a, args.items.all(b, args.items.all(c, args.items.all(d, \
                  args.items.all(e, args.items.all(f, a + b >= 0))))))";
    assert_eq!(program(nested).test(&world.facts()), Err(Failed::OutOfFuel));
    let nested = nested.replace("all", "map") + ".size() > 0";
    assert_eq!(
        program(&nested).test(&world.facts()),
        Err(Failed::OutOfFuel)
    );
}

#[test]
fn running_out_of_fuel_is_never_absorbed() {
    let world = with_items(1_000_000);
    for source in [
        "args.items.all(x, x >= 0) || true",
        "false && true || args.items.all(x, x >= 0) || true",
        "[1, 2].exists(y, y == 2 || args.items.all(x, x >= 0))",
        "[1, 2].all(y, args.items.all(x, x >= 0) && false)",
    ] {
        assert_eq!(
            program(source).test(&world.facts()),
            Err(Failed::OutOfFuel),
            "{source}"
        );
    }
}

#[test]
fn values_that_double_stop() {
    let mut text = "'aaaaaaaaaaaaaaaa'".to_owned();
    let mut list = "[1, 2, 3, 4]".to_owned();
    for _ in 0..8 {
        text = format!("[{text}].map(x, x + x + x + x + x + x + x + x)[0]");
        list = format!("[{list}].map(x, x + x + x + x + x + x + x + x)[0]");
    }
    let world = with_items(1);
    assert_eq!(
        program(&text).evaluate(&world.facts()),
        Err(Failed::OutOfFuel)
    );
    assert_eq!(
        program(&list).evaluate(&world.facts()),
        Err(Failed::OutOfFuel)
    );
}

#[test]
fn a_result_that_shares_its_parts_is_too_large_to_write_down() {
    let mut source = "args.text".to_owned();
    for _ in 0..12 {
        source = format!("[{source}].map(x, [x, x, x, x])");
    }
    let world = with_items(1);
    assert_eq!(
        program(&source).evaluate(&world.facts()),
        Err(Failed::TooLarge)
    );
    let mut small = "1".to_owned();
    for _ in 0..12 {
        small = format!("[{small}].map(x, [x, x, x, x])");
    }
    assert_eq!(
        program(&small).evaluate(&world.facts()),
        Err(Failed::TooLarge)
    );
}

#[test]
fn a_result_is_bounded_in_text_and_depth() {
    let text = "x".repeat(MOST_TEXT + 1);
    let world = World::new(json!({"text": text}), json!({}));
    assert_eq!(
        program("args.text").evaluate(&world.facts()),
        Err(Failed::TooLarge)
    );
    let nested = |depth| (0..depth).fold(Value::Null, |inner, _| json!([inner]));
    let world = World::new(json!({"deep": nested(DEEPEST_VALUE)}), json!({}));
    assert_eq!(
        program("args.deep").evaluate(&world.facts()),
        Ok(nested(DEEPEST_VALUE))
    );
    assert_eq!(
        program("[args.deep]").evaluate(&world.facts()),
        Err(Failed::TooLarge)
    );
    assert_eq!(
        program("args.deep == args.deep").test(&world.facts()),
        Ok(true)
    );
    assert_eq!(
        program("[args.deep] == [args.deep]").test(&world.facts()),
        Err(Failed::TooLarge)
    );
}

#[test]
fn text_costs_what_it_is_long() {
    let world = with_items(1_000);
    for source in [
        "args.items.all(x, !args.text.contains('zz'))",
        "args.items.all(x, args.text == args.text + '')",
        "args.items.all(x, args.text.size() > 0)",
        "args.items.all(x, args.text >= args.text)",
        "args.items.all(x, !(args.text in ctx))",
        "args.text.matches('(a|b)*z') || true",
    ] {
        assert_eq!(
            program(source).test(&world.facts()),
            Err(Failed::OutOfFuel),
            "{source}"
        );
    }
}

#[test]
fn what_an_expression_does_not_name_costs_nothing() {
    let world = with_items(1_000_000);
    let verdict = program("args.order == ctx.order && has(args.items)").test(&world.facts());
    assert_eq!(verdict, Ok(true));
}

/// Sources of at most the longest length that nest or chain as far as they can.
fn towers() -> Vec<String> {
    let wrapped = |open: &str, core: &str, close: &str| {
        let times = (LONGEST - core.len()) / (open.len() + close.len());
        format!("{}{core}{}", open.repeat(times), close.repeat(times))
    };
    let cut = |text: &str| {
        text.repeat(LONGEST)
            .chars()
            .take(LONGEST)
            .collect::<String>()
    };
    let pairs = [
        ("(", "1", ")"),
        ("(1+", "1", ")"),
        ("[", "1", "]"),
        ("{'a':", "1", "}"),
        ("!", "true", ""),
        ("-", "1", ""),
        ("-!", "1", ""),
        ("", "args", ".a"),
        ("", "args", "[0]"),
        ("", "args", "['a']"),
        ("args[", "0", "]"),
        ("", "1", "+1"),
        ("", "'a'", "+'a'"),
        ("", "1", "<1"),
        ("", "true", "&&true"),
        ("", "true", "||false&&true"),
        ("", "1", "?1:1"),
        ("1?1:", "1", ""),
        ("true?", "1", ":2"),
        ("true?(", "1", "):2"),
        ("int(", "1", ")"),
        ("size([", "1", "])"),
        ("", "'a'", ".size()"),
        ("[1].all(x,", "true", ")"),
        ("", "[1]", ".map(x,x)"),
        ("[1].map(x,[", "x", "])"),
        ("has(args.", "x", ")"),
        ("args.a(", "1", ")"),
        ("Foo{a:", "1", "}"),
        ("'a'.matches('", "(", "')"),
    ];
    let opens = [
        "(",
        "[",
        "{",
        "!",
        "-",
        "-!",
        "a.",
        "1+",
        "1?",
        "1?1:",
        "f(",
        "'",
        "\\",
        "`",
        "//",
        "[1].all(x,",
        "{'a':",
        "\u{1F980}",
    ];
    let built = pairs
        .iter()
        .map(|(open, core, close)| wrapped(open, core, close));
    let patterns = ["(", "(a|", "[^", "a{9}", "(?:"]
        .map(|part| format!("'a'.matches('{}')", part.repeat(150)));
    built
        .chain(opens.iter().map(|open| cut(open)))
        .chain(patterns)
        .collect()
}

/// Compiles and evaluates it, whatever comes of it.
fn try_out(source: &str, facts: &Facts<'_>) -> Option<Result<Value, Failed>> {
    let program = Program::compile(source, &Root::ALL).ok()?;
    assert_eq!(program.source(), source);
    Some(program.evaluate(facts))
}

#[test]
fn no_tower_of_brackets_or_operators_needs_a_large_stack() {
    let judge = || {
        let world = with_items(10);
        towers()
            .iter()
            .filter(|source| try_out(source, &world.facts()).is_some())
            .count()
    };
    let thread = thread::Builder::new()
        .stack_size(512 * 1024)
        .spawn(judge)
        .unwrap();
    let compiled = thread.join().unwrap();
    assert!(compiled > 5, "{compiled}");
}

#[test]
fn what_nests_too_deep_or_is_too_long_is_refused() {
    let fault = |source: &str| {
        Program::compile(source, &Root::ALL).unwrap_err()[0]
            .fault
            .clone()
    };
    assert_eq!(
        fault(&format!("{}1{}", "[".repeat(40), "]".repeat(40))),
        Fault::TooDeep
    );
    assert_eq!(fault(&format!("1{}", "+1".repeat(80))), Fault::TooDeep);
    assert_eq!(
        fault(&"x".repeat(LONGEST + 1)),
        Fault::TooLong { found: LONGEST + 1 }
    );
    let longest = format!("'{}'", "ü".repeat(LONGEST - 2));
    assert!(Program::compile(&longest, &[]).is_ok());
    let conditions = vec!["args.a == 1"; 66].join(" && ");
    assert!(Program::compile(&conditions, &Root::ALL).is_ok());
    assert!(Program::compile(&format!("args{}", ".a".repeat(400)), &Root::ALL).is_ok());
}

const TOKENS: &[&str] = &[
    "args",
    "ctx",
    "result",
    "state",
    "visits",
    "x",
    "a",
    "size",
    "has",
    "all",
    "map",
    "filter",
    "exists",
    "exists_one",
    "matches",
    "contains",
    "int",
    "string",
    "true",
    "null",
    "0",
    "1",
    "-1",
    "9223372036854775807",
    "1u",
    "0x1F",
    "1.5",
    ".5",
    "1e400",
    "'a'",
    "\"\"",
    "r'\\'",
    "'''",
    "b'x'",
    "'\\x41'",
    "'\\u00'",
    "'\\777'",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ".",
    ",",
    ":",
    "?",
    "!",
    "-",
    "+",
    "*",
    "/",
    "%",
    "==",
    "!=",
    "<",
    "<=",
    ">",
    ">=",
    "&&",
    "||",
    "in",
    "=",
    "&",
    "`",
    "`a-b`",
    "//",
    "\n",
    " ",
    "\u{e9}",
    "\u{1F980}",
    "\0",
    ".?",
    "[?",
    "for",
    "Foo{",
    "args.a",
    "ctx.b",
    "[1,2]",
    "{'a':1}",
    ".all(x,",
    ".map(x,",
    "has(args.",
    "x.a",
];

fn soup() -> impl Strategy<Value = String> {
    let token = prop::sample::select(TOKENS);
    let between = prop::sample::select(&["", " "][..]);
    prop::collection::vec((token, between), 0..40).prop_map(|parts| {
        parts
            .into_iter()
            .flat_map(|(token, between)| [token, between])
            .collect()
    })
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3_i64..4).prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[ab]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[abx]", inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn object() -> impl Strategy<Value = Map<String, Value>> {
    prop::collection::btree_map("[abx]", json_value(), 0..4)
        .prop_map(|fields| fields.into_iter().collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_soup_of_tokens_panics(source in soup(), args in json_value(), ctx in object()) {
        let facts = Facts {
            args: &args, result: None, ctx: &ctx, principal: &Value::Null, state: "new", visits: 1,
        };
        try_out(&source, &facts);
    }

    #[test]
    fn no_text_panics(source in "\\PC{0,60}") {
        let world = World::new(Value::Null, json!({}));
        try_out(&source, &world.facts());
    }

    #[test]
    fn flaws_point_into_the_source(source in soup()) {
        for flaw in Program::compile(&source, &[Root::Args]).err().into_iter().flatten() {
            if let Some(at) = &flaw.at {
                prop_assert!(source.get(at.clone()).is_some(), "{at:?} in {source:?}");
            }
            prop_assert!(!flaw.to_string().contains('\n'), "{flaw}");
        }
    }
}
