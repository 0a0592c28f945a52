//! Tools that answer without asking: with all kinds of content, with words before their result,
//! with errors, and with changes to the server itself.

use crate::{media, object};
use interlock::{
    Ability, Context, Failure, Json, Level, NoArguments, Tool,
    model::{ContentBlock, JsonObject, ResourceContents},
    schemars::{self, JsonSchema},
};
use serde::Serialize;
use serde_json::{Value, json};
use std::time::Duration;

/// How long tools work between two words of theirs.
const PAUSE: Duration = Duration::from_millis(50);

pub(crate) fn all() -> Vec<Tool> {
    vec![
        Tool::new("test_simple_text", |_: NoArguments, _: Context| async {
            "This is a simple text response for testing."
        })
        .description("Returns a text"),
        Tool::new("test_image_content", |_: NoArguments, _: Context| async {
            media::image()
        })
        .description("Returns a picture"),
        Tool::new("test_audio_content", |_: NoArguments, _: Context| async {
            media::audio()
        })
        .description("Returns a sound"),
        Tool::new(
            "test_embedded_resource",
            |_: NoArguments, _: Context| async { embedded() },
        )
        .description("Returns a resource"),
        Tool::new(
            "test_multiple_content_types",
            |_: NoArguments, _: Context| async { mixed() },
        )
        .description("Returns a text, a picture and a resource"),
        Tool::new(
            "test_structured_content",
            |_: NoArguments, _: Context| async { Json(weather()) },
        )
        .description("Returns data, and says in advance how they look")
        .output::<Weather>(),
        Tool::new("test_error_handling", |_: NoArguments, _: Context| async {
            Err::<(), _>(Failure::new(
                "This tool intentionally returns an error for testing",
            ))
        })
        .description("Fails"),
        Tool::new("test_tool_with_logging", logging).description("Logs while it works"),
        Tool::new("test_logging_tool", logging)
            .description("Logs while it works, if that is wanted"),
        Tool::new("test_tool_with_progress", progress).description("Tells how far it has come"),
        Tool::new("test_reconnection", reconnection)
            .description("Lets its client hang up and come back for the result"),
        Tool::new("test_missing_capability", sampling_needed)
            .description("Works only for clients that can be asked for a sample of their model"),
        Tool::raw("json_schema_2020_12_tool", contact_schema(), contact)
            .description("Tool with JSON Schema 2020-12 features"),
        Tool::raw("test_custom_header", header_schema(), header)
            .description("Takes an argument that HTTP clients repeat in a header"),
    ]
}

#[derive(Serialize, JsonSchema)]
struct Weather {
    /// In degrees Celsius.
    temperature: f64,
    conditions: &'static str,
}

fn weather() -> Weather {
    Weather {
        temperature: 22.5,
        conditions: "Partly cloudy",
    }
}

fn embedded() -> ContentBlock {
    ContentBlock::resource(
        ResourceContents::text(
            "This is an embedded resource content.",
            "test://embedded-resource",
        )
        .with_mime_type("text/plain"),
    )
}

fn mixed() -> Vec<ContentBlock> {
    let data = json!({ "test": "data", "value": 123 }).to_string();
    vec![
        ContentBlock::text("Multiple content types test:"),
        media::image(),
        ContentBlock::resource(
            ResourceContents::text(data, "test://mixed-content-resource")
                .with_mime_type("application/json"),
        ),
    ]
}

async fn logging(_: NoArguments, context: Context) -> &'static str {
    context.log(Level::Info, "Tool execution started").await;
    tokio::time::sleep(PAUSE).await;
    context.log(Level::Info, "Tool processing data").await;
    tokio::time::sleep(PAUSE).await;
    context.log(Level::Info, "Tool execution completed").await;
    "Tool with logging executed successfully"
}

async fn progress(_: NoArguments, context: Context) -> &'static str {
    context.progress(0.0, Some(100.0), None).await;
    tokio::time::sleep(PAUSE).await;
    context.progress(50.0, Some(100.0), None).await;
    tokio::time::sleep(PAUSE).await;
    context.progress(100.0, Some(100.0), None).await;
    "Tool with progress executed successfully"
}

async fn reconnection(_: NoArguments, context: Context) -> &'static str {
    context.hang_up().await;
    tokio::time::sleep(2 * PAUSE).await;
    "Reconnection test completed successfully"
}

async fn sampling_needed(_: NoArguments, context: Context) -> Result<&'static str, Failure> {
    context.require(Ability::Sampling)?;
    Ok("The client can be asked for a sample of its model")
}

async fn contact(arguments: JsonObject, _: Context) -> String {
    format!("Contact: {}", Value::Object(arguments))
}

/// Keywords that no Rust type has: they are listed as they are, and arguments are held to them.
fn contact_schema() -> JsonObject {
    object(json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {
                    "street": { "type": "string" },
                    "city": { "type": "string" },
                },
            },
        },
        "properties": {
            "name": { "type": "string" },
            "address": { "$ref": "#/$defs/address" },
            "contactMethod": { "type": "string", "enum": ["phone", "email"] },
            "phone": { "type": "string" },
            "email": { "type": "string" },
        },
        "allOf": [{ "anyOf": [{ "required": ["phone"] }, { "required": ["email"] }] }],
        "if": {
            "properties": { "contactMethod": { "const": "phone" } },
            "required": ["contactMethod"],
        },
        "then": { "required": ["phone"] },
        "else": { "required": ["email"] },
        "additionalProperties": false,
    }))
}

async fn header(arguments: JsonObject, _: Context) -> String {
    match arguments.get("value").and_then(Value::as_str) {
        Some(value) => format!("The value is: {value}"),
        None => "There is no value".to_owned(),
    }
}

/// `x-mcp-header` makes clients of 2026-07-28 say the value in `Mcp-Param-Value` as well.
fn header_schema() -> JsonObject {
    object(json!({
        "type": "object",
        "properties": {
            "value": {
                "type": "string",
                "description": "A value that goes into a header, too",
                "x-mcp-header": "Value",
            },
        },
    }))
}
