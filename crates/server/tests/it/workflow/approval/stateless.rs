//! A person's yes by 2026-07-28: asked in a result, brought back in a retry.

use crate::support::{
    http::{ALICE, BOB, age_form, authenticated},
    messages::{CAPABILITIES, at, refusal},
    refund::{refund, refund_with},
    tools::echo,
};
use interlock::{
    Builder, Context, Failure, NoArguments, Operator, Server, Tool, Workflow,
    journal::What,
    store::MemoryStore,
    workflow::{Scope, Settings, end},
};
use interlock_testkit::{
    ManualClock,
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

const KEY: &str = "dev.interlock/approval";
const ID: &str = "global:refund";

const TEN_MINUTES: Duration = Duration::from_secs(10 * 60);

async fn open(server: &Server) -> Site {
    Site::open(server, authenticated()).await
}

/// What is called, and what its client can do.
struct Asker<'a> {
    site: &'a Site,
    who: &'a str,
    can: Value,
}

impl Asker<'_> {
    async fn send(&self, name: &str, arguments: Value, more: Value) -> Value {
        let mut params = json!({"name": name, "arguments": arguments});
        for (member, value) in more.as_object().into_iter().flatten() {
            params[member] = value.clone();
        }
        params["_meta"] = json!({CAPABILITIES: self.can});
        let request = Request::modern(1, "tools/call", params).token(self.who);
        self.site.send(request).await.json().await
    }

    async fn call(&self, name: &str, arguments: Value) -> Value {
        let answer = self.send(name, arguments, json!({})).await;
        answer["result"].clone()
    }

    /// Asks for a refund, and gives what has to be brought back.
    async fn asked(&self) -> Value {
        let asked = self.call("refund", five()).await;
        assert_eq!(asked["resultType"], "input_required", "{asked}");
        asked["requestState"].clone()
    }

    async fn again(&self, state: &Value, action: &str) -> Value {
        let answers = json!({KEY: {"action": action}});
        let more = json!({"requestState": state, "inputResponses": answers});
        self.send("refund", five(), more).await
    }

    async fn result(&self, state: &Value, action: &str) -> Value {
        self.again(state, action).await["result"].clone()
    }
}

fn forms() -> Value {
    json!({"elicitation": {"form": {}}})
}

const fn alice(site: &Site, can: Value) -> Asker<'_> {
    let who = ALICE;
    Asker { site, who, can }
}

fn five() -> Value {
    json!({"amount": 5})
}

/// A client that can be asked, on its way to the refund.
async fn ready(site: &Site) -> Asker<'_> {
    let asker = alice(site, forms());
    asker.call("lookup", json!({"order": "A-1"})).await;
    asker
}

async fn told(operator: &Operator) -> Vec<What> {
    let history = operator.history(ID, None, 1_000).await.unwrap();
    history.into_iter().map(|one| one.entry.what).collect()
}

#[tokio::test]
async fn the_question_comes_in_the_result_and_the_yes_in_the_retry() {
    let server = refund().build().unwrap();
    let site = open(&server).await;
    let asker = ready(&site).await;
    let asked = asker.call("refund", five()).await;
    assert_eq!(asked["resultType"], "input_required");
    let requests = asked["inputRequests"].as_object().unwrap();
    assert_eq!(requests.keys().collect::<Vec<_>>(), [KEY]);
    assert_eq!(requests[KEY]["method"], "elicitation/create");
    let params = &requests[KEY]["params"];
    assert_eq!(params["message"], "Refund 5 for A-1?");
    assert_eq!(params["mode"], "form");
    let state = &asked["requestState"];
    let paid = asker.result(state, "accept").await;
    assert_eq!(paid["isError"], false, "{paid}");
    assert_eq!(at(&paid), "new");
    // It works once: after the way back to the same state, too.
    asker.call("lookup", json!({"order": "A-1"})).await;
    let again = asker.result(state, "accept").await;
    assert_eq!(refusal(&again), 1083, "{again}");
    let told = told(&server.operator()).await;
    let approved = told
        .iter()
        .filter(|what| matches!(what, What::Approved { .. }));
    assert_eq!(approved.count(), 1);
}

#[tokio::test]
async fn a_no_is_told_and_journalled() {
    let server = refund().build().unwrap();
    let site = open(&server).await;
    let asker = ready(&site).await;
    for action in ["decline", "cancel"] {
        let state = asker.asked().await;
        let refused = asker.result(&state, action).await;
        assert_eq!(refusal(&refused), 1083);
        assert_eq!(at(&refused), "found");
        let told = told(&server.operator()).await;
        assert!(matches!(
            told.last(),
            Some(What::Denied { approval: None, .. })
        ));
    }
}

#[tokio::test]
async fn nobody_agrees_before_being_asked_and_an_answer_that_is_none_is_asked_again() {
    let server = refund().build().unwrap();
    let site = open(&server).await;
    let asker = ready(&site).await;
    let answers = json!({"inputResponses": {KEY: {"action": "accept"}}});
    let answer = asker.send("refund", five(), answers).await;
    assert_eq!(answer["result"]["resultType"], "input_required", "{answer}");
    let state = asker.asked().await;
    let odd = asker.result(&state, "maybe").await;
    assert_eq!(odd["resultType"], "input_required");
    let forgot = json!({"requestState": state});
    let answer = asker.send("refund", five(), forgot).await;
    assert_eq!(answer["result"]["resultType"], "input_required");
}

#[tokio::test]
async fn a_yes_is_for_one_caller_one_call_and_the_instance_as_it_was() {
    let server = refund().build().unwrap();
    let site = open(&server).await;
    let asker = ready(&site).await;
    let state = asker.asked().await;
    let answers = json!({KEY: {"action": "accept"}});
    let retry = json!({"requestState": state, "inputResponses": answers});
    // The instance is everybody's, and the yes is not.
    let bob = Asker {
        who: BOB,
        ..alice(&site, forms())
    };
    let stolen = bob.send("refund", five(), retry.clone()).await;
    assert_eq!(stolen["error"]["code"], -32602, "{stolen}");
    let other = asker.send("refund", json!({"amount": 6}), retry).await;
    assert_eq!(other["error"]["code"], -32602, "{other}");
    asker.call("look", json!({})).await;
    bob.call("note", json!({})).await;
    let moved = asker.result(&state, "accept").await;
    assert_eq!(refusal(&moved), 1083);
    let text = moved["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("has moved on"), "{text}");
}

#[tokio::test]
async fn a_yes_that_comes_too_late_is_none() {
    let clock = Arc::new(ManualClock::new());
    let server = refund().clock(Arc::clone(&clock) as _).build().unwrap();
    let site = open(&server).await;
    let asker = ready(&site).await;
    let state = asker.asked().await;
    clock.advance(TEN_MINUTES);
    let late = asker.result(&state, "accept").await;
    assert_eq!(refusal(&late), 1083, "{late}");
    let state = asker.asked().await;
    clock.advance(TEN_MINUTES - Duration::from_millis(1));
    assert_eq!(at(&asker.result(&state, "accept").await), "new");
}

#[tokio::test]
async fn any_node_takes_the_retry() {
    let store = MemoryStore::default();
    let serve = || {
        let store = Arc::new(store.clone());
        refund().store(store).secret([7; 32]).build().unwrap()
    };
    let (one, other) = (open(&serve()).await, open(&serve()).await);
    let state = ready(&one).await.asked().await;
    let paid = alice(&other, forms()).result(&state, "accept").await;
    assert_eq!(at(&paid), "new", "{paid}");
    let again = alice(&one, forms()).result(&state, "accept").await;
    assert_eq!(refusal(&again), 1081, "{again}");
}

/// A workflow whose first call needs a yes.
fn paying() -> Builder {
    let flow = Workflow::builder("refund")
        .settings(Settings {
            scope: Scope::Global,
            ..Settings::default()
        })
        .state("new", |s| {
            s.initial()
                .tool("refund", |t| t.approve("Pay?").success(end("paid")))
        })
        .build()
        .unwrap();
    let server = Server::builder("s", "0").tool(echo("refund"));
    server.workflow(flow).secret([7; 32])
}

#[tokio::test]
async fn any_node_takes_the_retry_of_the_first_call_of_all() {
    let store = MemoryStore::default();
    let serve = || {
        let store = Arc::new(store.clone());
        paying().store(store).build().unwrap()
    };
    let (one, other) = (open(&serve()).await, open(&serve()).await);
    let state = alice(&one, forms()).asked().await;
    let paid = alice(&other, forms()).result(&state, "accept").await;
    assert_eq!(paid["isError"], false, "{paid}");
}

#[tokio::test]
async fn a_yes_does_not_outlive_what_a_process_remembers() {
    let site = open(&paying().build().unwrap()).await;
    let state = alice(&site, forms()).asked().await;
    let paid = alice(&site, forms()).result(&state, "accept").await;
    assert_eq!(paid["isError"], false, "{paid}");
    // Nothing is left of the instance, and the secret is the same.
    let site = open(&paying().build().unwrap()).await;
    let again = alice(&site, forms()).result(&state, "accept").await;
    assert_eq!(refusal(&again), 1083, "{again}");
}

#[tokio::test]
async fn a_client_that_can_do_nothing_waits_for_an_operator() {
    let server = refund().build().unwrap();
    let site = open(&server).await;
    ready(&site).await;
    for can in [
        json!({}),
        json!({"elicitation": {"url": {}}}),
        json!({"sampling": {}}),
    ] {
        let asker = alice(&site, can);
        let pending = asker.call("refund", five()).await;
        assert_eq!(refusal(&pending), 1071, "{pending}");
    }
    let operator = server.operator();
    let asked = operator.show(ID).await.unwrap().summary.approvals;
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].principal, json!({"id": "alice"}));
    operator.approve(ID, &asked[0].id, "").await.unwrap();
    // What alice may do, bob may not.
    let bob = Asker {
        who: BOB,
        ..alice(&site, json!({}))
    };
    assert_eq!(refusal(&bob.call("refund", five()).await), 1071);
    let paid = alice(&site, json!({})).call("refund", five()).await;
    assert_eq!(at(&paid), "new");
}

#[tokio::test]
async fn the_yes_is_brought_back_by_handle_too() {
    let server = refund_with(echo("refund"), Scope::Handle);
    let server = server.build().unwrap();
    let site = open(&server).await;
    let asker = alice(&site, forms());
    let started = asker.call("workflow_start", json!({})).await;
    let id = &started["structuredContent"]["workflow"];
    let with = |mut arguments: Value| {
        arguments["workflow"] = id.clone();
        arguments
    };
    asker.call("lookup", with(json!({"order": "A-1"}))).await;
    let asked = asker.call("refund", with(five())).await;
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let answers = json!({KEY: {"action": "accept"}});
    let retry = json!({"requestState": asked["requestState"], "inputResponses": answers});
    let paid = asker.send("refund", with(five()), retry).await["result"].clone();
    assert_eq!(paid["isError"], false, "{paid}");
    let over = asker.call("refund", with(five())).await;
    assert_eq!(refusal(&over), 1085);
}

/// A refund that asks on its own, and counts how often it runs.
fn asking(runs: &Arc<AtomicUsize>) -> Tool {
    let runs = Arc::clone(runs);
    Tool::new("refund", move |_: NoArguments, context: Context| {
        let runs = Arc::clone(&runs);
        async move {
            runs.fetch_add(1, Ordering::SeqCst);
            let answer = context.elicit("age", &age_form()).await?;
            Ok::<_, Failure>(answer.content.unwrap()["age"].to_string())
        }
    })
}

#[tokio::test]
async fn a_handler_that_asks_does_not_make_the_yes_last_longer() {
    let clock = Arc::new(ManualClock::new());
    let runs = Arc::new(AtomicUsize::new(0));
    let server = refund_with(asking(&runs), Scope::Global);
    let server = server.clock(Arc::clone(&clock) as _).build().unwrap();
    let site = open(&server).await;
    let asker = ready(&site).await;
    let first = asker.asked().await;
    clock.advance(TEN_MINUTES - Duration::from_secs(60));
    let asked = asker.result(&first, "accept").await;
    clock.advance(Duration::from_secs(60));
    let age = json!({"age": {"action": "accept", "content": {"age": 7}}});
    let retry = json!({"requestState": asked["requestState"], "inputResponses": age});
    let late = asker.send("refund", five(), retry).await["result"].clone();
    assert_eq!(refusal(&late), 1083, "{late}");
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

/// A handler that asks on its own begins again; the person need not agree again.
#[tokio::test]
async fn a_handler_that_asks_keeps_the_yes_it_has() {
    let runs = Arc::new(AtomicUsize::new(0));
    let server = refund_with(asking(&runs), Scope::Global);
    let server = server.build().unwrap();
    let site = open(&server).await;
    let asker = ready(&site).await;
    let first = asker.asked().await;
    assert_eq!(runs.load(Ordering::SeqCst), 0);
    let asked = asker.result(&first, "accept").await;
    assert!(asked["inputRequests"]["age"].is_object(), "{asked}");
    // What was brought once is used up.
    let stale = asker.result(&first, "accept").await;
    assert_eq!(refusal(&stale), 1083, "{stale}");
    let age = json!({"age": {"action": "accept", "content": {"age": 7}}});
    let retry = json!({"requestState": asked["requestState"], "inputResponses": age});
    let paid = asker.send("refund", five(), retry).await["result"].clone();
    assert_eq!(paid["content"][0]["text"], "7", "{paid}");
    assert_eq!(at(&paid), "new");
    assert_eq!(runs.load(Ordering::SeqCst), 2);
    let told = told(&server.operator()).await;
    let told = told.iter().map(|what| {
        let what = serde_json::to_value(what).unwrap();
        what["what"].as_str().unwrap().to_owned()
    });
    let wanted = [
        "started", "step", "asked", "approved", "paused", "denied", "approved", "step",
    ];
    assert_eq!(told.collect::<Vec<_>>(), wanted);
}
