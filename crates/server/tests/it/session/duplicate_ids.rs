//! Two requests with one id: an error to the second would settle the first at the client.

use crate::support::{
    client::{answers, nothing_comes},
    desk::{desk, state},
    held::{OnCancel, held},
    messages::{hello, modern},
    tools::tool,
};
use interlock_testkit::connect;
use serde_json::{Value, json};

fn call(id: impl Into<Value>, tool: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "method": "tools/call", "params": {"name": tool}})
}

#[tokio::test]
async fn the_second_is_dropped_and_the_first_answered_once() {
    let (work, mut held) = held("work", OnCancel::GoesOn);
    let (mut client, _connection) = connect(&desk(work).build().unwrap());
    client.initialize().await;
    client.send(call(900, "work")).await;
    held.started().await;
    for method in [
        "ping",
        "tools/list",
        "tools/call",
        "nobody/knows",
        "prompts/get",
    ] {
        client
            .send(
                json!({"jsonrpc": "2.0", "id": 900, "method": method, "params": {"name": "peek"}}),
            )
            .await;
        nothing_comes(&mut client).await;
    }
    client
        .send_bytes(b"{\"jsonrpc\":\"2.0\",\"id\":900.0,\"method\":\"ping\"}\n")
        .await;
    nothing_comes(&mut client).await;
    // A string is another id.
    client
        .send(json!({"jsonrpc": "2.0", "id": "900", "method": "ping"}))
        .await;
    assert_eq!(client.receive().await.unwrap()["id"], "900");

    held.let_go(1);
    let (_, answer) = client.until(900).await;
    assert_eq!(answer["result"]["content"][0]["text"], "done");
    nothing_comes(&mut client).await;
    assert!(held.is_quiet());
    assert_eq!(state(&mut client).await, "done");

    client.send(call(900, "close")).await;
    let (_, answer) = client.until(900).await;
    assert_eq!(answer["result"]["content"][0]["text"], "close is done");
}

#[tokio::test]
async fn a_second_initialize_does_not_settle_the_call_whose_id_it_takes() {
    let (work, mut held) = held("work", OnCancel::GoesOn);
    let (mut client, _connection) = connect(&desk(work).build().unwrap());
    client.initialize().await;
    client.send(call(900, "work")).await;
    held.started().await;
    client
        .send(json!({"jsonrpc": "2.0", "id": 900, "method": "initialize", "params": hello("2025-11-25")}))
        .await;
    nothing_comes(&mut client).await;
    held.let_go(1);
    let (_, answer) = client.until(900).await;
    assert_eq!(answer["result"]["content"][0]["text"], "done");
}

#[tokio::test]
async fn a_request_to_a_draining_server_does_not_settle_the_call_whose_id_it_takes() {
    let (work, mut held) = held("work", OnCancel::GoesOn);
    let (mut client, mut connection) = connect(&desk(work).build().unwrap());
    client.initialize().await;
    client.send(call(900, "work")).await;
    held.started().await;
    connection.drain();
    // Once this one is refused, the server is draining.
    while client
        .request("ping", json!({}))
        .await
        .get("error")
        .is_none()
    {}
    client.send(call(900, "peek")).await;
    let other = client.begin("ping", json!({})).await;
    let (_, answer) = client.until(other).await;
    assert!(answer["error"].is_object(), "{answer}");
    held.let_go(1);
    let (_, answer) = client.until(900).await;
    assert_eq!(answer["result"]["content"][0]["text"], "done");
}

#[tokio::test]
async fn there_is_no_such_check_between_stateless_requests() {
    let (search, mut held) = held("search", OnCancel::GoesOn);
    let server = interlock::Server::builder("plain", "0")
        .tool(search)
        .tool(tool("peek"))
        .build()
        .unwrap();
    let (mut client, _connection) = connect(&server);
    let request = |tool: &str| json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": modern(json!({"name": tool}))});
    for _ in 0..3 {
        client.send(request("search")).await;
        held.started().await;
    }
    client.send(request("peek")).await;
    let answer = client.receive().await.unwrap();
    assert_eq!(answer["result"]["content"][0]["text"], "peek is done");
    held.let_go(3);
    let (_, all) = answers(&mut client, 3).await;
    for answer in all {
        assert_eq!(answer["id"], 5);
        assert_eq!(answer["result"]["content"][0]["text"], "done");
    }
    nothing_comes(&mut client).await;
}
