//! The part `instructions`: what a call costs in instructions, ours beside the others.

use anyhow::Result;

use crate::callgrind;
use crate::contestant::{Contestant, Programs, Way};
use crate::measure::Setup;
use crate::statistics::Spread;
use crate::table::{self, Verdict};

pub(crate) const NAME: &str = "instructions";

/// One way of calling, and what it may cost at most.
struct Demand {
    title: &'static str,
    way: Way,
    in_flight: u64,
    at_most: Option<f64>,
}

const DEMANDS: [Demand; 4] = [
    Demand {
        title: "stdio, 64 in flight",
        way: Way::Stdio,
        in_flight: 64,
        at_most: Some(13_000.0),
    },
    Demand {
        title: "stdio, one in flight",
        way: Way::Stdio,
        in_flight: 1,
        at_most: None,
    },
    Demand {
        title: "HTTP in a session, one in flight",
        way: Way::Session,
        in_flight: 1,
        at_most: Some(45_000.0),
    },
    Demand {
        title: "HTTP as in 2026-07-28, one in flight",
        way: Way::Stateless,
        in_flight: 1,
        at_most: Some(45_000.0),
    },
];

/// Counts, prints and judges. Without valgrind there is only a word about it.
pub(crate) fn run(programs: &Programs, rounds: usize) -> Result<(String, Vec<Verdict>)> {
    let title = format!("### `{NAME}`: instructions per call\n\n");
    if !callgrind::is_there() {
        return Ok((title + "skipped: there is no valgrind here\n", Vec::new()));
    }
    let contestants = [Contestant::Ours, Contestant::Limit, Contestant::Rmcp];
    let (mut lines, mut verdicts) = (Vec::new(), Vec::new());
    for demand in DEMANDS {
        let setup = Setup::echo(demand.way, demand.in_flight);
        let mut line = vec![demand.title.to_owned()];
        for contestant in &contestants {
            let counts = (0..rounds)
                .map(|_| callgrind::per_call(programs, contestant, &setup))
                .collect::<Result<Vec<_>>>()?;
            let Some(found) = Spread::of(counts) else {
                continue;
            };
            let name = contestant.name(demand.way);
            eprintln!("{NAME}: {}: {name}: {}", demand.title, table::spread(found));
            line.push(table::spread(found));
            if *contestant == Contestant::Ours && demand.at_most.is_some() {
                verdicts.push(Verdict {
                    row: NAME.to_owned(),
                    what: demand.title.to_owned(),
                    found,
                    at_most: demand.at_most,
                });
            }
        }
        lines.push(line);
    }
    let head = ["", "interlock", "limit", "rmcp"];
    let text = title + &table::markdown(&head, &lines);
    Ok((text, verdicts))
}

/// Where the instructions of ours go, way by way.
pub(crate) fn profile(programs: &Programs) -> Result<String> {
    if !callgrind::is_there() {
        return Ok("skipped: there is no valgrind here\n".to_owned());
    }
    let mut text = String::new();
    for demand in DEMANDS {
        let setup = Setup::echo(demand.way, demand.in_flight);
        let table = callgrind::profile(programs, &Contestant::Ours, &setup, 60)?;
        text.push_str(&format!(
            "### {}\n\n```text\n{table}\n```\n\n",
            demand.title
        ));
    }
    Ok(text)
}
