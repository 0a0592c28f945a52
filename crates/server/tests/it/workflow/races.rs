//! What must hold however calls on one instance get into each other's way.
//!
//! Each of these was seen to fail with `Instance::turn` handing out a lock of its own to everybody,
//! so that nobody waits for anybody; where something else had to be broken, it says so.

use crate::support::{
    client::{answers, client_of, nothing_comes},
    desk::{desk_with, global, state},
    held::{OnCancel, held},
    journal::{entries, of_kind},
    messages::refusal,
    tools::tool,
};
use interlock::{
    Context, Failure, NoArguments, Prompt, Server, Tool, Workflow,
    journal::{Entry, replay},
    store::MemoryStore,
    workflow::{end, to},
};
use serde_json::{Value, json};
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

#[tokio::test]
async fn the_second_of_two_calls_is_judged_on_what_the_first_one_left() {
    let flow = Workflow::builder("w")
        .settings(global())
        .state("a", |s| {
            s.initial()
                .tool("move", |t| t.success("b"))
                .tool("other", |t| t.success(end("a")))
        })
        .state("b", |s| s.tool("back", |t| t.success(end("a"))))
        .build()
        .unwrap();
    let (mover, mut moves) = held("move", OnCancel::GoesOn);
    let (other, mut others) = held("other", OnCancel::GoesOn);
    others.let_go(1);
    let server = Server::builder("s", "0")
        .tool(mover)
        .tool(other)
        .tool(tool("back"));
    let server = server.workflow(flow).build().unwrap();
    let (mut one, _one) = client_of(&server).await;
    let (mut two, _two) = client_of(&server).await;
    let first = one.begin("tools/call", json!({"name": "move"})).await;
    moves.started().await;
    let second = two.begin("tools/call", json!({"name": "other"})).await;
    nothing_comes(&mut two).await;
    moves.let_go(1);
    let (_, first) = one.until(first).await;
    assert_eq!(first["result"]["isError"], false, "{first}");
    let (_, second) = two.until(second).await;
    assert_eq!(refusal(&second["result"]), 1081, "{second}");
    assert!(others.is_quiet(), "what was refused has run");
}

#[tokio::test]
async fn of_the_same_call_twice_one_runs() {
    let (work, mut held) = held("work", OnCancel::GoesOn);
    let server = desk_with(global(), work).build().unwrap();
    let (mut client, _connection) = client_of(&server).await;
    let params = json!({"name": "work"});
    client.begin("tools/call", params.clone()).await;
    held.started().await;
    client.begin("tools/call", params).await;
    nothing_comes(&mut client).await;
    held.let_go(2);
    let (_, all) = answers(&mut client, 2).await;
    assert_eq!(all[0]["result"]["isError"], false, "{all:?}");
    assert_eq!(refusal(&all[1]["result"]), 1081, "{all:?}");
    assert!(held.is_quiet());
    assert_eq!(state(&mut client).await, "done");
}

#[tokio::test]
async fn a_call_that_is_taken_back_while_it_waits_does_nothing_and_holds_nobody_up() {
    let (work, mut held) = held("work", OnCancel::GoesOn);
    let server = desk_with(global(), work).build().unwrap();
    let (mut one, _one) = client_of(&server).await;
    let (mut two, _two) = client_of(&server).await;
    let first = one.begin("tools/call", json!({"name": "work"})).await;
    held.started().await;
    let second = two.begin("tools/call", json!({"name": "work"})).await;
    nothing_comes(&mut two).await;
    let params = json!({"requestId": second});
    two.notify("notifications/cancelled", params).await;
    nothing_comes(&mut two).await;
    held.let_go(2);
    one.until(first).await;
    assert!(held.is_quiet(), "what was taken back has run");
    let (_, result) = one.call("close", json!({})).await;
    assert_eq!(result["content"][0]["text"], "close is done", "{result}");
}

/// Seen to fail with a list that is put together on two positions, one after the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_is_of_one_state_while_another_is_committed() {
    let flow = Workflow::builder("w")
        .settings(global())
        .state("left", |s| {
            s.initial()
                .tool("l1", |t| t.success("right"))
                .tool("l2", |t| t.success(end("left")))
                .prompt("lp1", |p| p.success("left"))
                .prompt("lp2", |p| p.success("left"))
        })
        .state("right", |s| {
            s.tool("r1", |t| t.success("left"))
                .tool("r2", |t| t.success(end("left")))
                .prompt("rp1", |p| p.success("right"))
                .prompt("rp2", |p| p.success("right"))
        })
        .build()
        .unwrap();
    let tools = ["l1", "l2", "r1", "r2"].into_iter().map(tool);
    let builder = tools.fold(Server::builder("s", "0"), interlock::Builder::tool);
    let prompts = ["lp1", "lp2", "rp1", "rp2"]
        .into_iter()
        .map(|name| Prompt::text(name, "text"));
    let builder = prompts.fold(builder, interlock::Builder::prompt);
    let server = builder.workflow(flow).build().unwrap();
    let (mut mover, _mover) = client_of(&server).await;
    let is_enough = Arc::new(AtomicBool::new(false));
    let moving = tokio::spawn({
        let is_enough = Arc::clone(&is_enough);
        async move {
            for round in 0..100_000 {
                let tool = if round % 2 == 0 { "l1" } else { "r1" };
                let (_, result) = mover.call(tool, json!({})).await;
                assert_eq!(result["isError"], false, "{result}");
                if round > 600 && is_enough.load(Ordering::Relaxed) {
                    return;
                }
            }
        }
    });
    let (mut reader, _reader) = client_of(&server).await;
    // How often each list was seen: of tools and of prompts, of the left and of the right.
    let mut seen = [0; 4];
    while !moving.is_finished() {
        is_enough.store(seen.iter().all(|times| *times > 20), Ordering::Relaxed);
        for list in ["tools", "prompts"] {
            let answer = reader.request(&format!("{list}/list"), json!({})).await;
            let listed = answer["result"][list].as_array().unwrap().iter();
            let names: Vec<_> = listed.map(|one| one["name"].as_str().unwrap()).collect();
            match names[..] {
                ["l1", "l2"] => seen[0] += 1,
                ["r1", "r2"] => seen[1] += 1,
                ["lp1", "lp2"] => seen[2] += 1,
                ["rp1", "rp2"] => seen[3] += 1,
                _ => panic!("{list}: {names:?}"),
            }
        }
    }
    moving.await.unwrap();
    assert!(seen.iter().all(|times| *times > 20), "{seen:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_clients_on_one_instance_take_turns_and_no_step_is_lost() {
    const CLIENTS: usize = 64;
    const CALLS: usize = 4;
    let flow = Workflow::builder("w")
        .settings(global())
        .state("a", |s| {
            s.initial()
                .tool("add", |t| {
                    t.success(to("a").set("n", "has(ctx.n) ? ctx.n + 1 : 1"))
                })
                .tool("end", |t| t.success(end("a")))
        })
        .build()
        .unwrap();
    let (busy, overlaps) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicUsize::new(0)),
    );
    let counted = Arc::clone(&overlaps);
    let add = Tool::new("add", move |_: NoArguments, _: Context| {
        let (busy, overlaps) = (Arc::clone(&busy), Arc::clone(&counted));
        async move {
            if busy.swap(true, Ordering::SeqCst) {
                overlaps.fetch_add(1, Ordering::SeqCst);
            }
            tokio::task::yield_now().await;
            busy.store(false, Ordering::SeqCst);
            "added"
        }
    });
    let store = MemoryStore::default();
    let server = Server::builder("s", "0")
        .tool(add)
        .tool(tool("end"))
        .store(Arc::new(store.clone()))
        .workflow(flow.clone())
        .build()
        .unwrap();
    let clients = (0..CLIENTS).map(|_| {
        let server = server.clone();
        tokio::spawn(async move {
            let (mut client, _connection) = client_of(&server).await;
            for _ in 0..CALLS {
                let (_, result) = client.call("add", json!({})).await;
                assert_eq!(result["content"][0]["text"], "added", "{result}");
            }
        })
    });
    for client in clients.collect::<Vec<_>>() {
        client.await.unwrap();
    }
    assert_eq!(overlaps.load(Ordering::SeqCst), 0);
    let journal = entries(&store, "global:w").await;
    let read = |value: &Value| serde_json::from_value::<Entry>(value.clone()).unwrap();
    let journal: Vec<_> = journal.iter().map(read).collect();
    let instance = replay(&flow, &journal).unwrap();
    assert_eq!(instance.memory()["n"], CLIENTS * CALLS);
}

/// Seen to fail with a panic that unwinds through the call's own loop: the turn is then lost, the
/// outcome unknown, and nobody is told.
#[tokio::test]
async fn a_handler_that_panics_takes_its_step_and_gives_the_turn_back() {
    let (on_start, mut started) = tokio::sync::mpsc::unbounded_channel();
    let go = Arc::new(tokio::sync::Semaphore::new(0));
    let gate = Arc::clone(&go);
    let work = Tool::new("work", move |_: NoArguments, _: Context| {
        let (on_start, gate) = (on_start.clone(), Arc::clone(&gate));
        async move {
            on_start.send(()).unwrap();
            let _permit = gate.acquire().await.unwrap();
            assert!(gate.is_closed(), "in the middle of it");
            Ok::<_, Failure>("done")
        }
    });
    let store = MemoryStore::default();
    let server = desk_with(global(), work).store(Arc::new(store.clone()));
    let server = server.build().unwrap();
    let (mut one, _one) = client_of(&server).await;
    let (mut two, _two) = client_of(&server).await;
    let first = one.begin("tools/call", json!({"name": "work"})).await;
    started.recv().await.unwrap();
    let second = two.begin("tools/call", json!({"name": "work"})).await;
    nothing_comes(&mut two).await;
    go.add_permits(1);
    let (before, first) = one.until(first).await;
    assert_eq!(refusal(&first["result"]), 1079, "{first}");
    assert_eq!(before.len(), 3, "{before:?}");
    let (_, second) = two.until(second).await;
    assert_eq!(refusal(&second["result"]), 1081, "{second}");
    assert_eq!(state(&mut one).await, "failed");
    let journal = entries(&store, "global:desk").await;
    let steps = of_kind(&journal, "step");
    let told = ["name", "outcome", "from", "to"].map(|part| steps[0][part].as_str().unwrap());
    assert_eq!(told, ["work", "error", "open", "failed"], "{journal:?}");
    let (_, result) = one.call("close", json!({})).await;
    assert_eq!(result["content"][0]["text"], "close is done", "{result}");
}
