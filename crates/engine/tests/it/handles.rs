//! Instances that belong to no session.

use crate::support::{Site, history, idle, run, shop, state};
use interlock_engine::{Engine, Instance, Limits, OpenError, Principal, Source, StartError};
use interlock_store::{Kind, Store, Time};
use interlock_workflow::{Outcome, Scope};
use std::{sync::Arc, time::Duration};

const HOUR: Duration = Duration::from_secs(3_600);

fn limits() -> Limits {
    Limits {
        handle_idle: HOUR,
        handles: 2,
        anonymous_handles: 3,
    }
}

fn engines(site: &Site) -> [Engine; 2] {
    let flow = shop(Scope::Handle);
    let durable = site.builder(&flow).store(site.store.clone());
    [durable, site.builder(&flow)].map(|builder| builder.limits(limits()).build())
}

async fn open(engine: &Engine, id: &str, who: &Principal) -> Result<Arc<Instance>, OpenError> {
    engine.open(&Source::Handle(id.to_owned()), who).await
}

#[tokio::test]
async fn a_handle_leads_to_its_instance_and_to_nobody_elses() {
    let site = Site::default();
    let (alice, bob) = (Principal::new("alice"), Principal::new("bob"));
    for engine in engines(&site) {
        let started = engine.start(&alice).await.unwrap();
        let id = started.id().to_string();
        run(&started, "checkout", Outcome::Success).await;
        let found = open(&engine, &id, &alice).await.unwrap();
        assert!(Arc::ptr_eq(&found, &started));
        assert_eq!(state(&found), "due");
        for other in [&bob, &Principal::anonymous()] {
            assert!(matches!(
                open(&engine, &id, other).await,
                Err(OpenError::Unknown)
            ));
        }
        for wrong in ["", "wf_", "nothing", &id[..id.len() - 1], &format!("{id}x")] {
            let found = open(&engine, wrong, &alice).await;
            assert!(matches!(found, Err(OpenError::Unknown)), "{wrong}");
        }
        // What was refused has changed nothing.
        run(&found, "pay", Outcome::Success).await;
        assert!(
            found.position().finished,
            "an instance behind a handle never begins again"
        );
    }
}

#[tokio::test]
async fn a_handle_is_found_by_every_engine_on_the_store() {
    let site = Site::default();
    let alice = Principal::new("alice");
    let [first, _] = engines(&site);
    let [second, _] = engines(&site);
    let started = first.start(&alice).await.unwrap();
    let found = open(&second, started.id(), &alice).await.unwrap();
    run(&found, "checkout", Outcome::Success).await;
    let found = open(&first, started.id(), &alice).await.unwrap();
    assert_eq!(state(&found), "due");
    let bob = open(&second, started.id(), &Principal::new("bob")).await;
    assert!(matches!(bob, Err(OpenError::Unknown)));
}

#[tokio::test]
async fn each_principal_has_only_so_many_handles() {
    let site = Site::default();
    for engine in engines(&site) {
        let everybody = [
            (Principal::new("alice"), 2),
            (Principal::new("bob"), 2),
            (Principal::anonymous(), 3),
        ];
        for (who, most) in everybody {
            for _ in 0..most {
                engine.start(&who).await.unwrap();
            }
            let refused = engine.start(&who).await;
            assert!(matches!(refused, Err(StartError::TooMany(many)) if many == most));
        }
    }
}

#[tokio::test]
async fn a_handle_expires_unless_it_is_used() {
    let site = Site::default();
    let alice = Principal::new("alice");
    for engine in engines(&site) {
        let used = engine.start(&alice).await.unwrap().id().to_string();
        let unused = engine.start(&alice).await.unwrap().id().to_string();
        for _ in 0..4 {
            site.advance(HOUR / 2);
            open(&engine, &used, &alice).await.unwrap();
        }
        let gone = open(&engine, &unused, &alice).await;
        assert!(matches!(gone, Err(OpenError::Unknown)));
        assert!(open(&engine, &used, &alice).await.is_ok());
        // There is room again.
        engine.start(&alice).await.unwrap();
    }
}

#[tokio::test]
async fn what_has_expired_is_removed_and_its_journal_says_so() {
    let site = Site::default();
    let [engine, _] = engines(&site);
    let instance = engine.start(&Principal::new("alice")).await.unwrap();
    run(&instance, "checkout", Outcome::Success).await;
    idle().await;
    site.advance(2 * HOUR);
    idle().await;
    let operator = engine.operator();
    let history = history(&operator, &instance).await;
    assert_eq!(history.last().unwrap(), "ended");
    assert!(operator.instances(None, 10).await.unwrap().is_empty());
}

/// More than are removed at once.
#[tokio::test]
async fn all_that_has_expired_is_removed_without_a_pause() {
    let site = Site::default();
    let limits = Limits {
        handles: 20,
        ..limits()
    };
    let builder = site.builder(&shop(Scope::Handle)).store(site.store.clone());
    let engine = builder.limits(limits).build();
    let alice = Principal::new("alice");
    for _ in 0..20 {
        engine.start(&alice).await.unwrap();
    }
    idle().await;
    site.advance(2 * HOUR);
    idle().await;
    let kind = Kind::from_static("instance");
    let left = site.store.expired(&kind, Time(u64::MAX), 100).await;
    assert!(left.unwrap().is_empty());
}

#[tokio::test]
async fn an_engine_may_watch_the_handles_that_others_have_left() {
    let site = Site::default();
    let [first, _] = engines(&site);
    let id = first
        .start(&Principal::new("alice"))
        .await
        .unwrap()
        .id()
        .to_string();
    drop(first);
    site.advance(2 * HOUR);
    let [second, _] = engines(&site);
    second.watch_handles();
    idle().await;
    let history = second.operator().history(&id, 0, 10).await.unwrap();
    let ended =
        |number: usize| serde_json::to_value(&history[number].entry).unwrap()["what"] == "ended";
    assert!(ended(history.len() - 1));
}
