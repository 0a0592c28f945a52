//! What holds for any workflow: analysis says what playing does, and files say what builders do.

mod plan;

use interlock_workflow::{
    Binding, Call, Cause, Edge, EdgeId, End, Hop, Instance, Kind, Leg, Outcome, Pass, StateId,
    Workflow, file,
};
use plan::{TOOLS, name, plans};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

/// Everything a player can do next, each with where it leads: found by doing it.
fn moves<'a>(flow: &'a Workflow, at: &Played) -> Vec<(Option<EdgeId>, Move, Played)> {
    let mut found = Vec::new();
    let mut go = |by, step: interlock_workflow::Step<'a>| {
        let mut instance = at.instance.clone();
        instance.apply(flow, &step, 0);
        let asking = step.asks;
        found.push((step.taken, by, Played { instance, asking }));
    };
    if at.asking {
        let answer = json!({ "g": 1 });
        for answer in [Some(&answer), None] {
            if let Some(step) = flow.sampled(&at.instance, answer, &Value::Null) {
                go(Move::Answer(answer.is_some()), step);
            }
        }
        return found;
    }
    if let Some(due) = at.instance.due()
        && let Some(step) = flow.expire(&at.instance, due)
    {
        go(Move::Time, step);
    }
    for tool in TOOLS {
        for g in 0..3 {
            let args = json!({ "g": g, "ok": true });
            let Ok(Pass::Bound(binding)) = flow.judge(&at.instance, &call(tool, &args)) else {
                continue;
            };
            for outcome in Outcome::ALL {
                let step = flow.step(&at.instance, binding, &ended(outcome, &args));
                if step.held.is_none() {
                    go(Move::Call(tool, outcome, g), step);
                }
            }
        }
    }
    found
}

#[derive(Clone, Debug, PartialEq)]
struct Played {
    instance: Instance,
    asking: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Move {
    Call(&'static str, Outcome, i32),
    Time,
    Answer(bool),
}

fn call<'a>(name: &'a str, args: &'a Value) -> Call<'a> {
    Call {
        kind: Kind::Tool,
        name,
        args,
        principal: &Value::Null,
    }
}

fn ended(outcome: Outcome, args: &Value) -> End<'_> {
    End {
        args,
        ..End::from(outcome)
    }
}

/// Every state and every edge that playing comes to.
#[derive(Default)]
struct Explored {
    states: BTreeSet<StateId>,
    edges: HashSet<EdgeId>,
}

/// Plays everything. What an instance remembers and counts does not decide anything here.
fn explore(flow: &Workflow) -> Explored {
    let mut explored = Explored::default();
    let start = Played {
        instance: flow.start(0),
        asking: false,
    };
    // What is due tells which timers have fired.
    let node = |at: &Played| (at.instance.position(), at.asking, at.instance.due());
    explored.states.insert(start.instance.position().state);
    let mut seen = HashSet::from([node(&start)]);
    let mut queue = VecDeque::from([start]);
    while let Some(at) = queue.pop_front() {
        for (taken, _, next) in moves(flow, &at) {
            explored.edges.extend(taken);
            if let Some(edge) = taken {
                explored.states.insert(flow.edge(edge).to);
            }
            if !next.instance.position().finished && seen.insert(node(&next)) {
                queue.push_back(next);
            }
        }
    }
    explored
}

/// An instance in this state that came there just now.
fn at_state(flow: &Workflow, state: StateId, instance: &mut Instance) -> Instance {
    let edge = flow
        .edges()
        .find(|(_, edge)| edge.to == state && !edge.terminal && !edge.stays());
    match edge {
        Some((id, _)) => {
            let step = flow.take(instance, id, &End::from(Outcome::Success));
            instance.apply(flow, &step, 0);
            instance.clone()
        }
        None => instance.clone(),
    }
}

/// The fewest calls, all of which succeed, after which a state binds this tool: by brute force.
fn fewest_calls(flow: &Workflow, tool: &str) -> Option<usize> {
    let mut best: HashMap<(StateId, bool), usize> = HashMap::new();
    let start = flow.start(0).position().state;
    best.insert((start, false), 0);
    // Relaxing every edge as often as there are nodes finds every shortest way.
    for _ in 0..2 * flow.states().len() + 1 {
        for ((state, asking), calls) in best.clone() {
            let mut fresh = flow.start(0);
            let at = Played {
                instance: at_state(flow, state, &mut fresh),
                asking,
            };
            for (_, by, next) in moves(flow, &at) {
                let cost = match by {
                    Move::Call(_, Outcome::Success, _) => 1,
                    Move::Answer(true) => 0,
                    Move::Call(..) | Move::Time | Move::Answer(false) => continue,
                };
                let position = next.instance.position();
                if position.finished {
                    continue;
                }
                let place = best
                    .entry((position.state, next.asking))
                    .or_insert(usize::MAX);
                *place = (*place).min(calls + cost);
            }
        }
    }
    let bound = |state: StateId| {
        let mut bindings = flow.bindings(state).iter();
        bindings.any(|binding: &Binding| binding.artifact().name == tool)
    };
    let found = best
        .into_iter()
        .filter(|((state, asking), _)| !asking && bound(*state));
    found.map(|(_, calls)| calls).min()
}

/// Whether a call that ends so leads on to where the hop says, answers of the client's model on the
/// way included: by playing it.
fn leads(flow: &Workflow, from: StateId, hop: &Hop<'_>) -> bool {
    let mut fresh = flow.start(0);
    let at = Played {
        instance: at_state(flow, from, &mut fresh),
        asking: false,
    };
    let mut open: Vec<_> = moves(flow, &at)
        .into_iter()
        .filter(|(_, by, _)| matches!(by, Move::Call(tool, outcome, _) if *tool == hop.artifact.name && *outcome == hop.outcome))
        .map(|(_, _, next)| next)
        .collect();
    let mut seen = HashSet::new();
    while let Some(at) = open.pop() {
        let state = at.instance.position().state;
        if !at.asking && state == hop.to {
            return true;
        }
        if at.asking && seen.insert(state) {
            open.extend(moves(flow, &at).into_iter().map(|(_, _, next)| next));
        }
    }
    false
}

/// Every end of every call that some state binds.
fn calls(flow: &Workflow) -> impl Iterator<Item = (&Binding, Outcome)> {
    let bindings = flow.states().flat_map(|state| flow.bindings(state));
    bindings.flat_map(|binding| Outcome::ALL.map(|outcome| (binding, outcome)))
}

/// The argument that makes this edge the one that is taken.
fn argument_for(edge: &Edge) -> Value {
    let guard = edge.when.as_ref().map(ToString::to_string);
    match guard
        .as_deref()
        .and_then(|text| text.strip_prefix("args.g == "))
    {
        Some(g) => json!({ "g": g.parse::<i64>().unwrap(), "ok": true }),
        None => json!({ "g": -1, "ok": true }),
    }
}

/// What is said of random workflows says something only if many of them are valid and branch.
#[test]
fn random_workflows_are_worth_playing() {
    use proptest::{strategy::ValueTree, test_runner::TestRunner};
    let mut runner = TestRunner::deterministic();
    let flows: Vec<_> = (0..300)
        .filter_map(|_| plans().new_tree(&mut runner).unwrap().current().build())
        .collect();
    assert!(flows.len() > 100, "{}", flows.len());
    let with = |cause: fn(&Cause) -> bool| {
        let has = |flow: &&Workflow| flow.edges().any(|(_, edge)| cause(&edge.cause));
        flows.iter().filter(has).count()
    };
    assert!(with(|cause| matches!(cause, Cause::Time { .. })) > 20);
    assert!(with(|cause| matches!(cause, Cause::Sampling { .. })) > 20);
    let guarded = |flow: &&Workflow| flow.edges().any(|(_, edge)| edge.when.is_some());
    assert!(flows.iter().filter(guarded).count() > 50);
    let is_plain = |flow: &&Workflow| {
        let mut calls = calls(flow).map(|(binding, outcome)| binding.plain(outcome));
        calls.any(|edge| edge.is_some_and(|edge| !flow.edge(edge).stays()))
    };
    assert!(flows.iter().filter(is_plain).count() > 50);
    assert!(
        flows
            .iter()
            .any(|flow| flow.covering_paths().missed.is_empty())
    );
    assert!(
        flows
            .iter()
            .any(|flow| !flow.covering_paths().missed.is_empty())
    );
}

proptest! {
    #[test]
    fn what_is_said_to_be_reachable_is_what_playing_reaches(plan in plans()) {
        let mut plan = plan;
        plan.states.iter_mut().for_each(|state| state.max_visits = None);
        let Some(flow) = plan.build() else { return Ok(()) };
        let explored = explore(&flow);
        let said: BTreeSet<_> = flow.reachable().into_iter().collect();
        prop_assert_eq!(&said, &explored.states);
        let coverage = flow.covering_paths();
        prop_assert!(!coverage.cut_short);
        let missed: HashSet<_> = coverage.missed.into_iter().collect();
        for (id, edge) in flow.edges() {
            prop_assert_eq!(missed.contains(&id), !explored.edges.contains(&id), "{:?}", edge);
        }
    }

    #[test]
    fn every_generated_path_plays(plan in plans()) {
        let Some(flow) = plan.build() else { return Ok(()) };
        let mut taken = HashSet::new();
        for path in flow.covering_paths().paths {
            let mut instance = flow.start(0);
            let (mut asks, mut now) = (false, 0);
            for (at, leg) in path.iter().enumerate() {
                prop_assert!(!instance.position().finished);
                let step = match leg {
                    Leg::Stay(outcome) => {
                        prop_assert!(asks);
                        let answer = json!({});
                        let answer = (*outcome == Outcome::Success).then_some(&answer);
                        flow.sampled(&instance, answer, &Value::Null).unwrap()
                    }
                    Leg::Edge(id) => {
                        let edge = flow.edge(*id);
                        taken.insert(*id);
                        let args = argument_for(edge);
                        let step = match &edge.cause {
                            Cause::Call { artifact, outcome } => {
                                prop_assert!(!asks);
                                let call = call(&artifact.name, &args);
                                let pass = flow.judge(&instance, &call);
                                let Ok(Pass::Bound(binding)) = pass else {
                                    return Err(TestCaseError::fail(format!("{call:?} refused")));
                                };
                                flow.step(&instance, binding, &ended(*outcome, &args))
                            }
                            Cause::Time { .. } => {
                                prop_assert!(!asks);
                                now = instance.due().unwrap();
                                flow.expire(&instance, now).unwrap()
                            }
                            Cause::Sampling { outcome } => {
                                prop_assert!(asks);
                                let answer = json!({ "g": 1 });
                                let answer = (*outcome == Outcome::Success).then_some(&answer);
                                flow.sampled(&instance, answer, &Value::Null).unwrap()
                            }
                        };
                        prop_assert_eq!(step.taken, Some(*id));
                        prop_assert_eq!(step.to, edge.to);
                        // A way ends where the workflow ends, unless that makes it ask anew.
                        prop_assert!(!step.terminal || step.asks || at == path.len() - 1);
                        step
                    }
                };
                asks = step.asks;
                let trace = serde_json::to_vec(&step.trace(&flow)).unwrap();
                let trace = serde_json::from_slice(&trace).unwrap();
                let mut again = instance.clone();
                again.retrace(&flow, &trace, now).unwrap();
                instance.apply(&flow, &step, now);
                prop_assert_eq!(&again, &instance);
                let kept = serde_json::to_vec(&instance.record(&flow)).unwrap();
                let record = serde_json::from_slice(&kept).unwrap();
                let restored = flow.restore(record);
                prop_assert_eq!(restored.as_ref(), Ok(&instance));
            }
        }
        let missed = flow.covering_paths().missed.len();
        prop_assert_eq!(taken.len() + missed, flow.edges().len());
    }

    #[test]
    fn a_plain_edge_leads_where_its_step_does(plan in plans()) {
        let Some(flow) = plan.build() else { return Ok(()) };
        for (binding, outcome) in calls(&flow) {
            let mut instance = flow.start(0);
            let instance = at_state(&flow, binding.state(), &mut instance);
            let Some(edge) = binding.plain(outcome) else { continue };
            if instance.position().state != binding.state() {
                // No edge leads there.
                continue;
            }
            let step = flow.step(&instance, binding, &End::from(outcome));
            prop_assert_eq!(step.taken, Some(edge));
            prop_assert_eq!(step.usual(&flow, outcome), Some(edge));
            prop_assert_eq!(flow.edge(edge).trace(&flow), step.trace(&flow));
            prop_assert!(step.set.is_empty() && step.effects.is_empty() && step.faults.is_empty());
            prop_assert!(!step.asks && !step.terminal && step.held.is_none());
            prop_assert!(!step.enters || flow.state(step.to).instructions().is_none());
            let (mut stepped, mut gone) = (instance.clone(), instance);
            stepped.apply(&flow, &step, 7);
            gone.go_along(&flow, edge, 7);
            prop_assert_eq!(stepped, gone);
        }
    }

    #[test]
    fn the_shortest_path_is_shortest(plan in plans()) {
        let mut plan = plan;
        plan.states.iter_mut().for_each(|state| state.max_visits = None);
        let Some(flow) = plan.build() else { return Ok(()) };
        for tool in TOOLS {
            let path = flow.path_to(flow.initial(), Kind::Tool, tool);
            let by_success = path.as_ref().filter(|path| {
                path.iter().all(|hop| hop.outcome == Outcome::Success)
            });
            let fewest = fewest_calls(&flow, tool);
            if fewest.is_some() {
                prop_assert_eq!(by_success.map(Vec::len), fewest, "{} {:?}", tool, path);
            }
            // It is a way: each hop can be taken where the one before it led.
            let mut state = flow.initial().state;
            for hop in path.iter().flatten() {
                prop_assert!(leads(&flow, state, hop), "{} {:?}", tool, path);
                state = hop.to;
            }
            let arrived = flow.bindings(state).iter().any(|b| b.artifact().name == tool);
            prop_assert_eq!(path.is_some(), path.is_some() && arrived);
        }
    }

    #[test]
    fn what_cannot_move_leaves_no_mark(plan in plans()) {
        let Some(flow) = plan.build() else { return Ok(()) };
        for state in flow.states() {
            let mut fresh = flow.start(0);
            let instance = at_state(&flow, state, &mut fresh);
            for binding in flow.bindings(state).iter().filter(|binding| !binding.moves()) {
                for outcome in Outcome::ALL {
                    let step = flow.step(&instance, binding, &End::from(outcome));
                    let mut after = instance.clone();
                    after.apply(&flow, &step, 9);
                    prop_assert_eq!(&after, &instance);
                }
            }
        }
    }

    #[test]
    fn builder_and_file_define_the_same(plan in plans()) {
        let text = serde_json::to_vec(&plan.json()).unwrap();
        let written = file::read_definition(&text);
        match plan.builder().build() {
            Ok(flow) => {
                let draft = written.map_err(|invalid| TestCaseError::fail(invalid.to_string()))?;
                let read = draft.build(None).map_err(|i| TestCaseError::fail(i.to_string()))?;
                prop_assert_eq!(read.definition(), flow.definition());
                prop_assert_eq!(read.fingerprint(), flow.fingerprint());
            }
            Err(invalid) => {
                let again = written.unwrap().build(None).unwrap_err();
                let codes = |invalid: &interlock_workflow::Invalid| -> Vec<_> {
                    invalid.findings.iter().map(|found| found.problem.code()).collect()
                };
                prop_assert_eq!(codes(&again), codes(&invalid));
            }
        }
    }

    #[test]
    fn a_definition_survives_being_written(plan in plans()) {
        let Some(flow) = plan.build() else { return Ok(()) };
        let definition = flow.definition();
        let text = file::write(&definition).unwrap();
        let read = file::read_definition(text.as_bytes())
            .map_err(|invalid| TestCaseError::fail(format!("{invalid}\n{text}")))?;
        prop_assert_eq!(&read, &definition, "{}", text);
    }

    #[test]
    fn another_guard_admits_nothing_more(
        plan in plans(),
        state in 0..8_usize,
        tool in 0..TOOLS.len(),
        args in prop_oneof![Just(json!({})), Just(json!({"ok": true, "g": 1})), Just(json!(null))],
        guard in prop_oneof![Just("args.g == 1"), Just("true"), Just("args.nothing"), Just("visits > 5")],
    ) {
        let Some(flow) = plan.build() else { return Ok(()) };
        let mut guarded = plan.builder().into_draft();
        let bindings = guarded.states.iter_mut().flat_map(|state| &mut state.bindings);
        for binding in bindings.filter(|binding| binding.artifact.name == TOOLS[tool]) {
            binding.when = Some(match &binding.when {
                Some(first) => format!("({first}) && ({guard})").into(),
                None => guard.into(),
            });
        }
        let guarded = guarded.build(None).unwrap();
        let Some(id) = flow.state_id(&name(state)) else { return Ok(()) };
        let mut fresh = flow.start(0);
        let instance = at_state(&flow, id, &mut fresh);
        let call = call(TOOLS[tool], &args);
        if flow.judge(&instance, &call).is_err() {
            prop_assert!(guarded.judge(&instance, &call).is_err());
        }
    }
}
