//! Puts together a workflow from parts that have been judged and found valid.

use crate::{
    Binding, BindingId, Cause, Edge, EdgeId, Finding, Kind, Outcome, Rule, Sampling, Settings,
    State, StateId, Timer, Workflow,
    fingerprint::{self, Fingerprint},
    guard::Root,
    intern::{Lists, SymbolId, Symbols},
    parts::{Reads, RestOfBinding, RestOfState, Route},
    validate::{Judged, JudgedBinding, JudgedEdge},
    visits,
};
use serde_json::json;
use std::{
    collections::{HashMap, HashSet},
    ops::Range,
    sync::Arc,
};

/// What [`Workflow::assemble`] puts together.
pub(crate) struct Parts {
    pub(crate) name: String,
    pub(crate) description: Option<String>,
    pub(crate) settings: Settings,
    pub(crate) initial: StateId,
    pub(crate) states: Vec<Judged>,
    pub(crate) state_ids: HashMap<Arc<str>, StateId>,
    pub(crate) symbols: Symbols,
    pub(crate) always: [Vec<SymbolId>; 3],
    pub(crate) always_everything: bool,
    pub(crate) warnings: Vec<Finding>,
}

impl Workflow {
    /// Puts together what has been judged and found valid.
    pub(crate) fn assemble(parts: Parts) -> Self {
        let mut workflow = Self {
            name: parts.name,
            description: parts.description,
            settings: parts.settings,
            states: Vec::with_capacity(parts.states.len()),
            state_ids: parts.state_ids,
            initial: parts.initial,
            bindings: Vec::new(),
            binding_ids: HashMap::default(),
            bound: Vec::new(),
            edges: Vec::new(),
            targets: Vec::new(),
            standings: String::new(),
            symbols: parts.symbols,
            lists: Lists::default(),
            always: parts.always,
            always_everything: parts.always_everything,
            warnings: parts.warnings,
            fingerprint: Fingerprint(0),
        };
        for (at, judged) in parts.states.into_iter().enumerate() {
            let state = workflow.put_state(StateId::at(at), judged);
            workflow.states.push(state);
        }
        workflow.targets = workflow.edges.iter().map(|edge| edge.to).collect();
        workflow.note_conditions();
        workflow.note_readers();
        workflow.note_counts();
        workflow.note_steps();
        workflow.fingerprint = fingerprint::of(&workflow);
        workflow
    }

    /// Which bindings are not settled by their being there.
    fn note_conditions(&mut self) {
        for state in &self.states {
            let bindings = &mut self.bindings[state.bindings.clone()];
            let all = state.max_visits().is_some() || bindings.iter().any(|binding| binding.hold);
            for binding in bindings {
                binding.conditional = all || binding.when().is_some();
            }
        }
    }

    /// Which calls have to be remembered until they end, and with what. Several names may mean one
    /// resource, so resources are not told apart.
    fn note_readers(&mut self) {
        let mut called: HashSet<Option<SymbolId>> = HashSet::new();
        let owner = |symbol, binding: &Binding| {
            (binding.artifact().kind != Kind::Resource).then_some(symbol)
        };
        for (&(_, symbol), &id) in &self.binding_ids {
            let binding = &self.bindings[id];
            let routes = &binding.rest.routes;
            let edges = || {
                let edges = routes.iter();
                edges.flat_map(|route| &self.edges[route.edges.clone()])
            };
            let rules = edges().flat_map(|edge| {
                edge.when
                    .iter()
                    .chain(edge.set.iter().map(|(_, rule)| rule))
            });
            let rules: Vec<&Rule> = rules.collect();
            let result = rules.iter().any(|rule| rule.mentions(Root::Result));
            let asks = |rule: &Rule| rule.mentions(Root::Args) || rule.mentions(Root::Principal);
            let guards = binding.when().into_iter().chain(rules);
            let has_effects = edges().any(|edge| !edge.effects.is_empty());
            let is_shown = binding.hold
                || binding.needs_approval
                || binding.otherwise().is_some()
                || has_effects;
            if is_shown || guards.into_iter().any(asks) {
                called.insert(owner(symbol, binding));
            }
            self.bindings[id].reads.result = result;
        }
        for (&(_, symbol), &id) in &self.binding_ids {
            let binding = &mut self.bindings[id];
            binding.reads.call = called.contains(&owner(symbol, binding));
        }
    }

    /// Which states count their visits: all of few, and of many those of which anything may ask for
    /// it.
    fn note_counts(&mut self) {
        let all = self.states.len() <= visits::COUNTS_ALL;
        for state in &mut self.states {
            let edges = self.edges[state.rest.edges.clone()].iter();
            let of_edges = edges.flat_map(|edge| {
                let set = edge.set.iter().map(|(_, rule)| rule);
                edge.when.iter().chain(set)
            });
            let bindings = &self.bindings[state.bindings.clone()];
            let guards = bindings.iter().flat_map(Binding::when);
            let questions = bindings.iter().flat_map(Binding::approval);
            let reasons = bindings.iter().filter_map(Binding::otherwise);
            let mut texts = questions
                .map(|approval| &approval.message)
                .chain(reasons)
                .chain(state.instructions())
                .chain(state.sampling().into_iter().flat_map(|sampling| {
                    let messages = sampling.messages.iter().map(|message| &message.text);
                    messages.chain(&sampling.system)
                }));
            state.counts_visits = all
                || state.max_visits().is_some()
                || of_edges
                    .chain(guards)
                    .any(|rule| rule.mentions(Root::Visits))
                || texts.any(|text| text.written().contains(Root::Visits.name()));
        }
    }

    /// For which ends of calls nothing has to be worked out.
    fn note_steps(&mut self) {
        let is_plain = |edge: &Edge| {
            let to = &self.states[edge.to.index()];
            edge.is_plain()
                && (edge.stays() || (to.instructions().is_none() && to.sampling().is_none()))
        };
        for binding in &mut self.bindings {
            binding.plain = Outcome::ALL.map(|outcome| {
                let first = binding.rest.routes[outcome.index()].edges.clone().next()?;
                let edge = &self.edges[first];
                let is_known = outcome != Outcome::Unknown && edge.cause.is_end(outcome);
                (is_known && is_plain(edge)).then(|| EdgeId::at(first))
            });
        }
    }

    fn put_state(&mut self, id: StateId, judged: Judged) -> State {
        let mut own: [Vec<SymbolId>; 3] = Default::default();
        let first_binding = self.bindings.len();
        let first_edge = self.edges.len();
        for binding in judged.bindings {
            own[binding.artifact.kind.index()].push(binding.symbol);
            self.binding_ids
                .insert((id, binding.symbol), self.bindings.len());
            self.bound.push(binding.symbol);
            let binding = self.put_binding(id, binding);
            self.bindings.push(binding);
        }
        let fire = judged.timers.iter().filter(|timer| timer.fires).count();
        let timers = judged.timers.into_iter().map(|timer| {
            let after = timer.after;
            Timer {
                after,
                edges: self.put_edges(id, &Cause::Time { after }, timer.edges),
            }
        });
        let timers: Vec<_> = timers.collect();
        let sampling = judged.sampling.map(|sampling| {
            let [success, error] = [
                (Outcome::Success, sampling.success),
                (Outcome::Error, sampling.error),
            ]
            .map(|(outcome, edges)| self.put_edges(id, &Cause::Sampling { outcome }, edges));
            Sampling {
                messages: sampling.messages,
                system: sampling.system,
                max_tokens: sampling.max_tokens,
                success,
                error,
            }
        });
        let bound = &self.bindings[first_binding..];
        let next: Vec<_> = bound.iter().map(|bound| &bound.artifact().name).collect();
        let standing = format!(
            "\"state\":{},\"next\":{}",
            json!(&*judged.name),
            json!(next)
        );
        let first_byte = self.standings.len();
        self.standings.push_str(&standing);
        State {
            bindings: first_binding..self.bindings.len(),
            standing: first_byte..self.standings.len(),
            lists: Kind::ALL.map(|kind| {
                let own = std::mem::take(&mut own[kind.index()]);
                self.lists.intern(kind, own)
            }),
            counts_visits: true,
            limits_visits: judged.max_visits.is_some(),
            is_timed: !timers.is_empty(),
            terminal: judged.terminal,
            rest: Box::new(RestOfState {
                name: judged.name,
                description: judged.description,
                instructions: judged.instructions,
                max_visits: judged.max_visits,
                edges: first_edge..self.edges.len(),
                timers,
                fire,
                sampling,
            }),
        }
    }

    fn put_binding(&mut self, state: StateId, judged: JudgedBinding) -> Binding {
        let first_edge = self.edges.len();
        let mut routes: [Route; 5] = Default::default();
        for (outcome, edges) in Outcome::ALL.into_iter().zip(judged.edges) {
            // Outcomes come in such an order that the one a default refers to is there already.
            routes[outcome.index()] = match outcome {
                _ if !edges.is_empty() => {
                    let artifact = judged.artifact.clone();
                    Route {
                        edges: self.put_edges(state, &Cause::Call { artifact, outcome }, edges),
                        written: Some(outcome),
                    }
                }
                Outcome::Success | Outcome::Error | Outcome::Cancelled => Route::default(),
                // What can be run again is where it was.
                Outcome::Unknown if judged.hold || judged.idempotent => Route::default(),
                Outcome::Timeout | Outcome::Unknown => routes[Outcome::Error.index()].clone(),
            };
        }
        let mut own = self.edges[first_edge..].iter();
        Binding {
            id: BindingId::at(self.bindings.len()),
            state,
            plain: [None; 5],
            deadline: judged.deadline,
            hold: judged.hold,
            idempotent: judged.idempotent,
            needs_approval: judged.approval.is_some(),
            // An approval is used up, and that is a mark as well.
            moves: judged.hold || judged.approval.is_some() || own.any(|edge| !edge.is_idle()),
            conditional: false,
            reads: Reads::default(),
            rest: Box::new(RestOfBinding {
                artifact: judged.artifact,
                name: Arc::clone(&self.symbols[judged.symbol].name),
                place: judged.place,
                when: judged.when,
                otherwise: judged.otherwise,
                approval: judged.approval,
                routes,
            }),
        }
    }

    fn put_edges(&mut self, from: StateId, cause: &Cause, edges: Vec<JudgedEdge>) -> Range<usize> {
        let first = self.edges.len();
        self.edges.extend(edges.into_iter().map(|edge| Edge {
            from,
            cause: cause.clone(),
            to: edge.to.expect("an edge without a target is an error"),
            terminal: edge.target.terminal,
            when: edge.when,
            set: edge.set,
            effects: edge.target.effects,
        }));
        first..self.edges.len()
    }
}
