//! The lists that there are, and one entry of them.

use crate::{
    catalog::names,
    model::{JsonObject, PromptModel, ResourceModel, ResourceTemplateModel, ToolModel},
    schema::is_of_objects,
};
use interlock_proto::era::Era;
use interlock_workflow::Kind;
use serde::Serialize;
use std::{borrow::Cow, sync::Arc};

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

/// What a list says about one item.
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum ListEntry<'a> {
    Tool(Cow<'a, ToolModel>),
    Resource(Cow<'a, ResourceModel>),
    Template(&'a ResourceTemplateModel),
    Prompt(&'a PromptModel),
}

impl ListEntry<'_> {
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Tool(tool) => &tool.name,
            Self::Resource(resource) => &resource.uri,
            Self::Template(template) => &template.uri_template,
            Self::Prompt(prompt) => &prompt.name,
        }
    }

    /// Lists a tool with another schema of its arguments.
    pub(super) fn set_input_schema(&mut self, schema: &Arc<JsonObject>) {
        if let Self::Tool(tool) = self {
            tool.to_mut().input_schema = Arc::clone(schema);
        }
    }

    /// Before 2026-07-28, only objects can be structured results. Clients of the handshake era are
    /// not told of any other output schema.
    pub(super) fn fit(&mut self, era: Era) {
        if let Self::Tool(tool) = self
            && era == Era::Handshake
            && let Some(output) = &tool.output_schema
            && !is_of_objects(output)
        {
            tool.to_mut().output_schema = None;
        }
    }
}

/// One resource of a template. `None` if the URI is a template as well.
pub(super) fn resource_of(template: &ResourceTemplateModel, uri: &str) -> Option<ResourceModel> {
    names::check_resource(uri).ok()?;
    let mut resource = ResourceModel::new(uri, uri);
    resource.title.clone_from(&template.title);
    resource.description.clone_from(&template.description);
    resource.mime_type.clone_from(&template.mime_type);
    resource.icons.clone_from(&template.icons);
    resource.meta.clone_from(&template.meta);
    resource.annotations.clone_from(&template.annotations);
    Some(resource)
}
