//! Samples of JSON schemas.

use serde_json::{Value, json};

use crate::guard::sample;

#[track_caller]
fn samples(schema: Value, expected: Value) {
    assert_eq!(sample(&schema), Some(expected), "{schema}");
}

#[test]
fn every_property_is_filled_in() {
    let schema = json!({
        "type": "object",
        "properties": {
            "order": {"type": "string"},
            "count": {"type": "integer"},
            "price": {"type": "number"},
            "rush": {"type": "boolean"},
            "lines": {"type": "array", "items": {"properties": {"sku": {"type": "string"}}}},
            "anything": true,
        },
        "required": ["order"],
    });
    let expected = json!({
        "order": "x", "count": 1, "price": 1.5, "rush": true, "lines": [{"sku": "x"}],
    });
    samples(schema, expected);
}

#[test]
fn bounds_are_kept() {
    samples(json!({"type": "integer", "minimum": 10}), json!(10));
    samples(json!({"type": "integer", "maximum": -3}), json!(-3));
    samples(
        json!({"type": "integer", "exclusiveMinimum": 10, "multipleOf": 4}),
        json!(12),
    );
    samples(
        json!({"type": "number", "minimum": 2, "maximum": 3}),
        json!(2.0),
    );
    samples(
        json!({"type": "number", "exclusiveMaximum": 0}),
        json!(-0.5),
    );
    samples(json!({"type": "string", "minLength": 3}), json!("xxx"));
    samples(
        json!({"type": "string", "format": "date"}),
        json!("2025-01-31"),
    );
    samples(
        json!({"type": "array", "items": {"type": "null"}, "minItems": 2}),
        json!([null, null]),
    );
    samples(
        json!({"type": "array", "items": {"type": "null"}, "maxItems": 0}),
        json!([]),
    );
    samples(
        json!({"type": "array", "items": {"type": "null"}, "minItems": u64::MAX}),
        json!([null, null, null]),
    );
    let huge = sample(&json!({"type": "string", "minLength": u64::MAX})).unwrap();
    assert_eq!(huge.as_str().unwrap().len(), 100);
}

#[test]
fn of_several_forms_the_first_is_taken() {
    samples(json!({"enum": ["red", "blue"]}), json!("red"));
    samples(json!({"const": 7, "type": "integer"}), json!(7));
    samples(
        json!({"oneOf": [{}, {"type": "integer"}, {"type": "string"}]}),
        json!(1),
    );
    samples(
        json!({"anyOf": [{"type": "null"}, {"type": "string"}]}),
        json!("x"),
    );
    samples(json!({"type": ["null", "string"]}), json!("x"));
    let all = json!({"allOf": [
        {"properties": {"a": {"type": "integer"}}},
        {"properties": {"b": {"type": "string"}}},
    ]});
    samples(all, json!({"a": 1, "b": "x"}));
}

#[test]
fn references_are_followed_and_loops_end() {
    let schema = json!({
        "$defs": {"tree": {"properties": {"name": {"type": "string"}, "child": {"$ref": "#/$defs/tree"}}}},
        "properties": {"root": {"$ref": "#/$defs/tree"}},
    });
    let sampled = sample(&schema).unwrap();
    assert_eq!(sampled["root"]["child"]["name"], "x");
    let itself = json!({"$ref": "#"});
    assert_eq!(sample(&itself), None);
    let properties: serde_json::Map<String, Value> = (0..50)
        .map(|n| (n.to_string(), json!({"$ref": "#"})))
        .collect();
    let wide = json!({"type": "object", "properties": properties});
    let text = sample(&wide).unwrap().to_string();
    assert!(text.len() < 10_000, "{}", text.len());
}

#[test]
fn a_schema_that_says_nothing_has_no_sample() {
    for schema in [
        json!(true),
        json!({}),
        json!({"type": "date"}),
        json!({"$ref": "http://x/y"}),
        json!(7),
    ] {
        assert_eq!(sample(&schema), None, "{schema}");
    }
}
