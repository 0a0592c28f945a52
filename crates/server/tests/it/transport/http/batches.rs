//! Batches of 2025-03-26 over HTTP, where they are slow, speak, repeat themselves or are left.

use crate::support::{
    http::{is_served, plain},
    messages::{notification, request, text},
    puppet::{Act, Puppet, acting_on},
};
use interlock::HttpOptions;
use interlock_testkit::web::{Answer, Hello, Session, Site};
use serde_json::{Value, json};
use std::time::Duration;

async fn acting(patience: Duration) -> (Site, Session, Puppet) {
    let (site, puppet) = acting_on(plain(), HttpOptions::default().patience(patience)).await;
    let session = Hello::version("2025-03-26").open(&site).await;
    (site, session, puppet)
}

fn call(id: i64, tool: &str, arguments: Value) -> Value {
    let params = json!({"name": tool, "arguments": arguments, "_meta": {"progressToken": id}});
    request(id, "tools/call", params)
}

/// Notifications and answers, whether they come alone or together.
async fn heard(answer: Answer) -> (Vec<Value>, Vec<Value>) {
    let messages = if answer.is_stream() {
        answer.events().rest().await
    } else {
        vec![serde_json::from_slice(&answer.bytes().await).unwrap()]
    };
    let several = |message: Value| match message.as_array() {
        Some(several) => several.clone(),
        None => vec![message],
    };
    let messages = messages.into_iter().flat_map(several);
    let (mut answers, said): (Vec<_>, Vec<_>) = messages.partition(|m| m.get("id").is_some());
    answers.sort_by_key(|answer| answer["id"].as_i64());
    (said, answers)
}

#[tokio::test]
async fn members_may_be_slow_and_speak() {
    for patience in [Duration::ZERO, Duration::from_secs(3)] {
        let (site, session, mut puppet) = acting(patience).await;
        let batch = json!([
            call(1, "act", json!({})),
            call(2, "walk", json!({"steps": [1, 2]})),
            notification("notifications/initialized", json!({})),
            call(3, "act", json!({})),
            request(4, "ping", json!({})),
        ]);
        let (web, post) = (site.web(), session.post(&batch));
        let open = tokio::spawn(async move { heard(web.send(post).await).await });
        let (one, three) = (puppet.call().await, puppet.call().await);
        one.tell(Act::Progress(5.0));
        three.tell(Act::Return("three"));
        one.tell(Act::Return("one"));
        let (said, answers) = open.await.unwrap();
        let ids: Vec<_> = answers
            .iter()
            .map(|answer| answer["id"].as_i64().unwrap())
            .collect();
        assert_eq!(ids, [1, 2, 3, 4], "{answers:?}");
        let mut texts: Vec<_> = answers[..3].iter().map(text).collect();
        // The two that act began in either order.
        texts.sort_unstable();
        assert_eq!(texts, ["one", "there", "three"]);
        assert_eq!(said.len(), 3, "{said:?}");
    }
}

#[tokio::test]
async fn one_that_is_taken_back_is_left_out_and_the_rest_is_answered() {
    let (site, session, mut puppet) = acting(Duration::from_secs(3)).await;
    let batch = json!([call(1, "act", json!({})), request(2, "ping", json!({}))]);
    let (web, post) = (site.web(), session.post(&batch));
    let open = tokio::spawn(async move { heard(web.send(post).await).await });
    let _call = puppet.call().await;
    session
        .notify("notifications/cancelled", json!({"requestId": 1}))
        .await;
    let (_, answers) = open.await.unwrap();
    let ids: Vec<_> = answers
        .iter()
        .map(|answer| answer["id"].as_i64().unwrap())
        .collect();
    assert_eq!(ids, [2], "{answers:?}");
}

#[tokio::test]
async fn a_batch_of_which_all_is_taken_back_ends() {
    let (site, session, mut puppet) = acting(Duration::from_secs(3)).await;
    let batch = json!([call(1, "act", json!({})), call(2, "act", json!({}))]);
    let (web, post) = (site.web(), session.post(&batch));
    let open = tokio::spawn(async move { web.send(post).await.bytes().await });
    let _calls = (puppet.call().await, puppet.call().await);
    for id in [1, 2] {
        session
            .notify("notifications/cancelled", json!({"requestId": id}))
            .await;
    }
    let body = interlock_testkit::soon("the POST must end", open)
        .await
        .unwrap();
    assert!(
        !String::from_utf8_lossy(&body).contains("\"id\""),
        "{body:?}"
    );
}

#[tokio::test]
async fn an_id_that_is_there_twice_is_answered_for_each() {
    let (site, session, mut puppet) = acting(Duration::from_secs(3)).await;
    let batch = json!([
        call(1, "act", json!({})),
        request(1, "ping", json!({})),
        request(2, "ping", json!({}))
    ]);
    let (web, post) = (site.web(), session.post(&batch));
    let open = tokio::spawn(async move { heard(web.send(post).await).await });
    puppet.call().await.tell(Act::Return("done"));
    let (_, answers) = open.await.unwrap();
    let of_one: Vec<_> = answers.iter().filter(|answer| answer["id"] == 1).collect();
    assert!(
        of_one
            .iter()
            .any(|answer| answer["result"]["content"][0]["text"] == "done"),
        "{answers:?}"
    );
    assert!(
        of_one.iter().all(|answer| answer["result"] != json!({})),
        "the second is not served: {answers:?}"
    );
    assert_eq!(answers.iter().filter(|answer| answer["id"] == 2).count(), 1);
}

#[tokio::test]
async fn a_batch_that_was_left_goes_on_and_can_be_fetched() {
    let (site, session, mut puppet) = acting(Duration::ZERO).await;
    let batch = json!([call(1, "act", json!({})), call(2, "act", json!({}))]);
    let mut events = site.send(session.post(&batch)).await.events();
    let (mut one, two) = (puppet.call().await, puppet.call().await);
    one.make(Act::Progress(1.0)).await;
    events.message().await.unwrap();
    let last = events.last_id().to_owned();
    drop(events);
    one.tell(Act::Return("one"));
    two.tell(Act::Return("two"));
    let answer = session
        .send(session.get().header("last-event-id", &last))
        .await;
    let (_, answers) = heard(answer).await;
    assert_eq!(answers.len(), 2, "{answers:?}");
}

#[tokio::test]
async fn a_batch_too_large_is_refused() {
    let (site, session, _) = acting(Duration::from_secs(3)).await;
    let many: Vec<Value> = (0..20_000)
        .map(|id| request(id, "ping", json!({})))
        .collect();
    let answer = site.send(session.post(&json!(many))).await;
    let body: Value = serde_json::from_slice(&answer.bytes().await).unwrap();
    // Either as a whole, or those beyond what may be in flight.
    let refused = |answer: &Value| answer["error"]["code"].is_i64();
    match body.as_array() {
        Some(answers) => {
            assert_eq!(answers.len(), 20_000);
            assert!(
                answers
                    .iter()
                    .all(|answer| refused(answer) || answer["result"] == json!({}))
            );
        }
        None => assert!(refused(&body), "{body}"),
    }
    is_served(&session).await;
}
