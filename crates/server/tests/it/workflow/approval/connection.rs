//! A person's yes before a call runs, through a client that keeps a connection or by an operator.

use crate::support::{
    client::{introduce_as, nothing_comes},
    held::{OnCancel, held},
    kept::{Kept, wherever_it_is_kept},
    messages::{at, instance, refusal, result_text},
    refund::{history, refund, refund_with},
    tools::echo,
};
use interlock::{
    ApprovalRequest, Builder, Operator, OperatorError, Server, Standing, Workflow,
    journal::{Entry, What},
    store::MemoryStore,
    workflow::{Scope, Settings, end},
};
use interlock_testkit::{Client, Connection, ManualClock, connect};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

const ID: &str = "global:refund";
const QUESTION: &str = "Refund 5 for A-1?";

/// The same, wherever it is kept.
fn refund_kept(kept: Kept) -> Builder {
    kept.keep(refund_with(echo("refund"), kept.scope()))
}

/// A client of that version that says it can do this, on its way to the refund.
async fn ready(server: &Server, version: &str, can: Value) -> (Client, Connection) {
    let (mut client, connection) = connect(server);
    introduce_as(&mut client, version, can).await;
    client.call("lookup", json!({"order": "A-1"})).await;
    (client, connection)
}

async fn with_form(server: &Server) -> (Client, Connection) {
    ready(server, "2025-11-25", json!({"elicitation": {}})).await
}

async fn without(server: &Server) -> (Client, Connection) {
    ready(server, "2025-11-25", json!({})).await
}

fn five() -> Value {
    json!({"amount": 5})
}

async fn begin(client: &mut Client) -> (i64, Value) {
    let params = json!({"name": "refund", "arguments": five()});
    let id = client.begin("tools/call", params).await;
    let question = client.receive().await.unwrap();
    assert_eq!(question["method"], "elicitation/create", "{question}");
    (id, question)
}

async fn answer(client: &mut Client, question: &Value, member: &str, answer: Value) {
    let mut message = json!({"jsonrpc": "2.0", "id": question["id"]});
    message[member] = answer;
    client.send(message).await;
}

async fn says(client: &mut Client, question: &Value, action: &str) {
    answer(client, question, "result", json!({"action": action})).await;
}

async fn result(client: &mut Client, id: i64) -> (Vec<Value>, Value) {
    let (before, answer) = client.until(id).await;
    (before, answer["result"].clone())
}

/// What the journal says of the instance that all share.
async fn told(operator: &Operator) -> Vec<String> {
    told_of(operator, ID).await
}

/// What the journal says, word by word, and that it leads to where the instance stands.
async fn told_of(operator: &Operator, id: &str) -> Vec<String> {
    let history = history(operator, id).await;
    let word = |entry: &Entry| match serde_json::to_value(entry).unwrap() {
        entry if entry["code"].is_number() => entry["code"].to_string(),
        entry if entry["approval"].is_string() => {
            format!("{} operator", entry["what"].as_str().unwrap())
        }
        entry => entry["what"].as_str().unwrap().to_owned(),
    };
    history.iter().map(word).collect()
}

async fn asked(operator: &Operator, id: &str) -> Vec<ApprovalRequest> {
    operator.show(id).await.unwrap().summary.approvals
}

async fn only(operator: &Operator, id: &str) -> ApprovalRequest {
    let mut asked = asked(operator, id).await;
    assert_eq!(asked.len(), 1);
    asked.remove(0)
}

#[tokio::test]
async fn a_client_that_knows_forms_is_asked_and_its_yes_lets_the_call_run() {
    for version in ["2025-06-18", "2025-11-25"] {
        let server = refund().build().unwrap();
        let (mut client, _connection) = ready(&server, version, json!({"elicitation": {}})).await;
        let (id, question) = begin(&mut client).await;
        assert_eq!(question["params"]["message"], QUESTION);
        let nothing = json!({"type": "object", "properties": {}});
        assert_eq!(question["params"]["requestedSchema"], nothing);
        says(&mut client, &question, "accept").await;
        let (before, paid) = result(&mut client, id).await;
        assert_eq!(before.len(), 1, "{before:?}");
        assert_eq!(paid["isError"], json!(false), "{paid}");
        assert_eq!(at(&paid), "new");
        let told = told(&server.operator()).await;
        assert_eq!(told, ["started", "step", "asked", "approved", "step"]);
    }
}

#[tokio::test]
async fn a_no_refuses_the_call_moves_nothing_and_is_journalled() {
    for (action, why) in [
        ("decline", "a person said no"),
        ("cancel", "the person who was asked dismissed the question"),
    ] {
        let server = refund().build().unwrap();
        let (mut client, _connection) = with_form(&server).await;
        let (id, question) = begin(&mut client).await;
        says(&mut client, &question, action).await;
        let (before, refused) = result(&mut client, id).await;
        assert_eq!(before, [] as [Value; 0]);
        assert_eq!(refused["isError"], true);
        assert_eq!(refusal(&refused), 1083);
        assert_eq!(at(&refused), "found");
        assert_eq!(
            result_text(&refused),
            format!("the call was not approved: {why}.")
        );
        let allowed = &refused["_meta"]["dev.interlock/refusal"]["allowed"];
        assert_eq!(*allowed, json!(["refund", "note", "look", "back"]));
        let told = told(&server.operator()).await;
        assert_eq!(told, ["started", "step", "asked", "denied"]);
        // The next call works, and asks anew.
        let (id, question) = begin(&mut client).await;
        says(&mut client, &question, "accept").await;
        assert_eq!(at(&result(&mut client, id).await.1), "new");
    }
}

#[tokio::test]
async fn a_question_that_nobody_answers_ends_after_its_time_and_not_after_the_calls() {
    let clock = Arc::new(ManualClock::new());
    let server = refund().clock(Arc::clone(&clock) as _).build().unwrap();
    let (mut client, _connection) = with_form(&server).await;
    let (id, question) = begin(&mut client).await;
    clock.advance(Duration::from_secs(9 * 60 + 59));
    nothing_comes(&mut client).await;
    clock.advance(Duration::from_secs(1));
    let withdrawn = client.receive().await.unwrap();
    assert_eq!(withdrawn["method"], "notifications/cancelled");
    assert_eq!(withdrawn["params"]["requestId"], question["id"]);
    let (_, refused) = result(&mut client, id).await;
    assert_eq!(refusal(&refused), 1083);
    assert!(result_text(&refused).contains("in time"), "{refused}");
    let told = told(&server.operator()).await;
    assert_eq!(told, ["started", "step", "asked", "denied"]);
    // What comes too late is heard by nobody.
    says(&mut client, &question, "accept").await;
    nothing_comes(&mut client).await;
    assert_eq!(at(&client.call("back", json!({})).await.1), "new");
}

#[tokio::test]
async fn a_call_taken_back_while_its_person_is_asked_takes_the_question_along() {
    let server = refund().build().unwrap();
    let (mut client, _connection) = with_form(&server).await;
    let (id, question) = begin(&mut client).await;
    client
        .notify("notifications/cancelled", json!({"requestId": id}))
        .await;
    let withdrawn = client.receive().await.unwrap();
    assert_eq!(withdrawn["params"]["requestId"], question["id"]);
    nothing_comes(&mut client).await;
    assert_eq!(at(&client.call("back", json!({})).await.1), "new");
}

#[tokio::test]
async fn a_yes_is_for_the_instance_as_it_was() {
    let server = refund().build().unwrap();
    let (mut client, _connection) = with_form(&server).await;
    let (id, question) = begin(&mut client).await;
    // What cannot change the instance may run meanwhile; what can, makes the yes void.
    client.call("look", json!({})).await;
    client.call("note", json!({})).await;
    says(&mut client, &question, "accept").await;
    let (_, refused) = result(&mut client, id).await;
    assert_eq!(refusal(&refused), 1083);
    assert!(result_text(&refused).contains("has moved on"), "{refused}");

    let (id, question) = begin(&mut client).await;
    client.call("look", json!({})).await;
    says(&mut client, &question, "accept").await;
    assert_eq!(at(&result(&mut client, id).await.1), "new");
}

#[tokio::test]
async fn a_call_that_is_not_allowed_any_more_is_refused_as_such_whatever_the_person_says() {
    let server = refund().build().unwrap();
    let (mut client, _connection) = with_form(&server).await;
    let (id, question) = begin(&mut client).await;
    client.call("back", json!({})).await;
    says(&mut client, &question, "accept").await;
    assert_eq!(refusal(&result(&mut client, id).await.1), 1081);
}

#[tokio::test]
async fn nobody_is_asked_about_what_the_guard_refuses() {
    let server = refund().build().unwrap();
    let (mut client, _connection) = with_form(&server).await;
    let (before, refused) = client.call("refund", json!({"amount": 0})).await;
    assert_eq!(before, [] as [&str; 0]);
    assert_eq!(refusal(&refused), 1082);
}

#[tokio::test]
async fn a_client_that_answers_with_an_error_leaves_it_to_an_operator() {
    let server = refund().build().unwrap();
    let (mut client, _connection) = with_form(&server).await;
    let (id, question) = begin(&mut client).await;
    let error = json!({"code": -32603, "message": "no window"});
    answer(&mut client, &question, "error", error).await;
    let (_, pending) = result(&mut client, id).await;
    assert_eq!(refusal(&pending), 1071);
    let operator = server.operator();
    operator
        .approve(ID, &only(&operator, ID).await.id, "")
        .await
        .unwrap();
    // It is asked again only if nobody has agreed.
    let (_, paid) = client.call("refund", five()).await;
    assert_eq!(at(&paid), "new");
}

#[tokio::test]
async fn a_client_that_cannot_ask_is_told_at_once_and_an_operators_yes_works_once() {
    // It declares nothing, or its version has no forms.
    for (version, can) in [
        ("2025-11-25", json!({})),
        ("2025-11-25", json!({"elicitation": {"url": {}}})),
        ("2025-03-26", json!({"elicitation": {}})),
    ] {
        wherever_it_is_kept(async |kept| yes_works_once(kept, version, can.clone()).await).await;
    }
}

async fn yes_works_once(kept: Kept, version: &str, can: Value) {
    let server = refund_kept(kept).build().unwrap();
    let (mut client, _connection) = ready(&server, version, can).await;
    let operator = server.operator().by("olga");
    let (_, pending) = client.call("refund", five()).await;
    assert_eq!(pending["isError"], true);
    assert_eq!(refusal(&pending), 1071);
    assert_eq!(
        result_text(&pending),
        "an operator must approve this call first: Refund 5 for A-1? Repeat the same call once it \
         is approved."
    );
    let id = &*instance(&pending);
    let waiting = operator.waiting(None, 10).await.unwrap();
    assert_eq!(waiting.len(), 1);
    assert_eq!(waiting[0].id, id);
    let request = only(&operator, id).await;
    assert_eq!(waiting[0].approvals, std::slice::from_ref(&request));
    let told_id = &pending["_meta"]["dev.interlock/refusal"]["approval"];
    assert_eq!(*told_id, request.id.as_str());
    assert_eq!((&*request.question, request.args), (QUESTION, Some(five())));
    // Until then it is still pending, and asked once.
    assert_eq!(refusal(&client.call("refund", five()).await.1), 1071);
    assert_eq!(asked(&operator, id).await.len(), 1);

    let summary = operator.approve(id, &request.id, "known").await.unwrap();
    assert!(matches!(
        summary.approvals[0].standing,
        Standing::Approved { .. }
    ));
    assert_eq!(asked(&operator, id).await, summary.approvals);
    assert_eq!(operator.waiting(None, 10).await.unwrap(), []);
    // Who looks changes nothing, and what cannot change the instance may run meanwhile.
    let all = ["refund", "note", "look", "back"];
    assert_eq!(client.tools().await, all.map(str::to_owned));
    client.call("look", json!({})).await;
    // Not for other arguments.
    let six = json!({"amount": 6});
    assert_eq!(refusal(&client.call("refund", six).await.1), 1071);
    let (_, paid) = client.call("refund", five()).await;
    assert_eq!(at(&paid), "new", "{paid}");
    assert_eq!(asked(&operator, id).await, []);
    assert_eq!(client.tools().await, ["lookup"]);

    client.call("lookup", json!({"order": "A-1"})).await;
    assert_eq!(refusal(&client.call("refund", five()).await.1), 1071);
    let told = told_of(&operator, id).await;
    assert_eq!(
        told,
        [
            "started",
            "step",
            "asked operator",
            "1071",
            "approved operator",
            "ran",
            "asked operator",
            "step",
            "step",
            "asked operator"
        ]
    );
}

#[tokio::test]
async fn an_operators_no_is_journalled_and_told_and_holds_for_a_while() {
    wherever_it_is_kept(async |kept| {
        let clock = Arc::new(ManualClock::new());
        let server = refund_kept(kept).clock(Arc::clone(&clock) as _);
        let server = server.build().unwrap();
        let (mut client, _connection) = without(&server).await;
        let operator = server.operator().by("olga");
        let id = &*instance(&client.call("refund", five()).await.1);
        let request = only(&operator, id).await;
        let denied = operator.deny(id, &request.id, "a thief").await.unwrap();
        assert!(matches!(
            denied.approvals[0].standing,
            Standing::Denied { .. }
        ));
        assert_eq!(asked(&operator, id).await, denied.approvals);
        let (_, refused) = client.call("refund", five()).await;
        assert_eq!(refusal(&refused), 1083);
        assert_eq!(
            result_text(&refused),
            "the call was not approved: a person said no."
        );
        let history = operator.history(id, None, 100).await.unwrap();
        let denied = history
            .iter()
            .find(|one| matches!(one.entry.what, What::Denied { .. }))
            .unwrap();
        assert_eq!(denied.entry.by.as_deref(), Some("olga"));
        assert_eq!(denied.entry.reason.as_deref(), Some("a thief"));
        told_of(&operator, id).await;
        // Everything else goes on.
        let all = ["refund", "note", "look", "back"];
        assert_eq!(client.tools().await, all.map(str::to_owned));
        clock.advance(Duration::from_secs(10 * 60));
        assert_eq!(refusal(&client.call("refund", five()).await.1), 1071);
        assert_eq!(at(&client.call("back", json!({})).await.1), "new");
    })
    .await;
}

#[tokio::test]
async fn a_question_to_an_operator_expires_and_so_does_the_yes() {
    wherever_it_is_kept(async |kept| {
        let clock = Arc::new(ManualClock::new());
        let server = refund_kept(kept).clock(Arc::clone(&clock) as _);
        let server = server.build().unwrap();
        let (mut client, _connection) = without(&server).await;
        let operator = server.operator();
        let ten_minutes = Duration::from_secs(10 * 60);

        let id = &*instance(&client.call("refund", five()).await.1);
        let request = only(&operator, id).await;
        clock.advance(ten_minutes);
        let late = operator.approve(id, &request.id, "").await;
        assert!(
            matches!(late, Err(OperatorError::Decided { .. })),
            "{late:?}"
        );
        assert_eq!(operator.waiting(None, 10).await.unwrap(), []);
        let (_, refused) = client.call("refund", five()).await;
        assert_eq!(refusal(&refused), 1083);
        assert!(result_text(&refused).contains("call again"), "{refused}");

        assert_eq!(refusal(&client.call("refund", five()).await.1), 1071);
        operator.approve(id, &request.id, "").await.unwrap();
        clock.advance(ten_minutes);
        assert_eq!(refusal(&client.call("refund", five()).await.1), 1083);
        assert_eq!(refusal(&client.call("refund", five()).await.1), 1071);
        operator.approve(id, &request.id, "").await.unwrap();
        clock.advance(ten_minutes - Duration::from_millis(1));
        assert_eq!(at(&client.call("refund", five()).await.1), "new");
    })
    .await;
}

#[tokio::test]
async fn operators_cannot_answer_what_is_not_asked_nor_twice_otherwise() {
    wherever_it_is_kept(async |kept| {
        let server = refund_kept(kept).build().unwrap();
        let (mut client, _connection) = without(&server).await;
        let operator = server.operator();
        let id = &*instance(&client.call("refund", five()).await.1);
        let request = only(&operator, id).await.id;
        let none = operator.approve(id, "nothing", "").await;
        assert!(matches!(none, Err(OperatorError::NotAsked(_))), "{none:?}");
        operator.approve(id, &request, "").await.unwrap();
        operator.approve(id, &request, "again").await.unwrap();
        let other = operator.deny(id, &request, "").await;
        assert!(
            matches!(other, Err(OperatorError::Decided { .. })),
            "{other:?}"
        );
        // The instance has changed, so nobody asks any more.
        client.call("note", json!({})).await;
        assert_eq!(asked(&operator, id).await, []);
        let void = operator.approve(id, &request, "").await;
        assert!(matches!(void, Err(OperatorError::NotAsked(_))), "{void:?}");
        assert_eq!(refusal(&client.call("refund", five()).await.1), 1071);
        operator.move_to(id, "found", "").await.unwrap();
        assert_eq!(asked(&operator, id).await, []);
        told_of(&operator, id).await;
    })
    .await;
}

#[tokio::test]
async fn of_two_calls_with_one_yes_one_runs() {
    let (refund, mut handler) = held("refund", OnCancel::GoesOn);
    let server = refund_with(refund, Scope::Global).build().unwrap();
    let operator = server.operator();
    let (mut one, _connection) = without(&server).await;
    let (mut other, _connection) = connect(&server);
    other.initialize().await;
    one.call("refund", five()).await;
    operator
        .approve(ID, &only(&operator, ID).await.id, "")
        .await
        .unwrap();
    let params = json!({"name": "refund", "arguments": five()});
    let first = one.begin("tools/call", params.clone()).await;
    handler.started().await;
    let second = other.begin("tools/call", params).await;
    handler.let_go(2);
    assert_eq!(at(&result(&mut one, first).await.1), "new");
    assert_eq!(refusal(&result(&mut other, second).await.1), 1081);
    assert!(handler.is_quiet());
}

#[tokio::test]
async fn what_is_asked_and_answered_survives_the_process() {
    let store = MemoryStore::default();
    let serve = || {
        let store = Arc::new(store.clone());
        refund().store(store).build().unwrap()
    };
    let server = serve();
    let (mut client, connection) = without(&server).await;
    client.call("refund", five()).await;
    drop((client, connection, server));
    let server = serve();
    let operator = server.operator();
    operator
        .approve(ID, &only(&operator, ID).await.id, "")
        .await
        .unwrap();
    drop((operator, server));
    let server = serve();
    let (mut client, _connection) = connect(&server);
    client.initialize().await;
    assert_eq!(at(&client.call("refund", five()).await.1), "new");
}

#[tokio::test]
async fn only_so_many_calls_wait_for_an_operator() {
    let server = refund().build().unwrap();
    let (mut client, _connection) = without(&server).await;
    for amount in 1..=16 {
        let (_, pending) = client.call("refund", json!({"amount": amount})).await;
        assert_eq!(refusal(&pending), 1071);
    }
    let (_, refused) = client.call("refund", json!({"amount": 17})).await;
    assert_eq!(refusal(&refused), 1059);
    assert_eq!(asked(&server.operator(), ID).await.len(), 16);
}

/// An approved call whose outcomes all stay uses its yes up all the same.
#[tokio::test]
async fn a_yes_for_what_stays_works_once() {
    let flow = Workflow::builder("w")
        .settings(Settings {
            scope: Scope::Global,
            ..Settings::default()
        })
        .state("a", |s| {
            s.initial()
                .tool("peek", |t| t.success("a").approve("Peek?"))
                .tool("go", |t| t.success(end("b")))
        })
        .build()
        .unwrap();
    let server = Server::builder("s", "0")
        .tool(echo("peek"))
        .tool(echo("go"));
    let server = server.workflow(flow).build().unwrap();
    let (mut client, _connection) = connect(&server);
    client.initialize().await;
    let operator = server.operator();
    client.call("peek", json!({})).await;
    let asked = operator.show("global:w").await.unwrap().summary.approvals;
    operator
        .approve("global:w", &asked[0].id, "")
        .await
        .unwrap();
    assert_eq!(client.call("peek", json!({})).await.1["isError"], false);
    assert_eq!(refusal(&client.call("peek", json!({})).await.1), 1071);
}
