//! Everything a server has, by name.

use crate::{
    builder::BuildError,
    handler::{Prompt, Resource, Tool},
    model::JsonObject,
    schema::Schema,
    uri,
};
use interlock_workflow::{About, Kind};
use serde_json::Value;
use std::{collections::HashMap, sync::Arc};

/// Everything a server has, by name and in the order in which it was added.
#[derive(Debug)]
pub(crate) struct Catalogue {
    tools: Shelf<CheckedTool>,
    resources: Shelf<Resource>,
    prompts: Shelf<Prompt>,
}

/// A tool with its schema, ready for use.
#[derive(Debug)]
pub(crate) struct CheckedTool {
    pub(crate) tool: Tool,
    pub(crate) schema: Schema,
    pub(crate) output: Option<Arc<Schema>>,
}

#[derive(Debug)]
struct Shelf<T> {
    items: Vec<(String, Arc<T>)>,
    by_name: HashMap<String, usize>,
}

impl<T> Shelf<T> {
    fn new(kind: Kind, items: Vec<(String, T)>, errors: &mut Vec<BuildError>) -> Self {
        let mut shelf = Self {
            items: Vec::with_capacity(items.len()),
            by_name: HashMap::with_capacity(items.len()),
        };
        for (name, item) in items {
            if let Err(rule) = check_name(kind, &name) {
                errors.push(BuildError::Name { kind, name, rule });
                continue;
            }
            let at = shelf.items.len();
            if shelf.by_name.insert(name.clone(), at).is_some() {
                errors.push(BuildError::Duplicate { kind, name });
            } else {
                shelf.items.push((name, Arc::new(item)));
            }
        }
        shelf
    }

    fn find(&self, name: &str) -> Option<&Arc<T>> {
        self.by_name.get(name).map(|at| &self.items[*at].1)
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.items.iter().map(|(name, _)| name.as_str())
    }
}

/// Tool names as the specification wants them, URIs that are some, and prompt names that can be
/// written on a line.
fn check_name(kind: Kind, name: &str) -> Result<(), &'static str> {
    const MOST: usize = 128;
    match kind {
        Kind::Tool => {
            let allowed = |b: u8| b.is_ascii_alphanumeric() || b"_-./".contains(&b);
            if (1..=MOST).contains(&name.len()) && name.bytes().all(allowed) {
                Ok(())
            } else {
                Err("1 to 128 letters, digits, `_`, `-`, `.` and `/` are allowed")
            }
        }
        Kind::Resource => {
            uri::check(name)?;
            if name.contains(['{', '}']) {
                return Err("what has braces is a template");
            }
            Ok(())
        }
        Kind::Prompt => {
            if name.is_empty() || name.chars().any(char::is_control) {
                Err("it must not be empty, nor hold control characters")
            } else {
                Ok(())
            }
        }
    }
}

impl Catalogue {
    pub(crate) fn new(
        tools: Vec<Tool>,
        resources: Vec<Resource>,
        prompts: Vec<Prompt>,
        errors: &mut Vec<BuildError>,
    ) -> Self {
        let mut checked = Vec::with_capacity(tools.len());
        for tool in tools {
            let name = tool.model.name.to_string();
            let mut prepared = |which, schema: Result<Schema, String>| {
                schema
                    .map_err(|why| {
                        let tool = name.clone();
                        errors.push(BuildError::Schema { which, tool, why });
                    })
                    .ok()
            };
            let schema = prepared("input", Schema::of_arguments(&tool.model.input_schema));
            let output = match &tool.model.output_schema {
                Some(output) => prepared("output", Schema::of_result(output))
                    .map(Arc::new)
                    .map(Some),
                None => Some(None),
            };
            if let Some((schema, output)) = schema.zip(output) {
                let checked_tool = CheckedTool {
                    tool,
                    schema,
                    output,
                };
                checked.push((name, checked_tool));
            }
        }
        let resources = resources
            .into_iter()
            .map(|resource| (resource.model.uri.clone(), resource))
            .collect();
        let prompts = prompts
            .into_iter()
            .map(|prompt| (prompt.model.name.clone(), prompt))
            .collect();
        Self {
            tools: Shelf::new(Kind::Tool, checked, errors),
            resources: Shelf::new(Kind::Resource, resources, errors),
            prompts: Shelf::new(Kind::Prompt, prompts, errors),
        }
    }

    pub(crate) fn tool(&self, name: &str) -> Option<&Arc<CheckedTool>> {
        self.tools.find(name)
    }

    pub(crate) fn resource(&self, uri: &str) -> Option<&Arc<Resource>> {
        self.resources.find(uri)
    }

    pub(crate) fn prompt(&self, name: &str) -> Option<&Arc<Prompt>> {
        self.prompts.find(name)
    }

    pub(crate) fn names(&self, kind: Kind) -> Box<dyn Iterator<Item = &str> + '_> {
        match kind {
            Kind::Tool => Box::new(self.tools.names()),
            Kind::Resource => Box::new(self.resources.names()),
            Kind::Prompt => Box::new(self.prompts.names()),
        }
    }

    pub(crate) fn has_any(&self, kind: Kind) -> bool {
        self.names(kind).next().is_some()
    }

    pub(crate) fn summary(&self) -> interlock_workflow::Catalogue {
        let mut summary = interlock_workflow::Catalogue::closed();
        for kind in Kind::ALL {
            for name in self.names(kind) {
                summary.insert(kind, name);
            }
        }
        for (_, checked) in &self.tools.items {
            let tool = &checked.tool.model;
            let schema = |schema: &Arc<JsonObject>| Value::Object((**schema).clone());
            let annotations = tool.annotations.as_ref();
            let about = About {
                input: Some(schema(&tool.input_schema)),
                output: tool.output_schema.as_ref().map(schema),
                destructive: annotations.and_then(|said| said.destructive_hint) == Some(true),
            };
            summary.describe(Kind::Tool, &*tool.name, about);
        }
        summary
    }
}
