//! What can be wrong with a file as a text, and the list that findings are collected in.

use super::{MAX_BYTES, MAX_DEPTH, MAX_NODES, bindings, duration, variables};
use crate::{Finding, Invalid, Kind, Problem, Severity, Span, TemplateError};

/// What can be wrong with a file as a text, before its workflow is judged. All are errors.
#[derive(Debug, thiserror::Error)]
pub(super) enum FileProblem {
    #[error("the file has more than the {MAX_BYTES} bytes that are read")]
    TooLarge,
    #[error("the file is not UTF-8 text")]
    NotUtf8,
    #[error("the file is empty")]
    Empty,
    #[error("{message}")]
    Syntax {
        message: String,
        help: Option<&'static str>,
    },
    #[error("lists and maps are nested more than {MAX_DEPTH} deep")]
    TooDeep,
    #[error("the file holds more than {MAX_NODES} values")]
    TooMany,
    #[error("aliases copy more text than a file may hold")]
    AliasBomb,
    #[error("an alias stands inside the value that it repeats")]
    AliasLoop,
    #[error("a second document begins here, where a file holds one")]
    SecondDocument,
    #[error("a tag is of no use here")]
    Tag,
    #[error("merge keys are not supported")]
    MergeKey,
    #[error("a workflow file is a map, not {found}")]
    NotAMap { found: &'static str },
    #[error("a key must be text")]
    KeyNotText,
    #[error("`{}` is given twice", shown(key))]
    DuplicateKey { key: String },
    #[error("{place} has no key `{}`", shown(key))]
    UnknownKey {
        key: String,
        place: &'static str,
        help: String,
    },
    #[error("{place} needs the key `{key}`")]
    MissingKey {
        key: &'static str,
        place: &'static str,
    },
    #[error("`{}` must be {wanted}, not {found}", shown(key))]
    WrongType {
        key: String,
        wanted: &'static str,
        found: &'static str,
    },
    #[error("`{key}` must be {wanted}, not `{}`", shown(written))]
    BadValue {
        key: &'static str,
        wanted: String,
        written: String,
        help: Option<String>,
    },
    #[error("`command` names no program")]
    NoProgram,
    #[error("`{}` {fault}", shown(written))]
    BadDuration {
        written: String,
        fault: duration::Fault,
    },
    #[error("`{}` cannot be the name of {place}: {rule}", shown(name))]
    BadName {
        name: String,
        place: &'static str,
        rule: &'static str,
    },
    #[error("`{}` is listed twice", shown(name))]
    ListedTwice { name: String },
    #[error("this file has no {} `{}`", kinds(*kind), shown(name))]
    UnknownName {
        kind: Option<Kind>,
        name: String,
        help: Option<String>,
    },
    #[error("an item of `always` is one tool, resource or prompt")]
    NotOneKind,
    #[error("`{}` leads nowhere", shown(key))]
    NoEdges { key: String },
    #[error("`{}` is a time that this state has already", shown(written))]
    SameTime { written: String },
    #[error("a server has no key `args`")]
    Args,
    #[error("a server needs the key `command` or `url`")]
    NoTransport,
    #[error("a server has `command` or `url`, not both")]
    TwoTransports,
    #[error("`{}` is no template of URIs: {fault}", shown(name))]
    BadTemplate { name: String, fault: TemplateError },
    #[error("a resource needs `text`, `file` or `command`")]
    NoContent,
    #[error("a resource has one of `text`, `file` and `command`")]
    TwoContents,
    #[error("`{key}` is of no use without `{with}`")]
    GoesWith {
        key: &'static str,
        with: &'static str,
    },
    #[error("{}", same_prefix(prefix, &shown(first)))]
    SamePrefix { prefix: String, first: String },
    #[error("`{}` {fault}", shown(written))]
    BadVariable {
        written: String,
        fault: variables::Fault,
    },
    #[error("{lacks} `{}`", shown(name))]
    UnknownArgument {
        lacks: &'static str,
        name: String,
        help: Option<String>,
    },
    #[error("there are more findings than the {MAX_FINDINGS} shown")]
    More,
}

impl From<FileProblem> for Problem {
    fn from(problem: FileProblem) -> Self {
        Self::File {
            code: problem.code(),
            message: problem.to_string(),
            help: problem.help(),
        }
    }
}

impl FileProblem {
    fn code(&self) -> &'static str {
        match self {
            Self::TooLarge => "too-large",
            Self::NotUtf8 => "not-utf8",
            Self::Empty => "empty-file",
            Self::Syntax { .. } => "syntax",
            Self::TooDeep => "too-deep",
            Self::TooMany => "too-many-values",
            Self::AliasBomb => "alias-bomb",
            Self::AliasLoop => "alias-loop",
            Self::SecondDocument => "second-document",
            Self::Tag => "tag",
            Self::MergeKey => "merge-key",
            Self::KeyNotText => "key-not-text",
            Self::DuplicateKey { .. } => "duplicate-key",
            Self::UnknownKey { .. } => "unknown-key",
            Self::MissingKey { .. } => "missing-key",
            Self::WrongType { .. } | Self::NotAMap { .. } => "wrong-type",
            Self::BadValue { .. } => "bad-value",
            Self::NoProgram => "no-program",
            Self::BadDuration { .. } => "bad-duration",
            Self::BadName { .. } => "bad-name",
            Self::ListedTwice { .. } => "listed-twice",
            Self::UnknownName { .. } => "unknown-name",
            Self::NotOneKind => "not-one-kind",
            Self::NoEdges { .. } => "no-edges",
            Self::SameTime { .. } => "same-time",
            Self::Args => "unknown-key",
            Self::NoTransport => "missing-key",
            Self::TwoTransports => "two-transports",
            Self::BadTemplate { .. } => "bad-template",
            Self::NoContent => "missing-key",
            Self::TwoContents => "two-contents",
            Self::GoesWith { .. } => "useless-key",
            Self::SamePrefix { .. } => "same-prefix",
            Self::BadVariable { .. } => "bad-variable",
            Self::UnknownArgument { .. } => "unknown-argument",
            Self::More => "more-findings",
        }
    }

    fn help(&self) -> Option<String> {
        let text = match self {
            Self::UnknownKey { help, .. } => help,
            Self::BadValue { help, .. }
            | Self::UnknownName { help, .. }
            | Self::UnknownArgument { help, .. } => return help.clone(),
            Self::Syntax { help, .. } => return help.map(str::to_owned),
            Self::BadDuration { written, .. } => return Some(duration_help(written)),
            Self::WrongType { key, wanted, found } => return type_help(key, wanted, found),
            Self::MissingKey { key, .. } => return missing_help(key),
            Self::Empty | Self::NotAMap { .. } => "a workflow file begins with `interlock: 1`",
            Self::Tag => "text that begins with `!` must be in quotes",
            Self::KeyNotText => "text that begins with `{` or `[` must be in quotes",
            Self::MergeKey => "write the keys out, or alias a whole value",
            Self::DuplicateKey { .. } => "keep one of the two, or give one another name",
            Self::NoProgram => "write the program and its arguments, such as `[python3, shop.py]`",
            Self::NotOneKind => "write `- tool: name`, one item for each",
            Self::NoEdges { .. } => "name a state, or leave the key out",
            Self::SameTime { .. } => "list its edges under one of the two",
            Self::Args => "write the arguments into `command`, such as `[python3, shop.py]`",
            Self::NoTransport => {
                "`command: [python3, shop.py]` starts one, `url: https://…` connects to one"
            }
            Self::BadTemplate { .. } => "write variables as in `order://{id}`",
            Self::NoContent => {
                "`text: …` holds it, `file: notes.md` reads it, `command: [./notes.sh]` prints it"
            }
            Self::TwoContents => "remove all but one of them",
            Self::TwoTransports => "remove one of the two, or make it two servers",
            Self::GoesWith { .. } => "remove it",
            Self::SamePrefix { .. } => "give one of them another `prefix`",
            Self::BadVariable { .. } => "write `${NAME}`, or `$${` if you mean no variable",
            Self::TooLarge
            | Self::NotUtf8
            | Self::TooDeep
            | Self::TooMany
            | Self::AliasBomb
            | Self::AliasLoop
            | Self::SecondDocument
            | Self::BadName { .. }
            | Self::ListedTwice { .. }
            | Self::More => return None,
        };
        Some(text.to_owned())
    }
}

fn duration_help(written: &str) -> String {
    match duration::meant(written) {
        Some(meant) => format!("write `{meant}`"),
        None => "write a whole number and its unit, such as 250ms, 10s, 5m, 2h or 1d".to_owned(),
    }
}

fn type_help(key: &str, wanted: &str, found: &str) -> Option<String> {
    let text = match (key, wanted, found) {
        ("command", "a list", _) => {
            "write the program and its arguments as a list, such as `[python3, shop.py]`"
        }
        ("states", "a map", _) => "write each state as a key, such as `new: { initial: true }`",
        ("tools" | "resources" | "prompts", "a map", _) => {
            "write each name as a key, such as `lookup: found`"
        }
        ("after", "a map", _) => "write how long and where to, such as `{ 30m: expired }`",
        (_, "a map", "text") => "write keys and values, such as `{ terminal: true }`",
        (_, "a list", "text") => "write it in brackets, such as `[one]`",
        (_, "true or false", "text") => "write `true` or `false`, without quotes",
        ("when" | "if", bindings::CEL, "nothing") => {
            return Some(format!("finish it, such as `{key}: args.amount > 0`"));
        }
        (_, bindings::CEL, _) => "write CEL as text, such as `args.order` or `'null'`",
        _ => return None,
    };
    Some(text.to_owned())
}

fn missing_help(key: &str) -> Option<String> {
    let text = match key {
        "interlock" => "begin the file with `interlock: 1`, the version of its format",
        "name" => "say what it is called, such as `name: refund`",
        "to" => "say which state it leads to, such as `to: found`",
        "command" => "say what to run, such as `command: [python3, shop.py]`",
        _ => return None,
    };
    Some(text.to_owned())
}

fn same_prefix(prefix: &str, first: &str) -> String {
    match prefix {
        "" => {
            format!("the names of this server's tools have no prefix, nor have those of `{first}`")
        }
        _ => format!(
            "the names of this server's tools begin with `{prefix}`, as those of `{first}` do"
        ),
    }
}

fn kinds(kind: Option<Kind>) -> String {
    match kind {
        Some(kind) => kind.to_string(),
        None => "tool, resource or prompt".to_owned(),
    }
}

/// More findings than this help nobody, and each may cost a search for what was meant.
pub(super) const MAX_FINDINGS: usize = 100;

/// Collects findings in whatever order they come.
#[derive(Debug, Default)]
pub(super) struct Findings {
    list: Vec<Finding>,
}

impl Findings {
    /// Adds something that is wrong with the text.
    pub(super) fn error(&mut self, span: Span, problem: FileProblem) {
        let problem = match self.list.len() {
            ..MAX_FINDINGS => problem,
            MAX_FINDINGS => FileProblem::More,
            _ => return,
        };
        self.list.push(Finding {
            problem: problem.into(),
            span: Some(span),
        });
    }

    /// Adds what was found when the workflow was judged.
    pub(super) fn extend(&mut self, findings: impl IntoIterator<Item = Finding>) {
        const MOST: usize = 10 * MAX_FINDINGS;
        let mut findings = findings.into_iter();
        self.list.extend(findings.by_ref().take(MOST));
        // What is left out must not make a wrong file right.
        if let Some(left) = findings.find(|found| found.severity() == Severity::Error) {
            self.list.push(left);
        }
    }

    /// How many there are so far.
    pub(super) fn count(&self) -> usize {
        self.list.len()
    }

    /// No more errors are added, so nothing more need be worked out for them.
    pub(super) fn is_full(&self) -> bool {
        self.list.len() > MAX_FINDINGS
    }

    /// The warnings if there are no errors, or else everything; sorted by position.
    pub(super) fn judge(self) -> Result<Vec<Finding>, Invalid> {
        let failed = self
            .list
            .iter()
            .any(|found| found.severity() == Severity::Error);
        let sorted = Invalid::from(self);
        if failed {
            Err(sorted)
        } else {
            Ok(sorted.findings)
        }
    }
}

impl From<Findings> for Invalid {
    fn from(Findings { list: mut findings }: Findings) -> Self {
        findings.sort_by_key(|found| (found.span.map(|at| at.start), found.problem.code()));
        // A value that is repeated by an alias is read, and found wanting, once per alias.
        findings.dedup();
        Self { findings }
    }
}

/// A text from the file as it can be shown to a person: on one line, not too long, and with
/// nothing in it that a terminal would obey.
pub(super) fn shown(text: &str) -> String {
    const LONGEST: usize = 64;
    let mut shown: String = text
        .chars()
        .take(LONGEST)
        .flat_map(char::escape_debug)
        .collect();
    if text.chars().nth(LONGEST).is_some() {
        shown.push('…');
    }
    shown
}
