//! Time that runs in a state: it is up once, whatever else happens.

use crate::support::{
    client::{answers, client_of, nothing_comes},
    desk::global,
    held::{OnCancel, held},
    journal::{entries, of_kind},
    messages::{at, refusal},
    tools::{echo, tool},
};
use interlock::{
    HttpOptions, Server, Workflow,
    store::MemoryStore,
    workflow::{Builder, Settings, end, to},
};
use interlock_testkit::{
    Client, ManualClock,
    web::{Request, Session, Site},
};
use serde_json::json;
use std::{sync::Arc, time::Duration};

const MINUTE: Duration = Duration::from_secs(60);
const CHANGED: &str = "notifications/tools/list_changed";

/// `go` leads to `open`, where time runs: after a minute it is `late`.
fn flow() -> Builder {
    Workflow::builder("w")
        .settings(global())
        .state("new", |s| s.initial().tool("go", |t| t.success("open")))
        .state("open", |s| {
            s.after(MINUTE, "late")
                .tool("work", |t| t.success("done"))
                .tool("stay", |t| t.success(to("open").set("n", "1")))
        })
        .state("done", |s| s.tool("end", |t| t.success(end("new"))))
        .state("late", |s| s.tool("end_late", |t| t.success(end("new"))))
}

fn served(flow: Builder, clock: &Arc<ManualClock>, store: &MemoryStore) -> interlock::Builder {
    Server::builder("s", "0")
        .tool(echo("go"))
        .tool(echo("stay"))
        .tool(echo("end"))
        .tool(echo("end_late"))
        .clock(clock.clone())
        .store(Arc::new(store.clone()))
        .tool_timeout(100 * MINUTE)
        .workflow(flow.build().unwrap())
}

fn server(clock: &Arc<ManualClock>, store: &MemoryStore) -> Server {
    served(flow(), clock, store)
        .tool(echo("work"))
        .build()
        .unwrap()
}

async fn told(client: &mut Client) {
    let message = client.receive().await.unwrap();
    assert_eq!(message["method"], CHANGED, "{message}");
}

/// Lets everybody else go on for a while.
async fn settle(client: &mut Client) {
    for _ in 0..20 {
        nothing_comes(client).await;
    }
}

#[tokio::test]
async fn a_state_whose_time_is_up_is_left_and_everybody_is_told() {
    let (clock, store) = (Arc::new(ManualClock::new()), MemoryStore::default());
    let server = server(&clock, &store);
    let (mut one, _one) = client_of(&server).await;
    let (mut two, _two) = client_of(&server).await;
    one.call("go", json!({})).await;
    told(&mut two).await;
    clock.advance(MINUTE - Duration::from_millis(1));
    settle(&mut one).await;
    assert_eq!(one.tools().await, ["work", "stay"]);
    clock.advance(Duration::from_millis(1));
    for client in [&mut one, &mut two] {
        told(client).await;
        assert_eq!(client.tools().await, ["end_late"]);
        nothing_comes(client).await;
    }
    let journal = entries(&store, "global:w").await;
    let timers = of_kind(&journal, "timer");
    assert_eq!(timers.len(), 1);
    assert_eq!(timers[0]["to"], "late");
    assert_eq!(timers[0]["at"], 1_060_000);
}

#[tokio::test]
async fn a_session_over_http_hears_on_its_stream_that_its_time_is_up() {
    let flow = flow().settings(Settings::default());
    let (clock, store) = (Arc::new(ManualClock::new()), MemoryStore::default());
    let server = served(flow, &clock, &store).tool(tool("work"));
    let site = Site::open(&server.build().unwrap(), HttpOptions::default()).await;
    let (session, other) = (Session::open(&site).await, Session::open(&site).await);
    session.call("go", json!({})).await;
    let mut stream = session.listen().await;
    clock.advance(MINUTE);
    let message = stream.message().await.unwrap();
    assert_eq!(message["method"], CHANGED, "{message}");
    let tools = session.request("tools/list", json!({})).await;
    assert_eq!(tools["result"]["tools"][0]["name"], "end_late", "{tools}");
    let tools = other.request("tools/list", json!({})).await;
    assert_eq!(tools["result"]["tools"][0]["name"], "go", "{tools}");
}

#[tokio::test]
async fn a_call_that_stays_does_not_start_the_time_again() {
    let (clock, store) = (Arc::new(ManualClock::new()), MemoryStore::default());
    let (mut client, _connection) = client_of(&server(&clock, &store)).await;
    client.call("go", json!({})).await;
    clock.advance(MINUTE / 2);
    client.call("stay", json!({})).await;
    clock.advance(MINUTE / 2);
    told(&mut client).await;
    assert_eq!(client.tools().await, ["end_late"]);
}

#[tokio::test]
async fn a_timer_that_leads_nowhere_fires_once_and_then_the_next() {
    let flow = Workflow::builder("w")
        .settings(global())
        .state("new", |s| {
            s.initial()
                .tool("go", |t| t.success(end("new")))
                .after(MINUTE, to("new").set("reminded", "visits"))
                .after(3 * MINUTE, "late")
        })
        .state("late", |s| s.tool("end_late", |t| t.success(end("new"))));
    let (clock, store) = (Arc::new(ManualClock::new()), MemoryStore::default());
    let server = served(flow, &clock, &store).build().unwrap();
    let (mut client, _connection) = client_of(&server).await;
    for _ in 0..2 {
        clock.advance(MINUTE);
        settle(&mut client).await;
    }
    let journal = entries(&store, "global:w").await;
    let timers = of_kind(&journal, "timer");
    assert_eq!(timers.len(), 1, "{journal:?}");
    assert_eq!(timers[0]["set"], json!({"reminded": 1}));
    clock.advance(MINUTE);
    told(&mut client).await;
    assert_eq!(client.tools().await, ["end_late"]);
}

/// Seen to fail with a timer that takes a turn of its own: it fires beside the call.
#[tokio::test]
async fn time_that_is_up_while_a_call_runs_waits_for_it_and_is_void_if_the_state_is_left() {
    let (clock, store) = (Arc::new(ManualClock::new()), MemoryStore::default());
    let (work, mut held) = held("work", OnCancel::GoesOn);
    let server = served(flow(), &clock, &store).tool(work).build().unwrap();
    let (mut client, _connection) = client_of(&server).await;
    client.call("go", json!({})).await;
    let id = client.begin("tools/call", json!({"name": "work"})).await;
    held.started().await;
    clock.advance(2 * MINUTE);
    settle(&mut client).await;
    held.let_go(1);
    let (_, answer) = client.until(id).await;
    assert_eq!(at(&answer["result"]), "done");
    settle(&mut client).await;
    assert_eq!(client.tools().await, ["end"]);
    let journal = entries(&store, "global:w").await;
    assert_eq!(of_kind(&journal, "timer").len(), 0, "{journal:?}");
    let last = *of_kind(&journal, "step").last().unwrap();
    assert_eq!(
        (&last["name"], &last["to"]),
        (&json!("work"), &json!("done"))
    );
    let (_, result) = client.call("end", json!({})).await;
    assert_eq!(at(&result), "new", "{result}");
}

#[tokio::test]
async fn time_that_is_up_while_a_call_runs_comes_after_it_if_the_state_is_not_left() {
    let flow = flow().state("open", |s| {
        s.tool("pause", |t| t.success(to("open").set("p", "1")))
    });
    let (clock, store) = (Arc::new(ManualClock::new()), MemoryStore::default());
    let (pause, mut held) = held("pause", OnCancel::GoesOn);
    let server = served(flow, &clock, &store).tool(pause).tool(tool("work"));
    let (mut client, _connection) = client_of(&server.build().unwrap()).await;
    client.call("go", json!({})).await;
    let id = client.begin("tools/call", json!({"name": "pause"})).await;
    held.started().await;
    clock.advance(2 * MINUTE);
    settle(&mut client).await;
    held.let_go(1);
    let (before, answer) = client.until(id).await;
    assert_eq!(answer["result"]["isError"], false);
    if before.is_empty() {
        told(&mut client).await;
    }
    assert_eq!(client.tools().await, ["end_late"]);
    let journal = entries(&store, "global:w").await;
    let steps: Vec<_> = journal.iter().map(|entry| &entry["what"]).collect();
    assert_eq!(steps, ["started", "step", "step", "timer"]);
    let (_, result) = client.call("end_late", json!({})).await;
    assert_eq!(at(&result), "new", "{result}");
}

/// A call that waits for its turn is judged on the state that time has led to.
#[tokio::test]
async fn a_call_that_waited_finds_the_state_that_time_has_led_to() {
    let flow = flow().state("open", |s| {
        s.tool("pause", |t| t.success(to("open").set("p", "1")))
    });
    let (clock, store) = (Arc::new(ManualClock::new()), MemoryStore::default());
    let (pause, mut held) = held("pause", OnCancel::GoesOn);
    let server = served(flow, &clock, &store)
        .queue_timeout(100 * MINUTE)
        .tool(pause)
        .tool(tool("work"));
    let (mut client, _connection) = client_of(&server.build().unwrap()).await;
    client.call("go", json!({})).await;
    client.begin("tools/call", json!({"name": "pause"})).await;
    held.started().await;
    client.begin("tools/call", json!({"name": "work"})).await;
    clock.advance(2 * MINUTE);
    held.let_go(1);
    let (_, all) = answers(&mut client, 2).await;
    assert_eq!(all[0]["result"]["isError"], false, "{all:?}");
    assert_eq!(*refusal(&all[1]["result"]), 1081, "{all:?}");
}

#[tokio::test]
async fn time_goes_on_while_no_server_runs() {
    let (clock, store) = (Arc::new(ManualClock::new()), MemoryStore::default());
    for (away, lists) in [
        (MINUTE / 2, vec!["work", "stay"]),
        (MINUTE, vec!["end_late"]),
    ] {
        let (mut client, connection) = client_of(&server(&clock, &store)).await;
        client.call("end_late", json!({})).await;
        client.call("go", json!({})).await;
        client.hang_up();
        connection.ended().await;
        clock.advance(away);
        let (mut client, connection) = client_of(&server(&clock, &store)).await;
        assert_eq!(client.tools().await, lists);
        if away < MINUTE {
            clock.advance(MINUTE - away);
            told(&mut client).await;
            assert_eq!(client.tools().await, ["end_late"]);
        }
        client.hang_up();
        connection.ended().await;
    }
}

#[tokio::test]
async fn time_runs_from_the_beginning_and_is_written_down_then() {
    let flow = || {
        Workflow::builder("w")
            .settings(global())
            .state("new", |s| {
                s.initial()
                    .tool("go", |t| t.success(end("new")))
                    .after(MINUTE, "late")
            })
            .state("late", |s| s.tool("end_late", |t| t.success(end("new"))))
    };
    let (clock, store) = (Arc::new(ManualClock::new()), MemoryStore::default());
    let serve = || served(flow(), &clock, &store).build().unwrap();
    let (mut client, connection) = client_of(&serve()).await;
    client.hang_up();
    connection.ended().await;
    clock.advance(MINUTE);
    let (mut client, _connection) = client_of(&serve()).await;
    assert_eq!(client.tools().await, ["end_late"]);
}

#[tokio::test]
async fn no_time_runs_while_an_operator_must_decide() {
    let flow = Workflow::builder("w")
        .settings(global())
        .state("new", |s| {
            s.initial()
                .tool("work", |t| t.success(end("new")).hold())
                .after(MINUTE, "late")
        })
        .state("late", |s| s.tool("end_late", |t| t.success(end("new"))));
    let (clock, store) = (Arc::new(ManualClock::new()), MemoryStore::default());
    let (work, mut held) = held("work", OnCancel::GoesOn);
    let server = served(flow, &clock, &store).tool(work).build().unwrap();
    let (mut client, _connection) = client_of(&server).await;
    let id = client.begin("tools/call", json!({"name": "work"})).await;
    held.started().await;
    let params = json!({"requestId": id});
    client.notify("notifications/cancelled", params).await;
    settle(&mut client).await;
    clock.advance(MINUTE);
    // Nothing can be called any more.
    told(&mut client).await;
    for _ in 0..3 {
        settle(&mut client).await;
        clock.advance(MINUTE);
    }
    settle(&mut client).await;
    let journal = entries(&store, "global:w").await;
    assert_eq!(of_kind(&journal, "held").len(), 1, "{journal:?}");
    assert_eq!(of_kind(&journal, "timer").len(), 0, "{journal:?}");
}

/// A session that nobody uses leaves memory, and nobody looks after its instance then.
#[tokio::test]
async fn time_goes_on_for_a_session_that_has_left_memory() {
    let flow = Workflow::builder("w")
        .state("new", |s| s.initial().tool("go", |t| t.success("open")))
        .state("open", |s| {
            s.after(35 * MINUTE, "late")
                .tool("stay", |t| t.success("open"))
        })
        .state("late", |s| s.tool("end_late", |t| t.success(end("new"))));
    let (clock, store) = (Arc::new(ManualClock::new()), MemoryStore::default());
    let server = served(flow, &clock, &store).build().unwrap();
    let site = Site::open(&server, HttpOptions::default()).await;
    let session = Session::open(&site).await;
    let opened = session.call("go", json!({})).await;
    let instance = &opened["_meta"]["dev.interlock/workflow"]["instance"];
    for _ in 0..40 {
        clock.advance(MINUTE);
        // Somebody comes by, so that the clocks are looked at.
        let ping = Request::modern(1, "tools/list", json!({}));
        site.send(ping).await.json().await;
    }
    let journal = entries(&store, instance.as_str().unwrap()).await;
    assert_eq!(of_kind(&journal, "timer").len(), 0, "{journal:?}");
    let tools = session.request("tools/list", json!({})).await;
    assert_eq!(tools["result"]["tools"][0]["name"], "end_late", "{tools}");
}
