//! Messages: how requests are written, and what answers say.

use interlock::model::JsonObject;
use serde_json::{Value, json};

/// Where a client of 2026-07-28 says what it can do.
pub(crate) const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

/// Parameters of `initialize`.
pub(crate) fn hello(version: impl Into<Value>) -> Value {
    json!({
        "protocolVersion": version.into(),
        "capabilities": {},
        "clientInfo": {"name": "tester", "version": "0"},
    })
}

/// Parameters of a 2026-07-28 request.
pub(crate) fn modern(mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    params
}

/// A JSON-RPC request.
pub(crate) fn request(id: impl Into<Value>, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "method": method, "params": params})
}

/// A JSON-RPC notification.
pub(crate) fn notification(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

/// A value that is an object.
pub(crate) fn object(value: Value) -> JsonObject {
    let object = value.as_object();
    object.unwrap_or_else(|| panic!("{value}")).clone()
}

/// One complete JSON-RPC message: a notification, or an answer with a result or an error.
#[track_caller]
pub(crate) fn is_one_message(message: &Value) {
    assert_eq!(message["jsonrpc"], "2.0", "{message}");
    let has = |member: &str| message.get(member).is_some();
    if has("method") {
        assert!(!has("id") && !has("result") && !has("error"), "{message}");
    } else {
        assert!(has("result") != has("error"), "{message}");
        assert!(has("id") || has("error"), "{message}");
    }
    if let Some(error) = message.get("error") {
        assert!(error["code"].is_i64(), "{message}");
        assert!(error["message"].is_string(), "{message}");
    }
}

/// The JSON-RPC code and the refusal's own code of an error.
pub(crate) fn codes(answer: &Value) -> (i64, i64) {
    let error = &answer["error"];
    let number = |value: &Value| value.as_i64().unwrap_or_else(|| panic!("{answer}"));
    (
        number(&error["code"]),
        number(&error["data"]["refusal"]["code"]),
    )
}

/// The code with which a tool call was refused.
pub(crate) fn refusal(result: &Value) -> &Value {
    &result["_meta"]["dev.interlock/refusal"]["code"]
}

/// The text of a tool's result in an answer.
#[track_caller]
pub(crate) fn text(answer: &Value) -> &str {
    let text = answer["result"]["content"][0]["text"].as_str();
    text.unwrap_or_else(|| panic!("{answer}"))
}

/// The text of a tool's result.
#[track_caller]
pub(crate) fn result_text(result: &Value) -> &str {
    let text = result["content"][0]["text"].as_str();
    text.unwrap_or_else(|| panic!("{result}"))
}

/// The texts of a tool's result.
pub(crate) fn texts(result: &Value) -> Vec<&str> {
    let content = result["content"].as_array().unwrap().iter();
    content.filter_map(|block| block["text"].as_str()).collect()
}

/// The state that a result tells of.
pub(crate) fn at(result: &Value) -> &str {
    let place = &result["_meta"]["dev.interlock/workflow"]["state"];
    place.as_str().unwrap_or_else(|| panic!("{result}"))
}

/// The instance that an answer is about.
pub(crate) fn instance(result: &Value) -> String {
    let id = &result["_meta"]["dev.interlock/workflow"]["instance"];
    let id = id.as_str().unwrap_or_else(|| panic!("{result}"));
    id.to_owned()
}

/// The instructions that a result tells.
pub(crate) fn told(result: &Value) -> &Value {
    &result["_meta"]["dev.interlock/workflow"]["instructions"]
}
