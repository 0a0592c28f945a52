//! How often the guards of a call run: they are foreign code, and may be slow.

use crate::support::{
    client::{begin, client_of_built, nothing_comes},
    held::{OnCancel, held},
    messages::result_text,
};
use interlock::{
    Server, Workflow,
    store::MemoryStore,
    workflow::{end, rust, to},
};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// `go` has a guard, and so has the first of its edges.
fn flow(guards: &Arc<AtomicUsize>, results: &Arc<AtomicUsize>) -> Workflow {
    let count = |name: &'static str, count: &Arc<AtomicUsize>| {
        let count = Arc::clone(count);
        rust(name, move |_| {
            count.fetch_add(1, Ordering::Relaxed);
            true
        })
    };
    let (guard, result) = (count("guard", guards), count("result", results));
    Workflow::builder("counted")
        .state("here", |s| {
            s.initial().tool("go", |t| {
                let counted = to("here").when(result).set("n", "1");
                t.when(guard).success(counted).success("there")
            })
        })
        .state("there", |s| s.tool("go", |t| t.success(end("here"))))
        .build()
        .unwrap()
}

#[tokio::test]
async fn a_guard_runs_once_before_the_reservation_and_once_on_the_reserved_state() {
    for is_durable in [false, true] {
        let (guards, results) = (Arc::default(), Arc::default());
        let (go, mut at_go) = held("go", OnCancel::GoesOn);
        let builder = Server::builder("counted", "1.0.0")
            .tool(go)
            .workflow(flow(&guards, &results));
        let builder = match is_durable {
            true => builder.store(Arc::new(MemoryStore::default())),
            false => builder,
        };
        let (mut client, _connection) = client_of_built(builder).await;
        let taken = |count: &AtomicUsize| count.swap(0, Ordering::Relaxed);
        // The first call stores the instance. The turn of the second is free, that of the third is not.
        for has_waiting in [false, false, true] {
            let first = begin(&mut client, "go").await;
            at_go.started().await;
            assert!((1..=2).contains(&taken(&guards)), "durable: {is_durable}");
            let second = match has_waiting {
                true => Some(begin(&mut client, "go").await),
                false => None,
            };
            nothing_comes(&mut client).await;
            assert!(taken(&guards) <= 1, "it is not judged while it waits");
            at_go.let_go(1);
            let (_, answer) = client.until(first).await;
            assert_eq!(result_text(&answer["result"]), "done");
            if let Some(second) = second {
                at_go.started().await;
                assert_eq!(taken(&guards), 1, "durable: {is_durable}");
                assert_eq!(taken(&results), 1, "durable: {is_durable}");
                at_go.let_go(1);
                client.until(second).await;
            }
            assert_eq!(taken(&results), 1, "durable: {is_durable}");
            assert_eq!(taken(&guards), 0, "durable: {is_durable}");
        }
    }
}
