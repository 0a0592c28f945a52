//! What must hold however the threads take turns: each case many times over.

use crate::support::{
    http::{modern_call, plain},
    messages::{hello, modern, text},
};
use interlock::{Context, HttpOptions, NoArguments, Server, Tool};
use interlock_testkit::{
    connect,
    web::{Session, Site},
};
use serde_json::json;

/// A tool that lets others go first a few times.
fn dawdle() -> Tool {
    Tool::new("dawdle", |_: NoArguments, _: Context| async {
        for _ in 0..3 {
            tokio::task::yield_now().await;
        }
        "done"
    })
}

fn server() -> Server {
    plain().tool(dawdle()).build().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_ends_as_the_client_leaves_is_answered() {
    let server = server();
    for round in 0..1000 {
        let (mut client, connection) = connect(&server);
        let mut lines = String::new();
        let initialize = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello("2025-11-25")});
        let old = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "dawdle"}});
        let new = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": modern(json!({"name": "dawdle"}))});
        for line in [initialize, old, new] {
            lines.push_str(&format!("{line}\n"));
        }
        client.send_bytes(lines.as_bytes()).await;
        client.hang_up();
        let mut ids = Vec::new();
        while let Some(answer) = client.receive().await {
            ids.push(answer["id"].as_i64().unwrap());
        }
        ids.sort_unstable();
        assert_eq!(ids, [0, 1, 2], "round {round}");
        connection.ended().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_ends_as_the_server_stops_is_answered() {
    let server = server();
    for round in 0..1000 {
        let (mut client, mut connection) = connect(&server);
        client.initialize().await;
        let call = json!({"jsonrpc": "2.0", "id": "call", "method": "tools/call", "params": {"name": "dawdle"}});
        let ping = json!({"jsonrpc": "2.0", "id": "ping", "method": "ping"});
        client
            .send_bytes(format!("{call}\n{ping}\n").as_bytes())
            .await;
        let first = client.receive().await.unwrap();
        // Something was answered, so both were taken.
        connection.drain();
        let second = client
            .receive()
            .await
            .unwrap_or_else(|| panic!("round {round}"));
        let mut ids = [first["id"].as_str(), second["id"].as_str()];
        ids.sort_unstable();
        assert_eq!(ids, [Some("call"), Some("ping")], "round {round}");
        assert_eq!(client.receive().await, None);
        connection.ended().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_ends_as_the_site_stops_is_answered() {
    let server = server();
    for _ in 0..50 {
        let mut site = Site::open(&server, HttpOptions::default()).await;
        let session = Session::open(&site).await;
        let mut open = Vec::new();
        for request in [
            session.tool("dawdle", json!({})),
            modern_call(1, "dawdle", json!({})),
        ] {
            let web = site.web();
            open.push(tokio::spawn(async move {
                // Who comes too late finds nobody, which is not the point here.
                let answer = web.try_send(request).await.ok()?;
                Some(answer.message().await)
            }));
        }
        site.drain();
        for answer in open {
            if let Some(answer) = answer.await.unwrap()
                && answer.get("result").is_some()
                && answer["result"]["isError"] == false
            {
                assert_eq!(text(&answer), "done");
            }
        }
        site.ended().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_word_and_the_answer_after_it_come_in_order_and_once() {
    let site = Site::open(&server(), HttpOptions::default()).await;
    let session = Session::open(&site).await;
    for _ in 0..200 {
        let params = json!({"name": "walk", "arguments": {"steps": [1, 2, 3]}, "_meta": {"progressToken": 1}});
        let (before, answer) = session.exchange("tools/call", params).await;
        let steps: Vec<_> = before
            .iter()
            .map(|m| m["params"]["progress"].as_f64())
            .collect();
        assert_eq!(steps, [Some(1.0), Some(2.0), Some(3.0)]);
        assert_eq!(text(&answer), "there");
    }
}
