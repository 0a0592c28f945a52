//! Reserve, commit, release, and what becomes of a reservation that is dropped.

use crate::support::{Client, Site, history, reserve, run, session, shop, state, tool, until};
use interlock_engine::{EngineError, OpenError, Principal, ReserveError, Source};
use interlock_workflow::{Kind, Outcome, Scope, Workflow, end};
use std::sync::Arc;

#[tokio::test]
async fn an_instance_moves_when_its_call_commits() {
    let (site, flow) = (Site::default(), shop(Scope::Session));
    for engine in site.both(&flow) {
        let instance = session(&engine);
        assert!(instance.admit(&tool("pay")).is_err());
        let mut reservation = reserve(&instance, "checkout").await;
        assert_eq!(state(&instance), "cart", "it runs");
        let committed = reservation.commit(Outcome::Success, None).await.unwrap();
        assert_eq!(committed.after, instance.position());
        drop(reservation);
        assert_eq!(state(&instance), "due");
        assert!(instance.admit(&tool("pay")).is_ok());
        let refused = instance.reserve(&tool("checkout")).await;
        assert!(matches!(refused, Err(ReserveError::Refused(why)) if why.code() == 1081));
        run(&instance, "pay", Outcome::Success).await;
        assert_eq!(state(&instance), "cart", "it begins again");
        let history = history(&engine.operator(), &instance).await;
        assert_eq!(history, ["started", "step", "step"]);
    }
}

#[tokio::test]
async fn a_released_call_leaves_everything_as_it_was() {
    let (site, flow) = (Site::default(), shop(Scope::Session));
    for engine in site.both(&flow) {
        let instance = session(&engine);
        reserve(&instance, "checkout")
            .await
            .release(false)
            .await
            .unwrap();
        reserve(&instance, "checkout")
            .await
            .release(true)
            .await
            .unwrap();
        assert_eq!(state(&instance), "cart");
        run(&instance, "checkout", Outcome::Success).await;
        let operator = engine.operator();
        assert_eq!(
            history(&operator, &instance).await,
            ["started", "paused", "step"]
        );
        let shown = operator.show(instance.id()).await.unwrap();
        assert_eq!((shown.summary.calls, shown.summary.running), (3, None));
    }
}

#[tokio::test]
async fn the_outcome_of_a_dropped_reservation_is_unknown() {
    let (site, flow) = (Site::default(), shop(Scope::Session));
    for engine in site.both(&flow) {
        let instance = session(&engine);
        run(&instance, "checkout", Outcome::Success).await;
        let client = Client::watching(&instance);
        drop(reserve(&instance, "pay").await);
        // The timers commit that.
        until(|| state(&instance) == "unclear").await;
        assert_eq!(client.told(), [[Kind::Tool]]);
        run(&instance, "check", Outcome::Success).await;
        assert_eq!(state(&instance), "due");
    }
}

#[tokio::test]
async fn calls_take_turns_in_the_order_in_which_they_came() {
    let (site, flow) = (Site::default(), shop(Scope::Session));
    for engine in site.both(&flow) {
        let instance = session(&engine);
        let mut first = reserve(&instance, "checkout").await;
        let second = tokio::spawn({
            let instance = Arc::clone(&instance);
            async move { run(&instance, "pay", Outcome::Success).await }
        });
        tokio::task::yield_now().await;
        assert!(!second.is_finished());
        first.commit(Outcome::Success, None).await.unwrap();
        drop(first);
        second.await.unwrap();
        assert_eq!(state(&instance), "cart");
    }
}

#[tokio::test]
async fn a_session_that_ends_takes_its_instance_along() {
    let (site, flow) = (Site::default(), shop(Scope::Session));
    for engine in site.both(&flow) {
        let instance = session(&engine);
        run(&instance, "checkout", Outcome::Success).await;
        let id = instance.id().to_string();
        assert_eq!(
            engine.operator().instances(None, 10).await.unwrap().len(),
            1
        );
        instance.end().await.unwrap();
        drop(instance);
        assert!(
            engine
                .operator()
                .instances(None, 10)
                .await
                .unwrap()
                .is_empty()
        );
        let anew = engine.reconnect(Some(id), &Principal::anonymous());
        assert_eq!(state(&anew.unwrap().unwrap()), "cart");
    }
}

#[tokio::test]
async fn a_session_that_comes_back_finds_its_instance_where_it_was() {
    let (site, flow) = (Site::default(), shop(Scope::Session));
    for engine in site.both(&flow) {
        let instance = session(&engine);
        run(&instance, "checkout", Outcome::Success).await;
        let id = instance.id().to_string();
        instance.write_record().await.unwrap();
        drop(instance);
        let back = engine.reconnect(Some(id.clone()), &Principal::anonymous());
        let back = back.unwrap().unwrap();
        back.find().await.unwrap();
        assert_eq!((state(&back), &**back.id()), ("due", &*id));
        drop(back);
        engine.forget(Some(id)).await;
        assert!(
            engine
                .operator()
                .instances(None, 10)
                .await
                .unwrap()
                .is_empty()
        );
    }
}

#[tokio::test]
async fn who_shares_an_instance_is_for_the_workflow_to_say() {
    let site = Site::default();
    let (alice, bob) = (Principal::new("alice"), Principal::new("bob"));
    let ids = |scope| {
        let engine = site.durable(&shop(scope));
        let ids = [&alice, &alice, &bob].map(|who| {
            let instance = engine.connect(who).unwrap();
            instance.map(|instance| instance.id().to_string())
        });
        [ids[0] == ids[1], ids[0] == ids[2]]
    };
    assert_eq!(ids(Scope::Session), [false, false]);
    assert_eq!(ids(Scope::Principal), [true, false]);
    assert_eq!(ids(Scope::Global), [true, true]);
    let engine = site.durable(&shop(Scope::Handle));
    assert!(engine.connect(&alice).unwrap().is_none());
    let engine = site.durable(&shop(Scope::Principal));
    let unknown = engine.connect(&Principal::anonymous());
    assert!(matches!(unknown, Err(OpenError::Unauthenticated)));
    let unknown = engine.open(&Source::Caller, &Principal::anonymous()).await;
    assert!(matches!(unknown, Err(OpenError::Unauthenticated)));
}

#[tokio::test]
async fn an_instance_of_another_definition_is_not_opened() {
    let site = Site::default();
    let engine = site.durable(&shop(Scope::Global));
    run(&session(&engine), "checkout", Outcome::Success).await;
    let other = Workflow::builder("shop")
        .settings(engine.workflow().settings().clone())
        .state("cart", |s| {
            s.initial().tool("look", |t| t.success(end("cart")))
        })
        .build()
        .unwrap();
    let engine = site.durable(&other);
    let opened = engine.open(&Source::Caller, &Principal::anonymous()).await;
    let foreign =
        |error: &EngineError| matches!(error, EngineError::Foreign(name) if name == "shop");
    assert!(matches!(opened, Err(OpenError::Engine(error)) if foreign(&error)));
}
