//! Whoever listens to traces may use the server: nothing is locked while it listens.

use crate::support::tools::tool;
use interlock::{Context, Form, HttpOptions, NoArguments, Resource, Server, Tool, schemars};
use interlock_testkit::{
    PATIENCE, connect,
    web::{Session, Site},
};
use serde_json::json;
use std::{
    cell::{Cell, OnceCell, RefCell},
    collections::BTreeSet,
    fmt,
    sync::mpsc,
};
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};

/// A log that is a resource: whatever is logged changes it.
///
/// Everybody in this process logs to it, but it cares only about a thread that has a server: a
/// subscriber of one thread does not reliably hear what other threads have logged before.
struct Log;

thread_local! {
    static SERVER: OnceCell<Server> = const { OnceCell::new() };
    static EVENTS: Cell<usize> = const { Cell::new(0) };
    /// Which steps of machines have been logged.
    static STEPS: RefCell<BTreeSet<String>> = const { RefCell::new(BTreeSet::new()) };
    /// Telling of a change may be logged as well.
    static BUSY: Cell<bool> = const { Cell::new(false) };
}

impl Subscriber for Log {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let ours = event.metadata().target().starts_with("interlock");
        let Some(server) = SERVER.with(|server| server.get().cloned()) else {
            return;
        };
        if ours {
            let mut told = Told::default();
            event.record(&mut told);
            STEPS.with_borrow_mut(|steps| steps.insert(told.0.join(" ")));
        }
        if ours && !BUSY.replace(true) {
            server.resource_updated("log://latest");
            EVENTS.set(EVENTS.get() + 1);
            BUSY.set(false);
        }
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The machine, where it was, what happened and where it is now.
#[derive(Default)]
struct Told([String; 4]);

impl Visit for Told {
    fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}

    fn record_str(&mut self, field: &Field, value: &str) {
        let parts = ["machine", "from", "event", "to"];
        if let Some(part) = parts.iter().position(|part| *part == field.name()) {
            value.clone_into(&mut self.0[part]);
        }
    }
}

#[test]
fn a_log_can_be_a_resource_and_tells_of_each_machine_that_runs() {
    tracing::subscriber::set_global_default(Log).unwrap();
    tracing::callsite::rebuild_interest_cache();
    let (done, is_done) = mpsc::channel();
    // What hangs, hangs on a thread of its own.
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(walk());
        done.send((EVENTS.get(), STEPS.take())).unwrap();
    });
    let (events, steps) = is_done
        .recv_timeout(PATIENCE)
        .expect("nothing must hang or panic");
    assert!(events > 10, "{events}");
    for step in [
        "connection NotInitialized initialize Initializing",
        "negotiation NotNegotiated offer Negotiating",
        "subscription Unsubscribed subscribe Subscribed",
        "subscription Subscribed updated Subscribed",
        "subscription Subscribed unsubscribe Unsubscribing",
        "invocation Idle call Pending",
        "elicitation Pending complete Completed",
        "elicitation Pending client gone Cancelled",
    ] {
        assert!(steps.contains(step), "{step} is not in {steps:#?}");
    }
    let is_end = |step: &String| step.starts_with("session ") && step.ends_with(" Cleanup");
    assert!(steps.iter().any(is_end), "{steps:#?}");
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct Sure {
    sure: bool,
}

/// Negotiates, subscribes, calls, asks and takes back; then the same over HTTP, only shorter.
async fn walk() {
    let ask = Tool::new("ask", |_: NoArguments, context: Context| async move {
        let form = Form::of::<Sure>("Really?");
        tokio::select! {
            answer = context.elicit("sure", &form) => format!("{answer:?}"),
            () = context.cancelled() => "taken back".to_owned(),
        }
    });
    let server = Server::builder("desk", "1.0.0")
        .tool(tool("search"))
        .tool(ask)
        .resource(Resource::text("log://latest", "a line"))
        .build()
        .unwrap();
    SERVER.with(|slot| slot.set(server.clone())).unwrap();
    let (mut client, mut connection) = connect(&server);
    let hello = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "tester", "version": "0"},
    });
    client.request("initialize", hello).await;
    client.notify("notifications/initialized", json!({})).await;
    let uri = json!({"uri": "log://latest"});
    client.request("resources/subscribe", uri).await;
    let (told, result) = client.call("search", json!({})).await;
    assert_eq!(result["content"][0]["text"], "search is done");
    assert!(
        told.iter()
            .any(|it| it == "notifications/resources/updated"),
        "{told:?}"
    );
    let uri = json!({"uri": "log://latest"});
    client.request("resources/unsubscribe", uri).await;
    for is_answered in [true, false] {
        let id = client.begin("tools/call", json!({"name": "ask"})).await;
        let question = loop {
            let message = client.receive().await.unwrap();
            if message.get("id").is_some() {
                break message;
            }
        };
        assert_eq!(question["method"], "elicitation/create", "{question}");
        if is_answered {
            let yes = json!({"action": "accept", "content": {"sure": true}});
            let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": yes});
            client.send(answer).await;
            client.until(id).await;
        } else {
            let taken_back = json!({"requestId": id});
            client.notify("notifications/cancelled", taken_back).await;
        }
    }
    connection.drain();
    client.hang_up();
    connection.ended().await;

    let site = Site::open(&server, HttpOptions::default()).await;
    let session = Session::open(&site).await;
    site.send(session.delete()).await;
}
