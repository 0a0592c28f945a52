//! What the server says, against the JSON Schemas of the protocol.
//!
//! They are not ours to publish, so they are read from the folder that `INTERLOCK_SCHEMAS` names,
//! one file per version. Without it these tests say that they were skipped, or fail where nothing may
//! be skipped.

use crate::support::{
    desk::desk,
    messages::{hello, modern},
    tools::tool,
};
use interlock::{
    Context, Failure, Json, NoArguments, Partial, Prompt, Resource, ResourceTemplate, Server, Tool,
    ToolResult,
    model::{Icon, JsonObject, ToolAnnotations},
};
use interlock_testkit::{
    connect,
    schemas::{are_here, check},
};
use serde_json::{Value, json};
use std::num::NonZeroUsize;

fn rich() -> Server {
    let raw = |arguments: JsonObject, _: Context| async move { ToolResult::Raw(arguments) };
    let open = JsonObject::from_iter([("type".to_owned(), json!("object"))]);
    Server::builder("rich", "1")
        .instructions("Be brief.")
        .tool(tool("bare"))
        .tool(
            tool("annotated")
                .title("Annotated")
                .description("With everything")
                .annotations(ToolAnnotations::default().read_only(true)),
        )
        .tool(Tool::raw("raw", open, raw))
        .tool(Tool::new("json", |_: NoArguments, _: Context| async {
            Json(json!({"a": [1]}))
        }))
        .tool(
            Tool::new("list", |_: NoArguments, _: Context| async { Json([1, 2]) })
                .output::<Vec<u32>>(),
        )
        .tool(Tool::new("fail", |_: NoArguments, _: Context| async {
            Err::<(), _>(Failure::new("no luck"))
        }))
        .tool(Tool::new("panic", |_: NoArguments, _: Context| async {
            if true {
                panic!("on purpose");
            }
        }))
        .resource(
            Resource::text("note://rules", "be kind")
                .name("rules")
                .description("House rules")
                .mime_type("text/plain"),
        )
        .resource(
            Resource::blob("file:///x.png", [1, 2, 3])
                .mime_type("image/png")
                .size(3),
        )
        .template(
            ResourceTemplate::raw("note://{id}/more", |_: JsonObject, _: Context| async {
                "more"
            })
            .title("More")
            .icons(vec![Icon::new("https://example.com/n.png")])
            .complete("id", |_: Partial, _: Context| async { vec!["1", "2"] }),
        )
        .prompt(
            Prompt::text("sorry", "To {{who}}")
                .title("Sorry")
                .required("who")
                .optional("why")
                .complete("who", |_: Partial, _: Context| async {
                    (0..200).map(|n| n.to_string()).collect::<Vec<_>>()
                }),
        )
        .page_size(NonZeroUsize::new(2).unwrap())
        .build()
        .unwrap()
}

/// Requests, each with the definition of its result.
fn questions() -> Vec<(&'static str, Value, &'static str)> {
    let call = |name: &str| json!({"name": name});
    vec![
        ("ping", json!({}), "EmptyResult"),
        ("tools/list", json!({}), "ListToolsResult"),
        ("resources/list", json!({}), "ListResourcesResult"),
        (
            "resources/templates/list",
            json!({}),
            "ListResourceTemplatesResult",
        ),
        ("prompts/list", json!({}), "ListPromptsResult"),
        (
            "resources/read",
            json!({"uri": "note://rules"}),
            "ReadResourceResult",
        ),
        (
            "prompts/get",
            json!({"name": "sorry", "arguments": {"who": "me"}}),
            "GetPromptResult",
        ),
        (
            "resources/read",
            json!({"uri": "note://1/more"}),
            "ReadResourceResult",
        ),
        (
            "resources/read",
            json!({"uri": "file:///x.png"}),
            "ReadResourceResult",
        ),
        ("resources/read", json!({"uri": "none"}), "none"),
        (
            "completion/complete",
            json!({
                "ref": {"type": "ref/prompt", "name": "sorry"},
                "argument": {"name": "who", "value": ""},
            }),
            "CompleteResult",
        ),
        (
            "completion/complete",
            json!({
                "ref": {"type": "ref/resource", "uri": "note://{id}/more"},
                "argument": {"name": "id", "value": ""},
            }),
            "CompleteResult",
        ),
        ("tools/call", call("bare"), "CallToolResult"),
        ("tools/call", call("json"), "CallToolResult"),
        ("tools/call", call("list"), "CallToolResult"),
        ("tools/call", call("fail"), "CallToolResult"),
        ("tools/call", call("panic"), "CallToolResult"),
        ("tools/call", call("work"), "CallToolResult"),
        ("tools/call", call("work"), "CallToolResult"),
        ("tools/call", call("search"), "CallToolResult"),
    ]
}

#[tokio::test]
async fn results_of_the_handshake_are_what_the_protocol_says() {
    if !are_here() {
        return;
    }
    for (version, error) in [
        ("2025-06-18", "JSONRPCError"),
        ("2025-11-25", "JSONRPCErrorResponse"),
    ] {
        for server in [rich(), desk(tool("work")).build().unwrap()] {
            let (mut client, _connection) = connect(&server);
            let answer = client.request("initialize", hello(version)).await;
            check(version, "InitializeResult", &answer["result"]);
            for (method, params, definition) in questions() {
                let (notifications, answer) = client.exchange(method, params).await;
                for notification in notifications {
                    check(version, "JSONRPCNotification", &notification);
                    check(version, "ServerNotification", &notification);
                }
                check(version, "JSONRPCMessage", &answer);
                match answer.get("result") {
                    Some(result) => check(version, definition, result),
                    None => check(version, error, &answer),
                }
            }
        }
    }
}

#[tokio::test]
async fn errors_are_what_the_protocol_says() {
    if !are_here() {
        return;
    }
    for (version, error) in [("2025-11-25", "JSONRPCErrorResponse")] {
        let (mut client, _connection) = connect(&rich());
        client.request("initialize", hello(version)).await;
        for line in [
            "nonsense",
            "[]",
            r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"nobody/knows"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}"#,
            r#"{"jsonrpc":"2.0","id":"x","method":"resources/read","params":{"uri":"note://nope"}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"initialize"}"#,
        ] {
            client.send_bytes(format!("{line}\n").as_bytes()).await;
            check(version, error, &client.receive().await.unwrap());
        }
    }
}

#[tokio::test]
async fn stateless_results_are_what_the_protocol_says() {
    if !are_here() {
        return;
    }
    const VERSION: &str = "2026-07-28";
    for server in [rich(), desk(tool("work")).build().unwrap()] {
        let (mut client, _connection) = connect(&server);
        let own = [
            ("server/discover", json!({}), "DiscoverResult"),
            ("nobody/knows", json!({}), "none"),
        ];
        let shared = questions()
            .into_iter()
            .skip_while(|(method, _, _)| *method == "ping");
        for (method, params, definition) in shared.chain(own) {
            let answer = client.request(method, modern(params)).await;
            check(VERSION, "JSONRPCMessage", &answer);
            match answer.get("result") {
                Some(result) => check(VERSION, definition, result),
                None => check(VERSION, "JSONRPCErrorResponse", &answer),
            }
        }
        let mut params = modern(json!({}));
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2099-01-01");
        let answer = client.request("tools/list", params).await;
        check(VERSION, "UnsupportedProtocolVersionError", &answer);
    }
}
