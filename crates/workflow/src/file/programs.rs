//! The keys of a program that is run: of a tool, a resource or a server.

use super::{
    Program,
    reader::Reader,
    report::FileProblem,
    tree::{self, Entry, Node},
    variables::{self, Piece},
};
use crate::Span;

impl Reader<'_> {
    /// Reads one key of a program. Whether it is one.
    pub(super) fn program_key(&mut self, program: &mut Program, key: &str, value: &Node) -> bool {
        match key {
            "command" => program.command = self.command(value),
            "env" => program.env = self.environment(value),
            "env_from" => program.env_from = self.inherited(value),
            "cwd" => program.cwd = self.folder(value),
            _ => return false,
        }
        true
    }

    fn command(&mut self, node: &Node) -> Vec<String> {
        let Some(words) = self.list("command", node) else {
            return Vec::new();
        };
        let program = words.first();
        if program.is_none_or(|program| program.value.written() == Some("")) {
            self.error(node.span, FileProblem::NoProgram);
        }
        let words = words.iter();
        words
            .filter_map(|word| self.passed_on("command", word))
            .collect()
    }

    fn environment(&mut self, node: &Node) -> Vec<(String, String)> {
        let mut variables = Vec::new();
        for Entry { key, value } in self.map("env", node).unwrap_or_default() {
            self.variable_name(&key.text, key.span);
            if let Some(text) = self.passed_on("env", value) {
                variables.push((key.text.clone(), text));
            }
        }
        variables
    }

    fn inherited(&mut self, node: &Node) -> Vec<String> {
        let mut names = Vec::new();
        for item in self.list("env_from", node).unwrap_or_default() {
            if let Some(name) = self.owned("env_from", item) {
                self.variable_name(&name, item.span);
                names.push(name);
            }
        }
        names
    }

    fn folder(&mut self, node: &Node) -> Option<String> {
        let folder = self.passed_on("cwd", node)?;
        if folder.is_empty() {
            self.bad_value("cwd", "the path of a folder", node.span, &folder);
        }
        Some(folder)
    }

    fn variable_name(&mut self, name: &str, span: Span) {
        if name.is_empty() || name.contains(['=', '\0']) {
            let rule = "it must have at least one character, none of them `=`";
            self.bad_name("a variable", rule, name, span);
        }
    }

    /// A text that the operating system can pass on.
    fn passed_on(&mut self, key: &'static str, node: &Node) -> Option<String> {
        self.free_of(key, node, "free of NUL characters", &['\0'])
    }

    /// A text in which `${VAR}` may stand and some characters may not.
    pub(super) fn free_of(
        &mut self,
        key: &'static str,
        node: &Node,
        wanted: &'static str,
        forbidden: &[char],
    ) -> Option<String> {
        let text = self.owned(key, node)?;
        self.variables(&text, node.span);
        if text.contains(forbidden) {
            self.bad_value(key, wanted, node.span, &text);
        }
        Some(text)
    }

    /// Checks that whatever looks like a variable is one.
    pub(super) fn variables(&mut self, text: &str, span: Span) {
        for piece in variables::pieces(text) {
            let (written, fault) = match piece {
                Piece::Literal(_) | Piece::Variable(_) => continue,
                Piece::Broken { written, fault } => (written, fault),
            };
            if self.findings.is_full() {
                return;
            }
            let found = self.text[span.start..span.end].find(written);
            let at = found.map_or(span, |at| {
                let start = span.start + at;
                tree::place(self.text, start, start + written.len())
            });
            let written = written.to_owned();
            self.error(at, FileProblem::BadVariable { written, fault });
        }
    }
}
