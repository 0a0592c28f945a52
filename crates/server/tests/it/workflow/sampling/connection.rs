//! States that ask the client's model, over a connection.

use crate::support::{
    client::{answer, client_of, nothing_comes},
    desk::global,
    messages::{at, refusal},
    sampling::{
        ID, MINUTE, QUESTION, asked_client, builder, entries, failed_because, flow, go, is_told,
        no_question, sample, sampled, state, state_is,
    },
};
use interlock::{
    Done, Effect, EffectContext, Failure, OnFailure, Server, Workflow,
    workflow::{Outcome, end, to},
};
use interlock_testkit::{
    Client, ManualClock, soon,
    web::{Hello, Site},
};
use serde_json::{Value, json};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

fn server() -> Server {
    builder(flow(global())).build().unwrap()
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
