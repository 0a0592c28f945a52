//! How much a client may have over HTTP, and what it is told when it wants more.

use crate::support::{
    http::{ALICE, BOB, SESSIONS, is_served, modern_call, plain, tokens, verdict},
    messages::text,
    puppet::{Act, acting, begin_all},
};
use interlock::{HttpOptions, Rates};
use interlock_proto::session;
use interlock_testkit::{
    ManualClock,
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
    let two = interlock_testkit::soon("there must be room", async {
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

#[tokio::test]
async fn calls_whose_clients_have_left_are_in_flight_until_they_end() {
    let (site, mut puppet) = acting(HttpOptions::default().in_flight(2)).await;
    let session = Session::open(&site).await;
    let mut calls = Vec::new();
    for _ in 0..2 {
        let (web, request) = (site.web(), session.tool("act", json!({})));
        let open = tokio::spawn(async move { web.send(request).await.status });
        calls.push(puppet.call().await);
        open.abort();
        let _ = open.await;
    }
    // However long ago they left: nobody gets more done at once by leaving.
    for _ in 0..20 {
        let answer = site
            .send(modern_call(2, "echo", json!({"text": "x"})))
            .await;
        let (_, _, refusal) = verdict(answer).await;
        assert!(
            [Some(1001), Some(1005), Some(1060)].contains(&refusal),
            "{refusal:?}"
        );
    }
    for call in &calls {
        call.tell(Act::Return("done"));
    }
    let room = async {
        while site
            .send(modern_call(2, "echo", json!({"text": "x"})))
            .await
            .json()
            .await
            .get("result")
            .is_none()
        {}
    };
    interlock_testkit::soon("there must be room again", room).await;
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
        let mut events = interlock_testkit::soon("there must be room again", listened).await;
        events.event().await.unwrap();
    }
}
