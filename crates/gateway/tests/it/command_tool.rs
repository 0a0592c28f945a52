//! Commands as tools, from the call to the last of their processes.

use crate::stage::Stage;
use interlock::{Server, workflow::file};
use interlock_gateway::Options;
use interlock_testkit::{Client, ManualClock, connect};
use serde_json::{Value, json};
use std::{path::Path, sync::Arc, time::Duration};

/// A server with one tool, `run`, which is a command.
fn server(folder: &Path, command: &[&str], clock: &Arc<ManualClock>) -> Server {
    server_with(folder, json!({ "command": command }), clock)
}

/// As `server`, with more keys for the tool.
fn server_with(folder: &Path, keys: Value, clock: &Arc<ManualClock>) -> Server {
    let mut tool = json!({ "description": "Runs", "timeout": "10s" });
    let Value::Object(keys) = keys else {
        panic!("{keys}");
    };
    tool.as_object_mut().unwrap().extend(keys);
    let text = json!({
        "interlock": 1,
        "name": "test",
        "tools": { "run": tool },
        "states": {
            "new": { "initial": true, "tools": { "run": {
                "success": "end", "timeout": "late", "cancelled": "back", "unknown": "lost",
            } } },
            "late": { "tools": { "run": "end" } },
            "back": { "tools": { "run": "end" } },
            "lost": { "tools": { "run": "end" } },
            "end": { "terminal": true },
        },
    });
    let file = file::read(text.to_string().as_bytes()).unwrap();
    let clock = Arc::clone(clock);
    let builder = interlock_gateway::builder(&file, folder, &Options::default()).unwrap();
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

fn text_of(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_default()
}

#[tokio::test]
async fn arguments_come_on_standard_input_and_output_is_the_result() {
    let result = call("cat; echo", json!({"b": 1, "a": "é\n"})).await;
    assert_eq!(text_of(&result), r#"{"b":1,"a":"é\n"}"#);
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
        (text_of(&result), &result["isError"]),
        ("no such order", &json!(true))
    );
    let silent = call("exit 3", json!({})).await;
    assert_eq!(text_of(&silent), "exit status 3");
    let killed = call("kill -9 $$", json!({})).await;
    assert!(text_of(&killed).contains("signal: 9"), "{killed}");
}

#[tokio::test]
async fn a_program_that_is_not_there_is_named() {
    let stage = Stage::new();
    for program in ["./missing.sh", "interlock-has-no-such-program"] {
        let mut client = client(stage.folder(), &[program]).await;
        let (_, result) = client.call("run", json!({})).await;
        assert_eq!(text_of(&result), format!("there is no program `{program}`"));
        assert_eq!(result["isError"], true);
    }
    std::fs::write(stage.folder().join("plain.txt"), "").unwrap();
    let mut client = client(stage.folder(), &["./plain.txt"]).await;
    let (_, result) = client.call("run", json!({})).await;
    assert_eq!(text_of(&result), "the program `./plain.txt` may not be run");
}

#[cfg(unix)]
#[tokio::test]
async fn a_command_runs_in_the_folder_of_its_file_and_is_found_there() {
    let stage = Stage::new();
    std::os::unix::fs::symlink("/bin/sh", stage.folder().join("shell")).unwrap();
    std::fs::write(stage.folder().join("data"), "from the folder").unwrap();
    let mut client = client(stage.folder(), &["./shell", "-c", "cat data"]).await;
    let (_, result) = client.call("run", json!({})).await;
    assert_eq!(text_of(&result), "from the folder");
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
        let words: Vec<_> = text_of(&result).split(' ').map(str::to_owned).collect();
        let place = &result["_meta"]["dev.interlock/workflow"];
        assert_eq!(place["instance"], words[0]);
        assert_eq!(&words[1..], ["new", "{}"]);
        instances.push(words[0].clone());
    }
    assert_ne!(instances[0], instances[1]);
}

#[tokio::test]
async fn a_command_is_told_what_its_instance_remembers() {
    let stage = Stage::new();
    let text = json!({
        "interlock": 1,
        "name": "test",
        "tools": {
            "keep": { "description": "Keeps", "command": ["true"] },
            "tell": { "description": "Tells", "command": ["sh", "-c", "echo $INTERLOCK_CTX"] },
        },
        "states": {
            "new": { "initial": true, "tools": {
                "keep": { "success": { "to": "new", "set": { "order": "args.order" } } },
                "tell": "end",
            } },
            "end": { "terminal": true },
        },
    });
    let file = file::read(text.to_string().as_bytes()).unwrap();
    let builder = interlock_gateway::builder(&file, stage.folder(), &Options::default()).unwrap();
    let (mut client, _connection) = connect(&builder.build().unwrap());
    client.initialize().await;
    client.call("keep", json!({"order": "A-1"})).await;
    let (_, result) = client.call("tell", json!({})).await;
    assert_eq!(text_of(&result), r#"{"order":"A-1"}"#);
}

/// Cargo sets a few variables for every test, which stand for the secrets of a server.
#[tokio::test]
async fn a_command_gets_what_its_file_names_and_no_secrets() {
    let stage = Stage::new();
    std::fs::create_dir(stage.folder().join("sub")).unwrap();
    let keys = json!({
        "command": ["sh", "-c", "env; pwd"],
        "env": { "MINE": "from ${CARGO_PKG_VERSION}" },
        "env_from": ["CARGO_PKG_NAME"],
        "cwd": "sub",
    });
    let server = server_with(stage.folder(), keys, &Arc::default());
    let (mut client, _connection) = connect(&server);
    client.initialize().await;
    let (_, result) = client.call("run", json!({})).await;
    let lines: Vec<_> = text_of(&result).lines().collect();
    let names: Vec<_> = lines
        .iter()
        .filter_map(|line| line.split_once('='))
        .collect();
    let value = |name: &str| {
        let mut found = names.iter().filter(|(key, _)| *key == name);
        found.next().map(|(_, value)| *value)
    };
    assert_eq!(value("CARGO_PKG_NAME"), Some("interlock-gateway"));
    assert_eq!(
        value("MINE"),
        Some(concat!("from ", env!("CARGO_PKG_VERSION")))
    );
    assert_eq!(value("PATH").map(str::to_owned), std::env::var("PATH").ok());
    assert_eq!(value("INTERLOCK_STATE"), Some("new"));
    assert_eq!(value("CARGO_MANIFEST_DIR"), None, "{lines:?}");
    let folder = stage.folder().join("sub").canonicalize().unwrap();
    assert_eq!(lines.last().copied(), folder.to_str());
}

#[test]
fn a_variable_that_is_not_set_is_an_error_that_names_it() {
    let tool = |keys: &str| {
        let text = format!("interlock: 1\nname: x\ntools: {{ t: {{ description: d, {keys} }} }}\n");
        let file = file::read(text.as_bytes()).unwrap();
        match interlock_gateway::builder(&file, Path::new("/"), &Options::default()) {
            Ok(_) => panic!("{text}"),
            Err(error) => error.to_string(),
        }
    };
    for (keys, key) in [
        ("command: [a, \"${INTERLOCK_UNSET}\"]", "command"),
        ("command: [a], env: { B: \"${INTERLOCK_UNSET}\" }", "env"),
        ("command: [a], env_from: [INTERLOCK_UNSET]", "env_from"),
        ("command: [a], cwd: \"${INTERLOCK_UNSET}\"", "cwd"),
    ] {
        let error = tool(keys);
        let wanted = format!("`{key}` of tool `t` needs the variable `INTERLOCK_UNSET`");
        assert!(error.starts_with(&wanted), "{error}");
    }
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

#[cfg(target_os = "linux")]
#[tokio::test]
async fn at_the_deadline_what_moved_to_a_session_of_its_own_dies_too() {
    deadline(&format!("setsid sh -c '{HOLD}' & sleep 1000")).await;
}

/// Takes a running call back, and gives the state that this leads to.
async fn taken_back(script: &str, clock: &Arc<ManualClock>, grace: Duration) -> String {
    let stage = Stage::new();
    stage.pipe("never");
    let mut held = stage.listen("held");
    let server = server(stage.folder(), &["sh", "-c", script], clock);
    let (mut client, _connection) = connect(&server);
    client.initialize().await;
    let call = client
        .begin("tools/call", json!({"name": "run", "arguments": {}}))
        .await;
    assert_eq!(held.next().await.as_deref(), Some("ready"));
    let params = json!({"requestId": call});
    client.notify("notifications/cancelled", params).await;
    if !grace.is_zero() {
        assert_eq!(held.next().await.as_deref(), Some("asked"));
        clock.advance(grace);
    }
    assert_eq!(held.next().await, None, "nobody holds the pipe any more");
    // The instance is free once the step is taken.
    let (_, after) = client.call("run", json!({"again": true})).await;
    after["_meta"]["dev.interlock/workflow"]["state"].to_string()
}

/// Says its state the second time.
const AGAIN: &str = "read input; case $input in *again*) exit 1;; esac; ";

#[tokio::test]
async fn a_command_that_ends_when_it_is_asked_to_was_cancelled() {
    let script = format!("{AGAIN}{HOLD}");
    let state = taken_back(&script, &Arc::default(), Duration::ZERO).await;
    assert_eq!(state, "\"back\"");
}

#[tokio::test]
async fn of_a_command_that_has_to_be_killed_nobody_knows_what_it_did() {
    let script = format!(
        "{AGAIN}exec 3>held; trap 'echo asked >&3' TERM; echo ready >&3; \
         while :; do read line <never; done"
    );
    let state = taken_back(&script, &Arc::default(), Duration::from_secs(2)).await;
    assert_eq!(state, "\"lost\"");
}

#[tokio::test]
async fn the_exit_of_a_program_ends_its_call_though_something_holds_its_output() {
    let stage = Stage::new();
    let never = stage.pipe("never");
    let mut held = stage.listen("held");
    let script = format!("({HOLD}; echo late) & echo said");
    let mut client = client(stage.folder(), &["sh", "-c", &script]).await;
    let (_, result) = client.call("run", json!({})).await;
    assert_eq!(text_of(&result), "said");
    assert_eq!(held.next().await.as_deref(), Some("ready"), "it goes on");
    std::fs::write(never, "\n").unwrap();
    assert_eq!(held.next().await, None);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn what_commands_left_behind_ends_with_the_server() {
    let stage = Stage::new();
    stage.pipe("never");
    let mut held = stage.listen("held");
    let script = format!("setsid sh -c '{HOLD}' >/dev/null 2>&1 & echo started");
    let server = server(stage.folder(), &["sh", "-c", &script], &Arc::default());
    let (mut client, connection) = connect(&server);
    client.initialize().await;
    let (_, result) = client.call("run", json!({})).await;
    assert_eq!(text_of(&result), "started");
    assert_eq!(held.next().await.as_deref(), Some("ready"));
    drop((client, server));
    drop(connection);
    assert_eq!(held.next().await, None, "nobody holds the pipe any more");
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
    assert_eq!(text_of(&result), "started");
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
        text_of(&result).contains("more than 1048576 bytes"),
        "{result}"
    );
    assert_eq!(held.next().await.as_deref(), Some("ready"));
    assert_eq!(held.next().await, None);
}

#[tokio::test]
async fn output_up_to_the_limit_is_whole() {
    let script = "yes | head -c 1048576";
    assert_eq!(
        text_of(&call(script, json!({})).await).len(),
        1024 * 1024 - 1
    );
}

#[tokio::test]
async fn a_flood_of_complaints_is_cut() {
    let result = call("yes | head -c 3000000 >&2; exit 1", json!({})).await;
    let text = text_of(&result);
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
        assert_eq!(
            text_of(&call(script, large.clone()).await),
            "done",
            "{script}"
        );
    }
    let failed = call("exit 7", large).await;
    assert_eq!(text_of(&failed), "exit status 7");
}

#[tokio::test]
async fn a_command_may_close_its_output_and_go_on_reading() {
    let script = "exec >&- 2>&-; n=$(wc -c); [ \"$n\" -gt 1000000 ] || exit 1";
    let result = call(script, json!({"large": "x".repeat(1 << 20)})).await;
    assert_eq!(result["isError"], false, "{result}");
}
