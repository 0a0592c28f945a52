//! A server in a process of its own, behind real pipes.

use crate::{Client, soon, web::Web};
use std::{
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader},
    net::unix::pipe::{Receiver, Sender},
    task::JoinHandle,
};

/// The executable of an example of this workspace, built if need be.
///
/// # Panics
///
/// If it cannot be built.
#[must_use]
pub fn example(package: &str, name: &str) -> PathBuf {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    // The tests themselves are in `TARGET/PROFILE/deps`.
    let tests = std::env::current_exe().expect("a test has an executable");
    let profile = tests.ancestors().nth(2).expect("it is in a profile");
    let target = profile.parent().expect("a profile is in a target folder");
    let release = profile.ends_with("release").then_some("--release");
    let built = Command::new(cargo)
        .args(["build", "--quiet", "--message-format=json"])
        .args(["--package", package, "--example", name])
        .args(release)
        .arg("--target-dir")
        .arg(target)
        .stderr(Stdio::inherit())
        .output()
        .expect("cargo must run");
    let text = String::from_utf8(built.stdout).expect("cargo speaks UTF-8");
    let executable = text.lines().rev().find_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        let path = message["executable"].as_str()?;
        (message["target"]["name"] == name).then(|| PathBuf::from(path))
    });
    executable.expect("the example must build")
}

/// A server in a process of its own. It is killed if the test forgets it.
#[derive(Debug)]
pub struct Process {
    child: Killed,
    stderr: JoinHandle<String>,
}

/// A process that does not outlive whoever started it.
#[derive(Debug)]
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // One that has been waited for is not killed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a server, and gives the client on the other end of its pipes.
///
/// # Panics
///
/// If it does not start.
#[must_use]
pub fn spawn(executable: &Path, arguments: &[&str]) -> (Client, Process) {
    let mut child = start(executable, arguments);
    let to_server = child.0.stdin.take().expect("stdin is a pipe");
    let to_server = Sender::from_owned_fd(to_server.into()).expect("stdin is a pipe");
    let from_server = receiver(child.0.stdout.take());
    let stderr = collect(BufReader::new(receiver(child.0.stderr.take())));
    let client = Client::over(from_server, to_server);
    (client, Process { child, stderr })
}

/// Starts a server that says on stderr where it listens, and gives a client of it.
///
/// # Panics
///
/// If it does not start, or does not say so.
pub async fn spawn_site(executable: &Path, arguments: &[&str]) -> (Web, Process) {
    let mut child = start(executable, arguments);
    let mut errors = BufReader::new(receiver(child.0.stderr.take()));
    let mut line = String::new();
    let read = soon(
        "the server must say where it is",
        errors.read_line(&mut line),
    )
    .await;
    read.expect("stderr can be read");
    let address = line.split_once("http://").and_then(|(_, rest)| {
        let end = rest.find('/')?;
        rest[..end].parse().ok()
    });
    let address = address.unwrap_or_else(|| panic!("no address in {line:?}"));
    let stderr = collect(errors);
    (Web::at(address), Process { child, stderr })
}

/// Without tokio's own processes: what it does for them on every turn of its loop would be part of the
/// examples that are built with these tests, and measured.
fn start(executable: &Path, arguments: &[&str]) -> Killed {
    let child = Command::new(executable)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    Killed(child.expect("the server must start"))
}

fn receiver(pipe: Option<impl Into<OwnedFd>>) -> Receiver {
    let pipe = pipe.expect("it has been asked for").into();
    Receiver::from_owned_fd(pipe).expect("it is a pipe")
}

fn collect(mut errors: BufReader<Receiver>) -> JoinHandle<String> {
    tokio::spawn(async move {
        let mut text = Vec::new();
        let _ = errors.read_to_end(&mut text).await;
        String::from_utf8_lossy(&text).into_owned()
    })
}

impl Process {
    /// Asks it to stop, as SIGTERM does.
    ///
    /// # Panics
    ///
    /// If it has stopped already.
    pub fn terminate(&self) {
        let id = self.child.0.id();
        let sent = Command::new("kill")
            .args(["-TERM", &id.to_string()])
            .status();
        assert!(sent.expect("kill must run").success());
    }

    /// Waits until it has ended, and gives what it wrote to stderr.
    ///
    /// # Panics
    ///
    /// If it does not end.
    pub async fn ended(mut self) -> (ExitStatus, String) {
        let stderr = soon("the server must end", &mut self.stderr).await;
        // Its last pipe is closed, so it has ended or is about to.
        let status = self.child.0.wait();
        (
            status.expect("a child can be waited for"),
            stderr.expect("stderr can be read"),
        )
    }
}
