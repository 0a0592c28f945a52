//! What reading a resource gives, and what clients are told about it.

use crate::support::messages::{codes, hello};
use interlock::{
    Blob, Context, Failure, Json, Resource, Server, Version,
    model::{Annotations, Icon, MetaObject, ReadResourceResult, ResourceContents, Role},
};
use interlock_proto::era::Era;
use interlock_testkit::{Client, Connection, connect};
use serde_json::{Value, json};

async fn ready(resources: Vec<Resource>) -> (Client, Connection) {
    let builder = Server::builder("s", "0");
    let server = resources
        .into_iter()
        .fold(builder, |server, resource| server.resource(resource));
    let (mut client, connection) = connect(&server.build().unwrap());
    client.initialize().await;
    (client, connection)
}

async fn read(client: &mut Client, uri: &str) -> Value {
    client.request("resources/read", json!({"uri": uri})).await["result"].clone()
}

#[tokio::test]
async fn a_handler_may_return_text_bytes_or_contents() {
    let contents = || {
        let one = ResourceContents::text("one", "x://dir/1");
        let other = ResourceContents::blob("AA==", "x://dir/2");
        vec![one, ResourceContents::blob("AA==", ""), other]
    };
    let (mut client, _connection) = ready(vec![
        Resource::text("x://text", "hello"),
        Resource::blob("x://blob", [0, 255, 62]).mime_type("image/png"),
        Resource::new("x://str", |_: Context| async { "hello" }).mime_type("a/b"),
        Resource::new("x://bytes", |_: Context| async { Blob(vec![0, 255, 62]) }).mime_type("a/b"),
        Resource::new("x://json", |_: Context| async {
            Json(json!({"b": 1, "a": 2}))
        }),
        Resource::new("x://result", |_: Context| async {
            Ok::<_, Failure>("fine".to_owned())
        }),
        Resource::new("x://vec", move |_: Context| async move { contents() }),
        Resource::new("x://whole", move |_: Context| async move {
            ReadResourceResult::new(contents())
        })
        .mime_type("a/b"),
    ])
    .await;
    for (uri, contents) in [
        ("x://text", json!([{"uri": "x://text", "text": "hello"}])),
        (
            "x://blob",
            json!([{"uri": "x://blob", "mimeType": "image/png", "blob": "AP8+"}]),
        ),
        (
            "x://str",
            json!([{"uri": "x://str", "mimeType": "a/b", "text": "hello"}]),
        ),
        (
            "x://bytes",
            json!([{"uri": "x://bytes", "mimeType": "a/b", "blob": "AP8+"}]),
        ),
        (
            "x://json",
            json!([{"uri": "x://json", "mimeType": "application/json", "text": r#"{"b":1,"a":2}"#}]),
        ),
        ("x://result", json!([{"uri": "x://result", "text": "fine"}])),
        (
            "x://vec",
            json!([
                {"uri": "x://dir/1", "mimeType": "text/plain", "text": "one"},
                {"uri": "x://vec", "blob": "AA=="},
                {"uri": "x://dir/2", "blob": "AA=="},
            ]),
        ),
        (
            "x://whole",
            json!([
                {"uri": "x://dir/1", "mimeType": "text/plain", "text": "one"},
                {"uri": "x://whole", "mimeType": "a/b", "blob": "AA=="},
                {"uri": "x://dir/2", "blob": "AA=="},
            ]),
        ),
    ] {
        assert_eq!(read(&mut client, uri).await, json!({"contents": contents}));
    }
}

#[tokio::test]
async fn a_resource_tells_all_about_itself() {
    let annotations = Annotations::default().with_audience(vec![Role::User]);
    let meta = json!({"mine": 1});
    let resource = Resource::text("x://text", "hello")
        .name("text")
        .title("The text")
        .description("Says hello")
        .mime_type("text/plain")
        .size(5)
        .icons(vec![Icon::new("https://example.com/x.png")])
        .annotations(annotations)
        .meta(MetaObject(meta.as_object().unwrap().clone()));
    let (mut client, _connection) = ready(vec![resource]).await;
    let answer = client.request("resources/list", json!({})).await;
    let expected = json!({
        "uri": "x://text",
        "name": "text",
        "title": "The text",
        "description": "Says hello",
        "mimeType": "text/plain",
        "size": 5,
        "icons": [{"src": "https://example.com/x.png"}],
        "annotations": {"audience": ["user"]},
        "_meta": meta,
    });
    assert_eq!(answer["result"]["resources"], json!([expected]));
}

#[tokio::test]
async fn what_is_no_uri_is_refused_as_such_in_every_version() {
    let server = Server::builder("s", "0")
        .resource(Resource::text("x://text", "hello"))
        .build()
        .unwrap();
    let long = format!("x://{}", "a".repeat(8 * 1024));
    for version in Version::HANDSHAKE {
        assert_eq!(version.era(), Era::Handshake);
        let (mut client, _connection) = connect(&server);
        client.request("initialize", hello(version.as_str())).await;
        for uri in [
            "",
            "text",
            "//text",
            "x://te xt",
            "x://te\u{0}xt",
            "x://text\n",
            "9://text",
            &long,
        ] {
            let answer = client.request("resources/read", json!({"uri": uri})).await;
            assert_eq!(codes(&answer), (-32602, 1023), "{version}: {answer}");
            assert!(answer.to_string().len() < 1_000);
        }
    }
}

#[test]
fn a_resource_that_nobody_could_ask_for_is_found_when_the_server_is_built() {
    let longest = format!("x:{}", "a".repeat(8_190));
    let build = |uri: &str| {
        let server = Server::builder("s", "0").resource(Resource::text(uri, ""));
        server.build().map_err(|errors| errors.to_string())
    };
    for uri in ["note://rules", "urn:isbn:1", "a+b-c.d:", "x:é%20", &longest] {
        assert!(build(uri).is_ok(), "{uri}");
    }
    for (uri, why) in [
        ("", "scheme"),
        ("rules", "scheme"),
        ("://rules", "scheme"),
        ("1x:rules", "scheme"),
        ("/a:b", "scheme"),
        ("é:b", "scheme"),
        ("x://a b", "spaces"),
        ("x:a\n", "control"),
        ("x:\u{2028}", "spaces"),
        ("x:\0", "control"),
        ("x://{id}", "braces"),
        (&format!("{longest}a"), "longer than 8192 bytes"),
    ] {
        let errors = build(uri).unwrap_err();
        assert!(
            errors.contains("cannot be the name of a resource"),
            "{errors}"
        );
        assert!(errors.contains(why), "{errors}");
    }
}
