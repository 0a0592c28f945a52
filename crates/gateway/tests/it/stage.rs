//! A folder for one test, with named pipes by which the test and its commands wait for each other.

use std::{
    fs::File,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};
use tokio::sync::mpsc;

/// How long a test waits for what must come. Only a failing test ever waits that long.
const PATIENCE: Duration = Duration::from_secs(20);

/// A folder that is gone with the test.
pub(crate) struct Stage(PathBuf);

impl Stage {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("interlock-gateway-{}-{count}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir(&folder).unwrap();
        Self(folder)
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.0
    }

    /// A named pipe.
    pub(crate) fn pipe(&self, name: &str) -> PathBuf {
        let path = self.0.join(name);
        let made = Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        path
    }

    /// A named pipe, and what is written into it, line by line; `None` once nobody holds it.
    pub(crate) fn listen(&self, name: &str) -> Heard {
        let path = self.pipe(name);
        let (lines, heard) = mpsc::unbounded_channel();
        // Opening waits for a writer and reading for the last one to go.
        std::thread::spawn(move || {
            let pipe = BufReader::new(File::open(path).unwrap());
            for line in pipe.lines().map_while(Result::ok) {
                let _ = lines.send(line);
            }
        });
        Heard(heard)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What is written into a named pipe.
pub(crate) struct Heard(mpsc::UnboundedReceiver<String>);

impl Heard {
    pub(crate) async fn next(&mut self) -> Option<String> {
        tokio::time::timeout(PATIENCE, self.0.recv())
            .await
            .expect("something must happen to the pipe")
    }
}
