//! `interlock serve`, over real pipes.

use crate::{
    served::{Served, text},
    stage::{PATIENCE, Stage},
};
use serde_json::{Value, json};
use std::{
    io::{Read, Write},
    net::TcpStream,
    process::Stdio,
    time::{Duration, Instant},
};

/// `wait` says through the pipe `begun` that it runs, and ends with what comes through `gate`.
const FLOW: &str = r#"
interlock: 1
name: gates
tools:
  open: { description: Open, command: [echo, opened] }
  wait: { description: Wait, command: [sh, -c, "exec 3>begun; echo begun >&3; read line <gate; echo $line"] }
states:
  new: { initial: true, tools: { open: ready } }
  ready: { tools: { wait: { success: end } } }
  end: { terminal: true }
"#;

#[test]
fn calls_are_served_in_order_until_the_input_ends() {
    let stage = Stage::new().with("flow.yaml", FLOW);
    let mut served = Served::start(&stage, &["--stdio"]);
    let refused = served.call("wait");
    assert_eq!(refused["_meta"]["dev.interlock/refusal"]["code"], 1081);
    assert_eq!(text(&served.call("open")), "opened");
    let again = served.call("open");
    assert_eq!(again["_meta"]["dev.interlock/refusal"]["code"], 1081);
    assert_eq!(served.code(), Some(0));
}

#[test]
fn nothing_is_served_before_initialize_and_initialize_is_served_once() {
    let stage = Stage::new().with("flow.yaml", FLOW);
    let mut served = Served::spawn(&stage, &[]);
    // Neither of these is answered.
    served.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    served.send(&json!({"jsonrpc": "2.0", "id": 7, "result": {}}));
    for method in ["tools/list", "tools/call", "resources/read", "nonsense"] {
        let error = served.request(method, json!({}))["error"].take();
        assert_eq!(error["code"], -32602, "{method}: {error}");
        assert_eq!(error["data"]["refusal"]["code"], 1076, "{method}: {error}");
    }
    assert_eq!(served.request("ping", json!({}))["result"], json!({}));
    assert_eq!(served.initialize()["result"]["serverInfo"]["name"], "gates");
    assert_eq!(served.initialize()["error"]["code"], -32600);
    let tools = served.request("tools/list", json!({}));
    assert_eq!(tools["result"]["tools"][0]["name"], "open");
    let malformed = served.request("tools/call", json!({"name": 5}));
    assert_eq!(malformed["error"]["code"], -32602, "{malformed}");
    drop(served.stdin.take());
    assert_eq!(served.code(), Some(0));
}

#[test]
fn garbage_is_answered_and_survived() {
    let stage = Stage::new().with("flow.yaml", FLOW);
    let mut served = Served::start(&stage, &[]);
    let too_long = vec![b'x'; 17 * 1024 * 1024];
    for (line, code, refusal) in [
        (
            &b"{\"jsonrpc\":\"2.0\",\"id\":\"\xff\",\"method\":\"ping\"}"[..],
            -32700,
            1070,
        ),
        (&too_long, -32600, 1068),
        (&[b'['; 100_000], -32600, 1066),
        (br#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, -32600, 1066),
        (
            br#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
            -32600,
            1066,
        ),
        (b"{", -32700, 1066),
    ] {
        served.send_bytes(line);
        let error = served.next()["error"].take();
        assert_eq!(error["code"], code, "{error}");
        assert_eq!(error["data"]["refusal"]["code"], refusal, "{error}");
    }
    assert_eq!(text(&served.call("open")), "opened");
    drop(served.stdin.take());
    assert_eq!(served.code(), Some(0));
}

#[test]
fn a_thousand_requests_at_once_are_all_answered() {
    let stage = Stage::new().with("flow.yaml", FLOW);
    let mut served = Served::start(&stage, &[]);
    let ids: Vec<_> = (0..1_000)
        .map(|_| served.begin("tools/list", json!({})))
        .collect();
    for id in ids {
        assert_eq!(served.until(id)["result"]["tools"][0]["name"], "open");
    }
}

/// The server has no chance to do anything about its commands.
#[cfg(target_os = "linux")]
#[test]
fn no_command_outlives_a_server_that_is_killed() {
    let flow = FLOW.replace("[sh, -c, \"exec", "[setsid, sh, -c, \"exec");
    let stage = Stage::new().with("flow.yaml", &flow);
    let (begun, _gate) = (stage.listen("begun"), stage.pipe("gate"));
    let mut served = Served::start(&stage, &[]);
    served.call("open");
    served.begin_call("wait");
    assert_eq!(begun.next().as_deref(), Some("begun"));
    served.signal("-KILL");
    assert_eq!(begun.next(), None, "nobody holds the pipe any more");
}

#[test]
fn a_file_that_needs_what_the_environment_lacks_is_not_served() {
    let flow = FLOW.replace("[echo, opened]", "[echo, \"${INTERLOCK_UNSET}\"]");
    let stage = Stage::new().with("flow.yaml", &flow);
    let served = Served::spawn(&stage, &[]);
    served.logged("`command` of tool `open` needs the variable `INTERLOCK_UNSET`");
    assert_eq!(served.code(), Some(1));
}

#[test]
fn a_signal_lets_running_calls_end() {
    let stage = Stage::new().with("flow.yaml", FLOW);
    let (begun, gate) = (stage.listen("begun"), stage.pipe("gate"));
    let mut served = Served::start(&stage, &["--log", "info"]);
    served.call("open");
    let call = served.begin_call("wait");
    assert_eq!(begun.next().as_deref(), Some("begun"));

    served.terminate();
    served.logged("draining");
    std::fs::write(gate, "at last\n").unwrap();
    let answer = served.until(call);
    assert_eq!(text(&answer["result"]), "at last");
    // Its input is still open, so it ends for the signal alone.
    let stdin = served.stdin.take();
    assert_eq!(served.code(), Some(0));
    drop(stdin);
}

#[test]
fn the_end_of_input_lets_running_calls_end() {
    let stage = Stage::new().with("flow.yaml", FLOW);
    let (begun, gate) = (stage.listen("begun"), stage.pipe("gate"));
    let mut served = Served::start(&stage, &[]);
    served.call("open");
    let call = served.begin_call("wait");
    assert_eq!(begun.next().as_deref(), Some("begun"));
    served.stdin = None;
    std::fs::write(gate, "still here\n").unwrap();
    assert_eq!(text(&served.until(call)["result"]), "still here");
    assert_eq!(served.code(), Some(0));
}

/// Commands run in groups of their own, so no signal of a terminal reaches them but through us.
#[test]
fn whatever_ends_the_server_ends_what_it_runs_when_the_drain_time_is_over() {
    for signal in ["-TERM", "-INT", "-HUP", "-QUIT"] {
        let stage = Stage::new().with("flow.yaml", FLOW);
        let begun = stage.listen("begun");
        stage.pipe("gate");
        let mut served = Served::start(&stage, &["--drain-timeout", "50ms"]);
        served.call("open");
        let call = served.begin_call("wait");
        assert_eq!(begun.next().as_deref(), Some("begun"));
        served.signal(signal);
        let answer = served.until(call);
        let refusal = &answer["result"]["_meta"]["dev.interlock/refusal"];
        assert_eq!(refusal["code"], 1077, "{signal}: {answer}");
        assert_eq!(begun.next(), None, "{signal}: the command is gone");
        assert_eq!(served.code(), Some(0), "{signal}");
    }
}

#[test]
fn a_second_signal_ends_it_at_once_and_its_commands_too() {
    let stage = Stage::new().with("flow.yaml", FLOW);
    let begun = stage.listen("begun");
    stage.pipe("gate");
    let mut served = Served::start(&stage, &["--log", "info"]);
    served.call("open");
    served.begin_call("wait");
    assert_eq!(begun.next().as_deref(), Some("begun"));
    served.terminate();
    served.logged("draining");
    served.terminate();
    assert_eq!(begun.next(), None, "the command is gone");
    assert_eq!(served.code(), Some(1));
}

#[test]
fn the_tool_timeout_is_a_flag() {
    let stage = Stage::new().with("flow.yaml", FLOW);
    // Nobody opens the other end of the first pipe, so the command gets no further.
    stage.pipe("begun");
    let mut served = Served::start(&stage, &["--tool-timeout", "100ms"]);
    // The deadline may pass even before a fast command has ended.
    while text(&served.call("open")) != "opened" {}
    let late = served.call("wait");
    assert_eq!(late["_meta"]["dev.interlock/refusal"]["code"], 1069);
    assert_eq!(served.code(), Some(0));
}

#[test]
fn a_client_that_says_nothing_is_not_waited_for_longer_than_told() {
    let stage = Stage::new().with("flow.yaml", FLOW);
    let began = Instant::now();
    let mut child = stage
        .interlock(&["serve", "flow.yaml", "--initialize-timeout", "50ms"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    // Its input stays open all the while.
    let stdin = child.stdin.take();
    let status = child.wait().unwrap();
    assert!(began.elapsed() >= Duration::from_millis(50));
    assert!(began.elapsed() < PATIENCE);
    assert_eq!(status.code(), Some(0));
    drop(stdin);
}

#[test]
fn a_file_with_errors_is_not_served() {
    let stage = Stage::new().with("flow.yaml", "interlock: 1\nname: x\nstats: {}\n");
    let ended = stage.run(&["serve", "flow.yaml"]);
    assert_eq!((ended.code, &*ended.stdout), (Some(1), ""));
    assert!(
        ended
            .stderr
            .starts_with("flow.yaml:3:1: error[unknown-key]")
    );
}

#[test]
fn warnings_of_the_file_are_logged_once_with_their_place() {
    let lost = FLOW.to_owned() + "  lost: { tools: { open: end } }\n";
    let spare = lost.replace(
        "tools:\n  open",
        "tools:\n  spare: { description: S, command: [s] }\n  open",
    );
    let stage = Stage::new().with("flow.yaml", &spare);
    let ended = stage.run(&["serve", "flow.yaml"]);
    assert_eq!((ended.code, &*ended.stdout), (Some(0), ""));
    let lines: Vec<_> = ended.stderr.lines().collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(
        lines[0].contains("flow.yaml:5:3: warning[bound-nowhere]"),
        "{lines:?}"
    );
    assert!(lines[1].contains("warning[unreachable-state]"), "{lines:?}");
    let silent = stage.run(&["serve", "flow.yaml", "--log", "off"]);
    assert_eq!((silent.code, &*silent.stderr), (Some(0), ""));
}

/// One request on a connection of its own: the status line with the headers, and the body.
fn post(address: &str, headers: &str, message: &Value) -> (String, Value) {
    let body = message.to_string();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(
        stream,
        "POST /mcp HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nConnection: close\r\n\
         Content-Length: {}\r\n{headers}\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let body = serde_json::from_str(body).unwrap_or(Value::Null);
    (head.to_ascii_lowercase(), body)
}

#[test]
fn a_file_is_served_over_http_until_a_signal_comes() {
    let stage = Stage::new().with("flow.yaml", FLOW);
    let served = Served::spawn(&stage, &["--http", "127.0.0.1:0"]);
    let line = served.heard().unwrap();
    let url = line.strip_prefix("listening on http://").unwrap();
    let address = url.strip_suffix("/mcp").unwrap();
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "0"},
    }});
    let (head, answer) = post(address, "", &hello);
    assert!(head.starts_with("http/1.1 200"), "{head}");
    assert_eq!(answer["result"]["serverInfo"]["name"], "gates");
    let mut lines = head.lines();
    let session = lines.find_map(|line| line.strip_prefix("mcp-session-id: "));
    let session = format!("Mcp-Session-Id: {}\r\n", session.unwrap());

    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"});
    let (_, answer) = post(address, &session, &list);
    assert_eq!(answer["result"]["tools"][0]["name"], "open");
    let (head, _) = post(address, "Mcp-Session-Id: made-up\r\n", &list);
    assert!(head.starts_with("http/1.1 404"), "{head}");
    served.terminate();
    assert_eq!(served.code(), Some(0));
}

#[test]
fn an_address_that_is_none_is_said_so_and_what_to_write() {
    let stage = Stage::new().with("flow.yaml", FLOW);
    let ended = stage.run(&["serve", "flow.yaml", "--http", "localhost"]);
    assert_eq!((ended.code, &*ended.stdout), (Some(2), ""));
    assert!(ended.stderr.contains("write `localhost:8080`"), "{ended:?}");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let served = Served::spawn(&stage, &["--http", &taken]);
    served.logged(&format!("cannot listen on {taken}"));
    assert_eq!(served.code(), Some(1));
}

/// A signal that came right after the announcement used to end the server without a word.
#[test]
fn a_server_says_that_it_listens_once_all_is_checked_and_signals_are_heeded() {
    let stage = Stage::new().with("flow.yaml", FLOW);
    let bad = ["--http", "127.0.0.1:0", "--allow-host", "a b"];
    let ended = stage.run(&[&["serve", "flow.yaml"][..], &bad].concat());
    assert_eq!(ended.code, Some(1));
    assert!(!ended.stderr.contains("listening"), "{ended:?}");
    let served = Served::spawn(&stage, &["--http", "127.0.0.1:0", "--log", "info"]);
    served.logged("listening on http://127.0.0.1:");
    served.terminate();
    served.logged("draining");
    assert_eq!(served.code(), Some(0));
}

/// Over HTTP a session begins with `initialize`, so there is nothing to wait for.
#[test]
fn a_flag_that_means_nothing_over_http_is_refused_there() {
    let stage = Stage::new();
    let arguments = ["serve", "f.yaml", "--initialize-timeout", "5s"];
    let http = ["--http", "127.0.0.1:0"];
    let ended = stage.run(&[&arguments[..], &http].concat());
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.stderr.contains("cannot be used with"), "{ended:?}");
    // Without the other flag it is taken, and there is no such file.
    let ended = stage.run(&arguments);
    assert!(!ended.stderr.contains("cannot be used with"), "{ended:?}");
}
