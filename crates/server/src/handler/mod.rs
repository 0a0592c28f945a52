//! Tools, resources and prompts: what a developer writes.

mod completion;
mod parameters;
mod prompt;
mod reply;
mod resource;
mod template;
mod tool;
mod work;

pub use completion::{Completion, IntoCompletion, Partial};
pub use prompt::{IntoPrompt, Prompt};
pub use reply::{IntoToolResult, Json, ToolResult};
pub use resource::{Blob, IntoResource, Resource};
pub use template::ResourceTemplate;
pub use tool::{NoArguments, Tool};

pub(crate) use completion::Completers;
pub(crate) use reply::Reply;
pub(crate) use resource::{Cache, Hints, hinted};
pub(crate) use tool::{Arguments, checked};
pub(crate) use work::{Done, Prepared};

use crate::model::JsonObject;
use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::Value;

/// What is written of a type, or read into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    In,
    Out,
}

/// The schema of a form for a type: flat, and without a word for what is left out.
pub(crate) fn form_schema_of<T: JsonSchema>() -> JsonObject {
    let mut settings = SchemaSettings::draft2020_12().for_deserialize();
    settings.meta_schema = None;
    settings.inline_subschemas = true;
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    schema.remove("title");
    let mut schema = schema.as_object().cloned().unwrap_or_default();
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

fn schema_of<T: JsonSchema>(direction: Direction) -> JsonObject {
    let mut settings = match direction {
        Direction::In => SchemaSettings::draft2020_12().for_deserialize(),
        Direction::Out => SchemaSettings::draft2020_12().for_serialize(),
    };
    settings.meta_schema = None;
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    // The name of a Rust type says nothing to a model.
    schema.remove("title");
    // `true` is a schema, too, and means what an empty one does. Neither describes a tool's
    // arguments, and both are refused as such when the server is built.
    schema.as_object().cloned().unwrap_or_default()
}
