//! Every finding, each made by the mistake it is for.

mod samples;

use super::*;
use crate::{Builder, Kind, Outcome, SamplingBuilder, Span, StateBuilder, end, rust, to};

#[track_caller]
fn check(builder: Builder, expected: &[&str]) {
    check_draft(builder.into_draft(), expected);
}

/// Judges as a file would be judged, where every target must be defined.
#[track_caller]
fn check_file(builder: Builder, expected: &[&str]) {
    let targets = Targets::Closed;
    check_draft(
        Draft {
            targets,
            ..builder.into_draft()
        },
        expected,
    );
}

#[track_caller]
fn check_draft(draft: Draft, expected: &[&str]) {
    let (findings, valid) = match draft.build(None) {
        Ok(workflow) => (workflow.warnings().to_vec(), true),
        Err(invalid) => (invalid.findings, false),
    };
    let told: Vec<_> = findings.iter().map(ToString::to_string).collect();
    assert_eq!(told, expected);
    let error = findings.iter().any(|f| f.severity() == Severity::Error);
    assert_eq!(valid, !error);
}

/// A valid workflow to add mistakes to: a → b → end.
fn base() -> Builder {
    Workflow::builder("base")
        .state("a", |s| s.initial().tool("ab", |t| t.success("b")))
        .state("b", |s| s.tool("fin", |t| t.success("over")))
        .state("over", |s| s.terminal())
}

#[test]
fn a_good_workflow_has_no_findings() {
    check(base(), &[]);
    check_file(base(), &[]);
}

#[test]
fn nothing_at_all_is_no_workflow() {
    check(
        Workflow::builder("empty"),
        &["error[no-states]: the workflow has no states"],
    );
}

#[test]
fn without_states_everything_can_still_be_let_through() {
    let open = Workflow::builder("open").always_everything();
    check(open.clone(), &[]);
    let open = open.build().unwrap();
    assert_eq!(open.state_name(open.initial().state), "open");
}

#[test]
fn there_is_one_initial_state() {
    let none = Workflow::builder("none").state("a", |s| s.tool("t", |t| t.success(end("b"))));
    check(
        none,
        &["error[no-initial-state]: no state is marked initial"],
    );
    let two = base().state("b", |s| s.initial());
    let several = "error[several-initial-states]: several states are marked initial: \
                   \"a\", \"b\"";
    check(two, &[several]);
}

#[test]
fn an_undefined_target_is_a_state_in_rust_and_an_error_in_a_file() {
    let other = base().state("b", |s| s.tool("again", |t| t.error("stuck")));
    check(
        other,
        &["warning[trap]: no end can be reached from state \"stuck\""],
    );
    check_file(
        Workflow::builder("typo")
            .state("a", |s| s.initial().tool("t", |t| t.error("ovr")))
            .state("over", |s| s.terminal()),
        &[
            // Whether "over" is reached and the run ends depends on what was meant.
            "error[unknown-target]: error of tool \"t\" in state \"a\" leads to \"ovr\", \
             which is not defined",
        ],
    );
}

/// A slip of the pen used to become a state in which nothing can be called.
#[test]
fn a_target_that_is_nearly_a_state_is_an_error_in_rust_too() {
    let typo = base().state("b", |s| s.tool("again", |t| t.error("overr")));
    let unknown = "error[unknown-target]: error of tool \"again\" in state \"b\" leads to \
                   \"overr\", which is not defined";
    check(typo.clone(), &[unknown]);
    let invalid = typo.build().unwrap_err();
    let help = invalid.findings[0].problem.help();
    assert_eq!(help.unwrap(), "did you mean \"over\"?");
    // A target that was named before is no state that somebody defined.
    let twins = base().state("b", |s| s.tool("x", |t| t.success("stuck").error("stuck_")));
    let codes = |flow: Builder| -> Vec<_> {
        let draft = flow.into_draft();
        match draft.build(None) {
            Ok(flow) => flow.warnings().iter().map(|f| f.problem.code()).collect(),
            Err(invalid) => invalid.findings.iter().map(|f| f.problem.code()).collect(),
        }
    };
    assert_eq!(codes(twins.clone()), ["trap", "trap"]);
    assert_eq!(codes(twins.closed()), ["unknown-target", "unknown-target"]);
}

#[test]
fn what_two_definitions_say_of_one_thing_must_be_the_same() {
    let twice = |first: fn(StateBuilder) -> StateBuilder,
                 second: fn(StateBuilder) -> StateBuilder| {
        let flow = base().state("a", first).state("a", second);
        match flow.build() {
            Ok(_) => Vec::new(),
            Err(invalid) => invalid.errors().map(|f| f.problem.to_string()).collect(),
        }
    };
    type Define = fn(StateBuilder) -> StateBuilder;
    let differing: [(Define, Define, &str); 7] = [
        (
            |s| s.description("one"),
            |s| s.description("two"),
            "state \"a\" has more than one description",
        ),
        (
            |s| s.instructions("one"),
            |s| s.instructions("two"),
            "state \"a\" has more than one text of `instructions`",
        ),
        (
            |s| s.max_visits(1),
            |s| s.max_visits(2),
            "state \"a\" has more than one limit of visits",
        ),
        (
            |s| s.sampling(1, |m| m.user("?").success("b").error("b")),
            |s| s.sampling(2, |m| m.user("?").success("b").error("b")),
            "state \"a\" has more than one question for the model",
        ),
        (
            |s| s.tool("ab", |t| t.deadline(Duration::from_secs(1))),
            |s| s.tool("ab", |t| t.deadline(Duration::from_secs(2))),
            "tool \"ab\" in state \"a\" has more than one deadline",
        ),
        (
            |s| s.tool("ab", |t| t.approve("Go?").hold()),
            |s| s.tool("ab", |t| t.approve_within("Go?", Duration::from_secs(1))),
            "tool \"ab\" in state \"a\" has more than one approval",
        ),
        (
            |s| s.tool("ab", |t| t.when("true").otherwise("one")),
            |s| s.tool("ab", |t| t.otherwise("two")),
            "tool \"ab\" in state \"a\" has more than one text of `otherwise`",
        ),
    ];
    for (first, second, said) in differing {
        assert_eq!(twice(first, second), [said]);
        assert_eq!(twice(first, first), [] as [&str; 0], "{said}");
        assert_eq!(twice(first, |s| s), [] as [&str; 0], "{said}");
    }
}

#[test]
fn an_unknown_target_comes_with_the_name_that_was_meant() {
    let draft = Draft {
        targets: Targets::Closed,
        ..base()
            .state("a", |s| s.tool("x", |t| t.success("ovre")))
            .into_draft()
    };
    let invalid = draft.build(None).unwrap_err();
    let problem = invalid.findings.last().unwrap().problem.clone();
    assert_eq!(problem.help().unwrap(), "did you mean \"over\"?");
}

#[test]
fn a_state_defined_twice_is_merged() {
    let twice = base().state("a", |s| s.description("twice"));
    check(twice.clone(), &[]);
    check_file(twice, &[]);
}

#[test]
fn merged_bindings_hold_what_each_definition_said() {
    let flow = base()
        .state("a", |s| {
            s.description("start")
                .tool("ab", |t| t.success(to("b").effect("mail")).error(end("a")))
                .tool("ab", |t| t.success(to("b").effect("mail").effect("log")))
                .tool("aa", |t| t.success("a"))
        })
        .state("a", |s| {
            s.tool("ab", |t| t.deadline(Duration::from_secs(1)))
        })
        .state("a", |s| s.tool("ab", |t| t))
        .build()
        .unwrap();
    let a = flow.initial().state;
    assert_eq!(flow.state(a).description(), Some("start"));
    let names: Vec<_> = flow.visible(flow.initial(), Kind::Tool).collect();
    assert_eq!(names, ["ab", "aa"]);
    let ab = &flow.bindings(a)[0];
    let edge = |outcome| flow.alternatives(ab, outcome).next().unwrap().1;
    assert_eq!(edge(Outcome::Success).effects, ["mail", "log"]);
    assert!(edge(Outcome::Error).terminal);
    assert_eq!(ab.deadline(), Some(Duration::from_secs(1)));
}

#[test]
fn two_edges_that_differ_are_an_error_that_names_both() {
    let elsewhere = base().state("a", |s| s.tool("ab", |t| t.success("a")));
    check(
        elsewhere,
        &[
            "error[two-edges]: success of tool \"ab\" in state \"a\" leads to both \
           \"b\" and \"a\"",
        ],
    );
    let ending = base().state("a", |s| s.tool("ab", |t| t.success(end("b"))));
    check(
        ending,
        &[
            "error[two-edges]: success of tool \"ab\" in state \"a\" leads to both \
           \"b\" and \"b\" (terminal)",
        ],
    );
}

#[test]
fn an_edge_into_a_terminal_state_is_terminal_whether_it_says_so_or_not() {
    check(
        base().state("b", |s| s.tool("fin", |t| t.success(end("over")))),
        &[],
    );
}

#[test]
fn what_is_always_callable_cannot_be_bound_too() {
    check(
        base().always_tool("ab").always_tool("ab"),
        &[
            "error[bound-and-always]: tool \"ab\" is always callable, yet a state binds it too",
            "error[bound-and-always]: tool \"ab\" is always callable, yet a state binds it too",
        ],
    );
    // Other kinds have names of their own, and saying it twice is harmless.
    check(base().always_prompt("ab").always_prompt("ab"), &[]);
}

#[test]
fn a_workflow_that_cannot_end_is_an_error_said_once() {
    let round = Workflow::builder("round")
        .state("a", |s| s.initial().tool("ab", |t| t.success("b")))
        .state("b", |s| s.tool("ba", |t| t.success("a")))
        .state("over", |s| s.terminal());
    check(
        round,
        &[
            "error[no-reachable-end]: no end can be reached from the initial state \"a\"",
            "warning[unreachable-state]: state \"over\" cannot be reached",
        ],
    );
}

#[test]
fn an_end_by_any_outcome_is_an_end() {
    let failing = Workflow::builder("failing")
        .state("a", |s| s.initial().tool("t", |t| t.cancelled(end("over"))));
    check(failing, &[]);
}

#[test]
fn livelocks_and_dead_ends_are_traps() {
    let stuck = base()
        .state("b", |s| {
            s.tool("out", |t| t.error("x"))
                .tool("off", |t| t.error("pit"))
        })
        .state("x", |s| s.tool("xy", |t| t.success("y")))
        .state("y", |s| s.tool("yx", |t| t.success("x")));
    check(
        stuck,
        &[
            "warning[trap]: no end can be reached from state \"x\"",
            "warning[trap]: no end can be reached from state \"y\"",
            "warning[trap]: no end can be reached from state \"pit\"",
        ],
    );
}

#[test]
fn what_lies_behind_an_end_is_not_reached() {
    let behind = base()
        .state("over", |s| {
            s.tool("on", |t| t.success("beyond").error("over"))
        })
        .state("beyond", |s| s.tool("t", |t| t.success("a")));
    check(
        behind,
        &[
            "warning[bindings-after-end]: state \"over\" is entered only by edges that end the \
             workflow, yet has bindings",
            "warning[unreachable-state]: state \"beyond\" cannot be reached",
        ],
    );
}

#[test]
fn a_binding_that_leads_nowhere_is_worth_a_warning() {
    check(
        base().state("a", |s| s.resource("note://rules", |r| r)),
        &["warning[no-outcome]: resource \"note://rules\" in state \"a\" gives no outcome"],
    );
}

#[test]
fn all_problems_come_at_once_with_the_warnings() {
    let draft = Draft {
        targets: Targets::Closed,
        ..Workflow::builder("bad")
            .state("a", |s| s.initial().tool("t", |t| t.success("a")))
            .state("a", |s| s.tool("t", |t| t.success("z")))
            .state("b", |s| s.initial().tool("u", |t| t))
            .always_tool("u")
            .into_draft()
    };
    let catalogue = Catalogue::closed()
        .with(Kind::Tool, "t")
        .with(Kind::Prompt, "p");
    let invalid = draft.build(Some(&catalogue)).unwrap_err();
    let codes: Vec<_> = invalid.findings.iter().map(|f| f.problem.code()).collect();
    assert_eq!(
        codes,
        [
            "unknown-target",
            "two-edges",
            "no-outcome",
            "bound-and-always",
            "several-initial-states",
            "trap",
            "unknown-artifact",
            "bound-nowhere",
        ]
    );
    assert_eq!(invalid.errors().count(), 5);
}

#[test]
fn findings_point_into_the_file() {
    let at = |line| {
        Place::from(Span {
            start: 0,
            end: 1,
            line,
            column: 3,
        })
    };
    let mut draft = base()
        .state("a", |s| s.tool("x", |t| t.success("z")).tool("y", |t| t))
        .state("lost", |s| s)
        .into_draft();
    draft.targets = Targets::Closed;
    draft.states[3].name = "c".to_owned();
    draft.states[3].place = at(1);
    draft.states[3].bindings[0].edges[0].target.place = at(2);
    draft.states[3].bindings[1].place = at(3);
    draft.states[4].place = at(4);
    let invalid = draft.build(None).unwrap_err();
    let places: Vec<_> = invalid
        .findings
        .iter()
        .map(|finding| (finding.problem.code(), finding.span.map(|span| span.line)))
        .collect();
    assert_eq!(
        places,
        [
            ("unknown-target", Some(2)),
            ("no-outcome", Some(3)),
            ("unreachable-state", Some(1)),
            ("unreachable-state", Some(4)),
        ]
    );
    let first = invalid.findings[0].to_string();
    assert!(first.starts_with("2:3: error[unknown-target]: "), "{first}");
}

/// The base with its first tool said again, with more.
fn again(define: impl FnOnce(crate::BindingBuilder) -> crate::BindingBuilder) -> Builder {
    base().state("a", |s| s.tool("ab", define))
}

#[test]
fn a_guard_names_what_exists() {
    check(
        again(|t| t.when("arg.amount > 0")),
        &["error[bad-guard]: the guard of tool \"ab\" in state \"a\" is wrong: unknown name `arg`"],
    );
    check(
        again(|t| t.when("result.ok")),
        &[
            "error[bad-guard]: the guard of tool \"ab\" in state \"a\" is wrong: `result` cannot be \
             used here",
        ],
    );
    check(
        again(|t| t.when("ctx.order == 1")),
        &[
            "error[unknown-memory]: the guard of tool \"ab\" in state \"a\" is wrong: no edge \
             sets `ctx.order`",
        ],
    );
    let typo = again(|t| {
        t.when("ctx.odrer == 1")
            .error(to("a").set("order", "args.o"))
    });
    let invalid = typo.build().unwrap_err();
    let help = invalid.findings[0].problem.help();
    assert_eq!(help.unwrap(), "did you mean `ctx.order`?");
}

#[test]
fn values_and_texts_are_checked_as_guards_are() {
    check(
        again(|t| t.error(to("a").set("x", "1 +"))).clone(),
        &[
            "error[bad-set]: the value of `x` for error of tool \"ab\" in state \"a\" is wrong: \
           the expression ends too early",
        ],
    );
    check(
        again(|t| t.approve("Pay {{amount}}?").idempotent()),
        &[
            "error[bad-text]: the text of tool \"ab\" in state \"a\" is wrong: `{{amount}}` stands \
           for nothing",
        ],
    );
    check(
        again(|t| t.approve("Pay {{ctx.amount}}?").idempotent()),
        &[
            "error[unknown-memory]: the text of tool \"ab\" in state \"a\" is wrong: no edge sets \
           `ctx.amount`",
        ],
    );
    check(
        base().state("a", |s| s.instructions("Look at {{args.x}}.")),
        &["error[bad-text]: the text of state \"a\" is wrong: `{{args.x}}` stands for nothing"],
    );
}

#[test]
fn alternatives_have_a_last_resort_and_nothing_behind_it() {
    check(
        again(|t| t.error(to("a").when("visits > 1"))),
        &[
            "error[no-last-resort]: error of tool \"ab\" in state \"a\" leads nowhere if no guard \
             is true",
        ],
    );
    check(
        again(|t| t.success(to("a").when("visits > 1"))),
        &[
            "error[never-taken]: success of tool \"ab\" in state \"a\" never leads to \"a\": an \
             edge before it has no guard",
        ],
    );
    check(
        again(|t| t.error(to("a").when(rust("luck", |_| true))).error("b")),
        &[],
    );
}

#[test]
fn durations_and_visits_are_something() {
    let zero = Duration::ZERO;
    check(
        again(|t| t.deadline(zero).approve_within("?", LONGEST * 2).hold()),
        &[
            "error[bad-duration]: the deadline of tool \"ab\" in state \"a\" must be between 1ms \
             and 365d",
            "error[bad-duration]: the approval's time of tool \"ab\" in state \"a\" must be \
             between 1ms and 365d",
        ],
    );
    check(
        base().state("b", |s| s.after(zero, "over").max_visits(0)),
        &[
            "error[no-visits]: state \"b\" allows no visit at all",
            "error[bad-duration]: the time of the timer of 0ms in state \"b\" must be between 1ms \
             and 365d",
        ],
    );
}

#[test]
fn a_timer_that_does_nothing_is_pointed_out() {
    let second = Duration::from_secs(1);
    let idle = |state, after| {
        format!("warning[idle-timer]: the timer of {after} in state {state:?} never does anything")
    };
    check(
        base().state("b", |s| s.after(second, "b").after(second * 90, "over")),
        &[&idle("b", "1s")],
    );
    check(
        base().state("b", |s| s.after(second, "over").after(second * 90, "a")),
        &[&idle("b", "90s")],
    );
}

#[test]
fn time_and_answers_lead_on_as_calls_do() {
    let second = Duration::from_secs(1);
    check(
        Workflow::builder("time")
            .state("a", |s| s.initial().after(second, "b"))
            .state("b", |s| s.after(second, end("c"))),
        &[],
    );
    let asks = |define: fn(SamplingBuilder) -> SamplingBuilder| {
        Workflow::builder("asks")
            .state("a", |s| s.initial().tool("go", |t| t.success("b")))
            .state("b", |s| s.sampling(9, define))
    };
    check(asks(|m| m.user("?").success(end("c")).error("a")), &[]);
    check(
        asks(|m| m.user("?").success(end("c"))),
        // Without an answer the instance stays, and nothing leads on.
        &["warning[trap]: no end can be reached from state \"b\""],
    );
    check(
        asks(|m| m.success(end("c")).error("a")),
        &["error[no-messages]: sampling in state \"b\" asks nothing"],
    );
    check(
        Workflow::builder("round")
            .state("a", |s| {
                s.initial().tool("go", |t| t.success("b").error(end("z")))
            })
            .state("b", |s| {
                s.sampling(9, |m| m.user("?").success("c").error(end("z")))
            })
            .state("c", |s| {
                s.sampling(9, |m| m.user("?").success("b").error(end("z")))
            }),
        &["warning[endless-sampling]: sampling goes round in a circle from state \"b\""],
    );
}

#[test]
fn a_handle_needs_a_place() {
    let settings = Settings {
        scope: Scope::Handle,
        keep: vec!["totl".to_owned()],
        ..Settings::default()
    };
    let flow = base().settings(settings).state("a", |s| {
        s.prompt("p", |p| p.success(to("a").set("total", "1")))
    });
    check(
        flow,
        &[
            "warning[never-set]: `totl` is to be kept, but no edge sets it",
            "error[no-place-for-handle]: prompt \"p\" is bound, but instances are found by a \
             handle, which only tools can carry",
        ],
    );
}

#[test]
fn what_a_person_must_approve_says_what_happens_when_nobody_knows() {
    let unsaid = "warning[unknown-unsaid]: tool \"ab\" in state \"a\" does not say what happens \
                  when its outcome is unknown";
    check(again(|t| t.approve("Sure?")), &[unsaid]);
    check(again(|t| t.approve("Sure?").hold()), &[]);
    check(again(|t| t.approve("Sure?").idempotent()), &[]);
    check(again(|t| t.approve("Sure?").unknown("a")), &[]);
}

#[test]
fn a_step_has_a_bound() {
    let many = |count: usize| {
        again(move |mut t| {
            for n in 0..count {
                t = t.error(to("a").when(format!("visits == {n}")));
            }
            t.error("b")
        })
    };
    check(many(MOST - 1), &[]);
    check(
        many(3 * MOST),
        &[
            "error[too-many]: error of tool \"ab\" in state \"a\" has more edges than the 100 that a \
           step works out",
        ],
    );
    let set =
        again(|t| t.error((0..200).fold(to("a"), |target, n| target.set(format!("k{n}"), "1"))));
    check(
        set,
        &[
            "error[too-many]: error of tool \"ab\" in state \"a\" has more values to remember than \
           the 100 that a step works out",
        ],
    );
}

#[test]
fn a_second_guard_does_not_take_the_place_of_the_first() {
    let twice = |first: &'static str, second: &'static str| {
        again(|t| t.when(first)).state("a", |s| s.tool("ab", |t| t.when(second)))
    };
    check(twice("visits > 0", "visits > 0"), &[]);
    check(
        twice("visits > 0", "true"),
        &["error[said-twice]: tool \"ab\" in state \"a\" has more than one guard"],
    );
    let questions =
        again(|t| t.approve("Sure?").hold()).state("a", |s| s.tool("ab", |t| t.approve("Really?")));
    check(
        questions,
        &["error[said-twice]: tool \"ab\" in state \"a\" has more than one approval"],
    );
}

#[test]
fn holding_makes_edges_for_the_unknown_void_wherever_they_are_written() {
    let flow = again(|t| t.unknown("pit").error("b"));
    let flow = flow.state("a", |s| s.tool("ab", |t| t.hold()));
    let flow = flow.build().unwrap();
    let ab = &flow.bindings(flow.initial().state)[0];
    assert_eq!(ab.written_for(Outcome::Unknown), None);
    assert_eq!(flow.state_id("pit"), None);
}

#[test]
fn questions_that_go_round_through_a_restart_are_found() {
    let flow = Workflow::builder("round")
        .state("i", |s| {
            s.initial()
                .sampling(9, |m| m.user("?").success("b").error("b"))
                .tool("go", |t| t.success("b"))
        })
        .state("b", |s| {
            s.sampling(9, |m| m.user("?").success("z").error("z"))
        })
        .state("z", |s| s.terminal());
    check(
        flow,
        &["warning[endless-sampling]: sampling goes round in a circle from state \"i\""],
    );
}

#[test]
fn a_workflow_in_which_nothing_is_gated_can_be_written_down() {
    let open = Workflow::builder("open")
        .always_everything()
        .build()
        .unwrap();
    let definition = open.definition();
    assert!(definition.states.is_empty());
    assert_eq!(
        definition.clone().build(None).unwrap().definition(),
        definition
    );
}

#[test]
fn a_timer_that_never_fires_leads_nowhere() {
    let second = Duration::from_secs(1);
    let flow = Workflow::builder("late")
        .state("a", |s| s.initial().tool("go", |t| t.success("b")))
        .state("b", |s| s.after(second, "c").after(second * 2, "z"))
        .state("c", |s| s.tool("go", |t| t.success("c")))
        .state("z", |s| s.terminal());
    check(
        flow,
        &[
            "warning[idle-timer]: the timer of 2s in state \"b\" never does anything",
            "error[no-reachable-end]: no end can be reached from the initial state \"a\"",
            "warning[unreachable-state]: state \"z\" cannot be reached",
        ],
    );
}

#[test]
fn a_text_fills_in_paths_and_closes_its_braces() {
    let text = "the text of tool \"ab\" in state \"a\" is wrong";
    check(
        again(|t| t.approve("Pay {{args.amount}?").hold()),
        &[&format!("error[bad-text]: {text}: `{{{{` is never closed")],
    );
    check(
        again(|t| t.approve("Pay {{args.amount * 2}}?").hold()),
        &[&format!(
            "error[bad-text]: {text}: `{{{{args.amount * 2}}}}` stands for nothing"
        )],
    );
    check(
        again(|t| {
            t.approve("Pay {{ args.items.0.price-in-cents }} {}?")
                .hold()
        }),
        &[],
    );
}
