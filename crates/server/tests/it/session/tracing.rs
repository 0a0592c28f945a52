//! Whoever listens to traces may use the server: nothing is locked while it listens.

use crate::support::tools::tool;
use interlock::{Context, NoArguments, Resource, Server, Tool};
use interlock_testkit::{PATIENCE, connect};
use serde_json::json;
use std::{
    cell::{Cell, OnceCell},
    sync::mpsc,
};
use tracing::{
    Event, Metadata, Subscriber,
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
        if ours && !BUSY.replace(true) {
            server.resource_updated("log://latest");
            EVENTS.set(EVENTS.get() + 1);
            BUSY.set(false);
        }
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[test]
fn a_log_can_be_a_resource() {
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
        done.send(EVENTS.get()).unwrap();
    });
    let events = is_done
        .recv_timeout(PATIENCE)
        .expect("nothing must hang or panic");
    assert!(events > 10, "{events}");
}

/// Negotiates, subscribes, calls, asks and takes back.
async fn walk() {
    let ask = Tool::new("ask", |_: NoArguments, context: Context| async move {
        tokio::select! {
            answer = context.roots("roots") => format!("{answer:?}"),
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
        "capabilities": {"roots": {}},
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
    let id = client.begin("tools/call", json!({"name": "ask"})).await;
    let question = loop {
        let message = client.receive().await.unwrap();
        if message.get("id").is_some() {
            break message;
        }
    };
    assert_eq!(question["method"], "roots/list", "{question}");
    let taken_back = json!({"requestId": id});
    client.notify("notifications/cancelled", taken_back).await;
    connection.drain();
    client.hang_up();
    connection.ended().await;
}
