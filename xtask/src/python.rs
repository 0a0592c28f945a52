//! The step `python`: the official Python MCP client walks the examples, over stdio and HTTP.
//!
//! The client is installed once, with exact versions, below the target folder. A stamp written
//! last says for which requirements and which Python that was; without it, or with another one,
//! the installation is made anew.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::examples;
use crate::process;
use crate::server::{self, Servers};
use crate::steps::Ran;
use crate::workspace::Workspace;

const REQUIREMENTS: &str = "tests/python/requirements.txt";
/// Walks through workflows, alone, with a person who is asked, and beside others; and then
/// everything else that the client can do.
const WALK: &str = "tests/python/walk.py";
const CONSENT: &str = "tests/python/consent.py";
const APART: &str = "tests/python/apart.py";
const WIRE: &str = "tests/python/wire.py";
const LIMIT: Duration = Duration::from_secs(600);

pub(crate) fn run(workspace: &Workspace) -> Result<Ran> {
    let client = match Client::installed(workspace) {
        Ok(client) => client,
        Err(error) => return Ok(Ran::Skipped(format!("{error:#}"))),
    };
    examples::build(workspace)?;
    for script in [WALK, CONSENT] {
        process::run_within(
            client
                .python()
                .arg(script)
                .arg("--interlock")
                .arg(workspace.built("interlock"))
                .arg("--examples")
                .arg(workspace.target.join("debug/examples"))
                .current_dir(&workspace.root),
            LIMIT,
        )?;
    }
    for crossroads in server::crossroads(workspace) {
        let crossroads = crossroads?;
        let mut apart = client.python();
        apart
            .arg(APART)
            .arg("--crossroads")
            .arg(crossroads.url())
            .current_dir(&workspace.root);
        let ran = process::run_within(&mut apart, LIMIT);
        // A server that broke explains what the script complains of.
        crossroads.stop()?;
        ran?;
    }
    let servers = Servers::start(workspace)?;
    let mut wire = client.python();
    wire.arg(WIRE)
        .args(servers.arguments())
        .current_dir(&workspace.root);
    let ran = process::run_within(&mut wire, LIMIT);
    // A server that broke explains what the script complains of.
    servers.stop()?;
    ran?;
    Ok(Ran::Done)
}

/// An installed client: a virtual environment, or a folder of libraries where there can be none.
pub(crate) struct Client {
    folder: PathBuf,
}

impl Client {
    /// Installs what is not there yet.
    pub(crate) fn installed(workspace: &Workspace) -> Result<Self> {
        let version = process::output(Command::new("python3").arg("--version"));
        let version = version.context("no python3")?;
        let requirements =
            fs::read_to_string(workspace.root.join(REQUIREMENTS)).context(REQUIREMENTS)?;
        let client = Self {
            folder: workspace
                .target
                .join("tools")
                .join(folder_name(&requirements)),
        };
        let stamp = format!("{version}{requirements}");
        if !client.is_intact(&stamp) {
            eprintln!("  installing {REQUIREMENTS}");
            let installed = client.install(&workspace.root.join(REQUIREMENTS));
            installed.with_context(|| format!("cannot install {REQUIREMENTS}"))?;
            fs::write(client.stamp(), &stamp).context("writing the stamp of the installation")?;
        }
        Ok(client)
    }

    fn stamp(&self) -> PathBuf {
        self.folder.join("installed")
    }

    fn libraries(&self) -> PathBuf {
        self.folder.join("libraries")
    }

    fn venv_python(&self) -> PathBuf {
        let inside = if cfg!(windows) {
            "Scripts/python.exe"
        } else {
            "bin/python"
        };
        self.folder.join("venv").join(inside)
    }

    /// The interpreter that finds the client's libraries.
    pub(crate) fn python(&self) -> Command {
        let mut command;
        if self.libraries().exists() {
            command = Command::new("python3");
            command.env("PYTHONPATH", self.libraries());
        } else {
            command = Command::new(self.venv_python());
        }
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        command
    }

    fn is_intact(&self, stamp: &str) -> bool {
        fs::read_to_string(self.stamp()).is_ok_and(|found| found == stamp)
            && process::output(self.python().args(["-c", "import mcp"])).is_ok()
    }

    fn install(&self, requirements: &Path) -> Result<()> {
        if self.folder.exists() {
            fs::remove_dir_all(&self.folder)
                .context("removing an installation that is not intact")?;
        }
        fs::create_dir_all(&self.folder)?;
        let venv = self.folder.join("venv");
        let mut install =
            match process::output(Command::new("python3").args(["-m", "venv"]).arg(&venv)) {
                Ok(_) => pip(Command::new(self.venv_python())),
                // Some systems ship Python without the module.
                Err(_) => {
                    let mut install = pip(Command::new("python3"));
                    install.arg("--target").arg(self.libraries());
                    install
                }
            };
        process::output(install.arg("--requirement").arg(requirements))?;
        Ok(())
    }
}

fn pip(mut python: Command) -> Command {
    python.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
    ]);
    python
}

/// `python-mcp-2.3.0`, from the line of the requirements that pins the client.
fn folder_name(requirements: &str) -> String {
    let version = requirements
        .lines()
        .find_map(|line| line.strip_prefix("mcp=="))
        .unwrap_or("unpinned");
    format!("python-mcp-{}", version.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_requirement_is_pinned_and_the_client_is_among_them() {
        let text = include_str!("../../tests/python/requirements.txt");
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            assert!(line.contains("=="), "{line} has no exact version");
        }
        assert_eq!(folder_name(text), "python-mcp-2.3.0");
    }

    #[test]
    fn an_installation_without_its_own_stamp_is_not_intact() {
        let folder = std::env::temp_dir().join(format!("interlock-stamp-{}", std::process::id()));
        let client = Client { folder };
        assert!(!client.is_intact("anything"));
        fs::create_dir_all(&client.folder).unwrap();
        fs::write(client.stamp(), "older").unwrap();
        assert!(!client.is_intact("newer"));
        fs::remove_dir_all(&client.folder).unwrap();
    }
}
