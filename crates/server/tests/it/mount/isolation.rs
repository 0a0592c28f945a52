//! What each call of a mounted handler has for itself: what its request says, and whom it talks to.

use interlock::{HttpOptions, Mount, Server};
use interlock_testkit::{
    PATIENCE, connect,
    web::{Request, Site},
};
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ElicitRequest,
        ElicitRequestParams, GetPromptRequestParams, GetPromptResponse, GetPromptResult,
        JsonObject, ListPromptsResult, ListResourcesResult, ListToolsResult, LoggingLevel,
        LoggingMessageNotificationParam, PaginatedRequestParams, ProgressNotificationParam, Prompt,
        PromptMessage, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult,
        Resource, ResourceContents, Role, Tool,
    },
    service::RequestContext,
};
use serde_json::{Value, json};
use std::{collections::BTreeSet, sync::Arc};
use tokio::sync::Barrier;

/// Two who talk at the same time, and one who repeats what its request says about itself.
#[derive(Clone)]
struct Pair {
    step: Arc<Barrier>,
}

fn said(context: &RequestContext<RoleServer>) -> String {
    serde_json::to_string(&context.meta).unwrap()
}

impl Pair {
    async fn server() -> Server {
        let step = Arc::new(Barrier::new(2));
        let mount = Mount::new(Self { step }).await.unwrap();
        Server::builder("ours", "1").mount(mount).build().unwrap()
    }

    /// Tells, writes and asks, each only when the other one is about to do the same.
    async fn talk(&self, who: &str, context: RequestContext<RoleServer>) -> String {
        let peer = &context.peer;
        self.step.wait().await;
        let token = context.meta.get_progress_token().unwrap();
        let progress = ProgressNotificationParam::new(token, 1.0).with_message(who);
        peer.notify_progress(progress).await.unwrap();
        self.step.wait().await;
        let log = LoggingMessageNotificationParam::new(LoggingLevel::Error, json!(who));
        peer.notify_logging_message(log).await.unwrap();
        self.step.wait().await;
        let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}});
        let form = ElicitRequestParams::FormElicitationParams {
            meta: None,
            message: who.to_owned(),
            requested_schema: serde_json::from_value(schema).unwrap(),
        };
        let answer = peer.send_request(ElicitRequest::new(form).into()).await;
        let answer = serde_json::to_value(answer.unwrap()).unwrap();
        format!("{who}: {}", answer["content"]["name"])
    }
}

impl ServerHandler for Pair {
    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tool = |name| Tool::new(name, "", Arc::new(JsonObject::new()));
        let tools = vec![tool("talk"), tool("repeat")];
        Ok(ListToolsResult::with_all_items(tools))
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let resource = Resource::new("pair://repeat", "repeat");
        Ok(ListResourcesResult::with_all_items(vec![resource]))
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let prompt = Prompt::new("repeat", None::<String>, None);
        Ok(ListPromptsResult::with_all_items(vec![prompt]))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let text = if request.name == "talk" {
            let arguments = request.arguments.unwrap_or_default();
            let who = arguments["who"].as_str().unwrap().to_owned();
            self.talk(&who, context).await
        } else {
            said(&context)
        };
        Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into())
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let contents = ResourceContents::text(said(&context), request.uri);
        Ok(ReadResourceResult::new(vec![contents]).into())
    }

    async fn get_prompt(
        &self,
        _: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let message = PromptMessage::new_text(Role::User, said(&context));
        Ok(GetPromptResult::new(vec![message]).into())
    }
}

fn talk(who: &str, meta: Value) -> Value {
    json!({"name": "talk", "arguments": {"who": who}, "_meta": meta})
}

/// Who is heard in these messages, by what means.
fn heard(messages: &[Value]) -> BTreeSet<(String, String)> {
    let heard = messages.iter().map(|message| {
        let params = &message["params"];
        let who = [&params["message"], &params["data"]];
        let who = who.into_iter().find_map(Value::as_str).unwrap();
        let by = message["method"].as_str().unwrap();
        (by.to_owned(), who.to_owned())
    });
    heard.collect()
}

fn by(means: &[&str], who: &str) -> BTreeSet<(String, String)> {
    let by = means.iter().map(|by| ((*by).to_owned(), who.to_owned()));
    by.collect()
}

#[tokio::test]
async fn two_clients_at_once_hear_only_what_is_theirs() {
    let server = Pair::server().await;
    let talking = |who: &'static str| {
        let (mut client, connection) = connect(&server);
        async move {
            let hello = json!({
                "protocolVersion": "2025-11-25",
                "capabilities": {"elicitation": {}},
                "clientInfo": {"name": who, "version": "1"},
            });
            client.request("initialize", hello).await;
            client.notify("notifications/initialized", json!({})).await;
            // Both use the same token, which means something else for each.
            let meta = json!({"progressToken": 7});
            let id = client.begin("tools/call", talk(who, meta)).await;
            let mut messages = Vec::new();
            let answer = loop {
                let message = client.receive().await.unwrap();
                if message["method"] == "elicitation/create" {
                    let content = json!({"action": "accept", "content": {"name": who}});
                    let id = &message["id"];
                    let answer = json!({"jsonrpc": "2.0", "id": id, "result": content});
                    client.send(answer).await;
                }
                if message["id"] == id && message.get("method").is_none() {
                    break message;
                }
                messages.push(message);
            };
            let text = &answer["result"]["content"][0]["text"];
            assert_eq!(*text, format!("{who}: \"{who}\""));
            let means = [
                "notifications/progress",
                "notifications/message",
                "elicitation/create",
            ];
            assert_eq!(heard(&messages), by(&means, who));
            drop(client);
            connection.ended().await;
        }
    };
    let both = async { tokio::join!(talking("Ada"), talking("Eve")) };
    tokio::time::timeout(PATIENCE, both).await.unwrap();
}

#[tokio::test]
async fn two_calls_of_one_client_at_once_have_a_stream_each() {
    let server = Pair::server().await;
    let mut site = Site::open(&server, HttpOptions::default()).await;
    let talking = async |who: &str, token: i64| {
        let meta = json!({
            "progressToken": token,
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
            "io.modelcontextprotocol/logLevel": "debug",
        });
        let request = Request::modern(token, "tools/call", talk(who, meta));
        let (messages, answer) = site.send(request).await.exchange().await;
        let means = ["notifications/progress", "notifications/message"];
        assert_eq!(heard(&messages), by(&means, who));
        assert_eq!(messages[0]["params"]["progressToken"], token);
        let asked = &answer["result"]["inputRequests"]["q1"]["params"];
        assert_eq!(asked["message"], who, "{answer}");
    };
    let both = async { tokio::join!(talking("Ada", 1), talking("Eve", 2)) };
    tokio::time::timeout(PATIENCE, both).await.unwrap();
    site.drain();
    site.ended().await;
}

#[derive(Clone, Copy, PartialEq)]
enum Era {
    Handshake,
    Stateless,
}

/// What a handler finds in its context, whatever it is called for.
async fn found(era: Era, meta: Value) -> Value {
    let server = Pair::server().await;
    let (mut client, connection) = connect(&server);
    if era == Era::Handshake {
        client.initialize().await;
    }
    let mut seen = Vec::new();
    for (method, mut params, at) in [
        ("tools/call", json!({"name": "repeat"}), "/content/0/text"),
        (
            "resources/read",
            json!({"uri": "pair://repeat"}),
            "/contents/0/text",
        ),
        (
            "prompts/get",
            json!({"name": "repeat"}),
            "/messages/0/content/text",
        ),
    ] {
        if !meta.is_null() {
            params["_meta"] = meta.clone();
        }
        let answer = client.request(method, params).await;
        let result = answer.get("result").unwrap_or(&answer);
        let text = result.pointer(at).and_then(Value::as_str);
        let text = text.unwrap_or_else(|| panic!("{answer}"));
        seen.push(serde_json::from_str::<Value>(text).unwrap());
    }
    drop(client);
    connection.ended().await;
    assert!(seen.iter().all(|one| *one == seen[0]), "{seen:?}");
    seen.remove(0)
}

#[tokio::test]
async fn what_a_request_says_about_itself_reaches_the_handler() {
    let meta = json!({"progressToken": "t", "example.com/trace": {"ids": [1, "two"]}});
    assert_eq!(found(Era::Handshake, meta.clone()).await, meta);
    assert_eq!(found(Era::Handshake, Value::Null).await, json!({}));
}

#[tokio::test]
async fn a_handler_is_told_nothing_that_does_not_hold() {
    // The client has said who it is before, and this is no progress token.
    let meta = json!({
        "progressToken": 1.5,
        "example.com/mine": true,
        "io.modelcontextprotocol/clientInfo": {"name": "other", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {"sampling": {}},
    });
    let expected = json!({"example.com/mine": true});
    assert_eq!(found(Era::Handshake, meta).await, expected);
}

#[tokio::test]
async fn what_a_request_that_stands_alone_says_reaches_the_handler() {
    let tasks = "io.modelcontextprotocol/tasks";
    let mut meta = json!({
        "progressToken": 7,
        "example.com/trace": "x",
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "guest", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {
            "roots": {},
            "extensions": {tasks: {}, "example.com/own": {}},
        },
        "io.modelcontextprotocol/logLevel": "warning",
    });
    let seen = found(Era::Stateless, meta.clone()).await;
    let capabilities = &mut meta["io.modelcontextprotocol/clientCapabilities"];
    capabilities["extensions"]
        .as_object_mut()
        .unwrap()
        .shift_remove(tasks);
    assert_eq!(seen, meta);
}
