//! What is listed is what is callable, in every state; and nobody sees anybody else's progress.

use crate::support::{
    client::nothing_comes,
    desk::{desk, desk_flow},
    handles,
    messages::{codes, is_one_message, modern, refusal},
    tools::tool,
};
use interlock::{
    Context, Failure, Prompt, Resource, Server, Tool, Workflow,
    model::JsonObject,
    workflow::{Builder, End, Finish, Kind, Outcome, Pass, Position, Scope, Settings, end, to},
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

fn refund() -> Builder {
    Workflow::builder("refund")
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
        .always_resource("note://help")
}

fn workflows() -> Vec<Workflow> {
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
    [refund(), ladder(1), ladder(6), free]
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

/// Where these calls lead from the beginning.
fn position_after(workflow: &Workflow, way: &[(Kind, String, Outcome)]) -> Position {
    way.iter()
        .fold(workflow.initial(), |position, (kind, name, outcome)| {
            let Ok(Pass::Bound(binding)) = workflow.admit(position, *kind, name) else {
                panic!("{name}");
            };
            let end = End::from(*outcome);
            workflow.step(&position.into(), binding, &end).after
        })
}

/// The method and the parameters by which something is used.
fn request(kind: Kind, name: &str, outcome: Outcome) -> (&'static str, Value) {
    match kind {
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
    }
}

async fn ask(client: &mut Client, kind: Kind, name: &str, outcome: Outcome) -> Value {
    let (method, params) = request(kind, name, outcome);
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

/// What a refusal teaches, and its text.
#[track_caller]
fn taught(kind: Kind, answer: &Value) -> (Value, &str) {
    let (told, text) = match kind {
        Kind::Tool => {
            let result = &answer["result"];
            assert_eq!(result["isError"], true, "{answer}");
            let told = &result["_meta"]["dev.interlock/refusal"];
            (told, &result["content"][0]["text"])
        }
        Kind::Resource | Kind::Prompt => {
            let error = &answer["error"];
            assert_eq!(error["code"], -32602, "{answer}");
            (&error["data"]["refusal"], &error["message"])
        }
    };
    let parts = ["code", "name", "state", "allowed", "path"];
    let parts = parts.map(|part| (part.to_owned(), told[part].clone()));
    (
        Value::Object(parts.into_iter().collect()),
        text.as_str().unwrap(),
    )
}

/// What a refusal in this state has to teach.
fn lesson(state: &str, allowed: &Value, path: &Value) -> Value {
    json!({"code": 1081, "name": "not_in_state", "state": state, "allowed": allowed, "path": path})
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
async fn every_refusal_says_where_it_stands_what_is_allowed_and_the_shortest_way_and_it_works() {
    for workflow in workflows() {
        let server = serve(&workflow, &[]);
        let mut refusals = 0;
        for (state, way) in ways(&workflow) {
            let position = position_after(&workflow, &way);
            let all = Kind::ALL.into_iter();
            for (kind, name) in
                all.flat_map(|kind| workflow.artifacts(kind).map(move |name| (kind, name)))
            {
                let (mut client, _connection) = at(&server, &way).await;
                let answer = ask(&mut client, kind, name, Outcome::Success).await;
                if refused(kind, &answer).is_none() {
                    continue;
                }
                refusals += 1;
                let (mut told, text) = taught(kind, &answer);
                let allowed = told["allowed"].as_array_mut().unwrap();
                for name in &*allowed {
                    assert!(text.contains(name.as_str().unwrap()), "{text}");
                }
                assert!(text.contains(&format!("'{state}'")), "{text}");
                allowed.sort_unstable_by_key(ToString::to_string);
                let mut listed = listed(&mut client, kind).await;
                listed.sort_unstable();
                let hops = workflow.path_to(position, kind, name).unwrap();
                let hops = hops.iter().map(|hop| {
                    let (artifact, outcome) = (hop.artifact, hop.outcome);
                    json!({"kind": artifact.kind, "name": artifact.name, "outcome": outcome})
                });
                let path = hops.collect();
                assert_eq!(told, lesson(&state, &json!(listed), &path), "{answer}");
                // Following the way leads to where it can be called.
                for hop in path.as_array().unwrap() {
                    let kind = serde_json::from_value(hop["kind"].clone()).unwrap();
                    let outcome = serde_json::from_value(hop["outcome"].clone()).unwrap();
                    let hop = ask(&mut client, kind, hop["name"].as_str().unwrap(), outcome).await;
                    assert_eq!(refused(kind, &hop), None, "{hop}");
                }
                let answer = ask(&mut client, kind, name, Outcome::Success).await;
                assert_eq!(refused(kind, &answer), None, "{answer}");
            }
        }
        let is_one_state = workflow.states().len() == 1;
        assert_eq!(refusals == 0, is_one_state, "{}", workflow.name());
    }
}

/// A call that succeeds, in a way that a refusal tells.
fn hop(kind: Kind, name: &str) -> Value {
    json!({"kind": kind, "name": name, "outcome": "success"})
}

#[tokio::test]
async fn a_refused_tool_resource_or_prompt_teaches_the_same_in_both_eras() {
    let speaks: fn(Value) -> Value = |params| params;
    for (scope, speaks) in [
        (Scope::Session, speaks),
        (Scope::Global, speaks),
        (Scope::Global, modern),
    ] {
        let settings = Settings {
            scope,
            // Else a refund would lead back to the beginning.
            finish: Finish::Stay,
            ..Settings::default()
        };
        let workflow = refund().settings(settings).build().unwrap();
        let (mut client, _connection) = connect(&serve(&workflow, &["nowhere"]));
        client.initialize().await;
        let lookup = json!([hop(Kind::Tool, "lookup")]);
        let (tools, notes) = (json!(["lookup", "search"]), json!(["note://help"]));
        let by_sorry = json!([hop(Kind::Prompt, "sorry")]);
        // What is refused in each state, and the call that leads on to the next one.
        for (state, refused_here, (on, outcome)) in [
            (
                "new",
                vec![
                    (Kind::Tool, "refund", &tools, &lookup),
                    (Kind::Tool, "nowhere", &tools, &Value::Null),
                    (Kind::Resource, "note://rules", &notes, &lookup),
                    (Kind::Prompt, "sorry", &json!([]), &lookup),
                ],
                ("lookup", Outcome::Success),
            ),
            (
                "found",
                vec![(
                    Kind::Tool,
                    "lookup",
                    &json!(["refund", "search"]),
                    &by_sorry,
                )],
                ("refund", Outcome::Error),
            ),
            (
                "review",
                vec![
                    (Kind::Resource, "note://rules", &notes, &lookup),
                    (Kind::Prompt, "sorry", &json!([]), &lookup),
                ],
                ("lookup", Outcome::Success),
            ),
        ] {
            for (kind, name, allowed, path) in refused_here {
                let (method, params) = request(kind, name, Outcome::Success);
                let answer = client.request(method, speaks(params)).await;
                let expected = lesson(state, allowed, path);
                assert_eq!(taught(kind, &answer).0, expected, "{name}: {answer}");
            }
            let (method, params) = request(Kind::Tool, on, outcome);
            let moved = client.request(method, speaks(params)).await;
            assert_eq!(refused(Kind::Tool, &moved), None, "{moved}");
        }
    }
}

/// Behind a handle an end is an end, so no way leads back to the beginning.
#[tokio::test]
async fn a_refusal_behind_a_handle_teaches_what_holds_for_its_instance() {
    let speaks: fn(Value) -> Value = |params| params;
    for (settings, speaks) in [
        (handles::by_handle(), speaks),
        (handles::by_handle(), modern),
        (Settings::default(), modern),
    ] {
        let scope = settings.scope;
        let server = handles::builder(settings, handles::work());
        let (mut client, _connection) = connect(&server.build().unwrap());
        client.initialize().await;
        let params = speaks(json!({"name": "workflow_start", "arguments": {}}));
        let started = client.request("tools/call", params).await;
        let id = started["result"]["structuredContent"]["workflow"].clone();
        let call = |name: &str| {
            let arguments = match name {
                "work" => json!({"workflow": id, "hours": 1}),
                _ => json!({"workflow": id}),
            };
            speaks(json!({"name": name, "arguments": arguments}))
        };
        let first = (
            json!(["work", "peek", "search"]),
            json!([hop(Kind::Tool, "work")]),
        );
        let second = (json!(["close", "search"]), Value::Null);
        for (state, name, (allowed, path), on) in [
            ("open", "close", &first, "work"),
            ("done", "work", &second, "close"),
        ] {
            let answer = client.request("tools/call", call(name)).await;
            let expected = lesson(state, allowed, path);
            assert_eq!(
                taught(Kind::Tool, &answer).0,
                expected,
                "{scope:?}: {answer}"
            );
            let moved = client.request("tools/call", call(on)).await;
            assert_eq!(moved["result"]["isError"], false, "{moved}");
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
            let mut position = position_after(&workflow, &way);
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
    let before = view(&mut client, &desk_flow(Default::default())).await;
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
    let after = view(&mut client, &desk_flow(Default::default())).await;
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
