//! Node and what the steps take from npm, installed below the target folder.
//!
//! Versions are exact: Node's stands here, all others in the lock file beside the scripts. A stamp
//! written last says for which lock file an installation was made; without it, or with another
//! one, it is made anew. No package runs a script of its own while it is installed, but for Node's.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::process;
use crate::workspace::Workspace;

/// Scripts of ours, and the lock file that says what they need.
const SOURCES: &str = "tests/typescript";
const MANIFESTS: &[&str] = &["package.json", "package-lock.json"];
/// What the newest of the packages asks for.
const OLDEST_NODE: (u32, u32) = (22, 19);
/// What is installed where the machine's own Node is older.
const NODE: &str = "22.23.3";
const LIMIT: Duration = Duration::from_secs(600);

/// Everything that the lock file names, ready to run.
pub(crate) struct Npm {
    node: PathBuf,
    folder: PathBuf,
}

impl Npm {
    /// Installs what is not there yet. That takes half a minute, one time.
    pub(crate) fn installed(workspace: &Workspace) -> Result<Self> {
        let tools = workspace.target.join("tools");
        let npm = Self {
            node: node(&tools)?,
            folder: tools.join("npm"),
        };
        npm.install(&workspace.root.join(SOURCES))
            .with_context(|| format!("cannot install what {SOURCES} needs"))?;
        Ok(npm)
    }

    /// Node, about to run a script of ours or of a package, by its path below the installation.
    pub(crate) fn script(&self, path: &str) -> Command {
        let mut command = Command::new(&self.node);
        // A script that finds its libraries by its own place cannot be elsewhere.
        command.arg(self.folder.join(path));
        // Some packages keep settings in the home folder; these here are nobody's.
        let home = self.folder.join("home");
        command.env("HOME", &home).env("USERPROFILE", &home);
        command
    }

    /// Puts a script from elsewhere beside the packages, where it finds them. Node and its place
    /// are what it is run with.
    pub(crate) fn placed(&self, script: &Path) -> Result<(PathBuf, PathBuf)> {
        let name = script.file_name().context("a script has a name")?;
        let place = self.folder.join("placed").join(name);
        fs::create_dir_all(self.folder.join("placed"))?;
        fs::copy(script, &place).with_context(|| script.display().to_string())?;
        Ok((self.node.clone(), place))
    }

    fn install(&self, sources: &Path) -> Result<()> {
        let mut stamp = String::new();
        for file in MANIFESTS {
            let file = sources.join(file);
            let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
            stamp.push_str(&text);
        }
        let stamp_file = self.folder.join("installed");
        if fs::read_to_string(&stamp_file).is_ok_and(|found| found == stamp) {
            return copy_scripts(sources, &self.folder);
        }
        eprintln!("  installing {SOURCES}/package.json");
        renew(&self.folder)?;
        fs::create_dir_all(self.folder.join("home"))?;
        for file in MANIFESTS {
            fs::copy(sources.join(file), self.folder.join(file))?;
        }
        copy_scripts(sources, &self.folder)?;
        let mut install = npm(&self.folder);
        process::output_within(install.args(["ci", "--ignore-scripts"]), LIMIT)?;
        fs::write(stamp_file, stamp).context("writing the stamp of the installation")
    }
}

/// The machine's own Node if it is new enough, else one of ours.
fn node(tools: &Path) -> Result<PathBuf> {
    let machines_own = PathBuf::from("node");
    if is_new_enough(&machines_own) {
        return Ok(machines_own);
    }
    let folder = tools.join(format!("node-{NODE}"));
    let file = format!("node{}", std::env::consts::EXE_SUFFIX);
    let ours = folder.join("node_modules/node/bin").join(file);
    if !is_new_enough(&ours) {
        eprintln!("  installing Node {NODE}");
        renew(&folder)?;
        // The package fetches the program for this machine by a script, which newer npms ask about.
        let manifest = r#"{"private": true, "allowScripts": {"node": true}}"#;
        fs::write(folder.join("package.json"), manifest)?;
        process::output_within(
            npm(&folder).args(["install", &format!("node@{NODE}")]),
            LIMIT,
        )
        .with_context(|| format!("cannot install Node {NODE}"))?;
    }
    if !is_new_enough(&ours) {
        bail!("Node {NODE} was installed and does not run");
    }
    Ok(ours)
}

fn npm(folder: &Path) -> Command {
    let mut command = Command::new(if cfg!(windows) { "npm.cmd" } else { "npm" });
    command
        .current_dir(folder)
        .args(["--no-audit", "--no-fund", "--loglevel=error"]);
    command
}

fn is_new_enough(node: &Path) -> bool {
    process::output(Command::new(node).arg("--version"))
        .is_ok_and(|printed| version(&printed).is_some_and(|version| version >= OLDEST_NODE))
}

/// The first two numbers of `v22.23.3`.
fn version(printed: &str) -> Option<(u32, u32)> {
    let mut numbers = printed.trim().strip_prefix('v')?.split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn renew(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).context("removing an installation that is not intact")?;
    }
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())
}

/// Modules are looked up from where a script lies, so the scripts lie beside them.
fn copy_scripts(sources: &Path, folder: &Path) -> Result<()> {
    for entry in fs::read_dir(sources)? {
        let entry = entry?;
        if entry.path().extension().is_some_and(|end| end == "mjs") {
            fs::copy(entry.path(), folder.join(entry.file_name()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn every_package_is_pinned_and_locked_without_a_registry() {
        let manifest = include_str!("../../tests/typescript/package.json");
        let manifest: Value = serde_json::from_str(manifest).unwrap();
        let dependencies = manifest["dependencies"].as_object().unwrap();
        assert!(dependencies.len() >= 4);
        for (name, wanted) in dependencies {
            let wanted = wanted.as_str().unwrap();
            let number = wanted.rsplit('@').next().unwrap();
            assert!(
                number.starts_with(|c: char| c.is_ascii_digit()),
                "{name} has no exact version: {wanted}"
            );
        }
        let lock = include_str!("../../tests/typescript/package-lock.json");
        let lock: Value = serde_json::from_str(lock).unwrap();
        for (path, package) in lock["packages"].as_object().unwrap() {
            assert!(package.get("resolved").is_none(), "{path} names a registry");
            let is_ours = path.is_empty();
            assert!(is_ours || package["integrity"].is_string(), "{path}");
        }
    }

    #[test]
    fn the_first_two_numbers_of_a_version_decide() {
        assert_eq!(version("v22.23.3\n"), Some((22, 23)));
        assert!(version("v20.20.2").unwrap() < OLDEST_NODE);
        assert!(version(&format!("v{NODE}")).unwrap() >= OLDEST_NODE);
        assert_eq!(version("22.23.3"), None);
        assert_eq!(version("v22"), None);
    }

    #[test]
    fn scripts_are_copied_and_nothing_else_is() {
        let folder = std::env::temp_dir().join(format!("interlock-npm-{}", std::process::id()));
        let (from, to) = (folder.join("from"), folder.join("to"));
        renew(&from).unwrap();
        renew(&to).unwrap();
        fs::write(from.join("a.mjs"), "1\n").unwrap();
        fs::write(from.join("notes.md"), "2\n").unwrap();
        copy_scripts(&from, &to).unwrap();
        assert_eq!(fs::read_to_string(to.join("a.mjs")).unwrap(), "1\n");
        assert!(!to.join("notes.md").exists());
        renew(&to).unwrap();
        assert!(!to.join("a.mjs").exists());
        fs::remove_dir_all(&folder).unwrap();
    }
}
