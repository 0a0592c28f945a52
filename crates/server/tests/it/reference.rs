//! The recorded behaviour of the reference automaton SDK, over the wire.
//!
//! Every case of the fixture is named in [`CASES`]. Where it says that we match, the wire shows
//! what was recorded; where it says that we differ, it shows the better thing named there.

use crate::common::{PATIENCE, codes, nothing_comes, refusal, state};
use interlock::{
    Context, Failure, Prompt, Resource, ResourceTemplate, Server, Tool, ToolResult, Workflow,
    model::{CallToolResult, ContentBlock, JsonObject},
    workflow::{BindingBuilder, Kind, Outcome, StateBuilder, end, to},
};
use interlock_testkit::{Client, Connection, connect};
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};
use tokio::sync::{Notify, mpsc};

/// What we do with a case.
#[derive(Clone, Copy)]
enum Verdict {
    /// Exactly as recorded.
    Matches,
    /// Better, in the way described.
    Differs(&'static str),
    /// Not seen on this wire, for the reason given.
    OutOfScope(&'static str),
}
use Verdict::{Differs, Matches, OutOfScope};

#[rustfmt::skip]
const CASES: &[(&str, Verdict)] = &[
    ("A01", Matches),
    ("A04", Differs("the refusal also names what is allowed and the way to what was wanted")),
    ("A05", Differs("a name that is nowhere is a JSON-RPC error")),
    ("A06", Differs("the tool that is bound nowhere is warned of when the workflow meets the server")),
    ("B01", Differs("lists that change are announced without being told to")),
    ("B05", Differs("lists that change are announced without being told to")),
    ("C01", Differs("the refusal is -32602 with 1081 and the state, and the tool list is announced, too")),
    ("C04", Differs("the resource of the template is read with its parameters")),
    ("C06", Differs("no template is bound here, and the list of them is empty")),
    ("D01", Differs("refused arguments take no step")),
    ("D02", Differs("a result with isError is an error")),
    ("D05", Differs("a call that can move waits for the one before it and is judged again")),
    ("D07", Differs("terminal is a property of one edge")),
    ("D08", Differs("a cancelled call takes no step and the session lives")),
    ("E02", OutOfScope("it needs HTTP")),
    ("V01", Matches),
    ("V02", Matches),
    ("V03", Differs("unknown names do not hide the end behind them")),
    ("V04", Differs("nothing is removed, and the state is warned of")),
    ("V05", Differs("nothing is pruned, and the bindings are warned of")),
    ("V09", Differs("the traps are warned of")),
    ("V10", Differs("the tools that are bound nowhere are warned of")),
    ("V14", Differs("the tools that are bound nowhere are warned of")),
    ("V15", Differs("two edges for one symbol are an error that names both")),
];

#[test]
fn every_case_has_a_verdict_that_fits_it() {
    let fixture = fixture();
    let recorded: Vec<_> = cases(&fixture).map(|case| text(&case["id"])).collect();
    let judged: Vec<_> = CASES.iter().map(|(id, _)| *id).collect();
    assert_eq!(judged, recorded);
    for case in cases(&fixture) {
        match verdict(case) {
            Matches => assert!(case["deliberate_difference"].is_null(), "{}", case["id"]),
            Differs(how) | OutOfScope(how) => {
                assert!(case["deliberate_difference"].is_string(), "{}", case["id"]);
                assert!(!how.is_empty());
            }
        }
    }
}

#[tokio::test]
async fn recorded_runs_go_as_recorded_or_better() {
    let fixture = fixture();
    let mut played = Vec::new();
    for case in cases(&fixture).filter(|case| case["steps"].is_array()) {
        if let OutOfScope(_) = verdict(case) {
            continue;
        }
        let graph = &fixture["graphs"][text(&case["graph"])];
        Run::new(case, graph).await.play().await;
        played.push(text(&case["id"]));
    }
    assert_eq!(
        played,
        [
            "A01", "A04", "A05", "A06", "B01", "B05", "C01", "C04", "C06", "D01", "D02", "D05",
            "D07", "D08"
        ]
    );
}

#[tokio::test]
async fn recorded_builds_are_judged_as_recorded_or_better() {
    #[rustfmt::skip]
    let expected: &[(&str, &[&str])] = &[
        ("V01", &["no-initial-state"]),
        ("V02", &["no-reachable-end"]),
        ("V03", &["unknown-artifact", "unknown-artifact", "unknown-artifact"]),
        ("V04", &["unreachable-state"]),
        ("V05", &["bindings-after-end"]),
        ("V09", &["trap", "trap"]),
        ("V10", &[]),
        ("V14", &[]),
        ("V15", &["two-edges"]),
    ];
    let fixture = fixture();
    let mut built = Vec::new();
    for case in cases(&fixture).filter(|case| case["expect_build"].is_object()) {
        if let OutOfScope(_) = verdict(case) {
            continue;
        }
        let id = text(&case["id"]);
        let ok = case["expect_build"]["ok"] == true;
        let (codes, server) = judge(&case["graph_inline"], ok);
        assert_eq!(server.is_some(), ok, "{id}");
        if let Some(server) = server {
            // What was built can be walked from its beginning.
            let (mut client, _connection) = connect(&server);
            client.initialize().await;
            assert_eq!(state(&mut client).await, "s0", "{id}");
            let listed: BTreeSet<_> = client.tools().await.into_iter().collect();
            let bindings = case["graph_inline"]["states"][0]["bindings"]
                .as_array()
                .unwrap();
            let bound: BTreeSet<_> = bindings
                .iter()
                .filter(|b| kind(b) == Kind::Tool)
                .map(|b| text(&b["ident"]).to_owned())
                .collect();
            assert_eq!(listed, bound, "{id}");
        }
        built.push((id, codes));
    }
    let expected: Vec<_> = expected
        .iter()
        .map(|(id, codes)| {
            (
                *id,
                codes.iter().map(ToString::to_string).collect::<Vec<_>>(),
            )
        })
        .collect();
    assert_eq!(built, expected);
}

/// The codes that tell one graph from another, and the server if there is one: errors if it must
/// not be built, warnings if it must.
fn judge(graph: &Value, ok: bool) -> (Vec<String>, Option<Server>) {
    let told = |codes: Vec<&'static str>| {
        let told = codes.into_iter().filter(|code| *code != "bound-nowhere");
        told.map(str::to_owned).collect()
    };
    let workflow = match build(graph) {
        Ok(workflow) => workflow,
        Err(invalid) => {
            return (
                told(invalid.errors().map(|error| error.problem.code()).collect()),
                None,
            );
        }
    };
    let warnings = workflow
        .warnings()
        .iter()
        .map(|warning| warning.problem.code())
        .collect();
    let (script, _) = Script::new();
    match serve(graph, workflow, &script) {
        Ok(server) => (told(warnings), Some(server)),
        Err(errors) => {
            assert!(!ok, "{errors}");
            let codes = errors.0.iter().map(|error| {
                let interlock::BuildError::Workflow(finding) = error else {
                    panic!("{error}");
                };
                finding.problem.code()
            });
            (told(codes.collect()), None)
        }
    }
}

/// What the next body that runs does.
struct Script {
    next: Mutex<String>,
    started: mpsc::UnboundedSender<()>,
    finish: Notify,
}

impl Script {
    fn new() -> (Arc<Self>, mpsc::UnboundedReceiver<()>) {
        let (started, is_started) = mpsc::unbounded_channel();
        let script = Self {
            next: Mutex::new("success".to_owned()),
            started,
            finish: Notify::new(),
        };
        (Arc::new(script), is_started)
    }

    fn say(&self, next: &str) {
        *self.next.lock().unwrap() = next.to_owned();
    }

    async fn body(&self, context: Context) -> Result<ToolResult, Failure> {
        let next = self.next.lock().unwrap().clone();
        let content = |text: &str| vec![ContentBlock::text(text.to_owned())];
        match next.as_str() {
            "success" => {}
            "error" => return Err(Failure::new("boom")),
            "soft_error" => return Ok(ToolResult::Typed(CallToolResult::error(content("soft")))),
            "block" => {
                self.started.send(()).unwrap();
                tokio::select! {
                    () = self.finish.notified() => {}
                    () = context.cancelled() => return Err(Failure::stopped()),
                }
            }
            other => panic!("unknown outcome {other}"),
        }
        Ok(ToolResult::Typed(CallToolResult::success(content("ok"))))
    }
}

fn serve(
    graph: &Value,
    workflow: Workflow,
    script: &Arc<Script>,
) -> Result<Server, interlock::BuildErrors> {
    let mut builder = Server::builder("recorded", "0");
    let schema = json!({"type": "object", "properties": {"fail": {"type": "boolean"}}});
    for name in names(graph, "tools")
        .into_iter()
        .chain(["nowhere".to_owned()])
    {
        let script = Arc::clone(script);
        let body = move |_, context: Context| {
            let script = Arc::clone(&script);
            async move { script.body(context).await }
        };
        builder = builder.tool(Tool::raw(name, object(&schema), body));
    }
    for uri in names(graph, "resources") {
        builder = builder.resource(Resource::text(uri, "text"));
    }
    for template in graph["templates"].as_array().into_iter().flatten() {
        let body = text(&template["body"]).to_owned();
        let greet = move |values: JsonObject, _| {
            let name = text(&values["name"]);
            std::future::ready(body.replace("{name}", name))
        };
        builder = builder.template(ResourceTemplate::raw(text(&template["uri"]), greet));
    }
    for name in names(graph, "prompts") {
        builder = builder.prompt(Prompt::text(name, "text"));
    }
    builder.workflow(workflow).build()
}

fn object(value: &Value) -> JsonObject {
    value.as_object().unwrap().clone()
}

fn names(graph: &Value, field: &str) -> Vec<String> {
    let entries = graph[field].as_array().into_iter().flatten();
    entries
        .map(|entry| {
            entry
                .as_str()
                .unwrap_or_else(|| text(&entry["name"]))
                .to_owned()
        })
        .collect()
}

fn build(graph: &Value) -> Result<Workflow, interlock::workflow::Invalid> {
    let bind = |state: StateBuilder, binding: &Value| {
        let define = |b: BindingBuilder| {
            [Outcome::Success, Outcome::Error]
                .into_iter()
                .fold(b, |b, outcome| {
                    let edge = &binding[outcome.to_string()];
                    match edge["to"].as_str() {
                        Some(target) if edge["terminal"] == true => b.on(outcome, end(target)),
                        Some(target) => b.on(outcome, to(target)),
                        None => b,
                    }
                })
        };
        state.bind(kind(binding), text(&binding["ident"]), define)
    };
    let states = graph["states"].as_array().unwrap().iter();
    let flow = states.fold(Workflow::builder("recorded"), |flow, state| {
        flow.state(text(&state["name"]), |s| {
            let s = if state["initial"] == true {
                s.initial()
            } else {
                s
            };
            state["bindings"].as_array().unwrap().iter().fold(s, bind)
        })
    });
    flow.build()
}

/// One recorded run, with everything that is needed to play it.
struct Run<'a> {
    case: &'a Value,
    script: Arc<Script>,
    started: mpsc::UnboundedReceiver<()>,
    client: Client,
    _connection: Connection,
    /// Calls that have begun and not been answered: the one that runs, then those that wait.
    begun: Vec<i64>,
}

impl<'a> Run<'a> {
    async fn new(case: &'a Value, graph: &Value) -> Self {
        let (script, started) = Script::new();
        let workflow = build(graph).unwrap();
        if case["id"] == "A06" {
            let mut has = interlock::workflow::Catalogue::closed();
            names(graph, "tools")
                .iter()
                .for_each(|name| has.insert(Kind::Tool, name));
            let told: Vec<_> = workflow
                .check(&has)
                .iter()
                .map(ToString::to_string)
                .collect();
            assert_eq!(told.len(), 1, "{told:?}");
            assert!(told[0].contains("t_unbound"), "{told:?}");
        }
        let server = serve(graph, workflow, &script).unwrap();
        let (mut client, connection) = connect(&server);
        client.initialize().await;
        Self {
            case,
            script,
            started,
            client,
            _connection: connection,
            begun: Vec::new(),
        }
    }

    fn id(&self) -> &'a str {
        text(&self.case["id"])
    }

    async fn play(mut self) {
        let steps = self.case["steps"].as_array().unwrap();
        for (n, step) in steps.iter().enumerate() {
            let better = &self.case["better_expect"]["state_after"];
            let last = n + 1 == steps.len();
            let after = if last && better.is_string() {
                better
            } else {
                &step["state_after"]
            };
            match text(&step["op"]) {
                "list" => self.list(step).await,
                "list_templates" => self.list_templates().await,
                "invoke" if self.begun.is_empty() => self.invoke(step, after).await,
                "invoke" => self.wait(step).await,
                "begin" => self.begin(text(&step["ident"])).await,
                "finish" => self.finish().await,
                "manual" => self.manual(after).await,
                other => panic!("{}: unknown operation {other}", self.id()),
            }
        }
        nothing_comes(&mut self.client).await;
    }

    async fn list(&mut self, step: &Value) {
        let mut listed = listed(&mut self.client, kind(step)).await;
        listed.sort_unstable();
        assert_eq!(step["expect"], json!(listed), "{}", self.id());
    }

    async fn list_templates(&mut self) {
        let answer = self
            .client
            .request("resources/templates/list", json!({}))
            .await;
        assert_eq!(answer["result"]["resourceTemplates"], json!([]), "{answer}");
    }

    async fn invoke(&mut self, step: &Value, after: &Value) {
        self.script
            .say(step["outcome"].as_str().unwrap_or("success"));
        let before = self.lists().await;
        let (method, params) = request(step);
        let (notifications, answer) = self.client.exchange(method, params).await;
        let announced: Vec<_> = notifications
            .iter()
            .map(|one| text(&one["method"]).to_owned())
            .collect();
        self.answered(step, &answer);
        assert_eq!(
            *after,
            state(&mut self.client).await,
            "{}: {step}",
            self.id()
        );

        let now = self.lists().await;
        let differ: Vec<_> = Kind::ALL
            .into_iter()
            .filter(|kind| before[*kind as usize] != now[*kind as usize])
            .map(|kind| format!("notifications/{kind}s/list_changed"))
            .collect();
        assert_eq!(announced, differ, "{}: {step}", self.id());
        if let Matches = verdict(self.case) {
            assert_eq!(
                step["notifications"],
                json!(announced),
                "{}: {step}",
                self.id()
            );
        }
    }

    fn answered(&self, step: &Value, answer: &Value) {
        let (id, expect, result) = (self.id(), &step["expect"], &answer["result"]);
        let said = result["content"][0]["text"].as_str().unwrap_or_default();
        let recorded = [&expect["tool_error"], &expect["rpc_error"]["message"]];
        let recorded = recorded
            .into_iter()
            .find_map(Value::as_str)
            .unwrap_or_default();
        let sentence = recorded.split(". ").next().unwrap();
        match id {
            "A05" => assert_eq!(codes(answer), (-32602, 1048), "{answer}"),
            "D01" => assert_eq!(refusal(result), 1022, "{answer}"),
            "C01" if expect["rpc_error"].is_object() => {
                assert_eq!(codes(answer), (-32602, 1081), "{answer}");
                assert!(
                    text(&answer["error"]["message"]).starts_with(sentence),
                    "{answer}"
                );
                assert_eq!(
                    answer["error"]["data"]["refusal"]["state"],
                    step["state_after"]
                );
            }
            "A04" | "A06" => {
                assert_eq!(refusal(result), 1081, "{answer}");
                assert!(said.starts_with(sentence), "{answer}");
                let told = &result["_meta"]["dev.interlock/refusal"];
                assert_eq!(told["state"], step["state_after"]);
                assert_eq!(told["allowed"], json!(["t_open_door"]));
                assert_eq!(told["path"].is_array(), id == "A04", "{answer}");
            }
            "C04" => {
                let better = &self.case["better_expect"]["text"];
                assert_eq!(result["contents"][0]["text"], *better, "{answer}");
                assert_eq!(result["contents"][0]["uri"], step["ident"]);
            }
            _ if expect["ok"] == true => {
                assert!(
                    result.is_object() && result["isError"] != true,
                    "{id}: {answer}"
                );
            }
            _ => {
                // The recording puts words of its own before what the body said.
                assert_eq!(result["isError"], true, "{id}: {answer}");
                assert!(
                    !said.is_empty() && recorded.ends_with(said),
                    "{id}: {answer}"
                );
                assert!(refusal(result).is_null(), "{id}: {answer}");
            }
        }
    }

    async fn begin(&mut self, tool: &str) {
        self.script.say("block");
        let id = self.client.begin("tools/call", json!({"name": tool})).await;
        tokio::time::timeout(PATIENCE, self.started.recv())
            .await
            .unwrap()
            .unwrap();
        self.begun.push(id);
    }

    /// A call that comes while another one holds the instance.
    async fn wait(&mut self, step: &Value) {
        self.script.say("success");
        let (method, params) = request(step);
        let id = self.client.begin(method, params).await;
        nothing_comes(&mut self.client).await;
        self.begun.push(id);
    }

    /// The call that holds the instance succeeds; the one that waited is judged again.
    async fn finish(&mut self) {
        assert_eq!(self.id(), "D05");
        let better = &self.case["better_expect"]["fast"];
        assert_eq!(better, "waits for slow, then is refused in sSlow");
        self.script.finish.notify_one();
        let (_, answer) = self.client.until(self.begun[0]).await;
        assert_eq!(answer["result"]["content"][0]["text"], "ok", "{answer}");
        let (_, answer) = self.client.until(self.begun[1]).await;
        assert_eq!(refusal(&answer["result"]), 1081, "{answer}");
        assert_eq!(
            answer["result"]["_meta"]["dev.interlock/refusal"]["state"],
            "sSlow"
        );
        assert_eq!(state(&mut self.client).await, "sSlow");
    }

    /// Case D08: begin t, which blocks, take it back, then list.
    async fn manual(&mut self, after: &Value) {
        assert_eq!(self.id(), "D08");
        self.begin("t").await;
        let params = json!({"requestId": self.begun[0]});
        self.client.notify("notifications/cancelled", params).await;
        assert_eq!(self.client.tools().await, ["t"]);
        assert_eq!(*after, state(&mut self.client).await);
        // The instance is free again.
        self.script.say("success");
        let (_, result) = self.client.call("t", json!({})).await;
        assert_eq!(result["content"][0]["text"], "ok", "{result}");
        assert_eq!(state(&mut self.client).await, "sOK");
    }

    async fn lists(&mut self) -> Vec<Vec<String>> {
        let mut all = Vec::new();
        for kind in Kind::ALL {
            all.push(listed(&mut self.client, kind).await);
        }
        all
    }
}

async fn listed(client: &mut Client, kind: Kind) -> Vec<String> {
    let name = match kind {
        Kind::Tool | Kind::Prompt => "name",
        Kind::Resource => "uri",
    };
    let answer = client.request(&format!("{kind}s/list"), json!({})).await;
    let list = answer["result"][format!("{kind}s")]
        .as_array()
        .into_iter()
        .flatten();
    list.map(|one| text(&one[name]).to_owned()).collect()
}

fn request(step: &Value) -> (&'static str, Value) {
    let name = &step["ident"];
    match kind(step) {
        Kind::Tool if step["arguments"].is_object() => (
            "tools/call",
            json!({"name": name, "arguments": step["arguments"]}),
        ),
        Kind::Tool => ("tools/call", json!({"name": name})),
        Kind::Resource => ("resources/read", json!({"uri": name})),
        Kind::Prompt => ("prompts/get", json!({"name": name})),
    }
}

fn fixture() -> Value {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../workflow/tests/fixtures/reference.json"
    );
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn cases(fixture: &Value) -> impl Iterator<Item = &Value> {
    fixture["cases"].as_array().unwrap().iter()
}

fn verdict(case: &Value) -> Verdict {
    let id = text(&case["id"]);
    CASES.iter().find(|(known, _)| *known == id).unwrap().1
}

fn kind(value: &Value) -> Kind {
    serde_json::from_value(value["kind"].clone()).unwrap()
}

#[track_caller]
fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}
