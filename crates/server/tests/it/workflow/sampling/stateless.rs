//! States that ask the client's model, by 2026-07-28: the client is told to come back, and what
//! was done is not done again.

use crate::support::{
    desk::global,
    held::{OnCancel, held},
    messages::{CAPABILITIES, at, modern, refusal, text},
    sampling::{
        ID, builder, entries, failed_because, flow, is_told, sample, sampled, state, state_is,
    },
    tools::{echo, tool},
};
use interlock::{
    BearerTokens, Context, HttpOptions, NoArguments, Server, Tool, Workflow,
    journal::What,
    store::MemoryStore,
    workflow::{self, Outcome, Scope, Settings, end},
};
use interlock_testkit::{
    ManualClock, connect,
    web::{Request, Site},
};
use serde_json::{Value, json};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

const SECRET: [u8; 32] = [7; 32];
const MINUTE: Duration = Duration::from_secs(60);

/// A request by a client whose model can be asked.
fn request(method: &str, mut params: Value) -> Request {
    params["_meta"] = json!({CAPABILITIES: {"sampling": {}}});
    Request::modern("one", method, params)
}

fn go() -> Value {
    json!({"name": "go", "arguments": {"topic": "rent"}})
}

/// The same request again, with what the model said to a question.
fn again(mut params: Value, asked: &Value, said: Value) -> Value {
    let key = key(asked);
    params["requestState"] = asked["requestState"].clone();
    params["inputResponses"] = json!({key: said});
    params
}

/// The name of the one question.
fn key(asked: &Value) -> String {
    let questions = asked["inputRequests"].as_object().unwrap();
    let keys: Vec<_> = questions.keys().collect();
    let [key] = keys[..] else { panic!("{asked}") };
    key.clone()
}

async fn send(site: &Site, params: Value) -> Value {
    let answer = site.send(request("tools/call", params)).await;
    answer.json().await
}

/// Sends a request that is answered with a question.
async fn asked(site: &Site, params: Value) -> Value {
    is_question(&send(site, params).await)
}

fn is_question(answer: &Value) -> Value {
    let result = answer["result"].clone();
    assert_eq!(result["resultType"], "input_required", "{answer}");
    let question = &result["inputRequests"][key(&result)];
    assert_eq!(question["method"], "sampling/createMessage");
    result
}

/// It is refused, as the protocol's own error.
#[track_caller]
fn is_spent(answer: &Value) {
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
}

async fn site_of(server: &Server) -> Site {
    Site::open(server, HttpOptions::default()).await
}

fn server() -> Server {
    builder(flow(global())).secret(SECRET).build().unwrap()
}

/// The server, and how often its tool has run.
fn counting() -> (Server, Arc<AtomicUsize>) {
    let runs = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&runs);
    let go = Tool::new("go", move |_: NoArguments, _: Context| {
        let run = count.fetch_add(1, Ordering::SeqCst) + 1;
        async move { format!("run {run}") }
    });
    let flow = Workflow::builder("w")
        .settings(global())
        .state("new", |s| s.initial().tool("go", |t| t.success("asking")))
        .state("asking", |s| {
            s.sampling(1, |m| m.user("?").success("calm").error("unsorted"))
        })
        .state("calm", |s| s.tool("close", |t| t.success(end("new"))))
        .state("unsorted", |s| s.tool("close", |t| t.success(end("new"))));
    let server = Server::builder("s", "0")
        .tool(go)
        .tool(tool("close"))
        .workflow(flow.build().unwrap())
        .build()
        .unwrap();
    (server, runs)
}

#[tokio::test]
async fn the_client_comes_back_and_gets_what_the_call_came_to() {
    let server = server();
    let site = site_of(&server).await;
    let first = asked(&site, go()).await;
    let question = &first["inputRequests"][key(&first)];
    let expected = json!({
        "messages": [{"role": "user", "content": {"type": "text", "text": "Is rent urgent?"}}],
        "systemPrompt": "You sort mail.",
        "maxTokens": 100,
    });
    assert_eq!(question["params"], expected);
    assert_eq!(at(&first), "asking");
    assert_eq!(state(&server).await, "asking");
    let answer = send(&site, again(go(), &first, sample("yes"))).await;
    let result = &answer["result"];
    assert_eq!(result["resultType"], "complete");
    assert_eq!(result["isError"], false);
    assert_eq!(result["structuredContent"], json!({"topic": "rent"}));
    assert_eq!(result["content"][0]["text"], "done");
    assert_eq!(result["content"][2]["text"], "It is urgent.");
    assert_eq!(at(result), "urgent");
    let told = &result["_meta"]["dev.interlock/workflow"]["instructions"];
    assert_eq!(told, "Your model is asked.\nIt is urgent.");
    let shown = server.operator().show(ID).await.unwrap();
    assert_eq!(
        Value::Object(shown.memory),
        json!({"topic": "rent", "by": "m-1"})
    );
    assert_eq!(sampled(&server).await, [(Outcome::Success, None)]);
    is_told(&server, flow(global())).await;
}

#[tokio::test]
async fn no_handler_runs_again() {
    let (server, runs) = counting();
    let site = site_of(&server).await;
    let params = json!({"name": "go", "arguments": {}});
    let first = asked(&site, params.clone()).await;
    let answer = send(&site, again(params, &first, sample("yes"))).await;
    assert_eq!(text(&answer), "run 1");
    assert_eq!(at(&answer["result"]), "calm");
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_state_is_good_for_once() {
    let server = server();
    let site = site_of(&server).await;
    let first = asked(&site, go()).await;
    let retry = again(go(), &first, sample("yes"));
    assert_eq!(at(&send(&site, retry.clone()).await["result"]), "urgent");
    is_spent(&send(&site, retry.clone()).await);
    assert_eq!(state(&server).await, "urgent");
    // Nor is it when the instance asks the same another time.
    send(&site, json!({"name": "close", "arguments": {}})).await;
    let second = asked(&site, go()).await;
    is_spent(&send(&site, retry).await);
    assert_eq!(state(&server).await, "asking");
    let answer = send(&site, again(go(), &second, sample("no"))).await;
    assert_eq!(at(&answer["result"]), "calm");
    is_told(&server, flow(global())).await;
}

#[tokio::test]
async fn of_many_who_come_back_at_once_one_goes_on() {
    let server = server();
    let site = site_of(&server).await;
    let first = asked(&site, go()).await;
    let retries = (0..8).map(|n| {
        let said = sample(if n % 2 == 0 { "yes" } else { "no" });
        let retry = request("tools/call", again(go(), &first, said));
        site.send(retry)
    });
    let answers = futures_util::future::join_all(retries).await;
    let mut went_on = 0;
    for answer in answers {
        let answer = answer.json().await;
        if answer.get("result").is_some() {
            went_on += 1;
        } else {
            is_spent(&answer);
        }
    }
    assert_eq!(went_on, 1);
    assert_eq!(sampled(&server).await.len(), 1);
}

#[tokio::test]
async fn a_state_is_of_no_use_to_anybody_else_or_for_anything_else() {
    let tokens = BearerTokens::new()
        .token("of-alice", "alice")
        .token("of-bob", "bob");
    let server = server();
    let site = Site::open(&server, HttpOptions::default().authenticator(tokens)).await;
    let by = async |who: &str, params: Value| {
        let request = request("tools/call", params).token(who);
        site.send(request).await.json().await
    };
    let first = is_question(&by("of-alice", go()).await);
    is_spent(&by("of-bob", again(go(), &first, sample("yes"))).await);
    let other = json!({"name": "go", "arguments": {"topic": "other"}});
    is_spent(&by("of-alice", again(other, &first, sample("yes"))).await);
    let other = json!({"name": "sort", "arguments": {"topic": "rent"}});
    is_spent(&by("of-alice", again(other, &first, sample("yes"))).await);
    let mut altered = first.clone();
    let state_text = first["requestState"].as_str().unwrap();
    altered["requestState"] = format!("{}AAAA", &state_text[..state_text.len() - 4]).into();
    is_spent(&by("of-alice", again(go(), &altered, sample("yes"))).await);
    assert_eq!(state(&server).await, "asking");
    let answer = by("of-alice", again(go(), &first, sample("yes"))).await;
    assert_eq!(at(&answer["result"]), "urgent");
}

#[tokio::test]
async fn a_client_that_offers_no_sampling_is_not_told_to_come_back() {
    let server = server();
    let site = site_of(&server).await;
    let answer = site.send(Request::modern("one", "tools/call", go())).await;
    let answer = answer.json().await;
    assert_eq!(at(&answer["result"]), "unsorted", "{answer}");
    assert_eq!(answer["result"]["resultType"], "complete");
    failed_because(&server, "does not").await;
}

#[tokio::test]
async fn a_client_that_does_not_come_back_is_waited_for_only_so_long() {
    let clock = Arc::new(ManualClock::new());
    let server = builder(flow(global())).clock(clock.clone());
    let server = server.build().unwrap();
    let site = site_of(&server).await;
    let first = asked(&site, go()).await;
    // Meanwhile nobody moves the instance, not even by a call that its state has.
    for name in ["sort", "go"] {
        let answer = send(&site, json!({"name": name, "arguments": {}})).await;
        let code = refusal(&answer["result"]);
        assert!(code == 1084 || code == 1081, "{answer}");
    }
    clock.advance(5 * MINUTE - Duration::from_millis(1));
    assert_eq!(state(&server).await, "asking");
    clock.advance(Duration::from_millis(1));
    state_is(&server, "unsorted").await;
    failed_because(&server, "in time").await;
    is_spent(&send(&site, again(go(), &first, sample("yes"))).await);
    is_told(&server, flow(global())).await;
}

#[tokio::test]
async fn whoever_comes_back_without_an_answer_is_asked_again() {
    let server = server();
    let site = site_of(&server).await;
    let mut last = asked(&site, go()).await;
    for _ in 0..10 {
        let mut retry = again(go(), &last, sample("yes"));
        retry["inputResponses"] = json!({"other": sample("yes")});
        last = asked(&site, retry).await;
    }
    assert_eq!(sampled(&server).await, []);
    let answer = send(&site, again(go(), &last, sample("yes"))).await;
    assert_eq!(at(&answer["result"]), "urgent");
    assert_eq!(
        answer["result"]["structuredContent"],
        json!({"topic": "rent"})
    );
}

#[tokio::test]
async fn an_answer_that_is_none_leads_to_error() {
    for said in [
        json!({}),
        json!({"action": "decline"}),
        json!(null),
        json!("yes"),
    ] {
        let server = server();
        let site = site_of(&server).await;
        let first = asked(&site, go()).await;
        let answer = send(&site, again(go(), &first, said)).await;
        assert_eq!(at(&answer["result"]), "unsorted", "{answer}");
        assert_eq!(answer["result"]["isError"], false);
        failed_because(&server, "not valid").await;
    }
}

/// Ten states that ask one after the other.
fn chain() -> workflow::Builder {
    let flow = Workflow::builder("w")
        .settings(global())
        .state("new", |s| s.initial().tool("go", |t| t.success("s0")));
    let flow = (0..10).fold(flow, |flow, n: usize| {
        flow.state(format!("s{n}"), |s| {
            s.sampling(1, |m| {
                m.user(format!("{n}?")).success(format!("s{}", n + 1))
            })
            .tool("close", |t| t.success(end("new")))
        })
    });
    flow.state("s10", |s| s.tool("close", |t| t.success(end("new"))))
}

#[tokio::test]
async fn states_that_ask_one_after_the_other_are_one_call_up_to_the_limit() {
    let server = builder(chain()).build().unwrap();
    let site = site_of(&server).await;
    let mut last = asked(&site, go()).await;
    let first = last.clone();
    for n in 0..7 {
        assert_eq!(state(&server).await, format!("s{n}"));
        let next = asked(&site, again(go(), &last, sample("yes"))).await;
        // The old one is good for nothing, be it with the name of the new question.
        let mut old = again(go(), &next, sample("yes"));
        old["requestState"] = last["requestState"].clone();
        is_spent(&send(&site, old).await);
        last = next;
    }
    is_spent(&send(&site, again(go(), &first, sample("yes"))).await);
    let answer = send(&site, again(go(), &last, sample("yes"))).await;
    assert_eq!(at(&answer["result"]), "s8", "{answer}");
    assert_eq!(
        answer["result"]["structuredContent"],
        json!({"topic": "rent"})
    );
    assert_eq!(sampled(&server).await.len(), 8);
    let entries = entries(&server).await;
    let last = entries.last().map(|entry| &entry.what);
    assert!(matches!(last, Some(What::Unasked { .. })), "{last:?}");
    is_told(&server, chain()).await;
    let answer = send(&site, json!({"name": "close", "arguments": {}})).await;
    assert_eq!(at(&answer["result"]), "new");
}

#[tokio::test]
async fn any_server_of_the_same_secret_and_store_takes_the_answer_and_one_of_them() {
    let store = MemoryStore::default();
    let server = || {
        let builder = builder(flow(global())).secret(SECRET);
        builder.store(Arc::new(store.clone())).build().unwrap()
    };
    let (one, two) = (server(), server());
    let sites = [site_of(&one).await, site_of(&two).await];
    let first = asked(&sites[0], go()).await;
    let retry = again(go(), &first, sample("yes"));
    let answer = send(&sites[1], retry.clone()).await;
    assert_eq!(at(&answer["result"]), "urgent", "{answer}");
    assert_eq!(
        answer["result"]["structuredContent"],
        json!({"topic": "rent"})
    );
    is_spent(&send(&sites[0], retry).await);
    is_told(&one, flow(global())).await;
}

#[tokio::test]
async fn prompts_and_resources_come_back_as_they_were() {
    let server = server();
    let site = site_of(&server).await;
    for (method, params, member) in [
        ("resources/read", json!({"uri": "note://rules"}), "contents"),
        ("prompts/get", json!({"name": "sorry"}), "messages"),
    ] {
        let answer = site.send(request(method, params.clone())).await;
        let first = is_question(&answer.json().await);
        let retry = again(params, &first, sample("yes"));
        let answer = site.send(request(method, retry)).await.json().await;
        let result = &answer["result"];
        assert_eq!(at(result), "urgent", "{answer}");
        assert_eq!(result["resultType"], "complete");
        let text = result[member].to_string();
        assert!(
            text.contains("be kind") || text.contains("Say sorry"),
            "{answer}"
        );
        assert_eq!(result.get("content"), None, "{answer}");
        if method == "resources/read" {
            assert_eq!(result["ttlMs"], 0, "{answer}");
            assert_eq!(result["cacheScope"], "private", "{answer}");
        }
        send(&site, json!({"name": "close", "arguments": {}})).await;
    }
    is_told(&server, flow(global())).await;
}

#[tokio::test]
async fn a_failed_call_comes_back_as_it_was() {
    let server = server();
    let site = site_of(&server).await;
    let params = json!({"name": "go", "arguments": {"fail": true}});
    let first = asked(&site, params.clone()).await;
    let answer = send(&site, again(params, &first, sample("yes"))).await;
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    assert_eq!(text(&answer), "as asked");
    assert_eq!(at(&answer["result"]), "urgent");
}

#[tokio::test]
async fn a_call_that_took_too_long_comes_back_as_it_was() {
    let clock = Arc::new(ManualClock::new());
    let (go, mut held) = held("go", OnCancel::GoesOn);
    let flow = Workflow::builder("w")
        .settings(global())
        .state("new", |s| {
            s.initial()
                .tool("go", |t| t.success(end("new")).timeout("asking"))
        })
        .state("asking", |s| {
            s.sampling(1, |m| m.user("?").success(end("new")))
        });
    let server = Server::builder("s", "0")
        .clock(clock.clone())
        .tool(go)
        .workflow(flow.build().unwrap())
        .build()
        .unwrap();
    let (mut client, _connection) = connect(&server);
    let mut params = modern(json!({"name": "go", "arguments": {}}));
    params["_meta"][CAPABILITIES] = json!({"sampling": {}});
    let id = client.begin("tools/call", params.clone()).await;
    held.started().await;
    clock.advance(Duration::from_secs(30));
    let first = is_question(&client.until(id).await.1);
    let answer = client
        .request("tools/call", again(params, &first, sample("yes")))
        .await;
    assert_eq!(refusal(&answer["result"]), 1069, "{answer}");
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    assert_eq!(at(&answer["result"]), "new");
}

#[tokio::test]
async fn what_is_too_large_to_be_carried_leads_to_error_at_once() {
    let flow = Workflow::builder("w")
        .settings(global())
        .state("new", |s| s.initial().tool("go", |t| t.success("asking")))
        .state("asking", |s| {
            s.sampling(1, |m| m.user("?").success(end("new")).error("unsorted"))
        })
        .state("unsorted", |s| s.tool("close", |t| t.success(end("new"))));
    let go = Tool::new("go", |_: NoArguments, _: Context| async {
        "x".repeat(1024 * 1024)
    });
    let server = Server::builder("s", "0")
        .tool(go)
        .tool(tool("close"))
        .workflow(flow.build().unwrap())
        .build()
        .unwrap();
    let site = site_of(&server).await;
    let answer = send(&site, json!({"name": "go", "arguments": {}})).await;
    assert_eq!(at(&answer["result"]), "unsorted");
    assert_eq!(text(&answer).len(), 1024 * 1024);
    failed_because(&server, "too large").await;
}

#[tokio::test]
async fn behind_a_handle_only_its_own_instance_goes_on() {
    let settings = Settings {
        scope: Scope::Handle,
        ..Settings::default()
    };
    let flow = Workflow::builder("w")
        .settings(settings)
        .state("new", |s| s.initial().tool("go", |t| t.success("asking")))
        .state("asking", |s| {
            s.sampling(1, |m| m.user("?").success("calm").error("unsorted"))
        })
        .state("calm", |s| s.tool("close", |t| t.success(end("new"))))
        .state("unsorted", |s| s.tool("close", |t| t.success(end("new"))));
    let server = Server::builder("s", "0")
        .tool(echo("go"))
        .tool(tool("close"))
        .workflow(flow.build().unwrap())
        .build()
        .unwrap();
    let (mut client, _connection) = connect(&server);
    let call = |name: &str, arguments: Value| {
        let mut params = modern(json!({"name": name, "arguments": arguments}));
        params["_meta"][CAPABILITIES] = json!({"sampling": {}});
        params
    };
    let mut handles = Vec::new();
    for _ in 0..2 {
        let started = client
            .request("tools/call", call("workflow_start", json!({})))
            .await;
        handles.push(started["result"]["structuredContent"]["workflow"].clone());
    }
    let first = call("go", json!({"workflow": handles[0]}));
    let other = call("go", json!({"workflow": handles[1]}));
    let asked_first = is_question(&client.request("tools/call", first.clone()).await);
    let asked_other = is_question(&client.request("tools/call", other.clone()).await);
    let swapped = again(other.clone(), &asked_first, sample("yes"));
    is_spent(&client.request("tools/call", swapped).await);
    let busy = client.request("tools/call", first.clone()).await;
    let code = refusal(&busy["result"]);
    assert!(code == 1081 || code == 1084, "{busy}");
    for (params, asked) in [(first, asked_first), (other, asked_other)] {
        let retry = again(params, &asked, sample("yes"));
        let answer = client.request("tools/call", retry).await;
        assert_eq!(at(&answer["result"]), "calm", "{answer}");
    }
}

#[tokio::test]
async fn a_client_that_is_gone_before_it_is_told_to_come_back_leads_to_error() {
    let (work, mut held) = held("go", OnCancel::GoesOn);
    let flow = Workflow::builder("w")
        .settings(global())
        .state("new", |s| s.initial().tool("go", |t| t.success("asking")))
        .state("asking", |s| {
            s.sampling(1, |m| m.user("?").success(end("new")).error("unsorted"))
        })
        .state("unsorted", |s| s.tool("close", |t| t.success(end("new"))));
    let server = Server::builder("s", "0")
        .tool(work)
        .tool(tool("close"))
        .workflow(flow.build().unwrap())
        .build()
        .unwrap();
    let (mut client, _connection) = connect(&server);
    let mut params = modern(json!({"name": "go", "arguments": {}}));
    params["_meta"][CAPABILITIES] = json!({"sampling": {}});
    let id = client.begin("tools/call", params).await;
    held.started().await;
    client
        .notify("notifications/cancelled", json!({"requestId": id}))
        .await;
    client.request("server/discover", modern(json!({}))).await;
    held.let_go(1);
    state_is(&server, "unsorted").await;
    failed_because(&server, "took the call back").await;
}

/// A person is asked before the call runs, and the model after it.
#[tokio::test]
async fn a_call_that_a_person_has_agreed_to_can_lead_to_a_question() {
    const CONSENT: &str = "dev.interlock/approval";
    let flow = Workflow::builder("w")
        .settings(global())
        .state("new", |s| {
            s.initial()
                .tool("go", |t| t.approve("Go?").success("asking"))
        })
        .state("asking", |s| {
            s.sampling(1, |m| m.user("?").success("calm").error("unsorted"))
        })
        .state("calm", |s| s.tool("close", |t| t.success(end("new"))))
        .state("unsorted", |s| s.tool("close", |t| t.success(end("new"))));
    let server = builder(flow).build().unwrap();
    let site = site_of(&server).await;
    let send = async |mut params: Value| {
        let can = json!({"sampling": {}, "elicitation": {"form": {}}});
        params["_meta"] = json!({CAPABILITIES: can});
        let request = Request::modern("one", "tools/call", params);
        site.send(request).await.json().await["result"].clone()
    };
    let consent = send(go()).await;
    assert_eq!(key(&consent), CONSENT, "{consent}");
    let agree = again(go(), &consent, json!({"action": "accept", "content": {}}));
    let asked = is_question(&json!({"result": send(agree.clone()).await}));
    // A yes is good for one call, and this one has been made.
    let result = send(agree).await;
    assert_ne!(result["isError"], false, "{result}");
    assert_eq!(state(&server).await, "asking");
    let result = send(again(go(), &asked, sample("yes"))).await;
    assert_eq!(at(&result), "calm", "{result}");
    assert_eq!(result["structuredContent"], json!({"topic": "rent"}));
}
