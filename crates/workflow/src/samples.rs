//! Tries guards and values on samples of what the server's schemas allow.
//!
//! CEL has no types until it runs. A guard that compares a number with a text, or that names an
//! argument no schema has, would refuse every call; it is better found here.

use crate::{
    About, Artifact, Binding, Catalogue, Cause, Edge, Finding, Outcome, Part, Place, Problem, Rule,
    Scope, Severity, Spot, StateId, Workflow,
    guard::{Facts, Failed, Program, Root, sample},
    instance::{MOST_MEMORY, weight},
};
use serde_json::{Map, Value, json};
use std::{
    cell::Cell,
    collections::{HashMap, HashSet},
};

/// What the server's own words about its artifacts say about the workflow.
pub(crate) fn check(workflow: &Workflow, catalogue: &Catalogue) -> Vec<Finding> {
    let mut tried = Tried {
        workflow,
        catalogue,
        memory: Map::new(),
        samples: HashMap::new(),
        patience: Cell::new(8),
        findings: Vec::new(),
    };
    tried.fill_memory();
    for state in workflow.states() {
        for binding in workflow.bindings(state) {
            tried.binding(binding);
        }
        for (_, edge) in workflow.edges_from(state) {
            tried.edge(edge);
        }
    }
    tried.findings
}

struct Tried<'a> {
    workflow: &'a Workflow,
    catalogue: &'a Catalogue,
    /// A sample of what instances remember, as far as it can be known.
    memory: Map<String, Value>,
    samples: HashMap<Artifact, Sample>,
    /// How many more that ran out of fuel are put up with. Each takes a while.
    patience: Cell<usize>,
    findings: Vec<Finding>,
}

/// What an expression is tried on. What is not known is not there.
#[derive(Clone, Default)]
struct Sample {
    args: Option<Value>,
    result: Option<Value>,
    /// The arguments that the schema names.
    named: HashSet<String>,
    /// There are no others.
    closed: bool,
}

impl Sample {
    /// How bad it is that there is no such key. A sample need not have all that its schema names.
    fn is_missing(&self, path: &str) -> Option<Severity> {
        let Some(path) = path.strip_prefix("args.") else {
            return Some(Severity::Warning);
        };
        let first = path.split('.').next().unwrap_or_default();
        match self.named.contains(first) {
            true => None,
            false if self.closed => Some(Severity::Error),
            false => Some(Severity::Warning),
        }
    }
}

impl Tried<'_> {
    /// Works out a value for each key that can be known. A value may depend on another, so it
    /// goes round a few times. What is larger than an instance could remember is not known.
    fn fill_memory(&mut self) {
        const ROUNDS: usize = 4;
        let mut room = MOST_MEMORY;
        for _ in 0..ROUNDS {
            let before = self.memory.len();
            let setting = self.workflow.edges().map(|(_, edge)| edge);
            for edge in setting.filter(|edge| !edge.set.is_empty()) {
                let sample = self.sample(edge);
                for (key, rule) in &edge.set {
                    if self.memory.contains_key(&**key) {
                        continue;
                    }
                    let value = self.with_facts(rule, &sample, edge.from, |f| rule.evaluate(f));
                    let Some(Ok(value)) = value else {
                        continue;
                    };
                    if let Some(left) = weight(key, &value).and_then(|size| room.checked_sub(size))
                    {
                        room = left;
                        self.memory.insert(key.to_string(), value);
                    }
                }
            }
            if self.memory.len() == before {
                return;
            }
        }
    }

    fn binding(&mut self, binding: &Binding) {
        let about = self.catalogue.about(binding.artifact());
        let destructive = about.is_some_and(|about| about.destructive);
        let workflow = self.workflow;
        let spot = || Spot::Binding {
            state: workflow.state(binding.state()).rest.name.clone(),
            artifact: binding.artifact().clone(),
        };
        if destructive && binding.approval().is_none() {
            let problem = Problem::Unapproved { spot: spot() };
            self.find(binding.rest.place, problem);
            let says_unknown = binding.holds()
                || binding.is_idempotent()
                || binding.written_for(Outcome::Unknown) == Some(Outcome::Unknown);
            if !says_unknown {
                let problem = Problem::UnknownUnsaid { spot: spot() };
                self.find(binding.rest.place, problem);
            }
        }
        if self.workflow.settings().scope == Scope::Handle && about.is_some_and(has_own_handle) {
            let artifact = binding.artifact().clone();
            let problem = Problem::HandleArgumentTaken { artifact };
            self.find(binding.rest.place, problem);
        }
        if let Some(guard) = binding.when() {
            let spot = spot();
            let sample = Sample {
                result: None,
                ..self.of_call(binding.artifact())
            };
            self.try_out(guard, &sample, binding.state(), spot, Part::When);
        }
    }

    fn find(&mut self, place: Place, problem: Problem) {
        let span = place.0;
        self.findings.push(Finding { problem, span });
    }

    fn edge(&mut self, edge: &Edge) {
        let state = self.workflow.state(edge.from).rest.name.clone();
        let spot = match &edge.cause {
            Cause::Call { artifact, outcome } => Spot::Call {
                state,
                artifact: artifact.clone(),
                outcome: *outcome,
            },
            Cause::Time { after } => Spot::Timer {
                state,
                after: *after,
            },
            Cause::Sampling { outcome } => Spot::Sampling {
                state,
                outcome: *outcome,
            },
        };
        let sample = self.sample(edge);
        if let Some(guard) = &edge.when {
            self.try_out(guard, &sample, edge.from, spot.clone(), Part::When);
        }
        for (key, rule) in &edge.set {
            let key = key.to_string();
            let part = Part::Set { key };
            self.try_out(rule, &sample, edge.from, spot.clone(), part);
        }
    }

    /// What can be known of a call that succeeded.
    fn of_call(&mut self, artifact: &Artifact) -> Sample {
        if let Some(known) = self.samples.get(artifact) {
            return known.clone();
        }
        let sample = of_call(self.catalogue.about(artifact), artifact);
        self.samples.insert(artifact.clone(), sample.clone());
        sample
    }

    /// What an edge can know when it is taken.
    fn sample(&mut self, edge: &Edge) -> Sample {
        match &edge.cause {
            Cause::Call { artifact, outcome } => {
                let mut sample = self.of_call(artifact);
                if *outcome != Outcome::Success {
                    sample.result = None;
                }
                sample
            }
            Cause::Time { .. } | Cause::Sampling { .. } => Sample::default(),
        }
    }

    fn try_out(&mut self, rule: &Rule, sample: &Sample, state: StateId, spot: Spot, part: Part) {
        let tried = self.with_facts(rule, sample, state, |facts| match part {
            Part::When => rule.test(facts).map(Value::Bool),
            Part::Set { .. } | Part::Text => rule.evaluate(facts),
        });
        let constant = rule.program().is_some_and(is_constant);
        let Some(Err(failed)) = tried else {
            return;
        };
        let severity = match &failed {
            Failed::MissingKey { key } => match sample.is_missing(key) {
                Some(severity) => severity,
                None => return,
            },
            // Another value that the schema allows may be of the right kind.
            Failed::WrongTypes { .. } | Failed::NotBool { .. } => Severity::Warning,
            // What looks at nothing fails whatever is called.
            _ if constant => Severity::Warning,
            // These depend on the values that were tried.
            Failed::MissingItem { .. }
            | Failed::Arithmetic { .. }
            | Failed::Conversion { .. }
            | Failed::OutOfFuel
            | Failed::TooLarge
            | Failed::NotJson
            | Failed::Panicked => return,
        };
        let problem = Problem::Expression {
            spot,
            part,
            message: format!("tried on a sample of the schema, {failed}"),
            help: None,
            at: None,
            severity,
        };
        self.find(rule.place, problem);
    }

    /// Nothing if the rule looks at something that cannot be known here.
    fn with_facts(
        &self,
        rule: &Rule,
        sample: &Sample,
        state: StateId,
        evaluate: impl FnOnce(&Facts<'_>) -> Result<Value, Failed>,
    ) -> Option<Result<Value, Failed>> {
        let program = rule.program()?;
        if self.patience.get() == 0 || !self.is_known(program, sample) {
            return None;
        }
        let facts = Facts {
            args: sample.args.as_ref().unwrap_or(&Value::Null),
            result: sample.result.as_ref(),
            ctx: &self.memory,
            principal: &Value::Null,
            state: self.workflow.state_name(state),
            visits: 1,
        };
        let tried = evaluate(&facts);
        if let Err(Failed::OutOfFuel | Failed::TooLarge) = tried {
            self.patience.set(self.patience.get() - 1);
        }
        Some(tried)
    }

    fn is_known(&self, program: &Program, sample: &Sample) -> bool {
        let mut keys = program.keys(Root::Ctx).peekable();
        let memory = !program.mentions(Root::Ctx)
            || (keys.peek().is_some() && keys.all(|key| self.memory.contains_key(key.name)));
        memory
            && !program.mentions(Root::Principal)
            && (!program.mentions(Root::Args) || sample.args.is_some())
            && (!program.mentions(Root::Result) || sample.result.is_some())
    }
}

fn is_constant(program: &Program) -> bool {
    Root::ALL.into_iter().all(|root| !program.mentions(root))
}

fn of_call(about: Option<&About>, artifact: &Artifact) -> Sample {
    let input = about.and_then(|about| about.input.as_ref());
    let output = about.and_then(|about| about.output.as_ref());
    let result = output.and_then(sample).map(|structured| {
        json!({
            "content": [{ "type": "text", "text": artifact.name }],
            "structuredContent": structured,
            "isError": false,
        })
    });
    let properties = input.and_then(|schema| schema["properties"].as_object());
    Sample {
        args: input.and_then(sample),
        result,
        named: properties
            .into_iter()
            .flatten()
            .map(|(name, _)| name.clone())
            .collect(),
        closed: input.is_some_and(|schema| schema["additionalProperties"] == json!(false)),
    }
}

fn has_own_handle(about: &About) -> bool {
    let input = about.input.as_ref();
    input.is_some_and(|schema| !schema["properties"]["workflow"].is_null())
}
