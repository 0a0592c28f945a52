//! Workflow files from disk.

use crate::{Stop, report, terminal::Look};
use anyhow::Context;
use interlock::{
    BuildError, BuildErrors, Builder, Server,
    workflow::{
        Finding, Kind, Problem,
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

impl Source {
    pub(crate) fn read(path: &Path) -> Result<Self, Stop> {
        let mut text = Vec::new();
        // One more than may be, so that a file that is too long is seen to be.
        let limit = u64::try_from(MAX_BYTES + 1).unwrap_or(u64::MAX);
        std::fs::File::open(path)
            .and_then(|file| file.take(limit).read_to_end(&mut text))
            .with_context(|| format!("cannot read `{}`", path.display()))
            .map_err(Stop::Misused)?;
        Ok(Self {
            path: path.to_owned(),
            text,
        })
    }

    /// The folder in which commands are run.
    pub(crate) fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new(""))
    }

    /// What the file says, or everything that is wrong with it.
    pub(crate) fn parse(&self) -> Result<File, Vec<Finding>> {
        let file = file::read(&self.text).map_err(|invalid| invalid.findings)?;
        // Whether schemas can be used is known once there is a server.
        let builder = interlock_gateway::builder_with(&file, |tool| {
            interlock_gateway::command_tool(tool, self.folder())
        });
        match builder.build() {
            Ok(_) => Ok(file),
            Err(errors) => Err(placed(&file, errors)),
        }
    }

    /// What the file says; if it cannot be served, standard error says why.
    pub(crate) fn file(&self) -> Result<File, Stop> {
        self.parse().map_err(|findings| {
            let mut stderr = io::stderr().lock();
            let text = report::findings(self, &findings, Look::of(&stderr));
            match stderr.write_all(text.as_bytes()) {
                Ok(()) => Stop::Told,
                Err(error) => error.into(),
            }
        })
    }
}

/// Puts a server together from a file that has been found to be good.
pub(crate) fn build(builder: Builder) -> Result<Server, Stop> {
    builder
        .build()
        .map_err(|errors| Stop::Failed(errors.into()))
}

/// The findings of a file, with those that only its server could make.
fn placed(file: &File, BuildErrors(errors): BuildErrors) -> Vec<Finding> {
    let own = errors.into_iter().map(|error| match error {
        BuildError::Workflow(finding) => finding,
        BuildError::Schema { ref tool, .. } => Finding {
            span: file.place(Kind::Tool, tool),
            problem: problem("unusable-schema", &error),
        },
        BuildError::Duplicate { .. } | _ => Finding {
            span: None,
            problem: problem("unusable", &error),
        },
    });
    let mut findings: Vec<_> = own.chain(file.warnings.iter().cloned()).collect();
    findings.sort_by_key(|finding| finding.span.map(|span| span.start));
    findings
}

fn problem(code: &'static str, error: &BuildError) -> Problem {
    Problem::File {
        code,
        message: error.to_string(),
        help: None,
    }
}
