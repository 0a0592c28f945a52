//! Turns and places: a call that can move its instance waits for its turn first, and then for a
//! place among the calls of its tool.

use crate::support::{
    client::{begin, nothing_comes},
    desk::state,
    held::{Held, OnCancel, held},
    messages::result_text,
    tools::tool,
};
use interlock::{Context, NoArguments, Server, Tool, Workflow, workflow::end};
use interlock_testkit::{Client, Connection, ManualClock, connect};
use serde_json::json;
use std::{num::NonZeroUsize, sync::Arc, time::Duration};
use tokio::{runtime::Handle, task::yield_now};

/// `rare` has one place for all clients. At the beginning it stays where it is, later it moves.
fn library(rare: Tool, work: Tool, clock: &Arc<ManualClock>) -> Server {
    let flow = Workflow::builder("library")
        .state("lobby", |s| {
            s.initial()
                .tool("rare", |t| t.success("lobby"))
                .tool("enter", |t| t.success("hall"))
        })
        .state("hall", |s| {
            s.tool("work", |t| t.success("hall").error("lobby"))
                .tool("rare", |t| t.success("vault"))
                .tool("peek", |t| t.success("hall"))
        })
        .state("vault", |s| s.tool("leave", |t| t.success(end("lobby"))))
        .build()
        .unwrap();
    Server::builder("library", "1.0.0")
        .tool(rare.concurrency(NonZeroUsize::MIN))
        .tool(work)
        .tool(tool("enter"))
        .tool(tool("peek"))
        .tool(tool("leave"))
        .tool(tool("nowhere"))
        .workflow(flow)
        .clock(clock.clone())
        .build()
        .unwrap()
}

async fn visitor(server: &Server) -> (Client, Connection) {
    let (mut client, connection) = connect(server);
    client.initialize().await;
    (client, connection)
}

async fn in_the_hall(server: &Server) -> (Client, Connection) {
    let (mut client, connection) = visitor(server).await;
    client.call("enter", json!({})).await;
    (client, connection)
}

/// A library in which somebody else has the one place of `rare`.
async fn taken() -> (Server, Held, Arc<ManualClock>, (Client, Connection)) {
    let (rare, mut at_rare) = held("rare", OnCancel::Stops);
    let clock = Arc::new(ManualClock::new());
    let server = library(rare, tool("work"), &clock);
    let (mut other, connection) = visitor(&server).await;
    begin(&mut other, "rare").await;
    at_rare.started().await;
    (server, at_rare, clock, (other, connection))
}

#[tokio::test]
async fn a_client_that_waits_for_itself_keeps_nobody_else_waiting() {
    let (work, mut at_work) = held("work", OnCancel::GoesOn);
    let server = library(tool("rare"), work, &Arc::default());
    let (mut one, _connection) = in_the_hall(&server).await;
    let (mut other, _other_connection) = in_the_hall(&server).await;
    let first = begin(&mut one, "work").await;
    at_work.started().await;
    let second = begin(&mut one, "rare").await;
    nothing_comes(&mut one).await;
    let (_, result) = other.call("rare", json!({})).await;
    assert_eq!(result_text(&result), "rare is done");
    at_work.let_go(1);
    let (_, answer) = one.until(first).await;
    assert_eq!(result_text(&answer["result"]), "done");
    let (_, answer) = one.until(second).await;
    assert_eq!(result_text(&answer["result"]), "rare is done");
    assert_eq!(state(&mut one).await, "vault");
}

#[tokio::test]
async fn whoever_waits_for_a_place_can_read_meanwhile() {
    let (server, mut at_rare, _clock, _other) = taken().await;
    let (mut one, _connection) = in_the_hall(&server).await;
    let waiting = begin(&mut one, "rare").await;
    let (_, result) = one.call("peek", json!({})).await;
    assert_eq!(result_text(&result), "peek is done");
    assert!(at_rare.is_quiet(), "two calls have the one place");
    at_rare.let_go(2);
    let (_, answer) = one.until(waiting).await;
    assert_eq!(result_text(&answer["result"]), "done");
    assert_eq!(state(&mut one).await, "vault");
}

#[tokio::test]
async fn whoever_waits_for_a_place_in_vain_gives_its_turn_back() {
    let (server, mut at_rare, clock, _other) = taken().await;
    let (mut one, _connection) = in_the_hall(&server).await;
    let id = begin(&mut one, "rare").await;
    let work = begin(&mut one, "work").await;
    nothing_comes(&mut one).await;
    one.notify("notifications/cancelled", json!({ "requestId": id }))
        .await;
    let (_, answer) = one.until(work).await;
    assert_eq!(result_text(&answer["result"]), "work is done");

    let late = begin(&mut one, "rare").await;
    nothing_comes(&mut one).await;
    clock.advance(Duration::from_secs(30));
    let (_, answer) = one.until(late).await;
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    let (_, result) = one.call("work", json!({})).await;
    assert_eq!(result_text(&result), "work is done");
    assert!(at_rare.is_quiet(), "a call that gave up has run");
}

#[tokio::test]
async fn a_call_that_comes_to_move_while_it_waits_for_a_place_takes_its_turn() {
    let (server, at_rare, _clock, _other) = taken().await;
    let (mut one, _connection) = visitor(&server).await;
    let waiting = begin(&mut one, "rare").await;
    let (_, result) = one.call("enter", json!({})).await;
    assert_eq!(result_text(&result), "enter is done");
    assert_eq!(state(&mut one).await, "hall");
    at_rare.let_go(2);
    let (_, answer) = one.until(waiting).await;
    assert_eq!(result_text(&answer["result"]), "done");
    assert_eq!(state(&mut one).await, "vault");
}

#[tokio::test]
async fn only_a_call_that_waits_becomes_a_task() {
    let tasks = || Handle::current().metrics().num_alive_tasks().to_string();
    let server = Server::builder("tasks", "1")
        .tool(Tool::new(
            "now",
            move |_: NoArguments, _: Context| async move { tasks() },
        ))
        .tool(Tool::new(
            "later",
            move |_: NoArguments, _: Context| async move {
                yield_now().await;
                tasks()
            },
        ))
        .build()
        .unwrap();
    let (mut client, _connection) = connect(&server);
    client.initialize().await;
    let mut counts = Vec::new();
    for tool in ["now", "later", "now"] {
        let (_, result) = client.call(tool, json!({})).await;
        counts.push(result_text(&result).parse::<usize>().unwrap());
    }
    let without = counts[0];
    assert_eq!(counts, [without, without + 1, without]);
}
