//! Arguments against their JSON Schema.
//!
//! Nothing is ever fetched: a `$ref` that does not resolve inside the schema makes the schema
//! invalid. Patterns run on an engine whose time is linear in the text.

use crate::model::JsonObject;
use interlock_proto::refusal::shortened;
use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

/// A schema, ready for use.
#[derive(Debug)]
pub(crate) struct Schema(Validator);

/// How many mistakes one answer names.
const MOST: usize = 3;

impl Schema {
    /// Prepares a schema; one without a `$schema` is 2020-12.
    pub(crate) fn new(schema: &JsonObject) -> Result<Self, String> {
        if schema.get("type") != Some(&Value::from("object")) {
            return Err("its `type` must be \"object\"".to_owned());
        }
        jsonschema::options()
            .with_pattern_options(PatternOptions::regex())
            .build(&Value::Object(schema.clone()))
            .map(Self)
            .map_err(|error| error.to_string())
    }

    /// What is wrong with these arguments, if anything.
    pub(crate) fn check(&self, arguments: &Value) -> Result<(), String> {
        if self.0.is_valid(arguments) {
            return Ok(());
        }
        let mistakes: Vec<_> = self
            .0
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn schema(value: Value) -> Result<Schema, String> {
        Schema::new(value.as_object().unwrap())
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
    fn a_long_value_is_not_repeated() {
        let schema =
            schema(json!({"type": "object", "properties": {"a": {"type": "integer"}}})).unwrap();
        let mistakes = schema
            .check(&json!({"a": "x".repeat(1_000_000)}))
            .unwrap_err();
        assert!(mistakes.len() < 1_000, "{}", mistakes.len());
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
        let unknown = json!({"$schema": "http://127.0.0.1:9/mine", "type": "object"});
        assert!(schema(unknown).is_err());
    }

    #[test]
    fn nothing_is_fetched() {
        let outside =
            json!({"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:9/x"}}});
        assert!(schema(outside).is_err());
    }

    #[test]
    fn what_is_no_object_schema_is_refused() {
        assert!(schema(json!({"type": "string"})).is_err());
        assert!(schema(json!({})).is_err());
        assert!(schema(json!({"type": "object", "required": 5})).is_err());
    }
}
