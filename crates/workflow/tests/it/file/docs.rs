//! The examples of the documentation are files that can be read.

use super::accepted;

const DOCS: &str = include_str!("../../../../../docs/workflow-file.md");

/// The blocks of YAML: what stands behind the word, the line, and the text.
fn blocks() -> Vec<(&'static str, usize, String)> {
    let mut blocks = Vec::new();
    let mut lines = DOCS.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        if let Some(about) = line.strip_prefix("```yaml") {
            let body = lines.by_ref().map(|(_, line)| line);
            let text = body.take_while(|line| *line != "```");
            let text = text.map(|line| format!("{line}\n")).collect();
            blocks.push((about.trim(), at + 1, text));
        }
    }
    blocks
}

fn indented(text: &str, by: usize) -> String {
    let lines = text.lines();
    lines
        .map(|line| format!("{}{line}\n", " ".repeat(by)))
        .collect()
}

/// A file around a piece of one. Every name that the pieces use is there.
fn whole(about: &str, text: &str) -> String {
    let head = "interlock: 1\nname: docs\nservers: { shop: { command: [./shop] } }\n";
    let start = "  start:\n    initial: true\n    tools:\n      begin: { success: { to: found, set: { order: args.order, left: '1' } } }\n";
    let rest = "  review: { tools: { refund: paid, reject: found } }\n  paid: { terminal: true }\n  expired: { terminal: true }\n";
    match about {
        "" => text.to_owned(),
        "fragment of the file" => {
            format!("{head}{text}states:\n{start}  found: {{ tools: {{ refund: paid }} }}\n{rest}")
        }
        "fragment of a state" => {
            let found = indented(text, 4);
            format!("{head}states:\n{start}  found:\n{found}{rest}")
        }
        "fragment of a tool" => {
            let refund = indented(text, 8);
            format!("{head}states:\n{start}  found:\n    tools:\n      refund:\n{refund}{rest}")
        }
        other => panic!("nobody knows how to run a {other:?}"),
    }
}

#[test]
fn every_example_in_the_documentation_is_read_without_an_error() {
    let blocks = blocks();
    assert!(blocks.len() >= 9, "only {} examples", blocks.len());
    for (about, line, text) in blocks {
        let file = accepted(&whole(about, &text));
        let warnings: Vec<_> = file
            .warnings
            .iter()
            .map(ToString::to_string)
            .filter(|told| !told.contains("[unreachable-state]"))
            .collect();
        assert!(warnings.is_empty(), "line {line}: {warnings:#?}");
    }
}
