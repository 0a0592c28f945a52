//! Timers fire once, wherever the instance is.

use crate::support::{Client, MINUTE, Site, history, idle, run, session, shop, state, until};
use interlock_engine::Principal;
use interlock_workflow::{Kind, Outcome, Scope};
use std::time::Duration;

#[tokio::test]
async fn a_timer_fires_when_its_time_has_come_and_not_before() {
    let (site, flow) = (Site::default(), shop(Scope::Session));
    for engine in site.both(&flow) {
        let instance = session(&engine);
        run(&instance, "checkout", Outcome::Success).await;
        let client = Client::watching(&instance);
        site.advance(MINUTE - Duration::from_millis(1));
        idle().await;
        assert_eq!(state(&instance), "due");
        site.advance(Duration::from_millis(1));
        until(|| state(&instance) == "overdue").await;
        site.advance(10 * MINUTE);
        idle().await;
        let history = history(&engine.operator(), &instance).await;
        assert_eq!(history, ["started", "step", "timer"]);
        // Both states offer the same.
        assert!(client.told().is_empty());
    }
}

#[tokio::test]
async fn a_timer_fires_once_on_another_engine_after_a_restart() {
    let (site, flow) = (Site::default(), shop(Scope::Global));
    let first = site.durable(&flow);
    run(&session(&first), "checkout", Outcome::Success).await;
    drop(first);
    site.advance(MINUTE);
    let second = site.durable(&flow);
    let instance = session(&second);
    assert_eq!(state(&instance), "cart", "it has not looked yet");
    instance.find().await.unwrap();
    assert_eq!(state(&instance), "overdue");
    let history = history(&second.operator(), &instance).await;
    assert_eq!(history, ["started", "step", "timer"]);
}

#[tokio::test]
async fn a_timer_that_a_restart_has_read_fires_by_itself() {
    let (site, flow) = (Site::default(), shop(Scope::Session));
    let first = site.durable(&flow);
    let instance = session(&first);
    run(&instance, "checkout", Outcome::Success).await;
    let id = instance.id().to_string();
    drop((instance, first));
    let second = site.durable(&flow);
    let back = second.reconnect(Some(id), &Principal::anonymous());
    let back = back.unwrap().unwrap();
    back.find().await.unwrap();
    site.advance(MINUTE);
    until(|| state(&back) == "overdue").await;
}

#[tokio::test]
async fn of_two_engines_one_fires_the_timer() {
    let (site, flow) = (Site::default(), shop(Scope::Global));
    let engines = [site.durable(&flow), site.durable(&flow)];
    let instances = engines.each_ref().map(session);
    run(&instances[0], "checkout", Outcome::Success).await;
    instances[1].find().await.unwrap();
    let clients = instances
        .each_ref()
        .map(|instance| Client::watching(instance));
    site.advance(MINUTE);
    until(|| {
        instances
            .iter()
            .all(|instance| state(instance) == "overdue")
    })
    .await;
    idle().await;
    let history = history(&engines[0].operator(), &instances[0]).await;
    assert_eq!(history, ["started", "step", "timer"]);
    assert!(clients.iter().all(|client| client.told().is_empty()));
}

#[tokio::test]
async fn nothing_fires_after_the_engine_is_gone() {
    let (site, flow) = (Site::default(), shop(Scope::Session));
    for engine in site.both(&flow) {
        let instance = session(&engine);
        run(&instance, "checkout", Outcome::Success).await;
        drop(engine);
        site.advance(MINUTE);
        idle().await;
        assert_eq!(state(&instance), "due");
    }
}

#[tokio::test]
async fn refusals_are_journalled_soon_without_anybody_waiting() {
    let (site, flow) = (Site::default(), shop(Scope::Session));
    let engine = site.durable(&flow);
    let instance = session(&engine);
    instance.note_refused(Kind::Tool, "pay", (1081, "nothing is due"));
    instance.note_cancelled(Kind::Tool, "pay");
    instance.note_paused(Kind::Tool, "pay");
    idle().await;
    // Another engine reads what is stored, and nothing else.
    let reader = site.durable(&flow).operator();
    let written = reader.history(instance.id(), None, 10).await.unwrap();
    assert_eq!(written.len(), 4);
}
