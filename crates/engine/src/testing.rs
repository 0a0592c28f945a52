//! What the unit tests share: processes on one store, small workflows, a look at a journal.

#[path = "../tests/support/clock.rs"]
mod clock;

pub(crate) use clock::ManualClock;

use crate::{
    clock::Clock,
    committed::Committed,
    engine::{Engine, EngineBuilder, Shared},
    instance::{CallFacts, Instance},
    journal::Entry,
    lock,
    record::Running,
    reservation::{Reservation, ReserveError, Reserved},
};
use interlock_proto::Time;
use interlock_store::{MemoryStore, Seq, Store};
use interlock_workflow::{Binding, Instance as Run, Kind, Outcome, Pass, Workflow, end};
use std::{sync::Arc, time::Duration};

/// When every test begins.
pub(crate) const NOW: Time = Time(1_000);

/// How many entries a journal in memory has, unless a test says otherwise.
pub(crate) const LIMIT: u64 = 10;

/// One store, and a clock that is the same for all its processes. Their timers do not run.
pub(crate) struct World {
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) flow: Workflow,
    pub(crate) journal_limit: Option<u64>,
}

impl World {
    /// The store is given, and others may use it.
    pub(crate) fn durable(flow: Workflow) -> Self {
        Self {
            store: Arc::default(),
            clock: Arc::new(ManualClock::at(NOW)),
            flow,
            journal_limit: None,
        }
    }

    /// The store is the process's own, and instances live in memory.
    pub(crate) fn volatile(flow: Workflow) -> Self {
        Self {
            journal_limit: Some(LIMIT),
            ..Self::durable(flow)
        }
    }

    /// One process.
    pub(crate) fn process(&self) -> Arc<Shared> {
        self.process_with(|builder| builder)
    }

    pub(crate) fn process_with(
        &self,
        with: impl FnOnce(EngineBuilder) -> EngineBuilder,
    ) -> Arc<Shared> {
        let clock = Arc::clone(&self.clock) as Arc<dyn Clock>;
        let builder = with(Engine::builder(self.flow.clone()).clock(clock));
        let store = Arc::clone(&self.store) as Arc<dyn Store>;
        let shared = builder.assemble(store, self.journal_limit);
        shared.timers.close();
        shared
    }

    /// The instance `i`, as one more process knows it before it looks.
    pub(crate) fn instance(&self) -> Arc<Instance> {
        Instance::new(&self.process(), "i".into(), None)
    }

    /// Lets time pass up to then.
    pub(crate) fn pass(&self, until: Time) {
        self.clock.advance(self.clock.now().until(until));
    }

    /// The journal of an instance as it is stored.
    pub(crate) async fn journal(&self, instance: &Instance) -> Vec<Entry> {
        let journal = self.store.journal(&instance.key, Seq::START, 10_000).await;
        let entries = journal.unwrap().into_iter();
        entries
            .map(|logged| serde_json::from_slice(&logged.bytes).unwrap())
            .collect()
    }

    /// What the journal says to an operator who looks: the calls that ended, by number, and
    /// everything else in words.
    pub(crate) async fn told(&self, instance: &Instance) -> Vec<String> {
        instance.write_journal().await.unwrap();
        let journal = self.journal(instance).await;
        let words = journal.iter().map(|entry| {
            let entry = serde_json::to_value(entry).unwrap();
            match entry["what"].as_str().unwrap() {
                "step" => entry["call"].to_string(),
                "left_out" => format!("{} left out", entry["entries"]),
                other => other.to_owned(),
            }
        });
        words.collect()
    }
}

/// A state that `go` may lead back to, and one for when its outcome is unknown.
pub(crate) fn flow() -> Workflow {
    Workflow::builder("w")
        .state("a", |s| {
            s.initial()
                .tool("go", |t| t.success(end("a")).unknown("unclear"))
        })
        .state("unclear", |s| s.tool("end", |t| t.success(end("a"))))
        .build()
        .unwrap()
}

/// Every call of `go` leads on, and nothing has to be worked out for that.
pub(crate) fn ring() -> Workflow {
    Workflow::builder("ring")
        .state("a", |s| s.initial().tool("go", |t| t.success("b")))
        .state("b", |s| {
            s.tool("go", |t| t.success("a"))
                .tool("end", |t| t.success(end("a")))
        })
        .build()
        .unwrap()
}

/// `a` is left for `b` after a minute.
pub(crate) fn timed() -> Workflow {
    Workflow::builder("w")
        .state("a", |s| {
            let s = s.initial().tool("go", |t| t.success("b"));
            s.after(MINUTE, "b")
        })
        .state("b", |s| s.tool("end", |t| t.success(end("a"))))
        .build()
        .unwrap()
}

pub(crate) fn go<'w>(workflow: &'w Workflow, run: &Run) -> Option<&'w Binding> {
    match workflow.admit(run.position(), Kind::Tool, "go") {
        Ok(Pass::Bound(binding)) => Some(binding),
        Ok(Pass::Always) | Err(_) => None,
    }
}

/// A call of that number and node, which must be over at 5,000.
pub(crate) fn running((call, node): (u64, u64), (kind, name): (Kind, &str)) -> Running {
    Running {
        call,
        kind,
        name: name.into(),
        until: 5_000,
        node,
        input: None,
        question: None,
    }
}

/// A call of a tool that must be over by then.
pub(crate) fn call_until(name: &str, until: Time) -> CallFacts<'_> {
    CallFacts {
        time: NOW.until(until),
        ..CallFacts::new(Kind::Tool, name)
    }
}

/// Reserves the instance for a call of `go` that must be over by then.
pub(crate) async fn reserve(instance: &Arc<Instance>, until: Time) -> Reservation {
    exclusive(instance.reserve(&call_until("go", until)).await)
}

/// What a call gets that moves the instance.
#[track_caller]
pub(crate) fn exclusive(reserved: Result<Reserved, ReserveError<'_>>) -> Reservation {
    match reserved.unwrap() {
        Reserved::Exclusive(reservation) => reservation,
        Reserved::Beside(_) | Reserved::Ask(_) => panic!("it moves the instance"),
    }
}

/// Checks that a call is refused by the workflow.
#[track_caller]
pub(crate) fn refused(reserved: Result<Reserved, ReserveError<'_>>) {
    assert!(matches!(reserved, Err(ReserveError::Refused(_))));
}

/// One call of `go`, from its reservation to its end.
pub(crate) async fn run(instance: &Arc<Instance>, outcome: Outcome) -> Committed {
    let mut reservation = reserve(instance, Time(9_000)).await;
    reservation.commit(outcome, None).await.unwrap()
}

pub(crate) async fn step(instance: &Arc<Instance>) {
    run(instance, Outcome::Success).await;
}

/// Two steps: the first is stored, and the record of the second is to follow.
pub(crate) async fn get_behind(instance: &Arc<Instance>) {
    for _ in 0..2 {
        step(instance).await;
    }
    assert!(lock(&instance.state).stored.is_behind());
}

pub(crate) fn state_of(instance: &Instance) -> String {
    let workflow = instance.workflow();
    workflow.state_name(instance.position().state).to_owned()
}

/// Notes that a call has ended that could not move the instance.
pub(crate) fn ran(instance: &Arc<Instance>) {
    let bound = go(instance.workflow(), &instance.run()).unwrap().id();
    instance.note_ran(bound, Outcome::Success, NOW);
}

pub(crate) fn refuse(instance: &Arc<Instance>) {
    instance.note_refused(Kind::Tool, "end", (1081, "no"));
}

pub(crate) const MINUTE: Duration = Duration::from_secs(60);
