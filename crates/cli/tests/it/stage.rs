//! A folder for one test, and the binary in it.

use std::{
    fs::File,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        atomic::{AtomicU32, Ordering},
        mpsc,
    },
    time::Duration,
};

/// How long a test waits for what must come. Only a failing test ever waits that long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A folder that is gone with the test.
pub(crate) struct Stage(PathBuf);

/// How the binary ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Stage {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("interlock-cli-{}-{count}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir(&folder).unwrap();
        Self(folder)
    }

    pub(crate) fn with(self, name: &str, text: &str) -> Self {
        std::fs::write(self.0.join(name), text).unwrap();
        self
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The binary, at home in this folder.
    pub(crate) fn interlock(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_interlock"));
        command
            .args(arguments)
            .current_dir(&self.0)
            .env_remove("INTERLOCK_LOG")
            // Sockets for operators are this test's own.
            .env("XDG_RUNTIME_DIR", &self.0)
            .env("TMPDIR", &self.0)
            .stdin(Stdio::null());
        command
    }

    /// Runs the binary to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ended {
        self.run_with(arguments, "")
    }

    /// Runs the binary to its end, with something to read.
    pub(crate) fn run_with(&self, arguments: &[&str], input: &str) -> Ended {
        let mut child = self
            .interlock(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        // It need not read.
        let _ = stdin.write_all(input.as_bytes());
        drop(stdin);
        let output = child.wait_with_output().unwrap();
        Ended {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// A named pipe.
    pub(crate) fn pipe(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        let made = Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        path
    }

    /// A named pipe, and what is written into it.
    pub(crate) fn listen(&self, name: &str) -> Heard {
        let path = self.pipe(name);
        Heard::of(move || File::open(path).unwrap())
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The lines of a stream, as they come.
pub(crate) struct Heard(mpsc::Receiver<String>);

impl Heard {
    /// Opening may wait for the other end, so it happens on a thread of its own.
    pub(crate) fn of<R: std::io::Read>(open: impl FnOnce() -> R + Send + 'static) -> Self {
        let (lines, heard) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(open()).lines().map_while(Result::ok) {
                let _ = lines.send(line);
            }
        });
        Self(heard)
    }

    /// The next line; `None` once there can be no more.
    pub(crate) fn next(&self) -> Option<String> {
        match self.0.recv_timeout(PATIENCE) {
            Ok(line) => Some(line),
            Err(mpsc::RecvTimeoutError::Disconnected) => None,
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("nothing comes"),
        }
    }
}

/// A file of this repository's examples.
pub(crate) fn example(path: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    root.join(path)
}
