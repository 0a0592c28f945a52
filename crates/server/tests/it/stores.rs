//! The store is the truth: what happens when it is slow, fails, or knows more than the server.

use crate::common::{
    OnCancel, PATIENCE, desk, desk_with, held, nothing_comes, refusal, state, tool,
};
use async_trait::async_trait;
use interlock::{
    Server, Workflow,
    store::{
        Change, Entry, Feed, Journal, Key, Kind, Logged, MemoryStore, Record, Seq, Store,
        StoreError, Time, Version,
    },
    workflow::{Busy, Scope, Settings, end},
};
use interlock_testkit::connect;
use serde_json::json;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::sync::{Semaphore, mpsc};

/// A store whose commits land at once and are acknowledged when the test says so, or never.
struct Slow {
    inner: MemoryStore,
    landed: mpsc::UnboundedSender<()>,
    acknowledge: Semaphore,
    fails: AtomicBool,
}

impl Slow {
    fn new() -> (Arc<Self>, mpsc::UnboundedReceiver<()>) {
        let (landed, has_landed) = mpsc::unbounded_channel();
        let slow = Self {
            inner: MemoryStore::default(),
            landed,
            acknowledge: Semaphore::new(0),
            fails: AtomicBool::new(false),
        };
        (Arc::new(slow), has_landed)
    }
}

#[async_trait]
impl Store for Slow {
    async fn load(&self, key: &Key, now: Time) -> Result<Option<Record>, StoreError> {
        self.inner.load(key, now).await
    }

    async fn commit(
        &self,
        changes: &[Change],
        entries: &[Entry],
        now: Time,
    ) -> Result<Vec<Version>, StoreError> {
        if self.fails.load(Ordering::SeqCst) {
            return Err(StoreError::Unavailable("on purpose".into()));
        }
        let committed = self.inner.commit(changes, entries, now).await;
        self.landed.send(()).unwrap();
        self.acknowledge.acquire().await.unwrap().forget();
        committed
    }

    async fn list(
        &self,
        kind: &Kind,
        after: Option<&Key>,
        limit: usize,
        now: Time,
    ) -> Result<Vec<Key>, StoreError> {
        self.inner.list(kind, after, limit, now).await
    }

    async fn expired(
        &self,
        kind: &Kind,
        now: Time,
        limit: usize,
    ) -> Result<Vec<(Key, Record)>, StoreError> {
        self.inner.expired(kind, now, limit).await
    }

    async fn journal(
        &self,
        key: &Key,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Logged>, StoreError> {
        self.inner.journal(key, after, limit).await
    }

    async fn journal_end(&self, key: &Key) -> Result<Seq, StoreError> {
        self.inner.journal_end(key).await
    }

    async fn journals(
        &self,
        kind: &Kind,
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Vec<Journal>, StoreError> {
        self.inner.journals(kind, after, limit).await
    }

    async fn prune(&self, key: &Key, up_to: Seq) -> Result<(), StoreError> {
        self.inner.prune(key, up_to).await
    }

    async fn changes(&self) -> Result<Feed, StoreError> {
        self.inner.changes().await
    }
}

const MANY: usize = 1_000;

#[tokio::test]
async fn a_slow_store_stalls_its_own_call_and_nobody_else() {
    let (store, mut landed) = Slow::new();
    let server = desk(tool("work")).store(store.clone()).build().unwrap();
    let (mut client, _connection) = connect(&server);
    client.initialize().await;
    let id = client.begin("tools/call", json!({"name": "work"})).await;
    for _ in 0..2 {
        landed.recv().await.unwrap();
        nothing_comes(&mut client).await;
        let (_, result) = client.call("search", json!({})).await;
        assert_eq!(result["content"][0]["text"], "search is done");
        store.acknowledge.add_permits(1);
    }
    let (before, answer) = client.until(id).await;
    assert_eq!(before.len(), 3);
    assert_eq!(
        answer["result"]["_meta"]["dev.interlock/workflow"]["state"],
        "done"
    );
}

/// Seen to fail with a snapshot that is changed before the store has said yes.
#[tokio::test]
async fn a_list_is_that_of_the_old_state_until_the_new_one_is_saved() {
    let (store, mut landed) = Slow::new();
    let server = desk(tool("work")).store(store.clone()).build().unwrap();
    let (mut client, _connection) = connect(&server);
    client.initialize().await;
    let id = client.begin("tools/call", json!({"name": "work"})).await;
    for _ in 0..2 {
        landed.recv().await.unwrap();
        assert_eq!(client.tools().await, ["work", "peek", "search"]);
        store.acknowledge.add_permits(1);
    }
    client.until(id).await;
    assert_eq!(client.tools().await, ["close", "search"]);
}

/// `busy: refuse` is about calls: a timer that is just being saved is waited for. Seen to fail with
/// a call that takes any turn for another call's.
#[tokio::test]
async fn a_call_that_would_not_wait_for_others_waits_for_a_timer() {
    let minute = Duration::from_secs(60);
    let settings = Settings {
        busy: Busy::Refuse,
        ..Settings::default()
    };
    let flow = Workflow::builder("w")
        .settings(settings)
        .state("a", |s| {
            s.initial()
                .after(minute, "b")
                .tool("work", |t| t.success(end("a")))
        })
        .state("b", |s| s.tool("work", |t| t.success(end("a"))))
        .build()
        .unwrap();
    let clock = Arc::new(interlock_testkit::ManualClock::new());
    let (store, mut landed) = Slow::new();
    let server = Server::builder("s", "0").tool(tool("work")).workflow(flow);
    let server = server.store(store.clone()).clock(clock.clone());
    let (mut client, _connection) = connect(&server.build().unwrap());
    store.acknowledge.add_permits(1);
    landed.recv().await.unwrap();
    client.initialize().await;
    clock.advance(minute);
    landed.recv().await.unwrap();
    let id = client.begin("tools/call", json!({"name": "work"})).await;
    nothing_comes(&mut client).await;
    store.acknowledge.add_permits(MANY);
    let (_, answer) = client.until(id).await;
    assert_eq!(answer["result"]["isError"], false, "{answer}");
}

/// The reservation has landed, but the call is taken back before the store says so. The instance
/// must not be lost over it.
#[tokio::test]
async fn a_call_that_is_taken_back_while_it_is_reserved_leaves_the_instance_usable() {
    let (store, mut landed) = Slow::new();
    let server = desk(tool("work")).store(store.clone()).build().unwrap();
    let (mut client, _connection) = connect(&server);
    client.initialize().await;
    let id = client.begin("tools/call", json!({"name": "work"})).await;
    landed.recv().await.unwrap();
    let params = json!({"requestId": id});
    client.notify("notifications/cancelled", params).await;
    nothing_comes(&mut client).await;
    store.acknowledge.add_permits(MANY);
    nothing_comes(&mut client).await;
    assert_eq!(state(&mut client).await, "open");
    let (_, result) = client.call("work", json!({})).await;
    assert_eq!(result["content"][0]["text"], "work is done", "{result}");
    assert_eq!(state(&mut client).await, "done");
}

#[tokio::test]
async fn nothing_runs_that_could_not_be_reserved() {
    let (store, _landed) = Slow::new();
    store.acknowledge.add_permits(MANY);
    store.fails.store(true, Ordering::SeqCst);
    let (work, mut held) = held("work", OnCancel::GoesOn);
    held.let_go(MANY);
    let server = desk(work).store(store.clone()).build().unwrap();
    let (mut client, _connection) = connect(&server);
    client.initialize().await;
    let (before, result) = client.call("work", json!({})).await;
    assert_eq!(before, [] as [&str; 0]);
    assert_eq!(result["isError"], true, "{result}");
    assert_eq!(refusal(&result), 1079, "{result}");
    assert!(held.is_quiet());
    assert_eq!(state(&mut client).await, "open");
    store.fails.store(false, Ordering::SeqCst);
    let (_, result) = client.call("work", json!({})).await;
    assert_eq!(result["content"][0]["text"], "done", "{result}");
}

/// What the handler did is done, so the call counts as one of which nobody knows what it did.
#[tokio::test]
async fn a_step_that_could_not_be_saved_was_not_taken_and_the_instance_lives_on() {
    let (store, _landed) = Slow::new();
    store.acknowledge.add_permits(MANY);
    let (work, mut held) = held("work", OnCancel::GoesOn);
    let server = desk(work).store(store.clone()).build().unwrap();
    let (mut client, _connection) = connect(&server);
    client.initialize().await;
    let id = client.begin("tools/call", json!({"name": "work"})).await;
    held.started().await;
    store.fails.store(true, Ordering::SeqCst);
    held.let_go(1);
    let (before, answer) = client.until(id).await;
    assert_eq!(before.len(), 0, "{before:?}");
    assert_eq!(refusal(&answer["result"]), 1079, "{answer}");
    assert_eq!(state(&mut client).await, "open");
    store.fails.store(false, Ordering::SeqCst);
    let (_, result) = client.call("work", json!({})).await;
    assert_eq!(refusal(&result), 1081, "{result}");
    let refusal = &result["_meta"]["dev.interlock/refusal"];
    assert_eq!(refusal["state"], "unclear", "{result}");
    let (_, result) = client.call("close", json!({})).await;
    assert_eq!(result["content"][0]["text"], "close is done", "{result}");
}

/// An instance that everybody shares outlives the server, if its store does.
#[tokio::test]
async fn a_server_finds_the_shared_instance_where_the_last_one_left_it() {
    let settings = Settings {
        scope: Scope::Global,
        ..Settings::default()
    };
    let store = MemoryStore::default();
    let server = || {
        desk_with(settings.clone(), tool("work"))
            .store(Arc::new(store.clone()))
            .build()
            .unwrap()
    };
    let (mut client, connection) = connect(&server());
    client.initialize().await;
    client.call("work", json!({})).await;
    client.hang_up();
    connection.ended().await;

    let (mut client, _connection) = connect(&server());
    client.initialize().await;
    assert_eq!(state(&mut client).await, "done");
    let (_, result) = client.call("close", json!({})).await;
    assert_eq!(result["content"][0]["text"], "close is done", "{result}");
}

#[tokio::test]
async fn a_store_that_never_answers_does_not_keep_the_server_from_ending() {
    let clock = Arc::new(interlock_testkit::ManualClock::new());
    let (store, mut landed) = Slow::new();
    let builder = desk(tool("work")).store(store.clone());
    let server = builder.clock(clock.clone()).build().unwrap();
    let (mut client, connection) = connect(&server);
    client.initialize().await;
    client.begin("tools/call", json!({"name": "work"})).await;
    landed.recv().await.unwrap();
    // The reservation is acknowledged, the step is not.
    store.acknowledge.add_permits(1);
    tokio::time::timeout(PATIENCE, landed.recv())
        .await
        .unwrap()
        .unwrap();
    client.hang_up();
    // First the drain ends, then the time in which the rest may be written.
    let mut ended = std::pin::pin!(connection.ended());
    for _ in 0..10 {
        clock.advance(Duration::from_secs(30));
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }
    ended.as_mut().await;
}
