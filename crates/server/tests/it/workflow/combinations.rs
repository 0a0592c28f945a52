//! What approvals, questions to the client's model and moves that are made at once come to when
//! they meet.

use crate::support::{
    client::client_of,
    desk::global,
    http::age_form,
    messages::{CAPABILITIES, at, codes, refusal},
    sampling::sample,
    store::FaultyStore,
    tools::{echo, tool},
};
use interlock::{
    Builder, Context, Failure, HttpOptions, NoArguments, Operator, Prompt, Resource,
    ResourceTemplate, Server, Tool, Workflow,
    model::{CallToolResult, JsonObject},
    store::MemoryStore,
    workflow::{self, Scope, Settings, end, rust, to},
};
use interlock_testkit::{
    Client, ManualClock,
    web::{Request, Site},
};
use serde_json::{Value, json};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

const ID: &str = "global:w";
const APPROVAL: &str = "dev.interlock/approval";
const MINUTE: Duration = Duration::from_secs(60);

/// A workflow with a bit of everything that needs nobody to be asked, and so many states that
/// nobody comes to.
fn desk(others: usize, scope: Scope) -> Workflow {
    let desk = Workflow::builder("w")
        .settings(Settings {
            scope,
            ..Settings::default()
        })
        .state("new", |s| {
            let found = to("found").set("n", "args.n").set("text", "args.text");
            s.initial()
                .tool("find", |t| {
                    t.when("!has(args.n) || args.n > 0")
                        .success(found)
                        .error(to("odd").set("n", "visits"))
                })
                .prompt("ask", |p| p.success("odd"))
                .resource("note://rules", |r| r.success("found"))
                .after(MINUTE, to("late").set("late", "visits"))
        })
        .state("found", |s| {
            let third = rust("third", |facts| facts.visits.is_multiple_of(3));
            s.instructions("Visit {{visits}} of {{state}}, {{ctx.n}}.")
                .max_visits(5)
                .tool("back", |t| {
                    t.success(to("odd").when(third))
                        .success(to("new").set("text", "null"))
                })
                .tool("pay", |t| t.success(end("paid")))
                .tool("peek", |t| t.success("found"))
                .tool("stay", |t| t.success(to("found").set("stayed", "visits")))
                .after(MINUTE, "late")
        })
        .state("odd", |s| {
            s.tool("back", |t| t.when("visits < 4").success("new"))
                .tool("pay", |t| t.success(end("paid")).error("late"))
        })
        .state("late", |s| {
            s.tool("back", |t| t.success("new"))
                .tool("pay", |t| t.success(end("paid")))
        })
        .state("paid", |s| s.instructions("Paid {{ctx.n}}.").terminal());
    let more = |flow: workflow::Builder, n| {
        flow.state(format!("other {n}"), |s| {
            s.tool("pay", |t| t.success(end("paid")))
        })
    };
    (0..others).fold(desk, more).build().unwrap()
}

fn served(flow: Workflow, clock: &Arc<ManualClock>) -> Builder {
    Server::builder("s", "0")
        .tool(echo("find"))
        .tool(echo("back"))
        .tool(echo("pay"))
        .tool(tool("peek"))
        .tool(echo("stay"))
        .prompt(Prompt::text("ask", "What?"))
        .resource(Resource::text("note://rules", "be kind"))
        .clock(clock.clone())
        .workflow(flow)
}

/// Numbers that look like chance and are the same each time.
struct Chance(u64);

impl Chance {
    fn of(&mut self, most: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

fn arguments(chance: &mut Chance) -> Value {
    match chance.of(8) {
        0 => json!({"fail": true}),
        1 => json!({"n": 0}),
        2 => json!({"n": 0.1, "text": "\u{0}\u{1f}\"\\\u{7f}ü"}),
        3 => json!({"n": u64::MAX, "text": {"a": [null, {"b\n": -0.5}]}}),
        4 => json!({"n": 1e300, "text": i64::MIN}),
        _ => json!({"n": chance.of(100), "text": "plain"}),
    }
}

async fn something(
    (client, operator): (&mut Client, &Operator),
    clock: &ManualClock,
    chance: &mut Chance,
) -> Vec<Value> {
    let (mut messages, answer) = match chance.of(13) {
        0 => {
            clock.advance(Duration::from_secs(chance.of(70)));
            // Whoever looks after what is due is done before anybody calls.
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            client.exchange("ping", json!({})).await
        }
        1 => client.exchange("prompts/get", json!({"name": "ask"})).await,
        2 => {
            let params = json!({"uri": "note://rules"});
            client.exchange("resources/read", params).await
        }
        3 => client.exchange("tools/list", json!({})).await,
        4 => (Vec::new(), seen_by(operator).await),
        _ => {
            let names = ["find", "find", "back", "pay", "peek", "stay"];
            let name = names[chance.of(6) as usize];
            let params = json!({"name": name, "arguments": arguments(chance)});
            client.exchange("tools/call", params).await
        }
    };
    messages.push(answer);
    messages
}

/// What an operator sees of the one instance that there is, but for its name, its version and the
/// visits to states where nobody asks for them.
async fn seen_by(operator: &Operator) -> Value {
    let found = operator.instances(None, 10).await.unwrap();
    let [one] = &found[..] else {
        assert!(found.is_empty(), "{found:?}");
        return Value::Null;
    };
    let mut seen = serde_json::to_value(operator.show(&one.id).await.unwrap()).unwrap();
    if let Some(seen) = seen.as_object_mut() {
        seen.remove("id");
        seen.remove("version");
    }
    if let Some(visits) = seen["visits"].as_object_mut() {
        visits.retain(|state, _| state != "late" && state != "paid");
    }
    seen
}

/// All that a client and an operator see of a course that chance takes.
async fn course(server: &Server, clock: &ManualClock, seed: u64) -> (Vec<String>, Vec<Value>) {
    let (mut client, _connection) = client_of(server).await;
    let (mut chance, operator) = (Chance(seed), server.operator());
    let mut heard = Vec::new();
    for _ in 0..250 {
        heard.push(something((&mut client, &operator), clock, &mut chance).await);
    }
    heard.push(vec![seen_by(&operator).await]);
    let id = operator.instances(None, 10).await.unwrap()[0].id.clone();
    let history = operator.history(&id, None, 10_000).await.unwrap();
    let told = history.iter().map(|one| {
        let mut entry = serde_json::to_value(&one.entry).unwrap();
        if let Some(entry) = entry.as_object_mut() {
            entry.remove("fingerprint");
        }
        entry
    });
    let heard = heard
        .into_iter()
        .map(|one| Value::from(one).to_string().replace(&id, "ID"));
    (heard.collect(), told.collect())
}

/// How a server keeps an instance.
#[derive(Clone, Copy, Debug)]
enum Keeps {
    /// Where one has to wait for it.
    Slowly,
    /// In memory that others may look at.
    Openly,
    /// In memory of its own.
    Alone,
    /// The same, and with its session: nobody is told of calls that are over at once, and the record
    /// follows when somebody looks at it.
    ForItsSession,
}

/// Workflows of many states do not count all visits. Seen to fail with a record that does not
/// follow.
#[tokio::test]
async fn what_is_done_at_once_is_what_is_done_by_those_who_wait() {
    let ways = [
        Keeps::Slowly,
        Keeps::Openly,
        Keeps::Alone,
        Keeps::ForItsSession,
    ];
    for seed in 1..8 {
        let mut first = None;
        for (others, keeps) in [0, 70].into_iter().flat_map(|n| ways.map(|way| (n, way))) {
            let clock = Arc::new(ManualClock::new());
            let scope = match keeps {
                Keeps::Slowly | Keeps::Openly | Keeps::Alone => Scope::Global,
                Keeps::ForItsSession => Scope::Session,
            };
            let server = served(desk(others, scope), &clock);
            let memory = MemoryStore::default();
            let server = match keeps {
                Keeps::Slowly => server.store(FaultyStore::new(&memory)),
                Keeps::Openly => server.store(Arc::new(memory)),
                Keeps::Alone | Keeps::ForItsSession => server,
            };
            let (heard, told) = course(&server.build().unwrap(), &clock, seed).await;
            let Some((heard_first, told_first)) = &first else {
                first = Some((heard, told));
                continue;
            };
            for (n, (one, other)) in heard_first.iter().zip(&heard).enumerate() {
                assert_eq!(one, other, "at {n} of {seed} with {others}, {keeps:?}");
            }
            assert_eq!(*told_first, told, "{seed} with {others}, {keeps:?}");
        }
    }
}

/// Seen to fail with a question that names the template alone.
#[tokio::test]
async fn a_yes_to_one_resource_of_a_template_is_none_to_another() {
    let flow = Workflow::builder("w").settings(global()).state("new", |s| {
        s.initial()
            .resource("order://{id}", |r| r.approve("Read?").success(end("new")))
    });
    let template = ResourceTemplate::raw("order://{id}", |_: JsonObject, _: Context| async { "x" });
    let server = Server::builder("s", "0")
        .resource(Resource::text("order://1", "one"))
        .resource(Resource::text("order://2", "two"))
        .template(template)
        .workflow(flow.build().unwrap())
        .build()
        .unwrap();
    let (mut client, _connection) = client_of(&server).await;
    let mut read = async |uri: &str| client.request("resources/read", json!({"uri": uri})).await;
    assert_eq!(codes(&read("order://1").await), (-32602, 1071));
    let operator = server.operator();
    let asked = operator.show(ID).await.unwrap().summary.approvals;
    let [asked] = &asked[..] else {
        panic!("{asked:?}")
    };
    operator.approve(ID, &asked.id, "fine").await.unwrap();
    for other in ["order://2", "order://3"] {
        assert_eq!(codes(&read(other).await), (-32602, 1071), "{other}");
    }
    let one = read("order://1").await;
    assert_eq!(one["result"]["contents"][0]["text"], "one", "{one}");
}

/// A client of 2026-07-28 that can be asked everything.
struct Caller(Site);

impl Caller {
    async fn of(server: &Server) -> Self {
        Self(Site::open(server, HttpOptions::default()).await)
    }

    async fn send(&self, more: Value) -> Value {
        let mut params = json!({"name": "pay", "arguments": {}});
        for (member, value) in more.as_object().into_iter().flatten() {
            params[member] = value.clone();
        }
        params["_meta"] = json!({CAPABILITIES: {"elicitation": {"form": {}}, "sampling": {}}});
        let request = Request::modern(1, "tools/call", params);
        self.0.send(request).await.json().await
    }

    /// Calls, and is to come back with an answer to this question.
    async fn asked(&self, more: Value, key: &str) -> Value {
        let answer = self.send(more).await;
        assert!(
            answer["result"]["inputRequests"][key].is_object(),
            "{answer}"
        );
        answer["result"]["requestState"].clone()
    }
}

fn with(state: &Value, answers: Value) -> Value {
    json!({"requestState": state, "inputResponses": answers})
}

fn yes() -> Value {
    json!({APPROVAL: {"action": "accept"}})
}

const QUESTION: &str = "dev.interlock/sampling-1";

/// A tool that needs a yes, asks a question of its own, and leads to a state that asks the model.
fn paying(runs: &Arc<AtomicUsize>) -> Server {
    let count = Arc::clone(runs);
    let pay = Tool::new("pay", move |_: NoArguments, context: Context| {
        let count = Arc::clone(&count);
        async move {
            let answer = context.elicit("age", &age_form()).await?;
            count.fetch_add(1, Ordering::SeqCst);
            Ok::<_, Failure>(answer.content.unwrap()["age"].to_string())
        }
    });
    let flow = Workflow::builder("w")
        .settings(global())
        .state("new", |s| {
            s.initial()
                .tool("pay", |t| t.approve("Pay?").success("asking"))
        })
        .state("asking", |s| {
            s.sampling(1, |m| m.user("?").success("calm").error("odd"))
        })
        .state("calm", |s| s.tool("close", |t| t.success(end("new"))))
        .state("odd", |s| s.tool("close", |t| t.success(end("new"))));
    Server::builder("s", "0")
        .tool(pay)
        .tool(tool("close"))
        .workflow(flow.build().unwrap())
        .build()
        .unwrap()
}

fn age() -> Value {
    json!({"age": {"action": "accept", "content": {"age": 7}}})
}

/// Every answer that there is, to whichever question.
fn everything() -> Value {
    let mut all = age();
    all[APPROVAL] = json!({"action": "accept"});
    for n in 0..4 {
        all[format!("dev.interlock/sampling-{n}")] = sample("yes");
    }
    all
}

#[tokio::test]
async fn what_a_client_brings_back_is_good_for_one_thing_and_once() {
    let runs = Arc::new(AtomicUsize::new(0));
    let server = paying(&runs);
    let caller = Caller::of(&server).await;
    let ran = || runs.load(Ordering::SeqCst);
    let state = async || server.operator().show(ID).await.unwrap().summary.state;
    let for_yes = caller.asked(json!({}), APPROVAL).await;
    // What is no answer to this question answers nothing.
    let other = json!({QUESTION: sample("yes")});
    let for_yes_again = caller.asked(with(&for_yes, other), APPROVAL).await;
    let for_age = caller.asked(with(&for_yes_again, yes()), "age").await;
    for used in [&for_yes, &for_yes_again] {
        let answer = caller.send(with(used, everything())).await;
        assert_eq!(refusal(&answer["result"]), 1083, "{answer}");
    }
    assert_eq!((ran(), &*state().await), (0, "new"));
    let for_model = caller.asked(with(&for_age, age()), QUESTION).await;
    assert_eq!((ran(), &*state().await), (1, "asking"));
    for used in [&for_yes, &for_yes_again, &for_age] {
        let answer = caller.send(with(used, everything())).await;
        let code = refusal(&answer["result"]);
        assert!(code == 1081 || code == 1084, "{answer}");
    }
    let mut other = everything();
    other.as_object_mut().unwrap().remove(QUESTION);
    caller.asked(with(&for_model, other), QUESTION).await;
    assert_eq!((ran(), &*state().await), (1, "asking"));
    let done = caller.send(with(&for_model, everything())).await;
    assert_eq!(at(&done["result"]), "calm", "{done}");
    server.operator().reset(ID, "again").await.unwrap();
    for used in [&for_yes, &for_yes_again, &for_age] {
        let answer = caller.send(with(used, everything())).await;
        assert_eq!(refusal(&answer["result"]), 1083, "{answer}");
    }
    let answer = caller.send(with(&for_model, everything())).await;
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    assert_eq!((ran(), &*state().await), (1, "new"));
}

#[tokio::test]
async fn a_yes_is_void_after_a_reset_though_the_instance_looks_the_same() {
    let runs = Arc::new(AtomicUsize::new(0));
    let server = paying(&runs);
    let caller = Caller::of(&server).await;
    let for_yes = caller.asked(json!({}), APPROVAL).await;
    server.operator().reset(ID, "again").await.unwrap();
    let answer = caller.send(with(&for_yes, yes())).await;
    assert_eq!(refusal(&answer["result"]), 1083, "{answer}");
    let for_yes = caller.asked(json!({}), APPROVAL).await;
    let for_age = caller.asked(with(&for_yes, yes()), "age").await;
    server.operator().reset(ID, "again").await.unwrap();
    let answer = caller.send(with(&for_age, age())).await;
    assert_eq!(refusal(&answer["result"]), 1083, "{answer}");
    assert_eq!(runs.load(Ordering::SeqCst), 0);
}

/// Seen to fail with a client that was told to come back with what nobody could read.
#[tokio::test]
async fn a_result_that_nests_too_deep_to_be_carried_means_no_answer() {
    let schema = JsonObject::from_iter([("type".to_owned(), json!("object"))]);
    let pay = Tool::raw("pay", schema, |_, _: Context| async {
        let mut deep = json!([]);
        for _ in 0..122 {
            deep = json!([deep]);
        }
        let mut result = CallToolResult::success(Vec::new());
        result.structured_content = Some(json!({"deep": deep}));
        Ok::<_, Failure>(result)
    });
    let flow = Workflow::builder("w")
        .settings(global())
        .state("new", |s| s.initial().tool("pay", |t| t.success("asking")))
        .state("asking", |s| {
            s.sampling(1, |m| m.user("?").success("calm").error("odd"))
        })
        .state("calm", |s| s.tool("close", |t| t.success(end("new"))))
        .state("odd", |s| s.tool("close", |t| t.success(end("new"))));
    let server = Server::builder("s", "0")
        .tool(pay)
        .tool(tool("close"))
        .workflow(flow.build().unwrap())
        .build()
        .unwrap();
    let answer = Caller::of(&server).await.send(json!({})).await;
    assert_eq!(at(&answer["result"]), "odd");
    assert!(answer["result"]["structuredContent"]["deep"].is_array());
}
