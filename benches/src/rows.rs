//! What is compared: one row per question, with the servers and what is demanded of ours.

use std::time::Duration;

use anyhow::Result;

use crate::contestant::Contestant::{self, Limit, Ours, Rmcp, RmcpBlocking, RmcpMacros};
use crate::contestant::{Gate, Gated, Peer, Programs, STATES, Way};
use crate::load::Until;
use crate::measure::{self, Effort, Sample, Setup};
use crate::statistics::Spread;

/// One comparison.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) setup: Setup,
    pub(crate) contestants: Vec<Contestant>,
    pub(crate) ratios: Vec<Ratio>,
}

/// One server against another, and how much it may be at most.
pub(crate) struct Ratio {
    pub(crate) figure: Figure,
    pub(crate) of: Contestant,
    pub(crate) against: Contestant,
    pub(crate) at_most: Option<f64>,
}

/// Which figure of a measurement is compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Figure {
    Processor,
    Median,
}

/// A row and what was measured: for each server, one sample per round.
pub(crate) struct Measured {
    pub(crate) row: Row,
    pub(crate) samples: Vec<Vec<Sample>>,
}

/// How much is done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rounds {
    pub(crate) number: usize,
    pub(crate) effort: Effort,
}

impl Rounds {
    /// So many rounds, each of which takes so long for each server.
    pub(crate) fn new(number: usize, seconds: f64) -> Self {
        let counted = Duration::from_secs_f64(seconds);
        Self {
            number,
            effort: Effort {
                warm_up: Until::Elapsed(counted / 5),
                counted: Until::Elapsed(counted),
            },
        }
    }
}

/// Rows in which servers in other languages take part.
const WITH_PEERS: [&str; 6] = [
    "stdio",
    "stdio-1",
    "http",
    "http-1",
    "http-2026",
    "http-2026-1",
];

/// Rows in which a few hundredths count, and how much oftener they are measured. What a call costs that
/// came with many others depends on how many of them it came with, too.
const CLOSE: [&str; 4] = ["stdio", "stdio-1", "gate", "gate-states"];
const OFTENER: usize = 3;

/// All rows, in the order in which they are printed.
pub(crate) fn all(peers: &[Peer]) -> Vec<Row> {
    let mut rows = ours();
    rows.extend(gated());
    for row in rows.iter_mut().filter(|row| WITH_PEERS.contains(&row.name)) {
        for peer in peers {
            let peer = Contestant::Peer(peer.clone());
            row.ratios.push(Ratio {
                figure: row.ratios[0].figure,
                of: Ours,
                against: peer.clone(),
                at_most: None,
            });
            row.contestants.push(peer);
        }
    }
    rows
}

fn ours() -> Vec<Row> {
    use Figure::{Median, Processor};
    use Way::{Session, Stateless, Stdio};
    let to_limit = |figure, at_most| at_most_times(figure, Ours, Limit, at_most);
    let honest = |at_most| at_most_times(Processor, Limit, Rmcp, at_most);
    let beside = |figure| Ratio {
        at_most: None,
        ..at_most_times(figure, Ours, Rmcp, 0.0)
    };
    vec![
        Row {
            name: "stdio",
            title: "echo over stdio, 64 in flight",
            setup: Setup::echo(Stdio, 64),
            contestants: vec![Ours, Limit, Rmcp, RmcpBlocking, RmcpMacros],
            ratios: vec![
                to_limit(Processor, 1.5),
                at_most_times(Processor, Ours, Rmcp, 1.0 / 6.0),
                honest(1.0 / 9.0),
            ],
        },
        Row {
            name: "stdio-1",
            title: "echo over stdio, one in flight, client and server on one core",
            setup: Setup::echo(Stdio, 1).on_one_core(),
            contestants: vec![Ours, Limit, Rmcp, RmcpBlocking, RmcpMacros],
            ratios: vec![to_limit(Median, 1.25), beside(Median)],
        },
        Row {
            name: "http",
            title: "echo over HTTP in a session each, 64 connections",
            setup: Setup::echo(Session, 64),
            contestants: vec![Ours, Limit, Rmcp],
            ratios: vec![
                to_limit(Processor, 1.3),
                beside(Processor),
                honest(1.0 / 3.0),
            ],
        },
        Row {
            name: "http-1",
            title: "echo over HTTP in a session, one in flight, client and server on one core",
            setup: Setup::echo(Session, 1).on_one_core(),
            contestants: vec![Ours, Limit, Rmcp],
            ratios: vec![to_limit(Median, 1.2), beside(Median)],
        },
        Row {
            name: "http-2026",
            title: "echo over HTTP as in 2026-07-28, 64 connections",
            setup: Setup::echo(Stateless, 64),
            contestants: vec![Ours, Limit, Rmcp],
            ratios: vec![
                to_limit(Processor, 1.3),
                beside(Processor),
                honest(1.0 / 3.0),
            ],
        },
        Row {
            name: "http-2026-1",
            title: "echo over HTTP as in 2026-07-28, one in flight, client and server on one core",
            setup: Setup::echo(Stateless, 1).on_one_core(),
            contestants: vec![Ours, Limit, Rmcp],
            ratios: vec![to_limit(Median, 1.2), beside(Median)],
        },
        Row {
            name: "list",
            title: "the list of 21 tools over stdio, 64 in flight",
            setup: Setup::list(Stdio, 64, 21),
            contestants: vec![Ours, Limit, Rmcp],
            ratios: vec![to_limit(Processor, 1.2), beside(Processor)],
        },
        Row {
            name: "list-http",
            title: "the list of 21 tools over HTTP in a session each, 64 connections",
            setup: Setup::list(Session, 64, 21),
            contestants: vec![Ours, Limit, Rmcp],
            ratios: vec![to_limit(Processor, 1.2), beside(Processor)],
        },
        Row {
            name: "list-2000",
            title: "the list of 2,000 tools over stdio, 4 in flight",
            setup: Setup::list(Stdio, 4, 2_000),
            contestants: vec![Ours, Limit, Rmcp],
            ratios: vec![to_limit(Processor, 1.2), beside(Processor)],
        },
    ]
}

/// What the gate costs: the same server with a workflow in front of its tools, and without.
fn gated() -> Vec<Row> {
    use Way::{Session, Stdio};
    let against_ungated = |name, title, setup| Row {
        name,
        title,
        setup,
        contestants: vec![
            Ours,
            Gate::Stay.into(),
            Gate::Move.into(),
            Gate::Dynamic.into(),
            Gate::Guard.into(),
        ],
        ratios: vec![
            at_most_times(Figure::Processor, Gate::Stay.into(), Ours, 1.15),
            at_most_times(Figure::Processor, Gate::Move.into(), Ours, 1.3),
            beside(Gate::Dynamic.into(), Ours),
            beside(Gate::Guard.into(), Ours),
        ],
    };
    let moves = |states, in_one_session| {
        Contestant::Gated(Gated {
            gate: Gate::Move,
            states,
            in_one_session,
        })
    };
    let few = || moves(STATES, false);
    let flat = |states| {
        let many = moves(states, false);
        at_most_times(Figure::Processor, many, few(), 1.1)
    };
    vec![
        against_ungated(
            "gate",
            "echo behind a workflow over stdio, 64 in flight: those that move take turns",
            Setup::echo(Stdio, 64),
        ),
        against_ungated(
            "gate-1",
            "echo behind a workflow over stdio, one in flight, client and server on one core",
            Setup::echo(Stdio, 1).on_one_core(),
        ),
        against_ungated(
            "gate-http",
            "echo behind a workflow over HTTP in a session each, 64 connections",
            Setup::echo(Session, 64),
        ),
        Row {
            name: "gate-states",
            title: "moving through all states of a workflow over stdio, 64 in flight",
            setup: Setup::echo(Stdio, 64),
            contestants: vec![few(), moves(1_000, false), moves(10_000, false)],
            ratios: vec![flat(1_000), flat(10_000)],
        },
        Row {
            name: "gate-sessions",
            title: "moving over HTTP, 64 connections: in a session each, and all in one, taking turns",
            setup: Setup::echo(Session, 64),
            contestants: vec![few(), moves(STATES, true)],
            ratios: vec![beside(few(), moves(STATES, true))],
        },
    ]
}

/// One server against another, without anything that is demanded of it.
fn beside(of: Contestant, against: Contestant) -> Ratio {
    Ratio {
        figure: Figure::Processor,
        of,
        against,
        at_most: None,
    }
}

fn at_most_times(figure: Figure, of: Contestant, against: Contestant, times: f64) -> Ratio {
    Ratio {
        figure,
        of,
        against,
        at_most: Some(times),
    }
}

/// Measures a row: in each round every server once, each time beginning with another one.
pub(crate) fn measure(row: Row, programs: &Programs, rounds: Rounds) -> Result<Measured> {
    let number = row.contestants.len();
    let mut samples = vec![Vec::new(); number];
    let times = if CLOSE.contains(&row.name) {
        OFTENER
    } else {
        1
    };
    let rounds_of_row = rounds.number * times;
    for round in 0..rounds_of_row {
        for turn in 0..number {
            let at = (round + turn) % number;
            let contestant = &row.contestants[at];
            let sample = measure::sample(programs, contestant, &row.setup, rounds.effort)?;
            let name = contestant.name(row.setup.way);
            eprintln!(
                "{} {}/{}: {name}: {:.0} calls/s, {:.2} µs of processor each",
                row.name,
                round + 1,
                rounds_of_row,
                sample.per_second,
                sample.processor
            );
            samples[at].push(sample);
        }
    }
    Ok(Measured { row, samples })
}

impl Figure {
    pub(crate) fn of(self, sample: &Sample) -> f64 {
        match self {
            Self::Processor => sample.processor,
            Self::Median => sample.p50,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Processor => "CPU per call",
            Self::Median => "p50",
        }
    }
}

impl Measured {
    /// The ratio in each round, for two servers that were measured in it.
    pub(crate) fn ratio(&self, ratio: &Ratio) -> Option<Spread> {
        let samples = |contestant: &Contestant| {
            let at = self
                .row
                .contestants
                .iter()
                .position(|one| one == contestant);
            at.map(|at| self.samples[at].iter())
        };
        let pairs = samples(&ratio.of)?.zip(samples(&ratio.against)?);
        Spread::of(pairs.map(|(of, against)| ratio.figure.of(of) / ratio.figure.of(against)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usage::Memory;

    fn sample(processor: f64) -> Sample {
        let memory = Memory {
            resident: 0,
            peak: 0,
        };
        Sample {
            per_second: 1.0,
            p50: 2.0 * processor,
            p99: 0.0,
            processor,
            notifications: 0.0,
            memory,
        }
    }

    #[test]
    fn names_of_rows_are_unique_and_ratios_are_between_servers_of_the_row() {
        let rows = all(&[Peer {
            name: "Python".to_owned(),
            interpreter: "python3".into(),
            script: "echo.py".into(),
        }]);
        assert_eq!(
            rows.iter()
                .filter(|row| WITH_PEERS.contains(&row.name))
                .count(),
            WITH_PEERS.len()
        );
        for (at, row) in rows.iter().enumerate() {
            assert!(rows[..at].iter().all(|other| other.name != row.name));
            for ratio in &row.ratios {
                assert!(row.contestants.contains(&ratio.of), "{}", row.name);
                assert!(row.contestants.contains(&ratio.against), "{}", row.name);
            }
        }
    }

    #[test]
    fn the_gate_is_held_against_the_same_server_without_one() {
        let demanded = |name: &str| {
            let row = gated().into_iter().find(|row| row.name == name).unwrap();
            let demanded = row
                .ratios
                .into_iter()
                .filter(|ratio| ratio.at_most.is_some());
            demanded
                .map(|ratio| (ratio.of.name(row.setup.way), ratio.against, ratio.at_most))
                .collect::<Vec<_>>()
        };
        for name in ["gate", "gate-1", "gate-http"] {
            let [stay, moves] = <[_; 2]>::try_from(demanded(name)).unwrap();
            assert_eq!(stay, ("gated: stay".to_owned(), Ours, Some(1.15)));
            assert_eq!(moves, ("gated: move".to_owned(), Ours, Some(1.3)));
        }
        let states = demanded("gate-states");
        assert_eq!(states.len(), 2);
        assert!(states.iter().all(|(_, few, _)| *few == Gate::Move.into()));
        assert_eq!(demanded("gate-sessions"), []);
    }

    #[test]
    fn ratios_are_taken_round_by_round() {
        let row = all(&[]).remove(0);
        let mut samples = vec![Vec::new(); row.contestants.len()];
        samples[0] = vec![sample(3.0), sample(8.0), sample(5.0)];
        samples[1] = vec![sample(2.0), sample(8.0), sample(2.0)];
        let measured = Measured { row, samples };
        let ratio = at_most_times(Figure::Processor, Ours, Limit, 1.5);
        let spread = measured.ratio(&ratio).unwrap();
        assert_eq!((spread.least, spread.median, spread.most), (1.0, 1.5, 2.5));
        let unmeasured = at_most_times(Figure::Median, Ours, Rmcp, 1.0);
        assert_eq!(measured.ratio(&unmeasured), None);
    }
}
