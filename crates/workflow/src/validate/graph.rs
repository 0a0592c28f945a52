//! What no run reaches, and what no run leaves.

use super::{Judge, Judged};
use crate::{
    Finding, Problem, Settings,
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
        if let Some(state) = graph.endless_questions() {
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
