//! A server in a process of its own, behind real pipes.

use crate::{Client, soon, web::Web};
use std::{
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader},
    process::{Child, ChildStderr},
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
    child: Child,
    stderr: JoinHandle<String>,
}

/// Starts a server, and gives the client on the other end of its pipes.
///
/// # Panics
///
/// If it does not start.
#[must_use]
pub fn spawn(executable: &Path, arguments: &[&str]) -> (Client, Process) {
    let mut child = start(executable, arguments);
    let to_server = child.stdin.take().expect("stdin is a pipe");
    let from_server = child.stdout.take().expect("stdout is a pipe");
    let errors = child.stderr.take().expect("stderr is a pipe");
    let client = Client::over(from_server, to_server);
    let stderr = collect(BufReader::new(errors));
    (client, Process { child, stderr })
}

/// Starts a server that says on stderr where it listens, and gives a client of it.
///
/// # Panics
///
/// If it does not start, or does not say so.
pub async fn spawn_site(executable: &Path, arguments: &[&str]) -> (Web, Process) {
    let mut child = start(executable, arguments);
    let errors = child.stderr.take().expect("stderr is a pipe");
    let mut errors = BufReader::new(errors);
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

fn start(executable: &Path, arguments: &[&str]) -> Child {
    tokio::process::Command::new(executable)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("the server must start")
}

fn collect(mut errors: BufReader<ChildStderr>) -> JoinHandle<String> {
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
        let id = self.child.id().expect("the server must be running");
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
        let status = soon("the server must end", self.child.wait()).await;
        let stderr = soon("stderr must end", self.stderr).await;
        (
            status.expect("a child can be waited for"),
            stderr.expect("stderr can be read"),
        )
    }
}
