//! What a server offers at the moment, and how that changes while it runs.
//!
//! A request works with the offering that it found; a change puts another one in its place.

use crate::{
    builder::BuildError,
    call::quietly,
    catalogue::Catalogue,
    handler::{Prompt, Resource, ResourceTemplate, Tool},
    lists::Lists,
    server::{Inner, Server},
};
use interlock_proto::{Refusal, Version, era::Method, negotiation};
use interlock_workflow::{Finding, Kind, Workflow};
use std::{
    num::NonZeroUsize,
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
};

/// Everything a server has, with the lists of it.
#[derive(Debug)]
pub(crate) struct Offering {
    pub(crate) catalogue: Catalogue,
    pub(crate) lists: Lists,
    /// What its workflow has to say about it.
    findings: Vec<String>,
}

impl Offering {
    /// Whether a 2026-07-28 request may call this method.
    pub(crate) fn allows(&self, method: Method, version: Version) -> Result<(), Refusal> {
        negotiation::allows(version, self.catalogue.capabilities(), method)
    }
}

/// The offering of the moment.
#[derive(Debug)]
pub(crate) struct Offerings {
    now: RwLock<Arc<Offering>>,
    /// How often it has changed.
    edition: AtomicU64,
    /// Whoever changes it, one at a time.
    changing: Mutex<()>,
    page_size: Option<NonZeroUsize>,
}

impl Offerings {
    pub(crate) fn new(
        catalogue: Catalogue,
        workflow: Option<&Workflow>,
        findings: &[Finding],
        page_size: Option<NonZeroUsize>,
    ) -> Self {
        let offering = Offering {
            catalogue,
            lists: Lists::new(workflow, page_size),
            findings: findings.iter().map(ToString::to_string).collect(),
        };
        Self {
            now: RwLock::new(Arc::new(offering)),
            edition: AtomicU64::new(0),
            changing: Mutex::default(),
            page_size,
        }
    }

    pub(crate) fn now(&self) -> Arc<Offering> {
        Arc::clone(&self.now.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The offering of the moment, for one who looks at it again and again. Whoever rests does not
    /// keep it: what is not offered any more may be in it.
    pub(crate) fn look<'a>(&self, seen: &'a mut Option<Seen>) -> &'a Offering {
        // Before the offering itself: at worst it is looked up once too often.
        let edition = self.edition.load(Ordering::Acquire);
        if seen.as_ref().is_some_and(|seen| seen.edition != edition) {
            quietly(|| *seen = None);
        }
        let now = || Seen {
            edition,
            offering: self.now(),
        };
        &seen.get_or_insert_with(now).offering
    }

    /// Puts a changed offering in the place of the one there is, if the change says that it
    /// changed anything.
    fn change(
        &self,
        workflow: Option<&Workflow>,
        change: impl FnOnce(&mut Catalogue) -> bool,
    ) -> bool {
        // Nothing is locked any more here, where handlers may be dropped that use the server, and
        // whoever hears of the findings may use it.
        let Some(Replaced { before, after }) = self.replace(workflow, change) else {
            return false;
        };
        for finding in &after.findings {
            if !before.findings.contains(finding) {
                tracing::warn!("{finding}");
            }
        }
        true
    }

    fn replace(
        &self,
        workflow: Option<&Workflow>,
        change: impl FnOnce(&mut Catalogue) -> bool,
    ) -> Option<Replaced> {
        let _one_at_a_time = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.now();
        let mut catalogue = before.catalogue.clone();
        if !change(&mut catalogue) {
            return None;
        }
        let findings =
            workflow.map_or_else(Vec::new, |workflow| workflow.check(&catalogue.summary()));
        let after = Arc::new(Offering {
            catalogue,
            lists: Lists::new(workflow, self.page_size),
            findings: findings.iter().map(ToString::to_string).collect(),
        });
        *self.now.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&after);
        self.edition.fetch_add(1, Ordering::Release);
        Some(Replaced { before, after })
    }
}

/// The offering as somebody saw it last.
#[derive(Debug)]
pub(crate) struct Seen {
    edition: u64,
    offering: Arc<Offering>,
}

/// An offering that is not the one of the moment any more, and the one that came after it.
struct Replaced {
    before: Arc<Offering>,
    after: Arc<Offering>,
}

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
        self.0.add(Kind::Tool, &tool, Catalogue::add_tool)
    }

    /// Adds a resource, after all that are there.
    ///
    /// # Errors
    ///
    /// If a server with it could not be built.
    pub fn add_resource(&self, resource: Resource) -> Result<(), BuildError> {
        self.0
            .add(Kind::Resource, &resource, Catalogue::add_resource)
    }

    /// Adds a template, after all that are there.
    ///
    /// # Errors
    ///
    /// If a server with it could not be built.
    pub fn add_template(&self, template: ResourceTemplate) -> Result<(), BuildError> {
        self.0
            .add(Kind::Resource, &template, Catalogue::add_template)
    }

    /// Adds a prompt, after all that are there.
    ///
    /// # Errors
    ///
    /// If a server with it could not be built.
    pub fn add_prompt(&self, prompt: Prompt) -> Result<(), BuildError> {
        self.0.add(Kind::Prompt, &prompt, Catalogue::add_prompt)
    }

    /// Takes a tool away. Whether there was one. What its handler holds goes with the last request
    /// that found it.
    pub fn remove_tool(&self, name: &str) -> bool {
        self.0
            .change(Kind::Tool, |catalogue| catalogue.remove_tool(name))
    }

    /// Takes a resource away. Whether there was one.
    pub fn remove_resource(&self, uri: &str) -> bool {
        let removed = self
            .0
            .change(Kind::Resource, |catalogue| catalogue.remove_resource(uri));
        if removed {
            for peer in self.0.audience.peers() {
                peer.hear_deleted(uri);
            }
        }
        removed
    }

    /// Takes a template away. Whether there was one.
    pub fn remove_template(&self, uri_template: &str) -> bool {
        self.0.change(Kind::Resource, |catalogue| {
            catalogue.remove_template(uri_template)
        })
    }

    /// Takes a prompt away. Whether there was one.
    pub fn remove_prompt(&self, name: &str) -> bool {
        self.0
            .change(Kind::Prompt, |catalogue| catalogue.remove_prompt(name))
    }

    /// Switches something on or off. Whether there is such a thing.
    ///
    /// What is off is not listed, and calling it is as if it were not there; once it is on again
    /// it is where it was. Resources are named by their URI, templates by the template.
    pub fn set_enabled(&self, kind: Kind, name: &str, enabled: bool) -> bool {
        self.0.switch(kind, name, enabled)
    }
}

impl Inner {
    /// The item stays with the caller: one that is refused must not be dropped in here.
    fn add<T: Clone>(
        &self,
        kind: Kind,
        item: &T,
        add: impl FnOnce(&mut Catalogue, T, &mut Vec<BuildError>),
    ) -> Result<(), BuildError> {
        let mut errors = Vec::new();
        self.change(kind, |catalogue| {
            add(catalogue, item.clone(), &mut errors);
            errors.is_empty()
        });
        errors.into_iter().next().map_or(Ok(()), Err)
    }

    fn switch(&self, kind: Kind, name: &str, enabled: bool) -> bool {
        let mut found = false;
        self.change(kind, |catalogue| {
            let was = catalogue.set_enabled(kind, name, enabled);
            found = was.is_some();
            was.is_some_and(|was| was != enabled)
        });
        found
    }

    /// Changes what there is, and tells those who have seen it. Whether anything changed.
    pub(crate) fn change(&self, kind: Kind, change: impl FnOnce(&mut Catalogue) -> bool) -> bool {
        let changed = self.offerings.change(self.workflow.as_ref(), change);
        if changed {
            self.lists_changed(&[kind]);
        }
        changed
    }
}
