//! Which room of the server may know which: the arrows between its top-level folders in one table.
//!
//! `cargo xtask tidy --arrows` prints those that there are.

use std::collections::BTreeMap;

use super::paths::{self, Mention};
use super::{Finding, Rule, Source};

/// Where the rooms are.
const HOUSE: &str = "crates/server/src/";

/// The rooms from the outside in. A room may import from itself and from those further down.
/// Rooms in one row are siblings, and do not know each other.
const ROOMS: &[&[&str]] = &[
    &["testing"],
    &[ROOT],
    &["mount", "transport"],
    &["session"],
    &["dispatch"],
    &["call"],
    &["core"],
    &["catalog"],
    &["api"],
    &["context"],
    &["outbound"],
    &["wire"],
    &["model"],
    &["schema"],
];

/// The room of what lies directly in the house, and of every name that is exported there.
const ROOT: &str = "root";
const ROOT_MODULES: &[&str] = &["lib", "builder", "effect_runner", "server"];

/// Wrong arrows that are still there: from, to, and how many paths make them. This only shrinks.
const EXCEPTIONS: &[(&str, &str, usize)] = &[];

/// A room says at least in so many lines what lives there, and what it may and must not know.
const CHARTER: usize = 3;

/// Everything about the rooms that is not as the table says.
pub(super) fn findings(sources: &[Source]) -> Vec<Finding> {
    check(sources, ROOMS, EXCEPTIONS)
}

/// All arrows, and rows of exceptions for the wrong ones.
pub(super) fn print(sources: &[Source]) -> String {
    describe(sources, ROOMS)
}

fn check(sources: &[Source], rooms: Rooms, exceptions: &[(&str, &str, usize)]) -> Vec<Finding> {
    let mut findings = misplaced(sources, rooms);
    findings.extend(without_charter(sources, rooms));
    let arrows = arrows(sources, rooms);
    for ((from, to), mentions) in &arrows {
        let excepted = exceptions.iter().find(|row| (row.0, row.1) == (*from, *to));
        let most = excepted.map_or(0, |row| row.2);
        if is_allowed(rooms, from, to) || mentions.len() <= most {
            continue;
        }
        findings.extend(mentions.iter().map(|(source, mention)| {
            let mut what = format!(
                "`crate::{}`: the arrow {from} -> {to} is not allowed",
                mention.path.join("::")
            );
            if most > 0 {
                what += &format!(" ({} such, {most} excepted)", mentions.len());
            }
            source.finding(Rule::Room, mention.line, what)
        }));
    }
    for row in exceptions {
        let left = match is_allowed(rooms, row.0, row.1) {
            true => 0,
            false => arrows.get(&(row.0, row.1)).map_or(0, Vec::len),
        };
        findings.extend(spare_exception(row, left, sources));
    }
    findings
}

/// An exception that is wider than it need be.
fn spare_exception(row: &(&str, &str, usize), left: usize, sources: &[Source]) -> Option<Finding> {
    let (from, to, most) = *row;
    let what = match left {
        _ if left >= most && most > 0 => return None,
        0 => format!("{from} -> {to} needs no exception: remove the row"),
        _ => format!("{from} -> {to}, only {left} left: lower the number"),
    };
    let path = "xtask/src/tidy/rooms.rs";
    let table = sources.iter().find(|source| source.path == path);
    let begins = format!("({from:?}, {to:?}, ");
    let line = table.and_then(|table| table.lines().find(|(_, text)| text.contains(&begins)));
    Some(Finding {
        rule: Rule::Room,
        path: path.to_owned(),
        line: line.map_or(1, |(line, _)| line),
        what,
    })
}

/// Files that lie in no room.
fn misplaced(sources: &[Source], rooms: Rooms) -> Vec<Finding> {
    let is_placed = |top: &str| ROOT_MODULES.contains(&top) || depth(rooms, top).is_some();
    let misplaced = in_house(sources).filter(|(_, module)| {
        // The crate's own file is the only one with no name.
        module.first().is_some_and(|top| !is_placed(top))
    });
    let what = "it lies in no room: move it to one, or change the table of rooms";
    misplaced
        .map(|(source, _)| source.finding(Rule::Room, 1, what))
        .collect()
}

/// Rooms that do not say what they are for.
fn without_charter(sources: &[Source], rooms: Rooms) -> Vec<Finding> {
    let mut findings = Vec::new();
    for room in rooms
        .iter()
        .copied()
        .flatten()
        .filter(|room| **room != ROOT)
    {
        let path = format!("{HOUSE}{room}/mod.rs");
        let source = sources.iter().find(|source| source.path == path);
        let written = source.map_or(0, |source| {
            let lines = source.text.lines();
            lines.take_while(|line| line.starts_with("//!")).count()
        });
        if written < CHARTER {
            findings.push(Finding {
                rule: Rule::Room,
                path,
                line: 1,
                what: format!(
                    "begin it with {CHARTER} lines of `//!` or more: \
                     what lives in this room, what it may know, what it must not do"
                ),
            });
        }
    }
    findings
}

fn describe(sources: &[Source], rooms: Rooms) -> String {
    let arrows = arrows(sources, rooms);
    let mut text = String::new();
    let mut rows = String::new();
    let all = || rooms.iter().copied().flatten();
    for from in all() {
        for to in all() {
            let Some(mentions) = arrows.get(&(*from, *to)) else {
                continue;
            };
            let count = mentions.len();
            let is_allowed = is_allowed(rooms, from, to);
            let mark = if is_allowed { "" } else { " (not allowed)" };
            text += &format!("{from} -> {to}: {count}{mark}\n");
            if !is_allowed {
                rows += &format!("    ({from:?}, {to:?}, {count}),\n");
            }
        }
    }
    format!("{text}\nexceptions:\n{rows}")
}

/// Rows of siblings, from the outside in.
type Rooms<'a> = &'a [&'a [&'a str]];

/// From one room to another.
type Arrow<'a> = (&'a str, &'a str);

/// Every path that leads from one room to another, by arrow.
fn arrows<'a>(
    sources: &'a [Source],
    rooms: Rooms<'a>,
) -> BTreeMap<Arrow<'a>, Vec<(&'a Source, Mention)>> {
    let mut arrows: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (source, module) in in_house(sources) {
        let from = room(rooms, module.first().copied());
        for mention in paths::mentions(&source.text, &module) {
            let to = room(rooms, mention.path.first().map(String::as_str));
            if from != to {
                let mentions = arrows.entry((from, to)).or_default();
                mentions.push((source, mention));
            }
        }
    }
    arrows
}

/// The sources in the house, each with the module that it is.
fn in_house(sources: &[Source]) -> impl Iterator<Item = (&Source, Vec<&str>)> {
    sources.iter().filter_map(|source| {
        let path = source.path.strip_prefix(HOUSE)?.strip_suffix(".rs")?;
        let mut module: Vec<_> = path.split('/').collect();
        if path == "lib" || module.last() == Some(&"mod") {
            module.pop();
        }
        Some((source, module))
    })
}

/// The room to which a path belongs that begins with this name.
fn room<'a>(rooms: Rooms<'a>, first: Option<&str>) -> &'a str {
    let mut names = rooms.iter().copied().flatten();
    names
        .find(|name| Some(**name) == first)
        .copied()
        .unwrap_or(ROOT)
}

fn is_allowed(rooms: Rooms, from: &str, to: &str) -> bool {
    from == to || depth(rooms, from) < depth(rooms, to)
}

fn depth(rooms: Rooms, room: &str) -> Option<usize> {
    rooms.iter().position(|row| row.contains(&room))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &[&[&str]] = &[&[ROOT], &["mount", "transport"], &["session"], &["wire"]];

    /// A house with these files besides a charter for every room.
    fn house(files: &[(&str, &str)]) -> Vec<Source> {
        let mut sources = Vec::new();
        for room in ["mount", "transport", "session", "wire"] {
            sources.push(Source {
                path: format!("{HOUSE}{room}/mod.rs"),
                text: "//! A.\n//!\n//! B.\n".to_owned(),
            });
        }
        for (path, text) in files {
            let path = format!("{HOUSE}{path}");
            sources.retain(|source| source.path != path);
            sources.push(Source {
                path,
                text: (*text).to_owned(),
            });
        }
        sources
    }

    #[track_caller]
    fn check_house(files: &[(&str, &str)], exceptions: &[(&str, &str, usize)], expected: &[&str]) {
        let findings = check(&house(files), SAMPLE, exceptions);
        let findings: Vec<_> = findings.iter().map(Finding::to_string).collect();
        assert_eq!(findings, expected);
    }

    #[test]
    fn arrows_point_inwards() {
        let inwards = [
            ("lib.rs", "pub use mount::Mount;\npub use self::wire::X;"),
            ("builder.rs", "use crate::{mount::A, wire::B, Server};"),
            ("transport/http.rs", "use crate::session::A;\nuse super::B;"),
            ("session/state.rs", "use crate::{session::A, wire::B};"),
        ];
        check_house(&inwards, &[], &[]);
        check_house(
            &[(
                "wire/encode.rs",
                "\nuse crate::{\n    session::Session,\n};",
            )],
            &[],
            &[
                "crates/server/src/wire/encode.rs:3: `crate::session::Session`: \
               the arrow wire -> session is not allowed",
            ],
        );
    }

    #[test]
    fn siblings_do_not_know_each_other() {
        check_house(
            &[("mount/a.rs", "use super::super::transport::B;")],
            &[],
            &["crates/server/src/mount/a.rs:1: `crate::transport::B`: \
               the arrow mount -> transport is not allowed"],
        );
    }

    #[test]
    fn what_the_root_exports_is_the_root() {
        check_house(
            &[("session/a.rs", "mod tests {\n    use crate::Server;\n}")],
            &[],
            &["crates/server/src/session/a.rs:2: `crate::Server`: \
               the arrow session -> root is not allowed"],
        );
    }

    #[test]
    fn every_file_lies_in_a_room() {
        check_house(
            &[("builder/tests.rs", ""), ("peer.rs", ""), ("http/a.rs", "")],
            &[],
            &["peer.rs", "http/a.rs"]
                .map(|path| {
                    let what = "it lies in no room: move it to one, or change the table of rooms";
                    format!("crates/server/src/{path}:1: {what}")
                })
                .each_ref()
                .map(String::as_str),
        );
    }

    #[test]
    fn a_room_begins_with_its_charter() {
        let found = check(
            &house(&[("wire/mod.rs", "//! A.\n//! B.\n\n")]),
            SAMPLE,
            &[],
        );
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].path, "crates/server/src/wire/mod.rs");
        let found = check(&[], SAMPLE, &[]);
        assert_eq!(found.len(), 4);
    }

    #[test]
    fn exceptions_only_shrink() {
        let files = [("wire/a.rs", "use crate::session::{A, B};")];
        check_house(&files, &[("wire", "session", 2)], &[]);
        let one_too_many = ["A", "B"].map(|name| {
            format!(
                "crates/server/src/wire/a.rs:1: `crate::session::{name}`: \
                 the arrow wire -> session is not allowed (2 such, 1 excepted)"
            )
        });
        check_house(
            &files,
            &[("wire", "session", 1)],
            &one_too_many.each_ref().map(String::as_str),
        );
        check_house(
            &files,
            &[
                ("wire", "session", 3),
                ("wire", "mount", 1),
                ("session", "wire", 1),
            ],
            &[
                "xtask/src/tidy/rooms.rs:1: wire -> session, only 2 left: lower the number",
                "xtask/src/tidy/rooms.rs:1: wire -> mount needs no exception: remove the row",
                "xtask/src/tidy/rooms.rs:1: session -> wire needs no exception: remove the row",
            ],
        );
    }

    #[test]
    fn the_list_of_arrows_ends_with_exceptions_to_paste() {
        let house = house(&[
            ("wire/a.rs", "use crate::session::{A, B};"),
            ("session/a.rs", "use crate::wire::C;"),
        ]);
        assert_eq!(
            describe(&house, SAMPLE),
            "session -> wire: 1\n\
             wire -> session: 2 (not allowed)\n\
             \n\
             exceptions:\n    (\"wire\", \"session\", 2),\n"
        );
    }
}
