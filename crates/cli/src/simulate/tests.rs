//! Runs of small workflows.

use super::*;
use interlock::workflow::{Finish, Leg, Settings, end, to};
use serde_json::{Value::Null, json};

fn refund() -> Workflow {
    Workflow::builder("refund")
        .state("new", |s| {
            s.initial().tool("lookup", |t| {
                t.success(to("found").set("order", "args.order"))
            })
        })
        .state("found", |s| {
            s.tool("refund", |t| {
                t.when("args.order == ctx.order")
                    .approve("Refund {{args.amount}} for {{ctx.order}}?")
                    .success(to("found").when("result.structuredContent.partial == true"))
                    .success(to("paid").effect("mail").effect("print"))
                    .timeout("review")
                    .hold()
            })
            .after(Duration::from_secs(1800), "expired")
        })
        .state("review", |s| s.tool("refund", |t| t.success("paid")))
        .state("paid", |s| s.terminal())
        .state("expired", |s| s.terminal())
        .build()
        .unwrap()
}

fn tool<'a>(name: &'a str, args: &'a Value) -> Call<'a> {
    Call {
        kind: Kind::Tool,
        name,
        args,
        principal: &Null,
    }
}

fn ran(came: Came) -> Course {
    match came {
        Came::Ran { course, .. } => course,
        Came::Refused(refusal) => panic!("{refusal:?}"),
    }
}

fn code(came: &Came) -> Option<u16> {
    match came {
        Came::Refused(refusal) => Some(refusal.code),
        Came::Ran { .. } => None,
    }
}

fn seen(simulator: &Simulator<'_>) -> Vec<String> {
    let edges = simulator.seen().edges.iter();
    edges
        .map(|edge| edge_name(simulator.workflow, *edge))
        .collect()
}

fn ending(outcome: Outcome) -> Stub {
    Stub {
        outcome: Some(outcome),
        ..Stub::default()
    }
}

fn agreed(consent: Consent) -> Stub {
    Stub {
        consent,
        ..Stub::default()
    }
}

#[test]
fn a_call_moves_remembers_and_changes_lists() {
    let flow = refund();
    let mut run = Simulator::new(&flow);
    let order = json!({"order": "A-1"});
    let course = ran(run.call(&tool("lookup", &order), &Stub::default()));
    assert_eq!(run.state(), "found");
    assert_eq!(run.visits(), 1);
    assert_eq!(run.memory()["order"], "A-1");
    assert_eq!(Value::Object(course.remembered.clone()), order);
    assert_eq!(run.timer(), Some((Duration::from_secs(1800), "expired")));
    assert_eq!(
        run.changes(&course),
        [Change {
            kind: Kind::Tool,
            appeared: vec!["refund".to_owned()],
            gone: vec!["lookup".to_owned()],
        }]
    );
    assert!(run.callable(Kind::Tool).eq(["refund"]));
    assert_eq!(seen(&run), ["new: lookup -> found"]);
}

#[test]
fn what_may_not_run_is_refused_and_told_the_way() {
    let flow = refund();
    let mut run = Simulator::new(&flow);
    let Came::Refused(refusal) = run.call(&tool("refund", &Null), &Stub::default()) else {
        panic!("it is not bound here");
    };
    assert_eq!(refusal.code, 1081);
    assert_eq!(
        refusal.to_string(),
        "Tool 'refund' is not allowed in state 'new'. Allowed now: lookup. To get there: lookup."
    );
    ran(run.call(&tool("lookup", &json!({"order": "A-1"})), &Stub::default()));
    let other = json!({"order": "B-2"});
    let Came::Refused(refusal) = run.call(&tool("refund", &other), &Stub::default()) else {
        panic!("it is another order");
    };
    assert_eq!(refusal.code, 1082);
    assert_eq!(run.state(), "found");
}

#[test]
fn a_person_is_asked_in_the_words_of_the_workflow() {
    let flow = refund();
    let mut run = Simulator::new(&flow);
    let args = json!({"order": "A-1", "amount": 5});
    ran(run.call(&tool("lookup", &args), &Stub::default()));
    let call = tool("refund", &args);
    assert_eq!(
        run.judge(&call),
        Verdict::Asks("Refund 5 for A-1?".to_owned())
    );
    assert_eq!(code(&run.call(&call, &agreed(Consent::No))), Some(1083));
    assert_eq!(code(&run.call(&call, &agreed(Consent::Later))), Some(1071));
    assert_eq!(run.state(), "found");
    let Came::Ran {
        approved, course, ..
    } = run.call(&call, &Stub::default())
    else {
        panic!("it was approved");
    };
    assert_eq!(approved.as_deref(), Some("Refund 5 for A-1?"));
    assert_eq!(course.effects, ["mail", "print"]);
    assert_eq!(course.ended(), flow.state_id("paid"));
    assert_eq!(run.state(), "new");
    assert!(run.memory().is_empty());
}

#[test]
fn the_result_chooses_among_edges_and_its_faults_are_told() {
    let flow = refund();
    let mut run = Simulator::new(&flow);
    let args = json!({"order": "A-1"});
    ran(run.call(&tool("lookup", &args), &Stub::default()));
    let partly = Stub {
        result: Some(json!({"structuredContent": {"partial": true}})),
        ..Stub::default()
    };
    let course = ran(run.call(&tool("refund", &args), &partly));
    assert_eq!((run.state(), &*course.faults), ("found", &[][..]));
    let course = ran(run.call(&tool("refund", &args), &Stub::default()));
    assert_eq!(run.state(), "new");
    assert!(
        course.faults[0].contains("has no answer"),
        "{:?}",
        course.faults
    );
}

#[test]
fn a_result_that_is_an_error_is_one() {
    let flow = refund();
    let mut run = Simulator::new(&flow);
    let failed = Stub {
        result: Some(json!({"content": [], "isError": true})),
        ..Stub::default()
    };
    let came = run.call(&tool("lookup", &json!({"order": "A"})), &failed);
    assert!(matches!(
        came,
        Came::Ran {
            outcome: Outcome::Error,
            ..
        }
    ));
    assert_eq!(run.state(), "new");
}

#[test]
fn timers_fire_at_their_time_and_not_before() {
    let flow = refund();
    let mut run = Simulator::new(&flow);
    ran(run.call(&tool("lookup", &json!({"order": "A-1"})), &Stub::default()));
    assert!(run.wait(Duration::from_secs(1799)).moves.is_empty());
    assert_eq!(run.timer(), Some((Duration::from_secs(1), "expired")));
    let course = run.wait(Duration::from_secs(1));
    assert_eq!(course.ended(), flow.state_id("expired"));
    assert_eq!(run.state(), "new");
    assert_eq!(run.timer(), None);
}

#[test]
fn one_wait_fires_timers_one_after_the_other() {
    let second = Duration::from_secs(1);
    let flow = Workflow::builder("lights")
        .state("red", |s| s.initial().after(second, "green"))
        .state("green", |s| s.after(2 * second, end("dark")))
        .build()
        .unwrap();
    let mut run = Simulator::new(&flow);
    let course = run.wait(10 * second);
    assert_eq!(run.state(), "green");
    // Red at 0, 3, 6, 9 seconds, green at 1, 4, 7, 10: the last one to come is green.
    assert_eq!(course.moves.len(), 7);
    assert_eq!(run.timer(), Some((2 * second, "dark")));
    let course = run.wait(Duration::from_secs(365 * 86_400));
    assert!(course.cut.unwrap().contains("no more will"));
}

#[test]
fn a_timer_that_leads_nowhere_fires_once() {
    let flow = Workflow::builder("clock")
        .state("a", |s| {
            s.initial()
                .tool("stop", |t| t.success(end("b")))
                .after(Duration::from_secs(1), to("a").effect("tick"))
        })
        .build()
        .unwrap();
    let mut run = Simulator::new(&flow);
    assert_eq!(run.wait(Duration::from_secs(5)).effects, ["tick"]);
    assert!(run.wait(Duration::from_secs(5)).moves.is_empty());
    assert_eq!(run.timer(), None);
}

#[test]
fn the_timer_that_is_told_is_the_next_one_and_its_guards_are_asked() {
    let second = Duration::from_secs(1);
    let flow = Workflow::builder("clock")
        .state("a", |s| {
            s.initial()
                .tool("mark", |t| t.success(to("a").set("marked", "true")))
                .after(second, to("a").effect("tick"))
                .after(2 * second, to("b").when("has(ctx.marked)"))
                .after(2 * second, to("c"))
        })
        .state("b", |s| s.terminal())
        .state("c", |s| s.terminal())
        .build()
        .unwrap();
    let mut run = Simulator::new(&flow);
    assert_eq!(run.timer(), Some((second, "a")));
    run.wait(second);
    assert_eq!(run.timer(), Some((second, "c")));
    ran(run.call(&tool("mark", &Null), &Stub::default()));
    assert_eq!(run.timer(), Some((second, "b")));
}

/// Two states that take turns, and tell it.
fn blinking(set: &str) -> Workflow {
    let blink = Duration::from_millis(1);
    Workflow::builder("blink")
        .state("on", |s| {
            s.initial()
                .tool("stop", |t| t.success(end("done")))
                .after(blink, to("off").set("last", "'off'"))
        })
        .state("off", |s| s.after(blink, to("on").set("last", set)))
        .build()
        .unwrap()
}

#[test]
fn a_course_keeps_only_what_is_remembered_last() {
    let flow = blinking("'on'");
    let mut run = Simulator::new(&flow);
    let course = run.wait(Duration::from_millis(1000));
    assert_eq!(course.moves.len(), 1000);
    assert_eq!(Value::Object(course.remembered), json!({"last": "on"}));
}

#[test]
fn a_fault_is_told_once_and_forgets_what_was_remembered() {
    let flow = blinking("ctx.last.first");
    let mut run = Simulator::new(&flow);
    let course = run.wait(Duration::from_millis(1000));
    assert_eq!(course.faults.len(), 1, "{:?}", course.faults);
    assert_eq!(Value::Object(course.remembered), json!({}));
}

#[test]
fn a_wait_is_cut_only_if_more_timers_would_fire() {
    let flow = blinking("'on'");
    let most = u64::try_from(MOST_TIMERS).unwrap();
    for (time, is_cut) in [(most, false), (most + 1, true)] {
        let course = Simulator::new(&flow).wait(Duration::from_millis(time));
        assert_eq!(course.moves.len(), MOST_TIMERS);
        assert_eq!(course.cut.is_some(), is_cut);
    }
}

#[test]
fn timers_are_counted_over_all_waits() {
    let flow = blinking("'on'");
    let mut run = Simulator::new(&flow);
    let waits = MOST_TIMERS_IN_ALL / MOST_TIMERS;
    for _ in 0..waits {
        let wait = Duration::from_millis(u64::try_from(MOST_TIMERS).unwrap() - 1);
        run.wait(wait);
    }
    let fired = MOST_TIMERS_IN_ALL - waits;
    let course = run.wait(Duration::from_secs(1));
    assert_eq!(course.moves.len(), MOST_TIMERS_IN_ALL - fired);
    assert_eq!(run.fired, MOST_TIMERS_IN_ALL);
    assert!(course.cut.unwrap().contains("timers have fired"));
}

#[test]
fn effects_are_kept_only_as_far_as_there_is_room() {
    let blink = Duration::from_millis(1);
    let long = "e".repeat(course::MOST_EFFECT_BYTES / 10);
    let flow = Workflow::builder("loud")
        .state("on", |s| s.initial().after(blink, to("off").effect(&*long)))
        .state("off", |s| {
            s.after(blink, "on")
                .tool("stop", |t| t.success(end("done")))
        })
        .build()
        .unwrap();
    let mut run = Simulator::new(&flow);
    let course = run.wait(Duration::from_millis(100));
    assert_eq!((course.effects.len(), course.moves.len()), (10, 100));
    assert!(course.cut.unwrap().contains("more effects"));
}

#[test]
fn a_held_instance_waits_for_an_operator() {
    let flow = refund();
    let mut run = Simulator::new(&flow);
    assert_eq!(run.settle(Outcome::Success), None);
    let args = json!({"order": "A-1"});
    ran(run.call(&tool("lookup", &args), &Stub::default()));
    let call = tool("refund", &args);
    ran(run.call(&call, &ending(Outcome::Unknown)));
    assert_eq!(run.held().as_deref(), Some("tool \"refund\""));
    assert_eq!(code(&run.call(&call, &Stub::default())), Some(1084));
    assert_eq!(run.settle(Outcome::Unknown), None);
    assert!(run.wait(Duration::from_secs(3600)).moves.is_empty());
    assert!(run.settle(Outcome::Timeout).is_some());
    assert_eq!((run.state(), run.held()), ("review", None));
}

#[test]
fn a_timer_that_fell_due_while_it_was_held_fires_once_it_is_settled() {
    let flow = refund();
    let mut run = Simulator::new(&flow);
    let args = json!({"order": "A-1"});
    ran(run.call(&tool("lookup", &args), &Stub::default()));
    ran(run.call(&tool("refund", &args), &ending(Outcome::Unknown)));
    run.wait(Duration::from_secs(3600));
    let course = run.settle(Outcome::Cancelled).unwrap();
    assert_eq!(course.ended(), flow.state_id("expired"));
}

fn asking() -> Workflow {
    Workflow::builder("triage")
        .state("new", |s| s.initial().tool("send", |t| t.success("triage")))
        .state("triage", |s| {
            s.sampling(100, |m| {
                m.user("Is it urgent?")
                    .success(to("urgent").when("result.content.text == 'yes'"))
                    .success("triage2")
                    .error("new")
            })
        })
        .state("triage2", |s| {
            s.sampling(100, |m| m.user("Really?").success("triage"))
        })
        .state("urgent", |s| s.tool("close", |t| t.success(end("done"))))
        .build()
        .unwrap()
}

#[test]
fn the_model_is_asked_within_the_call() {
    let flow = asking();
    let answer = |text: &str| Some(json!({"content": {"text": text}}));
    let answers = |answers: &[Reply]| Stub {
        answers: answers.to_vec(),
        ..Stub::default()
    };
    let mut run = Simulator::new(&flow);
    let stub = answers(&[answer("no"), answer("no"), answer("yes")]);
    let course = ran(run.call(&tool("send", &Null), &stub));
    assert_eq!((run.state(), course.moves.len()), ("urgent", 4));
    let mut run = Simulator::new(&flow);
    ran(run.call(&tool("send", &Null), &answers(&[None])));
    assert_eq!(run.state(), "new");
}

#[test]
fn states_that_ask_in_a_circle_are_stopped() {
    let flow = asking();
    let mut run = Simulator::new(&flow);
    let course = ran(run.call(&tool("send", &Null), &Stub::default()));
    assert_eq!(course.moves.len(), 1 + MOST_QUESTIONS);
    assert!(course.cut.unwrap().contains("not asked again"));
    assert!(run.question().is_none());
}

#[test]
fn a_workflow_that_stays_finished_says_so() {
    let settings = Settings {
        finish: Finish::Stay,
        ..Settings::default()
    };
    let flow = Workflow::builder("once")
        .settings(settings)
        .state("a", |s| s.initial().tool("go", |t| t.success(end("b"))))
        .build()
        .unwrap();
    let mut run = Simulator::new(&flow);
    ran(run.call(&tool("go", &Null), &Stub::default()));
    assert!(run.is_finished());
    assert_eq!(run.state(), "b");
    assert_eq!(
        code(&run.call(&tool("go", &Null), &Stub::default())),
        Some(1085)
    );
}

#[test]
fn generated_paths_can_be_followed_to_their_ends() {
    for flow in [refund(), asking()] {
        let coverage = flow.covering_paths();
        let mut all = Seen::default();
        for path in &coverage.paths {
            let mut run = Simulator::new(&flow);
            for leg in path {
                let followed = match leg {
                    Leg::Edge(edge) => run.follow(*edge),
                    Leg::Stay(_) => run.stay(),
                };
                assert_eq!(followed, Ok(()));
            }
            all.add(run.seen());
        }
        assert_eq!(all.edges.len(), flow.edges().len());
    }
}

#[test]
fn an_edge_is_followed_only_from_where_it_leads_away() {
    let flow = refund();
    let mut run = Simulator::new(&flow);
    let (lookup, _) = flow.edges().next().unwrap();
    assert_eq!(run.follow(lookup), Ok(()));
    assert_eq!(
        run.follow(lookup).unwrap_err(),
        "the instance is in state found"
    );
    assert!(run.stay().is_err());
}

#[test]
fn edges_have_names_that_tell_them_apart() {
    let flow = refund();
    let names: Vec<_> = flow.edges().map(|(id, _)| edge_name(&flow, id)).collect();
    assert_eq!(
        names,
        [
            "new: lookup -> found",
            "found: refund -> found when result.structuredContent.partial == true",
            "found: refund -> paid otherwise",
            "found: refund (timeout) -> review",
            "found: after 30m -> expired",
            "review: refund -> paid",
        ]
    );
}
