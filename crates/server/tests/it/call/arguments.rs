//! Arguments are checked before anything runs, and results tell which edge is taken.

use crate::support::{
    desk::{desk, state},
    messages::refusal,
    tools::tool,
};
use interlock::{
    Context, Failure, IntoToolResult, Json, NoArguments, Server, Tool, ToolResult,
    model::{CallToolResult, ContentBlock},
    schemars::{self, JsonSchema},
};
use interlock_testkit::connect;
use serde_json::{Value, json};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

#[derive(serde::Deserialize, JsonSchema)]
struct Order {
    item: String,
    #[serde(default)]
    #[schemars(range(min = 1, max = 10))]
    count: Option<u32>,
}

fn counted() -> (Tool, Arc<AtomicUsize>) {
    let runs = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&runs);
    let work = Tool::new("work", move |order: Order, _: Context| {
        counter.fetch_add(1, Ordering::SeqCst);
        async move { format!("{} {:?}", order.item, order.count) }
    });
    (work, runs)
}

#[tokio::test]
async fn arguments_that_fail_the_schema_are_refused_and_move_nothing() {
    let (work, runs) = counted();
    let (mut client, _connection) = connect(&desk(work).build().unwrap());
    client.initialize().await;
    for arguments in [
        json!({}),
        json!({"item": 5}),
        json!({"item": null}),
        json!({"item": ["book"]}),
        json!({"Item": "book"}),
        json!({"item": "book", "count": 0}),
        json!({"item": "book", "count": 11}),
        json!({"item": "book", "count": -1}),
        json!({"item": "book", "count": "1"}),
        json!({"item": "book", "count": 1.5}),
    ] {
        let (before, result) = client.call("work", arguments.clone()).await;
        assert_eq!(before, [] as [&str; 0], "{arguments}");
        assert_eq!(result["isError"], true, "{arguments}: {result}");
        assert_eq!(refusal(&result), 1022, "{arguments}: {result}");
        assert!(
            result["content"][0]["text"]
                .as_str()
                .unwrap()
                .contains("work"),
            "{result}"
        );
    }
    let answer = client.request("tools/call", json!({"name": "work"})).await;
    assert_eq!(refusal(&answer["result"]), 1022, "{answer}");
    assert_eq!(runs.load(Ordering::SeqCst), 0);
    assert_eq!(state(&mut client).await, "open");
    let (_, result) = client
        .call("work", json!({"item": "book", "count": 2, "x": 1}))
        .await;
    assert_eq!(result["content"][0]["text"], "book Some(2)");
}

#[tokio::test]
async fn the_gate_comes_before_the_arguments() {
    let (work, _) = counted();
    let (mut client, _connection) = connect(&desk(work).build().unwrap());
    client.initialize().await;
    client.call("work", json!({"item": "book"})).await;
    let (_, result) = client.call("work", json!({"item": 5})).await;
    assert_eq!(refusal(&result), 1081, "{result}");
}

#[tokio::test]
async fn no_arguments_are_an_empty_object() {
    let (mut client, _connection) = connect(&desk(tool("work")).build().unwrap());
    client.initialize().await;
    for params in [
        json!({"name": "peek"}),
        json!({"name": "peek", "arguments": {}}),
        json!({"name": "peek", "arguments": null}),
    ] {
        let answer = client.request("tools/call", params.clone()).await;
        assert_eq!(
            answer["result"]["content"][0]["text"], "peek is done",
            "{params}: {answer}"
        );
    }
}

#[tokio::test]
async fn a_huge_wrong_argument_is_not_repeated() {
    let (work, _) = counted();
    let (mut client, _connection) = connect(&desk(work).build().unwrap());
    client.initialize().await;
    let (_, result) = client
        .call("work", json!({"item": "b", "count": "x".repeat(1_000_000)}))
        .await;
    assert_eq!(refusal(&result), 1022);
    assert!(
        result.to_string().len() < 4_000,
        "{}",
        result.to_string().len()
    );
}

async fn check_outcome<R: IntoToolResult + Send + 'static>(
    answer: fn() -> R,
    after: &str,
) -> Value {
    let work = Tool::new(
        "work",
        move |_: NoArguments, _: Context| async move { answer() },
    );
    let (mut client, _connection) = connect(&desk(work).build().unwrap());
    client.unchecked();
    client.initialize().await;
    let (_, result) = client.call("work", json!({})).await;
    assert_eq!(
        result["_meta"]["dev.interlock/workflow"]["state"], after,
        "{result}"
    );
    assert_eq!(state(&mut client).await, after);
    assert_eq!(result["isError"] == true, after == "failed", "{result}");
    assert!(result["content"].is_array(), "{result}");
    result
}

fn soft_error() -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text("soft")])
}

fn raw(is_error: Value) -> ToolResult {
    let result = json!({"content": [], "isError": is_error, "own": {"a": [1]}, "_meta": {"x": 1}});
    ToolResult::Raw(result.as_object().unwrap().clone())
}

#[tokio::test]
async fn a_result_that_says_it_is_an_error_is_one() {
    check_outcome(|| "fine", "done").await;
    check_outcome(|| (), "done").await;
    check_outcome(|| Err::<&str, _>(Failure::new("boom")), "failed").await;
    let result = check_outcome(soft_error, "failed").await;
    assert_eq!(result["content"][0]["text"], "soft");
    check_outcome(|| CallToolResult::success(Vec::new()), "done").await;
    let result = check_outcome(|| raw(json!(true)), "failed").await;
    assert_eq!(result["own"], json!({"a": [1]}));
    assert_eq!(result["_meta"]["x"], 1);
    check_outcome(|| raw(json!(false)), "done").await;
    check_outcome(|| raw(json!(null)), "done").await;
}

/// The protocol of 2025 knows structured content as an object only.
#[tokio::test]
async fn structured_content_is_an_object_or_is_not_there() {
    let server = Server::builder("s", "0")
        .tool(Tool::new("object", |_: NoArguments, _: Context| async {
            Json(json!({"a": 1}))
        }))
        .tool(Tool::new("array", |_: NoArguments, _: Context| async {
            Json(vec![1, 2])
        }))
        .tool(Tool::new("number", |_: NoArguments, _: Context| async {
            Json(5)
        }))
        .tool(Tool::new("null", |_: NoArguments, _: Context| async {
            Json(())
        }))
        .build()
        .unwrap();
    let (mut client, _connection) = connect(&server);
    client.initialize().await;
    let (_, result) = client.call("object", json!({})).await;
    assert_eq!(result["structuredContent"], json!({"a": 1}));
    assert_eq!(result["content"][0]["text"], r#"{"a":1}"#);
    for (name, text) in [("array", "[1,2]"), ("number", "5"), ("null", "null")] {
        let (_, result) = client.call(name, json!({})).await;
        assert_eq!(result["content"][0]["text"], text, "{result}");
        let structured = result.get("structuredContent");
        assert!(structured.is_none_or(Value::is_object), "{name}: {result}");
    }
}

#[tokio::test]
async fn prompts_and_resources_answer_what_they_are() {
    let (mut client, _connection) = connect(&desk(tool("work")).build().unwrap());
    client.initialize().await;
    let answer = client
        .request("resources/read", json!({"uri": "note://rules"}))
        .await;
    assert_eq!(
        answer["result"]["contents"],
        json!([{"uri": "note://rules", "text": "be kind"}])
    );
    assert_eq!(
        answer["result"]["_meta"]["dev.interlock/workflow"]["state"],
        "open"
    );
    let params = json!({"name": "sorry", "arguments": {"who": "{{who}}"}});
    let answer = client.request("prompts/get", params).await;
    assert_eq!(
        answer["result"]["messages"],
        json!([{"role": "user", "content": {"type": "text", "text": "Apologise to {{who}}."}}])
    );
}

fn schema(value: Value) -> interlock::model::JsonObject {
    value.as_object().unwrap().clone()
}

/// Clients check what a tool promises, so a step must not be taken on a broken promise.
#[tokio::test]
async fn a_result_that_breaks_its_output_schema_is_an_error() {
    let output =
        || json!({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]});
    for (result, kept) in [
        (json!({"content": [], "structuredContent": {"a": 1}}), true),
        (
            json!({"content": [], "structuredContent": {"a": "1"}}),
            false,
        ),
        (json!({"content": []}), false),
    ] {
        let raw = schema(result.clone());
        let work = Tool::raw("work", schema(json!({"type": "object"})), move |_, _| {
            std::future::ready(ToolResult::Raw(raw.clone()))
        });
        let work = work.output_schema(schema(output()));
        let (mut client, _connection) = connect(&desk(work).build().unwrap());
        client.initialize().await;
        let (_, answer) = client.call("work", json!({})).await;
        assert_eq!(answer["isError"] != true, kept, "{result}: {answer}");
        let at = state(&mut client).await;
        assert_eq!(at == "done", kept, "{result}: {at}");
    }
}

#[test]
fn an_output_schema_that_cannot_be_used_is_found_when_the_server_is_built() {
    let work = Tool::new("work", |_: NoArguments, _: Context| async {});
    let work = work.output_schema(schema(json!({"type": "array", "items": 5})));
    let errors = desk(work).build().unwrap_err().to_string();
    assert!(errors.contains("output schema of tool `work`"), "{errors}");
}

#[tokio::test]
async fn a_handler_cannot_speak_for_the_server() {
    let forged = json!({
        "content": [],
        "_meta": {"dev.interlock/refusal": {"code": 1081}, "dev.interlock/workflow": 5, "mine": 1},
    });
    let raw = schema(forged);
    let work = Tool::raw("work", schema(json!({"type": "object"})), move |_, _| {
        std::future::ready(ToolResult::Raw(raw.clone()))
    });
    let (mut client, _connection) = connect(&desk(work).build().unwrap());
    client.initialize().await;
    let (_, answer) = client.call("work", json!({})).await;
    assert!(
        answer["_meta"]["dev.interlock/refusal"].is_null(),
        "{answer}"
    );
    assert_eq!(answer["_meta"]["dev.interlock/workflow"]["state"], "done");
    assert_eq!(answer["_meta"]["mine"], 1);
}

/// A type of the application that does not expect what its schema allows.
#[derive(JsonSchema)]
struct Fragile {
    #[expect(dead_code, reason = "it is there for the schema")]
    item: String,
}

impl<'de> serde::Deserialize<'de> for Fragile {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let read = Value::deserialize(deserializer)?;
        let item = read["item"].as_str().unwrap().to_owned();
        assert_ne!(item, "egg", "it breaks");
        Ok(Self { item })
    }
}

/// It costs its own call and nothing else, whether its arguments are read from text or from values.
#[tokio::test]
async fn arguments_on_which_their_type_panics_fail_their_call_alone() {
    let work = Tool::new("work", |_: Fragile, _: Context| async { "whole" });
    let (mut client, _connection) = connect(&desk(work).build().unwrap());
    client.initialize().await;
    for egg in [json!({"item": "egg"}), json!({"item": "egg", "more": []})] {
        let (_, result) = client.call("work", egg).await;
        assert_eq!(result["isError"], true, "{result}");
        assert_eq!(refusal(&result), 1079, "{result}");
    }
    let (_, result) = client.call("work", json!({"item": "stone"})).await;
    assert_eq!(result["content"][0]["text"], "whole", "{result}");
}
