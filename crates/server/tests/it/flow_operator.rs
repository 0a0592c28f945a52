//! What operators see and decide, and what clients notice of it.

use crate::{
    common::{OnCancel, held, nothing_comes, refusal, tool},
    flow_guards::{at, client_of, echo},
};
use futures_util::poll;
use interlock::{
    Details, Done, Effect, EffectContext, Operator, OperatorError, Server, Tool, Workflow,
    journal::{What, replay},
    store::MemoryStore,
    workflow::{self, Artifact, Kind, Outcome, Record, Scope, Settings, end, to},
};
use interlock_testkit::{Client, ManualClock, soon};
use proptest::{prelude::*, test_runner::TestRunner};
use serde_json::json;
use std::{sync::Arc, time::Duration};
use tokio::sync::mpsc;

const CHANGED: &str = "notifications/tools/list_changed";
const ID: &str = "global:w";
const TOOLS: [&str; 5] = ["find", "pay", "back", "close", "peek"];

fn flow() -> workflow::Builder {
    let settings = Settings {
        scope: Scope::Global,
        keep: vec!["who".to_owned()],
        ..Settings::default()
    };
    Workflow::builder("w")
        .settings(settings)
        .state("new", |s| {
            s.initial()
                .tool("find", |t| {
                    t.success(to("found").set("order", "args.n").set("who", "'me'"))
                        .error("odd")
                })
                .tool("peek", |t| t.when("!has(ctx.who)").success("new"))
        })
        .state("found", |s| {
            s.max_visits(3)
                .after(Duration::from_secs(60), "odd")
                .tool("pay", |t| {
                    t.when("!has(args.n) || args.n == ctx.order")
                        .success(end("paid"))
                        .hold()
                })
                .tool("back", |t| t.success("new"))
        })
        .state("odd", |s| s.tool("close", |t| t.success(end("new"))))
        .state("paid", |s| s.terminal())
}

fn builder(store: &MemoryStore, pay: Tool) -> interlock::Builder {
    Server::builder("s", "0")
        .tool(echo("find"))
        .tool(pay)
        .tool(echo("back"))
        .tool(echo("close"))
        .tool(echo("peek"))
        .store(Arc::new(store.clone()))
}

fn serve(store: &MemoryStore) -> Server {
    let flow = flow().build().unwrap();
    builder(store, echo("pay")).workflow(flow).build().unwrap()
}

/// The journal tells where the instance stands, whatever operators did.
async fn is_told(operator: &Operator) {
    let history = operator.history(ID, 0, 1_000).await.unwrap();
    let numbers: Vec<_> = history.iter().map(|one| one.number).collect();
    assert!(numbers.is_sorted());
    let flow = flow().build().unwrap();
    let replayed = replay(&flow, history.iter().map(|one| &one.entry)).unwrap();
    let replayed = replayed.record(&flow);
    let shown = operator.show(ID).await.unwrap();
    let Record {
        state,
        finished,
        since,
        memory,
        visits,
        held,
        ..
    } = replayed;
    assert_eq!(shown.summary.state, state);
    assert_eq!(shown.summary.finished, finished);
    assert_eq!(shown.summary.since, since);
    assert_eq!(shown.summary.held, held);
    assert_eq!((shown.memory, shown.visits), (memory, visits));
}

fn named(next: &[Artifact]) -> Vec<&str> {
    next.iter().map(|artifact| artifact.name.as_str()).collect()
}

#[tokio::test]
async fn an_instance_that_nobody_has_in_memory_is_seen_and_moved() {
    let store = MemoryStore::default();
    {
        let server = serve(&store);
        let (mut client, _connection) = client_of(&server).await;
        client.call("find", json!({"n": 1})).await;
        let (_, refused) = client.call("close", json!({})).await;
        assert_eq!(refusal(&refused), 1081);
        let history = server.operator().history(ID, 0, 10).await.unwrap();
        let last = &history.last().unwrap().entry.what;
        assert!(matches!(last, What::Refused { code: 1081, .. }), "{last:?}");
    }
    let server = serve(&store);
    let operator = server.operator().by("alice");
    let all = operator.instances(None, 10).await.unwrap();
    let [one] = &*all else { panic!("{all:?}") };
    assert_eq!((&*one.id, &*one.state, one.calls), (ID, "found", 1));
    assert_eq!((one.finished, one.foreign), (false, false));
    assert_eq!(one.due, Some(one.since + 60_000));
    assert!(one.running.is_none() && one.held.is_none());
    assert!(operator.instances(Some(ID), 10).await.unwrap().is_empty());
    let Details {
        memory,
        visits,
        next,
        ..
    } = operator.show(ID).await.unwrap();
    assert_eq!(memory["order"], 1);
    assert_eq!(visits["found"], 1);
    assert_eq!(named(&next), ["pay", "back"]);

    let after = operator.move_to(ID, "odd", "it was stuck").await.unwrap();
    assert_eq!((&*after.state, after.due), ("odd", None));
    assert!(after.version > one.version);
    let history = operator.history(ID, 0, 100).await.unwrap();
    let last = &history.last().unwrap().entry;
    assert_eq!(last.by.as_deref(), Some("alice"));
    assert_eq!(last.reason.as_deref(), Some("it was stuck"));
    assert!(matches!(&last.what, What::Moved { trace } if trace.to == "odd"));
    let rest = operator.history(ID, history[0].number, 1).await.unwrap();
    assert_eq!(rest, history[1..2]);
    is_told(&operator).await;
    let (mut client, _connection) = client_of(&server).await;
    assert_eq!(client.tools().await, ["close"]);
}

#[tokio::test]
async fn moving_an_instance_tells_its_clients() {
    let server = serve(&MemoryStore::default());
    let (mut client, _connection) = client_of(&server).await;
    let (mut other, _other) = client_of(&server).await;
    // Nothing is written about it yet.
    server.operator().move_to(ID, "odd", "").await.unwrap();
    for client in [&mut client, &mut other] {
        assert_eq!(client.receive().await.unwrap()["method"], CHANGED);
        assert_eq!(client.tools().await, ["close"]);
    }
    let (_, result) = client.call("close", json!({})).await;
    assert_eq!(at(&result), "new");
    let ended = server.operator().move_to(ID, "paid", "").await.unwrap();
    assert_eq!(ended.state, "new", "a terminal state ends it");
    is_told(&server.operator()).await;
}

#[tokio::test]
async fn an_aborted_instance_takes_no_more_calls() {
    let server = serve(&MemoryStore::default());
    let operator = server.operator();
    let (mut client, _connection) = client_of(&server).await;
    client.call("find", json!({"n": 1})).await;
    let after = operator.abort(ID, "enough").await.unwrap();
    assert_eq!(
        (&*after.state, after.finished, after.due),
        ("found", true, None)
    );
    assert_eq!(client.receive().await.unwrap()["method"], CHANGED);
    assert_eq!(client.tools().await, [] as [&str; 0]);
    for tool in TOOLS {
        let (_, refused) = client.call(tool, json!({"n": 1})).await;
        assert_eq!(refusal(&refused), 1085, "{refused}");
    }
    assert!(operator.show(ID).await.unwrap().next.is_empty());
    let again = operator.abort(ID, "really").await.unwrap_err();
    assert!(matches!(again, OperatorError::Finished(_)), "{again}");
    is_told(&operator).await;
    operator.reset(ID, "after all").await.unwrap();
    let (_, result) = client.call("find", json!({"n": 1})).await;
    assert_eq!(at(&result), "found");
    is_told(&operator).await;
}

/// A call that was torn down, so that nobody knows what it did.
async fn hold(server: &Server, clock: &ManualClock, pay: &mut crate::common::Held) -> Client {
    let (mut client, connection) = client_of(server).await;
    client.call("find", json!({})).await;
    let id = client.begin("tools/call", json!({"name": "pay"})).await;
    pay.started().await;
    let params = json!({"requestId": id});
    client.notify("notifications/cancelled", params).await;
    nothing_comes(&mut client).await;
    clock.advance(Duration::from_secs(10));
    while server
        .operator()
        .show(ID)
        .await
        .unwrap()
        .summary
        .running
        .is_some()
    {
        nothing_comes(&mut client).await;
        tokio::task::yield_now().await;
    }
    // It goes on until it is dropped.
    std::mem::forget(connection);
    client
}

#[tokio::test]
async fn a_held_call_is_settled_and_its_effects_run() {
    let flow = flow().state("found", |s| {
        s.tool("pay", |t| t.error(to("odd").effect("note")))
    });
    let (sends, mut sent) = mpsc::unbounded_channel();
    let note = Effect::new("note", move |done: Done, _: EffectContext| {
        sends.send(done).unwrap();
        async { Ok(()) }
    });
    let (pay, mut waits) = held("pay", OnCancel::GoesOn);
    let clock = Arc::new(ManualClock::new());
    let server = builder(&MemoryStore::default(), pay)
        .clock(clock.clone())
        .effect(note)
        .workflow(flow.build().unwrap())
        .build()
        .unwrap();
    let operator = server.operator();
    let none = operator.settle("global:other", Outcome::Error, "").await;
    assert!(matches!(none, Err(OperatorError::NotFound(_))));
    let mut client = hold(&server, &clock, &mut waits).await;
    let shown = operator.show(ID).await.unwrap();
    let call = shown.summary.held.expect("it is held");
    assert_eq!(call.artifact, Artifact::new(Kind::Tool, "pay"));
    assert!(shown.next.is_empty());
    let unknown = operator.settle(ID, Outcome::Unknown, "").await.unwrap_err();
    assert_eq!(
        unknown.to_string(),
        "the call that instance `global:w` holds cannot be settled as unknown"
    );
    let after = operator
        .settle(ID, Outcome::Error, "the bank says no")
        .await;
    assert_eq!(after.unwrap().state, "odd");
    let done = soon("the effect runs", sent.recv()).await.unwrap();
    assert_eq!(done.outcome, Some(Outcome::Error));
    assert_eq!(done.call, Some(Artifact::new(Kind::Tool, "pay")));
    assert_eq!(client.receive().await.unwrap()["method"], CHANGED);
    let (_, result) = client.call("close", json!({})).await;
    assert_eq!(at(&result), "new");
    let nothing = operator.settle(ID, Outcome::Error, "").await.unwrap_err();
    assert!(matches!(nothing, OperatorError::NotHeld(_)), "{nothing}");
    let history = operator.history(ID, 0, 100).await.unwrap();
    let settled = history.iter().find(|one| {
        matches!(
            one.entry.what,
            What::Settled {
                outcome: Outcome::Error,
                ..
            }
        )
    });
    let reason = settled.unwrap().entry.reason.as_deref();
    assert_eq!(reason, Some("the bank says no"));
}

/// Two calls and an operator in between: the second finds what the operator left.
async fn in_between(decides: bool) -> (Client, serde_json::Value) {
    let flow = Workflow::builder("w")
        .settings(Settings {
            scope: Scope::Global,
            ..Settings::default()
        })
        .state("a", |s| s.initial().tool("go", |t| t.success("b")))
        .state("b", |s| s.tool("go", |t| t.success("a").error("c")))
        .state("c", |s| s.tool("end", |t| t.success(end("a"))));
    let (go, mut waits) = held("go", OnCancel::GoesOn);
    let server = Server::builder("s", "0")
        .tool(go)
        .tool(tool("end"))
        .workflow(flow.build().unwrap())
        .build()
        .unwrap();
    let (mut client, connection) = client_of(&server).await;
    let first = client.begin("tools/call", json!({"name": "go"})).await;
    waits.started().await;
    let operator = server.operator();
    let running = operator.show(ID).await.unwrap().summary.running.unwrap();
    assert_eq!((running.number, &*running.artifact.name), (1, "go"));
    let decision = async {
        if decides {
            operator.move_to(ID, "c", "").await
        } else {
            operator.reset(ID, "").await
        }
    };
    let mut decision = Box::pin(decision);
    assert!(poll!(&mut decision).is_pending(), "it waits for the call");
    let second = client.begin("tools/call", json!({"name": "go"})).await;
    nothing_comes(&mut client).await;
    waits.let_go(2);
    let (_, answer) = client.until(first).await;
    assert_eq!(at(&answer["result"]), "b");
    decision.await.unwrap();
    let (_, answer) = client.until(second).await;
    std::mem::forget(connection);
    (client, answer)
}

#[tokio::test]
async fn a_call_whose_instance_is_moved_while_it_waits_is_judged_again() {
    let (mut client, answer) = in_between(true).await;
    assert_eq!(refusal(&answer["result"]), 1081, "{answer}");
    assert_eq!(client.tools().await, ["end"]);
}

#[tokio::test]
async fn a_call_whose_instance_is_reset_while_it_waits_runs_from_the_beginning() {
    let (_client, answer) = in_between(false).await;
    assert_eq!(at(&answer["result"]), "b", "{answer}");
}

#[tokio::test]
async fn an_operator_waits_for_a_call_only_so_long() {
    let (pay, mut waits) = held("pay", OnCancel::GoesOn);
    let clock = Arc::new(ManualClock::new());
    let server = builder(&MemoryStore::default(), pay)
        .clock(clock.clone())
        .workflow(flow().build().unwrap())
        .build()
        .unwrap();
    let (mut client, _connection) = client_of(&server).await;
    client.call("find", json!({})).await;
    let id = client.begin("tools/call", json!({"name": "pay"})).await;
    waits.started().await;
    let operator = server.operator().patience(Duration::from_secs(3));
    let mut reset = Box::pin(operator.reset(ID, ""));
    assert!(poll!(&mut reset).is_pending());
    clock.advance(Duration::from_secs(3));
    let busy = soon("it gives up", reset).await.unwrap_err();
    assert_eq!(
        busy.to_string(),
        "instance `global:w` is busy: a call runs that did not end within 3s"
    );
    waits.let_go(1);
    let (_, answer) = client.until(id).await;
    assert_eq!(
        at(&answer["result"]),
        "new",
        "nothing has changed: {answer}"
    );
}

#[tokio::test]
async fn what_is_not_there_cannot_be_operated() {
    let server = serve(&MemoryStore::default());
    let operator = server.operator();
    let long = "x".repeat(5_000);
    for id in ["nobody", "", "with\nlines", &long] {
        let refused = [
            operator.show(id).await.map(|_| ()),
            operator.history(id, 0, 10).await.map(|_| ()),
            operator.reset(id, "").await.map(|_| ()),
            operator.abort(id, "").await.map(|_| ()),
            operator.move_to(id, "odd", "").await.map(|_| ()),
            operator.settle(id, Outcome::Success, "").await.map(|_| ()),
        ];
        for refused in refused {
            assert!(
                matches!(refused, Err(OperatorError::NotFound(_))),
                "{refused:?}"
            );
        }
    }
    let (_client, _connection) = client_of(&server).await;
    let nowhere = operator.move_to(ID, "nowhere", "").await.unwrap_err();
    assert_eq!(nowhere.to_string(), "the workflow has no state `nowhere`");
    let plain = Server::builder("s", "0").tool(tool("go")).build().unwrap();
    let nothing = plain.operator().instances(None, 10).await;
    assert!(matches!(nothing, Err(OperatorError::NoWorkflow)));
}

#[tokio::test]
async fn an_instance_of_another_definition_is_shown_and_left_alone() {
    let store = MemoryStore::default();
    let (mut client, _connection) = client_of(&serve(&store)).await;
    client.call("find", json!({"n": 1})).await;
    let other = flow().state("more", |s| s.tool("close", |t| t.success(end("new"))));
    let server = builder(&store, echo("pay"))
        .workflow(other.build().unwrap())
        .build()
        .unwrap();
    let operator = server.operator();
    let [one] = &*operator.instances(None, 10).await.unwrap() else {
        panic!("there is one")
    };
    assert_eq!((one.foreign, &*one.state), (true, "found"));
    assert_eq!(operator.show(ID).await.unwrap().memory["order"], 1);
    let refused = operator.reset(ID, "").await.unwrap_err();
    assert!(
        matches!(refused, OperatorError::Foreign { .. }),
        "{refused}"
    );
}

/// One step of a walk: a tool, and what it is called with.
type Walk = Vec<(usize, u8, bool)>;

async fn reset_equals_fresh(walk: Walk, minutes: u8) {
    let (clock, store) = (Arc::new(ManualClock::new()), MemoryStore::default());
    let serve = |store: &MemoryStore| {
        let flow = flow().build().unwrap();
        let builder = builder(store, echo("pay")).clock(clock.clone());
        builder.workflow(flow).build().unwrap()
    };
    let server = serve(&store);
    let (mut client, _connection) = client_of(&server).await;
    for (tool, n, fails) in walk {
        let arguments = if fails {
            json!({"fail": true})
        } else {
            json!({"n": n})
        };
        client.call(TOOLS[tool], arguments).await;
    }
    clock.advance(Duration::from_secs(30 * u64::from(minutes)));
    let operator = server.operator();
    operator.reset(ID, "again").await.unwrap();
    is_told(&operator).await;

    let fresh = serve(&MemoryStore::default());
    let (mut newcomer, _newcomer) = client_of(&fresh).await;
    let (one, other) = (operator.show(ID).await, fresh.operator().show(ID).await);
    let (one, other) = (one.unwrap(), other.unwrap());
    assert_eq!(one.memory, other.memory);
    assert_eq!((one.visits, one.next), (other.visits, other.next));
    let place = |shown: interlock::Summary| (shown.state, shown.finished, shown.since, shown.due);
    assert_eq!(place(one.summary), place(other.summary));
    assert_eq!(client.tools().await, newcomer.tools().await);
    for tool in TOOLS.iter().rev() {
        let (_, one) = client.call(tool, json!({"n": 1})).await;
        let (_, other) = newcomer.call(tool, json!({"n": 1})).await;
        assert_eq!(one, other);
    }
}

#[test]
fn a_reset_instance_equals_a_fresh_one() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let step = (0..TOOLS.len(), 0..2u8, prop::bool::weighted(0.2));
    let walks = (prop::collection::vec(step, 0..12), 0..4u8);
    let mut runner = TestRunner::new(ProptestConfig::with_cases(48));
    let run = runner.run(&walks, |(walk, minutes)| {
        runtime.block_on(reset_equals_fresh(walk, minutes));
        Ok(())
    });
    run.unwrap();
}
