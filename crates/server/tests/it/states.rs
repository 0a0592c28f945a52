//! What is listed is what is callable, in every state; and nobody sees anybody else's progress.

use crate::common::{codes, desk, is_one_message, nothing_comes, refusal, tool};
use interlock::{
    Context, Failure, Prompt, Resource, Server, Tool, Workflow,
    model::JsonObject,
    workflow::{Builder, End, Kind, Outcome, Pass, Position, end, to},
};
use interlock_testkit::{Client, connect};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A tool that fails if its arguments say so.
fn obedient(name: String) -> Tool {
    let schema = JsonObject::from_iter([("type".to_owned(), json!("object"))]);
    Tool::raw(name, schema, |arguments, _: Context| async move {
        if arguments.contains_key("fail") {
            return Err(Failure::new("as asked"));
        }
        Ok("done")
    })
}

fn serve(workflow: &Workflow, more: &[&str]) -> Server {
    let mut builder = Server::builder("s", "0");
    for name in workflow.artifacts(Kind::Tool).chain(more.iter().copied()) {
        builder = builder.tool(obedient(name.to_owned()));
    }
    for uri in workflow.artifacts(Kind::Resource) {
        builder = builder.resource(Resource::text(uri, "text"));
    }
    for name in workflow.artifacts(Kind::Prompt) {
        builder = builder.prompt(Prompt::text(name, "text"));
    }
    builder.workflow(workflow.clone()).build().unwrap()
}

fn workflows() -> Vec<Workflow> {
    let refund = Workflow::builder("refund")
        .state("new", |s| {
            s.initial().tool("lookup", |t| t.success("found"))
        })
        .state("found", |s| {
            s.tool("refund", |t| t.success("paid").error("review"))
                .resource("note://rules", |r| r.success("found"))
                .prompt("sorry", |p| p.success("review"))
        })
        .state("review", |s| {
            s.tool("refund", |t| t.success("paid").error("review"))
                .tool("lookup", |t| t.success("found"))
        })
        .state("paid", |s| s.terminal())
        .always_tool("search")
        .always_resource("note://help");
    let ladder = |n: usize| {
        (0..n).fold(Workflow::builder("ladder"), |flow: Builder, at| {
            flow.state(format!("s{at}"), |s| {
                let s = if at == 0 { s.initial() } else { s };
                let up = if at + 1 == n {
                    end("s0")
                } else {
                    to(format!("s{}", at + 1))
                };
                let s = s.tool(format!("up{at}"), |t| t.success(up).error("s0"));
                let s = s.tool("both", |t| t.success(format!("s{at}")));
                if at % 2 == 0 {
                    s.prompt(format!("p{at}"), |p| p.success("s0"))
                } else {
                    s.resource(format!("r://{at}"), |r| r.success("s0"))
                }
            })
        })
    };
    let free = Workflow::builder("free")
        .state("a", |s| s.initial().tool("go", |t| t.success("b")))
        .state("b", |s| s.tool("back", |t| t.success(end("a"))))
        .always_everything();
    [refund, ladder(1), ladder(6), free]
        .into_iter()
        .map(|flow| flow.build().unwrap())
        .collect()
}

/// The calls, as kind, name and outcome, that lead from the beginning to each position.
fn ways(workflow: &Workflow) -> BTreeMap<String, Vec<(Kind, String, Outcome)>> {
    let mut found: Vec<(Position, Vec<_>)> = vec![(workflow.initial(), Vec::new())];
    let mut at = 0;
    while at < found.len() {
        let (position, way) = found[at].clone();
        for binding in workflow.bindings(position.state) {
            for outcome in [Outcome::Success, Outcome::Error] {
                let artifact = binding.artifact();
                if outcome == Outcome::Error && artifact.kind != Kind::Tool {
                    continue;
                }
                let after = workflow
                    .step(&position.into(), binding, &End::from(outcome))
                    .after;
                if found.iter().all(|(known, _)| *known != after) {
                    let mut way = way.clone();
                    way.push((artifact.kind, artifact.name.clone(), outcome));
                    found.push((after, way));
                }
            }
        }
        at += 1;
    }
    found
        .into_iter()
        .map(|(at, way)| (workflow.state_name(at.state).to_owned(), way))
        .collect()
}

async fn ask(client: &mut Client, kind: Kind, name: &str, outcome: Outcome) -> Value {
    let (method, params) = match kind {
        Kind::Tool => {
            let arguments = match outcome {
                Outcome::Error => json!({"fail": true}),
                Outcome::Success | Outcome::Timeout | Outcome::Cancelled | Outcome::Unknown => {
                    json!({})
                }
            };
            ("tools/call", json!({"name": name, "arguments": arguments}))
        }
        Kind::Resource => ("resources/read", json!({"uri": name})),
        Kind::Prompt => ("prompts/get", json!({"name": name})),
    };
    let answer = client.request(method, params).await;
    is_one_message(&answer);
    answer
}

/// The code with which it was refused, if it was.
fn refused(kind: Kind, answer: &Value) -> Option<i64> {
    match kind {
        Kind::Tool => refusal(&answer["result"]).as_i64(),
        Kind::Resource | Kind::Prompt => answer.get("error").map(|_| codes(answer).1),
    }
}

async fn listed(client: &mut Client, kind: Kind) -> Vec<String> {
    let (method, list, name) = match kind {
        Kind::Tool => ("tools/list", "tools", "name"),
        Kind::Resource => ("resources/list", "resources", "uri"),
        Kind::Prompt => ("prompts/list", "prompts", "name"),
    };
    let answer = client.request(method, json!({})).await;
    let Some(all) = answer["result"][list].as_array() else {
        assert_eq!(answer["error"]["code"], -32601, "{answer}");
        return Vec::new();
    };
    all.iter()
        .map(|one| one[name].as_str().unwrap().to_owned())
        .collect()
}

async fn at(
    server: &Server,
    way: &[(Kind, String, Outcome)],
) -> (Client, interlock_testkit::Connection) {
    let (mut client, connection) = connect(server);
    client.initialize().await;
    for (kind, name, outcome) in way {
        let answer = ask(&mut client, *kind, name, *outcome).await;
        assert_eq!(refused(*kind, &answer), None, "{answer}");
    }
    (client, connection)
}

#[tokio::test]
async fn what_is_listed_is_callable_and_what_is_not_is_not() {
    for workflow in workflows() {
        let more = ["loose", "nowhere"];
        let server = serve(&workflow, &more);
        for (state, way) in ways(&workflow) {
            for kind in Kind::ALL {
                let everything: Vec<_> = workflow
                    .artifacts(kind)
                    .chain(more.into_iter().filter(|_| kind == Kind::Tool))
                    .map(str::to_owned)
                    .collect();
                let (mut client, _connection) = at(&server, &way).await;
                let listed = listed(&mut client, kind).await;
                let mut once = listed.clone();
                once.sort_unstable();
                once.dedup();
                assert_eq!(once.len(), listed.len(), "{listed:?}");
                assert!(
                    listed.iter().all(|name| everything.contains(name)),
                    "{listed:?}"
                );
                for name in &everything {
                    let (mut client, _connection) = at(&server, &way).await;
                    let answer = ask(&mut client, kind, name, Outcome::Success).await;
                    let code = refused(kind, &answer);
                    let expected = if listed.contains(name) {
                        None
                    } else {
                        Some(1081)
                    };
                    assert_eq!(
                        code,
                        expected,
                        "{} in {state}: {name}: {answer}",
                        workflow.name()
                    );
                }
            }
        }
    }
}

#[tokio::test]
async fn every_refusal_says_where_it_stands_what_is_allowed_and_a_way_that_works() {
    for workflow in workflows() {
        let server = serve(&workflow, &[]);
        for (state, way) in ways(&workflow) {
            for name in workflow.artifacts(Kind::Tool) {
                let (mut client, _connection) = at(&server, &way).await;
                let answer = ask(&mut client, Kind::Tool, name, Outcome::Success).await;
                if refused(Kind::Tool, &answer).is_none() {
                    continue;
                }
                let told = &answer["result"]["_meta"]["dev.interlock/refusal"];
                assert_eq!(told["name"], "not_in_state");
                assert_eq!(told["state"], state);
                let mut allowed: Vec<_> = told["allowed"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|name| name.as_str().unwrap().to_owned())
                    .collect();
                let mut listed = listed(&mut client, Kind::Tool).await;
                let text = answer["result"]["content"][0]["text"].as_str().unwrap();
                assert!(allowed.iter().all(|name| text.contains(name)), "{text}");
                assert!(text.contains(&format!("'{state}'")), "{text}");
                allowed.sort_unstable();
                listed.sort_unstable();
                assert_eq!(allowed, listed);
                // Following the way leads to where it can be called.
                for hop in told["path"].as_array().unwrap() {
                    let kind = serde_json::from_value(hop["kind"].clone()).unwrap();
                    let outcome = serde_json::from_value(hop["outcome"].clone()).unwrap();
                    let hop = ask(&mut client, kind, hop["name"].as_str().unwrap(), outcome).await;
                    assert_eq!(refused(kind, &hop), None, "{hop}");
                }
                let answer = ask(&mut client, Kind::Tool, name, Outcome::Success).await;
                assert_eq!(refused(Kind::Tool, &answer), None, "{answer}");
            }
        }
    }
}

/// Everything a client can see without moving anything.
async fn view(client: &mut Client, workflow: &Workflow) -> Value {
    let mut all = Vec::new();
    for kind in Kind::ALL {
        all.push(json!(listed(client, kind).await));
    }
    let (_, refused) = client.call("nowhere", json!({})).await;
    let mut told = refused["_meta"]["dev.interlock/refusal"].clone();
    told["text"] = refused["content"][0]["text"].clone();
    all.push(told);
    for name in workflow.artifacts(Kind::Tool).map(str::to_owned) {
        // Only refusals move nothing.
        if !all[0].as_array().unwrap().contains(&json!(name)) {
            let (_, refused) = client.call(&name, json!({})).await;
            all.push(refused["content"].clone());
        }
    }
    json!(all)
}

#[tokio::test]
async fn a_reset_instance_equals_a_fresh_one() {
    for workflow in workflows() {
        if workflow.name() == "free" {
            continue;
        }
        let server = serve(&workflow, &["nowhere"]);
        let (mut fresh, _fresh) = at(&server, &[]).await;
        let expected = view(&mut fresh, &workflow).await;
        for way in ways(&workflow).into_values() {
            let (mut client, _connection) = at(&server, &way).await;
            // On to an end, always by the first tool that leads on.
            let mut position = workflow.initial();
            for (kind, name, outcome) in &way {
                let Ok(Pass::Bound(binding)) = workflow.admit(position, *kind, name) else {
                    panic!("{name}");
                };
                position = workflow
                    .step(&position.into(), binding, &End::from(*outcome))
                    .after;
            }
            for _ in 0..20 {
                let binding = workflow
                    .bindings(position.state)
                    .iter()
                    .find(|binding| {
                        let step =
                            workflow.step(&position.into(), binding, &End::from(Outcome::Success));
                        binding.artifact().kind == Kind::Tool
                            && (step.terminal || step.after != position)
                    })
                    .unwrap();
                let step = workflow.step(&position.into(), binding, &End::from(Outcome::Success));
                let name = binding.artifact().name.clone();
                let answer = ask(&mut client, Kind::Tool, &name, Outcome::Success).await;
                assert_eq!(refused(Kind::Tool, &answer), None, "{answer}");
                position = step.after;
                if step.terminal {
                    break;
                }
            }
            assert_eq!(position, workflow.initial());
            assert_eq!(view(&mut client, &workflow).await, expected);
        }
    }
}

#[tokio::test]
async fn reading_changes_nothing() {
    let server = desk(tool("work")).build().unwrap();
    let (mut client, _connection) = connect(&server);
    client.initialize().await;
    let before = view(&mut client, &crate::common::desk_flow(Default::default())).await;
    for _ in 0..3 {
        for (method, params) in [
            ("tools/list", json!({})),
            ("resources/list", json!({})),
            ("resources/templates/list", json!({})),
            ("prompts/list", json!({})),
            ("resources/read", json!({"uri": "note://rules"})),
            ("resources/read", json!({"uri": "note://nope"})),
            (
                "prompts/get",
                json!({"name": "sorry", "arguments": {"who": "me"}}),
            ),
            ("prompts/get", json!({"name": "sorry"})),
            ("tools/call", json!({"name": "peek"})),
            ("tools/call", json!({"name": "close"})),
            ("tools/call", json!({"name": "search"})),
            ("tools/call", json!({"name": 5})),
            ("nobody/knows", json!({})),
            ("initialize", json!({})),
        ] {
            let (before, _) = client.exchange(method, params).await;
            assert_eq!(before, [] as [Value; 0]);
        }
    }
    nothing_comes(&mut client).await;
    let after = view(&mut client, &crate::common::desk_flow(Default::default())).await;
    assert_eq!(before, after);
}

#[tokio::test]
async fn two_sessions_never_see_each_others_progress() {
    let server = desk(tool("work")).build().unwrap();
    let (mut one, _one) = connect(&server);
    let (mut two, _two) = connect(&server);
    one.initialize().await;
    two.initialize().await;
    let (_, result) = one.call("work", json!({})).await;
    let instance = |result: &Value| result["_meta"]["dev.interlock/workflow"]["instance"].clone();
    let first = instance(&result);
    nothing_comes(&mut two).await;
    assert_eq!(two.tools().await, ["work", "peek", "search"]);
    assert_eq!(one.tools().await, ["close", "search"]);
    let (_, result) = two.call("work", json!({})).await;
    assert_ne!(instance(&result), first);
    assert!(first.as_str().unwrap().len() >= 32, "{first}");
    one.call("close", json!({})).await;
    nothing_comes(&mut two).await;
    assert_eq!(two.tools().await, ["close", "search"]);
}

#[tokio::test]
async fn a_handler_learns_where_it_is_called() {
    let work = Tool::new(
        "work",
        |_: interlock::NoArguments, context: Context| async move {
            format!(
                "{} {}",
                context.instance().unwrap(),
                context.state().unwrap()
            )
        },
    );
    let (mut client, _connection) = connect(&desk(work).build().unwrap());
    client.initialize().await;
    let (_, result) = client.call("work", json!({})).await;
    let instance = result["_meta"]["dev.interlock/workflow"]["instance"]
        .as_str()
        .unwrap();
    assert_eq!(result["content"][0]["text"], format!("{instance} open"));
}
