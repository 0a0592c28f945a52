//! A person's yes before a call runs.

use crate::support::{Site, exclusive, history, session, state, tool};
use interlock_engine::{
    Answer, CallFacts, CallInput, Consent, Instance, Means, OperatorError, ReserveError, Reserved,
    Standing, Why,
};
use interlock_proto::Time;
use interlock_workflow::{Busy, Outcome, Workflow, end};
use serde_json::json;
use std::{sync::Arc, time::Duration};

const HOLDS: Duration = Duration::from_secs(600);

fn bank() -> Workflow {
    Workflow::builder("bank")
        .state("open", |s| {
            s.initial()
                .tool("pay", |t| {
                    t.approve_within("Pay {{args.amount}}?", HOLDS)
                        .success(end("open"))
                        .error("stuck")
                })
                .tool("rename", |t| t.success("open").error("stuck"))
        })
        .state("stuck", |s| s.tool("reopen", |t| t.success("open")))
        .build()
        .unwrap()
}

fn input(amount: u64) -> Arc<CallInput> {
    Arc::new(CallInput {
        args: json!({ "amount": amount }),
        ..CallInput::default()
    })
}

fn pay(input: &Arc<CallInput>) -> CallFacts<'_> {
    CallFacts {
        input: Some(input),
        ..tool("pay")
    }
}

/// Calls, and is told under which id an operator is asked.
async fn pending(instance: &Arc<Instance>, call: &CallFacts<'_>) -> (String, String) {
    match instance.reserve(call).await {
        Err(ReserveError::ApprovalPending { question, id, .. }) => (question, id),
        other => panic!("an operator must agree first: {other:?}"),
    }
}

#[tokio::test]
async fn an_operators_yes_lets_the_same_call_run_once() {
    let site = Site::default();
    for engine in site.both(&bank()) {
        let (instance, operator) = (session(&engine), engine.operator().by("alice"));
        let (five, six) = (input(5), input(6));
        let (question, id) = pending(&instance, &pay(&five)).await;
        assert_eq!(question, "Pay 5?");
        assert_eq!(
            pending(&instance, &pay(&five)).await.1,
            id,
            "it is asked once"
        );
        let waiting = operator.waiting(None, 10).await.unwrap();
        assert_eq!(waiting[0].approvals[0].id, id);
        let summary = operator.approve(instance.id(), &id, "fine").await.unwrap();
        assert!(matches!(
            summary.approvals[0].standing,
            Standing::Approved { .. }
        ));
        // Another call is another question.
        let (_, other) = pending(&instance, &pay(&six)).await;
        assert_ne!(other, id);
        let reserved = instance.reserve(&pay(&five)).await;
        let mut reservation = exclusive(reserved.unwrap());
        reservation.commit(Outcome::Success, None).await.unwrap();
        drop(reservation);
        // It works once; asked again, it is another question, which no late answer can meet.
        let (_, again) = pending(&instance, &pay(&five)).await;
        assert_ne!(again, id);
        let late = operator.approve(instance.id(), &id, "late").await;
        assert!(late.is_err());
        let wanted = ["started", "asked", "approved", "asked", "step", "asked"];
        assert_eq!(history(&operator, &instance).await, wanted);
        let all = operator.history(instance.id(), None, 10).await.unwrap();
        let (by, reason) = (&all[2].entry.by, &all[2].entry.reason);
        assert_eq!(
            (by.as_deref(), reason.as_deref()),
            (Some("alice"), Some("fine"))
        );
    }
}

#[tokio::test]
async fn an_operators_no_is_told_to_the_caller_for_a_while() {
    let site = Site::default();
    for engine in site.both(&bank()) {
        let (instance, operator) = (session(&engine), engine.operator());
        let five = input(5);
        let (_, id) = pending(&instance, &pay(&five)).await;
        operator.deny(instance.id(), &id, "no").await.unwrap();
        // The same again is fine, another answer is not.
        operator.deny(instance.id(), &id, "no").await.unwrap();
        let other = operator.approve(instance.id(), &id, "yes").await;
        assert!(matches!(other, Err(OperatorError::Decided { .. })));
        let denied = instance.reserve(&pay(&five)).await;
        assert!(matches!(
            denied,
            Err(ReserveError::ApprovalDenied {
                why: Why::Denied,
                ..
            })
        ));
        drop(denied);
        site.advance(HOLDS);
        pending(&instance, &pay(&five)).await;
        let unknown = operator.approve(instance.id(), "nothing", "yes").await;
        assert!(matches!(unknown, Err(OperatorError::NotAsked(_))));
    }
}

#[tokio::test]
async fn a_question_that_nobody_answers_in_time_is_forgotten() {
    let site = Site::default();
    for engine in site.both(&bank()) {
        let (instance, operator) = (session(&engine), engine.operator());
        let five = input(5);
        let (_, id) = pending(&instance, &pay(&five)).await;
        site.advance(HOLDS);
        let late = operator.approve(instance.id(), &id, "yes").await;
        assert!(matches!(late, Err(OperatorError::Decided { .. })));
        assert!(operator.waiting(None, 10).await.unwrap().is_empty());
        let late = instance.reserve(&pay(&five)).await;
        assert!(matches!(
            late,
            Err(ReserveError::ApprovalDenied { why: Why::Late, .. })
        ));
        drop(late);
        pending(&instance, &pay(&five)).await;
    }
}

#[tokio::test]
async fn a_step_makes_questions_and_answers_void() {
    let site = Site::default();
    for engine in site.both(&bank()) {
        let (instance, operator) = (session(&engine), engine.operator());
        let five = input(5);
        let (_, id) = pending(&instance, &pay(&five)).await;
        crate::support::run(&instance, "rename", Outcome::Success).await;
        let void = operator.approve(instance.id(), &id, "yes").await;
        assert!(matches!(void, Err(OperatorError::NotAsked(_))));
    }
}

#[tokio::test]
async fn only_so_many_calls_wait_for_an_operator() {
    let site = Site::default();
    for engine in site.both(&bank()) {
        let instance = session(&engine);
        for amount in 0..16 {
            pending(&instance, &pay(&input(amount))).await;
        }
        let (more, five) = (input(16), input(5));
        let refused = instance.reserve(&pay(&more)).await;
        assert!(matches!(refused, Err(ReserveError::TooManyApprovals(_))));
        drop(refused);
        pending(&instance, &pay(&five)).await;
    }
}

/// Reserves with what the client's person said.
async fn with<'i>(
    instance: &'i Arc<Instance>,
    call: &CallFacts<'_>,
    consent: Option<&Consent>,
) -> Result<Reserved, ReserveError<'i>> {
    let turn = instance.turn(Busy::Wait).await.unwrap();
    let consent = (consent, Means::Client);
    instance
        .reserve_in_turn(turn, call, &|| (consent.0.cloned(), consent.1))
        .await
}

#[tokio::test]
async fn what_a_client_brings_counts_for_the_instance_as_it_was() {
    let site = Site::default();
    for engine in site.both(&bank()) {
        let instance = session(&engine);
        let five = input(5);
        let Ok(Reserved::Ask(question)) = with(&instance, &pay(&five), None).await else {
            panic!("the client is asked");
        };
        assert_eq!((&*question.text, question.means), ("Pay 5?", Means::Client));
        assert!(
            instance.try_turn().is_some(),
            "nothing is held while a person thinks"
        );
        let consent = |answer| Consent {
            edition: question.edition,
            until: Time(1_000_000) + question.expires,
            answer,
        };
        for (answer, wanted) in [
            (Answer::No, Why::Denied),
            (Answer::Dismissed, Why::Dismissed),
        ] {
            let denied = with(&instance, &pay(&five), Some(&consent(answer))).await;
            assert!(
                matches!(denied, Err(ReserveError::ApprovalDenied { why, .. }) if why == wanted)
            );
        }
        let agreed = with(&instance, &pay(&five), Some(&consent(Answer::Yes))).await;
        let mut reservation = exclusive(agreed.unwrap());
        reservation.commit(Outcome::Success, None).await.unwrap();
        drop(reservation);
        // The same answer does not count for what came after it.
        let moved = with(&instance, &pay(&five), Some(&consent(Answer::Yes))).await;
        assert!(matches!(
            moved,
            Err(ReserveError::ApprovalDenied {
                why: Why::Moved,
                ..
            })
        ));
        drop(moved);
        assert_eq!(state(&instance), "open");
        let wanted = [
            "started", "asked", "denied", "denied", "approved", "step", "denied",
        ];
        assert_eq!(history(&engine.operator(), &instance).await, wanted);
    }
}
