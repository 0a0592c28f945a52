//! What all requests of one server share: what it offers, where its instances are kept, its rules.
//!
//! It is put together by the builder and read by every room to its left. It knows no client, no
//! transport and no mounted handler.

pub(crate) mod handle_refusals;
pub(crate) mod random_start;
pub(crate) mod rates;

use crate::{
    api::{drop_quietly, lifespan::Lifespan},
    catalog::{
        Catalog,
        build_error::BuildError,
        handle_argument::in_use,
        snapshot::{CatalogSnapshot, LiveCatalog},
    },
    context::{environment::Environment, request_state::Sealer},
    core::rates::CallRates,
    model::{Implementation, change::ServerChange},
    outbound::subscribers::Subscribers,
    wire::{
        refusal::CallRefusal,
        result_meta::{EncodedMeta, ResultMeta, SERVER_INFO},
        workflow_meta::WorkflowMeta,
    },
};
use interlock_engine::{Clock, Engine, Instance, OpenError, Principal};
use interlock_proto::{
    Params, Refusal, Version, connection,
    era::{Capability, Era},
    frame::Limits,
    invocation::Times,
    subscription,
};
use interlock_store::Store;
use interlock_workflow::{Instance as Run, Kind, Scope, Visibility, Workflow};
use serde_json::{Value, json, value::RawValue};
use std::{collections::BTreeSet, fmt, io, sync::Arc};
use tokio_util::task::TaskTracker;

/// How much of what a server keeps for its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// How many resources a client may be subscribed to: by `resources/subscribe`, and by all of
    /// its `subscriptions/listen` requests together. 1,024 by default.
    pub subscriptions: usize,
    /// How many `subscriptions/listen` requests a client may have open; 64 by default. On stdio a
    /// client is a connection, over HTTP a principal: all who come with the same credentials.
    ///
    /// Anonymous clients over HTTP are told apart by their addresses alone. Those of one address
    /// may have a quarter of [`all_listens`](Self::all_listens), or as many as a principal if that
    /// is more, and each of their requests may name as many resources as
    /// [`subscriptions`](Self::subscriptions) says.
    pub listens: usize,
    /// How many `subscriptions/listen` requests may be open in all; 4,096 by default.
    pub all_listens: usize,
    /// How many resources these may name in all; 65,536 by default.
    pub all_subscriptions: usize,
    /// How many workflows a principal may have started by `workflow_start`. Beyond that, those give
    /// way to a new one that have ended, that no call has moved and that were not used for a minute, or
    /// that were not used for ten minutes; if there is none, the refusal (1059) says how long to wait.
    /// 1,000 by default.
    pub handles: usize,
    /// How many of them all anonymous clients may have together, who cannot be told apart. 10,000
    /// by default.
    pub anonymous_handles: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            subscriptions: 1024,
            listens: 64,
            all_listens: 4096,
            all_subscriptions: 65_536,
            handles: 1_000,
            anonymous_handles: 10_000,
        }
    }
}

pub(crate) struct Core {
    pub(crate) info: Implementation,
    /// How stateless results say who made them.
    pub(crate) server_meta: EncodedMeta,
    pub(crate) instructions: Option<String>,
    pub(crate) catalog: LiveCatalog,
    /// Where sessions are kept.
    pub(crate) store: Arc<dyn Store>,
    /// Runs the instances of the workflow, if there is one.
    pub(crate) engine: Option<Engine>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) rules: connection::Rules,
    pub(crate) limits: Limits,
    pub(crate) times: Times,
    pub(crate) subscribers: Subscribers,
    pub(crate) sealer: Sealer,
    /// What calls see of this server.
    pub(crate) environment: Arc<Environment>,
    pub(crate) subscriptions: subscription::Rules,
    pub(crate) bounds: Bounds,
    pub(crate) call_rates: CallRates,
    pub(crate) lifespan: Arc<Lifespan>,
    /// Whether handlers read the `_meta` of requests as it was written: mounted ones do.
    pub(crate) keeps_meta: bool,
    /// Calls that have to wait, and requests over HTTP. At the end the server waits for them.
    pub(crate) background: TaskTracker,
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Core").field(&self.info.name).finish()
    }
}

impl Core {
    /// The `_meta` of a request, if anything here reads it as it was written: mounted handlers do.
    pub(crate) fn kept_meta(&self, params: Option<&Params<'_>>) -> Option<Box<RawValue>> {
        if !self.keeps_meta {
            return None;
        }
        params?.meta().map(RawValue::to_owned)
    }

    /// Whether there is a resource of that URI, whoever may read it.
    pub(crate) fn has_resource(&self, uri: &str) -> bool {
        let snapshot = self.snapshot();
        let catalog = &snapshot.catalog;
        catalog.resource(uri).is_some() || catalog.templates_for(uri).next().is_some()
    }

    /// Whether there is a resource of that URI that no workflow binds.
    pub(crate) fn is_free_resource(&self, uri: &str) -> bool {
        let free = |workflow: &Workflow| workflow.is_always(Kind::Resource, uri);
        self.has_resource(uri) && self.workflow().is_none_or(free)
    }

    /// Whether a client whose instance stands where it stands may read that resource.
    pub(crate) fn can_read(
        &self,
        uri: &str,
        instance: Option<&Instance>,
        version: Version,
    ) -> Result<(), Refusal> {
        if !self.has_resource(uri) {
            return Err(Refusal::resource_not_found(uri, version));
        }
        match (self.workflow(), instance) {
            (Some(workflow), Some(instance)) => {
                let admitted = workflow.admit(instance.position(), Kind::Resource, uri);
                admitted.map_err(|refused| CallRefusal::from(refused).refusal)?;
            }
            (Some(workflow), None) if !workflow.is_always(Kind::Resource, uri) => {
                return Err(handle_refusals::no_place(Kind::Resource, uri).refusal);
            }
            (Some(_) | None, _) => {}
        }
        Ok(())
    }

    /// The workflow, if there is one.
    pub(crate) fn workflow(&self) -> Option<&Workflow> {
        self.engine.as_ref().map(Engine::workflow)
    }

    /// Whether the workflow can be served to such clients at all.
    ///
    /// # Errors
    ///
    /// If each principal has an instance of its own, and clients are not authenticated.
    pub(crate) fn may_serve(&self, authenticated: bool) -> io::Result<()> {
        let scope = self.workflow().map(|flow| flow.settings().scope);
        match scope {
            Some(Scope::Principal) if !authenticated => Err(OpenError::Unauthenticated.into()),
            Some(_) | None => Ok(()),
        }
    }

    /// The instance that a new connection belongs to.
    pub(crate) fn instance(&self, principal: &Principal) -> io::Result<Option<Arc<Instance>>> {
        match &self.engine {
            Some(engine) => Ok(engine.connect(principal)?),
            None => Ok(None),
        }
    }

    /// The instance of a client that comes back.
    pub(crate) fn instance_of(
        &self,
        id: Option<String>,
        principal: &Principal,
    ) -> io::Result<Option<Arc<Instance>>> {
        match &self.engine {
            Some(engine) => Ok(engine.reconnect(id, principal)?),
            None => Ok(None),
        }
    }

    /// Forgets an instance that belonged to a session of which nothing is left.
    pub(crate) async fn end_instance(&self, id: Option<String>) {
        if let Some(engine) = &self.engine {
            engine.forget(id).await;
        }
    }

    /// Removes handles that have expired now and then, if clients use handles.
    pub(crate) fn watch_handles(&self) {
        let uses_handles = |engine: &&Engine| {
            let mut eras = [Era::Handshake, Era::Stateless].into_iter();
            eras.any(|era| in_use(engine.workflow(), era))
        };
        if let Some(engine) = self.engine.as_ref().filter(uses_handles) {
            engine.watch_handles();
        }
    }

    /// What a result says besides what it is the result of.
    pub(crate) const fn stamp<'a>(
        &'a self,
        version: Version,
        workflow: Option<WorkflowMeta<'a>>,
    ) -> ResultMeta<'a> {
        ResultMeta {
            version,
            workflow,
            server: &self.info,
            server_meta: &self.server_meta,
        }
    }

    /// Whether lists follow the state, so that clients are told of changes.
    pub(crate) fn lists_change(&self) -> bool {
        self.workflow().is_some_and(|workflow| {
            let settings = workflow.settings();
            settings.visibility == Visibility::Dynamic && settings.scope != Scope::Handle
        })
    }

    /// What there is at the moment.
    pub(crate) fn snapshot(&self) -> Arc<CatalogSnapshot> {
        self.catalog.current()
    }

    /// Does something with what there is at the moment. What is not there any more may go with it,
    /// and its own clean-up may panic.
    pub(crate) fn with_snapshot<T>(&self, work: impl FnOnce(&CatalogSnapshot) -> T) -> T {
        let snapshot = self.snapshot();
        let done = work(&snapshot);
        drop_quietly(snapshot);
        done
    }

    /// The item stays with the caller: one that is refused must not be dropped in here.
    pub(crate) fn add<T: Clone>(
        &self,
        kind: Kind,
        item: &T,
        add: impl FnOnce(&mut Catalog, T, &mut Vec<BuildError>),
    ) -> Result<(), BuildError> {
        let mut errors = Vec::new();
        self.change(kind, |catalog| {
            add(catalog, item.clone(), &mut errors);
            errors.is_empty()
        });
        errors.into_iter().next().map_or(Ok(()), Err)
    }

    pub(crate) fn switch(&self, kind: Kind, name: &str, enabled: bool) -> bool {
        let mut found = false;
        self.change(kind, |catalog| {
            let was = catalog.set_enabled(kind, name, enabled);
            found = was.is_some();
            was.is_some_and(|was| was != enabled)
        });
        found
    }

    /// Changes what there is, and tells those who have seen it. Whether anything changed.
    pub(crate) fn change(&self, kind: Kind, change: impl FnOnce(&mut Catalog) -> bool) -> bool {
        let changed = self.catalog.change(self.workflow(), change);
        if changed {
            self.lists_changed(&[kind]);
        }
        changed
    }

    /// What these kinds list is not what it was.
    pub(crate) fn lists_changed(&self, kinds: &[Kind]) {
        tracing::debug!(?kinds, server = self.info.name, "lists have changed");
        self.subscribers.renegotiate();
        for kind in kinds {
            self.subscribers.notify(&ServerChange::List(*kind));
        }
    }

    /// What the handshake era may use of this server.
    pub(crate) fn capabilities(&self) -> BTreeSet<Capability> {
        self.snapshot().catalog.capabilities().clone()
    }

    /// The result of `initialize`, for a client with this instance.
    pub(crate) fn initialize_result(&self, version: Version, instance: Option<&Instance>) -> Value {
        let result = json!({
            "protocolVersion": version,
            "capabilities": advertised(&self.capabilities()),
            "serverInfo": self.info,
        });
        match instance {
            Some(instance) => self.with_instructions(result, Some(&instance.run())),
            None => self.with_instructions(result, None),
        }
    }

    /// The result of `server/discover`.
    pub(crate) fn discover_result(&self) -> Value {
        let capabilities = advertised(&self.capabilities());
        let result = json!({
            "resultType": "complete",
            "supportedVersions": Version::NEWEST_FIRST,
            "capabilities": capabilities,
            "ttlMs": 3_600_000,
            "cacheScope": "public",
            "_meta": { SERVER_INFO: self.info },
        });
        // Everybody may keep it, so it tells what a new instance would.
        let new = self.workflow().map(|workflow| workflow.start(0));
        self.with_instructions(result, new.as_ref())
    }

    /// Tells the instructions of the server, and those of the state in which the instance is.
    fn with_instructions(&self, mut result: Value, run: Option<&Run>) -> Value {
        let of_state = self.workflow().zip(run).and_then(|(workflow, run)| {
            let text = workflow.state(run.position().state).instructions()?;
            Some(text.fill(&workflow.facts(run, &Value::Null, &Value::Null)))
        });
        let texts: Vec<_> = self.instructions.iter().cloned().chain(of_state).collect();
        if !texts.is_empty() {
            result["instructions"] = texts.join("\n\n").into();
        }
        result
    }
}

/// What a server says that it can do. Its lists can change while it runs.
fn advertised(capabilities: &BTreeSet<Capability>) -> serde_json::Map<String, Value> {
    let options = |capability| match capability {
        Capability::Tools | Capability::Prompts => json!({ "listChanged": true }),
        Capability::Resources => json!({ "listChanged": true, "subscribe": true }),
        Capability::Logging
        | Capability::Completions
        | Capability::Tasks
        | Capability::Roots
        | Capability::Sampling
        | Capability::Elicitation => json!({}),
    };
    let capabilities = capabilities.iter();
    capabilities
        .map(|capability| (capability.name().to_owned(), options(*capability)))
        .collect()
}
