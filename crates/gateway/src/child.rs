//! Runs a command with bounded output, and with it whatever it starts.

use process_wrap::tokio::{ChildWrapper, CommandWrap, KillOnDrop};
use std::{
    convert::Infallible,
    future::pending,
    io,
    process::{ExitStatus, Stdio},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    process::{ChildStdin, Command},
};

/// How a command ended, and what it said.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    /// What is here of standard error is its beginning.
    pub(crate) stderr_cut: bool,
}

/// Why there is no end to tell of.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    #[error("it could not be started: {0}")]
    NotStarted(#[source] io::Error),
    #[error("it wrote more than {limit} bytes to standard output")]
    Flood { limit: usize },
    #[error("its end was not seen: {0}")]
    Lost(#[from] io::Error),
}

/// Runs a command to its end: it has exited, and its output is closed. Dropping the future kills
/// the command and whatever it started, as does output past the limit; what a command leaves
/// behind that does not hold its output goes on.
///
/// Whether the command reads its input is its own affair.
pub(crate) async fn run(command: Command, input: &[u8], limit: usize) -> Result<Ended, Fault> {
    let mut group = Group::start(command).map_err(Fault::NotStarted)?;
    let (stdin, stdout, stderr) = group.pipes();
    let work = async {
        let (stdout, (stderr, stderr_cut)) =
            tokio::try_join!(whole(stdout, limit), beginning(stderr, limit))?;
        // Not before its output has ended: as long as nobody has waited for the command, the
        // number of its group is its own, and the group can be killed by it.
        let status = group.wait().await?;
        Ok(Ended {
            status,
            stdout,
            stderr,
            stderr_cut,
        })
    };
    tokio::select! {
        ended = work => ended,
        never = feed(stdin, input) => match never {},
    }
}

/// A command and whatever it starts; dropping it kills them all.
#[derive(Debug)]
struct Group {
    child: Box<dyn ChildWrapper>,
    state: Child,
}

#[derive(Debug, PartialEq, Eq)]
enum Child {
    /// Its number is its own, though it may have ended.
    Ours,
    /// It has been waited for, so its number may be somebody else's by now.
    Gone,
}

impl Group {
    fn start(mut command: Command) -> io::Result<Self> {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut command = CommandWrap::from(command);
        command.wrap(KillOnDrop);
        #[cfg(unix)]
        command.wrap(process_wrap::tokio::ProcessGroup::leader());
        Ok(Self {
            child: command.spawn()?,
            state: Child::Ours,
        })
    }

    fn pipes(
        &mut self,
    ) -> (
        Option<ChildStdin>,
        impl AsyncRead + Unpin + use<>,
        impl AsyncRead + Unpin + use<>,
    ) {
        let stdout = self.child.stdout().take().expect("it was asked for");
        let stderr = self.child.stderr().take().expect("it was asked for");
        (self.child.stdin().take(), stdout, stderr)
    }

    async fn wait(&mut self) -> io::Result<ExitStatus> {
        // The inner child is the command alone. The wrapper would go on to wait for its orphans
        // where they become our children, which is where we are the first process of a container.
        let status = self.child.inner_mut().wait().await?;
        self.state = Child::Gone;
        Ok(status)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.state == Child::Gone {
            return;
        }
        // `KillOnDrop` ends the command alone; this signals its whole group.
        if let Err(error) = self.child.start_kill() {
            tracing::debug!(%error, "a process group could not be killed");
        }
    }
}

/// Writes what there is to write, closes the pipe, and leaves the end to others: a command that
/// does not read, or has something behind it that holds the pipe, is not waited for.
async fn feed(stdin: Option<ChildStdin>, input: &[u8]) -> Infallible {
    if let Some(mut stdin) = stdin
        && let Err(error) = stdin.write_all(input).await
    {
        tracing::debug!(%error, "a command did not read all of its input");
    }
    pending().await
}

async fn whole(pipe: impl AsyncRead + Unpin, limit: usize) -> Result<Vec<u8>, Fault> {
    let mut bytes = Vec::new();
    let most = u64::try_from(limit).unwrap_or(u64::MAX);
    let mut pipe = pipe.take(most.saturating_add(1));
    pipe.read_to_end(&mut bytes).await?;
    if bytes.len() > limit {
        return Err(Fault::Flood { limit });
    }
    Ok(bytes)
}

/// The beginning, and whether there was more, which is read and thrown away.
async fn beginning(
    mut pipe: impl AsyncRead + Unpin,
    limit: usize,
) -> Result<(Vec<u8>, bool), Fault> {
    let mut bytes = Vec::new();
    let most = u64::try_from(limit).unwrap_or(u64::MAX);
    (&mut pipe).take(most).read_to_end(&mut bytes).await?;
    let more = tokio::io::copy(&mut pipe, &mut tokio::io::sink()).await?;
    Ok((bytes, more > 0))
}
