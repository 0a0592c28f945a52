//! States that ask the client's model one after the other, and beside other clients and servers.

use crate::support::{
    client::{answer, client_of},
    desk::global,
    messages::{at, refusal},
    sampling::{
        MINUTE, QUESTION, asked_client, builder, entries, failed_because, flow, go, introduce,
        is_told, no_question, question, sample, sampled, state_is,
    },
};
use interlock::{
    HttpOptions, Workflow,
    journal::What,
    store::MemoryStore,
    workflow::{self, Settings, end},
};
use interlock_testkit::{
    ManualClock, connect,
    web::{Hello, Site},
};
use serde_json::json;
use std::sync::Arc;

fn server() -> interlock::Server {
    builder(flow(global())).build().unwrap()
}

/// A state that asks, and leads to the next one that asks, and so on.
fn chain(states: usize) -> workflow::Builder {
    let name = |n: usize| format!("s{n}");
    let flow = Workflow::builder("w")
        .settings(global())
        .state("new", |s| s.initial().tool("go", |t| t.success(name(0))));
    let flow = (0..states).fold(flow, |flow, n| {
        flow.state(name(n), |s| {
            s.instructions(format!("In {n}."))
                .sampling(1, |m| {
                    m.user(format!("{n}?"))
                        .success(name(n + 1))
                        .error(name(n + 1))
                })
                .tool("close", |t| t.success(end("new")))
        })
    });
    flow.state(name(states), |s| s.tool("close", |t| t.success(end("new"))))
}

#[tokio::test]
async fn states_that_ask_one_after_the_other_are_one_call() {
    let server = builder(chain(2)).build().unwrap();
    let (mut client, _connection) = asked_client(&server).await;
    let (id, mut asked) = go(&mut client).await;
    for text in ["0?", "1?"] {
        assert_eq!(asked["params"]["messages"][0]["content"]["text"], text);
        answer(&mut client, &asked, sample("yes")).await;
        if text == "0?" {
            asked = question(&mut client).await;
        }
    }
    let (_, answered) = client.until(id).await;
    assert_eq!(at(&answered["result"]), "s2");
    let told = &answered["result"]["_meta"]["dev.interlock/workflow"]["instructions"];
    assert_eq!(told, "In 0.\nIn 1.");
    assert_eq!(sampled(&server).await.len(), 2);
    is_told(&server, chain(2)).await;
}

#[tokio::test]
async fn a_call_asks_so_often_and_then_leaves_the_instance_where_it_is() {
    for offers in [true, false] {
        let server = builder(chain(12)).build().unwrap();
        let (mut client, _connection) = if offers {
            asked_client(&server).await
        } else {
            client_of(&server).await
        };
        let id = client.begin("tools/call", json!({"name": "go"})).await;
        if offers {
            for _ in 0..8 {
                let asked = question(&mut client).await;
                answer(&mut client, &asked, sample("yes")).await;
            }
        }
        let (before, answered) = client.until(id).await;
        assert!(before.iter().all(|message| message["method"] != QUESTION));
        assert_eq!(at(&answered["result"]), "s8");
        assert_eq!(sampled(&server).await.len(), 8);
        let entries = entries(&server).await;
        let Some(What::Unasked { state, why }) = entries.last().map(|entry| &entry.what) else {
            panic!("{entries:?}");
        };
        assert_eq!(state, "s8");
        assert!(why.contains("8 times"), "{why}");
        is_told(&server, chain(12)).await;
        let (_, result) = client.call("close", json!({})).await;
        assert_eq!(at(&result), "new", "it is a state like others");
    }
}

#[tokio::test]
async fn prompts_and_resources_ask_as_well() {
    let server = server();
    let (mut client, _connection) = asked_client(&server).await;
    for (method, params, topic) in [
        ("resources/read", json!({"uri": "note://rules"}), "rules"),
        ("prompts/get", json!({"name": "sorry"}), "sorry"),
    ] {
        let id = client.begin(method, params).await;
        let asked = question(&mut client).await;
        let text = &asked["params"]["messages"][0]["content"]["text"];
        assert_eq!(*text, format!("Is {topic} urgent?"));
        answer(&mut client, &asked, sample("yes")).await;
        let (_, answered) = client.until(id).await;
        assert_eq!(at(&answered["result"]), "urgent", "{answered}");
        is_told(&server, flow(global())).await;
        client.call("close", json!({})).await;
    }
}

#[tokio::test]
async fn what_a_failed_call_leads_to_asks_as_well() {
    let server = server();
    let (mut client, _connection) = asked_client(&server).await;
    let params = json!({"name": "go", "arguments": {"fail": true}});
    let id = client.begin("tools/call", params).await;
    let asked = question(&mut client).await;
    answer(&mut client, &asked, sample("no")).await;
    let (_, answered) = client.until(id).await;
    assert_eq!(answered["result"]["isError"], true);
    assert_eq!(at(&answered["result"]), "calm");
}

#[tokio::test]
async fn nobody_moves_the_instance_while_a_client_is_asked() {
    let server = server();
    let (mut one, _one) = asked_client(&server).await;
    let (mut two, _two) = asked_client(&server).await;
    let (first, asked) = go(&mut one).await;
    let second = two.begin("tools/call", json!({"name": "sort"})).await;
    no_question(&mut two).await;
    answer(&mut one, &asked, sample("yes")).await;
    let (_, answered) = one.until(first).await;
    assert_eq!(at(&answered["result"]), "urgent");
    // By the time it has its turn, it is too late.
    let (_, answered) = two.until(second).await;
    assert_eq!(refusal(&answered["result"]), 1081, "{answered}");
    is_told(&server, flow(global())).await;
}

#[tokio::test]
async fn clients_with_instances_of_their_own_are_asked_at_once() {
    let server = builder(flow(Settings::default())).build().unwrap();
    let (mut one, _one) = asked_client(&server).await;
    let (mut two, _two) = asked_client(&server).await;
    let (first, of_one) = go(&mut one).await;
    let (second, of_two) = go(&mut two).await;
    answer(&mut two, &of_two, sample("yes")).await;
    answer(&mut one, &of_one, sample("no")).await;
    assert_eq!(at(&one.until(first).await.1["result"]), "calm");
    assert_eq!(at(&two.until(second).await.1["result"]), "urgent");
}

#[tokio::test]
async fn another_server_waits_for_the_answer_and_no_longer() {
    let (clock, store) = (Arc::new(ManualClock::new()), MemoryStore::default());
    let server = || {
        let builder = builder(flow(global())).clock(clock.clone());
        builder.store(Arc::new(store.clone())).build().unwrap()
    };
    let (one, two) = (server(), server());
    let runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = { runtime }.worker_threads(1).enable_all().build().unwrap();
    let (mut first, _first) = {
        let _inside = runtime.enter();
        connect(&one)
    };
    introduce(&mut first).await;
    let (mut second, _second) = client_of(&two).await;
    go(&mut first).await;
    assert_eq!(second.tools().await, ["go"], "it has not looked");
    let (_, refused) = second.call("go", json!({})).await;
    assert_eq!(refusal(&refused), 1081, "{refused}");
    let (_, refused) = second.call("sort", json!({})).await;
    assert_eq!(refusal(&refused), 1084, "{refused}");
    // The first server dies, and nobody tells.
    runtime.shutdown_background();
    clock.advance(5 * MINUTE);
    state_is(&two, "unsorted").await;
    failed_because(&two, "in time").await;
    is_told(&two, flow(global())).await;
}

#[tokio::test]
async fn over_http_the_question_comes_on_the_stream_of_the_call() {
    let server = server();
    let site = Site::open(&server, HttpOptions::default()).await;
    let opening = Hello::version("2025-11-25").capabilities(json!({"sampling": {}}));
    let session = opening.open(&site).await;
    let request = session.tool("go", json!({"topic": "rent"}));
    let mut events = session.send(request).await.events();
    let asked = loop {
        let message = events.message().await.unwrap();
        if message["method"] == QUESTION {
            break message;
        }
    };
    let answer = json!({"jsonrpc": "2.0", "id": asked["id"], "result": sample("yes")});
    session.tell(&answer).await;
    let rest = events.rest().await;
    assert_eq!(at(&rest.last().unwrap()["result"]), "urgent", "{rest:?}");
    is_told(&server, flow(global())).await;
}
