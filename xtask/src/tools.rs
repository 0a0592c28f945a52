//! Cargo's helpers, with exact versions, installed below the target folder.

use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::process;
use crate::workspace::Workspace;

/// A program that `cargo install` builds.
pub(crate) struct Tool {
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
}

pub(crate) const MUTANTS: Tool = Tool {
    name: "cargo-mutants",
    version: "27.1.0",
};

pub(crate) const FUZZ: Tool = Tool {
    name: "cargo-fuzz",
    version: "0.13.2",
};

impl Tool {
    /// Where the program is, once it has been installed. That takes a minute or two, one time.
    pub(crate) fn installed(&self, workspace: &Workspace) -> Result<PathBuf> {
        let tools = workspace.target.join("tools");
        let root = tools.join(format!("{}-{}", self.name, self.version));
        let file = format!("{}{}", self.name, std::env::consts::EXE_SUFFIX);
        let program = root.join("bin").join(file);
        if !program.exists() {
            println!("  installing {} {}", self.name, self.version);
            let mut install = process::cargo(workspace);
            install
                .args(["install", "--locked", self.name, "--version", self.version])
                .arg("--root")
                .arg(&root)
                .arg("--target-dir")
                .arg(tools.join("build"));
            process::run(&mut install).with_context(|| format!("installing {}", self.name))?;
        }
        Ok(program)
    }
}
