//! A call that its client takes back is not answered, whatever becomes of it.

use crate::support::{
    client::{begin, nothing_comes},
    desk::{desk, looped, state},
    held::{OnCancel, held},
    messages::modern,
    tools::tool,
};
use interlock::{Builder, Server};
use interlock_testkit::{Client, Connection, ManualClock, connect};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

const SECOND: Duration = Duration::from_secs(1);

async fn ready(builder: Builder) -> (Client, Connection, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new());
    let server = builder.clock(clock.clone()).build().unwrap();
    let (mut client, connection) = connect(&server);
    client.initialize().await;
    (client, connection, clock)
}

async fn take_back(client: &mut Client, id: impl Into<Value>) {
    let params = json!({"requestId": id.into(), "reason": "changed my mind"});
    client.notify("notifications/cancelled", params).await;
}

/// Reads until the lists have changed, which is all that a call says that was taken back.
async fn moved(client: &mut Client) {
    for kind in ["tools", "resources", "prompts"] {
        let message = client.receive().await.unwrap();
        assert_eq!(
            message["method"],
            format!("notifications/{kind}/list_changed"),
            "{message}"
        );
    }
}

#[tokio::test]
async fn one_that_stops_and_says_so_takes_the_cancelled_edge() {
    let (work, mut held) = held("work", OnCancel::Stops);
    let (mut client, _connection, _clock) = ready(desk(work)).await;
    let id = begin(&mut client, "work").await;
    held.started().await;
    take_back(&mut client, id).await;
    take_back(&mut client, id).await;
    moved(&mut client).await;
    nothing_comes(&mut client).await;
    assert_eq!(state(&mut client).await, "back");
}

#[tokio::test]
async fn one_that_does_not_stop_is_torn_down_after_the_grace_and_unknown() {
    let (work, mut held) = held("work", OnCancel::GoesOn);
    let (mut client, _connection, clock) = ready(desk(work)).await;
    let id = begin(&mut client, "work").await;
    held.started().await;
    take_back(&mut client, id).await;
    nothing_comes(&mut client).await;
    clock.advance(5 * SECOND - Duration::from_millis(1));
    nothing_comes(&mut client).await;
    nothing_comes(&mut client).await;
    assert_eq!(state(&mut client).await, "open");
    // Asking again does not buy it more time.
    take_back(&mut client, id).await;
    nothing_comes(&mut client).await;
    clock.advance(Duration::from_millis(1));
    moved(&mut client).await;
    nothing_comes(&mut client).await;
    assert_eq!(state(&mut client).await, "unclear");
}

#[tokio::test]
async fn one_that_ends_before_the_grace_is_over_takes_its_own_edge() {
    let (work, mut held) = held("work", OnCancel::GoesOn);
    let (mut client, _connection, _clock) = ready(desk(work)).await;
    let id = begin(&mut client, "work").await;
    held.started().await;
    take_back(&mut client, id).await;
    nothing_comes(&mut client).await;
    held.let_go(1);
    moved(&mut client).await;
    nothing_comes(&mut client).await;
    assert_eq!(state(&mut client).await, "done");
}

#[tokio::test]
async fn a_deadline_within_the_grace_is_a_timeout() {
    let (work, mut held) = held("work", OnCancel::GoesOn);
    let (mut client, _connection, clock) = ready(desk(work.timeout(2 * SECOND))).await;
    let id = begin(&mut client, "work").await;
    held.started().await;
    take_back(&mut client, id).await;
    nothing_comes(&mut client).await;
    clock.advance(2 * SECOND);
    moved(&mut client).await;
    nothing_comes(&mut client).await;
    assert_eq!(state(&mut client).await, "late");
}

#[tokio::test]
async fn the_grace_can_be_set() {
    let (work, mut held) = held("work", OnCancel::GoesOn);
    let (mut client, _connection, clock) = ready(desk(work).cancel_grace(SECOND)).await;
    let id = begin(&mut client, "work").await;
    held.started().await;
    take_back(&mut client, id).await;
    nothing_comes(&mut client).await;
    clock.advance(SECOND);
    moved(&mut client).await;
    assert_eq!(state(&mut client).await, "unclear");
}

#[tokio::test]
async fn one_that_waits_for_its_turn_never_runs_and_the_next_gets_its_turn() {
    let (work, mut held) = held("work", OnCancel::Stops);
    let (mut client, _connection, _clock) = ready(looped(work, tool("other"))).await;
    let first = begin(&mut client, "work").await;
    held.started().await;
    let second = begin(&mut client, "work").await;
    let third = begin(&mut client, "other").await;
    nothing_comes(&mut client).await;
    take_back(&mut client, second).await;
    nothing_comes(&mut client).await;
    held.let_go(2);
    let (_, answer) = client.until(first).await;
    assert_eq!(answer["result"]["content"][0]["text"], "done");
    let (_, answer) = client.until(third).await;
    assert_eq!(answer["result"]["content"][0]["text"], "other is done");
    nothing_comes(&mut client).await;
    assert!(held.is_quiet());
    assert_eq!(state(&mut client).await, "open");
}

/// The first one stops and makes room for the second at the very moment at which the second is
/// taken back, too. It has not started, so it never does.
#[tokio::test]
async fn one_that_is_taken_back_just_before_its_turn_comes_never_runs() {
    let (work, mut work_held) = held("work", OnCancel::Stops);
    let (other, mut other_held) = held("other", OnCancel::Stops);
    let (mut client, _connection, _clock) = ready(looped(work, other)).await;
    let first = begin(&mut client, "work").await;
    work_held.started().await;
    let second = begin(&mut client, "other").await;
    nothing_comes(&mut client).await;
    let both: String = [first, second]
        .map(|id| {
            let params = json!({"requestId": id});
            let message =
                json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
            format!("{message}\n")
        })
        .concat();
    client.send_bytes(both.as_bytes()).await;
    work_held.stopped().await;
    let (_, result) = client.call("close", json!({})).await;
    assert_eq!(result["content"][0]["text"], "close is done");
    assert!(other_held.is_quiet(), "the one that was taken back has run");
    nothing_comes(&mut client).await;
}

#[tokio::test]
async fn without_edges_cancelled_stays_and_unknown_is_an_error() {
    let (work, mut gate) = held("work", OnCancel::Stops);
    let (mut client, _connection, _clock) = ready(looped(work, tool("other"))).await;
    let id = begin(&mut client, "work").await;
    gate.started().await;
    take_back(&mut client, id).await;
    // It has let go of the instance when the next one gets its turn.
    let (_, result) = client.call("other", json!({})).await;
    assert_eq!(result["content"][0]["text"], "other is done");
    assert_eq!(state(&mut client).await, "open");

    let (work, mut gate) = held("work", OnCancel::GoesOn);
    let (mut client, _connection, clock) = ready(looped(work, tool("other"))).await;
    let id = begin(&mut client, "work").await;
    gate.started().await;
    take_back(&mut client, id).await;
    nothing_comes(&mut client).await;
    clock.advance(5 * SECOND);
    let message = client.receive().await.unwrap();
    assert_eq!(message["method"], "notifications/tools/list_changed");
    nothing_comes(&mut client).await;
    assert_eq!(state(&mut client).await, "failed");
}

#[tokio::test]
async fn what_is_not_in_flight_cannot_be_taken_back() {
    let (work, mut held) = held("work", OnCancel::Stops);
    let (mut client, _connection, _clock) = ready(desk(work)).await;
    let hello = 1;
    take_back(&mut client, hello).await;
    let finished = begin(&mut client, "peek").await;
    client.until(finished).await;
    let id = begin(&mut client, "work").await;
    held.started().await;
    for other in [
        json!(hello),
        json!(finished),
        json!(id + 1_000),
        json!(id.to_string()),
        json!("nobody's"),
        json!(null),
        json!(true),
        json!([id]),
        json!({"requestId": id}),
    ] {
        take_back(&mut client, other).await;
        nothing_comes(&mut client).await;
    }
    for params in [
        json!(null),
        json!(id),
        json!({}),
        json!({"id": id}),
        json!({"requestid": id}),
    ] {
        client.notify("notifications/cancelled", params).await;
        nothing_comes(&mut client).await;
    }
    held.let_go(1);
    let (_, answer) = client.until(id).await;
    assert_eq!(answer["result"]["content"][0]["text"], "done");
}

/// Serde reads a struct from an array as well; a cancellation with such parameters is malformed,
/// and malformed ones are ignored.
#[tokio::test]
async fn a_cancellation_in_an_array_is_ignored() {
    let (work, mut held) = held("work", OnCancel::Stops);
    let (mut client, _connection, _clock) = ready(desk(work)).await;
    let id = begin(&mut client, "work").await;
    held.started().await;
    client.notify("notifications/cancelled", json!([id])).await;
    nothing_comes(&mut client).await;
    held.let_go(1);
    let (before, answer) = client.until(id).await;
    assert_eq!(before.len(), 3, "{before:?}");
    assert_eq!(answer["result"]["content"][0]["text"], "done");
}

#[tokio::test]
async fn an_id_is_the_same_however_it_is_written() {
    let (work, mut held) = held("work", OnCancel::Stops);
    let (mut client, _connection, _clock) = ready(desk(work)).await;
    let id = begin(&mut client, "work").await;
    held.started().await;
    let line = format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}.0}}}}"#
    );
    client.send_bytes(format!("{line}\n").as_bytes()).await;
    moved(&mut client).await;
    assert_eq!(state(&mut client).await, "back");
}

#[tokio::test]
async fn a_stateless_call_can_be_taken_back() {
    let (search, mut held) = held("search", OnCancel::Stops);
    let server = Server::builder("plain", "0").tool(search).build().unwrap();
    let (mut client, connection) = connect(&server);
    let params = modern(json!({"name": "search"}));
    let id = client.begin("tools/call", params).await;
    held.started().await;
    take_back(&mut client, id).await;
    held.stopped().await;
    nothing_comes(&mut client).await;
    client.hang_up();
    assert_eq!(client.receive().await, None);
    connection.ended().await;
}

#[tokio::test]
async fn an_id_that_was_taken_back_can_be_used_again() {
    let (work, mut held) = held("work", OnCancel::Stops);
    let (mut client, _connection, _clock) = ready(desk(work)).await;
    let call =
        json!({"jsonrpc": "2.0", "id": "x", "method": "tools/call", "params": {"name": "work"}});
    client.send(call).await;
    held.started().await;
    take_back(&mut client, "x").await;
    moved(&mut client).await;
    client
        .send(json!({"jsonrpc": "2.0", "id": "x", "method": "ping"}))
        .await;
    let expected = json!({"jsonrpc": "2.0", "id": "x", "result": {}});
    assert_eq!(client.receive().await, Some(expected));
}
