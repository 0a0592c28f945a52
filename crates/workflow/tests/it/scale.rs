//! Size alone must not hurt: no walk may recurse, and none may take time in the square.

use interlock_workflow::{
    Builder, Draft, End, Kind, Outcome, Pass, Position, Targets, Workflow, dot, end, mermaid,
};

const STATES: usize = 100_000;

/// s0 → s1 → … → the end, far deeper than any stack.
fn chain() -> Builder {
    let flow = Workflow::builder("chain").state("s0", |s| s.initial());
    (0..STATES).fold(flow, |flow, n| {
        flow.state(format!("s{n}"), |s| {
            s.tool(format!("t{n}"), |t| match n + 1 {
                STATES => t.success(end("over")),
                next => t.success(format!("s{next}")),
            })
        })
    })
}

#[test]
fn a_chain_of_states_deeper_than_the_stack_is_judged_walked_and_drawn() {
    let flow = chain().build().unwrap();
    assert!(flow.warnings().is_empty());
    assert_eq!(flow.reachable().len(), STATES + 1);
    assert!(flow.traps().is_empty());

    let last = format!("t{}", STATES - 1);
    let way = flow.path_to(flow.initial(), Kind::Tool, &last).unwrap();
    assert_eq!(way.len(), STATES - 1);
    // A refusal does not search that far: anybody can provoke one.
    let refused = flow.admit(flow.initial(), Kind::Tool, &last).unwrap_err();
    assert_eq!(refused.path(), None);

    let at = Position::from(flow.state_id(&format!("s{}", STATES - 1)).unwrap());
    let Ok(Pass::Bound(binding)) = flow.admit(at, Kind::Tool, &last) else {
        panic!("the last tool is bound in the last state");
    };
    let step = flow.step(&at.into(), binding, &End::from(Outcome::Success));
    assert!(step.terminal);
    assert_eq!(step.after, flow.initial());

    assert_eq!(mermaid(&flow, None).lines().count(), 2 * STATES + 4);
    assert_eq!(dot(&flow, None).lines().count(), 2 * STATES + 7);
}

/// Guessing what was meant by each of them would take ten thousand million comparisons.
#[test]
fn a_hundred_thousand_mistakes_are_all_reported() {
    let mut broken = Draft {
        targets: Targets::Closed,
        ..chain().into_draft()
    };
    for state in &mut broken.states {
        for binding in &mut state.bindings {
            binding.edges[0].target.to += "x";
        }
    }
    let invalid = broken.build(None).unwrap_err();
    let unknown = invalid
        .errors()
        .filter(|finding| finding.problem.code() == "unknown-target");
    assert_eq!(unknown.count(), STATES);
}

#[test]
fn what_is_always_callable_is_kept_once_and_not_once_for_each_state() {
    let always = (0..10_000).fold(chain(), |flow, n| flow.always_tool(format!("always{n}")));
    let flow = always.build().unwrap();
    let shown = flow.visible(flow.initial(), Kind::Tool);
    assert_eq!(shown.len(), 10_001);
    assert_eq!(shown.last(), Some("always9999"));
}
