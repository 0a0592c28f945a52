//! What there is only over HTTP.

use super::server::everything;
use crate::support::{
    held::{OnCancel, held},
    rmcp_client::stage::{HANDSHAKE, Heard, MODERN, Wire, call, join, join_by, text},
};
use interlock::{BearerTokens, Context, HttpOptions, NoArguments, Server, Tool};
use rmcp::{
    service::ClientInitializeError,
    transport::streamable_http_client::StreamableHttpClientTransportConfig,
};
use serde_json::json;

#[tokio::test]
async fn a_client_that_is_sent_away_comes_back_for_the_result() {
    let away = Tool::new("away", |_: NoArguments, context: Context| async move {
        context.progress(1.0, None, None).await;
        context.hang_up().await;
        context.progress(2.0, None, None).await;
        "done"
    });
    let server = Server::builder("away", "1").tool(away).build().unwrap();
    let options = HttpOptions::default().retry(std::time::Duration::from_millis(1));
    let mut guest = join_by(&server, options, HANDSHAKE, |config| config)
        .await
        .unwrap();
    assert_eq!(text(&guest.call("away", json!({})).await), "done");
    for progress in [1.0, 2.0] {
        let heard = guest.hears().await;
        assert!(
            matches!(&heard, Heard::Progress(said) if said.progress == progress),
            "{heard:?}"
        );
    }
}

#[tokio::test]
async fn large_messages_come_through() {
    for start in [HANDSHAKE, MODERN] {
        let server = everything().build().unwrap();
        let guest = join(&server, Wire::Http, start).await;
        let long = "äöü ".repeat(250_000);
        let result = guest.call("echo", json!({ "text": long })).await;
        assert!(text(&result) == long);
    }
}

#[tokio::test]
async fn only_who_has_a_token_is_let_in() {
    for start in [HANDSHAKE, MODERN] {
        let server = everything().build().unwrap();
        let options = || {
            let tokens = BearerTokens::new().token("a-long-secret-of-alices", "alice");
            HttpOptions::default().authenticator(tokens)
        };
        let token = |config: StreamableHttpClientTransportConfig| {
            config.auth_header("a-long-secret-of-alices")
        };
        let guest = join_by(&server, options(), start, token).await.unwrap();
        assert_eq!(text(&guest.call("echo", json!({"text": "in"})).await), "in");
        let stranger = join_by(&server, options(), start, |config| config).await;
        let error = stranger.err().expect("nobody else is let in");
        assert!(error.is_authorization_required(), "{error:?}");
        let forged = |config: StreamableHttpClientTransportConfig| config.auth_header("guessed");
        let liar = join_by(&server, options(), start, forged).await;
        assert!(matches!(
            liar,
            Err(ClientInitializeError::TransportError { .. })
        ));
    }
}

#[tokio::test]
async fn arguments_that_a_tool_wants_in_headers_are_sent_there() {
    let schema = json!({
        "type": "object",
        "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "count": {"type": "integer"},
        },
        "required": ["region"],
    });
    let schema = schema.as_object().unwrap().clone();
    let tool = Tool::raw("ship", schema, |arguments, _: Context| async move {
        arguments["region"].to_string()
    });
    let server = Server::builder("ship", "1").tool(tool).build().unwrap();
    let guest = join(&server, Wire::Http, MODERN).await;
    // The client learns of it from the list.
    guest.client.list_all_tools().await.unwrap();
    for region in ["eu-west", "Österreich", " padded "] {
        let result = guest
            .call("ship", json!({"region": region, "count": 3}))
            .await;
        assert_eq!(text(&result), json!(region).to_string());
    }
}

#[tokio::test]
async fn a_client_that_goes_away_takes_its_calls_with_it_where_there_is_no_session() {
    let (tool, mut work) = held("work", OnCancel::Stops);
    let server = Server::builder("held", "1").tool(tool).build().unwrap();
    let mut guest = join(&server, Wire::Http, MODERN).await;
    let peer = guest.client.peer().clone();
    let running = tokio::spawn(async move { peer.call_tool(call("work", json!({}))).await });
    work.started().await;
    guest.client.close().await.unwrap();
    work.stopped().await;
    assert!(running.await.unwrap().is_err());
}
