//! Engines on one store and one clock, and what tests do with their instances.

use crate::clock::ManualClock;
use interlock_engine::{
    CallFacts, Engine, EngineBuilder, Instance, Observer, Operator, Principal, Reservation,
    Reserved,
    journal::{Entry, replay},
};
use interlock_proto::{Level, Time};
use interlock_store::MemoryStore;
use interlock_workflow::{Kind, Outcome, Scope, Settings, Workflow, end};
use serde_json::Value;
use std::{
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

pub(crate) const MINUTE: Duration = Duration::from_secs(60);

/// One store and one clock for all engines of a test.
#[derive(Default)]
pub(crate) struct Site {
    pub(crate) store: Arc<MemoryStore>,
    clock: SharedClock,
}

/// A clock that stands at a time that is easy to tell from zero.
struct SharedClock(Arc<ManualClock>);

impl Default for SharedClock {
    fn default() -> Self {
        Self(Arc::new(ManualClock::at(Time(1_000_000))))
    }
}

impl Site {
    pub(crate) fn builder(&self, flow: &Workflow) -> EngineBuilder {
        Engine::builder(flow.clone()).clock(self.clock.0.clone())
    }

    /// An engine on the store that all share.
    pub(crate) fn durable(&self, flow: &Workflow) -> Engine {
        self.builder(flow).store(self.store.clone()).build()
    }

    /// An engine without a store: its instances live in memory.
    pub(crate) fn volatile(&self, flow: &Workflow) -> Engine {
        self.builder(flow).build()
    }

    /// Both kinds of engines.
    pub(crate) fn both(&self, flow: &Workflow) -> [Engine; 2] {
        [self.durable(flow), self.volatile(flow)]
    }

    pub(crate) fn advance(&self, span: Duration) {
        self.clock.0.advance(span);
    }
}

/// `checkout` leads to where `pay` may be called. If it is unknown what `pay` did, `check` finds out.
/// After a minute the bill is overdue.
pub(crate) fn shop(scope: Scope) -> Workflow {
    Workflow::builder("shop")
        .settings(Settings {
            scope,
            ..Settings::default()
        })
        .state("cart", |s| {
            s.initial().tool("checkout", |t| t.success("due"))
        })
        .state("due", |s| {
            s.tool("pay", |t| t.success(end("cart")).unknown("unclear"))
                .after(MINUTE, "overdue")
        })
        .state("unclear", |s| s.tool("check", |t| t.success("due")))
        .state("overdue", |s| s.tool("pay", |t| t.success(end("cart"))))
        .build()
        .unwrap()
}

pub(crate) fn session(engine: &Engine) -> Arc<Instance> {
    let instance = engine.connect(&Principal::anonymous()).unwrap();
    instance.expect("it belongs to a connection")
}

pub(crate) fn tool(name: &str) -> CallFacts<'_> {
    CallFacts::new(Kind::Tool, name)
}

#[track_caller]
pub(crate) fn exclusive(reserved: Reserved) -> Reservation {
    match reserved {
        Reserved::Exclusive(reservation) => reservation,
        Reserved::Beside(_) | Reserved::Ask(_) => panic!("it moves the instance"),
    }
}

pub(crate) async fn reserve(instance: &Arc<Instance>, name: &str) -> Reservation {
    exclusive(instance.reserve(&tool(name)).await.unwrap())
}

/// One call, from its reservation to its end.
pub(crate) async fn run(instance: &Arc<Instance>, name: &str, outcome: Outcome) {
    let mut reservation = reserve(instance, name).await;
    reservation.commit(outcome, None).await.unwrap();
}

pub(crate) fn state(instance: &Instance) -> &str {
    let workflow = instance.workflow();
    workflow.state_name(instance.position().state)
}

/// Lets the tasks in the background run until this holds.
#[track_caller]
pub(crate) fn until(holds: impl Fn() -> bool) -> impl Future<Output = ()> {
    let caller = std::panic::Location::caller();
    async move {
        for _ in 0..10_000 {
            if holds() {
                return;
            }
            tokio::task::yield_now().await;
        }
        panic!("it never came to that: {caller}");
    }
}

/// Lets the tasks in the background do all that they can.
pub(crate) async fn idle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

/// What the journal of an instance says to an operator, in words. It also leads where the instance
/// stands, if it was kept whole.
pub(crate) async fn history(operator: &Operator, instance: &Instance) -> Vec<String> {
    let recorded = operator.history(instance.id(), None, 1_000).await.unwrap();
    let entries: Vec<Entry> = recorded.into_iter().map(|one| one.entry).collect();
    if let Ok(replayed) = replay(instance.workflow(), &entries) {
        assert_eq!(replayed.position(), instance.position());
    }
    entries.iter().map(word).collect()
}

/// The same of an instance that need not be there any more.
pub(crate) async fn told(operator: &Operator, id: &str) -> Vec<String> {
    let recorded = operator.history(id, None, 1_000).await.unwrap();
    recorded.iter().map(|one| word(&one.entry)).collect()
}

fn word(entry: &Entry) -> String {
    let entry = serde_json::to_value(entry).unwrap();
    entry["what"].as_str().unwrap().to_owned()
}

/// A client that writes down what it is told.
#[derive(Default)]
pub(crate) struct Client(Mutex<Vec<Vec<Kind>>>);

impl Client {
    pub(crate) fn watching(instance: &Instance) -> Arc<Self> {
        let client = Arc::new(Self::default());
        let observer: Arc<dyn Observer> = client.clone();
        let observer: Weak<dyn Observer> = Arc::downgrade(&observer);
        instance.observe(observer);
        client
    }

    pub(crate) fn told(&self) -> Vec<Vec<Kind>> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Observer for Client {
    fn lists_changed(self: Arc<Self>, kinds: &[Kind]) {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        told.push(kinds.to_vec());
    }

    fn logged(&self, _: Level, _: &str, _: &Value) {}
}
