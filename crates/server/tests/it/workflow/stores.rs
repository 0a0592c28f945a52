//! The store is the truth: what happens when it is slow, fails, or knows more than the server.

use crate::support::{
    client::nothing_comes,
    desk::{desk, desk_with, state},
    held::{OnCancel, held},
    messages::refusal,
    store::FaultyStore,
    tools::tool,
};
use interlock::{
    Server, Workflow,
    store::MemoryStore,
    workflow::{Busy, Scope, Settings, end},
};
use interlock_testkit::{PATIENCE, connect};
use serde_json::json;
use std::{sync::Arc, time::Duration};

const MANY: usize = 1_000;

#[tokio::test]
async fn a_slow_store_stalls_its_own_call_and_nobody_else() {
    let (store, mut landed) = FaultyStore::slow();
    let server = desk(tool("work")).store(store.clone()).build().unwrap();
    let (mut client, _connection) = connect(&server);
    client.initialize().await;
    let id = client.begin("tools/call", json!({"name": "work"})).await;
    for _ in 0..2 {
        landed.recv().await.unwrap();
        nothing_comes(&mut client).await;
        let (_, result) = client.call("search", json!({})).await;
        assert_eq!(result["content"][0]["text"], "search is done");
        store.acknowledge(1);
    }
    let (before, answer) = client.until(id).await;
    assert_eq!(before.len(), 3);
    assert_eq!(
        answer["result"]["_meta"]["dev.interlock/workflow"]["state"],
        "done"
    );
}

/// Seen to fail with a snapshot that is changed before the store has said yes.
#[tokio::test]
async fn a_list_is_that_of_the_old_state_until_the_new_one_is_saved() {
    let (store, mut landed) = FaultyStore::slow();
    let server = desk(tool("work")).store(store.clone()).build().unwrap();
    let (mut client, _connection) = connect(&server);
    client.initialize().await;
    let id = client.begin("tools/call", json!({"name": "work"})).await;
    for _ in 0..2 {
        landed.recv().await.unwrap();
        assert_eq!(client.tools().await, ["work", "peek", "search"]);
        store.acknowledge(1);
    }
    client.until(id).await;
    assert_eq!(client.tools().await, ["close", "search"]);
}

/// `busy: refuse` is about calls: a timer that is just being saved is waited for. Seen to fail with
/// a call that takes any turn for another call's.
#[tokio::test]
async fn a_call_that_would_not_wait_for_others_waits_for_a_timer() {
    let minute = Duration::from_secs(60);
    let settings = Settings {
        busy: Busy::Refuse,
        ..Settings::default()
    };
    let flow = Workflow::builder("w")
        .settings(settings)
        .state("a", |s| {
            s.initial()
                .after(minute, "b")
                .tool("work", |t| t.success(end("a")))
        })
        .state("b", |s| s.tool("work", |t| t.success(end("a"))))
        .build()
        .unwrap();
    let clock = Arc::new(interlock_testkit::ManualClock::new());
    let (store, mut landed) = FaultyStore::slow();
    let server = Server::builder("s", "0").tool(tool("work")).workflow(flow);
    let server = server.store(store.clone()).clock(clock.clone());
    let (mut client, _connection) = connect(&server.build().unwrap());
    store.acknowledge(1);
    landed.recv().await.unwrap();
    client.initialize().await;
    clock.advance(minute);
    landed.recv().await.unwrap();
    let id = client.begin("tools/call", json!({"name": "work"})).await;
    nothing_comes(&mut client).await;
    store.acknowledge(MANY);
    let (_, answer) = client.until(id).await;
    assert_eq!(answer["result"]["isError"], false, "{answer}");
}

/// The reservation has landed, but the call is taken back before the store says so. The instance
/// must not be lost over it.
#[tokio::test]
async fn a_call_that_is_taken_back_while_it_is_reserved_leaves_the_instance_usable() {
    let (store, mut landed) = FaultyStore::slow();
    let server = desk(tool("work")).store(store.clone()).build().unwrap();
    let (mut client, _connection) = connect(&server);
    client.initialize().await;
    let id = client.begin("tools/call", json!({"name": "work"})).await;
    landed.recv().await.unwrap();
    let params = json!({"requestId": id});
    client.notify("notifications/cancelled", params).await;
    nothing_comes(&mut client).await;
    store.acknowledge(MANY);
    nothing_comes(&mut client).await;
    assert_eq!(state(&mut client).await, "open");
    let (_, result) = client.call("work", json!({})).await;
    assert_eq!(result["content"][0]["text"], "work is done", "{result}");
    assert_eq!(state(&mut client).await, "done");
}

#[tokio::test]
async fn nothing_runs_that_could_not_be_reserved() {
    let (store, _landed) = FaultyStore::slow();
    store.acknowledge(MANY);
    store.fail_commits(true);
    let (work, mut held) = held("work", OnCancel::GoesOn);
    held.let_go(MANY);
    let server = desk(work).store(store.clone()).build().unwrap();
    let (mut client, _connection) = connect(&server);
    client.initialize().await;
    let (before, result) = client.call("work", json!({})).await;
    assert_eq!(before, [] as [&str; 0]);
    assert_eq!(result["isError"], true, "{result}");
    assert_eq!(refusal(&result), 1079, "{result}");
    assert!(held.is_quiet());
    assert_eq!(state(&mut client).await, "open");
    store.fail_commits(false);
    let (_, result) = client.call("work", json!({})).await;
    assert_eq!(result["content"][0]["text"], "done", "{result}");
}

/// What the handler did is done, so the call counts as one of which nobody knows what it did.
#[tokio::test]
async fn a_step_that_could_not_be_saved_was_not_taken_and_the_instance_lives_on() {
    let (store, _landed) = FaultyStore::slow();
    store.acknowledge(MANY);
    let (work, mut held) = held("work", OnCancel::GoesOn);
    let server = desk(work).store(store.clone()).build().unwrap();
    let (mut client, _connection) = connect(&server);
    client.initialize().await;
    let id = client.begin("tools/call", json!({"name": "work"})).await;
    held.started().await;
    store.fail_commits(true);
    held.let_go(1);
    let (before, answer) = client.until(id).await;
    assert_eq!(before.len(), 0, "{before:?}");
    assert_eq!(refusal(&answer["result"]), 1079, "{answer}");
    assert_eq!(state(&mut client).await, "open");
    store.fail_commits(false);
    let (_, result) = client.call("work", json!({})).await;
    assert_eq!(refusal(&result), 1081, "{result}");
    let refusal = &result["_meta"]["dev.interlock/refusal"];
    assert_eq!(refusal["state"], "unclear", "{result}");
    let (_, result) = client.call("close", json!({})).await;
    assert_eq!(result["content"][0]["text"], "close is done", "{result}");
}

/// An instance that everybody shares outlives the server, if its store does.
#[tokio::test]
async fn a_server_finds_the_shared_instance_where_the_last_one_left_it() {
    let settings = Settings {
        scope: Scope::Global,
        ..Settings::default()
    };
    let store = MemoryStore::default();
    let server = || {
        desk_with(settings.clone(), tool("work"))
            .store(Arc::new(store.clone()))
            .build()
            .unwrap()
    };
    let (mut client, connection) = connect(&server());
    client.initialize().await;
    client.call("work", json!({})).await;
    client.hang_up();
    connection.ended().await;

    let (mut client, _connection) = connect(&server());
    client.initialize().await;
    assert_eq!(state(&mut client).await, "done");
    let (_, result) = client.call("close", json!({})).await;
    assert_eq!(result["content"][0]["text"], "close is done", "{result}");
}

#[tokio::test]
async fn a_store_that_never_answers_does_not_keep_the_server_from_ending() {
    let clock = Arc::new(interlock_testkit::ManualClock::new());
    let (store, mut landed) = FaultyStore::slow();
    let builder = desk(tool("work")).store(store.clone());
    let server = builder.clock(clock.clone()).build().unwrap();
    let (mut client, connection) = connect(&server);
    client.initialize().await;
    client.begin("tools/call", json!({"name": "work"})).await;
    landed.recv().await.unwrap();
    // The reservation is acknowledged, the step is not.
    store.acknowledge(1);
    tokio::time::timeout(PATIENCE, landed.recv())
        .await
        .unwrap()
        .unwrap();
    client.hang_up();
    // First the drain ends, then the time in which the rest may be written.
    let mut ended = std::pin::pin!(connection.ended());
    for _ in 0..10 {
        clock.advance(Duration::from_secs(30));
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }
    ended.as_mut().await;
}
