//! Sessions that outlive the server that made them.

use crate::support::{
    desk::desk_with,
    http::{ALICE, BOB, SESSIONS, authenticated, plain},
    messages::{hello, refusal, request},
    tools::{count, tool},
};
use interlock::{Builder, store::MemoryStore, workflow::Settings};
use interlock_testkit::{
    ManualClock,
    web::{Hello, Request, Session, Site, Web},
};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

/// Two servers one after the other, with one store.
struct Houses {
    store: Arc<MemoryStore>,
    clock: Arc<ManualClock>,
    build: fn() -> Builder,
}

impl Houses {
    fn new(build: fn() -> Builder) -> Self {
        Self {
            store: Arc::default(),
            clock: Arc::default(),
            build,
        }
    }

    async fn open(&self) -> Site {
        let builder = (self.build)()
            .store(self.store.clone())
            .clock(self.clock.clone());
        Site::open(&builder.build().unwrap(), authenticated()).await
    }
}

async fn close(mut site: Site) {
    site.drain();
    site.ended().await;
}

/// A request of this session, sent somewhere else.
async fn sent(web: Web, request: Request) -> (u16, Value) {
    let answer = web.send(request).await;
    (answer.status, answer.message().await)
}

fn plain_with_count() -> Builder {
    plain().tool(count())
}

fn flow() -> Builder {
    desk_with(Settings::default(), tool("work"))
}

async fn alice(site: &Site) -> Session {
    Hello::version(SESSIONS).token(ALICE).open(site).await
}

#[tokio::test]
async fn a_session_goes_on_at_the_next_server() {
    let houses = Houses::new(plain_with_count);
    let first = houses.open().await;
    let session = alice(&first).await;
    session.call("count", json!({})).await;
    close(first).await;
    let second = houses.open().await;
    let (status, answer) = sent(second.web(), session.tool("count", json!({}))).await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!(answer["result"]["content"][0]["text"], "2", "{answer}");
    let again = session.ask("initialize", hello(SESSIONS));
    let (_, answer) = sent(second.web(), again).await;
    assert!(answer["error"].is_object(), "{answer}");
}

#[tokio::test]
async fn it_stands_where_it_stood() {
    let houses = Houses::new(flow);
    let first = houses.open().await;
    let session = alice(&first).await;
    session.call("work", json!({})).await;
    close(first).await;
    let second = houses.open().await;
    let (_, answer) = sent(second.web(), session.tool("nowhere", json!({}))).await;
    assert_eq!(
        answer["result"]["_meta"]["dev.interlock/refusal"]["state"], "done",
        "{answer}"
    );
    let (_, answer) = sent(second.web(), session.tool("work", json!({}))).await;
    assert_eq!(refusal(&answer["result"]), 1081, "{answer}");
}

#[tokio::test]
async fn it_is_still_its_principals() {
    let houses = Houses::new(plain_with_count);
    let first = houses.open().await;
    let session = alice(&first).await;
    session.call("count", json!({})).await;
    close(first).await;
    let second = houses.open().await;
    for request in [
        session.ask("ping", json!({})),
        session.get(),
        session.delete(),
    ] {
        let status = second.send(request.token(BOB)).await.status;
        assert_eq!(status, 404);
    }
    let (status, _) = sent(second.web(), session.ask("ping", json!({}))).await;
    assert_eq!(status, 200);
}

#[tokio::test]
async fn one_that_has_ended_has_ended_everywhere() {
    let houses = Houses::new(plain_with_count);
    let first = houses.open().await;
    let (ended, expired) = (alice(&first).await, alice(&first).await);
    for session in [&ended, &expired] {
        session.call("count", json!({})).await;
    }
    first.send(ended.delete()).await;
    close(first).await;
    let second = houses.open().await;
    assert_eq!(second.send(ended.ask("ping", json!({}))).await.status, 404);
    houses.clock.advance(Duration::from_secs(25 * 60 * 60));
    assert_eq!(
        second.send(expired.ask("ping", json!({}))).await.status,
        404
    );
}

#[tokio::test]
async fn event_ids_of_before_mean_nothing_and_end_no_session() {
    let houses = Houses::new(plain_with_count);
    let first = houses.open().await;
    let session = alice(&first).await;
    let walk =
        json!({"name": "walk", "arguments": {"steps": [1, 2]}, "_meta": {"progressToken": 1}});
    let call = || session.post(&request(session.fresh_id(), "tools/call", walk.clone()));
    let mut events = first.send(call()).await.events();
    let mut ids = Vec::new();
    while let Some(event) = events.event().await {
        ids.extend(event.id);
    }
    close(first).await;
    let second = houses.open().await;
    let mut events = second.send(call()).await.events();
    while let Some(event) = events.event().await {
        assert!(
            !ids.contains(event.id.as_ref().unwrap()),
            "{event:?} came before"
        );
    }
    for id in ids {
        let status = second
            .send(session.get().header("last-event-id", &id))
            .await
            .status;
        assert!([200, 400].contains(&status), "{id} {status}");
    }
}

/// The first server has written down only that there is a session, as if it had crashed.
#[tokio::test]
async fn no_id_of_before_a_crash_names_another_stream_or_another_question() {
    let houses = Houses::new(plain_with_count);
    let (first, second) = (houses.open().await, houses.open().await);
    let session = Hello::version(SESSIONS)
        .capabilities(json!({"elicitation": {}}))
        .token(ALICE)
        .open(&first)
        .await;
    // It is written down that the client is ready.
    session.call("count", json!({})).await;
    let mut asked = Vec::new();
    for site in [&first, &second] {
        let mut events = site.send(session.tool("ask_age", json!({}))).await.events();
        let question = events.message().await.unwrap();
        assert_eq!(question["method"], "elicitation/create");
        asked.push((question["id"].clone(), events.last_id().to_owned(), events));
    }
    let [(old, old_event, _), (new, new_event, _open)] = &asked[..] else {
        panic!("there are two");
    };
    assert_ne!(old, new);
    assert_ne!(old_event, new_event);
    let resumed = session.get().header("last-event-id", old_event);
    assert_eq!(second.send(resumed).await.status, 400);
    let resumed = session.get().header("last-event-id", new_event);
    assert_eq!(second.send(resumed).await.status, 200);
}

#[tokio::test]
async fn a_session_of_before_counts_among_those_of_the_next_server() {
    let houses = Houses::new(plain_with_count);
    let first = houses.open().await;
    let session = alice(&first).await;
    session.call("count", json!({})).await;
    close(first).await;
    let builder = plain_with_count().store(houses.store.clone());
    let server = builder.clock(houses.clock.clone()).build().unwrap();
    let second = Site::open(&server, authenticated().sessions(1)).await;
    let (status, _) = sent(second.web(), session.ask("ping", json!({}))).await;
    assert_eq!(status, 200);
    let hello = || Hello::version(SESSIONS).token(ALICE).request();
    let (_, refused) = sent(second.web(), hello()).await;
    assert_eq!(
        refused["error"]["data"]["refusal"]["code"], 1060,
        "{refused}"
    );
    second.send(session.delete()).await;
    assert_eq!(second.send(hello()).await.status, 200);
}

#[tokio::test]
async fn a_store_that_nobody_shares_makes_other_sessions() {
    let (one, two) = (Houses::new(plain_with_count), Houses::new(plain_with_count));
    let first = one.open().await;
    let session = alice(&first).await;
    session.call("count", json!({})).await;
    let second = two.open().await;
    assert_eq!(
        second.send(session.ask("ping", json!({}))).await.status,
        404
    );
}
