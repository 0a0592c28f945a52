//! A tool's schema with one more argument: the handle of the workflow that a call belongs to.
//!
//! The extended schema accepts exactly what the old one accepts, plus `workflow`. A schema for
//! which that cannot be said is refused: its tool would be listed with a lie.

use super::ARGUMENT;
use crate::{model::JsonObject, schema::Schema};
use serde_json::{Value, json};
use std::collections::HashSet;

/// What models are told about the argument.
const DESCRIPTION: &str =
    "Which workflow the call belongs to: the id that `workflow_start` has returned.";

/// Keywords whose value is a schema that judges the same object.
const SAME: [&str; 4] = ["not", "if", "then", "else"];
/// Keywords whose value is a list of such schemas.
const SAME_LISTS: [&str; 3] = ["allOf", "anyOf", "oneOf"];
/// Keywords whose value holds such schemas, or lists of names, by the name of a property.
const BY_PROPERTY: [&str; 3] = ["dependentSchemas", "dependencies", "dependentRequired"];
/// Keywords whose value is data and no schema.
const DATA: [&str; 4] = ["const", "enum", "default", "examples"];

/// The property as it is listed.
pub(super) fn property() -> Value {
    json!({ "type": "string", "description": DESCRIPTION })
}

/// The schema with the argument, which is required.
///
/// # Errors
///
/// Why there is no such schema, in words that complete "it is not usable: ".
pub(crate) fn extended(schema: &JsonObject) -> Result<JsonObject, String> {
    refers_only_inwards(&Value::Object(schema.clone()))?;
    let mut walk = Walk {
        root: schema,
        seen: HashSet::new(),
    };
    walk.mentions(schema)?;
    walk.same_object(schema)?;
    for keyword in ["$ref", "const", "enum"] {
        if schema.contains_key(keyword) {
            return Err(no_room(&format!("`{keyword}` at its top")));
        }
    }
    let mut extended = schema.clone();
    for keyword in ["minProperties", "maxProperties"] {
        if let Some(count) = schema.get(keyword) {
            let more = count.as_u64().and_then(|count| count.checked_add(1));
            let more = more.ok_or_else(|| no_room(&format!("its `{keyword}`")))?;
            extended.insert(keyword.to_owned(), more.into());
        }
    }
    let properties = extended.entry("properties").or_insert_with(|| json!({}));
    let Value::Object(properties) = properties else {
        return Err("its `properties` must be an object".to_owned());
    };
    properties.insert(ARGUMENT.to_owned(), property());
    let required = extended.entry("required").or_insert_with(|| json!([]));
    let Value::Array(required) = required else {
        return Err("its `required` must be an array".to_owned());
    };
    required.push(ARGUMENT.into());
    Ok(extended)
}

fn no_room(what: &str) -> String {
    format!(
        "{what} leaves no room for the argument `{ARGUMENT}`, which tells the workflow that a \
         call belongs to; workflows of scope `principal` and `global` do not need it"
    )
}

/// A reference to the whole would demand a handle of what lies within, too.
fn refers_only_inwards(schema: &Value) -> Result<(), String> {
    let mut open = vec![schema];
    while let Some(value) = open.pop() {
        match value {
            Value::Object(object) => {
                let is_named = object.get("$id").is_some_and(Value::is_string);
                if is_named && !std::ptr::eq(value, schema) {
                    return Err(no_room("an `$id` in a part of it"));
                }
                let inwards = |to: &Value| to.as_str().is_none_or(|to| to.starts_with("#/"));
                if !object.get("$ref").is_none_or(inwards) {
                    return Err(no_room("a `$ref` that does not begin with `#/`"));
                }
                for keyword in ["$dynamicRef", "$recursiveRef"] {
                    if object.get(keyword).is_some_and(Value::is_string) {
                        return Err(no_room(&format!("a `{keyword}`")));
                    }
                }
                let schemas = object.iter();
                let schemas = schemas.filter(|(keyword, _)| !DATA.contains(&keyword.as_str()));
                open.extend(schemas.map(|(_, value)| value));
            }
            Value::Array(values) => open.extend(values),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    Ok(())
}

struct Walk<'a> {
    root: &'a JsonObject,
    /// The references that have been followed.
    seen: HashSet<&'a str>,
}

impl<'a> Walk<'a> {
    /// Whatever judges the same object must not care whether it has one more property.
    fn same_object(&mut self, schema: &'a JsonObject) -> Result<(), String> {
        let single = SAME.iter().filter_map(|keyword| schema.get(*keyword));
        let lists = SAME_LISTS.iter().filter_map(|keyword| schema.get(*keyword));
        let listed = lists.filter_map(Value::as_array).flatten();
        let by_property = BY_PROPERTY
            .iter()
            .filter_map(|keyword| schema.get(*keyword));
        let dependent = by_property.filter_map(Value::as_object).flatten();
        let dependent = dependent.map(|(_, value)| value);
        for within in single.chain(listed).chain(dependent) {
            // What is no object is `true`, `false` or a list of names.
            if let Value::Object(within) = within {
                self.blind(within)?;
            }
        }
        if let Some(reference) = schema.get("$ref").and_then(Value::as_str)
            && self.seen.insert(reference)
        {
            let target = pointed_at(self.root, reference);
            match target.ok_or_else(|| no_room(&format!("`{reference}`")))? {
                Value::Object(target) => self.blind(target)?,
                Value::Null
                | Value::Bool(_)
                | Value::Number(_)
                | Value::String(_)
                | Value::Array(_) => {}
            }
        }
        Ok(())
    }

    fn blind(&mut self, schema: &'a JsonObject) -> Result<(), String> {
        const CLOSED: [&str; 3] = [
            "additionalProperties",
            "unevaluatedProperties",
            "propertyNames",
        ];
        const SEEING: [&str; 4] = ["minProperties", "maxProperties", "const", "enum"];
        let closes = |value: &Value| *value != json!(true) && *value != json!({});
        let closed = CLOSED.into_iter();
        let closed = closed.filter(|keyword| schema.get(*keyword).is_some_and(closes));
        let seeing = SEEING.into_iter();
        let seeing = seeing.filter(|keyword| schema.contains_key(*keyword));
        if let Some(keyword) = closed.chain(seeing).next() {
            return Err(no_room(&format!("`{keyword}` in a part of it")));
        }
        self.mentions(schema)?;
        self.same_object(schema)
    }

    /// Whether a schema has something to say about a property of that name.
    fn mentions(&self, schema: &JsonObject) -> Result<(), String> {
        let own = || {
            format!(
                "it has an argument `{ARGUMENT}` of its own, where the handle of the workflow goes; \
                 rename it, or choose the scope `principal` or `global`"
            )
        };
        let is_key = |keyword: &str| {
            let members = schema.get(keyword).and_then(Value::as_object);
            members.is_some_and(|members| members.contains_key(ARGUMENT))
        };
        let lists = |value: &Value| {
            let names = value.as_array();
            names.is_some_and(|names| names.iter().any(|name| name == ARGUMENT))
        };
        let is_listed = |keyword: &str| {
            let members = schema.get(keyword).and_then(Value::as_object);
            members.is_some_and(|members| members.values().any(lists))
        };
        if is_key("properties")
            || schema.get("required").is_some_and(lists)
            || BY_PROPERTY
                .into_iter()
                .any(|by| is_key(by) || is_listed(by))
        {
            return Err(own());
        }
        if let Some(patterns) = schema.get("patternProperties").and_then(Value::as_object) {
            let never = patterns
                .keys()
                .map(|pattern| (pattern.clone(), json!(false)));
            let never = Value::Object(never.collect());
            self.lets_in("patternProperties", &never)?;
        }
        if let Some(names) = schema.get("propertyNames") {
            self.lets_in("propertyNames", names)?;
        }
        Ok(())
    }

    /// Whether an object with a property of that name passes this keyword.
    fn lets_in(&self, keyword: &str, value: &Value) -> Result<(), String> {
        let mut judge = JsonObject::new();
        for context in ["$schema", "$defs", "definitions"] {
            if let Some(value) = self.root.get(context) {
                judge.insert(context.to_owned(), value.clone());
            }
        }
        judge.insert(keyword.to_owned(), value.clone());
        let passes = Schema::of_result(&judge)
            .is_ok_and(|judge| judge.check(&json!({ ARGUMENT: "x" })).is_ok());
        if passes {
            Ok(())
        } else {
            Err(no_room(&format!("its `{keyword}`")))
        }
    }
}

/// What a reference within a schema means.
fn pointed_at<'a>(root: &'a JsonObject, reference: &str) -> Option<&'a Value> {
    let mut steps = reference.strip_prefix("#/")?.split('/');
    let name = |step: &str| {
        // Names in a reference are percent-encoded; the odd ones are refused rather than read.
        (!step.contains('%')).then(|| step.replace("~1", "/").replace("~0", "~"))
    };
    let first = root.get(&name(steps.next()?)?)?;
    steps.try_fold(first, |value, step| {
        let name = name(step)?;
        match value {
            Value::Object(object) => object.get(&name),
            Value::Array(values) => values.get(name.parse::<usize>().ok()?),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(value: Value) -> JsonObject {
        value.as_object().unwrap().clone()
    }

    /// Arguments of every sort that the schemas below care about.
    fn samples() -> Vec<JsonObject> {
        [
            json!({}),
            json!({"a": 1}),
            json!({"a": "x"}),
            json!({"b": 2}),
            json!({"a": 1, "b": 2}),
            json!({"a": 1, "b": 2, "c": 3}),
            json!({"a": 1, "b": {"a": 1}}),
            json!({"b": {"b": "x"}}),
            json!({"other": null}),
            json!({"kind": "one", "a": 1}),
            json!({"kind": "two", "b": 2}),
            json!({"x-1": 1}),
            json!({"x-1": "x"}),
        ]
        .into_iter()
        .map(object)
        .collect()
    }

    #[track_caller]
    fn accepts_the_same_and_a_handle(schema: Value) {
        let old = object(schema);
        let new = extended(&old).unwrap();
        let (old, new) = (
            Schema::of_arguments(&old).unwrap(),
            Schema::of_arguments(&new).unwrap(),
        );
        for sample in samples() {
            let is_fine = old.check(&Value::Object(sample.clone())).is_ok();
            let without = new.check(&Value::Object(sample.clone()));
            assert!(without.is_err(), "without a handle: {sample:?}");
            let mut with = sample;
            with.insert("workflow".to_owned(), json!("wf_x"));
            let judged = new.check(&Value::Object(with.clone()));
            assert_eq!(judged.is_ok(), is_fine, "{with:?}: {judged:?}");
            with.insert("workflow".to_owned(), json!(5));
            assert!(new.check(&Value::Object(with)).is_err(), "with a number");
        }
    }

    #[test]
    fn plain_schemas_take_a_handle() {
        accepts_the_same_and_a_handle(json!({"type": "object"}));
        accepts_the_same_and_a_handle(json!({"type": "object", "properties": {}}));
        accepts_the_same_and_a_handle(json!({
            "type": "object",
            "properties": {"a": {"type": "integer"}},
            "required": ["a"],
        }));
    }

    #[test]
    fn closed_schemas_take_a_handle() {
        for closed in ["additionalProperties", "unevaluatedProperties"] {
            accepts_the_same_and_a_handle(json!({
                "type": "object",
                "properties": {"a": {"type": "integer"}},
                closed: false,
            }));
            accepts_the_same_and_a_handle(json!({
                "type": "object",
                closed: {"type": "integer"},
            }));
        }
        accepts_the_same_and_a_handle(json!({
            "type": "object",
            "allOf": [{"properties": {"a": {"type": "integer"}}}, {"properties": {"b": {}}}],
            "unevaluatedProperties": false,
        }));
    }

    #[test]
    fn counts_of_properties_count_the_handle() {
        accepts_the_same_and_a_handle(json!({
            "type": "object", "minProperties": 1, "maxProperties": 2,
        }));
        accepts_the_same_and_a_handle(json!({"type": "object", "maxProperties": 0}));
    }

    #[test]
    fn names_and_patterns_that_let_it_in_take_a_handle() {
        accepts_the_same_and_a_handle(json!({
            "type": "object",
            "patternProperties": {"^x-": {"type": "integer"}},
            "propertyNames": {"pattern": "^[a-z]"},
        }));
        accepts_the_same_and_a_handle(json!({
            "type": "object",
            "propertyNames": {"$ref": "#/$defs/name"},
            "$defs": {"name": {"maxLength": 8}},
        }));
    }

    #[test]
    fn alternatives_take_a_handle() {
        accepts_the_same_and_a_handle(json!({
            "type": "object",
            "oneOf": [
                {"properties": {"kind": {"const": "one"}}, "required": ["kind", "a"]},
                {"$ref": "#/$defs/two"},
            ],
            "$defs": {
                "two": {"properties": {"kind": {"const": "two"}}, "required": ["kind", "b"]},
            },
        }));
        accepts_the_same_and_a_handle(json!({
            "type": "object",
            "if": {"required": ["a"]},
            "then": {"required": ["b"]},
            "else": {"not": {"required": ["other"]}},
            "dependentSchemas": {"b": {"properties": {"c": {"type": "string"}}}},
            "dependentRequired": {"c": ["a"]},
        }));
    }

    #[test]
    fn what_lies_within_needs_no_handle() {
        accepts_the_same_and_a_handle(json!({
            "type": "object",
            "properties": {"b": {"$ref": "#/$defs/node"}},
            "$defs": {"node": {
                "type": ["object", "integer"],
                "properties": {"a": {"type": "integer"}, "b": {"$ref": "#/$defs/node"}},
                "additionalProperties": false,
            }},
        }));
        let within = json!({
            "type": "object",
            "properties": {"b": {"type": "object", "properties": {"workflow": {}}}},
        });
        accepts_the_same_and_a_handle(within);
    }

    #[test]
    fn a_schema_of_an_older_dialect_takes_a_handle() {
        accepts_the_same_and_a_handle(json!({
            "$schema": "http://json-schema.org/draft-07/schema#",
            "type": "object",
            "properties": {"a": {"type": "integer"}},
            "dependencies": {"a": ["b"], "c": {"required": ["a"]}},
        }));
    }

    #[test]
    fn a_schema_that_has_the_argument_itself_is_refused() {
        for schema in [
            json!({"type": "object", "properties": {"workflow": {"type": "string"}}}),
            json!({"type": "object", "required": ["workflow"]}),
            json!({"type": "object", "dependentRequired": {"a": ["workflow"]}}),
            json!({"type": "object", "dependentSchemas": {"workflow": {}}}),
            json!({"type": "object", "anyOf": [{"properties": {"workflow": {}}}, {}]}),
            json!({"type": "object", "not": {"required": ["workflow"]}}),
        ] {
            let why = extended(&object(schema.clone())).unwrap_err();
            assert!(why.contains("an argument `workflow`"), "{schema}: {why}");
        }
    }

    #[test]
    fn a_schema_that_has_no_room_is_refused_and_named() {
        for (schema, what) in [
            (
                json!({"allOf": [{"additionalProperties": false}]}),
                "`additionalProperties`",
            ),
            (
                json!({"anyOf": [{"unevaluatedProperties": false}]}),
                "`unevaluatedProperties`",
            ),
            (json!({"if": {"maxProperties": 1}}), "`maxProperties`"),
            (json!({"not": {"const": {}}}), "`const`"),
            (json!({"enum": [{}, {"a": 1}]}), "`enum`"),
            (json!({"maxProperties": 1.5}), "`maxProperties`"),
            (
                json!({"patternProperties": {"^w": {"type": "integer"}}}),
                "`patternProperties`",
            ),
            (
                json!({"propertyNames": {"maxLength": 3}}),
                "`propertyNames`",
            ),
            (json!({"properties": {"b": {"$ref": "#"}}}), "`$ref`"),
            (
                json!({"properties": {"b": {"$dynamicRef": "#node"}}}),
                "`$dynamicRef`",
            ),
            (json!({"allOf": [{"$ref": "#/$defs/no"}]}), "`#/$defs/no`"),
            (json!({"$defs": {"a": {"$id": "a"}}}), "`$id`"),
            (
                json!({
                    "allOf": [{"$ref": "#/$defs/a"}],
                    "$defs": {"a": {"additionalProperties": false}},
                }),
                "`additionalProperties`",
            ),
        ] {
            let mut schema = object(schema);
            schema.insert("type".to_owned(), json!("object"));
            let why = extended(&schema).unwrap_err();
            assert!(why.contains(what), "{schema:?}: {why}");
        }
    }

    #[test]
    fn a_reference_that_goes_round_ends() {
        let round = json!({
            "type": "object",
            "allOf": [{"$ref": "#/$defs/a"}],
            "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {}]}},
        });
        assert!(extended(&object(round)).is_ok());
    }

    #[test]
    fn everything_else_in_a_schema_survives() {
        let schema = object(json!({
            "type": "object",
            "title": "T",
            "x-own": [1],
            "properties": {"a": {"type": "string", "x-mcp-header": "Region"}},
            "required": ["a"],
        }));
        let mut new = extended(&schema).unwrap();
        assert_eq!(new["required"], json!(["a", "workflow"]));
        let properties = new["properties"].as_object_mut().unwrap();
        assert_eq!(properties.shift_remove("workflow"), Some(property()));
        new.insert("required".to_owned(), json!(["a"]));
        assert_eq!(new, schema);
    }
}
