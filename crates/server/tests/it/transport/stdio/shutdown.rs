//! How a connection ends: by its client, by a signal, or by accident.

use crate::support::{
    client::{answers, begin, nothing_comes},
    desk::{desk, desk_flow, desk_with, looped, state},
    ends::{Ends, ended, ends, send_line},
    held::{OnCancel, held},
    journal::entries,
    messages::{codes, hello, modern, refusal},
    tools::tool,
};
use interlock::{
    Rules, Server,
    store::MemoryStore,
    workflow::{Scope, Settings},
};
use interlock_testkit::{Client, ManualClock, PATIENCE, connect, soon};
use serde_json::json;
use std::{io, pin::Pin, sync::Arc, task::Poll, time::Duration};
use tokio::io::{AsyncRead, DuplexStream, ReadBuf};

const DRAIN: Duration = Duration::from_secs(30);

fn global() -> Settings {
    Settings {
        scope: Scope::Global,
        tool_timeout: 10 * DRAIN,
        ..Settings::default()
    }
}

#[tokio::test]
async fn a_client_that_leaves_while_nothing_runs_ends_the_server_at_once() {
    for greeted in [false, true] {
        let (mut client, connection) = connect(&desk(tool("work")).build().unwrap());
        if greeted {
            client.initialize().await;
            client.call("work", json!({})).await;
        }
        client.hang_up();
        assert_eq!(client.receive().await, None);
        connection.ended().await;
    }
}

#[tokio::test]
async fn a_call_that_runs_when_the_client_leaves_is_still_answered() {
    let (work, mut held) = held("work", OnCancel::Stops);
    let (mut client, connection) = connect(&desk(work).build().unwrap());
    client.initialize().await;
    let id = begin(&mut client, "work").await;
    held.started().await;
    client.hang_up();
    held.let_go(1);
    let (before, answer) = client.until(id).await;
    assert_eq!(before.len(), 3);
    assert_eq!(answer["result"]["content"][0]["text"], "done");
    assert_eq!(
        answer["result"]["_meta"]["dev.interlock/workflow"]["state"],
        "done"
    );
    assert_eq!(client.receive().await, None);
    connection.ended().await;
}

#[tokio::test]
async fn a_stateless_call_that_runs_when_the_client_leaves_is_still_answered() {
    let (search, mut held) = held("search", OnCancel::GoesOn);
    let server = Server::builder("plain", "0").tool(search).build().unwrap();
    let (mut client, connection) = connect(&server);
    let params = modern(json!({"name": "search"}));
    let id = client.begin("tools/call", params).await;
    held.started().await;
    client.hang_up();
    held.let_go(1);
    let (_, answer) = client.until(id).await;
    assert_eq!(answer["result"]["content"][0]["text"], "done");
    assert_eq!(client.receive().await, None);
    connection.ended().await;
}

#[tokio::test]
async fn a_server_that_is_told_to_stop_and_has_nothing_to_do_ends_at_once() {
    let (mut client, mut connection) = connect(&desk(tool("work")).build().unwrap());
    client.initialize().await;
    connection.drain();
    assert_eq!(client.receive().await, None);
    connection.ended().await;
}

/// Tells the server to stop, and waits until it has heard it.
async fn drain(client: &mut Client, connection: &mut interlock_testkit::Connection) {
    connection.drain();
    while client
        .request("ping", json!({}))
        .await
        .get("error")
        .is_none()
    {}
}

#[tokio::test]
async fn a_draining_server_takes_nothing_new_and_lets_run_what_runs() {
    let (work, mut held) = held("work", OnCancel::Stops);
    let (mut client, mut connection) = connect(&desk(work).build().unwrap());
    client.initialize().await;
    let id = begin(&mut client, "work").await;
    held.started().await;
    drain(&mut client, &mut connection).await;
    for (method, params) in [
        ("ping", json!({})),
        ("tools/list", json!({})),
        ("resources/read", json!({"uri": "note://rules"})),
        ("tools/list", modern(json!({}))),
        ("server/discover", modern(json!({}))),
        ("initialize", hello("2025-11-25")),
        ("nobody/knows", json!({})),
    ] {
        let answer = client.request(method, params).await;
        assert_eq!(codes(&answer), (-32603, 1077), "{method}: {answer}");
    }
    held.let_go(1);
    let (_, answer) = client.until(id).await;
    assert_eq!(answer["result"]["content"][0]["text"], "done");
    assert_eq!(client.receive().await, None);
    connection.ended().await;
}

/// Refusals that are the server's own doing reach a model only inside a tool's result.
#[tokio::test]
async fn a_draining_server_refuses_tools_in_their_results() {
    let (work, mut held) = held("work", OnCancel::Stops);
    let (mut client, mut connection) = connect(&desk(work).build().unwrap());
    client.initialize().await;
    begin(&mut client, "work").await;
    held.started().await;
    drain(&mut client, &mut connection).await;
    let answer = client.request("tools/call", json!({"name": "peek"})).await;
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    assert_eq!(refusal(&answer["result"]), 1077, "{answer}");
}

#[tokio::test]
async fn a_call_can_be_taken_back_while_the_server_drains() {
    let (work, mut held) = held("work", OnCancel::Stops);
    let (mut client, mut connection) = connect(&desk(work).build().unwrap());
    client.initialize().await;
    let id = begin(&mut client, "work").await;
    held.started().await;
    drain(&mut client, &mut connection).await;
    client
        .notify("notifications/cancelled", json!({"requestId": id}))
        .await;
    held.stopped().await;
    while let Some(message) = client.receive().await {
        assert!(message.get("method").is_some(), "{message}");
    }
    connection.ended().await;
}

#[tokio::test]
async fn at_the_drain_deadline_what_runs_is_torn_down_answered_and_unknown() {
    let clock = Arc::new(ManualClock::new());
    let store = MemoryStore::default();
    let (work, mut held) = held("work", OnCancel::GoesOn);
    let server = desk_with(global(), work)
        .clock(clock.clone())
        .store(Arc::new(store.clone()))
        .build()
        .unwrap();
    let (mut witness, _other) = connect(&server);
    witness.initialize().await;
    let (mut client, mut connection) = connect(&server);
    client.initialize().await;
    let id = begin(&mut client, "work").await;
    held.started().await;
    drain(&mut client, &mut connection).await;
    clock.advance(DRAIN - Duration::from_millis(1));
    let answer = client.request("ping", json!({})).await;
    assert_eq!(codes(&answer), (-32603, 1077), "{answer}");
    clock.advance(Duration::from_millis(1));

    let (_, answer) = client.until(id).await;
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    assert_eq!(refusal(&answer["result"]), 1077, "{answer}");
    assert_eq!(client.receive().await, None);
    connection.ended().await;

    for kind in ["tools", "resources", "prompts"] {
        let told = witness.receive().await.unwrap();
        assert_eq!(told["method"], format!("notifications/{kind}/list_changed"));
    }
    assert_eq!(state(&mut witness).await, "unclear");
    let instance = &answer["result"]["_meta"]["dev.interlock/workflow"]["instance"];
    let journal = entries(&store, instance.as_str().unwrap()).await;
    let steps: Vec<_> = journal
        .iter()
        .filter(|entry| entry["what"] == "step")
        .collect();
    assert_eq!(steps.len(), 1, "{journal:?}");
    assert_eq!(steps[0]["outcome"], "unknown");
    assert_eq!(steps[0]["to"], "unclear");
    let (_, closed) = witness.call("close", json!({})).await;
    assert_eq!(closed["isError"], false, "{closed}");
}

/// Tearing down the call that runs makes room for the one that waits, at the very moment at which
/// both are told that the server waits no longer.
#[tokio::test]
async fn a_call_that_waits_for_its_turn_at_the_drain_deadline_never_runs() {
    // Which of the two is told first is up to the runtime.
    for _ in 0..30 {
        drain_while_one_waits().await;
    }
}

async fn drain_while_one_waits() {
    let clock = Arc::new(ManualClock::new());
    let (work, mut work_held) = held("work", OnCancel::GoesOn);
    let (other, mut other_held) = held("other", OnCancel::GoesOn);
    let server = looped(work, other)
        .clock(clock.clone())
        .tool_timeout(10 * DRAIN)
        .queue_timeout(10 * DRAIN)
        .build()
        .unwrap();
    let (mut client, mut connection) = connect(&server);
    client.initialize().await;
    let first = client.begin("tools/call", json!({"name": "other"})).await;
    other_held.started().await;
    let second = begin(&mut client, "work").await;
    nothing_comes(&mut client).await;
    drain(&mut client, &mut connection).await;
    clock.advance(DRAIN);
    let (_, all) = answers(&mut client, 2).await;
    for (answer, id) in all.iter().zip([first, second]) {
        assert_eq!(answer["id"], id);
        assert_eq!(refusal(&answer["result"]), 1077, "{answer}");
    }
    connection.ended().await;
    assert!(work_held.is_quiet(), "the one that waited has run");
}

#[tokio::test]
async fn a_lost_peer_cancels_stateless_calls_and_no_others() {
    let (work, mut work_held) = held("work", OnCancel::Stops);
    let (search, mut search_held) = held("search", OnCancel::Stops);
    let server = desk_with_search(work, search);
    let (mut witness, _connection) = connect(&server);
    witness.initialize().await;

    let Ends {
        mut to_server,
        from_server,
        task,
    } = ends(&server);
    for message in [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello("2025-11-25")}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "work"}}),
        json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": modern(json!({"name": "search"}))}),
    ] {
        send_line(&mut to_server, &message).await;
    }
    work_held.started().await;
    search_held.started().await;
    drop(from_server);
    let ping = json!({"jsonrpc": "2.0", "id": 4, "method": "ping"});
    send_line(&mut to_server, &ping).await;
    // Now the server has found out that nobody reads.
    search_held.stopped().await;
    nothing_comes(&mut witness).await;
    assert_eq!(state(&mut witness).await, "open");
    work_held.let_go(1);
    for kind in ["tools", "resources", "prompts"] {
        let told = witness.receive().await.unwrap();
        assert_eq!(told["method"], format!("notifications/{kind}/list_changed"));
    }
    assert_eq!(state(&mut witness).await, "done");
    ended(task).await;
}

/// How a client is lost.
#[derive(Clone, Copy, Debug)]
enum Lost {
    /// It reads no more, which the server learns as soon as it writes.
    ReadsNoMore,
    /// Both its pipes are gone, and the server sees the end of what it reads.
    BothPipes,
}

/// A step of 2026-07-28 whose client is lost in the middle of it ends like this, and whoever comes
/// next finds the instance there.
async fn a_lost_step_ends(lost: Lost, on_cancel: OnCancel, outcome: &str, place: &str) {
    let (clock, store) = (Arc::new(ManualClock::new()), MemoryStore::default());
    let (work, mut held) = held("work", on_cancel);
    let server = desk_with(global(), work)
        .clock(clock.clone())
        .store(Arc::new(store.clone()))
        .build()
        .unwrap();
    let (mut witness, _connection) = connect(&server);
    witness.initialize().await;
    let Ends {
        mut to_server,
        from_server,
        task,
    } = ends(&server);
    let params = modern(json!({"name": "work"}));
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    send_line(&mut to_server, &call).await;
    held.started().await;
    drop(from_server);
    let to_server = match lost {
        Lost::BothPipes => {
            drop(to_server);
            None
        }
        Lost::ReadsNoMore => {
            let ping = json!({"jsonrpc": "2.0", "id": 2, "method": "ping"});
            send_line(&mut to_server, &ping).await;
            Some(to_server)
        }
    };
    if outcome == "cancelled" {
        // No time passes.
        held.stopped().await;
    }
    let operator = server.operator();
    let moved = async {
        while operator.show("global:desk").await.unwrap().summary.state == "open" {
            if outcome == "unknown" {
                clock.advance(Duration::from_secs(1));
            }
            witness.exchange("ping", json!({})).await;
        }
    };
    soon("the step must be taken", moved).await;
    drop(to_server);
    ended(task).await;

    let journal = entries(&store, "global:desk").await;
    let steps = journal.iter().filter(|entry| entry["what"] == "step");
    let [step] = steps.collect::<Vec<_>>()[..] else {
        panic!("{lost:?}: {journal:?}");
    };
    let told = ["name", "outcome", "from", "to"].map(|part| step[part].as_str().unwrap());
    assert_eq!(told, ["work", outcome, "open", place], "{lost:?}");
    let (mut next, _next) = connect(&server);
    let params = modern(json!({"name": "close"}));
    let closed = next.request("tools/call", params).await["result"].take();
    assert_eq!(closed["isError"], false, "{lost:?}: {closed}");
    let place = &closed["_meta"]["dev.interlock/workflow"]["state"];
    assert_eq!(place, "open", "{lost:?}: {closed}");
}

/// See `flow_harm.rs` for the same over HTTP.
#[tokio::test]
async fn a_stateless_step_whose_client_reads_no_more_is_cancelled_or_unknown_if_torn_down() {
    let lost = Lost::ReadsNoMore;
    a_lost_step_ends(lost, OnCancel::Stops, "cancelled", "back").await;
    a_lost_step_ends(lost, OnCancel::GoesOn, "unknown", "unclear").await;
}

/// The end of what it reads is all that a server sees if it has nothing to write, and a client that
/// only closes that may still wait for its answer. So the call may end until the drain deadline.
#[tokio::test]
async fn a_stateless_step_whose_client_drops_both_pipes_is_unknown_at_the_drain_deadline() {
    let lost = Lost::BothPipes;
    a_lost_step_ends(lost, OnCancel::Stops, "unknown", "unclear").await;
    a_lost_step_ends(lost, OnCancel::GoesOn, "unknown", "unclear").await;
}

fn desk_with_search(work: interlock::Tool, search: interlock::Tool) -> Server {
    Server::builder("desk", "0")
        .tool(work)
        .tool(search)
        .tool(tool("peek"))
        .tool(tool("close"))
        .tool(tool("nowhere"))
        .resource(interlock::Resource::text("note://rules", ""))
        .prompt(interlock::Prompt::text("sorry", ""))
        .workflow(desk_flow(global()))
        .build()
        .unwrap()
}

#[tokio::test]
async fn the_two_ends_of_a_lost_connection_may_go_at_once() {
    let (work, mut held) = held("work", OnCancel::Stops);
    let server = desk_with(global(), work).build().unwrap();
    let (mut witness, _connection) = connect(&server);
    witness.initialize().await;
    let Ends {
        mut to_server,
        from_server,
        task,
    } = ends(&server);
    for message in [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello("2025-11-25")}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "work"}}),
    ] {
        send_line(&mut to_server, &message).await;
    }
    held.started().await;
    drop((to_server, from_server));
    held.let_go(1);
    ended(task).await;
    while witness.receive().await.unwrap()["method"] != "notifications/prompts/list_changed" {}
    assert_eq!(state(&mut witness).await, "done");
}

/// A stream that fails where another one would end.
struct Failing(DuplexStream);

impl AsyncRead for Failing {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = std::task::ready!(Pin::new(&mut self.0).poll_read(context, buffer));
        let at_end = buffer.filled().len() == before;
        Poll::Ready(read.and_then(|()| match at_end {
            true => Err(io::ErrorKind::ConnectionReset.into()),
            false => Ok(()),
        }))
    }
}

/// A connection that breaks is lost, and on 2025 versions a call goes on without it.
#[tokio::test]
async fn a_call_goes_on_when_reading_fails() {
    let (work, mut held) = held("work", OnCancel::Stops);
    let server = desk_with(global(), work).build().unwrap();
    let (mut witness, _connection) = connect(&server);
    witness.initialize().await;
    let (mut to_server, reader) = tokio::io::duplex(64 * 1024);
    let (writer, _from_server) = tokio::io::duplex(64 * 1024);
    let task = tokio::spawn({
        let server = server.clone();
        async move {
            let never = std::future::pending();
            server.serve(Failing(reader), writer, never).await
        }
    });
    for message in [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello("2025-11-25")}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "work"}}),
    ] {
        send_line(&mut to_server, &message).await;
    }
    held.started().await;
    drop(to_server);
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    held.let_go(1);
    // Whether the server calls that a failure is its own affair.
    let _ = tokio::time::timeout(PATIENCE, task).await.unwrap().unwrap();
    nothing_but_list_changes(&mut witness).await;
    assert_eq!(state(&mut witness).await, "done");
}

async fn nothing_but_list_changes(client: &mut Client) {
    let (before, _) = client.exchange("ping", json!({})).await;
    for message in before {
        assert!(
            message["method"]
                .as_str()
                .unwrap()
                .ends_with("/list_changed"),
            "{message}"
        );
    }
}

#[tokio::test]
async fn an_instance_of_a_session_is_gone_with_its_client() {
    let server = desk(tool("work")).build().unwrap();
    let (mut client, connection) = connect(&server);
    client.initialize().await;
    client.call("work", json!({})).await;
    client.hang_up();
    connection.ended().await;
    let (mut client, _connection) = connect(&server);
    client.initialize().await;
    assert_eq!(state(&mut client).await, "open");
}

#[tokio::test]
async fn a_connection_that_is_idle_for_longer_than_its_rules_allow_is_closed() {
    let clock = Arc::new(ManualClock::new());
    let idle = Duration::from_secs(60);
    let rules = Rules {
        idle: Some(idle),
        ..Rules::default()
    };
    let server = desk(tool("work")).clock(clock.clone()).connections(rules);
    let (mut client, connection) = connect(&server.build().unwrap());
    client.initialize().await;
    for _ in 0..3 {
        clock.advance(idle - Duration::from_millis(1));
        client.request("ping", json!({})).await;
    }
    clock.advance(idle);
    assert_eq!(client.receive().await, None);
    connection.ended().await;
}
