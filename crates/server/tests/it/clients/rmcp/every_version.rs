//! What is the same in every version, with a handshake and without.

use super::server::everything;
use crate::support::rmcp_client::stage::{Start, Wire, call, code, join, text};
use rmcp::model::ErrorCode;
use serde_json::json;

pub(super) async fn a_tool_that_fails_says_so_in_its_result(wire: Wire, start: Start) {
    let server = everything().build().unwrap();
    let guest = join(&server, wire, start).await;
    let result = guest.call("fail", json!({})).await;
    assert_eq!((result.is_error, text(&result)), (Some(true), "no luck"));
}

pub(super) async fn a_tool_that_is_not_there_is_an_error(wire: Wire, start: Start) {
    let server = everything().build().unwrap();
    let guest = join(&server, wire, start).await;
    let error = guest.client.call_tool(call("nobody", json!({}))).await;
    assert_eq!(code(error.unwrap_err()), ErrorCode::INVALID_PARAMS.0);
}

pub(super) async fn many_calls_at_once_get_their_own_answers(wire: Wire, start: Start) {
    let server = everything().build().unwrap();
    let guest = join(&server, wire, start).await;
    let calls = (0..50).map(|n| {
        let peer = guest.client.peer().clone();
        tokio::spawn(async move { peer.call_tool(call("add", json!({"a": n, "b": 1}))).await })
    });
    for (n, call) in calls.collect::<Vec<_>>().into_iter().enumerate() {
        let result = call.await.unwrap().unwrap();
        assert_eq!(result.structured_content, Some(json!({"sum": n + 1})));
    }
}
