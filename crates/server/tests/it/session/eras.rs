//! Both eras at once: every method before `initialize`, with and without modern `_meta`.

use crate::support::{
    client::nothing_comes,
    desk::{desk, state},
    http::{modern_call, plain},
    messages::{codes, hello, modern, request},
    tools::tool,
};
use interlock::HttpOptions;
use interlock_testkit::{
    connect,
    web::{Request, Session, Site},
};
use serde_json::{Value, json};

/// Every method that a client of any version may send.
const METHODS: [&str; 21] = [
    "initialize",
    "ping",
    "server/discover",
    "subscriptions/listen",
    "tools/list",
    "tools/call",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "resources/subscribe",
    "resources/unsubscribe",
    "prompts/list",
    "prompts/get",
    "completion/complete",
    "logging/setLevel",
    "tasks/get",
    "tasks/list",
    "tasks/result",
    "tasks/cancel",
    "tasks/update",
    "nobody/knows",
];

/// Those of 2026-07-28.
const MODERN: [&str; 10] = [
    "server/discover",
    "subscriptions/listen",
    "tools/list",
    "tools/call",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "prompts/list",
    "prompts/get",
    "completion/complete",
];

#[tokio::test]
async fn a_request_without_meta_is_refused_before_initialize_whatever_its_method() {
    let server = desk(tool("work")).build().unwrap();
    let site = Site::open(&server, HttpOptions::default()).await;
    for method in METHODS {
        if ["initialize", "ping"].contains(&method) {
            continue;
        }
        let params = json!({"name": "work", "uri": "note://rules", "level": "debug"});
        let (mut client, _connection) = connect(&server);
        let answer = client.request(method, params.clone()).await;
        assert_eq!(codes(&answer), (-32602, 1076), "{method} {answer}");
        client.initialize().await;
        assert_eq!(state(&mut client).await, "open", "{method}");
        let answer = site.send(Request::post(&request(1, method, params))).await;
        assert_eq!(answer.status, 400, "{method}");
        let answer = answer.json().await;
        assert_eq!(codes(&answer), (-32602, 1076), "{method} {answer}");
    }
}

#[tokio::test]
async fn a_request_with_meta_is_served_by_itself_whatever_came_before() {
    let server = plain().build().unwrap();
    let site = Site::open(&server, HttpOptions::default()).await;
    let session = Session::open(&site).await;
    for method in METHODS {
        // Nothing comes at the end of a stream that stays open.
        if method == "subscriptions/listen" {
            continue;
        }
        let known = |answer: &Value| match answer["error"]["code"].as_i64() {
            Some(-32601) => false,
            Some(other) => {
                assert_eq!(other, -32602, "{method} {answer}");
                assert_ne!(
                    answer["error"]["data"]["refusal"]["code"], 1076,
                    "{method} {answer}"
                );
                true
            }
            None => true,
        };
        // A server without that feature does not have its method either.
        let expected = MODERN.contains(&method) && method != "completion/complete";
        let (mut client, _connection) = connect(&server);
        for handshake in [false, true] {
            if handshake {
                client.initialize().await;
            }
            let answer = client.request(method, modern(json!({}))).await;
            if method != "completion/complete" {
                assert_eq!(known(&answer), expected, "{method} {answer}");
            }
        }
        for request in [
            Request::modern(1, method, json!({})),
            Request::modern(1, method, json!({})).header("mcp-session-id", &session.id),
        ] {
            // What cannot be named in a header is not there to be looked for.
            let named = ["tools/call", "resources/read", "prompts/get"].contains(&method);
            let answer = site.send(request).await;
            let (status, answer) = (answer.status, answer.message().await);
            if named {
                let code = answer["error"]["code"].as_i64();
                assert!(
                    [Some(-32602), Some(-32020)].contains(&code),
                    "{method} {answer}"
                );
            } else if method != "completion/complete" {
                assert_eq!(known(&answer), expected, "{method} {answer}");
                assert_eq!(status == 404, !expected, "{method} {status}");
            }
        }
    }
}

#[tokio::test]
async fn requests_with_meta_open_nothing_and_close_nothing() {
    let server = desk(tool("work")).build().unwrap();
    let (mut client, _connection) = connect(&server);
    for method in METHODS {
        if method != "subscriptions/listen" {
            client
                .request(method, modern(json!({"name": "work"})))
                .await;
        }
        let answer = client.request("tools/list", json!({})).await;
        assert_eq!(codes(&answer), (-32602, 1076), "after {method}");
    }
    let answer = client.request("initialize", hello("2025-06-18")).await;
    assert_eq!(answer["result"]["protocolVersion"], "2025-06-18");
    for method in METHODS {
        if method != "subscriptions/listen" {
            client
                .request(method, modern(json!({"name": "work"})))
                .await;
        }
        assert_eq!(state(&mut client).await, "open", "after {method}");
    }
    nothing_comes(&mut client).await;
}

#[tokio::test]
async fn a_modern_call_in_a_session_does_not_move_the_session() {
    let server = desk(tool("work")).build().unwrap();
    let site = Site::open(&server, HttpOptions::default()).await;
    let session = Session::open(&site).await;
    let call = modern_call(1, "work", json!({}));
    let answer = site.send(call.header("mcp-session-id", &session.id)).await;
    assert_eq!(answer.status, 200);
    let answer = answer.json().await;
    assert!(
        answer["result"]["isError"] == true || answer["error"].is_object(),
        "{answer}"
    );
    let result = session.call("nowhere", json!({})).await;
    assert_eq!(result["_meta"]["dev.interlock/refusal"]["state"], "open");
}
