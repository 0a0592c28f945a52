//! What a server says by itself: to whom it goes, on which stream, and how often.

use crate::support::{
    desk::{desk, desk_with},
    http::{is_served, plain, plain_site},
    messages::{codes, notification, request, text},
    puppet::{Act, Did, Puppet, acting},
    tools::tool,
};
use interlock::{
    BearerTokens, HttpOptions, Resource, Server,
    workflow::{Scope, Settings},
};
use interlock_testkit::web::{Events, Hello, Session, Site};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Everything that still comes on a stream whose session is ended.
async fn rest(events: &mut Events) -> Vec<Value> {
    events.rest().await
}

fn uris(messages: &[Value]) -> Vec<&str> {
    messages
        .iter()
        .map(|message| {
            assert_eq!(
                message["method"], "notifications/resources/updated",
                "{message}"
            );
            message["params"]["uri"].as_str().unwrap()
        })
        .collect()
}

async fn subscribe(session: &Session, uri: &str) {
    let answer = session
        .request("resources/subscribe", json!({"uri": uri}))
        .await;
    assert_eq!(answer["result"], json!({}), "{answer}");
}

#[tokio::test]
async fn a_listener_is_a_stream_that_nobody_buffers() {
    let site = plain_site().await;
    for version in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let session = Hello::version(version).open(&site).await;
        let answer = session.send(session.get()).await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("content-type"), Some("text/event-stream"));
        assert_eq!(answer.header("x-accel-buffering"), Some("no"));
    }
}

#[tokio::test]
async fn a_listener_hears_of_what_it_subscribed_to_and_nothing_else() {
    let server = plain().build().unwrap();
    let site = Site::open(&server, HttpOptions::default()).await;
    let (one, two) = (Session::open(&site).await, Session::open(&site).await);
    subscribe(&one, "note://rules").await;
    subscribe(&two, "note://plan").await;
    let (mut hears_one, mut hears_two) = (one.listen().await, two.listen().await);
    for uri in [
        "note://rules",
        "note://plan",
        "note://nowhere",
        "note://rules",
    ] {
        server.resource_updated(uri);
    }
    let (first_one, first_two) = (hears_one.message().await, hears_two.message().await);
    assert_eq!(uris(&[first_one.unwrap()]), ["note://rules"]);
    assert_eq!(uris(&[first_two.unwrap()]), ["note://plan"]);
    let answer = one
        .request("resources/unsubscribe", json!({"uri": "note://rules"}))
        .await;
    assert_eq!(answer["result"], json!({}));
    server.resource_updated("note://rules");
    subscribe(&one, "note://plan").await;
    server.resource_updated("note://plan");
    site.send(one.delete()).await;
    site.send(two.delete()).await;
    let (heard_one, heard_two) = (rest(&mut hears_one).await, rest(&mut hears_two).await);
    // What nobody has read yet is told once, and not at all to whoever no longer wants to know.
    assert!(["note://plan", "note://rules note://plan"].contains(&&*uris(&heard_one).join(" ")));
    assert_eq!(uris(&heard_two), ["note://plan"]);
}

#[tokio::test]
async fn what_is_said_before_anybody_listens_is_not_lost() {
    let server = plain().build().unwrap();
    let site = Site::open(&server, HttpOptions::default()).await;
    let session = Session::open(&site).await;
    subscribe(&session, "note://rules").await;
    server.resource_updated("note://rules");
    let mut events = session.listen().await;
    let message = events.message().await.unwrap();
    assert_eq!(uris(&[message]), ["note://rules"]);
    // Nor what is said while a listener is away.
    let last = events.last_id().to_owned();
    drop(events);
    server.resource_updated("note://rules");
    server.resource_updated("note://rules");
    let mut events = session.resume(&last).await;
    let message = events.message().await.unwrap();
    assert_eq!(uris(&[message]), ["note://rules"]);
    site.send(session.delete()).await;
    assert_eq!(rest(&mut events).await, [] as [Value; 0]);
}

#[tokio::test]
async fn each_message_goes_to_one_of_the_streams_of_a_session() {
    let names: Vec<String> = (0..40).map(|n| format!("note://{n}")).collect();
    let server = names
        .iter()
        .fold(Server::builder("many", "1"), |server, name| {
            server.resource(Resource::text(name.as_str(), "text"))
        });
    let server = server.build().unwrap();
    let site = Site::open(&server, HttpOptions::default()).await;
    let session = Session::open(&site).await;
    for name in &names {
        subscribe(&session, name).await;
    }
    let mut streams = vec![session.listen().await];
    for (at, name) in names.iter().enumerate() {
        server.resource_updated(name);
        if at % 10 == 5 {
            streams.push(session.listen().await);
        }
    }
    site.send(session.delete()).await;
    let mut heard = Vec::new();
    for events in &mut streams {
        heard.extend(rest(events).await);
    }
    let all: BTreeSet<_> = uris(&heard).into_iter().collect();
    assert_eq!(heard.len(), names.len(), "each came once: {heard:?}");
    assert_eq!(all.len(), names.len());
}

#[tokio::test]
async fn the_caller_hears_of_its_step_on_its_own_stream_and_before_the_result() {
    let server = desk(tool("work")).build().unwrap();
    let site = Site::open(&server, HttpOptions::default()).await;
    let session = Session::open(&site).await;
    assert_eq!(session.hello["capabilities"]["tools"]["listChanged"], true);
    let mut listening = session.listen().await;
    let (before, answer) = session
        .send(session.tool("work", json!({})))
        .await
        .exchange()
        .await;
    let methods: BTreeSet<_> = before
        .iter()
        .map(|m| m["method"].as_str().unwrap())
        .collect();
    assert!(
        methods.contains("notifications/tools/list_changed"),
        "{before:?}"
    );
    assert_eq!(methods.len(), before.len(), "each is said once: {before:?}");
    assert_eq!(text(&answer), "work is done");
    let tools = session.request("tools/list", json!({})).await;
    let names: BTreeSet<_> = tools["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|t| t["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, BTreeSet::from(["close", "search"]));
    site.send(session.delete()).await;
    assert_eq!(
        rest(&mut listening).await,
        [] as [Value; 0],
        "not a second time"
    );
}

#[tokio::test]
async fn a_step_of_a_shared_instance_is_told_to_every_other_session_once() {
    let settings = Settings {
        scope: Scope::Global,
        ..Settings::default()
    };
    let server = desk_with(settings, tool("work")).build().unwrap();
    let site = Site::open(&server, HttpOptions::default()).await;
    let (walker, watcher) = (Session::open(&site).await, Session::open(&site).await);
    let mut streams = [watcher.listen().await, watcher.listen().await];
    walker.call("work", json!({})).await;
    walker.call("close", json!({})).await;
    site.send(watcher.delete()).await;
    let mut heard = Vec::new();
    for events in &mut streams {
        heard.extend(rest(events).await);
    }
    let of_tools = heard
        .iter()
        .filter(|m| m["method"] == "notifications/tools/list_changed");
    assert_eq!(of_tools.count(), 2, "{heard:?}");
}

#[tokio::test]
async fn subscribing_to_what_is_not_there_is_refused() {
    let site = plain_site().await;
    let session = Session::open(&site).await;
    let answer = session
        .request("resources/subscribe", json!({"uri": "note://nowhere"}))
        .await;
    assert_eq!(codes(&answer), (-32002, 1046), "{answer}");
    // What was never begun can be ended.
    let answer = session
        .request("resources/unsubscribe", json!({"uri": "note://rules"}))
        .await;
    assert!(
        answer.get("result").is_some() || answer["error"]["code"] == -32602,
        "{answer}"
    );
}

async fn asking(capabilities: Value) -> (Site, Session, Puppet) {
    let (site, puppet) = acting(HttpOptions::default()).await;
    let session = Hello::version("2025-11-25")
        .capabilities(capabilities)
        .open(&site)
        .await;
    (site, session, puppet)
}

#[tokio::test]
async fn a_question_goes_out_on_the_callers_stream_and_its_answer_comes_in_a_post() {
    let (site, session, mut puppet) = asking(json!({"elicitation": {}, "roots": {}})).await;
    let mut listening = session.listen().await;
    let (web, request) = (site.web(), session.tool("act", json!({})));
    let answer = tokio::spawn(async move { web.send(request).await });
    let mut call = puppet.call().await;
    call.tell(Act::Age);
    let mut events = answer.await.unwrap().events();
    let question = events.message().await.unwrap();
    assert_eq!(question["method"], "elicitation/create");
    assert_eq!(question["params"]["mode"], "form");
    assert_eq!(
        question["params"]["requestedSchema"]["required"],
        json!(["age"])
    );
    let id = question["id"].clone();
    session.tell(&json!({"jsonrpc": "2.0", "id": id, "result": {"action": "accept", "content": {"age": 7}}})).await;
    let asked = call.did().await;
    assert_eq!(
        format!("{asked:?}"),
        r#"Asked(Ok("Some(Object {\"age\": Number(7)})"))"#
    );
    // A second answer to it means nothing.
    session
        .tell(&json!({"jsonrpc": "2.0", "id": id, "result": {"action": "decline"}}))
        .await;
    call.tell(Act::Roots);
    let question = events.message().await.unwrap();
    assert_eq!(question["method"], "roots/list");
    assert_ne!(question["id"], id, "each question has an id of its own");
    let roots = json!({"roots": [{"uri": "file:///a"}, {"uri": "file:///b"}]});
    session
        .tell(&json!({"jsonrpc": "2.0", "id": question["id"], "result": roots}))
        .await;
    assert_eq!(call.did().await, Did::Asked(Ok("2".into())));
    call.tell(Act::Return("done"));
    assert_eq!(text(&events.message().await.unwrap()), "done");
    site.send(session.delete()).await;
    assert_eq!(rest(&mut listening).await, [] as [Value; 0]);
}

#[tokio::test]
async fn an_answer_that_is_an_error_or_is_not_valid_reaches_the_handler_as_such() {
    let (site, session, mut puppet) = asking(json!({"elicitation": {}})).await;
    for answer in [
        json!({"error": {"code": -1, "message": "no such user"}}),
        json!({"result": {"action": "accept", "content": {"age": "seven"}}}),
        json!({"result": {"action": "perhaps"}}),
        json!({"result": 5}),
    ] {
        let (web, request) = (site.web(), session.tool("act", json!({})));
        let open = tokio::spawn(async move { web.send(request).await });
        let mut call = puppet.call().await;
        call.tell(Act::Age);
        let mut events = open.await.unwrap().events();
        let question = events.message().await.unwrap();
        let mut message = json!({"jsonrpc": "2.0", "id": question["id"]});
        for (name, value) in answer.as_object().unwrap() {
            message[name] = value.clone();
        }
        let posted = session.send(session.post(&message)).await;
        assert!([202, 400].contains(&posted.status), "{message}");
        if posted.status == 202 {
            let asked = call.did().await;
            assert!(matches!(asked, Did::Asked(Err(_))), "{answer} {asked:?}");
        }
        call.tell(Act::Return("done"));
        if posted.status == 202 {
            assert_eq!(text(&events.message().await.unwrap()), "done");
        }
    }
}

#[tokio::test]
async fn an_answer_from_another_session_settles_nothing() {
    let (site, session, mut puppet) = asking(json!({"elicitation": {}})).await;
    let stranger = Session::open(&site).await;
    let (web, request) = (site.web(), session.tool("act", json!({})));
    let open = tokio::spawn(async move { web.send(request).await });
    let mut call = puppet.call().await;
    call.tell(Act::Age);
    let mut events = open.await.unwrap().events();
    let question = events.message().await.unwrap();
    let answer = |age: i64| json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {"age": age}}});
    let posted = stranger.send(stranger.post(&answer(99))).await;
    assert!([202, 400].contains(&posted.status));
    is_served(&stranger).await;
    session.tell(&answer(7)).await;
    let asked = format!("{:?}", call.did().await);
    assert!(asked.contains("Number(7)"), "{asked}");
}

#[tokio::test]
async fn a_client_that_cannot_be_asked_is_not_asked() {
    for capabilities in [
        json!({}),
        json!({"roots": {}}),
        json!({"elicitation": {"url": {}}}),
    ] {
        let (site, session, _) = asking(capabilities).await;
        let mut listening = session.listen().await;
        let (before, answer) = session
            .send(session.tool("ask_age", json!({})))
            .await
            .exchange()
            .await;
        assert_eq!(before, [] as [Value; 0]);
        assert!(
            answer["result"]["isError"] == true || answer["error"].is_object(),
            "{answer}"
        );
        site.send(session.delete()).await;
        assert_eq!(rest(&mut listening).await, [] as [Value; 0]);
    }
}

#[tokio::test]
async fn a_question_is_taken_back_with_its_call() {
    let (site, session, mut puppet) = asking(json!({"elicitation": {}})).await;
    let message = request("mine", "tools/call", json!({"name": "act"}));
    let (web, request) = (site.web(), session.post(&message));
    let open = tokio::spawn(async move { web.send(request).await });
    let call = puppet.call().await;
    call.tell(Act::Age);
    let mut events = open.await.unwrap().events();
    let question = events.message().await.unwrap();
    session
        .tell(&notification(
            "notifications/cancelled",
            json!({"requestId": "mine"}),
        ))
        .await;
    let rest = rest(&mut events).await;
    for message in &rest {
        assert_eq!(message["method"], "notifications/cancelled", "{rest:?}");
        assert_eq!(message["params"]["requestId"], question["id"], "{rest:?}");
    }
    // Answering it now does no harm.
    session
        .tell(&json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "cancel"}}))
        .await;
    is_served(&session).await;
}

#[tokio::test]
async fn the_session_of_another_principal_does_not_exist() {
    let tokens = BearerTokens::new()
        .token("secret-of-alice", "alice")
        .token("secret-of-bob", "bob");
    let server = plain().build().unwrap();
    let site = Site::open(&server, HttpOptions::default().authenticator(tokens)).await;
    let alice = Hello::version("2025-11-25")
        .token("secret-of-alice")
        .open(&site)
        .await;
    subscribe(&alice, "note://rules").await;
    let mut events = alice.listen().await;
    server.resource_updated("note://rules");
    events.message().await.unwrap();
    let last = events.last_id().to_owned();
    for request in [
        alice.ask("ping", json!({})),
        alice.ask("tools/list", json!({})),
        alice.post(&notification(
            "notifications/cancelled",
            json!({"requestId": 1}),
        )),
        alice.post(&json!({"jsonrpc": "2.0", "id": 1, "result": {}})),
        alice.get(),
        alice.get().header("last-event-id", &last),
        alice.delete(),
    ] {
        let answer = site.send(request.token("secret-of-bob")).await;
        assert_eq!(answer.status, 404);
    }
    // And it goes on as if nothing had been.
    server.resource_updated("note://rules");
    assert_eq!(uris(&[events.message().await.unwrap()]), ["note://rules"]);
    is_served(&alice).await;
    let made_up = alice
        .ask("ping", json!({}))
        .token("secret-of-bob")
        .header("mcp-session-id", "made-up");
    let theirs = alice.ask("ping", json!({})).token("secret-of-bob");
    let (made_up, theirs) = (
        site.send(made_up).await.json().await,
        site.send(theirs).await.json().await,
    );
    assert_eq!(made_up["error"], theirs["error"], "nobody learns which");
}
