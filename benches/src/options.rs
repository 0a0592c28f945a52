//! The command line of `bench`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::contestant::{Peer, Programs};

pub(crate) const USAGE: &str = "\
usage: bench [NAME…] [OPTION…]

  --rounds N            how often each server is measured (9)
  --seconds N           how long each measurement takes (0.5)
  --quick               one short round, to see that everything works
  --growth              say what becomes of a call as load, texts and lists grow, and nothing else
  --soak MINUTES        say what becomes of memory under so many minutes of load, over stdio and
                        over HTTP at the same time, and nothing else
  --plots FOLDER        where these two put their charts (docs/performance)
  --profile             say where the instructions of our server go, and nothing else
  --ours PROGRAM        the example `echo`, if it is not beside this program
  --peer NAME INTERPRETER SCRIPT
                        one more server, in another language; `cargo xtask bench --peers` adds
                        those of the official Python and TypeScript SDKs
";

/// What is to be done.
#[derive(Debug, PartialEq)]
pub(crate) struct Options {
    /// Rows that are wanted; all of them if there is none.
    pub(crate) names: Vec<String>,
    pub(crate) rounds: usize,
    pub(crate) seconds: f64,
    pub(crate) quick: bool,
    pub(crate) profile: bool,
    pub(crate) growth: bool,
    pub(crate) soak: Option<f64>,
    pub(crate) plots: PathBuf,
    pub(crate) programs: Programs,
}

impl Options {
    /// Reads the command line. Programs that it does not name lie in `folder`.
    pub(crate) fn parse(
        arguments: impl IntoIterator<Item = String>,
        folder: &Path,
    ) -> Result<Self> {
        let program = |name: &str| folder.join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
        let mut options = Self {
            names: Vec::new(),
            rounds: 9,
            seconds: 0.5,
            quick: false,
            profile: false,
            growth: false,
            soak: None,
            plots: PathBuf::from("docs/performance"),
            programs: Programs {
                ours: program("examples/echo"),
                limit: program("limit"),
                rmcp: program("rmcp_echo"),
                peers: Vec::new(),
            },
        };
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let mut value = || {
                let value = arguments.next();
                value.with_context(|| format!("`{argument}` needs a value"))
            };
            match argument.as_str() {
                "--rounds" => options.rounds = number(&value()?)?,
                "--seconds" => options.seconds = number(&value()?)?,
                "--quick" => {
                    (options.rounds, options.seconds, options.quick) = (1, 0.2, true);
                }
                "--profile" => options.profile = true,
                "--growth" => options.growth = true,
                "--soak" => options.soak = Some(minutes(&value()?)?),
                "--plots" => options.plots = PathBuf::from(value()?),
                "--ours" => options.programs.ours = PathBuf::from(value()?),
                "--peer" => options.programs.peers.push(Peer {
                    name: value()?,
                    interpreter: value()?.into(),
                    script: value()?.into(),
                }),
                unknown if unknown.starts_with('-') => bail!("`{unknown}` is not an option"),
                name => options.names.push(name.to_owned()),
            }
        }
        if options.rounds == 0 || !(0.01..=600.0).contains(&options.seconds) {
            bail!("there is at least one round, and one takes from 0.01 to 600 seconds");
        }
        Ok(options)
    }

    /// Whether something of this name is wanted.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|wanted| wanted == name)
    }
}

fn minutes(text: &str) -> Result<f64> {
    let minutes: f64 = number(text)?;
    if !(0.05..=10_000.0).contains(&minutes) {
        bail!("`{text}` is not a number of minutes from 0.05 to 10,000");
    }
    Ok(minutes)
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T> {
    text.parse()
        .ok()
        .with_context(|| format!("`{text}` is not a number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options> {
        let words = line.split_whitespace().map(str::to_owned);
        Options::parse(words, Path::new("release"))
    }

    #[test]
    fn programs_lie_beside_each_other_unless_said_otherwise() {
        let options = parse("").unwrap();
        assert!(options.programs.limit.starts_with("release"));
        assert!(options.wants("stdio") && options.wants("anything"));
        let options = parse("stdio --ours other/echo --rounds 5").unwrap();
        assert_eq!(options.programs.ours, Path::new("other/echo"));
        assert_eq!((options.rounds, options.wants("http")), (5, false));
    }

    #[test]
    fn a_peer_has_a_name_an_interpreter_and_a_script() {
        let options = parse("--peer Python python3 echo.py").unwrap();
        assert_eq!(options.programs.peers[0].name, "Python");
        assert!(parse("--peer Python python3").is_err());
    }

    #[test]
    fn what_makes_no_sense_is_an_error() {
        for line in [
            "--rounds",
            "--rounds 0",
            "--rounds many",
            "--seconds 0",
            "--soak 0",
            "--x",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
        assert!(parse("--soak 10").is_ok_and(|options| options.soak == Some(10.0)));
    }
}
