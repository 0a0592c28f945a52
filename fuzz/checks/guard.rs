//! What holds for any text that somebody may pass off as a guard.

use interlock_workflow::{
    Call, End, Expression, Instance, Kind, Outcome, Pass, Target, Text, Workflow, to,
};
use serde_json::{Value, json};

/// Judging and evaluating never panics, loops or fills the memory. What is refused says why; what
/// is accepted answers, or says why it has no answer, and gives the same answer twice.
pub(crate) fn check(bytes: &[u8]) {
    let Ok(source) = std::str::from_utf8(bytes) else {
        return;
    };
    let before = |source: &str| flow(Some(source.into()), over());
    let after = |source: &str| flow(None, over().when(source));
    let value = |source: &str| flow(None, to("b").set("x", source));
    for build in [&before as &dyn Fn(&str) -> Built, &after, &value] {
        match build(source) {
            Ok(flow) => play(&flow),
            Err(invalid) => {
                assert!(invalid.errors().next().is_some());
                for finding in &invalid.findings {
                    assert!(!finding.to_string().is_empty());
                    assert_ne!(finding.problem.help().as_deref(), Some(""));
                }
            }
        }
    }
    fill(source);
}

fn over() -> Target {
    interlock_workflow::end("c")
}

type Built = Result<Workflow, interlock_workflow::Invalid>;

fn flow(when: Option<Expression>, target: Target) -> Built {
    Workflow::builder("fuzz")
        .state("a", |s| {
            s.initial()
                .tool("go", |t| t.success(to("b").set("x", "args")))
        })
        .state("b", |s| {
            s.tool("judge", |t| match when {
                Some(when) => t.when(when).success(target),
                None if target.when.is_some() => t.success(target).success("a"),
                None => t.success(target).error(over()),
            })
        })
        .build()
}

fn play(flow: &Workflow) {
    for args in samples() {
        let mut instance = flow.start(0);
        let Ok(Pass::Bound(go)) = flow.judge(&instance, &call("go", &args)) else {
            panic!("go is bound and has no guard");
        };
        let step = flow.step(&instance, go, &end(&args, None));
        instance.apply(flow, &step, 0);
        match flow.judge(&instance, &call("judge", &args)) {
            Err(refused) => assert_eq!(refused.code(), 1082),
            Ok(Pass::Always) => panic!("judge is bound"),
            Ok(Pass::Bound(judge)) => {
                for result in samples() {
                    let end = end(&args, Some(&result));
                    let step = flow.step(&instance, judge, &end);
                    assert_eq!(step, flow.step(&instance, judge, &end));
                    let mut after: Instance = instance.clone();
                    after.apply(flow, &step, 0);
                    let size = Value::Object(after.memory().clone()).to_string().len();
                    assert!(size < 256 * 1024, "{size} bytes are remembered");
                }
            }
        }
    }
}

fn call<'a>(name: &'a str, args: &'a Value) -> Call<'a> {
    Call {
        kind: Kind::Tool,
        name,
        args,
        principal: &Value::Null,
    }
}

fn end<'a>(args: &'a Value, result: Option<&'a Value>) -> End<'a> {
    End {
        args,
        result,
        ..End::from(Outcome::Success)
    }
}

/// A text is filled in with what is there, and with nothing else.
fn fill(source: &str) {
    let text = Text::new(source);
    let args = json!({"a": "{{args.a}}"});
    let facts = interlock_workflow::Facts {
        args: &args,
        result: None,
        ctx: &serde_json::Map::new(),
        principal: &Value::Null,
        state: "s",
        visits: 1,
    };
    assert!(text.fill(&facts).len() <= source.len() * 4);
}

fn samples() -> [Value; 4] {
    [
        Value::Null,
        json!({"order": "A-1", "amount": 12.5, "n": -3, "ok": true, "none": null}),
        json!({"items": [{"n": 1}, {"n": 2}], "text": "ä\u{1f980}".repeat(20), "x": {"y": {"z": []}}}),
        json!({"many": (0..200).collect::<Vec<_>>(), "big": u64::MAX, "small": i64::MIN}),
    ]
}
