//! Load on the servers of the benchmark, and tables of what it found.
#![expect(
    clippy::print_stdout,
    reason = "what the benchmark prints is what it is run for"
)]

mod callgrind;
mod child;
mod contestant;
mod growth;
mod histogram;
mod idle;
mod instructions;
mod load;
mod measure;
mod options;
mod pin;
mod plot;
mod rows;
mod soak;
mod statistics;
mod table;
mod usage;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::measure::Place;
use crate::options::{Options, USAGE};
use crate::rows::{Rounds, Row};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--help") {
        println!(
            "{USAGE}\nNAMEs: {}, micro",
            names(&rows::all(&[])).join(", ")
        );
        return Ok(());
    }
    let own = std::env::current_exe().context("looking for this program")?;
    let folder = own.parent().context("a program lies in a folder")?;
    let options = Options::parse(arguments, folder)?;
    if options.profile {
        print!("{}", instructions::profile(&options.programs)?);
        return Ok(());
    }
    let rounds = Rounds::new(options.rounds, options.seconds);
    if options.growth {
        let text = growth::run(&options.programs, rounds, &options.plots)?;
        print!("{text}");
        return Ok(());
    }
    if let Some(minutes) = options.soak {
        let long = Duration::from_secs_f64(minutes * 60.0);
        print!("{}", soak::run(&options.programs, long, &options.plots)?);
        return Ok(());
    }
    compare(&options)
}

/// Everything that can be asked for by its name.
fn names(rows: &[Row]) -> Vec<&'static str> {
    let rows = rows.iter().map(|row| row.name);
    rows.chain([idle::NAME, instructions::NAME, instructions::GATED])
        .collect()
}

/// Measures what is wanted, and prints each table as soon as it is there.
fn compare(options: &Options) -> Result<()> {
    let rows = rows::all(&options.programs.peers);
    let known = names(&rows);
    for name in &options.names {
        if !known.contains(&name.as_str()) {
            bail!("no row `{name}`; there are: {}", known.join(", "));
        }
    }
    let rounds = Rounds::new(options.rounds, options.seconds);
    let mut verdicts = Vec::new();
    for row in rows.into_iter().filter(|row| options.wants(row.name)) {
        if row.setup.place == Place::OneCore && !pin::is_possible() {
            println!("### `{}`: skipped: there is no taskset here\n", row.name);
            continue;
        }
        let measured = rows::measure(row, &options.programs, rounds)?;
        println!("{}", table::of_row(&measured));
        verdicts.extend(table::verdicts_of(&measured));
    }
    if options.wants(idle::NAME) {
        let (text, more) = idle::run(&options.programs, options.rounds.min(3), options.quick)?;
        println!("{text}");
        verdicts.extend(more);
    }
    if options.wants(instructions::NAME) {
        // A count hardly differs from run to run; two show that it does not.
        let (text, more) = instructions::run(&options.programs, options.rounds.min(2))?;
        println!("{text}");
        verdicts.extend(more);
    }
    if options.wants(instructions::GATED) {
        println!("{}", instructions::run_gated(&options.programs)?);
    }
    println!("### Targets\n\n{}", table::of_verdicts(&verdicts));
    Ok(())
}
