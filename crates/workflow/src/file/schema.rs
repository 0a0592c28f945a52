//! The JSON schema of the format, for editors.

use super::format::{FileFormat, OR_NOTHING};
use schemars::{
    Schema,
    generate::SchemaSettings,
    transform::{Transform, transform_subschemas},
};
use serde_json::{Value, json};

/// The JSON schema (draft 2020-12) of a workflow file.
///
/// It knows every key, and what may stand there. What only makes sense together, such as a state
/// that is led to and never defined, is left to [`read`](super::read).
///
/// ```
/// use interlock_workflow::file;
///
/// let schema = file::schema();
/// assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
/// assert_eq!(schema["properties"]["interlock"]["const"], 1);
/// ```
pub fn schema() -> Value {
    let settings = SchemaSettings::draft2020_12();
    let generator = settings.with_transform(Tidy).into_generator();
    let mut schema = generator.into_root_schema_for::<FileFormat>();
    schema.insert("title".to_owned(), "Interlock workflow file".into());
    schema.to_value()
}

/// Says what may be left out as the reader means it: the key with its value, and for maps and
/// lists also the value alone.
#[derive(Clone)]
struct Tidy;

impl Transform for Tidy {
    fn transform(&mut self, schema: &mut Schema) {
        transform_subschemas(self, schema);
        without_null(schema);
        if schema.remove(OR_NOTHING).is_some() {
            let alone = schema.get("type").cloned();
            schema.insert("type".to_owned(), json!([alone, "null"]));
        }
        if let Some(Value::String(text)) = schema.get_mut("description") {
            *text = text.replace('\n', " ");
        }
        schema.remove("format");
    }
}

/// An option of Rust is a key that may be missing, not a value that may be null.
fn without_null(schema: &mut Schema) {
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = &types[..] {
            let only = only.clone();
            schema.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(choices)) = schema.get_mut("enum") {
        choices.retain(|choice| !choice.is_null());
    }
    if let Some(Value::Array(choices)) = schema.get_mut("anyOf") {
        choices.retain(|choice| *choice != json!({ "type": "null" }));
        if let [only] = &choices[..]
            && let Value::Object(only) = only.clone()
        {
            schema.remove("anyOf");
            schema.ensure_object().extend(only);
        }
    }
}

#[cfg(test)]
mod tests;
