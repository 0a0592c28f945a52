//! Work on one core: this thread and every server that it starts.

use std::fs;
use std::process::{Command, Stdio};
use std::thread;

use anyhow::{Context, Result, bail};

/// Whether this machine has what it takes.
pub(crate) fn is_possible() -> bool {
    let status = Command::new("taskset")
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}

/// Does something on the last core. Children inherit the place of the thread that starts them.
pub(crate) fn on_one_core<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    thread::scope(|scope| {
        let pinned = scope.spawn(|| {
            pin_this_thread()?;
            work()
        });
        match pinned.join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

fn pin_this_thread() -> Result<()> {
    let own = fs::read_link("/proc/thread-self").context("looking for this thread's number")?;
    let thread = own.file_name().context("this thread has a number")?;
    let core = thread::available_parallelism()?.get() - 1;
    let status = Command::new("taskset")
        .args(["--cpu-list", "--pid", &core.to_string()])
        .arg(thread)
        .stdout(Stdio::null())
        .status()
        .context("taskset")?;
    if !status.success() {
        bail!("taskset ended with {status}");
    }
    Ok(())
}
