//! Runs a program with bounded output, and ends it with whatever it has started.

use crate::sweeper::{Mark, Sweeper};
use process_wrap::tokio::{ChildWrapper, CommandWrap, KillOnDrop};
use std::{
    convert::Infallible,
    future::pending,
    io,
    pin::pin,
    process::{ExitStatus, Stdio},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    process::{ChildStdin, Command},
};

/// How long the output of a program that has exited is read on, if something it left behind holds it.
const OUTPUT_GRACE: Duration = Duration::from_millis(500);

/// How a program ended, and what it said.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    /// There was more on standard error.
    pub(crate) stderr_cut: bool,
    /// It had been asked to stop.
    pub(crate) was_asked_to_stop: bool,
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

/// How a program is run.
pub(crate) struct Job<'a, S> {
    pub(crate) command: Command,
    pub(crate) mark: Mark,
    pub(crate) sweeper: &'a Sweeper,
    pub(crate) input: &'a [u8],
    /// How many bytes of output are taken.
    pub(crate) limit: usize,
    /// Completes when the program is to stop.
    pub(crate) stop: S,
}

/// Runs a program until it exits. What it leaves behind goes on.
///
/// When it is to stop, it gets SIGTERM with its process group. Dropping the future kills the program
/// and whatever it started, as does output past the limit. Whether the program reads its input is its
/// own affair.
pub(crate) async fn run<S: Future<Output = ()>>(job: Job<'_, S>) -> Result<Ended, Fault> {
    let group = Group::start(job.command, job.mark, job.sweeper);
    let mut group = group.map_err(Fault::NotStarted)?;
    let (stdin, stdout, stderr) = group.pipes();
    let (mut out, mut err) = (Output::new(job.limit), Output::new(job.limit));
    let status = {
        let mut reading = pin!(async {
            tokio::try_join!(out.read_to_limit(stdout), err.read_all(stderr)).map(|_| ())
        });
        let mut stop = pin!(job.stop);
        let mut feeding = pin!(feed(stdin, job.input));
        let mut has_ended = false;
        let status = loop {
            tokio::select! {
                read = &mut reading, if !has_ended => {
                    read?;
                    has_ended = true;
                }
                status = group.child.inner_mut().wait() => break status?,
                () = &mut stop, if !group.was_asked_to_stop => group.ask_to_stop(),
                never = &mut feeding => match never {},
            }
        };
        group.has_exited = true;
        if !has_ended && let Ok(read) = tokio::time::timeout(OUTPUT_GRACE, reading).await {
            read?;
        }
        status
    };
    Ok(Ended {
        status,
        stdout: out.bytes,
        stderr: err.bytes,
        stderr_cut: err.is_cut,
        was_asked_to_stop: group.was_asked_to_stop,
    })
}

/// A program and whatever it starts. Dropped before its end is known, it kills them all.
struct Group<'a> {
    child: Box<dyn ChildWrapper>,
    mark: Mark,
    sweeper: &'a Sweeper,
    /// Then its number may be another process's.
    has_exited: bool,
    was_asked_to_stop: bool,
}

impl<'a> Group<'a> {
    fn start(mut command: Command, mark: Mark, sweeper: &'a Sweeper) -> io::Result<Self> {
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
            mark,
            sweeper,
            has_exited: false,
            was_asked_to_stop: false,
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

    /// Sends SIGTERM to the group. Where there is no such signal, nothing happens until it is killed.
    fn ask_to_stop(&mut self) {
        self.was_asked_to_stop = true;
        #[cfg(unix)]
        {
            const SIGTERM: i32 = 15;
            if let Err(error) = self.child.signal(SIGTERM) {
                tracing::debug!(%error, "a process group could not be asked to stop");
            }
        }
    }
}

impl Drop for Group<'_> {
    fn drop(&mut self) {
        if self.has_exited && !self.was_asked_to_stop {
            return;
        }
        // `KillOnDrop` ends the program alone; this signals its whole group.
        if !self.has_exited
            && let Err(error) = self.child.start_kill()
        {
            tracing::debug!(%error, "a process group could not be killed");
        }
        self.sweeper.end(&self.mark);
    }
}

/// Writes what there is to write, closes the pipe, and leaves the end to others: a program that
/// does not read, or has something behind it that holds the pipe, is not waited for.
async fn feed(stdin: Option<ChildStdin>, input: &[u8]) -> Infallible {
    if let Some(mut stdin) = stdin
        && let Err(error) = stdin.write_all(input).await
    {
        tracing::debug!(%error, "a program did not read all of its input");
    }
    pending().await
}

/// What has been read of a pipe. It is kept if reading has to be given up.
struct Output {
    bytes: Vec<u8>,
    limit: usize,
    is_cut: bool,
}

impl Output {
    const fn new(limit: usize) -> Self {
        Self {
            bytes: Vec::new(),
            limit,
            is_cut: false,
        }
    }

    /// Reads everything. More than the limit is an error.
    async fn read_to_limit(&mut self, pipe: impl AsyncRead + Unpin) -> Result<(), Fault> {
        let limit = self.limit;
        let most = u64::try_from(limit).unwrap_or(u64::MAX);
        let mut pipe = pipe.take(most.saturating_add(1));
        pipe.read_to_end(&mut self.bytes).await?;
        match self.bytes.len() > limit {
            true => Err(Fault::Flood { limit }),
            false => Ok(()),
        }
    }

    /// Reads everything, and keeps what comes up to the limit.
    async fn read_all(&mut self, mut pipe: impl AsyncRead + Unpin) -> Result<(), Fault> {
        let most = u64::try_from(self.limit).unwrap_or(u64::MAX);
        (&mut pipe).take(most).read_to_end(&mut self.bytes).await?;
        let more = tokio::io::copy(&mut pipe, &mut tokio::io::sink()).await?;
        self.is_cut = more > 0;
        Ok(())
    }
}
