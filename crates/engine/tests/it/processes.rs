//! Engines that share a store: only one of them moves an instance, and the others find out.

use crate::support::{Client, Site, history, reserve, run, session, shop, state, tool};
use interlock_engine::{EngineError, Principal, ReserveError, Source};
use interlock_workflow::{Kind, Outcome, Scope};
use std::time::Duration;

#[tokio::test]
async fn a_call_is_judged_again_on_what_another_engine_has_written() {
    let (site, flow) = (Site::default(), shop(Scope::Global));
    let engines = [site.durable(&flow), site.durable(&flow)];
    let [here, there] = engines.each_ref().map(session);
    here.find().await.unwrap();
    run(&there, "checkout", Outcome::Success).await;
    let client = Client::watching(&here);
    // It is admitted as far as is known here, and refused on what is found.
    assert!(here.admit(&tool("checkout")).is_ok());
    let refused = here.reserve(&tool("checkout")).await;
    assert!(matches!(refused, Err(ReserveError::Refused(_))));
    drop(refused);
    assert_eq!(state(&here), "due");
    assert_eq!(client.told(), [[Kind::Tool]]);
    run(&here, "pay", Outcome::Success).await;
    let history = history(&engines[0].operator(), &here).await;
    assert_eq!(history, ["started", "step", "step"]);
}

#[tokio::test]
async fn a_call_of_another_engine_keeps_the_instance_until_it_must_be_over() {
    let (site, flow) = (Site::default(), shop(Scope::Global));
    let engines = [site.durable(&flow), site.durable(&flow)];
    let [here, there] = engines.each_ref().map(session);
    run(&there, "checkout", Outcome::Success).await;
    let running = reserve(&there, "pay").await;
    here.find().await.unwrap();
    let until = here.busy_until().unwrap();
    let refused = here.reserve(&tool("pay")).await;
    let elsewhere = ReserveError::Engine(EngineError::RunningElsewhere);
    assert_eq!(refused.unwrap_err().to_string(), elsewhere.to_string());
    // The other process died.
    std::mem::forget(running);
    site.advance(Duration::from_secs(30));
    assert_eq!(until.0, 1_000_000 + 30_000);
    let refused = here.reserve(&tool("pay")).await;
    assert!(matches!(refused, Err(ReserveError::Refused(_))));
    drop(refused);
    assert_eq!((state(&here), here.busy_until()), ("unclear", None));
}

#[tokio::test]
async fn a_request_without_a_session_sees_the_instance_as_it_is_now() {
    let (site, flow) = (Site::default(), shop(Scope::Principal));
    let alice = Principal::new("alice");
    let engines = [site.durable(&flow), site.durable(&flow)];
    assert!(engines.iter().all(|engine| engine.others_may_move()));
    for (turn, name) in ["checkout", "pay", "checkout", "pay"]
        .into_iter()
        .enumerate()
    {
        let engine = &engines[turn % 2];
        let instance = engine.open(&Source::Caller, &alice).await.unwrap();
        run(&instance, name, Outcome::Success).await;
    }
    let instance = engines[0].open(&Source::Caller, &alice).await.unwrap();
    assert_eq!(state(&instance), "cart");
    let history = history(&engines[0].operator(), &instance).await;
    assert_eq!(history, ["started", "step", "step", "step", "step"]);
}

/// Many calls on two engines, each on threads of its own: none is lost, and none is counted twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn racing_engines_journal_every_call_once() {
    let (site, flow) = (Site::default(), shop(Scope::Global));
    let engines = [site.durable(&flow), site.durable(&flow)];
    let calls = engines.each_ref().map(|engine| {
        let instance = session(engine);
        tokio::spawn(async move {
            let mut done = 0;
            while done < 50 {
                let name = match state(&instance) {
                    "cart" => "checkout",
                    _ => "pay",
                };
                let reserved = instance.reserve(&tool(name)).await;
                if let Ok(reserved) = reserved {
                    let mut reservation = crate::support::exclusive(reserved);
                    reservation.commit(Outcome::Success, None).await.unwrap();
                    done += 1;
                }
                tokio::task::yield_now().await;
            }
        })
    });
    for calls in calls {
        calls.await.unwrap();
    }
    let instance = engines[0]
        .open(&Source::Caller, &Principal::anonymous())
        .await;
    let history = history(&engines[0].operator(), &instance.unwrap()).await;
    assert_eq!(history.iter().filter(|what| *what == "step").count(), 100);
}

/// Calls, refusals and operators who look, all at once. The journal has each entry once.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_volatile_journal_that_is_read_while_calls_run_has_each_entry_once() {
    const CALLS: usize = 200;
    let (site, flow) = (Site::default(), shop(Scope::Session));
    let engine = site.volatile(&flow);
    let instance = session(&engine);
    let calls = tokio::spawn({
        let instance = instance.clone();
        async move {
            for _ in 0..CALLS {
                instance.note_refused(Kind::Tool, "nothing", (1081, "no"));
                run(&instance, "checkout", Outcome::Success).await;
                instance.note_refused(Kind::Tool, "nothing", (1081, "no"));
                run(&instance, "pay", Outcome::Success).await;
                tokio::task::yield_now().await;
            }
        }
    });
    let operator = engine.operator();
    let (mut seen, mut what) = (0, Vec::new());
    loop {
        let is_over = calls.is_finished();
        let recorded = operator
            .history(instance.id(), Some(seen), 1_000)
            .await
            .unwrap();
        seen = recorded.last().map_or(seen, |last| last.number);
        what.extend(recorded.into_iter().map(|one| one.entry));
        if is_over {
            break;
        }
        operator.show(instance.id()).await.unwrap();
    }
    calls.await.unwrap();
    let words = what.iter().map(|entry| {
        let entry = serde_json::to_value(entry).unwrap();
        entry["what"].as_str().unwrap().to_owned()
    });
    let words: Vec<_> = words.collect();
    let count = |word: &str| words.iter().filter(|one| *one == word).count();
    assert_eq!(
        count("left_out") + count("unwritten"),
        0,
        "it was read in time"
    );
    assert_eq!((count("step"), count("refused")), (2 * CALLS, 2 * CALLS));
    let shown = operator.show(instance.id()).await.unwrap();
    assert_eq!(
        (shown.summary.calls, shown.summary.running),
        (2 * CALLS as u64, None)
    );
}
