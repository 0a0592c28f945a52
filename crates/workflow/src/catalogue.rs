//! What a server has, for comparison with what its workflow names.

use crate::{
    Artifact, Finding, Kind, Problem,
    intern::{Symbols, key},
    nearest::Nearest,
    uri_template::{is_template, matches},
};
use serde_json::Value;
use std::collections::BTreeMap;

/// The tools, resources and prompts of a server.
///
/// A kind is *closed* when nothing can join it, so that naming something else is an error, and
/// *open* when something may still come, so that it is only worth a warning.
///
/// ```
/// use interlock_workflow::{Catalogue, Kind};
///
/// let catalogue = Catalogue::closed()
///     .with(Kind::Tool, "refund")
///     .open(Kind::Resource);
/// assert!(catalogue.has(Kind::Tool, "refund"));
/// assert!(!catalogue.is_closed(Kind::Resource));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Catalogue {
    shelves: [Shelf; 3],
    /// What the names of tools and prompts begin with that are not known yet and will be there.
    expected: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Shelf {
    closed: bool,
    /// Sorted, so that findings come in the same order whoever registered first.
    names: BTreeMap<String, About>,
}

/// What a server says of one of its artifacts. Most of it only tools have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// The schema of its arguments.
    pub input: Option<Value>,
    /// The schema of its structured result.
    pub output: Option<Value>,
    /// What it changes may be lost.
    pub destructive: bool,
}

impl Catalogue {
    /// An empty catalogue to which nothing can be added from outside.
    pub fn closed() -> Self {
        let mut catalogue = Self::growing();
        for shelf in &mut catalogue.shelves {
            shelf.closed = true;
        }
        catalogue
    }

    /// An empty catalogue in which any kind may still grow.
    pub fn growing() -> Self {
        Self::default()
    }

    /// Adds an artifact.
    #[must_use]
    pub fn with(mut self, kind: Kind, name: impl Into<String>) -> Self {
        self.insert(kind, name);
        self
    }

    /// Says that more of this kind may come.
    #[must_use]
    pub fn open(mut self, kind: Kind) -> Self {
        self.shelves[kind.index()].closed = false;
        self
    }

    /// Adds an artifact.
    pub fn insert(&mut self, kind: Kind, name: impl Into<String>) {
        self.describe(kind, name, About::default());
    }

    /// Adds an artifact of which more is known than its name.
    pub fn describe(&mut self, kind: Kind, name: impl Into<String>, about: About) {
        let name = key(kind, &name.into()).into_owned();
        self.shelves[kind.index()].names.insert(name, about);
    }

    /// Says that tools and prompts with names that begin so will be there, though nobody knows
    /// them yet: those of a server that is not connected.
    pub fn expect(&mut self, prefix: impl Into<String>) {
        self.expected.push(prefix.into());
    }

    /// Whether the server has it.
    pub fn has(&self, kind: Kind, name: &str) -> bool {
        self.about_named(kind, name).is_some()
    }

    /// What is known of an artifact.
    pub fn about(&self, artifact: &Artifact) -> Option<&About> {
        self.about_named(artifact.kind, &artifact.name)
    }

    fn about_named(&self, kind: Kind, name: &str) -> Option<&About> {
        self.shelves[kind.index()].names.get(&*key(kind, name))
    }

    /// What a name could be if its prefix was forgotten.
    fn prefixed(&self, kind: Kind, name: &str) -> Option<String> {
        match kind {
            Kind::Tool | Kind::Prompt => Some(format!("{}{name}", self.expected.first()?)),
            Kind::Resource => None,
        }
    }

    /// Whether it may be there, as far as anybody can tell.
    fn may_have(&self, kind: Kind, name: &str) -> bool {
        let expected = || match kind {
            Kind::Tool | Kind::Prompt => {
                let mut prefixes = self.expected.iter();
                prefixes.any(|prefix| name.starts_with(prefix.as_str()))
            }
            // Upstream resources keep their URIs, so any may come.
            Kind::Resource => !self.expected.is_empty(),
        };
        let instance_of_template = || {
            let mut templates = self.names(kind).filter(|name| is_template(name));
            kind == Kind::Resource && templates.any(|template| matches(template, name))
        };
        self.has(kind, name) || expected() || instance_of_template()
    }

    /// Whether nothing can join this kind.
    pub fn is_closed(&self, kind: Kind) -> bool {
        self.shelves[kind.index()].closed
    }

    /// The names of one kind, sorted.
    pub fn names(&self, kind: Kind) -> impl Iterator<Item = &str> {
        self.shelves[kind.index()].names.keys().map(String::as_str)
    }
}

/// What the workflow names and the server lacks, then what the server has and nobody can use.
pub(crate) fn compare(
    symbols: &Symbols,
    always_everything: bool,
    catalogue: &Catalogue,
) -> Vec<Finding> {
    let mut nearest = Nearest::new();
    let mut findings = Vec::new();
    for symbol in symbols.iter() {
        let kind = symbol.kind;
        if catalogue.may_have(kind, &symbol.name) {
            continue;
        }
        let artifact = Artifact::new(kind, &*symbol.name);
        let nearest = nearest
            .find(&symbol.name, catalogue.names(kind))
            .or_else(|| catalogue.prefixed(kind, &symbol.name));
        let problem = if catalogue.is_closed(kind) {
            Problem::UnknownArtifact { artifact, nearest }
        } else {
            Problem::NotThereYet { artifact, nearest }
        };
        let span = symbol.span;
        findings.push(Finding { problem, span });
    }
    if always_everything {
        return findings;
    }
    for kind in Kind::ALL {
        for name in catalogue.names(kind) {
            let in_part = || {
                let template = kind == Kind::Resource && is_template(name);
                let mut named = symbols.iter().filter(|symbol| symbol.kind == kind);
                template && named.any(|symbol| matches(name, &symbol.name))
            };
            if symbols.find(kind, name).is_none() && !in_part() {
                let artifact = Artifact::new(kind, name);
                let problem = Problem::BoundNowhere { artifact };
                findings.push(Finding {
                    problem,
                    span: None,
                });
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Workflow, end};

    fn told(workflow: &Workflow, catalogue: &Catalogue) -> Vec<String> {
        let findings = workflow.check(catalogue);
        findings.iter().map(ToString::to_string).collect()
    }

    fn flow() -> Workflow {
        Workflow::builder("flow")
            .state("a", |s| s.initial().tool("go", |t| t.success(end("b"))))
            .always_resource("note://rules")
            .build()
            .unwrap()
    }

    #[test]
    fn a_missing_name_is_an_error_where_the_kind_is_closed_and_a_warning_where_it_is_open() {
        let catalogue = Catalogue::closed().open(Kind::Resource);
        assert_eq!(
            told(&flow(), &catalogue),
            [
                "error[unknown-artifact]: there is no tool \"go\"",
                "warning[not-there-yet]: there is no resource \"note://rules\" yet",
            ]
        );
        assert_eq!(told(&flow(), &Catalogue::growing()).len(), 2);
    }

    #[test]
    fn one_resource_of_a_template_is_there_if_the_template_is() {
        let flow = Workflow::builder("greet")
            .state("a", |s| {
                s.initial()
                    .resource("greeting://alice", |r| r.success(end("b")))
            })
            .build()
            .unwrap();
        let catalogue = Catalogue::closed().with(Kind::Resource, "greeting://{name}");
        assert!(told(&flow, &catalogue).is_empty());
        let catalogue = Catalogue::closed().with(Kind::Resource, "hello://{name}");
        assert_eq!(told(&flow, &catalogue).len(), 2);
    }

    #[test]
    fn what_is_bound_nowhere_is_named_unless_everything_is_callable() {
        let catalogue = Catalogue::growing()
            .with(Kind::Tool, "go")
            .with(Kind::Tool, "spare")
            .with(Kind::Prompt, "go")
            .with(Kind::Resource, "note://rules");
        assert_eq!(
            told(&flow(), &catalogue),
            [
                "warning[bound-nowhere]: tool \"spare\" is bound nowhere, so nobody can use it",
                "warning[bound-nowhere]: prompt \"go\" is bound nowhere, so nobody can use it",
            ]
        );
        let open = Workflow::builder("open")
            .always_everything()
            .build()
            .unwrap();
        assert!(told(&open, &catalogue).is_empty());
    }
}
