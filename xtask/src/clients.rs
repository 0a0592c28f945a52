//! The steps `typescript` and `inspector`: other people's clients talk to our servers.

use std::time::Duration;

use anyhow::Result;

use crate::examples;
use crate::npm::Npm;
use crate::process;
use crate::server::{self, Servers};
use crate::steps::Ran;
use crate::workspace::Workspace;

const LIMIT: Duration = Duration::from_secs(600);

/// The official TypeScript client does everything that it can do.
pub(crate) fn typescript(workspace: &Workspace) -> Result<Ran> {
    run(workspace, "client.mjs")
}

/// So does the Inspector, by its command line.
pub(crate) fn inspector(workspace: &Workspace) -> Result<Ran> {
    run(workspace, "inspector.mjs")
}

fn run(workspace: &Workspace, script: &str) -> Result<Ran> {
    let npm = match Npm::installed(workspace) {
        Ok(npm) => npm,
        Err(error) => return Ok(Ran::Skipped(format!("{error:#}"))),
    };
    examples::build(workspace)?;
    let servers = Servers::start(workspace)?;
    let expenses = server::expenses(workspace)?;
    let mut script = npm.script(script);
    script
        .args(servers.arguments())
        .arg("--expenses")
        .arg(expenses.url());
    let ran = process::run_within(&mut script, LIMIT);
    // A server that broke explains what the script complains of.
    servers.stop()?;
    expenses.stop()?;
    ran?;
    Ok(Ran::Done)
}
