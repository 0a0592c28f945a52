//! The hard cases again, against a process behind real pipes.

use crate::support::{
    client::{answers, nothing_comes},
    messages::{codes, hello, modern, refusal},
};
use interlock_testkit::{
    Client,
    pipes::{self, Process},
    web::{Hello, Request},
};
use serde_json::{Value, json};
use std::{path::PathBuf, sync::OnceLock};

fn echo() -> &'static PathBuf {
    static ECHO: OnceLock<PathBuf> = OnceLock::new();
    ECHO.get_or_init(|| pipes::example("mcp-interlock", "echo"))
}

/// The example `echo` with its hazards, whose calls may run for so long.
fn spawn(tool_timeout: &str) -> (Client, Process) {
    let arguments = ["--stdio", "--hazards", "--tool-timeout", tool_timeout];
    pipes::spawn(echo(), &arguments)
}

async fn ready(tool_timeout: &str) -> (Client, Process) {
    let (mut client, process) = spawn(tool_timeout);
    assert!(client.initialize().await["result"].is_object());
    (client, process)
}

fn call(id: impl Into<Value>, tool: &str, arguments: Value) -> Value {
    let params = json!({"name": tool, "arguments": arguments});
    json!({"jsonrpc": "2.0", "id": id.into(), "method": "tools/call", "params": params})
}

/// A call that says when it begins and then takes so long.
fn slow(ms: u64) -> Value {
    let mut slow = call("slow", "slow", json!({"ms": ms}));
    slow["params"]["_meta"] = json!({"progressToken": "slow"});
    slow
}

/// The client hangs up, says nothing more, and the server is gone without an error.
async fn leaves(mut client: Client, process: Process) -> String {
    client.hang_up();
    assert_eq!(client.receive().await, None);
    let (status, stderr) = process.ended().await;
    assert!(status.success(), "{status} {stderr}");
    stderr
}

#[tokio::test]
async fn a_client_comes_calls_and_goes() {
    let (mut client, process) = ready("30s").await;
    assert_eq!(client.tools().await.len(), 25);
    let (_, result) = client.call("echo", json!({"text": "ünï\n\u{2028}"})).await;
    assert_eq!(result["content"][0]["text"], "ünï\n\u{2028}");
    let answer = client.request("server/discover", modern(json!({}))).await;
    assert_eq!(answer["result"]["resultType"], "complete");
    leaves(client, process).await;
}

#[tokio::test]
async fn what_comes_before_initialize_is_refused_or_ignored() {
    let (mut client, process) = spawn("30s");
    client.notify("notifications/initialized", json!({})).await;
    client
        .send(json!({"jsonrpc": "2.0", "id": 9, "result": {}}))
        .await;
    nothing_comes(&mut client).await;
    let answer = client.request("tools/list", json!({})).await;
    assert_eq!(codes(&answer), (-32602, 1076));
    let answer = client.request("tools/list", modern(json!({}))).await;
    assert!(answer["result"]["tools"].is_array());
    client.initialize().await;
    let mut other = hello("2025-06-18");
    other["clientInfo"]["name"] = json!("mallory");
    assert!(client.request("initialize", other).await["error"].is_object());
    leaves(client, process).await;
}

#[tokio::test]
async fn a_panic_is_an_error_of_its_call_and_nothing_of_it_is_on_stdout() {
    let (mut client, process) = ready("30s").await;
    for _ in 0..3 {
        let (_, result) = client.call("panic", json!({})).await;
        assert_eq!(result["isError"], true, "{result}");
    }
    let (_, result) = client.call("echo", json!({"text": "alive"})).await;
    assert_eq!(result["content"][0]["text"], "alive");
    let stderr = leaves(client, process).await;
    assert!(stderr.contains("the tool `panic` was called"), "{stderr}");
}

#[tokio::test]
async fn a_handler_that_never_returns_costs_its_own_call() {
    let (mut client, process) = ready("1s").await;
    let hanging = client.begin("tools/call", json!({"name": "hang"})).await;
    let (_, result) = client.call("echo", json!({"text": "alive"})).await;
    assert_eq!(result["content"][0]["text"], "alive");
    let (_, answer) = client.until(hanging).await;
    assert_eq!(refusal(&answer["result"]), 1069, "{answer}");
    leaves(client, process).await;
}

#[tokio::test]
async fn a_handler_that_blocks_its_thread_costs_its_own_call() {
    let (mut client, process) = ready("30s").await;
    let blocking = client
        .begin(
            "tools/call",
            json!({"name": "block", "arguments": {"ms": 1000}}),
        )
        .await;
    let (_, result) = client.call("echo", json!({"text": "alive"})).await;
    assert_eq!(result["content"][0]["text"], "alive");
    let (_, answer) = client.until(blocking).await;
    assert_eq!(
        answer["result"]["content"][0]["text"],
        "blocked for 1000 ms"
    );
    leaves(client, process).await;
}

#[tokio::test]
async fn a_call_that_is_taken_back_is_not_answered() {
    let (mut client, process) = ready("30s").await;
    client
        .send(call("slow", "slow", json!({"ms": 600_000})))
        .await;
    client
        .notify("notifications/cancelled", json!({"requestId": "slow"}))
        .await;
    nothing_comes(&mut client).await;
    // One that takes no notice is not answered either.
    client.send(call("hang", "hang", json!({}))).await;
    client
        .notify("notifications/cancelled", json!({"requestId": "hang"}))
        .await;
    nothing_comes(&mut client).await;
    drop(client);
    let (status, stderr) = process.ended().await;
    assert!(status.success(), "{status} {stderr}");
}

#[tokio::test]
async fn a_line_without_an_end_is_a_last_message_or_none() {
    for (start, answered) in [
        (r#"{"jsonrpc":"2.0","id":5,"method":"ping"}"#, true),
        (r#"{"jsonrpc":"2.0","id":5,"meth"#, false),
    ] {
        let (mut client, process) = ready("30s").await;
        client.send_bytes(start.as_bytes()).await;
        client.hang_up();
        let answer = client.receive().await.unwrap();
        assert_eq!(answer.get("result").is_some(), answered, "{answer}");
        assert_eq!(client.receive().await, None);
        assert!(process.ended().await.0.success());
    }
}

#[tokio::test]
async fn a_call_that_runs_at_the_end_of_input_is_answered() {
    let (mut client, process) = ready("30s").await;
    client.send(call("slow", "slow", json!({"ms": 100}))).await;
    client.hang_up();
    let answer = client.receive().await.unwrap();
    assert_eq!(answer["result"]["content"][0]["text"], "slept for 100 ms");
    assert_eq!(client.receive().await, None);
    assert!(process.ended().await.0.success());
}

#[tokio::test]
async fn a_message_of_17_megabytes_is_refused_and_the_next_is_served() {
    let (mut client, process) = ready("30s").await;
    let large = call(1, "echo", json!({"text": "x".repeat(17 * 1024 * 1024)}));
    client.send_bytes(format!("{large}\n").as_bytes()).await;
    let answer = client.receive().await.unwrap();
    assert_eq!(answer["error"]["data"]["refusal"]["code"], 1068, "{answer}");
    let (_, result) = client.call("echo", json!({"text": "alive"})).await;
    assert_eq!(result["content"][0]["text"], "alive");
    leaves(client, process).await;
}

#[tokio::test]
async fn a_thousand_requests_at_once_are_answered_each() {
    let (mut client, process) = ready("30s").await;
    let mut lines = String::new();
    for n in 0..1000 {
        lines.push_str(&format!(
            "{}\n",
            call(n, "echo", json!({"text": n.to_string()}))
        ));
    }
    client.send_bytes(lines.as_bytes()).await;
    let (_, all) = answers(&mut client, 1000).await;
    for (n, answer) in all.iter().enumerate() {
        assert_eq!(answer["id"], n);
        assert_eq!(answer["result"]["content"][0]["text"], n.to_string());
    }
    leaves(client, process).await;
}

#[tokio::test]
async fn two_requests_with_one_id_get_one_answer_the_firsts() {
    let (mut client, process) = ready("30s").await;
    let first = call("one", "slow", json!({"ms": 50}));
    let second = call("one", "echo", json!({"text": "second"}));
    client
        .send_bytes(format!("{first}\n{second}\n").as_bytes())
        .await;
    let answer = client.receive().await.unwrap();
    assert_eq!(answer["result"]["content"][0]["text"], "slept for 50 ms");
    nothing_comes(&mut client).await;
    leaves(client, process).await;
}

#[tokio::test]
async fn a_client_that_closes_its_ears_ends_the_server_once_nothing_runs() {
    let (mut client, process) = ready("200ms").await;
    client
        .send(call("slow", "slow", json!({"ms": 600_000})))
        .await;
    drop(client);
    let (_, stderr) = process.ended().await;
    assert!(!stderr.contains("panicked"), "{stderr}");
}

#[tokio::test]
async fn a_server_that_is_terminated_lets_calls_end() {
    let (mut client, process) = ready("30s").await;
    client.send(slow(200)).await;
    let begun = client.receive().await.unwrap();
    assert_eq!(begun["params"]["message"], "begun", "{begun}");
    process.terminate();
    let answer = client.receive().await.unwrap();
    assert_eq!(answer["id"], "slow", "{answer}");
    assert_eq!(answer["result"]["content"][0]["text"], "slept for 200 ms");
    assert_eq!(client.receive().await, None);
    let (status, stderr) = process.ended().await;
    assert!(status.success(), "{status} {stderr}");
}

#[tokio::test]
async fn a_site_that_is_terminated_lets_calls_end_and_closes_its_streams() {
    let arguments = ["--http", "127.0.0.1:0", "--hazards"];
    let (web, process) = pipes::spawn_site(echo(), &arguments).await;
    let session = Hello::version("2025-11-25").open_at(web).await;
    let mut listening = session.listen().await;
    listening.event().await.unwrap();
    let mut slow = session.send(session.post(&slow(2000))).await.events();
    let begun = slow.message().await.unwrap();
    assert_eq!(begun["params"]["message"], "begun", "{begun}");
    process.terminate();
    let answer = slow.message().await.unwrap();
    assert_eq!(
        answer["result"]["content"][0]["text"], "slept for 2000 ms",
        "{answer}"
    );
    assert_eq!(listening.message().await, None);
    let (status, stderr) = process.ended().await;
    assert!(status.success(), "{status} {stderr}");
}

#[tokio::test]
async fn a_second_signal_ends_a_site_at_once() {
    let arguments = [
        "--http",
        "127.0.0.1:0",
        "--hazards",
        "--tool-timeout",
        "10m",
    ];
    let (web, process) = pipes::spawn_site(echo(), &arguments).await;
    let hang = Request::modern(1, "tools/call", json!({"name": "hang"}));
    let open = tokio::spawn(async move { web.try_send(hang).await.is_ok() });
    let discover = || Request::modern(1, "server/discover", json!({}));
    assert_eq!(web.send(discover()).await.status, 200);
    process.terminate();
    // Nobody answers the door, so the first one was heard.
    let closed = async { while web.try_send(discover()).await.is_ok() {} };
    interlock_testkit::soon("the site must close its door", closed).await;
    process.terminate();
    process.ended().await;
    let _ = open.await;
}
