//! Clients over a connection: how they begin, and what comes to them.

use super::messages::{hello, is_one_message};
use interlock::{Builder, Server};
use interlock_testkit::{Client, Connection, connect};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A client that has shaken hands.
pub(crate) async fn client_of(server: &Server) -> (Client, Connection) {
    let (mut client, connection) = connect(server);
    client.initialize().await;
    (client, connection)
}

/// The same of a server that is still to be built.
pub(crate) async fn client_of_built(builder: Builder) -> (Client, Connection) {
    client_of(&builder.build().unwrap()).await
}

/// Shakes hands in this version, as a client that can do this.
pub(crate) async fn introduce_as(client: &mut Client, version: &str, can: Value) {
    let mut params = hello(version);
    params["capabilities"] = can;
    client.request("initialize", params).await;
    client.notify("notifications/initialized", json!({})).await;
}

/// Begins to call a tool without arguments.
pub(crate) async fn begin(client: &mut Client, tool: &str) -> i64 {
    client.begin("tools/call", json!({"name": tool})).await
}

/// Answers a question of the server.
pub(crate) async fn answer(client: &mut Client, question: &Value, result: Value) {
    let id = &question["id"];
    client
        .send(json!({"jsonrpc": "2.0", "id": id, "result": result}))
        .await;
}

/// Proves that nothing is on its way: the next thing that comes is the answer to a ping.
pub(crate) async fn nothing_comes(client: &mut Client) {
    let (before, answer) = client.exchange("ping", json!({})).await;
    assert_eq!(before, [] as [Value; 0]);
    assert_eq!(answer["result"], json!({}));
}

/// Sends a line as it is and gives what comes next.
pub(crate) async fn answer_to(client: &mut Client, line: &str) -> Value {
    client.send_bytes(line.as_bytes()).await;
    client.send_bytes(b"\n").await;
    let answer = client.receive().await.expect("an answer must come");
    is_one_message(&answer);
    answer
}

/// Reads `n` answers, in whatever order they come, and gives them by id with the notifications.
pub(crate) async fn answers(client: &mut Client, n: usize) -> (Vec<Value>, Vec<Value>) {
    let (mut notifications, mut answers) = (Vec::new(), Vec::new());
    while answers.len() < n {
        let message = client.receive().await.expect("the server must answer");
        is_one_message(&message);
        if message.get("method").is_some() {
            notifications.push(message);
        } else {
            answers.push(message);
        }
    }
    answers.sort_by_key(|answer| answer["id"].as_i64());
    (notifications, answers)
}

/// Lets everything run that can run: several rounds in a row in which nothing moved.
pub(crate) async fn quiesce(counter: &AtomicUsize) -> usize {
    let (mut before, mut still) = (usize::MAX, 0);
    while still < 20 {
        for _ in 0..500 {
            tokio::task::yield_now().await;
        }
        let now = counter.load(Ordering::SeqCst);
        still = if now == before { still + 1 } else { 0 };
        before = now;
    }
    before
}
