//! The part `--growth`: what a call costs as one thing after the other becomes more.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::contestant::{Contestant, Programs, Way};
use crate::load::question::Operation;
use crate::measure::{self, Setup};
use crate::plot::{Axis, Line, Plot, Scale};
use crate::rows::Rounds;
use crate::statistics::median;
use crate::table;

/// One thing that grows.
struct Sweep {
    /// Of the file with its chart.
    name: &'static str,
    title: &'static str,
    /// What grows.
    of: &'static str,
    figure: &'static str,
    steps: Vec<Step>,
}

/// One size of it.
struct Step {
    size: f64,
    setup: Setup,
    /// The processor time of a call is divided by this.
    per: f64,
}

const CONTESTANTS: [Contestant; 2] = [Contestant::Ours, Contestant::Limit];
const PER_CALL: &str = "CPU µs per call";

/// Measures all of it, writes the charts into `folder` and returns the tables.
pub(crate) fn run(programs: &Programs, rounds: Rounds, folder: &Path) -> Result<String> {
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let mut text = String::new();
    for sweep in sweeps()? {
        let lines = sweep.measure(programs, rounds)?;
        text.push_str(&sweep.table(&lines));
        text.push('\n');
        let file = folder.join(format!("{}.svg", sweep.name));
        fs::write(&file, sweep.plot(lines).svg()).with_context(|| file.display().to_string())?;
        eprintln!("wrote {}", file.display());
    }
    Ok(text)
}

fn sweeps() -> Result<Vec<Sweep>> {
    const IN_FLIGHT: [u64; 6] = [1, 4, 16, 64, 256, 1_000];
    const BYTES: [usize; 6] = [64, 1_024, 16_384, 65_536, 262_144, 1_048_576];
    const SESSIONS: [u64; 4] = [1, 100, 1_000, 10_000];
    const TOOLS: [usize; 3] = [20, 200, 2_000];
    let in_flight = |way| {
        let steps = IN_FLIGHT.iter();
        steps.map(move |number| Step::of_call(*number as f64, Setup::echo(way, *number)))
    };
    let payload = |way| {
        BYTES.iter().map(move |bytes| {
            let operation = Operation::Echo { bytes: *bytes };
            let setup = Setup {
                operation,
                ..Setup::echo(way, 4)
            };
            Step::of_call(*bytes as f64, setup)
        })
    };
    let sessions = SESSIONS.iter().map(|sessions| {
        let setup = Setup {
            sessions: *sessions,
            ..Setup::echo(Way::Session, 64)
        };
        Step::of_call(*sessions as f64, setup)
    });
    let calls = TOOLS.iter().map(|tools| {
        let setup = Setup {
            tools: *tools,
            ..Setup::echo(Way::Stdio, 64)
        };
        Step::of_call(*tools as f64, setup)
    });
    let lists = TOOLS.iter().map(|tools| {
        Ok(Step {
            size: *tools as f64,
            setup: Setup::list(Way::Stdio, 4, *tools),
            per: interlock_benches::tools::json(*tools)?.len() as f64 / 1_024.0,
        })
    });
    Ok(vec![
        Sweep {
            name: "in-flight-stdio",
            title: "A call over stdio, with others in flight",
            of: "requests in flight",
            figure: PER_CALL,
            steps: in_flight(Way::Stdio).collect(),
        },
        Sweep {
            name: "in-flight-http",
            title: "A call over HTTP in a session, with other connections",
            of: "connections",
            figure: PER_CALL,
            steps: in_flight(Way::Session).collect(),
        },
        Sweep {
            name: "payload-stdio",
            title: "A call over stdio with a long text, 4 in flight",
            of: "bytes of text",
            figure: PER_CALL,
            steps: payload(Way::Stdio).collect(),
        },
        Sweep {
            name: "payload-http",
            title: "A call over HTTP in a session with a long text, 4 connections",
            of: "bytes of text",
            figure: PER_CALL,
            steps: payload(Way::Session).collect(),
        },
        Sweep {
            name: "sessions",
            title: "A call over HTTP in one of many sessions, 64 connections",
            of: "sessions",
            figure: PER_CALL,
            steps: sessions.collect(),
        },
        Sweep {
            name: "tools-call",
            title: "A call of one of many tools over stdio, 64 in flight",
            of: "tools",
            figure: PER_CALL,
            steps: calls.collect(),
        },
        Sweep {
            name: "tools-list",
            title: "The list of many tools over stdio, 4 in flight",
            of: "tools",
            figure: "CPU µs per KB of the list",
            steps: lists.collect::<Result<_>>()?,
        },
    ])
}

impl Step {
    fn of_call(size: f64, setup: Setup) -> Self {
        Self {
            size,
            setup,
            per: 1.0,
        }
    }
}

impl Sweep {
    /// The middle of all rounds, for each server and size.
    fn measure(&self, programs: &Programs, rounds: Rounds) -> Result<Vec<Line>> {
        let mut lines = CONTESTANTS.map(|contestant| Line {
            name: contestant.name(Way::Session),
            points: Vec::new(),
        });
        for step in &self.steps {
            let mut figures = CONTESTANTS.map(|_| Vec::new());
            for _ in 0..rounds.number {
                for (contestant, figures) in CONTESTANTS.iter().zip(&mut figures) {
                    let sample = measure::sample(programs, contestant, &step.setup, rounds.effort)?;
                    figures.push(sample.processor / step.per);
                }
            }
            for (line, figures) in lines.iter_mut().zip(figures) {
                let figure = median(figures).context("there is at least one round")?;
                let size = table::whole(step.size);
                eprintln!(
                    "{}: {size} {}: {}: {figure:.3}",
                    self.name, self.of, line.name
                );
                line.points.push((step.size, figure));
            }
        }
        Ok(lines.into())
    }

    fn table(&self, lines: &[Line]) -> String {
        let rows: Vec<Vec<String>> = self
            .steps
            .iter()
            .enumerate()
            .map(|(at, step)| {
                let figures: Vec<f64> = lines.iter().map(|line| line.points[at].1).collect();
                let mut row = vec![table::whole(step.size)];
                row.extend(figures.iter().map(|figure| table::number(*figure)));
                row.push(match *figures {
                    [ours, limit, ..] => table::number(ours / limit),
                    _ => String::new(),
                });
                row
            })
            .collect();
        let mut head = vec![self.of];
        head.extend(lines.iter().map(|line| line.name.as_str()));
        head.push("ratio");
        format!(
            "### {}: {}\n\n{}",
            self.title,
            self.figure,
            table::markdown(&head, &rows)
        )
    }

    fn plot(&self, lines: Vec<Line>) -> Plot {
        let axis = |label: &str| Axis {
            label: label.to_owned(),
            scale: Scale::Decades,
        };
        Plot {
            title: self.title.to_owned(),
            x: axis(self.of),
            y: axis(self.figure),
            lines,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sweep_grows_and_has_a_file_of_its_own() {
        let sweeps = sweeps().unwrap();
        for (at, sweep) in sweeps.iter().enumerate() {
            assert!(sweeps[..at].iter().all(|other| other.name != sweep.name));
            let grows = sweep
                .steps
                .windows(2)
                .all(|pair| pair[0].size < pair[1].size);
            assert!(grows, "{}", sweep.name);
        }
    }

    #[test]
    fn a_table_shows_both_servers_and_their_ratio() {
        let sweep = sweeps().unwrap().remove(0);
        let line = |name: &str, figure: f64| Line {
            name: name.to_owned(),
            points: sweep.steps.iter().map(|step| (step.size, figure)).collect(),
        };
        let table = sweep.table(&[line("interlock", 3.0), line("limit", 2.0)]);
        assert!(table.contains("| 1,000 | 3.00 | 2.00 | 1.50 |"), "{table}");
    }
}
