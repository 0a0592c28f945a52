//! A refund that a person must approve.

use super::{kept::scope_of, tools::echo};
use interlock::{
    Builder, Operator, Server, Tool, Workflow,
    journal::{Entry, replay},
    workflow::{Scope, Settings, end, to},
};

/// `lookup` finds an order, and `refund` pays it back once somebody has agreed.
pub(crate) fn flow(scope: Scope) -> Workflow {
    Workflow::builder("refund")
        .settings(Settings {
            scope,
            ..Settings::default()
        })
        .state("new", |s| {
            s.initial().tool("lookup", |t| {
                t.success(to("found").set("order", "args.order"))
            })
        })
        .state("found", |s| {
            s.tool("refund", |t| {
                t.when("args.amount > 0")
                    .approve("Refund {{args.amount}} for {{ctx.order}}?")
                    .success(end("paid"))
            })
            .tool("note", |t| t.success(to("found").set("noted", "true")))
            .tool("look", |t| t.success("found"))
            .tool("back", |t| t.success("new"))
        })
        .build()
        .unwrap()
}

/// The workflow, served with this tool.
pub(crate) fn refund_with(refund: Tool, scope: Scope) -> Builder {
    Server::builder("s", "0")
        .tool(echo("lookup"))
        .tool(refund)
        .tool(echo("note"))
        .tool(echo("look"))
        .tool(echo("back"))
        .workflow(flow(scope))
}

/// The same with a tool that is done at once, for everybody.
pub(crate) fn refund() -> Builder {
    refund_with(echo("refund"), Scope::Global)
}

/// What the journal says, and that it leads to where the instance stands.
pub(crate) async fn history(operator: &Operator, id: &str) -> Vec<Entry> {
    let history = operator.history(id, None, 1_000).await.unwrap();
    let flow = flow(scope_of(id));
    let entries: Vec<_> = history.into_iter().map(|one| one.entry).collect();
    let replayed = replay(&flow, &entries).unwrap();
    let state = flow.state_name(replayed.position().state);
    assert_eq!(operator.show(id).await.unwrap().summary.state, state);
    entries
}
