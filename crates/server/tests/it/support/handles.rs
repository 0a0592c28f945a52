//! A desk of tools only, which clients go through by handles.

use super::tools::tool;
use interlock::{
    Builder, Context, Server, Tool, Workflow, schemars,
    workflow::{Scope, Settings, end},
};

/// A workflow of tools only: `work` leads on, `close` ends it, `peek` stays, `search` is free.
pub(crate) fn flow(settings: Settings) -> Workflow {
    Workflow::builder("desk")
        .settings(settings)
        .state("open", |s| {
            s.initial()
                .instructions("Work first.")
                .tool("work", |t| t.success("done").error("failed"))
                .tool("peek", |t| t.success("open"))
        })
        .state("done", |s| s.tool("close", |t| t.success(end("closed"))))
        .state("failed", |s| s.tool("close", |t| t.success(end("closed"))))
        .always_tool("search")
        .build()
        .unwrap()
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct Hours {
    hours: u32,
}

/// It would fail if it saw one argument too many.
pub(crate) fn work() -> Tool {
    Tool::new("work", |args: Hours, context: Context| async move {
        format!("{} {}", context.instance().unwrap_or("nobody"), args.hours)
    })
}

pub(crate) fn builder(settings: Settings, work: Tool) -> Builder {
    Server::builder("desk", "1.0.0")
        .tool(work)
        .tool(tool("peek"))
        .tool(tool("close"))
        .tool(tool("search"))
        .workflow(flow(settings))
}

pub(crate) fn by_handle() -> Settings {
    Settings {
        scope: Scope::Handle,
        ..Settings::default()
    }
}

pub(crate) fn server() -> Builder {
    builder(Settings::default(), work())
}
