//! Instructions per call, counted by valgrind: a figure that does not depend on the machine's load.
//!
//! Two runs that differ in nothing but the number of calls are subtracted, so that starting,
//! connecting and ending fall out. What the kernel does is not counted.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::contestant::{Contestant, Programs, Way};
use crate::load::Until;
use crate::measure::{self, Setup};

const FEW: u64 = 500;
const MANY: u64 = 2_500;
const LIMIT: Duration = Duration::from_secs(600);

/// Whether this machine has valgrind.
pub(crate) fn is_there() -> bool {
    let status = Command::new("valgrind")
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}

/// How many instructions one call costs.
pub(crate) fn per_call(programs: &Programs, contestant: &Contestant, setup: &Setup) -> Result<f64> {
    let file = file(&format!("{:?}", setup.way));
    let counted = |calls| -> Result<u64> {
        run(programs, contestant, setup, calls, &file)?;
        let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        fs::remove_file(&file)?;
        total(&text)
    };
    let (few, many) = (counted(FEW)?, counted(MANY)?);
    Ok((many as f64 - few as f64) / (MANY - FEW) as f64)
}

/// The functions that most instructions are spent in, as valgrind's own tool prints them.
pub(crate) fn profile(
    programs: &Programs,
    contestant: &Contestant,
    setup: &Setup,
    lines: usize,
) -> Result<String> {
    let file = file("profile");
    run(programs, contestant, setup, 4 * MANY, &file)?;
    let output = Command::new("callgrind_annotate")
        .args(["--auto=no", "--threshold=95"])
        .arg(&file)
        .output()
        .context("callgrind_annotate")?;
    fs::remove_file(&file)?;
    if !output.status.success() {
        bail!("callgrind_annotate ended with {}", output.status);
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let table = text
        .lines()
        .skip_while(|line| !line.contains("file:function"));
    let shown: Vec<&str> = table.take(lines).collect();
    Ok(shown.join("\n"))
}

fn run(
    programs: &Programs,
    contestant: &Contestant,
    setup: &Setup,
    calls: u64,
    file: &Path,
) -> Result<()> {
    let (running, mut client) = measure::start(programs, contestant, setup, |command| {
        counting(&command, file)
    })?;
    let watch = running.within(LIMIT);
    let asked = client.run(&setup.question(), Until::Calls(calls));
    asked.map_err(|error| running.explained(error))?;
    drop(client);
    drop(watch);
    match setup.way {
        // It ends by itself when its input does.
        Way::Stdio => running.wait(),
        Way::Session | Way::Stateless => running.end(),
    }
}

/// A command under valgrind. One worker makes the count the same each time: several would steal
/// work from each other, or not, as it happens.
fn counting(command: &Command, file: &Path) -> Command {
    let mut counting = Command::new("valgrind");
    counting
        .args(["--tool=callgrind", "--quiet"])
        .arg(format!("--callgrind-out-file={}", file.display()))
        .arg(command.get_program())
        .args(command.get_args())
        .env("TOKIO_WORKER_THREADS", "1");
    counting
}

fn file(name: &str) -> PathBuf {
    let own = std::process::id();
    std::env::temp_dir().join(format!("interlock-bench-{own}-{name}.callgrind"))
}

/// The number of instructions in a file of callgrind.
fn total(text: &str) -> Result<u64> {
    let line = |key: &str| text.lines().find_map(|line| line.strip_prefix(key));
    let total = line("totals:").or_else(|| line("summary:"));
    let total = total.and_then(|total| total.trim().parse().ok());
    total.context("no total in the file of callgrind")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_read_from_either_line() {
        assert_eq!(
            total("events: Ir\nfn=(1)\n\ntotals: 1234\n").unwrap(),
            1_234
        );
        assert_eq!(total("summary: 99\nevents: Ir\n").unwrap(), 99);
        assert!(total("events: Ir\n").is_err());
    }
}
