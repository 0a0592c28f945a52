//! Guards that are held against what the server says of its tools.

use super::*;

/// What the server says of its tools is held against what the workflow does with them.
#[test]
fn guards_are_tried_on_samples_of_the_schemas() {
    use crate::About;
    use serde_json::json;
    let catalogue = |closed: bool| {
        let mut catalogue = Catalogue::closed().with(Kind::Tool, "fin");
        let properties = json!({"amount": {"type": "integer"}, "order": {"type": "string"}});
        let input = json!({"type": "object", "properties": properties,
            "additionalProperties": !closed});
        let output = json!({"type": "object", "properties": {"left": {"type": "integer"}}});
        let about = About {
            input: Some(input),
            output: Some(output),
            destructive: true,
        };
        catalogue.describe(Kind::Tool, "ab", about);
        catalogue
    };
    let told = |builder: Builder, closed| {
        let findings = match builder.build_for(&catalogue(closed)) {
            Ok(workflow) => workflow.warnings().to_vec(),
            Err(invalid) => invalid.findings,
        };
        let told = findings.iter().map(ToString::to_string);
        told.collect::<Vec<_>>()
    };
    let good = |t: crate::BindingBuilder| {
        t.when("args.amount <= 100 && args.order != \"\"")
            .approve("Pay {{args.amount}}?")
            .hold()
            .error(to("a").when("args.amount > 1").set("order", "args.order"))
            .error("b")
    };
    assert_eq!(told(again(good), true), [""; 0]);
    let wrong = |define: fn(crate::BindingBuilder) -> crate::BindingBuilder, closed| {
        told(again(|t| define(t.approve("Sure?").hold())), closed)
    };
    let guard =
        "the guard of tool \"ab\" in state \"a\" is wrong: tried on a sample of the schema, ";
    assert_eq!(
        wrong(|t| t.when("args.amunt > 1"), true),
        [format!("error[bad-guard]: {guard}there is no `args.amunt`")]
    );
    assert_eq!(
        wrong(|t| t.when("args.amunt > 1"), false),
        [format!(
            "warning[bad-guard]: {guard}there is no `args.amunt`"
        )]
    );
    assert_eq!(wrong(|t| t.when("args.amount > 'x'"), true).len(), 1);
    assert_eq!(wrong(|t| t.when("args.amount"), true).len(), 1);
    let result = Workflow::builder("result").state("a", |s| {
        s.initial().tool("ab", |t| {
            t.approve("Sure?")
                .hold()
                .success(to("a").when("result.structuredContent.lft > 1"))
                .success(end("b"))
        })
    });
    assert_eq!(
        told(result, true),
        [
            "warning[bound-nowhere]: tool \"fin\" is bound nowhere, so nobody can use it",
            "warning[bad-guard]: the guard of success of tool \"ab\" in state \"a\" is wrong: tried on \
          a sample of the schema, there is no `result.structuredContent.lft`"
        ]
    );
    assert_eq!(
        told(base(), true),
        [
            "warning[unapproved]: tool \"ab\" in state \"a\" may destroy something, and nobody is \
             asked",
            "warning[unknown-unsaid]: tool \"ab\" in state \"a\" does not say what happens when \
             its outcome is unknown",
        ]
    );
}

/// A sample need not have all that its schema names.
#[test]
fn what_a_schema_names_without_a_type_is_not_missing() {
    let mut catalogue = Catalogue::closed().with(Kind::Tool, "fin");
    let input = serde_json::json!({"type": "object", "properties": {"any": {}, "n": {"type": "integer"}},
        "additionalProperties": false});
    let about = crate::About {
        input: Some(input),
        ..crate::About::default()
    };
    catalogue.describe(Kind::Tool, "ab", about);
    let flow = again(|t| t.when("args.any == 1 && args.n > 0"));
    assert_eq!(flow.build_for(&catalogue).unwrap().warnings(), []);
}

#[test]
fn a_guard_that_can_never_answer_is_pointed_out() {
    let catalogue = Catalogue::closed()
        .with(Kind::Tool, "ab")
        .with(Kind::Tool, "fin");
    let told = |guard: &str| {
        let flow = again(|t| t.when(guard)).build_for(&catalogue).unwrap();
        flow.warnings()
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    for guard in ["1 / 0 > 0", "[1][5] == 1", "1 + 1"] {
        assert_eq!(told(guard).len(), 1, "{guard}");
    }
    for guard in ["1 < 2", "args.a / args.b > 0", "args.list[5] == 1"] {
        assert!(told(guard).is_empty(), "{guard}");
    }
}

/// Each of them takes a while.
#[test]
fn guards_that_run_out_of_fuel_are_not_all_tried() {
    let list = "[1,2,3,4,5,6,7,8,9]";
    let endless = format!(
        "{list}.all(a, {list}.all(b, {list}.all(c, {list}.all(d, {list}.all(e, {list}.all(f, e > 0))))))"
    );
    let catalogue = (0..30).fold(Catalogue::closed(), |catalogue, n| {
        catalogue.with(Kind::Tool, format!("t{n}"))
    });
    let flow = Workflow::builder("slow").state("a", |mut s| {
        for n in 0..30 {
            s = s.tool(format!("t{n}"), |t| {
                t.when(endless.as_str()).success(end("b"))
            });
        }
        s.initial()
    });
    assert_eq!(flow.build_for(&catalogue).unwrap().warnings().len(), 8);
}
