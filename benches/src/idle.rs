//! The part `idle`: the memory of sessions that were opened over HTTP and are left alone.

use std::time::Duration;

use anyhow::{Context, Result};

use crate::contestant::{Contestant, Programs, Way};
use crate::load::http;
use crate::measure::{self, Setup};
use crate::statistics::Spread;
use crate::table::{self, Verdict};
use crate::usage::Memory;

pub(crate) const NAME: &str = "idle";
const SESSIONS: u64 = 10_000;
/// As many of them are opened before the first look, so that what is made once is not counted.
const BEFORE: u64 = 100;
const AT_MOST: f64 = 2_048.0;
const LIMIT: Duration = Duration::from_secs(300);

/// Measures, prints and judges. A quick run opens a tenth as many.
pub(crate) fn run(
    programs: &Programs,
    rounds: usize,
    quick: bool,
) -> Result<(String, Vec<Verdict>)> {
    let sessions = if quick { SESSIONS / 10 } else { SESSIONS };
    let contestants = [Contestant::Ours, Contestant::Limit, Contestant::Rmcp];
    let (mut lines, mut verdicts) = (Vec::new(), Vec::new());
    for contestant in &contestants {
        let name = contestant.name(Way::Session);
        let bytes = (0..rounds)
            .map(|_| bytes_per_session(programs, contestant, sessions))
            .collect::<Result<Vec<_>>>()
            .with_context(|| format!("opening sessions of {name}"))?;
        let Some(found) = Spread::of(bytes) else {
            continue;
        };
        eprintln!("{NAME}: {name}: {} bytes", table::spread(found));
        lines.push(vec![name, table::spread(found)]);
        if *contestant == Contestant::Ours {
            verdicts.push(Verdict {
                row: NAME.to_owned(),
                what: "bytes per idle session".to_owned(),
                found,
                at_most: Some(AT_MOST),
            });
        }
    }
    let head = ["server", "bytes per session"];
    let text = format!(
        "### `{NAME}`: memory of an idle session over HTTP, {} open\n\n{}",
        table::whole(sessions as f64),
        table::markdown(&head, &lines)
    );
    Ok((text, verdicts))
}

fn bytes_per_session(programs: &Programs, contestant: &Contestant, sessions: u64) -> Result<f64> {
    let setup = Setup::echo(Way::Session, 1);
    let (running, address) = measure::listening(programs, contestant, &setup, |command| command)?;
    let _watch = running.within(LIMIT);
    let opened = || -> Result<f64> {
        let _first = http::open_sessions(address, BEFORE)?;
        let before = Memory::of(running.process())?.resident;
        let _others = http::open_sessions(address, sessions - BEFORE)?;
        let after = Memory::of(running.process())?.resident;
        Ok((after as f64 - before as f64) / (sessions - BEFORE) as f64)
    };
    opened().map_err(|error| running.explained(error))
}
