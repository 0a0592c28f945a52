//! Resources that are made as they are asked for: which template a URI belongs to, and what its
//! handler is given.

use crate::support::{
    client::{client_of_built, nothing_comes},
    desk::state,
    messages::{codes, modern},
    tools::tool,
};
use interlock::{
    Blob, Builder, Context, Failure, Resource, ResourceTemplate, Server, Workflow,
    model::{Icon, JsonObject, MetaObject},
    workflow::{Settings, StateBuilder, Visibility, end},
};
use interlock_testkit::Client;
use serde_json::{Value, json};

/// A template whose resources say by what it was made.
fn echo(uri_template: &'static str) -> ResourceTemplate {
    ResourceTemplate::raw(
        uri_template,
        move |values: JsonObject, _: Context| async move {
            format!("{uri_template} {}", Value::Object(values))
        },
    )
}

fn server(templates: impl IntoIterator<Item = ResourceTemplate>) -> Builder {
    let builder = Server::builder("s", "0");
    templates.into_iter().fold(builder, Builder::template)
}

async fn read(client: &mut Client, uri: &str) -> Value {
    client.request("resources/read", json!({"uri": uri})).await
}

#[track_caller]
fn said(answer: &Value) -> &str {
    let text = answer["result"]["contents"][0]["text"].as_str();
    text.unwrap_or_else(|| panic!("{answer}"))
}

#[derive(serde::Deserialize)]
struct Order {
    region: String,
    id: u64,
    lines: Option<u8>,
    #[serde(default)]
    tags: Vec<String>,
}

#[tokio::test]
async fn the_values_of_a_uri_are_read_into_a_type() {
    let orders = ResourceTemplate::new(
        "shop://{region}/orders/{id}{?lines,tags*}",
        |order: Order, _: Context| async move {
            let Order {
                region,
                id,
                lines,
                tags,
            } = order;
            format!("{region} {id} {lines:?} {tags:?}")
        },
    )
    .mime_type("text/plain");
    let (mut client, _connection) = client_of_built(server([orders])).await;
    for (uri, text) in [
        ("shop://eu/orders/17", "eu 17 None []"),
        ("shop://a%20b%2Fc/orders/17?lines=5", "a b/c 17 Some(5) []"),
        (
            "shop://eu/orders/17?tags=x&tags=y",
            r#"eu 17 None ["x", "y"]"#,
        ),
    ] {
        let answer = read(&mut client, uri).await;
        assert_eq!(
            answer["result"]["contents"],
            json!([{"uri": uri, "mimeType": "text/plain", "text": text}])
        );
    }
    for uri in [
        "shop://eu/orders/x",
        "shop://eu/orders/-1",
        "shop://eu/orders/17?lines=256",
    ] {
        let answer = read(&mut client, uri).await;
        assert_eq!(codes(&answer), (-32602, 1023), "{answer}");
    }
    for uri in [
        "shop://eu/orders",
        "shop://eu/orders/1/2",
        "shop:///orders/1",
    ] {
        let answer = read(&mut client, uri).await;
        assert_eq!(codes(&answer), (-32002, 1046), "{answer}");
    }
}

#[tokio::test]
async fn a_template_may_answer_bytes_or_fail() {
    let blobs = ResourceTemplate::raw("blob://{size}", |values: JsonObject, _| async move {
        let size: usize = values["size"].as_str().unwrap_or_default().parse()?;
        Ok::<_, Failure>(Blob(vec![0; size]))
    });
    let (mut client, _connection) = client_of_built(server([blobs.mime_type("a/b")])).await;
    let answer = read(&mut client, "blob://3").await;
    assert_eq!(
        answer["result"]["contents"],
        json!([{"uri": "blob://3", "mimeType": "a/b", "blob": "AAAA"}])
    );
    let answer = read(&mut client, "blob://three").await;
    assert_eq!(answer["error"]["code"], -32603, "{answer}");
    assert_eq!(answer["error"].get("data"), None, "{answer}");
}

#[tokio::test]
async fn what_was_added_first_wins_and_a_resource_goes_before_every_template() {
    let builder = server([echo("x://{a}/{b}"), echo("x://{+all}"), echo("x://1/{c}")]);
    let builder = builder.resource(Resource::text("x://1/2", "itself"));
    let (mut client, _connection) = client_of_built(builder).await;
    for (uri, text) in [
        ("x://1/2", "itself"),
        ("x://1/3", r#"x://{a}/{b} {"a":"1","b":"3"}"#),
        ("x://1/2/3", r#"x://{+all} {"all":"1/2/3"}"#),
        ("x://1", r#"x://{+all} {"all":"1"}"#),
    ] {
        let answer = read(&mut client, uri).await;
        assert_eq!(said(&answer), text);
    }
}

#[tokio::test]
async fn templates_are_listed_and_their_resources_are_not() {
    let meta = json!({"mine": 1});
    let rich = echo("x://{a}")
        .name("x")
        .title("The x")
        .description("Says a")
        .mime_type("text/plain")
        .icons(vec![Icon::new("https://example.com/x.png")])
        .meta(MetaObject(meta.as_object().unwrap().clone()));
    let (mut client, _connection) = client_of_built(server([rich, echo("y://{b}")])).await;
    let answer = client.request("resources/templates/list", json!({})).await;
    let expected = json!([
        {
            "uriTemplate": "x://{a}",
            "name": "x",
            "title": "The x",
            "description": "Says a",
            "mimeType": "text/plain",
            "icons": [{"src": "https://example.com/x.png"}],
            "_meta": meta,
        },
        {"uriTemplate": "y://{b}", "name": "y://{b}"},
    ]);
    assert_eq!(answer["result"], json!({"resourceTemplates": expected}));
    let answer = client.request("resources/list", json!({})).await;
    assert_eq!(answer["result"], json!({"resources": []}));
}

#[test]
fn what_is_no_template_is_found_when_the_server_is_built() {
    for (text, why) in [
        ("x://{a", "`x://{a` is no resource template"),
        ("x://{a b}", "no name of a variable"),
        ("x://a b/{c}", "cannot be part of a URI"),
        ("x://a", "a template has variables"),
    ] {
        let errors = server([echo(text)]).build().unwrap_err().to_string();
        assert!(errors.contains(why), "{errors}");
    }
    let twice = server([echo("x://{a}"), echo("x://{a}")]).build();
    let errors = twice.unwrap_err().to_string();
    assert!(
        errors.contains("two resources called `x://{a}`"),
        "{errors}"
    );
}

/// `order://{id}` is bound as a whole, of `file:///{+path}` only one file, and `free://{x}` never
/// moves anything.
fn gated(settings: Settings) -> Builder {
    let back = |s: StateBuilder| s.tool("back", |t| t.success(end("open")));
    let flow = Workflow::builder("w")
        .settings(settings)
        .state("open", |s| {
            s.initial()
                .resource("order://{id}", |r| r.success("read"))
                .resource("file:///a.txt", |r| r.success("filed"))
        })
        .state("read", back)
        .state("filed", back)
        .always_resource("free://{x}")
        .build()
        .unwrap();
    server([
        echo("order://{id}"),
        echo("file:///{+path}").title("Files"),
        echo("free://{x}"),
        echo("other://{x}"),
    ])
    .tool(tool("back"))
    .tool(tool("nowhere"))
    .workflow(flow)
}

async fn listed(client: &mut Client, params: Value) -> (Vec<String>, Vec<String>) {
    let mut lists = Vec::new();
    for (method, list, name) in [
        ("resources/list", "resources", "uri"),
        (
            "resources/templates/list",
            "resourceTemplates",
            "uriTemplate",
        ),
    ] {
        let answer = client.request(method, params.clone()).await;
        let list = answer["result"][list].as_array().unwrap();
        let name = |one: &Value| one[name].as_str().unwrap().to_owned();
        lists.push(list.iter().map(name).collect());
    }
    (lists.remove(0), lists.remove(0))
}

#[tokio::test]
async fn a_workflow_binds_a_template_or_one_resource_of_it() {
    let (mut client, _connection) = client_of_built(gated(Settings::default())).await;
    let (resources, templates) = listed(&mut client, json!({})).await;
    assert_eq!(resources, ["file:///a.txt"]);
    assert_eq!(templates, ["order://{id}", "free://{x}"]);
    let answer = client.request("resources/list", json!({})).await;
    assert_eq!(answer["result"]["resources"][0]["title"], "Files");

    // Others of the same template, and templates that are bound nowhere.
    for uri in ["file:///b.txt", "other://1"] {
        let answer = read(&mut client, uri).await;
        assert_eq!(codes(&answer), (-32602, 1081), "{answer}");
    }
    let answer = read(&mut client, "free://1").await;
    assert_eq!(said(&answer), r#"free://{x} {"x":"1"}"#);
    assert_eq!(state(&mut client).await, "open");

    let answer = read(&mut client, "file:///a.txt").await;
    assert_eq!(said(&answer), r#"file:///{+path} {"path":"a.txt"}"#);
    assert_eq!(state(&mut client).await, "filed");
    let (resources, templates) = listed(&mut client, json!({})).await;
    assert_eq!(resources, [] as [&str; 0]);
    assert_eq!(templates, ["free://{x}"]);
    let answer = read(&mut client, "order://17").await;
    assert_eq!(codes(&answer), (-32602, 1081), "{answer}");

    client.call("back", json!({})).await;
    let answer = read(&mut client, "order://17").await;
    assert_eq!(said(&answer), r#"order://{id} {"id":"17"}"#);
    assert_eq!(state(&mut client).await, "read");
}

/// `step` goes from one state to the next, and tells before its result what has changed.
async fn steps(client: &mut Client, told: &[&str], templates: &[&str]) {
    let (before, result) = client.call("step", json!({})).await;
    assert_eq!(result["isError"], false, "{result}");
    assert_eq!(before, told, "{templates:?}");
    let (resources, listed) = listed(client, json!({})).await;
    assert_eq!(resources, [] as [&str; 0]);
    assert_eq!(listed, templates);
    nothing_comes(client).await;
}

/// Templates have no notification of their own: they are resources.
#[tokio::test]
async fn a_step_that_changes_only_templates_is_announced_before_its_result() {
    let next = |s: StateBuilder, next: &str| s.tool("step", |t| t.success(next.to_owned()));
    let bound = |s: StateBuilder, uri: &str| s.resource(uri, |r| r.success("none"));
    let flow = Workflow::builder("w")
        .state("a", |s| bound(next(s.initial(), "b"), "a://{x}"))
        .state("b", |s| bound(next(s, "same"), "b://{x}"))
        .state("same", |s| bound(next(s, "none"), "b://{x}"))
        .state("none", |s| s.tool("step", |t| t.success(end("a"))))
        .always_resource("free://{x}")
        .build()
        .unwrap();
    let builder = server([echo("a://{x}"), echo("b://{x}"), echo("free://{x}")])
        .tool(tool("step"))
        .workflow(flow);
    let (mut client, _connection) = client_of_built(builder).await;
    let changed: &[&str] = &["notifications/resources/list_changed"];
    for _ in 0..2 {
        steps(&mut client, changed, &["b://{x}", "free://{x}"]).await;
        steps(&mut client, &[], &["b://{x}", "free://{x}"]).await;
        steps(&mut client, changed, &["free://{x}"]).await;
        steps(&mut client, changed, &["a://{x}", "free://{x}"]).await;
    }
}

#[tokio::test]
async fn static_lists_hold_every_template_and_every_resource_that_is_named() {
    let settings = Settings {
        visibility: Visibility::Static,
        ..Settings::default()
    };
    let (mut client, _connection) = client_of_built(gated(settings)).await;
    for _ in 0..2 {
        let (resources, templates) = listed(&mut client, json!({})).await;
        assert_eq!(resources, ["file:///a.txt"]);
        let all = [
            "order://{id}",
            "file:///{+path}",
            "free://{x}",
            "other://{x}",
        ];
        assert_eq!(templates, all);
        read(&mut client, "file:///a.txt").await;
    }
    assert_eq!(state(&mut client).await, "filed");
}

/// Both templates fit, and only the second one is bound: letting the first one's handler run
/// would let something through that the workflow does not name.
#[tokio::test]
async fn the_gate_and_the_handler_mean_the_same_template() {
    for always in [false, true] {
        let flow = Workflow::builder("w").state("open", |s| {
            let s = s.initial().tool("back", |t| t.success(end("open")));
            if always {
                s
            } else {
                s.resource("file:///pub/{name}", |r| r.success("open"))
            }
        });
        let flow = if always {
            flow.always_resource("file:///pub/{name}")
        } else {
            flow
        };
        let builder = server([echo("file:///{+path}"), echo("file:///pub/{name}")])
            .tool(tool("back"))
            .workflow(flow.build().unwrap());
        let (mut client, _connection) = client_of_built(builder).await;
        let answer = read(&mut client, "file:///pub/a").await;
        assert_eq!(said(&answer), r#"file:///pub/{name} {"name":"a"}"#);
        let answer = read(&mut client, "file:///etc/a").await;
        assert_eq!(codes(&answer), (-32602, 1081), "{answer}");
        if always {
            let params = modern(json!({"uri": "file:///pub/a"}));
            let answer = client.request("resources/read", params).await;
            assert_eq!(said(&answer), r#"file:///pub/{name} {"name":"a"}"#);
        }
    }
}

/// Everything that the workflow does not bind is free, and one resource of a template is bound.
#[tokio::test]
async fn a_bound_resource_is_bound_however_it_is_written() {
    let flow = Workflow::builder("w")
        .state("new", |s| {
            s.initial()
                .resource("greeting://alice", |r| r.success("greeted"))
        })
        .state("greeted", |s| s.tool("back", |t| t.success(end("new"))))
        .always_everything()
        .build()
        .unwrap();
    let builder = server([echo("greeting://{name}{?loud}")])
        .tool(tool("back"))
        .workflow(flow);
    let (mut client, _connection) = client_of_built(builder).await;
    let ways = [
        "greeting://alice",
        "greeting://%61lice",
        "greeting://alic%65",
        "greeting://alice?",
        "greeting://alice?other=1",
    ];
    for way in ways {
        let answer = read(&mut client, way).await;
        assert!(said(&answer).ends_with(r#"{"name":"alice"}"#), "{answer}");
        assert_eq!(answer["result"]["contents"][0]["uri"], way);
        let place = &answer["result"]["_meta"]["dev.interlock/workflow"];
        assert_eq!(place["state"], "greeted", "{way}");
        for again in ways {
            let answer = read(&mut client, again).await;
            assert_eq!(codes(&answer), (-32602, 1081), "{again}: {answer}");
            let params = modern(json!({"uri": again}));
            let answer = client.request("resources/read", params).await;
            assert_eq!(codes(&answer), (-32602, 1081), "{again}: {answer}");
        }
        for free in ["greeting://bob", "greeting://alice?loud=1"] {
            said(&read(&mut client, free).await);
        }
        client.call("back", json!({})).await;
    }
}

/// Whatever is in a URI, it is answered, and soon.
#[tokio::test]
async fn hostile_uris_are_answered() {
    let templates = [
        "a://{a}{b}{c}{d}{e}",
        "a://{+a}x{+b}x{+c}x{+d}",
        "a://{;a*}{?b*}",
    ];
    let (mut client, _connection) = client_of_built(server(templates.map(echo))).await;
    for filling in ["x", "/", ";a=", "%", "%25", "%C3", "&", "é", "{a}"] {
        let uri = format!("a://{}", filling.repeat(8_000 / filling.len()));
        let answer = read(&mut client, &uri).await;
        assert!(answer["result"].is_object() != answer["error"].is_object());
    }
}
