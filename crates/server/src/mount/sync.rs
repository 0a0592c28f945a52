//! Keeps the server's lists like those of a mounted handler, and takes what the handler says
//! outside of calls.

use crate::{
    catalog::{Catalog, build_error::BuildError},
    core::Core,
    model::{PromptModel, ResourceModel, ResourceTemplateModel, ToolModel},
    mount::{
        MountError, Mounted,
        transport::{PeerMessage, PeerMessages},
    },
    outbound::lock,
};
use futures_util::FutureExt;
use interlock_engine::sleep_until;
use interlock_workflow::Kind;
use rmcp::ErrorData;
use std::{
    collections::{BTreeSet, HashMap, HashSet},
    convert::Infallible,
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, Weak},
};
use tokio::sync::Notify;

/// The lists that have to be read again.
#[derive(Debug, Default)]
pub(super) struct Stale {
    kinds: Mutex<BTreeSet<Kind>>,
    changed: Notify,
}

impl Stale {
    pub(super) fn mark(&self, kind: Kind) {
        lock(&self.kinds).insert(kind);
        self.wake();
    }

    pub(super) fn wake(&self) {
        self.changed.notify_one();
    }
}

/// Runs until the handler is not mounted any more.
pub(super) async fn run(mounted: Weak<Mounted>, messages: PeerMessages) {
    let Some(stale) = mounted.upgrade().map(|mounted| Arc::clone(&mounted.stale)) else {
        return;
    };
    tokio::select! {
        () = handle_messages(&mounted, messages) => {}
        never = refresh_lists(&mounted, &stale) => match never {},
    }
}

/// Takes what the handler says outside of calls, until its connection is closed.
async fn handle_messages(mounted: &Weak<Mounted>, mut messages: PeerMessages) {
    while let Some(message) = messages.recv().await {
        let Some(mounted) = mounted.upgrade() else {
            return;
        };
        match *message {
            PeerMessage::Request(id, _) => {
                let error = ErrorData::invalid_request("there is no client to ask", None);
                mounted.connection.answer(id, Err(error));
            }
            PeerMessage::Notification(notification, done) => {
                mounted.on_notification(notification);
                let _ = done.send(());
            }
        }
    }
}

/// Reads lists that have changed. Until there is a server, they wait.
async fn refresh_lists(mounted: &Weak<Mounted>, stale: &Stale) -> Infallible {
    loop {
        stale.changed.notified().await;
        let Some(mounted) = mounted.upgrade() else {
            continue;
        };
        let Some(server) = mounted.server() else {
            continue;
        };
        let kinds = std::mem::take(&mut *lock(&stale.kinds));
        for kind in kinds {
            let refresh = AssertUnwindSafe(refresh(&mounted, &server, kind)).catch_unwind();
            let deadline = server.clock.now() + server.times.execution;
            let failed = tokio::select! {
                refreshed = refresh => match refreshed {
                    Ok(Ok(())) => continue,
                    Ok(Err(error)) => error.to_string(),
                    Err(_) => "the handler panicked".to_owned(),
                },
                () = sleep_until(&*server.clock, Some(deadline)) => {
                    "the handler took too long".to_owned()
                }
            };
            tracing::warn!(%kind, failed, "a mounted handler's list could not be read");
        }
    }
}

async fn refresh(mounted: &Arc<Mounted>, server: &Core, kind: Kind) -> Result<(), MountError> {
    let lister = mounted.lister();
    match kind {
        Kind::Tool => sync_tools(mounted, server, lister.tools().await?),
        Kind::Resource => {
            let (resources, templates) = (lister.resources().await?, lister.templates().await?);
            sync_resources(mounted, server, resources);
            sync_templates(mounted, server, templates);
        }
        Kind::Prompt => sync_prompts(mounted, server, lister.prompts().await?),
    }
    Ok(())
}

fn sync_tools(mounted: &Arc<Mounted>, server: &Core, found: Vec<ToolModel>) {
    let synced = &mut lock(&mounted.synced).tools;
    Difference::take(synced, found, |tool| &tool.name).apply(
        server,
        Kind::Tool,
        synced,
        |catalog, tool| catalog.remove_tool(&mounted.prefixed(&tool.name)),
        |catalog, tool, errors| catalog.add_tool(mounted.tool(tool), errors),
    );
}

fn sync_resources(mounted: &Arc<Mounted>, server: &Core, found: Vec<ResourceModel>) {
    let synced = &mut lock(&mounted.synced).resources;
    let difference = Difference::take(synced, found, |resource| &resource.uri);
    difference.apply(
        server,
        Kind::Resource,
        synced,
        |catalog, resource| catalog.remove_resource(&resource.uri),
        |catalog, resource, errors| catalog.add_resource(mounted.resource(resource), errors),
    );
    let Difference { gone, new } = difference;
    let is_deleted = |uri: &str| !new.iter().any(|resource| resource.uri == uri);
    for resource in gone.iter().filter(|resource| is_deleted(&resource.uri)) {
        server.subscribers.notify_deleted(&resource.uri);
    }
}

fn sync_templates(mounted: &Arc<Mounted>, server: &Core, found: Vec<ResourceTemplateModel>) {
    let synced = &mut lock(&mounted.synced).templates;
    Difference::take(synced, found, |template| &template.uri_template).apply(
        server,
        Kind::Resource,
        synced,
        |catalog, template| catalog.remove_template(&template.uri_template),
        |catalog, template, errors| catalog.add_template(mounted.template(template), errors),
    );
}

fn sync_prompts(mounted: &Arc<Mounted>, server: &Core, found: Vec<PromptModel>) {
    let synced = &mut lock(&mounted.synced).prompts;
    Difference::take(synced, found, |prompt| &prompt.name).apply(
        server,
        Kind::Prompt,
        synced,
        |catalog, prompt| catalog.remove_prompt(&mounted.prefixed(&prompt.name)),
        |catalog, prompt, errors| catalog.add_prompt(mounted.prompt(prompt), errors),
    );
}

/// What is removed from the server's list, and what is added to it.
struct Difference<T> {
    gone: Vec<T>,
    new: Vec<T>,
}

impl<T: Clone + PartialEq> Difference<T> {
    /// Leaves in `synced` only what was found just so.
    fn take(synced: &mut Vec<T>, found: Vec<T>, name: impl Fn(&T) -> &str) -> Self {
        let now: HashMap<&str, &T> = found.iter().map(|item| (name(item), item)).collect();
        let gone: Vec<T> = synced
            .extract_if(.., |item| now.get(name(item)) != Some(&&*item))
            .collect();
        drop(now);
        let same: HashSet<&str> = synced.iter().map(&name).collect();
        let mut new = found;
        new.retain(|item| !same.contains(name(item)));
        Self { gone, new }
    }

    /// Changes the server's catalog once. Items that cannot be added are left out.
    fn apply(
        &self,
        server: &Core,
        kind: Kind,
        synced: &mut Vec<T>,
        remove: impl Fn(&mut Catalog, &T) -> bool,
        add: impl Fn(&mut Catalog, T, &mut Vec<BuildError>),
    ) {
        if self.gone.is_empty() && self.new.is_empty() {
            return;
        }
        let mut errors = Vec::new();
        server.change(kind, |catalog| {
            for item in &self.gone {
                remove(catalog, item);
            }
            for item in &self.new {
                let before = errors.len();
                add(catalog, item.clone(), &mut errors);
                if errors.len() == before {
                    synced.push(item.clone());
                }
            }
            true
        });
        for error in errors {
            tracing::warn!(%error, "a mounted handler has something that cannot be served");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_changed_goes_and_comes_again() {
        let tool = |name: &'static str, text: &'static str| {
            ToolModel::new(name, text, Arc::new(crate::model::JsonObject::new()))
        };
        let mut synced = vec![tool("a", "1"), tool("b", "1"), tool("c", "1")];
        let found = vec![tool("d", "1"), tool("b", "2"), tool("a", "1")];
        let Difference { gone, new } = Difference::take(&mut synced, found, |tool| &tool.name);
        assert_eq!(gone, [tool("b", "1"), tool("c", "1")]);
        assert_eq!(new, [tool("d", "1"), tool("b", "2")]);
        assert_eq!(synced, [tool("a", "1")]);
    }
}
