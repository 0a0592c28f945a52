//! Our evaluation against the one of the crate `cel`, over random expressions and facts.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use cel::parser::PrattParser;
use cel::{Context, Env, extensions};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::guard::{Facts, Program, Root};

static ENVIRONMENT: LazyLock<Arc<Env>> = LazyLock::new(|| {
    let mut environment = Env::stdlib();
    environment.add_extension(extensions::strings).unwrap();
    Arc::new(environment)
});

fn to_cel(value: &Value) -> cel::Value {
    match value {
        Value::Null => cel::Value::Null,
        Value::Bool(value) => (*value).into(),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(int), _) => int.into(),
            (None, Some(uint)) => uint.into(),
            (None, None) => number.as_f64().unwrap().into(),
        },
        Value::String(text) => text.as_str().into(),
        Value::Array(items) => items.iter().map(to_cel).collect::<Vec<_>>().into(),
        Value::Object(fields) => {
            let fields = fields
                .iter()
                .map(|(key, value)| (key.as_str(), to_cel(value)));
            fields.collect::<HashMap<_, _>>().into()
        }
    }
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "which kinds there are depends on features of the crate"
)]
fn from_cel(value: &cel::Value) -> Option<Value> {
    Some(match value {
        cel::Value::Null => Value::Null,
        cel::Value::Bool(value) => (*value).into(),
        cel::Value::Int(value) => (*value).into(),
        cel::Value::UInt(value) => (*value).into(),
        cel::Value::Float(value) => serde_json::Number::from_f64(*value)?.into(),
        cel::Value::String(text) => text.as_str().into(),
        cel::Value::List(items) => items.iter().map(from_cel).collect::<Option<_>>()?,
        cel::Value::Map(fields) => {
            let fields = fields.map.iter();
            let fields: Option<_> = fields
                .map(|(key, value)| Some((key.to_string(), from_cel(value)?)))
                .collect();
            Value::Object(fields?)
        }
        _ => return None,
    })
}

/// What `cel` makes of it; nothing if it is an error or no JSON.
fn by_cel(source: &str, args: &Value) -> Option<Value> {
    let expression = PrattParser::new().parse(source).unwrap();
    let mut context = Context::with_env(Arc::clone(&ENVIRONMENT));
    context.add_variable_from_value("args", to_cel(args));
    context.add_variable_from_value("state", "ab");
    context.add_variable_from_value("visits", 2_i64);
    from_cel(&cel::Value::resolve(&expression, &context).ok()?)
}

fn by_us(source: &str, args: &Value) -> Option<Value> {
    let allowed = [Root::Args, Root::State, Root::Visits];
    let program =
        Program::compile(source, &allowed).unwrap_or_else(|flaws| panic!("{source}: {}", flaws[0]));
    let facts = Facts {
        args,
        result: None,
        ctx: &Map::new(),
        principal: &Value::Null,
        state: "ab",
        visits: 2,
    };
    program.evaluate(&facts).ok()
}

/// Numbers small enough that a double holds them: `cel` rounds where it compares an int with a
/// double, and we do not.
fn facts() -> impl Strategy<Value = Map<String, Value>> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3_i64..4).prop_map(Value::from),
        (-6_i32..6).prop_map(|halves| json!(f64::from(halves) / 2.0)),
        "[ab]{0,2}".prop_map(Value::from),
    ];
    let value = leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[ab]", inner, 0..2)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    });
    prop::collection::btree_map("[abc]", value, 0..4)
        .prop_map(|fields| fields.into_iter().collect())
}

/// What kind of value an expression should have; on random kinds most operations fail.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Bool,
    Int,
    Double,
    Text,
    List,
    Any,
}

const KINDS: [Kind; 6] = [
    Kind::Bool,
    Kind::Int,
    Kind::Double,
    Kind::Text,
    Kind::List,
    Kind::Any,
];

/// Writes expressions as its numbers say; when they are used up it takes the first of everything.
struct Writer {
    choices: std::vec::IntoIter<u8>,
}

impl Writer {
    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[usize::from(self.choices.next().unwrap_or(0)) % from.len()]
    }

    fn any(&mut self, depth: u32) -> String {
        let kind = self.pick(&KINDS);
        self.write(kind, depth)
    }

    fn number(&mut self, depth: u32) -> String {
        let kind = self.pick(&[Kind::Int, Kind::Double]);
        self.write(kind, depth)
    }

    /// What a loop goes over: mostly a list. A map has one key, because `cel` has no order for them.
    fn range(&mut self, depth: u32) -> String {
        match self.pick(&[true, true, true, false]) {
            true => self.write(Kind::List, depth),
            false => "args.map".to_owned(),
        }
    }

    fn leaf(&mut self, kind: Kind) -> String {
        let leaves: &[&str] = match kind {
            Kind::Bool => &[
                "true",
                "false",
                "args.yes",
                "has(args.a)",
                "has(args.no)",
                "has(args.map.a)",
            ],
            Kind::Int => &[
                "0",
                "1",
                "-2",
                "7",
                "args.int",
                "visits",
                "x",
                "5000000000000000000",
                "args.map.a",
            ],
            Kind::Double => &["0.0", "1.0", "-2.5", "0.5", "args.half"],
            Kind::Text => &[
                "''",
                "'a'",
                "'ab'",
                "' B '",
                "'1'",
                "'1.5'",
                "'true'",
                "args.text",
                "state",
            ],
            Kind::List => &["[]", "[1, 2]", "['a', 1.0]", "[[1], []]", "args.list"],
            Kind::Any => &[
                "null",
                "3u",
                "{}",
                "{'a': 1}",
                "args",
                "args.a",
                "args.b.a",
                "args['c']",
                "args.map",
                "x.a",
            ],
        };
        self.pick(leaves).to_owned()
    }

    fn write(&mut self, kind: Kind, depth: u32) -> String {
        if depth == 0 || self.pick(&[true, false, false, false]) {
            return self.leaf(kind);
        }
        let depth = depth - 1;
        match kind {
            Kind::Bool => self.condition(depth),
            Kind::Int => match self.pick(&[0, 1, 2, 3, 4, 5]) {
                0 => format!("size({})", self.any(depth)),
                1 => format!("int({})", self.any(depth)),
                2 => format!("int(uint({}))", self.number(depth)),
                3 => format!("-{}", self.write(kind, depth)),
                4 => format!("({}).size()", self.write(Kind::List, depth)),
                _ => self.infix(kind, &["+", "-", "*", "/", "%"], kind, depth),
            },
            Kind::Double => match self.pick(&[0, 1, 2]) {
                0 => format!("double({})", self.any(depth)),
                1 => format!("-({})", self.write(kind, depth)),
                _ => self.infix(kind, &["+", "-", "*", "/"], kind, depth),
            },
            Kind::Text => match self.pick(&[0, 1, 2]) {
                0 => format!("string({})", self.any(depth)),
                1 => {
                    let function = self.pick(&["lowerAscii", "upperAscii", "trim"]);
                    format!("({}).{function}()", self.write(kind, depth))
                }
                _ => self.infix(kind, &["+"], kind, depth),
            },
            Kind::List => match self.pick(&[0, 1, 2, 3, 4]) {
                0 => format!("[{}, {}]", self.any(depth), self.any(depth)),
                1 => format!("({}).map(x, {})", self.range(depth), self.any(depth)),
                2 => format!(
                    "({}).filter(x, {})",
                    self.range(depth),
                    self.write(Kind::Bool, depth)
                ),
                3 => format!(
                    "({}).map(x, {}, x)",
                    self.range(depth),
                    self.write(Kind::Bool, depth)
                ),
                _ => self.infix(kind, &["+"], kind, depth),
            },
            Kind::Any => match self.pick(&[0, 1, 2, 3, 4]) {
                0 => format!("{{'a': {}, 'b': {}}}", self.any(depth), self.any(depth)),
                1 => format!("({})[{}]", self.any(depth), self.any(depth)),
                2 => format!(
                    "({})[{}]",
                    self.write(Kind::List, depth),
                    self.write(Kind::Int, depth)
                ),
                3 => format!("({}).a", self.write(kind, depth)),
                _ => {
                    let condition = self.write(Kind::Bool, depth);
                    format!("({condition} ? {} : {})", self.any(depth), self.any(depth))
                }
            },
        }
    }

    fn condition(&mut self, depth: u32) -> String {
        match self.pick(&[0, 1, 2, 3, 4, 5, 6, 7, 8]) {
            0 => self.infix(Kind::Bool, &["&&", "||"], Kind::Bool, depth),
            1 => format!("!{}", self.write(Kind::Bool, depth)),
            2 => format!("bool({})", self.write(Kind::Text, depth)),
            3 => self.infix(Kind::Text, &["<", ">=", "=="], Kind::Text, depth),
            4 => self.infix(Kind::Any, &["==", "!=", "in", "&&", "||"], Kind::Any, depth),
            5 => format!("({} in {})", self.any(depth), self.write(Kind::List, depth)),
            6 => {
                let function = self.pick(&["contains", "startsWith", "endsWith"]);
                format!(
                    "({}).{function}({})",
                    self.write(Kind::Text, depth),
                    self.write(Kind::Text, depth)
                )
            }
            7 => {
                let function = self.pick(&["all", "exists", "exists_one"]);
                format!(
                    "({}).{function}(x, {})",
                    self.range(depth),
                    self.write(Kind::Bool, depth)
                )
            }
            _ => {
                let operator = self.pick(&["<", "<=", ">", ">=", "==", "!="]);
                format!("({} {operator} {})", self.number(depth), self.number(depth))
            }
        }
    }

    fn infix(&mut self, left: Kind, operators: &[&str], right: Kind, depth: u32) -> String {
        let operator = self.pick(operators);
        format!(
            "({} {operator} {})",
            self.write(left, depth),
            self.write(right, depth)
        )
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_two_evaluations_agree(choices in prop::collection::vec(any::<u8>(), 2..100), more in facts()) {
        let mut args = json!({
            "yes": true, "int": 3, "half": 0.5, "text": "aB", "list": [1, "a", [2]], "map": {"a": 1},
        });
        args.as_object_mut().unwrap().extend(more);
        let choices = choices.into_iter();
        // `x` is free in what is written.
        let source = format!("[1, 2].map(x, {})", Writer { choices }.any(4));
        let theirs = std::thread::scope(|scope| {
            let large = std::thread::Builder::new().stack_size(16 << 20);
            large.spawn_scoped(scope, || by_cel(&source, &args)).unwrap().join().unwrap()
        });
        prop_assert_eq!(by_us(&source, &args), theirs, "{}", source);
    }
}
