//! What an argument could be: `completion/complete`.

use crate::support::{
    client::{client_of_built, nothing_comes},
    desk::state,
    messages::{codes, hello, modern},
    tools::tool,
};
use interlock::{
    Builder, Completion, Context, Failure, Partial, Prompt, Resource, ResourceTemplate, Server,
    Workflow,
    model::JsonObject,
    store::MemoryStore,
    workflow::{Scope, Settings, end},
};
use interlock_testkit::{Client, ManualClock, connect};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

const LANGUAGES: [&str; 3] = ["python", "pytorch", "rust"];

fn review() -> Prompt {
    Prompt::text("review", "{{language}} {{framework}} {{free}}")
        .required("language")
        .optional("framework")
        .optional("free")
        .complete("language", |partial: Partial, _: Context| async move {
            let mut known = LANGUAGES.to_vec();
            known.retain(|language| language.starts_with(&partial.value));
            known
        })
        .complete("framework", |partial: Partial, _: Context| async move {
            let language = partial.arguments.get("language");
            Completion::new([format!("{language:?}/{}", partial.value)]).total(7)
        })
}

fn orders() -> ResourceTemplate {
    let read = |_: JsonObject, _: Context| async { "" };
    ResourceTemplate::raw("order://{region}/{id}", read)
        .complete("region", |_: Partial, _: Context| async {
            (0..250).map(|n| n.to_string()).collect::<Vec<_>>()
        })
}

fn server() -> Builder {
    Server::builder("s", "0")
        .prompt(review())
        .prompt(Prompt::text("plain", "please").optional("x"))
        .template(orders())
        .resource(Resource::text("order://eu/1", "one"))
        .resource(Resource::text("note://rules", "be kind"))
}

fn of_prompt(name: &str, argument: &str, value: &str) -> Value {
    let reference = json!({"type": "ref/prompt", "name": name});
    json!({"ref": reference, "argument": {"name": argument, "value": value}})
}

fn of_resource(uri: &str, argument: &str) -> Value {
    let reference = json!({"type": "ref/resource", "uri": uri});
    json!({"ref": reference, "argument": {"name": argument, "value": ""}})
}

async fn complete(client: &mut Client, params: Value) -> Value {
    client.request("completion/complete", params).await
}

#[tokio::test]
async fn the_arguments_of_a_prompt_are_completed() {
    let (mut client, _connection) = client_of_built(server()).await;
    for (value, values) in [
        ("", json!(LANGUAGES)),
        ("py", json!(["python", "pytorch"])),
        ("x", json!([])),
    ] {
        let answer = complete(&mut client, of_prompt("review", "language", value)).await;
        let total = values.as_array().unwrap().len();
        assert_eq!(
            answer["result"],
            json!({"completion": {"values": values, "total": total, "hasMore": false}})
        );
    }
    let mut params = of_prompt("review", "framework", "fla");
    params["context"] = json!({"arguments": {"language": "python"}});
    let answer = complete(&mut client, params).await;
    assert_eq!(
        answer["result"]["completion"],
        json!({"values": [r#"Some("python")/fla"#], "total": 7, "hasMore": true})
    );
}

#[tokio::test]
async fn the_variables_of_a_template_are_completed_a_hundred_at_a_time() {
    let (mut client, _connection) = client_of_built(server()).await;
    for uri in ["order://{region}/{id}", "order://us/5"] {
        let answer = complete(&mut client, of_resource(uri, "region")).await;
        let completion = &answer["result"]["completion"];
        let values = completion["values"].as_array().unwrap();
        assert_eq!(values.len(), 100, "{answer}");
        assert_eq!(values[99], "99");
        assert_eq!(completion["total"], 250);
        assert_eq!(completion["hasMore"], true);
    }
}

#[tokio::test]
async fn a_client_is_told_a_hundred_values_and_what_is_known_of_the_rest() {
    let some = |count: usize| Completion::new((0..count).map(|n| n.to_string()));
    let two = || some(2);
    let cases = [
        (some(0), (0, json!(0), false)),
        (some(1), (1, json!(1), false)),
        (some(100), (100, json!(100), false)),
        (some(101), (100, json!(101), true)),
        (some(5_000), (100, json!(5_000), true)),
        (two().total(2), (2, json!(2), false)),
        (two().total(7), (2, json!(7), true)),
        (two().more(), (2, json!(null), true)),
        (two().total(7).more(), (2, json!(7), true)),
        // It cannot have given more than there are.
        (two().total(1), (2, json!(2), false)),
        (two().total(usize::MAX), (2, json!(u32::MAX), true)),
    ];
    let given = cases.clone().map(|(completion, _)| completion);
    let complete_one = move |partial: Partial, _: Context| {
        let number: usize = partial.value.parse().unwrap();
        std::future::ready(given[number].clone())
    };
    let prompt = Prompt::text("p", "")
        .required("x")
        .complete("x", complete_one);
    let (mut client, _connection) = client_of_built(Server::builder("s", "0").prompt(prompt)).await;
    for (number, (_, expected)) in cases.iter().enumerate() {
        let asks = of_prompt("p", "x", &number.to_string());
        let answer = complete(&mut client, asks).await;
        let told = &answer["result"]["completion"];
        let values = told["values"].as_array().unwrap().len();
        let told = (values, told["total"].clone(), told["hasMore"] == true);
        assert_eq!(told, *expected, "{number}");
    }
}

#[tokio::test]
async fn an_argument_that_nothing_completes_could_be_anything() {
    let (mut client, _connection) = client_of_built(server()).await;
    for params in [
        of_prompt("review", "free", "x"),
        of_prompt("plain", "x", ""),
        of_resource("order://{region}/{id}", "id"),
    ] {
        let answer = complete(&mut client, params).await;
        let nothing = json!({"values": [], "total": 0, "hasMore": false});
        assert_eq!(answer["result"], json!({"completion": nothing}));
        let meta = modern(of_prompt("review", "free", "x"));
        let answer = complete(&mut client, meta).await;
        assert_eq!(answer["result"]["resultType"], "complete");
        assert_eq!(answer["result"]["completion"], nothing);
    }
}

#[tokio::test]
async fn what_is_not_there_cannot_be_completed() {
    let (mut client, _connection) = client_of_built(server()).await;
    let long = "x".repeat(100_000);
    for (params, code) in [
        (of_prompt("nope", "language", ""), 1050),
        (of_prompt(&long, "language", ""), 1050),
        (of_prompt("review", "nope", ""), 1021),
        (of_prompt("review", &long, ""), 1021),
        (of_resource("nope://{id}", "id"), 1046),
        (of_resource("", "id"), 1046),
        (of_resource(&long, "id"), 1046),
        (of_resource("order://{region}/{id}", "nope"), 1021),
        // A resource that is no template's has nothing to fill in.
        (of_resource("note://rules", "region"), 1021),
        (of_resource("order://eu/1", "region"), 1021),
    ] {
        let answer = complete(&mut client, params).await;
        assert_eq!(codes(&answer), (-32602, code), "{answer}");
        assert!(answer.to_string().len() < 1_000);
    }
}

#[tokio::test]
async fn a_malformed_request_is_refused() {
    let (mut client, _connection) = client_of_built(server()).await;
    let good = of_prompt("review", "language", "");
    let with = |member: &str, value: Value| {
        let mut params = good.clone();
        params[member] = value;
        params
    };
    for params in [
        json!(null),
        json!([]),
        json!({}),
        json!({"ref": good["ref"]}),
        json!({"argument": good["argument"]}),
        with("ref", json!(["ref/prompt", "review"])),
        with("ref", json!("review")),
        with("ref", json!({"name": "review"})),
        with("ref", json!({"type": "ref/prompt"})),
        with("ref", json!({"type": "ref/tool", "name": "review"})),
        with("ref", json!({"type": "ref/resource", "name": "review"})),
        with("argument", json!(["language", ""])),
        with("argument", json!({"name": "language"})),
        with("argument", json!({"name": "language", "value": 5})),
        with("context", json!([])),
        with("context", json!({"arguments": []})),
        with("context", json!({"arguments": {"language": 5}})),
        with("_meta", json!(5)),
    ] {
        let answer = complete(&mut client, params.clone()).await;
        assert_eq!(codes(&answer), (-32602, 1021), "{params}: {answer}");
    }
    for params in [
        with("context", json!(null)),
        with("context", json!({})),
        with("context", json!({"arguments": null})),
        with(
            "ref",
            json!({"type": "ref/prompt", "name": "review", "title": "Review"}),
        ),
    ] {
        let answer = complete(&mut client, params.clone()).await;
        assert!(answer["result"].is_object(), "{params}: {answer}");
    }
}

#[tokio::test]
async fn completions_are_advertised_where_something_completes() {
    let with = || server().build().unwrap();
    let without = || {
        let builder = Server::builder("s", "0");
        builder
            .prompt(Prompt::text("p", "").optional("x"))
            .build()
            .unwrap()
    };
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let (mut client, _connection) = connect(&with());
        let answer = client.request("initialize", hello(version)).await;
        assert_eq!(answer["result"]["capabilities"]["completions"], json!({}));
        let answer = complete(&mut client, of_prompt("review", "language", "r")).await;
        assert_eq!(answer["result"]["completion"]["values"], json!(["rust"]));
        let (mut client, _connection) = connect(&without());
        let answer = client.request("initialize", hello(version)).await;
        assert_eq!(answer["result"]["capabilities"].get("completions"), None);
        let answer = complete(&mut client, of_prompt("p", "x", "")).await;
        assert_eq!(answer["error"]["code"], -32601, "{answer}");
    }
    let (mut client, _connection) = connect(&with());
    let answer = client.request("server/discover", modern(json!({}))).await;
    assert_eq!(answer["result"]["capabilities"]["completions"], json!({}));
    let params = modern(of_prompt("review", "language", "r"));
    let answer = complete(&mut client, params).await;
    assert_eq!(answer["result"]["resultType"], "complete");
    assert_eq!(answer["result"]["completion"]["values"], json!(["rust"]));
}

#[test]
fn completing_what_is_not_there_is_found_when_the_server_is_built() {
    let complete = |_: Partial, _: Context| async { Vec::<String>::new() };
    let builder = Server::builder("s", "0")
        .prompt(Prompt::text("p", "").optional("x").complete("y", complete))
        .template(orders().complete("z", complete));
    let errors = builder.build().unwrap_err().to_string();
    assert!(
        errors.contains("prompt `p` has no argument `y`"),
        "{errors}"
    );
    assert!(
        errors.contains("resource `order://{region}/{id}` has no argument `z`"),
        "{errors}"
    );
}

/// Its completer tells where it runs, and so whether it runs at all.
#[tokio::test]
async fn only_what_can_be_used_now_is_completed_and_nothing_moves() {
    let place = |_: Partial, context: Context| async move {
        let told = [context.state(), context.instance().map(|_| "instance")];
        told.map(|said| said.unwrap_or("nothing").to_owned())
            .to_vec()
    };
    let built = |scope| {
        let settings = Settings {
            scope,
            ..Settings::default()
        };
        let flow = Workflow::builder("w")
            .settings(settings)
            .state("a", |s| s.initial().tool("go", |t| t.success("b")))
            .state("b", |s| {
                s.prompt("review", |p| p.success(end("a")))
                    .resource("order://{region}/{id}", |r| r.success(end("a")))
            })
            .build()
            .unwrap();
        Server::builder("s", "0")
            .prompt(review().complete("free", place))
            .template(orders())
            .tool(tool("go"))
            .tool(tool("nowhere"))
            .workflow(flow)
    };
    let wanted = || {
        [
            of_prompt("review", "free", ""),
            of_resource("order://{region}/{id}", "region"),
            of_resource("order://eu/7", "region"),
        ]
    };
    let nothing = json!({"values": [], "total": 0, "hasMore": false});
    for scope in [Scope::Session, Scope::Global] {
        let store = MemoryStore::default();
        let builder = built(scope).store(Arc::new(store.clone()));
        let (mut client, _connection) = client_of_built(builder).await;
        for params in wanted() {
            let answer = complete(&mut client, params.clone()).await;
            assert_eq!(answer["result"]["completion"], nothing, "{params}");
            let answer = complete(&mut client, modern(params.clone())).await;
            assert_eq!(answer["result"]["completion"], nothing, "{params}");
        }
        assert_eq!(state(&mut client).await, "a");
        client.call("go", json!({})).await;
        for params in wanted() {
            let (before, answer) = client.exchange("completion/complete", params).await;
            assert_eq!(before, [] as [Value; 0]);
            assert_ne!(answer["result"]["completion"], nothing, "{answer}");
            assert_eq!(answer["result"].get("_meta"), None, "{answer}");
            assert_eq!(state(&mut client).await, "b");
        }
        let answer = complete(&mut client, of_prompt("review", "free", "")).await;
        let values = &answer["result"]["completion"]["values"];
        assert_eq!(*values, json!(["b", "instance"]));
        // Without a session only an instance that all share can have come so far.
        let params = modern(of_prompt("review", "free", ""));
        let answer = complete(&mut client, params).await;
        let values = &answer["result"]["completion"]["values"];
        match scope {
            Scope::Global => assert_eq!(*values, json!(["b", "instance"])),
            Scope::Session | Scope::Principal | Scope::Handle => assert_eq!(*values, json!([])),
        }
    }
}

#[tokio::test]
async fn a_completion_can_fail_panic_hang_and_be_taken_back() {
    let (on_start, mut started) = tokio::sync::mpsc::unbounded_channel();
    let prompt = Prompt::text("p", "")
        .optional("fails")
        .optional("panics")
        .optional("hangs")
        .complete("fails", |_: Partial, _: Context| async {
            Err::<Vec<String>, _>(Failure::new("no idea"))
        })
        .complete("panics", |_: Partial, _: Context| async {
            if true {
                panic!("on purpose");
            }
            Vec::<String>::new()
        })
        .complete("hangs", move |_: Partial, _: Context| {
            on_start.send(()).unwrap();
            std::future::pending::<Vec<String>>()
        });
    let clock = Arc::new(ManualClock::new());
    let builder = Server::builder("s", "0")
        .prompt(prompt)
        .clock(clock.clone());
    let (mut client, _connection) = client_of_built(builder).await;
    let answer = complete(&mut client, of_prompt("p", "fails", "")).await;
    assert_eq!(
        answer["error"],
        json!({"code": -32603, "message": "no idea"})
    );
    let answer = complete(&mut client, of_prompt("p", "panics", "")).await;
    let panicked = json!({"code": -32603, "message": "the handler panicked"});
    assert_eq!(answer["error"], panicked);

    let params = of_prompt("p", "hangs", "");
    let id = client.begin("completion/complete", params.clone()).await;
    started.recv().await.unwrap();
    clock.advance(Duration::from_secs(30));
    let (_, answer) = client.until(id).await;
    assert_eq!(codes(&answer), (-32603, 1069), "{answer}");

    let id = client.begin("completion/complete", params).await;
    started.recv().await.unwrap();
    let taken_back = json!({"requestId": id});
    client.notify("notifications/cancelled", taken_back).await;
    nothing_comes(&mut client).await;
}
