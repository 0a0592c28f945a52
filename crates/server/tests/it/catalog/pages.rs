//! Lists page by page, and how long what is listed or read may be kept.

use crate::support::{
    messages::{codes, modern},
    tools::tool,
};
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use interlock::{
    Builder, Context, Prompt, Resource, ResourceTemplate, Server, Workflow,
    model::{CacheScope, JsonObject, ReadResourceResult},
    workflow::end,
};
use interlock_testkit::{Client, connect};
use serde_json::{Value, json};
use std::{num::NonZeroUsize, time::Duration};

/// The four lists: the method, the member, and what tells entries apart.
const LISTS: [(&str, &str, &str); 4] = [
    ("tools/list", "tools", "name"),
    ("resources/list", "resources", "uri"),
    (
        "resources/templates/list",
        "resourceTemplates",
        "uriTemplate",
    ),
    ("prompts/list", "prompts", "name"),
];

const NAMES: [&str; 5] = ["e", "b", "d", "a", "c"];

fn template(uri_template: String) -> ResourceTemplate {
    ResourceTemplate::raw(uri_template, |_: JsonObject, _: Context| async { "" })
}

/// Five of everything, in no alphabetical order.
fn five() -> Builder {
    NAMES
        .into_iter()
        .fold(Server::builder("s", "0"), |server, name| {
            server
                .tool(tool(name))
                .resource(Resource::text(format!("r://{name}"), name))
                .template(template(format!("t://{name}/{{id}}")))
                .prompt(Prompt::text(name, name))
        })
}

fn pages_of(size: usize) -> Builder {
    five().page_size(NonZeroUsize::new(size).unwrap())
}

fn handshake(params: Value) -> Value {
    params
}

/// Reads a list to its end: how long its pages are, and what they hold.
async fn walk(
    client: &mut Client,
    (method, member, name): (&str, &str, &str),
    dress: fn(Value) -> Value,
) -> (Vec<usize>, Vec<String>) {
    let (mut sizes, mut names) = (Vec::new(), Vec::new());
    let mut params = json!({});
    loop {
        let answer = client.request(method, dress(params)).await;
        let result = &answer["result"];
        let entries = result[member].as_array().unwrap();
        sizes.push(entries.len());
        names.extend(
            entries
                .iter()
                .map(|entry| entry[name].as_str().unwrap().to_owned()),
        );
        match result.get("nextCursor") {
            Some(cursor) => params = json!({ "cursor": cursor.as_str().unwrap() }),
            None => return (sizes, names),
        }
    }
}

#[tokio::test]
async fn lists_come_in_pages_in_the_order_in_which_things_were_added() {
    for (builder, sizes) in [
        (five(), vec![5]),
        (pages_of(1), vec![1; 5]),
        (pages_of(2), vec![2, 2, 1]),
        (pages_of(4), vec![4, 1]),
        // A full last page has no cursor.
        (pages_of(5), vec![5]),
        (pages_of(usize::MAX), vec![5]),
    ] {
        let (mut client, _connection) = connect(&builder.build().unwrap());
        client.initialize().await;
        for list in LISTS {
            for dress in [handshake, modern] {
                let (walked, names) = walk(&mut client, list, dress).await;
                assert_eq!(walked, sizes, "{}", list.0);
                let names: Vec<_> = names.iter().map(|name| name.replace("/{id}", "")).collect();
                let last = |name: &String| name.chars().last().unwrap().to_string();
                assert_eq!(names.iter().map(last).collect::<Vec<_>>(), NAMES);
            }
        }
    }
}

#[tokio::test]
async fn a_list_that_holds_nothing_has_one_page() {
    let server = Server::builder("s", "0").page_size(NonZeroUsize::MIN);
    let server = server
        .resource(Resource::text("r://1", ""))
        .build()
        .unwrap();
    let (mut client, _connection) = connect(&server);
    client.initialize().await;
    let answer = client.request("resources/templates/list", json!({})).await;
    assert_eq!(answer["result"], json!({"resourceTemplates": []}));
}

async fn first_cursor(client: &mut Client, method: &str) -> String {
    let answer = client.request(method, json!({})).await;
    answer["result"]["nextCursor"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_cursor_that_the_list_never_gave_out_is_refused() {
    let (mut client, _connection) = connect(&pages_of(2).build().unwrap());
    let (mut other, _other) = connect(&pages_of(3).build().unwrap());
    client.initialize().await;
    other.initialize().await;
    for (method, _, _) in LISTS {
        let own = first_cursor(&mut client, method).await;
        let mut wrong = vec![
            String::new(),
            "x".to_owned(),
            format!("{own}="),
            format!("{own}AAAA"),
            own[..own.len() - 4].to_owned(),
            own.to_uppercase(),
            "é".to_owned(),
            "A".repeat(100_000),
            // Of the same list, in pages of another size.
            first_cursor(&mut other, method).await,
        ];
        // The first page has none, and there are no more than three.
        for page in [0, 3, 4, u64::MAX] {
            let mut bytes = BASE64_URL_SAFE_NO_PAD.decode(&own).unwrap();
            bytes.truncate(bytes.len() - 8);
            bytes.extend(page.to_be_bytes());
            wrong.push(BASE64_URL_SAFE_NO_PAD.encode(bytes));
        }
        for (another, _, _) in LISTS.iter().filter(|(another, _, _)| *another != method) {
            wrong.push(first_cursor(&mut client, another).await);
        }
        for cursor in wrong {
            let answer = client.request(method, json!({"cursor": cursor})).await;
            assert_eq!(codes(&answer), (-32602, 1021), "{cursor}: {answer}");
            assert!(answer.to_string().len() < 1_000);
        }
        let answer = client.request(method, json!({"cursor": own})).await;
        assert!(answer["result"].is_object(), "{answer}");
    }
}

/// The lists of two states are two lists, and a cursor of one means nothing in the other.
#[tokio::test]
async fn a_cursor_of_another_state_is_refused() {
    let flow = Workflow::builder("w")
        .state("a", |s| {
            s.initial()
                .tool("a", |t| t.success("b"))
                .tool("b", |t| t.success("a"))
        })
        .state("b", |s| {
            s.tool("c", |t| t.success(end("a")))
                .tool("d", |t| t.success("b"))
        })
        .build()
        .unwrap();
    let (mut client, _connection) = connect(&pages_of(1).workflow(flow).build().unwrap());
    client.initialize().await;
    let cursor = first_cursor(&mut client, "tools/list").await;
    let params = json!({"cursor": cursor});
    let answer = client.request("tools/list", params.clone()).await;
    assert_eq!(answer["result"]["tools"][0]["name"], "b");
    client.call("a", json!({})).await;
    let answer = client.request("tools/list", params.clone()).await;
    assert_eq!(codes(&answer), (-32602, 1021), "{answer}");
    client.call("c", json!({})).await;
    let answer = client.request("tools/list", params).await;
    assert_eq!(answer["result"]["tools"][0]["name"], "b");
}

/// Any server of the same make can answer for the next page.
#[tokio::test]
async fn a_cursor_holds_on_another_server_of_the_same_make() {
    let (mut one, _one) = connect(&pages_of(2).build().unwrap());
    let (mut two, _two) = connect(&pages_of(2).build().unwrap());
    one.initialize().await;
    two.initialize().await;
    let cursor = first_cursor(&mut one, "tools/list").await;
    let params = json!({"cursor": cursor});
    let answer = two.request("tools/list", params).await;
    assert_eq!(answer["result"]["tools"][0]["name"], NAMES[2]);
}

#[tokio::test]
async fn every_page_says_how_long_it_holds_and_who_answers() {
    let flow = || {
        let flow = Workflow::builder("w").always_everything();
        flow.build().unwrap()
    };
    for (builder, scope) in [
        (pages_of(2), "public"),
        (pages_of(2).workflow(flow()), "private"),
    ] {
        let (mut client, _connection) = connect(&builder.build().unwrap());
        for (method, _, _) in LISTS {
            let mut params = json!({});
            for _ in 0..3 {
                let answer = client.request(method, modern(params)).await;
                let result = &answer["result"];
                assert_eq!(result["resultType"], "complete", "{answer}");
                assert!(result["ttlMs"].is_u64());
                assert_eq!(result["cacheScope"], scope);
                let server = &result["_meta"]["io.modelcontextprotocol/serverInfo"];
                assert_eq!(server["name"], "s");
                params = json!({"cursor": result["nextCursor"]});
            }
        }
    }
}

#[tokio::test]
async fn without_a_handshake_everything_is_listed_and_what_no_workflow_binds_is_served() {
    let flow = Workflow::builder("w")
        .state("a", |s| {
            s.initial()
                .tool("a", |t| t.success(end("a")))
                .resource("r://a", |r| r.success("a"))
                .resource("t://a/{id}", |r| r.success("a"))
                .prompt("a", |p| p.success("a"))
        })
        .always_tool("b")
        .always_resource("r://b")
        .always_resource("t://b/{id}")
        .always_resource("t://c/1")
        .always_prompt("b")
        .build()
        .unwrap();
    let (mut client, _connection) = connect(&five().workflow(flow).build().unwrap());
    for ((list, names), (method, params)) in LISTS
        .into_iter()
        .zip([
            &["workflow_start", "workflow_status", "e", "b", "d", "a", "c"][..],
            &["r://e", "r://b", "r://d", "r://a", "r://c", "t://c/1"],
            &[
                "t://e/{id}",
                "t://b/{id}",
                "t://d/{id}",
                "t://a/{id}",
                "t://c/{id}",
            ],
            &NAMES,
        ])
        .zip([
            ("tools/call", ["a", "b"].map(|name| json!({"name": name}))),
            (
                "resources/read",
                ["r://a", "r://b"].map(|uri| json!({"uri": uri})),
            ),
            (
                "resources/read",
                ["t://a/1", "t://b/1"].map(|uri| json!({"uri": uri})),
            ),
            ("prompts/get", ["a", "b"].map(|name| json!({"name": name}))),
        ])
    {
        assert_eq!(walk(&mut client, list, modern).await.1, names);
        let [bound, free] = params;
        let answer = client.request(method, modern(bound)).await;
        let told = answer.to_string();
        let taught = if method == "tools/call" {
            ["1022", "workflow_start"]
        } else {
            ["1081", "initialize"]
        };
        assert!(taught.iter().all(|word| told.contains(word)), "{told}");
        let answer = client.request(method, modern(free)).await;
        assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
        assert_ne!(answer["result"]["isError"], true, "{answer}");
    }
    let params = modern(json!({"uri": "t://c/2"}));
    let answer = client.request("resources/read", params).await;
    assert_eq!(codes(&answer), (-32602, 1081), "{answer}");
}

fn kept(uri: &str) -> Resource {
    Resource::text(uri, "").cache(Duration::from_secs(60), CacheScope::Public)
}

async fn hints(client: &mut Client, uri: &str) -> (Value, Value) {
    let params = modern(json!({"uri": uri}));
    let answer = client.request("resources/read", params).await;
    let result = &answer["result"];
    assert_eq!(result["resultType"], "complete", "{answer}");
    (result["ttlMs"].clone(), result["cacheScope"].clone())
}

#[tokio::test]
async fn what_was_read_says_how_long_it_may_be_kept() {
    let own = |_: Context| async {
        let contents = Vec::new();
        ReadResourceResult::new(contents)
            .with_ttl_ms(5)
            .with_cache_scope(CacheScope::Private)
    };
    let builder = Server::builder("s", "0")
        .resource(Resource::text("r://plain", ""))
        .resource(kept("r://kept"))
        .resource(Resource::text("r://ever", "").cache(Duration::MAX, CacheScope::Public))
        .resource(Resource::new("r://own", own).cache(Duration::MAX, CacheScope::Public))
        .template(
            template("t://{id}".to_owned())
                .cache(Duration::from_micros(1_999), CacheScope::Private),
        );
    let (mut client, _connection) = connect(&builder.build().unwrap());
    for (uri, ttl, scope) in [
        ("r://plain", 0, "private"),
        ("r://kept", 60_000, "public"),
        // The largest integer that every reader of JSON reads exactly.
        ("r://ever", 9_007_199_254_740_991_u64, "public"),
        ("r://own", 5, "private"),
        ("t://1", 1, "private"),
    ] {
        assert_eq!(hints(&mut client, uri).await, (json!(ttl), json!(scope)));
    }
    client.initialize().await;
    for uri in ["r://plain", "r://kept", "r://own", "t://1"] {
        let answer = client.request("resources/read", json!({"uri": uri})).await;
        let members: Vec<_> = answer["result"].as_object().unwrap().keys().collect();
        assert_eq!(members, ["contents"], "{answer}");
    }
}

#[tokio::test]
async fn what_is_always_free_may_be_kept_with_a_workflow_too() {
    let flow = Workflow::builder("w")
        .state("a", |s| {
            s.initial().resource("r://bound", |r| r.success(end("a")))
        })
        .always_resource("r://free")
        .build()
        .unwrap();
    let builder = Server::builder("s", "0")
        .resource(kept("r://bound"))
        .resource(kept("r://free"))
        .workflow(flow);
    let (mut client, _connection) = connect(&builder.build().unwrap());
    let kept = (json!(60_000), json!("public"));
    assert_eq!(hints(&mut client, "r://free").await, kept);
}
