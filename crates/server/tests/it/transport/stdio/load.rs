//! Many requests at once, and a client that does not read its answers.

use crate::support::{
    client::{answers, nothing_comes, quiesce},
    desk::{desk_with, state},
    ends::{Ends, ended, ends, send_line},
    held::{OnCancel, held},
    messages::{codes, hello, is_one_message, refusal},
    tools::tool,
};
use interlock::{
    Context, NoArguments, Server, Tool,
    schemars::{self, JsonSchema},
    workflow::{Scope, Settings},
};
use interlock_testkit::{Client, ManualClock, PATIENCE, connect};
use serde_json::{Value, json};
use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{self, Poll},
    time::Duration,
};
use tokio::io::{AsyncBufReadExt, AsyncWrite, BufReader, DuplexStream};

#[derive(serde::Deserialize, JsonSchema)]
struct Echo {
    n: usize,
}

fn plain() -> Server {
    Server::builder("plain", "0")
        .tool(Tool::new("at_once", |echo: Echo, _: Context| async move {
            echo.n.to_string()
        }))
        .tool(Tool::new("later", |echo: Echo, _: Context| async move {
            for _ in 0..echo.n % 7 {
                tokio::task::yield_now().await;
            }
            echo.n.to_string()
        }))
        .build()
        .unwrap()
}

fn thousand() -> String {
    (0..1_000)
        .map(|n| {
            let tool = ["at_once", "later"][n % 2];
            let params = json!({"name": tool, "arguments": {"n": n}});
            let call = json!({"jsonrpc": "2.0", "id": n, "method": "tools/call", "params": params});
            format!("{call}\n")
        })
        .collect()
}

async fn a_thousand_at_once() {
    let (mut client, _connection) = connect(&plain());
    client.initialize().await;
    client.send_bytes(thousand().as_bytes()).await;
    let (notifications, all) = answers(&mut client, 1_000).await;
    assert_eq!(notifications, [] as [Value; 0]);
    for (n, answer) in all.iter().enumerate() {
        assert_eq!(answer["id"], n);
        assert_eq!(
            answer["result"]["content"][0]["text"],
            n.to_string(),
            "{answer}"
        );
    }
    nothing_comes(&mut client).await;
}

#[tokio::test]
async fn a_thousand_requests_at_once_get_their_own_answers() {
    a_thousand_at_once().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_requests_at_once_get_their_own_answers_on_several_threads() {
    a_thousand_at_once().await;
}

#[tokio::test]
async fn the_1025th_in_flight_is_refused_until_another_has_ended() {
    let (search, mut held) = held("search", OnCancel::GoesOn);
    let server = Server::builder("plain", "0").tool(search).build().unwrap();
    let (mut client, _connection) = connect(&server);
    client.initialize().await;
    for _ in 0..1_024 {
        client.begin("tools/call", json!({"name": "search"})).await;
        held.started().await;
    }
    let answer = client.request("tools/list", json!({})).await;
    assert_eq!(codes(&answer), (-32603, 1001), "{answer}");
    assert_eq!(answer["error"]["data"]["refusal"]["retryable"], true);
    held.let_go(1);
    let freed = client.receive().await.unwrap();
    assert_eq!(freed["result"]["content"][0]["text"], "done");
    nothing_comes(&mut client).await;
    held.let_go(1_023);
    let (_, all) = answers(&mut client, 1_023).await;
    assert!(
        all.iter()
            .all(|answer| answer["result"]["content"][0]["text"] == "done")
    );
    assert!(held.is_quiet());
}

/// Refusals that are the server's own doing reach a model only inside a tool's result.
#[tokio::test]
async fn the_1025th_call_of_a_tool_is_refused_in_its_result() {
    let (search, mut held) = held("search", OnCancel::GoesOn);
    let server = Server::builder("plain", "0").tool(search).build().unwrap();
    let (mut client, _connection) = connect(&server);
    client.initialize().await;
    for _ in 0..1_024 {
        client.begin("tools/call", json!({"name": "search"})).await;
        held.started().await;
    }
    let answer = client
        .request("tools/call", json!({"name": "search"}))
        .await;
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    assert_eq!(refusal(&answer["result"]), 1001, "{answer}");
}

/// Calls of one instance take their turns in the order in which they came, however many come at
/// once and however many threads there are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_take_their_turns_in_the_order_in_which_they_came() {
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let work = Tool::new("work", move |echo: Echo, _: Context| {
        log.lock().unwrap().push(echo.n);
        async move {
            if echo.n % 200 == 199 {
                tokio::task::yield_now().await;
            }
            "done"
        }
    });
    let flow = interlock::Workflow::builder("loop")
        .state("open", |s| {
            s.initial()
                .tool("work", |t| t.success("open").error("failed"))
                .tool("close", |t| t.success(interlock::workflow::end("open")))
        })
        .state("failed", |s| {
            s.tool("close", |t| t.success(interlock::workflow::end("open")))
        })
        .build()
        .unwrap();
    let server = Server::builder("loop", "0")
        .tool(work)
        .tool(tool("close"))
        .workflow(flow)
        .build()
        .unwrap();
    for _ in 0..5 {
        seen.lock().unwrap().clear();
        let (mut client, _connection) = connect(&server);
        client.initialize().await;
        let calls: String = (0..900)
            .map(|n| {
                let params = json!({"name": "work", "arguments": {"n": n}});
                let call =
                    json!({"jsonrpc": "2.0", "id": n, "method": "tools/call", "params": params});
                format!("{call}\n")
            })
            .collect();
        client.send_bytes(calls.as_bytes()).await;
        answers(&mut client, 900).await;
        let seen = seen.lock().unwrap();
        let out_of_order = seen.windows(2).filter(|pair| pair[0] > pair[1]).count();
        assert_eq!((seen.len(), out_of_order), (900, 0));
    }
}

/// Calls that end at once are over before the next line is looked at, however many there are.
#[tokio::test]
async fn a_walk_that_is_sent_in_one_write_goes_as_if_it_were_sent_step_by_step() {
    let (mut client, _connection) = connect(
        &desk_with(Settings::default(), tool("work"))
            .build()
            .unwrap(),
    );
    client.initialize().await;
    let calls: String = (0..400)
        .map(|n| {
            let tool = ["work", "close"][n % 2];
            let call = json!({"jsonrpc": "2.0", "id": n, "method": "tools/call", "params": {"name": tool}});
            format!("{call}\n")
        })
        .collect();
    client.send_bytes(calls.as_bytes()).await;
    let (_, all) = answers(&mut client, 400).await;
    let refused: Vec<_> = all
        .iter()
        .filter(|answer| answer["result"]["isError"] == true)
        .collect();
    assert!(
        refused.is_empty(),
        "{} were refused, first {}",
        refused.len(),
        refused[0]
    );
}

const BIG: usize = 20_000;

#[tokio::test]
async fn a_client_that_does_not_read_costs_a_bounded_amount_and_loses_nothing() {
    let runs = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&runs);
    let server = Server::builder("big", "0")
        .tool(Tool::new("big", move |echo: Echo, _: Context| {
            counter.fetch_add(1, Ordering::SeqCst);
            async move {
                if echo.n % 2 == 1 {
                    tokio::task::yield_now().await;
                }
                "x".repeat(BIG)
            }
        }))
        .build()
        .unwrap();
    let Ends {
        mut to_server,
        from_server,
        task,
    } = ends(&server);
    let hello = json!({"jsonrpc": "2.0", "id": "hello", "method": "initialize",
        "params": hello("2025-11-25")});
    const CALLS: usize = 2_000;
    let writer = tokio::spawn(async move {
        send_line(&mut to_server, &hello).await;
        for n in 0..CALLS {
            // Only those that are answered at once are answered in order.
            let params = json!({"name": "big", "arguments": {"n": 2 * n}});
            let call = json!({"jsonrpc": "2.0", "id": n, "method": "tools/call", "params": params});
            send_line(&mut to_server, &call).await;
        }
    });
    let ran = quiesce(&runs).await;
    assert!(ran > 0);
    assert!(
        ran * BIG < 4 * 1024 * 1024,
        "{ran} answers are kept for a client that does not read"
    );
    assert!(!writer.is_finished());

    let mut lines = BufReader::new(from_server).lines();
    let mut next = 0;
    while let Some(line) = tokio::time::timeout(PATIENCE, lines.next_line())
        .await
        .unwrap()
        .unwrap()
    {
        let message: Value = serde_json::from_str(&line).unwrap();
        is_one_message(&message);
        if message["id"] == "hello" {
            continue;
        }
        assert_eq!(message["id"], next);
        assert_eq!(
            message["result"]["content"][0]["text"]
                .as_str()
                .unwrap()
                .len(),
            BIG
        );
        next += 1;
    }
    assert_eq!(next, CALLS);
    writer.await.unwrap();
    ended(task).await;
}

/// The same for calls that end later: their answers come in another order, but they wait, too.
#[tokio::test]
async fn calls_that_end_later_do_not_pile_up_for_a_client_that_does_not_read() {
    let runs = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&runs);
    let server = Server::builder("big", "0")
        .tool(Tool::new("big", move |_: NoArguments, _: Context| {
            counter.fetch_add(1, Ordering::SeqCst);
            async move {
                tokio::task::yield_now().await;
                "x".repeat(BIG)
            }
        }))
        .build()
        .unwrap();
    let Ends {
        mut to_server,
        from_server,
        task,
    } = ends(&server);
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize",
        "params": hello("2025-11-25")});
    const CALLS: usize = 2_000;
    let writer = tokio::spawn(async move {
        send_line(&mut to_server, &hello).await;
        for n in 1..=CALLS {
            let call = json!({"jsonrpc": "2.0", "id": n, "method": "tools/call", "params": {"name": "big"}});
            send_line(&mut to_server, &call).await;
        }
    });
    let ran = quiesce(&runs).await;
    assert!(
        ran <= 1_024,
        "{ran} calls were begun for a client that does not read"
    );
    let mut lines = BufReader::new(from_server).lines();
    let mut seen = vec![0_u32; CALLS + 1];
    while let Some(line) = tokio::time::timeout(PATIENCE, lines.next_line())
        .await
        .unwrap()
        .unwrap()
    {
        let message: Value = serde_json::from_str(&line).unwrap();
        is_one_message(&message);
        seen[message["id"].as_u64().unwrap() as usize] += 1;
    }
    assert!(seen.iter().all(|times| *times == 1));
    writer.await.unwrap();
    ended(task).await;
}

#[tokio::test]
async fn deadlines_are_honoured_for_a_client_that_does_not_read() {
    let clock = Arc::new(ManualClock::new());
    let settings = Settings {
        scope: Scope::Global,
        ..Settings::default()
    };
    let (work, mut held) = held("work", OnCancel::GoesOn);
    let runs = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&runs);
    let big = Tool::new("big", move |_: NoArguments, _: Context| {
        counter.fetch_add(1, Ordering::SeqCst);
        async { "x".repeat(BIG) }
    });
    // `big` is bound nowhere in the desk, so it is made free for all.
    let flow = interlock::Workflow::builder("w")
        .settings(settings.clone())
        .state("open", |s| {
            s.initial()
                .tool("work", |t| t.success("done").timeout("late"))
        })
        .state("late", |s| {
            s.tool("close", |t| t.success(interlock::workflow::end("open")))
        })
        .state("done", |s| {
            s.tool("close", |t| t.success(interlock::workflow::end("open")))
        })
        .always_tool("big")
        .build()
        .unwrap();
    let server = Server::builder("s", "0")
        .tool(work)
        .tool(big)
        .tool(tool("close"))
        .tool(tool("nowhere"))
        .workflow(flow)
        .clock(clock.clone())
        .build()
        .unwrap();
    let (mut witness, _connection) = connect(&server);
    witness.initialize().await;

    let Ends {
        mut to_server,
        from_server,
        task,
    } = ends(&server);
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize",
        "params": hello("2025-11-25")});
    let call = |id: usize, tool: &str| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool}});
    send_line(&mut to_server, &hello).await;
    send_line(&mut to_server, &call(1, "work")).await;
    held.started().await;
    for id in 2..200 {
        send_line(&mut to_server, &call(id, "big")).await;
    }
    assert!(quiesce(&runs).await < 198);
    clock.advance(Duration::from_secs(30));
    let told = witness.receive().await.unwrap();
    assert_eq!(told["method"], "notifications/tools/list_changed");
    assert_eq!(state(&mut witness).await, "late");

    // Reading again brings everything, that answer included.
    let mut lines = BufReader::new(from_server).lines();
    let mut ids = Vec::new();
    while ids.len() < 200 {
        let line = tokio::time::timeout(PATIENCE, lines.next_line())
            .await
            .unwrap()
            .unwrap()
            .unwrap();
        let message: Value = serde_json::from_str(&line).unwrap();
        if message["id"] == 1 {
            assert_eq!(refusal(&message["result"]), 1069);
        }
        ids.extend(message.get("id").cloned().and_then(|id| id.as_u64()));
    }
    ids.sort_unstable();
    assert!(ids.into_iter().eq(0..200));
    drop(to_server);
    ended(task).await;
}

/// A client that neither reads nor leaves does not keep a server that was told to stop.
#[tokio::test]
async fn a_client_that_does_not_read_cannot_keep_the_server_from_ending() {
    let clock = Arc::new(ManualClock::new());
    let runs = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&runs);
    let server = Server::builder("big", "0")
        .tool(Tool::new("big", move |_: NoArguments, _: Context| {
            counter.fetch_add(1, Ordering::SeqCst);
            async { "x".repeat(BIG) }
        }))
        .clock(clock.clone())
        .build()
        .unwrap();
    let (mut client, mut connection) = connect(&server);
    client.initialize().await;
    for _ in 0..5 {
        client.begin("tools/call", json!({"name": "big"})).await;
    }
    quiesce(&runs).await;
    connection.drain();
    quiesce(&runs).await;
    clock.advance(Duration::from_secs(30));
    connection.ended().await;
}

#[tokio::test]
async fn many_clients_of_one_server_are_served_side_by_side() {
    let settings = Settings::default();
    let server = desk_with(settings, tool("work")).build().unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let (mut client, connection) = connect(&server);
        tasks.spawn(async move {
            client.initialize().await;
            for _ in 0..5 {
                client.call("work", json!({})).await;
                assert_eq!(state(&mut client).await, "done");
                client.call("close", json!({})).await;
                assert_eq!(state(&mut client).await, "open");
            }
            client.hang_up();
            assert_eq!(client.receive().await, None);
            connection.ended().await;
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
}

/// What goes out at once is out: a connection that could write it all reads on.
#[tokio::test]
async fn after_an_answer_of_two_megabytes_the_next_request_is_read() {
    let long = Tool::new("long", |_: NoArguments, _: Context| async {
        "x".repeat(2 << 20)
    });
    let server = Server::builder("plain", "0").tool(long).build().unwrap();
    let (to_server, reader) = tokio::io::duplex(64 * 1024);
    let (writer, from_server) = tokio::io::duplex(16 << 20);
    let task =
        tokio::spawn(async move { server.serve(reader, writer, std::future::pending()).await });
    let mut client = Client::over(from_server, to_server);
    client.initialize().await;
    for _ in 0..3 {
        let (_, result) = client.call("long", json!({})).await;
        let text = result["content"][0]["text"].as_str().unwrap();
        assert_eq!(text.len(), 2 << 20);
    }
    client.hang_up();
    ended(task).await;
}

/// A pipe that takes nothing while it is shut, and does not say when it opens.
struct Shutter {
    is_open: Arc<AtomicBool>,
    pipe: DuplexStream,
}

impl AsyncWrite for Shutter {
    fn poll_write(
        mut self: Pin<&mut Self>,
        task: &mut task::Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if !self.is_open.load(Ordering::Relaxed) {
            return Poll::Pending;
        }
        Pin::new(&mut self.pipe).poll_write(task, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, task: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.pipe).poll_flush(task)
    }

    fn poll_shutdown(
        mut self: Pin<&mut Self>,
        task: &mut task::Context<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.pipe).poll_shutdown(task)
    }
}

/// Which of two things is found first is left to chance, so there are many rounds.
#[tokio::test]
async fn what_waited_behind_the_rest_goes_out_with_it() {
    let is_open = Arc::new(AtomicBool::new(true));
    let (to_server, reader) = tokio::io::duplex(64 * 1024);
    let (pipe, from_server) = tokio::io::duplex(64 * 1024);
    let shutter = Shutter {
        is_open: Arc::clone(&is_open),
        pipe,
    };
    let server = plain();
    tokio::spawn(async move { server.serve(reader, shutter, std::future::pending()).await });
    let mut client = Client::over(from_server, to_server);
    client.initialize().await;
    for _ in 0..32 {
        is_open.store(false, Ordering::Relaxed);
        let first = client.begin("ping", json!({})).await;
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        is_open.store(true, Ordering::Relaxed);
        let second = client.begin("ping", json!({})).await;
        for id in [first, second] {
            let (_, answer) = client.until(id).await;
            assert_eq!(answer["result"], json!({}));
        }
    }
}
