//! 2026-07-28: every request says everything about itself, and nothing of it is remembered.

use crate::support::{
    client::nothing_comes,
    desk::{desk_server, desk_with, state},
    messages::{codes, hello, modern, object, refusal},
    tools::tool,
};
use interlock::{Context, NoArguments, Server, Tool, ToolResult};
use interlock_proto::era::Method;
use interlock_testkit::connect;
use serde_json::{Value, json};

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CLIENT: &str = "io.modelcontextprotocol/clientCapabilities";

fn plain() -> Server {
    Server::builder("plain", "1.2.3")
        .instructions("Be brief.")
        .tool(tool("search"))
        .tool(Tool::new("fail", |_: NoArguments, _: Context| async {
            Err::<(), _>(interlock::Failure::new("no luck"))
        }))
        .tool(Tool::raw(
            "raw",
            object(json!({"type": "object"})),
            |arguments, _| async move {
                ToolResult::Raw(object(
                    json!({"content": [], "own": arguments, "resultType": "mine"}),
                ))
            },
        ))
        .resource(interlock::Resource::text("note://rules", "be kind"))
        .build()
        .unwrap()
}

#[tokio::test]
async fn discover_tells_all_versions() {
    let (mut client, _connection) = connect(&plain());
    let answer = client.request("server/discover", modern(json!({}))).await;
    let result = &answer["result"];
    assert_eq!(result["resultType"], "complete", "{answer}");
    assert_eq!(
        result["supportedVersions"],
        json!([
            "2026-07-28",
            "2025-11-25",
            "2025-06-18",
            "2025-03-26",
            "2024-11-05"
        ])
    );
    assert_eq!(
        result["capabilities"]["tools"],
        json!({"listChanged": true})
    );
    assert!(result["ttlMs"].is_u64());
    assert!(["public", "private"].contains(&result["cacheScope"].as_str().unwrap()));
    assert_eq!(result["instructions"], "Be brief.");
    assert_eq!(
        result["_meta"]["io.modelcontextprotocol/serverInfo"],
        json!({"name": "plain", "version": "1.2.3"})
    );
}

#[tokio::test]
async fn discover_tells_the_same_versions_of_a_server_with_a_workflow() {
    let versions = async |server: Server| {
        let (mut client, _connection) = connect(&server);
        let answer = client.request("server/discover", modern(json!({}))).await;
        answer["result"]["supportedVersions"].clone()
    };
    let without = versions(plain()).await;
    assert!(without.is_array());
    assert_eq!(versions(desk_server()).await, without);
}

#[tokio::test]
async fn a_client_may_discover_and_then_shake_hands_on_one_connection() {
    let (mut client, _connection) = connect(&desk_server());
    client.request("server/discover", modern(json!({}))).await;
    let answer = client.request("initialize", hello("2025-11-25")).await;
    assert_eq!(answer["result"]["protocolVersion"], "2025-11-25");
    client.notify("notifications/initialized", json!({})).await;
    client.call("work", json!({})).await;
    assert_eq!(state(&mut client).await, "done");
}

#[tokio::test]
async fn capabilities_are_required_and_an_object() {
    let (mut client, _connection) = connect(&plain());
    for method in [
        "server/discover",
        "tools/list",
        "tools/call",
        "nobody/knows",
    ] {
        let params = json!({"name": "search", "_meta": {VERSION: "2026-07-28"}});
        let answer = client.request(method, params).await;
        assert_eq!(codes(&answer), (-32602, 1028), "{method}: {answer}");
        for wrong in [json!(5), json!([]), json!("x")] {
            let params = json!({"name": "search", "_meta": {VERSION: "2026-07-28", CLIENT: wrong}});
            let answer = client.request(method, params).await;
            assert_eq!(codes(&answer), (-32602, 1029), "{method}: {answer}");
        }
    }
    for wrong in [json!(5), json!({}), json!([])] {
        let params = json!({"_meta": {VERSION: wrong, CLIENT: {}}});
        let answer = client.request("tools/list", params).await;
        assert_eq!(codes(&answer), (-32602, 1029), "{answer}");
    }
    // Without the version nothing is modern about it, and there was no handshake.
    let answer = client
        .request("tools/list", json!({"_meta": {CLIENT: {}}}))
        .await;
    assert_eq!(codes(&answer), (-32602, 1076), "{answer}");
}

/// Serde reads a struct from an array as well; `_meta` is an object.
#[tokio::test]
async fn a_meta_that_is_an_array_is_not_modern() {
    let (mut client, _connection) = connect(&plain());
    let meta = json!(["2026-07-28", {}]);
    for params in [
        json!({"note": "protocolVersion", "_meta": meta}),
        json!([{VERSION: "2026-07-28", CLIENT: {}}]),
        json!([meta, "protocolVersion"]),
    ] {
        let answer = client.request("tools/list", params.clone()).await;
        assert_eq!(answer["error"]["code"], -32602, "{params}: {answer}");
    }
}

#[tokio::test]
async fn an_unsupported_version_is_told_what_is_supported() {
    let (mut client, _connection) = connect(&plain());
    for version in ["2099-01-01", "2025-11-25", "", "2026-07-28 "] {
        for method in [
            "tools/list",
            "server/discover",
            "initialize",
            "nobody/knows",
        ] {
            let params = json!({"_meta": {VERSION: version, CLIENT: {}}});
            let answer = client.request(method, params).await;
            assert_eq!(codes(&answer), (-32022, 1027), "{answer}");
            assert_eq!(answer["error"]["data"]["requested"], version);
            let supported = answer["error"]["data"]["supported"].as_array().unwrap();
            assert!(supported.contains(&json!("2026-07-28")), "{answer}");
        }
    }
    let long = "9".repeat(100_000);
    let params = json!({"_meta": {VERSION: long, CLIENT: {}}});
    let answer = client.request("tools/list", params).await;
    assert!(answer.to_string().len() < 1_000);
}

/// A client is told to choose from `supported`, so it must be the versions that the same server
/// tells in `server/discover`.
#[tokio::test]
async fn a_server_tells_one_story_about_its_versions() {
    let (mut client, _connection) = connect(&plain());
    let answer = client.request("server/discover", modern(json!({}))).await;
    let discovered = answer["result"]["supportedVersions"]
        .as_array()
        .unwrap()
        .clone();
    let params = json!({"_meta": {VERSION: "2099-01-01", CLIENT: {}}});
    let answer = client.request("tools/list", params).await;
    let supported = answer["error"]["data"]["supported"].as_array().unwrap();
    assert!(
        supported.iter().all(|version| discovered.contains(version)),
        "{supported:?} / {discovered:?}"
    );
}

#[tokio::test]
async fn lists_say_how_long_they_hold() {
    let (mut client, _connection) = connect(&plain());
    let answer = client.request("tools/list", modern(json!({}))).await;
    let result = &answer["result"];
    assert_eq!(result["resultType"], "complete");
    assert!(result["ttlMs"].is_u64());
    assert!(["public", "private"].contains(&result["cacheScope"].as_str().unwrap()));
    let names: Vec<_> = result["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| &tool["name"])
        .collect();
    assert_eq!(names, ["search", "fail", "raw"]);
}

#[tokio::test]
async fn a_tool_that_no_workflow_binds_can_be_called() {
    let (mut client, _connection) = connect(&plain());
    let answer = client
        .request("tools/call", modern(json!({"name": "search"})))
        .await;
    assert_eq!(answer["result"]["resultType"], "complete");
    assert_eq!(answer["result"]["content"][0]["text"], "search is done");
    assert_eq!(
        answer["result"]["_meta"].get("dev.interlock/workflow"),
        None
    );
    let answer = client
        .request("tools/call", modern(json!({"name": "fail"})))
        .await;
    assert_eq!(answer["result"]["resultType"], "complete");
    assert_eq!(answer["result"]["isError"], true);
    let params = modern(json!({"name": "raw", "arguments": {"a": 1}}));
    let answer = client.request("tools/call", params).await;
    assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
    assert_eq!(answer["result"]["own"], json!({"a": 1}));
    for (params, code) in [
        (json!({"name": "nope"}), -32602),
        (json!({"name": 5}), -32602),
        (json!({"name": "search", "arguments": []}), -32602),
        (json!({}), -32602),
    ] {
        let answer = client.request("tools/call", modern(params)).await;
        assert_eq!(answer["error"]["code"], code, "{answer}");
    }
}

#[tokio::test]
async fn what_a_workflow_binds_is_refused_without_a_handle_and_nothing_moves() {
    let (mut client, _connection) = connect(&desk_server());
    client.initialize().await;
    let list = client.request("tools/list", modern(json!({}))).await;
    for bound in ["work", "peek", "close", "nowhere"] {
        let (before, answer) = client
            .exchange("tools/call", modern(json!({"name": bound})))
            .await;
        assert_eq!(before, [] as [Value; 0]);
        let result = &answer["result"];
        assert_eq!(result["isError"], true, "{answer}");
        assert_eq!(result["resultType"], "complete");
        assert_eq!(refusal(result), 1022, "{answer}");
    }
    assert_eq!(state(&mut client).await, "open");
    // Wherever the connection's own instance stands, the list is the same.
    client.call("work", json!({})).await;
    let again = client.request("tools/list", modern(json!({}))).await;
    assert_eq!(again["result"], list["result"]);
    let answer = client
        .request("tools/call", modern(json!({"name": "search"})))
        .await;
    assert_eq!(answer["result"]["content"][0]["text"], "search is done");
    assert_eq!(state(&mut client).await, "done");
}

#[tokio::test]
async fn methods_of_the_handshake_do_not_exist() {
    for greeted in [false, true] {
        let (mut client, _connection) = connect(&plain());
        if greeted {
            client.initialize().await;
        }
        for method in Method::ALL {
            let mut params = modern(hello("2025-11-25"));
            params["name"] = json!("search");
            params["uri"] = json!("note://rules");
            if *method == Method::SubscriptionsListen {
                // It stays open; what it takes is looked at elsewhere.
                continue;
            }
            let answer = client.request(method.name(), params).await;
            let served = matches!(
                method,
                Method::Discover
                    | Method::ToolsList
                    | Method::ToolsCall
                    | Method::ResourcesList
                    | Method::ResourcesTemplatesList
                    | Method::ResourcesRead
            );
            if served {
                assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
            } else {
                assert_eq!(
                    answer["error"]["code"],
                    -32601,
                    "{}: {answer}",
                    method.name()
                );
            }
        }
        let answer = client.request("nobody/knows", modern(json!({}))).await;
        assert_eq!(answer["error"]["code"], -32601);
    }
}

#[tokio::test]
async fn stateless_requests_are_served_after_a_handshake_as_before_it() {
    let (mut client, _connection) = connect(&plain());
    let before = client.request("tools/list", modern(json!({}))).await;
    client.initialize().await;
    let after = client.request("tools/list", modern(json!({}))).await;
    assert_eq!(before["result"], after["result"]);
    let answer = client.request("tools/list", json!({})).await;
    assert_eq!(answer["result"].get("resultType"), None);
    let answer = client.request("server/discover", json!({})).await;
    assert_eq!(answer["error"]["code"], -32601);
}

#[tokio::test]
async fn results_of_the_handshake_have_no_result_type() {
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let (mut client, _connection) = connect(&desk_server());
        let mut all = vec![client.request("initialize", hello(version)).await];
        for (method, params) in [
            ("ping", json!({})),
            ("tools/list", json!({})),
            ("resources/list", json!({})),
            ("resources/templates/list", json!({})),
            ("prompts/list", json!({})),
            ("resources/read", json!({"uri": "note://rules"})),
            (
                "prompts/get",
                json!({"name": "sorry", "arguments": {"who": "me"}}),
            ),
            ("tools/call", json!({"name": "close"})),
            ("tools/call", json!({"name": "search"})),
            ("tools/call", json!({"name": "work"})),
        ] {
            all.push(client.request(method, params).await);
        }
        let (mut client, _connection) = connect(&plain());
        client.request("initialize", hello(version)).await;
        all.push(client.request("tools/call", json!({"name": "raw"})).await);
        all.push(client.request("tools/call", json!({"name": "fail"})).await);
        for answer in all {
            let result = answer["result"]
                .as_object()
                .unwrap_or_else(|| panic!("{answer}"));
            for member in ["resultType", "ttlMs", "cacheScope"] {
                assert!(!result.contains_key(member), "{version}: {answer}");
            }
        }
    }
}

#[tokio::test]
async fn a_stateless_client_is_never_told_of_lists() {
    let settings = interlock::workflow::Settings {
        scope: interlock::workflow::Scope::Global,
        ..Default::default()
    };
    let server = desk_with(settings, tool("work")).build().unwrap();
    let (mut stateless, _stateless) = connect(&server);
    let (mut other, _other) = connect(&server);
    stateless.request("tools/list", modern(json!({}))).await;
    other.initialize().await;
    other.call("work", json!({})).await;
    nothing_comes(&mut stateless).await;
    assert_eq!(state(&mut other).await, "done");
}
