//! Two of rmcp's clients at once, by 2026-07-28, each with a token of its own.

use super::stage::{Ears, Host, LOOPBACK, MODERN, able, call, greet, over_http};
use super::tap::{Log, tap};
use crate::{common::PATIENCE, handles::server};
use interlock::{BearerTokens, HttpOptions};
use rmcp::{
    RoleClient,
    model::{CallToolRequest, ListToolsRequest},
    service::{PeerRequestOptions, RunningService},
    transport::StreamableHttpClientTransport,
};
use serde_json::{Value, json};

const ALICE: &str = "secret-of-alice";
const BOB: &str = "secret-of-bob";

/// A client with a token, and what came to it.
struct Bearer {
    client: RunningService<RoleClient, Ears>,
    log: Log,
}

async fn site() -> Host {
    let tokens = BearerTokens::new().token(ALICE, "alice").token(BOB, "bob");
    let options = HttpOptions::default().authenticator(tokens);
    over_http(&server().build().unwrap(), LOOPBACK.into(), options).await
}

impl Bearer {
    async fn join(host: &Host, token: &str) -> Self {
        let config = host.config().auth_header(token.to_owned());
        let (transport, log) = tap(StreamableHttpClientTransport::from_config(config));
        let (client, _) = greet(transport, MODERN, able()).await.unwrap();
        log.take();
        Self { client, log }
    }

    /// What the server answers, as it came.
    async fn ask(&self, request: impl Into<rmcp::model::ClientRequest>) -> Value {
        let options = PeerRequestOptions::no_options();
        let sent = self
            .client
            .send_request_with_option(request.into(), options);
        let handle = sent.await.unwrap();
        let answer = tokio::time::timeout(PATIENCE, handle.await_response()).await;
        answer.expect("the client must be answered").unwrap();
        let mut came = self.log.take();
        assert_eq!(came.len(), 1, "an answer, and nothing before it: {came:?}");
        came.remove(0)["result"].take()
    }

    async fn call(&self, tool: &'static str, arguments: Value) -> Value {
        self.ask(CallToolRequest::new(call(tool, arguments))).await
    }

    async fn list(&self) -> Value {
        self.ask(ListToolsRequest::default()).await
    }

    async fn start(&self) -> String {
        let result = self.call("workflow_start", json!({})).await;
        let id = result["structuredContent"]["workflow"].as_str();
        id.unwrap_or_else(|| panic!("{result}")).to_owned()
    }

    async fn state(&self, id: &str) -> Value {
        let result = self.call("workflow_status", json!({"workflow": id})).await;
        result["structuredContent"]["state"].clone()
    }
}

fn refusal(result: &Value) -> &Value {
    crate::common::refusal(result)
}

#[tokio::test]
async fn two_clients_walk_apart_and_their_lists_never_vary() {
    let host = site().await;
    let (alice, bob) = (
        Bearer::join(&host, ALICE).await,
        Bearer::join(&host, BOB).await,
    );
    let list = alice.list().await;
    assert!(list["tools"].as_array().unwrap().len() > 4, "{list}");
    let (of_alice, of_bob) = (alice.start().await, bob.start().await);
    // Who does what, and where both stand then. Bob is refused what is not his turn yet.
    for (who, id, tool, of_both) in [
        (&bob, &of_bob, "close", ["open", "open"]),
        (&alice, &of_alice, "work", ["done", "open"]),
        (&bob, &of_bob, "close", ["done", "open"]),
        (&bob, &of_bob, "peek", ["done", "open"]),
        (&bob, &of_bob, "work", ["done", "done"]),
        (&bob, &of_bob, "close", ["done", "closed"]),
        (&alice, &of_alice, "close", ["closed", "closed"]),
    ] {
        let arguments = json!({"workflow": id, "hours": 1});
        let before = who.state(id).await;
        let result = who.call(tool, arguments).await;
        let refused = tool == "close" && before == "open";
        assert_eq!(refusal(&result) == 1081, refused, "{tool}: {result}");
        assert_eq!(result["isError"], refused, "{tool}: {result}");
        assert_eq!(alice.state(&of_alice).await, of_both[0], "{tool}");
        assert_eq!(bob.state(&of_bob).await, of_both[1], "{tool}");
        assert_eq!(alice.list().await, list);
        assert_eq!(bob.list().await, list);
    }
}

#[tokio::test]
async fn a_stolen_id_is_refused_like_one_that_was_made_up() {
    let host = site().await;
    let (alice, bob) = (
        Bearer::join(&host, ALICE).await,
        Bearer::join(&host, BOB).await,
    );
    let id = alice.start().await;
    let flipped = if id.ends_with('A') { "Q" } else { "A" };
    let made_up = format!("{}{flipped}", &id[..id.len() - 1]);
    for tool in ["work", "peek", "close", "workflow_status"] {
        let stolen = bob.call(tool, json!({"workflow": id, "hours": 1})).await;
        assert_eq!(refusal(&stolen), 1021, "{tool}: {stolen}");
        let other = json!({"workflow": made_up, "hours": 1});
        assert_eq!(bob.call(tool, other.clone()).await, stolen, "{tool}");
        assert_eq!(alice.call(tool, other).await, stolen, "{tool}");
    }
    assert_eq!(alice.state(&id).await, "open");
    let worked = alice
        .call("work", json!({"workflow": id, "hours": 1}))
        .await;
    assert_eq!(worked["isError"], false, "{worked}");
}

#[tokio::test]
async fn a_finished_id_is_refused_with_the_way_to_a_new_one() {
    let host = site().await;
    let (alice, bob) = (
        Bearer::join(&host, ALICE).await,
        Bearer::join(&host, BOB).await,
    );
    let id = alice.start().await;
    for tool in ["work", "close"] {
        let done = alice.call(tool, json!({"workflow": id, "hours": 1})).await;
        assert_eq!(done["isError"], false, "{done}");
    }
    for tool in ["work", "peek", "close"] {
        let refused = alice.call(tool, json!({"workflow": id, "hours": 1})).await;
        assert_eq!(refusal(&refused), 1085, "{tool}: {refused}");
        let text = refused["content"][0]["text"].as_str().unwrap();
        assert!(text.contains("workflow_start"), "{text}");
        // To anybody else it says no more than before.
        let stolen = bob.call(tool, json!({"workflow": id, "hours": 1})).await;
        assert_eq!(refusal(&stolen), 1021, "{tool}: {stolen}");
    }
    let again = alice.start().await;
    assert_ne!(again, id);
    let worked = alice
        .call("work", json!({"workflow": again, "hours": 1}))
        .await;
    assert_eq!(worked["isError"], false, "{worked}");
    assert_eq!(alice.state(&id).await, "closed");
}
