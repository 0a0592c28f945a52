//! What a mounted handler asks, and how it is stopped.

use super::handler::{Event, Shop};
use crate::support::rmcp_client::stage::{
    HANDSHAKE, Heard, Start, Wire, call, join, join_as, join_rmcp, on_every_wire, text,
};
use interlock::{Builder, Mount, Server};
use interlock_testkit::{ManualClock, PATIENCE, connect};
use rmcp::{
    ServiceError,
    model::{CallToolResponse, ClientCapabilities, ErrorCode},
};
use serde_json::json;
use std::{sync::Arc, time::Duration};
use tokio::sync::mpsc;

mod handshake {
    use super::*;

    on_every_wire! { HANDSHAKE;
        a_person_is_asked_twice
        the_clients_model_and_roots_are_asked_for
        a_call_that_is_taken_back_stops
        what_is_asked_and_not_wanted_any_more_is_withdrawn
        what_is_said_after_the_call_is_not_heard
    }
}

mod modern {
    use super::*;

    on_every_wire! { MODERN;
        a_person_is_asked_twice
        the_clients_model_and_roots_are_asked_for
        a_handler_that_asks_by_its_result_is_given_the_answers
        questions_have_names_of_their_own
        a_client_that_cannot_be_asked_is_told_what_it_lacks
        a_call_that_is_taken_back_stops
        what_is_said_after_the_call_is_not_heard
    }
}

type Events = mpsc::UnboundedReceiver<Event>;

async fn shop() -> (Builder, Events) {
    let (shop, events) = Shop::open();
    let mount = Mount::new(shop).await.unwrap();
    (Server::builder("ours", "1").mount(mount), events)
}

async fn next(events: &mut Events) -> Event {
    let event = tokio::time::timeout(PATIENCE, events.recv()).await;
    event.expect("something must happen").unwrap()
}

async fn a_person_is_asked_twice(wire: Wire, start: Start) {
    let (server, _events) = shop().await;
    let guest = join(&server.build().unwrap(), wire, start).await;
    let result = guest.call("names", json!({})).await;
    assert_eq!(text(&result), "Ada; User explicitly declined the request");
}

async fn the_clients_model_and_roots_are_asked_for(wire: Wire, start: Start) {
    let (server, _events) = shop().await;
    let guest = join(&server.build().unwrap(), wire, start).await;
    let result = guest.call("consult", json!({})).await;
    assert_eq!(
        text(&result),
        "a-model \"I was asked: 2 + 2?\" file:///home/ada"
    );
}

async fn a_handler_that_asks_by_its_result_is_given_the_answers(wire: Wire, start: Start) {
    let (server, _events) = shop().await;
    let guest = join(&server.build().unwrap(), wire, start).await;
    let ours = guest.call("order", json!({})).await;
    assert_eq!(text(&ours), "\"Ada\" \"Ada\" \"Ada\"");
    let (shop, _events) = Shop::open();
    let rmcps = join_rmcp(shop, start).await;
    let theirs = rmcps.call("order", json!({})).await;
    assert_eq!(theirs.content, ours.content);
}

async fn questions_have_names_of_their_own(wire: Wire, start: Start) {
    let (server, _events) = shop().await;
    let guest = join(&server.build().unwrap(), wire, start).await;
    let mut state = None;
    let mut answers = None;
    // The handler asks for the size twice, and not for the same.
    for expected in [&["colour", "size"][..], &["size-2"]] {
        let mut params = call("order", json!({}));
        (params.input_responses, params.request_state) = (answers.take(), state.take());
        let CallToolResponse::InputRequired(asked) =
            guest.client.call_tool_once(params).await.unwrap()
        else {
            panic!("the client must be asked");
        };
        let requests = asked.input_requests.unwrap();
        assert_eq!(requests.keys().collect::<Vec<_>>(), expected);
        let answer = |key: &String| {
            let content = json!({"name": format!("the {key}")});
            (key.clone(), json!({"action": "accept", "content": content}))
        };
        answers = Some(requests.keys().map(answer).collect());
        state = asked.request_state;
    }
    let mut params = call("order", json!({}));
    (params.input_responses, params.request_state) = (answers, state);
    let CallToolResponse::Complete(result) = guest.client.call_tool_once(params).await.unwrap()
    else {
        panic!("nothing is left to be asked");
    };
    assert_eq!(text(&result), "\"the colour\" \"the size\" \"the size-2\"");
}

async fn a_client_that_cannot_be_asked_is_told_what_it_lacks(wire: Wire, start: Start) {
    let (server, _events) = shop().await;
    let server = server.build().unwrap();
    let guest = join_as(&server, wire, start, ClientCapabilities::default()).await;
    let error = guest.client.call_tool(call("consult", json!({}))).await;
    let Err(ServiceError::McpError(error)) = error else {
        panic!("{error:?}");
    };
    assert_eq!(error.code, ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY);
    assert_eq!(
        error.data.unwrap()["requiredCapabilities"],
        json!({"sampling": {}})
    );
}

async fn a_call_that_is_taken_back_stops(wire: Wire, start: Start) {
    let (server, mut events) = shop().await;
    let guest = join(&server.build().unwrap(), wire, start).await;
    let handle = guest.begin("hold").await;
    assert_eq!(next(&mut events).await, Event::Started);
    handle.cancel(None).await.unwrap();
    assert_eq!(next(&mut events).await, Event::Stopped);
}

async fn what_is_asked_and_not_wanted_any_more_is_withdrawn(wire: Wire, start: Start) {
    let (server, mut events) = shop().await;
    let mut guest = join(&server.build().unwrap(), wire, start).await;
    assert_eq!(text(&guest.call("impatient", json!({})).await), "gave up");
    assert_eq!(next(&mut events).await, Event::Started);
    let mut heard = guest.hears().await;
    // The question may have come too late to be heard at all.
    if matches!(heard, Heard::Asked) {
        heard = guest.hears().await;
    }
    assert!(
        matches!(&heard, Heard::Cancelled(said) if said.request_id.is_some()),
        "{heard:?}"
    );
}

async fn what_is_said_after_the_call_is_not_heard(wire: Wire, start: Start) {
    let (server, mut events) = shop().await;
    let mut guest = join(&server.build().unwrap(), wire, start).await;
    assert_eq!(text(&guest.call("mutter", json!({})).await), "done");
    assert_eq!(next(&mut events).await, Event::Late(false));
    assert!(guest.has_heard().is_empty());
}

#[tokio::test]
async fn a_client_without_rounds_is_not_asked_by_a_result() {
    let (server, _events) = shop().await;
    let ours = join(&server.build().unwrap(), Wire::Stdio, HANDSHAKE).await;
    let (shop, _events) = Shop::open();
    let rmcps = join_rmcp(shop, HANDSHAKE).await;
    let mut errors = Vec::new();
    for guest in [ours, rmcps] {
        match guest.client.call_tool(call("order", json!({}))).await {
            Err(ServiceError::McpError(error)) => errors.push(error),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(errors[0], errors[1]);
}

#[tokio::test]
async fn a_handler_that_hangs_is_torn_down_at_its_deadline() {
    let (server, mut events) = shop().await;
    let clock = Arc::new(ManualClock::new());
    let server = server
        .clock(Arc::clone(&clock) as _)
        .tool_timeout(Duration::from_secs(7))
        .build()
        .unwrap();
    let (mut client, connection) = connect(&server);
    client.initialize().await;
    for tool in ["hang", "hold"] {
        let call = client.begin("tools/call", json!({"name": tool, "arguments": {}}));
        let id = call.await;
        assert_eq!(next(&mut events).await, Event::Started);
        clock.advance(Duration::from_secs(7));
        let answer = client.receive().await.unwrap();
        assert_eq!(answer["id"], id);
        let refusal = &answer["result"]["_meta"]["dev.interlock/refusal"];
        assert_eq!(refusal["code"], 1069, "{answer}");
        if tool == "hang" {
            assert_eq!(next(&mut events).await, Event::Stopped);
        }
    }
    let (_, result) = client.call("add", json!({"a": 1, "b": 1})).await;
    assert_eq!(result["structuredContent"]["sum"], 2);
    drop(client);
    connection.ended().await;
}
