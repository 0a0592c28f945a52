//! What `cargo metadata` says of this workspace, reduced to what the tasks ask.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::process;

/// The workspace on disk.
#[derive(Debug, Default)]
pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    /// Where cargo builds, and where tasks install what they need.
    pub(crate) target: PathBuf,
    pub(crate) packages: Vec<Package>,
}

/// One of our own crates.
#[derive(Debug, Default)]
pub(crate) struct Package {
    pub(crate) name: String,
    /// Its Cargo.toml, relative to the root.
    pub(crate) manifest: String,
    pub(crate) published: bool,
    pub(crate) description: Option<String>,
    pub(crate) license: Option<String>,
    pub(crate) dependencies: Vec<Dependency>,
}

/// One line of a crate's dependency tables.
#[derive(Debug)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) origin: Origin,
}

/// When a dependency is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// To build or to run: normal and build dependencies.
    Ship,
    /// To test.
    Dev,
}

/// Whose crate a dependency is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Workspace,
    Outside,
}

/// How cargo built something.
#[derive(Clone, Copy)]
pub(crate) enum Profile {
    Debug,
    Release,
    Dist,
}

impl Workspace {
    /// Asks cargo. The answer holds for the workspace that this program was built from.
    pub(crate) fn load() -> Result<Self> {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let metadata = process::output(
            Command::new(process::cargo_path())
                .args(["metadata", "--no-deps", "--format-version", "1"])
                .current_dir(here),
        )?;
        Self::parse(&metadata).context("reading cargo metadata")
    }

    /// A program that cargo built in the debug profile, by its path below that folder.
    pub(crate) fn built(&self, program: &str) -> PathBuf {
        let file = format!("{program}{}", std::env::consts::EXE_SUFFIX);
        self.target.join("debug").join(file)
    }

    /// An example that cargo built.
    pub(crate) fn example(&self, profile: Profile, name: &str) -> PathBuf {
        let folder = match profile {
            Profile::Debug => "debug",
            Profile::Release => "release",
            Profile::Dist => "dist",
        };
        let file = format!("{name}{}", std::env::consts::EXE_SUFFIX);
        self.target.join(folder).join("examples").join(file)
    }

    fn parse(metadata: &str) -> Result<Self> {
        let metadata: Value = serde_json::from_str(metadata)?;
        let root = PathBuf::from(text(&metadata["workspace_root"])?);
        let packages = array(&metadata["packages"])?
            .iter()
            .map(|package| Package::parse(package, &root))
            .collect::<Result<_>>()?;
        Ok(Self {
            target: PathBuf::from(text(&metadata["target_directory"])?),
            packages,
            root,
        })
    }
}

impl Package {
    fn parse(package: &Value, root: &Path) -> Result<Self> {
        let manifest = Path::new(text(&package["manifest_path"])?);
        let dependencies = array(&package["dependencies"])?
            .iter()
            .map(Dependency::parse)
            .collect::<Result<_>>()?;
        Ok(Self {
            name: text(&package["name"])?.to_owned(),
            manifest: manifest.strip_prefix(root)?.display().to_string(),
            // `null` is any registry; an empty list is `publish = false`.
            published: package["publish"].is_null(),
            description: package["description"].as_str().map(str::to_owned),
            license: package["license"].as_str().map(str::to_owned),
            dependencies,
        })
    }
}

impl Dependency {
    fn parse(dependency: &Value) -> Result<Self> {
        Ok(Self {
            name: text(&dependency["name"])?.to_owned(),
            kind: match dependency["kind"].as_str() {
                Some("dev") => Kind::Dev,
                Some(_) | None => Kind::Ship,
            },
            origin: match dependency["path"].as_str() {
                Some(_) => Origin::Workspace,
                None => Origin::Outside,
            },
        })
    }
}

fn text(value: &Value) -> Result<&str> {
    value
        .as_str()
        .with_context(|| format!("a string, not {value}"))
}

fn array(value: &Value) -> Result<&Vec<Value>> {
    value
        .as_array()
        .with_context(|| format!("a list, not {value}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tasks_see_themselves() {
        let workspace = Workspace::load().unwrap();
        let ours = |name: &str| workspace.packages.iter().find(|p| p.name == name);
        let xtask = ours("xtask").unwrap();
        assert_eq!(xtask.manifest, "xtask/Cargo.toml");
        assert!(!xtask.published);
        assert!(
            xtask
                .dependencies
                .iter()
                .all(|d| d.origin == Origin::Outside || d.kind == Kind::Dev)
        );
        assert!(ours("interlock-proto").unwrap().published);
    }

    #[test]
    fn kinds_and_origins_are_read_from_the_metadata() {
        let workspace = Workspace::parse(
            r#"{"workspace_root": "/w", "target_directory": "/t", "packages": [{
                "name": "a", "manifest_path": "/w/crates/a/Cargo.toml", "publish": [],
                "description": null, "license": "MIT",
                "dependencies": [
                    {"name": "b", "kind": null, "path": "/w/crates/b"},
                    {"name": "c", "kind": "dev"},
                    {"name": "d", "kind": "build"}]}]}"#,
        )
        .unwrap();
        let package = &workspace.packages[0];
        assert_eq!(package.manifest, "crates/a/Cargo.toml");
        assert!(!package.published && package.description.is_none());
        let seen: Vec<_> = package
            .dependencies
            .iter()
            .map(|d| (d.name.as_str(), d.kind, d.origin))
            .collect();
        assert_eq!(
            seen,
            [
                ("b", Kind::Ship, Origin::Workspace),
                ("c", Kind::Dev, Origin::Outside),
                ("d", Kind::Ship, Origin::Outside),
            ]
        );
    }
}
