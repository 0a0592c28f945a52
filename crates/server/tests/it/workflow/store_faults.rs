//! A store that misbehaves on purpose, and records that nobody in his right mind would write: what
//! an instance is worth then.

use crate::support::{
    client::{client_of, nothing_comes},
    desk::{desk_flow, desk_with, global, state},
    held::{OnCancel, held},
    journal::{entries, key, of_kind},
    messages::{at, refusal},
    store::FaultyStore,
    tools::{echo, tool},
};
use interlock::{
    Context, Server, Tool, Workflow,
    journal::{Entry as Told, replay},
    store::{Change, Kind, MemoryStore, Store, Time, Value as Bytes},
    workflow::{Outcome, Settings, end, rust, to},
};
use interlock_testkit::{ManualClock, connect};
use serde_json::{Value, json};
use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

/// Where the journal says that the instance stands.
async fn replayed(store: &MemoryStore, id: &str, flow: &Workflow) -> String {
    let journal = entries(store, id).await;
    let read = |value: &Value| serde_json::from_value::<Told>(value.clone()).unwrap();
    let journal: Vec<_> = journal.iter().map(read).collect();
    let instance = replay(flow, &journal).unwrap();
    flow.state_name(instance.position().state).to_owned()
}

/// The handler has run, and its step is not saved: what was called may have taken effect. Seen to
/// fail with an instance that lets the same call run again, though it says `unknown: hold`.
#[tokio::test]
async fn a_call_whose_end_could_not_be_saved_is_one_of_which_nobody_knows_what_it_did() {
    let flow = Workflow::builder("w")
        .settings(global())
        .state("a", |s| {
            s.initial().tool("pay", |t| t.success(end("a")).hold())
        })
        .build()
        .unwrap();
    let (pay, mut payments) = held("pay", OnCancel::GoesOn);
    let puppet = FaultyStore::new(&MemoryStore::default());
    let server = Server::builder("s", "0").tool(pay).workflow(flow);
    let server = server.store(puppet.clone()).build().unwrap();
    let (mut client, _connection) = client_of(&server).await;
    let id = client.begin("tools/call", json!({"name": "pay"})).await;
    payments.started().await;
    puppet.failing_commits.store(1, Ordering::SeqCst);
    payments.let_go(2);
    let (_, answer) = client.until(id).await;
    assert_eq!(refusal(&answer["result"]), 1079, "{answer}");
    let (_, again) = client.call("pay", json!({})).await;
    assert_eq!(refusal(&again), 1084, "{again}");
    assert!(payments.is_quiet(), "it was paid twice");
    let operator = server.operator();
    let shown = operator.show("global:w").await.unwrap();
    assert_eq!(shown.summary.held.unwrap().artifact.name, "pay");
    operator
        .settle("global:w", Outcome::Success, "the bank says so")
        .await
        .unwrap();
    let (_, again) = client.call("pay", json!({})).await;
    assert_eq!(again["isError"], false, "{again}");
}

/// A server whose first look into the store failed takes a shared instance for a new one, and its
/// journal must not begin again over that. Seen to fail with a journal that replays to `open`.
#[tokio::test]
async fn a_journal_does_not_begin_twice_because_the_store_could_not_be_read() {
    let memory = MemoryStore::default();
    let server = |store: Arc<dyn Store>| {
        let server = desk_with(global(), tool("work")).store(store);
        server.build().unwrap()
    };
    let (mut first, _first) = client_of(&server(Arc::new(memory.clone()))).await;
    first.call("work", json!({})).await;
    let puppet = FaultyStore::new(&memory);
    puppet.failing_loads.store(1, Ordering::SeqCst);
    let second = server(puppet);
    let (mut client, _connection) = client_of(&second).await;
    client.call("nowhere", json!({})).await;
    let history = second.operator().history("global:desk", None, 100).await;
    history.unwrap();
    let journal = entries(&memory, "global:desk").await;
    assert_eq!(of_kind(&journal, "refused").len(), 1, "{journal:?}");
    assert_eq!(of_kind(&journal, "started").len(), 1, "{journal:?}");
    let flow = desk_flow(global());
    assert_eq!(replayed(&memory, "global:desk", &flow).await, "done");
}

/// One client of a server comes while another one's call is on its way, and what it reads is of
/// another server. Seen to fail with a reservation that is written over what was just read.
#[tokio::test]
async fn what_is_read_for_one_client_does_not_let_the_call_of_another_overwrite_it() {
    let memory = MemoryStore::default();
    let puppet = FaultyStore::new(&memory);
    let (work, mut here) = held("work", OnCancel::GoesOn);
    here.let_go(1);
    let server = desk_with(global(), work).store(puppet.clone());
    let server = server.build().unwrap();
    let (mut one, _one) = client_of(&server).await;

    let other = desk_with(global(), tool("work")).store(Arc::new(memory.clone()));
    let (mut there, _there) = client_of(&other.build().unwrap()).await;
    let (_, worked) = there.call("work", json!({})).await;
    assert_eq!(worked["isError"], false, "{worked}");

    let gate = FaultyStore::stop(&puppet.loads).await;
    let (mut two, _two) = connect(&server);
    FaultyStore::reaches(&puppet.looked, 2).await;
    let call = one.begin("tools/call", json!({"name": "work"})).await;
    nothing_comes(&mut one).await;
    drop(gate);
    two.initialize().await;
    let (_, answer) = one.until(call).await;
    assert_eq!(refusal(&answer["result"]), 1081, "{answer}");
    assert!(here.is_quiet(), "work was done twice");
    assert_eq!(state(&mut one).await, "done");
}

/// What the instance was told to do has been done, whoever is asked afterwards.
#[tokio::test]
async fn an_operator_hears_yes_even_if_the_store_fails_right_after() {
    let puppet = FaultyStore::new(&MemoryStore::default());
    let server = desk_with(global(), tool("work")).store(puppet.clone());
    let server = server.build().unwrap();
    let (mut client, _connection) = client_of(&server).await;
    client.call("work", json!({})).await;
    let operator = server.operator();
    let gate = FaultyStore::stop(&puppet.commits).await;
    let wrote = puppet.wrote.load(Ordering::SeqCst);
    let moving = operator.move_to("global:desk", "open", "try again");
    let mut moving = std::pin::pin!(moving);
    assert!(futures_util::poll!(&mut moving).is_pending());
    FaultyStore::reaches(&puppet.wrote, wrote + 1).await;
    puppet.failing_loads.store(1, Ordering::SeqCst);
    drop(gate);
    let moved = moving.await.unwrap();
    assert_eq!(moved.state, "open");
    puppet.failing_loads.store(0, Ordering::SeqCst);
    // It hears of the lists, too, before or after that.
    let (_, refused) = client.call("nowhere", json!({})).await;
    assert_eq!(at(&refused), "open");
}

/// JSON of so many levels.
fn nested(levels: usize) -> Value {
    (0..levels).fold(json!(1), |inner, _| json!([inner]))
}

/// Readers of JSON stop at 128 levels, and arguments are kept inside other objects. Seen to fail
/// with an instance that is held for ever: its record can be written, but not read.
#[tokio::test]
async fn arguments_that_nest_deep_do_not_make_an_instance_unreadable() {
    let flow = Workflow::builder("w")
        .settings(global())
        .state("a", |s| {
            s.initial().tool("pay", |t| t.success(end("a")).hold())
        })
        .build()
        .unwrap();
    let schema = json!({"type": "object"}).as_object().unwrap().clone();
    let (on_start, mut started) = tokio::sync::mpsc::unbounded_channel();
    let pay = Tool::raw("pay", schema, move |_, _: Context| {
        on_start.send(()).unwrap();
        std::future::pending::<&str>()
    });
    let memory = MemoryStore::default();
    let server = Server::builder("s", "0").tool(pay).workflow(flow);
    let server = server
        .cancel_grace(Duration::ZERO)
        .store(Arc::new(memory.clone()))
        .build()
        .unwrap();
    let operator = server.operator();
    let (mut client, _connection) = client_of(&server).await;
    for levels in [1, 50, 99, 100, 110, 123] {
        let params = json!({"name": "pay", "arguments": {"deep": nested(levels)}});
        let id = client.begin("tools/call", params).await;
        let answer = tokio::select! {
            _ = started.recv() => None,
            answer = client.receive() => answer,
        };
        if let Some(refused) = answer {
            assert_eq!(refusal(&refused["result"]), 1022, "{refused}");
            assert!(levels > 99, "{levels}");
            continue;
        }
        let params = json!({"requestId": id});
        client.notify("notifications/cancelled", params).await;
        // Nothing can be called while it is held.
        let told = client.receive().await.unwrap();
        assert_eq!(told["method"], "notifications/tools/list_changed", "{told}");
        let settled = operator.settle("global:w", Outcome::Success, "why not");
        let settled = settled.await;
        settled.unwrap_or_else(|error| panic!("{levels}: {error}"));
        let told = client.receive().await.unwrap();
        assert_eq!(told["method"], "notifications/tools/list_changed", "{told}");
        let history = operator.history("global:w", None, 100).await;
        history.unwrap_or_else(|error| panic!("{levels}: {error}"));
        operator.show("global:w").await.unwrap();
    }
}

#[tokio::test]
async fn what_a_function_wants_to_remember_may_not_nest_too_deep() {
    let flow = Workflow::builder("w")
        .settings(global())
        .state("a", |s| {
            let deep = rust("deep", |_| nested(126));
            s.initial()
                .tool("go", |t| t.success(to("a").set("deep", deep)))
                .tool("end", |t| t.success(end("a")))
        })
        .build()
        .unwrap();
    let memory = MemoryStore::default();
    let server = Server::builder("s", "0")
        .tool(echo("go"))
        .tool(echo("end"))
        .workflow(flow)
        .store(Arc::new(memory.clone()))
        .build()
        .unwrap();
    let (mut client, _connection) = client_of(&server).await;
    let (_, result) = client.call("go", json!({})).await;
    assert_eq!(result["isError"], false, "{result}");
    let shown = server.operator().show("global:w").await.unwrap();
    assert!(shown.memory.is_empty(), "{:?}", shown.memory);
    let history = server
        .operator()
        .history("global:w", None, 10)
        .await
        .unwrap();
    assert_eq!(history.len(), 2);
}

/// A guard in Rust that panics costs its own call. Seen to fail with a connection that is gone.
#[tokio::test]
async fn a_function_that_panics_is_a_guard_without_an_answer() {
    let panics = |name| {
        rust(name, |facts| {
            assert!(
                !facts.args["panic"].as_bool().unwrap_or_default(),
                "on purpose"
            );
            true
        })
    };
    let flow = Workflow::builder("w")
        .settings(global())
        .state("a", |s| {
            let set = rust("set", |facts| -> bool {
                panic!("on purpose, in {}", facts.state)
            });
            s.initial()
                .tool("go", |t| t.when(panics("before")).success(end("a")))
                .tool("peek", |t| t.when(panics("peek")).success("a"))
                .tool("work", |t| t.success(to("b").set("x", set)))
        })
        .state("b", |s| s.tool("go", |t| t.success(end("a"))))
        .build()
        .unwrap();
    let server = Server::builder("s", "0")
        .tool(echo("go"))
        .tool(echo("peek"))
        .tool(echo("work"))
        .workflow(flow)
        .build()
        .unwrap();
    let (mut client, _connection) = client_of(&server).await;
    for name in ["go", "peek"] {
        let (_, refused) = client.call(name, json!({"panic": true})).await;
        assert_eq!(refusal(&refused), 1082, "{refused}");
        let text = refused["content"][0]["text"].as_str().unwrap();
        assert!(text.contains("the function panicked"), "{text}");
        let (_, result) = client.call(name, json!({})).await;
        assert_eq!(result["isError"], false, "{result}");
    }
    let (_, result) = client.call("work", json!({})).await;
    assert_eq!(result["isError"], false, "{result}");
    let shown = server.operator().show("global:w").await.unwrap();
    assert_eq!(shown.summary.state, "b");
    assert!(shown.memory.is_empty());
}

/// Whatever stands in the store, the server stays up, says no, and leaves it as it is.
#[tokio::test]
async fn a_record_that_cannot_be_read_is_left_alone() {
    let flow = desk_flow(global());
    let good = json!({
        "format": 2, "workflow": "desk", "fingerprint": flow.fingerprint().0, "calls": 1,
        "running": null,
        "run": {
            "state": "open", "finished": false, "since": 0, "fired": 0, "memory": {},
            "visits": {"open": 1}, "held": null,
        },
    });
    let with = |path: &[&str], value: Value| {
        let mut record = good.clone();
        let (last, path) = path.split_last().unwrap();
        let inner = path.iter().fold(&mut record, |at, name| &mut at[*name]);
        inner[*last] = value;
        record.to_string().into_bytes()
    };
    let wrong = [
        b"".to_vec(),
        b"garbage".to_vec(),
        b"{}".to_vec(),
        b"\xff\xfe".to_vec(),
        vec![b'['; 1_000_000],
        with(&["format"], json!(3)),
        with(&["format"], json!(-1)),
        with(&["fingerprint"], json!(1)),
        with(&["run", "state"], json!("gone")),
        with(&["run", "visits"], json!({"gone": 1})),
        with(&["run", "memory"], json!([])),
        with(&["run", "since"], json!(1e300)),
    ];
    for bytes in wrong {
        let memory = MemoryStore::default();
        let create = Change::create(key("global:desk"), Bytes::new(bytes.clone()));
        memory.commit(&[create], &[], Time(0)).await.unwrap();
        let (work, mut runs) = held("work", OnCancel::GoesOn);
        runs.let_go(10);
        let server = desk_with(global(), work).store(Arc::new(memory.clone()));
        let server = server.build().unwrap();
        let (mut client, _connection) = client_of(&server).await;
        let (_, result) = client.call("work", json!({})).await;
        assert_eq!(refusal(&result), 1079, "{result}");
        let (_, result) = client.call("close", json!({})).await;
        assert_eq!(result["isError"], true, "{result}");
        assert!(runs.is_quiet());
        assert!(server.operator().reset("global:desk", "x").await.is_err());
        server.operator().instances(None, 10).await.unwrap();
        let left = memory.load(&key("global:desk"), Time(0)).await.unwrap();
        assert_eq!(*left.unwrap().value.bytes, *bytes);
    }
}

/// Numbers at their limits are numbers.
#[tokio::test]
async fn a_record_of_the_largest_numbers_is_one_like_any_other() {
    const MOST: u64 = u64::MAX;
    let flow = desk_flow(global());
    let record = json!({
        "format": 2, "workflow": "desk", "fingerprint": flow.fingerprint().0, "calls": MOST,
        "running": null,
        "run": {
            "state": "open", "finished": false, "since": MOST, "fired": MOST,
            "memory": {}, "visits": {"open": u32::MAX, "done": u32::MAX}, "held": null,
        },
    });
    let memory = MemoryStore::default();
    let create = Change::create(
        key("global:desk"),
        Bytes::new(record.to_string().into_bytes()),
    );
    memory.commit(&[create], &[], Time(0)).await.unwrap();
    let server = desk_with(global(), tool("work")).store(Arc::new(memory.clone()));
    let (mut client, _connection) = client_of(&server.build().unwrap()).await;
    assert_eq!(state(&mut client).await, "open");
    let (_, result) = client.call("work", json!({})).await;
    assert_eq!(result["content"][0]["text"], "work is done", "{result}");
    assert_eq!(state(&mut client).await, "done");
}

/// A store that hangs costs its own call, and for as long as a call may wait.
#[tokio::test]
async fn a_call_whose_reservation_hangs_is_answered_in_time() {
    let clock = Arc::new(ManualClock::new());
    let puppet = FaultyStore::new(&MemoryStore::default());
    let server = desk_with(global(), tool("work"))
        .store(puppet.clone())
        .clock(clock.clone());
    let (mut client, _connection) = client_of(&server.build().unwrap()).await;
    let gate = FaultyStore::stop(&puppet.commits).await;
    let id = client.begin("tools/call", json!({"name": "work"})).await;
    FaultyStore::reaches(&puppet.wrote, 1).await;
    clock.advance(Duration::from_secs(120));
    let (_, answer) = client.until(id).await;
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    drop(gate);
    let (_, result) = client.call("work", json!({})).await;
    assert_eq!(result["isError"], false, "{result}");
}

/// A handler has its whole time, however long the store took to reserve the instance. Seen to fail
/// with a deadline that is counted from the arrival of the call.
#[tokio::test]
async fn the_time_that_the_store_takes_is_not_the_handlers() {
    let clock = Arc::new(ManualClock::new());
    let puppet = FaultyStore::new(&MemoryStore::default());
    let work = Tool::new("work", |_: interlock::NoArguments, _: Context| async {
        tokio::task::yield_now().await;
        "work is done"
    });
    let server = desk_with(global(), work.timeout(Duration::from_secs(2)))
        .store(puppet.clone())
        .clock(clock.clone());
    let (mut client, _connection) = client_of(&server.build().unwrap()).await;
    let gate = FaultyStore::stop(&puppet.commits).await;
    let id = client.begin("tools/call", json!({"name": "work"})).await;
    FaultyStore::reaches(&puppet.wrote, 1).await;
    clock.advance(Duration::from_secs(3));
    drop(gate);
    let (_, answer) = client.until(id).await;
    assert_eq!(answer["result"]["isError"], false, "{answer}");
}

/// Nothing is left of a session that ended in the middle of its calls.
#[tokio::test]
async fn calls_that_wait_do_not_bring_back_an_instance_whose_session_has_ended() {
    let clock = Arc::new(ManualClock::new());
    let memory = MemoryStore::default();
    let (work, mut runs) = held("work", OnCancel::GoesOn);
    let server = desk_with(Settings::default(), work)
        .store(Arc::new(memory.clone()))
        .clock(clock.clone());
    let server = server.build().unwrap();
    let (mut client, connection) = client_of(&server).await;
    for _ in 0..3 {
        client.begin("tools/call", json!({"name": "work"})).await;
    }
    runs.started().await;
    nothing_comes(&mut client).await;
    client.hang_up();
    let mut ended = std::pin::pin!(connection.ended());
    assert!(futures_util::poll!(&mut ended).is_pending());
    for _ in 0..10 {
        clock.advance(Duration::from_secs(30));
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }
    ended.await;
    let kind = Kind::from_static("instance");
    let left = memory.list(&kind, None, 10, Time(0)).await;
    assert_eq!(left.unwrap(), []);
}

/// Time that stands still in two states at once would never let anybody else in.
#[tokio::test]
async fn timers_of_no_time_at_all_do_not_keep_the_server_from_others() {
    let flow = Workflow::builder("w")
        .settings(global())
        .state("a", |s| {
            s.initial()
                .after(Duration::ZERO, "b")
                .tool("end", |t| t.success(end("a")))
        })
        .state("b", |s| {
            s.after(Duration::ZERO, "a")
                .tool("end", |t| t.success(end("a")))
        })
        .build();
    // Whoever writes this is told so, or it is served.
    let Ok(flow) = flow else {
        return;
    };
    let server = Server::builder("s", "0").tool(tool("end")).workflow(flow);
    let server = server.clock(Arc::new(ManualClock::new())).build().unwrap();
    let (mut client, _connection) = client_of(&server).await;
    nothing_comes(&mut client).await;
}

/// A call that was lost elsewhere keeps its instance for a while, and the caller is told how long.
#[tokio::test]
async fn whoever_meets_a_call_of_a_process_that_died_is_told_how_long_to_wait() {
    // For the first one time stands still, as for whoever died.
    let clocks = [(); 2].map(|()| Arc::new(ManualClock::new()));
    let memory = MemoryStore::default();
    let server = |work: Tool, clock: &Arc<ManualClock>| {
        let server = desk_with(global(), work).store(Arc::new(memory.clone()));
        server.clock(clock.clone()).build().unwrap()
    };
    let (work, mut runs) = held("work", OnCancel::GoesOn);
    let (mut first, _first) = client_of(&server(work, &clocks[0])).await;
    first.begin("tools/call", json!({"name": "work"})).await;
    runs.started().await;
    let (mut second, _second) = client_of(&server(tool("work"), &clocks[1])).await;
    let (_, busy) = second.call("work", json!({})).await;
    assert_eq!(refusal(&busy), 1084, "{busy}");
    let text = busy["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("335 seconds"), "{text}");
    clocks[1].advance(Duration::from_secs(335));
    let (_, lost) = second.call("work", json!({})).await;
    assert_eq!(refusal(&lost), 1081, "{lost}");
    let refusal = &lost["_meta"]["dev.interlock/refusal"];
    assert_eq!(refusal["state"], "unclear", "{lost}");
}
