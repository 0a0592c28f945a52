//! Two of rmcp's clients at once, by 2026-07-28, each with a token of its own.

use crate::support::{
    handles::server,
    http::{ALICE, BOB, authenticated},
    messages::refusal,
    refund::refund_with,
    rmcp_client::{
        stage::{Ears, Host, LOOPBACK, MODERN, able, call, code, greet, over_http, text},
        tap::{Log, tap},
    },
    tools::echo,
};
use interlock::{Server, workflow::Scope};
use interlock_testkit::PATIENCE;
use rmcp::{
    RoleClient, ServiceError,
    model::{CallToolRequest, CallToolResponse, ErrorCode, ListToolsRequest},
    service::{PeerRequestOptions, RunningService},
    transport::StreamableHttpClientTransport,
};
use serde_json::{Value, json};

/// Under which name a person is asked to agree.
const APPROVAL: &str = "dev.interlock/approval";

/// A client with a token, and what came to it.
struct Bearer {
    client: RunningService<RoleClient, Ears>,
    log: Log,
}

async fn site() -> Host {
    site_of(&server().build().unwrap()).await
}

async fn site_of(server: &Server) -> Host {
    over_http(server, LOOPBACK.into(), authenticated()).await
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

    /// Asks for a refund, perhaps with what it was given to bring back and a person's yes.
    async fn refund(
        &self,
        id: &str,
        brought: Option<&str>,
    ) -> Result<CallToolResponse, ServiceError> {
        let mut request = call("refund", json!({"workflow": id, "amount": 5}));
        if let Some(state) = brought {
            let yes = (APPROVAL.to_owned(), json!({"action": "accept"}));
            request.input_responses = Some([yes].into());
            request.request_state = Some(state.to_owned());
        }
        let answer = self.client.call_tool_once(request);
        let answer = tokio::time::timeout(PATIENCE, answer).await;
        self.log.take();
        answer.expect("the client must be answered")
    }

    /// Starts, and goes on to where a refund needs a yes.
    async fn found(&self) -> String {
        let id = self.start().await;
        let found = json!({"workflow": id, "order": "A-1"});
        let found = self.call("lookup", found).await;
        assert_eq!(found["isError"], false, "{found}");
        id
    }

    async fn state(&self, id: &str) -> Value {
        let result = self.call("workflow_status", json!({"workflow": id})).await;
        result["structuredContent"]["state"].clone()
    }
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

/// The yes to what Alice was asked, however Bob came by it, is Alice's.
#[tokio::test]
async fn a_yes_is_of_who_was_asked_and_a_stolen_one_is_refused() {
    let server = refund_with(echo("refund"), Scope::Handle).build().unwrap();
    let host = site_of(&server).await;
    let (alice, bob) = (
        Bearer::join(&host, ALICE).await,
        Bearer::join(&host, BOB).await,
    );
    let (of_alice, of_bob) = (alice.found().await, bob.found().await);
    let CallToolResponse::InputRequired(asked) = alice.refund(&of_alice, None).await.unwrap()
    else {
        panic!("Alice must be asked");
    };
    let requests = asked.input_requests.unwrap();
    assert_eq!(requests.keys().collect::<Vec<_>>(), [APPROVAL]);
    let question = serde_json::to_value(&requests[APPROVAL]).unwrap();
    assert_eq!(question["method"], "elicitation/create");
    assert_eq!(question["params"]["message"], "Refund 5 for A-1?");
    let state = asked.request_state.unwrap();

    // With her id he is not even asked.
    let CallToolResponse::Complete(stolen) = bob.refund(&of_alice, None).await.unwrap() else {
        panic!("Bob must not be asked");
    };
    assert_eq!(refusal(&serde_json::to_value(&stolen).unwrap()), 1021);
    // With what she was given, he is refused for her instance and for his own.
    for id in [&of_alice, &of_bob] {
        let error = bob.refund(id, Some(&state)).await.unwrap_err();
        assert_eq!(code(error), ErrorCode::INVALID_PARAMS.0);
    }
    assert_eq!(alice.state(&of_alice).await, "found");
    assert_eq!(bob.state(&of_bob).await, "found");

    // None of this has used her yes up.
    let CallToolResponse::Complete(paid) = alice.refund(&of_alice, Some(&state)).await.unwrap()
    else {
        panic!("Alice has said yes");
    };
    assert_eq!((paid.is_error, text(&paid)), (Some(false), "done"));
    assert_eq!(alice.state(&of_alice).await, "paid");
    assert_eq!(bob.state(&of_bob).await, "found");
    let CallToolResponse::Complete(over) = alice.refund(&of_alice, Some(&state)).await.unwrap()
    else {
        panic!("it is over");
    };
    assert_eq!(refusal(&serde_json::to_value(&over).unwrap()), 1085);
    // Bob is asked on his own account.
    let asked = bob.refund(&of_bob, None).await.unwrap();
    assert!(
        matches!(asked, CallToolResponse::InputRequired(_)),
        "{asked:?}"
    );
}
