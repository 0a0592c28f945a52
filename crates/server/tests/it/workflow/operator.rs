//! What operators see and decide, and what clients notice of it: of an instance that everybody shares,
//! and of a session's own, with a store and without.

use crate::support::{
    client::{client_of, nothing_comes},
    held::{Held, OnCancel, held},
    kept::{Kept, scope_of, wherever_it_is_kept},
    messages::{at, instance, refusal},
    tools::{echo, tool},
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
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use tokio::sync::mpsc;

const CHANGED: &str = "notifications/tools/list_changed";
const ID: &str = "global:w";
const TOOLS: [&str; 5] = ["find", "pay", "back", "close", "peek"];

fn flow(scope: Scope) -> workflow::Builder {
    let settings = Settings {
        scope,
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

fn builder(pay: Tool) -> interlock::Builder {
    Server::builder("s", "0")
        .tool(echo("find"))
        .tool(pay)
        .tool(echo("back"))
        .tool(echo("close"))
        .tool(echo("peek"))
}

fn serve(store: &MemoryStore) -> Server {
    let flow = flow(Scope::Global).build().unwrap();
    let server = builder(echo("pay")).store(Arc::new(store.clone()));
    server.workflow(flow).build().unwrap()
}

fn serve_kept(kept: Kept) -> Server {
    let flow = flow(kept.scope()).build().unwrap();
    let server = kept.keep(builder(echo("pay")));
    server.workflow(flow).build().unwrap()
}

/// The instance of a client that nothing has moved. Asking writes nothing that a record says.
async fn unmoved(client: &mut Client) -> String {
    let (before, result) = client.call("peek", json!({})).await;
    assert_eq!(before, [] as [&str; 0]);
    instance(&result)
}

/// The journal tells where the instance stands, whatever operators did, and so does its client's
/// list.
async fn is_told(operator: &Operator, id: &str, client: &mut Client) {
    let history = operator.history(id, None, 1_000).await.unwrap();
    let numbers: Vec<_> = history.iter().map(|one| one.number).collect();
    assert!(numbers.is_sorted());
    let flow = flow(scope_of(id)).build().unwrap();
    let replayed = replay(&flow, history.iter().map(|one| &one.entry)).unwrap();
    let replayed = replayed.record(&flow);
    let shown = operator.show(id).await.unwrap();
    assert_eq!(named(&shown.next), client.tools().await);
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
        let history = server.operator().history(ID, None, 10).await.unwrap();
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
    let history = operator.history(ID, None, 100).await.unwrap();
    let last = &history.last().unwrap().entry;
    assert_eq!(last.by.as_deref(), Some("alice"));
    assert_eq!(last.reason.as_deref(), Some("it was stuck"));
    assert!(matches!(&last.what, What::Moved { trace } if trace.to == "odd"));
    let rest = operator
        .history(ID, Some(history[0].number), 1)
        .await
        .unwrap();
    assert_eq!(rest, history[1..2]);
    let (mut client, _connection) = client_of(&server).await;
    is_told(&operator, ID, &mut client).await;
    assert_eq!(client.tools().await, ["close"]);
}

#[tokio::test]
async fn moving_an_instance_tells_its_clients() {
    wherever_it_is_kept(async |kept| {
        let server = serve_kept(kept);
        let (mut client, _connection) = client_of(&server).await;
        let (mut other, _other) = client_of(&server).await;
        let operator = server.operator().by("alice");
        // Nothing is written about it yet.
        let id = unmoved(&mut client).await;
        let moved = operator.move_to(&id, "odd", "try").await.unwrap();
        assert_eq!((&*moved.state, moved.due), ("odd", None));
        assert_eq!(client.receive().await.unwrap()["method"], CHANGED);
        assert_eq!(client.tools().await, ["close"]);
        if kept == Kept::Shared {
            assert_eq!(other.receive().await.unwrap()["method"], CHANGED);
            assert_eq!(other.tools().await, ["close"]);
        } else {
            nothing_comes(&mut other).await;
            assert_eq!(other.tools().await, ["find", "peek"]);
        }
        is_told(&operator, &id, &mut client).await;
        let (_, result) = client.call("close", json!({})).await;
        assert_eq!(at(&result), "new");
        // Of a session's own, nothing is written about that yet either.
        client.call("find", json!({"n": 3})).await;
        let moved = operator.move_to(&id, "odd", "again").await.unwrap();
        assert_eq!((&*moved.state, moved.calls), ("odd", 2));
        let shown = operator.show(&id).await.unwrap();
        assert_eq!(shown.memory["order"], 3, "it remembers what it did");
        let history = operator.history(&id, None, 100).await.unwrap();
        let [.., found, moved] = &*history else {
            panic!("{history:?}")
        };
        assert!(matches!(&found.entry.what, What::Step { .. }), "{found:?}");
        assert!(matches!(&moved.entry.what, What::Moved { trace } if trace.from == "found"));
        assert_eq!(moved.entry.by.as_deref(), Some("alice"));
        assert_eq!(moved.entry.reason.as_deref(), Some("again"));
        is_told(&operator, &id, &mut client).await;
        let ended = operator.move_to(&id, "paid", "").await.unwrap();
        assert_eq!(ended.state, "new", "a terminal state ends it");
        is_told(&operator, &id, &mut client).await;
        let (_, result) = client.call("find", json!({"n": 1})).await;
        assert_eq!(at(&result), "found");
        is_told(&operator, &id, &mut client).await;
    })
    .await;
}

#[tokio::test]
async fn an_aborted_instance_takes_no_more_calls() {
    wherever_it_is_kept(async |kept| {
        let server = serve_kept(kept);
        let operator = server.operator();
        let (mut client, _connection) = client_of(&server).await;
        client.call("find", json!({"n": 1})).await;
        client.call("back", json!({})).await;
        let (_, found) = client.call("find", json!({"n": 1})).await;
        let id = instance(&found);
        let after = operator.abort(&id, "enough").await.unwrap();
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
        assert!(operator.show(&id).await.unwrap().next.is_empty());
        let again = operator.abort(&id, "really").await.unwrap_err();
        assert!(matches!(again, OperatorError::Finished(_)), "{again}");
        is_told(&operator, &id, &mut client).await;
        let reset = operator.reset(&id, "after all").await.unwrap();
        assert_eq!((&*reset.state, reset.finished), ("new", false));
        assert_eq!(client.receive().await.unwrap()["method"], CHANGED);
        is_told(&operator, &id, &mut client).await;
        let (_, result) = client.call("find", json!({"n": 1})).await;
        assert_eq!(at(&result), "found");
        is_told(&operator, &id, &mut client).await;
    })
    .await;
}

/// A call that was torn down, so that nobody knows what it did. Whose it was, and of which instance.
async fn hold(server: &Server, clock: &ManualClock, pay: &mut Held) -> (Client, String) {
    let (mut client, connection) = client_of(server).await;
    let (_, found) = client.call("find", json!({})).await;
    let instance = instance(&found);
    let id = client.begin("tools/call", json!({"name": "pay"})).await;
    pay.started().await;
    let params = json!({"requestId": id});
    client.notify("notifications/cancelled", params).await;
    nothing_comes(&mut client).await;
    clock.advance(Duration::from_secs(10));
    // Nothing can be called any more.
    assert_eq!(client.receive().await.unwrap()["method"], CHANGED);
    assert_eq!(client.tools().await, [] as [&str; 0]);
    while server
        .operator()
        .show(&instance)
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
    (client, instance)
}

#[tokio::test]
async fn a_held_call_is_settled_and_its_effects_run() {
    wherever_it_is_kept(async |kept| {
        let flow = flow(kept.scope()).state("found", |s| {
            s.tool("pay", |t| t.error(to("odd").effect("note")))
        });
        let (sends, mut sent) = mpsc::unbounded_channel();
        let note = Effect::new("note", move |done: Done, _: EffectContext| {
            sends.send(done).unwrap();
            async { Ok(()) }
        });
        let (pay, mut waits) = held("pay", OnCancel::GoesOn);
        let clock = Arc::new(ManualClock::new());
        let flow = flow.build().unwrap();
        let server = kept
            .keep(builder(pay))
            .clock(clock.clone())
            .effect(note)
            .workflow(flow.clone())
            .build()
            .unwrap();
        let operator = server.operator();
        let none = operator.settle("global:other", Outcome::Error, "").await;
        assert!(matches!(none, Err(OperatorError::NotFound(_))));
        let (mut client, id) = hold(&server, &clock, &mut waits).await;
        let shown = operator.show(&id).await.unwrap();
        let call = shown.summary.held.expect("it is held");
        assert_eq!(call.artifact, Artifact::new(Kind::Tool, "pay"));
        assert!(shown.next.is_empty());
        let unknown = operator.settle(&id, Outcome::Unknown, "").await;
        assert_eq!(
            unknown.unwrap_err().to_string(),
            format!("the call that instance `{id}` holds cannot be settled as unknown")
        );
        let after = operator.settle(&id, Outcome::Error, "the bank says no");
        assert_eq!(after.await.unwrap().state, "odd");
        let done = soon("the effect runs", sent.recv()).await.unwrap();
        assert_eq!((&*done.instance, &*done.to), (&*id, "odd"));
        assert_eq!(done.outcome, Some(Outcome::Error));
        assert_eq!(done.call, Some(Artifact::new(Kind::Tool, "pay")));
        let shown = operator.show(&id).await.unwrap();
        assert_eq!((&*shown.summary.state, shown.summary.held), ("odd", None));
        assert_eq!(named(&shown.next), ["close"]);
        assert_eq!(client.receive().await.unwrap()["method"], CHANGED);
        assert_eq!(client.tools().await, ["close"]);
        let (_, result) = client.call("close", json!({})).await;
        assert_eq!(at(&result), "new");
        let nothing = operator.settle(&id, Outcome::Error, "").await.unwrap_err();
        assert!(matches!(nothing, OperatorError::NotHeld(_)), "{nothing}");
        let history = operator.history(&id, None, 100).await.unwrap();
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
        let replayed = replay(&flow, history.iter().map(|one| &one.entry)).unwrap();
        let shown = operator.show(&id).await.unwrap();
        let Record { state, memory, .. } = replayed.record(&flow);
        assert_eq!((shown.summary.state, shown.memory), (state, memory));
    })
    .await;
}

/// What an operator can decide although a call runs.
#[derive(Clone, Copy)]
enum Decides {
    Reset,
    Move,
    Abort,
}

/// Two calls and an operator in between: the second finds what the operator left.
async fn in_between(kept: Kept, decides: Decides) -> (Client, Value) {
    let flow = Workflow::builder("w")
        .settings(Settings {
            scope: kept.scope(),
            ..Settings::default()
        })
        .state("a", |s| {
            s.initial()
                .tool("go", |t| t.success("b"))
                .tool("look", |t| t.success("a"))
        })
        .state("b", |s| s.tool("go", |t| t.success("a").error("c")))
        .state("c", |s| s.tool("end", |t| t.success(end("a"))));
    let (go, mut waits) = held("go", OnCancel::GoesOn);
    let server = Server::builder("s", "0")
        .tool(go)
        .tool(tool("look"))
        .tool(tool("end"))
        .workflow(flow.build().unwrap());
    let server = kept.keep(server).build().unwrap();
    let (mut client, connection) = client_of(&server).await;
    let id = &*instance(&client.call("look", json!({})).await.1);
    let first = client.begin("tools/call", json!({"name": "go"})).await;
    waits.started().await;
    let operator = server.operator();
    let running = operator.show(id).await.unwrap().summary.running.unwrap();
    assert_eq!((running.number, &*running.artifact.name), (1, "go"));
    let decision = async {
        match decides {
            Decides::Reset => operator.reset(id, "").await,
            Decides::Move => operator.move_to(id, "c", "").await,
            Decides::Abort => operator.abort(id, "").await,
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
    let shown = operator.show(id).await.unwrap();
    assert_eq!(named(&shown.next), client.tools().await);
    assert_eq!(shown.summary.running, None);
    let history = operator.history(id, None, 100).await.unwrap();
    let decided = history.iter().position(|one| {
        matches!(
            one.entry.what,
            What::Reset | What::Moved { .. } | What::Aborted { .. }
        )
    });
    let before = &history[..decided.unwrap()];
    let stepped = before.last().map(|one| &one.entry.what);
    assert!(matches!(stepped, Some(What::Step { .. })), "{before:?}");
    std::mem::forget(connection);
    (client, answer["result"].clone())
}

#[tokio::test]
async fn a_call_whose_instance_is_moved_while_it_waits_is_judged_again() {
    wherever_it_is_kept(async |kept| {
        let (mut client, result) = in_between(kept, Decides::Move).await;
        assert_eq!(refusal(&result), 1081, "{result}");
        assert_eq!(client.tools().await, ["end"]);
        let (_, result) = client.call("end", json!({})).await;
        assert_eq!(at(&result), "a");
    })
    .await;
}

#[tokio::test]
async fn a_call_whose_instance_is_aborted_while_it_waits_is_refused() {
    wherever_it_is_kept(async |kept| {
        let (mut client, result) = in_between(kept, Decides::Abort).await;
        assert_eq!(refusal(&result), 1085, "{result}");
        assert_eq!(client.tools().await, [] as [&str; 0]);
    })
    .await;
}

#[tokio::test]
async fn a_call_whose_instance_is_reset_while_it_waits_runs_from_the_beginning() {
    wherever_it_is_kept(async |kept| {
        let (mut client, result) = in_between(kept, Decides::Reset).await;
        assert_eq!(at(&result), "b", "{result}");
        assert_eq!(client.tools().await, ["go"]);
    })
    .await;
}

#[tokio::test]
async fn an_operator_waits_for_a_call_only_so_long() {
    wherever_it_is_kept(async |kept| {
        let (pay, mut waits) = held("pay", OnCancel::GoesOn);
        let clock = Arc::new(ManualClock::new());
        let server = kept
            .keep(builder(pay))
            .clock(clock.clone())
            .workflow(flow(kept.scope()).build().unwrap())
            .build()
            .unwrap();
        let (mut client, _connection) = client_of(&server).await;
        let id = &*instance(&client.call("find", json!({})).await.1);
        let call = client.begin("tools/call", json!({"name": "pay"})).await;
        waits.started().await;
        let operator = server.operator().patience(Duration::from_secs(3));
        let mut reset = Box::pin(operator.reset(id, ""));
        assert!(poll!(&mut reset).is_pending());
        clock.advance(Duration::from_secs(3));
        let busy = soon("it gives up", reset).await.unwrap_err();
        assert_eq!(
            busy.to_string(),
            format!("instance `{id}` is busy: a call runs that did not end within 3s")
        );
        waits.let_go(1);
        let (_, answer) = client.until(call).await;
        assert_eq!(
            at(&answer["result"]),
            "new",
            "nothing has changed: {answer}"
        );
        is_told(&operator, id, &mut client).await;
    })
    .await;
}

#[tokio::test]
async fn what_is_not_there_cannot_be_operated() {
    let server = serve(&MemoryStore::default());
    let operator = server.operator();
    let long = "x".repeat(5_000);
    for id in ["nobody", "", "with\nlines", &long] {
        let refused = [
            operator.show(id).await.map(|_| ()),
            operator.history(id, None, 10).await.map(|_| ()),
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
    let other = flow(Scope::Global);
    let other = other.state("more", |s| s.tool("close", |t| t.success(end("new"))));
    let server = builder(echo("pay"))
        .store(Arc::new(store))
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

async fn reset_equals_fresh(kept: Kept, walk: Walk, minutes: u8) {
    let clock = Arc::new(ManualClock::new());
    let serve = || {
        let flow = flow(kept.scope()).build().unwrap();
        let builder = kept.keep(builder(echo("pay"))).clock(clock.clone());
        builder.workflow(flow).build().unwrap()
    };
    let server = serve();
    let (mut client, _connection) = client_of(&server).await;
    let id = &*unmoved(&mut client).await;
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
    operator.reset(id, "again").await.unwrap();
    is_told(&operator, id, &mut client).await;

    let fresh = serve();
    let (mut newcomer, _newcomer) = client_of(&fresh).await;
    let other = &*unmoved(&mut newcomer).await;
    let (one, other) = (operator.show(id).await, fresh.operator().show(other).await);
    let (one, other) = (one.unwrap(), other.unwrap());
    assert_eq!(one.memory, other.memory);
    assert_eq!((one.visits, one.next), (other.visits, other.next));
    let place = |shown: interlock::Summary| (shown.state, shown.finished, shown.since, shown.due);
    assert_eq!(place(one.summary), place(other.summary));
    assert_eq!(client.tools().await, newcomer.tools().await);
    for tool in TOOLS.iter().rev() {
        let (_, mut one) = client.call(tool, json!({"n": 1})).await;
        let (_, mut other) = newcomer.call(tool, json!({"n": 1})).await;
        for result in [&mut one, &mut other] {
            let place = &mut result["_meta"]["dev.interlock/workflow"];
            let instance = place.as_object_mut().unwrap().remove("instance");
            assert!(instance.is_some(), "each has its own");
        }
        assert_eq!(one, other);
    }
    is_told(&operator, id, &mut client).await;
}

#[test]
fn a_reset_instance_equals_a_fresh_one() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let kept = prop::sample::select(&Kept::ALL[..]);
    let step = (0..TOOLS.len(), 0..2u8, prop::bool::weighted(0.2));
    let walks = (kept, prop::collection::vec(step, 0..12), 0..4u8);
    let mut runner = TestRunner::new(ProptestConfig::with_cases(144));
    let run = runner.run(&walks, |(kept, walk, minutes)| {
        runtime.block_on(reset_equals_fresh(kept, walk, minutes));
        Ok(())
    });
    run.unwrap();
}
