//! What a server has changes while it runs.

use crate::support::{
    client::client_of,
    desk::{desk, state},
    held::{OnCancel, held},
    messages::{codes, modern, refusal},
    tools::tool,
};
use interlock::{
    Bounds, BuildError, Context, Failure, HttpOptions, NoArguments, Prompt, Resource,
    ResourceTemplate, Server, Tool, model::JsonObject, workflow::Kind,
};
use interlock_testkit::{
    Client, PATIENCE, connect,
    web::{Session, Site},
};
use serde_json::{Value, json};
use std::{
    num::NonZeroUsize,
    sync::{Arc, OnceLock, mpsc},
};

fn template(uri_template: &str) -> ResourceTemplate {
    ResourceTemplate::raw(uri_template, |_: JsonObject, _: Context| async {
        "templated"
    })
}

fn server() -> Server {
    Server::builder("s", "0")
        .tool(tool("a"))
        .tool(tool("b"))
        .resource(Resource::text("r://a", "a"))
        .template(template("t://{a}"))
        .prompt(Prompt::text("a", "a"))
        .build()
        .unwrap()
}

async fn listed(client: &mut Client, method: &str, params: Value) -> Vec<String> {
    let answer = client.request(method, params).await;
    let result = answer["result"].as_object().unwrap();
    let lists = ["tools", "resources", "resourceTemplates", "prompts"];
    let list = lists.iter().find_map(|list| result.get(*list)).unwrap();
    let name = |entry: &Value| {
        let names = ["uri", "uriTemplate", "name"];
        let name = names.iter().find_map(|name| entry[*name].as_str());
        name.unwrap().to_owned()
    };
    list.as_array().unwrap().iter().map(name).collect()
}

/// What both eras list must be this.
async fn check_lists(client: &mut Client, method: &str, names: &[&str]) {
    for params in [json!({}), modern(json!({}))] {
        assert_eq!(listed(client, method, params).await, names, "{method}");
    }
}

#[tokio::test]
async fn what_is_added_is_there_after_the_rest() {
    let server = server();
    let (mut client, _connection) = client_of(&server).await;
    check_lists(&mut client, "tools/list", &["a", "b"]).await;
    server.add_tool(tool("0")).unwrap();
    server.add_resource(Resource::text("r://0", "new")).unwrap();
    server.add_template(template("t://0/{a}")).unwrap();
    server.add_prompt(Prompt::text("0", "new")).unwrap();
    check_lists(&mut client, "tools/list", &["a", "b", "0"]).await;
    check_lists(&mut client, "resources/list", &["r://a", "r://0"]).await;
    check_lists(
        &mut client,
        "resources/templates/list",
        &["t://{a}", "t://0/{a}"],
    )
    .await;
    check_lists(&mut client, "prompts/list", &["a", "0"]).await;
    let (_, result) = client.call("0", json!({})).await;
    assert_eq!(result["content"][0]["text"], "0 is done");
    for uri in ["r://0", "t://0/1"] {
        let answer = client.request("resources/read", json!({"uri": uri})).await;
        assert!(answer["result"]["contents"].is_array(), "{answer}");
    }
    let answer = client.request("prompts/get", json!({"name": "0"})).await;
    assert!(answer["result"]["messages"].is_array(), "{answer}");
}

#[tokio::test]
async fn what_is_removed_is_gone_and_can_be_added_again() {
    let server = server();
    let (mut client, _connection) = client_of(&server).await;
    for _ in 0..2 {
        assert!(server.remove_tool("a"));
        assert!(server.remove_resource("r://a"));
        assert!(server.remove_template("t://{a}"));
        assert!(server.remove_prompt("a"));
        check_lists(&mut client, "tools/list", &["b"]).await;
        check_lists(&mut client, "resources/list", &[]).await;
        check_lists(&mut client, "resources/templates/list", &[]).await;
        check_lists(&mut client, "prompts/list", &[]).await;
        let answer = client.request("tools/call", json!({"name": "a"})).await;
        assert_eq!(codes(&answer), (-32602, 1048), "{answer}");
        for uri in ["r://a", "t://a"] {
            let answer = client.request("resources/read", json!({"uri": uri})).await;
            assert_eq!(codes(&answer), (-32002, 1046), "{answer}");
        }
        let answer = client.request("prompts/get", json!({"name": "a"})).await;
        assert_eq!(codes(&answer), (-32602, 1050), "{answer}");

        server.add_tool(tool("a")).unwrap();
        server.add_resource(Resource::text("r://a", "a")).unwrap();
        server.add_template(template("t://{a}")).unwrap();
        server.add_prompt(Prompt::text("a", "a")).unwrap();
        assert!(server.remove_tool("b"));
        server.add_tool(tool("b")).unwrap();
        check_lists(&mut client, "tools/list", &["a", "b"]).await;
        let (_, result) = client.call("b", json!({})).await;
        assert_eq!(result["content"][0]["text"], "b is done");
    }
    for gone in [
        server.remove_tool("nope"),
        server.remove_resource("t://{a}"),
        server.remove_template("r://a"),
        server.remove_prompt("r://a"),
    ] {
        assert!(!gone);
    }
}

#[tokio::test]
async fn what_is_switched_off_is_as_if_it_were_not_there_and_comes_back_to_its_place() {
    let server = server();
    let (mut client, _connection) = client_of(&server).await;
    for (kind, name, method, call, params, code) in [
        (
            Kind::Tool,
            "a",
            "tools/list",
            "tools/call",
            json!({"name": "a"}),
            (-32602, 1048),
        ),
        (
            Kind::Resource,
            "r://a",
            "resources/list",
            "resources/read",
            json!({"uri": "r://a"}),
            (-32002, 1046),
        ),
        (
            Kind::Resource,
            "t://{a}",
            "resources/templates/list",
            "resources/read",
            json!({"uri": "t://1"}),
            (-32002, 1046),
        ),
        (
            Kind::Prompt,
            "a",
            "prompts/list",
            "prompts/get",
            json!({"name": "a"}),
            (-32602, 1050),
        ),
    ] {
        let before = client.request(method, json!({})).await["result"].clone();
        assert!(server.set_enabled(kind, name, false));
        assert!(server.set_enabled(kind, name, false));
        let without = listed(&mut client, method, json!({})).await;
        assert!(!without.contains(&name.to_owned()), "{without:?}");
        let answer = client.request(call, params.clone()).await;
        assert_eq!(codes(&answer), code, "{answer}");
        assert!(server.set_enabled(kind, name, true));
        let after = client.request(method, json!({})).await["result"].clone();
        assert_eq!(before, after);
        let answer = client.request(call, params).await;
        assert!(answer["result"].is_object(), "{answer}");
        assert!(!server.set_enabled(kind, "nope", false));
    }
    assert!(!server.set_enabled(Kind::Prompt, "r://a", false));
}

/// The name of what is switched off is taken.
#[tokio::test]
async fn what_could_not_be_built_cannot_be_added() {
    let server = server();
    let (mut client, _connection) = client_of(&server).await;
    server.set_enabled(Kind::Tool, "b", false);
    for twice in [
        server.add_tool(tool("a")),
        server.add_tool(tool("b")),
        server.add_resource(Resource::text("r://a", "")),
        server.add_template(template("t://{a}")),
        server.add_prompt(Prompt::text("a", "")),
    ] {
        assert!(
            matches!(twice, Err(BuildError::Duplicate { .. })),
            "{twice:?}"
        );
    }
    for name in [
        server.add_tool(tool("a b")),
        server.add_resource(Resource::text("no scheme", "")),
        server.add_template(template("t://none")),
        server.add_prompt(Prompt::text("", "")),
    ] {
        assert!(matches!(name, Err(BuildError::Name { .. })), "{name:?}");
    }
    let wrong = server.add_template(template("t://{"));
    assert!(
        matches!(wrong, Err(BuildError::Template { .. })),
        "{wrong:?}"
    );
    let wrong = server.add_tool(Tool::raw("c", JsonObject::new(), |_, _| async {}));
    assert!(matches!(wrong, Err(BuildError::Schema { .. })), "{wrong:?}");
    check_lists(&mut client, "tools/list", &["a"]).await;
    check_lists(&mut client, "resources/list", &["r://a"]).await;
}

#[tokio::test]
async fn a_call_that_runs_goes_on_when_its_tool_is_removed() {
    let (work, mut held) = held("work", OnCancel::GoesOn);
    let server = Server::builder("s", "0").tool(work).build().unwrap();
    let (mut client, _connection) = client_of(&server).await;
    let id = client.begin("tools/call", json!({"name": "work"})).await;
    held.started().await;
    assert!(server.remove_tool("work"));
    check_lists_is_empty(&mut client).await;
    held.let_go(1);
    let (_, answer) = client.until(id).await;
    assert_eq!(answer["result"]["content"][0]["text"], "done", "{answer}");
}

async fn check_lists_is_empty(client: &mut Client) {
    assert_eq!(client.tools().await, [] as [&str; 0]);
}

/// A server with a tool that adds another one.
fn learning() -> Server {
    let itself = Arc::new(OnceLock::<Server>::new());
    let known = Arc::clone(&itself);
    let learn = Tool::new("learn", move |_: NoArguments, _: Context| {
        let added = known.get().unwrap().add_tool(tool("learned"));
        async move { added.map_err(|error| Failure::new(error.to_string())) }
    });
    let server = Server::builder("s", "0").tool(learn).build().unwrap();
    assert!(itself.set(server.clone()).is_ok());
    server
}

/// A call of a tool without arguments.
fn call_of(id: i64, name: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": name}})
}

/// Requests that come together need not find the same: each finds what there is when it is read.
#[tokio::test]
async fn what_a_call_adds_is_there_for_the_request_behind_it() {
    let (mut client, _connection) = client_of(&learning()).await;
    let (first, second) = (call_of(100, "learn"), call_of(101, "learned"));
    client
        .send_bytes(format!("{first}\n{second}\n").as_bytes())
        .await;
    for id in [100, 101] {
        let (_, answer) = client.until(id).await;
        assert_eq!(answer["result"]["isError"], false, "{answer}");
    }
}

#[tokio::test]
async fn what_a_member_of_a_batch_adds_is_there_for_the_next() {
    let (mut client, _connection) = connect(&learning());
    let hello = json!({
        "protocolVersion": "2025-03-26",
        "capabilities": {},
        "clientInfo": {"name": "batches", "version": "0"},
    });
    client.request("initialize", hello).await;
    client.notify("notifications/initialized", json!({})).await;
    let both = json!([call_of(100, "learn"), call_of(101, "learned")]);
    client.send(both).await;
    let answers = loop {
        let message = client.receive().await.unwrap();
        if let Value::Array(answers) = message {
            break answers;
        }
    };
    assert_eq!(answers.len(), 2);
    for answer in answers {
        assert_eq!(answer["result"]["isError"], false, "{answer}");
    }
}

/// Panics when it is dropped, as a guard may that unwraps something.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("dropped");
        }
    }
}

/// A server with a tool that removes another one, whose clean-up panics.
fn mined() -> Server {
    let itself = Arc::new(OnceLock::<Server>::new());
    let known = Arc::clone(&itself);
    let bomb = Bomb;
    let bomb = Tool::new("bomb", move |_: NoArguments, _: Context| {
        let _held = &bomb;
        async { "tick" }
    });
    let defuse = Tool::new("defuse", move |_: NoArguments, _: Context| {
        let removed = known.get().unwrap().remove_tool("bomb");
        async move { removed.to_string() }
    });
    let server = Server::builder("s", "0").tool(bomb).tool(defuse);
    let server = server.build().unwrap();
    assert!(itself.set(server.clone()).is_ok());
    server
}

/// Whoever lets go of a removed tool last, its clean-up costs nobody an answer.
#[tokio::test]
async fn a_removed_tool_whose_clean_up_panics_costs_no_answer() {
    let (mut client, _connection) = client_of(&mined()).await;
    let (_, result) = client.call("defuse", json!({})).await;
    assert_eq!(result["content"][0]["text"], "true", "{result}");
    assert_eq!(client.tools().await, ["defuse"]);
}

#[tokio::test]
async fn nor_does_it_over_http() {
    let site = Site::open(&mined(), HttpOptions::default()).await;
    let session = Session::open(&site).await;
    let params = json!({"name": "defuse"});
    let answer = site
        .send(session.ask("tools/call", params))
        .await
        .json()
        .await;
    assert_eq!(answer["result"]["content"][0]["text"], "true", "{answer}");
}

/// A connection over which nothing comes keeps nothing that is not offered any more.
#[tokio::test]
async fn what_is_removed_is_let_go_while_its_clients_rest() {
    let held = Arc::new(());
    let kept = Arc::downgrade(&held);
    let holding = Tool::new("hold", move |_: NoArguments, _: Context| {
        let held = Arc::clone(&held);
        async move { Arc::strong_count(&held).to_string() }
    });
    let server = Server::builder("s", "0").tool(holding).build().unwrap();
    let (mut client, _connection) = client_of(&server).await;
    let (_, result) = client.call("hold", json!({})).await;
    assert_eq!(result["isError"], false, "{result}");
    assert!(kept.upgrade().is_some());
    assert!(server.remove_tool("hold"));
    assert!(kept.upgrade().is_none());
}

#[tokio::test]
async fn a_cursor_of_a_list_that_has_changed_is_refused_and_others_hold() {
    let server = Server::builder("s", "0")
        .tool(tool("a"))
        .tool(tool("b"))
        .prompt(Prompt::text("a", ""))
        .prompt(Prompt::text("b", ""))
        .page_size(NonZeroUsize::MIN)
        .build()
        .unwrap();
    let (mut client, _connection) = client_of(&server).await;
    let mut cursors = Vec::new();
    for method in ["tools/list", "prompts/list"] {
        let answer = client.request(method, json!({})).await;
        cursors.push(json!({"cursor": answer["result"]["nextCursor"]}));
    }
    server.add_tool(tool("c")).unwrap();
    let answer = client.request("tools/list", cursors[0].clone()).await;
    assert_eq!(codes(&answer), (-32602, 1021), "{answer}");
    let answer = client.request("prompts/list", cursors[1].clone()).await;
    assert_eq!(answer["result"]["prompts"][0]["name"], "b");
    assert!(server.remove_tool("c"));
    let answer = client.request("tools/list", cursors[0].clone()).await;
    assert_eq!(answer["result"]["tools"][0]["name"], "b");
}

#[tokio::test]
async fn a_workflow_decides_about_what_is_added_as_about_everything() {
    let server = desk(tool("work")).build().unwrap();
    let (mut client, _connection) = client_of(&server).await;
    let before = client.tools().await;
    server.add_tool(tool("extra")).unwrap();
    assert_eq!(client.tools().await, before);
    let (_, result) = client.call("extra", json!({})).await;
    assert_eq!(refusal(&result), 1081, "{result}");

    // What it binds can go and come back.
    assert!(server.remove_tool("work"));
    assert_eq!(client.tools().await, ["peek", "search"]);
    let answer = client.request("tools/call", json!({"name": "work"})).await;
    assert_eq!(codes(&answer), (-32602, 1048), "{answer}");
    server.add_tool(tool("work")).unwrap();
    assert_eq!(client.tools().await, before);
    client.call("work", json!({})).await;
    assert_eq!(state(&mut client).await, "done");
}

#[tokio::test]
async fn a_new_client_is_told_what_there_is_now() {
    let server = Server::builder("s", "0").build().unwrap();
    let capabilities = async |server: &Server| {
        let (mut client, _connection) = connect(server);
        let answer = client.initialize().await;
        let told = answer["result"]["capabilities"]
            .as_object()
            .unwrap()
            .clone();
        told.keys().cloned().collect::<Vec<_>>()
    };
    assert_eq!(capabilities(&server).await, ["logging"]);
    server.add_template(template("t://{a}")).unwrap();
    assert_eq!(capabilities(&server).await, ["resources", "logging"]);
    server.add_tool(tool("a")).unwrap();
    assert_eq!(
        capabilities(&server).await,
        ["tools", "resources", "logging"]
    );
}

#[tokio::test]
async fn a_connection_may_listen_only_so_much_at_once() {
    let server = Server::builder("s", "0")
        .resource(Resource::text("r://a", "a"))
        .resource(Resource::text("r://b", "b"))
        .bounds(Bounds {
            subscriptions: 2,
            listens: 2,
            ..Bounds::default()
        })
        .build()
        .unwrap();
    let (mut client, _connection) = connect(&server);
    let wanted = |uris: &[&str]| modern(json!({"notifications": {"resourceSubscriptions": uris}}));
    let acknowledged = "notifications/subscriptions/acknowledged";
    let first = client
        .begin("subscriptions/listen", wanted(&["r://a"]))
        .await;
    assert_eq!(client.receive().await.unwrap()["method"], acknowledged);
    // Two more resources are too many together.
    let answer = client
        .request("subscriptions/listen", wanted(&["r://a", "r://b"]))
        .await;
    assert_eq!(codes(&answer).1, 1059, "{answer}");
    client
        .begin("subscriptions/listen", wanted(&["r://b"]))
        .await;
    assert_eq!(client.receive().await.unwrap()["method"], acknowledged);
    let answer = client.request("subscriptions/listen", wanted(&[])).await;
    assert_eq!(codes(&answer).1, 1059, "{answer}");
    client
        .notify("notifications/cancelled", json!({"requestId": first}))
        .await;
    client
        .begin("subscriptions/listen", wanted(&["r://a"]))
        .await;
    assert_eq!(client.receive().await.unwrap()["method"], acknowledged);
    server.resource_updated("r://a");
    let updated = client.receive().await.unwrap();
    assert_eq!(updated["params"]["uri"], "r://a");
}

/// Whoever lists sees the tools as they were at some moment: each change as a whole.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_are_whole_while_others_change_them() {
    const NAMES: [&str; 3] = ["x", "y", "z"];
    let server = server();
    let changing = server.clone();
    let changes = tokio::task::spawn_blocking(move || {
        for round in 0..100 {
            let name = NAMES[round % NAMES.len()];
            changing.add_tool(tool(name)).unwrap();
            assert!(changing.set_enabled(Kind::Tool, "a", round % 2 == 0));
            assert!(changing.remove_tool(name));
        }
        changing.set_enabled(Kind::Tool, "a", true);
    });
    let (mut client, _connection) = client_of(&server).await;
    while !changes.is_finished() {
        let tools = client.tools().await;
        let extra = tools.iter().filter(|tool| NAMES.contains(&tool.as_str()));
        assert!(extra.count() <= 1, "{tools:?}");
        assert!(tools.contains(&"b".to_owned()), "{tools:?}");
    }
    changes.await.unwrap();
    assert_eq!(client.tools().await, ["a", "b"]);
}

/// Changes its server when the handler that owns it is dropped.
struct Leaver(Server, &'static str);

impl Drop for Leaver {
    fn drop(&mut self) {
        self.0.add_tool(tool(self.1)).unwrap();
    }
}

fn leaving(server: &Server, name: &'static str, leaves: &'static str) -> Tool {
    let leaver = Arc::new(Leaver(server.clone(), leaves));
    Tool::new(name, move |_: NoArguments, _: Context| {
        let _its = Arc::clone(&leaver);
        async { "done" }
    })
}

#[test]
fn a_handler_may_change_its_server_when_it_is_dropped() {
    let (done, is_done) = mpsc::channel();
    // What hangs, hangs on a thread of its own.
    std::thread::spawn(move || {
        let server = server();
        server.add_tool(leaving(&server, "c", "removed")).unwrap();
        assert!(!server.remove_tool("removed"), "it is not dropped yet");
        server.remove_tool("c");
        let twice = server.add_tool(leaving(&server, "a", "refused"));
        assert!(
            matches!(twice, Err(BuildError::Duplicate { .. })),
            "{twice:?}"
        );
        let added = ["removed", "refused"].map(|name| server.remove_tool(name));
        done.send(added).unwrap();
    });
    let added = is_done.recv_timeout(PATIENCE).expect("nothing must hang");
    assert_eq!(added, [true, true]);
}
