//! A workflow with a state that asks the client's model, and a client that can be asked.

use super::{
    client::introduce_as,
    tools::{echo, tool},
};
use interlock::{
    Prompt, Resource, Server, Workflow,
    journal::{Entry, What, replay},
    store::MemoryStore,
    workflow::{self, Outcome, Record, Settings, end, to},
};
use interlock_testkit::{Client, Connection, connect, soon};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

pub(crate) const ID: &str = "global:w";

pub(crate) const MINUTE: Duration = Duration::from_secs(60);

pub(crate) const QUESTION: &str = "sampling/createMessage";

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

/// A client whose model can be asked.
pub(crate) async fn asked_client(server: &Server) -> (Client, Connection) {
    let (mut client, connection) = connect(server);
    introduce(&mut client).await;
    (client, connection)
}

pub(crate) async fn introduce(client: &mut Client) {
    introduce_as(client, "2025-11-25", json!({"sampling": {}})).await;
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
    let history = server.operator().history(ID, None, 1_000).await.unwrap();
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
