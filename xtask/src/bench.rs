//! The task `bench`: builds what is compared as it is shipped, and runs the comparison.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::npm::Npm;
use crate::process;
use crate::python::Client;
use crate::workspace::{Profile, Workspace};

/// The part that measures single functions, by `cargo bench`.
const MICRO: &str = "micro";
const PEERS: &str = "--peers";

/// What is to be measured.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Options {
    micro: bool,
    wire: bool,
    /// Whether servers in other languages take part.
    peers: bool,
    /// What the benchmark is told.
    words: Vec<String>,
}

impl Options {
    /// Names and options are the benchmark's own; it knows which there are.
    pub(crate) fn parse(arguments: &[String]) -> Self {
        let takes_value = |word: &str| ["--rounds", "--seconds", "--soak"].contains(&word);
        let mut options = Self::default();
        let (mut names, mut is_value) = (0, false);
        for argument in arguments {
            let is_name = !is_value && !argument.starts_with('-');
            is_value = takes_value(argument);
            names += usize::from(is_name);
            if is_name && argument == MICRO {
                options.micro = true;
            } else if argument == PEERS {
                options.peers = true;
            } else {
                options.wire |= is_name;
                options.words.push(argument.clone());
            }
        }
        if names == 0 {
            let whole = !arguments.iter().any(|word| is_part(word));
            (options.micro, options.wire) = (whole, true);
        }
        options
    }
}

/// Whether an option asks for something of its own instead of the usual rows.
fn is_part(word: &str) -> bool {
    ["--growth", "--soak", "--profile", "--help"].contains(&word)
}

pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    if options.wire {
        let ours = build(workspace)?;
        let program = format!("bench{}", std::env::consts::EXE_SUFFIX);
        let mut bench = Command::new(workspace.target.join("dist").join(program));
        bench
            .current_dir(&workspace.root)
            .args(&options.words)
            .arg("--ours")
            .arg(ours);
        if options.peers {
            add_python(workspace, &mut bench)?;
            add_typescript(workspace, &mut bench)?;
        }
        process::run(&mut bench)?;
    }
    if options.micro {
        for package in ["interlock-proto", "interlock-workflow"] {
            process::run(process::cargo(workspace).args(["bench", "-p", package]))?;
        }
    }
    Ok(())
}

fn add_python(workspace: &Workspace, bench: &mut Command) -> Result<()> {
    let python = Client::installed(workspace)?.python();
    // What the interpreter is told is inherited.
    for (name, value) in python.get_envs() {
        bench.env(
            name,
            value.context("nothing is taken away from its environment")?,
        );
    }
    bench
        .args(["--peer", "Python SDK"])
        .arg(python.get_program())
        .arg(workspace.root.join("benches/peers/echo.py"));
    Ok(())
}

fn add_typescript(workspace: &Workspace, bench: &mut Command) -> Result<()> {
    let script = workspace.root.join("benches/peers/echo.mjs");
    let (node, script) = Npm::installed(workspace)?.placed(&script)?;
    bench
        .args(["--peer", "TypeScript SDK"])
        .arg(node)
        .arg(script);
    Ok(())
}

/// Builds one after the other, since packages that are built together share their features.
fn build(workspace: &Workspace) -> Result<PathBuf> {
    for what in [
        &["interlock-benches"][..],
        &["mcp-interlock", "--example", "echo"],
    ] {
        let mut cargo = process::cargo(workspace);
        cargo.args(["build", "--profile", "dist", "--locked", "--quiet", "-p"]);
        process::run(cargo.args(what))?;
    }
    Ok(workspace.example(Profile::Dist, "echo"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Options {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Options::parse(&words)
    }

    #[test]
    fn without_a_name_everything_is_measured() {
        let all = parse("--rounds 3 --quick");
        assert!(all.micro && all.wire);
        assert_eq!(all.words, ["--rounds", "3", "--quick"]);
    }

    #[test]
    fn names_choose_what_is_measured() {
        let micro = parse("micro");
        assert!(micro.micro && !micro.wire && micro.words.is_empty());
        let one = parse("stdio --rounds 5");
        assert!(!one.micro && one.wire);
        let peers = parse("stdio --peers");
        assert!(peers.peers && peers.words == ["stdio"]);
        let both = parse("micro stdio");
        assert!(both.micro && both.wire);
        assert_eq!(both.words, ["stdio"]);
    }

    #[test]
    fn a_part_of_its_own_is_all_that_is_done() {
        for part in ["--growth", "--soak 10", "--profile"] {
            let options = parse(part);
            assert!(!options.micro && options.wire, "{part}");
        }
    }
}
