//! `initialize`: which version is spoken, and that there is no second one.

use crate::support::{
    client::nothing_comes,
    desk::{desk_server, state},
    messages::{codes, hello},
    tools::tool,
};
use interlock::{Server, Version};
use interlock_proto::era::Era;
use interlock_testkit::{Client, connect};
use serde_json::{Value, json};

async fn offered(version: impl Into<Value>) -> Value {
    let (mut client, _connection) = connect(&desk_server());
    client.request("initialize", hello(version)).await
}

/// Which version is spoken can be seen from outside: before 2025-11-25 an id that could not be
/// read is null, and from then on it is left out.
async fn speaks_an_older_version(client: &mut Client) -> bool {
    client.send_bytes(b"nonsense\n").await;
    let answer = client.receive().await.unwrap();
    assert_eq!(answer["error"]["code"], -32700, "{answer}");
    answer.get("id").is_some()
}

#[tokio::test]
async fn a_version_of_the_handshake_is_echoed_and_every_other_countered() {
    for version in Version::ALL {
        let answer = offered(version.as_str()).await;
        let expected = match version.era() {
            Era::Handshake => version.as_str(),
            Era::Stateless => "2025-11-25",
        };
        assert_eq!(answer["result"]["protocolVersion"], expected, "{answer}");
    }
    for unknown in [
        "1999-01-01",
        "2099-12-31",
        "DRAFT-2026-v1",
        "",
        "2025-11-25 ",
    ] {
        let answer = offered(unknown).await;
        assert_eq!(
            answer["result"]["protocolVersion"], "2025-11-25",
            "{answer}"
        );
    }
}

#[tokio::test]
async fn a_malformed_version_is_refused() {
    for malformed in [
        json!(5),
        json!(null),
        json!(["2025-11-25"]),
        json!({}),
        json!(true),
    ] {
        let answer = offered(malformed).await;
        assert_eq!(codes(&answer), (-32602, 1027), "{answer}");
    }
}

#[tokio::test]
async fn the_parameters_of_initialize_are_read_strictly() {
    let whole = hello("2025-11-25");
    let without = |member: &str| {
        let mut params = whole.clone();
        params.as_object_mut().unwrap().remove(member);
        params
    };
    let with = |member: &str, value: Value| {
        let mut params = whole.clone();
        params[member] = value;
        params
    };
    for params in [
        json!(null),
        json!(5),
        json!("2025-11-25"),
        json!([]),
        without("protocolVersion"),
        without("capabilities"),
        without("clientInfo"),
        with("capabilities", json!([])),
        with("capabilities", json!(null)),
        with("clientInfo", json!("me")),
        with("clientInfo", json!({})),
        with("clientInfo", json!({"name": "me"})),
        with("clientInfo", json!({"name": 5, "version": "1"})),
    ] {
        let (mut client, _connection) = connect(&desk_server());
        let answer = client.request("initialize", params.clone()).await;
        assert_eq!(answer["error"]["code"], -32602, "{params}: {answer}");
        let bare = json!({"jsonrpc": "2.0", "id": 9, "method": "initialize"});
        client.send(bare).await;
        let answer = client.receive().await.unwrap();
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
        assert!(client.initialize().await["result"].is_object());
    }
}

/// Serde reads a struct from an array as well; the protocol does not.
#[tokio::test]
async fn arrays_are_no_parameters_of_initialize() {
    let client_info = json!(["me", "1"]);
    let mut nested = hello("2025-11-25");
    nested["clientInfo"] = client_info.clone();
    for params in [json!(["2025-11-25", {}, client_info]), nested] {
        let (mut client, _connection) = connect(&desk_server());
        let answer = client.request("initialize", params.clone()).await;
        assert_eq!(answer["error"]["code"], -32602, "{params}: {answer}");
    }
}

#[tokio::test]
async fn what_is_unknown_in_initialize_does_no_harm() {
    let (mut client, _connection) = connect(&desk_server());
    let mut params = hello("2025-11-25");
    params["capabilities"] = json!({"roots": {"listChanged": true}, "x": 5, "sampling": {}});
    params["clientInfo"]["title"] = json!("Tester");
    params["extra"] = json!([1]);
    let answer = client.request("initialize", params).await;
    let capabilities = &answer["result"]["capabilities"];
    let listed = json!({"listChanged": true});
    assert_eq!(
        *capabilities,
        json!({
            "tools": listed,
            "resources": {"listChanged": true, "subscribe": true},
            "prompts": listed,
            "logging": {},
        })
    );
    assert_eq!(
        answer["result"]["serverInfo"],
        json!({"name": "desk", "version": "1.0.0"})
    );
}

#[tokio::test]
async fn a_second_initialize_is_an_error_and_changes_nothing() {
    let (mut client, _connection) = connect(&desk_server());
    let first = client.request("initialize", hello("2025-06-18")).await;
    assert_eq!(first["result"]["protocolVersion"], "2025-06-18");
    let (_, result) = client.call("work", json!({})).await;
    let instance = result["_meta"]["dev.interlock/workflow"]["instance"].clone();
    assert!(instance.is_string());

    let mut again = hello("2025-11-25");
    again["clientInfo"]["name"] = json!("somebody else");
    for params in [again, json!({}), json!(null), json!({"protocolVersion": 5})] {
        let (before, answer) = client.exchange("initialize", params).await;
        assert_eq!(before, [] as [Value; 0]);
        assert_eq!(answer["error"]["code"], -32600, "{answer}");
        assert!(answer["error"]["data"]["refusal"]["code"].is_i64());
        assert!(speaks_an_older_version(&mut client).await);
        assert_eq!(state(&mut client).await, "done");
    }

    client.notify("notifications/initialized", json!({})).await;
    let answer = client.request("initialize", hello("2025-11-25")).await;
    assert_eq!(answer["error"]["code"], -32600, "{answer}");
    assert!(speaks_an_older_version(&mut client).await);
    let (_, result) = client.call("close", json!({})).await;
    assert_eq!(
        result["_meta"]["dev.interlock/workflow"]["instance"],
        instance
    );
}

#[tokio::test]
async fn requests_between_initialize_and_initialized_are_served() {
    let (mut client, _connection) = connect(&desk_server());
    client.request("initialize", hello("2025-11-25")).await;
    assert_eq!(client.tools().await, ["work", "peek", "search"]);
    client.call("work", json!({})).await;
    assert_eq!(state(&mut client).await, "done");
    client.notify("notifications/initialized", json!({})).await;
    client.notify("notifications/initialized", json!({})).await;
    nothing_comes(&mut client).await;
}

#[tokio::test]
async fn unknown_and_malformed_notifications_are_never_answered() {
    let (mut client, _connection) = connect(&desk_server());
    client.initialize().await;
    for noise in [
        json!({"jsonrpc": "2.0", "method": "nobody/knows"}),
        json!({"jsonrpc": "2.0", "method": "tools/list"}),
        json!({"jsonrpc": "2.0", "method": "ping", "params": 5}),
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": "x"}),
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": {}}}),
        json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": []}),
        json!({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}),
        json!({"jsonrpc": 2.0, "method": "notifications/initialized"}),
        json!({"method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "method": {}}),
        json!({"jsonrpc": "2.0", "method": "x", "result": {}}),
        json!({"jsonrpc": "2.0", "id": 99, "result": {}}),
        json!({"jsonrpc": "2.0", "id": "99", "error": {}}),
        json!({"jsonrpc": "2.0", "id": null, "result": {}, "error": {}}),
    ] {
        client.send(noise).await;
        nothing_comes(&mut client).await;
    }
    assert_eq!(state(&mut client).await, "open");
}

#[tokio::test]
async fn a_server_offers_what_it_has_and_no_more() {
    let server = Server::builder("bare", "0")
        .tool(tool("only"))
        .build()
        .unwrap();
    let (mut client, _connection) = connect(&server);
    let hello = client.initialize().await;
    assert_eq!(
        hello["result"]["capabilities"],
        json!({"tools": {"listChanged": true}, "logging": {}})
    );
    for method in [
        "resources/list",
        "resources/templates/list",
        "prompts/list",
        "completion/complete",
    ] {
        let answer = client.request(method, json!({})).await;
        assert_eq!(answer["error"]["code"], -32601, "{method}: {answer}");
    }
}
