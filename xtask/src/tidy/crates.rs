//! Which crate may know which: the arrows of the architecture in one table.

use anyhow::Result;

use crate::process;
use crate::workspace::{Dependency, Kind, Origin, Package, Workspace};

use super::{Finding, Rule, Source};

/// One row per crate of the workspace. A crate without a row is a finding.
const TABLE: &[Row] = &[
    Row {
        name: "interlock-proto",
        ours: &[],
        outside: Outside::Only(&["foldhash", "memchr", "serde", "serde_json", "smallvec"]),
    },
    Row {
        name: "interlock-workflow",
        ours: &[],
        outside: Outside::Only(&[
            "cel",
            "dagre",
            "foldhash",
            "regex",
            "schemars",
            "serde",
            "serde-saphyr",
            "serde_json",
            "strsim",
            "thiserror",
        ]),
    },
    Row {
        name: "interlock-store",
        ours: &[],
        outside: Outside::Only(&["async-trait", "futures-core", "serde", "thiserror"]),
    },
    Row {
        name: "interlock-engine",
        ours: &["interlock-proto", "interlock-store", "interlock-workflow"],
        outside: Outside::Only(&[
            "async-trait",
            "base64",
            "futures-util",
            "getrandom",
            "serde",
            "serde_json",
            "sha2",
            "thiserror",
            "tokio",
            "tracing",
        ]),
    },
    Row {
        name: "mcp-interlock",
        ours: &[
            "interlock-engine",
            "interlock-proto",
            "interlock-store",
            "interlock-workflow",
        ],
        outside: Outside::AnyBut(&["anyhow", "clap", "miette"]),
    },
    Row {
        name: "interlock-gateway",
        ours: &["mcp-interlock"],
        // Types of rmcp come through the one module of the server that re-exports them.
        outside: Outside::AnyBut(&["anyhow", "axum", "clap", "miette", "rmcp"]),
    },
    Row {
        name: "interlock-cli",
        ours: &["interlock-gateway", "mcp-interlock"],
        outside: Outside::AnyBut(&["axum", "rmcp"]),
    },
    Row {
        name: "interlock-testkit",
        ours: &["mcp-interlock"],
        outside: Outside::AnyBut(&["anyhow", "axum", "clap", "miette"]),
    },
    Row {
        name: "interlock-benches",
        // It meets our servers as programs only, like any other client.
        ours: &[],
        outside: Outside::AnyBut(&["axum", "clap", "miette"]),
    },
    Row {
        name: "xtask",
        // Its tests replay what fuzzing found in these.
        ours: &["interlock-proto", "interlock-workflow"],
        outside: Outside::Only(&["anyhow", "serde_json"]),
    },
];

/// Any crate may use it in its tests.
const TESTKIT: &str = "interlock-testkit";

/// Crates in whose whole tree certain others may not appear: the pure ones have no asynchronous
/// runtime, and the engine knows no wire.
const WITHOUT: &[(&str, &[&str])] = &[
    ("interlock-proto", RUNTIME),
    ("interlock-workflow", RUNTIME),
    ("interlock-store", RUNTIME),
    ("interlock-engine", &["axum", "hyper", "rmcp"]),
];
const RUNTIME: &[&str] = &["tokio"];

/// What one crate may depend on, to build or to run.
struct Row {
    name: &'static str,
    ours: &'static [&'static str],
    outside: Outside,
}

/// Crates of others. What tests use besides is free.
enum Outside {
    Only(&'static [&'static str]),
    AnyBut(&'static [&'static str]),
}

/// Dependencies that the table does not grant.
pub(super) fn arrows(packages: &[Package], sources: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in packages {
        let Some(row) = TABLE.iter().find(|row| row.name == package.name) else {
            let what = format!(
                "{} has no row in the table of crate arrows: add one",
                package.name
            );
            findings.push(finding(Rule::Arrow, package, "name", sources, what));
            continue;
        };
        for dependency in &package.dependencies {
            if let Some(why) = row.objection(dependency) {
                let what = format!(
                    "{} may not depend on {}, {why}: drop it, or change the table of crate arrows",
                    package.name, dependency.name
                );
                findings.push(finding(
                    Rule::Arrow,
                    package,
                    &dependency.name,
                    sources,
                    what,
                ));
            }
        }
    }
    findings
}

impl Row {
    /// Why a dependency is not granted, if it is not.
    fn objection(&self, dependency: &Dependency) -> Option<&'static str> {
        let name = dependency.name.as_str();
        let granted = match (dependency.origin, dependency.kind) {
            (Origin::Workspace, Kind::Ship) => self.ours.contains(&name),
            // A crate names itself to switch on a feature in its own tests.
            (Origin::Workspace, Kind::Dev) => {
                self.ours.contains(&name) || name == TESTKIT || name == self.name
            }
            (Origin::Outside, Kind::Dev) => true,
            (Origin::Outside, Kind::Ship) => match self.outside {
                Outside::Only(names) => names.contains(&name),
                Outside::AnyBut(names) => !names.contains(&name),
            },
        };
        match dependency.origin {
            Origin::Workspace if !granted => Some("which points the wrong way"),
            Origin::Outside if !granted => Some("a world that it does not know"),
            Origin::Workspace | Origin::Outside => None,
        }
    }
}

/// Published crates that do not say what they are or under which licence.
pub(super) fn published(packages: &[Package], sources: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in packages.iter().filter(|package| package.published) {
        let fields = [
            ("description", &package.description),
            ("license", &package.license),
        ];
        for (field, value) in fields {
            if value.as_ref().is_none_or(|text| text.trim().is_empty()) {
                let what = format!("{} is published: give it a {field}", package.name);
                findings.push(finding(Rule::Published, package, "name", sources, what));
            }
        }
    }
    findings
}

/// Crates that others have brought into trees where they may not appear.
pub(super) fn trees(workspace: &Workspace) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for package in &workspace.packages {
        let row = WITHOUT.iter().find(|(name, _)| *name == package.name);
        let Some((_, without)) = row else {
            continue;
        };
        let tree = process::output(process::cargo(workspace).args([
            "tree",
            "--package",
            &package.name,
            "--edges",
            "normal",
            "--all-features",
            "--target",
            "all",
            "--prefix",
            "none",
            "--format",
            "{p}",
            "--locked",
        ]))?;
        findings.extend(caught(&tree, package, without));
    }
    Ok(findings)
}

fn caught<'a>(
    tree: &'a str,
    package: &'a Package,
    without: &'a [&str],
) -> impl Iterator<Item = Finding> + 'a {
    let is_in = |name: &str| {
        tree.lines()
            .any(|line| line.split(' ').next() == Some(name))
    };
    let names = without.iter().filter(move |name| is_in(name));
    names.map(|name| Finding {
        rule: Rule::Arrow,
        path: package.manifest.clone(),
        line: 1,
        what: format!(
            "{0} has {name} in its tree: `cargo tree -p {0} -e normal -i {name}` tells from where; \
             drop that dependency or its feature",
            package.name
        ),
    })
}

/// A finding at the line of the manifest that begins with `key`.
fn finding(rule: Rule, package: &Package, key: &str, sources: &[Source], what: String) -> Finding {
    let manifest = sources
        .iter()
        .find(|source| source.path == package.manifest);
    let begins = |text: &str| {
        text.strip_prefix(key)
            .is_some_and(|rest| rest.starts_with([' ', '.', '=']))
    };
    let line = manifest.and_then(|source| source.lines().find(|(_, text)| begins(text)));
    Finding {
        rule,
        path: package.manifest.clone(),
        line: line.map_or(1, |(line, _)| line),
        what,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, dependencies: &[(&str, Kind, Origin)]) -> Package {
        Package {
            name: name.to_owned(),
            manifest: "Cargo.toml".to_owned(),
            dependencies: dependencies
                .iter()
                .map(|(name, kind, origin)| Dependency {
                    name: (*name).to_owned(),
                    kind: *kind,
                    origin: *origin,
                })
                .collect(),
            ..Package::default()
        }
    }

    /// What is found in one crate with one dependency.
    fn found(name: &str, dependency: (&str, Kind, Origin)) -> Vec<String> {
        let manifest = Source {
            path: "Cargo.toml".to_owned(),
            text: format!(
                "[package]\nname = {name:?}\n\n[dependencies]\n{}.workspace = true\n",
                dependency.0
            ),
        };
        let findings = arrows(&[package(name, &[dependency])], &[manifest]);
        findings.iter().map(Finding::to_string).collect()
    }

    #[test]
    fn an_arrow_that_is_not_in_the_table_is_found_at_its_line() {
        let back = found(
            "interlock-proto",
            ("interlock-store", Kind::Ship, Origin::Workspace),
        );
        assert_eq!(
            back,
            [
                "Cargo.toml:5: interlock-proto may not depend on interlock-store, \
              which points the wrong way: drop it, or change the table of crate arrows"
            ]
        );
        let down = ("interlock-proto", Kind::Ship, Origin::Workspace);
        assert!(found("mcp-interlock", down).is_empty());
    }

    #[test]
    fn an_outside_world_is_granted_or_not() {
        let ship = |name| (name, Kind::Ship, Origin::Outside);
        assert!(found("interlock-proto", ship("serde")).is_empty());
        assert_eq!(found("interlock-proto", ship("rand")).len(), 1);
        assert!(found("interlock-gateway", ship("tokio")).is_empty());
        assert_eq!(found("interlock-gateway", ship("rmcp")).len(), 1);
    }

    #[test]
    fn tests_may_use_more() {
        let dev = |name, origin| (name, Kind::Dev, origin);
        assert!(found("interlock-proto", dev("proptest", Origin::Outside)).is_empty());
        assert!(
            found(
                "interlock-proto",
                dev("interlock-testkit", Origin::Workspace)
            )
            .is_empty()
        );
        assert!(found("interlock-store", dev("interlock-store", Origin::Workspace)).is_empty());
        assert_eq!(
            found("interlock-store", dev("interlock-proto", Origin::Workspace)).len(),
            1
        );
        let shipped = ("interlock-testkit", Kind::Ship, Origin::Workspace);
        assert_eq!(found("mcp-interlock", shipped).len(), 1);
    }

    #[test]
    fn a_crate_without_a_row_is_found() {
        let findings = found("interlock-new", ("serde", Kind::Ship, Origin::Outside));
        assert!(
            findings[0].starts_with("Cargo.toml:2: interlock-new has no row"),
            "{findings:?}"
        );
    }

    #[test]
    fn a_published_crate_says_what_it_is() {
        let published_crate = |description: Option<&str>| Package {
            published: true,
            description: description.map(str::to_owned),
            license: Some("MIT".to_owned()),
            ..package("a", &[])
        };
        assert!(published(&[published_crate(Some("does a"))], &[]).is_empty());
        let findings = published(&[published_crate(None)], &[]);
        assert_eq!(
            findings[0].to_string(),
            "Cargo.toml:1: a is published: give it a description"
        );
        let private = Package {
            published: false,
            ..published_crate(None)
        };
        assert!(published(&[private], &[]).is_empty());
    }

    #[test]
    fn a_runtime_anywhere_in_the_tree_is_found() {
        let proto = package("interlock-proto", &[]);
        let clean = "interlock-proto v0.1.0\nserde v1.0.0\ntokio-free v1.0.0\n";
        assert_eq!(caught(clean, &proto, RUNTIME).count(), 0);
        let tree = format!("{clean}tokio v1.54.1\n");
        assert_eq!(caught(&tree, &proto, RUNTIME).count(), 1);
    }
}
