//! Recorded graphs, built and served, with bodies that do what the case says.

use super::{kind, text};
use interlock::{
    Context, Failure, Prompt, Resource, ResourceTemplate, Server, Tool, ToolResult, Workflow,
    model::{CallToolResult, ContentBlock, JsonObject},
    workflow::{BindingBuilder, Catalogue, Finding, Kind, Outcome, Problem, StateBuilder, end, to},
};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use tokio::sync::{Notify, mpsc};

/// What was found in a graph, by its codes, and the server if there is one: errors if it must not be
/// built, warnings if it must, those of the graph itself before those of what it is served with.
pub(super) fn judge(graph: &Value, ok: bool) -> (Vec<&'static str>, Option<Server>) {
    let codes = |found: &[Finding]| -> Vec<_> {
        let problems = found.iter().map(|finding| &finding.problem);
        problems.map(Problem::code).collect()
    };
    let workflow = match build(graph) {
        Ok(workflow) => workflow,
        Err(invalid) => {
            let errors = invalid.errors().map(|error| error.problem.code());
            return (errors.collect(), None);
        }
    };
    let mut warnings = codes(workflow.warnings());
    warnings.extend(codes(&workflow.check(&catalogue(graph))));
    let (script, _) = Script::new();
    match serve(graph, workflow, &script) {
        Ok(server) => (warnings, Some(server)),
        Err(errors) => {
            assert!(!ok, "{errors}");
            let codes = errors.0.iter().map(|error| {
                let interlock::BuildError::Workflow(finding) = error else {
                    panic!("{error}");
                };
                finding.problem.code()
            });
            (codes.collect(), None)
        }
    }
}

/// What a recorded graph is served with.
pub(super) fn catalogue(graph: &Value) -> Catalogue {
    let mut has = Catalogue::closed();
    for (kind, field) in [
        (Kind::Tool, "tools"),
        (Kind::Resource, "resources"),
        (Kind::Prompt, "prompts"),
    ] {
        for name in names(graph, field) {
            has.insert(kind, name);
        }
    }
    for template in graph["templates"].as_array().into_iter().flatten() {
        has.insert(Kind::Resource, text(&template["uri"]));
    }
    has
}

/// What the next body that runs does.
pub(super) struct Script {
    next: Mutex<String>,
    started: mpsc::UnboundedSender<()>,
    pub(super) finish: Notify,
}

impl Script {
    pub(super) fn new() -> (Arc<Self>, mpsc::UnboundedReceiver<()>) {
        let (started, is_started) = mpsc::unbounded_channel();
        let script = Self {
            next: Mutex::new("success".to_owned()),
            started,
            finish: Notify::new(),
        };
        (Arc::new(script), is_started)
    }

    pub(super) fn say(&self, next: &str) {
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

pub(super) fn serve(
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

pub(super) fn build(graph: &Value) -> Result<Workflow, interlock::workflow::Invalid> {
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
