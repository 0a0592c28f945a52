//! What a server with handles is built of, and what it cannot be built of.

use crate::support::{
    handles::{builder, by_handle, flow, server, work},
    messages::object,
    tools::tool,
};
use interlock::{
    Context, NoArguments, Server, Tool,
    workflow::{Scope, Settings},
};
use serde_json::{Value, json};

fn raw(name: &'static str, schema: Value) -> Tool {
    Tool::raw(name, object(schema), |_, _| async {})
}

#[test]
fn a_tool_that_leaves_no_room_for_a_handle_is_a_build_error_that_names_it() {
    let built = |settings: Settings, tool: Tool| {
        let built = builder(settings, tool).build();
        built.map(drop).map_err(|errors| errors.to_string())
    };
    let own = json!({"type": "object", "properties": {"workflow": {"type": "string"}}});
    let closed = json!({"type": "object", "allOf": [{"additionalProperties": false}]});
    for settings in [Settings::default(), by_handle()] {
        for (schema, what) in [(&own, "`workflow`"), (&closed, "`additionalProperties`")] {
            let why = built(settings.clone(), raw("work", schema.clone())).unwrap_err();
            assert!(why.contains("work") && why.contains(what), "{why}");
        }
    }
    for scope in [Scope::Principal, Scope::Global] {
        let settings = Settings {
            scope,
            ..Settings::default()
        };
        for schema in [&own, &closed] {
            assert_eq!(built(settings.clone(), raw("work", schema.clone())), Ok(()));
        }
    }
}

#[test]
fn the_names_of_our_own_tools_are_ours_while_handles_are_in_use() {
    for name in ["workflow_start", "workflow_status"] {
        let with = |settings: Settings| {
            let flow = flow(settings);
            let server = Server::builder("s", "0").tool(work()).tool(tool("peek"));
            let server = server
                .tool(tool("close"))
                .tool(tool("search"))
                .tool(tool(name));
            let built = server.workflow(flow).build();
            built.map_err(|errors| errors.to_string())
        };
        let why = with(Settings::default()).unwrap_err();
        assert!(why.contains(name), "{why}");
        assert!(with(by_handle()).is_err());
        let settings = Settings {
            scope: Scope::Global,
            ..Settings::default()
        };
        assert!(with(settings).is_ok());
        let plain = Server::builder("s", "0").tool(tool(name)).build();
        assert!(plain.is_ok());
    }
    let server = server().build().unwrap();
    assert!(server.add_tool(tool("workflow_start")).is_err());
    let own = json!({"type": "object", "required": ["workflow"]});
    assert!(server.add_tool(raw("late", own)).is_err());
    server
        .add_tool(Tool::new("fine", |_: NoArguments, _: Context| async {}))
        .unwrap();
}
