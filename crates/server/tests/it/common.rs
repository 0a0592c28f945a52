//! What the tests share: a small server, handlers that wait to be let go, and questions that are
//! asked often.

use interlock::{
    Builder, Context, Failure, NoArguments, Prompt, Resource, Server, Tool, Workflow,
    workflow::{Settings, end},
};
use interlock_testkit::Client;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::{
    io::DuplexStream,
    sync::{Semaphore, mpsc},
    task::JoinHandle,
};

pub(crate) use interlock_testkit::PATIENCE;

/// A tool that does what it is asked at once.
pub(crate) fn tool(name: &'static str) -> Tool {
    Tool::new(name, move |_: NoArguments, _: Context| async move {
        format!("{name} is done")
    })
}

/// A workflow in which every outcome of `work` leads to a state of its own.
///
/// `peek` is bound at the beginning and moves nothing, `search` is always there, and `nowhere` is
/// bound nowhere: refusing it tells where the instance stands.
pub(crate) fn desk_flow(settings: Settings) -> Workflow {
    let closing = |flow: interlock::workflow::Builder, state: &str| {
        flow.state(state, |s| s.tool("close", |t| t.success(end("open"))))
    };
    let flow = Workflow::builder("desk")
        .settings(settings)
        .state("open", |s| {
            s.initial()
                .tool("work", |t| {
                    t.success("done")
                        .error("failed")
                        .timeout("late")
                        .cancelled("back")
                        .unknown("unclear")
                })
                .tool("peek", |t| t.success("open"))
                .resource("note://rules", |r| r.success("open"))
                .prompt("sorry", |p| p.success("open"))
        })
        .always_tool("search");
    ["done", "failed", "late", "back", "unclear"]
        .into_iter()
        .fold(flow, closing)
        .build()
        .unwrap()
}

/// A server that has everything [`desk_flow`] names, and no workflow yet.
pub(crate) fn desk_without_workflow(work: Tool) -> Builder {
    Server::builder("desk", "1.0.0")
        .tool(work)
        .tool(tool("peek"))
        .tool(tool("close"))
        .tool(tool("search"))
        .tool(tool("nowhere"))
        .resource(Resource::text("note://rules", "be kind"))
        .prompt(Prompt::text("sorry", "Apologise to {{who}}.").required("who"))
}

/// The desk, served as the settings say.
pub(crate) fn desk_with(settings: Settings, work: Tool) -> Builder {
    desk_without_workflow(work).workflow(desk_flow(settings))
}

/// The desk, served as by default.
pub(crate) fn desk(work: Tool) -> Builder {
    desk_with(Settings::default(), work)
}

/// What a held tool does when its call is taken back.
#[derive(Clone, Copy)]
pub(crate) enum OnCancel {
    /// It takes no notice.
    GoesOn,
    /// It stops and says so.
    Stops,
}

/// The other end of a tool that says when it starts and waits until it is let go.
pub(crate) struct Held {
    started: mpsc::UnboundedReceiver<()>,
    stopped: mpsc::UnboundedReceiver<()>,
    go: Arc<Semaphore>,
}

/// A tool that says when it starts and waits until it is let go.
pub(crate) fn held(name: &'static str, on_cancel: OnCancel) -> (Tool, Held) {
    let (on_start, started) = mpsc::unbounded_channel();
    let (on_stop, stopped) = mpsc::unbounded_channel();
    let go = Arc::new(Semaphore::new(0));
    let gate = Arc::clone(&go);
    let tool = Tool::new(name, move |_: NoArguments, context: Context| {
        let (on_start, on_stop, gate) = (on_start.clone(), on_stop.clone(), Arc::clone(&gate));
        async move {
            on_start.send(()).unwrap();
            let stop = async {
                match on_cancel {
                    OnCancel::GoesOn => std::future::pending().await,
                    OnCancel::Stops => context.cancelled().await,
                }
            };
            tokio::select! {
                permit = gate.acquire() => permit.unwrap().forget(),
                () = stop => {
                    on_stop.send(()).unwrap();
                    return Err(Failure::stopped());
                }
            }
            Ok("done")
        }
    });
    let held = Held {
        started,
        stopped,
        go,
    };
    (tool, held)
}

impl Held {
    /// Waits until one more call has started.
    pub(crate) async fn started(&mut self) {
        let started = tokio::time::timeout(PATIENCE, self.started.recv()).await;
        started.expect("a call must start").unwrap();
    }

    /// Waits until one more call has heard that it was taken back, and stops.
    pub(crate) async fn stopped(&mut self) {
        let stopped = tokio::time::timeout(PATIENCE, self.stopped.recv()).await;
        stopped.expect("a call must stop").unwrap();
    }

    /// Whether every call that has started was waited for.
    pub(crate) fn is_quiet(&mut self) -> bool {
        self.started.try_recv().is_err()
    }

    /// Lets so many calls go.
    pub(crate) fn let_go(&self, calls: usize) {
        self.go.add_permits(calls);
    }
}

/// Where the client's instance stands. Asking moves nothing.
pub(crate) async fn state(client: &mut Client) -> String {
    let (before, result) = client.call("nowhere", json!({})).await;
    assert!(before.is_empty(), "{before:?}");
    assert_eq!(refusal(&result), 1081, "{result}");
    let refusal = &result["_meta"]["dev.interlock/refusal"];
    refusal["state"].as_str().unwrap().to_owned()
}

/// The code with which a tool call was refused.
pub(crate) fn refusal(result: &Value) -> &Value {
    &result["_meta"]["dev.interlock/refusal"]["code"]
}

/// The JSON-RPC code and the refusal's own code of an error.
pub(crate) fn codes(answer: &Value) -> (i64, i64) {
    let error = &answer["error"];
    let number = |value: &Value| value.as_i64().unwrap_or_else(|| panic!("{answer}"));
    (
        number(&error["code"]),
        number(&error["data"]["refusal"]["code"]),
    )
}

/// Proves that nothing is on its way: the next thing that comes is the answer to a ping.
pub(crate) async fn nothing_comes(client: &mut Client) {
    let (before, answer) = client.exchange("ping", json!({})).await;
    assert_eq!(before, [] as [Value; 0]);
    assert_eq!(answer["result"], json!({}));
}

/// Sends a line as it is and gives what comes next.
pub(crate) async fn answer_to(client: &mut Client, line: &str) -> Value {
    client.send_bytes(line.as_bytes()).await;
    client.send_bytes(b"\n").await;
    let answer = client.receive().await.expect("an answer must come");
    is_one_message(&answer);
    answer
}

/// Reads `n` answers, in whatever order they come, and gives them by id with the notifications.
pub(crate) async fn answers(client: &mut Client, n: usize) -> (Vec<Value>, Vec<Value>) {
    let (mut notifications, mut answers) = (Vec::new(), Vec::new());
    while answers.len() < n {
        let message = client.receive().await.expect("the server must answer");
        is_one_message(&message);
        if message.get("method").is_some() {
            notifications.push(message);
        } else {
            answers.push(message);
        }
    }
    answers.sort_by_key(|answer| answer["id"].as_i64());
    (notifications, answers)
}

/// One complete JSON-RPC message: a notification, or an answer with a result or an error.
#[track_caller]
pub(crate) fn is_one_message(message: &Value) {
    assert_eq!(message["jsonrpc"], "2.0", "{message}");
    let has = |member: &str| message.get(member).is_some();
    if has("method") {
        assert!(!has("id") && !has("result") && !has("error"), "{message}");
    } else {
        assert!(has("result") != has("error"), "{message}");
        assert!(has("id") || has("error"), "{message}");
    }
    if let Some(error) = message.get("error") {
        assert!(error["code"].is_i64(), "{message}");
        assert!(error["message"].is_string(), "{message}");
    }
}

/// Parameters of a 2026-07-28 request.
pub(crate) fn modern(mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    params
}

/// Parameters of `initialize`.
pub(crate) fn hello(version: impl Into<Value>) -> Value {
    json!({
        "protocolVersion": version.into(),
        "capabilities": {},
        "clientInfo": {"name": "tester", "version": "0"},
    })
}

/// A connection whose two directions the test holds in its own hands.
pub(crate) struct Ends {
    pub(crate) to_server: DuplexStream,
    pub(crate) from_server: DuplexStream,
    pub(crate) task: JoinHandle<std::io::Result<()>>,
}

/// Serves a client that may close or neglect either direction.
pub(crate) fn ends(server: &Server) -> Ends {
    let (to_server, reader) = tokio::io::duplex(64 * 1024);
    let (writer, from_server) = tokio::io::duplex(64 * 1024);
    let server = server.clone();
    let task =
        tokio::spawn(async move { server.serve(reader, writer, std::future::pending()).await });
    Ends {
        to_server,
        from_server,
        task,
    }
}

/// Waits until the server is done with a client, and proves that it did not fail.
pub(crate) async fn ended(task: JoinHandle<std::io::Result<()>>) {
    tokio::time::timeout(PATIENCE, task)
        .await
        .expect("the server must end")
        .expect("the server must not panic")
        .expect("the server must not fail");
}
