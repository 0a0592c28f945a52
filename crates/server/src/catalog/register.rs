//! Adds items to a catalog, each checked and made ready for use.

use crate::{
    api::{Completers, Prompt, Resource, ResourceTemplate, Tool},
    catalog::{
        Catalog,
        build_error::BuildError,
        handle_argument::{HandleTools, extended},
        header_params::HeaderParam,
        names,
        own_tools::OwnTool,
    },
    model::JsonObject,
    schema::Schema,
};
use interlock_proto::era::Capability;
use interlock_workflow::{Kind, SymbolId, UriTemplate, Workflow, normalised_uri};
use std::{
    collections::BTreeSet,
    sync::{Arc, OnceLock},
};

/// A tool with its schemas, ready for use.
#[derive(Debug)]
pub(crate) struct CheckedTool {
    pub(crate) tool: Tool,
    pub(crate) schema: Schema,
    pub(crate) output: Option<Arc<Schema>>,
    /// Which arguments clients repeat in headers.
    pub(crate) headers: Vec<HeaderParam>,
    /// The schema that it is listed with where handles are in use, if it takes one.
    pub(crate) with_handle: Option<Arc<JsonObject>>,
    /// Its symbol in the server's workflow, looked up once.
    symbol: OnceLock<Option<SymbolId>>,
}

impl CheckedTool {
    fn new(tool: Tool, takes_handle: bool, errors: &mut Vec<BuildError>) -> Option<Self> {
        let (name, input) = (&tool.model.name, &tool.model.input_schema);
        let wrong = |which: &'static str| {
            move |why: String| BuildError::Schema {
                which,
                tool: name.to_string(),
                why,
            }
        };
        let schema = Schema::of_arguments(input).map_err(wrong("input"));
        let output = tool.model.output_schema.as_deref().map(Schema::of_result);
        let output = output.transpose().map_err(wrong("output"));
        let headers = HeaderParam::all(input).map_err(wrong("input"));
        // What is wrong with the schema itself is said once.
        let with_handle = (takes_handle && schema.is_ok()).then(|| extended(input));
        let with_handle = with_handle.transpose().map_err(wrong("input"));
        match (schema, output, headers, with_handle) {
            (Ok(schema), Ok(output), Ok(headers), Ok(with_handle)) => Some(Self {
                tool,
                schema,
                output: output.map(Arc::new),
                headers,
                with_handle: with_handle.map(Arc::new),
                symbol: OnceLock::new(),
            }),
            (schema, output, headers, with_handle) => {
                let all = [schema.err(), output.err(), headers.err(), with_handle.err()];
                errors.extend(all.into_iter().flatten());
                None
            }
        }
    }

    /// Its symbol in the workflow of the server that has it, if it is named there.
    pub(crate) fn symbol(&self, workflow: &Workflow) -> Option<SymbolId> {
        let name = &self.tool.model.name;
        let symbol = || workflow.symbol_of(Kind::Tool, name);
        *self.symbol.get_or_init(symbol)
    }
}

/// A template that can be compared with URIs.
#[derive(Debug)]
pub(crate) struct CheckedTemplate {
    pub(crate) template: ResourceTemplate,
    pub(crate) pattern: UriTemplate,
}

impl Catalog {
    /// An empty catalog. Every server can write to its clients' logs.
    pub(crate) fn new(handle_tools: Option<HandleTools>) -> Self {
        Self {
            capabilities: BTreeSet::from([Capability::Logging]),
            handle_tools: handle_tools.map(Arc::new),
            ..Self::default()
        }
    }

    pub(crate) fn add_tool(&mut self, tool: Tool, errors: &mut Vec<BuildError>) {
        let name = tool.model.name.to_string();
        let handle_tools = self.handle_tools.as_ref();
        let takes_handle = handle_tools.is_some_and(|all| all.includes(&name));
        let checked = CheckedTool::new(tool, takes_handle, errors);
        let is_named = if handle_tools.is_some() && OwnTool::named(&name).is_some() {
            Err("it is the server's own tool, by which clients get handles of workflows")
        } else {
            names::check_tool(&name)
        };
        if is_ok(Kind::Tool, &name, is_named, errors)
            && let Some(checked) = checked
        {
            self.tools.add(Kind::Tool, name, checked, errors);
            self.capabilities.insert(Capability::Tools);
        }
    }

    pub(crate) fn add_resource(&mut self, resource: Resource, errors: &mut Vec<BuildError>) {
        let name = resource.model.uri.clone();
        if is_ok(Kind::Resource, &name, names::check_resource(&name), errors) {
            let name = normalised_uri(&name).into_owned();
            self.resources.add(Kind::Resource, name, resource, errors);
            self.capabilities.insert(Capability::Resources);
        }
    }

    pub(crate) fn add_template(
        &mut self,
        template: ResourceTemplate,
        errors: &mut Vec<BuildError>,
    ) {
        let name = template.model.uri_template.clone();
        let kind = Kind::Resource;
        match UriTemplate::parse(&name) {
            Ok(pattern) if pattern.variables().is_empty() => errors.push(BuildError::Name {
                kind,
                name,
                rule: "a template has variables, such as `{id}`; this is the URI of one resource",
            }),
            Ok(pattern) => {
                let takes = |argument: &str| pattern.variables().contains(&argument);
                self.add_completers(kind, &name, &template.completers, takes, errors);
                self.capabilities.insert(Capability::Resources);
                let checked = CheckedTemplate { template, pattern };
                self.templates.add(kind, name, checked, errors);
            }
            Err(why) => errors.push(BuildError::Template {
                template: name,
                why,
            }),
        }
    }

    pub(crate) fn add_prompt(&mut self, prompt: Prompt, errors: &mut Vec<BuildError>) {
        let (kind, name) = (Kind::Prompt, prompt.model.name.clone());
        if is_ok(kind, &name, names::check_prompt(&name), errors) {
            let takes = |argument: &str| prompt.takes(argument);
            self.add_completers(kind, &name, &prompt.completers, takes, errors);
            self.capabilities.insert(Capability::Prompts);
            self.prompts.add(kind, name, prompt, errors);
        }
    }

    /// Only arguments that there are can be completed.
    fn add_completers(
        &mut self,
        kind: Kind,
        name: &str,
        completers: &Completers,
        takes: impl Fn(&str) -> bool,
        errors: &mut Vec<BuildError>,
    ) {
        if !completers.is_empty() {
            self.capabilities.insert(Capability::Completions);
        }
        let unknown = completers.arguments().filter(|argument| !takes(argument));
        errors.extend(unknown.map(|argument| BuildError::Completion {
            kind,
            name: name.to_owned(),
            argument: argument.to_owned(),
        }));
    }
}

fn is_ok(
    kind: Kind,
    name: &str,
    checked: Result<(), &'static str>,
    errors: &mut Vec<BuildError>,
) -> bool {
    let Err(rule) = checked else {
        return true;
    };
    let name = name.to_owned();
    errors.push(BuildError::Name { kind, name, rule });
    false
}
