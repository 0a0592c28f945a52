//! The part `instructions`: what a call costs in instructions, ours beside the others.

use anyhow::Result;

use crate::callgrind;
use crate::contestant::{Contestant, Gate, Gated, Programs, Way};
use crate::measure::Setup;
use crate::statistics::Spread;
use crate::table::{self, Verdict};

pub(crate) const NAME: &str = "instructions";
pub(crate) const GATED: &str = "gate-instructions";

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
    let contestants = [
        Contestant::Ours,
        Contestant::Limit,
        Contestant::Rmcp,
        Contestant::Mounted,
    ];
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
    let head = ["", "interlock", "limit", "rmcp", "interlock, mounted"];
    let text = title + &table::markdown(&head, &lines);
    Ok((text, verdicts))
}

/// The same server without a workflow first, then behind one after the other.
fn behind_workflows() -> Vec<Contestant> {
    let gates = [Gate::Stay, Gate::Move, Gate::Dynamic, Gate::Guard];
    let mut contestants = vec![Contestant::Ours];
    contestants.extend(gates.map(Contestant::from));
    contestants.extend([1_000, 10_000].map(|states| {
        Contestant::Gated(Gated {
            gate: Gate::Move,
            states,
            in_one_session: false,
        })
    }));
    contestants
}

/// Counts what a call costs behind workflows, and what that is of a call without one.
pub(crate) fn run_gated(programs: &Programs) -> Result<String> {
    let title = format!("### `{GATED}`: instructions per call behind a workflow\n\n");
    if !callgrind::is_there() {
        return Ok(title + "skipped: there is no valgrind here\n");
    }
    let ways = [(Way::Stdio, 64), (Way::Stdio, 1), (Way::Session, 1)];
    let mut counts = Vec::new();
    for contestant in behind_workflows() {
        let name = contestant.name(Way::Session);
        let of_ways = ways
            .map(|(way, in_flight)| {
                let setup = Setup::echo(way, in_flight);
                callgrind::per_call(programs, &contestant, &setup)
            })
            .into_iter()
            .collect::<Result<Vec<f64>>>()?;
        eprintln!("{GATED}: {name}: {of_ways:.0?}");
        counts.push((name, of_ways));
    }
    let head = [
        "",
        "stdio, 64 in flight",
        "stdio, one in flight",
        "HTTP in a session, one in flight",
    ];
    Ok(title + &table::markdown(&head, &beside_the_first(&counts)))
}

/// Each count, and how many times that of the first it is.
fn beside_the_first(counts: &[(String, Vec<f64>)]) -> Vec<Vec<String>> {
    let cells = |(name, counts): &(String, Vec<f64>), first: &[f64]| {
        let cells = counts.iter().zip(first).map(|(count, first)| {
            let (count, times) = (table::whole(*count), table::number(count / first));
            format!("{count} ({times} ×)")
        });
        std::iter::once(name.clone()).chain(cells).collect()
    };
    match counts {
        [first, ..] => counts.iter().map(|row| cells(row, &first.1)).collect(),
        [] => Vec::new(),
    }
}

/// Where the instructions of ours go, way by way.
pub(crate) fn profile(programs: &Programs) -> Result<String> {
    if !callgrind::is_there() {
        return Ok("skipped: there is no valgrind here\n".to_owned());
    }
    let mut text = String::new();
    let ways = DEMANDS.map(|demand| (demand, Contestant::Ours, String::new()));
    let moving = DEMANDS
        .into_iter()
        .filter(|demand| demand.way != Way::Stateless);
    let moving = moving.map(|demand| (demand, Gate::Move.into(), ", moving a workflow".to_owned()));
    for (demand, contestant, more) in ways.into_iter().chain(moving) {
        let setup = Setup::echo(demand.way, demand.in_flight);
        let table = callgrind::profile(programs, &contestant, &setup, 60)?;
        text.push_str(&format!(
            "### {}{more}\n\n```text\n{table}\n```\n\n",
            demand.title
        ));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_stand_beside_those_of_the_server_without_a_workflow() {
        let counts = [
            ("interlock".to_owned(), vec![10_000.0, 20_000.0]),
            ("gated: move".to_owned(), vec![13_000.0, 25_000.0]),
        ];
        let rows = beside_the_first(&counts);
        assert_eq!(rows[0], ["interlock", "10,000 (1.00 ×)", "20,000 (1.00 ×)"]);
        assert_eq!(
            rows[1],
            ["gated: move", "13,000 (1.30 ×)", "25,000 (1.25 ×)"]
        );
        assert!(beside_the_first(&[]).is_empty());
    }

    #[test]
    fn the_first_of_those_behind_workflows_is_not_behind_one() {
        let contestants = behind_workflows();
        assert_eq!(contestants[0], Contestant::Ours);
        let mut others = contestants[1..].iter();
        assert!(others.all(|other| matches!(other, Contestant::Gated(_))));
    }
}
