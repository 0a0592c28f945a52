//! `interlock check`: everything that is wrong with a workflow file, at once.

use crate::{Stop, load::Source, report, terminal::Look};
use interlock::workflow::file::File;
use std::{
    io::{self, Write},
    path::PathBuf,
};

/// Say everything that is wrong with a workflow file
///
/// Findings go to standard output. On a terminal each is shown in the file; otherwise it is a
/// line `file:line:column: severity[code]: message`, for editors and build logs.
#[derive(clap::Args)]
#[command(after_help = "\
Exit codes:
  0  no errors; there may be warnings
  1  errors
  2  the file cannot be read

Examples:
  interlock check flow.yaml
  interlock check flow.yaml | grep error")]
pub(crate) struct Arguments {
    /// The workflow file, YAML or JSON
    file: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Stop> {
    let source = Source::read(&arguments.file)?;
    let mut stdout = io::stdout().lock();
    let look = Look::of(&stdout);
    match source.parse() {
        Ok(file) => {
            write!(
                stdout,
                "{}",
                report::findings(&source, &file.warnings, look)
            )?;
            writeln!(stdout, "{}", summary(&file))?;
            Ok(())
        }
        Err(findings) => {
            write!(stdout, "{}", report::findings(&source, &findings, look))?;
            writeln!(stdout, "{}", report::count(&findings))?;
            Err(Stop::Told)
        }
    }
}

/// `ok: 4 states, 3 tools, 1 resource, 1 prompt; 2 warnings`.
fn summary(file: &File) -> String {
    let states = file
        .workflow
        .as_ref()
        .map(|workflow| workflow.states().len());
    let parts: Vec<_> = [
        (states.unwrap_or_default(), "state"),
        (file.tools.len(), "tool"),
        (file.resources.len(), "resource"),
        (file.prompts.len(), "prompt"),
    ]
    .into_iter()
    .filter(|(count, _)| *count > 0)
    .map(|(count, what)| report::plural(count, what))
    .collect();
    let whole = if parts.is_empty() {
        "nothing to serve".to_owned()
    } else {
        parts.join(", ")
    };
    match file.warnings.len() {
        0 => format!("ok: {whole}"),
        warnings => format!("ok: {whole}; {}", report::plural(warnings, "warning")),
    }
}
