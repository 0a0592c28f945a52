//! `interlock completions`: words for the shell to complete.

use crate::Stop;
use clap_complete::Shell;
use std::io::{self, Write};

/// Print a script that makes a shell complete commands and flags
#[derive(clap::Args)]
#[command(after_help = "\
Exit codes:
  0  it is printed
  1  it cannot be written
  2  there is no such shell

Examples:
  interlock completions bash > ~/.local/share/bash-completion/completions/interlock
  interlock completions zsh > \"${fpath[1]}/_interlock\"
  interlock completions fish > ~/.config/fish/completions/interlock.fish
  interlock completions powershell >> $PROFILE
  interlock completions elvish > ~/.config/elvish/lib/interlock.elv")]
pub(crate) struct Arguments {
    /// Which shell
    shell: Shell,
}

/// Prints the script for a command line.
pub(crate) fn run(arguments: &Arguments, mut command: clap::Command) -> Result<(), Stop> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "interlock", &mut script);
    Ok(io::stdout().lock().write_all(&script)?)
}
