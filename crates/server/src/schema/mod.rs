//! Checks arguments and results against their JSON Schema. This room knows no other.
//!
//! Nothing is ever fetched: a `$ref` that does not resolve inside the schema makes the schema
//! invalid. Patterns run on an engine whose time is linear in the text. A schema that refers to
//! itself and has alternatives could try every combination of them, which doubles with every level
//! of the arguments: for such a schema, deep arguments are refused unread.

mod flat;
pub(crate) mod of_type;

use flat::FlatSchema;
use interlock_proto::refusal::shortened;
use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

type JsonObject = serde_json::Map<String, Value>;

/// A schema, ready for use.
#[derive(Debug)]
pub(crate) struct Schema {
    validator: Validator,
    /// The same, if it describes an object of plain fields.
    flat: Option<FlatSchema>,
    /// How deep arguments may be nested; unbounded if alternatives cannot multiply.
    deepest: Option<u32>,
}

/// How many mistakes one answer names.
const MOST: usize = 3;

/// The supported dialects. A schema without `$schema` is 2020-12.
const DIALECTS: [&str; 5] = [
    "json-schema.org/draft/2020-12/schema",
    "json-schema.org/draft/2019-09/schema",
    "json-schema.org/draft-07/schema",
    "json-schema.org/draft-06/schema",
    "json-schema.org/draft-04/schema",
];

/// Whether it describes objects. Before 2026-07-28, no other result could be structured.
pub(crate) fn is_of_objects(schema: &JsonObject) -> bool {
    schema.get("type").and_then(Value::as_str) == Some("object")
}

impl Schema {
    /// Prepares the schema of a tool's arguments.
    pub(crate) fn of_arguments(schema: &JsonObject) -> Result<Self, String> {
        if !is_of_objects(schema) {
            return Err("its `type` must be \"object\"".to_owned());
        }
        Self::new(schema)
    }

    /// Prepares the schema of a tool's structured result.
    pub(crate) fn of_result(schema: &JsonObject) -> Result<Self, String> {
        Self::new(schema)
    }

    fn new(schema: &JsonObject) -> Result<Self, String> {
        check_dialect(schema)?;
        jsonschema::options()
            .with_pattern_options(PatternOptions::regex())
            .build(&Value::Object(schema.clone()))
            .map(|validator| Self {
                validator,
                flat: FlatSchema::of(schema),
                deepest: deepest(schema),
            })
            .map_err(|error| error.to_string())
    }

    /// Whether the arguments are known to be valid without being parsed. `false` says nothing.
    pub(crate) fn accepts_unparsed(&self, arguments: &str) -> bool {
        let flat = self.flat.as_ref();
        flat.is_some_and(|flat| flat.accepts(arguments))
    }

    /// Validates the arguments. The error names the first mistakes.
    pub(crate) fn check(&self, arguments: &Value) -> Result<(), String> {
        if let Some(deepest) = self.deepest
            && nested_deeper(arguments, deepest)
        {
            return Err(format!("they are nested deeper than {deepest} levels"));
        }
        if self.validator.is_valid(arguments) {
            return Ok(());
        }
        if self.deepest.is_some() && nested_deeper(arguments, EXPLAINED) {
            return Err("no alternative fits".to_owned());
        }
        let mistakes: Vec<_> = self
            .validator
            .iter_errors(arguments)
            .take(MOST)
            .map(|error| {
                let place = shortened(error.instance_path().as_str());
                let what = shortened(&error.masked().to_string());
                if place.is_empty() {
                    what
                } else {
                    format!("{place}: {what}")
                }
            })
            .collect();
        Err(mistakes.join("; "))
    }
}

fn check_dialect(schema: &JsonObject) -> Result<(), String> {
    let Some(dialect) = schema.get("$schema") else {
        return Ok(());
    };
    let known = dialect.as_str().is_some_and(|dialect| {
        let name = dialect.strip_suffix('#').unwrap_or(dialect);
        let name = name
            .strip_prefix("https://")
            .or_else(|| name.strip_prefix("http://"));
        name.is_some_and(|name| DIALECTS.contains(&name))
    });
    if known {
        return Ok(());
    }
    Err(format!(
        "its dialect {} is not supported: `$schema` may be one of {}",
        shortened(&dialect.to_string()),
        DIALECTS.join(", ")
    ))
}

/// How many combinations of alternatives are tried at most.
const COMBINATIONS: f64 = 100_000.0;
/// Mistakes are collected for every combination, so those of deeper arguments are not named.
const EXPLAINED: u32 = 4;

/// How deep arguments may be nested, if the schema refers to itself and has alternatives.
fn deepest(schema: &JsonObject) -> Option<u32> {
    const ALTERNATIVES: [&str; 3] = ["anyOf", "oneOf", "allOf"];
    const BRANCHES: [&str; 6] = [
        "if",
        "then",
        "else",
        "not",
        "unevaluatedProperties",
        "unevaluatedItems",
    ];

    let mut refers = false;
    let mut most = 1;
    let mut open: Vec<&JsonObject> = vec![schema];
    while let Some(object) = open.pop() {
        refers |= ["$ref", "$dynamicRef", "$recursiveRef"]
            .iter()
            .any(|name| object.contains_key(*name));
        let lists = ALTERNATIVES
            .iter()
            .filter_map(|name| object.get(*name)?.as_array());
        let single = BRANCHES.iter().filter(|name| object.contains_key(**name));
        most = most.max(lists.map(Vec::len).sum::<usize>() + single.count());
        for value in object.values() {
            match value {
                Value::Object(object) => open.push(object),
                Value::Array(values) => open.extend(values.iter().filter_map(Value::as_object)),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
            }
        }
    }
    if !refers || most < 2 {
        return None;
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "it lies between 1 and 17"
    )]
    Some((COMBINATIONS.ln() / (most as f64).ln()).floor().max(1.0) as u32)
}

fn nested_deeper(value: &Value, levels: u32) -> bool {
    // Values that come in are at most 128 levels deep, since reading them stops there.
    match value {
        Value::Array(values) => {
            levels == 0 || values.iter().any(|value| nested_deeper(value, levels - 1))
        }
        Value::Object(object) => {
            levels == 0
                || object
                    .values()
                    .any(|value| nested_deeper(value, levels - 1))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn schema(value: Value) -> Result<Schema, String> {
        Schema::of_arguments(value.as_object().unwrap())
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        let schema = schema(json!({
            "type": "object",
            "properties": {"a": {"type": "integer"}},
            "required": ["b"],
        }))
        .unwrap();
        assert_eq!(schema.check(&json!({"a": 1, "b": 2})), Ok(()));
        let mistakes = schema.check(&json!({"a": "x"})).unwrap_err();
        assert!(mistakes.contains("/a"), "{mistakes}");
        assert!(mistakes.contains("\"b\""), "{mistakes}");
    }

    #[test]
    fn a_schema_is_judged_by_its_own_dialect() {
        let draft7 = json!({
            "$schema": "http://json-schema.org/draft-07/schema#",
            "type": "object",
            "properties": {"a": {"items": [{"type": "integer"}]}},
        });
        let draft7 = schema(draft7).unwrap();
        assert_eq!(draft7.check(&json!({"a": [1, "x"]})), Ok(()));
        assert!(draft7.check(&json!({"a": ["x"]})).is_err());
    }

    #[test]
    fn every_dialect_that_is_named_is_understood() {
        for dialect in DIALECTS {
            for (scheme, end) in [("http", ""), ("http", "#"), ("https", ""), ("https", "#")] {
                let dialect = format!("{scheme}://{dialect}{end}");
                let built = schema(json!({"$schema": dialect, "type": "object"}));
                assert!(built.is_ok(), "{dialect}: {built:?}");
            }
        }
    }

    /// Each level has two alternatives that both fit until the last one is reached.
    #[test]
    fn alternatives_that_multiply_are_bounded() {
        let branch = |k: i32| {
            json!({
                "type": "object",
                "properties": {"x": {"$ref": "#/$defs/node"}, "k": {"const": k}},
            })
        };
        let schema = schema(json!({
            "type": "object",
            "properties": {"x": {"$ref": "#/$defs/node"}},
            "$defs": {"node": {"anyOf": [branch(1), branch(3)]}},
        }))
        .unwrap();
        let nested =
            |levels: usize| (0..levels).fold(json!("bad"), |inner, _| json!({"x": inner, "k": 2}));
        assert!(schema.check(&nested(2)).unwrap_err().contains("/x"));
        assert_eq!(
            schema.check(&nested(16)),
            Err("no alternative fits".to_owned())
        );
        let deep = schema.check(&nested(100)).unwrap_err();
        assert!(deep.contains("nested deeper than 16 levels"), "{deep}");
    }

    #[test]
    fn a_schema_without_alternatives_or_without_references_bounds_nothing() {
        let bound = |value: Value| deepest(value.as_object().unwrap());
        assert_eq!(bound(json!({"anyOf": [{}, {}, {}]})), None);
        assert_eq!(bound(json!({"properties": {"x": {"$ref": "#"}}})), None);
        let both = json!({"properties": {"x": {"$ref": "#"}}, "oneOf": [{}, {}], "not": {}});
        assert_eq!(bound(both), Some(10));
    }
}
