//! The sections `tools`, `resources` and `prompts`.

use super::{
    Annotations, CommandTool, PromptArgument, PromptText, StaticResource,
    reader::{Reader, Shape},
    report::FileProblem,
    tree::{self, Entry, Node, Value},
};
use crate::{
    Kind, Span,
    template::{self, Piece},
};
use serde_json::{Map, json};
use std::collections::HashSet;

pub(super) const TOOL: Shape = Shape {
    what: "a tool",
    keys: &[
        "title",
        "description",
        "input",
        "output",
        "command",
        "timeout",
        "annotations",
    ],
};

pub(super) const ANNOTATIONS: Shape = Shape {
    what: "a tool's annotations",
    keys: &[
        "title",
        "readOnlyHint",
        "destructiveHint",
        "idempotentHint",
        "openWorldHint",
    ],
};

pub(super) const RESOURCE: Shape = Shape {
    what: "a resource",
    keys: &["name", "description", "mime_type", "text"],
};

pub(super) const PROMPT: Shape = Shape {
    what: "a prompt",
    keys: &["description", "arguments", "text"],
};

pub(super) const ARGUMENT: Shape = Shape {
    what: "an argument",
    keys: &["name", "description", "required"],
};

/// The gateway's own tools for clients that carry their workflow by a handle.
const RESERVED: [&str; 2] = ["workflow_start", "workflow_status"];

impl Reader<'_> {
    pub(super) fn tools(&mut self, entries: &[Entry]) -> Vec<CommandTool> {
        entries
            .iter()
            .filter_map(|entry| self.tool(entry))
            .collect()
    }

    pub(super) fn resources(&mut self, entries: &[Entry]) -> Vec<StaticResource> {
        entries
            .iter()
            .filter_map(|entry| self.resource(entry))
            .collect()
    }

    pub(super) fn prompts(&mut self, entries: &[Entry]) -> Vec<PromptText> {
        entries
            .iter()
            .filter_map(|entry| self.prompt(entry))
            .collect()
    }

    fn tool(&mut self, Entry { key, value }: &Entry) -> Option<CommandTool> {
        self.artifact_name(Kind::Tool, key);
        if RESERVED.contains(&key.text.as_str()) {
            self.bad_name(TOOL.what, "it is reserved", &key.text, key.span);
        }
        let entries = self.map(&key.text, value)?;
        self.require(&TOOL, key.span, entries, &["description", "command"]);
        let mut tool = CommandTool {
            name: key.text.clone(),
            title: None,
            description: String::new(),
            input: any_object(),
            output: None,
            command: Vec::new(),
            timeout: None,
            annotations: None,
        };
        for Entry { key, value } in entries {
            match key.text.as_str() {
                "title" => tool.title = self.owned("title", value),
                "description" => {
                    tool.description = self.owned("description", value).unwrap_or_default();
                }
                "input" => tool.input = self.schema("input", value).unwrap_or_else(any_object),
                "output" => tool.output = self.schema("output", value),
                "command" => tool.command = self.command(value),
                "timeout" => tool.timeout = self.duration("timeout", value),
                "annotations" => tool.annotations = self.annotations(value),
                _ => self.stray(&TOOL, key),
            }
        }
        Some(tool)
    }

    /// A JSON schema for an object, which is the only kind that MCP knows for a tool.
    fn schema(&mut self, key: &'static str, node: &Node) -> Option<serde_json::Value> {
        let entries = self.map(key, node)?;
        match entries.iter().find(|entry| entry.key.text == "type") {
            Some(entry) if entry.value.value.written() != Some("object") => {
                self.bad_schema_type(key, &entry.value);
                None
            }
            Some(_) => Some(node.value.to_json()),
            None => {
                let mut schema = Map::from_iter([("type".to_owned(), json!("object"))]);
                if let serde_json::Value::Object(written) = node.value.to_json() {
                    schema.extend(written);
                }
                Some(schema.into())
            }
        }
    }

    fn bad_schema_type(&mut self, key: &str, node: &Node) {
        let Some(written) = self.text("type", node) else {
            return;
        };
        let wanted = format!("`object` in the schema of `{key}`");
        self.bad_value("type", wanted, node.span, written);
    }

    fn command(&mut self, node: &Node) -> Vec<String> {
        let words = self.program(node).unwrap_or_default();
        words.iter().filter_map(|word| self.word(word)).collect()
    }

    /// The words of a command, of which the first must say something.
    pub(super) fn program<'n>(&mut self, node: &'n Node) -> Option<&'n [Node]> {
        let words = self.list("command", node)?;
        if words
            .first()
            .is_none_or(|program| program.value.written() == Some(""))
        {
            self.error(node.span, FileProblem::NoProgram);
        }
        Some(words)
    }

    pub(super) fn word(&mut self, node: &Node) -> Option<String> {
        let word = self.owned("command", node)?;
        // The operating system could not pass it on.
        if word.contains('\0') {
            self.bad_value("command", "free of NUL characters", node.span, &word);
        }
        Some(word)
    }

    fn annotations(&mut self, node: &Node) -> Option<Annotations> {
        let mut annotations = Annotations::default();
        for Entry { key, value } in self.map("annotations", node)? {
            let hint = match key.text.as_str() {
                "title" => {
                    annotations.title = self.owned("title", value);
                    continue;
                }
                "readOnlyHint" => &mut annotations.read_only_hint,
                "destructiveHint" => &mut annotations.destructive_hint,
                "idempotentHint" => &mut annotations.idempotent_hint,
                "openWorldHint" => &mut annotations.open_world_hint,
                _ => {
                    self.stray(&ANNOTATIONS, key);
                    continue;
                }
            };
            *hint = self.flag(&key.text, value);
        }
        Some(annotations)
    }

    fn resource(&mut self, Entry { key, value }: &Entry) -> Option<StaticResource> {
        self.artifact_name(Kind::Resource, key);
        let entries = self.map(&key.text, value)?;
        self.require(&RESOURCE, key.span, entries, &["text"]);
        let mut resource = StaticResource {
            uri: key.text.clone(),
            name: None,
            description: None,
            mime_type: None,
            text: String::new(),
        };
        for Entry { key, value } in entries {
            match key.text.as_str() {
                "name" => resource.name = self.owned("name", value),
                "description" => resource.description = self.owned("description", value),
                "mime_type" => resource.mime_type = self.owned("mime_type", value),
                "text" => resource.text = self.owned("text", value).unwrap_or_default(),
                _ => self.stray(&RESOURCE, key),
            }
        }
        Some(resource)
    }

    fn prompt(&mut self, Entry { key, value }: &Entry) -> Option<PromptText> {
        self.artifact_name(Kind::Prompt, key);
        let entries = self.map(&key.text, value)?;
        self.require(&PROMPT, key.span, entries, &["text"]);
        let mut prompt = PromptText {
            name: key.text.clone(),
            description: None,
            arguments: Vec::new(),
            text: String::new(),
        };
        let mut text_span = None;
        for Entry { key, value } in entries {
            match key.text.as_str() {
                "description" => prompt.description = self.owned("description", value),
                "arguments" => prompt.arguments = self.arguments(value),
                "text" => {
                    prompt.text = self.owned("text", value).unwrap_or_default();
                    text_span = Some(value.span);
                }
                _ => self.stray(&PROMPT, key),
            }
        }
        if let Some(span) = text_span {
            self.check_slots(&prompt, span);
        }
        Some(prompt)
    }

    fn arguments(&mut self, node: &Node) -> Vec<PromptArgument> {
        let mut seen = HashSet::new();
        let items = self.list("arguments", node).unwrap_or_default();
        items
            .iter()
            .filter_map(|item| self.argument(item, &mut seen))
            .collect()
    }

    fn argument<'n>(
        &mut self,
        node: &'n Node,
        seen: &mut HashSet<&'n str>,
    ) -> Option<PromptArgument> {
        let Value::Map(entries) = &node.value else {
            return self.wrong_type("arguments", node, "a list of maps with a `name` each");
        };
        self.require(&ARGUMENT, node.span, entries, &["name"]);
        let mut argument = PromptArgument {
            name: String::new(),
            description: None,
            required: false,
        };
        for Entry { key, value } in entries {
            match key.text.as_str() {
                "name" => {
                    let name = self.text("name", value)?;
                    self.plain_name(ARGUMENT.what, name, value.span);
                    if !seen.insert(name) {
                        let name = name.to_owned();
                        self.error(value.span, FileProblem::ListedTwice { name });
                    }
                    argument.name = name.to_owned();
                }
                "description" => argument.description = self.owned("description", value),
                "required" => argument.required = self.flag("required", value).unwrap_or_default(),
                _ => self.stray(&ARGUMENT, key),
            }
        }
        Some(argument)
    }

    /// Every `{{name}}` in the text must name an argument.
    fn check_slots(&mut self, prompt: &PromptText, span: Span) {
        let known: HashSet<_> = prompt
            .arguments
            .iter()
            .map(|argument| &*argument.name)
            .collect();
        let mut from = span.start;
        for piece in template::pieces(&prompt.text) {
            let Piece::Slot { name, written } = piece else {
                continue;
            };
            if self.findings.is_full() {
                return;
            }
            // Escapes and line folding can make the text differ from what stands in the file;
            // then the whole text is marked.
            let found = self.text[from..span.end].find(written).map(|at| from + at);
            if let Some(at) = found {
                from = at + written.len();
            }
            if !known.contains(name) {
                let at = found.map_or(span, |at| tree::place(self.text, at, at + written.len()));
                let help = self.meant(name, known.iter().copied()).or_else(|| {
                    Some("list it in `arguments`, or write it without the braces".to_owned())
                });
                let name = name.to_owned();
                self.error(at, FileProblem::UnknownArgument { name, help });
            }
        }
    }
}

/// The schema of a tool that says nothing of its arguments.
pub(super) fn any_object() -> serde_json::Value {
    json!({ "type": "object" })
}
