//! Batches: several messages in one array, which only 2025-03-26 has.

use crate::support::{
    desk::desk,
    held::{OnCancel, held},
    messages::request,
    tools::tool,
};
use interlock::{Context, NoArguments, Server, Tool};
use interlock_testkit::{Client, ManualClock, connect};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

async fn initialize(client: &mut Client, version: &str) {
    let params = json!({
        "protocolVersion": version,
        "capabilities": {},
        "clientInfo": {"name": "batches", "version": "0"},
    });
    client.request("initialize", params).await;
    client.notify("notifications/initialized", json!({})).await;
}

fn ids(answers: &Value) -> Vec<i64> {
    let answers = answers.as_array().unwrap();
    let mut ids: Vec<_> = answers
        .iter()
        .map(|one| one["id"].as_i64().unwrap())
        .collect();
    ids.sort_unstable();
    ids
}

/// The answers to a batch, and how many notifications came before.
async fn batch(client: &mut Client) -> (usize, Value) {
    let mut notified = 0;
    loop {
        let message = client.receive().await.unwrap();
        if message.is_array() {
            return (notified, message);
        }
        assert!(message.get("method").is_some(), "{message}");
        notified += 1;
    }
}

#[tokio::test]
async fn a_batch_is_answered_as_one_array_when_its_last_member_is_done() {
    let (work, mut held) = held("work", OnCancel::GoesOn);
    let (mut client, _connection) = connect(&desk(work).build().unwrap());
    initialize(&mut client, "2025-03-26").await;
    client
        .send(json!([
            request(10, "ping", json!({})),
            request(11, "tools/call", json!({"name": "work"})),
            {"jsonrpc": "2.0", "method": "notifications/whatever"},
            request(12, "nonsense", json!({})),
            {"jsonrpc": "2.0", "id": 13, "method": 5},
        ]))
        .await;
    held.started().await;
    // What comes alone is answered alone, and does not wait for the batch.
    assert_eq!(client.request("ping", json!({})).await["result"], json!({}));
    held.let_go(1);
    let (notified, answers) = batch(&mut client).await;
    assert_eq!(notified, 3);
    assert_eq!(ids(&answers), [10, 11, 12, 13]);
}

#[tokio::test]
async fn a_batch_without_requests_is_not_answered() {
    let (mut client, _connection) = connect(&desk(tool("work")).build().unwrap());
    initialize(&mut client, "2025-03-26").await;
    client
        .send(json!([{"jsonrpc": "2.0", "method": "a"}, {"jsonrpc": "2.0", "method": "b"}]))
        .await;
    assert_eq!(client.request("ping", json!({})).await["result"], json!({}));
}

#[tokio::test]
async fn a_batch_does_not_wait_for_what_is_taken_back_or_dropped() {
    let (work, mut held) = held("work", OnCancel::Stops);
    let (mut client, _connection) = connect(&desk(work).build().unwrap());
    initialize(&mut client, "2025-03-26").await;
    let call = || request(20, "tools/call", json!({"name": "work"}));
    client
        .send(json!([call(), call(), request(21, "ping", json!({}))]))
        .await;
    held.started().await;
    client
        .notify("notifications/cancelled", json!({"requestId": 20}))
        .await;
    let (_, answers) = batch(&mut client).await;
    assert_eq!(ids(&answers), [21]);
}

#[tokio::test]
async fn initialize_in_a_batch_and_an_empty_batch_are_refused() {
    let (mut client, _connection) = connect(&desk(tool("work")).build().unwrap());
    initialize(&mut client, "2025-03-26").await;
    client
        .send(json!([request(30, "initialize", json!({}))]))
        .await;
    let answers = client.receive().await.unwrap();
    assert_eq!(answers[0]["error"]["code"], -32600, "{answers}");
    client.send(json!([])).await;
    assert_eq!(client.receive().await.unwrap()["error"]["code"], -32600);
}

#[tokio::test]
async fn other_versions_have_no_batches() {
    for version in ["2024-11-05", "2025-06-18", "2025-11-25"] {
        let (mut client, _connection) = connect(&desk(tool("work")).build().unwrap());
        initialize(&mut client, version).await;
        client.send(json!([request(40, "ping", json!({}))])).await;
        let answer = client.receive().await.unwrap();
        assert_eq!(answer["error"]["code"], -32600, "{version}: {answer}");
    }
}

/// What one member does at once does not count as the time of the next.
#[tokio::test]
async fn the_time_of_a_call_begins_when_its_turn_in_the_batch_comes() {
    let clock = Arc::new(ManualClock::new());
    let passes = Arc::clone(&clock);
    let slow = Tool::new("slow", move |_: NoArguments, _: Context| {
        passes.advance(Duration::from_secs(3600));
        async { "slow" }
    });
    let patient = Tool::new("patient", |_: NoArguments, _: Context| async {
        tokio::task::yield_now().await;
        "in time"
    });
    let server = Server::builder("desk", "0").tool(slow).tool(patient);
    let (mut client, _connection) = connect(&server.clock(clock).build().unwrap());
    initialize(&mut client, "2025-03-26").await;
    client
        .send(json!([
            request(10, "tools/call", json!({"name": "slow"})),
            request(11, "tools/call", json!({"name": "patient"})),
        ]))
        .await;
    let (_, answers) = batch(&mut client).await;
    let answers = answers.as_array().unwrap();
    let second = answers.iter().find(|one| one["id"] == 11).unwrap();
    assert_eq!(
        second["result"]["content"][0]["text"], "in time",
        "{second}"
    );
}
