//! Looks after a mounted handler between calls: hears what it says, and keeps the server's lists
//! like its own.

use super::{
    MountError, Mounted,
    line::{Word, Words},
};
use crate::{
    builder::BuildError,
    catalogue::Catalogue,
    clock,
    model::{PromptModel, ResourceModel, ResourceTemplateModel, ToolModel},
    route::lock,
    server::Inner,
};
use futures_util::FutureExt;
use interlock_workflow::Kind;
use rmcp::ErrorData;
use std::{
    collections::{BTreeSet, HashMap, HashSet},
    convert::Infallible,
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, Weak},
};
use tokio::sync::Notify;

/// Which lists have to be looked at again.
#[derive(Debug, Default)]
pub(super) struct Stale {
    kinds: Mutex<BTreeSet<Kind>>,
    look: Notify,
}

impl Stale {
    /// This one has changed.
    pub(super) fn mark(&self, kind: Kind) {
        lock(&self.kinds).insert(kind);
        self.look();
    }

    /// Somebody should look.
    pub(super) fn look(&self) {
        self.look.notify_one();
    }
}

/// Serves a handler until it is not mounted any more.
pub(super) async fn serve(mounted: Weak<Mounted>, words: Words) {
    let Some(stale) = mounted.upgrade().map(|mounted| Arc::clone(&mounted.stale)) else {
        return;
    };
    tokio::select! {
        () = listen(&mounted, words) => {}
        never = keep_up(&mounted, &stale) => match never {},
    }
}

/// Listens to what the handler says outside of calls, until its connection is closed.
async fn listen(mounted: &Weak<Mounted>, words: Words) {
    while let Some(word) = words.next().await {
        let Some(mounted) = mounted.upgrade() else {
            return;
        };
        match word {
            Word::Request(id, _) => {
                let nobody = ErrorData::invalid_request("there is no client to ask", None);
                mounted.line.answer(id, Err(nobody));
            }
            Word::Notification(notification, heard) => {
                mounted.hear(notification);
                let _ = heard.send(());
            }
        }
    }
}

/// Looks at lists that have changed. Before there is a server, they are left for later.
async fn keep_up(mounted: &Weak<Mounted>, stale: &Stale) -> Infallible {
    loop {
        stale.look.notified().await;
        let Some(mounted) = mounted.upgrade() else {
            continue;
        };
        let Some(server) = mounted.server() else {
            continue;
        };
        let kinds = std::mem::take(&mut *lock(&stale.kinds));
        for kind in kinds {
            let looked = AssertUnwindSafe(mounted.look_again(&server, kind)).catch_unwind();
            let late = server.clock.now() + server.times.execution;
            let failed = tokio::select! {
                looked = looked => match looked {
                    Ok(Ok(())) => continue,
                    Ok(Err(error)) => error.to_string(),
                    Err(_) => "the handler panicked".to_owned(),
                },
                () = clock::sleep_until(&*server.clock, Some(late)) => {
                    "the handler took too long".to_owned()
                }
            };
            tracing::warn!(%kind, failed, "a mounted handler's list could not be looked at");
        }
    }
}

impl Mounted {
    async fn look_again(self: &Arc<Self>, server: &Inner, kind: Kind) -> Result<(), MountError> {
        let asking = self.asking();
        match kind {
            Kind::Tool => self.show_tools(server, asking.tools().await?),
            Kind::Resource => {
                let (resources, templates) = (asking.resources().await?, asking.templates().await?);
                self.show_resources(server, resources);
                self.show_templates(server, templates);
            }
            Kind::Prompt => self.show_prompts(server, asking.prompts().await?),
        }
        Ok(())
    }

    fn show_tools(self: &Arc<Self>, server: &Inner, found: Vec<ToolModel>) {
        let shown = &mut lock(&self.shown).tools;
        let Difference { gone, new } = Difference::take(shown, found, |tool| &tool.name);
        change(
            server,
            Kind::Tool,
            gone.len() + new.len(),
            |catalogue, errors| {
                for tool in &gone {
                    catalogue.remove_tool(&self.named(&tool.name));
                }
                for tool in new {
                    if added(errors, |errors| {
                        catalogue.add_tool(self.tool(tool.clone()), errors)
                    }) {
                        shown.push(tool);
                    }
                }
            },
        );
    }

    fn show_resources(self: &Arc<Self>, server: &Inner, found: Vec<ResourceModel>) {
        let shown = &mut lock(&self.shown).resources;
        let Difference { gone, new } = Difference::take(shown, found, |resource| &resource.uri);
        let replaced = |uri: &str| new.iter().any(|resource| resource.uri == uri);
        let deleted: Vec<_> = gone.iter().filter(|one| !replaced(&one.uri)).collect();
        change(
            server,
            Kind::Resource,
            gone.len() + new.len(),
            |catalogue, errors| {
                for resource in &gone {
                    catalogue.remove_resource(&resource.uri);
                }
                for resource in &new {
                    let ours = self.resource(resource.clone());
                    if added(errors, |errors| catalogue.add_resource(ours, errors)) {
                        shown.push(resource.clone());
                    }
                }
            },
        );
        for peer in server.audience.peers() {
            for resource in &deleted {
                peer.hear_deleted(&resource.uri);
            }
        }
    }

    fn show_templates(self: &Arc<Self>, server: &Inner, found: Vec<ResourceTemplateModel>) {
        let shown = &mut lock(&self.shown).templates;
        let Difference { gone, new } = Difference::take(shown, found, |one| &one.uri_template);
        change(
            server,
            Kind::Resource,
            gone.len() + new.len(),
            |catalogue, errors| {
                for template in &gone {
                    catalogue.remove_template(&template.uri_template);
                }
                for template in new {
                    let ours = self.template(template.clone());
                    if added(errors, |errors| catalogue.add_template(ours, errors)) {
                        shown.push(template);
                    }
                }
            },
        );
    }

    fn show_prompts(self: &Arc<Self>, server: &Inner, found: Vec<PromptModel>) {
        let shown = &mut lock(&self.shown).prompts;
        let Difference { gone, new } = Difference::take(shown, found, |prompt| &prompt.name);
        change(
            server,
            Kind::Prompt,
            gone.len() + new.len(),
            |catalogue, errors| {
                for prompt in &gone {
                    catalogue.remove_prompt(&self.named(&prompt.name));
                }
                for prompt in new {
                    let ours = self.prompt(prompt.clone());
                    if added(errors, |errors| catalogue.add_prompt(ours, errors)) {
                        shown.push(prompt);
                    }
                }
            },
        );
    }
}

/// What is to go, and what is to come.
struct Difference<T> {
    gone: Vec<T>,
    new: Vec<T>,
}

impl<T: PartialEq> Difference<T> {
    /// Takes out of what is shown what was not found as it is shown.
    fn take(shown: &mut Vec<T>, found: Vec<T>, name: impl Fn(&T) -> &str) -> Self {
        let now: HashMap<&str, &T> = found.iter().map(|item| (name(item), item)).collect();
        let gone: Vec<T> = shown
            .extract_if(.., |item| now.get(name(item)) != Some(&&*item))
            .collect();
        drop(now);
        let same: HashSet<&str> = shown.iter().map(&name).collect();
        let mut new = found;
        new.retain(|item| !same.contains(name(item)));
        Self { gone, new }
    }
}

/// Changes what the server has, all at once. What cannot be added is left out.
fn change(
    server: &Inner,
    kind: Kind,
    changes: usize,
    apply: impl FnOnce(&mut Catalogue, &mut Vec<BuildError>),
) {
    let mut errors = Vec::new();
    if changes > 0 {
        server.change(kind, |catalogue| {
            apply(catalogue, &mut errors);
            true
        });
    }
    for error in errors {
        tracing::warn!(%error, "a mounted handler has something that cannot be served");
    }
}

/// Whether something could be added.
fn added(errors: &mut Vec<BuildError>, add: impl FnOnce(&mut Vec<BuildError>)) -> bool {
    let before = errors.len();
    add(errors);
    errors.len() == before
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_changed_goes_and_comes_again() {
        let tool = |name: &'static str, text: &'static str| {
            ToolModel::new(name, text, Arc::new(crate::model::JsonObject::new()))
        };
        let mut shown = vec![tool("a", "1"), tool("b", "1"), tool("c", "1")];
        let found = vec![tool("d", "1"), tool("b", "2"), tool("a", "1")];
        let Difference { gone, new } = Difference::take(&mut shown, found, |tool| &tool.name);
        assert_eq!(gone, [tool("b", "1"), tool("c", "1")]);
        assert_eq!(new, [tool("d", "1"), tool("b", "2")]);
        assert_eq!(shown, [tool("a", "1")]);
    }
}
