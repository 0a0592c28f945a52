//! What a file has: its tools with the shape of their arguments, its texts.

use interlock::workflow::{
    Call, Kind, Outcome, Workflow,
    file::{CommandTool, Content, File, PromptText, fill_in},
};
use jsonschema::{PatternOptions, Validator};
use serde_json::{Value, json};
use std::collections::HashMap;

/// How many mistakes a refusal names.
const MOST_MISTAKES: usize = 3;

/// Arguments that nest deeper are not held against a schema that refers to itself: its
/// alternatives could multiply with every level.
const DEEPEST: u32 = 8;

/// The tools, resources and prompts of a file, ready to stand in for them.
pub(crate) struct Inventory<'f> {
    file: &'f File,
    schemas: HashMap<&'f str, Schema>,
}

struct Schema {
    validator: Validator,
    refers: bool,
}

impl<'f> Inventory<'f> {
    pub(crate) fn new(file: &'f File) -> Self {
        let schemas = file.tools.iter().filter_map(|tool| {
            // One that cannot be used was found when the file was read.
            let validator = jsonschema::options()
                .with_pattern_options(PatternOptions::regex())
                .build(&tool.input)
                .ok()?;
            let refers = refers(&tool.input);
            Some((&*tool.name, Schema { validator, refers }))
        });
        Self {
            file,
            schemas: schemas.collect(),
        }
    }

    pub(crate) fn tool(&self, name: &str) -> Option<&'f CommandTool> {
        self.file.tools.iter().find(|tool| tool.name == name)
    }

    pub(crate) fn prompt(&self, name: &str) -> Option<&'f PromptText> {
        self.file.prompts.iter().find(|prompt| prompt.name == name)
    }

    /// What the file says of something, in a line.
    pub(crate) fn description(&self, kind: Kind, name: &str) -> Option<&'f str> {
        match kind {
            Kind::Tool => self.tool(name).map(|tool| &*tool.description),
            Kind::Prompt => self.prompt(name)?.description.as_deref(),
            Kind::Resource => {
                let mut resources = self.file.resources.iter();
                let found = resources.find(|resource| resource.uri == name)?;
                found.description.as_deref()
            }
        }
    }

    /// The names that the file gives to what it has itself.
    pub(crate) fn names(&self, kind: Kind) -> Vec<&'f str> {
        let file = self.file;
        match kind {
            Kind::Tool => file.tools.iter().map(|tool| &*tool.name).collect(),
            Kind::Resource => file.resources.iter().map(|text| &*text.uri).collect(),
            Kind::Prompt => file.prompts.iter().map(|text| &*text.name).collect(),
        }
    }

    /// Whether there can be such a thing. What other servers have is known by the workflow that
    /// names it, or not at all.
    pub(crate) fn may_have(&self, workflow: &Workflow, kind: Kind, name: &str) -> bool {
        workflow.is_bound(kind, name)
            || self.names(kind).contains(&name)
            || (workflow.always_everything() && !self.file.servers.is_empty())
    }

    /// What is wrong with the arguments of a call, if anything is.
    pub(super) fn check(&self, kind: Kind, name: &str, args: &Value) -> Result<(), String> {
        match kind {
            Kind::Tool => self.check_tool(name, args),
            Kind::Prompt => self.check_prompt(name, args),
            Kind::Resource => Ok(()),
        }
    }

    fn check_tool(&self, name: &str, args: &Value) -> Result<(), String> {
        let Some(schema) = self.schemas.get(name) else {
            return Ok(());
        };
        if schema.refers && nests_deeper(args, DEEPEST) || schema.validator.is_valid(args) {
            return Ok(());
        }
        let mistakes = schema.validator.iter_errors(args).take(MOST_MISTAKES);
        let mistakes: Vec<_> = mistakes
            .map(|error| match error.instance_path().as_str() {
                "" => error.masked().to_string(),
                place => format!("{place}: {}", error.masked()),
            })
            .collect();
        Err(format!(
            "the arguments do not match the schema of '{name}': {}",
            mistakes.join("; ")
        ))
    }

    fn check_prompt(&self, name: &str, args: &Value) -> Result<(), String> {
        let arguments = self
            .prompt(name)
            .into_iter()
            .flat_map(|text| &text.arguments);
        let mut required = arguments.filter(|argument| argument.required);
        if let Some(missing) = required.find(|argument| args.get(&argument.name).is_none()) {
            return Err(format!("the argument `{}` is missing", missing.name));
        }
        let mut given = args.as_object().into_iter().flatten();
        match given.find(|(_, value)| !value.is_string()) {
            None => Ok(()),
            Some((name, _)) => Err(format!("the argument `{name}` must be a string")),
        }
    }

    /// What the file itself answers, if it does. Only a success is a text.
    pub(super) fn text(&self, call: &Call<'_>, outcome: Outcome) -> Option<Value> {
        if outcome != Outcome::Success {
            return None;
        }
        match call.kind {
            Kind::Tool => None,
            Kind::Resource => {
                let mut resources = self.file.resources.iter();
                let found = resources.find(|resource| resource.uri == call.name)?;
                // What a file or a program holds, nobody looks at here.
                let Content::Text(text) = &found.content else {
                    return None;
                };
                Some(json!({ "contents": [{ "uri": found.uri, "text": text }] }))
            }
            Kind::Prompt => {
                let prompt = self.prompt(call.name)?;
                let argument = |name: &str| call.args.get(name)?.as_str();
                let text = fill_in(&prompt.text, argument);
                let content = json!({ "type": "text", "text": text });
                Some(json!({ "messages": [{ "role": "user", "content": content }] }))
            }
        }
    }

    /// Whether the file itself answers this, so that it cannot go wrong.
    pub(crate) fn answers(&self, kind: Kind, name: &str) -> bool {
        match kind {
            Kind::Tool => false,
            Kind::Resource | Kind::Prompt => self.names(kind).contains(&name),
        }
    }
}

/// Whether a schema can lead back into itself.
fn refers(schema: &Value) -> bool {
    let mut open = vec![schema];
    while let Some(value) = open.pop() {
        match value {
            Value::Object(object) => {
                let references = ["$ref", "$dynamicRef", "$recursiveRef"];
                if references.iter().any(|name| object.contains_key(*name)) {
                    return true;
                }
                open.extend(object.values());
            }
            Value::Array(items) => open.extend(items),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    false
}

fn nests_deeper(value: &Value, levels: u32) -> bool {
    // Whatever was read stops at some depth, so this does.
    let mut inside: Box<dyn Iterator<Item = &Value>> = match value {
        Value::Array(items) => Box::new(items.iter()),
        Value::Object(object) => Box::new(object.values()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return false,
    };
    levels == 0 || inside.any(|value| nests_deeper(value, levels - 1))
}
