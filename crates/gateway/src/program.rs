//! A program as the file describes it: where it is found, and what its environment is.

use crate::{ConfigError, sweeper};
use interlock::{Context, model::JsonObject, workflow::file};
use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
};
use tokio::process::Command;

/// What a program gets of our environment without being given it. The rest may be secret.
const INHERITED: [&str; 7] = ["PATH", "HOME", "LANG", "TERM", "TMPDIR", "USER", "SHELL"];

/// Without these, few programs start on Windows.
const INHERITED_ON_WINDOWS: [&str; 6] = [
    "SYSTEMROOT",
    "COMSPEC",
    "PATHEXT",
    "TEMP",
    "TMP",
    "USERPROFILE",
];

/// A program that can be run.
#[derive(Debug)]
pub(crate) struct Program {
    /// As the file has it.
    pub(crate) written: String,
    pub(crate) program: PathBuf,
    arguments: Vec<OsString>,
    pub(crate) folder: PathBuf,
    environment: Vec<(OsString, OsString)>,
}

impl Program {
    /// Takes what the program needs from the environment. `owner` names it in errors.
    pub(crate) fn new(
        program: &file::Program,
        folder: &Path,
        owner: &str,
    ) -> Result<Self, ConfigError> {
        let expand = |key: &str, text: &str| {
            file::expand(text, |name| env::var(name).ok())
                .map_err(|missing| ConfigError::missing(owner, key, missing.name))
        };
        let words = program.command.iter();
        let words = words
            .map(|word| expand("command", word))
            .collect::<Result<Vec<_>, _>>()?;
        let (written, arguments) = match words.split_first() {
            Some((program, arguments)) => (program.clone(), arguments),
            None => (String::new(), &words[..]),
        };
        // What a relative path means to a process with another working directory depends on the
        // system, so it is settled here.
        let has_path = Path::new(&written).components().nth(1).is_some();
        let cwd = program.cwd.as_deref();
        let cwd = cwd.map(|cwd| expand("cwd", cwd)).transpose()?;
        let mut environment: Vec<_> = env::vars_os()
            .filter(|(name, _)| is_inherited(name))
            .collect();
        for name in &program.env_from {
            let value = env::var_os(name);
            let value =
                value.ok_or_else(|| ConfigError::missing(owner, "env_from", name.clone()))?;
            environment.push((name.into(), value));
        }
        for (name, value) in &program.env {
            environment.push((name.into(), expand("env", value)?.into()));
        }
        Ok(Self {
            program: match has_path {
                true => folder.join(&written),
                false => (&written).into(),
            },
            written,
            arguments: arguments.iter().map(OsString::from).collect(),
            folder: cwd.map_or_else(|| folder.to_owned(), |cwd| folder.join(cwd)),
            environment,
        })
    }

    /// The program, ready to be started for a call.
    pub(crate) fn command(&self, context: &Context, mark: &sweeper::Mark) -> Command {
        let memory = context.memory::<JsonObject>().unwrap_or_default();
        let memory = serde_json::Value::Object(memory).to_string();
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .current_dir(&self.folder)
            .env_clear()
            .env("INTERLOCK_CTX", memory)
            .envs(context.instance().map(|id| ("INTERLOCK_INSTANCE", id)))
            .envs(context.state().map(|state| ("INTERLOCK_STATE", state)))
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .env(sweeper::VARIABLE, mark.as_str());
        command
    }
}

fn is_inherited(name: &OsString) -> bool {
    let Some(name) = name.to_str() else {
        return false;
    };
    let is_of_windows = |listed: &str| cfg!(windows) && listed.eq_ignore_ascii_case(name);
    INHERITED.contains(&name)
        || name.starts_with("LC_")
        || INHERITED_ON_WINDOWS
            .iter()
            .any(|listed| is_of_windows(listed))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(command: &[&str]) -> file::Program {
        file::Program {
            command: command.iter().map(|word| (*word).to_owned()).collect(),
            ..file::Program::default()
        }
    }

    #[test]
    fn a_relative_program_is_looked_for_in_the_folder_and_a_bare_one_is_not() {
        for (written, found) in [
            ("./label.sh", "/srv/./label.sh"),
            ("bin/label", "/srv/bin/label"),
            ("../label", "/srv/../label"),
            ("/bin/label", "/bin/label"),
            ("label", "label"),
        ] {
            let program = Program::new(&program(&[written]), Path::new("/srv"), "t").unwrap();
            assert_eq!(program.program, Path::new(found), "{written}");
            assert_eq!(program.folder, Path::new("/srv"));
        }
    }

    #[test]
    fn variables_come_from_the_environment_and_a_missing_one_is_named() {
        let path = env::var("PATH").unwrap();
        let mut wanted = program(&["run", "${PATH}", "$${PATH}"]);
        wanted.cwd = Some("sub".into());
        let program = Program::new(&wanted, Path::new("/srv"), "t").unwrap();
        assert_eq!(program.arguments, [path.as_str(), "${PATH}"]);
        assert_eq!(program.folder, Path::new("/srv/sub"));
        wanted.env = vec![("A".into(), "${INTERLOCK_NOT_SET}".into())];
        let error = Program::new(&wanted, Path::new("/srv"), "tool `t`").unwrap_err();
        assert_eq!(
            error.to_string(),
            "`env` of tool `t` needs the variable `INTERLOCK_NOT_SET`, which the environment does \
             not have"
        );
        wanted.env.clear();
        wanted.env_from = vec!["INTERLOCK_NOT_SET".into()];
        let error = Program::new(&wanted, Path::new("/srv"), "tool `t`").unwrap_err();
        assert!(
            error.to_string().starts_with("`env_from` of tool `t`"),
            "{error}"
        );
    }
}
