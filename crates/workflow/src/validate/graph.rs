//! What no run reaches, and what no run leaves.

use super::{Judge, Judged, Via};
use crate::{
    Finding, Problem, Settings, StateId,
    graph::{Asks, Graph},
};

impl Judge {
    /// Finds what no run reaches and what no run leaves.
    ///
    /// Without an initial state nothing can be said. From several, what holds for all of them is.
    pub(super) fn walk(&mut self, settings: &Settings) {
        let initial = self.initial();
        let Some(first) = initial.first() else {
            return;
        };
        let asks: Vec<_> = self.states.iter().map(asks).collect();
        let restart = settings.restart(*first);
        let graph = Graph::new(&asks, std::mem::take(&mut self.arrows), restart);
        let reach = graph.reach(&initial);
        let endless = !reach.ends;
        let mut findings = Vec::new();
        if endless {
            let initial = self.name(*first);
            findings.push(Finding {
                problem: Problem::NoReachableEnd { initial },
                span: self.states[first.index()].place.0,
            });
        }
        for (at, judged) in self.states.iter().enumerate() {
            let state = judged.name.clone();
            let problem = match (reach.lived[at], reach.ended[at]) {
                // Where no run ends, saying it again of every state would bury the rest.
                (true, _) if reach.trapped[at] && !endless => Problem::Trap { state },
                (false, true) if !is_empty(judged) => Problem::BindingsAfterEnd { state },
                (false, false) if !reach.astray => Problem::UnreachableState { state },
                (true | false, true | false) => continue,
            };
            let span = judged.place.0;
            findings.push(Finding { problem, span });
        }
        if let Some(state) = circle(&graph) {
            let judged = &self.states[state.index()];
            let state = judged.name.clone();
            findings.push(Finding {
                problem: Problem::EndlessSampling { state },
                span: judged.place.0,
            });
        }
        self.findings.extend(findings);
    }
}

fn asks(judged: &Judged) -> Asks {
    match &judged.sampling {
        None => Asks::Nothing,
        Some(asked) if asked.success.is_empty() || asked.error.is_empty() => Asks::MayStay,
        Some(_) => Asks::Always,
    }
}

/// Whether nothing leads away from it.
fn is_empty(judged: &Judged) -> bool {
    judged.bindings.is_empty() && judged.timers.is_empty() && judged.sampling.is_none()
}

/// A state from which answers of the client's model alone lead back to it: states that only ask
/// are taken away one after the other, as long as they lead to none that is left.
fn circle(graph: &Graph) -> Option<StateId> {
    let asking: Vec<_> = graph
        .arrows()
        .filter(|arrow| arrow.via == Via::Sampling && !arrow.terminal)
        .filter_map(|arrow| Some((arrow.from, arrow.to?)))
        .filter(|(from, to)| from != to)
        .collect();
    let mut leaves = vec![0_usize; graph.states()];
    let mut into = vec![Vec::new(); graph.states()];
    for (from, to) in &asking {
        leaves[from.index()] += 1;
        into[to.index()].push(*from);
    }
    let states = (0..graph.states()).map(StateId::at);
    let mut done: Vec<_> = states
        .clone()
        .filter(|at| leaves[at.index()] == 0)
        .collect();
    while let Some(state) = done.pop() {
        for from in std::mem::take(&mut into[state.index()]) {
            leaves[from.index()] -= 1;
            if leaves[from.index()] == 0 {
                done.push(from);
            }
        }
    }
    let mut left = states.filter(|at| leaves[at.index()] > 0);
    left.next()
}
