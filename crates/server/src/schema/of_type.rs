//! The JSON Schema of a Rust type.

use crate::schema::JsonObject;
use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::Value;

/// The schema of what a type is read from.
pub(crate) fn input<T: JsonSchema>() -> JsonObject {
    generate::<T>(SchemaSettings::draft2020_12().for_deserialize())
}

/// The schema of what a type is written as.
pub(crate) fn output<T: JsonSchema>() -> JsonObject {
    generate::<T>(SchemaSettings::draft2020_12().for_serialize())
}

/// The schema of a form for a type: no references, and no `null` beside an optional field's type.
pub(crate) fn form<T: JsonSchema>() -> JsonObject {
    let mut settings = SchemaSettings::draft2020_12().for_deserialize();
    settings.inline_subschemas = true;
    let mut schema = generate::<T>(settings);
    let fields = schema.get_mut("properties").and_then(Value::as_object_mut);
    for (_, field) in fields.into_iter().flatten() {
        if let Some(Value::Array(types)) = field.get("type") {
            let mut some = types.iter().filter(|kind| *kind != "null");
            if let (Some(kind), None) = (some.next().cloned(), some.next()) {
                field["type"] = kind;
            }
        }
    }
    schema
}

fn generate<T: JsonSchema>(mut settings: SchemaSettings) -> JsonObject {
    settings.meta_schema = None;
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    // The name of a Rust type says nothing to a model.
    schema.remove("title");
    // A schema that is `true` becomes an empty one, which means the same. Neither describes a tool's
    // arguments, and both are refused as such when the server is built.
    schema.as_object().cloned().unwrap_or_default()
}
