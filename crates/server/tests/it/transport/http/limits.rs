//! How much a client may have over HTTP, and what it is told when it wants more.

use crate::support::{
    http::{ALICE, BOB, SESSIONS, is_served, modern_call, plain, tokens, verdict},
    messages::text,
    puppet::{Act, Did, acting, begin_all},
};
use interlock::{HttpOptions, Rates};
use interlock_proto::session;
use interlock_testkit::{
    ManualClock, soon,
    web::{Hello, Request, Session, Site},
};
use serde_json::json;
use std::{num::NonZeroU32, sync::Arc, time::Duration};

#[tokio::test]
async fn there_are_so_many_sessions_and_no_more() {
    let options = HttpOptions::default()
        .sessions(3)
        .sessions_per_principal(2)
        .authenticator(tokens());
    let site = Site::open(&plain().build().unwrap(), options).await;
    let open = |token: &'static str| Hello::version(SESSIONS).token(token);
    let refused = async |token: &'static str| {
        let answer = site.send(open(token).request()).await;
        assert_eq!(answer.header("mcp-session-id"), None);
        let (status, _, refusal) = verdict(answer).await;
        assert_eq!(refusal, Some(1060));
        assert!([200, 429, 503].contains(&status), "{status}");
    };
    let first = open(ALICE).open(&site).await;
    let second = open(ALICE).open(&site).await;
    refused(ALICE).await;
    let third = open(BOB).open(&site).await;
    refused(BOB).await;
    // Those who are in are served, and 2026-07-28 needs no session.
    is_served(&second).await;
    let answer = site
        .send(Request::modern(1, "server/discover", json!({})).token(BOB))
        .await;
    assert_eq!(answer.status, 200);
    // Somebody else cannot make room.
    site.send(first.delete().token(BOB)).await;
    refused(ALICE).await;
    site.send(first.delete()).await;
    let fourth = open(ALICE).open(&site).await;
    refused(BOB).await;
    is_served(&third).await;
    is_served(&fourth).await;
}

#[tokio::test]
async fn sessions_that_end_by_themselves_make_room() {
    let clock = Arc::new(ManualClock::new());
    let server = plain().clock(clock.clone()).build().unwrap();
    let site = Site::open(&server, HttpOptions::default().sessions(1)).await;
    let _one = Session::open(&site).await;
    let refused = site.send(Hello::version(SESSIONS).request()).await;
    assert_eq!(verdict(refused).await.2, Some(1060));
    clock.advance(Duration::from_secs(25 * 60 * 60));
    let two = soon("there must be room", async {
        loop {
            let answer = site.send(Hello::version(SESSIONS).request()).await;
            if answer.status == 200 && answer.header("mcp-session-id").is_some() {
                return;
            }
            // The clocks are looked at now and then.
            clock.advance(Duration::from_secs(1));
        }
    });
    two.await;
}

#[tokio::test]
async fn so_many_requests_may_be_in_flight_and_no_more() {
    let (site, mut puppet) = acting(HttpOptions::default().in_flight(2)).await;
    let session = Session::open(&site).await;
    let requests = [
        session.tool("act", json!({})),
        modern_call(1, "act", json!({})),
    ];
    let (open, calls) = begin_all(&site, &mut puppet, requests).await;
    for request in [
        session.ask("ping", json!({})),
        modern_call(2, "echo", json!({"text": "x"})),
    ] {
        let (status, _, refusal) = verdict(site.send(request).await).await;
        assert!([200, 429, 503].contains(&status), "{status}");
        assert!(
            [Some(1001), Some(1005), Some(1060)].contains(&refusal),
            "{refusal:?}"
        );
    }
    for call in &calls {
        call.tell(Act::Return("done"));
    }
    for answer in open {
        assert_eq!(text(&answer.await.unwrap()), "done");
    }
    is_served(&session).await;
}

#[tokio::test]
async fn a_session_may_have_so_many_requests_running() {
    let rules = session::Rules {
        max_running: 2,
        ..session::Rules::default()
    };
    let (site, mut puppet) = acting(HttpOptions::default().session(rules)).await;
    let (session, other) = (Session::open(&site).await, Session::open(&site).await);
    let requests = [
        session.tool("act", json!({})),
        session.tool("act", json!({})),
    ];
    let (open, calls) = begin_all(&site, &mut puppet, requests).await;
    let (status, _, refusal) = verdict(site.send(session.ask("ping", json!({}))).await).await;
    assert!([200, 429, 503].contains(&status), "{status}");
    assert_eq!(refusal, Some(1001));
    is_served(&other).await;
    for call in &calls {
        call.tell(Act::Return("done"));
    }
    for answer in open {
        assert_eq!(text(&answer.await.unwrap()), "done");
    }
    is_served(&session).await;
}

#[tokio::test]
async fn requests_come_at_their_rate_and_others_are_told_when_to_come_back() {
    for (rates, code, wait) in [
        (
            Rates {
                per_second: NonZeroU32::new(2),
                ..Rates::default()
            },
            1057,
            1,
        ),
        (
            Rates {
                per_minute: NonZeroU32::new(2),
                ..Rates::default()
            },
            1058,
            30,
        ),
    ] {
        let clock = Arc::new(ManualClock::new());
        let server = plain().clock(clock.clone()).build().unwrap();
        let options = HttpOptions::default().rates(rates).authenticator(tokens());
        let site = Site::open(&server, options).await;
        let discover = |token| Request::modern(1, "server/discover", json!({})).token(token);
        for _ in 0..2 {
            assert_eq!(site.send(discover(ALICE)).await.status, 200);
        }
        for request in [
            discover(ALICE),
            Hello::version(SESSIONS).token(ALICE).request(),
            Request::get().token(ALICE).header("mcp-session-id", "x"),
            discover(ALICE).body("nonsense"),
        ] {
            let answer = site.send(request).await;
            assert_eq!(answer.status, 429, "{code}");
            let after: u64 = answer.header("retry-after").unwrap().parse().unwrap();
            assert_eq!(after, wait, "{code}");
            assert_eq!(verdict(answer).await.2, Some(code));
        }
        // Others have their own, and credentials that are none have none.
        assert_eq!(site.send(discover(BOB)).await.status, 200);
        assert_eq!(site.send(discover("wrong")).await.status, 401);
        clock.advance(Duration::from_secs(wait));
        assert_eq!(site.send(discover(ALICE)).await.status, 200);
    }
}

#[tokio::test]
async fn further_connections_wait_until_there_is_room() {
    let server = plain().build().unwrap();
    let site = Site::open(&server, HttpOptions::default().connections(1)).await;
    let mut first = site.web().raw().await;
    let head = format!(
        "GET /mcp HTTP/1.1\r\nhost: {}\r\n\r\n",
        site.web().address()
    );
    first.send(head).await;
    assert!(first.until("\r\n\r\n").await.starts_with("HTTP/1.1 4"));
    let web = site.web();
    let second = tokio::spawn(async move {
        web.send(Request::modern(1, "server/discover", json!({})))
            .await
            .status
    });
    tokio::task::yield_now().await;
    assert!(!second.is_finished());
    drop(first);
    assert_eq!(second.await.unwrap(), 200);
}

/// Each client hangs up on its call; then the server is as free as before for others.
#[tokio::test]
async fn calls_that_nobody_reads_cost_others_nothing_and_count_in_their_session() {
    let rules = session::Rules {
        max_running: 2,
        ..session::Rules::default()
    };
    let options = HttpOptions::default().in_flight(1).session(rules);
    let (site, mut puppet) = acting(options).await;
    let session = Session::open(&site).await;
    let mut calls = Vec::new();
    for _ in 0..2 {
        let (web, request) = (site.web(), session.tool("act", json!({})));
        let open = tokio::spawn(async move { web.send(request).await.status });
        calls.push(puppet.call().await);
        open.abort();
        let _ = open.await;
        soon("others must be served", is_free(&site)).await;
    }
    let refused = verdict(site.send(session.ask("ping", json!({}))).await).await;
    assert_eq!(refused.2, Some(1001));
    for call in &calls {
        call.tell(Act::Return("done"));
    }
    let served = async { while site.send(session.ask("ping", json!({}))).await.status != 200 {} };
    soon("the session must have room again", served).await;
}

/// Asks until the one slot is free: the server learns in its own time that a client has left.
async fn is_free(site: &Site) {
    while site
        .send(modern_call(2, "echo", json!({"text": "x"})))
        .await
        .status
        != 200
    {}
}

#[tokio::test]
async fn a_call_that_waits_for_a_person_costs_others_nothing() {
    let (site, mut puppet) = acting(HttpOptions::default().in_flight(1)).await;
    let session = Hello::version(SESSIONS)
        .capabilities(json!({"elicitation": {}}))
        .open(&site)
        .await;
    let web = site.web();
    let request = session.tool("act", json!({}));
    let open = tokio::spawn(async move { web.send(request).await.events() });
    let mut call = puppet.call().await;
    assert_ne!(
        site.send(modern_call(1, "echo", json!({"text": "x"})))
            .await
            .status,
        200
    );
    call.tell(Act::Age);
    let mut events = open.await.unwrap();
    let question = events.message().await.unwrap();
    assert_eq!(question["method"], "elicitation/create");
    // The stream of the question is open and read all the while.
    is_served(&session).await;
    let declined = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}});
    session.tell(&declined).await;
    assert_eq!(call.did().await, Did::Asked(Ok("None".to_owned())));
    call.tell(Act::Return("done"));
    assert_eq!(text(&events.message().await.unwrap()), "done");
}

/// So what waits is bounded, and a client that has too much waiting uses up its own slots.
#[tokio::test]
async fn a_call_for_which_there_is_no_room_to_wait_stays_in_flight() {
    let options = HttpOptions::default().in_flight(1).waiting(0);
    let (site, mut puppet) = acting(options).await;
    let session = Hello::version(SESSIONS)
        .capabilities(json!({"elicitation": {}}))
        .open(&site)
        .await;
    let web = site.web();
    let request = session.tool("act", json!({}));
    let open = tokio::spawn(async move { web.send(request).await.events() });
    let call = puppet.call().await;
    call.tell(Act::Age);
    let mut events = open.await.unwrap();
    let question = events.message().await.unwrap();
    assert_eq!(question["method"], "elicitation/create");
    let echo = modern_call(1, "echo", json!({"text": "x"}));
    assert_eq!(verdict(site.send(echo).await).await.2, Some(1005));
}

#[tokio::test]
async fn who_sends_headers_and_no_body_costs_others_nothing() {
    let options = HttpOptions::default().in_flight(1);
    let site = Site::open(&plain().build().unwrap(), options).await;
    let mut raws = Vec::new();
    for _ in 0..3 {
        let mut raw = site.web().raw().await;
        raw.send(
            "POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n\
             accept: application/json, text/event-stream\r\ncontent-length: 100\r\n\r\n{",
        )
        .await;
        raws.push(raw);
    }
    for _ in 0..3 {
        let answer = site
            .send(modern_call(2, "echo", json!({"text": "x"})))
            .await;
        assert_eq!(answer.status, 200);
    }
}

#[tokio::test]
async fn a_principal_has_its_share_of_what_is_in_flight() {
    let options = HttpOptions::default()
        .in_flight(3)
        .in_flight_per_principal(1)
        .authenticator(tokens());
    let (site, mut puppet) = acting(options).await;
    let alices = || modern_call(1, "act", json!({})).token(ALICE);
    let (open, calls) = begin_all(&site, &mut puppet, [alices()]).await;
    let (status, _, refusal) = verdict(site.send(alices()).await).await;
    assert_eq!((status, refusal), (429, Some(1001)));
    let bobs = modern_call(2, "echo", json!({"text": "x"})).token(BOB);
    assert_eq!(site.send(bobs).await.status, 200);
    calls[0].tell(Act::Return("done"));
    for answer in open {
        assert_eq!(text(&answer.await.unwrap()), "done");
    }
}

#[tokio::test]
async fn one_client_leaves_a_quarter_of_the_memory_for_bodies_to_others() {
    let options = HttpOptions::default()
        .body_memory(64 * 1024)
        .authenticator(tokens());
    let (site, mut puppet) = acting(options).await;
    let padded = modern_call(1, "act", json!({"padding": "x".repeat(40_000)})).token(ALICE);
    let (open, calls) = begin_all(&site, &mut puppet, [padded]).await;
    let echo = || modern_call(2, "echo", json!({"text": "x".repeat(10_000)}));
    let (status, _, refusal) = verdict(site.send(echo().token(ALICE)).await).await;
    assert_eq!((status, refusal), (429, Some(1002)));
    assert_eq!(site.send(echo().token(BOB)).await.status, 200);
    calls[0].tell(Act::Return("done"));
    for answer in open {
        assert_eq!(text(&answer.await.unwrap()), "done");
    }
    assert_eq!(site.send(echo().token(ALICE)).await.status, 200);
}

#[tokio::test]
async fn a_session_that_nobody_has_used_gives_way_and_one_in_use_does_not() {
    let site = Site::open(
        &plain().build().unwrap(),
        HttpOptions::default().sessions(2),
    )
    .await;
    let used = Session::open(&site).await;
    let unused = Hello::version(SESSIONS).open_only(&site).await;
    let third = Session::open(&site).await;
    assert_eq!(site.send(unused.ask("ping", json!({}))).await.status, 404);
    is_served(&used).await;
    is_served(&third).await;
    let refused = site.send(Hello::version(SESSIONS).request()).await;
    assert_eq!(verdict(refused).await.2, Some(1060));
}

/// Both are used once and left alone, and have long to live.
#[tokio::test]
async fn of_sessions_that_have_left_memory_the_least_recently_used_gives_way() {
    let clock = Arc::new(ManualClock::new());
    let server = plain().clock(clock.clone()).build().unwrap();
    let site = Site::open(&server, HttpOptions::default().sessions(2)).await;
    let first = Session::open(&site).await;
    let second = Session::open(&site).await;
    clock.advance(Duration::from_secs(20 * 60));
    is_served(&first).await;
    clock.advance(Duration::from_secs(20 * 60));
    let third = soon("one must give way", async {
        loop {
            let answer = site.send(Hello::version(SESSIONS).request()).await;
            if answer.status == 200 {
                return;
            }
            clock.advance(Duration::from_secs(1));
        }
    });
    third.await;
    is_served(&first).await;
    assert_eq!(site.send(second.ask("ping", json!({}))).await.status, 404);
}

/// Only the oldest of what nobody has fetched is gone.
#[tokio::test]
async fn all_sessions_together_keep_only_so_much_for_those_who_come_back() {
    const EACH: usize = 64 * 1024;
    let shout = interlock::Tool::new(
        "shout",
        |_: interlock::NoArguments, context: interlock::Context| async move {
            context.progress(1.0, None, None).await;
            "x".repeat(EACH)
        },
    );
    let options = HttpOptions::default().replay_memory(4 * EACH);
    let site = Site::open(&plain().tool(shout).build().unwrap(), options).await;
    let mut ids = Vec::new();
    for _ in 0..8 {
        let session = Session::open(&site).await;
        let params = json!({"name": "shout", "_meta": {"progressToken": 1}});
        let request = session.ask("tools/call", params);
        let mut events = session.send(request).await.events();
        events.event().await.unwrap();
        let first = events.last_id().to_owned();
        while events.event().await.is_some() {}
        ids.push((session, first));
    }
    let mut kept = Vec::new();
    for (session, id) in &ids {
        let answer = session
            .send(session.get().header("last-event-id", id))
            .await;
        kept.push(answer.status == 200);
    }
    assert_eq!(kept.iter().filter(|kept| **kept).count(), 3, "{kept:?}");
    assert!(kept.is_sorted(), "{kept:?}");
}

#[tokio::test]
async fn answers_that_nobody_fetches_are_kept_only_so_far() {
    const EACH: usize = 1024 * 1024;
    let shout = interlock::Tool::new(
        "shout",
        |_: interlock::NoArguments, context: interlock::Context| async move {
            context.progress(1.0, None, None).await;
            "x".repeat(EACH)
        },
    );
    let site = Site::open(
        &plain().tool(shout).build().unwrap(),
        HttpOptions::default(),
    )
    .await;
    let session = Session::open(&site).await;
    let mut ids = Vec::new();
    for _ in 0..64 {
        let params = json!({"name": "shout", "_meta": {"progressToken": 1}});
        let mut events = session
            .send(session.ask("tools/call", params))
            .await
            .events();
        events.event().await.unwrap();
        ids.push(events.last_id().to_owned());
    }
    let mut kept = 0;
    for id in ids {
        let answer = session
            .send(session.get().header("last-event-id", &id))
            .await;
        assert_ne!(answer.status, 404);
        if answer.status == 200 {
            kept += answer.bytes().await.len();
        }
    }
    assert!(kept < 48 * EACH, "{kept} bytes are kept for one session");
}

#[tokio::test]
async fn listeners_that_leave_give_their_place_back() {
    let rules = session::Rules {
        max_running: 3,
        ..session::Rules::default()
    };
    let (site, _) = acting(HttpOptions::default().session(rules)).await;
    let session = Session::open(&site).await;
    for _ in 0..30 {
        let listened = async {
            loop {
                let answer = session.send(session.get()).await;
                if answer.status == 200 {
                    return answer.events();
                }
            }
        };
        let mut events = soon("there must be room again", listened).await;
        events.event().await.unwrap();
    }
}
