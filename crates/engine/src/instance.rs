//! One instance of a workflow: where it stands, and who watches it.

use crate::{
    engine::Shared,
    journal::{self, Entry, Pending, What},
    lease::Lease,
    lock,
    observer::Observer,
    principal::Principal,
    snapshot::Snapshot,
    state::State,
};
use interlock_proto::{Time, refusal::shortened};
use interlock_store::{self as store, Key};
use interlock_workflow::{
    BindingId, Call, Instance as Run, Kind, Outcome, Pass, Position, Refused, Scope, Visibility,
    Workflow,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{
    fmt,
    sync::{Arc, Mutex, Weak},
    time::Duration,
};
use tokio::sync::Semaphore;

/// Under which kind instances are stored.
pub(crate) const KIND: store::Kind = store::Kind::from_static("instance");

/// How many characters of a refusal the journal keeps.
const MOST_WORDS: usize = 256;

/// One run through a workflow.
///
/// The store is the truth; the state here is what was last seen of it. An instance of a session on
/// an engine without a store of its own lives in this process alone: there the state here is the
/// truth, and its record follows when an operator looks or the session leaves memory.
///
/// ```
/// use interlock_engine::{CallFacts, Engine, Principal};
/// use interlock_workflow::{Kind, Workflow, end};
///
/// let flow = Workflow::builder("shop")
///     .state("cart", |s| s.initial().tool("checkout", |t| t.success("due")))
///     .state("due", |s| s.tool("pay", |t| t.success(end("cart"))))
///     .build()?;
/// let engine = Engine::builder(flow).build();
/// let instance = engine.connect(&Principal::anonymous())?.expect("a session has an instance");
///
/// let workflow = instance.workflow();
/// assert_eq!(workflow.state_name(instance.position().state), "cart");
/// let refused = instance.admit(&CallFacts::new(Kind::Tool, "pay")).unwrap_err();
/// assert_eq!(refused.code(), 1081);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Instance {
    pub(crate) shared: Arc<Shared>,
    id: Arc<str>,
    pub(crate) key: Key,
    /// Names it among the timers.
    pub(crate) number: u64,
    /// One permit, handed on in order: its holder may move the instance.
    pub(crate) turn: Semaphore,
    /// Held while the store is written or read, so that the journal is in order.
    pub(crate) writer: tokio::sync::Mutex<()>,
    pub(crate) state: Mutex<State>,
    snapshot: Arc<Snapshot>,
    pub(crate) observers: Mutex<Vec<Weak<dyn Observer>>>,
    pub(crate) lease: Option<Lease>,
}

/// What a call was made with. It is kept for guards, approvals and effects that read it.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CallInput {
    /// The arguments.
    pub args: Value,
    /// The facts about the caller; null if it is anonymous.
    pub principal: Value,
}

/// The input of a call of which no guard, approval or effect reads anything.
pub(crate) static NO_INPUT: CallInput = CallInput {
    args: Value::Null,
    principal: Value::Null,
};

impl CallInput {
    /// How deep arguments may nest. Readers of JSON stop at 128 levels, and arguments are kept
    /// inside other objects.
    pub const DEEPEST: usize = 100;

    /// Whether such arguments could not be read again once they are stored.
    #[must_use]
    pub fn is_too_deep(args: &Value) -> bool {
        is_deeper(args, Self::DEEPEST)
    }
}

fn is_deeper(value: &Value, most: usize) -> bool {
    let Some(left) = most.checked_sub(1) else {
        return value.is_array() || value.is_object();
    };
    match value {
        Value::Array(items) => items.iter().any(|item| is_deeper(item, left)),
        Value::Object(members) => members.values().any(|member| is_deeper(member, left)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// A call, as the engine judges it.
///
/// ```
/// use interlock_engine::{CallFacts, CallInput};
/// use interlock_workflow::Kind;
/// use serde_json::json;
/// use std::sync::Arc;
///
/// let input = Arc::new(CallInput {
///     args: json!({ "amount": 5 }),
///     ..CallInput::default()
/// });
/// let call = CallFacts {
///     input: Some(&input),
///     ..CallFacts::new(Kind::Tool, "pay")
/// };
/// assert_eq!(call.name, "pay");
/// ```
#[derive(Clone, Debug)]
pub struct CallFacts<'a> {
    /// What kind of thing is called.
    pub kind: Kind,
    /// What it is called.
    pub name: &'a str,
    /// What it is called with, if anything reads that.
    pub input: Option<&'a Arc<CallInput>>,
    /// The binding that admitted it, if that is known. It is checked again.
    pub binding: Option<BindingId>,
    /// Who calls.
    pub principal: &'a Principal,
    /// When the call came, if it has not waited since: then the clock is not read again.
    pub now: Option<Time>,
    /// How long the call may take in all, unless its binding has a deadline of its own.
    pub time: Duration,
    /// What may be added to that deadline: for stopping, and for waiting for the client.
    pub grace: Duration,
}

impl<'a> CallFacts<'a> {
    /// A call by its name alone.
    #[must_use]
    pub const fn new(kind: Kind, name: &'a str) -> Self {
        Self {
            kind,
            name,
            input: None,
            binding: None,
            principal: &Principal::ANONYMOUS,
            now: None,
            time: Duration::from_secs(30),
            grace: Duration::ZERO,
        }
    }

    pub(crate) fn input(&self) -> &'a CallInput {
        self.input.map_or(&NO_INPUT, |input| input)
    }

    fn call(&self) -> Call<'a> {
        let CallInput { args, principal } = self.input();
        Call {
            kind: self.kind,
            name: self.name,
            args,
            principal,
        }
    }

    /// Whether the call may run in this state of the instance: admission, then its guard.
    pub(crate) fn judge<'w>(
        &self,
        workflow: &'w Workflow,
        run: &Run,
    ) -> Result<Pass<'w>, Refused<'w>> {
        let binding = self.binding.map(|binding| workflow.binding(binding));
        match binding.filter(|binding| binding.is_at(run.position())) {
            Some(binding) => workflow.judge_bound(run, binding, &self.call()),
            None => workflow.judge(run, &self.call()),
        }
    }
}

impl Instance {
    pub(crate) fn new(shared: &Arc<Shared>, id: Arc<str>, lease: Option<Lease>) -> Arc<Self> {
        let now = shared.now();
        let key = Key::new(KIND, Arc::clone(&id)).expect("our own ids are short and printable");
        let state = State::new(shared.workflow.start(now.0), now, shared.node);
        Arc::new(Self {
            shared: Arc::clone(shared),
            id,
            key,
            number: shared.timers.number(),
            turn: Semaphore::new(1),
            writer: tokio::sync::Mutex::new(()),
            snapshot: Arc::clone(state.known.snapshot()),
            state: Mutex::new(state),
            observers: Mutex::default(),
            lease,
        })
    }

    /// Its id. It is hard to guess unless everybody shares the instance.
    pub const fn id(&self) -> &Arc<str> {
        &self.id
    }

    /// The workflow that it runs through.
    pub fn workflow(&self) -> &Workflow {
        &self.shared.workflow
    }

    /// Where it stands. This takes no lock.
    pub fn position(&self) -> Position {
        self.snapshot.position()
    }

    /// All that is known of it now.
    pub fn run(&self) -> Arc<Run> {
        Arc::clone(lock(&self.state).run())
    }

    /// Whether a call may run as things stand: admission, then its guard.
    ///
    /// Unbound calls are refused from the position alone. The run is read only for conditional
    /// bindings.
    ///
    /// # Errors
    ///
    /// Why it may not.
    pub fn admit<'w>(&'w self, call: &CallFacts<'_>) -> Result<Pass<'w>, Refused<'w>> {
        let workflow = self.workflow();
        let at = self.position();
        let known = call.binding.map(|binding| workflow.binding(binding));
        let pass = match known.filter(|binding| binding.is_at(at)) {
            Some(binding) => Pass::Bound(binding),
            None => workflow.admit(at, call.kind, call.name)?,
        };
        match pass {
            Pass::Bound(binding) if binding.is_conditional() => call.judge(workflow, &self.run()),
            pass @ (Pass::Bound(_) | Pass::Always) => Ok(pass),
        }
    }

    /// When the call that runs in another process must be over, if there is one.
    pub fn busy_until(&self) -> Option<Time> {
        let state = lock(&self.state);
        let elsewhere = state.occupancy.elsewhere.as_ref();
        elsewhere.map(|running| Time(running.until))
    }

    /// What the model has to know of a call that may have taken effect. It is told once.
    pub fn take_warning(&self) -> Option<String> {
        if !self.snapshot.is_unclear() {
            return None;
        }
        let unclear = lock(&self.state).known.set_unclear(None)?;
        Some(unclear.text())
    }

    /// Whether it lives in this process alone, so that its record and journal may follow later.
    pub(crate) fn is_volatile(&self) -> bool {
        let of_session = self.workflow().settings().scope == Scope::Session;
        self.shared.is_private() && of_session && self.lease.is_none()
    }

    /// Journals that a call was refused. Nothing waits for that.
    pub fn note_refused(self: &Arc<Self>, kind: Kind, name: &str, (code, why): (u16, &str)) {
        self.note_later(What::Refused {
            kind,
            name: shortened(name),
            code,
            why: why.chars().take(MOST_WORDS).collect(),
        });
    }

    /// Journals that its client cancelled a call before it ran. Nothing waits for that.
    pub fn note_cancelled(self: &Arc<Self>, kind: Kind, name: &str) {
        self.note_later(What::TakenBack {
            kind,
            name: shortened(name),
        });
    }

    /// Journals that a handler paused that cannot move the instance. Nothing waits for that.
    pub fn note_paused(self: &Arc<Self>, kind: Kind, name: &str) {
        self.note_later(What::Paused {
            kind,
            name: shortened(name),
        });
    }

    fn note_later(self: &Arc<Self>, what: What) {
        let now = self.shared.now().0;
        lock(&self.state)
            .journal
            .note(now, Entry::new(now, None, what));
        self.arm();
    }

    /// Journals that a call ended that cannot move the instance. Nothing waits for that.
    pub fn note_ran(self: &Arc<Self>, binding: BindingId, outcome: Outcome, now: Time) {
        {
            let mut state = lock(&self.state);
            if state.ended {
                return;
            }
            let at = state.journal.at(now.0);
            if let (true, Some(most)) = (self.is_volatile(), self.shared.journal_limit) {
                let bound = binding;
                return state
                    .journal
                    .push(Pending::Ran { at, bound, outcome }, most);
            }
            let binding = self.workflow().binding(binding);
            let entry = journal::ran(at, binding, outcome, self.workflow());
            state.journal.note(at, entry);
        }
        self.arm();
    }

    /// From now on, the observer hears of lists that others change.
    pub fn observe(&self, observer: Weak<dyn Observer>) {
        let mut observers = lock(&self.observers);
        observers.retain(|observer| observer.strong_count() > 0);
        observers.push(observer);
    }

    /// Tells every observer but the caller that these lists have changed.
    pub fn tell_others(&self, caller: Option<&dyn Observer>, kinds: &[Kind]) {
        if kinds.is_empty() {
            return;
        }
        let observers: Vec<_> = {
            let observers = lock(&self.observers);
            observers.iter().filter_map(Weak::upgrade).collect()
        };
        let is_caller = |one: &Arc<dyn Observer>| {
            caller.is_some_and(|caller| std::ptr::addr_eq(Arc::as_ptr(one), caller))
        };
        for observer in observers.into_iter().filter(|one| !is_caller(one)) {
            observer.lists_changed(kinds);
        }
    }

    /// Tells every observer of the lists that differ between two positions.
    pub(crate) fn tell_all(&self, before: Position, after: Position) {
        let workflow = self.workflow();
        if workflow.settings().visibility == Visibility::Dynamic {
            let kinds: Vec<_> = workflow.lists_differ(before, after).collect();
            self.tell_others(None, &kinds);
        }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if lock(&self.state).armed.is_some() {
            self.shared.timers.clear(self.number);
        }
        self.shared.registry.leave(&self.id);
    }
}

impl fmt::Debug for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Instance").field(&self.id).finish()
    }
}
