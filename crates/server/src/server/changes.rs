//! What a server offers can change while it runs.

use crate::{
    api::{Prompt, Resource, ResourceTemplate, Tool},
    catalog::Catalog,
    catalog::build_error::BuildError,
    server::Server,
};
use interlock_workflow::Kind;

/// What a server has can change while it runs. Requests that came before go on as they began.
///
/// ```
/// use interlock::{Context, NoArguments, Server, Tool};
///
/// let server = Server::builder("shop", "1.0.0").build()?;
/// server.add_tool(Tool::new("search", |_: NoArguments, _: Context| async { "found" }))?;
/// assert!(server.remove_tool("search"));
/// assert!(!server.remove_tool("search"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A workflow stays as it is: what it does not name cannot be called, and what it thinks of the
/// change is logged.
impl Server {
    /// Adds a tool, after all that are there.
    ///
    /// # Errors
    ///
    /// If a server with it could not be built.
    pub fn add_tool(&self, tool: Tool) -> Result<(), BuildError> {
        self.0.core.add(Kind::Tool, &tool, Catalog::add_tool)
    }

    /// Adds a resource, after all that are there.
    ///
    /// # Errors
    ///
    /// If a server with it could not be built.
    pub fn add_resource(&self, resource: Resource) -> Result<(), BuildError> {
        self.0
            .core
            .add(Kind::Resource, &resource, Catalog::add_resource)
    }

    /// Adds a template, after all that are there.
    ///
    /// # Errors
    ///
    /// If a server with it could not be built.
    pub fn add_template(&self, template: ResourceTemplate) -> Result<(), BuildError> {
        self.0
            .core
            .add(Kind::Resource, &template, Catalog::add_template)
    }

    /// Adds a prompt, after all that are there.
    ///
    /// # Errors
    ///
    /// If a server with it could not be built.
    pub fn add_prompt(&self, prompt: Prompt) -> Result<(), BuildError> {
        self.0.core.add(Kind::Prompt, &prompt, Catalog::add_prompt)
    }

    /// Takes a tool away. Whether there was one. What its handler holds goes with the last request
    /// that found it.
    pub fn remove_tool(&self, name: &str) -> bool {
        self.0
            .core
            .change(Kind::Tool, |catalog| catalog.remove_tool(name))
    }

    /// Takes a resource away. Whether there was one.
    pub fn remove_resource(&self, uri: &str) -> bool {
        let removed = self
            .0
            .core
            .change(Kind::Resource, |catalog| catalog.remove_resource(uri));
        if removed {
            self.0.core.subscribers.notify_deleted(uri);
        }
        removed
    }

    /// Takes a template away. Whether there was one.
    pub fn remove_template(&self, uri_template: &str) -> bool {
        self.0.core.change(Kind::Resource, |catalog| {
            catalog.remove_template(uri_template)
        })
    }

    /// Takes a prompt away. Whether there was one.
    pub fn remove_prompt(&self, name: &str) -> bool {
        self.0
            .core
            .change(Kind::Prompt, |catalog| catalog.remove_prompt(name))
    }

    /// Switches something on or off. Whether there is such a thing.
    ///
    /// What is off is not listed, and calling it is as if it were not there; once it is on again
    /// it is where it was. Resources are named by their URI, templates by the template.
    pub fn set_enabled(&self, kind: Kind, name: &str, enabled: bool) -> bool {
        self.0.core.switch(kind, name, enabled)
    }
}
