//! Answers that become streams, and streams that are taken up again.

use crate::support::{
    http::{SESSIONS, is_served, modern_call, plain},
    messages::{refusal, text},
    puppet::{Act, Did, Puppet, acting, puppet},
};
use interlock::HttpOptions;
use interlock_testkit::{
    ManualClock,
    web::{Answer, Event, Events, Hello, Item, Request, Session, Site},
};
use serde_json::{Value, json};
use std::{future::Future, sync::Arc, time::Duration};

/// A site whose answers become streams at once, and a tool that does as it is told.
async fn at_once() -> (Site, Puppet) {
    acting(HttpOptions::default().patience(Duration::ZERO)).await
}

/// A call of the puppet with a token for progress.
fn act(session: &Session) -> Request {
    let params = json!({"name": "act", "arguments": {}, "_meta": {"progressToken": "t"}});
    session.ask("tools/call", params)
}

/// The progress in each of these messages.
fn steps(messages: &[Value]) -> Vec<f64> {
    messages
        .iter()
        .map(|message| {
            assert_eq!(message["method"], "notifications/progress", "{message}");
            assert_eq!(message["params"]["progressToken"], "t", "{message}");
            message["params"]["progress"].as_f64().unwrap()
        })
        .collect()
}

/// Lets time pass until something happens.
async fn while_time_passes<T>(clock: &ManualClock, what: impl Future<Output = T>) -> T {
    let mut what = std::pin::pin!(what);
    loop {
        tokio::select! {
            biased;
            done = &mut what => return done,
            () = tokio::task::yield_now() => clock.advance(Duration::from_millis(100)),
        }
    }
}

#[tokio::test]
async fn a_handler_that_speaks_first_makes_a_stream() {
    let (site, _) = acting(HttpOptions::default()).await;
    for version in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let session = Hello::version(version).open(&site).await;
        let params = json!({"name": "walk", "arguments": {"steps": [1, 2, 3]}, "_meta": {"progressToken": "t"}});
        let answer = session.send(session.ask("tools/call", params)).await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("content-type"), Some("text/event-stream"));
        assert_eq!(answer.header("x-accel-buffering"), Some("no"));
        let (before, answer) = answer.exchange().await;
        assert_eq!(steps(&before), [1.0, 2.0, 3.0]);
        assert_eq!(text(&answer), "there");
        // Without a token nothing is said, so nothing is a stream.
        let quiet = session.tool("walk", json!({"steps": [1, 2, 3]}));
        let answer = session.send(quiet).await;
        assert!(!answer.is_stream());
        assert_eq!(text(&answer.json().await), "there");
    }
}

#[tokio::test]
async fn a_call_that_takes_long_becomes_a_stream_when_patience_ends() {
    let clock = Arc::new(ManualClock::new());
    let (tool, mut puppet) = puppet("act");
    let server = plain()
        .tool(tool.timeout(Duration::from_secs(3600)))
        .clock(clock.clone())
        .build()
        .unwrap();
    let site = Site::open(&server, HttpOptions::default()).await;
    let session = Session::open(&site).await;
    for request in [
        session.tool("act", json!({})),
        modern_call(1, "act", json!({})),
    ] {
        let web = site.web();
        let answer = tokio::spawn(async move { web.send(request).await });
        let call = puppet.call().await;
        is_served(&session).await;
        assert!(
            !answer.is_finished(),
            "nothing is said while there is patience"
        );
        let answer = while_time_passes(&clock, answer).await.unwrap();
        assert_eq!(answer.header("x-accel-buffering"), Some("no"));
        let mut events = answer.events();
        call.tell(Act::Return("late"));
        let rest = events.rest().await;
        assert_eq!(rest.len(), 1, "{rest:?}");
        assert_eq!(text(&rest[0]), "late");
    }
}

#[tokio::test]
async fn a_stream_is_primed_on_2025_11_25_and_not_before() {
    let (site, mut puppet) = at_once().await;
    for (version, primed) in [
        ("2025-03-26", false),
        ("2025-06-18", false),
        (SESSIONS, true),
    ] {
        let session = Hello::version(version).open(&site).await;
        let mut events = session.send(act(&session)).await.events();
        let call = puppet.call().await;
        call.tell(Act::Progress(1.0));
        let first = events.event().await.unwrap();
        if primed {
            assert_eq!(first.data.as_deref(), Some(""), "{first:?}");
            assert!(first.id.is_some_and(|id| !id.is_empty()));
            assert_eq!(first.event, None);
            let next = events.message().await.unwrap();
            assert_eq!(steps(&[next]), [1.0]);
        } else {
            let data: Value = serde_json::from_str(&first.data.unwrap()).unwrap();
            assert_eq!(steps(&[data]), [1.0]);
        }
        call.tell(Act::Return("done"));
        assert_eq!(text(&events.message().await.unwrap()), "done");
        assert_eq!(events.message().await, None);
    }
    // 2026-07-28 cannot take streams up again, so there is nothing to prime.
    let params = json!({"name": "act", "arguments": {}, "_meta": {"progressToken": "t"}});
    let request = Request::modern(1, "tools/call", params);
    let mut events = site.send(request).await.events();
    let call = puppet.call().await;
    call.tell(Act::Progress(1.0));
    call.tell(Act::Return("done"));
    while let Some(event) = events.event().await {
        assert_eq!(event.id, None, "{event:?}");
        assert!(!event.data.unwrap().is_empty());
    }
}

#[tokio::test]
async fn event_ids_are_never_the_same_within_a_session() {
    let (site, mut puppet) = at_once().await;
    let session = Session::open(&site).await;
    let mut seen = std::collections::HashSet::new();
    let mut listening = session.listen().await;
    let first = listening.event().await.unwrap();
    assert!(seen.insert(first.id.unwrap()));
    for _ in 0..3 {
        let mut events = session.send(act(&session)).await.events();
        let call = puppet.call().await;
        call.tell(Act::Progress(1.0));
        call.tell(Act::Progress(2.0));
        call.tell(Act::Return("done"));
        while let Some(event) = events.event().await {
            if let Some(id) = event.id {
                assert!(seen.insert(id.clone()), "{id} came twice");
            }
        }
    }
    assert_eq!(seen.len(), 1 + 3 * 4);
}

/// Everything that comes up to the end, with the id of each event.
async fn all(mut events: Events) -> Vec<Event> {
    let mut all = Vec::new();
    while let Some(event) = events.event().await {
        all.push(event);
    }
    all
}

#[tokio::test]
async fn hanging_up_loses_nothing_and_repeats_nothing() {
    let (site, mut puppet) = at_once().await;
    let session = Session::open(&site).await;
    let mut events = session.send(act(&session)).await.events();
    let mut call = puppet.call().await;
    call.make(Act::Progress(1.0)).await;
    call.make(Act::HangUp).await;
    let first = events.message().await.unwrap();
    // The client is told when to come back, and the connection closes.
    let mut told = None;
    while let Some(event) = events.event().await {
        assert!(event.data.unwrap_or_default().is_empty());
        told = told.or(event.retry);
    }
    assert!(told.is_some(), "a client is told how long to wait");
    // What is said while nobody listens is kept.
    call.make(Act::Progress(2.0)).await;
    let mut events = session.resume(events.last_id()).await;
    let second = events.message().await.unwrap();
    call.make(Act::Progress(3.0)).await;
    let third = events.message().await.unwrap();
    assert_eq!(steps(&[first, second, third]), [1.0, 2.0, 3.0]);
    // And again, this time after the end.
    call.make(Act::HangUp).await;
    assert_eq!(events.message().await, None);
    call.tell(Act::Return("done"));
    let mut events = session.resume(events.last_id()).await;
    assert_eq!(text(&events.message().await.unwrap()), "done");
    assert_eq!(events.message().await, None);
}

#[tokio::test]
async fn a_stream_can_be_taken_up_after_each_of_its_events() {
    let (site, mut puppet) = at_once().await;
    let session = Session::open(&site).await;
    let events = session.send(act(&session)).await.events();
    let mut call = puppet.call().await;
    for step in [1.0, 2.0, 3.0] {
        call.make(Act::Progress(step)).await;
    }
    call.tell(Act::Return("done"));
    let whole = all(events).await;
    let ids: Vec<_> = whole
        .iter()
        .map(|event| event.id.clone().unwrap())
        .collect();
    for (at, id) in ids.iter().enumerate() {
        let answer = session
            .send(session.get().header("last-event-id", id))
            .await;
        let last = at + 1 == ids.len();
        if last && answer.status != 200 {
            // There is nothing left to take up, and a session is not what has ended.
            assert_ne!(answer.status, 404);
            continue;
        }
        let again: Vec<_> = all(answer.events())
            .await
            .into_iter()
            .filter(|event| event.data.as_deref().is_some_and(|data| !data.is_empty()))
            .collect();
        let expected: Vec<_> = whole[at + 1..]
            .iter()
            .map(|event| (event.id.clone(), event.data.clone()))
            .collect();
        let got: Vec<_> = again
            .into_iter()
            .map(|event| (event.id, event.data))
            .collect();
        assert_eq!(got, expected, "after {id}");
    }
}

#[tokio::test]
async fn a_client_that_disconnects_cancels_nothing_and_can_fetch_its_result() {
    let (site, mut puppet) = at_once().await;
    for version in ["2025-11-25"] {
        let session = Hello::version(version).open(&site).await;
        let mut events = session.send(act(&session)).await.events();
        let mut call = puppet.call().await;
        call.make(Act::Progress(1.0)).await;
        assert_eq!(steps(&[events.message().await.unwrap()]), [1.0]);
        let last = events.last_id().to_owned();
        drop(events);
        // Until the server has noticed, what it writes goes nowhere: it must not count as heard.
        for step in [2.0, 3.0, 4.0] {
            assert_eq!(call.make(Act::Progress(step)).await, Did::Act);
            is_served(&session).await;
        }
        call.tell(Act::Return("done"));
        let mut messages = session.resume(&last).await.rest().await;
        assert_eq!(text(&messages.pop().unwrap()), "done");
        assert_eq!(steps(&messages), [2.0, 3.0, 4.0]);
    }
}

#[tokio::test]
async fn older_versions_can_take_streams_up_as_well() {
    let (site, mut puppet) = at_once().await;
    for version in ["2025-03-26", "2025-06-18"] {
        let session = Hello::version(version).open(&site).await;
        let mut events = session.send(act(&session)).await.events();
        let mut call = puppet.call().await;
        call.make(Act::Progress(1.0)).await;
        assert_eq!(steps(&[events.message().await.unwrap()]), [1.0]);
        let last = events.last_id().to_owned();
        drop(events);
        call.make(Act::Progress(2.0)).await;
        call.tell(Act::Return("done"));
        let mut messages = session.resume(&last).await.rest().await;
        assert_eq!(text(&messages.pop().unwrap()), "done");
        assert_eq!(steps(&messages), [2.0]);
    }
}

#[tokio::test]
async fn hanging_up_means_nothing_to_older_versions() {
    let (site, mut puppet) = at_once().await;
    for version in ["2025-03-26", "2025-06-18"] {
        let session = Hello::version(version).open(&site).await;
        let answer = session.send(act(&session)).await;
        let mut call = puppet.call().await;
        call.make(Act::HangUp).await;
        call.make(Act::Progress(1.0)).await;
        call.tell(Act::Return("done"));
        let (before, answer) = answer.exchange().await;
        assert_eq!(steps(&before), [1.0], "{version}");
        assert_eq!(text(&answer), "done");
    }
}

#[tokio::test]
async fn a_client_that_disconnects_before_anything_is_said_cancels_nothing() {
    let (site, mut puppet) = acting(HttpOptions::default()).await;
    let session = Session::open(&site).await;
    let (web, request) = (site.web(), session.tool("act", json!({})));
    let waiting = tokio::spawn(async move { web.send(request).await });
    let mut call = puppet.call().await;
    waiting.abort();
    assert!(waiting.await.is_err());
    for _ in 0..10 {
        is_served(&session).await;
        assert_eq!(call.make(Act::Progress(1.0)).await, Did::Act);
    }
}

#[tokio::test]
async fn a_2026_07_28_client_that_disconnects_cancels_its_request() {
    // Before anything is said, and after.
    let (site, mut puppet) = acting(HttpOptions::default()).await;
    for speak in [false, true] {
        let params = json!({"name": "act", "arguments": {}, "_meta": {"progressToken": "t"}});
        let (web, request) = (site.web(), Request::modern(1, "tools/call", params));
        let waiting = tokio::spawn(async move { web.send(request).await });
        let mut call = puppet.call().await;
        if speak {
            call.make(Act::Progress(1.0)).await;
            let mut events = waiting.await.unwrap().events();
            assert_eq!(steps(&[events.message().await.unwrap()]), [1.0]);
            drop(events);
        } else {
            waiting.abort();
        }
        assert_eq!(call.did().await, Did::Stopped, "after speaking: {speak}");
    }
}

#[tokio::test]
async fn the_newest_connection_of_a_stream_gets_what_comes_and_the_older_ends() {
    let (site, mut puppet) = at_once().await;
    let session = Session::open(&site).await;
    let mut first = session.send(act(&session)).await.events();
    let mut call = puppet.call().await;
    first.event().await.unwrap();
    let primed = first.last_id().to_owned();
    let mut second = session.resume(&primed).await;
    call.make(Act::Progress(1.0)).await;
    call.tell(Act::Return("done"));
    let (old, new) = (first.rest().await, second.rest().await);
    let answers = |messages: &[Value]| {
        messages
            .iter()
            .filter(|m| m.get("result").is_some())
            .count()
    };
    assert_eq!((answers(&old), answers(&new)), (0, 1), "{old:?} {new:?}");
    assert_eq!(old.len() + new.len(), 2, "{old:?} {new:?}");
}

#[tokio::test]
async fn a_last_event_id_that_is_none_of_the_session_is_refused_and_ends_no_session() {
    let (site, mut puppet) = at_once().await;
    let (mine, other) = (Session::open(&site).await, Session::open(&site).await);
    let mut events = other.send(act(&other)).await.events();
    let call = puppet.call().await;
    call.tell(Act::Progress(1.0));
    call.tell(Act::Return("secret"));
    let mut ids = vec![];
    while let Some(event) = events.event().await {
        ids.extend(event.id);
    }
    ids.extend(
        [
            "",
            "x",
            "0",
            "1",
            "0-0",
            "-1",
            "99999999999999999999",
            "1-1",
            "ünï",
        ]
        .map(str::to_owned),
    );
    for id in ids {
        let answer = mine.send(mine.get().header("last-event-id", &id)).await;
        assert_ne!(answer.status, 404, "{id}");
        if answer.status == 200 {
            // A fresh stream would do; another's messages would not.
            drop_if_quiet(&mine, answer).await;
        } else {
            assert_eq!(answer.status, 400, "{id}");
        }
        is_served(&mine).await;
    }
}

/// Proves that a stream holds nothing: the session is not ended, yet another stream takes over.
async fn drop_if_quiet(session: &Session, answer: Answer) {
    let mut events = answer.events();
    let item = events.item().await;
    let empty = |data: Option<&str>| data.is_none_or(str::is_empty);
    match item {
        Some(Item::Event(event)) => assert!(empty(event.data.as_deref()), "{event:?}"),
        Some(Item::Comment(_)) | None => {}
    }
    let _ = session;
}

#[tokio::test]
async fn a_stream_gives_back_its_own_messages_and_no_others() {
    let (site, mut puppet) = at_once().await;
    let session = Session::open(&site).await;
    let mut one = session.send(act(&session)).await.events();
    let call_one = puppet.call().await;
    let mut two = session.send(act(&session)).await.events();
    let call_two = puppet.call().await;
    one.event().await.unwrap();
    two.event().await.unwrap();
    let (primed_one, primed_two) = (one.last_id().to_owned(), two.last_id().to_owned());
    drop((one, two));
    for step in [1.0, 2.0] {
        call_one.tell(Act::Progress(step));
        call_two.tell(Act::Progress(step * 10.0));
    }
    call_one.tell(Act::Return("one"));
    call_two.tell(Act::Return("two"));
    for (primed, expected, said) in [
        (primed_one, [1.0, 2.0], "one"),
        (primed_two, [10.0, 20.0], "two"),
    ] {
        let mut messages = session.resume(&primed).await.rest().await;
        assert_eq!(text(&messages.pop().unwrap()), said);
        assert_eq!(steps(&messages), expected);
    }
}

#[tokio::test]
async fn a_stream_says_that_it_is_alive() {
    let options = HttpOptions::default().patience(Duration::ZERO);
    let (site, mut puppet) = acting(options.keep_alive(Duration::from_millis(5))).await;
    let session = Session::open(&site).await;
    let mut listening = session.listen().await;
    let mut calling = session.send(act(&session)).await.events();
    let call = puppet.call().await;
    for events in [&mut listening, &mut calling] {
        events.event().await.unwrap();
        for _ in 0..2 {
            let item = events.item().await;
            assert!(matches!(item, Some(Item::Comment(_))), "{item:?}");
        }
    }
    call.tell(Act::Return("done"));
    assert_eq!(text(&calling.message().await.unwrap()), "done");
}

#[tokio::test]
async fn a_panic_on_a_stream_is_an_answer_and_the_session_lives() {
    let (site, mut puppet) = at_once().await;
    let session = Session::open(&site).await;
    for request in [act(&session), modern_call(1, "act", json!({}))] {
        let answer = site.send(request).await;
        let call = puppet.call().await;
        call.tell(Act::Panic);
        let answer = answer.message().await;
        assert_eq!(answer["result"]["isError"], true, "{answer}");
        is_served(&session).await;
    }
}

#[tokio::test]
async fn a_deadline_on_a_stream_is_1069() {
    let clock = Arc::new(ManualClock::new());
    let (tool, mut puppet) = puppet("act");
    let server = plain().tool(tool).clock(clock.clone()).build().unwrap();
    let site = Site::open(&server, HttpOptions::default()).await;
    let session = Session::open(&site).await;
    for request in [
        session.tool("act", json!({})),
        modern_call(1, "act", json!({})),
    ] {
        let web = site.web();
        let answer = tokio::spawn(async move { web.send(request).await.message().await });
        let _call = puppet.call().await;
        let answer = while_time_passes(&clock, answer).await.unwrap();
        assert_eq!(refusal(&answer["result"]), 1069, "{answer}");
    }
}

#[tokio::test]
async fn an_idle_listener_is_closed_and_may_come_back() {
    let clock = Arc::new(ManualClock::new());
    let server = plain().clock(clock.clone()).build().unwrap();
    let site = Site::open(&server, HttpOptions::default()).await;
    let session = Session::open(&site).await;
    session
        .request("resources/subscribe", json!({"uri": "note://rules"}))
        .await;
    let mut events = session.listen().await;
    let mut retry = None;
    while let Some(event) = while_time_passes(&clock, events.event()).await {
        retry = retry.or(event.retry);
    }
    assert!(retry.is_some(), "a client is told how long to wait");
    server.resource_updated("note://rules");
    let message = session
        .resume(events.last_id())
        .await
        .message()
        .await
        .unwrap();
    assert_eq!(message["params"]["uri"], "note://rules");
}
