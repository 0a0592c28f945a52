//! Ends what commands have started and left behind.
//!
//! A process group can be killed by its number, but a process may leave its group, and a server that
//! is killed kills nobody. So every command has a mark in its environment, which whatever it starts
//! inherits, and one small shell per server knows how to find a mark. It ends the processes of a call
//! when it is told to, and those of all calls when its input ends: when the server is gone, however
//! it went. Processes are found by their environment in `/proc`, so this works on Linux alone.

use std::{
    hash::{BuildHasher, RandomState},
    sync::atomic::{AtomicU64, Ordering},
};

/// The variable that holds the mark.
pub(crate) const VARIABLE: &str = "INTERLOCK_CALL";

/// Finds and ends the processes of one server's commands.
#[derive(Debug)]
pub(crate) struct Sweeper {
    /// What the marks of this server begin with.
    server: String,
    calls: AtomicU64,
    #[cfg(target_os = "linux")]
    shell: std::sync::OnceLock<Option<std::fs::File>>,
}

/// The mark of one call's processes.
#[derive(Clone, Debug)]
pub(crate) struct Mark(String);

impl Mark {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for Sweeper {
    fn default() -> Self {
        let random = RandomState::new().hash_one(std::process::id());
        Self {
            server: format!("{}.{random:016x}.", std::process::id()),
            calls: AtomicU64::new(0),
            #[cfg(target_os = "linux")]
            shell: std::sync::OnceLock::new(),
        }
    }
}

impl Sweeper {
    /// A mark for the processes of a new call. From now on they end with the server at the latest.
    pub(crate) fn mark(&self) -> Mark {
        #[cfg(target_os = "linux")]
        self.shell.get_or_init(|| linux::start(&self.server));
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        // No mark is the beginning of another one.
        Mark(format!("{}{number}.", self.server))
    }

    /// Ends every process that has the mark.
    #[cfg(target_os = "linux")]
    pub(crate) fn end(&self, mark: &Mark) {
        use std::io::Write;
        if let Some(Some(mut shell)) = self.shell.get().map(Option::as_ref)
            && let Err(error) = shell.write_all(format!("{}\n", mark.0).as_bytes())
        {
            tracing::warn!(%error, "the processes of a command could not be looked for");
        }
    }

    /// Ends every process that has the mark.
    #[cfg(not(target_os = "linux"))]
    #[allow(clippy::unused_self, reason = "there is no way to find them")]
    pub(crate) fn end(&self, _: &Mark) {}
}

#[cfg(target_os = "linux")]
mod linux {
    use super::VARIABLE;
    use std::{fs::File, process::Stdio};
    use tokio::process::Command;

    /// A process that is found may start another one before it is killed, so it looks again.
    const SCRIPT: &str = r#"
        trap '' HUP INT TERM
        end() {
            for _ in 1 2 3 4 5; do
                found=$(grep -lsF -- "$1" /proc/[0-9]*/environ)
                [ -n "$found" ] || return
                for path in $found; do
                    path=${path#/proc/}
                    kill -KILL "${path%/environ}" 2>/dev/null
                done
            done
        }
        while read -r mark; do end "$1=$mark"; done
        end "$1=$2"
    "#;

    /// Starts the shell, and gives the pipe by which it is told what to end.
    pub(super) fn start(server: &str) -> Option<File> {
        let mut shell = Command::new("sh");
        shell
            .args(["-c", SCRIPT, "interlock-sweeper", VARIABLE, server])
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // What is typed at a terminal is for the server alone.
            .process_group(0)
            .current_dir("/");
        if let Some(path) = std::env::var_os("PATH") {
            shell.env("PATH", path);
        }
        let started = shell.spawn().and_then(|mut shell| {
            let input = shell.stdin.take().expect("it was asked for");
            input.into_owned_fd()
        });
        match started {
            Ok(input) => Some(input.into()),
            Err(error) => {
                tracing::warn!(%error, "commands that outlive the server will not be ended");
                None
            }
        }
    }
}
