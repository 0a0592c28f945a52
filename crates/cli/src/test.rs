//! `interlock test`: scenarios and generated paths, played on the gate itself.

mod coverage;
mod junit;
mod mistake;
mod play;
mod scenario;

use crate::{
    Stop,
    load::{Source, same_file, shown},
    report::plural,
    simulate::{Inventory, Seen},
    terminal::{Look, Output, output, printable},
};
use anyhow::{Context, anyhow};
use clap::builder::styling::{AnsiColor, Style};
use coverage::{Coverage, Percent};
use interlock::workflow::Workflow;
use play::Case;
use scenario::{MOST_BYTES, Scenario};
use std::{
    collections::BTreeSet,
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

/// Play scenarios and generated paths against a workflow file
///
/// Nothing is run and nobody waits: each step says how its call ends. Unless told otherwise it
/// plays the scenario files that are named after FILE (flow.yaml: flow.test.yaml,
/// flow.refunds.test.yaml, flow.scenarios.yaml) and all tests/*.test.yaml beside it; then paths
/// that it finds itself and that take every transition, for which guards are taken to be true.
#[derive(clap::Args)]
#[command(after_help = FORMAT)]
pub(crate) struct Arguments {
    /// The workflow file, YAML or JSON
    file: PathBuf,
    /// Play the scenarios in these files [default: those that lie beside FILE]
    scenarios: Vec<PathBuf>,
    /// Write the results to this file, in the XML of JUnit
    #[arg(long, value_name = "OUT.xml")]
    junit: Option<PathBuf>,
    /// Play scenarios only, no generated paths
    #[arg(long)]
    no_generated: bool,
    /// Fail if the scenarios take fewer of the transitions
    #[arg(long, value_name = "PERCENT")]
    min_coverage: Option<Percent>,
}

const FORMAT: &str = "\
Scenario files:
  scenarios:
    - name: an order is paid back
      principal: { subject: ann }         # who calls, if guards ask
      steps:
        - call: lookup_order              # or read: note://rules, or get: apologise
          args: { order: A-1 }            # checked against the tool's schema, if FILE has it
          outcome: success                # the default; error, timeout, cancelled, unknown
          result: { structuredContent: { partial: false } }
          expect: { state: found, ctx: { order: A-1 }, tools: [refund], effects: [mail] }
        - call: refund
          args: { order: B-2, amount: 5 }
          expect: { refused: 1082 }       # a refusal that is not expected is a failure
        - call: refund
          args: { order: A-1, amount: 5 }
          approve: no                     # yes is the default; later
          expect: { refused: 1083, text: A-1 }
        - call: triage
          sampling: { outcome: success, result: { content: { type: text, text: urgent } } }
        - wait: 30m                       # timers fire
          expect: { ended: expired, state: new }
        - settle: success                 # what an operator finds out about an unknown outcome

  Each scenario begins with a new instance. expect can hold
    state       where the workflow is then
    ended       true, false, or the state in which this step ended the workflow
    refused     the code with which the call was refused
    tools, resources, prompts
                exactly what is callable then, in any order
    ctx         what is remembered, among other things; null is nothing
    effects     what this step sets off, in this order
    text        words of the refusal, or of the question to the person who approves

Exit codes:
  0  everything was as expected
  1  something was not, the coverage is too low, or the workflow file has errors
  2  a file cannot be read, or there is nothing to play

Examples:
  interlock test flow.yaml
  interlock test flow.yaml refunds.yaml --no-generated
  interlock test flow.yaml --min-coverage 80 --junit results.xml";

/// How many mistakes in scenario files are told.
const MOST_MISTAKES: usize = 100;

/// What was played from one file, or generated.
struct Suite {
    name: String,
    cases: Vec<Case>,
}

impl Suite {
    fn failures(&self) -> usize {
        let failed = |case: &&Case| case.failure.is_some();
        self.cases.iter().filter(failed).count()
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Stop> {
    let source = Source::read(&arguments.file)?;
    let file = source.file()?;
    let Some(workflow) = &file.workflow else {
        let name = source.name();
        return Err(Stop::Failed(anyhow!("`{name}` has no states to test")));
    };
    let inventory = Inventory::new(&file);
    let files = match arguments.scenarios.is_empty() {
        true => beside(&arguments.file),
        false => arguments.scenarios.clone(),
    };
    if files.is_empty() && arguments.no_generated {
        return Err(nothing_to_play(
            "no scenario file lies beside the workflow file, so name one",
        ));
    }
    if let Some(out) = &arguments.junit {
        spare(out, [&arguments.file].into_iter().chain(&files))?;
    }
    let stories = read_all(&files, workflow, &inventory)?;

    let mut by_scenarios = Seen::default();
    let mut suites = Vec::new();
    for (path, scenarios) in &stories {
        let cases = scenarios.iter();
        let cases =
            cases.map(|scenario| play::scenario(workflow, &inventory, scenario, &mut by_scenarios));
        suites.push(Suite {
            name: shown(path),
            cases: cases.collect(),
        });
    }
    let mut by_all = by_scenarios.clone();
    let mut cut_short = false;
    if !arguments.no_generated {
        let (suite, is_cut) = generated(workflow, &mut by_all);
        suites.push(suite);
        cut_short = is_cut;
    }

    if suites.iter().all(|suite| suite.cases.is_empty()) {
        return Err(nothing_to_play("there are no scenarios and no paths"));
    }
    let of = |seen| Coverage { workflow, seen };
    let played = Played {
        by_scenarios: (!files.is_empty() || arguments.min_coverage.is_some())
            .then(|| of(&by_scenarios)),
        by_all: (!arguments.no_generated).then(|| of(&by_all)),
        assumed: of(&by_all).assumed(&by_scenarios),
        cut_short,
        too_low: arguments
            .min_coverage
            .filter(|least| !of(&by_scenarios).reaches(*least)),
        suites,
    };
    let told = played.tell(&mut output());
    // After what there is to say, so that nothing is lost if it cannot be written.
    if let Some(path) = &arguments.junit {
        std::fs::write(path, junit::write(&played.suites))
            .with_context(|| format!("cannot write `{}`", shown(path)))?;
    }
    told?;
    match played.is_good() {
        true => Ok(()),
        false => Err(Stop::Told),
    }
}

fn nothing_to_play(why: &str) -> Stop {
    Stop::Misused(anyhow!("there is nothing to play: {why}"))
}

/// Everything that came of it.
struct Played<'a> {
    suites: Vec<Suite>,
    by_scenarios: Option<Coverage<'a>>,
    by_all: Option<Coverage<'a>>,
    /// Guards that no scenario has shown to be true.
    assumed: Vec<String>,
    /// There are more paths than were looked for.
    cut_short: bool,
    /// What the scenarios should have taken and did not.
    too_low: Option<Percent>,
}

impl Played<'_> {
    fn is_good(&self) -> bool {
        self.too_low.is_none() && self.suites.iter().all(|suite| suite.failures() == 0)
    }

    fn tell(&self, out: &mut Output) -> io::Result<()> {
        tell(out, &self.suites)?;
        if let Some(coverage) = &self.by_scenarios {
            tell_coverage(out, "by scenarios", "not taken", coverage)?;
        }
        if let Some(coverage) = &self.by_all {
            let missing = match self.cut_short {
                true => "not taken",
                false => "out of reach",
            };
            tell_coverage(out, "with generated paths", missing, coverage)?;
            for guard in &self.assumed {
                writeln!(out, "  only assumed: {}", one_line(guard))?;
            }
        }
        if self.cut_short {
            writeln!(
                out,
                "the workflow is too large for all its paths to be found"
            )?;
        }
        if let (Some(least), Some(coverage)) = (self.too_low, &self.by_scenarios) {
            let reached = coverage.percent();
            writeln!(
                out,
                "FAILED: scenarios take {reached} of the transitions, and must take {least}"
            )?;
        }
        out.flush()
    }
}

/// Refuses to write over something that was read.
fn spare<'a>(out: &Path, mut read: impl Iterator<Item = &'a PathBuf>) -> Result<(), Stop> {
    match read.find(|path| same_file(out, path)) {
        None => Ok(()),
        Some(path) => Err(Stop::Misused(anyhow!(
            "the results would be written over `{}`: name another file for --junit",
            shown(path)
        ))),
    }
}

/// The paths that take every transition, and whether there are more than were looked for.
fn generated(workflow: &Workflow, seen: &mut Seen) -> (Suite, bool) {
    let found = workflow.covering_paths();
    let paths = found.paths.iter().enumerate();
    let cases = paths.map(|(at, legs)| play::path(workflow, at + 1, legs, seen));
    let suite = Suite {
        name: "generated paths (guards are taken to be true)".to_owned(),
        cases: cases.collect(),
    };
    (suite, found.cut_short)
}

/// The scenario files that belong to a workflow file, in the order of their names.
fn beside(file: &Path) -> Vec<PathBuf> {
    let folder = file.parent().unwrap_or(Path::new(""));
    let stem = file.file_stem().and_then(|stem| stem.to_str());
    let stem = stem.map(|stem| format!("{stem}."));
    let named = |name: &str| stem.as_ref().is_some_and(|stem| name.starts_with(stem));
    let mut files = scenario_files(folder, &["test", "scenarios"], named);
    files.remove(file);
    let tests = scenario_files(&folder.join("tests"), &["test"], |_| true);
    files.into_iter().chain(tests).collect()
}

/// The files of a folder that end in `.WORD.yaml`. A folder that is not there has none.
fn scenario_files(
    folder: &Path,
    words: &[&str],
    named: impl Fn(&str) -> bool,
) -> BTreeSet<PathBuf> {
    let here = match folder.as_os_str().is_empty() {
        true => Path::new("."),
        false => folder,
    };
    let entries = std::fs::read_dir(here).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let fitting = names.filter(|name| {
        let stem = name.strip_suffix(".yaml").or(name.strip_suffix(".yml"));
        let word = stem.and_then(|stem| stem.rsplit_once('.'));
        word.is_some_and(|(_, word)| words.contains(&word)) && named(name)
    });
    let paths = fitting.map(|name| folder.join(name));
    // Reading from a pipe that nobody named would wait for ever. What cannot be looked at is
    // told when it is read.
    let is_file = |path: &PathBuf| std::fs::metadata(path).map_or(true, |it| it.is_file());
    paths.filter(is_file).collect()
}

/// Reads all scenario files; what is wrong with any of them is said before anything is played.
fn read_all(
    files: &[PathBuf],
    workflow: &Workflow,
    inventory: &Inventory<'_>,
) -> Result<Vec<(PathBuf, Vec<Scenario>)>, Stop> {
    let mut stories = Vec::new();
    let (mut wrong, mut more) = (Vec::new(), 0);
    for path in files {
        let text = read_bounded(path)
            .with_context(|| format!("cannot read `{}`", shown(path)))
            .map_err(Stop::Misused)?;
        match scenario::read(&text, workflow, inventory) {
            Ok(scenarios) => stories.push((path.clone(), scenarios)),
            Err(mistakes) => {
                let file = shown(path);
                let room = MOST_MISTAKES.saturating_sub(wrong.len());
                let told = mistakes.iter().take(room);
                wrong.extend(told.map(|mistake| mistake.told(&file)));
                more += mistakes.len().saturating_sub(room);
            }
        }
    }
    if wrong.is_empty() {
        return Ok(stories);
    }
    if more > 0 {
        wrong.push(format!("and {more} more"));
    }
    Err(Stop::Misused(anyhow!(
        "the scenarios cannot be played\n{}",
        printable(&wrong.join("\n"))
    )))
}

fn read_bounded(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let limit = u64::try_from(MOST_BYTES + 1).unwrap_or(u64::MAX);
    let file = std::fs::File::open(path)?;
    match file.take(limit).read_to_string(&mut text)? > MOST_BYTES {
        true => Err(io::Error::other("it is longer than 1 MB")),
        false => Ok(text),
    }
}

/// One line for each scenario and path, under the name of where it comes from.
fn tell(out: &mut Output, suites: &[Suite]) -> io::Result<()> {
    let coloured = out.look() == Look::Coloured;
    let style = |color: AnsiColor| match coloured {
        true => color.on_default(),
        false => Style::new(),
    };
    let (good, bad) = (style(AnsiColor::Green), style(AnsiColor::Red).bold());
    let bad = if coloured { bad } else { Style::new() };
    for suite in suites {
        writeln!(out, "{}", one_line(&suite.name))?;
        for case in &suite.cases {
            let name = one_line(&case.name);
            match &case.failure {
                None => writeln!(out, "  {good}ok{good:#}      {name}")?,
                Some(why) => writeln!(out, "  {bad}FAILED{bad:#}  {name}: {}", one_line(why))?,
            }
            for note in &case.notes {
                writeln!(out, "          note: {}", one_line(note))?;
            }
        }
    }
    let all: usize = suites.iter().map(|suite| suite.cases.len()).sum();
    let failed: usize = suites.iter().map(Suite::failures).sum();
    writeln!(out, "{} of {} passed", all - failed, plural(all, "case"))
}

fn tell_coverage(
    out: &mut impl Write,
    by: &str,
    missing: &str,
    coverage: &Coverage<'_>,
) -> io::Result<()> {
    writeln!(out, "{by}: {}", one_line(&coverage.told()))?;
    for name in coverage.missing() {
        writeln!(out, "  {missing}: {}", one_line(&name))?;
    }
    Ok(())
}

/// A text of others that stays on its line.
fn one_line(text: &str) -> String {
    printable(text).replace('\n', "\\n")
}
