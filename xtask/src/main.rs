//! Tasks of development: `cargo xtask test` is what CI and a newcomer run.
//!
//! Everything a task installs lives in the target folder, and every process it starts is gone
//! when it ends. Nothing here is part of what users get.
#![expect(
    clippy::print_stdout,
    reason = "what a task prints is what it is run for"
)]

mod bench;
mod clients;
mod conformance;
mod examples;
mod fuzz;
mod mutants;
mod npm;
mod plant;
mod process;
mod python;
mod server;
mod steps;
mod tidy;
mod tools;
mod workspace;

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::steps::{OnFailure, OnSkip, STEPS};
use crate::workspace::Workspace;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &[String]) -> Result<ExitCode> {
    match arguments.split_first() {
        Some((task, rest)) if task == "test" => test(rest),
        Some((task, rest)) if task == "tidy" => {
            tidy::task(&Workspace::load()?, rest)?;
            Ok(ExitCode::SUCCESS)
        }
        Some((task, rest)) if task == "plant" => {
            plant::run(&Workspace::load()?, rest)?;
            Ok(ExitCode::SUCCESS)
        }
        Some((task, rest)) if task == "mutants" => {
            let options = mutants::Options::parse(rest)?;
            Ok(if mutants::run(&Workspace::load()?, &options)? {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            })
        }
        Some((task, rest)) if task == "fuzz" => {
            let options = fuzz::Options::parse(rest)?;
            fuzz::run(&Workspace::load()?, &options)?;
            Ok(ExitCode::SUCCESS)
        }
        Some((task, rest)) if task == "bench" => {
            bench::run(&Workspace::load()?, &bench::Options::parse(rest))?;
            Ok(ExitCode::SUCCESS)
        }
        Some((task, [])) if task == "help" || task == "--help" => {
            println!("{}", help());
            Ok(ExitCode::SUCCESS)
        }
        Some((task, _)) => bail!("no task `{task}`\n\n{}", help()),
        None => bail!("which task?\n\n{}", help()),
    }
}

fn test(arguments: &[String]) -> Result<ExitCode> {
    let mut on_failure = OnFailure::Stop;
    let mut names = Vec::new();
    for argument in arguments {
        match argument.as_str() {
            "--keep-going" => on_failure = OnFailure::KeepGoing,
            "--help" => {
                println!("{}", help());
                return Ok(ExitCode::SUCCESS);
            }
            name => names.push(name),
        }
    }
    let steps = steps::choose(STEPS, &names)?;
    let workspace = Workspace::load()?;
    let summary = steps::run(&steps, &workspace, on_failure, OnSkip::from_environment());
    println!("\n{summary}");
    Ok(if summary.succeeded() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

const TASKS: &str = "\
cargo xtask tidy [--arrows]                the step `tidy`, or which rooms of the server know which
cargo xtask plant [NAME…]                  plant each known bug, or those named, and see it caught
cargo xtask mutants [--file F…] [--jobs N] [--list]
                                           change the machines bit by bit and see it noticed
cargo xtask fuzz [TARGET…] [--seconds N]   feed hostile bytes to all readers, or those named
cargo xtask bench [NAME…] [OPTION…]        measure the wire beside others, and single functions;
                                           `cargo xtask bench --help` tells the options
cargo xtask help                           show this

";

fn help() -> String {
    let mut text = String::from(
        "cargo xtask test [--keep-going] [STEP…]    run all steps, or those named, in this order:\n",
    );
    for step in STEPS {
        text.push_str(&format!("    {:<11} {}\n", step.name, step.about));
    }
    text.push_str(TASKS);
    text.push_str("INTERLOCK_NO_SKIP=1   what cannot run here, step or test, is a failure\n");
    text.push_str("UPDATE_EXPECT=1       rewrite the stored output of the examples");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_names_every_step_and_task() {
        let help = help();
        for step in STEPS {
            assert!(help.contains(step.name), "{} is missing", step.name);
        }
        for task in ["test", "tidy", "plant", "mutants", "fuzz", "bench", "help"] {
            assert!(help.contains(&format!("cargo xtask {task}")), "{task}");
        }
    }

    #[test]
    fn an_unknown_task_or_step_is_an_error() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let unknown_task = run(&words("tset")).unwrap_err();
        assert!(unknown_task.to_string().contains("no task `tset`"));
        let unknown_step = run(&words("test fmt")).unwrap_err();
        assert!(unknown_step.to_string().contains("no step `fmt`"));
    }
}
