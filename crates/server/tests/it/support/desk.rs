//! The desk: a small server with a workflow in which every outcome leads to a state of its own.

use super::{messages::refusal, tools::tool};
use interlock::{
    Builder, Prompt, Resource, Server, Tool, Workflow,
    workflow::{Scope, Settings, end},
};
use interlock_testkit::Client;
use serde_json::json;

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

/// The desk with a `work` that is done at once.
pub(crate) fn desk_server() -> Server {
    desk(tool("work")).build().unwrap()
}

/// Where the client's instance stands. Asking moves nothing.
pub(crate) async fn state(client: &mut Client) -> String {
    let (before, result) = client.call("nowhere", json!({})).await;
    assert!(before.is_empty(), "{before:?}");
    assert_eq!(refusal(&result), 1081, "{result}");
    let refusal = &result["_meta"]["dev.interlock/refusal"];
    refusal["state"].as_str().unwrap().to_owned()
}

/// Settings of an instance that everybody shares.
pub(crate) fn global() -> Settings {
    Settings {
        scope: Scope::Global,
        ..Settings::default()
    }
}

/// A workflow whose `work` stays where it is if all goes well, yet has to take turns.
pub(crate) fn looped(work: Tool, other: Tool) -> Builder {
    let flow = Workflow::builder("loop")
        .state("open", |s| {
            s.initial()
                .tool("work", |t| t.success("open").error("failed"))
                .tool("other", |t| {
                    t.success("open").error("failed").unknown("open")
                })
                .tool("close", |t| t.success(end("open")))
        })
        .state("failed", |s| s.tool("close", |t| t.success(end("open"))))
        .build()
        .unwrap();
    Server::builder("loop", "0")
        .tool(work)
        .tool(other)
        .tool(tool("close"))
        .tool(tool("nowhere"))
        .workflow(flow)
}
