//! States that ask the client's model, over a connection.

use crate::{
    common::{nothing_comes, refusal, tool},
    flow_guards::{at, client_of, echo},
};
use interlock::{
    Done, Effect, EffectContext, Failure, OnFailure, Prompt, Resource, Server, Workflow,
    journal::{Entry, What, replay},
    store::MemoryStore,
    workflow::{self, Outcome, Record, Scope, Settings, end, to},
};
use interlock_testkit::{
    Client, Connection, ManualClock, connect, soon,
    web::{Hello, Site},
};
use serde_json::{Value, json};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

pub(crate) const ID: &str = "global:w";
pub(crate) const MINUTE: Duration = Duration::from_secs(60);
pub(crate) const QUESTION: &str = "sampling/createMessage";

pub(crate) fn global() -> Settings {
    Settings {
        scope: Scope::Global,
        ..Settings::default()
    }
}

/// `go` leads to a state that asks whether it is urgent.
pub(crate) fn flow(settings: Settings) -> workflow::Builder {
    let closing = |flow: workflow::Builder, state: &str| {
        flow.state(state, |s| {
            s.instructions(format!("It is {state}."))
                .tool("close", |t| t.success(end("new")))
        })
    };
    let flow = Workflow::builder("w")
        .settings(settings)
        .state("new", |s| {
            s.initial()
                .tool("go", |t| {
                    let topic = || to("asking").set("topic", "has(args.topic) ? args.topic : 'it'");
                    t.success(topic()).error(topic())
                })
                .resource("note://rules", |r| {
                    r.success(to("asking").set("topic", "'rules'"))
                })
                .prompt("sorry", |p| p.success(to("asking").set("topic", "'sorry'")))
                .after(MINUTE, to("asking").set("topic", "'time'"))
        })
        .state("asking", |s| {
            s.instructions("Your model is asked.")
                .sampling(100, |m| {
                    m.system("You sort mail.")
                        .user("Is {{ctx.topic}} urgent?")
                        .success(
                            to("urgent")
                                .when("result.content.text == 'yes'")
                                .set("by", "result.model"),
                        )
                        .success(to("calm").set("said", "result.content.text"))
                        .error("unsorted")
                })
                .tool("sort", |t| t.success("calm"))
        });
    ["urgent", "calm", "unsorted"]
        .into_iter()
        .fold(flow, closing)
}

/// The same for any workflow of these artifacts.
pub(crate) fn builder(flow: workflow::Builder) -> interlock::Builder {
    let flow = flow.build().unwrap();
    let has = |kind, name: &str| flow.artifacts(kind).any(|one| one == name);
    let tools = ["go", "close", "sort"];
    let tools = tools
        .into_iter()
        .filter(|name| has(workflow::Kind::Tool, name));
    let mut server = tools.fold(Server::builder("s", "0"), |server, name| match name {
        "go" => server.tool(echo("go")),
        name => server.tool(tool(name)),
    });
    if has(workflow::Kind::Resource, "note://rules") {
        server = server.resource(Resource::text("note://rules", "be kind"));
    }
    if has(workflow::Kind::Prompt, "sorry") {
        server = server.prompt(Prompt::text("sorry", "Say sorry."));
    }
    let store = Arc::new(MemoryStore::default());
    server.workflow(flow).store(store)
}

fn server() -> Server {
    builder(flow(global())).build().unwrap()
}

/// A client whose model can be asked.
pub(crate) async fn asked_client(server: &Server) -> (Client, Connection) {
    let (mut client, connection) = connect(server);
    introduce(&mut client).await;
    (client, connection)
}

pub(crate) async fn introduce(client: &mut Client) {
    let params = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {"sampling": {}},
        "clientInfo": {"name": "asked", "version": "0"},
    });
    client.request("initialize", params).await;
    client.notify("notifications/initialized", json!({})).await;
}

/// Nothing comes but what is told of lists.
pub(crate) async fn no_question(client: &mut Client) {
    let (before, answer) = client.exchange("ping", json!({})).await;
    assert_eq!(answer["result"], json!({}));
    for message in before {
        let method = message["method"].as_str().unwrap_or_default();
        assert!(method.ends_with("list_changed"), "{message}");
    }
}

/// The next question, past what is told of lists.
pub(crate) async fn question(client: &mut Client) -> Value {
    loop {
        let message = client.receive().await.expect("a question must come");
        if message["method"] == QUESTION {
            return message;
        }
        let method = message["method"].as_str().unwrap_or_default();
        assert!(method.ends_with("list_changed"), "{message}");
    }
}

pub(crate) async fn go(client: &mut Client) -> (i64, Value) {
    let params = json!({"name": "go", "arguments": {"topic": "rent"}});
    let id = client.begin("tools/call", params).await;
    (id, question(client).await)
}

pub(crate) fn sample(text: &str) -> Value {
    json!({"role": "assistant", "content": {"type": "text", "text": text}, "model": "m-1"})
}

pub(crate) async fn answer(client: &mut Client, question: &Value, result: Value) {
    let id = &question["id"];
    client
        .send(json!({"jsonrpc": "2.0", "id": id, "result": result}))
        .await;
}

pub(crate) async fn state(server: &Server) -> String {
    server.operator().show(ID).await.unwrap().summary.state
}

pub(crate) async fn state_is(server: &Server, expected: &str) {
    let is_so = async {
        while state(server).await != expected {
            tokio::task::yield_now().await;
        }
    };
    soon(expected, is_so).await;
}

pub(crate) async fn entries(server: &Server) -> Vec<Entry> {
    let history = server.operator().history(ID, 0, 1_000).await.unwrap();
    history.into_iter().map(|one| one.entry).collect()
}

/// How the questions ended, and why.
pub(crate) async fn sampled(server: &Server) -> Vec<(Outcome, Option<String>)> {
    let entries = entries(server).await.into_iter();
    let sampled = entries.filter_map(|entry| {
        let What::Sampled { outcome, why, .. } = entry.what else {
            return None;
        };
        Some((outcome, why))
    });
    sampled.collect()
}

/// The one question had no answer, for a reason that says this.
pub(crate) async fn failed_because(server: &Server, why: &str) {
    let sampled = sampled(server).await;
    let [(Outcome::Error, Some(told))] = &sampled[..] else {
        panic!("{sampled:?}");
    };
    assert!(told.contains(why), "{told}");
}

/// The journal tells where the instance stands.
pub(crate) async fn is_told(server: &Server, flow: workflow::Builder) {
    let flow = flow.build().unwrap();
    let replayed = replay(&flow, &entries(server).await).unwrap();
    let Record { state, memory, .. } = replayed.record(&flow);
    let shown = server.operator().show(ID).await.unwrap();
    assert_eq!((shown.summary.state, shown.memory), (state, memory));
}

#[tokio::test]
async fn the_answer_is_a_symbol_and_its_text_chooses_among_edges() {
    let server = server();
    let (mut client, _connection) = asked_client(&server).await;
    for (text, state, memory) in [
        ("yes", "urgent", json!({"topic": "rent", "by": "m-1"})),
        (
            "perhaps",
            "calm",
            json!({"topic": "rent", "said": "perhaps"}),
        ),
    ] {
        let (id, question) = go(&mut client).await;
        let expected = json!({
            "messages": [
                {"role": "user", "content": {"type": "text", "text": "Is rent urgent?"}},
            ],
            "systemPrompt": "You sort mail.",
            "maxTokens": 100,
        });
        assert_eq!(question["params"], expected);
        answer(&mut client, &question, sample(text)).await;
        let (before, answered) = client.until(id).await;
        let methods: Vec<_> = before.iter().map(|message| &message["method"]).collect();
        assert_eq!(methods, ["notifications/tools/list_changed"]);
        let result = &answered["result"];
        assert_eq!(at(result), state);
        assert_eq!(result["structuredContent"], json!({"topic": "rent"}));
        let told = &result["_meta"]["dev.interlock/workflow"]["instructions"];
        assert_eq!(*told, format!("Your model is asked.\nIt is {state}."));
        assert_eq!(result["content"][1]["text"], "Your model is asked.");
        let shown = server.operator().show(ID).await.unwrap();
        assert_eq!(Value::Object(shown.memory), memory);
        is_told(&server, flow(global())).await;
        client.call("close", json!({})).await;
    }
    let sampled = sampled(&server).await;
    assert_eq!(
        sampled,
        [(Outcome::Success, None), (Outcome::Success, None)]
    );
}

#[tokio::test]
async fn the_question_belongs_to_the_call_in_the_journal() {
    let server = server();
    let (mut client, _connection) = asked_client(&server).await;
    let (id, question) = go(&mut client).await;
    answer(&mut client, &question, sample("yes")).await;
    client.until(id).await;
    let entries = entries(&server).await;
    let last = serde_json::to_value(entries.last().unwrap()).unwrap();
    assert_eq!(last["what"], "sampled");
    assert_eq!(last["call"], 1);
    assert_eq!(last["from"], "asking");
    assert_eq!(last["to"], "urgent");
    assert_eq!(last["set"], json!({"by": "m-1"}));
}

#[tokio::test]
async fn a_client_that_refuses_or_talks_nonsense_leads_to_error() {
    let said = |member: &str, value: Value| (member.to_owned(), value);
    for ((member, value), why) in [
        (
            said(
                "error",
                json!({"code": -1, "message": "User rejected sampling request"}),
            ),
            "User rejected sampling request (-1)",
        ),
        (said("result", json!({"action": "decline"})), "not valid"),
        (said("result", json!("yes")), "not valid"),
        (said("error", json!(5)), "not valid"),
    ] {
        let server = server();
        let (mut client, _connection) = asked_client(&server).await;
        let (id, question) = go(&mut client).await;
        let mut message = json!({"jsonrpc": "2.0", "id": question["id"]});
        message[member] = value;
        client.send(message).await;
        let (_, answered) = client.until(id).await;
        assert_eq!(at(&answered["result"]), "unsorted");
        assert_eq!(answered["result"]["isError"], false);
        failed_because(&server, why).await;
        is_told(&server, flow(global())).await;
    }
}

#[tokio::test]
async fn a_client_that_offers_no_sampling_is_not_asked() {
    let server = server();
    let (mut client, _connection) = client_of(&server).await;
    let (before, result) = client.call("go", json!({})).await;
    assert!(before.iter().all(|method| method != QUESTION), "{before:?}");
    assert_eq!(at(&result), "unsorted");
    failed_because(&server, "does not").await;
    is_told(&server, flow(global())).await;
}

#[tokio::test]
async fn without_an_edge_for_it_no_answer_means_to_stay() {
    let flow = || {
        Workflow::builder("w")
            .settings(global())
            .state("new", |s| s.initial().tool("go", |t| t.success("asking")))
            .state("asking", |s| {
                s.sampling(1, |m| m.user("?").success(end("new")))
                    .tool("close", |t| t.success(end("new")))
            })
    };
    let server = builder(flow()).build().unwrap();
    let (mut client, _connection) = client_of(&server).await;
    let (_, result) = client.call("go", json!({})).await;
    assert_eq!(at(&result), "asking");
    failed_because(&server, "does not").await;
    is_told(&server, flow()).await;
    let (_, result) = client.call("close", json!({})).await;
    assert_eq!(at(&result), "new", "it is a state like others");
}

#[tokio::test]
async fn a_client_that_never_answers_is_waited_for_only_so_long() {
    for (patience, set) in [(5 * MINUTE, None), (MINUTE, Some(MINUTE))] {
        let clock = Arc::new(ManualClock::new());
        let mut builder = builder(flow(global())).clock(clock.clone());
        if let Some(timeout) = set {
            builder = builder.ask_timeout(timeout);
        }
        let server = builder.build().unwrap();
        let (mut client, _connection) = asked_client(&server).await;
        let (id, question) = go(&mut client).await;
        // The call's own clock stands still.
        clock.advance(patience - Duration::from_millis(1));
        nothing_comes(&mut client).await;
        clock.advance(Duration::from_millis(1));
        let (before, answered) = client.until(id).await;
        assert_eq!(at(&answered["result"]), "unsorted");
        let taken_back = before
            .iter()
            .find(|message| message["method"] == "notifications/cancelled");
        assert_eq!(taken_back.unwrap()["params"]["requestId"], question["id"]);
        failed_because(&server, "in time").await;
        // A late answer is nobody's.
        answer(&mut client, &question, sample("yes")).await;
        nothing_comes(&mut client).await;
        assert_eq!(state(&server).await, "unsorted");
        is_told(&server, flow(global())).await;
    }
}

/// Lets time pass until the server has noticed that a client is gone, which takes as long as it
/// lets calls end.
async fn noticed(server: &Server, clock: &ManualClock) {
    let noticed = async {
        while state(server).await != "unsorted" {
            clock.advance(Duration::from_secs(10));
            tokio::task::yield_now().await;
        }
    };
    soon("it is noticed", noticed).await;
}

/// No time has to pass for that: nobody can answer any more.
#[tokio::test]
async fn a_client_that_goes_away_leads_to_error() {
    let server = builder(flow(global())).clock(Arc::new(ManualClock::new()));
    let server = server.build().unwrap();
    let (mut client, connection) = asked_client(&server).await;
    go(&mut client).await;
    drop(client);
    connection.ended().await;
    failed_because(&server, "the client is gone").await;
    is_told(&server, flow(global())).await;
}

#[tokio::test]
async fn a_session_that_ends_while_its_client_is_asked_leads_to_error() {
    let clock = Arc::new(ManualClock::new());
    let builder = builder(flow(global())).clock(clock.clone());
    let server = builder.ask_timeout(10_000 * MINUTE).build().unwrap();
    let site = Site::open(&server, interlock::HttpOptions::default()).await;
    let opening = Hello::version("2025-11-25").capabilities(json!({"sampling": {}}));
    let session = opening.open(&site).await;
    let request = session.tool("go", json!({"topic": "rent"}));
    let mut events = session.send(request).await.events();
    while events.message().await.unwrap()["method"] != QUESTION {}
    session.send(session.delete()).await;
    noticed(&server, &clock).await;
    failed_because(&server, "the client is gone").await;
    is_told(&server, flow(global())).await;
}

#[tokio::test]
async fn a_call_that_is_taken_back_while_its_client_is_asked_leads_to_error_and_has_no_answer() {
    let server = server();
    let (mut client, _connection) = asked_client(&server).await;
    let (id, question) = go(&mut client).await;
    client
        .notify("notifications/cancelled", json!({"requestId": id}))
        .await;
    state_is(&server, "unsorted").await;
    failed_because(&server, "took the call back").await;
    let (before, answered) = client.exchange("ping", json!({})).await;
    assert_eq!(answered["result"], json!({}));
    let taken_back = before
        .iter()
        .find(|message| message["method"] == "notifications/cancelled");
    assert_eq!(taken_back.unwrap()["params"]["requestId"], question["id"]);
    let lists = |message: &&Value| message["method"] != "notifications/cancelled";
    for message in before.iter().filter(lists) {
        assert_eq!(message["method"], "notifications/tools/list_changed");
    }
    is_told(&server, flow(global())).await;
}

#[tokio::test]
async fn a_server_that_ends_waits_for_no_answer() {
    let clock = Arc::new(ManualClock::new());
    let builder = builder(flow(global())).clock(clock.clone());
    let server = builder.build().unwrap();
    let (mut client, mut connection) = asked_client(&server).await;
    let (id, _) = go(&mut client).await;
    connection.drain();
    nothing_of(&mut client, id).await;
    clock.advance(MINUTE);
    let (_, answered) = client.until(id).await;
    assert_eq!(at(&answered["result"]), "unsorted", "{answered}");
    assert_eq!(answered["result"]["isError"], false);
    assert_eq!(sampled(&server).await.len(), 1);
    connection.ended().await;
}

/// The server is draining, and the call is not answered yet.
async fn nothing_of(client: &mut Client, id: i64) {
    let refused = client.begin("tools/list", json!({})).await;
    let answered = client.receive().await.unwrap();
    assert_eq!(answered["id"], refused, "{answered}");
    assert_ne!(answered["id"], id);
}

#[tokio::test]
async fn a_timer_asks_nothing_and_its_state_is_one_like_others() {
    let clock = Arc::new(ManualClock::new());
    let builder = builder(flow(global())).clock(clock.clone());
    let server = builder.build().unwrap();
    let (mut client, _connection) = asked_client(&server).await;
    clock.advance(MINUTE);
    let told = client.receive().await.unwrap();
    assert_eq!(told["method"], "notifications/tools/list_changed");
    assert_eq!(client.tools().await, ["sort"]);
    no_question(&mut client).await;
    let (_, refused) = client.call("go", json!({})).await;
    assert_eq!(refusal(&refused), 1081, "{refused}");
    let (_, result) = client.call("sort", json!({})).await;
    assert_eq!(at(&result), "calm");
    assert_eq!(sampled(&server).await, []);
    is_told(&server, flow(global())).await;
}

#[tokio::test]
async fn an_operator_asks_nothing() {
    let server = server();
    let (mut client, _connection) = asked_client(&server).await;
    let operator = server.operator();
    client.tools().await;
    operator.move_to(ID, "asking", "to see").await.unwrap();
    no_question(&mut client).await;
    assert_eq!(client.tools().await, ["sort"]);
    assert_eq!(sampled(&server).await, []);
}

fn failing(name: &'static str, leads_to: &str) -> Effect {
    let act = |_: Done, _: EffectContext| async { Err(Failure::new("no paper")) };
    Effect::new(name, act).on_failure(OnFailure::take(leads_to))
}

/// What a failing effect leads to, be it from a state that asks or to one.
#[tokio::test]
async fn an_effect_that_leads_elsewhere_asks_nothing_and_ends_the_question() {
    let flow = || {
        Workflow::builder("w")
            .settings(global())
            .state("new", |s| {
                s.initial()
                    .tool("go", |t| t.success(to("first").effect("print")))
                    .tool("sort", |t| t.success(to("plain").effect("file")))
            })
            .state("first", |s| {
                s.sampling(1, |m| m.user("1?").success("plain"))
                    .tool("close", |t| t.success(end("new")))
            })
            .state("plain", |s| s.tool("close", |t| t.success(end("new"))))
    };
    let server = builder(flow())
        .effect(failing("print", "plain"))
        .effect(failing("file", "first"))
        .build()
        .unwrap();
    let (mut client, _connection) = asked_client(&server).await;
    for (name, state) in [("go", "plain"), ("sort", "first")] {
        let (before, result) = client.call(name, json!({})).await;
        assert!(before.iter().all(|method| method != QUESTION), "{before:?}");
        assert_eq!(at(&result), state);
        is_told(&server, flow()).await;
        let (_, result) = client.call("close", json!({})).await;
        assert_eq!(at(&result), "new");
    }
    assert_eq!(sampled(&server).await, []);
}

#[tokio::test]
async fn effects_come_before_the_question_and_those_of_its_edge_after_it() {
    let log = Arc::new(Mutex::new(Vec::<Done>::new()));
    let logging = |name| {
        let log = Arc::clone(&log);
        Effect::new(name, move |done: Done, _: EffectContext| {
            log.lock().unwrap().push(done);
            async { Ok(()) }
        })
    };
    let flow = Workflow::builder("w")
        .settings(global())
        .state("new", |s| {
            s.initial()
                .tool("go", |t| t.success(to("asking").effect("first")))
        })
        .state("asking", |s| {
            s.sampling(1, |m| m.user("?").success(end("done").effect("second")))
                .tool("close", |t| t.success(end("new")))
        });
    let server = builder(flow)
        .effect(logging("first"))
        .effect(logging("second").with_result())
        .build()
        .unwrap();
    let (mut client, _connection) = asked_client(&server).await;
    let (id, question) = go(&mut client).await;
    assert_eq!(log.lock().unwrap().len(), 1);
    answer(&mut client, &question, sample("yes")).await;
    client.until(id).await;
    let log = log.lock().unwrap();
    let [first, second] = &log[..] else {
        panic!("{log:?}")
    };
    assert_eq!((&*first.to, &*second.to), ("asking", "done"));
    assert_eq!(
        (&second.call, second.outcome),
        (&None, Some(Outcome::Success))
    );
    assert_eq!(second.result, Some(sample("yes")));
}
