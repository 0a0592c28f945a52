//! Examples that serve HTTP for as long as a step needs them.
//!
//! Each is a child process on a free port of the loopback address. It is stopped by its own
//! handle, whether the step succeeds or not.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::workspace::{Profile, Workspace};

/// How long a server may take until it answers.
const START: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(20);
/// How long one attempt to reach it may take.
const ATTEMPT: Duration = Duration::from_secs(2);

/// A server that answers.
pub(crate) struct Running {
    child: Child,
    program: PathBuf,
    address: SocketAddr,
}

impl Running {
    /// Starts a program and waits until it answers. `arguments` are made from its address.
    pub(crate) fn start(program: &Path, arguments: impl Fn(&str) -> Vec<String>) -> Result<Self> {
        let address = free_address()?;
        let child = Command::new(program)
            .args(arguments(&address.to_string()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .with_context(|| program.display().to_string())?;
        let mut running = Self {
            child,
            program: program.to_owned(),
            address,
        };
        running.wait_until_it_answers()?;
        Ok(running)
    }

    /// Where its MCP endpoint is.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Stops it. A server that ended before it was told to is an error.
    pub(crate) fn stop(mut self) -> Result<()> {
        self.still_runs()
    }

    fn wait_until_it_answers(&mut self) -> Result<()> {
        let deadline = Instant::now() + START;
        while !answers(self.address) {
            self.still_runs()?;
            if Instant::now() >= deadline {
                let program = self.program.display();
                bail!("{program} did not answer within {START:?}");
            }
            thread::sleep(PAUSE);
        }
        // Somebody else may have taken the port, and be the one that answers.
        self.still_runs()
    }

    fn still_runs(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => bail!("{} ended by itself with {status}", self.program.display()),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to stop.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The two servers that clients are let loose on.
pub(crate) struct Servers {
    conformance: Running,
    echo: Running,
    echo_program: PathBuf,
}

impl Servers {
    /// Starts both examples, as they were built in the debug profile.
    pub(crate) fn start(workspace: &Workspace) -> Result<Self> {
        let echo_program = workspace.example(Profile::Debug, "echo");
        Ok(Self {
            conformance: conformance(&workspace.example(Profile::Debug, "conformance"))?,
            echo: Running::start(&echo_program, |address| {
                let words = ["--http", address, "--hazards", "--tool-timeout", "2s"];
                words.map(str::to_owned).to_vec()
            })?,
            echo_program,
        })
    }

    /// What a script is told: where both serve, and the program to start for stdio.
    pub(crate) fn arguments(&self) -> Vec<OsString> {
        vec![
            "--conformance".into(),
            self.conformance.url().into(),
            "--echo-url".into(),
            self.echo.url().into(),
            "--echo".into(),
            self.echo_program.clone().into(),
        ]
    }

    /// Stops both.
    pub(crate) fn stop(self) -> Result<()> {
        self.conformance.stop()?;
        self.echo.stop()
    }
}

/// The example that has everything the conformance suite asks for.
pub(crate) fn conformance(program: &Path) -> Result<Running> {
    Running::start(program, |address| vec![address.to_owned()])
}

/// The example in which several clients walk at once: as a program, then as a file.
pub(crate) fn crossroads(workspace: &Workspace) -> impl Iterator<Item = Result<Running>> {
    let file = workspace.root.join("examples/crossroads/interlock.yaml");
    let serve = vec!["serve".to_owned(), file.display().to_string()];
    let ways = [
        (workspace.example(Profile::Debug, "crossroads"), Vec::new()),
        (workspace.built("interlock"), serve),
    ];
    ways.into_iter().map(|(program, words)| {
        Running::start(&program, |address| {
            let place = ["--http", address].map(str::to_owned);
            words.iter().cloned().chain(place).collect()
        })
    })
}

/// The example in which a person is asked before money moves.
pub(crate) fn expenses(workspace: &Workspace) -> Result<Running> {
    let file = workspace.root.join("examples/expenses/interlock.yaml");
    Running::start(&workspace.built("interlock"), |address| {
        let file = file.display().to_string();
        let words = ["serve", &file, "--http", address];
        words.map(str::to_owned).to_vec()
    })
}

/// An address that nobody listens on just now.
fn free_address() -> Result<SocketAddr> {
    let listener =
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("looking for a free port")?;
    Ok(listener.local_addr()?)
}

/// Whether something at this address speaks HTTP, whatever it says.
fn answers(address: SocketAddr) -> bool {
    let ask = || -> std::io::Result<bool> {
        let mut stream = TcpStream::connect_timeout(&address, ATTEMPT)?;
        stream.set_read_timeout(Some(ATTEMPT))?;
        stream.set_write_timeout(Some(ATTEMPT))?;
        let request = format!(
            "POST /mcp HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
             content-length: 2\r\nconnection: close\r\n\r\n{{}}"
        );
        stream.write_all(request.as_bytes())?;
        let mut start = [0; 5];
        stream.read_exact(&mut start)?;
        Ok(&start == b"HTTP/")
    };
    ask().unwrap_or(false)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    /// A program that does what a script says; the address is its `$0`.
    fn shell(script: &'static str) -> Result<Running> {
        Running::start(Path::new("sh"), |address| {
            vec!["-c".to_owned(), script.to_owned(), address.to_owned()]
        })
    }

    #[test]
    fn a_server_that_ends_at_once_is_an_error_that_names_it() {
        let error = shell("exit 3").err().unwrap();
        assert!(error.to_string().contains("sh ended by itself"), "{error}");
    }

    #[test]
    fn an_answer_in_http_is_an_answer() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let serve = |answer: &'static [u8]| {
            let listener = listener.try_clone().unwrap();
            thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let mut request = [0; 4];
                stream.read_exact(&mut request).unwrap();
                stream.write_all(answer).unwrap();
                request
            })
        };
        let server = serve(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        assert!(answers(address));
        assert_eq!(&server.join().unwrap(), b"POST");
        let server = serve(b"SSH-2.0-other\r\n");
        assert!(!answers(address));
        server.join().unwrap();
    }

    #[test]
    fn nobody_answers_at_a_free_address() {
        let address = free_address().unwrap();
        assert!(address.ip().is_loopback());
        assert!(!answers(address));
    }
}
