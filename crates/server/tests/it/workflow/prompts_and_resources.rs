//! A prompt or a resource is an event like a tool: each of its outcomes leads where its binding
//! says, in both eras. On 2026-07-28 it has no place for a handle, and so its instance is one that
//! all share.

use crate::support::{
    journal::{entries, of_kind},
    messages::{codes, modern, refusal},
    tools::echo,
};
use interlock::{
    Context, Failure, Prompt, Resource, Server, Workflow,
    model::{GetPromptResult, JsonObject, PromptMessage, Role},
    store::MemoryStore,
    workflow::{BindingBuilder, Scope, Settings, end, to},
};
use interlock_testkit::{Client, Connection, ManualClock, connect, soon};
use serde_json::{Value, json};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::sync::mpsc;

const SECOND: Duration = Duration::from_secs(1);

/// How a client of one era or the other sends a request.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Era {
    Handshake,
    Stateless,
}

/// What is used. A resource is told beforehand what to do, as it has no arguments.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Used {
    Prompt,
    Resource,
}

/// Everything that a test of one outcome needs.
struct Stage {
    era: Era,
    used: Used,
    /// What the resource does next.
    does: Arc<Mutex<String>>,
    client: Client,
    _connection: Connection,
    clock: Arc<ManualClock>,
    store: MemoryStore,
    started: mpsc::UnboundedReceiver<()>,
}

/// In which each outcome of `draft` and of `note://draft` leads to a state of its own, whose tool
/// `end` begins anew.
fn flow() -> Workflow {
    let settings = Settings {
        scope: Scope::Global,
        ..Settings::default()
    };
    let flow = Workflow::builder("w").settings(settings).state("new", |s| {
        let ends = |b: BindingBuilder| {
            b.error("failed")
                .timeout("late")
                .cancelled("back")
                .unknown("unclear")
        };
        s.initial()
            .prompt("draft", |p| {
                ends(
                    p.when("args.who != 'nobody'")
                        .success(to("empty").when("result.messages[0].content.text == ''"))
                        .success(to("drafted").set("who", "args.who")),
                )
            })
            .resource("note://draft", |r| {
                let empty = to("empty").when("result.contents[0].text == ''");
                ends(r.success(empty).success("read"))
            })
    });
    let flow = flow.state("drafted", |s| {
        s.tool("send", |t| {
            t.when("args.who == ctx.who").success(end("new"))
        })
    });
    ["read", "empty", "failed", "late", "back", "unclear"]
        .into_iter()
        .fold(flow, |flow, state| {
            flow.state(state, |s| s.tool("end", |t| t.success(end("new"))))
        })
        .build()
        .unwrap()
}

/// Does what it is told, and gives a text if it comes to that.
async fn act(does: &str, context: Context) -> Result<&'static str, Failure> {
    match does {
        "write" => Ok("Dear you"),
        "nothing" => Ok(""),
        "fail" => Err(Failure::new("no words")),
        "panic" => panic!("on purpose"),
        "wait" => {
            context.cancelled().await;
            Err(Failure::stopped())
        }
        _ => std::future::pending().await,
    }
}

/// A prompt that does what its argument `does` says.
fn draft(on_start: mpsc::UnboundedSender<()>) -> Prompt {
    let write = move |arguments: JsonObject, context: Context| {
        let on_start = on_start.clone();
        async move {
            on_start.send(()).unwrap();
            let does = arguments.get("does").and_then(Value::as_str);
            let text = act(does.unwrap_or("write"), context).await?;
            let message = PromptMessage::new_text(Role::User, text);
            Ok::<_, Failure>(GetPromptResult::new(vec![message]))
        }
    };
    Prompt::raw("draft", write).required("who").optional("does")
}

/// A resource that does what it was told beforehand.
fn note(does: Arc<Mutex<String>>, on_start: mpsc::UnboundedSender<()>) -> Resource {
    Resource::new("note://draft", move |context: Context| {
        let (does, on_start) = (does.lock().unwrap().clone(), on_start.clone());
        async move {
            on_start.send(()).unwrap();
            act(&does, context).await
        }
    })
}

impl Stage {
    async fn new(era: Era, used: Used) -> Self {
        let (clock, store) = (Arc::new(ManualClock::new()), MemoryStore::default());
        let (on_start, started) = mpsc::unbounded_channel();
        let does = Arc::new(Mutex::new("write".to_owned()));
        let server = Server::builder("s", "0")
            .prompt(draft(on_start.clone()))
            .resource(note(Arc::clone(&does), on_start))
            .tool(echo("send"))
            .tool(echo("end"))
            .tool(echo("nowhere"))
            .clock(clock.clone())
            .store(Arc::new(store.clone()))
            .workflow(flow());
        let (mut client, connection) = connect(&server.build().unwrap());
        if era == Era::Handshake {
            client.initialize().await;
        }
        Self {
            era,
            used,
            does,
            client,
            _connection: connection,
            clock,
            store,
            started,
        }
    }

    fn params(&self, params: Value) -> Value {
        match self.era {
            Era::Handshake => params,
            Era::Stateless => modern(params),
        }
    }

    async fn begin(&mut self, arguments: Value) -> i64 {
        let params = self.params(json!({"name": "draft", "arguments": arguments}));
        self.client.begin("prompts/get", params).await
    }

    /// Begins to use what is used here.
    async fn begin_to(&mut self, does: &str) -> i64 {
        match self.used {
            Used::Prompt => self.begin(json!({"who": "Ada", "does": does})).await,
            Used::Resource => {
                does.clone_into(&mut self.does.lock().unwrap());
                let params = self.params(json!({"uri": "note://draft"}));
                self.client.begin("resources/read", params).await
            }
        }
    }

    /// Begins, and waits until the handler has.
    async fn run(&mut self, does: &str) -> i64 {
        let id = self.begin_to(does).await;
        soon("it must start", self.started.recv()).await.unwrap();
        id
    }

    /// Uses what is used here, and gives the answer.
    async fn try_to(&mut self, does: &str) -> Value {
        let id = self.run(does).await;
        self.client.until(id).await.1
    }

    async fn draft(&mut self, arguments: Value) -> (Vec<Value>, Value) {
        let id = self.begin(arguments).await;
        self.client.until(id).await
    }

    /// Calls a tool; whatever came before is told in lists that nobody asked about here.
    async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let params = self.params(json!({"name": tool, "arguments": arguments}));
        let (_, answer) = self.client.exchange("tools/call", params).await;
        answer["result"].clone()
    }

    async fn state(&mut self) -> String {
        let refused = self.call("nowhere", json!({})).await;
        assert_eq!(refusal(&refused), 1081, "{refused}");
        let told = &refused["_meta"]["dev.interlock/refusal"]["state"];
        told.as_str().unwrap().to_owned()
    }

    /// The instance stands there, the journal says why, and it goes on from there.
    async fn has_moved(&mut self, outcome: &str, place: &str) {
        let moved = async { while self.state().await == "new" {} };
        soon("the step must be taken", moved).await;
        assert_eq!(self.state().await, place, "{:?} {:?}", self.era, self.used);
        let journal = entries(&self.store, "global:w").await;
        let step = *of_kind(&journal, "step").last().unwrap();
        let told =
            ["kind", "name", "outcome", "from", "to"].map(|part| step[part].as_str().unwrap());
        let (kind, name) = match self.used {
            Used::Prompt => ("prompt", "draft"),
            Used::Resource => ("resource", "note://draft"),
        };
        assert_eq!(told, [kind, name, outcome, "new", place]);
        let tool = if place == "drafted" { "send" } else { "end" };
        let ended = self.call(tool, json!({"who": "Ada"})).await;
        assert_eq!(ended["isError"], false, "{ended}");
        assert_eq!(self.state().await, "new");
    }
}

async fn in_both_eras(test: impl AsyncFn(Stage)) {
    for era in [Era::Handshake, Era::Stateless] {
        test(Stage::new(era, Used::Prompt).await).await;
    }
}

async fn for_both_in_both_eras(test: impl AsyncFn(Stage)) {
    in_both_eras(&test).await;
    for era in [Era::Handshake, Era::Stateless] {
        test(Stage::new(era, Used::Resource).await).await;
    }
}

#[tokio::test]
async fn a_prompt_that_succeeds_moves_the_instance_and_is_remembered() {
    in_both_eras(async |mut stage| {
        let (before, answer) = stage.draft(json!({"who": "Ada"})).await;
        let text = &answer["result"]["messages"][0]["content"]["text"];
        assert_eq!(text, "Dear you", "{answer}");
        let place = &answer["result"]["_meta"]["dev.interlock/workflow"];
        assert_eq!(place["state"], "drafted", "{answer}");
        assert_eq!(place["next"], json!(["send"]));
        let told: Vec<_> = before
            .iter()
            .map(|one| one["method"].as_str().unwrap())
            .collect();
        let changed = [
            "notifications/tools/list_changed",
            "notifications/resources/list_changed",
            "notifications/prompts/list_changed",
        ];
        match stage.era {
            Era::Handshake => assert_eq!(told, changed),
            Era::Stateless => assert_eq!(told, [] as [&str; 0]),
        }
        let refused = stage.call("send", json!({"who": "Bob"})).await;
        assert_eq!(refusal(&refused), 1082, "{refused}");
        let (_, again) = stage.draft(json!({"who": "Ada"})).await;
        assert_eq!(codes(&again), (-32602, 1081));
        stage.has_moved("success", "drafted").await;
    })
    .await;
}

#[tokio::test]
async fn a_resource_that_is_read_moves_the_instance() {
    for era in [Era::Handshake, Era::Stateless] {
        let mut stage = Stage::new(era, Used::Resource).await;
        let answer = stage.try_to("write").await;
        let result = &answer["result"];
        assert_eq!(result["contents"][0]["text"], "Dear you", "{answer}");
        let place = &result["_meta"]["dev.interlock/workflow"];
        assert_eq!(place["state"], "read", "{answer}");
        assert_eq!(place["next"], json!(["end"]));
        let id = stage.begin_to("write").await;
        let (_, again) = stage.client.until(id).await;
        assert_eq!(codes(&again), (-32602, 1081));
        stage.has_moved("success", "read").await;
    }
}

#[tokio::test]
async fn a_guard_on_the_result_chooses_the_edge() {
    for_both_in_both_eras(async |mut stage| {
        stage.try_to("nothing").await;
        stage.has_moved("success", "empty").await;
    })
    .await;
}

#[tokio::test]
async fn a_prompt_whose_guard_refuses_moves_nothing() {
    in_both_eras(async |mut stage| {
        let (before, refused) = stage.draft(json!({"who": "nobody"})).await;
        assert_eq!(before, [] as [Value; 0]);
        assert_eq!(codes(&refused), (-32602, 1082));
        assert_eq!(refused["error"]["data"]["refusal"]["state"], "new");
        // Nor does one that lacks what it needs.
        let (_, refused) = stage.draft(json!({})).await;
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
        assert_eq!(stage.state().await, "new");
        assert!(stage.started.try_recv().is_err(), "it has run");
        stage.draft(json!({"who": "Ada"})).await;
        stage.has_moved("success", "drafted").await;
    })
    .await;
}

#[tokio::test]
async fn what_fails_or_panics_takes_the_edge_of_an_error() {
    for_both_in_both_eras(async |mut stage| {
        for does in ["fail", "panic"] {
            let answer = stage.try_to(does).await;
            let error = &answer["error"];
            assert_eq!(error["code"], -32603, "{answer}");
            // A step was taken, so nothing may say that the same request can simply be repeated.
            assert_eq!(error["data"].get("refusal"), None, "{answer}");
            let place = &error["data"]["dev.interlock/workflow"];
            assert_eq!(place["state"], "failed", "{answer}");
            assert_eq!(place["next"], json!(["end"]));
            stage.has_moved("error", "failed").await;
        }
    })
    .await;
}

#[tokio::test]
async fn what_takes_too_long_takes_the_edge_of_a_timeout() {
    for_both_in_both_eras(async |mut stage| {
        let id = stage.run("hang").await;
        stage.clock.advance(30 * SECOND);
        let (_, answer) = stage.client.until(id).await;
        assert_eq!(codes(&answer), (-32603, 1069));
        let place = &answer["error"]["data"]["dev.interlock/workflow"];
        assert_eq!(place["state"], "late", "{answer}");
        let refusal = &answer["error"]["data"]["refusal"];
        assert_eq!(refusal["retryable"], false, "{answer}");
        stage.has_moved("timeout", "late").await;
    })
    .await;
}

#[tokio::test]
async fn what_is_taken_back_is_cancelled_or_unknown() {
    for_both_in_both_eras(async |mut stage| {
        for (does, outcome, place) in [
            ("wait", "cancelled", "back"),
            ("hang", "unknown", "unclear"),
        ] {
            let id = stage.run(does).await;
            let params = json!({"requestId": id});
            stage.client.notify("notifications/cancelled", params).await;
            let ping = stage.params(json!({}));
            // Once this is answered, the server has heard it.
            stage.client.request("tools/list", ping).await;
            stage.clock.advance(5 * SECOND);
            stage.has_moved(outcome, place).await;
        }
    })
    .await;
}
