//! Workflow files from disk.

use crate::{
    Stop, report,
    terminal::{Look, printable},
};
use anyhow::{Context, anyhow};
use interlock::{
    BuildError, BuildErrors, Builder, Server,
    workflow::{
        Finding, Kind, Problem, Scope, Severity, Workflow,
        file::{self, File, MAX_BYTES},
    },
};
use std::{
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

/// A workflow file as it lies there.
pub(crate) struct Source {
    pub(crate) path: PathBuf,
    pub(crate) text: Vec<u8>,
}

/// A workflow file that has no errors.
pub(crate) struct Parsed {
    pub(crate) file: File,
    /// What the file says and `serve` refuses it for.
    pub(crate) not_served: Vec<&'static str>,
}

impl Source {
    pub(crate) fn read(path: &Path) -> Result<Self, Stop> {
        let mut text = Vec::new();
        // One more than may be, so that a file that is too long is seen to be.
        let limit = u64::try_from(MAX_BYTES + 1).unwrap_or(u64::MAX);
        std::fs::File::open(path)
            .and_then(|file| file.take(limit).read_to_end(&mut text))
            .with_context(|| format!("cannot read `{}`", shown(path)))
            .map_err(Stop::Misused)?;
        Ok(Self {
            path: path.to_owned(),
            text,
        })
    }

    /// The name of the file, as it can be printed.
    pub(crate) fn name(&self) -> String {
        shown(&self.path)
    }

    /// The folder in which commands are run.
    pub(crate) fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new(""))
    }

    /// What the file says, or everything that is wrong with it.
    pub(crate) fn parse(&self) -> Result<Parsed, Vec<Finding>> {
        let (file, mut findings) = file::inspect(&self.text);
        let Some(mut file) = file else {
            return Err(findings);
        };
        let is_wrong = findings.iter().any(|one| one.severity() == Severity::Error);
        if is_wrong {
            // What is missing from it may be just what was not understood.
            file.workflow = None;
        }
        // Whether schemas can be used is known once there is a server.
        let builder = interlock_gateway::builder_with(&file, |tool| {
            interlock_gateway::described(tool, |_, _| async { "" })
        });
        let mut errors = match builder.build() {
            Ok(_) => Vec::new(),
            Err(BuildErrors(errors)) => errors,
        };
        if is_wrong {
            // Anything else was said when the file was read.
            errors.retain(|error| matches!(error, BuildError::Schema { .. }));
        }
        let Judged { wrong, not_served } = judge(&file, errors);
        if !is_wrong && wrong.is_empty() {
            file.warnings = findings;
            return Ok(Parsed { file, not_served });
        }
        findings.extend(wrong);
        findings.sort_by_key(|finding| finding.span.map(|span| span.start));
        Err(findings)
    }

    /// What the file says, be it served or not; if it has errors, standard error tells them.
    pub(crate) fn file(&self) -> Result<File, Stop> {
        Ok(self.parsed()?.file)
    }

    /// As `file`, if it can be served.
    pub(crate) fn served_file(&self) -> Result<File, Stop> {
        let Parsed { file, not_served } = self.parsed()?;
        match not_served.is_empty() {
            true => Ok(file),
            false => Err(Stop::Failed(anyhow!(
                "`{}` is valid, but cannot be served for: {}",
                self.name(),
                not_served.join(", ")
            ))),
        }
    }

    fn parsed(&self) -> Result<Parsed, Stop> {
        match self.parse() {
            Ok(parsed) => Ok(parsed),
            Err(findings) => {
                let mut stderr = io::stderr().lock();
                let text = report::findings(self, &findings, Look::of(&stderr));
                stderr.write_all(text.as_bytes())?;
                Err(Stop::Told)
            }
        }
    }

    /// The workflow of the file; one without states has none.
    pub(crate) fn workflow(&self) -> Result<Workflow, Stop> {
        let none = || anyhow!("`{}` has no states", self.name());
        let workflow = self.file()?.workflow;
        workflow.ok_or_else(|| Stop::Failed(none()))
    }
}

/// A path that cannot garble a terminal, nor make one line two.
pub(crate) fn shown(path: &Path) -> String {
    let name = printable(&path.display().to_string());
    name.replace('\n', "\\n").replace('\t', "\\t")
}

/// Whether both names are of one file that exists.
pub(crate) fn same_file(one: &Path, other: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let of = |path: &Path| {
            let about = path.metadata().ok()?;
            Some((about.dev(), about.ino()))
        };
        of(one).is_some() && of(one) == of(other)
    }
    #[cfg(not(unix))]
    {
        let of = |path: &Path| path.canonicalize().ok();
        of(one).is_some() && of(one) == of(other)
    }
}

/// Puts a server together from a file that has been found to be good.
pub(crate) fn build(builder: Builder) -> Result<Server, Stop> {
    builder
        .build()
        .map_err(|errors| Stop::Failed(errors.into()))
}

/// What only a server could say about a file.
#[derive(Default)]
struct Judged {
    wrong: Vec<Finding>,
    not_served: Vec<&'static str>,
}

fn judge(file: &File, errors: Vec<BuildError>) -> Judged {
    let mut judged = Judged::default();
    if !file.servers.is_empty() {
        judged.not_served.push("upstream servers (`servers`)");
    }
    if file.settings.scope == Scope::Principal {
        // Nobody can log in to it.
        judged.not_served.push("the scope `principal`");
    }
    for error in errors {
        match error {
            // A file names effects and cannot hold any.
            BuildError::Effects { .. } => judged.not_served.push("an effect (`effects`)"),
            // What the servers have is not known here, so nothing can be said to be missing.
            BuildError::Workflow(_) if !file.servers.is_empty() => {}
            BuildError::Workflow(finding) => judged.wrong.push(*finding),
            BuildError::Schema { ref tool, .. } => judged.wrong.push(Finding {
                span: file.place(Kind::Tool, tool),
                problem: problem("unusable-schema", &error),
            }),
            BuildError::Duplicate { .. } | _ => judged.wrong.push(Finding {
                span: None,
                problem: problem("unusable", &error),
            }),
        }
    }
    judged
}

fn problem(code: &'static str, error: &BuildError) -> Problem {
    Problem::File {
        code,
        message: error.to_string(),
        help: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_file_stays_on_its_line_and_is_not_obeyed() {
        let name = shown(Path::new("a\n\x1b[2J\tb.yaml"));
        assert_eq!(name, "a\\n\\u{1b}[2J\\tb.yaml");
    }
}
