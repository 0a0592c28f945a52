//! Effects run after the commit, and a failure may lead elsewhere.

use crate::support::{Client, MINUTE, Site, history, reserve, run, session, state, until};
use async_trait::async_trait;
use interlock_engine::{Done, EffectRunner, Engine, Instance, Observer};
use interlock_workflow::{Artifact, Kind, Outcome, Scope, Settings, Workflow, end, to};
use serde_json::{Value, json};
use std::{
    sync::{Arc, Mutex, OnceLock, Weak},
    time::Duration,
};

/// Writes down what ran, and where the instance stood then. `broken` fails, and so does `fatal`,
/// which leads to `failed`.
#[derive(Default)]
struct Runner {
    ran: Mutex<Vec<(String, String, Done)>>,
    instance: OnceLock<Weak<Instance>>,
}

impl Runner {
    fn taken(&self) -> Vec<(String, String, Done)> {
        std::mem::take(&mut *self.ran.lock().unwrap())
    }
}

#[async_trait]
impl EffectRunner for Runner {
    fn time_for(&self, _: &[String]) -> Duration {
        MINUTE
    }

    fn wants_result(&self, _: &[String]) -> bool {
        false
    }

    fn on_failure(&self, name: &str) -> Option<&str> {
        (name == "fatal").then_some("failed")
    }

    async fn run(&self, name: &str, done: &Done, _: Vec<Weak<dyn Observer>>) -> Result<(), String> {
        let instance = self.instance.get().and_then(Weak::upgrade).unwrap();
        assert!(instance.try_turn().is_none(), "the next call waits for it");
        // It may wait for something.
        tokio::task::yield_now().await;
        let at = state(&instance).to_owned();
        self.ran
            .lock()
            .unwrap()
            .push((name.to_owned(), at, done.clone()));
        match name {
            "broken" | "fatal" => Err("no answer".to_owned()),
            _ => Ok(()),
        }
    }
}

fn flow() -> Workflow {
    Workflow::builder("post")
        .settings(Settings {
            scope: Scope::Session,
            ..Settings::default()
        })
        .state("new", |s| {
            let mails = to("sent").set("to", "'alice'").effect("mail").effect("log");
            s.initial()
                .tool("send", |t| {
                    t.success(mails).error(to("sent").effect("broken"))
                })
                .tool("burn", |t| {
                    t.success(to("sent").effect("fatal").effect("log"))
                })
        })
        .state("sent", |s| {
            s.after(MINUTE, to("old").effect("log"))
                .tool("read", |t| t.success(end("new")))
        })
        .state("old", |s| s.tool("read", |t| t.success(end("new"))))
        .state("failed", |s| s.tool("retry", |t| t.success("new")))
        .build()
        .unwrap()
}

fn engines(site: &Site) -> [(Engine, Arc<Runner>); 2] {
    let flow = flow();
    let durable = site.builder(&flow).store(site.store.clone());
    [durable, site.builder(&flow)].map(|builder| {
        let runner = Arc::new(Runner::default());
        (builder.effects(runner.clone()).build(), runner)
    })
}

fn start(engine: &Engine, runner: &Runner) -> Arc<Instance> {
    let instance = session(engine);
    runner.instance.set(Arc::downgrade(&instance)).unwrap();
    instance
}

/// A call and the effects of its step.
async fn call(instance: &Arc<Instance>, name: &str, outcome: Outcome) -> bool {
    let mut reservation = reserve(instance, name).await;
    let committed = reservation.commit(outcome, None).await.unwrap();
    let effects = committed.effects.expect("the edge names effects");
    reservation.perform(*effects).await.is_some()
}

#[tokio::test]
async fn effects_run_in_order_after_the_commit_and_before_the_next_call() {
    let site = Site::default();
    for (engine, runner) in engines(&site) {
        let instance = start(&engine, &runner);
        assert!(!call(&instance, "send", Outcome::Success).await);
        let ran = runner.taken();
        let names: Vec<_> = ran.iter().map(|(name, at, _)| (&**name, &**at)).collect();
        assert_eq!(names, [("mail", "sent"), ("log", "sent")]);
        let done = &ran[0].2;
        assert_eq!((&*done.from, &*done.to, done.ended), ("new", "sent", false));
        assert_eq!(done.call, Some(Artifact::new(Kind::Tool, "send")));
        assert_eq!(done.outcome, Some(Outcome::Success));
        assert_eq!(Value::Object(done.memory.clone()), json!({ "to": "alice" }));
        let wanted = ["started", "step", "effect", "effect"];
        assert_eq!(history(&engine.operator(), &instance).await, wanted);
    }
}

#[tokio::test]
async fn a_failure_is_journalled_and_may_lead_elsewhere() {
    let site = Site::default();
    for (engine, runner) in engines(&site) {
        let instance = start(&engine, &runner);
        assert!(!call(&instance, "send", Outcome::Error).await);
        assert_eq!(state(&instance), "sent", "it leads nowhere");
        run(&instance, "read", Outcome::Success).await;
        runner.taken();
        assert!(call(&instance, "burn", Outcome::Success).await);
        assert_eq!(state(&instance), "failed");
        assert_eq!(
            runner.taken().len(),
            1,
            "what follows a diversion does not run"
        );
        let wanted = [
            "started", "step", "effect", "step", "step", "effect", "diverted",
        ];
        assert_eq!(history(&engine.operator(), &instance).await, wanted);
        let all = engine
            .operator()
            .history(instance.id(), Some(2), 1)
            .await
            .unwrap();
        let entry = serde_json::to_value(&all[0].entry).unwrap();
        assert_eq!(entry["failed"], "no answer");
    }
}

#[tokio::test]
async fn a_timer_has_effects_too() {
    let site = Site::default();
    for (engine, runner) in engines(&site) {
        let instance = start(&engine, &runner);
        call(&instance, "send", Outcome::Success).await;
        runner.taken();
        let client = Client::watching(&instance);
        site.advance(MINUTE);
        until(|| state(&instance) == "old" && instance.try_turn().is_some()).await;
        let ran = runner.taken();
        assert_eq!(
            (&*ran[0].0, &*ran[0].1, &ran[0].2.call),
            ("log", "old", &None)
        );
        assert!(client.told().is_empty(), "both states offer the same");
    }
}
