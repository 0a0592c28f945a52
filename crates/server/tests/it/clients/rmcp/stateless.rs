//! 2026-07-28: each request stands alone, and a client comes back with what it is asked for.
//!
//! Nobody is sent to a page here: rmcp 3.8 wants an `elicitationId`, and this version has none.

use super::{
    every_version::{
        a_tool_that_fails_says_so_in_its_result, a_tool_that_is_not_there_is_an_error,
        many_calls_at_once_get_their_own_answers,
    },
    server::everything,
};
use crate::support::{
    held::{OnCancel, held},
    rmcp_client::stage::{Heard, Start, Wire, call, code, join, join_as, on_every_wire, text},
    tools::tool,
};
use interlock::Server;
use interlock_testkit::PATIENCE;
use rmcp::{
    ServiceError,
    model::{
        CallToolRequest, CallToolResponse, ClientCapabilities, ErrorCode, GetPromptRequestParams,
        LoggingLevel, PingRequest, ReadResourceRequestParams, RequestMetaObject,
        ServerNotification, SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter,
    },
    service::{PeerRequestOptions, SubscriptionEnd},
};
use serde_json::json;
use std::num::NonZeroUsize;

on_every_wire! { MODERN;
    a_client_discovers_who_serves_it
    tools_are_listed_and_called
    structured_results_come_with_text
    a_tool_that_fails_says_so_in_its_result
    a_tool_that_is_not_there_is_an_error
    progress_comes_in_order
    a_request_says_which_log_messages_it_wants
    a_client_comes_back_with_what_it_is_asked_for
    a_client_sees_what_it_is_asked_for
    a_client_that_cannot_be_asked_is_told_what_it_lacks
    what_a_client_made_up_to_remember_is_refused
    a_call_that_is_taken_back_stops
    resources_and_prompts_are_listed_and_read
    what_is_not_there_is_an_error
    what_belongs_to_sessions_is_not_there
    arguments_are_completed
    lists_come_in_pages
    a_listener_is_told_what_it_will_hear_of
    a_listener_hears_of_what_it_asked_for
    a_listener_that_stops_listening_hears_nothing_more
    a_server_that_ends_tells_who_listens
    many_calls_at_once_get_their_own_answers
}

async fn a_client_discovers_who_serves_it(wire: Wire, start: Start) {
    let server = everything().build().unwrap();
    let guest = join(&server, wire, start).await;
    let info = guest.client.peer_info().unwrap();
    let name = info.server_info.as_ref().unwrap();
    assert_eq!((&*name.name, &*name.version), ("everything", "1.2.3"));
    assert_eq!(info.instructions.as_deref(), Some("Try everything."));
    assert_eq!(info.protocol_version.as_str(), "2026-07-28");
    assert!(info.capabilities.tools.is_some());
}

async fn tools_are_listed_and_called(wire: Wire, start: Start) {
    let server = everything().build().unwrap();
    let guest = join(&server, wire, start).await;
    let page = guest.client.list_tools(None).await.unwrap();
    assert!(page.ttl_ms.is_some() && page.cache_scope.is_some());
    assert!(page.tools.iter().any(|tool| tool.name == "echo"));
    let result = guest.call("echo", json!({"text": "hello"})).await;
    assert_eq!(text(&result), "hello");
    assert!(result.result_type.is_some_and(|kind| kind.is_complete()));
}

async fn structured_results_come_with_text(wire: Wire, start: Start) {
    let server = everything().build().unwrap();
    let guest = join(&server, wire, start).await;
    let result = guest.call("add", json!({"a": 2, "b": 3})).await;
    assert_eq!(result.structured_content, Some(json!({"sum": 5})));
    assert!(text(&result).contains("sum"));
}

async fn progress_comes_in_order(wire: Wire, start: Start) {
    let server = everything().build().unwrap();
    let mut guest = join(&server, wire, start).await;
    guest.call("count", json!({"to": 3})).await;
    for step in 1..=3 {
        let heard = guest.hears().await;
        let Heard::Progress(said) = heard else {
            panic!("{heard:?}");
        };
        assert_eq!((said.progress, said.total), (f64::from(step), Some(3.0)));
    }
}

async fn a_request_says_which_log_messages_it_wants(wire: Wire, start: Start) {
    let server = everything().build().unwrap();
    let mut guest = join(&server, wire, start).await;
    guest.call("chatter", json!({})).await;
    assert!(guest.has_heard().is_empty());

    let mut meta = RequestMetaObject::new();
    meta.set_log_level(LoggingLevel::Info);
    let request = CallToolRequest::new(call("chatter", json!({})));
    let options = PeerRequestOptions::no_options().with_meta(meta);
    let handle = guest
        .client
        .send_request_with_option(request.into(), options)
        .await
        .unwrap();
    handle.await_response().await.unwrap();
    let mut levels = Vec::new();
    for _ in 0..2 {
        if let Heard::Log(said) = guest.hears().await {
            levels.push(said.level);
        }
    }
    assert_eq!(levels, [LoggingLevel::Info, LoggingLevel::Error]);
}

async fn a_client_comes_back_with_what_it_is_asked_for(wire: Wire, start: Start) {
    let server = everything().build().unwrap();
    let guest = join(&server, wire, start).await;
    let said = guest.call("sample", json!({"message": "2 + 2?"})).await;
    assert_eq!(text(&said), "a-model: I was asked: 2 + 2?");
    let named = guest.call("greet", json!({"message": "Who?"})).await;
    assert_eq!(text(&named), "hello \"Ada\"");
    let declined = guest
        .call("greet", json!({"message": "Please decline."}))
        .await;
    assert_eq!(text(&declined), "Decline");
    let roots = guest.call("roots", json!({})).await;
    assert_eq!(text(&roots), "file:///home/ada");
    let twice = guest.call("two_questions", json!({})).await;
    assert_eq!(text(&twice), "hello \"Ada\", Decline");
}

async fn a_client_sees_what_it_is_asked_for(wire: Wire, start: Start) {
    let server = everything().build().unwrap();
    let guest = join(&server, wire, start).await;
    let asked = guest
        .client
        .call_tool_once(call("two_questions", json!({})));
    let CallToolResponse::InputRequired(asked) = asked.await.unwrap() else {
        panic!("the client must be asked");
    };
    let requests = asked.input_requests.unwrap();
    assert_eq!(requests.keys().collect::<Vec<_>>(), ["first"]);
    let first = serde_json::to_value(&requests["first"]).unwrap();
    assert_eq!(first["method"], "elicitation/create");
    assert_eq!(first["params"]["message"], "Who are you?");

    let mut again = call("two_questions", json!({}));
    let answer = json!({"action": "accept", "content": {"name": "Eve"}});
    again.input_responses = Some([("first".to_owned(), answer)].into());
    again.request_state = asked.request_state;
    let CallToolResponse::InputRequired(asked) = guest.client.call_tool_once(again).await.unwrap()
    else {
        panic!("the client must be asked again");
    };
    assert!(asked.input_requests.unwrap().contains_key("second"));

    // What was answered before is remembered for it.
    let mut last = call("two_questions", json!({}));
    last.input_responses = Some([("second".to_owned(), json!({"action": "cancel"}))].into());
    last.request_state = asked.request_state;
    let CallToolResponse::Complete(result) = guest.client.call_tool_once(last).await.unwrap()
    else {
        panic!("nothing is left to be asked");
    };
    assert_eq!(text(&result), "hello \"Eve\", Cancel");
}

async fn a_client_that_cannot_be_asked_is_told_what_it_lacks(wire: Wire, start: Start) {
    let server = everything().build().unwrap();
    let guest = join_as(&server, wire, start, ClientCapabilities::default()).await;
    let error = guest
        .client
        .call_tool(call("roots", json!({})))
        .await
        .unwrap_err();
    let ServiceError::McpError(error) = error else {
        panic!("{error:?}");
    };
    assert_eq!(error.code, ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY);
    assert_eq!(
        error.data.unwrap()["requiredCapabilities"],
        json!({"roots": {}})
    );
}

async fn what_a_client_made_up_to_remember_is_refused(wire: Wire, start: Start) {
    let server = everything().build().unwrap();
    let guest = join(&server, wire, start).await;
    let mut forged = call("two_questions", json!({}));
    forged.request_state = Some("I have answered everything".to_owned());
    let error = guest.client.call_tool_once(forged).await.unwrap_err();
    assert_eq!(code(error), ErrorCode::INVALID_PARAMS.0);
}

async fn a_call_that_is_taken_back_stops(wire: Wire, start: Start) {
    let (tool, mut work) = held("work", OnCancel::Stops);
    let server = Server::builder("held", "1").tool(tool).build().unwrap();
    let guest = join(&server, wire, start).await;
    let handle = guest.begin("work").await;
    work.started().await;
    handle.cancel(None).await.unwrap();
    work.stopped().await;
}

async fn resources_and_prompts_are_listed_and_read(wire: Wire, start: Start) {
    let server = everything().build().unwrap();
    let guest = join(&server, wire, start).await;
    let client = &guest.client;
    assert_eq!(client.list_all_resources().await.unwrap().len(), 2);
    assert_eq!(client.list_all_resource_templates().await.unwrap().len(), 1);
    assert_eq!(client.list_all_prompts().await.unwrap().len(), 1);
    for (uri, expected) in [
        ("note://rules", "be kind"),
        ("note://day/monday", "the note of monday"),
    ] {
        let result = client.read_resource(ReadResourceRequestParams::new(uri));
        let result = result.await.unwrap();
        let said = serde_json::to_value(&result.contents[0]).unwrap();
        assert_eq!(said["text"], expected);
        assert!(result.ttl_ms.is_some() && result.cache_scope.is_some());
        assert!(result.result_type.is_some_and(|kind| kind.is_complete()));
    }
    let get = GetPromptRequestParams::new("apologise")
        .with_arguments(json!({"who": "Bob"}).as_object().unwrap().clone());
    let result = client.get_prompt(get).await.unwrap();
    let said = serde_json::to_value(&result.messages[0].content).unwrap();
    assert_eq!(said["text"], "Apologise to Bob.");
}

async fn what_is_not_there_is_an_error(wire: Wire, start: Start) {
    let server = everything().build().unwrap();
    let guest = join(&server, wire, start).await;
    let read = ReadResourceRequestParams::new("note://nowhere");
    let error = guest.client.read_resource(read).await.unwrap_err();
    assert_eq!(code(error), ErrorCode::INVALID_PARAMS.0);
    let get = GetPromptRequestParams::new("nobody");
    let error = guest.client.get_prompt(get).await.unwrap_err();
    assert_eq!(code(error), ErrorCode::INVALID_PARAMS.0);
}

async fn what_belongs_to_sessions_is_not_there(wire: Wire, start: Start) {
    let server = everything().build().unwrap();
    let guest = join(&server, wire, start).await;
    let client = &guest.client;
    let ping = PingRequest::default();
    let pinged = client.send_request(ping.into()).await.map(|_| ());
    let set = SetLevelRequestParams::new(LoggingLevel::Debug);
    let subscribe = SubscribeRequestParams::new("note://rules");
    for answer in [
        pinged,
        client.set_level(set).await,
        client.subscribe(subscribe).await,
    ] {
        assert_eq!(code(answer.unwrap_err()), ErrorCode::METHOD_NOT_FOUND.0);
    }
}

async fn arguments_are_completed(wire: Wire, start: Start) {
    let server = everything().build().unwrap();
    let guest = join(&server, wire, start).await;
    let days = guest
        .client
        .complete_resource_simple("note://day/{day}", "day", "t");
    assert_eq!(days.await.unwrap(), ["tuesday", "thursday"]);
}

async fn lists_come_in_pages(wire: Wire, start: Start) {
    let paged = everything()
        .page_size(NonZeroUsize::new(4).unwrap())
        .build()
        .unwrap();
    let guest = join(&paged, wire, start).await;
    let first = guest.client.list_tools(None).await.unwrap();
    assert_eq!(first.tools.len(), 4);
    assert!(guest.client.list_all_tools().await.unwrap().len() > 8);
}

async fn a_listener_hears_of_what_it_asked_for(wire: Wire, start: Start) {
    let server = everything().build().unwrap();
    let guest = join(&server, wire, start).await;
    let filter = json!({"toolsListChanged": true, "resourceSubscriptions": ["note://rules"]});
    let filter = serde_json::from_value(filter).unwrap();
    let mut subscription = guest.client.listen(filter).await.unwrap();
    server.remove_prompt("apologise");
    server.resource_updated("note://broken");
    server.resource_updated("note://rules");
    let heard = tokio::time::timeout(PATIENCE, subscription.next()).await;
    let heard = heard.expect("it must hear").unwrap().unwrap();
    let ServerNotification::ResourceUpdatedNotification(said) = heard else {
        panic!("{heard:?}");
    };
    assert_eq!(said.params.uri, "note://rules");
    server.add_tool(tool("peek")).unwrap();
    let heard = tokio::time::timeout(PATIENCE, subscription.next()).await;
    let heard = heard.expect("it must hear").unwrap().unwrap();
    assert!(
        matches!(heard, ServerNotification::ToolListChangedNotification(_)),
        "{heard:?}"
    );
}

fn tools_filter() -> SubscriptionFilter {
    serde_json::from_value(json!({"toolsListChanged": true})).unwrap()
}

async fn a_listener_is_told_what_it_will_hear_of(wire: Wire, start: Start) {
    let server = Server::builder("few", "1")
        .tool(tool("peek"))
        .build()
        .unwrap();
    let guest = join(&server, wire, start).await;
    let filter = json!({
        "toolsListChanged": true,
        "promptsListChanged": true,
        "resourceSubscriptions": ["note://nowhere"],
    });
    let filter = serde_json::from_value(filter).unwrap();
    let subscription = guest.client.listen(filter).await.unwrap();
    let told = serde_json::to_value(subscription.acknowledged()).unwrap();
    assert_eq!(told, json!({"toolsListChanged": true}));
}

async fn a_listener_that_stops_listening_hears_nothing_more(wire: Wire, start: Start) {
    let server = everything().build().unwrap();
    let guest = join(&server, wire, start).await;
    let mut subscription = guest.client.listen(tools_filter()).await.unwrap();
    subscription.cancel().await.unwrap();
    assert_eq!(subscription.end(), Some(&SubscriptionEnd::Cancelled));
    let result = guest.call("echo", json!({"text": "still there"})).await;
    assert_eq!(text(&result), "still there");
}

async fn a_server_that_ends_tells_who_listens(wire: Wire, start: Start) {
    let server = everything().build().unwrap();
    let mut guest = join(&server, wire, start).await;
    let mut subscription = guest.client.listen(tools_filter()).await.unwrap();
    guest.host.stop();
    let last = tokio::time::timeout(PATIENCE, subscription.next()).await;
    let last = last.expect("the listener must hear of it");
    assert!(matches!(last, Ok(None)), "{last:?}");
    let end = subscription.end().unwrap();
    assert!(
        matches!(
            end,
            SubscriptionEnd::Graceful(_) | SubscriptionEnd::Cancelled
        ),
        "{end:?}"
    );
}
