//! The versions that begin with `initialize`.

use super::{
    every_version::{
        a_tool_that_fails_says_so_in_its_result, a_tool_that_is_not_there_is_an_error,
        many_calls_at_once_get_their_own_answers,
    },
    server::everything,
};
use crate::support::{
    held::{OnCancel, held},
    rmcp_client::stage::{
        HANDSHAKE, Heard, Start, Wire, call, code, join, join_as, on_every_wire, text, try_join,
    },
    tools::tool,
};
use interlock::{Context, Form, NoArguments, Resource, Server, Tool, Workflow, workflow::end};
use interlock_testkit::PATIENCE;
use rmcp::{
    ServiceError,
    model::{
        ClientCapabilities, CompletionContext, ErrorCode, GetPromptRequestParams, LoggingLevel,
        NumberOrString, PaginatedRequestParams, PingRequest, ProgressToken,
        ReadResourceRequestParams, ResourceContents, ServerResult, SetLevelRequestParams,
        SubscribeRequestParams, UnsubscribeRequestParams,
    },
    service::PeerRequestOptions,
};
use serde_json::{Value, json};
use std::{num::NonZeroUsize, sync::Arc, time::Duration};
use tokio::sync::Notify;

on_every_wire! { HANDSHAKE;
    a_client_learns_who_serves_it
    a_ping_is_answered
    tools_are_listed_and_called
    structured_results_come_with_text
    arguments_that_do_not_fit_are_a_result_that_says_so
    a_tool_that_fails_says_so_in_its_result
    a_tool_that_is_not_there_is_an_error
    progress_comes_in_order
    a_client_hears_what_its_level_lets_through
    the_clients_model_is_asked
    a_person_is_asked_and_may_decline
    a_person_is_sent_to_a_page
    the_clients_roots_are_asked_for
    a_client_that_cannot_be_asked_is_not
    a_client_that_offers_elicitation_as_such_offers_forms
    a_client_is_told_when_its_answer_is_not_wanted_any_more
    a_client_that_waits_no_longer_takes_its_call_back
    what_a_client_tells_of_its_roots_is_taken
    resources_are_listed_and_read
    resources_of_a_template_are_read
    arguments_are_completed
    lists_come_in_pages
    what_the_server_gets_and_loses_is_told
    a_resource_that_is_not_there_is_an_error
    a_subscriber_hears_of_updates_until_it_does_not_want_to
    prompts_are_listed_and_got
    a_prompt_without_its_argument_is_an_error
    a_call_that_is_taken_back_stops
    a_step_of_the_workflow_changes_the_lists
    many_calls_at_once_get_their_own_answers
    a_session_that_its_client_ends_is_over
}

async fn a_client_learns_who_serves_it(wire: Wire, start: Start) {
    let server = everything().build().unwrap();
    let guest = join(&server, wire, start).await;
    let info = guest.client.peer_info().unwrap();
    let name = info.server_info.as_ref().unwrap();
    assert_eq!((&*name.name, &*name.version), ("everything", "1.2.3"));
    assert_eq!(info.instructions.as_deref(), Some("Try everything."));
    assert_eq!(info.protocol_version.as_str(), "2025-11-25");
    let capabilities = &info.capabilities;
    assert_eq!(
        capabilities.tools.as_ref().unwrap().list_changed,
        Some(true)
    );
    assert_eq!(
        capabilities.resources.as_ref().unwrap().subscribe,
        Some(true)
    );
    assert!(capabilities.prompts.is_some());
    assert!(capabilities.logging.is_some());
}

async fn a_ping_is_answered(wire: Wire, start: Start) {
    let server = everything().build().unwrap();
    let guest = join(&server, wire, start).await;
    let ping = PingRequest::default();
    let answer = guest.client.send_request(ping.into()).await.unwrap();
    assert!(matches!(answer, ServerResult::EmptyResult(_)), "{answer:?}");
}

async fn tools_are_listed_and_called(wire: Wire, start: Start) {
    let server = everything().build().unwrap();
    let guest = join(&server, wire, start).await;
    let tools = guest.client.list_all_tools().await.unwrap();
    let echo = tools.iter().find(|tool| tool.name == "echo").unwrap();
    assert_eq!(echo.title.as_deref(), Some("Echo"));
    assert_eq!(echo.description.as_deref(), Some("Says it again"));
    assert_eq!(echo.input_schema["required"], json!(["text"]));
    let result = guest.call("echo", json!({"text": "hello"})).await;
    assert_eq!(result.is_error, Some(false));
    assert_eq!(text(&result), "hello");
    assert!(result.result_type.is_none());
}

async fn structured_results_come_with_text(wire: Wire, start: Start) {
    let server = everything().build().unwrap();
    let guest = join(&server, wire, start).await;
    let result = guest.call("add", json!({"a": 2, "b": 3})).await;
    assert_eq!(result.structured_content, Some(json!({"sum": 5})));
    let spoken: Value = serde_json::from_str(text(&result)).unwrap();
    assert_eq!(spoken, json!({"sum": 5}));
}

async fn arguments_that_do_not_fit_are_a_result_that_says_so(wire: Wire, start: Start) {
    let server = everything().build().unwrap();
    let guest = join(&server, wire, start).await;
    let result = guest.call("add", json!({"a": 2, "b": "three"})).await;
    assert_eq!(result.is_error, Some(true));
    assert!(text(&result).contains("/b"), "{result:?}");
    assert_eq!(result.meta.unwrap()["dev.interlock/refusal"]["code"], 1022);
}

async fn progress_comes_in_order(wire: Wire, start: Start) {
    let server = everything().build().unwrap();
    let mut guest = join(&server, wire, start).await;
    guest.call("count", json!({"to": 3})).await;
    for step in 1..=3 {
        let Heard::Progress(said) = guest.hears().await else {
            panic!("progress must come first");
        };
        assert_eq!((said.progress, said.total), (f64::from(step), Some(3.0)));
        assert_eq!(said.message, Some(format!("step {step}")));
        assert!(matches!(
            said.progress_token,
            ProgressToken(NumberOrString::Number(_))
        ));
    }
    assert!(guest.has_heard().is_empty());
}

async fn a_client_hears_what_its_level_lets_through(wire: Wire, start: Start) {
    let server = everything().build().unwrap();
    let mut guest = join(&server, wire, start).await;
    let set = SetLevelRequestParams::new(LoggingLevel::Error);
    guest.client.set_level(set).await.unwrap();
    guest.call("chatter", json!({})).await;
    let Heard::Log(said) = guest.hears().await else {
        panic!("a log message must come");
    };
    assert_eq!(said.level, LoggingLevel::Error);
    assert_eq!(said.logger.as_deref(), Some("disk"));
    assert_eq!(said.data, json!("it is full"));
    assert!(guest.has_heard().is_empty());

    let set = SetLevelRequestParams::new(LoggingLevel::Debug);
    guest.client.set_level(set).await.unwrap();
    guest.call("chatter", json!({})).await;
    let mut levels = Vec::new();
    for _ in 0..3 {
        if let Heard::Log(said) = guest.hears().await {
            levels.push(said.level);
        }
    }
    assert_eq!(
        levels,
        [LoggingLevel::Debug, LoggingLevel::Info, LoggingLevel::Error]
    );
}

async fn the_clients_model_is_asked(wire: Wire, start: Start) {
    let server = everything().build().unwrap();
    let guest = join(&server, wire, start).await;
    let result = guest.call("sample", json!({"message": "2 + 2?"})).await;
    assert_eq!(text(&result), "a-model: I was asked: 2 + 2?");
}

async fn a_person_is_asked_and_may_decline(wire: Wire, start: Start) {
    let server = everything().build().unwrap();
    let guest = join(&server, wire, start).await;
    let result = guest
        .call("greet", json!({"message": "Who are you?"}))
        .await;
    assert_eq!(text(&result), "hello \"Ada\"");
    let result = guest
        .call("greet", json!({"message": "Please decline."}))
        .await;
    assert_eq!(text(&result), "Decline");
    let result = guest.call("two_questions", json!({})).await;
    assert_eq!(text(&result), "hello \"Ada\", Decline");
}

async fn a_person_is_sent_to_a_page(wire: Wire, start: Start) {
    let server = everything().build().unwrap();
    let guest = join(&server, wire, start).await;
    assert_eq!(text(&guest.call("visit", json!({})).await), "Accept");
}

async fn the_clients_roots_are_asked_for(wire: Wire, start: Start) {
    let server = everything().build().unwrap();
    let guest = join(&server, wire, start).await;
    let result = guest.call("roots", json!({})).await;
    assert_eq!(text(&result), "file:///home/ada");
}

async fn a_client_that_cannot_be_asked_is_not(wire: Wire, start: Start) {
    let server = everything().build().unwrap();
    let guest = join_as(&server, wire, start, ClientCapabilities::default()).await;
    let result = guest
        .call("greet", json!({"message": "Who are you?"}))
        .await;
    assert_eq!(result.is_error, Some(true));
    assert_eq!(result.meta.unwrap()["dev.interlock/refusal"]["code"], 1066);
}

async fn a_client_that_offers_elicitation_as_such_offers_forms(wire: Wire, start: Start) {
    let server = everything().build().unwrap();
    let offers = serde_json::from_value(json!({"elicitation": {}})).unwrap();
    let guest = join_as(&server, wire, start, offers).await;
    let named = guest.call("greet", json!({"message": "Who?"})).await;
    assert_eq!(text(&named), "hello \"Ada\"");
    let visited = guest.call("visit", json!({})).await;
    assert_eq!(visited.is_error, Some(true));
}

async fn a_client_that_waits_no_longer_takes_its_call_back(wire: Wire, start: Start) {
    let (tool, mut work) = held("work", OnCancel::Stops);
    let server = Server::builder("held", "1").tool(tool).build().unwrap();
    let guest = join(&server, wire, start).await;
    let request = rmcp::model::CallToolRequest::new(call("work", json!({})));
    let options = PeerRequestOptions::with_timeout(Duration::from_millis(1));
    let handle = guest
        .client
        .send_request_with_option(request.into(), options)
        .await
        .unwrap();
    work.started().await;
    let late = handle.await_response().await.unwrap_err();
    assert!(matches!(late, ServiceError::Timeout { .. }), "{late:?}");
    work.stopped().await;
}

async fn what_a_client_tells_of_its_roots_is_taken(wire: Wire, start: Start) {
    let server = everything().build().unwrap();
    let guest = join(&server, wire, start).await;
    guest.client.notify_roots_list_changed().await.unwrap();
    assert_eq!(
        text(&guest.call("roots", json!({})).await),
        "file:///home/ada"
    );
}

async fn a_client_is_told_when_its_answer_is_not_wanted_any_more(wire: Wire, start: Start) {
    let enough = Arc::new(Notify::new());
    let patience = Arc::clone(&enough);
    let impatient = Tool::new("impatient", move |_: NoArguments, context: Context| {
        let patience = Arc::clone(&patience);
        async move {
            let schema = json!({"type": "object", "properties": {}});
            let form = Form::new("Please ignore me.", schema.as_object().unwrap().clone());
            tokio::select! {
                answer = context.elicit("name", &form) => format!("{answer:?}"),
                () = patience.notified() => "gave up".to_owned(),
            }
        }
    });
    let server = Server::builder("impatient", "1")
        .tool(impatient)
        .build()
        .unwrap();
    let mut guest = join(&server, wire, start).await;
    let peer = guest.client.peer().clone();
    let running = tokio::spawn(async move { peer.call_tool(call("impatient", json!({}))).await });
    assert!(matches!(guest.hears().await, Heard::Asked));
    enough.notify_one();
    let heard = guest.hears().await;
    assert!(
        matches!(&heard, Heard::Cancelled(said) if said.request_id.is_some()),
        "{heard:?}"
    );
    assert_eq!(text(&running.await.unwrap().unwrap()), "gave up");
}

async fn resources_are_listed_and_read(wire: Wire, start: Start) {
    let server = everything().build().unwrap();
    let guest = join(&server, wire, start).await;
    let resources = guest.client.list_all_resources().await.unwrap();
    let rules = resources
        .iter()
        .find(|one| one.uri == "note://rules")
        .unwrap();
    assert_eq!(
        (&*rules.name, rules.mime_type.as_deref()),
        ("rules", Some("text/plain"))
    );
    let read = ReadResourceRequestParams::new("note://rules");
    let result = guest.client.read_resource(read).await.unwrap();
    let [
        ResourceContents::TextResourceContents {
            uri,
            text,
            mime_type,
            ..
        },
    ] = &*result.contents
    else {
        panic!("{result:?}");
    };
    assert_eq!((&**uri, &**text), ("note://rules", "be kind"));
    assert_eq!(mime_type.as_deref(), Some("text/plain"));
}

async fn resources_of_a_template_are_read(wire: Wire, start: Start) {
    let server = everything().build().unwrap();
    let guest = join(&server, wire, start).await;
    let templates = guest.client.list_all_resource_templates().await.unwrap();
    let [template] = &*templates else {
        panic!("{templates:?}");
    };
    assert_eq!(template.uri_template, "note://day/{day}");
    let read = ReadResourceRequestParams::new("note://day/monday");
    let result = guest.client.read_resource(read).await.unwrap();
    let said = serde_json::to_value(&result.contents[0]).unwrap();
    assert_eq!(said["uri"], "note://day/monday");
    assert_eq!(said["text"], "the note of monday");
}

async fn arguments_are_completed(wire: Wire, start: Start) {
    let server = everything().build().unwrap();
    let guest = join(&server, wire, start).await;
    let client = &guest.client;
    assert!(
        client
            .peer_info()
            .unwrap()
            .capabilities
            .completions
            .is_some()
    );
    let days = client.complete_resource_simple("note://day/{day}", "day", "t");
    assert_eq!(days.await.unwrap(), ["tuesday", "thursday"]);
    let known = [("manner".to_owned(), "formal".to_owned())].into();
    let known = CompletionContext::with_arguments(known);
    let names = client.complete_prompt_argument("apologise", "who", "", Some(known));
    let names = names.await.unwrap();
    assert_eq!(names.values, ["Mr Bean"]);
    assert_eq!((names.total, names.has_more), (Some(1), Some(false)));
    let error = client.complete_prompt_simple("nobody", "who", "").await;
    assert_eq!(code(error.unwrap_err()), ErrorCode::INVALID_PARAMS.0);
}

async fn lists_come_in_pages(wire: Wire, start: Start) {
    let whole = everything().build().unwrap();
    let paged = everything()
        .page_size(NonZeroUsize::new(3).unwrap())
        .build()
        .unwrap();
    let whole = join(&whole, wire, start).await;
    let paged = join(&paged, wire, start).await;
    let first = paged.client.list_tools(None).await.unwrap();
    assert_eq!(first.tools.len(), 3);
    assert!(first.next_cursor.is_some());
    let all = whole.client.list_all_tools().await.unwrap();
    assert!(all.len() > 6);
    assert_eq!(paged.client.list_all_tools().await.unwrap(), all);
    assert_eq!(
        paged.client.list_all_resources().await.unwrap(),
        whole.client.list_all_resources().await.unwrap()
    );
    let made_up = PaginatedRequestParams::default().with_cursor(Some("made up".to_owned()));
    let error = paged.client.list_tools(Some(made_up)).await.unwrap_err();
    assert_eq!(code(error), ErrorCode::INVALID_PARAMS.0);
}

async fn what_the_server_gets_and_loses_is_told(wire: Wire, start: Start) {
    let server = everything().build().unwrap();
    let mut guest = join(&server, wire, start).await;
    server.add_tool(tool("peek")).unwrap();
    assert!(matches!(guest.hears().await, Heard::Tools));
    assert_eq!(text(&guest.call("peek", json!({})).await), "peek is done");
    assert!(server.remove_prompt("apologise"));
    assert!(matches!(guest.hears().await, Heard::Prompts));
    assert!(guest.client.list_all_prompts().await.unwrap().is_empty());
    server
        .add_resource(Resource::text("note://new", "new"))
        .unwrap();
    assert!(matches!(guest.hears().await, Heard::Resources));
}

async fn a_resource_that_is_not_there_is_an_error(wire: Wire, start: Start) {
    let server = everything().build().unwrap();
    let guest = join(&server, wire, start).await;
    let read = |uri| {
        guest
            .client
            .read_resource(ReadResourceRequestParams::new(uri))
    };
    let error = read("note://nowhere").await.unwrap_err();
    assert_eq!(code(error), ErrorCode::RESOURCE_NOT_FOUND.0);
    let error = read("note://broken").await.unwrap_err();
    assert_eq!(code(error), ErrorCode::INTERNAL_ERROR.0);
}

async fn a_subscriber_hears_of_updates_until_it_does_not_want_to(wire: Wire, start: Start) {
    let server = everything().build().unwrap();
    let mut guest = join(&server, wire, start).await;
    let subscribe = SubscribeRequestParams::new("note://rules");
    guest.client.subscribe(subscribe).await.unwrap();
    server.resource_updated("note://broken");
    server.resource_updated("note://rules");
    let heard = guest.hears().await;
    assert!(
        matches!(&heard, Heard::Updated(uri) if uri == "note://rules"),
        "{heard:?}"
    );

    let unsubscribe = UnsubscribeRequestParams::new("note://rules");
    guest.client.unsubscribe(unsubscribe).await.unwrap();
    server.resource_updated("note://rules");
    guest.call("echo", json!({"text": "still there"})).await;
    assert!(guest.has_heard().is_empty());

    let subscribe = SubscribeRequestParams::new("note://nowhere");
    let error = guest.client.subscribe(subscribe).await.unwrap_err();
    assert_eq!(code(error), ErrorCode::RESOURCE_NOT_FOUND.0);
}

async fn prompts_are_listed_and_got(wire: Wire, start: Start) {
    let server = everything().build().unwrap();
    let guest = join(&server, wire, start).await;
    let prompts = guest.client.list_all_prompts().await.unwrap();
    let [prompt] = &*prompts else {
        panic!("{prompts:?}");
    };
    assert_eq!(prompt.description.as_deref(), Some("Say sorry"));
    let argument = &prompt.arguments.as_ref().unwrap()[0];
    assert_eq!((&*argument.name, argument.required), ("who", Some(true)));
    let get = GetPromptRequestParams::new("apologise")
        .with_arguments(json!({"who": "Bob"}).as_object().unwrap().clone());
    let result = guest.client.get_prompt(get).await.unwrap();
    let said = serde_json::to_value(&result.messages[0].content).unwrap();
    assert_eq!(said["text"], "Apologise to Bob.");
}

async fn a_prompt_without_its_argument_is_an_error(wire: Wire, start: Start) {
    let server = everything().build().unwrap();
    let guest = join(&server, wire, start).await;
    let error = guest
        .client
        .get_prompt(GetPromptRequestParams::new("apologise"));
    assert_eq!(code(error.await.unwrap_err()), ErrorCode::INVALID_PARAMS.0);
}

async fn a_call_that_is_taken_back_stops(wire: Wire, start: Start) {
    let (tool, mut work) = held("work", OnCancel::Stops);
    let server = Server::builder("held", "1").tool(tool).build().unwrap();
    let guest = join(&server, wire, start).await;
    let handle = guest.begin("work").await;
    work.started().await;
    handle.cancel(Some("never mind".to_owned())).await.unwrap();
    work.stopped().await;

    // So does one whose caller has gone away.
    let abandoned = tokio::spawn({
        let peer = guest.client.peer().clone();
        async move { peer.call_tool(call("work", json!({}))).await }
    });
    work.started().await;
    abandoned.abort();
    work.stopped().await;
}

async fn a_step_of_the_workflow_changes_the_lists(wire: Wire, start: Start) {
    let flow = Workflow::builder("steps")
        .state("first", |s| {
            s.initial().tool("echo", |t| t.success("second"))
        })
        .state("second", |s| {
            s.tool("add", |t| t.success(end("first")))
                .resource("note://rules", |r| r.success("second"))
        })
        .build()
        .unwrap();
    let server = everything().workflow(flow).build().unwrap();
    let mut guest = join(&server, wire, start).await;
    let names = async |guest: &crate::support::rmcp_client::stage::Guest| {
        let tools = guest.client.list_all_tools().await.unwrap();
        tools.into_iter().map(|tool| tool.name).collect::<Vec<_>>()
    };
    assert_eq!(names(&guest).await, ["echo"]);
    let refused = guest.call("add", json!({"a": 1, "b": 1})).await;
    assert_eq!(refused.is_error, Some(true));
    assert!(text(&refused).contains("echo"), "{refused:?}");

    let moved = guest.call("echo", json!({"text": "go"})).await;
    assert_eq!(
        moved.meta.unwrap()["dev.interlock/workflow"]["state"],
        "second"
    );
    let heard = [guest.hears().await, guest.hears().await];
    assert!(
        heard.iter().any(|heard| matches!(heard, Heard::Tools)),
        "{heard:?}"
    );
    assert!(
        heard.iter().any(|heard| matches!(heard, Heard::Resources)),
        "{heard:?}"
    );
    assert_eq!(names(&guest).await, ["add"]);
    assert_eq!(guest.client.list_all_resources().await.unwrap().len(), 1);
}

async fn a_session_that_its_client_ends_is_over(wire: Wire, start: Start) {
    let server = everything().build().unwrap();
    let mut guest = join(&server, wire, start).await;
    let peer = guest.client.peer().clone();
    guest.client.close().await.unwrap();
    assert!(
        peer.call_tool(call("echo", json!({"text": "?"})))
            .await
            .is_err()
    );
    match wire {
        // The one client is gone, and so is what served it.
        Wire::Stdio => guest.host.ended().await,
        Wire::Http => guest.host.end().await,
    }
}

#[tokio::test]
async fn older_versions_are_agreed_on_as_asked() {
    for wire in [Wire::Stdio, Wire::Http] {
        for version in ["2025-06-18", "2025-03-26", "2024-11-05"] {
            let server = everything().build().unwrap();
            let guest = join(&server, wire, Start::Handshake(version)).await;
            let info = guest.client.peer_info().unwrap();
            assert_eq!(info.protocol_version.as_str(), version);
            let result = guest.call("echo", json!({"text": "hello"})).await;
            assert_eq!(text(&result), "hello", "{version} {wire:?}");
            let asked = guest
                .call("greet", json!({"message": "Who are you?"}))
                .await;
            // There was no such thing before 2025-06-18.
            let could_be_asked = version >= "2025-06-18";
            assert_eq!(asked.is_error, Some(!could_be_asked), "{version} {asked:?}");
        }
    }
}

#[tokio::test]
async fn a_client_that_wants_a_version_without_a_handshake_is_offered_one_with() {
    for wire in [Wire::Stdio, Wire::Http] {
        let server = everything().build().unwrap();
        let start = Start::Handshake("2026-07-28");
        let guest = try_join(&server, wire, start, ClientCapabilities::default()).await;
        let guest = guest.unwrap();
        let info = guest.client.peer_info().unwrap();
        assert_eq!(info.protocol_version.as_str(), "2025-11-25");
        guest.call("echo", json!({"text": "hello"})).await;
    }
}

#[tokio::test]
async fn a_server_that_ends_lets_its_client_know() {
    for wire in [Wire::Stdio, Wire::Http] {
        let server = everything().build().unwrap();
        let guest = join(&server, wire, HANDSHAKE).await;
        guest.host.end().await;
        let peer = guest.client.peer().clone();
        let late = peer.call_tool(call("echo", json!({"text": "?"})));
        let late = tokio::time::timeout(PATIENCE, late).await;
        assert!(late.expect("it must not hang").is_err(), "{wire:?}");
    }
}

#[tokio::test]
async fn a_client_whose_session_is_gone_begins_another() {
    let server = everything().build().unwrap();
    let mut guest = join(&server, Wire::Http, HANDSHAKE).await;
    let first = guest.call("echo", json!({"text": "one"})).await;
    assert_eq!(text(&first), "one");
    guest.host = guest.host.replaced_by(&everything().build().unwrap()).await;
    let second = guest.call("echo", json!({"text": "two"})).await;
    assert_eq!(text(&second), "two");
}
