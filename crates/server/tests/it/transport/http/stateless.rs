//! 2026-07-28 over HTTP: headers, statuses, and no session anywhere.

use crate::support::{
    http::{modern_call, plain, plain_site, verdict},
    messages::{CAPABILITIES, notification, object, text},
};
use interlock::{Context, HttpOptions, Tool, ToolResult, model::JsonObject};
use interlock_testkit::web::{Request, Session, Site};
use serde_json::{Value, json};

const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";

fn discover() -> Request {
    Request::modern(1, "server/discover", json!({}))
}

fn echo() -> Request {
    modern_call(1, "echo", json!({"text": "hi"}))
}

fn bodied(request: Request, params: Value) -> Request {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": params});
    request.body(body.to_string())
}

#[tokio::test]
async fn requests_are_served_one_by_one_without_a_session() {
    let site = plain_site().await;
    for (method, params) in [
        ("server/discover", json!({})),
        ("tools/list", json!({})),
        (
            "tools/call",
            json!({"name": "echo", "arguments": {"text": "hi"}}),
        ),
        ("resources/list", json!({})),
        ("resources/templates/list", json!({})),
        ("resources/read", json!({"uri": "note://rules"})),
        ("prompts/list", json!({})),
        (
            "prompts/get",
            json!({"name": "sorry", "arguments": {"who": "me"}}),
        ),
    ] {
        let answer = site.send(Request::modern("x", method, params)).await;
        assert_eq!(answer.status, 200, "{method}");
        assert_eq!(answer.header("mcp-session-id"), None);
        let answer = answer.json().await;
        assert_eq!(answer["id"], "x");
        let result = &answer["result"];
        assert_eq!(result["resultType"], "complete", "{method} {answer}");
        let server = &result["_meta"]["io.modelcontextprotocol/serverInfo"];
        assert_eq!(server["name"], "plain", "{method} {answer}");
        let cacheable = !["tools/call", "prompts/get"].contains(&method);
        assert_eq!(result["ttlMs"].is_u64(), cacheable, "{method} {answer}");
        assert_eq!(
            result["cacheScope"].is_string(),
            cacheable,
            "{method} {answer}"
        );
    }
}

#[tokio::test]
async fn session_ids_and_event_ids_mean_nothing() {
    let site = plain_site().await;
    let session = Session::open(&site).await;
    for id in ["made-up", session.id.as_str()] {
        let request = echo()
            .header("mcp-session-id", id)
            .header("last-event-id", "7");
        let answer = site.send(request).await;
        assert_eq!(answer.status, 200, "{id}");
        assert_eq!(answer.header("mcp-session-id"), None);
        assert_eq!(text(&answer.json().await), "hi");
    }
    site.send(session.delete()).await;
    let answer = site
        .send(echo().header("mcp-session-id", &session.id))
        .await;
    assert_eq!(answer.status, 200);
}

#[tokio::test]
async fn get_and_delete_are_not_there() {
    let site = plain_site().await;
    for request in [Request::get(), Request::delete()] {
        let request = request.header("mcp-protocol-version", "2026-07-28");
        let answer = site.send(request).await;
        assert!([400, 405].contains(&answer.status), "{answer:?}");
    }
}

#[tokio::test]
async fn a_method_that_there_is_not_is_404_with_32601() {
    let site = plain_site().await;
    for method in [
        "nobody/knows",
        "ping",
        "initialize",
        "logging/setLevel",
        "resources/subscribe",
        "resources/unsubscribe",
        "sampling/createMessage",
        "tools/List",
        "rpc.discover",
    ] {
        let answer = site.send(Request::modern(1, method, json!({}))).await;
        let (status, code, _) = verdict(answer).await;
        assert_eq!((status, code), (404, -32601), "{method}");
    }
}

#[tokio::test]
async fn other_errors_go_with_200() {
    let site = plain_site().await;
    for (method, params) in [
        ("tools/call", json!({"name": "nowhere"})),
        ("resources/read", json!({"uri": "note://nowhere"})),
        ("prompts/get", json!({"name": "nowhere"})),
        ("prompts/get", json!({"name": "sorry"})),
        ("tools/list", json!({"cursor": "nonsense"})),
    ] {
        let answer = site.send(Request::modern(1, method, params.clone())).await;
        let (status, code, _) = verdict(answer).await;
        assert_eq!((status, code), (200, -32602), "{method} {params}");
    }
}

#[tokio::test]
async fn a_version_that_is_not_served_is_400_with_those_that_are() {
    let site = plain_site().await;
    for version in ["2099-01-01", "1900-01-01", "2025-11-25", "DRAFT-2026-v1"] {
        let params = json!({"_meta": {META_VERSION: version}});
        let answer = site.send(Request::modern(1, "tools/list", params)).await;
        let (status, body) = answer.refused().await;
        assert_eq!(
            (status, body["error"]["code"].as_i64()),
            (400, Some(-32022)),
            "{body}"
        );
        assert_eq!(body["id"], 1);
        let data = &body["error"]["data"];
        assert_eq!(data["requested"], version);
        let supported: Vec<_> = data["supported"].as_array().unwrap().iter().collect();
        assert!(supported.contains(&&json!("2026-07-28")), "{supported:?}");
    }
}

#[tokio::test]
async fn a_version_in_the_header_that_is_not_the_bodys_is_400_with_32020() {
    let site = plain_site().await;
    for header in ["2025-11-25", "2025-06-18", "2025-03-26"] {
        let answer = site
            .send(discover().header("mcp-protocol-version", header))
            .await;
        let (status, code, _) = verdict(answer).await;
        assert_eq!((status, code), (400, -32020), "{header}");
    }
    let missing = site.send(discover().without("mcp-protocol-version")).await;
    let (status, code, _) = verdict(missing).await;
    assert_eq!((status, code), (400, -32020), "missing");
    let answer = site
        .send(discover().also("mcp-protocol-version", "2025-11-25"))
        .await;
    assert_eq!(answer.status, 400, "two of them");
}

#[tokio::test]
async fn a_request_without_its_meta_is_400_with_32602() {
    let site = plain_site().await;
    for params in [
        json!({}),
        json!({"_meta": {}}),
        json!({"_meta": {META_VERSION: "2026-07-28"}}),
        json!({"_meta": {CAPABILITIES: {}}}),
        json!({"_meta": {META_VERSION: "2026-07-28", CAPABILITIES: []}}),
        json!({"_meta": {META_VERSION: "2026-07-28", CAPABILITIES: null}}),
    ] {
        let (status, code, _) = verdict(site.send(bodied(discover(), params.clone())).await).await;
        assert_eq!((status, code), (400, -32602), "{params}");
    }
    for params in [
        json!({"_meta": 5}),
        json!({"_meta": {META_VERSION: 5, CAPABILITIES: {}}}),
    ] {
        let (status, code, _) = verdict(site.send(bodied(discover(), params.clone())).await).await;
        assert_eq!(status, 400, "{params}");
        assert!([-32602, -32020].contains(&code), "{params} {code}");
    }
}

#[tokio::test]
async fn the_headers_must_be_there_and_say_what_the_body_says() {
    let site = plain_site().await;
    let read = || Request::modern(1, "resources/read", json!({"uri": "note://rules"}));
    let get = || {
        Request::modern(
            1,
            "prompts/get",
            json!({"name": "sorry", "arguments": {"who": "x"}}),
        )
    };
    for (what, request) in [
        ("no method", echo().without("mcp-method")),
        ("no method", discover().without("mcp-method")),
        ("another method", echo().header("mcp-method", "tools/list")),
        ("another case", echo().header("mcp-method", "Tools/Call")),
        ("two methods", echo().also("mcp-method", "tools/list")),
        ("an empty method", echo().header("mcp-method", "")),
        ("no name", echo().without("mcp-name")),
        ("no name", read().without("mcp-name")),
        ("no name", get().without("mcp-name")),
        ("another name", echo().header("mcp-name", "walk")),
        ("another case", echo().header("mcp-name", "Echo")),
        ("two names", echo().also("mcp-name", "walk")),
        ("another uri", read().header("mcp-name", "note://plan")),
        ("another prompt", get().header("mcp-name", "echo")),
        ("no base64", echo().header("mcp-name", "=?base64?%%%?=")),
        (
            "another's base64",
            echo().header("mcp-name", "=?base64?d2Fsaw==?="),
        ),
        (
            "base64 without its mark",
            echo().header("mcp-name", "ZWNobw=="),
        ),
        (
            "another mark",
            echo().header("mcp-name", "=?BASE64?ZWNobw==?="),
        ),
        ("no UTF-8", echo().header("mcp-name", "=?base64?/w==?=")),
    ] {
        let answer = site.send(request).await;
        let (status, code, _) = verdict(answer).await;
        assert_eq!((status, code), (400, -32020), "{what}");
    }
    let encoded = echo().header("mcp-name", "=?base64?ZWNobw==?=");
    assert_eq!(text(&site.send(encoded).await.json().await), "hi");
}

#[tokio::test]
async fn a_name_that_no_header_can_hold_comes_as_base64() {
    let prompt = interlock::Prompt::text("grüße", "Say hello.");
    let site = Site::open(
        &plain().prompt(prompt).build().unwrap(),
        HttpOptions::default(),
    )
    .await;
    let get = Request::modern(1, "prompts/get", json!({"name": "grüße"}));
    let encoded = get.clone().header("mcp-name", "=?base64?Z3LDvMOfZQ==?=");
    let answer = site.send(encoded).await.json().await;
    assert!(answer["result"]["messages"].is_array(), "{answer}");
    // As raw bytes it is not what the protocol allows.
    let (status, code, _) = verdict(site.send(get).await).await;
    assert_eq!((status, code), (400, -32020));
}

fn with_headers() -> Tool {
    let schema = object(json!({
        "type": "object",
        "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "count": {"type": "integer", "x-mcp-header": "Count"},
            "dry": {"type": "boolean", "x-mcp-header": "Dry"},
            "deep": {"type": "object", "properties": {"tenant": {"type": "string", "x-mcp-header": "Tenant"}}},
            "query": {"type": "string"},
        },
    }));
    Tool::raw(
        "sql",
        schema,
        |arguments: JsonObject, _: Context| async move {
            let mut result = JsonObject::new();
            result.insert(
                "content".into(),
                json!([{"type": "text", "text": Value::Object(arguments).to_string()}]),
            );
            ToolResult::Raw(result)
        },
    )
}

#[tokio::test]
async fn parameters_that_have_a_header_must_be_told_in_it() {
    let site = Site::open(
        &plain().tool(with_headers()).build().unwrap(),
        HttpOptions::default(),
    )
    .await;
    let all = json!({"region": "us-west1", "count": 42, "dry": true, "deep": {"tenant": "a"}, "query": "x"});
    let call = || {
        modern_call(1, "sql", all.clone())
            .header("mcp-param-region", "us-west1")
            .header("mcp-param-count", "42")
            .header("mcp-param-dry", "true")
            .header("mcp-param-tenant", "a")
    };
    for request in [
        call(),
        call().header("mcp-param-region", "=?base64?dXMtd2VzdDE=?="),
        call().header("mcp-param-count", "42.0"),
        call().header("mcp-param-unknown", "x"),
        modern_call(1, "sql", json!({"query": "x"})),
        modern_call(1, "sql", json!({"region": null})),
    ] {
        let answer = site.send(request.clone()).await;
        assert_eq!(answer.status, 200, "{request:?}");
    }
    for (what, request) in [
        ("no region", call().without("mcp-param-region")),
        ("no count", call().without("mcp-param-count")),
        ("no dry", call().without("mcp-param-dry")),
        ("no tenant", call().without("mcp-param-tenant")),
        ("another region", call().header("mcp-param-region", "eu")),
        (
            "another case",
            call().header("mcp-param-region", "US-West1"),
        ),
        ("another count", call().header("mcp-param-count", "43")),
        ("no number", call().header("mcp-param-count", "many")),
        ("another dry", call().header("mcp-param-dry", "false")),
        ("two regions", call().also("mcp-param-region", "eu")),
        (
            "broken base64",
            call().header("mcp-param-region", "=?base64?!?="),
        ),
        (
            "unexpected",
            modern_call(1, "sql", json!({"query": "x"})).header("mcp-param-region", "eu"),
        ),
    ] {
        let answer = site.send(request).await;
        let (status, code, _) = verdict(answer).await;
        assert_eq!((status, code), (400, -32020), "{what}");
    }
    // A session knows nothing of it.
    let session = Session::open(&site).await;
    let result = session.call("sql", json!({"region": "eu"})).await;
    assert!(result["content"].is_array(), "{result}");
}

#[tokio::test]
async fn notifications_are_202_and_responses_are_not_taken() {
    let site = plain_site().await;
    let cancelled = notification("notifications/cancelled", json!({"requestId": 1}));
    let post = Request::post(&cancelled).header("mcp-protocol-version", "2026-07-28");
    let answer = site.send(post).await;
    assert_eq!(answer.status, 202);
    assert_eq!(answer.bytes().await, b"");
    let response = json!({"jsonrpc": "2.0", "id": 1, "result": {}});
    let post = Request::post(&response).header("mcp-protocol-version", "2026-07-28");
    assert_eq!(site.send(post).await.status, 400);
}

#[tokio::test]
async fn both_eras_are_served_at_one_endpoint_in_any_order() {
    let site = plain_site().await;
    let found = site.send(discover()).await.json().await;
    let versions = found["result"]["supportedVersions"]
        .as_array()
        .unwrap()
        .clone();
    assert!(versions.contains(&json!("2026-07-28")), "{found}");
    let session = Session::open(&site).await;
    for _ in 0..3 {
        assert_eq!(text(&site.send(echo()).await.json().await), "hi");
        let answer = session
            .request(
                "tools/call",
                json!({"name": "echo", "arguments": {"text": "ho"}}),
            )
            .await;
        assert_eq!(text(&answer), "ho");
        assert_eq!(answer["result"].get("resultType"), None, "{answer}");
    }
    // One that carries modern `_meta` is served alone, whatever session it names.
    let modern = echo().header("mcp-session-id", &session.id);
    let answer = site.send(modern).await.json().await;
    assert_eq!(answer["result"]["resultType"], "complete");
}

/// A request for tasks, which no server has here, without the header that names the task.
#[tokio::test]
async fn a_method_that_the_server_does_not_have_is_not_found_whatever_its_headers_lack() {
    let site = plain_site().await;
    for method in ["tasks/get", "tasks/cancel", "nobody/knows"] {
        let request = Request::modern(1, method, json!({"taskId": "t"}));
        let (status, code, _) = verdict(site.send(request).await).await;
        assert_eq!((status, code), (404, -32601), "{method}");
    }
}

#[tokio::test]
async fn a_header_with_a_version_that_is_not_served_is_told_which_are() {
    let site = plain_site().await;
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let told = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    for request in [Request::post(&list), Request::post(&told), Request::get()] {
        let answer = site.send(request.header("mcp-protocol-version", "2099-01-01"));
        let (status, body) = answer.await.refused().await;
        assert_eq!(status, 400, "{body}");
        let data = &body["error"]["data"];
        assert_eq!(body["error"]["code"], -32022, "{body}");
        assert_eq!(data["requested"], "2099-01-01", "{body}");
        assert_eq!(data["supported"][0], "2026-07-28", "{body}");
    }
}

#[tokio::test]
async fn nothing_is_remembered_from_one_request_to_the_next() {
    let site = plain_site().await;
    let can =
        json!({"_meta": {CAPABILITIES: {"elicitation": {}}}, "name": "ask_age", "arguments": {}});
    let answer = site
        .send(Request::modern(1, "tools/call", can))
        .await
        .json()
        .await;
    assert_eq!(answer["result"]["resultType"], "input_required", "{answer}");
    let answer = site.send(modern_call(2, "ask_age", json!({}))).await;
    let (status, code, _) = verdict(answer).await;
    assert_eq!((status, code), (400, -32021));
}

#[tokio::test]
async fn an_ability_that_is_missing_is_400_with_what_is_needed() {
    let site = plain_site().await;
    for capabilities in [
        json!({}),
        json!({"roots": {}}),
        json!({"elicitation": {"url": {}}}),
    ] {
        let params =
            json!({"_meta": {CAPABILITIES: capabilities}, "name": "ask_age", "arguments": {}});
        let answer = site.send(Request::modern(1, "tools/call", params)).await;
        let (status, body) = answer.refused().await;
        assert_eq!(
            (status, body["error"]["code"].as_i64()),
            (400, Some(-32021)),
            "{body}"
        );
        let required = &body["error"]["data"]["requiredCapabilities"];
        assert!(required["elicitation"].is_object(), "{body}");
        assert!(body.get("result").is_none());
    }
}

#[tokio::test]
async fn a_tool_whose_headers_no_client_may_accept_is_not_built() {
    let annotated = |properties: Value| {
        let schema = object(json!({"type": "object", "properties": properties}));
        let tool = Tool::raw("bad", schema, |_: JsonObject, _: Context| async { "never" });
        plain().tool(tool).build()
    };
    for wrong in [
        json!({"a": {"type": "string", "x-mcp-header": ""}}),
        json!({"a": {"type": "string", "x-mcp-header": "with space"}}),
        json!({"a": {"type": "string", "x-mcp-header": "line\r\nbreak"}}),
        json!({"a": {"type": "string", "x-mcp-header": 5}}),
        json!({"a": {"type": "string", "x-mcp-header": "Same"}, "b": {"type": "string", "x-mcp-header": "same"}}),
        json!({"a": {"type": "number", "x-mcp-header": "A"}}),
        json!({"a": {"type": "object", "x-mcp-header": "A"}}),
        json!({"a": {"type": "array", "items": {"type": "string", "x-mcp-header": "A"}}}),
        json!({"a": {"anyOf": [{"type": "string", "x-mcp-header": "A"}]}}),
    ] {
        assert!(annotated(wrong.clone()).is_err(), "{wrong}");
    }
    assert!(annotated(json!({"a": {"type": "string", "x-mcp-header": "A"}})).is_ok());
}
