//! Guards on the wire: what they see, when they are asked, and what their word is worth.

use crate::support::{
    client::{client_of, nothing_comes},
    held::{OnCancel, held},
    messages::{at, codes, refusal, result_text},
    tools::{echo, tool},
};
use interlock::{
    Context, NoArguments, Prompt, ResourceTemplate, Server, Tool, Workflow,
    model::JsonObject,
    workflow::{Scope, Settings, end, rust, to},
};
use serde_json::{Value, json};

fn refund() -> Server {
    let flow = Workflow::builder("refund")
        .state("new", |s| {
            s.initial().tool("lookup", |t| {
                t.success(to("found").set("order", "args.order"))
            })
        })
        .state("found", |s| {
            s.tool("refund", |t| {
                t.when("args.order == ctx.order && args.amount > 0")
                    .success(end("paid"))
            })
            .tool("peek", |t| {
                t.when("args.order == ctx.order").success("found")
            })
        })
        .build()
        .unwrap();
    let schema = json!({
        "type": "object",
        "properties": {"order": {"type": "string"}, "amount": {"type": "integer"}},
        "required": ["order"],
    });
    let Value::Object(schema) = schema else {
        unreachable!()
    };
    let typed = Tool::raw("refund", schema, |_, _: Context| async { "paid back" });
    Server::builder("s", "0")
        .tool(echo("lookup"))
        .tool(typed)
        .tool(echo("peek"))
        .workflow(flow)
        .build()
        .unwrap()
}

#[tokio::test]
async fn a_guard_sees_the_arguments_and_what_was_remembered() {
    let (mut client, _connection) = client_of(&refund()).await;
    client.call("lookup", json!({"order": "A-1"})).await;
    let (before, refused) = client
        .call("refund", json!({"order": "B-2", "amount": 5}))
        .await;
    assert_eq!(before, [] as [&str; 0]);
    assert_eq!(refused["isError"], true);
    assert_eq!(refusal(&refused), 1082);
    assert_eq!(refused["_meta"]["dev.interlock/refusal"]["state"], "found");
    let allowed = &refused["_meta"]["dev.interlock/refusal"]["allowed"];
    assert_eq!(*allowed, json!(["peek"]));
    assert_eq!(
        result_text(&refused),
        "Tool 'refund' is not allowed with these arguments: args.order == ctx.order && \
         args.amount > 0 is not true. Allowed now: peek."
    );
    let (_, paid) = client
        .call("refund", json!({"order": "A-1", "amount": 5}))
        .await;
    assert_eq!(result_text(&paid), "paid back", "{paid}");
    assert_eq!(at(&paid), "new");
}

/// The model is not to repeat what was refused, nor to read CEL.
#[tokio::test]
async fn a_guard_refuses_in_its_authors_words() {
    let flow = Workflow::builder("w").state("a", |s| {
        s.initial().tool("pay", |t| {
            t.when("has(args.yes) && args.yes")
                .otherwise("Approve {{args.n}} first.")
                .success(end("a"))
        })
    });
    let server = Server::builder("s", "0").tool(echo("pay"));
    let server = server.workflow(flow.build().unwrap()).build().unwrap();
    let (mut client, _connection) = client_of(&server).await;
    let (_, refused) = client.call("pay", json!({"n": 5})).await;
    assert_eq!(refusal(&refused), 1082);
    assert_eq!(
        result_text(&refused),
        "Tool 'pay' is not allowed with these arguments: Approve 5 first. No other tool is allowed \
         now."
    );
    let allowed = &refused["_meta"]["dev.interlock/refusal"]["allowed"];
    assert_eq!(*allowed, json!([]));
    assert_eq!(client.tools().await, ["pay"], "guards never hide");
}

#[tokio::test]
async fn a_guard_on_what_moves_nothing_is_asked_too() {
    let (mut client, _connection) = client_of(&refund()).await;
    client.call("lookup", json!({"order": "A-1"})).await;
    let (_, refused) = client.call("peek", json!({"order": "B-2"})).await;
    assert_eq!(refusal(&refused), 1082);
    let (_, seen) = client.call("peek", json!({"order": "A-1"})).await;
    assert_eq!(seen["structuredContent"], json!({"order": "A-1"}));
}

#[tokio::test]
async fn the_schema_speaks_before_the_guard_and_the_state_before_both() {
    let (mut client, _connection) = client_of(&refund()).await;
    let (_, refused) = client.call("refund", json!({"order": 7})).await;
    assert_eq!(refusal(&refused), 1081);
    client.call("lookup", json!({"order": "A-1"})).await;
    let (_, refused) = client.call("refund", json!({"order": 7})).await;
    assert_eq!(refusal(&refused), 1022);
    let (_, refused) = client.call("refund", json!({"order": "B-2"})).await;
    assert_eq!(refusal(&refused), 1082);
}

#[tokio::test]
async fn a_guard_without_an_answer_refuses_and_says_why() {
    let (mut client, _connection) = client_of(&refund()).await;
    client.call("lookup", json!({"order": "A-1"})).await;
    let (_, refused) = client.call("refund", json!({"order": "A-1"})).await;
    assert_eq!(refusal(&refused), 1082);
    assert!(
        result_text(&refused).contains("has no answer: there is no `args.amount`"),
        "{refused}"
    );
}

#[tokio::test]
async fn a_guard_written_in_rust_is_obeyed() {
    let flow = Workflow::builder("w")
        .state("a", |s| {
            s.initial().tool("go", |t| {
                t.when(rust("cheap", |facts| facts.args["n"].as_u64() <= Some(3)))
                    .success(end("b"))
            })
        })
        .build()
        .unwrap();
    let server = Server::builder("s", "0").tool(echo("go")).workflow(flow);
    let (mut client, _connection) = client_of(&server.build().unwrap()).await;
    let (_, refused) = client.call("go", json!({"n": 4})).await;
    assert_eq!(refusal(&refused), 1082);
    assert!(
        result_text(&refused).contains("cheap is not true"),
        "{refused}"
    );
    let (_, done) = client.call("go", json!({"n": 3})).await;
    assert_eq!(done["isError"], false);
}

#[tokio::test]
async fn prompts_and_resources_are_guarded_by_their_own_arguments() {
    let flow = Workflow::builder("w")
        .state("a", |s| {
            s.initial()
                .prompt("sorry", |p| p.when("args.who != 'nobody'").success("a"))
                .resource("order://{id}", |r| {
                    r.when("args.id.startsWith('A')")
                        .success(to("b").set("order", "args.id"))
                })
        })
        .state("b", |s| {
            s.tool("go", |t| {
                t.when("args.order == ctx.order").success(end("a"))
            })
        })
        .build()
        .unwrap();
    let server = Server::builder("s", "0")
        .tool(echo("go"))
        .prompt(Prompt::text("sorry", "Sorry, {{who}}.").required("who"))
        .template(ResourceTemplate::new(
            "order://{id}",
            |_: JsonObject, _: Context| async { "an order" },
        ))
        .workflow(flow)
        .build()
        .unwrap();
    let (mut client, _connection) = client_of(&server).await;
    let sorry = |who: &str| json!({"name": "sorry", "arguments": {"who": who}});
    let refused = client.request("prompts/get", sorry("nobody")).await;
    assert_eq!(codes(&refused), (-32602, 1082));
    assert_eq!(refused["error"]["data"]["refusal"]["state"], "a");
    let said = client.request("prompts/get", sorry("you")).await;
    assert!(said.get("result").is_some(), "{said}");
    let read = |uri: &str| json!({"uri": uri});
    let refused = client.request("resources/read", read("order://B2")).await;
    assert_eq!(codes(&refused), (-32602, 1082));
    let found = client.request("resources/read", read("order://A1")).await;
    assert_eq!(at(&found["result"]), "b", "{found}");
    let (_, refused) = client.call("go", json!({"order": "B2"})).await;
    assert_eq!(refusal(&refused), 1082);
    let (_, done) = client.call("go", json!({"order": "A1"})).await;
    assert_eq!(at(&done), "a");
}

/// The first call changes what the second one's guard looks at. Without the second look, in turn,
/// both would run: seen by letting `take_turn` ask `admit` only.
#[tokio::test]
async fn a_guard_is_asked_again_when_the_turn_has_come() {
    let settings = Settings {
        scope: Scope::Global,
        ..Settings::default()
    };
    let flow = Workflow::builder("w")
        .settings(settings)
        .state("a", |s| {
            s.initial()
                .tool("take", |t| {
                    t.when("!has(ctx.taken)")
                        .success(to("a").set("taken", "true"))
                })
                .tool("end", |t| t.success(end("a")))
        })
        .build()
        .unwrap();
    let (take, mut held) = held("take", OnCancel::GoesOn);
    let server = Server::builder("s", "0").tool(take).tool(tool("end"));
    let server = server.workflow(flow).build().unwrap();
    let (mut one, _one) = client_of(&server).await;
    let (mut two, _two) = client_of(&server).await;
    let first = one.begin("tools/call", json!({"name": "take"})).await;
    held.started().await;
    let second = two.begin("tools/call", json!({"name": "take"})).await;
    nothing_comes(&mut two).await;
    held.let_go(2);
    let (_, first) = one.until(first).await;
    assert_eq!(first["result"]["isError"], false, "{first}");
    let (_, second) = two.until(second).await;
    assert_eq!(refusal(&second["result"]), 1082, "{second}");
    assert!(held.is_quiet());
}

#[tokio::test]
async fn a_call_without_arguments_has_an_empty_object_of_them() {
    let flow = Workflow::builder("w")
        .state("a", |s| {
            s.initial().tool("go", |t| {
                t.when("!has(args.x) && principal == null")
                    .success(end("a"))
            })
        })
        .build()
        .unwrap();
    let go = Tool::new("go", |_: NoArguments, _: Context| async { "done" });
    let server = Server::builder("s", "0").tool(go).workflow(flow);
    let (mut client, _connection) = client_of(&server.build().unwrap()).await;
    let answer = client.request("tools/call", json!({"name": "go"})).await;
    assert_eq!(answer["result"]["isError"], false, "{answer}");
}
