//! What a mounted handler's client gets, compared with what it gets from rmcp's own server.

use super::handler::Shop;
use crate::support::rmcp_client::stage::{
    Guest, Heard, MODERN, Start, Wire, call, join, join_rmcp, on_every_wire, text,
};
use interlock::{Mount, Server};
use rmcp::{
    ServiceError,
    model::{
        CallToolRequestParams, CompleteRequestParams, ErrorData, GetPromptRequestParams,
        LoggingLevel, ReadResourceRequestParams, Reference, SetLevelRequestParams,
    },
};
use serde::Serialize;
use serde_json::{Value, json};

mod handshake {
    use super::*;

    on_every_wire! { HANDSHAKE;
        lists_are_the_handlers_own
        results_are_the_handlers_own
        errors_of_resources_and_prompts_keep_their_codes
        errors_of_tools_are_results_unless_the_request_is_at_fault
        arguments_are_checked_before_the_handler_sees_them
        progress_and_log_messages_come_in_order
        a_panic_costs_its_own_call_only
        the_handler_knows_whom_it_serves
    }
}

mod modern {
    use super::*;

    on_every_wire! { MODERN;
        lists_are_the_handlers_own
        results_are_the_handlers_own
        errors_of_resources_and_prompts_keep_their_codes
        errors_of_tools_are_results_unless_the_request_is_at_fault
        arguments_are_checked_before_the_handler_sees_them
        a_panic_costs_its_own_call_only
        the_handler_knows_whom_it_serves
    }
}

/// A client of ours, and one of rmcp's own server.
async fn both(wire: Wire, start: Start) -> (Guest, Guest) {
    let (shop, _) = Shop::open();
    let mount = Mount::new(shop.clone()).await.unwrap();
    let server = Server::builder("ours", "1").mount(mount).build().unwrap();
    (
        join(&server, wire, start).await,
        join_rmcp(shop, start).await,
    )
}

/// What came back, without what the two servers say about themselves and about keeping it.
fn plain(result: Result<impl Serialize, ServiceError>) -> Result<Value, ErrorData> {
    match result {
        Ok(result) => {
            let mut result = serde_json::to_value(result).unwrap();
            if let Some(object) = result.as_object_mut() {
                for name in ["ttlMs", "cacheScope"] {
                    object.shift_remove(name);
                }
                if let Some(Value::Object(meta)) = object.get_mut("_meta") {
                    meta.shift_remove("io.modelcontextprotocol/serverInfo");
                    if meta.is_empty() {
                        object.shift_remove("_meta");
                    }
                }
            }
            Ok(result)
        }
        Err(ServiceError::McpError(error)) => Err(error),
        Err(other) => panic!("{other:?}"),
    }
}

async fn lists_are_the_handlers_own(wire: Wire, start: Start) {
    let (ours, rmcps) = both(wire, start).await;
    let (ours, rmcps) = (&ours.client, &rmcps.client);
    let tools = plain(ours.list_all_tools().await).unwrap();
    assert_eq!(tools, plain(rmcps.list_all_tools().await).unwrap());
    let add = &tools.as_array().unwrap()[0];
    assert_eq!(add["name"], "add");
    assert_eq!(add["_meta"], json!({"shop.example/aisle": 7}));
    assert_eq!(add["annotations"]["openWorldHint"], false);
    let resources = plain(ours.list_all_resources().await).unwrap();
    assert_eq!(resources, plain(rmcps.list_all_resources().await).unwrap());
    let templates = plain(ours.list_all_resource_templates().await).unwrap();
    assert_eq!(
        templates,
        plain(rmcps.list_all_resource_templates().await).unwrap()
    );
    let prompts = plain(ours.list_all_prompts().await).unwrap();
    assert_eq!(prompts, plain(rmcps.list_all_prompts().await).unwrap());
    for list in [&tools, &resources, &templates, &prompts] {
        assert!(!list.as_array().unwrap().is_empty());
    }
    let told = ours.peer_info().unwrap();
    assert_eq!(told.instructions.as_deref(), Some("Be polite in the shop."));
    assert!(told.capabilities.completions.is_some());
}

fn tool(name: &'static str, arguments: Value) -> CallToolRequestParams {
    call(name, arguments)
}

fn read(uri: &str) -> ReadResourceRequestParams {
    ReadResourceRequestParams::new(uri)
}

fn praise(name: &str) -> GetPromptRequestParams {
    let arguments = json!({"name": name}).as_object().unwrap().clone();
    GetPromptRequestParams::new("praise").with_arguments(arguments)
}

fn complete(of: Reference, argument: &str, known: &[&str]) -> CompleteRequestParams {
    let known: Vec<_> = known.iter().map(|name| (*name, "x")).collect();
    let known: serde_json::Map<_, _> = known
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.into()))
        .collect();
    let params = json!({
        "ref": of,
        "argument": {"name": argument, "value": "A"},
        "context": {"arguments": known},
    });
    serde_json::from_value(params).unwrap()
}

async fn results_are_the_handlers_own(wire: Wire, start: Start) {
    let (ours, rmcps) = both(wire, start).await;
    let (ours, rmcps) = (&ours.client, &rmcps.client);
    for (name, arguments) in [
        ("add", json!({"a": 2, "b": 40})),
        ("fail", json!({"which": "result"})),
        ("touch", json!({})),
    ] {
        let result = plain(ours.call_tool(tool(name, arguments.clone())).await).unwrap();
        let theirs = plain(rmcps.call_tool(tool(name, arguments)).await).unwrap();
        assert_eq!(result, theirs);
    }
    for uri in ["shop://hours", "shop://shelf/3"] {
        let result = plain(ours.read_resource(read(uri)).await).unwrap();
        assert_eq!(result, plain(rmcps.read_resource(read(uri)).await).unwrap());
    }
    let result = plain(ours.get_prompt(praise("Ada")).await).unwrap();
    assert_eq!(
        result,
        plain(rmcps.get_prompt(praise("Ada")).await).unwrap()
    );
    for (of, argument) in [
        (Reference::for_prompt("praise"), "name"),
        (Reference::for_resource("shop://shelf/{number}"), "number"),
    ] {
        let asked = complete(of, argument, &["other"]);
        let result = plain(ours.complete(asked.clone()).await).unwrap();
        assert_eq!(result, plain(rmcps.complete(asked).await).unwrap());
        let values = &result["completion"]["values"];
        assert!(values[0].as_str().unwrap().ends_with(" A 1"), "{result}");
    }
}

async fn errors_of_resources_and_prompts_keep_their_codes(wire: Wire, start: Start) {
    let (ours, rmcps) = both(wire, start).await;
    let (ours, rmcps) = (&ours.client, &rmcps.client);
    for uri in ["shop://closed", "shop://shelf/9"] {
        let error = plain(ours.read_resource(read(uri)).await).unwrap_err();
        assert_eq!(
            error,
            plain(rmcps.read_resource(read(uri)).await).unwrap_err()
        );
        let not_found = if start == MODERN { -32602 } else { -32002 };
        assert_eq!(error.code.0, not_found);
        assert_eq!(error.data, Some(json!({"uri": uri})));
    }
    let error = plain(ours.get_prompt(praise("Eve")).await).unwrap_err();
    assert_eq!(
        error,
        plain(rmcps.get_prompt(praise("Eve")).await).unwrap_err()
    );
    assert_eq!((error.code.0, &*error.message), (-31_001, "not her"));
}

async fn errors_of_tools_are_results_unless_the_request_is_at_fault(wire: Wire, start: Start) {
    let (ours, rmcps) = both(wire, start).await;
    let (ours, rmcps) = (&ours.client, &rmcps.client);
    let fail = |which: &str| tool("fail", json!({"which": which}));
    for (which, said) in [
        ("internal", "the till is stuck"),
        ("own", "odd: {\"at\":3}"),
    ] {
        let result = ours.call_tool(fail(which)).await.unwrap();
        assert_eq!((result.is_error, text(&result)), (Some(true), said));
    }
    for which in ["params", "method"] {
        let error = plain(ours.call_tool(fail(which)).await).unwrap_err();
        assert_eq!(
            error,
            plain(rmcps.call_tool(fail(which)).await).unwrap_err()
        );
    }
}

async fn arguments_are_checked_before_the_handler_sees_them(wire: Wire, start: Start) {
    let (ours, _) = both(wire, start).await;
    let result = ours.call("add", json!({"a": 2, "b": "three"})).await;
    assert_eq!(result.is_error, Some(true));
    assert_eq!(result.meta.unwrap()["dev.interlock/refusal"]["code"], 1022);
    let missing = ours
        .client
        .get_prompt(GetPromptRequestParams::new("praise"));
    assert_eq!(plain(missing.await).unwrap_err().code.0, -32602);
    let unlisted = ours.client.read_resource(read("shop://elsewhere")).await;
    assert!(plain(unlisted).is_err());
}

async fn progress_and_log_messages_come_in_order(wire: Wire, start: Start) {
    let (mut ours, mut rmcps) = both(wire, start).await;
    for guest in [&mut ours, &mut rmcps] {
        let set = SetLevelRequestParams::new(LoggingLevel::Debug);
        // The handler does not take it, but that is for the server to do.
        let _ = guest.client.set_level(set).await;
        assert_eq!(text(&guest.call("count", json!({})).await), "counted");
        for step in 1..=3 {
            let heard = guest.hears().await;
            let Heard::Progress(said) = heard else {
                panic!("{heard:?}");
            };
            assert_eq!((said.progress, said.total), (f64::from(step), Some(3.0)));
            assert_eq!(said.message, Some(format!("step {step}")));
            let heard = guest.hears().await;
            let Heard::Log(said) = heard else {
                panic!("{heard:?}");
            };
            assert_eq!(
                (said.level, said.data),
                (LoggingLevel::Warning, json!(step))
            );
            assert_eq!(said.logger.as_deref(), Some("till"));
        }
        assert!(guest.has_heard().is_empty());
    }
}

async fn a_panic_costs_its_own_call_only(wire: Wire, start: Start) {
    let (ours, _) = both(wire, start).await;
    let result = ours.call("fail", json!({"which": "panic"})).await;
    assert_eq!(result.is_error, Some(true));
    let result = ours.call("add", json!({"a": 1, "b": 1})).await;
    assert_eq!(result.structured_content, Some(json!({"sum": 2})));
}

async fn the_handler_knows_whom_it_serves(wire: Wire, start: Start) {
    let (ours, _) = both(wire, start).await;
    let version = match start {
        Start::Handshake(version) => version,
        Start::Discover => "2026-07-28",
    };
    let seen = ours.call("look", json!({})).await;
    let expected = format!("Some({version:?}) None Some(\"guest\")");
    assert_eq!(text(&seen), expected);
}
