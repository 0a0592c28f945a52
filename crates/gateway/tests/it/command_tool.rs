//! Commands as tools, from the call to the last of their processes.

use crate::stage::Stage;
use interlock::{Server, workflow::file};
use interlock_testkit::{Client, ManualClock, connect};
use serde_json::{Value, json};
use std::{path::Path, sync::Arc, time::Duration};

/// A server with one tool, `run`, which is a command.
fn server(folder: &Path, command: &[&str], clock: &Arc<ManualClock>) -> Server {
    let text = json!({
        "interlock": 1,
        "name": "test",
        "tools": { "run": { "description": "Runs", "command": command, "timeout": "10s" } },
        "states": {
            "new": { "initial": true, "tools": { "run": { "success": "end", "timeout": "late" } } },
            "late": { "tools": { "run": "end" } },
            "end": { "terminal": true },
        },
    });
    let file = file::read(text.to_string().as_bytes()).unwrap();
    let clock = Arc::clone(clock);
    let builder = interlock_gateway::builder(&file, folder).unwrap();
    builder.clock(clock).build().unwrap()
}

async fn client(folder: &Path, command: &[&str]) -> Client {
    let server = server(folder, command, &Arc::default());
    let (mut client, _) = connect(&server);
    client.initialize().await;
    client
}

/// Calls a shell script once.
async fn call(script: &str, arguments: Value) -> Value {
    let stage = Stage::new();
    let mut client = client(stage.folder(), &["sh", "-c", script]).await;
    client.call("run", arguments).await.1
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_default()
}

#[tokio::test]
async fn arguments_come_on_standard_input_and_output_is_the_result() {
    let result = call("cat; echo", json!({"b": 1, "a": "é\n"})).await;
    assert_eq!(text(&result), r#"{"b":1,"a":"é\n"}"#);
    assert_eq!(result["isError"], false);
    assert_eq!(result["_meta"]["dev.interlock/workflow"]["state"], "new");
}

#[tokio::test]
async fn a_result_in_json_passes_as_it_stands() {
    let script = r#"echo '{"content": [{"type": "x-new", "y": 1}], "structuredContent": {"k": 2},
        "x-mine": 3, "_meta": {"mine": 4}}'"#;
    let stage = Stage::new();
    let mut client = client(stage.folder(), &["sh", "-c", script]).await;
    // The protocol has no such content yet.
    client.unchecked();
    let (_, result) = client.call("run", json!({})).await;
    assert_eq!(result["content"], json!([{"type": "x-new", "y": 1}]));
    assert_eq!(result["structuredContent"], json!({"k": 2}));
    assert_eq!(result["x-mine"], 3);
    assert_eq!(result["_meta"]["mine"], 4);
    assert!(result["_meta"]["dev.interlock/workflow"].is_object());
}

#[tokio::test]
async fn a_result_in_json_can_say_that_it_is_an_error() {
    let script = r#"echo '{"content": [], "isError": true}'"#;
    let result = call(script, json!({})).await;
    assert_eq!(result["isError"], true);
    let next = &result["_meta"]["dev.interlock/workflow"];
    assert_eq!(next["state"], "new", "an error does not move it");
}

#[tokio::test]
async fn an_exit_code_is_an_error_with_what_was_written_to_standard_error() {
    let result = call("echo ignored; echo 'no such order' >&2; exit 3", json!({})).await;
    assert_eq!(
        (text(&result), &result["isError"]),
        ("no such order", &json!(true))
    );
    let silent = call("exit 3", json!({})).await;
    assert_eq!(text(&silent), "exit status 3");
    let killed = call("kill -9 $$", json!({})).await;
    assert!(text(&killed).contains("signal: 9"), "{killed}");
}

#[tokio::test]
async fn a_program_that_is_not_there_is_named() {
    let stage = Stage::new();
    for program in ["./missing.sh", "interlock-has-no-such-program"] {
        let mut client = client(stage.folder(), &[program]).await;
        let (_, result) = client.call("run", json!({})).await;
        assert_eq!(text(&result), format!("there is no program `{program}`"));
        assert_eq!(result["isError"], true);
    }
    std::fs::write(stage.folder().join("plain.txt"), "").unwrap();
    let mut client = client(stage.folder(), &["./plain.txt"]).await;
    let (_, result) = client.call("run", json!({})).await;
    assert_eq!(text(&result), "the program `./plain.txt` may not be run");
}

#[cfg(unix)]
#[tokio::test]
async fn a_command_runs_in_the_folder_of_its_file_and_is_found_there() {
    let stage = Stage::new();
    std::os::unix::fs::symlink("/bin/sh", stage.folder().join("shell")).unwrap();
    std::fs::write(stage.folder().join("data"), "from the folder").unwrap();
    let mut client = client(stage.folder(), &["./shell", "-c", "cat data"]).await;
    let (_, result) = client.call("run", json!({})).await;
    assert_eq!(text(&result), "from the folder");
}

#[tokio::test]
async fn each_instance_has_its_own_environment() {
    let stage = Stage::new();
    let script = r#"echo "$INTERLOCK_INSTANCE $INTERLOCK_STATE $INTERLOCK_CTX""#;
    let server = server(stage.folder(), &["sh", "-c", script], &Arc::default());
    let mut instances = Vec::new();
    for _ in 0..2 {
        let (mut client, _connection) = connect(&server);
        client.initialize().await;
        let (_, result) = client.call("run", json!({})).await;
        let words: Vec<_> = text(&result).split(' ').map(str::to_owned).collect();
        let place = &result["_meta"]["dev.interlock/workflow"];
        assert_eq!(place["instance"], words[0]);
        assert_eq!(&words[1..], ["new", "{}"]);
        instances.push(words[0].clone());
    }
    assert_ne!(instances[0], instances[1]);
}

/// Whoever runs this holds the pipe `held` until somebody writes to the pipe `never`.
const HOLD: &str = "exec 3>held; echo ready >&3; read line <never";

/// A call whose deadline passes leaves no process behind.
async fn deadline(script: &str) {
    let stage = Stage::new();
    stage.pipe("never");
    let mut held = stage.listen("held");
    let clock = Arc::new(ManualClock::new());
    let server = server(stage.folder(), &["sh", "-c", script], &clock);
    let (mut client, _connection) = connect(&server);
    client.initialize().await;
    let call = client
        .begin("tools/call", json!({"name": "run", "arguments": {}}))
        .await;
    assert_eq!(held.next().await.as_deref(), Some("ready"));

    clock.advance(Duration::from_secs(10));
    let (_, answer) = client.until(call).await;
    let meta = &answer["result"]["_meta"];
    assert_eq!(meta["dev.interlock/refusal"]["code"], 1069, "{answer}");
    assert_eq!(meta["dev.interlock/workflow"]["state"], "late");
    assert_eq!(held.next().await, None, "nobody holds the pipe any more");
}

#[tokio::test]
async fn at_the_deadline_a_command_dies_with_what_it_started() {
    deadline(&format!("({HOLD}) & wait")).await;
}

#[tokio::test]
async fn what_a_command_started_dies_at_the_deadline_though_the_command_has_exited() {
    deadline(&format!("({HOLD}) & exit 0")).await;
}

/// A command cannot be asked to stop, so nobody waits for it to do so.
#[tokio::test]
async fn a_call_that_is_taken_back_ends_its_command_at_once() {
    let stage = Stage::new();
    stage.pipe("never");
    let mut held = stage.listen("held");
    let mut client = client(stage.folder(), &["sh", "-c", HOLD]).await;
    let call = client
        .begin("tools/call", json!({"name": "run", "arguments": {}}))
        .await;
    assert_eq!(held.next().await.as_deref(), Some("ready"));
    // The clock stands still all the while.
    let params = json!({"requestId": call});
    client.notify("notifications/cancelled", params).await;
    assert_eq!(held.next().await, None, "nobody holds the pipe any more");
    assert_eq!(client.request("ping", json!({})).await["result"], json!({}));
}

#[tokio::test]
async fn what_detached_its_output_does_not_keep_the_call() {
    let stage = Stage::new();
    let never = stage.pipe("never");
    let mut held = stage.listen("held");
    // It also keeps an end of the input that nobody will read from.
    let script = format!("exec 4<&0; ({HOLD}) >/dev/null 2>&1 & echo started");
    let mut client = client(stage.folder(), &["sh", "-c", &script]).await;
    let (_, result) = client
        .call("run", json!({"large": "x".repeat(1 << 20)}))
        .await;
    assert_eq!(text(&result), "started");
    assert_eq!(held.next().await.as_deref(), Some("ready"), "it goes on");
    std::fs::write(never, "\n").unwrap();
    assert_eq!(held.next().await, None);
}

#[tokio::test]
async fn a_flood_of_output_is_an_error_and_ends_the_command() {
    let stage = Stage::new();
    stage.pipe("never");
    let mut held = stage.listen("held");
    let script = "exec 3>held; echo ready >&3; yes; read line <never";
    let mut client = client(stage.folder(), &["sh", "-c", script]).await;
    let (_, result) = client.call("run", json!({})).await;
    assert_eq!(result["isError"], true);
    assert!(
        text(&result).contains("more than 1048576 bytes"),
        "{result}"
    );
    assert_eq!(held.next().await.as_deref(), Some("ready"));
    assert_eq!(held.next().await, None);
}

#[tokio::test]
async fn output_up_to_the_limit_is_whole() {
    let script = "yes | head -c 1048576";
    assert_eq!(text(&call(script, json!({})).await).len(), 1024 * 1024 - 1);
}

#[tokio::test]
async fn a_flood_of_complaints_is_cut() {
    let result = call("yes | head -c 3000000 >&2; exit 1", json!({})).await;
    let text = text(&result);
    assert!(text.len() <= 1024 * 1024 + 20, "{}", text.len());
    assert!(text.ends_with("y\n[more was cut]"), "{}", text.len());
    let success = call("yes | head -c 3000000 >&2; echo done", json!({})).await;
    assert_eq!(success["content"][0]["text"], "done");
}

#[tokio::test]
async fn a_command_need_not_read_its_input() {
    let large = json!({"large": "x".repeat(4 << 20)});
    for script in [
        "echo done",
        "exec <&-; echo done",
        "head -c 10 >/dev/null; echo done",
    ] {
        assert_eq!(text(&call(script, large.clone()).await), "done", "{script}");
    }
    let failed = call("exit 7", large).await;
    assert_eq!(text(&failed), "exit status 7");
}

#[tokio::test]
async fn a_command_may_close_its_output_and_go_on_reading() {
    let script = "exec >&- 2>&-; n=$(wc -c); [ \"$n\" -gt 1000000 ] || exit 1";
    let result = call(script, json!({"large": "x".repeat(1 << 20)})).await;
    assert_eq!(result["isError"], false, "{result}");
}
