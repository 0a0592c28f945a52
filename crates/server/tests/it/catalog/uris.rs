//! A resource is the same however its URI is written, to requests of both eras and to subscribers.

use crate::support::{
    client::client_of,
    desk::global,
    messages::{codes, modern},
    tools::tool,
};
use interlock::{
    Context, Resource, ResourceTemplate, Server, Workflow, model::JsonObject, workflow::end,
};
use interlock_testkit::connect;
use serde_json::{Value, json};

const WEB: &str = "http://example.com";

fn orders() -> ResourceTemplate {
    ResourceTemplate::raw("order://{id}", |_: JsonObject, _: Context| async {
        "an order"
    })
}

/// One official client writes the empty path of a host as `/`.
#[tokio::test]
async fn a_resource_is_read_however_its_uri_is_written() {
    let flow = Workflow::builder("w").settings(global()).state("a", |s| {
        s.initial()
            .resource("HTTP://Example.com/", |r| r.success("b"))
    });
    let flow = flow.state("b", |s| s.resource(WEB, |r| r.success(end("a"))));
    let server = Server::builder("s", "0").resource(Resource::text(WEB, "the site"));
    let server = server.workflow(flow.build().unwrap()).build().unwrap();
    assert_eq!(server.warnings(), []);
    let (mut client, _connection) = client_of(&server).await;
    let (mut other, _other) = connect(&server);
    for uri in [WEB, "http://example.com/", "HTTP://EXAMPLE.COM"] {
        let read = client.request("resources/read", json!({"uri": uri})).await;
        let contents = json!([{"uri": WEB, "text": "the site"}]);
        assert_eq!(read["result"]["contents"], contents, "{uri}: {read}");
        let read = other.request("resources/read", modern(json!({"uri": uri})));
        let read = read.await;
        assert_eq!(read["result"]["contents"], contents, "{uri}: {read}");
    }
    for uri in ["http://example.com//", "http://example.com/x/.."] {
        let read = client.request("resources/read", json!({"uri": uri})).await;
        assert_eq!(codes(&read), (-32002, 1046), "{uri}: {read}");
    }
}

/// It is told in its own words: it may compare them with what it sent.
#[tokio::test]
async fn a_subscriber_is_told_of_the_uri_that_it_wrote() {
    let server = Server::builder("s", "0").resource(Resource::text(WEB, "the site"));
    let server = server.build().unwrap();
    let (mut client, _connection) = client_of(&server).await;
    for uri in ["http://example.com/", WEB] {
        let done = client.request("resources/subscribe", json!({"uri": uri}));
        assert_eq!(done.await["result"], json!({}));
    }
    let (mut other, _other) = connect(&server);
    let wanted = json!({"notifications": {"resourceSubscriptions": ["Http://example.com"]}});
    other.begin("subscriptions/listen", modern(wanted)).await;
    other.receive().await;
    server.resource_updated("http://EXAMPLE.com");
    let told = client.receive().await.unwrap();
    assert_eq!(told["params"]["uri"], "http://example.com/", "{told}");
    let told = other.receive().await.unwrap();
    assert_eq!(told["params"]["uri"], "Http://example.com", "{told}");
    let done = client.request("resources/unsubscribe", json!({"uri": WEB}));
    assert_eq!(done.await["result"], json!({}));
    server.resource_updated(WEB);
    let (before, _) = client.exchange("ping", json!({})).await;
    assert_eq!(before, [] as [Value; 0]);
}

/// The two gates did not agree: a session refused such a URI, and a 2026-07-28 request was served.
#[tokio::test]
async fn a_uri_that_begins_like_a_bound_template_is_refused_in_both_eras() {
    let flow = Workflow::builder("w")
        .state("a", |s| s.initial().tool("go", |t| t.success("b")))
        .state("b", |s| s.resource("order://{id}", |r| r.success(end("a"))))
        .always_everything();
    let server = Server::builder("s", "0")
        .tool(tool("go"))
        .template(orders())
        .resource(Resource::text("order://1/2", "not an order"))
        .resource(Resource::text("note://free", "a note"))
        .workflow(flow.build().unwrap())
        .build()
        .unwrap();
    let (mut client, _connection) = client_of(&server).await;
    let (mut other, _other) = connect(&server);
    let read = client.request("resources/read", json!({"uri": "order://1/2"}));
    assert_eq!(codes(&read.await), (-32602, 1081));
    let read = other.request("resources/read", modern(json!({"uri": "order://1/2"})));
    let read = read.await;
    assert!(read["error"]["data"]["refusal"].is_object(), "{read}");
    let listed = client.request("resources/list", json!({})).await;
    let listed = listed["result"]["resources"].as_array().unwrap().iter();
    let listed: Vec<_> = listed.map(|one| one["uri"].as_str().unwrap()).collect();
    assert_eq!(listed, ["note://free"]);
    let read = other.request("resources/read", modern(json!({"uri": "note://free"})));
    assert_eq!(read.await["result"]["contents"][0]["text"], "a note");
}
