//! `interlock check`: everything that is wrong with workflow files, at once.

use crate::{
    Stop,
    load::{Parsed, Source},
    report,
    terminal::output,
};
use anyhow::anyhow;
use interlock::workflow::{Finding, file::File};
use serde_json::{Map, Value, json};
use std::{
    io::{self, Write},
    path::{Path, PathBuf},
};

/// Say everything that is wrong with workflow files
///
/// Findings go to standard output. On a terminal each is shown in the file; otherwise it is a
/// line `file:line:column: severity[code]: message`, for editors and build logs. A file that uses
/// what `serve` does not serve is not wrong for that, since a server written in Rust may serve it;
/// the summary says so.
#[derive(clap::Args)]
#[command(after_help = "\
JSON: one object, whose keys stay as they are and may become more:
  {\"files\": [{
    \"file\":      the file as it was named
    \"ok\":        true if it was read and has no errors
    \"error\":     why it cannot be read; only then
    \"summary\":   {\"states\", \"transitions\", \"tools\", \"resources\", \"prompts\",
                 \"servers\"}: how many; only if it is ok
    \"notServed\": what it uses for which `serve` refuses it; only if it is ok
    \"findings\":  [{
      \"severity\":  \"error\" or \"warning\"
      \"code\":      a name that does not change with the wording
      \"message\":   what is wrong
      \"help\":      what to do about it; if there is help
      \"line\", \"column\", \"endLine\", \"endColumn\":
                   from where and up to where, from 1, in characters
      \"start\", \"end\":
                   the same in bytes from 0; these six only if there is a place
    }]
  }]}

Exit codes:
  0  no errors; there may be warnings
  1  errors, or warnings with --deny-warnings
  2  a file cannot be read

Examples:
  interlock check flow.yaml
  interlock check flows/*.yaml --deny-warnings
  interlock check flow.yaml --json")]
pub(crate) struct Arguments {
    /// The workflow files, YAML or JSON
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Let warnings count as errors do
    #[arg(long)]
    deny_warnings: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Stop> {
    let mut told = Told {
        arguments,
        objects: Vec::new(),
        unreadable: Vec::new(),
        failed: false,
    };
    for path in &arguments.files {
        told.tell(path)?;
    }
    told.end()
}

/// What has come of the files so far.
struct Told<'a> {
    arguments: &'a Arguments,
    /// For each file, if JSON is wanted.
    objects: Vec<Value>,
    unreadable: Vec<String>,
    failed: bool,
}

impl Told<'_> {
    fn tell(&mut self, path: &Path) -> io::Result<()> {
        let source = match Source::read(path) {
            Ok(source) => source,
            Err(Stop::Misused(error) | Stop::Failed(error)) => {
                self.cannot_read(path, &error);
                return Ok(());
            }
            Err(Stop::Told) => return Ok(()),
        };
        let judged = source.parse();
        let findings = match &judged {
            Ok(parsed) => &parsed.file.warnings,
            Err(findings) => findings,
        };
        let denied = self.arguments.deny_warnings && !findings.is_empty();
        self.failed |= judged.is_err() || denied;
        if self.arguments.json {
            self.objects.push(object(&source, &judged, findings));
            return Ok(());
        }
        let mut stdout = output();
        let found = report::findings(&source, findings, stdout.look());
        let whose = match self.arguments.files.len() {
            1 => String::new(),
            _ => format!("{}: ", source.name()),
        };
        let sum = match &judged {
            Ok(_) if denied => {
                let verb = if findings.len() == 1 { "is" } else { "are" };
                format!("{}, which {verb} denied", report::count(findings))
            }
            Ok(parsed) => summary(parsed),
            Err(findings) => report::count(findings),
        };
        writeln!(stdout, "{found}{whose}{sum}")?;
        if let Ok(Parsed { not_served, .. }) = &judged
            && !not_served.is_empty()
        {
            let uses = not_served.join(", ");
            writeln!(stdout, "{whose}`interlock serve` refuses it for: {uses}")?;
        }
        Ok(())
    }

    fn cannot_read(&mut self, path: &Path, error: &anyhow::Error) {
        let error = format!("{error:#}");
        if self.arguments.json {
            self.objects.push(json!({
                "file": path.to_string_lossy(),
                "ok": false,
                "error": error,
                "findings": [],
            }));
        }
        self.unreadable.push(error);
    }

    fn end(self) -> Result<(), Stop> {
        if self.arguments.json {
            let mut stdout = output();
            writeln!(stdout, "{:#}", json!({ "files": self.objects }))?;
        }
        match (self.unreadable.is_empty(), self.failed) {
            (false, _) => Err(Stop::Misused(anyhow!("{}", self.unreadable.join("; ")))),
            (true, true) => Err(Stop::Told),
            (true, false) => Ok(()),
        }
    }
}

/// What there is in a file, and how much of it.
fn counts(file: &File) -> [(&'static str, usize); 6] {
    let workflow = file.workflow.as_ref();
    let states = workflow.map(|workflow| workflow.states().len());
    let transitions = workflow.map(|workflow| workflow.edges().len());
    [
        ("state", states.unwrap_or_default()),
        ("transition", transitions.unwrap_or_default()),
        ("tool", file.tools.len()),
        ("resource", file.resources.len()),
        ("prompt", file.prompts.len()),
        ("server", file.servers.len()),
    ]
}

/// `ok: 4 states, 5 transitions, 3 tools, 1 resource, 1 prompt; 2 warnings`. What `serve` refuses
/// is only valid.
fn summary(Parsed { file, not_served }: &Parsed) -> String {
    let verdict = match not_served.is_empty() {
        true => "ok",
        false => "valid",
    };
    let parts: Vec<_> = counts(file)
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|(what, count)| report::plural(count, what))
        .collect();
    let whole = if parts.is_empty() {
        "nothing to serve".to_owned()
    } else {
        parts.join(", ")
    };
    match file.warnings.len() {
        0 => format!("{verdict}: {whole}"),
        warnings => format!(
            "{verdict}: {whole}; {}",
            report::plural(warnings, "warning")
        ),
    }
}

/// What JSON says about one file.
fn object(source: &Source, judged: &Result<Parsed, Vec<Finding>>, findings: &[Finding]) -> Value {
    let mut object = Map::new();
    object.insert("file".into(), source.path.to_string_lossy().into());
    object.insert("ok".into(), judged.is_ok().into());
    if let Ok(Parsed { file, not_served }) = judged {
        let sums = counts(file).into_iter();
        let sums: Map<_, _> = sums
            .map(|(what, count)| (format!("{what}s"), count.into()))
            .collect();
        object.insert("summary".into(), sums.into());
        object.insert("notServed".into(), not_served.clone().into());
    }
    object.insert("findings".into(), report::json(source, findings));
    object.into()
}
