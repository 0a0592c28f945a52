//! What a server offers now, and how its lists read.
//!
//! A [`Catalog`] holds all tools, resources, templates and prompts by name; a [`snapshot`] of it is
//! what one request works with; its [`pages`] are prepared once. This room knows what developers
//! write (`api`), their schemas, and the workflow that decides what is visible. It knows no client
//! and no instance, and runs nothing.

pub(crate) mod build_error;
mod entry;
pub(crate) mod handle_argument;
pub(crate) mod header_params;
pub(crate) mod names;
pub(crate) mod own_tools;
pub(crate) mod pages;
mod register;
mod registry;
pub(crate) mod snapshot;

pub(crate) use entry::Listing;
pub(crate) use register::{CheckedTemplate, CheckedTool};

use crate::{
    api::{Prompt, Resource},
    catalog::{
        build_error::BuildError, entry::ListEntry, handle_argument::HandleTools, registry::Registry,
    },
    model::JsonObject,
};
use interlock_proto::era::Capability;
use interlock_workflow::{About, Kind, normalised_uri};
use serde_json::Value;
use std::{borrow::Cow, collections::BTreeSet, sync::Arc};

/// Everything a server has. A clone shares the items, so that a change copies only the tables.
#[derive(Clone, Debug, Default)]
pub(crate) struct Catalog {
    tools: Registry<CheckedTool>,
    /// By their URI in the one way to write it.
    resources: Registry<Resource>,
    templates: Registry<CheckedTemplate>,
    prompts: Registry<Prompt>,
    capabilities: BTreeSet<Capability>,
    /// Which tools take a handle, if handles are in use.
    handle_tools: Option<Arc<HandleTools>>,
}

impl Catalog {
    pub(crate) fn remove_tool(&mut self, name: &str) -> bool {
        self.tools.remove(name)
    }

    pub(crate) fn remove_resource(&mut self, uri: &str) -> bool {
        self.resources.remove(&normalised_uri(uri))
    }

    pub(crate) fn remove_template(&mut self, uri_template: &str) -> bool {
        self.templates.remove(uri_template)
    }

    pub(crate) fn remove_prompt(&mut self, name: &str) -> bool {
        self.prompts.remove(name)
    }

    /// Enables or disables an item, and returns what it was; `None` if there is no such item.
    pub(crate) fn set_enabled(&mut self, kind: Kind, name: &str, enabled: bool) -> Option<bool> {
        let slot = match kind {
            Kind::Tool => self.tools.switch(name)?,
            // A URI has no braces and a template does, so that one name means one of them.
            Kind::Resource => match self.resources.switch(&normalised_uri(name)) {
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

    /// The resource of that URI, however it is written.
    pub(crate) fn resource(&self, uri: &str) -> Option<&Arc<Resource>> {
        self.resources.find(&normalised_uri(uri))
    }

    /// The templates that a URI fits, each with its values, in the order in which they were added.
    pub(crate) fn templates_for<'a>(
        &'a self,
        uri: &str,
    ) -> impl Iterator<Item = (&'a Arc<CheckedTemplate>, JsonObject)> {
        let templates = self.templates.items().map(|(_, template)| template);
        templates.filter_map(move |template| Some((template, template.pattern.values(uri)?)))
    }

    /// The template of that text, or the first one that a URI fits.
    pub(crate) fn template_of(&self, uri: &str) -> Option<&Arc<CheckedTemplate>> {
        if let Some(template) = self.templates.find(uri) {
            return Some(template);
        }
        if self.resource(uri).is_some() {
            return None;
        }
        self.templates_for(uri).next().map(|(template, _)| template)
    }

    pub(crate) fn prompt(&self, name: &str) -> Option<&Arc<Prompt>> {
        self.prompts.find(name)
    }

    /// The names of a list, in the order in which they were added.
    fn names(&self, listing: Listing) -> Box<dyn Iterator<Item = &str> + '_> {
        match listing {
            Listing::Tools => Box::new(self.tools.names()),
            Listing::Resources => Box::new(self.resources.names()),
            Listing::Templates => Box::new(self.templates.names()),
            Listing::Prompts => Box::new(self.prompts.names()),
        }
    }

    /// The entry of that name in a list. A resource of a template is not listed by itself, but has
    /// an entry where a workflow names it.
    fn entry(&self, listing: Listing, name: &str) -> Option<ListEntry<'_>> {
        Some(match listing {
            Listing::Tools => ListEntry::Tool(Cow::Borrowed(&self.tools.find(name)?.tool.model)),
            Listing::Resources => ListEntry::Resource(match self.resource(name) {
                Some(resource) => Cow::Borrowed(&resource.model),
                None => {
                    let (template, _) = self.templates_for(name).next()?;
                    Cow::Owned(entry::resource_of(&template.template.model, name)?)
                }
            }),
            Listing::Templates => ListEntry::Template(&self.templates.find(name)?.template.model),
            Listing::Prompts => ListEntry::Prompt(&self.prompts.find(name)?.model),
        })
    }

    /// The same where handles are in use: a tool that takes one is listed with the argument.
    fn entry_with_handle(&self, listing: Listing, name: &str) -> Option<ListEntry<'_>> {
        let mut entry = self.entry(listing, name)?;
        let tool = self.tools.find(name);
        if let Some(schema) = tool.and_then(|tool| tool.with_handle.as_ref()) {
            entry.set_input_schema(schema);
        }
        Some(entry)
    }

    /// The capabilities of everything that has ever been added. A capability that clients have been
    /// told of does not go away with the last item of its kind.
    pub(crate) const fn capabilities(&self) -> &BTreeSet<Capability> {
        &self.capabilities
    }

    /// As [`summary`](Self::summary), with every item that could not be added. What is wrong with one is
    /// said already; it is not missing besides.
    pub(crate) fn summary_beside(&self, errors: &[BuildError]) -> interlock_workflow::Catalogue {
        let mut summary = self.summary();
        for (kind, name) in errors.iter().filter_map(BuildError::artifact) {
            if !summary.has(kind, name) {
                summary.insert(kind, name);
            }
        }
        summary
    }

    /// What a workflow is checked against: every item, enabled or not.
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
