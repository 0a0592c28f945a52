//! Everything a server has, by name and in the order in which it was added.

use crate::{
    builder::BuildError,
    handle::{self, Carriers, OwnTool},
    handler::{Completers, Prompt, Resource, ResourceTemplate, Tool},
    http::headers::ParamHeaders,
    model::{JsonObject, PromptModel, ResourceModel, ResourceTemplateModel, ToolModel},
    schema::Schema,
    uri,
};
use foldhash::fast::RandomState;
use interlock_proto::era::Capability;
use interlock_workflow::{About, Kind, SymbolId, UriTemplate, Workflow};
use serde::Serialize;
use serde_json::Value;
use std::{
    borrow::Cow,
    collections::{BTreeSet, HashMap},
    sync::{Arc, OnceLock},
};

/// Everything a server has. Cloning it is cheap enough for a change now and then.
#[derive(Clone, Debug, Default)]
pub(crate) struct Catalogue {
    tools: Shelf<CheckedTool>,
    resources: Shelf<Resource>,
    templates: Shelf<CheckedTemplate>,
    prompts: Shelf<Prompt>,
    capabilities: BTreeSet<Capability>,
    /// Which tools take a handle, if handles are in use.
    carriers: Option<Arc<Carriers>>,
}

/// A tool with its schemas, ready for use.
#[derive(Debug)]
pub(crate) struct CheckedTool {
    pub(crate) tool: Tool,
    pub(crate) schema: Schema,
    pub(crate) output: Option<Arc<Schema>>,
    /// Which arguments clients repeat in headers.
    pub(crate) headers: ParamHeaders,
    /// What it is listed with where handles are in use, if it takes one.
    pub(crate) with_handle: Option<Arc<JsonObject>>,
    /// What it is to the server's workflow, once somebody has asked.
    symbol: OnceLock<Option<SymbolId>>,
}

impl CheckedTool {
    /// What it is to the workflow of the server that has it, if it is named there.
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

/// What can be listed. Templates are resources that have a list of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listing {
    Tools,
    Resources,
    Templates,
    Prompts,
}

impl Listing {
    pub(crate) const fn kind(self) -> Kind {
        match self {
            Self::Tools => Kind::Tool,
            Self::Resources | Self::Templates => Kind::Resource,
            Self::Prompts => Kind::Prompt,
        }
    }

    /// The member of a result that holds the list.
    pub(crate) const fn member(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
            Self::Prompts => "prompts",
        }
    }
}

/// What a list says of one artifact.
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum Entry<'a> {
    Tool(Cow<'a, ToolModel>),
    Resource(Cow<'a, ResourceModel>),
    Template(&'a ResourceTemplateModel),
    Prompt(&'a PromptModel),
}

impl Entry<'_> {
    /// By what it is called.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Tool(tool) => &tool.name,
            Self::Resource(resource) => &resource.uri,
            Self::Template(template) => &template.uri_template,
            Self::Prompt(prompt) => &prompt.name,
        }
    }
}

impl Catalogue {
    /// Nothing. Every server can write to its clients' logs.
    pub(crate) fn new() -> Self {
        Self {
            capabilities: BTreeSet::from([Capability::Logging]),
            ..Self::default()
        }
    }

    /// From now on, these tools take handles.
    pub(crate) fn let_carry(&mut self, carriers: Option<Carriers>) {
        self.carriers = carriers.map(Arc::new);
    }

    /// Whether it is a tool, and may be called so.
    fn tool_name(&self, name: &str) -> Result<(), &'static str> {
        if self.carriers.is_some() && OwnTool::named(name).is_some() {
            return Err("it is the server's own tool, by which clients get handles of workflows");
        }
        tool_name(name)
    }

    pub(crate) fn add_tool(&mut self, tool: Tool, errors: &mut Vec<BuildError>) {
        let name = tool.model.name.to_string();
        let mut prepared = |which, schema: Result<Schema, String>| {
            let refuse = |why| {
                let tool = name.clone();
                errors.push(BuildError::Schema { which, tool, why });
            };
            schema.map_err(refuse).ok()
        };
        let schema = prepared("input", Schema::of_arguments(&tool.model.input_schema));
        let output = match &tool.model.output_schema {
            Some(output) => prepared("output", Schema::of_result(output))
                .map(Arc::new)
                .map(Some),
            None => Some(None),
        };
        let headers = match ParamHeaders::new(&tool.model.input_schema) {
            Ok(headers) => Some(headers),
            Err(why) => prepared("input", Err(why)).and(None),
        };
        let carries = self.carriers.as_ref().is_some_and(|all| all.include(&name));
        let with_handle = match carries.then(|| handle::extended(&tool.model.input_schema)) {
            Some(Ok(schema)) => Some(Some(Arc::new(schema))),
            // What is wrong with the schema itself has been said.
            Some(Err(why)) if schema.is_some() => prepared("input", Err(why)).and(None),
            Some(Err(_)) => None,
            None => Some(None),
        };
        let named = named(Kind::Tool, &name, self.tool_name(&name), errors);
        let parts = schema.zip(output).zip(headers).zip(with_handle);
        if let Some(((((schema, output), headers), with_handle), ())) = parts.zip(named) {
            let checked = CheckedTool {
                tool,
                schema,
                output,
                headers,
                with_handle,
                symbol: OnceLock::new(),
            };
            self.tools.add(Kind::Tool, name, checked, errors);
            self.capabilities.insert(Capability::Tools);
        }
    }

    pub(crate) fn add_resource(&mut self, resource: Resource, errors: &mut Vec<BuildError>) {
        let name = resource.model.uri.clone();
        if named(Kind::Resource, &name, resource_name(&name), errors).is_some() {
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
                completable(kind, &name, &template.completers, takes, errors);
                self.capabilities.insert(Capability::Resources);
                if !template.completers.is_empty() {
                    self.capabilities.insert(Capability::Completions);
                }
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
        let name = prompt.model.name.clone();
        if named(Kind::Prompt, &name, prompt_name(&name), errors).is_some() {
            let takes = |argument: &str| prompt.takes(argument);
            completable(Kind::Prompt, &name, &prompt.completers, takes, errors);
            self.capabilities.insert(Capability::Prompts);
            if !prompt.completers.is_empty() {
                self.capabilities.insert(Capability::Completions);
            }
            self.prompts.add(Kind::Prompt, name, prompt, errors);
        }
    }

    pub(crate) fn remove_tool(&mut self, name: &str) -> bool {
        self.tools.remove(name)
    }

    pub(crate) fn remove_resource(&mut self, uri: &str) -> bool {
        self.resources.remove(uri)
    }

    pub(crate) fn remove_template(&mut self, uri_template: &str) -> bool {
        self.templates.remove(uri_template)
    }

    pub(crate) fn remove_prompt(&mut self, name: &str) -> bool {
        self.prompts.remove(name)
    }

    /// Switches something on or off, and says what it was; `None` if there is no such thing.
    pub(crate) fn set_enabled(&mut self, kind: Kind, name: &str, enabled: bool) -> Option<bool> {
        let slot = match kind {
            Kind::Tool => self.tools.switch(name)?,
            // A URI has no braces and a template does, so that one name means one of them.
            Kind::Resource => match self.resources.switch(name) {
                Some(slot) => slot,
                None => self.templates.switch(name)?,
            },
            Kind::Prompt => self.prompts.switch(name)?,
        };
        Some(std::mem::replace(slot, enabled))
    }

    pub(crate) fn tool(&self, name: &str) -> Option<&Arc<CheckedTool>> {
        self.tools.find(name)
    }

    pub(crate) fn resource(&self, uri: &str) -> Option<&Arc<Resource>> {
        self.resources.find(uri)
    }

    /// The templates that a URI fits, each with its values, the first that was added first.
    pub(crate) fn templates_for<'a>(
        &'a self,
        uri: &str,
    ) -> impl Iterator<Item = (&'a Arc<CheckedTemplate>, JsonObject)> {
        let templates = self.templates.items().map(|(_, template)| template);
        templates.filter_map(move |template| Some((template, template.pattern.values(uri)?)))
    }

    /// The template that is written so, or the first one that a URI fits.
    pub(crate) fn template_of(&self, uri: &str) -> Option<&Arc<CheckedTemplate>> {
        if let Some(template) = self.templates.find(uri) {
            return Some(template);
        }
        if self.resources.find(uri).is_some() {
            return None;
        }
        self.templates_for(uri).next().map(|(template, _)| template)
    }

    pub(crate) fn prompt(&self, name: &str) -> Option<&Arc<Prompt>> {
        self.prompts.find(name)
    }

    /// What can be listed, in the order in which it was added.
    pub(crate) fn names(&self, listing: Listing) -> Box<dyn Iterator<Item = &str> + '_> {
        match listing {
            Listing::Tools => Box::new(self.tools.names()),
            Listing::Resources => Box::new(self.resources.names()),
            Listing::Templates => Box::new(self.templates.names()),
            Listing::Prompts => Box::new(self.prompts.names()),
        }
    }

    /// What a list says under that name. One resource of a template has no entry of its own, but
    /// whoever names it can have it listed.
    pub(crate) fn entry(&self, listing: Listing, name: &str) -> Option<Entry<'_>> {
        match listing {
            Listing::Tools => {
                let tool = self.tools.find(name)?;
                Some(Entry::Tool(Cow::Borrowed(&tool.tool.model)))
            }
            Listing::Resources => match self.resources.find(name) {
                Some(resource) => Some(Entry::Resource(Cow::Borrowed(&resource.model))),
                None => {
                    let (template, _) = self.templates_for(name).next()?;
                    let resource = one_of(&template.template.model, name)?;
                    Some(Entry::Resource(Cow::Owned(resource)))
                }
            },
            Listing::Templates => {
                let template = self.templates.find(name)?;
                Some(Entry::Template(&template.template.model))
            }
            Listing::Prompts => Some(Entry::Prompt(&self.prompts.find(name)?.model)),
        }
    }

    /// The same where handles are in use: a tool that takes one says so.
    pub(crate) fn with_handle<'a>(&self, entry: Entry<'a>) -> Entry<'a> {
        let Entry::Tool(tool) = entry else {
            return entry;
        };
        let found = self.tools.find(&tool.name);
        match found.and_then(|found| found.with_handle.as_ref()) {
            Some(schema) => {
                let mut with_handle = tool.into_owned();
                with_handle.input_schema = Arc::clone(schema);
                Entry::Tool(Cow::Owned(with_handle))
            }
            None => Entry::Tool(tool),
        }
    }

    /// What it takes to use everything that has ever been here. What a client has been told of
    /// does not go away with the last thing of its kind.
    pub(crate) const fn capabilities(&self) -> &BTreeSet<Capability> {
        &self.capabilities
    }

    /// What a workflow is compared with: everything, whether it is switched on or not.
    pub(crate) fn summary(&self) -> interlock_workflow::Catalogue {
        let mut summary = interlock_workflow::Catalogue::closed();
        for (name, checked) in self.tools.all() {
            let tool = &checked.tool.model;
            let schema = |schema: &Arc<JsonObject>| Value::Object((**schema).clone());
            let annotations = tool.annotations.as_ref();
            let about = About {
                input: Some(schema(&tool.input_schema)),
                output: tool.output_schema.as_ref().map(schema),
                destructive: annotations.and_then(|said| said.destructive_hint) == Some(true),
            };
            summary.describe(Kind::Tool, name, about);
        }
        let resources = self.resources.all().map(|(name, _)| name);
        let templates = self.templates.all().map(|(name, _)| name);
        for name in resources.chain(templates) {
            summary.insert(Kind::Resource, name);
        }
        for (name, _) in self.prompts.all() {
            summary.insert(Kind::Prompt, name);
        }
        summary
    }
}

/// One resource of a template, unless that is another template.
fn one_of(template: &ResourceTemplateModel, uri: &str) -> Option<ResourceModel> {
    uri::check(uri)
        .ok()
        .filter(|()| !uri.contains(['{', '}']))?;
    let mut resource = ResourceModel::new(uri, uri);
    resource.title.clone_from(&template.title);
    resource.description.clone_from(&template.description);
    resource.mime_type.clone_from(&template.mime_type);
    resource.icons.clone_from(&template.icons);
    resource.meta.clone_from(&template.meta);
    resource.annotations.clone_from(&template.annotations);
    Some(resource)
}

/// Whatever is completed must be there.
fn completable(
    kind: Kind,
    name: &str,
    completers: &Completers,
    takes: impl Fn(&str) -> bool,
    errors: &mut Vec<BuildError>,
) {
    let strangers = completers.arguments().filter(|argument| !takes(argument));
    errors.extend(strangers.map(|argument| BuildError::Completion {
        kind,
        name: name.to_owned(),
        argument: argument.to_owned(),
    }));
}

fn named(
    kind: Kind,
    name: &str,
    checked: Result<(), &'static str>,
    errors: &mut Vec<BuildError>,
) -> Option<()> {
    let refuse = |rule| {
        let name = name.to_owned();
        errors.push(BuildError::Name { kind, name, rule });
    };
    checked.map_err(refuse).ok()
}

/// As the specification wants it.
fn tool_name(name: &str) -> Result<(), &'static str> {
    const MOST: usize = 128;
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"_-./".contains(&b);
    if (1..=MOST).contains(&name.len()) && name.bytes().all(allowed) {
        Ok(())
    } else {
        Err("1 to 128 letters, digits, `_`, `-`, `.` and `/` are allowed")
    }
}

fn resource_name(name: &str) -> Result<(), &'static str> {
    uri::check(name)?;
    if name.contains(['{', '}']) {
        return Err("what has braces is a template");
    }
    Ok(())
}

/// It can be written on a line.
fn prompt_name(name: &str) -> Result<(), &'static str> {
    if name.is_empty() || name.chars().any(char::is_control) {
        Err("it must not be empty, nor hold control characters")
    } else {
        Ok(())
    }
}

/// Things of one kind, in order.
#[derive(Debug)]
struct Shelf<T> {
    slots: Vec<Slot<T>>,
    by_name: HashMap<Arc<str>, usize, RandomState>,
}

#[derive(Debug)]
struct Slot<T> {
    name: Arc<str>,
    item: Arc<T>,
    enabled: bool,
}

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            by_name: HashMap::default(),
        }
    }
}

impl<T> Clone for Shelf<T> {
    fn clone(&self) -> Self {
        Self {
            slots: self.slots.clone(),
            by_name: self.by_name.clone(),
        }
    }
}

impl<T> Clone for Slot<T> {
    fn clone(&self) -> Self {
        Self {
            name: Arc::clone(&self.name),
            item: Arc::clone(&self.item),
            enabled: self.enabled,
        }
    }
}

impl<T> Shelf<T> {
    fn add(&mut self, kind: Kind, name: String, item: T, errors: &mut Vec<BuildError>) {
        if self.by_name.contains_key(&*name) {
            return errors.push(BuildError::Duplicate { kind, name });
        }
        let name: Arc<str> = name.into();
        self.by_name.insert(Arc::clone(&name), self.slots.len());
        self.slots.push(Slot {
            name,
            item: Arc::new(item),
            enabled: true,
        });
    }

    fn remove(&mut self, name: &str) -> bool {
        let Some(at) = self.by_name.remove(name) else {
            return false;
        };
        self.slots.remove(at);
        for place in self.by_name.values_mut().filter(|place| **place > at) {
            *place -= 1;
        }
        true
    }

    /// Whether it is switched on.
    fn switch(&mut self, name: &str) -> Option<&mut bool> {
        let at = *self.by_name.get(name)?;
        Some(&mut self.slots[at].enabled)
    }

    fn find(&self, name: &str) -> Option<&Arc<T>> {
        let slot = &self.slots[*self.by_name.get(name)?];
        slot.enabled.then_some(&slot.item)
    }

    /// What is switched on.
    fn items(&self) -> impl Iterator<Item = (&str, &Arc<T>)> {
        let enabled = self.slots.iter().filter(|slot| slot.enabled);
        enabled.map(|slot| (&*slot.name, &slot.item))
    }

    /// What there is, switched on or not.
    fn all(&self) -> impl Iterator<Item = (&str, &Arc<T>)> {
        self.slots.iter().map(|slot| (&*slot.name, &slot.item))
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.items().map(|(name, _)| name)
    }
}
