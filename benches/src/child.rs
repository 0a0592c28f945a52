//! A server as a child process: started, watched over, and ended by its own handle.

use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result, bail};

/// How long a server may take until it listens, and to end once its input has.
const START: Duration = Duration::from_secs(60);
const END: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(5);
/// How much of what a server complains of is kept for the message.
const COMPLAINT: usize = 2_000;

/// A server that runs. It is gone when this is dropped.
pub(crate) struct Running {
    child: Arc<Mutex<Child>>,
    process: u32,
    complaint: Arc<Mutex<Vec<u8>>>,
}

/// Ends the server when its time is up, unless it is dropped before.
pub(crate) struct Watch {
    _over: Sender<()>,
}

/// The two ends of a server's standard input and output.
pub(crate) struct Pipes {
    pub(crate) input: ChildStdin,
    pub(crate) output: ChildStdout,
}

impl Running {
    /// Starts a server that talks over its standard input and output.
    pub(crate) fn over_pipes(command: &mut Command) -> Result<(Self, Pipes)> {
        let (running, pipes) = Self::start(command.stdin(Stdio::piped()).stdout(Stdio::piped()))?;
        let pipes = pipes.context("both pipes were asked for")?;
        Ok((running, pipes))
    }

    /// Starts a server that listens, and waits until it does.
    pub(crate) fn listening(command: &mut Command, address: SocketAddr) -> Result<Self> {
        let (running, _) = Self::start(command.stdin(Stdio::null()).stdout(Stdio::null()))?;
        let deadline = Instant::now() + START;
        while TcpStream::connect(address).is_err() {
            if running.child().try_wait()?.is_some() {
                return Err(running.explained(Error::msg("the server ended by itself")));
            }
            if Instant::now() >= deadline {
                bail!("the server does not listen after {START:?}");
            }
            thread::sleep(PAUSE);
        }
        Ok(running)
    }

    fn start(command: &mut Command) -> Result<(Self, Option<Pipes>)> {
        let program = command.get_program().display().to_string();
        let mut child = command.stderr(Stdio::piped()).spawn().context(program)?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let complaint = Arc::new(Mutex::new(Vec::new()));
        if let Some(pipe) = child.stderr.take() {
            let complaint = Arc::clone(&complaint);
            thread::spawn(move || keep_the_end(pipe, &complaint));
        }
        let running = Self {
            process: child.id(),
            child: Arc::new(Mutex::new(child)),
            complaint,
        };
        let pipes = input
            .zip(output)
            .map(|(input, output)| Pipes { input, output });
        Ok((running, pipes))
    }

    pub(crate) fn process(&self) -> u32 {
        self.process
    }

    /// Gives the server this long from now on, after which it is killed. Whoever waits for it
    /// then sees the end of its pipe or connection.
    pub(crate) fn within(&self, limit: Duration) -> Watch {
        let (sender, over) = mpsc::channel();
        let child = Arc::clone(&self.child);
        thread::spawn(move || {
            if over.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                // It may have ended meanwhile; then there is nothing to kill.
                let _ = lock(&child).kill();
            }
        });
        Watch { _over: sender }
    }

    /// Asks the server to end, and waits until it has. Its pipes must be closed already.
    pub(crate) fn end(self) -> Result<()> {
        let process = self.process.to_string();
        // A server that has ended with its input cannot be told, and need not be.
        let _ = Command::new("kill")
            .args(["-TERM", &process])
            .stderr(Stdio::null())
            .status();
        self.wait()
    }

    /// Waits until the server has ended by itself.
    pub(crate) fn wait(self) -> Result<()> {
        let deadline = Instant::now() + END;
        while self.child().try_wait()?.is_none() {
            if Instant::now() >= deadline {
                bail!("the server has not ended after {END:?}");
            }
            thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// An error together with what the server complained of.
    pub(crate) fn explained(&self, error: Error) -> Error {
        let complaint = lock(&self.complaint);
        let complaint = String::from_utf8_lossy(&complaint);
        let ended = match self.child().try_wait() {
            Ok(Some(status)) => format!("the server has ended with {status}"),
            Ok(None) | Err(_) => "the server still ran".to_owned(),
        };
        error.context(format!("{ended}; it complained: `{}`", complaint.trim()))
    }

    fn child(&self) -> MutexGuard<'_, Child> {
        lock(&self.child)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut child = self.child();
        // It may have ended already; then there is nothing to kill, and waiting returns at once.
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// An address that nobody listens on just now.
pub(crate) fn free_address() -> Result<SocketAddr> {
    let listener =
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("looking for a free port")?;
    Ok(listener.local_addr()?)
}

fn keep_the_end(mut pipe: impl Read, kept: &Mutex<Vec<u8>>) {
    let mut piece = [0; 1_024];
    while let Ok(read @ 1..) = pipe.read(&mut piece) {
        let mut kept = lock(kept);
        kept.extend_from_slice(&piece[..read]);
        let surplus = kept.len().saturating_sub(COMPLAINT);
        kept.drain(..surplus);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::io::Write;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn what_is_written_can_be_read_and_the_end_of_the_input_is_the_end() {
        let (running, pipes) = Running::over_pipes(&mut shell("exec cat")).unwrap();
        let Pipes {
            mut input,
            mut output,
        } = pipes;
        input.write_all(b"a line\n").unwrap();
        drop(input);
        let mut read = String::new();
        output.read_to_string(&mut read).unwrap();
        assert_eq!(read, "a line\n");
        running.wait().unwrap();
    }

    #[test]
    fn a_server_that_takes_too_long_is_killed() {
        let (running, pipes) = Running::over_pipes(&mut shell("exec tail -f /dev/null")).unwrap();
        let _watch = running.within(Duration::ZERO);
        let mut output = pipes.output;
        assert_eq!(output.read_to_end(&mut Vec::new()).unwrap(), 0);
    }

    #[test]
    fn an_error_says_what_the_server_complained_of() {
        let address = free_address().unwrap();
        let mut script = shell("echo it is broken >&2; exit 3");
        let error = Running::listening(&mut script, address).err().unwrap();
        assert!(
            format!("{error:#}").contains("ended by itself"),
            "{error:#}"
        );
        assert!(format!("{error:#}").contains("exit status: 3"), "{error:#}");
    }

    #[test]
    fn a_server_is_asked_to_end() {
        let (running, _pipes) = Running::over_pipes(&mut shell("exec tail -f /dev/null")).unwrap();
        running.end().unwrap();
    }
}
