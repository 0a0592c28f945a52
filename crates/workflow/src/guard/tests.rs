//! What expressions mean.

mod against_cel;
mod flaws;
mod limits;
mod samples;

use std::hash::{BuildHasher, RandomState};

use serde_json::{Map, Value, json};

use super::{Facts, Failed, Key, Program, Root};

struct World {
    args: Value,
    result: Value,
    ctx: Map<String, Value>,
    principal: Value,
}

impl World {
    fn new(args: Value, ctx: Value) -> Self {
        let Value::Object(ctx) = ctx else {
            panic!("the memory of an instance is an object");
        };
        Self {
            args,
            result: json!({"isError": false, "structuredContent": {"partial": true}}),
            ctx,
            principal: json!({"sub": "alice", "roles": ["clerk"]}),
        }
    }

    fn facts(&self) -> Facts<'_> {
        Facts {
            args: &self.args,
            result: Some(&self.result),
            ctx: &self.ctx,
            principal: &self.principal,
            state: "found",
            visits: 2,
        }
    }
}

fn shop() -> World {
    World::new(
        json!({
            "order": "A-17", "amount": 99.5, "count": 3, "big": u64::MAX, "note": null, "rush": true,
            "lines": [{"sku": "a", "qty": 1}, {"sku": "b", "qty": 4}], "tags": ["x", "y"],
            "größe": "über", "the key": 1,
        }),
        json!({"order": "A-17", "limit": 100}),
    )
}

fn program(source: &str) -> Program {
    Program::compile(source, &Root::ALL).unwrap_or_else(|flaws| panic!("{source}: {}", flaws[0]))
}

#[track_caller]
fn gives(source: &str, expected: Value) {
    assert_eq!(
        program(source).evaluate(&shop().facts()),
        Ok(expected),
        "{source}"
    );
}

fn fails(source: &str) -> Failed {
    match program(source).evaluate(&shop().facts()) {
        Err(failed) => failed,
        Ok(value) => panic!("{source} gives {value}"),
    }
}

#[test]
fn facts_are_read_by_their_names() {
    gives(
        "args.order == ctx.order && args.amount <= ctx.limit",
        json!(true),
    );
    gives("result.structuredContent.partial", json!(true));
    gives("principal.sub + '@' + state", json!("alice@found"));
    gives("visits + 1", json!(3));
    gives("'clerk' in principal.roles", json!(true));
    gives("ctx", json!({"order": "A-17", "limit": 100}));
}

#[test]
fn keys_that_are_not_plain_names_are_indexed() {
    gives("args['größe']", json!("über"));
    gives("args[\"the key\"] + 1", json!(2));
    gives("args['lines'][1]['sku']", json!("b"));
    gives("args.lines[args.count - 2].qty", json!(4));
    gives("args[ctx.order == 'A-17' ? 'rush' : 'note']", json!(true));
}

#[test]
fn json_integers_are_ints_and_other_numbers_are_doubles() {
    gives("args.count / 2", json!(1));
    gives("args.count % 2", json!(1));
    gives("args.amount / 2.0", json!(49.75));
    gives("args.big > 9223372036854775807", json!(true));
    gives("args.big - 1u", json!(u64::MAX - 1));
    gives("double(args.count) * 1.5", json!(4.5));
    gives("2.0 * 2.0", json!(4.0));
    gives("[1, 1.0, 1u]", json!([1, 1.0, 1]));
}

#[test]
fn numbers_of_different_kinds_are_compared_by_what_they_are_worth() {
    gives(
        "args.amount <= 100 && 99 < args.amount && 100 > args.amount",
        json!(true),
    );
    gives("1 == 1.0 && 1u == 1 && 1.0 == 1u && 1 != 1.5", json!(true));
    gives("-1 < 0u && -1 < -0.5 && 0.5 > 0u", json!(true));
    // Rounded to a double, these would be the same.
    gives("9007199254740993 == 9007199254740992.0", json!(false));
    gives("9007199254740993 > 9007199254740992.0", json!(true));
    gives("9223372036854775807 < 9223372036854775808.0", json!(true));
    gives("args.big < 18446744073709551616.0", json!(true));
    gives("1 < double('inf') && 1 > double('-inf')", json!(true));
}

#[test]
fn lists_and_maps_are_equal_by_what_they_hold() {
    gives(
        "args.tags == ['x', 'y'] && ['x', 'y'] == args.tags",
        json!(true),
    );
    gives("args.tags == ['y', 'x']", json!(false));
    gives("{'order': 'A-17', 'limit': 100.0} == ctx", json!(true));
    gives("ctx == {'order': 'A-17'}", json!(false));
    gives(
        "[args.tags] == [['x', 'y']] && [['x', 'y']] == [args.tags]",
        json!(true),
    );
    gives(
        "args.note == null && null != 0 && args.note != ''",
        json!(true),
    );
    gives("[] == {}", json!(false));
    gives("{'sku': 'a', 'qty': 1} in args.lines", json!(true));
}

#[test]
fn macros_go_over_lists_and_maps() {
    gives("args.lines.all(line, line.qty > 0)", json!(true));
    gives("args.lines.exists(line, line.sku == 'b')", json!(true));
    gives("args.lines.exists_one(line, line.qty > 0)", json!(false));
    gives(
        "args.lines.filter(line, line.qty > 1)",
        json!([{"sku": "b", "qty": 4}]),
    );
    gives("args.lines.map(line, line.qty * 2)", json!([2, 8]));
    gives("args.lines.map(line, line.qty > 1, line.sku)", json!(["b"]));
    gives("ctx.map(key, key).size()", json!(2));
    gives("{'a': 1, 'b': 2}.all(key, key in ['a', 'b'])", json!(true));
    gives("[].all(x, 1 / 0 > 0) && ![].exists(x, true)", json!(true));
    gives(
        "[[1, 2], [3]].map(x, x.map(y, y + size(x)))",
        json!([[3, 4], [4]]),
    );
    gives("[1, 2].map(x, [x].map(x, x + 1))", json!([[2], [3]]));
}

#[test]
fn every_function_works() {
    gives(
        "size('größe') + 'ab'.size() + size(args.tags) + ctx.size()",
        json!(11),
    );
    gives(
        "'abc'.contains('b') && 'abc'.startsWith('a') && 'abc'.endsWith('c')",
        json!(true),
    );
    gives(
        "args.order.matches('^[A-Z]-[0-9]+$') && matches('x1', '[0-9]')",
        json!(true),
    );
    gives(
        "' Straße X '.trim().lowerAscii() + 'y'.upperAscii()",
        json!("straße xY"),
    );
    gives(
        "[int('-7'), int(7.9), int(7u), int(-7.9)]",
        json!([-7, 7, 7, -7]),
    );
    gives("[uint('7'), uint(7.9), uint(7)]", json!([7, 7, 7]));
    gives(
        "[double('1.5'), double(2), double(2u)]",
        json!([1.5, 2.0, 2.0]),
    );
    gives(
        "string(1) + string(2u) + string(1.5) + string(true) + string('x')",
        json!("121.5truex"),
    );
    gives(
        "[bool('true'), bool('0'), bool(true)]",
        json!([true, false, true]),
    );
}

#[test]
fn a_missing_key_fails_and_has_sees_it() {
    assert_eq!(fails("ctx.colour").to_string(), "there is no `ctx.colour`");
    assert_eq!(
        fails("args.lines[0].price").to_string(),
        "there is no `price`"
    );
    assert_eq!(fails("ctx.a.b").to_string(), "there is no `ctx.a`");
    assert_eq!(
        fails("ctx[args.order]"),
        Failed::MissingKey {
            key: "A-17".to_owned()
        }
    );
    assert_eq!(
        fails("args.tags[2]").to_string(),
        "there is no item 2 in the list"
    );
    assert_eq!(
        fails("args.tags[-1]").to_string(),
        "there is no item -1 in the list"
    );
    gives(
        "has(args.order) && !has(args.colour) && has(args.note)",
        json!(true),
    );
    assert_eq!(
        fails("has(args.colour.red)"),
        Failed::MissingKey {
            key: "args.colour".to_owned()
        }
    );
    gives("has(ctx.colour) ? ctx.colour : 'red'", json!("red"));
}

#[test]
fn a_result_that_is_not_known_is_missing() {
    let world = shop();
    let facts = Facts {
        result: None,
        ..world.facts()
    };
    let outcome = program("result.isError").test(&facts);
    assert_eq!(
        outcome,
        Err(Failed::MissingKey {
            key: "result".to_owned()
        })
    );
}

#[test]
fn wrong_types_fail_with_the_operation_and_what_it_got() {
    assert_eq!(
        fails("args.order + 1").to_string(),
        "`+` does not take string and int"
    );
    assert_eq!(
        fails("args.count + 0.5").to_string(),
        "`+` does not take int and double"
    );
    assert_eq!(
        fails("args.order < 1").to_string(),
        "`<` does not take string and int"
    );
    assert_eq!(
        fails("args.order.id").to_string(),
        "`.id` does not take string"
    );
    assert_eq!(
        fails("has(args.order.id)").to_string(),
        "`has` does not take string"
    );
    assert_eq!(fails("!args.order").to_string(), "`!` does not take string");
    assert_eq!(
        fails("args.order && true").to_string(),
        "`&&` does not take string"
    );
    assert_eq!(
        fails("args.order ? 1 : 2").to_string(),
        "`?:` does not take string"
    );
    assert_eq!(
        fails("args.count.all(x, true)").to_string(),
        "`all` does not take int"
    );
    assert_eq!(
        fails("args.tags.map(x, -x)").to_string(),
        "`-` does not take string"
    );
    assert_eq!(
        fails("1 in 2").to_string(),
        "`in` does not take int and int"
    );
    assert_eq!(
        fails("args.note.contains('x')").to_string(),
        "`contains` does not take null and string"
    );
    assert_eq!(
        fails("string(args.tags)").to_string(),
        "`string` does not take list"
    );
    assert_eq!(
        fails("args[null]").to_string(),
        "`[]` does not take null as a key"
    );
    assert_eq!(
        fails("args.tags['x']").to_string(),
        "`.x` does not take list"
    );
    assert_eq!(
        fails("args.tags[0.5]").to_string(),
        "`[]` does not take list and double"
    );
    assert_eq!(
        fails("args.amount % 2.0").to_string(),
        "`%` does not take double and double"
    );
}

#[test]
fn numbers_without_a_result_fail() {
    assert_eq!(fails("1 / 0"), Failed::Arithmetic { operation: "/" });
    assert_eq!(fails("1 % 0"), Failed::Arithmetic { operation: "%" });
    assert_eq!(
        fails("9223372036854775807 + 1"),
        Failed::Arithmetic { operation: "+" }
    );
    assert_eq!(
        fails("-9223372036854775808 / -1"),
        Failed::Arithmetic { operation: "/" }
    );
    assert_eq!(
        fails("-(-9223372036854775808)"),
        Failed::Arithmetic { operation: "-" }
    );
    assert_eq!(fails("1u - 2u"), Failed::Arithmetic { operation: "-" });
    assert_eq!(
        fails("0.0 / 0.0 < 1.0"),
        Failed::Arithmetic { operation: "<" }
    );
    assert_eq!(
        fails("int('x')").to_string(),
        "`int` cannot convert this string"
    );
    assert_eq!(
        fails("int(1e300)").to_string(),
        "`int` cannot convert this double"
    );
    assert_eq!(
        fails("uint(-1)").to_string(),
        "`uint` cannot convert this int"
    );
    assert_eq!(fails("1.0 / 0.0"), Failed::NotJson);
}

#[test]
fn one_side_can_settle_what_the_other_cannot() {
    gives("false && ctx.colour == 1", json!(false));
    gives("ctx.colour == 1 && false", json!(false));
    gives("true || ctx.colour == 1", json!(true));
    gives("ctx.colour == 1 || true", json!(true));
    gives("args.order || true", json!(true));
    gives("['x', 1].all(item, item > 1)", json!(false));
    gives("['x', 1].exists(item, item == 1 || item > 1)", json!(true));
    assert_eq!(
        fails("ctx.colour == 1 && true"),
        Failed::MissingKey {
            key: "ctx.colour".to_owned()
        }
    );
    assert_eq!(
        fails("ctx.colour == 1 || false"),
        Failed::MissingKey {
            key: "ctx.colour".to_owned()
        }
    );
    assert_eq!(
        fails("[1, 'x'].all(item, item > 0)").to_string(),
        "`>` does not take string and int"
    );
    assert_eq!(
        fails("[1, 'x'].exists_one(item, item > 0)").to_string(),
        "`>` does not take string and int"
    );
}

#[test]
fn a_condition_is_true_or_false() {
    let world = shop();
    assert_eq!(program("args.rush").test(&world.facts()), Ok(true));
    let failed = program("args.count").test(&world.facts()).unwrap_err();
    assert_eq!(failed, Failed::NotBool { found: "int" });
    assert_eq!(failed.to_string(), "the result is int, not true or false");
}

#[test]
fn a_program_knows_what_it_looks_at() {
    let source =
        "has(ctx.order) && ctx['limit'] > 1 && args.a.b == args . c && [1].all(x, x > args.a)";
    let program = program(source);
    assert!(program.mentions(Root::Ctx) && program.mentions(Root::Args));
    assert!(!program.mentions(Root::Result) && !program.mentions(Root::State));
    let named = |root| -> Vec<(&str, &str)> {
        let keys = program.keys(root);
        keys.map(|key: Key<'_>| (key.name, &source[key.at.unwrap()]))
            .collect()
    };
    assert_eq!(named(Root::Ctx), [("order", "order"), ("limit", "limit")]);
    assert_eq!(named(Root::Args), [("a", "a"), ("c", "c"), ("a", "a")]);
    assert_eq!(named(Root::Result), []);
    let starts: Vec<usize> = program
        .keys(Root::Args)
        .map(|key| key.at.unwrap().start)
        .collect();
    assert!(starts.is_sorted(), "{starts:?}");
}

#[test]
fn a_key_whose_place_is_not_known_is_still_told() {
    let program = program("has((ctx).order)");
    let key = program.keys(Root::Ctx).next().unwrap();
    assert_eq!((key.name, key.at), ("order", None));
}

#[test]
fn programs_are_known_by_their_source() {
    let one = program("args.a == 1");
    assert_eq!(one, one.clone());
    assert_ne!(one, program("args.a  ==  1"));
    assert_eq!(one.source(), "args.a == 1");
    assert_eq!(format!("{one:?}"), "Program(\"args.a == 1\")");
    let hashes = RandomState::new();
    assert_eq!(hashes.hash_one(&one), hashes.hash_one(one.clone()));
    assert_ne!(hashes.hash_one(&one), hashes.hash_one(program("true")));
}

#[test]
fn programs_are_shared_between_threads() {
    fn shared<T: Send + Sync + 'static>(_: &T) {}
    shared(&program("true"));
}
