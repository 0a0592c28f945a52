//! The sections `tools`, `resources` and `prompts`.

use super::{
    Annotations, CommandTool, Content, Program, PromptArgument, PromptText, Resource,
    reader::{Reader, Shape},
    report::FileProblem,
    servers::place_of,
    tree::{self, Entry, Key, Node, Value},
};
use crate::{
    Kind, Span, UriTemplate,
    template::{self, Piece},
};
use serde_json::{Map, json};
use std::{
    collections::HashSet,
    path::{Component, Path},
};

pub(super) const TOOL: Shape = Shape {
    what: "a tool",
    keys: &[
        "title",
        "description",
        "input",
        "output",
        "command",
        "env",
        "env_from",
        "cwd",
        "timeout",
        "concurrency",
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
    keys: &[
        "name",
        "description",
        "mime_type",
        "text",
        "file",
        "command",
        "env",
        "env_from",
        "cwd",
    ],
};

pub(super) const PROMPT: Shape = Shape {
    what: "a prompt",
    keys: &["description", "arguments", "text"],
};

pub(super) const ARGUMENT: Shape = Shape {
    what: "an argument",
    keys: &["name", "description", "required"],
};

/// What `{{name}}` in a text stands for.
struct Slot {
    /// What is said of a name that is not known.
    lacks: &'static str,
    help: &'static str,
}

const PROMPT_ARGUMENT: Slot = Slot {
    lacks: "the prompt has no argument",
    help: "list it in `arguments`, or write it without the braces",
};

const VARIABLE: Slot = Slot {
    lacks: "the template has no variable",
    help: "name a variable of the template, or write it without the braces",
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

    pub(super) fn resources(&mut self, entries: &[Entry]) -> Vec<Resource> {
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
            program: Program::default(),
            timeout: None,
            concurrency: None,
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
                "timeout" => tool.timeout = self.duration("timeout", value),
                "concurrency" => tool.concurrency = self.count("concurrency", value),
                "annotations" => tool.annotations = self.annotations(value),
                other => {
                    if !self.program_key(&mut tool.program, other, value) {
                        self.stray(&TOOL, key);
                    }
                }
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

    fn resource(&mut self, Entry { key, value }: &Entry) -> Option<Resource> {
        self.resource_name(key);
        let entries = self.map(&key.text, value)?;
        let mut program = Program::default();
        let (mut text, mut file) = (None, None);
        let mut resource = Resource {
            uri: key.text.clone(),
            name: None,
            description: None,
            mime_type: None,
            content: Content::Text(String::new()),
        };
        for Entry { key, value } in entries {
            match key.text.as_str() {
                "name" => resource.name = self.owned("name", value),
                "description" => resource.description = self.owned("description", value),
                "mime_type" => resource.mime_type = self.owned("mime_type", value),
                "text" => text = self.slotted("text", &resource.uri, value),
                "file" => file = self.slotted("file", &resource.uri, value),
                other => {
                    if !self.program_key(&mut program, other, value) {
                        self.stray(&RESOURCE, key);
                    }
                }
            }
        }
        let given = ["text", "file", "command"].map(|key| (key, place_of(entries, key)));
        let mut given = given
            .iter()
            .filter_map(|(key, place)| Some((*key, (*place)?)));
        match (given.next(), given.next()) {
            (None, _) => self.error(key.span, FileProblem::NoContent),
            (Some(_), Some((_, second))) => self.error(second, FileProblem::TwoContents),
            (Some(("command", _)), None) => {
                resource.content = Content::Command(program);
                return Some(resource);
            }
            (Some(_), None) => {}
        }
        self.misplaced(entries, &["env", "env_from", "cwd"], "command");
        resource.content = match (text, file) {
            (_, Some(path)) => Content::File(path),
            (text, None) => Content::Text(text.unwrap_or_default()),
        };
        Some(resource)
    }

    fn resource_name(&mut self, key: &Key) {
        self.artifact_name(Kind::Resource, key);
        if let Err(fault) = UriTemplate::parse(&key.text) {
            let name = key.text.clone();
            self.error(key.span, FileProblem::BadTemplate { name, fault });
        }
    }

    /// A text in which `{{name}}` stands for a variable of the resource's template.
    fn slotted(&mut self, key: &'static str, uri: &str, node: &Node) -> Option<String> {
        let text = self.owned(key, node)?;
        let is_inside =
            |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
        let leads_out = !Path::new(&text).components().all(is_inside);
        if key == "file" && (text.is_empty() || text.contains('\0') || leads_out) {
            let wanted = "the path of a file inside the folder of this one";
            self.bad_value(key, wanted, node.span, &text);
        }
        // A URI without variables leaves its text as it is.
        if let Ok(template) = UriTemplate::parse(uri)
            && uri.contains('{')
        {
            self.check_slots(&text, &template.variables(), node.span, &VARIABLE);
        }
        Some(text)
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
            let names = prompt.arguments.iter().map(|argument| &*argument.name);
            self.check_slots(
                &prompt.text,
                &names.collect::<Vec<_>>(),
                span,
                &PROMPT_ARGUMENT,
            );
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

    /// Every `{{name}}` in the text must be known.
    fn check_slots(&mut self, text: &str, known: &[&str], span: Span, slot: &Slot) {
        let mut from = span.start;
        for piece in template::pieces(text) {
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
            if !known.contains(&name) {
                let at = found.map_or(span, |at| tree::place(self.text, at, at + written.len()));
                let meant = self.meant(name, known.iter().copied());
                let help = meant.or_else(|| Some(slot.help.to_owned()));
                let (lacks, name) = (slot.lacks, name.to_owned());
                self.error(at, FileProblem::UnknownArgument { lacks, name, help });
            }
        }
    }
}

/// The schema of a tool that says nothing of its arguments.
pub(super) fn any_object() -> serde_json::Value {
    json!({ "type": "object" })
}
