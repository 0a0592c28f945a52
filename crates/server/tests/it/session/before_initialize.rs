//! Before `initialize`: one way in, or the other, and nothing else.

use crate::support::{
    client::nothing_comes,
    desk::{desk, desk_server, state},
    messages::{codes, hello, modern},
    tools::tool,
};
use interlock::Rules;
use interlock_proto::{connection::EarlyPing, era::Method};
use interlock_testkit::connect;
use serde_json::{Value, json};

/// What a client says that does not know better.
fn naive(method: &str) -> Value {
    match method {
        "tools/call" => json!({"name": "work", "arguments": {}}),
        "prompts/get" => json!({"name": "sorry", "arguments": {"who": "me"}}),
        "resources/read" => json!({"uri": "note://rules"}),
        _ => json!({}),
    }
}

#[track_caller]
fn is_refused(method: &str, answer: &Value) {
    assert_eq!(codes(answer), (-32602, 1076), "{method}: {answer}");
    let told = answer["error"].to_string();
    assert!(told.contains("initialize"), "{method}: {answer}");
    assert!(told.contains("_meta"), "{method}: {answer}");
    assert!(told.contains("2026-07-28"), "{method}: {answer}");
}

#[tokio::test]
async fn every_method_but_initialize_and_ping_is_refused_and_nothing_changes() {
    let (mut client, _connection) = connect(&desk_server());
    let known = Method::ALL.iter().map(|method| method.name());
    let methods: Vec<_> = known.chain(["nobody/knows", "", "Initialize"]).collect();
    for method in methods
        .into_iter()
        .filter(|method| !["initialize", "ping"].contains(method))
    {
        for params in [naive(method), json!({}), json!([]), json!(null), json!(5)] {
            let answer = client.request(method, params).await;
            is_refused(method, &answer);
        }
        client
            .send(json!({"jsonrpc": "2.0", "id": "bare", "method": method}))
            .await;
        let answer = client.receive().await.unwrap();
        assert_eq!(answer["id"], "bare");
        is_refused(method, &answer);
    }
    let hello = client.initialize().await;
    assert_eq!(hello["result"]["protocolVersion"], "2025-11-25");
    assert_eq!(state(&mut client).await, "open");
    assert_eq!(client.tools().await, ["work", "peek", "search"]);
}

#[tokio::test]
async fn ping_is_answered() {
    let (mut client, _connection) = connect(&desk_server());
    nothing_comes(&mut client).await;
    let bare = json!({"jsonrpc": "2.0", "id": 7, "method": "ping"});
    client.send(bare).await;
    let expected = json!({"jsonrpc": "2.0", "id": 7, "result": {}});
    assert_eq!(client.receive().await, Some(expected));
}

#[tokio::test]
async fn a_strict_server_refuses_ping_too() {
    let rules = Rules {
        early_ping: EarlyPing::Refused,
        ..Rules::default()
    };
    let server = desk(tool("work")).connections(rules).build().unwrap();
    let (mut client, _connection) = connect(&server);
    let answer = client.request("ping", json!({})).await;
    is_refused("ping", &answer);
    client.initialize().await;
    nothing_comes(&mut client).await;
}

#[tokio::test]
async fn a_refused_initialize_leaves_the_door_as_it_was() {
    let (mut client, _connection) = connect(&desk_server());
    let answer = client.request("initialize", json!({})).await;
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    let answer = client.request("tools/list", json!({})).await;
    is_refused("tools/list", &answer);
    assert!(client.initialize().await["result"].is_object());
}

#[tokio::test]
async fn a_stateless_request_opens_nothing_for_the_next_one() {
    let (mut client, _connection) = connect(&desk_server());
    let answer = client.request("tools/list", modern(json!({}))).await;
    assert!(answer["result"]["tools"].is_array(), "{answer}");
    let answer = client.request("tools/list", json!({})).await;
    is_refused("tools/list", &answer);
    let answer = client.request("initialize", hello("2025-06-18")).await;
    assert_eq!(answer["result"]["protocolVersion"], "2025-06-18");
}

#[tokio::test]
async fn notifications_and_responses_are_ignored_and_never_answered() {
    let (mut client, _connection) = connect(&desk_server());
    for noise in [
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized", "params": [1]}),
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}),
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled"}),
        json!({"jsonrpc": "2.0", "method": "nobody/knows", "params": null}),
        json!({"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "work"}}),
        json!({"jsonrpc": "2.0", "method": "initialize", "params": hello("2025-11-25")}),
        json!({"jsonrpc": "1.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "method": 5}),
        json!({"jsonrpc": "2.0", "id": 1, "result": {}}),
        json!({"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "no"}}),
        json!({"jsonrpc": "2.0", "error": {"code": 1, "message": "no"}}),
        json!({"jsonrpc": "2.0", "id": {}, "result": {}}),
    ] {
        client.send(noise).await;
        nothing_comes(&mut client).await;
    }
    let answer = client.request("tools/list", json!({})).await;
    is_refused("tools/list", &answer);
    client.initialize().await;
    assert_eq!(state(&mut client).await, "open");
}

#[tokio::test]
async fn a_client_that_never_says_hello_is_let_go() {
    let clock = std::sync::Arc::new(interlock_testkit::ManualClock::new());
    let server = desk(tool("work")).clock(clock.clone()).build().unwrap();
    let (mut silent, connection) = connect(&server);
    nothing_comes(&mut silent).await;
    let (mut stateless, _connection) = connect(&server);
    stateless
        .request("server/discover", modern(json!({})))
        .await;
    clock.advance(std::time::Duration::from_secs(29));
    nothing_comes(&mut silent).await;
    clock.advance(std::time::Duration::from_secs(1));
    assert_eq!(silent.receive().await, None);
    connection.ended().await;
    nothing_comes(&mut stateless).await;
}
