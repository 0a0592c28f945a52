//! The examples do what they say, as processes behind real pipes.

use crate::support::messages::refusal;
use interlock_testkit::pipes;
use serde_json::json;

#[tokio::test]
async fn hello_greets() {
    let (mut client, process) = pipes::spawn(&pipes::example("mcp-interlock", "hello"), &[]);
    let answer = client.initialize().await;
    assert_eq!(answer["result"]["serverInfo"]["name"], "hello");
    assert_eq!(client.tools().await, ["hello"]);
    let (_, result) = client.call("hello", json!({"name": "Ada"})).await;
    assert_eq!(result["content"][0]["text"], "Hello, Ada!");
    client.hang_up();
    let (status, stderr) = process.ended().await;
    assert!(status.success(), "{stderr}");
}

/// Whoever copies it from there gets what is run here.
#[test]
fn hello_is_the_one_in_the_readme() {
    let readme = include_str!("../../../../README.md");
    let example = include_str!("../../examples/hello.rs");
    let (_, code) = example.split_once("\n\n").unwrap();
    assert!(readme.contains(code), "{code}");
}

#[tokio::test]
async fn a_mounted_server_keeps_its_order() {
    let example = pipes::example("mcp-interlock", "mount_rmcp");
    let (mut client, process) = pipes::spawn(&example, &["--stdio"]);
    client.initialize().await;
    let (_, result) = client.call("return_book", json!({})).await;
    assert_eq!(refusal(&result), 1081, "{result}");
    let (before, result) = client.call("borrow_book", json!({"title": "Emma"})).await;
    assert_eq!(result["content"][0]["text"], "You have borrowed Emma.");
    assert!(before.contains(&"notifications/tools/list_changed".to_owned()));
    assert!(client.tools().await.contains(&"return_book".to_owned()));
    let (_, result) = client.call("return_book", json!({})).await;
    assert_eq!(result["content"][0]["text"], "Thank you.");
    client.hang_up();
    let (status, stderr) = process.ended().await;
    assert!(status.success(), "{stderr}");
}
