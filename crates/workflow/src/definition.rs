//! A workflow as somebody could have written it.

use crate::{
    Artifact, Binding, Draft, DraftAlways, DraftApproval, DraftBinding, DraftEdge, DraftMessage,
    DraftSampling, DraftState, DraftText, DraftTimer, DraftVisits, Edge, Outcome, Place, Sampling,
    StateId, Target, Targets, Workflow, template::Text,
};
use std::ops::Range;

impl Workflow {
    /// What was written, with every state defined. Two workflows that do the same are defined in
    /// the same words if their parts were written in the same order.
    ///
    /// ```
    /// use interlock_workflow::{Workflow, end};
    ///
    /// let hello = Workflow::builder("hello")
    ///     .state("new", |s| s.initial().tool("greet", |t| t.success(end("done"))))
    ///     .build()?;
    /// let definition = hello.definition();
    /// assert_eq!(definition.states[1].name, "done");
    /// assert_eq!(definition.clone().build(None)?.definition(), definition);
    /// # Ok::<(), interlock_workflow::Invalid>(())
    /// ```
    pub fn definition(&self) -> Draft {
        let always = self.always.iter().flatten().map(|&id| DraftAlways {
            artifact: Artifact::new(self.symbols[id].kind, &*self.symbols[id].name),
            place: Place::default(),
        });
        Draft {
            name: self.name.clone(),
            description: self.description.clone(),
            states: self.draft_states(),
            always: always.collect(),
            always_everything: self.always_everything,
            settings: self.settings.clone(),
            targets: Targets::Closed,
        }
    }

    fn draft_states(&self) -> Vec<DraftState> {
        let written = match self.states.as_slice() {
            // Nobody wrote the state of a workflow in which nothing is gated.
            [only] if self.always_everything && only.rest.edges.is_empty() => 0,
            states => states.len(),
        };
        self.states()
            .take(written)
            .map(|state| self.draft_state(state))
            .collect()
    }

    fn draft_state(&self, id: StateId) -> DraftState {
        let state = self.state(id);
        DraftState {
            name: state.name().to_owned(),
            place: Place::default(),
            initial: id == self.initial,
            terminal: state.terminal,
            description: state.description().map(str::to_owned),
            instructions: state.instructions().map(text),
            max_visits: state.max_visits().map(|most| DraftVisits {
                most,
                place: Place::default(),
            }),
            bindings: self
                .bindings(id)
                .iter()
                .map(|binding| self.draft_binding(binding))
                .collect(),
            timers: state
                .timers()
                .iter()
                .map(|timer| DraftTimer {
                    after: timer.after,
                    targets: self
                        .edges_in(&timer.edges)
                        .map(|e| self.target(e))
                        .collect(),
                    place: Place::default(),
                })
                .collect(),
            sampling: state.sampling().map(|asked| self.draft_sampling(asked)),
        }
    }

    fn draft_binding(&self, binding: &Binding) -> DraftBinding {
        let written = Outcome::ALL
            .into_iter()
            .filter(|outcome| binding.written_for(*outcome) == Some(*outcome));
        let edges = written.flat_map(|outcome| {
            let range = &binding.rest.routes[outcome.index()].edges;
            self.draft_edges(outcome, range)
        });
        DraftBinding {
            when: binding.when().map(|rule| rule.expression()),
            otherwise: binding.otherwise().map(text),
            approval: binding.approval().map(|approval| DraftApproval {
                message: text(&approval.message),
                expires: approval.expires,
            }),
            edges: edges.collect(),
            hold: binding.hold,
            idempotent: binding.idempotent,
            deadline: binding.deadline,
            ..DraftBinding::new(binding.artifact().clone())
        }
    }

    fn draft_sampling(&self, sampling: &Sampling) -> DraftSampling {
        let messages = sampling.messages.iter().map(|message| DraftMessage {
            role: message.role,
            text: text(&message.text),
        });
        DraftSampling {
            messages: messages.collect(),
            system: sampling.system.as_ref().map(text),
            max_tokens: sampling.max_tokens,
            edges: self
                .draft_edges(Outcome::Success, &sampling.success)
                .chain(self.draft_edges(Outcome::Error, &sampling.error))
                .collect(),
            place: Place::default(),
        }
    }

    fn draft_edges(
        &self,
        outcome: Outcome,
        range: &Range<usize>,
    ) -> impl Iterator<Item = DraftEdge> {
        self.edges_in(range).map(move |edge| DraftEdge {
            outcome,
            target: self.target(edge),
        })
    }

    fn edges_in(&self, range: &Range<usize>) -> impl Iterator<Item = &Edge> {
        self.numbered(range.clone()).map(|(_, edge)| edge)
    }

    fn target(&self, edge: &Edge) -> Target {
        let to = self.state(edge.to);
        Target {
            to: to.name().to_owned(),
            // Every edge into a terminal state is one without saying so.
            terminal: edge.terminal && !to.terminal,
            when: edge.when.as_ref().map(|rule| rule.expression()),
            set: edge
                .set
                .iter()
                .map(|(key, rule)| (key.to_string(), rule.expression()))
                .collect(),
            effects: edge.effects.clone(),
            place: Place::default(),
        }
    }
}

fn text(text: &Text) -> DraftText {
    DraftText {
        text: text.written().to_owned(),
        place: Place::default(),
    }
}
