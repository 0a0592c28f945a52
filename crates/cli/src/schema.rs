//! `interlock schema`: the format of workflow files, for editors.

use crate::Stop;
use interlock::workflow::file;
use std::io::{self, Write};

/// Print the JSON Schema of workflow files
///
/// An editor that knows it completes keys and marks mistakes while you type. `check` finds more.
#[derive(clap::Args)]
#[command(after_help = "\
In editors with the YAML language server (VS Code, Neovim, Helix, Zed, …) put this line at the top
of a workflow file, with the path or address of the schema:
  # yaml-language-server: $schema=./interlock.schema.json
JetBrains IDEs take it under Languages & Frameworks, Schemas and DTDs, JSON Schema Mappings.

Exit codes:
  0  it is printed
  1  it cannot be written

Examples:
  interlock schema > interlock.schema.json")]
pub(crate) struct Arguments {}

pub(crate) fn run(Arguments {}: &Arguments) -> Result<(), Stop> {
    let mut schema = file::schema();
    // Otherwise the order would depend on how serde_json was built.
    schema.sort_all_objects();
    Ok(writeln!(io::stdout().lock(), "{schema:#}")?)
}
