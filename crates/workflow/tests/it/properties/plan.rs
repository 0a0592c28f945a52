//! Random workflows, by the builder and as a file.
//!
//! Guards are true for one value of the argument `g`, so that a player can take any edge it wants by
//! choosing its arguments.

use interlock_workflow::{Builder, Outcome, Target, Workflow, end, to};
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use std::{collections::HashSet, time::Duration};

pub(super) const TOOLS: [&str; 5] = ["t0", "t1", "t2", "t3", "t4"];

/// A workflow as the generator thinks of it.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    stay_finished: bool,
    pub(super) states: Vec<PlanState>,
}

#[derive(Clone, Debug)]
pub(super) struct PlanState {
    terminal: bool,
    pub(super) max_visits: Option<u32>,
    bindings: Vec<PlanBinding>,
    timer: Option<PlanEdge>,
    later: Option<PlanEdge>,
    sampling: Option<(Option<PlanEdge>, Option<PlanEdge>)>,
}

#[derive(Clone, Debug)]
pub(super) struct PlanBinding {
    tool: usize,
    guard: bool,
    hold: bool,
    /// For some outcomes the edges that are tried, all but the last with a guard.
    edges: Vec<(Outcome, Vec<PlanEdge>)>,
}

#[derive(Clone, Debug)]
pub(super) struct PlanEdge {
    to: usize,
    terminal: bool,
    set: bool,
}

fn edges(states: usize) -> impl Strategy<Value = PlanEdge> {
    (0..states, prop::bool::weighted(0.15), any::<bool>())
        .prop_map(|(to, terminal, set)| PlanEdge { to, terminal, set })
}

fn bindings(states: usize) -> impl Strategy<Value = PlanBinding> {
    let outcomes = prop::sample::subsequence(Outcome::ALL.to_vec(), 0..=5);
    let alternatives = prop::collection::vec(edges(states), 1..=3);
    let all = prop::collection::vec(alternatives, 5);
    let flags = (prop::bool::weighted(0.2), prop::bool::weighted(0.1));
    (0..TOOLS.len(), flags, outcomes, all).prop_map(|(tool, (guard, hold), outcomes, edges)| {
        PlanBinding {
            tool,
            guard,
            hold,
            edges: outcomes.into_iter().zip(edges).collect(),
        }
    })
}

fn states(count: usize) -> impl Strategy<Value = PlanState> {
    let timer = || prop::option::weighted(0.2, edges(count));
    let answers = (
        prop::option::of(edges(count)),
        prop::option::of(edges(count)),
    );
    (
        prop::bool::weighted(0.2),
        prop::option::weighted(0.2, 1..3_u32),
        prop::collection::vec(bindings(count), 0..4),
        (timer(), timer()),
        prop::option::weighted(0.2, answers),
    )
        .prop_map(
            |(terminal, max_visits, mut bindings, (timer, later), sampling)| {
                let mut seen = HashSet::new();
                bindings.retain(|binding| seen.insert(binding.tool));
                // JSON maps of this test are sorted.
                bindings.sort_by_key(|binding| binding.tool);
                PlanState {
                    terminal,
                    max_visits,
                    bindings,
                    timer,
                    later,
                    sampling,
                }
            },
        )
}

pub(super) fn plans() -> impl Strategy<Value = Plan> {
    let states = (1..8_usize).prop_flat_map(|count| prop::collection::vec(states(count), count));
    (any::<bool>(), states).prop_map(|(stay_finished, states)| Plan {
        stay_finished,
        states,
    })
}

impl PlanEdge {
    fn target(&self, guard: Option<usize>, value: &str) -> Target {
        let mut target = match self.terminal {
            true => end(name(self.to)),
            false => to(name(self.to)),
        };
        if self.set {
            target = target.set("last", value).effect("tell");
        }
        match guard {
            Some(g) => target.when(format!("args.g == {g}")),
            None => target,
        }
    }

    fn json(&self, guard: Option<usize>, value: &str) -> Value {
        let mut edge = Map::new();
        edge.insert("to".into(), name(self.to).into());
        if self.terminal {
            edge.insert("terminal".into(), true.into());
        }
        if self.set {
            edge.insert("set".into(), json!({ "last": value }));
            edge.insert("effects".into(), json!(["tell"]));
        }
        if let Some(g) = guard {
            edge.insert("when".into(), format!("args.g == {g}").into());
        }
        edge.into()
    }
}

pub(super) fn name(state: usize) -> String {
    format!("s{state}")
}

fn alternatives(edges: &[PlanEdge]) -> impl Iterator<Item = (&PlanEdge, Option<usize>)> {
    let last = edges.len() - 1;
    let guard = move |at| (at < last).then_some(at);
    edges
        .iter()
        .enumerate()
        .map(move |(at, edge)| (edge, guard(at)))
}

impl Plan {
    /// By the builder.
    pub(super) fn builder(&self) -> Builder {
        let mut builder = Workflow::builder("random").settings(self.settings());
        for (at, plan) in self.states.iter().enumerate() {
            builder = builder.state(name(at), |mut s| {
                if at == 0 {
                    s = s.initial();
                }
                if plan.terminal {
                    s = s.terminal();
                }
                if let Some(most) = plan.max_visits {
                    s = s.max_visits(most);
                }
                for binding in &plan.bindings {
                    s = s.tool(TOOLS[binding.tool], |mut t| {
                        if binding.guard {
                            t = t.when("args.ok == true");
                        }
                        if binding.hold {
                            t = t.hold();
                        }
                        for (outcome, edges) in binding.written() {
                            for (edge, guard) in alternatives(edges) {
                                t = t.on(outcome, edge.target(guard, "args.g"));
                            }
                        }
                        t
                    });
                }
                if let Some(timer) = &plan.timer {
                    s = s.after(Duration::from_secs(60), timer.target(None, "visits"));
                }
                if let Some(later) = &plan.later {
                    s = s.after(Duration::from_secs(120), later.target(None, "visits"));
                }
                if let Some((success, error)) = &plan.sampling {
                    s = s.sampling(100, |mut m| {
                        m = m.user("What now?");
                        if let Some(edge) = success {
                            m = m.success(edge.target(None, "result.g"));
                        }
                        if let Some(edge) = error {
                            m = m.error(edge.target(None, "state"));
                        }
                        m
                    });
                }
                s
            });
        }
        builder
    }

    fn settings(&self) -> interlock_workflow::Settings {
        interlock_workflow::Settings {
            finish: match self.stay_finished {
                true => interlock_workflow::Finish::Stay,
                false => interlock_workflow::Finish::Restart,
            },
            ..Default::default()
        }
    }

    /// As a file, without asking the crate.
    pub(super) fn json(&self) -> Value {
        let mut states = Map::new();
        for (at, plan) in self.states.iter().enumerate() {
            states.insert(name(at), plan.json(at == 0));
        }
        let finish = if self.stay_finished {
            "stay"
        } else {
            "restart"
        };
        json!({
            "interlock": 1,
            "name": "random",
            "settings": { "finish": finish },
            "states": states,
        })
    }

    pub(super) fn build(&self) -> Option<Workflow> {
        self.builder().build().ok()
    }
}

impl PlanState {
    fn json(&self, initial: bool) -> Value {
        let mut state = Map::new();
        state.insert("initial".into(), initial.into());
        state.insert("terminal".into(), self.terminal.into());
        if let Some(most) = self.max_visits {
            state.insert("max_visits".into(), most.into());
        }
        let tools: Map<_, _> = self
            .bindings
            .iter()
            .map(|binding| (TOOLS[binding.tool].to_owned(), binding.json()))
            .collect();
        state.insert("tools".into(), tools.into());
        let timers = [("1m", &self.timer), ("2m", &self.later)];
        let timers = timers.into_iter().filter_map(|(after, edge)| {
            let edge = edge.as_ref()?.json(None, "visits");
            Some((after.to_owned(), edge))
        });
        let timers: Map<_, _> = timers.collect();
        if !timers.is_empty() {
            state.insert("after".into(), timers.into());
        }
        if let Some((success, error)) = &self.sampling {
            let mut sampling = Map::from_iter([
                ("messages".to_owned(), json!(["What now?"])),
                ("max_tokens".to_owned(), json!(100)),
            ]);
            let success = success.as_ref().map(|edge| edge.json(None, "result.g"));
            let error = error.as_ref().map(|edge| edge.json(None, "state"));
            sampling.extend(success.map(|edge| ("success".to_owned(), edge)));
            sampling.extend(error.map(|edge| ("error".to_owned(), edge)));
            state.insert("sampling".into(), sampling.into());
        }
        state.into()
    }
}

impl PlanBinding {
    /// Its edges, without those that holding makes void.
    fn written(&self) -> impl Iterator<Item = (Outcome, &[PlanEdge])> {
        let edges = self.edges.iter();
        edges
            .filter(|(outcome, _)| !(self.hold && *outcome == Outcome::Unknown))
            .map(|(outcome, edges)| (*outcome, &edges[..]))
    }

    fn json(&self) -> Value {
        let mut binding = Map::new();
        if self.guard {
            binding.insert("when".into(), "args.ok == true".into());
        }
        if self.hold {
            binding.insert("unknown".into(), "hold".into());
        }
        for (outcome, edges) in self.written() {
            let edges = alternatives(edges).map(|(edge, guard)| edge.json(guard, "args.g"));
            binding.insert(outcome.to_string(), edges.collect());
        }
        binding.into()
    }
}
