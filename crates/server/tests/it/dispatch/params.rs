//! What a method does not take is refused with −32602, and what nobody owns with −32601.

use crate::support::{
    client::{client_of, nothing_comes},
    desk::{desk_server, desk_without_workflow, state},
    messages::{codes, hello},
    tools::tool,
};
use interlock::Version;
use interlock_proto::era::{Capability, Era, Method};
use interlock_testkit::connect;
use serde_json::{Value, json};

async fn check_malformed(method: &str, malformed: &[Value]) {
    let (mut client, _connection) = client_of(&desk_server()).await;
    for params in malformed {
        let answer = client.request(method, params.clone()).await;
        assert_eq!(
            answer["error"]["code"], -32602,
            "{method} {params}: {answer}"
        );
        assert!(answer["error"]["data"]["refusal"]["code"].is_i64());
    }
    assert_eq!(state(&mut client).await, "open");
}

async fn check_needs_params(method: &str) {
    let (mut client, _connection) = client_of(&desk_server()).await;
    let bare = json!({"jsonrpc": "2.0", "id": 1, "method": method});
    client.send(bare).await;
    let answer = client.receive().await.unwrap();
    assert_eq!(answer["error"]["code"], -32602, "{method}: {answer}");
}

#[tokio::test]
async fn a_malformed_tools_call_is_refused() {
    check_needs_params("tools/call").await;
    let malformed = [
        json!(null),
        json!(5),
        json!("work"),
        json!([]),
        json!(["work"]),
        json!(["work", {}]),
        json!({}),
        json!({"arguments": {}}),
        json!({"name": null}),
        json!({"name": 5}),
        json!({"name": ["work"]}),
        json!({"name": {"work": 1}}),
        json!({"name": "work", "arguments": []}),
        json!({"name": "work", "arguments": "{}"}),
        json!({"name": "work", "arguments": 5}),
        json!({"name": "work", "arguments": true}),
        json!({"Name": "work"}),
    ];
    check_malformed("tools/call", &malformed).await;
}

#[tokio::test]
async fn a_malformed_resources_read_is_refused() {
    check_needs_params("resources/read").await;
    let malformed = [
        json!(null),
        json!(5),
        json!([]),
        json!(["note://rules"]),
        json!({}),
        json!({"uri": null}),
        json!({"uri": 5}),
        json!({"uri": ["note://rules"]}),
        json!({"uri": {}}),
    ];
    check_malformed("resources/read", &malformed).await;
}

#[tokio::test]
async fn a_malformed_prompts_get_is_refused() {
    check_needs_params("prompts/get").await;
    let malformed = [
        json!(null),
        json!(5),
        json!([]),
        json!(["sorry", {"who": "me"}]),
        json!({}),
        json!({"name": 5}),
        json!({"name": "sorry", "arguments": []}),
        json!({"name": "sorry", "arguments": "me"}),
        json!({"name": "sorry", "arguments": {"who": 5}}),
        json!({"name": "sorry", "arguments": {"who": null}}),
        json!({"name": "sorry", "arguments": {}}),
        json!({"name": "sorry"}),
    ];
    check_malformed("prompts/get", &malformed).await;
}

#[tokio::test]
async fn a_malformed_list_is_refused() {
    let malformed = [
        json!(5),
        json!("x"),
        json!([]),
        json!(["cursor"]),
        json!({"cursor": 5}),
        json!({"cursor": "never given out"}),
        json!({"cursor": {}}),
    ];
    for method in [
        "tools/list",
        "resources/list",
        "prompts/list",
        "resources/templates/list",
    ] {
        check_malformed(method, &malformed).await;
    }
}

/// `_meta` is an object in every version, so a request with another one is malformed.
#[tokio::test]
async fn a_meta_that_is_no_object_is_refused() {
    for meta in [json!(5), json!("x"), json!([])] {
        let call = json!({"name": "peek", "_meta": meta});
        check_malformed("tools/call", &[call]).await;
        check_malformed("tools/list", &[json!({"_meta": meta})]).await;
    }
}

#[tokio::test]
async fn lists_need_no_parameters() {
    let (mut client, _connection) = client_of(&desk_server()).await;
    for method in [
        "tools/list",
        "resources/list",
        "prompts/list",
        "resources/templates/list",
    ] {
        let bare = json!({"jsonrpc": "2.0", "id": method, "method": method});
        client.send(bare).await;
        let answer = client.receive().await.unwrap();
        assert!(answer["result"].is_object(), "{answer}");
        assert_eq!(answer["result"].get("nextCursor"), None);
        for params in [
            json!({}),
            json!({"cursor": null}),
            json!({"_meta": {"progressToken": 1}}),
        ] {
            let answer = client.request(method, params).await;
            assert!(answer["result"].is_object(), "{answer}");
        }
    }
}

#[tokio::test]
async fn a_name_that_is_nowhere_is_told_from_one_that_is_elsewhere() {
    for (tools, prompts) in [
        (desk_server(), desk_server()),
        (
            desk_without_workflow(tool("work")).build().unwrap(),
            desk_without_workflow(tool("work")).build().unwrap(),
        ),
    ] {
        let (mut client, _connection) = client_of(&tools).await;
        let long = "x".repeat(100_000);
        for name in ["nope", "", "WORK", &long] {
            let answer = client.request("tools/call", json!({"name": name})).await;
            assert_eq!(codes(&answer), (-32602, 1048), "{answer}");
            assert!(answer.to_string().len() < 1_000);
        }
        let (mut client, _connection) = client_of(&prompts).await;
        let answer = client.request("prompts/get", json!({"name": "nope"})).await;
        assert_eq!(codes(&answer), (-32602, 1050), "{answer}");
    }
}

#[tokio::test]
async fn an_unknown_resource_has_the_code_of_its_version() {
    for version in Version::ALL
        .iter()
        .filter(|version| version.era() == Era::Handshake)
    {
        let (mut client, _connection) = connect(&desk_server());
        client.request("initialize", hello(version.as_str())).await;
        for uri in ["note://nope", "NOTE://RULES", "note://rules/../rules"] {
            let answer = client.request("resources/read", json!({"uri": uri})).await;
            assert_eq!(codes(&answer), (-32002, 1046), "{version}: {answer}");
        }
    }
}

#[tokio::test]
async fn a_method_that_nobody_owns_is_not_found() {
    let (mut client, _connection) = client_of(&desk_server()).await;
    let long = "x/".repeat(50_000);
    for method in [
        "nobody/knows",
        "",
        "Tools/List",
        "tools/list ",
        "rpc.discover",
        &long,
    ] {
        for params in [json!({}), json!([]), json!(null), json!(5)] {
            let answer = client.request(method, params).await;
            assert_eq!(answer["error"]["code"], -32601, "{method}: {answer}");
            assert!(answer.to_string().len() < 1_000);
        }
    }
    nothing_comes(&mut client).await;
}

#[tokio::test]
async fn a_method_exists_only_in_its_versions_and_only_if_it_is_offered() {
    let offered = [
        None,
        Some(Capability::Tools),
        Some(Capability::Resources),
        Some(Capability::Prompts),
        Some(Capability::Logging),
    ];
    for version in Version::ALL
        .iter()
        .filter(|version| version.era() == Era::Handshake)
    {
        let (mut client, _connection) = connect(&desk_server());
        client.request("initialize", hello(version.as_str())).await;
        for method in Method::ALL {
            if *method == Method::Initialize {
                continue;
            }
            let answer = client.request(method.name(), json!({})).await;
            let found = method.exists_in(*version) && offered.contains(&method.capability());
            assert_eq!(
                answer["error"]["code"] != -32601,
                found,
                "{version} {}: {answer}",
                method.name()
            );
        }
    }
}
