//! Effects: what a step sets off, in which order, and what follows if it fails: of an instance that
//! everybody shares, and of a session's own, whose calls end at once.

use crate::support::{
    client::{client_of, nothing_comes},
    journal::entries_when,
    kept::{Kept, scope_of, wherever_it_is_kept},
    messages::{at, instance, refusal},
    store::FaultyStore,
    tools::{echo, tool},
};
use interlock::{
    Context, Done, Effect, EffectContext, Failure, Level, NoArguments, OnFailure, Principal,
    Resource, Server, Tool, Workflow,
    journal::{What, replay},
    store::MemoryStore,
    workflow::{self, Artifact, Kind, Outcome, Record, Scope, Settings, end, to},
};
use interlock_testkit::{Client, Connection, ManualClock, soon};
use serde_json::{Value, json};
use std::{
    sync::{Arc, Mutex, atomic::Ordering},
    time::Duration,
};
use tokio::sync::{Semaphore, mpsc};

const CHANGED: &str = "notifications/tools/list_changed";

fn flow() -> workflow::Builder {
    flow_of(Scope::Global)
}

fn flow_of(scope: Scope) -> workflow::Builder {
    let settings = Settings {
        scope,
        ..Settings::default()
    };
    Workflow::builder("w")
        .settings(settings)
        .state("new", |s| {
            s.initial().tool("go", |t| {
                let done = to("done").set("n", "args.n");
                t.success(done.effect("first").effect("second"))
            })
        })
        .state("done", |s| s.tool("finish", |t| t.success(end("new"))))
        .state("broken", |s| s.tool("mend", |t| t.success(end("new"))))
}

fn builder(flow: workflow::Builder) -> interlock::Builder {
    Kept::Shared.keep(unkept(flow))
}

fn unkept(flow: workflow::Builder) -> interlock::Builder {
    Server::builder("s", "0")
        .tool(echo("go"))
        .tool(tool("finish"))
        .tool(tool("mend"))
        .workflow(flow.build().unwrap())
}

fn kept(kept: Kept) -> interlock::Builder {
    kept.keep(unkept(flow_of(kept.scope())))
}

/// A client whose instance the store knows: a call of it has failed, and it stayed where it was.
async fn ready(server: &Server) -> (Client, Connection, String) {
    let (mut client, connection) = client_of(server).await;
    let (before, failed) = client.call("go", json!({"fail": true})).await;
    assert_eq!((&*before, at(&failed)), (&[] as &[String], "new"));
    (client, connection, instance(&failed))
}

/// What effects have done, in order.
type Log = Arc<Mutex<Vec<Done>>>;

fn logging(name: &'static str, log: &Log) -> Effect {
    let log = Arc::clone(log);
    Effect::new(name, move |done: Done, _: EffectContext| {
        let log = Arc::clone(&log);
        async move {
            log.lock().unwrap().push(done);
            Ok(())
        }
    })
}

/// Whether the store has what it was told before it failed, nobody knows, and what is told twice
/// would be wrong. So it is counted.
#[tokio::test]
async fn effects_of_which_the_store_was_not_told_are_counted() {
    let memory = MemoryStore::default();
    let store = FaultyStore::new(&memory);
    let fails = Arc::clone(&store);
    let second = Effect::new("second", move |_: Done, _: EffectContext| {
        let fails = Arc::clone(&fails);
        async move {
            fails.failing_commits.store(1, Ordering::SeqCst);
            Ok(())
        }
    });
    let server = unkept(flow()).store(store).effect(second);
    let server = server.effect(logging("first", &Log::default()));
    let server = server.build().unwrap();
    let (mut client, _connection, id) = ready(&server).await;
    let (_, done) = client.call("go", json!({"n": 1})).await;
    assert_eq!(at(&done), "done", "{done}");
    // Nobody has to look for that.
    let journal = entries_when(&memory, &id, 5).await;
    let told: Vec<_> = journal.iter().map(|entry| &entry["what"]).collect();
    assert_eq!(told, ["started", "step", "step", "effect", "unwritten"]);
    assert_eq!(journal[3]["name"], "first");
    assert_eq!(journal[4]["entries"], 1);
}

/// Whatever a server can tell, an effect can; what it logs comes before the answer.
#[tokio::test]
async fn an_effect_tells_clients_of_resources_and_writes_to_their_logs() {
    let tells = Effect::new("first", |done: Done, context: EffectContext| async move {
        let server = context.server().ok_or(Failure::new("it is gone"))?;
        server.resource_updated("note://rules");
        context.log(Level::Info, done.to);
        context.log(Level::Debug, "nobody takes this");
        Ok(())
    });
    let log = Log::default();
    let server = builder(flow().always_resource("note://rules"))
        .resource(Resource::text("note://rules", "be kind"))
        .effect(tells)
        .effect(logging("second", &log));
    let server = server.build().unwrap();
    let (mut client, _connection) = client_of(&server).await;
    let (mut other, _other) = client_of(&server).await;
    for client in [&mut client, &mut other] {
        client
            .request("logging/setLevel", json!({"level": "info"}))
            .await;
    }
    let note = json!({"uri": "note://rules"});
    client.request("resources/subscribe", note.clone()).await;
    let params = json!({"name": "go", "arguments": {}});
    let (before, answer) = client.exchange("tools/call", params).await;
    assert_eq!(at(&answer["result"]), "done");
    let of = |method: &str| {
        let said = before.iter().filter(|one| one["method"] == method);
        said.map(|one| one["params"].clone()).collect::<Vec<_>>()
    };
    let said = json!({"level": "info", "logger": "first", "data": "done"});
    assert_eq!(of("notifications/message"), std::slice::from_ref(&said));
    assert_eq!(heard(&mut other, "notifications/message").await, said);
    let updated = match &of("notifications/resources/updated")[..] {
        [updated] => updated.clone(),
        _ => heard(&mut client, "notifications/resources/updated").await,
    };
    assert_eq!(updated, note);
}

async fn heard(client: &mut Client, method: &str) -> Value {
    loop {
        let message = client.receive().await.unwrap();
        if message["method"] == method {
            return message["params"].clone();
        }
    }
}

fn failing(name: &'static str) -> Effect {
    Effect::new(name, |_: Done, _: EffectContext| async {
        Err(Failure::new("no paper"))
    })
}

fn panicking(name: &'static str) -> Effect {
    Effect::new(name, |_: Done, _: EffectContext| async {
        panic!("on purpose")
    })
}

/// An effect that says when it begins, and ends when it is let go.
fn waiting(name: &'static str) -> (Effect, mpsc::UnboundedReceiver<()>, Arc<Semaphore>) {
    let (begins, begun) = mpsc::unbounded_channel();
    let go = Arc::new(Semaphore::new(0));
    let gate = Arc::clone(&go);
    let effect = Effect::new(name, move |_: Done, _: EffectContext| {
        let (begins, gate) = (begins.clone(), Arc::clone(&gate));
        async move {
            begins.send(()).unwrap();
            gate.acquire().await?.forget();
            Ok(())
        }
    });
    (effect, begun, go)
}

/// What the journal says of effects.
async fn runs(server: &Server, id: &str) -> Vec<(String, Option<String>)> {
    let history = server.operator().history(id, None, 100).await.unwrap();
    let runs = history.into_iter().filter_map(|one| {
        let What::Effect { name, failed } = one.entry.what else {
            return None;
        };
        Some((name, failed))
    });
    runs.collect()
}

/// The journal tells where the instance stands, and so does its client's list.
async fn is_told(server: &Server, id: &str, client: &mut Client) {
    let operator = server.operator();
    let history = operator.history(id, None, 100).await.unwrap();
    let flow = flow_of(scope_of(id)).build().unwrap();
    let replayed = replay(&flow, history.iter().map(|one| &one.entry)).unwrap();
    let Record { state, memory, .. } = replayed.record(&flow);
    let shown = operator.show(id).await.unwrap();
    assert_eq!((shown.summary.state, shown.memory), (state, memory));
    let next: Vec<_> = shown.next.into_iter().map(|one| one.name).collect();
    assert_eq!(next, client.tools().await);
}

async fn begin_go(client: &mut Client) -> i64 {
    let params = json!({"name": "go", "arguments": {"n": 1}});
    client.begin("tools/call", params).await
}

#[tokio::test]
async fn effects_come_after_the_lists_and_before_the_answer_and_in_order() {
    wherever_it_is_kept(async |place| {
        let (first, mut begun, go) = waiting("first");
        let log = Log::default();
        let server = kept(place)
            .effect(first)
            .effect(logging("second", &log))
            .build()
            .unwrap();
        let (mut client, _connection, instance) = ready(&server).await;
        let id = begin_go(&mut client).await;
        let told = client.receive().await.unwrap();
        assert_eq!(told["method"], CHANGED);
        soon("it begins", begun.recv()).await.unwrap();
        assert_eq!(log.lock().unwrap().len(), 0, "one after the other");
        // The step is taken by now, whoever looks.
        let shown = server.operator().show(&instance).await.unwrap();
        assert_eq!(shown.summary.state, "done");
        go.add_permits(1);
        let (before, answer) = client.until(id).await;
        assert_eq!(before, [] as [Value; 0]);
        assert_eq!(at(&answer["result"]), "done");
        assert_eq!(log.lock().unwrap().len(), 1);
        let ran = [("first".to_owned(), None), ("second".to_owned(), None)];
        assert_eq!(runs(&server, &instance).await, ran);
        is_told(&server, &instance, &mut client).await;
    })
    .await;
}

#[tokio::test]
async fn an_effect_knows_what_happened() {
    wherever_it_is_kept(async |place| {
        let log = Log::default();
        let server = kept(place)
            .effect(logging("first", &log))
            .effect(logging("second", &log).with_result())
            .build()
            .unwrap();
        let (mut client, _connection) = client_of(&server).await;
        // The first call of an instance, and one that comes when it is known.
        for n in [7, 8] {
            let (_, result) = client.call("go", json!({"n": n})).await;
            let done = std::mem::take(&mut *log.lock().unwrap());
            let [first, second] = &*done else {
                panic!("{done:?}")
            };
            let id = &*instance(&result);
            assert_eq!(
                (&*first.instance, &*first.from, &*first.to),
                (id, "new", "done")
            );
            assert_eq!(first.call, Some(Artifact::new(Kind::Tool, "go")));
            assert_eq!(first.outcome, Some(Outcome::Success));
            assert_eq!(first.args, json!({"n": n}));
            assert_eq!(first.memory["n"], n);
            assert_eq!(first.principal, Principal::anonymous());
            assert!(!first.ended);
            assert_eq!(first.result, None);
            let result = second.result.as_ref().unwrap();
            assert_eq!(result["structuredContent"], json!({"n": n}));
            #[derive(serde::Deserialize)]
            struct Memory {
                n: u64,
            }
            assert_eq!(first.memory_as::<Memory>().unwrap().n, n);
            client.call("finish", json!({})).await;
            is_told(&server, id, &mut client).await;
        }
    })
    .await;
}

#[tokio::test]
async fn an_effect_that_fails_is_written_down_and_undoes_nothing() {
    wherever_it_is_kept(async |place| {
        let log = Log::default();
        let server = kept(place)
            .effect(failing("first"))
            .effect(logging("second", &log))
            .build()
            .unwrap();
        let (mut client, _connection, id) = ready(&server).await;
        let (before, result) = client.call("go", json!({"n": 1})).await;
        assert_eq!((&*before, at(&result)), (&[CHANGED.to_owned()][..], "done"));
        assert_eq!(log.lock().unwrap().len(), 1, "the next one runs");
        let failed = ("first".to_owned(), Some("no paper".to_owned()));
        let ran = [failed, ("second".to_owned(), None)];
        assert_eq!(runs(&server, &id).await, ran);
        is_told(&server, &id, &mut client).await;
        let (_, result) = client.call("finish", json!({})).await;
        assert_eq!(at(&result), "new", "the instance goes on");
        is_told(&server, &id, &mut client).await;
    })
    .await;
}

#[tokio::test]
async fn an_effect_that_fails_can_lead_to_a_state() {
    wherever_it_is_kept(async |place| {
        let log = Log::default();
        let server = kept(place)
            .effect(failing("first").on_failure(OnFailure::take("broken")))
            .effect(logging("second", &log))
            .build()
            .unwrap();
        let (mut client, _connection, id) = ready(&server).await;
        let (mut other, _other) = client_of(&server).await;
        let (before, result) = client.call("go", json!({"n": 1})).await;
        assert_eq!(before, [CHANGED, CHANGED]);
        assert_eq!(at(&result), "broken");
        assert_eq!(
            result["structuredContent"],
            json!({"n": 1}),
            "the call went well"
        );
        assert_eq!(log.lock().unwrap().len(), 0, "the rest does not run");
        if place == Kept::Shared {
            assert_eq!(other.receive().await.unwrap()["method"], CHANGED);
            assert_eq!(other.tools().await, ["mend"]);
        } else {
            nothing_comes(&mut other).await;
            assert_eq!(other.tools().await, ["go"]);
        }
        let history = server.operator().history(&id, None, 100).await.unwrap();
        let [.., step, effect, diverted] = &*history else {
            panic!("{history:?}")
        };
        assert!(matches!(step.entry.what, What::Step { .. }));
        assert!(matches!(
            effect.entry.what,
            What::Effect {
                failed: Some(_),
                ..
            }
        ));
        let What::Diverted { effect, trace } = &diverted.entry.what else {
            panic!("{diverted:?}")
        };
        assert_eq!(
            (&**effect, &*trace.from, &*trace.to),
            ("first", "done", "broken")
        );
        is_told(&server, &id, &mut client).await;
        let (_, result) = client.call("mend", json!({})).await;
        assert_eq!(at(&result), "new", "the instance goes on");
        is_told(&server, &id, &mut client).await;
    })
    .await;
}

#[tokio::test]
async fn an_effect_that_panics_has_failed() {
    wherever_it_is_kept(async |place| {
        let server = kept(place)
            .effect(panicking("first"))
            .effect(panicking("second").on_failure(OnFailure::take("broken")))
            .build()
            .unwrap();
        let (mut client, _connection, id) = ready(&server).await;
        let (_, result) = client.call("go", json!({"n": 1})).await;
        assert_eq!(at(&result), "broken");
        let panicked = |name: &str| (name.to_owned(), Some("it panicked".to_owned()));
        let ran = [panicked("first"), panicked("second")];
        assert_eq!(runs(&server, &id).await, ran);
        is_told(&server, &id, &mut client).await;
        let (_, result) = client.call("mend", json!({})).await;
        assert_eq!(at(&result), "new", "the instance goes on");
    })
    .await;
}

#[tokio::test]
async fn an_effect_that_hangs_is_given_up_at_its_deadline() {
    wherever_it_is_kept(async |place| {
        let (first, mut begun, _go) = waiting("first");
        let clock = Arc::new(ManualClock::new());
        let server = kept(place)
            .clock(clock.clone())
            .effect(first)
            .effect(panicking("second").deadline(Duration::from_secs(5)))
            .build()
            .unwrap();
        let (mut client, _connection, instance) = ready(&server).await;
        let id = begin_go(&mut client).await;
        soon("it begins", begun.recv()).await.unwrap();
        clock.advance(Duration::from_secs(30));
        let (_, answer) = client.until(id).await;
        assert_eq!(at(&answer["result"]), "done");
        let late = "it was not done within 30s".to_owned();
        let ran = runs(&server, &instance).await;
        assert_eq!(ran[0], ("first".to_owned(), Some(late)));
        is_told(&server, &instance, &mut client).await;
        let (_, result) = client.call("finish", json!({})).await;
        assert_eq!(at(&result), "new", "the instance goes on");
    })
    .await;
}

#[tokio::test]
async fn the_next_call_waits_for_the_effects_of_the_last() {
    wherever_it_is_kept(async |place| {
        let (first, mut begun, go) = waiting("first");
        let server = kept(place)
            .effect(first)
            .effect(failing("second").on_failure(OnFailure::take("broken")))
            .build()
            .unwrap();
        let (mut client, _connection, instance) = ready(&server).await;
        let id = begin_go(&mut client).await;
        soon("it begins", begun.recv()).await.unwrap();
        let told = client.receive().await.unwrap();
        assert_eq!(told["method"], CHANGED);
        let finish = json!({"name": "finish"});
        let finish = client.begin("tools/call", finish).await;
        nothing_comes(&mut client).await;
        go.add_permits(1);
        let (_, answer) = client.until(id).await;
        assert_eq!(at(&answer["result"]), "broken");
        let (_, answer) = client.until(finish).await;
        assert_eq!(refusal(&answer["result"]), 1081, "it was judged again");
        is_told(&server, &instance, &mut client).await;
    })
    .await;
}

#[tokio::test]
async fn others_wait_for_the_effects_of_the_last_call_too() {
    let (first, mut begun, go) = waiting("first");
    let server = builder(flow())
        .effect(first)
        .effect(failing("second").on_failure(OnFailure::take("broken")))
        .build()
        .unwrap();
    let (mut client, _connection) = client_of(&server).await;
    let (mut other, _other) = client_of(&server).await;
    let id = begin_go(&mut client).await;
    soon("it begins", begun.recv()).await.unwrap();
    let told = other.receive().await.unwrap();
    assert_eq!(told["method"], CHANGED);
    let params = json!({"name": "finish"});
    let finish = other.begin("tools/call", params).await;
    nothing_comes(&mut other).await;
    go.add_permits(1);
    let (_, answer) = client.until(id).await;
    assert_eq!(at(&answer["result"]), "broken");
    let (_, answer) = other.until(finish).await;
    assert_eq!(refusal(&answer["result"]), 1081, "it was judged again");
}

#[tokio::test]
async fn the_effects_of_a_timer_run_without_a_caller() {
    wherever_it_is_kept(async |place| {
        let (sends, mut sent) = mpsc::unbounded_channel();
        let remind = Effect::new("remind", move |done: Done, context: EffectContext| {
            sends.send((done, context.effect().to_owned())).unwrap();
            async { Err(Failure::new("no address")) }
        });
        let flow = Workflow::builder("w")
            .settings(Settings {
                scope: place.scope(),
                ..Settings::default()
            })
            .state("new", |s| {
                s.initial()
                    .tool("go", |t| t.success(end("new")))
                    .after(Duration::from_secs(60), to("late").effect("remind"))
            })
            .state("late", |s| s.tool("finish", |t| t.success(end("new"))))
            .state("broken", |s| s.tool("mend", |t| t.success(end("new"))));
        let clock = Arc::new(ManualClock::new());
        let server = place
            .keep(unkept(flow))
            .clock(clock.clone())
            .effect(remind.on_failure(OnFailure::take("broken")))
            .build()
            .unwrap();
        let (mut client, _connection, id) = ready(&server).await;
        clock.advance(Duration::from_secs(60));
        let (done, name) = soon("it runs", sent.recv()).await.unwrap();
        assert_eq!((&*done.from, &*done.to, &*name), ("new", "late", "remind"));
        assert_eq!((done.call, done.outcome), (None, None));
        assert_eq!(client.receive().await.unwrap()["method"], CHANGED);
        let (_, result) = client.call("mend", json!({})).await;
        assert_eq!(at(&result), "new", "{result}");
        let failed = ("remind".to_owned(), Some("no address".to_owned()));
        assert_eq!(runs(&server, &id).await, [failed]);
    })
    .await;
}

#[tokio::test]
async fn an_effect_of_an_end_knows_what_was_remembered() {
    wherever_it_is_kept(async |place| {
        let log = Log::default();
        let flow = flow_of(place.scope()).state("done", |s| {
            s.tool("last", |t| t.success(end("new").effect("second")))
        });
        let server = place
            .keep(unkept(flow))
            .tool(tool("last"))
            .effect(logging("second", &log))
            .effect(logging("first", &Log::default()))
            .build()
            .unwrap();
        let (mut client, _connection) = client_of(&server).await;
        client.call("go", json!({"n": 3})).await;
        client.call("last", json!({})).await;
        let log = log.lock().unwrap();
        let last = log.last().unwrap();
        assert_eq!((last.ended, &last.memory["n"]), (true, &json!(3)));
    })
    .await;
}

#[test]
fn effects_that_do_not_fit_the_workflow_are_refused() {
    let refused = |builder: interlock::Builder| builder.build().unwrap_err().to_string();
    let log = Log::default();
    assert_eq!(
        refused(builder(flow())),
        "the server cannot be built: the workflow names effects that the server does not have: \
         `first`, `second`"
    );
    let both = || {
        builder(flow())
            .effect(logging("first", &log))
            .effect(logging("second", &log))
    };
    assert!(both().effect(logging("unused", &log)).build().is_ok());
    assert_eq!(
        refused(both().effect(logging("first", &log))),
        "the server cannot be built: there are two effects called `first`"
    );
    let nowhere = logging("third", &log).on_failure(OnFailure::take("nowhere"));
    assert_eq!(
        refused(both().effect(nowhere)),
        "the server cannot be built: if effect `third` fails, it leads to state `nowhere`, which \
         the workflow does not have"
    );
}

#[tokio::test]
async fn a_handler_reads_what_its_instance_remembers() {
    #[derive(serde::Deserialize)]
    struct Memory {
        n: u64,
        missing: Option<String>,
    }
    #[derive(Debug, serde::Deserialize)]
    struct Other {
        #[expect(dead_code, reason = "it never gets that far")]
        n: String,
    }
    let finish = Tool::new("finish", |_: NoArguments, context: Context| async move {
        let Memory { n, missing } = context.memory()?;
        let wrong = context.memory::<Other>().unwrap_err();
        Ok::<_, Failure>(format!("{n} {missing:?} {wrong}"))
    });
    let outside = Tool::new("go", |_: NoArguments, context: Context| async move {
        context.memory::<Value>().unwrap_err().to_string()
    });
    let flow = flow().build().unwrap();
    let log = Log::default();
    let server = Server::builder("s", "0")
        .tool(echo("go"))
        .tool(finish)
        .tool(tool("mend"))
        .effect(logging("first", &log))
        .effect(logging("second", &log))
        .workflow(flow)
        .build()
        .unwrap();
    let (mut client, _connection) = client_of(&server).await;
    client.call("go", json!({"n": 5})).await;
    let (_, result) = client.call("finish", json!({})).await;
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(
        text.starts_with("5 None what the instance remembers is no "),
        "{text}"
    );
    assert!(text.ends_with("expected a string"), "{text}");
    let server = Server::builder("s", "0").tool(outside).build().unwrap();
    let (mut client, _connection) = client_of(&server).await;
    let (_, result) = client.call("go", json!({})).await;
    assert_eq!(
        result["content"][0]["text"],
        "there is nothing to remember: the call belongs to no workflow instance"
    );
}
