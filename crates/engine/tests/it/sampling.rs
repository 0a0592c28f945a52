//! What a state asks the client's model.

use crate::support::{Site, history, reserve, session, state, until};
use interlock_engine::{Asker, Principal};
use interlock_workflow::{Busy, Outcome, Workflow, end, to};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

fn triage() -> Workflow {
    Workflow::builder("triage")
        .state("new", |s| s.initial().tool("report", |t| t.success("sort")))
        .state("sort", |s| {
            s.sampling(100, |m| {
                m.user("Is this urgent?")
                    .success(to("urgent").when("result.text == 'yes'"))
                    .success("later")
                    .error("unsorted")
            })
        })
        .state("urgent", |s| s.tool("close", |t| t.success(end("new"))))
        .state("later", |s| s.tool("close", |t| t.success(end("new"))))
        .state("unsorted", |s| s.tool("close", |t| t.success(end("new"))))
        .build()
        .unwrap()
}

fn asker(principal: &Principal, comes_back: bool) -> Asker<'_> {
    Asker {
        principal,
        timeout: Duration::from_secs(10),
        comes_back,
    }
}

#[tokio::test]
async fn an_answer_leads_on_and_so_does_none() {
    let (site, flow, who) = (Site::default(), triage(), Principal::new("alice"));
    let answers: [(Result<Value, &str>, &str); 3] = [
        (Ok(json!({ "text": "yes" })), "urgent"),
        (Ok(json!({ "text": "no" })), "later"),
        (Err("the client refused"), "unsorted"),
    ];
    for engine in site.both(&flow) {
        for (answer, wanted) in &answers {
            let instance = session(&engine);
            let mut reservation = reserve(&instance, "report").await;
            let asker = asker(&who, false);
            let committed = reservation.commit_asking(Outcome::Success, None, Some(asker));
            committed.await.unwrap();
            assert!(reservation.asks());
            assert_eq!(state(&instance), "sort");
            let answer = answer.as_ref().map_err(|why| *why);
            let moved = reservation.sampled(answer, asker).await.unwrap();
            assert_eq!(moved.unwrap().after, instance.position());
            assert!(!reservation.asks());
            drop(reservation);
            assert_eq!(state(&instance), *wanted);
            let wanted = ["started", "step", "sampled"];
            assert_eq!(history(&engine.operator(), &instance).await, wanted);
        }
    }
}

#[tokio::test]
async fn a_call_whose_client_cannot_be_asked_leaves_the_instance_there() {
    let site = Site::default();
    for engine in site.both(&triage()) {
        let instance = session(&engine);
        let mut reservation = reserve(&instance, "report").await;
        reservation.commit(Outcome::Success, None).await.unwrap();
        assert!(!reservation.asks(), "no asker, no question");
        drop(reservation);
        assert_eq!(state(&instance), "sort");

        let (other, who) = (session(&engine), Principal::anonymous());
        let mut reservation = reserve(&other, "report").await;
        let asked = Some(asker(&who, false));
        reservation
            .commit_asking(Outcome::Success, None, asked)
            .await
            .unwrap();
        reservation.unasked("it cannot").await.unwrap();
        drop(reservation);
        assert_eq!(state(&other), "sort");
        let wanted = ["started", "step", "unasked"];
        assert_eq!(history(&engine.operator(), &other).await, wanted);
    }
}

#[tokio::test]
async fn a_question_that_is_given_up_has_no_answer() {
    let (site, who) = (Site::default(), Principal::anonymous());
    for engine in site.both(&triage()) {
        let instance = session(&engine);
        let mut reservation = reserve(&instance, "report").await;
        let asked = Some(asker(&who, false));
        reservation
            .commit_asking(Outcome::Success, None, asked)
            .await
            .unwrap();
        drop(reservation);
        until(|| state(&instance) == "unsorted").await;
    }
}

#[tokio::test]
async fn the_first_client_that_comes_back_with_the_ticket_goes_on() {
    let (site, who) = (Site::default(), Principal::anonymous());
    for engine in site.both(&triage()) {
        let instance = session(&engine);
        let mut reservation = reserve(&instance, "report").await;
        let asker = asker(&who, true);
        let committed = reservation.commit_asking(Outcome::Success, None, Some(asker));
        committed.await.unwrap();
        let ticket = reservation.ticket().unwrap().to_owned();
        reservation.leave_open();
        assert!(instance.try_turn().is_some(), "nothing is held until then");
        let resume = async |ticket: &str| {
            let turn = instance.turn(Busy::Wait).await.unwrap();
            turn.resume(ticket).await.unwrap()
        };
        assert!(resume("guessed").await.is_none());
        // One that comes back and goes away again leaves the question open.
        drop(resume(&ticket).await.unwrap());
        let mut back = resume(&ticket).await.unwrap();
        assert!(back.waits_for_client());
        let answer = json!({ "text": "yes" });
        assert!(back.sampled(Ok(&answer), asker).await.unwrap().is_some());
        drop(back);
        assert_eq!(state(&instance), "urgent");
        assert!(resume(&ticket).await.is_none(), "it works once");
    }
}

#[tokio::test]
async fn a_client_that_does_not_come_back_has_not_answered() {
    let (site, who) = (Site::default(), Principal::anonymous());
    for engine in site.both(&triage()) {
        let instance = session(&engine);
        let mut reservation = reserve(&instance, "report").await;
        let asked = Some(asker(&who, true));
        reservation
            .commit_asking(Outcome::Success, None, asked)
            .await
            .unwrap();
        let ticket = reservation.ticket().unwrap().to_owned();
        reservation.leave_open();
        site.advance(Duration::from_secs(10));
        until(|| state(&instance) == "unsorted").await;
        let turn = Arc::clone(&instance).turn(Busy::Wait).await.unwrap();
        assert!(turn.resume(&ticket).await.unwrap().is_none());
    }
}
