//! Instances that belong to no session.

use crate::support::{MINUTE, Site, exclusive, idle, run, shop, state, told, tool};
use interlock_engine::{
    CallFacts, Engine, Instance, Limits, OpenError, Principal, Source, StartError,
};
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
            // The first that was started is not safe any more after a minute.
            match engine.start(&who).await {
                Err(StartError::TooMany { most: many, wait }) => {
                    assert_eq!((many, wait), (most, MINUTE));
                }
                other => panic!("there is no room: {other:?}"),
            }
        }
    }
}

/// Seen to fail with 1059 for a day, though nobody could do anything with what had ended.
#[tokio::test]
async fn handles_that_have_ended_do_not_count() {
    let site = Site::default();
    let alice = Principal::new("alice");
    for engine in engines(&site) {
        let mut ended = Vec::new();
        for _ in 0..2 {
            let instance = engine.start(&alice).await.unwrap();
            ended.push(instance.id().to_string());
        }
        assert!(engine.start(&alice).await.is_err());
        for id in &ended {
            let instance = open(&engine, id, &alice).await.unwrap();
            run(&instance, "checkout", Outcome::Success).await;
            run(&instance, "pay", Outcome::Success).await;
            drop(instance);
            engine.start(&alice).await.unwrap();
            let gone = open(&engine, id, &alice).await;
            assert!(matches!(gone, Err(OpenError::Unknown)));
        }
        assert!(engine.start(&alice).await.is_err());
    }
}

#[tokio::test]
async fn of_too_many_handles_those_give_way_that_were_not_used_for_longest() {
    let site = Site::default();
    let alice = Principal::new("alice");
    for engine in engines(&site) {
        let start = async || engine.start(&alice).await.unwrap().id().to_string();
        let (moved, untouched) = (start().await, start().await);
        let instance = open(&engine, &moved, &alice).await.unwrap();
        run(&instance, "checkout", Outcome::Success).await;
        drop(instance);
        site.advance(MINUTE);
        // No call has had it.
        let third = start().await;
        let gone = open(&engine, &untouched, &alice).await;
        assert!(matches!(gone, Err(OpenError::Unknown)));
        // The third is new, and a call has had the first, not long ago.
        let refused = engine.start(&alice).await;
        assert!(matches!(refused, Err(StartError::TooMany { wait, .. }) if wait == MINUTE));
        site.advance(5 * MINUTE);
        let instance = open(&engine, &third, &alice).await.unwrap();
        run(&instance, "checkout", Outcome::Success).await;
        drop(instance);
        let refused = engine.start(&alice).await;
        assert!(matches!(refused, Err(StartError::TooMany { wait, .. }) if wait == 4 * MINUTE));
        site.advance(4 * MINUTE);
        start().await;
        let gone = open(&engine, &moved, &alice).await;
        assert!(matches!(gone, Err(OpenError::Unknown)));
        assert!(open(&engine, &third, &alice).await.is_ok());
    }
}

/// Seen to fail with a step that was lost: the handle was removed while its call ran.
#[tokio::test]
async fn a_handle_does_not_expire_while_its_call_runs() {
    let site = Site::default();
    let alice = Principal::new("alice");
    for engine in engines(&site) {
        let id = engine.start(&alice).await.unwrap().id().to_string();
        let instance = open(&engine, &id, &alice).await.unwrap();
        let long = CallFacts {
            time: 3 * HOUR,
            ..tool("checkout")
        };
        let mut reservation = exclusive(instance.reserve(&long).await.unwrap());
        idle().await;
        site.advance(2 * HOUR);
        idle().await;
        assert!(open(&engine, &id, &alice).await.is_ok());
        reservation.commit(Outcome::Success, None).await.unwrap();
        drop((reservation, instance));
        // The end of the call was a use.
        site.advance(HOUR / 2);
        idle().await;
        assert_eq!(state(&open(&engine, &id, &alice).await.unwrap()), "overdue");
        site.advance(2 * HOUR);
        idle().await;
        let gone = open(&engine, &id, &alice).await;
        assert!(matches!(gone, Err(OpenError::Unknown)));
    }
}

/// Somebody who waits without the turn, for a person's yes perhaps, uses the instance too. Seen to fail
/// with a journal that ended, and an instance that its own call made anew.
#[tokio::test]
async fn a_handle_that_is_in_use_is_not_removed() {
    let site = Site::default();
    let alice = Principal::new("alice");
    for engine in engines(&site) {
        let instance = engine.start(&alice).await.unwrap();
        let id = instance.id().to_string();
        idle().await;
        site.advance(2 * HOUR);
        idle().await;
        run(&instance, "checkout", Outcome::Success).await;
        drop(instance);
        assert_eq!(state(&open(&engine, &id, &alice).await.unwrap()), "due");
        assert_eq!(told(&engine.operator(), &id).await, ["started", "step"]);
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
    let id = instance.id().to_string();
    drop(instance);
    idle().await;
    site.advance(2 * HOUR);
    idle().await;
    let operator = engine.operator();
    assert_eq!(told(&operator, &id).await.last().unwrap(), "ended");
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
    let history = second.operator().history(&id, None, 10).await.unwrap();
    let ended =
        |number: usize| serde_json::to_value(&history[number].entry).unwrap()["what"] == "ended";
    assert!(ended(history.len() - 1));
}
