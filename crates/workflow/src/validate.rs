//! Judges a draft: every problem at once, and nothing is pruned.

mod expressions;
mod graph;
#[cfg(test)]
mod tests;

use crate::{
    Approval, Artifact, Catalogue, Draft, DraftAlways, DraftBinding, DraftEdge, DraftSampling,
    DraftState, DraftTimer, Expression, Finding, Invalid, Kind, Message, Outcome, Place, Problem,
    Rule, Scope, Settings, Severity, Spot, StateId, Target, Targets, Workflow,
    analysis::client_waits,
    assemble::Parts,
    catalogue,
    graph::Arrow,
    intern::{Role, SymbolId, Symbols},
    nearest::Nearest,
    template::Text,
};
use expressions::Mention;
use std::{
    collections::{HashMap, HashSet, hash_map::Entry},
    sync::Arc,
    time::Duration,
};

/// The one state of a workflow that has none of its own and lets everything through.
const NOTHING_GATED: &str = "open";

/// How many edges one outcome can try, and how many values and effects one edge can have: a step
/// works all of them out.
pub(crate) const MOST: usize = 100;

/// The longest time that anything here waits.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

impl Draft {
    /// Judges the draft, together with what the server has if that is known.
    ///
    /// On success the warnings are at [`Workflow::warnings`]; on failure they are among the
    /// findings. A draft without states is a workflow only if everything is always callable.
    ///
    /// ```
    /// use interlock_workflow::{Draft, DraftState};
    ///
    /// let draft = Draft {
    ///     states: vec![DraftState { name: "a".into(), initial: true, ..DraftState::default() }],
    ///     ..Draft::default()
    /// };
    /// let invalid = draft.build(None).unwrap_err();
    /// assert_eq!(invalid.findings[0].problem.code(), "no-reachable-end");
    /// ```
    pub fn build(self, catalogue: Option<&Catalogue>) -> Result<Workflow, Invalid> {
        let mut judge = Judge::new(self.targets);
        let nothing_gated = self.states.is_empty() && self.always_everything;
        if nothing_gated {
            judge.state(DraftState {
                name: NOTHING_GATED.to_owned(),
                initial: true,
                ..DraftState::default()
            });
        }
        for state in self.states {
            judge.state(state);
        }
        judge.defined = judge.states.len();
        judge.insides();
        judge.always(self.always);
        judge.settings(&self.settings);
        judge.memory(&self.settings);
        judge.handles(&self.settings);
        let initial = judge.only_initial();
        if !nothing_gated {
            judge.walk(&self.settings);
        }

        let stands_in_the_way = |finding: &Finding| finding.severity() == Severity::Error;
        let Some(initial) = initial.filter(|_| !judge.findings.iter().any(stands_in_the_way))
        else {
            let mut findings = judge.findings;
            if let Some(catalogue) = catalogue {
                let everything = self.always_everything;
                findings.extend(catalogue::compare(&judge.symbols, everything, catalogue));
            }
            return Err(Invalid { findings });
        };
        let mut workflow = Workflow::assemble(Parts {
            name: self.name,
            description: self.description,
            settings: self.settings,
            initial,
            states: judge.states,
            state_ids: judge.ids,
            symbols: judge.symbols,
            always: judge.always,
            always_everything: self.always_everything,
            warnings: judge.findings,
        });
        if let Some(catalogue) = catalogue {
            let findings = workflow.check(catalogue);
            workflow.warnings.extend(findings);
        }
        if workflow.warnings.iter().any(stands_in_the_way) {
            let findings = workflow.warnings;
            return Err(Invalid { findings });
        }
        Ok(workflow)
    }
}

/// A state, all that was written about it taken together.
#[derive(Debug, Default)]
pub(crate) struct Judged {
    pub(crate) name: Arc<str>,
    pub(crate) initial: bool,
    pub(crate) terminal: bool,
    pub(crate) description: Option<String>,
    pub(crate) instructions: Option<Text>,
    pub(crate) max_visits: Option<u32>,
    pub(crate) bindings: Vec<JudgedBinding>,
    pub(crate) timers: Vec<JudgedTimer>,
    pub(crate) sampling: Option<JudgedSampling>,
    place: Place,
    written: Written,
}

/// What stands in a state, until it is judged.
#[derive(Debug, Default)]
struct Written {
    bindings: Vec<DraftBinding>,
    timers: Vec<DraftTimer>,
    sampling: Option<DraftSampling>,
}

/// A binding, all that was written about it taken together.
#[derive(Debug)]
pub(crate) struct JudgedBinding {
    pub(crate) symbol: SymbolId,
    pub(crate) artifact: Artifact,
    pub(crate) when: Option<Rule>,
    /// As written.
    guard: Option<Expression>,
    pub(crate) otherwise: Option<Text>,
    pub(crate) approval: Option<Approval>,
    pub(crate) hold: bool,
    pub(crate) idempotent: bool,
    pub(crate) deadline: Option<Duration>,
    /// In the order of `Outcome::ALL`.
    pub(crate) edges: [Vec<JudgedEdge>; 5],
    pub(crate) place: Place,
}

/// A timer with its targets looked up.
#[derive(Debug)]
pub(crate) struct JudgedTimer {
    pub(crate) after: Duration,
    pub(crate) edges: Vec<JudgedEdge>,
    /// No earlier one always leaves the state.
    pub(crate) fires: bool,
    place: Place,
}

impl JudgedTimer {
    /// Whether an instance is never in the state any more once it has fired.
    fn leaves(&self, state: StateId) -> bool {
        let mut edges = self.edges.iter();
        edges.all(|edge| edge.to != Some(state) || edge.target.terminal)
    }
}

/// A question to the client's model with its targets looked up.
#[derive(Debug)]
pub(crate) struct JudgedSampling {
    pub(crate) messages: Vec<Message>,
    pub(crate) system: Option<Text>,
    pub(crate) max_tokens: u32,
    pub(crate) success: Vec<JudgedEdge>,
    pub(crate) error: Vec<JudgedEdge>,
}

/// An edge with its target looked up.
#[derive(Debug)]
pub(crate) struct JudgedEdge {
    /// Nothing where nobody defined the target.
    pub(crate) to: Option<StateId>,
    /// As written, but terminal also where the state it leads to is.
    pub(crate) target: Target,
    /// Nothing also where the guard is not sound.
    pub(crate) when: Option<Rule>,
    /// Without the values that are not sound.
    pub(crate) set: Vec<(Arc<str>, Rule)>,
}

/// Takes the parts of a draft together and notes what is wrong with them.
struct Judge {
    targets: Targets,
    states: Vec<Judged>,
    /// How many of them are defined; the others are targets.
    defined: usize,
    ids: HashMap<Arc<str>, StateId>,
    symbols: Symbols,
    always: [Vec<SymbolId>; 3],
    /// Every edge that was written, both of two that differ included.
    arrows: Vec<Arrow>,
    /// The keys of the memory that some edge sets.
    set: HashSet<Arc<str>>,
    /// The keys of the memory that something looks at.
    mentioned: Vec<Mention>,
    nearest: Nearest,
    findings: Vec<Finding>,
}

impl Judge {
    fn new(targets: Targets) -> Self {
        Self {
            targets,
            states: Vec::new(),
            defined: 0,
            ids: HashMap::new(),
            symbols: Symbols::default(),
            always: Default::default(),
            arrows: Vec::new(),
            set: HashSet::new(),
            mentioned: Vec::new(),
            nearest: Nearest::new(),
            findings: Vec::new(),
        }
    }

    fn find(&mut self, place: Place, problem: Problem) {
        let span = place.0;
        self.findings.push(Finding { problem, span });
    }

    fn name(&self, state: StateId) -> Arc<str> {
        self.states[state.index()].name.clone()
    }

    /// The state of this name, which is added if it is new.
    fn intern(&mut self, name: &str, place: Place) -> StateId {
        if let Some(&id) = self.ids.get(name) {
            return id;
        }
        let name: Arc<str> = name.into();
        let id = StateId::at(self.states.len());
        self.ids.insert(name.clone(), id);
        self.states.push(Judged {
            name,
            place,
            ..Judged::default()
        });
        id
    }

    /// Reports an attribute that two definitions of one thing give differently.
    fn said_once<T: PartialEq>(
        &mut self,
        spot: &Spot,
        what: &'static str,
        first: Option<&T>,
        second: Option<(&T, Place)>,
    ) {
        if let (Some(first), Some((second, place))) = (first, second)
            && first != second
        {
            let spot = spot.clone();
            self.find(place, Problem::SaidTwice { spot, what });
        }
    }

    fn state(&mut self, draft: DraftState) {
        let id = self.intern(&draft.name, draft.place);
        if let Some(visits) = draft.max_visits.filter(|visits| visits.most == 0) {
            let state = self.name(id);
            self.find(visits.place, Problem::NoVisits { state });
        }
        let spot = Spot::State {
            state: self.name(id),
        };
        self.states_agree(id, &spot, &draft);
        let instructions = draft
            .instructions
            .map(|text| self.text(&spot, &text, expressions::IN_STATE));
        let state = &mut self.states[id.index()];
        state.initial |= draft.initial;
        state.terminal |= draft.terminal;
        state.description = draft.description.or(state.description.take());
        state.instructions = instructions.or(state.instructions.take());
        state.max_visits = draft.max_visits.map(|v| v.most).or(state.max_visits);
        state.written.bindings.extend(draft.bindings);
        state.written.timers.extend(draft.timers);
        state.written.sampling = draft.sampling.or(state.written.sampling.take());
    }

    /// Whether a definition says nothing of a state that another one says differently.
    fn states_agree(&mut self, id: StateId, spot: &Spot, draft: &DraftState) {
        let known = &self.states[id.index()];
        let description = known.description.clone();
        let instructions = known
            .instructions
            .as_ref()
            .map(|text| text.written().to_owned());
        let (most, sampling) = (known.max_visits, known.written.sampling.clone());
        let place = draft.place;
        let second = draft.description.as_ref().map(|text| (text, place));
        self.said_once(spot, "description", description.as_ref(), second);
        let second = draft.instructions.as_ref();
        let second = second.map(|written| (&written.text, written.place));
        self.said_once(
            spot,
            "text of `instructions`",
            instructions.as_ref(),
            second,
        );
        let second = draft.max_visits.as_ref();
        let second = second.map(|visits| (&visits.most, visits.place));
        self.said_once(spot, "limit of visits", most.as_ref(), second);
        let second = draft.sampling.as_ref().map(|asked| (asked, asked.place));
        self.said_once(spot, "question for the model", sampling.as_ref(), second);
    }

    /// Judges what stands in the states. Targets that become states have nothing in them, so
    /// those that are added on the way need no visit.
    fn insides(&mut self) {
        for at in 0..self.states.len() {
            let state = StateId::at(at);
            let written = std::mem::take(&mut self.states[at].written);
            self.states[at].bindings = self.bindings(state, written.bindings);
            self.states[at].timers = self.timers(state, written.timers);
            self.states[at].sampling = written
                .sampling
                .map(|sampling| self.sampling(state, sampling));
        }
    }

    fn bindings(&mut self, state: StateId, written: Vec<DraftBinding>) -> Vec<JudgedBinding> {
        let mut bindings: Vec<JudgedBinding> = Vec::with_capacity(written.len());
        let mut places = HashMap::new();
        let holding = written.iter().filter(|draft| draft.hold);
        let holding: HashSet<_> = holding.map(|draft| draft.artifact.clone()).collect();
        for draft in written {
            let span = draft.place.0;
            let symbol = self.symbols.intern(&draft.artifact, span, Role::Bound);
            let at = match places.entry(symbol) {
                Entry::Occupied(entry) => *entry.get(),
                Entry::Vacant(entry) => {
                    bindings.push(JudgedBinding {
                        symbol,
                        artifact: draft.artifact.clone(),
                        when: None,
                        guard: None,
                        otherwise: None,
                        approval: None,
                        hold: false,
                        idempotent: false,
                        deadline: None,
                        edges: Default::default(),
                        place: draft.place,
                    });
                    *entry.insert(bindings.len() - 1)
                }
            };
            let holds = holding.contains(&draft.artifact);
            self.binding(state, &mut bindings[at], draft, holds);
        }
        for binding in &bindings {
            self.whole_binding(state, binding);
        }
        bindings
    }

    fn binding(
        &mut self,
        state: StateId,
        binding: &mut JudgedBinding,
        draft: DraftBinding,
        holds: bool,
    ) {
        let spot = Spot::Binding {
            state: self.name(state),
            artifact: draft.artifact,
        };
        if let Some(deadline) = draft.deadline {
            let second = Some((&deadline, draft.place));
            self.said_once(&spot, "deadline", binding.deadline.as_ref(), second);
            self.duration(&spot, "the deadline", deadline, draft.place);
        }
        if let Some(when) = draft.when {
            self.said_once(
                &spot,
                "guard",
                binding.guard.as_ref(),
                Some((&when, when.place)),
            );
            binding.when = self.guard(&spot, &when, expressions::BEFORE_CALL);
            binding.guard = Some(when);
        }
        if let Some(otherwise) = draft.otherwise {
            let text = self.text(&spot, &otherwise, expressions::BEFORE_CALL);
            let second = Some((&text, otherwise.place));
            self.said_once(
                &spot,
                "text of `otherwise`",
                binding.otherwise.as_ref(),
                second,
            );
            binding.otherwise = Some(text);
        }
        if let Some(approval) = draft.approval {
            let first = binding.approval.as_ref();
            let first = first.map(|first| (first.message.written().to_owned(), first.expires));
            let second = (approval.message.text.clone(), approval.expires);
            let second = Some((&second, approval.message.place));
            self.said_once(&spot, "approval", first.as_ref(), second);
            let place = approval.message.place;
            self.duration(&spot, "the approval's time", approval.expires, place);
            binding.approval = Some(Approval {
                message: self.text(&spot, &approval.message, expressions::BEFORE_CALL),
                expires: approval.expires,
            });
        }
        binding.hold |= draft.hold;
        binding.idempotent |= draft.idempotent;
        binding.deadline = draft.deadline.or(binding.deadline);
        let void = |edge: &DraftEdge| holds && edge.outcome == Outcome::Unknown;
        for DraftEdge { outcome, target } in draft.edges.into_iter().filter(|edge| !void(edge)) {
            let spot = Spot::Call {
                state: self.name(state),
                artifact: binding.artifact.clone(),
                outcome,
            };
            let allowed = expressions::after_call(outcome);
            let edges = &mut binding.edges[outcome.index()];
            self.edge(state, edges, &spot, target, allowed, Via::of_call(outcome));
        }
    }

    /// What can be said of a binding once all of it is known.
    fn whole_binding(&mut self, state: StateId, binding: &JudgedBinding) {
        let state = self.name(state);
        let artifact = binding.artifact.clone();
        for (outcome, edges) in Outcome::ALL.into_iter().zip(&binding.edges) {
            let spot = || Spot::Call {
                state: state.clone(),
                artifact: artifact.clone(),
                outcome,
            };
            self.last_resort(spot, edges);
        }
        let says_unknown = binding.hold
            || binding.idempotent
            || !binding.edges[Outcome::Unknown.index()].is_empty();
        if binding.approval.is_some() && !says_unknown {
            let spot = Spot::Binding {
                state: state.clone(),
                artifact: artifact.clone(),
            };
            self.find(binding.place, Problem::UnknownUnsaid { spot });
        }
        if !binding.hold && binding.edges.iter().all(Vec::is_empty) {
            self.find(binding.place, Problem::NoOutcome { state, artifact });
        }
    }

    fn timers(&mut self, state: StateId, written: Vec<DraftTimer>) -> Vec<JudgedTimer> {
        let mut written = written;
        written.sort_by_key(|draft| draft.after);
        let mut timers: Vec<JudgedTimer> = Vec::with_capacity(written.len());
        let mut via = Via::Time;
        for draft in written {
            let spot = self.timer_spot(state, draft.after);
            self.duration(&spot, "the time", draft.after, draft.place);
            if timers.last().is_none_or(|last| last.after != draft.after) {
                // Where an earlier one always leaves the state, a later one finds nobody there.
                if timers.last().is_some_and(|last| last.leaves(state)) {
                    via = Via::Never;
                }
                timers.push(JudgedTimer {
                    after: draft.after,
                    edges: Vec::new(),
                    fires: via == Via::Time,
                    place: draft.place,
                });
            }
            for target in draft.targets {
                if let Some(last) = timers.last_mut() {
                    let allowed = expressions::ON_TIME;
                    self.edge(state, &mut last.edges, &spot, target, allowed, via);
                }
            }
        }
        for timer in &timers {
            let spot = self.timer_spot(state, timer.after);
            self.last_resort(|| spot.clone(), &timer.edges);
            let idle = |edge: &JudgedEdge| {
                let Target {
                    terminal,
                    set,
                    effects,
                    ..
                } = &edge.target;
                edge.to == Some(state) && !terminal && set.is_empty() && effects.is_empty()
            };
            if !timer.fires || timer.edges.iter().all(idle) {
                self.find(timer.place, Problem::IdleTimer { spot });
            }
        }
        timers
    }

    fn timer_spot(&self, state: StateId, after: Duration) -> Spot {
        let state = self.name(state);
        Spot::Timer { state, after }
    }

    fn sampling(&mut self, state: StateId, draft: DraftSampling) -> JudgedSampling {
        let spot = |outcome| Spot::Sampling {
            state: self.states[state.index()].name.clone(),
            outcome,
        };
        let [success, error] = [spot(Outcome::Success), spot(Outcome::Error)];
        let text = Spot::State {
            state: self.name(state),
        };
        if draft.messages.is_empty() {
            let state = self.name(state);
            self.find(draft.place, Problem::NoMessages { state });
        }
        let mut judged = JudgedSampling {
            messages: draft
                .messages
                .iter()
                .map(|message| Message {
                    role: message.role,
                    text: self.text(&text, &message.text, expressions::IN_STATE),
                })
                .collect(),
            system: draft
                .system
                .map(|system| self.text(&text, &system, expressions::IN_STATE)),
            max_tokens: draft.max_tokens,
            success: Vec::new(),
            error: Vec::new(),
        };
        for DraftEdge { outcome, target } in draft.edges {
            let (edges, spot) = match outcome {
                Outcome::Success => (&mut judged.success, &success),
                Outcome::Error | Outcome::Timeout | Outcome::Cancelled | Outcome::Unknown => {
                    (&mut judged.error, &error)
                }
            };
            let allowed = expressions::after_sampling(outcome);
            self.edge(state, edges, spot, target, allowed, Via::Sampling);
        }
        self.last_resort(|| success.clone(), &judged.success);
        self.last_resort(|| error.clone(), &judged.error);
        judged
    }

    /// Adds an edge to those that are tried before it.
    fn edge(
        &mut self,
        from: StateId,
        edges: &mut Vec<JudgedEdge>,
        spot: &Spot,
        mut target: Target,
        allowed: expressions::Allowed,
        via: Via,
    ) {
        let (to, nearest) = self.target(&target);
        target.terminal |= to.is_some_and(|to| self.states[to.index()].terminal);
        for (what, count) in [
            ("values to remember", target.set.len()),
            ("effects", target.effects.len()),
        ] {
            if count > MOST {
                let spot = spot.clone();
                self.find(target.place, Problem::TooMany { spot, what });
            }
        }
        target.set.truncate(MOST);
        target.effects.truncate(MOST);
        if edges.len() == MOST {
            let (spot, what) = (spot.clone(), "edges");
            self.find(target.place, Problem::TooMany { spot, what });
        } else if edges.len() > MOST {
            // The last one counts for what is said of all of them.
            edges.pop();
        }
        if via != Via::Never {
            self.arrows.push(Arrow {
                from,
                to,
                terminal: target.terminal,
                via,
            });
        }
        if to.is_none() {
            let problem = Problem::UnknownTarget {
                spot: spot.clone(),
                nearest,
                target: target.to.clone(),
            };
            self.find(target.place, problem);
        }
        let when = target.when.clone();
        let when = when.and_then(|when| self.guard(spot, &when, allowed));
        let set = self.values(spot, &target.set, allowed);
        match edges.last_mut().filter(|last| last.target.when.is_none()) {
            Some(last) if last.target.leads_as(&target) => {
                for effect in target.effects {
                    if !last.target.effects.contains(&effect) {
                        last.target.effects.push(effect);
                    }
                }
            }
            Some(last) => {
                let spot = spot.clone();
                let place = target.place;
                let problem = match target.when {
                    Some(_) => Problem::NeverTaken { spot, target },
                    None => Problem::TwoEdges {
                        spot,
                        first: last.target.clone(),
                        second: target,
                    },
                };
                self.find(place, problem);
            }
            None => edges.push(JudgedEdge {
                to,
                target,
                when,
                set,
            }),
        }
    }

    /// The state that a target names; if there is none, one that may be meant. Where targets become
    /// states, one does not that may be a slip of the pen.
    fn target(&mut self, target: &Target) -> (Option<StateId>, Option<String>) {
        if let Some(known) = self.ids.get(target.to.as_str()) {
            return (Some(*known), None);
        }
        let defined = self.states[..self.defined].iter();
        let names = defined.map(|state| &*state.name);
        match self.targets {
            Targets::Closed => (None, self.nearest.find(&target.to, names)),
            Targets::Open => match self.nearest.misspelt(&target.to, names) {
                Some(meant) => (None, Some(meant)),
                None => (Some(self.intern(&target.to, target.place)), None),
            },
        }
    }

    fn last_resort(&mut self, spot: impl Fn() -> Spot, edges: &[JudgedEdge]) {
        if let Some(last) = edges.last().filter(|last| last.target.when.is_some()) {
            let place = last.target.place;
            self.find(place, Problem::NoLastResort { spot: spot() });
        }
    }

    fn settings(&mut self, settings: &Settings) {
        let timeout = settings.tool_timeout;
        if timeout < Duration::from_millis(1) || timeout > LONGEST {
            self.find(Place::default(), Problem::BadTimeout);
        }
    }

    fn duration(&mut self, spot: &Spot, what: &'static str, duration: Duration, place: Place) {
        if duration < Duration::from_millis(1) || duration > LONGEST {
            let spot = spot.clone();
            self.find(place, Problem::BadDuration { spot, what });
        }
    }

    fn always(&mut self, always: Vec<DraftAlways>) {
        for DraftAlways { artifact, place } in always {
            match self.symbols.find(artifact.kind, &artifact.name) {
                None => {
                    let id = self.symbols.intern(&artifact, place.0, Role::Always);
                    self.always[artifact.kind.index()].push(id);
                }
                Some(id) => match self.symbols[id].role {
                    Role::Always => {}
                    Role::Bound => {
                        self.find(place, Problem::BoundAndAlways { artifact });
                    }
                },
            }
        }
    }

    /// A handle travels in a tool's arguments; resources and prompts have no place for it.
    fn handles(&mut self, settings: &Settings) {
        match settings.scope {
            Scope::Handle => {}
            Scope::Session | Scope::Principal | Scope::Global => return,
        }
        let bound = self.symbols.iter().filter(|symbol| match symbol.role {
            Role::Bound => symbol.kind != Kind::Tool,
            Role::Always => false,
        });
        let findings: Vec<_> = bound
            .map(|symbol| Finding {
                problem: Problem::NoPlaceForHandle {
                    artifact: Artifact::new(symbol.kind, &*symbol.name),
                },
                span: symbol.span,
            })
            .collect();
        self.findings.extend(findings);
    }

    fn only_initial(&mut self) -> Option<StateId> {
        let initial = self.initial();
        match initial[..] {
            [only] => return Some(only),
            [] if self.states.is_empty() => self.find(Place::default(), Problem::NoStates),
            [] => self.find(Place::default(), Problem::NoInitialState),
            [_, second, ..] => {
                let states = initial.iter().map(|state| self.name(*state)).collect();
                let place = self.states[second.index()].place;
                self.find(place, Problem::SeveralInitialStates { states });
            }
        }
        None
    }

    fn initial(&self) -> Vec<StateId> {
        let all = 0..self.states.len();
        all.filter(|&at| self.states[at].initial)
            .map(StateId::at)
            .collect()
    }
}

/// What takes an edge, as far as the graph cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Via {
    /// A call whose client waits for it.
    Call,
    /// A call for which nobody waits any more.
    Alone,
    Time,
    /// A timer that never fires.
    Never,
    Sampling,
}

impl Via {
    pub(crate) fn of_call(outcome: Outcome) -> Self {
        match client_waits(outcome) {
            true => Self::Call,
            false => Self::Alone,
        }
    }
}
