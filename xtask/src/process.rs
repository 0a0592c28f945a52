//! Running other programs: loudly, for their output, or with a deadline.

use std::ffi::OsString;
use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::workspace::Workspace;

/// The cargo that runs us, in the root of the workspace.
pub(crate) fn cargo(workspace: &Workspace) -> Command {
    let mut command = Command::new(cargo_path());
    command.current_dir(&workspace.root);
    command
}

/// The cargo that runs us, or the one in the path.
pub(crate) fn cargo_path() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"))
}

/// Runs a program whose output the reader should see. Anything but success is an error.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| name(command))?;
    if !status.success() {
        bail!("{} ended with {status}", name(command));
    }
    Ok(())
}

/// Runs a program for what it prints; what it complains of becomes the error.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| name(command))?;
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        bail!(
            "{} ended with {}: {}",
            name(command),
            output.status,
            complaint.trim()
        );
    }
    String::from_utf8(output.stdout).with_context(|| format!("output of {}", name(command)))
}

/// Like [`run`], but a program that is not done within `limit` is killed.
pub(crate) fn run_within(command: &mut Command, limit: Duration) -> Result<()> {
    let child = command.spawn().with_context(|| name(command))?;
    let status = wait(child, limit).with_context(|| name(command))?;
    succeeded(command, status, limit)
}

/// What a program prints on stdout, if it succeeds within `limit`; otherwise it is killed.
pub(crate) fn output_within(command: &mut Command, limit: Duration) -> Result<String> {
    let (status, printed) = ended_within(command, limit)?;
    succeeded(command, status, limit)?;
    Ok(printed)
}

/// How a program ended and what it printed on stdout. There is no status if it was killed because
/// it was not done within `limit`.
pub(crate) fn ended_within(
    command: &mut Command,
    limit: Duration,
) -> Result<(Option<ExitStatus>, String)> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| name(command))?;
    let mut pipe = child.stdout.take().expect("stdout was piped just now");
    let (sender, printed) = mpsc::channel();
    thread::spawn(move || {
        let mut text = String::new();
        let read = pipe.read_to_string(&mut text).map(|_| text);
        // Nobody listens any more if reading took too long.
        let _ = sender.send(read);
    });
    let status = wait(child, limit).with_context(|| name(command))?;
    // The pipe stays open for as long as anything that the program started holds it.
    let printed = printed
        .recv_timeout(Duration::from_secs(5))
        .with_context(|| format!("{} left a process behind", name(command)))?
        .with_context(|| format!("output of {}", name(command)))?;
    Ok((status, printed))
}

fn succeeded(command: &Command, status: Option<ExitStatus>, limit: Duration) -> Result<()> {
    match status {
        Some(status) if status.success() => Ok(()),
        Some(status) => bail!("{} ended with {status}", name(command)),
        None => bail!(
            "{} was killed, because it was not done within {limit:?}",
            name(command)
        ),
    }
}

fn wait(mut child: Child, limit: Duration) -> Result<Option<ExitStatus>> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// The command as one would type it, for messages.
fn name(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy()];
    words.extend(command.get_args().map(|word| word.to_string_lossy()));
    format!("`{}`", words.join(" "))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_millis(50);
    const LONG: Duration = Duration::from_secs(30);

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn what_a_program_prints_is_returned_whole() {
        let printed = output_within(&mut shell("seq 100000"), LONG).unwrap();
        assert_eq!(printed.lines().last(), Some("100000"));
    }

    #[test]
    fn a_program_that_hangs_is_killed_at_its_deadline() {
        let began = Instant::now();
        let error = output_within(&mut shell("exec tail -f /dev/null"), SOON).unwrap_err();
        assert!(
            format!("{error:#}").contains("not done within"),
            "{error:#}"
        );
        assert!(began.elapsed() < LONG);
    }

    #[test]
    fn a_program_that_fails_is_an_error_that_names_it() {
        for error in [
            run(&mut shell("exit 3")).unwrap_err(),
            run_within(&mut shell("exit 3"), LONG).unwrap_err(),
            output_within(&mut shell("exit 3"), LONG).unwrap_err(),
            output(&mut shell("echo no such luck >&2; exit 3")).unwrap_err(),
        ] {
            let text = format!("{error:#}");
            assert!(text.contains("exit 3`") && text.contains("3"), "{text}");
        }
    }
}
