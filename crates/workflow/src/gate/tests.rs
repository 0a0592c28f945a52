//! Admission, guards, steps, timers and holds.

mod uris;

use super::*;
use crate::{
    Builder, End, Fault, Finish, Outcome, Settings, Step, end, instance::MOST_MEMORY, rust, to,
};
use serde_json::{Value::Null, json};
use std::time::Duration;

fn builder() -> Builder {
    Workflow::builder("gate")
        .state("a", |s| {
            s.initial()
                .tool("go", |t| t.success("b").timeout("c"))
                .tool("look", |t| t.success("a"))
        })
        .state("b", |s| s.tool("fin", |t| t.success(end("c"))))
        .state("c", |s| s.tool("back", |t| t.success("a")))
        .always_tool("search")
}

fn flow() -> Workflow {
    builder().build().unwrap()
}

fn staying() -> Workflow {
    let settings = Settings {
        finish: Finish::Stay,
        ..Settings::default()
    };
    builder().settings(settings).build().unwrap()
}

fn at(flow: &Workflow, state: &str) -> Position {
    Position::from(flow.state_id(state).unwrap())
}

fn took<'a>(flow: &'a Workflow, at: Position, binding: &'a Binding, outcome: Outcome) -> Step<'a> {
    flow.step(&Instance::from(at), binding, &ended(outcome, &Null))
}

#[test]
fn a_step_that_finishes_is_the_one_of_a_workflow_that_stays() {
    let (restarts, stays) = (flow(), staying());
    for (state, name) in [("a", "go"), ("b", "fin")] {
        let bound = |flow| match Workflow::admit(flow, at(flow, state), Kind::Tool, name) {
            Ok(Pass::Bound(binding)) => took(flow, at(flow, state), binding, Outcome::Success),
            Ok(Pass::Always) | Err(_) => panic!("{name} is bound in {state}"),
        };
        assert_eq!(bound(&restarts).finishing(), bound(&stays));
    }
}

fn ended(outcome: Outcome, args: &Value) -> End<'_> {
    End {
        outcome,
        result: None,
        args,
        principal: &Null,
    }
}

fn call<'a>(name: &'a str, args: &'a Value) -> Call<'a> {
    Call {
        kind: Kind::Tool,
        name,
        args,
        principal: &Null,
    }
}

/// Judges a call, lets it end so, and takes the step.
#[track_caller]
fn run<'a>(
    flow: &'a Workflow,
    instance: &mut Instance,
    name: &str,
    args: &Value,
    outcome: Outcome,
) -> Step<'a> {
    let Ok(Pass::Bound(binding)) = flow.judge(instance, &call(name, args)) else {
        panic!("{name} is refused");
    };
    let step = flow.step(instance, binding, &ended(outcome, args));
    instance.apply(flow, &step, 0);
    step
}

#[track_caller]
fn refused(flow: &Workflow, instance: &Instance, name: &str, args: &Value) -> (u16, String) {
    let refused = flow.judge(instance, &call(name, args)).unwrap_err();
    (refused.code(), refused.to_string())
}

fn name<'a>(flow: &'a Workflow, instance: &Instance) -> &'a str {
    flow.state_name(instance.position().state)
}

#[track_caller]
fn bound<'a>(flow: &'a Workflow, at: Position, name: &str) -> &'a Binding {
    match flow.admit(at, Kind::Tool, name).unwrap() {
        Pass::Bound(binding) => binding,
        Pass::Always => panic!("{name} is always callable"),
    }
}

#[test]
fn only_the_state_that_binds_an_artifact_admits_it() {
    let flow = flow();
    let go = bound(&flow, flow.initial(), "go");
    assert_eq!(go.artifact().name, "go");
    let refused = flow.admit(at(&flow, "b"), Kind::Tool, "go").unwrap_err();
    assert_eq!(refused.reason(), &Reason::NotInState);
    assert_eq!(refused.code(), 1081);
    assert_eq!(refused.state(), "b");
    assert_eq!(refused.wanted(), &Artifact::new(Kind::Tool, "go"));
    assert!(refused.allowed(Kind::Tool).eq(["fin", "search"]));
    let way = refused.path().unwrap();
    assert_eq!(way[0].artifact.name, "fin");
    assert_eq!(way[0].to, flow.initial().state);
    // That way leads through an end.
    assert_eq!(refused.path_if(Finish::Stay), None);
    let refused = flow.admit(flow.initial(), Kind::Tool, "fin").unwrap_err();
    let way = refused.path_if(Finish::Stay).unwrap();
    assert_eq!(way[0].artifact.name, "go");
}

#[test]
fn a_tool_and_a_prompt_of_one_name_are_two_things() {
    let flow = flow();
    assert!(flow.admit(flow.initial(), Kind::Prompt, "go").is_err());
    assert!(!flow.is_bound(Kind::Prompt, "go"));
    assert!(flow.is_bound(Kind::Tool, "go"));
    assert!(flow.is_bound(Kind::Tool, "search"));
}

#[test]
fn what_is_always_callable_is_admitted_even_when_finished() {
    let flow = flow();
    let finished = Position {
        finished: true,
        ..flow.initial()
    };
    for at in [flow.initial(), at(&flow, "b"), finished] {
        let pass = flow.admit(at, Kind::Tool, "search");
        assert!(matches!(pass, Ok(Pass::Always)));
    }
}

#[test]
fn everything_else_can_be_let_through_without_opening_what_is_bound() {
    let flow = builder().always_everything().build().unwrap();
    let pass = flow.admit(flow.initial(), Kind::Tool, "unheard_of");
    assert!(matches!(pass, Ok(Pass::Always)));
    assert!(flow.admit(flow.initial(), Kind::Tool, "fin").is_err());
}

#[test]
fn a_step_leads_where_the_outcome_says() {
    let flow = flow();
    let (start, go) = (flow.initial(), bound(&flow, flow.initial(), "go"));
    let step = took(&flow, start, go, Outcome::Success);
    assert_eq!(step.from, start.state);
    assert_eq!(step.after, at(&flow, "b"));
    assert!(step.taken.is_some() && step.enters);
    let late = took(&flow, start, go, Outcome::Timeout);
    assert_eq!(late.after, at(&flow, "c"));
    for outcome in [Outcome::Error, Outcome::Cancelled, Outcome::Unknown] {
        let step = took(&flow, start, go, outcome);
        assert_eq!((step.after, step.taken), (start, None));
    }
}

#[test]
fn after_an_end_the_workflow_begins_again() {
    let flow = flow();
    let b = at(&flow, "b");
    let step = took(&flow, b, bound(&flow, b, "fin"), Outcome::Success);
    assert!(step.terminal);
    assert_eq!(step.to, at(&flow, "c").state);
    assert_eq!(step.after, flow.initial());
}

#[test]
fn or_stays_finished_and_refuses_what_was_bound() {
    let flow = staying();
    let b = at(&flow, "b");
    let step = took(&flow, b, bound(&flow, b, "fin"), Outcome::Success);
    assert!(step.after.finished);
    assert_eq!(step.after.state, at(&flow, "c").state);
    for name in ["back", "go", "unheard_of"] {
        let refused = flow.admit(step.after, Kind::Tool, name).unwrap_err();
        assert_eq!(refused.reason(), &Reason::Finished);
        assert_eq!(refused.code(), 1085);
        assert_eq!(refused.path(), None);
        assert!(refused.allowed(Kind::Tool).eq(["search"]));
    }
    let refused = flow.admit(step.after, Kind::Tool, "go").unwrap_err();
    assert_eq!(
        refused.to_string(),
        "tool \"go\" is not allowed: the workflow ended in state \"c\""
    );
}

#[test]
fn the_same_edge_can_be_an_ordinary_one_for_others() {
    // c is entered by an end from b and by a timeout from a: only the first one finishes.
    let flow = staying();
    let go = bound(&flow, flow.initial(), "go");
    let step = took(&flow, flow.initial(), go, Outcome::Timeout);
    assert!(!step.terminal && !step.after.finished);
    assert!(flow.admit(step.after, Kind::Tool, "back").is_ok());
}

#[test]
fn a_call_that_cannot_move_does_not_pull_the_instance_back() {
    let flow = flow();
    let look = bound(&flow, flow.initial(), "look");
    assert!(!look.moves());
    let moved_meanwhile = at(&flow, "b");
    let step = took(&flow, moved_meanwhile, look, Outcome::Success);
    assert_eq!(step.after, moved_meanwhile);
    assert_eq!(
        (step.from, step.to),
        (moved_meanwhile.state, moved_meanwhile.state)
    );
}

#[test]
fn a_refusal_is_debugged_without_its_workflow() {
    let flow = flow();
    let refused = flow.admit(flow.initial(), Kind::Tool, "fin").unwrap_err();
    let told = format!("{refused:?}");
    assert!(
        told.contains("NotInState") && !told.contains("search"),
        "{told}"
    );
}

fn shop() -> Workflow {
    Workflow::builder("shop")
        .state("new", |s| {
            s.initial().tool("lookup", |t| {
                t.success(to("found").set("order", "args.order").set("seen", "true"))
            })
        })
        .state("found", |s| {
            s.tool("refund", |t| {
                t.when("args.order == ctx.order && args.amount > 0")
                    .success(
                        to("found")
                            .when("result.partial == true")
                            .set("part", "args.amount"),
                    )
                    .success("paid")
                    .error("found")
            })
        })
        .state("paid", |s| s.terminal())
        .build()
        .unwrap()
}

#[test]
fn a_guard_looks_at_arguments_and_at_what_is_remembered() {
    let flow = shop();
    let mut instance = flow.start(0);
    run(
        &flow,
        &mut instance,
        "lookup",
        &json!({"order": "A"}),
        Outcome::Success,
    );
    assert_eq!(instance.memory()["order"], "A");
    assert_eq!(instance.memory()["seen"], true);
    assert_eq!(
        refused(
            &flow,
            &instance,
            "refund",
            &json!({"order": "B", "amount": 1})
        ),
        (
            1082,
            "tool \"refund\" is not allowed with these arguments: args.order == ctx.order && \
             args.amount > 0 is not true"
                .to_owned()
        )
    );
    run(
        &flow,
        &mut instance,
        "refund",
        &json!({"order": "A", "amount": 1}),
        Outcome::Success,
    );
    assert_eq!(instance, flow.start(0));
}

#[test]
fn a_guard_on_arguments_that_fails_refuses() {
    let flow = shop();
    let mut instance = flow.start(0);
    run(
        &flow,
        &mut instance,
        "lookup",
        &json!({"order": "A"}),
        Outcome::Success,
    );
    let (code, told) = refused(&flow, &instance, "refund", &json!({"order": "A"}));
    assert_eq!(code, 1082);
    assert!(
        told.ends_with("has no answer: there is no `args.amount`"),
        "{told}"
    );
}

#[test]
fn alternatives_are_tried_in_order_and_a_guard_that_fails_counts_as_false() {
    let flow = shop();
    let mut instance = flow.start(0);
    let args = json!({"order": "A", "amount": 3});
    run(&flow, &mut instance, "lookup", &args, Outcome::Success);
    let refund = bound(&flow, instance.position(), "refund");
    fn end<'a>(args: &'a Value, result: &'a Value) -> End<'a> {
        End {
            result: Some(result),
            ..ended(Outcome::Success, args)
        }
    }
    let partial = json!({"partial": true});
    let step = flow.step(&instance, refund, &end(&args, &partial));
    assert_eq!(
        (step.set.as_slice(), step.faults.len()),
        (&[("part", Some(json!(3)))][..], 0)
    );
    assert!(!step.enters && step.after == instance.position());
    for (result, faults) in [
        (json!({"partial": false}), 0),
        (json!({}), 1),
        (json!("x"), 1),
    ] {
        let step = flow.step(&instance, refund, &end(&args, &result));
        assert!(step.terminal, "{result}");
        assert_eq!(step.faults.len(), faults, "{result}");
    }
}

#[test]
fn a_value_that_cannot_be_worked_out_is_forgotten_and_told() {
    let flow = shop();
    let mut instance = flow.start(0);
    let step = run(&flow, &mut instance, "lookup", &json!({}), Outcome::Success);
    assert_eq!(step.faults.len(), 1);
    assert_eq!(name(&flow, &instance), "found");
    assert!(!instance.memory().contains_key("order"));
    assert_eq!(instance.memory()["seen"], true);
}

#[test]
fn memory_has_a_bound() {
    let flow = shop();
    let mut instance = flow.start(0);
    let long = json!({"order": "x".repeat(MOST_MEMORY)});
    let step = run(&flow, &mut instance, "lookup", &long, Outcome::Success);
    assert!(matches!(
        &step.faults[..],
        [Fault::Set { key, failed: Failed::TooLarge, .. }] if key == "order"
    ));
    assert_eq!(instance.memory().len(), 1);
}

#[test]
fn what_is_kept_survives_a_restart() {
    let flow = Workflow::builder("keep")
        .settings(Settings {
            keep: vec!["total".to_owned()],
            ..Settings::default()
        })
        .state("a", |s| {
            s.initial().tool("go", |t| {
                t.success(end("b").set("total", "args.n").set("n", "args.n"))
            })
        })
        .build()
        .unwrap();
    let mut instance = flow.start(0);
    run(
        &flow,
        &mut instance,
        "go",
        &json!({"n": 7}),
        Outcome::Success,
    );
    assert_eq!(
        Value::Object(instance.memory().clone()),
        json!({"total": 7})
    );
    assert_eq!(instance.visits(instance.position().state), 1);
}

#[test]
fn visits_are_counted_and_bounded() {
    let flow = Workflow::builder("tries")
        .state("code", |s| {
            s.initial()
                .max_visits(2)
                .tool("test", |t| t.success("done").error("broken"))
                .tool("look", |t| t.success("code"))
        })
        .state("broken", |s| s.tool("mend", |t| t.success("code")))
        .state("done", |s| s.terminal())
        .build()
        .unwrap();
    let mut instance = flow.start(0);
    for visits in 1..=2 {
        // An edge that stays is no visit.
        run(&flow, &mut instance, "look", &Null, Outcome::Success);
        assert_eq!(instance.visits(instance.position().state), visits);
        run(&flow, &mut instance, "test", &Null, Outcome::Error);
        run(&flow, &mut instance, "mend", &Null, Outcome::Success);
    }
    assert_eq!(
        refused(&flow, &instance, "test", &Null),
        (
            1082,
            "tool \"test\" is not allowed: state \"code\" may be visited 2 times".to_owned()
        )
    );
    assert!(instance.position().blocked);
    assert_eq!(flow.visible(instance.position(), Kind::Tool).len(), 0);
    // A new run begins to count anew.
    let code = instance.position().state;
    instance.apply(
        &flow,
        &flow.put(&instance, flow.state_id("done").unwrap()),
        0,
    );
    assert_eq!(instance.position(), code.into());
    let visible = flow.visible(instance.position(), Kind::Tool);
    assert!(visible.eq(["test", "look"]));
}

#[test]
fn a_timer_fires_once_its_time_has_come() {
    let minute = Duration::from_secs(60);
    let flow = Workflow::builder("offer")
        .state("open", |s| {
            s.initial()
                .tool("look", |t| t.success("open"))
                .tool("close", |t| t.success("shut"))
                .after(minute, to("shut").when("visits > 1"))
                .after(minute, "late")
        })
        .state("late", |s| s.tool("renew", |t| t.success("open")))
        .state("shut", |s| s.terminal())
        .build()
        .unwrap();
    let mut instance = flow.start(5);
    let args = Null;
    let look = bound(&flow, instance.position(), "look");
    let step = flow.step(&instance, look, &ended(Outcome::Success, &args));
    instance.apply(&flow, &step, 30_000);
    assert_eq!(
        instance.due(),
        Some(60_005),
        "staying does not wind the clock up"
    );
    assert_eq!(flow.expire(&instance, 60_004), None);
    let step = flow.expire(&instance, 60_005).unwrap();
    instance.apply(&flow, &step, 60_005);
    assert_eq!((name(&flow, &instance), instance.due()), ("late", None));
    assert_eq!(flow.expire(&instance, u64::MAX), None);
    run(&flow, &mut instance, "renew", &Null, Outcome::Success);
    let step = flow.expire(&instance, 60_000).unwrap();
    assert!(step.terminal, "on the second visit the guard is true");
}

#[test]
fn a_timer_that_stays_fires_once_too() {
    let flow = Workflow::builder("remind")
        .state("open", |s| {
            s.initial()
                .tool("close", |t| t.success(end("shut")))
                .after(Duration::from_secs(1), to("open").effect("remind"))
        })
        .build()
        .unwrap();
    let mut instance = flow.start(0);
    let step = flow.expire(&instance, 1_000).unwrap();
    assert_eq!(step.effects, ["remind"]);
    instance.apply(&flow, &step, 1_000);
    assert_eq!(flow.expire(&instance, u64::MAX), None);
}

#[test]
fn an_unknown_outcome_can_hold_the_instance_until_somebody_decides() {
    let flow = Workflow::builder("careful")
        .state("a", |s| {
            s.initial()
                .tool("pay", |t| t.success(to("b").set("n", "args.n")).hold())
                .after(Duration::from_secs(1), "b")
        })
        .state("b", |s| s.terminal())
        .always_tool("help")
        .build()
        .unwrap();
    let mut instance = flow.start(0);
    let args = json!({"n": 3});
    run(&flow, &mut instance, "pay", &args, Outcome::Unknown);
    assert_eq!(
        refused(&flow, &instance, "pay", &args),
        (
            1084,
            "tool \"pay\" is not allowed: nobody knows what tool \"pay\" did, and an operator \
             must decide"
                .to_owned()
        )
    );
    assert!(flow.judge(&instance, &call("help", &Null)).is_ok());
    assert_eq!(flow.expire(&instance, 5_000), None);
    assert_eq!(flow.settle(&instance, Outcome::Unknown, None), None);
    let step = flow.settle(&instance, Outcome::Success, None).unwrap();
    assert_eq!(step.set, [("n", Some(json!(3)))]);
    instance.apply(&flow, &step, 0);
    assert_eq!(instance, flow.start(0));
    assert_eq!(flow.settle(&instance, Outcome::Success, None), None);
}

#[test]
fn answers_of_the_model_lead_on_from_where_a_call_led() {
    let flow = Workflow::builder("triage")
        .state("new", |s| {
            s.initial()
                .tool("report", |t| t.success("sort"))
                .after(Duration::from_secs(1), "sort")
        })
        .state("sort", |s| {
            s.sampling(100, |m| {
                m.user("Urgent?")
                    .success(to("urgent").when("result.text == 'yes'"))
                    .success("later")
            })
            .tool("give_up", |t| t.success("later"))
        })
        .state("urgent", |s| s.terminal())
        .state("later", |s| s.terminal())
        .build()
        .unwrap();
    let mut instance = flow.start(0);
    assert_eq!(flow.sampled(&instance, None, &Null), None);
    let by_time = flow.expire(&instance, 1_000).unwrap();
    assert!(by_time.enters && !by_time.asks);
    let step = run(&flow, &mut instance, "report", &Null, Outcome::Success);
    assert!(step.asks);
    let answer = json!({"text": "yes"});
    let to = |answer| flow.sampled(&instance, answer, &Null).unwrap().to;
    assert_eq!(flow.state_name(to(Some(&answer))), "urgent");
    assert_eq!(flow.state_name(to(Some(&Null))), "later");
    assert_eq!(flow.state_name(to(None)), "sort");
}

#[test]
fn the_model_is_asked_only_while_the_client_waits_and_the_run_goes_on() {
    let flow = |finish| {
        Workflow::builder("asks")
            .settings(Settings {
                finish,
                ..Settings::default()
            })
            .state("a", |s| {
                s.initial()
                    .tool("go", |t| {
                        t.success("b").cancelled("b").unknown("b").timeout("b")
                    })
                    .tool("end", |t| t.success(end("b")))
            })
            .state("b", |s| s.sampling(9, |m| m.user("?").success("a")))
            .build()
            .unwrap()
    };
    let flow = flow(Finish::Stay);
    let asks = |tool, outcome| {
        let binding = bound(&flow, flow.initial(), tool);
        flow.step(&flow.start(0), binding, &End::from(outcome)).asks
    };
    assert!(asks("go", Outcome::Success) && asks("go", Outcome::Timeout));
    assert!(!asks("go", Outcome::Cancelled) && !asks("go", Outcome::Unknown));
    assert!(!asks("end", Outcome::Success), "it is over");
}

#[test]
fn guards_can_be_functions() {
    let flow = Workflow::builder("rust")
        .state("a", |s| {
            s.initial().tool("pay", |t| {
                t.when(rust("cheap", |facts| facts.args["n"].as_u64() <= Some(5)))
                    .success(end("b").set("twice", rust("twice", |f| f.args["n"].as_u64())))
            })
        })
        .build()
        .unwrap();
    let instance = flow.start(0);
    let args = json!({"n": 6});
    let (code, told) = refused(&flow, &instance, "pay", &args);
    assert_eq!(code, 1082);
    assert!(told.ends_with("cheap is not true"), "{told}");
    let args = json!({"n": 5});
    assert!(flow.judge(&instance, &call("pay", &args)).is_ok());
    let pay = bound(&flow, flow.initial(), "pay");
    let step = flow.step(&instance, pay, &ended(Outcome::Success, &args));
    assert_eq!(step.set, [("twice", Some(json!(5)))]);
}

/// An old value would be taken for the new one.
#[test]
fn what_cannot_be_worked_out_anew_is_not_what_it_was() {
    let flow = Workflow::builder("again")
        .state("a", |s| {
            s.initial()
                .tool("look", |t| t.success(to("a").set("order", "args.order")))
                .tool("stop", |t| t.success(end("a")))
        })
        .build()
        .unwrap();
    let mut instance = flow.start(0);
    let large = "x".repeat(MOST_MEMORY / 2);
    for order in ["A", &large, &large] {
        let step = run(
            &flow,
            &mut instance,
            "look",
            &json!({"order": order}),
            Outcome::Success,
        );
        assert_eq!(step.faults, [], "what is replaced makes room");
        assert_eq!(instance.memory()["order"], order);
    }
    run(&flow, &mut instance, "look", &json!({}), Outcome::Success);
    assert!(instance.memory().is_empty());
}

#[test]
fn a_hold_ends_only_when_it_is_settled() {
    let flow = Workflow::builder("hold")
        .state("a", |s| {
            s.initial()
                .tool("pay", |t| t.success("b").hold())
                .tool("look", |t| t.success("a"))
        })
        .state("b", |s| {
            s.sampling(9, |m| m.user("?").success(end("c")).error(end("c")))
        })
        .build()
        .unwrap();
    let mut instance = flow.start(0);
    // A call that cannot move runs beside the one that is torn down, and ends after it.
    let look = bound(&flow, instance.position(), "look");
    run(&flow, &mut instance, "pay", &Null, Outcome::Unknown);
    let beside = flow.step(&instance, look, &End::from(Outcome::Success));
    instance.apply(&flow, &beside, 0);
    assert!(instance.held().is_some());
    let refused = flow.judge(&instance, &call("look", &Null)).unwrap_err();
    assert_eq!(refused.allowed(Kind::Tool).count(), 0);
    assert_eq!(refused.path(), None);
    let step = flow.settle(&instance, Outcome::Success, None).unwrap();
    assert!(step.enters && !step.asks, "nobody is there to be asked");
    instance.apply(&flow, &step, 0);
    assert_eq!((name(&flow, &instance), instance.held()), ("b", None));
}

#[test]
fn timers_fire_one_after_the_other_as_long_as_the_instance_stays() {
    let minutes = |n: u64| Duration::from_secs(60 * n);
    let flow = Workflow::builder("remind")
        .state("open", |s| {
            s.initial()
                .tool("close", |t| t.success(end("shut")))
                .after(minutes(10), to("open").effect("remind"))
                .after(minutes(30), end("lapsed"))
        })
        .build()
        .unwrap();
    assert_eq!(flow.warnings(), []);
    let mut instance = flow.start(1_000);
    let step = flow.expire(&instance, 601_000).unwrap();
    assert_eq!(step.effects, ["remind"]);
    instance.apply(&flow, &step, 601_000);
    assert_eq!(instance.due(), Some(1_801_000), "counted from when it came");
    assert!(flow.expire(&instance, 1_801_000).unwrap().terminal);
}
