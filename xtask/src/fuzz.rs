//! `cargo xtask fuzz`: hostile bytes for everything that reads what others wrote.
//!
//! The targets are in `fuzz/`, a workspace of its own. What they begin with is in `fuzz/seeds`;
//! what they learn stays below the target folder. A finding belongs in `fuzz/regressions`, where
//! an ordinary test replays it for good.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process;
use crate::tools;
use crate::workspace::Workspace;

const TARGETS: &[&str] = &["frame", "guard", "modern", "workflow_file"];
const DEFAULT_SECONDS: u64 = 60;
/// One input may not take longer than this, nor need more memory.
const MOST_SECONDS: u64 = 5;
const MOST_MEGABYTES: u64 = 1024;

/// What to fuzz, and for how long each.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Options {
    targets: Vec<&'static str>,
    seconds: u64,
}

impl Options {
    pub(crate) fn parse(arguments: &[String]) -> Result<Self> {
        let mut targets = Vec::new();
        let mut seconds = DEFAULT_SECONDS;
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            if word == "--seconds" {
                let given = words.next().context("--seconds needs a number")?;
                seconds = given.parse().context("--seconds needs a number")?;
            } else {
                let known = TARGETS.iter().find(|target| *target == word);
                let known = known.with_context(|| {
                    format!("no target `{word}`; there are: {}", TARGETS.join(", "))
                })?;
                targets.push(*known);
            }
        }
        if targets.is_empty() {
            targets = TARGETS.to_vec();
        }
        Ok(Self { targets, seconds })
    }
}

pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    let program = tools::FUZZ.installed(workspace)?;
    for target in &options.targets {
        println!("[{target}] {} s", options.seconds);
        fuzz(workspace, &program, target, options.seconds)?;
    }
    Ok(())
}

/// Checks that all targets compile. It needs no fuzzer, and nothing but cargo.
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    let words = "clippy --manifest-path fuzz/Cargo.toml --all-targets --locked";
    process::run(
        process::cargo(workspace)
            .args(words.split(' '))
            .arg("--target-dir")
            .arg(workspace.target.join("fuzz/check"))
            .args(["--", "-D", "warnings"])
            // The libFuzzer to link, in place of one that a C++ compiler would have to build.
            // Nothing is linked here.
            .env("CUSTOM_LIBFUZZER_PATH", "none/libfuzzer.a"),
    )
}

fn fuzz(workspace: &Workspace, program: &Path, target: &str, seconds: u64) -> Result<()> {
    let source = workspace.root.join("fuzz");
    let below = workspace.target.join("fuzz");
    let learnt = below.join("corpus").join(target);
    let found = below.join("findings").join(target);
    for folder in [&learnt, &found] {
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    let mut command = Command::new(program);
    command
        .args(["fuzz", "run", target])
        // Our crates forbid unsafe code, so a sanitizer would only halve the speed.
        .args(["--sanitizer", "none"])
        .arg("--fuzz-dir")
        .arg(&source)
        .arg("--target-dir")
        .arg(below.join("build"))
        .arg(&learnt)
        .arg(source.join("seeds").join(target))
        .arg("--")
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-timeout={MOST_SECONDS}"))
        .arg(format!("-rss_limit_mb={MOST_MEGABYTES}"))
        .arg(format!("-artifact_prefix={}/", found.display()))
        .args(["-print_final_stats=1", "-print_funcs=0"])
        // Coverage is an unstable flag of a compiler that is otherwise the same.
        .env("RUSTC_BOOTSTRAP", "1")
        .current_dir(&workspace.root);
    if let Err(error) = process::run(&mut command) {
        bail!(
            "{error:#}\nif there is an input in {}, copy it to fuzz/regressions/{target}, where \
             `cargo test -p xtask` replays it, and put right what it shows",
            found.display()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options> {
        let words: Vec<_> = line.split_whitespace().map(str::to_owned).collect();
        Options::parse(&words)
    }

    #[test]
    fn all_targets_run_a_minute_each_unless_told_otherwise() {
        let all = parse("").unwrap();
        assert_eq!((all.targets, all.seconds), (TARGETS.to_vec(), 60));
        let one = parse("modern --seconds 5").unwrap();
        assert_eq!((one.targets, one.seconds), (vec!["modern"], 5));
    }

    #[test]
    fn a_target_or_number_that_is_none_is_an_error() {
        for line in ["frames", "--seconds", "--seconds soon", "--hours 1"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn every_target_has_its_check_and_its_seeds() {
        let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz");
        let targets = fs::read_dir(fuzz.join("fuzz_targets")).unwrap();
        assert_eq!(targets.count(), TARGETS.len(), "each file is a target");
        for target in TARGETS {
            for folder in ["fuzz_targets", "checks"] {
                assert!(fuzz.join(folder).join(format!("{target}.rs")).exists());
            }
            assert!(fuzz.join("seeds").join(target).is_dir());
        }
    }
}
