//! The end of a control socket that commands use.

use super::{
    place::sockets,
    protocol::{Answer, MOST_ANSWER, PAGE, Request},
};
use crate::{Stop, load::shown};
use anyhow::{Context, anyhow};
use serde_json::Value;
use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::UnixStream,
    time::timeout,
};

/// How long a server may take to answer. It waits for a call that runs for 10 seconds.
const PATIENCE: Duration = Duration::from_secs(30);

/// Which server is meant.
#[derive(clap::Args)]
pub(crate) struct Target {
    /// The control socket of the server [default: that of the only server that runs]
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
}

/// A connection to a server.
pub(crate) struct Client {
    stream: BufReader<UnixStream>,
}

impl Client {
    /// Connects to the server that is meant, or else to the only one of this user.
    pub(crate) async fn connect(target: &Target) -> Result<Self, Stop> {
        let stream = match &target.control {
            Some(path) => UnixStream::connect(path)
                .await
                .with_context(|| format!("no server answers at `{}`", shown(path)))
                .map_err(Stop::Misused)?,
            None => only_one(running(sockets()?).await)?,
        };
        Ok(Self {
            stream: BufReader::new(stream),
        })
    }

    /// Asks for something.
    pub(crate) async fn ask(&mut self, request: &Request) -> Result<Value, Stop> {
        let answered = timeout(PATIENCE, self.exchange(request)).await;
        let answer = answered.map_err(io::Error::from).and_then(|answer| answer);
        // Without its cause: a broken pipe here is a failure, not a reader who has seen enough.
        let answer = answer.map_err(|error| anyhow!("the server does not answer: {error}"));
        match answer? {
            Answer::Ok(done) => Ok(done),
            Answer::Error(why) => Err(Stop::Failed(anyhow!(why))),
        }
    }

    /// All instances that wait for an operator.
    pub(crate) async fn pending(&mut self) -> Result<Vec<Value>, Stop> {
        let mut all: Vec<Value> = Vec::new();
        loop {
            let last = all.last().and_then(|last| last["id"].as_str());
            let after = last.map(str::to_owned);
            let Value::Array(page) = self.ask(&Request::Pending { after }).await? else {
                return Err(Stop::Failed(anyhow!("the server answers something else")));
            };
            let is_last = page.len() < PAGE;
            all.extend(page);
            if is_last {
                return Ok(all);
            }
        }
    }

    async fn exchange(&mut self, request: &Request) -> io::Result<Answer> {
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        self.stream.get_mut().write_all(&line).await?;
        line.clear();
        let most = u64::try_from(MOST_ANSWER).unwrap_or(u64::MAX);
        let mut bounded = (&mut self.stream).take(most);
        bounded.read_until(b'\n', &mut line).await?;
        if line.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(serde_json::from_slice(&line)?)
    }
}

/// Those sockets at which a server listens.
async fn running(sockets: Vec<PathBuf>) -> Vec<(PathBuf, UnixStream)> {
    let mut running = Vec::new();
    for path in sockets {
        if let Ok(stream) = UnixStream::connect(&path).await {
            running.push((path, stream));
        }
    }
    running
}

fn only_one<T>(mut running: Vec<(PathBuf, T)>) -> Result<T, Stop> {
    if running.len() > 1 {
        let paths = running.iter().map(|(path, _)| choice(path));
        let paths: Vec<_> = paths.collect();
        return Err(Stop::Misused(anyhow!(
            "several servers run; say which one is meant:\n{}",
            paths.join("\n")
        )));
    }
    let (_, only) = running.pop().ok_or_else(|| {
        Stop::Misused(anyhow!(
            "no server runs that could be operated; start one with `interlock serve`, or name its \
             control socket with `--control PATH`"
        ))
    })?;
    Ok(only)
}

fn choice(path: &Path) -> String {
    format!("  --control {}", shown(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_found_if_it_is_the_only_one() {
        let path = |name: &str| PathBuf::from(name);
        assert!(matches!(only_one(vec![(path("/a"), 1)]), Ok(1)));
        for (running, words) in [
            (vec![], "no server runs"),
            (
                vec![(path("/a"), 1), (path("/b"), 2)],
                "  --control /a\n  --control /b",
            ),
        ] {
            let Err(Stop::Misused(error)) = only_one(running) else {
                panic!("{words}");
            };
            assert!(error.to_string().contains(words), "{error}");
        }
    }
}
