//! Many clients that do whatever comes to their minds, and a site that loses nothing over it.

use crate::support::{
    dice::Dice,
    http::{SESSIONS, is_served, modern_call, plain},
    messages::request,
};
use interlock::{Context, HttpOptions, Server, Tool, schemars};
use interlock_testkit::{
    soon,
    web::{Hello, Request, Session, Site},
};
use serde_json::{Value, json};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Work {
    turns: u32,
    words: u32,
    hang_up: bool,
    n: u64,
}

/// Says some words, lets others go first, and says its number again.
fn work() -> Tool {
    Tool::new("work", |work: Work, context: Context| async move {
        for word in 1..=work.words {
            context.progress(f64::from(word), None, None).await;
        }
        if work.hang_up {
            context.hang_up().await;
        }
        for _ in 0..work.turns {
            tokio::task::yield_now().await;
        }
        work.n.to_string()
    })
}

fn server() -> Server {
    plain().tool(work()).build().unwrap()
}

/// So many requests and sessions may there be; if any were leaked, there would soon be no room.
const ROOM: usize = 40;

fn options() -> HttpOptions {
    HttpOptions::default().in_flight(ROOM).sessions(ROOM)
}

/// One answer to one request, which is its own.
#[track_caller]
fn is_own(answer: &Value, n: u64) {
    assert_eq!(answer["id"], n, "{answer}");
    let result = &answer["result"];
    assert_eq!(result["content"][0]["text"], n.to_string(), "{answer}");
}

/// One client's life.
async fn live(site: &Site, seed: u64) {
    let mut dice = Dice::new(seed * 2 + 1);
    let mut session = Session::open(site).await;
    for turn in 0..25 {
        let n = seed * 1000 + turn;
        let hang_up = dice.roll(4) == 0;
        let arguments =
            json!({"turns": dice.roll(6), "words": dice.roll(4), "hang_up": hang_up, "n": n});
        let params = json!({"name": "work", "arguments": arguments, "_meta": {"progressToken": n}});
        let call = session.post(&request(n, "tools/call", params.clone()));
        match dice.roll(9) {
            0 | 1 => answered(&session, call, n).await,
            2 => {
                let (_, answer) = site
                    .send(Request::modern(n, "tools/call", params))
                    .await
                    .exchange()
                    .await;
                is_own(&answer, n);
            }
            // It goes before the answer comes.
            3 => {
                let _ = tokio::time::timeout(std::time::Duration::ZERO, site.send(call)).await;
            }
            4 => drop(site.send(modern_call(n, "work", arguments)).await),
            5 => {
                let (web, cancel) = (site.web(), json!({"requestId": n}));
                let open = tokio::spawn(async move { web.send(call).await.bytes().await });
                session.notify("notifications/cancelled", cancel).await;
                soon("a POST must end", open).await.unwrap();
            }
            6 => drop(session.listen().await),
            7 => {
                let filter = json!({"notifications": {"resourceSubscriptions": ["note://rules"]}});
                let mut events = site
                    .send(Request::modern(n, "subscriptions/listen", filter))
                    .await
                    .events();
                events.message().await.unwrap();
            }
            _ => {
                site.send(session.delete()).await;
                session = Hello::version(SESSIONS).open(site).await;
            }
        }
    }
    is_served(&session).await;
    site.send(session.delete()).await;
}

/// The answer to a call, for which the client may have to come back.
async fn answered(session: &Session, call: Request, n: u64) {
    let answer = session.send(call).await;
    if !answer.is_stream() {
        return is_own(&answer.json().await, n);
    }
    let mut events = answer.events();
    let mut answers = Vec::new();
    for _ in 0..2 {
        answers.extend(
            events
                .rest()
                .await
                .into_iter()
                .filter(|m| m.get("id").is_some()),
        );
        if !answers.is_empty() {
            break;
        }
        events = session.resume(events.last_id()).await;
    }
    assert_eq!(answers.len(), 1, "{answers:?}");
    is_own(&answers[0], n);
}

/// Waits until everything that was given up is forgotten, and then fills all the room there is.
async fn nothing_is_left(site: &Site) {
    let mut sessions = Vec::new();
    while sessions.len() < ROOM {
        let answer = soon(
            "there must be room",
            site.send(Hello::version(SESSIONS).request()),
        )
        .await;
        if answer.status == 200 {
            let id = answer.header("mcp-session-id").unwrap().to_owned();
            sessions.push(id);
        } else {
            tokio::task::yield_now().await;
        }
    }
    let filter = json!({"notifications": {}});
    let mut streams = Vec::new();
    while streams.len() < ROOM - 1 {
        let listen = Request::modern(1, "subscriptions/listen", filter.clone());
        let answer = soon("there must be room", site.send(listen)).await;
        if answer.status == 200 {
            streams.push(answer.events());
        } else {
            tokio::task::yield_now().await;
        }
    }
}

async fn storm(seed: u64) {
    let mut site = Site::open(&server(), options()).await;
    let lives = (0..6).map(|n| live(&site, seed * 10 + n));
    futures_util::future::join_all(lives).await;
    soon("everything must be forgotten", nothing_is_left(&site)).await;
    site.drain();
    site.ended().await;
}

#[tokio::test]
async fn whatever_clients_do_nothing_is_lost_and_nothing_left() {
    for seed in 1..=2 {
        storm(seed).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_clients_do_nothing_is_lost_and_nothing_left_on_several_threads() {
    for seed in 11..=12 {
        storm(seed).await;
    }
}
