//! Several servers on one store: whoever is faster wins, and nothing happens twice.

use crate::support::{
    client::client_of,
    held::{OnCancel, held},
    journal::{entries, of_kind},
    messages::refusal,
    tools::tool,
};
use interlock::{
    Context, NoArguments, Server, Tool, Workflow,
    journal::{Entry, replay},
    store::MemoryStore,
    workflow::{Builder, Scope, Settings, end, to},
};
use interlock_testkit::ManualClock;
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

const MINUTE: Duration = Duration::from_secs(60);

fn flow() -> Builder {
    let settings = Settings {
        scope: Scope::Global,
        ..Settings::default()
    };
    Workflow::builder("w")
        .settings(settings)
        .state("a", |s| {
            s.initial().after(MINUTE, "late").tool("add", |t| {
                t.success(to("a").set("n", "has(ctx.n) ? ctx.n + 1 : 1"))
            })
        })
        .state("late", |s| s.tool("end", |t| t.success(end("a"))))
}

fn server(add: Tool, clock: &Arc<ManualClock>, store: &MemoryStore) -> Server {
    Server::builder("s", "0")
        .tool(add)
        .tool(tool("end"))
        .clock(clock.clone())
        .store(Arc::new(store.clone()))
        .workflow(flow().build().unwrap())
        .build()
        .unwrap()
}

fn slow_add() -> Tool {
    Tool::new("add", |_: NoArguments, _: Context| async {
        tokio::task::yield_now().await;
        "added"
    })
}

/// Seen to fail with records that are written whatever version is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_step_of_either_server_is_lost() {
    let (clock, store) = (Arc::new(ManualClock::new()), MemoryStore::default());
    let callers = (0..8).map(|_| {
        let server = server(slow_add(), &clock, &store);
        tokio::spawn(async move {
            let (mut client, _connection) = client_of(&server).await;
            let mut added = 0;
            for _ in 0..40 {
                let (_, result) = client.call("add", json!({})).await;
                if result["isError"] == false {
                    added += 1;
                } else {
                    assert_eq!(refusal(&result), 1084, "{result}");
                    tokio::task::yield_now().await;
                }
            }
            added
        })
    });
    let mut added = 0;
    for caller in callers.collect::<Vec<_>>() {
        added += caller.await.unwrap();
    }
    assert!(added > 0);
    let journal = entries(&store, "global:w").await;
    let read = |value: &Value| serde_json::from_value::<Entry>(value.clone()).unwrap();
    let journal: Vec<_> = journal.iter().map(read).collect();
    let instance = replay(&flow().build().unwrap(), &journal).unwrap();
    assert_eq!(instance.memory()["n"], added);
}

#[tokio::test]
async fn time_is_up_once_and_the_clients_of_both_servers_are_told() {
    let (clock, store) = (Arc::new(ManualClock::new()), MemoryStore::default());
    let servers = [(); 2].map(|()| server(slow_add(), &clock, &store));
    let (mut one, _one) = client_of(&servers[0]).await;
    let (mut two, _two) = client_of(&servers[1]).await;
    clock.advance(MINUTE);
    for client in [&mut one, &mut two] {
        let message = client.receive().await.unwrap();
        assert_eq!(message["method"], "notifications/tools/list_changed");
        assert_eq!(client.tools().await, ["end"]);
    }
    let journal = entries(&store, "global:w").await;
    assert_eq!(of_kind(&journal, "timer").len(), 1, "{journal:?}");
    assert_eq!(of_kind(&journal, "started").len(), 1, "{journal:?}");
}

#[tokio::test]
async fn an_instance_is_busy_while_another_server_runs_a_call_of_it() {
    let (clock, store) = (Arc::new(ManualClock::new()), MemoryStore::default());
    let (add, mut held) = held("add", OnCancel::GoesOn);
    let (mut one, _one) = client_of(&server(add, &clock, &store)).await;
    let (mut two, _two) = client_of(&server(slow_add(), &clock, &store)).await;
    let id = one.begin("tools/call", json!({"name": "add"})).await;
    held.started().await;
    for _ in 0..2 {
        let (_, refused) = two.call("add", json!({})).await;
        assert_eq!(refusal(&refused), 1084, "{refused}");
    }
    held.let_go(1);
    let (_, answer) = one.until(id).await;
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    let (_, result) = two.call("add", json!({})).await;
    assert_eq!(result["isError"], false, "{result}");
}

/// Seen to fail with 1081: the call was judged on where the instance had been.
#[tokio::test]
async fn what_another_server_did_is_seen_by_the_next_call() {
    let (clock, store) = (Arc::new(ManualClock::new()), MemoryStore::default());
    let flow = || {
        let settings = Settings {
            scope: Scope::Global,
            ..Settings::default()
        };
        Workflow::builder("w")
            .settings(settings)
            .state("a", |s| s.initial().tool("add", |t| t.success("b")))
            .state("b", |s| s.tool("end", |t| t.success(end("a"))))
            .build()
            .unwrap()
    };
    let server = || {
        Server::builder("s", "0")
            .tool(tool("add"))
            .tool(tool("end"))
            .clock(clock.clone())
            .store(Arc::new(store.clone()))
            .workflow(flow())
            .build()
            .unwrap()
    };
    let (mut one, _one) = client_of(&server()).await;
    let (mut two, _two) = client_of(&server()).await;
    one.call("add", json!({})).await;
    let id = two.begin("tools/call", json!({"name": "add"})).await;
    // The answer and the news of its lists come in whatever order.
    let mut came = [two.receive().await.unwrap(), two.receive().await.unwrap()];
    came.sort_by_key(|message| message["id"] != id);
    assert_eq!(refusal(&came[0]["result"]), 1081, "{came:?}");
    assert_eq!(came[1]["method"], "notifications/tools/list_changed");
    let (_, result) = two.call("end", json!({})).await;
    assert_eq!(result["isError"], false, "{result}");
    let (_, refused) = one.call("end", json!({})).await;
    assert_eq!(refusal(&refused), 1081, "{refused}");
}
