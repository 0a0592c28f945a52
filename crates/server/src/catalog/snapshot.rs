//! The catalog of the moment, and how it changes while the server runs.
//!
//! A request works with the snapshot that it found; a change puts another one in its place.

use crate::{
    api::drop_quietly,
    catalog::{Catalog, pages::Pages},
};
use interlock_proto::{Refusal, Version, era::Method, negotiation};
use interlock_workflow::{Catalogue, Finding, Workflow};
use std::{
    num::NonZeroUsize,
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
};

/// What is worth a look in a workflow, and in how it fits what there is.
pub(crate) fn findings(workflow: &Workflow, catalogue: &Catalogue) -> Vec<Finding> {
    let mut findings = workflow.warnings().to_vec();
    // One that was built for a catalogue has said some of it.
    let new = workflow.check(catalogue).into_iter();
    let new: Vec<_> = new.filter(|finding| !findings.contains(finding)).collect();
    findings.extend(new);
    findings
}

/// Logs what is worth a look.
pub(crate) fn warn(finding: &Finding) {
    tracing::warn!(code = finding.problem.code(), "{}", finding.with_help());
}

/// A catalog that does not change any more, with its prepared lists.
#[derive(Debug)]
pub(crate) struct CatalogSnapshot {
    pub(crate) catalog: Catalog,
    pub(crate) pages: Pages,
    /// What is worth a look in the workflow, and in how it fits the catalog.
    pub(crate) findings: Vec<Finding>,
}

impl CatalogSnapshot {
    fn new(
        catalog: Catalog,
        workflow: Option<&Workflow>,
        findings: Vec<Finding>,
        page_size: Option<NonZeroUsize>,
    ) -> Arc<Self> {
        Arc::new(Self {
            catalog,
            pages: Pages::new(workflow, page_size),
            findings,
        })
    }

    /// Whether a 2026-07-28 request may call this method.
    pub(crate) fn allows(&self, method: Method, version: Version) -> Result<(), Refusal> {
        negotiation::allows(version, self.catalog.capabilities(), method)
    }
}

/// The current snapshot, and the only place where it is replaced.
#[derive(Debug)]
pub(crate) struct LiveCatalog {
    current: RwLock<Arc<CatalogSnapshot>>,
    /// How often it was replaced.
    generation: AtomicU64,
    /// Held during a change: there is one at a time.
    changing: Mutex<()>,
    page_size: Option<NonZeroUsize>,
}

impl LiveCatalog {
    pub(crate) fn new(
        catalog: Catalog,
        workflow: Option<&Workflow>,
        findings: Vec<Finding>,
        page_size: Option<NonZeroUsize>,
    ) -> Self {
        Self {
            current: RwLock::new(CatalogSnapshot::new(catalog, workflow, findings, page_size)),
            generation: AtomicU64::new(0),
            changing: Mutex::default(),
            page_size,
        }
    }

    pub(crate) fn current(&self) -> Arc<CatalogSnapshot> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The current snapshot by way of a cache, for a loop that needs it for every message. An idle
    /// loop empties its cache: what was removed from the catalog may live in it.
    pub(crate) fn cached<'a>(&self, cache: &'a mut Option<CachedSnapshot>) -> &'a CatalogSnapshot {
        // Read before the snapshot: at worst, a current one is loaded once more.
        let generation = self.generation.load(Ordering::Acquire);
        if cache
            .as_ref()
            .is_some_and(|cached| cached.generation != generation)
        {
            drop_quietly(cache.take());
        }
        let load = || CachedSnapshot {
            generation,
            snapshot: self.current(),
        };
        &cache.get_or_insert_with(load).snapshot
    }

    /// Replaces the snapshot by a changed one, if `change` returns that it changed anything.
    pub(crate) fn change(
        &self,
        workflow: Option<&Workflow>,
        change: impl FnOnce(&mut Catalog) -> bool,
    ) -> bool {
        // No lock is held when removed handlers are dropped and findings are logged: both run code
        // of the application, which may use the server.
        let Some((before, after)) = self.replace(workflow, change) else {
            return false;
        };
        for finding in &after.findings {
            if !before.findings.contains(finding) {
                warn(finding);
            }
        }
        true
    }

    /// The snapshots before and after the change.
    fn replace(
        &self,
        workflow: Option<&Workflow>,
        change: impl FnOnce(&mut Catalog) -> bool,
    ) -> Option<(Arc<CatalogSnapshot>, Arc<CatalogSnapshot>)> {
        let _one_at_a_time = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.current();
        let mut catalog = before.catalog.clone();
        if !change(&mut catalog) {
            return None;
        }
        let findings = workflow.map(|workflow| findings(workflow, &catalog.summary()));
        let findings = findings.unwrap_or_default();
        let after = CatalogSnapshot::new(catalog, workflow, findings, self.page_size);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&after);
        self.generation.fetch_add(1, Ordering::Release);
        Some((before, after))
    }
}

/// The snapshot that a loop has loaded last.
#[derive(Debug)]
pub(crate) struct CachedSnapshot {
    generation: u64,
    snapshot: Arc<CatalogSnapshot>,
}
