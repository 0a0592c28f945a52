//! `interlock paths`: ways through a workflow that take every transition.

use crate::{
    Stop,
    load::Source,
    report,
    simulate::{binding_of, spelt},
    terminal::printable,
};
use interlock::workflow::{Binding, Cause, Coverage, Edge, Kind, Leg, Outcome, StateId, Workflow};
use serde_json::{Map, Value, json};
use std::{
    collections::HashSet,
    io::{self, BufWriter, Write},
    path::PathBuf,
};

/// A longer name or guard is cut, since any number of lines can repeat it.
const LONGEST: usize = 80;

/// List ways through a workflow that take every transition
///
/// Each way begins in the initial state. Where a guard or a person decides, the way assumes what
/// it needs, and says so. `test` plays these ways besides the scenarios of a file.
#[derive(clap::Args)]
#[command(after_help = "\
JSON: one object:
  {\"transitions\": [{
     \"from\", \"to\":   the states
     \"terminal\":     true if taking it ends the workflow
     \"cause\":        \"call\", \"time\" or \"sampling\"
     \"kind\", \"name\": what is called; of a call
     \"outcome\":      how that ends; of a call or sampling
     \"afterMs\":      how long the state lasts; of time
     \"assumes\":      what must be true for it to be taken, in words
   }],
   \"paths\":    for each way its legs: the place of a transition in the list above, from 0, or
               {\"stay\": OUTCOME} where the client's model answers and that leads nowhere
   \"missed\":   the places of the transitions that no way takes
   \"complete\": false if the search was given up before all were found}

Exit codes:
  0  they are listed
  1  the file has errors, or no states
  2  the file cannot be read

Examples:
  interlock paths flow.yaml
  interlock paths flow.yaml --json")]
pub(crate) struct Arguments {
    /// The workflow file, YAML or JSON
    file: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Stop> {
    let workflow = Source::read(&arguments.file)?.workflow()?;
    let coverage = workflow.covering_paths();
    let map = Transitions::of(&workflow);
    let mut stdout = BufWriter::new(io::stdout().lock());
    match arguments.json {
        true => writeln!(stdout, "{:#}", map.json(&coverage))?,
        false => map.tell(&coverage, &mut stdout)?,
    }
    Ok(stdout.flush()?)
}

/// The transitions of a workflow, with what each assumes.
struct Transitions<'a> {
    workflow: &'a Workflow,
    /// In the order of their ids.
    all: Vec<(&'a Edge, Vec<String>)>,
}

impl<'a> Transitions<'a> {
    fn of(workflow: &'a Workflow) -> Self {
        let mut all: Vec<(&Edge, _)> = Vec::new();
        for (_, edge) in workflow.edges() {
            let before = all.last().map(|(before, _)| *before);
            all.push((edge, assumptions(workflow, edge, before)));
        }
        Self { workflow, all }
    }

    fn tell(&self, coverage: &Coverage, out: &mut impl Write) -> io::Result<()> {
        for (number, path) in coverage.paths.iter().enumerate() {
            writeln!(out, "{}. {}", number + 1, self.way(path))?;
            let mut told = HashSet::new();
            for leg in path {
                let Leg::Edge(id) = leg else { continue };
                let (edge, assumes) = &self.all[id.index()];
                if !assumes.is_empty() && told.insert(id) {
                    let (from, hop) = (self.state(edge.from), self.hop(edge));
                    let assumes: Vec<_> = assumes.iter().map(|text| line(text)).collect();
                    writeln!(out, "   {from}{hop} assumes: {}", assumes.join("; "))?;
                }
            }
        }
        let taken = self.all.len() - coverage.missed.len();
        let paths = report::plural(coverage.paths.len(), "path");
        let all = report::plural(self.all.len(), "transition");
        writeln!(out, "{paths}, {taken} of {all}")?;
        // What was not looked at may well be on a path.
        let missed = match coverage.cut_short {
            true => "no path was found to",
            false => "no path takes",
        };
        for id in &coverage.missed {
            let edge = self.all[id.index()].0;
            writeln!(out, "{missed}: {}{}", self.state(edge.from), self.hop(edge))?;
        }
        if coverage.cut_short {
            writeln!(
                out,
                "the workflow is too large to find all paths: the search was given up"
            )?;
        }
        Ok(())
    }

    /// `new --lookup_order--> found --refund--> paid (end)`.
    fn way(&self, path: &[Leg]) -> String {
        let mut told = String::new();
        // Nowhere at first and after an end: then it is told from where the way goes on.
        let mut at = None;
        for leg in path {
            let initial = self.workflow.initial().state;
            let from = at.unwrap_or(initial);
            if at.is_none() {
                let gap = if told.is_empty() { "" } else { "; " };
                told += &format!("{gap}{}", self.state(from));
            }
            match leg {
                Leg::Edge(id) => {
                    let edge = self.all[id.index()].0;
                    told += &self.hop(edge);
                    at = (!edge.terminal).then_some(edge.to);
                }
                Leg::Stay(outcome) => {
                    told += &format!(" --{}, stays--> {}", answer(*outcome), self.state(from));
                    at = Some(from);
                }
            }
        }
        told
    }

    fn hop(&self, edge: &Edge) -> String {
        let end = if edge.terminal { " (end)" } else { "" };
        format!(" --{}--> {}{end}", label(edge), self.state(edge.to))
    }

    fn state(&self, state: StateId) -> String {
        line(self.workflow.state_name(state))
    }

    fn json(&self, coverage: &Coverage) -> Value {
        let transitions = self.all.iter().map(|(edge, assumes)| {
            let mut object = cause(&edge.cause);
            let mut put = |key: &str, value: Value| object.insert(key.to_owned(), value);
            put("from", self.workflow.state_name(edge.from).into());
            put("to", self.workflow.state_name(edge.to).into());
            put("terminal", edge.terminal.into());
            put("assumes", assumes.clone().into());
            Value::from(object)
        });
        let paths = coverage.paths.iter().map(|path| {
            let legs = path.iter().map(|leg| match leg {
                Leg::Edge(id) => id.index().into(),
                Leg::Stay(outcome) => json!({ "stay": outcome.to_string() }),
            });
            legs.collect::<Value>()
        });
        let missed = coverage.missed.iter().map(|id| id.index());
        json!({
            "transitions": transitions.collect::<Value>(),
            "paths": paths.collect::<Value>(),
            "missed": missed.collect::<Value>(),
            "complete": !coverage.cut_short,
        })
    }
}

/// What must be true for an edge to be taken, in words.
fn assumptions(workflow: &Workflow, edge: &Edge, before: Option<&Edge>) -> Vec<String> {
    let binding = binding_of(workflow, edge);
    let mut assumes = Vec::new();
    assumes.extend(binding.and_then(Binding::when).map(ToString::to_string));
    if binding.is_some_and(|binding| binding.approval().is_some()) {
        assumes.push("a person agrees".to_owned());
    }
    // Alternatives follow each other, and the last has no guard.
    let is_alternative = before.is_some_and(|before| {
        before.from == edge.from && before.cause == edge.cause && before.when.is_some()
    });
    match &edge.when {
        Some(guard) => assumes.push(guard.to_string()),
        None if is_alternative => assumes.push("no guard before it is true".to_owned()),
        None => {}
    }
    assumes
}

/// What takes an edge, in a few words.
fn label(edge: &Edge) -> String {
    match &edge.cause {
        Cause::Call { artifact, outcome } => {
            let name = match artifact.kind {
                Kind::Tool => line(&artifact.name),
                Kind::Resource | Kind::Prompt => {
                    format!("{} {}", artifact.kind, line(&artifact.name))
                }
            };
            match outcome {
                Outcome::Success => name,
                Outcome::Error | Outcome::Timeout | Outcome::Cancelled | Outcome::Unknown => {
                    format!("{name} ({outcome})")
                }
            }
        }
        Cause::Time { after } => format!("after {}", spelt(*after)),
        Cause::Sampling { outcome } => answer(*outcome),
    }
}

fn answer(outcome: Outcome) -> String {
    format!("sampling ({outcome})")
}

fn cause(cause: &Cause) -> Map<String, Value> {
    let object = match cause {
        Cause::Call { artifact, outcome } => vec![
            ("cause", "call".into()),
            ("kind", artifact.kind.to_string().into()),
            ("name", artifact.name.clone().into()),
            ("outcome", outcome.to_string().into()),
        ],
        Cause::Time { after } => {
            let millis = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
            vec![("cause", "time".into()), ("afterMs", millis.into())]
        }
        Cause::Sampling { outcome } => vec![
            ("cause", "sampling".into()),
            ("outcome", outcome.to_string().into()),
        ],
    };
    let keys = object.into_iter();
    keys.map(|(key, value)| (key.to_owned(), value)).collect()
}

/// A text of the file that stays on its line, cut if it is long.
fn line(text: &str) -> String {
    let mut short: String = text.chars().take(LONGEST).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    printable(&short).replace('\n', "\\n").replace('\t', "\\t")
}
