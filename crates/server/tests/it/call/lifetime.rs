//! Calls hear what they are told from their first moment to their last.

use crate::support::{
    http::modern_call,
    messages::{hello, modern, refusal, request},
};
use interlock::{Clock, Context, Failure, HttpOptions, NoArguments, Server, Time, Tool};
use interlock_testkit::{ManualClock, PATIENCE, connect, web::Site};
use serde_json::{Value, json};
use std::{
    future::Future,
    pin::{Pin, pin},
    sync::{Arc, Mutex, mpsc as blocking},
    task::Waker,
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::{Notify, mpsc},
    time::timeout,
};

/// Sends a request, whose answer can be read to the end.
async fn post(site: &Site, headers: &[(&str, &str)], message: &Value) -> TcpStream {
    let body = message.to_string();
    let mut head = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Accept: application/json, text/event-stream\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n",
        body.len()
    );
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    let mut stream = TcpStream::connect(site.web().address()).await.unwrap();
    let request = format!("{head}\r\n{body}");
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

async fn ask(site: &Site, headers: &[(&str, &str)], message: &Value) -> String {
    let mut stream = post(site, headers, message).await;
    answer(&mut stream).await
}

async fn answer(stream: &mut TcpStream) -> String {
    let mut all = String::new();
    timeout(PATIENCE, stream.read_to_string(&mut all))
        .await
        .expect("an answer must end")
        .unwrap();
    all
}

/// The handler keeps its thread until the cancellation has been taken.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancellation_during_the_first_poll_is_heard() {
    let (on_start, mut started) = mpsc::unbounded_channel();
    let (on_stop, mut stopped) = mpsc::unbounded_channel();
    let (go, gate) = blocking::channel::<()>();
    let gate = Arc::new(Mutex::new(gate));
    let busy = Tool::new("busy", move |_: NoArguments, context: Context| {
        let (on_start, on_stop, gate) = (on_start.clone(), on_stop.clone(), Arc::clone(&gate));
        async move {
            tokio::task::block_in_place(|| {
                on_start.send(()).unwrap();
                gate.lock().unwrap().recv().unwrap();
            });
            context.cancelled().await;
            on_stop.send(()).unwrap();
            Err::<String, _>(Failure::stopped())
        }
    });
    let builder = Server::builder("desk", "1.0.0").tool(busy);
    let server = builder.clock(Arc::new(ManualClock::new())).build().unwrap();
    let site = Site::open(&server, HttpOptions::default()).await;
    let hello = request(1, "initialize", hello("2025-06-18"));
    let greeting = ask(&site, &[], &hello).await;
    let session = greeting
        .lines()
        .find_map(|line| line.strip_prefix("mcp-session-id: "))
        .unwrap_or_else(|| panic!("{greeting}"));
    let headers = [("mcp-session-id", session)];
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    ask(&site, &headers, &ready).await;

    let call = request(7, "tools/call", json!({"name": "busy"}));
    let mut asked = post(&site, &headers, &call).await;
    timeout(PATIENCE, started.recv()).await.unwrap().unwrap();
    let params = json!({"requestId": 7});
    let taken_back =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
    let heard = ask(&site, &headers, &taken_back).await;
    assert!(heard.starts_with("HTTP/1.1 202"), "{heard}");
    go.send(()).unwrap();
    timeout(PATIENCE, stopped.recv())
        .await
        .expect("the call must hear that it was taken back")
        .unwrap();
    let silence = answer(&mut asked).await;
    assert!(!silence.contains("\"id\":7"), "{silence}");
}

#[tokio::test]
async fn the_stop_hook_runs_after_the_last_call_of_a_client_that_has_gone() {
    let events = Arc::new(Mutex::new(Vec::new()));
    let (on_start, mut started) = mpsc::unbounded_channel();
    let (on_cancel, mut cancelled) = mpsc::unbounded_channel();
    let go = Arc::new(Notify::new());
    let (gate, ends) = (Arc::clone(&go), Arc::clone(&events));
    let slow = Tool::new("slow", move |_: NoArguments, context: Context| {
        let (on_start, on_cancel) = (on_start.clone(), on_cancel.clone());
        let (gate, ends) = (Arc::clone(&gate), Arc::clone(&ends));
        async move {
            on_start.send(()).unwrap();
            context.cancelled().await;
            on_cancel.send(()).unwrap();
            gate.notified().await;
            ends.lock().unwrap().push("the handler ends");
            "done"
        }
    });
    let hook = Arc::clone(&events);
    let server = Server::builder("desk", "1.0.0")
        .tool(slow)
        .lifespan(
            || async { Ok(()) },
            move |_| {
                let hook = Arc::clone(&hook);
                async move { hook.lock().unwrap().push("the hook runs") }
            },
        )
        .clock(Arc::new(ManualClock::new()))
        .build()
        .unwrap();
    let mut site = Site::open(&server, HttpOptions::default()).await;
    let params = modern(json!({"name": "slow", "arguments": {}}));
    let headers = [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "slow"),
    ];
    let call = request(1, "tools/call", params);
    let stream = post(&site, &headers, &call).await;
    timeout(PATIENCE, started.recv()).await.unwrap().unwrap();
    drop(stream);
    timeout(PATIENCE, cancelled.recv()).await.unwrap().unwrap();
    site.drain();
    // Everything that can happen without the call happens.
    while TcpStream::connect(site.web().address()).await.is_ok() {}
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    assert_eq!(*events.lock().unwrap(), [] as [&str; 0]);
    go.notify_one();
    site.ended().await;
    let expected = ["the handler ends", "the hook runs"];
    assert_eq!(*events.lock().unwrap(), expected);
}

/// Over HTTP/2 requests run on tasks of their own, which outlive their connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_stop_hook_runs_after_a_call_that_keeps_its_thread() {
    let events = Arc::new(Mutex::new(Vec::new()));
    let (on_start, mut started) = mpsc::unbounded_channel();
    let (go, gate) = blocking::channel::<()>();
    let (gate, ends) = (Mutex::new(gate), Arc::clone(&events));
    let busy = Tool::new("busy", move |_: NoArguments, _: Context| {
        on_start.send(()).unwrap();
        let released = gate.lock().unwrap().recv_timeout(PATIENCE);
        ends.lock().unwrap().push("the handler ends");
        async move { released.map_or("late", |()| "done") }
    });
    let hook = Arc::clone(&events);
    let server = Server::builder("desk", "1.0.0")
        .tool(busy)
        .lifespan(
            || async { Ok(()) },
            move |_| {
                let hook = Arc::clone(&hook);
                async move { hook.lock().unwrap().push("the hook runs") }
            },
        )
        .build()
        .unwrap();
    let mut site = Site::open(&server, HttpOptions::default()).await;
    let line = site.web().line().await;
    let call = modern_call(1, "busy", json!({}));
    let asks = tokio::spawn(async move { line.send(call).await.status });
    timeout(PATIENCE, started.recv()).await.unwrap().unwrap();
    // The client goes, and its connection with it.
    asks.abort();
    assert!(asks.await.unwrap_err().is_cancelled());
    site.drain();
    while TcpStream::connect(site.web().address()).await.is_ok() {}
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    assert_eq!(*events.lock().unwrap(), [] as [&str; 0]);
    go.send(()).unwrap();
    site.ended().await;
    let expected = ["the handler ends", "the hook runs"];
    assert_eq!(*events.lock().unwrap(), expected);
}

/// Each look at this clock takes a millisecond, and somebody speaks.
#[derive(Default)]
struct Chatter {
    now: Mutex<u64>,
    speaker: Mutex<Option<Context>>,
}

impl Clock for Chatter {
    fn now(&self) -> Time {
        let now = {
            let mut now = self.now.lock().unwrap();
            *now += 1;
            *now
        };
        if let Some(context) = &*self.speaker.lock().unwrap() {
            #[allow(clippy::cast_precision_loss, reason = "it is small")]
            let word = pin!(context.progress(now as f64, None, None));
            let mut nobody = std::task::Context::from_waker(Waker::noop());
            // If there is no room, enough has been said.
            let _ = word.poll(&mut nobody);
        }
        Time(now)
    }

    fn sleep_until(&self, when: Time) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let is_over = *self.now.lock().unwrap() >= when.0;
        Box::pin(async move {
            if !is_over {
                std::future::pending::<()>().await;
            }
        })
    }
}

/// Somebody has a clone of the context, and whenever one word has been passed on, the next is
/// there already.
#[tokio::test]
async fn whoever_speaks_without_end_is_still_timed_out() {
    let clock = Arc::new(Chatter::default());
    let speaker = Arc::clone(&clock);
    let speak = Tool::new("speak", move |_: NoArguments, context: Context| {
        let speaker = Arc::clone(&speaker);
        async move {
            context.progress(0.5, None, None).await;
            *speaker.speaker.lock().unwrap() = Some(context);
            std::future::pending::<String>().await
        }
    });
    let server = Server::builder("desk", "1.0.0")
        .tool(speak.timeout(Duration::from_millis(200)))
        .clock(clock.clone())
        .build()
        .unwrap();
    let (mut client, _connection) = connect(&server);
    client.initialize().await;
    let params = json!({"name": "speak", "_meta": {"progressToken": 1}});
    let (words, answer) = client.exchange("tools/call", params).await;
    assert_eq!(refusal(&answer["result"]), 1069, "{answer}");
    assert!(words.len() < 300, "{} words passed", words.len());
    clock.speaker.lock().unwrap().take();
}

/// The first poll of a call is in place, on the loop of its connection. What a handler does after its
/// first wait must not keep that loop from reading.
#[tokio::test]
async fn a_handler_goes_on_in_a_task_of_its_own() {
    let work = Tool::new("work", |_: NoArguments, _: Context| async {
        let first = tokio::task::try_id();
        tokio::task::yield_now().await;
        format!("{}", first != tokio::task::try_id())
    });
    let server = Server::builder("desk", "1.0.0").tool(work).build().unwrap();
    let (mut client, _connection) = connect(&server);
    client.initialize().await;
    let (_, result) = client.call("work", json!({})).await;
    assert_eq!(result["content"][0]["text"], "true", "{result}");
}
