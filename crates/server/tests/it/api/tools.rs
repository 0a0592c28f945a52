//! What clients are told about tools, and what their results must keep.

use crate::support::{
    client::client_of,
    messages::{codes, modern},
};
use interlock::{
    Context, Json, NoArguments, Server, Tool,
    model::{Icon, JsonObject, MetaObject},
    schemars,
};
use serde_json::{Value, json};

/// Keywords in no alphabetical order, some of them nobody's.
const SCHEMA: &str = r##"{"type":"object","$schema":"https://json-schema.org/draft/2020-12/schema","$id":"urn:mine","x-mine":{"b":1,"a":[2,{"z":0,"y":0}]},"properties":{"zone":{"type":"string","x-mcp-header":"Zone"},"area":{"$ref":"#/$defs/area"},"b":{"$ref":"#anchored"}},"required":["zone"],"$defs":{"area":{"type":"integer","minimum":0},"other":{"$anchor":"anchored","type":"boolean"}},"allOf":[{"if":{"properties":{"zone":{"const":"x"}}},"then":{"required":["area"]},"else":{"not":{"required":["b"]}}}],"additionalProperties":false}"##;

fn schema(text: &str) -> JsonObject {
    serde_json::from_str(text).unwrap()
}

#[tokio::test]
async fn schemas_go_out_as_they_are() {
    let tool = Tool::raw("t", schema(SCHEMA), |_, _| async { Json(json!({})) });
    let tool = tool.output_schema(schema(SCHEMA));
    let server = Server::builder("s", "0").tool(tool).build().unwrap();
    let (mut client, _connection) = client_of(&server).await;
    for params in [json!({}), modern(json!({}))] {
        let answer = client.request("tools/list", params).await;
        let tool = &answer["result"]["tools"][0];
        assert_eq!(tool["inputSchema"].to_string(), SCHEMA);
        assert_eq!(tool["outputSchema"].to_string(), SCHEMA);
    }
}

#[tokio::test]
async fn every_keyword_of_a_schema_counts() {
    let tool = Tool::raw("t", schema(SCHEMA), |_, _| async { "fine" });
    let server = Server::builder("s", "0").tool(tool).build().unwrap();
    let (mut client, _connection) = client_of(&server).await;
    for (arguments, fits) in [
        (json!({"zone": "a"}), true),
        (json!({"zone": "x", "area": 1}), true),
        (json!({"zone": "x"}), false),
        (json!({"zone": "a", "b": true}), false),
        (json!({"zone": "x", "area": 1, "b": 5}), false),
        (json!({"zone": "a", "more": 1}), false),
    ] {
        let (_, result) = client.call("t", arguments.clone()).await;
        assert_eq!(result["isError"] != true, fits, "{arguments}: {result}");
    }
}

#[derive(serde::Serialize, schemars::JsonSchema)]
struct Weather {
    /// In degrees Celsius.
    warm: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

#[tokio::test]
async fn a_type_can_describe_a_result() {
    let tool = Tool::new("t", |_: NoArguments, _: Context| async {
        Json(Weather {
            warm: 21.5,
            note: None,
        })
    });
    let server = Server::builder("s", "0")
        .tool(tool.output::<Weather>())
        .build()
        .unwrap();
    let (mut client, _connection) = client_of(&server).await;
    let answer = client.request("tools/list", json!({})).await;
    let output = &answer["result"]["tools"][0]["outputSchema"];
    assert_eq!(output["type"], "object");
    assert_eq!(output["required"], json!(["warm"]));
    assert_eq!(
        output["properties"]["warm"]["description"],
        "In degrees Celsius."
    );
    let (_, result) = client.call("t", json!({})).await;
    assert_eq!(result["structuredContent"], json!({"warm": 21.5}));
}

/// 2026-07-28 took structured results that are no objects, and the versions before it choke on
/// their schemas.
#[tokio::test]
async fn a_result_that_is_no_object_is_described_only_where_it_may_be() {
    let tool = Tool::new("t", |_: NoArguments, _: Context| async { Json(vec![1, 2]) });
    let server = Server::builder("s", "0")
        .tool(tool.output::<Vec<u32>>())
        .build()
        .unwrap();
    let (mut client, _connection) = client_of(&server).await;
    let answer = client.request("tools/list", json!({})).await;
    assert_eq!(answer["result"]["tools"][0].get("outputSchema"), None);
    let (_, result) = client.call("t", json!({})).await;
    assert_eq!(result.get("structuredContent"), None, "{result}");
    assert_eq!(result["content"][0]["text"], "[1,2]");
    let answer = client.request("tools/list", modern(json!({}))).await;
    assert_eq!(
        answer["result"]["tools"][0]["outputSchema"]["type"],
        "array"
    );
    let call = modern(json!({"name": "t"}));
    let answer = client.request("tools/call", call).await;
    assert_eq!(answer["result"]["structuredContent"], json!([1, 2]));
}

#[tokio::test]
async fn a_result_that_is_no_object_is_checked_all_the_same() {
    let tool = Tool::new("t", |_: NoArguments, _: Context| async { Json("x") });
    let server = Server::builder("s", "0")
        .tool(tool.output::<Vec<u32>>())
        .build()
        .unwrap();
    let (mut client, _connection) = client_of(&server).await;
    let (_, result) = client.call("t", json!({})).await;
    assert_eq!(result["isError"], true, "{result}");
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("output schema"), "{text}");

    let anything = Tool::new("t", |_: NoArguments, _: Context| async {
        Json(Value::Null)
    });
    let anything = anything.output_schema(JsonObject::new());
    let server = Server::builder("s", "0").tool(anything).build().unwrap();
    let (mut client, _connection) = client_of(&server).await;
    let (_, result) = client.call("t", json!({})).await;
    assert_ne!(result["isError"], true, "{result}");
}

#[tokio::test]
async fn a_tool_tells_all_about_itself() {
    let meta = json!({"mine": {"z": 1, "a": 2}});
    let icon = Icon::new("https://example.com/t.png").with_sizes(vec!["48x48".to_owned()]);
    let tool = Tool::new("t", |_: NoArguments, _: Context| async {})
        .title("The tool")
        .description("Does it")
        .icons(vec![icon])
        .meta(MetaObject(meta.as_object().unwrap().clone()));
    let server = Server::builder("s", "0").tool(tool).build().unwrap();
    let (mut client, _connection) = client_of(&server).await;
    let answer = client.request("tools/list", json!({})).await;
    let expected = json!({
        "name": "t",
        "title": "The tool",
        "description": "Does it",
        "inputSchema": {"type": "object", "properties": {}},
        "icons": [{"src": "https://example.com/t.png", "sizes": ["48x48"]}],
        "_meta": meta,
    });
    assert_eq!(answer["result"]["tools"][0], expected);
}

fn built_with(input: Value) -> Result<Server, String> {
    let input = input.as_object().unwrap().clone();
    let tool = Tool::raw("t", input, |_, _| async {});
    let built = Server::builder("s", "0").tool(tool).build();
    built.map_err(|errors| errors.to_string())
}

#[test]
fn a_schema_in_an_unknown_dialect_or_that_points_outside_is_found_when_the_server_is_built() {
    for dialect in [json!("https://example.com/mine"), json!(5)] {
        let why = built_with(json!({"$schema": dialect, "type": "object"})).unwrap_err();
        assert!(why.contains("tool `t`"), "{why}");
        assert!(why.contains(&format!("dialect {dialect}")), "{why}");
        assert!(why.contains("draft/2020-12"), "{why}");
    }
    for outside in ["http://127.0.0.1:9/x", "file:///etc/passwd", "other.json"] {
        let points = json!({"type": "object", "properties": {"a": {"$ref": outside}}});
        let why = built_with(points).unwrap_err();
        assert!(why.contains("input schema of tool `t`"), "{why}");
        assert!(why.contains(outside), "{why}");
    }
}

#[test]
fn a_schema_that_describes_no_arguments_is_found_when_the_server_is_built() {
    for wrong in [
        json!({"type": "string"}),
        json!({}),
        json!({"type": "object", "required": 5}),
    ] {
        let why = built_with(wrong).unwrap_err();
        assert!(why.contains("input schema of tool `t`"), "{why}");
    }
}

#[tokio::test]
async fn an_unknown_tool_is_told_from_one_with_wrong_arguments() {
    let server = built_with(json!({"type": "object", "required": ["a"]})).unwrap();
    let (mut client, _connection) = client_of(&server).await;
    let answer = client.request("tools/call", json!({"name": "u"})).await;
    assert_eq!(codes(&answer), (-32602, 1048));
    let answer = client.request("tools/call", json!({"name": "t"})).await;
    assert_eq!(answer["result"]["isError"], true, "{answer}");
}
