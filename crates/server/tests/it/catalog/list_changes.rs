//! Who is told that a list has changed, and what calls of one instance do to each other.

use crate::support::{
    client::nothing_comes,
    desk::{desk_with, global, state},
    held::{OnCancel, held},
    messages::{codes, hello, refusal},
    tools::tool,
};
use interlock::{
    Builder, Prompt, Resource, Server, Tool, Workflow,
    workflow::{Busy, Finish, Settings, Visibility, end},
};
use interlock_testkit::{ManualClock, connect};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

/// Steps that change one list, another, two, and none.
fn kinds(settings: Settings) -> Server {
    let flow = Workflow::builder("kinds")
        .settings(settings)
        .state("a", |s| {
            s.initial()
                .tool("t", |t| t.success("b"))
                .resource("r://1", |r| r.success("a"))
                .prompt("p", |p| p.success("a"))
        })
        // The same tools and prompts, other resources.
        .state("b", |s| {
            s.tool("t", |t| t.success("c"))
                .resource("r://2", |r| r.success("b"))
                .prompt("p", |p| p.success("b"))
        })
        // The same tools and resources, no prompts.
        .state("c", |s| {
            s.tool("t", |t| t.success("d"))
                .resource("r://2", |r| r.success("c"))
        })
        // The same as before.
        .state("d", |s| {
            s.tool("t", |t| t.success("e"))
                .resource("r://2", |r| r.success("d"))
        })
        // Two differ.
        .state("e", |s| {
            s.tool("u", |t| t.success(end("a")))
                .resource("r://1", |r| r.success("e"))
        })
        .build()
        .unwrap();
    Server::builder("kinds", "0")
        .tool(tool("t"))
        .tool(tool("u"))
        .tool(tool("nowhere"))
        .resource(Resource::text("r://1", "one"))
        .resource(Resource::text("r://2", "two"))
        .prompt(Prompt::text("p", "please"))
        .workflow(flow)
        .build()
        .unwrap()
}

const STEPS: [(&str, &[&str], &str); 5] = [
    ("t", &["resources"], "b"),
    ("t", &["prompts"], "c"),
    ("t", &[], "d"),
    ("t", &["tools", "resources"], "e"),
    ("u", &["tools", "prompts"], "a"),
];

fn told(kinds: &[&str]) -> Vec<String> {
    kinds
        .iter()
        .map(|kind| format!("notifications/{kind}/list_changed"))
        .collect()
}

#[tokio::test]
async fn only_lists_that_differ_are_announced_and_before_the_result() {
    let (mut client, _connection) = connect(&kinds(Settings::default()));
    client.initialize().await;
    for (tool, kinds, after) in STEPS {
        let (before, result) = client.call(tool, json!({})).await;
        assert_eq!(before, told(kinds), "to {after}");
        assert_eq!(result["_meta"]["dev.interlock/workflow"]["state"], after);
        nothing_comes(&mut client).await;
    }
}

#[tokio::test]
async fn another_client_of_the_instance_is_told_once_and_the_caller_once() {
    let server = kinds(global());
    let (mut caller, _caller) = connect(&server);
    let (mut other, _other) = connect(&server);
    let (mut third, _third) = connect(&server);
    caller.initialize().await;
    other.initialize().await;
    third.initialize().await;
    for client in [&mut caller, &mut other, &mut third] {
        nothing_comes(client).await;
    }
    for (tool, kinds, after) in STEPS {
        let (before, _) = caller.call(tool, json!({})).await;
        assert_eq!(before, told(kinds));
        for client in [&mut other, &mut third] {
            for expected in told(kinds) {
                let message = client.receive().await.unwrap();
                assert_eq!(message["method"], expected, "to {after}: {message}");
                assert_eq!(message.get("id"), None);
            }
            nothing_comes(client).await;
            assert_eq!(state(client).await, after);
        }
        nothing_comes(&mut caller).await;
    }
}

#[tokio::test]
async fn a_client_that_has_not_said_hello_is_not_told() {
    let server = kinds(global());
    let (mut caller, _caller) = connect(&server);
    let (mut early, _early) = connect(&server);
    caller.initialize().await;
    nothing_comes(&mut early).await;
    caller.call("t", json!({})).await;
    nothing_comes(&mut early).await;
    early.initialize().await;
    nothing_comes(&mut early).await;
    assert_eq!(state(&mut early).await, "b");
}

/// Requests between `initialize` and `initialized` are served, so such a client may have seen a
/// list that changes before it is ready to be told. It must hear of it then.
#[tokio::test]
async fn a_client_that_is_not_ready_yet_is_told_once_it_is() {
    let server = kinds(global());
    let (mut caller, _caller) = connect(&server);
    let (mut early, _early) = connect(&server);
    caller.initialize().await;
    early.request("initialize", hello("2025-11-25")).await;
    early.request("resources/list", json!({})).await;
    caller.call("t", json!({})).await;
    // Whether it is told now or later: it must be told.
    early.notify("notifications/initialized", json!({})).await;
    let (before, _) = early.exchange("ping", json!({})).await;
    let methods: Vec<_> = before.iter().map(|message| &message["method"]).collect();
    assert_eq!(methods, ["notifications/resources/list_changed"]);
}

#[tokio::test]
async fn static_lists_hold_everything_and_are_never_announced_but_the_gate_still_refuses() {
    let settings = Settings {
        visibility: Visibility::Static,
        ..Settings::default()
    };
    let (mut client, _connection) = connect(&kinds(settings));
    let hello = client.initialize().await;
    // No step changes a list. Whoever runs the server may, by adding or removing something.
    let capabilities = &hello["result"]["capabilities"];
    for (kind, advertised) in [
        ("tools", json!({"listChanged": true})),
        ("resources", json!({"listChanged": true, "subscribe": true})),
        ("prompts", json!({"listChanged": true})),
    ] {
        assert_eq!(capabilities[kind], advertised, "{kind}");
    }
    for (tool, _, after) in STEPS {
        assert_eq!(client.tools().await, ["t", "u", "nowhere"]);
        for (list, name, all) in [
            ("resources", "uri", &["r://1", "r://2"][..]),
            ("prompts", "name", &["p"]),
        ] {
            let answer = client.request(&format!("{list}/list"), json!({})).await;
            let listed = answer["result"][list].as_array().unwrap().iter();
            let listed: Vec<_> = listed.map(|one| one[name].as_str().unwrap()).collect();
            assert_eq!(listed, all, "in the state before {after}");
        }
        let other = if tool == "t" { "u" } else { "t" };
        let (_, result) = client.call(other, json!({})).await;
        assert_eq!(refusal(&result), 1081, "{result}");
        let (before, result) = client.call(tool, json!({})).await;
        assert_eq!(before, [] as [&str; 0]);
        assert_eq!(result["_meta"]["dev.interlock/workflow"]["state"], after);
    }
}

#[tokio::test]
async fn a_finished_instance_stays_finished() {
    let settings = Settings {
        finish: Finish::Stay,
        ..Settings::default()
    };
    let server = desk_with(settings, tool("work")).build().unwrap();
    let (mut client, _connection) = connect(&server);
    client.initialize().await;
    client.call("work", json!({})).await;
    let (before, result) = client.call("close", json!({})).await;
    assert_eq!(before, told(&["tools"]));
    assert_eq!(result["content"][0]["text"], "close is done");
    assert_eq!(result["_meta"]["dev.interlock/workflow"]["next"], json!([]));
    assert_eq!(client.tools().await, ["search"]);
    for (method, list) in [("resources/list", "resources"), ("prompts/list", "prompts")] {
        let answer = client.request(method, json!({})).await;
        assert_eq!(answer["result"][list], json!([]));
    }
    for tool in ["work", "close", "peek", "nowhere"] {
        let (before, result) = client.call(tool, json!({})).await;
        assert_eq!(before, [] as [&str; 0]);
        assert_eq!(result["isError"], true);
        assert_eq!(refusal(&result), 1085, "{tool}: {result}");
    }
    let answer = client
        .request("resources/read", json!({"uri": "note://rules"}))
        .await;
    assert_eq!(codes(&answer), (-32602, 1085), "{answer}");
    let params = json!({"name": "sorry", "arguments": {"who": "me"}});
    let answer = client.request("prompts/get", params).await;
    assert_eq!(codes(&answer), (-32602, 1085), "{answer}");
    let (_, result) = client.call("search", json!({})).await;
    assert_eq!(result["content"][0]["text"], "search is done");
}

#[tokio::test]
async fn a_busy_instance_refuses_if_it_is_told_to() {
    let settings = Settings {
        busy: Busy::Refuse,
        ..Settings::default()
    };
    let (work, mut held) = held("work", OnCancel::GoesOn);
    let (mut client, _connection) = connect(&desk_with(settings, work).build().unwrap());
    client.initialize().await;
    let first = client.begin("tools/call", json!({"name": "work"})).await;
    held.started().await;
    let (before, result) = client.call("work", json!({})).await;
    assert_eq!(before, [] as [&str; 0]);
    assert_eq!(result["isError"], true);
    assert_eq!(refusal(&result), 1084, "{result}");
    for free in ["peek", "search"] {
        let (_, result) = client.call(free, json!({})).await;
        assert_eq!(result["content"][0]["text"], format!("{free} is done"));
    }
    held.let_go(1);
    let (_, answer) = client.until(first).await;
    assert_eq!(answer["result"]["content"][0]["text"], "done");
    assert!(held.is_quiet());
    let (_, result) = client.call("close", json!({})).await;
    assert_eq!(result["content"][0]["text"], "close is done");
}

/// `slow` and `fast` lead to different states, and `fast` comes while `slow` runs.
fn race(slow: Tool, settings: Settings) -> Builder {
    let flow = Workflow::builder("race")
        .settings(settings)
        .state("s0", |s| {
            s.initial()
                .tool("slow", |t| t.success("sSlow"))
                .tool("fast", |t| t.success("s1"))
                .tool("peek", |t| t.success("s0"))
        })
        .state("s1", |s| s.tool("only1", |t| t.success(end("s0"))))
        .state("sSlow", |s| s.tool("only1", |t| t.success(end("s0"))))
        .always_tool("search")
        .build()
        .unwrap();
    ["fast", "peek", "only1", "search", "nowhere"]
        .into_iter()
        .fold(Server::builder("race", "0").tool(slow), |server, name| {
            server.tool(tool(name))
        })
        .workflow(flow)
}

#[tokio::test]
async fn a_call_that_can_move_waits_for_the_one_before_it_and_is_judged_again() {
    let (slow, mut held) = held("slow", OnCancel::GoesOn);
    let (mut client, _connection) = connect(&race(slow, Settings::default()).build().unwrap());
    client.initialize().await;
    let first = client.begin("tools/call", json!({"name": "slow"})).await;
    held.started().await;
    let second = client.begin("tools/call", json!({"name": "fast"})).await;
    nothing_comes(&mut client).await;
    // What cannot move runs beside it.
    for free in ["peek", "search"] {
        let (_, result) = client.call(free, json!({})).await;
        assert_eq!(result["content"][0]["text"], format!("{free} is done"));
    }
    assert_eq!(state(&mut client).await, "s0");
    held.let_go(1);
    let (before, answer) = client.until(first).await;
    assert_eq!(before.len(), 1);
    assert_eq!(
        answer["result"]["_meta"]["dev.interlock/workflow"]["state"],
        "sSlow"
    );
    let (before, answer) = client.until(second).await;
    assert_eq!(before, [] as [Value; 0]);
    assert_eq!(refusal(&answer["result"]), 1081, "{answer}");
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("'sSlow'"), "{text}");
    assert_eq!(state(&mut client).await, "sSlow");
}

#[tokio::test]
async fn a_call_that_waits_holds_nobody_else_up_across_clients() {
    let (slow, mut held) = held("slow", OnCancel::GoesOn);
    let server = race(slow, global()).build().unwrap();
    let (mut one, _one) = connect(&server);
    let (mut two, two_connection) = connect(&server);
    one.initialize().await;
    two.initialize().await;
    let first = one.begin("tools/call", json!({"name": "slow"})).await;
    held.started().await;
    let second = two.begin("tools/call", json!({"name": "fast"})).await;
    nothing_comes(&mut two).await;
    let (_, result) = two.call("peek", json!({})).await;
    assert_eq!(result["content"][0]["text"], "peek is done");
    held.let_go(1);
    one.until(first).await;
    let (before, answer) = two.until(second).await;
    assert_eq!(refusal(&answer["result"]), 1081, "{answer}");
    let message = match before.into_iter().next() {
        Some(message) => message,
        None => two.receive().await.unwrap(),
    };
    assert_eq!(message["method"], "notifications/tools/list_changed");
    nothing_comes(&mut two).await;
    two.hang_up();
    two_connection.ended().await;
    nothing_comes(&mut one).await;
}

/// The waiting client takes its call back and leaves; its turn goes to the next one.
#[tokio::test]
async fn a_client_that_leaves_while_it_waits_does_not_keep_its_turn() {
    let clock = Arc::new(ManualClock::new());
    let (slow, mut held) = held("slow", OnCancel::GoesOn);
    let slow = slow.timeout(Duration::from_secs(10));
    let server = race(slow, global()).clock(clock.clone()).build().unwrap();
    let (mut one, _one) = connect(&server);
    let (mut two, two_connection) = connect(&server);
    let (mut three, _three) = connect(&server);
    for client in [&mut one, &mut two, &mut three] {
        client.initialize().await;
    }
    let first = one.begin("tools/call", json!({"name": "slow"})).await;
    held.started().await;
    let second = two.begin("tools/call", json!({"name": "fast"})).await;
    nothing_comes(&mut two).await;
    let params = json!({"requestId": second});
    two.notify("notifications/cancelled", params).await;
    two.hang_up();
    assert_eq!(two.receive().await, None);
    two_connection.ended().await;
    let third = three.begin("tools/call", json!({"name": "slow"})).await;
    nothing_comes(&mut three).await;
    clock.advance(Duration::from_secs(10));
    let (_, answer) = one.until(first).await;
    assert_eq!(refusal(&answer["result"]), 1069);
    // The timeout of `slow` stays where it was, so the third gets its turn and runs.
    held.started().await;
    held.let_go(1);
    let (_, answer) = three.until(third).await;
    assert_eq!(answer["result"]["content"][0]["text"], "done", "{answer}");
}

/// A binding that stays has to take its turn if any of its outcomes could move.
#[tokio::test]
async fn a_binding_that_might_move_takes_its_turn() {
    let flow = Workflow::builder("w")
        .state("s", |s| {
            s.initial()
                .tool("slow", |t| t.success("s").unknown(end("s")))
                .tool("fast", |t| t.success("s").unknown(end("s")))
                .tool("stop", |t| t.success(end("s")))
        })
        .build()
        .unwrap();
    let (slow, mut held) = held("slow", OnCancel::GoesOn);
    let server = Server::builder("s", "0")
        .tool(slow)
        .tool(tool("fast"))
        .tool(tool("stop"))
        .workflow(flow)
        .build()
        .unwrap();
    let (mut client, _connection) = connect(&server);
    client.initialize().await;
    let first = client.begin("tools/call", json!({"name": "slow"})).await;
    held.started().await;
    let second = client.begin("tools/call", json!({"name": "fast"})).await;
    nothing_comes(&mut client).await;
    held.let_go(1);
    client.until(first).await;
    client.until(second).await;
}

#[tokio::test]
async fn calls_that_cannot_move_run_side_by_side() {
    let (search, mut held) = held("search", OnCancel::GoesOn);
    let flow = Workflow::builder("w")
        .state("s", |s| {
            s.initial()
                .tool("search", |t| t.success("s"))
                .tool("stop", |t| t.success(end("s")))
        })
        .build()
        .unwrap();
    let server = Server::builder("s", "0")
        .tool(search)
        .tool(tool("stop"))
        .workflow(flow)
        .build()
        .unwrap();
    let (mut client, _connection) = connect(&server);
    client.initialize().await;
    for _ in 0..10 {
        client.begin("tools/call", json!({"name": "search"})).await;
        held.started().await;
    }
    client.call("stop", json!({})).await;
    held.let_go(10);
    for _ in 0..10 {
        let answer = client.receive().await.unwrap();
        assert_eq!(answer["result"]["content"][0]["text"], "done");
    }
}
