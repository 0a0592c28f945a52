//! The part `--soak`: minutes of load, and whether memory stays what it is.

use std::fs;
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::contestant::{Contestant, Programs, Way};
use crate::load::Until;
use crate::measure::{self, Setup};
use crate::plot::{Axis, Line, Plot, Scale};
use crate::statistics::median;
use crate::table;
use crate::usage::Memory;

/// How often memory is looked at; a short soak is looked at more often.
const EVERY: Duration = Duration::from_secs(5);
const LEAST_LOOKS: u32 = 30;
/// As much as this is no growth: a share, or bytes.
const SHARE: f64 = 0.05;
const BYTES: f64 = 256.0 * 1024.0;

/// Puts load on our server for so long, over stdio and over HTTP: two processes at the same time, for
/// it is memory that counts here.
pub(crate) fn run(programs: &Programs, long: Duration, folder: &Path) -> Result<String> {
    let (mut text, mut lines) = (String::new(), Vec::new());
    let ways = [(Way::Stdio, "stdio"), (Way::Session, "HTTP")];
    let soaked = thread::scope(|scope| {
        let soaking = ways.map(|(way, _)| scope.spawn(move || soak(programs, way, long)));
        soaking.map(|one| match one.join() {
            Ok(soaked) => soaked,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    });
    for ((_, name), soaked) in ways.into_iter().zip(soaked) {
        let (curve, calls) = soaked?;
        text.push_str(&told(name, &curve, calls));
        lines.push(Line {
            name: name.to_owned(),
            points: curve.iter().map(|(at, bytes)| (*at, bytes / 1e6)).collect(),
        });
    }
    let axis = |label: &str| Axis {
        label: label.to_owned(),
        scale: Scale::Linear,
    };
    let plot = Plot {
        title: "Memory under load, 64 in flight".to_owned(),
        x: axis("seconds"),
        y: axis("RSS MB"),
        lines,
    };
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let file = folder.join("soak.svg");
    fs::write(&file, plot.svg()).with_context(|| file.display().to_string())?;
    eprintln!("wrote {}", file.display());
    Ok(text)
}

/// Seconds and bytes at each look, and the number of calls.
fn soak(programs: &Programs, way: Way, long: Duration) -> Result<(Vec<(f64, f64)>, u64)> {
    let setup = Setup::echo(way, 64);
    let (running, mut client) =
        measure::start(programs, &Contestant::Ours, &setup, |command| command)?;
    let _watch = running.within(long + Duration::from_secs(60));
    let process = running.process();
    let every = EVERY.min(long / LEAST_LOOKS);
    let (over, is_over) = mpsc::channel::<()>();
    let (tally, curve) = thread::scope(|scope| {
        let looking = scope.spawn(move || {
            let (began, mut curve) = (Instant::now(), Vec::new());
            while is_over.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                let seconds = began.elapsed().as_secs_f64();
                curve.push((seconds, Memory::of(process)?.resident as f64));
            }
            anyhow::Ok(curve)
        });
        let tally = client.run(&setup.question(), Until::Elapsed(long));
        drop(over);
        match looking.join() {
            Ok(curve) => (tally, curve),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    });
    let tally = tally.map_err(|error| running.explained(error))?;
    Ok((curve?, tally.latencies.count()))
}

fn told(name: &str, curve: &[(f64, f64)], calls: u64) -> String {
    let bytes: Vec<f64> = curve.iter().map(|(_, bytes)| *bytes).collect();
    let verdict = match is_flat(&bytes) {
        Some(true) => "flat",
        Some(false) => "**not flat**",
        None => "too short to tell",
    };
    let looks = curve.len().div_ceil(12).max(1);
    let rows: Vec<Vec<String>> = curve
        .iter()
        .step_by(looks)
        .chain(curve.last())
        .map(|(at, bytes)| vec![format!("{at:.0}"), format!("{:.2}", bytes / 1e6)])
        .collect();
    format!(
        "### Soak over {name}: {} calls, memory is {verdict}\n\n{}\n",
        table::whole(calls as f64),
        table::markdown(&["seconds", "RSS MB"], &rows)
    )
}

/// Whether the last third is what the second was. Of less than three looks nothing is known.
fn is_flat(bytes: &[f64]) -> Option<bool> {
    let third = bytes.len() / 3;
    let middle = median(bytes.get(third..2 * third)?.iter().copied())?;
    let last = median(bytes.get(2 * third..)?.iter().copied())?;
    Some((last - middle).abs() <= BYTES.max(SHARE * middle))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: f64 = 1e6;

    #[test]
    fn memory_that_stays_is_flat_whatever_it_was_at_first() {
        let curve: Vec<f64> = (0..30)
            .map(|at| if at < 10 { MB } else { 20.0 * MB })
            .collect();
        assert_eq!(is_flat(&curve), Some(true));
    }

    #[test]
    fn memory_that_grows_is_not_flat() {
        let curve: Vec<f64> = (0..30).map(|at| f64::from(at) * MB).collect();
        assert_eq!(is_flat(&curve), Some(false));
        assert_eq!(is_flat(&[MB, MB]), None);
        assert_eq!(is_flat(&[]), None);
    }

    #[test]
    fn a_curve_is_told_in_a_few_lines_and_its_end_is_among_them() {
        let curve: Vec<(f64, f64)> = (0..60).map(|at| (f64::from(at) * 5.0, 12.0 * MB)).collect();
        let text = told("stdio", &curve, 1_000_000);
        assert!(text.contains("1,000,000 calls, memory is flat"), "{text}");
        assert!(text.contains("| 295 | 12.00 |"), "{text}");
        assert!(text.lines().count() < 20, "{text}");
    }
}
