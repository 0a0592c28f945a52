//! Handles: how a client that is not remembered tells which instance it means.
//!
//! Nothing of a 2026-07-28 request is remembered for the next one, so an instance that belongs to
//! a conversation is found by an id that the client carries: `workflow_start` makes it, and every
//! gated tool takes it as its argument `workflow`. The id says nothing about the state, which is
//! in the store with the principal whom it was made for; whoever else brings it learns what
//! somebody learns who has made one up.
//!
//! | File | Holds |
//! |---|---|
//! | `schema.rs` | a tool's schema with the argument |
//! | `tools.rs` | `workflow_start` and `workflow_status` |

mod schema;
mod tools;

pub(crate) use schema::extended;
pub(crate) use tools::{OwnTool, models};

use crate::{
    convert::No,
    instance::{Instance, KeepError, Lease, Swept},
    principal::Principal,
    route::lock,
    server::Inner,
};
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use interlock_proto::{Code, Refusal, Time, era::Era};
use interlock_store::StoreError;
use interlock_workflow::{Kind, Scope, Workflow};
use sha2::{Digest, Sha256};
use std::{
    collections::HashMap,
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

/// The argument that carries a handle.
pub(crate) const ARGUMENT: &str = "workflow";

/// Whether clients of that era find their instances by handles.
pub(crate) fn in_use(workflow: &Workflow, era: Era) -> bool {
    match (workflow.settings().scope, era) {
        (Scope::Handle, Era::Handshake | Era::Stateless) | (Scope::Session, Era::Stateless) => true,
        (Scope::Session, Era::Handshake) | (Scope::Principal | Scope::Global, _) => false,
    }
}

/// Which tools take a handle: those that are not callable in every state.
#[derive(Debug)]
pub(crate) struct Carriers {
    /// Whether it is callable in every state, for each tool that the workflow names.
    free: HashMap<String, bool>,
    others_are_free: bool,
}

impl Carriers {
    /// `None` if the workflow needs no handles in any era.
    pub(crate) fn of(workflow: &Workflow) -> Option<Self> {
        let eras = [Era::Handshake, Era::Stateless];
        eras.into_iter().find(|era| in_use(workflow, *era))?;
        let tools = workflow.artifacts(Kind::Tool);
        let is_free = |name: &str| workflow.is_always(Kind::Tool, name);
        Some(Self {
            free: tools.map(|name| (name.to_owned(), is_free(name))).collect(),
            others_are_free: workflow.always_everything(),
        })
    }

    pub(crate) fn include(&self, tool: &str) -> bool {
        !self.free.get(tool).copied().unwrap_or(self.others_are_free)
    }
}

/// By what the instance of a call is found that has none yet.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// By the handle that it brings.
    Handle(String),
    /// By who makes it, or it is the one that everybody shares.
    Caller,
}

/// On 2026-07-28, the scope `session` has handles in its place, and what cannot carry one cannot be
/// used there. Whoever wants to serve it should know.
pub(crate) fn warn_of_what_has_no_place(workflow: &Workflow) {
    if !in_use(workflow, Era::Stateless) {
        return;
    }
    let mut stuck = Vec::new();
    for kind in [Kind::Resource, Kind::Prompt] {
        let bound = workflow.artifacts(kind);
        let bound = bound.filter(|name| !workflow.is_always(kind, name));
        stuck.extend(bound.map(|name| format!("{kind} {name:?}")));
    }
    if !stuck.is_empty() {
        tracing::warn!(
            "instances are found by a handle on 2026-07-28, which only tools can carry, and there \
             these are refused: {}; with the scope `principal` or `global` they are served",
            stuck.join(", ")
        );
    }
}

/// How many instances are kept in memory, so that calls of one of them take turns here.
const MOST_KNOWN: usize = 4096;

/// The instances that requests without a session have used lately.
#[derive(Debug, Default)]
pub(crate) struct Handles {
    known: Mutex<HashMap<Arc<str>, Known>>,
}

#[derive(Debug)]
struct Known {
    instance: Arc<Instance>,
    used: Time,
}

impl Handles {
    fn find(&self, id: &str, now: Time) -> Option<Arc<Instance>> {
        let mut known = lock(&self.known);
        let found = known.get_mut(id)?;
        found.used = now;
        Some(Arc::clone(&found.instance))
    }

    /// Keeps an instance in memory for a while. If it is there already, that one is meant: calls
    /// of one instance take turns.
    fn keep(&self, instance: Arc<Instance>, now: Time) -> Arc<Instance> {
        // What is dropped here may want to be looked after, so nothing is locked by then.
        let (kept, _gone) = {
            let mut known = lock(&self.known);
            let gone = if known.len() >= MOST_KNOWN {
                forget_half(&mut known)
            } else {
                Vec::new()
            };
            let id = Arc::clone(instance.id());
            let known = known.entry(id).or_insert(Known {
                instance,
                used: now,
            });
            known.used = now;
            (Arc::clone(&known.instance), gone)
        };
        kept
    }

    fn forget(&self, id: &str) {
        let gone = lock(&self.known).remove(id);
        if let Some(Known { instance, .. }) = gone {
            instance.forget();
        }
    }
}

/// Takes out those that were not used for longest, unless somebody uses them or something is to be
/// written about them.
fn forget_half(known: &mut HashMap<Arc<str>, Known>) -> Vec<Known> {
    let is_idle = |known: &Known| Arc::strong_count(&known.instance) == 1 && known.instance.rests();
    let idle = known.iter().filter(|(_, known)| is_idle(known));
    let mut idle: Vec<_> = idle
        .map(|(id, known)| (known.used, Arc::clone(id)))
        .collect();
    idle.sort_unstable();
    idle.truncate(MOST_KNOWN / 2);
    idle.iter().filter_map(|(_, id)| known.remove(id)).collect()
}

/// What every handle begins with.
const PREFIX: &str = "wf_";
/// How much of an id says whose it is, in characters: 48 bits. It is no secret and protects
/// nothing; it lets the handles of one principal stand together in the store.
const WHOSE: usize = 8;
/// How much of it is random, in characters: 128 bits.
const RANDOM: usize = 22;

/// What the handles of a principal begin with.
fn prefix(principal: &Principal) -> String {
    let mut hash = Sha256::new();
    hash.update([u8::from(!principal.is_anonymous())]);
    hash.update(principal.id());
    let whose = BASE64_URL_SAFE_NO_PAD.encode(&hash.finalize()[..WHOSE * 3 / 4]);
    format!("{PREFIX}{whose}")
}

/// A new id that nobody can guess.
fn mint(principal: &Principal) -> io::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    let random = BASE64_URL_SAFE_NO_PAD.encode(bytes);
    Ok(format!("{}{random}", prefix(principal)))
}

/// Whether an id could have been made for a principal.
fn may_be_of(principal: &Principal, id: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    id.strip_prefix(&prefix(principal))
        .is_some_and(|random| random.len() == RANDOM && random.bytes().all(allowed))
}

/// A handle that means nothing to us, or nothing that this client may know.
pub(crate) fn unknown() -> No {
    let refusal = Refusal::new(Code::InvalidParams).because(format!(
        "There is no workflow with this id: it was made for somebody else, has expired, or never \
         was. Call `{}` for a new one, and pass the `{ARGUMENT}` that it returns.",
        OwnTool::Start.name()
    ));
    refusal.into()
}

/// What a refusal of a finished workflow says besides.
pub(crate) fn another() -> String {
    format!(
        " Call `{}` for a new workflow, and pass the `{ARGUMENT}` that it returns.",
        OwnTool::Start.name()
    )
}

/// A gated tool was called without a handle, or with something that cannot be one.
pub(crate) fn missing(tool: &str) -> No {
    let refusal = Refusal::new(Code::InvalidJsonSchema).because(format!(
        "The arguments do not match the schema of '{tool}': `{ARGUMENT}` is required, and is a \
         string. Call `{}` first, and pass the `{ARGUMENT}` that it returns.",
        OwnTool::Start.name()
    ));
    refusal.into()
}

/// A resource or a prompt has nothing that could carry a handle.
pub(crate) fn no_place(kind: Kind, name: &str) -> No {
    let refusal = Refusal::new(Code::NotInState).because(format!(
        "{kind} '{name}' is part of a workflow whose instances are found by a handle, and only \
         tools can carry one. Here it cannot be used: connect with `initialize` and an older \
         version, or ask the operator for a workflow of scope `principal` or `global`."
    ));
    refusal.into()
}

impl Inner {
    /// The instance that a call means which came without one.
    pub(crate) async fn find_source(
        &self,
        source: &Source,
        principal: &Principal,
    ) -> Result<Arc<Instance>, No> {
        match source {
            Source::Handle(id) => self.find_handle(id, principal).await,
            Source::Caller => self.find_of_caller(principal).await,
        }
    }

    /// The instance behind a handle. Whatever is wrong with the handle, the answer is the same, and
    /// so is what it takes to find out: one look into the store.
    pub(crate) async fn find_handle(
        &self,
        id: &str,
        principal: &Principal,
    ) -> Result<Arc<Instance>, No> {
        let Some(workflow) = &self.workflow else {
            return Err(unknown());
        };
        let books = self.books(workflow);
        // Nothing is ever stored under the prefix alone.
        let looked_up = if may_be_of(principal, id) { id } else { PREFIX };
        let record = Instance::load(&books, looked_up).await;
        let Some(record) = record.map_err(|error| lost(&error.into()))? else {
            self.handles.forget(looked_up);
            return Err(unknown());
        };
        let instance = match self.handles.find(looked_up, books.now) {
            Some(instance) => instance,
            None => {
                let lease = Lease::new(principal.clone(), self.handle_idle);
                Instance::behind_handle(looked_up, workflow, &self.alarms, books.now, lease)
            }
        };
        // Two principals may happen to have the same prefix.
        if !instance.is_of(principal) {
            return Err(unknown());
        }
        match instance.adopt(&books, &record) {
            Ok(true) => {}
            Ok(false) => return Err(unknown()),
            // What belongs to another definition cannot go on.
            Err(error) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "the instance behind a handle cannot be read"
                );
                return Err(unknown());
            }
        }
        let instance = self.handles.keep(instance, books.now);
        let found = async {
            caught_up(instance.find(books).await)?;
            instance.refresh(books, &record).await
        };
        found.await.map_err(|error| lost(&error))?;
        Ok(instance)
    }

    /// The instance of a principal, or the one that everybody shares.
    async fn find_of_caller(&self, principal: &Principal) -> Result<Arc<Instance>, No> {
        let nobody = || Refusal::new(Code::AuthMissing);
        let instance = self.instance(principal).map_err(|error| {
            let refusal = nobody().because(error.to_string());
            No::from(refusal)
        })?;
        let (Some(instance), Some(workflow)) = (instance, &self.workflow) else {
            return Err(nobody().into());
        };
        let books = self.books(workflow);
        let instance = self.handles.keep(instance, books.now);
        let found = async {
            // Others may have moved it, perhaps in another process.
            if let Some(record) = Instance::load(&books, instance.id()).await? {
                let before = instance.position();
                instance.adopt(&books, &record)?;
                instance.tell_all(workflow, before, instance.position());
            }
            caught_up(instance.find(books).await)
        };
        found.await.map_err(|error: KeepError| lost(&error))?;
        Ok(instance)
    }

    /// Makes an instance behind a handle.
    async fn start_handle(&self, principal: &Principal) -> Result<Arc<Instance>, No> {
        let Some(workflow) = &self.workflow else {
            return Err(unknown());
        };
        let books = self.books(workflow);
        let begun = async {
            self.sweep(workflow).await.map(|_| ())?;
            let mine = prefix(principal);
            let most = self.most_handles(principal);
            let live = Instance::count_behind(&books, &mine, most).await?;
            Ok(live < most)
        };
        if !begun
            .await
            .map_err(|error: StoreError| lost(&error.into()))?
        {
            let refusal = Refusal::new(Code::QuotaExceeded).because(format!(
                "There are too many workflows that were started and have not expired: {} are \
                 allowed. Go on with one of them.",
                self.most_handles(principal)
            ));
            return Err(refusal.into());
        }
        let id = mint(principal).map_err(|error| {
            tracing::error!(%error, "there is no randomness");
            No::from(Refusal::new(Code::InternalError))
        })?;
        let lease = Lease::new(principal.clone(), self.handle_idle);
        let instance = Instance::behind_handle(&id, workflow, &self.alarms, books.now, lease);
        instance.begin(books).await.map_err(|error| lost(&error))?;
        let pause = Duration::from_millis(self.sweep_pause());
        self.alarms.sweep_from(books.now + pause);
        Ok(self.handles.keep(instance, books.now))
    }

    const fn most_handles(&self, principal: &Principal) -> usize {
        if principal.is_anonymous() {
            self.bounds.anonymous_handles
        } else {
            self.bounds.handles
        }
    }

    /// Removes some instances that have expired: more than are started, so that it keeps up.
    async fn sweep(&self, workflow: &Workflow) -> Result<usize, StoreError> {
        let gone = Instance::sweep(&self.books(workflow)).await?;
        for id in &gone {
            self.handles.forget(id);
        }
        Ok(gone.len())
    }

    /// Removes some instances that have expired, though nobody starts another one.
    pub(crate) async fn sweep_handles(&self) -> Result<Swept, StoreError> {
        let Some(workflow) = &self.workflow else {
            return Ok(Swept::All);
        };
        let gone = self.sweep(workflow).await?;
        Ok(if gone < Instance::SWEPT_AT_ONCE {
            Swept::All
        } else {
            Swept::Some
        })
    }

    /// How long nobody looks for instances that have expired, in milliseconds.
    pub(crate) fn sweep_pause(&self) -> u64 {
        const LEAST: u64 = 1_000;
        const MOST: u64 = 60 * 60 * 1_000;
        let idle = u64::try_from(self.handle_idle.as_millis()).unwrap_or(u64::MAX);
        (idle / 8).clamp(LEAST, MOST)
    }

    /// Others may have left handles in the store, and nobody may ever start another one here.
    pub(crate) fn look_for_handles(&self) {
        let is_used = |workflow: &Workflow| {
            let mut eras = [Era::Handshake, Era::Stateless].into_iter();
            eras.any(|era| in_use(workflow, era))
        };
        let is_kept = self.journal_limit.is_none();
        if is_kept && self.workflow.as_ref().is_some_and(is_used) {
            self.alarms.sweep_from(self.clock.now());
        }
    }
}

/// What is due waits for a call that runs elsewhere, and nobody has to wait for that to look.
fn caught_up(found: Result<(), KeepError>) -> Result<(), KeepError> {
    match found {
        Err(KeepError::RunningElsewhere) => Ok(()),
        done @ (Ok(()) | Err(_)) => done,
    }
}

fn lost(error: &KeepError) -> No {
    tracing::error!(
        error = error as &dyn std::error::Error,
        "an instance could not be looked up"
    );
    let refusal = Refusal::new(Code::InternalError);
    refusal
        .because("the workflow could not be looked up")
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn an_id_is_random_safe_in_urls_and_of_its_principal() {
        let (alice, bob) = (Principal::new("alice"), Principal::new("bob"));
        let ids: HashSet<_> = (0..1_000).map(|_| mint(&alice).unwrap()).collect();
        assert_eq!(ids.len(), 1_000);
        for id in &ids {
            let safe = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
            assert!(id.bytes().all(safe), "{id}");
            assert!(may_be_of(&alice, id), "{id}");
            assert!(!may_be_of(&bob, id), "{id}");
            assert!(!may_be_of(&Principal::anonymous(), id), "{id}");
        }
    }

    #[test]
    fn a_principal_called_anonymous_does_not_share_handles_with_nobody() {
        let (called, nobody) = (Principal::new("anonymous"), Principal::anonymous());
        assert!(!may_be_of(&nobody, &mint(&called).unwrap()));
        assert!(!may_be_of(&called, &mint(&nobody).unwrap()));
    }

    #[test]
    fn what_is_no_id_is_of_nobody() {
        let nobody = Principal::anonymous();
        let id = mint(&nobody).unwrap();
        for wrong in [
            String::new(),
            PREFIX.to_owned(),
            prefix(&nobody),
            id[..id.len() - 1].to_owned(),
            format!("{id}x"),
            format!("{}\n", &id[..id.len() - 1]),
            id.to_uppercase(),
            "global:desk".to_owned(),
        ] {
            assert!(!may_be_of(&nobody, &wrong), "{wrong:?}");
        }
    }
}
