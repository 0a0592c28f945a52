//! What operators see and decide.

use crate::support::{
    Client, MINUTE, Site, exclusive, history, reserve, run, session, shop, state, tool,
};
use interlock_engine::{
    CallFacts, CallInput, Operator, OperatorError, Principal, ReserveError, Source,
};
use interlock_workflow::{Kind, Outcome, Reason, Scope, Workflow, end};
use serde_json::json;
use std::{sync::Arc, time::Duration};

/// Seen to fail with a record that is written only when the session ends.
#[tokio::test]
async fn the_record_and_the_journal_of_a_volatile_instance_follow_when_an_operator_looks() {
    let site = Site::default();
    let engine = site.volatile(&shop(Scope::Session));
    let (instance, operator) = (session(&engine), engine.operator());
    for calls in 1..=5 {
        let name = if calls % 2 == 1 { "checkout" } else { "pay" };
        run(&instance, name, Outcome::Success).await;
        let listed = operator.instances(None, 10).await.unwrap();
        assert_eq!(
            (&*listed[0].state, listed[0].calls),
            (state(&instance), calls)
        );
        let shown = operator.show(instance.id()).await.unwrap();
        assert_eq!(shown.summary, listed[0]);
        let steps = history(&operator, &instance).await.len() as u64;
        assert_eq!(steps, 1 + calls);
    }
    let reservation = reserve(&instance, "pay").await;
    let running = operator.show(instance.id()).await.unwrap().summary.running;
    assert_eq!(running.unwrap().number, 6);
    reservation.release(false).await.unwrap();
    let running = operator.show(instance.id()).await.unwrap().summary.running;
    assert_eq!(running, None);
}

#[tokio::test]
async fn an_operator_moves_resets_and_ends_an_instance_and_its_clients_hear_of_it() {
    let (site, flow) = (Site::default(), shop(Scope::Session));
    for engine in site.both(&flow) {
        let (instance, operator) = (session(&engine), engine.operator().by("alice"));
        run(&instance, "checkout", Outcome::Success).await;
        let client = Client::watching(&instance);
        let moved = operator
            .move_to(instance.id(), "unclear", "look at it")
            .await;
        assert_eq!(
            (&*moved.unwrap().state, state(&instance)),
            ("unclear", "unclear")
        );
        assert_eq!(client.told(), [[Kind::Tool]]);
        let reset = operator.reset(instance.id(), "again").await.unwrap();
        assert_eq!((&*reset.state, reset.finished), ("cart", false));
        let ended = operator.abort(instance.id(), "enough").await.unwrap();
        assert!(ended.finished);
        let again = operator.abort(instance.id(), "enough").await;
        assert!(matches!(again, Err(OperatorError::Finished(_))));
        let nowhere = operator.move_to(instance.id(), "nowhere", "why").await;
        assert!(matches!(nowhere, Err(OperatorError::NoState(_))));
        let wanted = ["started", "step", "moved", "reset", "aborted"];
        assert_eq!(history(&operator, &instance).await, wanted);
        let entries = operator.history(instance.id(), Some(2), 10).await.unwrap();
        assert!(
            entries
                .iter()
                .all(|one| one.entry.by.as_deref() == Some("alice"))
        );
    }
}

/// Nobody knows what `pay` did if its outcome is unknown.
fn bank() -> Workflow {
    Workflow::builder("bank")
        .state("due", |s| {
            s.initial()
                .tool("pay", |t| t.success(end("due")).error("failed").hold())
        })
        .state("failed", |s| s.tool("retry", |t| t.success("due")))
        .build()
        .unwrap()
}

/// Seen to fail with instances that kept up to 16 MB for as long as nobody decided.
#[tokio::test]
async fn large_arguments_of_a_call_that_is_on_hold_are_kept_as_a_digest() {
    const MOST: usize = 64 * 1024;
    let site = Site::default();
    for engine in site.both(&bank()) {
        for (note, is_kept) in [(MOST - 11, true), (MOST, false)] {
            let (instance, operator) = (session(&engine), engine.operator());
            let input = Arc::new(CallInput {
                args: json!({ "note": "x".repeat(note) }),
                ..CallInput::default()
            });
            let call = CallFacts {
                input: Some(&input),
                ..tool("pay")
            };
            let mut reservation = exclusive(instance.reserve(&call).await.unwrap());
            reservation.commit(Outcome::Unknown, None).await.unwrap();
            drop(reservation);
            let held = operator.show(instance.id()).await.unwrap().summary.held;
            let held = held.unwrap();
            assert_eq!(held.args == input.args, is_kept);
            let bytes = held.shortened.map(|shortened| shortened.bytes);
            assert_eq!(bytes, (!is_kept).then_some(note + 11));
            let refused = instance.reserve(&tool("pay")).await;
            let Err(ReserveError::Refused(refused)) = refused else {
                panic!("it is on hold");
            };
            let forgot = matches!(
                refused.reason(),
                Reason::Held {
                    forgot_args: true,
                    ..
                }
            );
            assert_eq!(forgot, !is_kept);
            drop(refused);
            let settled = operator.settle(instance.id(), Outcome::Error, "it bounced");
            assert_eq!(settled.await.unwrap().state, "failed");
        }
    }
}

#[tokio::test]
async fn an_operator_settles_a_call_of_which_nobody_knows_what_it_did() {
    let site = Site::default();
    for engine in site.both(&bank()) {
        let (instance, operator) = (session(&engine), engine.operator());
        let not_held = operator
            .settle(instance.id(), Outcome::Error, "it bounced")
            .await;
        assert!(matches!(not_held, Err(OperatorError::NotHeld(_))));
        run(&instance, "pay", Outcome::Unknown).await;
        assert!(instance.run().held().is_some());
        assert_eq!(operator.waiting(None, 10).await.unwrap().len(), 1);
        let unclear = operator
            .settle(instance.id(), Outcome::Unknown, "who knows")
            .await;
        assert!(matches!(unclear, Err(OperatorError::Unsettled { .. })));
        let settled = operator
            .settle(instance.id(), Outcome::Error, "it bounced")
            .await;
        assert_eq!(settled.unwrap().state, "failed");
        assert!(operator.waiting(None, 10).await.unwrap().is_empty());
        let wanted = ["started", "held", "settled"];
        assert_eq!(history(&operator, &instance).await, wanted);
    }
}

#[tokio::test]
async fn an_operator_waits_for_a_call_but_not_for_ever() {
    let (site, flow) = (Site::default(), shop(Scope::Session));
    for engine in site.both(&flow) {
        let instance = session(&engine);
        let operator = engine.operator().patience(Duration::from_secs(1));
        let mut running = reserve(&instance, "checkout").await;
        let id = instance.id().to_string();
        let waiting = tokio::spawn({
            let (operator, id) = (operator.clone(), id.clone());
            async move { operator.reset(&id, "stuck").await }
        });
        tokio::task::yield_now().await;
        site.advance(Duration::from_secs(1));
        let busy = waiting.await.unwrap();
        assert!(matches!(busy, Err(OperatorError::Busy { .. })));
        let waiting = tokio::spawn(async move { operator.reset(&id, "stuck").await });
        tokio::task::yield_now().await;
        running.commit(Outcome::Success, None).await.unwrap();
        drop(running);
        assert_eq!(waiting.await.unwrap().unwrap().state, "cart");
    }
}

#[tokio::test]
async fn what_is_due_happens_before_an_operator_decides() {
    let (site, flow) = (Site::default(), shop(Scope::Global));
    let engine = site.durable(&flow);
    run(&session(&engine), "checkout", Outcome::Success).await;
    drop(engine);
    site.advance(MINUTE);
    // No process has it in memory.
    let engine = site.durable(&flow);
    let operator = engine.operator();
    let id = operator.instances(None, 1).await.unwrap().remove(0).id;
    operator
        .move_to(&id, "unclear", "look at it")
        .await
        .unwrap();
    let instance = engine.open(&Source::Caller, &Principal::anonymous()).await;
    let wanted = ["started", "step", "timer", "moved"];
    assert_eq!(history(&operator, &instance.unwrap()).await, wanted);
}

#[tokio::test]
async fn what_is_not_there_is_not_found() {
    let (site, flow) = (Site::default(), shop(Scope::Session));
    let engine = site.durable(&flow);
    let operator = engine.operator();
    for id in ["nobody", "", "\n"] {
        assert!(matches!(
            operator.show(id).await,
            Err(OperatorError::NotFound(_))
        ));
        let history = operator.history(id, None, 1).await;
        assert!(matches!(history, Err(OperatorError::NotFound(_))));
        let reset = operator.reset(id, "why").await;
        assert!(matches!(reset, Err(OperatorError::NotFound(_))));
    }
    let nothing = Operator::without_workflow().instances(None, 1).await;
    assert!(matches!(nothing, Err(OperatorError::NoWorkflow)));
}

#[tokio::test]
async fn an_instance_that_took_no_call_yet_can_be_named_and_is_not_listed() {
    let (site, flow) = (Site::default(), shop(Scope::Session));
    for engine in site.both(&flow) {
        let (instance, operator) = (session(&engine), engine.operator());
        assert!(operator.instances(None, 10).await.unwrap().is_empty());
        let shown = operator.show(instance.id()).await.unwrap();
        assert_eq!(
            (&*shown.summary.state, shown.summary.version),
            ("cart", None)
        );
        assert_eq!(shown.next.len(), 1);
        assert!(
            operator
                .history(instance.id(), None, 10)
                .await
                .unwrap()
                .is_empty()
        );
    }
}

#[tokio::test]
async fn instances_are_listed_page_by_page() {
    let (site, flow) = (Site::default(), shop(Scope::Session));
    let engine = site.durable(&flow);
    let mut instances: Vec<_> = (0..7).map(|_| session(&engine)).collect();
    for instance in &instances {
        run(instance, "checkout", Outcome::Success).await;
    }
    instances.sort_by(|one, other| one.id().cmp(other.id()));
    let (operator, mut after, mut found) = (engine.operator(), None, Vec::new());
    loop {
        let page = operator.instances(after.as_deref(), 3).await.unwrap();
        assert!(page.len() <= 3);
        let Some(last) = page.last() else { break };
        after = Some(last.id.clone());
        found.extend(page.into_iter().map(|one| one.id));
    }
    let wanted: Vec<_> = instances.iter().map(|one| one.id().to_string()).collect();
    assert_eq!(found, wanted);
}
