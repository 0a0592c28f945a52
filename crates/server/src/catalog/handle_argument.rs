//! The argument `workflow`, which carries the handle of an instance: which tools take it, and how
//! their schemas are listed with it.
//!
//! The listed schema accepts exactly what the tool's own schema accepts, plus the handle. Where
//! that cannot be seen from its keywords, the tool is refused: no call could fit what is listed.

use crate::model::JsonObject;
use interlock_proto::era::Era;
use interlock_workflow::{Kind, Scope, Workflow};
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};

/// The argument that carries a handle.
pub(crate) const ARGUMENT: &str = "workflow";

/// Whether clients of that era find their instances by handles.
pub(crate) fn in_use(workflow: &Workflow, era: Era) -> bool {
    match (workflow.settings().scope, era) {
        (Scope::Handle, Era::Handshake | Era::Stateless) | (Scope::Session, Era::Stateless) => true,
        (Scope::Session, Era::Handshake) | (Scope::Principal | Scope::Global, _) => false,
    }
}

/// On 2026-07-28, the scope `session` has handles in its place, and what cannot carry one cannot be
/// used there. This warns of it.
pub(crate) fn warn_of_what_has_no_place(workflow: &Workflow) {
    if !in_use(workflow, Era::Stateless) {
        return;
    }
    let mut stuck = Vec::new();
    for kind in [Kind::Resource, Kind::Prompt] {
        let bound = workflow.artifacts(kind);
        let bound = bound.filter(|name| !workflow.is_always(kind, name));
        stuck.extend(bound.map(|name| format!("{kind} {name:?}")));
    }
    if !stuck.is_empty() {
        tracing::warn!(
            "instances are found by a handle on 2026-07-28, which only tools can carry, and there \
             these are refused: {}; with the scope `principal` or `global` they are served",
            stuck.join(", ")
        );
    }
}

/// Which tools take a handle: those that are not callable in every state.
#[derive(Debug)]
pub(crate) struct HandleTools {
    /// Whether it is callable in every state, for each tool that the workflow names.
    free: HashMap<String, bool>,
    others_are_free: bool,
}

impl HandleTools {
    /// `None` if the workflow needs no handles in any era.
    pub(crate) fn of(workflow: &Workflow) -> Option<Self> {
        let eras = [Era::Handshake, Era::Stateless];
        eras.into_iter().find(|era| in_use(workflow, *era))?;
        let tools = workflow.artifacts(Kind::Tool);
        let is_free = |name: &str| workflow.is_always(Kind::Tool, name);
        Some(Self {
            free: tools.map(|name| (name.to_owned(), is_free(name))).collect(),
            others_are_free: workflow.always_everything(),
        })
    }

    pub(crate) fn includes(&self, tool: &str) -> bool {
        !self.free.get(tool).copied().unwrap_or(self.others_are_free)
    }
}

/// What models are told about the argument.
const DESCRIPTION: &str =
    "Which workflow the call belongs to: the id that `workflow_start` has returned.";

/// Keywords whose schemas judge the same object: one, a list, or one by the name of a property.
const PARTS: [&str; 4] = ["not", "if", "then", "else"];
const PART_LISTS: [&str; 3] = ["allOf", "anyOf", "oneOf"];
const DEPENDENT: [&str; 3] = ["dependentSchemas", "dependencies", "dependentRequired"];

/// Keywords that judge properties which they do not name.
const CLOSING: [&str; 6] = [
    "patternProperties",
    "propertyNames",
    "minProperties",
    "maxProperties",
    "const",
    "enum",
];
/// The same, unless they stand beside the `properties` that they look at.
const CLOSING_PARTS: [&str; 2] = ["additionalProperties", "unevaluatedProperties"];

/// The property as it is listed.
pub(crate) fn property() -> Value {
    json!({ "type": "string", "description": DESCRIPTION })
}

/// The schema with the argument, which is required.
///
/// # Errors
///
/// Why there is no such schema, in words that complete "it is not usable: ".
pub(crate) fn extended(schema: &JsonObject) -> Result<JsonObject, String> {
    let root = Value::Object(schema.clone());
    check_references(&root, true)?;
    if schema.contains_key("$ref") {
        return Err(no_room("`$ref` at its top"));
    }
    let mut walk = Walk {
        root: &root,
        followed: HashSet::new(),
    };
    walk.check(schema)?;
    let mut extended = schema.clone();
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

/// Refuses references to the whole schema, which would demand a handle of nested values, too, and
/// what changes the base of references.
fn check_references(part: &Value, is_root: bool) -> Result<(), String> {
    match part {
        Value::Object(object) => {
            let text = |keyword: &str| object.get(keyword).and_then(Value::as_str);
            if text("$ref").is_some_and(|to| !to.starts_with("#/")) {
                return Err(no_room("a `$ref` that does not begin with `#/`"));
            }
            let moving = ["$dynamicRef", "$recursiveRef", "$id"];
            let moving = moving
                .into_iter()
                .filter(|keyword| !is_root || *keyword != "$id");
            if let Some(keyword) = moving.into_iter().find(|keyword| text(keyword).is_some()) {
                return Err(no_room(&format!("a `{keyword}` in a part of it")));
            }
            object
                .values()
                .try_for_each(|value| check_references(value, false))
        }
        Value::Array(values) => values
            .iter()
            .try_for_each(|value| check_references(value, false)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
    }
}

/// A walk through all schemas that judge the arguments themselves. None of them may care whether
/// there is one more property.
struct Walk<'a> {
    root: &'a Value,
    followed: HashSet<&'a str>,
}

impl<'a> Walk<'a> {
    fn check(&mut self, schema: &'a JsonObject) -> Result<(), String> {
        if mentions_argument(schema) {
            return Err(format!(
                "it has an argument `{ARGUMENT}` of its own, where the handle of the workflow goes; \
                 rename it, or choose the scope `principal` or `global`"
            ));
        }
        if let Some(keyword) = CLOSING.iter().find(|name| schema.contains_key(**name)) {
            return Err(no_room(&format!("its `{keyword}`")));
        }
        let single = PARTS.iter().filter_map(|name| schema.get(*name));
        let lists = PART_LISTS.iter().filter_map(|name| schema.get(*name));
        let listed = lists.filter_map(Value::as_array).flatten();
        let dependent = DEPENDENT.iter().filter_map(|name| schema.get(*name));
        let dependent = dependent
            .filter_map(Value::as_object)
            .flat_map(|all| all.values());
        let parts = single.chain(listed).chain(dependent);
        // The others are `true`, `false` or lists of names.
        for part in parts.filter_map(Value::as_object) {
            self.check_part(part)?;
        }
        Ok(())
    }

    fn check_part(&mut self, part: &'a JsonObject) -> Result<(), String> {
        let closes = |name: &str| {
            let value = part.get(name);
            value.is_some_and(|value| *value != json!(true) && *value != json!({}))
        };
        if let Some(keyword) = CLOSING_PARTS.iter().find(|name| closes(name)) {
            return Err(no_room(&format!("`{keyword}` in a part of it")));
        }
        if let Some(reference) = part.get("$ref").and_then(Value::as_str)
            && self.followed.insert(reference)
        {
            // Percent-encoded references are refused rather than decoded.
            let pointer = reference.strip_prefix('#').filter(|to| !to.contains('%'));
            let target = pointer.and_then(|pointer| self.root.pointer(pointer));
            let target = target.ok_or_else(|| no_room(&format!("`{reference}`")))?;
            if let Some(target) = target.as_object() {
                self.check_part(target)?;
            }
        }
        self.check(part)
    }
}

/// Whether a schema says something about a property of that name.
fn mentions_argument(schema: &JsonObject) -> bool {
    let properties = schema.get("properties").and_then(Value::as_object);
    let required = schema.get("required").and_then(Value::as_array);
    let mut dependent = DEPENDENT.iter().filter_map(|name| schema.get(*name));
    properties.is_some_and(|properties| properties.contains_key(ARGUMENT))
        || required.is_some_and(|names| names.iter().any(|name| name == ARGUMENT))
        || dependent.any(|value| value.to_string().contains(&format!("\"{ARGUMENT}\"")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Schema;

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
            (json!({"minProperties": 1}), "`minProperties`"),
            (json!({"maxProperties": 1}), "`maxProperties`"),
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
