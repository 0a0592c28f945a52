//! What the tests over HTTP share.

use crate::common::tool;
use interlock::{
    Builder, Context, Failure, Form, HttpOptions, Level, NoArguments, Prompt, Resource, Server,
    Tool, model::JsonObject, schemars,
};
use interlock_testkit::web::{Answer, Request, Site};
use serde_json::{Value, json};

/// The version that opens sessions, and is checked most.
pub(crate) const SESSIONS: &str = "2025-11-25";

/// Where a client of 2026-07-28 says what it can do.
pub(crate) const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Text {
    text: String,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Steps {
    steps: Vec<f64>,
}

/// A tool that says again what it is told.
pub(crate) fn echo() -> Tool {
    Tool::new("echo", |args: Text, _: Context| async move { args.text })
}

/// A tool that reports these steps and is done.
pub(crate) fn walk() -> Tool {
    Tool::new("walk", |args: Steps, context: Context| async move {
        for step in args.steps {
            context.progress(step, Some(10.0), Some("on the way")).await;
        }
        "there"
    })
}

/// A tool that logs once at each level.
pub(crate) fn chatter() -> Tool {
    Tool::new("chatter", |_: NoArguments, context: Context| async move {
        for level in Level::ALL {
            context
                .log_as(level, Some("chatter"), json!({"at": level.as_str()}))
                .await;
        }
        "said"
    })
}

/// A form that asks for a number.
pub(crate) fn age_form() -> Form {
    let schema = json!({
        "type": "object",
        "properties": {"age": {"type": "integer", "minimum": 0}},
        "required": ["age"],
    });
    Form::new("How old are you?", object(schema))
}

/// A tool that asks how old somebody is, and says it again.
pub(crate) fn ask_age() -> Tool {
    Tool::new("ask_age", |_: NoArguments, context: Context| async move {
        let answer = context.elicit("age", &age_form()).await?;
        Ok::<_, Failure>(match answer.content {
            Some(content) => format!("age {}", content["age"]),
            None => "no answer".to_owned(),
        })
    })
}

/// A server without a workflow that can do some of everything.
pub(crate) fn plain() -> Builder {
    Server::builder("plain", "1.0.0")
        .tool(echo())
        .tool(walk())
        .tool(chatter())
        .tool(ask_age())
        .tool(tool("peek"))
        .resource(Resource::text("note://rules", "be kind"))
        .resource(Resource::text("note://plan", "be quick"))
        .prompt(Prompt::text("sorry", "Apologise to {{who}}.").required("who"))
}

/// The plain server, served as by default.
pub(crate) async fn plain_site() -> Site {
    Site::open(&plain().build().unwrap(), HttpOptions::default()).await
}

pub(crate) fn object(value: Value) -> JsonObject {
    let object = value.as_object();
    object.unwrap_or_else(|| panic!("{value}")).clone()
}

/// A JSON-RPC request.
pub(crate) fn request(id: impl Into<Value>, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "method": method, "params": params})
}

/// A JSON-RPC notification.
pub(crate) fn notification(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

/// A 2026-07-28 call of a tool.
pub(crate) fn modern_call(id: impl Into<Value>, tool: &str, arguments: Value) -> Request {
    let params = json!({"name": tool, "arguments": arguments});
    Request::modern(id, "tools/call", params)
}

/// Status, JSON-RPC code and refusal's code of an answer that is an error.
pub(crate) async fn verdict(answer: Answer) -> (u16, i64, Option<i64>) {
    let (status, body) = answer.refused().await;
    let error = &body["error"];
    let code = error["code"].as_i64();
    let code = code.unwrap_or_else(|| panic!("{body}"));
    (status, code, error["data"]["refusal"]["code"].as_i64())
}

/// The text of a tool's result in an answer.
#[track_caller]
pub(crate) fn text(answer: &Value) -> &str {
    let text = answer["result"]["content"][0]["text"].as_str();
    text.unwrap_or_else(|| panic!("{answer}"))
}
