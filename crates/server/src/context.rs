//! What a handler knows about the call it serves, and what it can say before its result.

#![expect(
    deprecated,
    reason = "2026-07-28 deprecates sampling and roots; until they are gone, they are served"
)]

use crate::{
    ask::{self, AskError, Form, Question, Visit},
    caller::{Caller, Client, Way},
    clock, effect,
    failure::Failure,
    instance::Instance,
    lifespan::App,
    model::{
        ClientCapabilities, CreateMessageRequestParams, CreateMessageResult, ElicitResult,
        Implementation, Root,
    },
    principal::Principal,
    server::Inner,
    voice::{Asking, Log, Progress, Voice, Word},
};
use interlock_proto::{Ability, Level, Version};
use interlock_workflow::Instance as Run;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::{
    fmt,
    sync::{Arc, OnceLock},
};
use tokio::sync::oneshot;

/// What a handler knows about the call it serves, and what it can say before its result. Cloning
/// it is cheap.
///
/// A handler can ask its client: [`elicit`](Self::elicit), [`visit`](Self::visit),
/// [`sample`](Self::sample), [`roots`](Self::roots). A client that keeps a connection or a session
/// is asked over it, and the handler waits. A client of 2026-07-28 is told to come back with the
/// answers, and then **the handler runs again from its start**, with all answers so far at hand,
/// perhaps in another process. So what must happen once goes after the last question.
///
/// Whoever keeps it after the call keeps the call's client and workflow instance in memory.
#[derive(Clone)]
pub struct Context(Arc<Shared>);

/// What a call, its handler and whatever the handler starts have in common.
pub(crate) struct Shared {
    pub(crate) caller: Caller,
    pub(crate) voice: Voice,
    pub(crate) belongs: Belongs,
    /// That instance as its handler sees it, once somebody has looked.
    sight: OnceLock<Arc<Run>>,
    /// The instance that a tool of our own has found.
    pub(crate) found: OnceLock<Arc<Instance>>,
    app: Option<App>,
}

impl Shared {
    pub(crate) fn new(caller: Caller, belongs: Belongs) -> Self {
        Self {
            app: caller.inner().lifespan.app(),
            caller,
            voice: Voice::default(),
            belongs,
            sight: OnceLock::new(),
            found: OnceLock::new(),
        }
    }

    /// The workflow instance that the call belongs to.
    pub(crate) fn instance(&self) -> Option<&Arc<Instance>> {
        match (&self.belongs, &self.caller.way) {
            (Belongs::To(instance), _) => Some(instance),
            (Belongs::ToSession, Way::Session(peer)) => peer.instance(),
            (Belongs::ToNone, _) | (Belongs::ToSession, Way::Alone { .. }) => None,
        }
    }

    /// That instance as it was when somebody looked for the first time.
    pub(crate) fn sight(&self) -> Option<&Run> {
        let instance = self.instance()?;
        Some(self.sight.get_or_init(|| instance.run()))
    }
}

/// Which workflow instance a call belongs to.
#[derive(Debug)]
pub(crate) enum Belongs {
    ToNone,
    /// To that of the session in which it came, which keeps it.
    ToSession,
    To(Arc<Instance>),
}

impl Context {
    pub(crate) const fn new(shared: Arc<Shared>) -> Self {
        Self(shared)
    }

    pub(crate) fn caller(&self) -> &Caller {
        &self.0.caller
    }

    pub(crate) fn inner(&self) -> &Inner {
        self.0.caller.inner()
    }

    /// The result tells where this instance stands.
    pub(crate) fn found(&self, instance: Arc<Instance>) {
        let _ = self.0.found.set(instance);
    }

    /// The workflow instance the call belongs to: the key for what a handler remembers.
    #[must_use]
    pub fn instance(&self) -> Option<&str> {
        self.0.instance().map(|instance| &**instance.id())
    }

    /// The state of the workflow instance when the call began. Of a call that cannot move it, and
    /// so runs beside others that may: when its handler first looked, or first waited.
    #[must_use]
    pub fn state(&self) -> Option<&str> {
        let (workflow, run) = (self.inner().workflow.as_ref()?, self.0.sight()?);
        Some(workflow.state_name(run.position().state))
    }

    /// What the workflow instance remembered (`ctx` in guards, written by `set`) when
    /// [`state`](Self::state) was looked at, as a type of one's own. Members that may be missing are
    /// `Option`s.
    ///
    /// ```
    /// use interlock::{Context, Failure, NoArguments, Server, Tool, Workflow, workflow::to};
    ///
    /// #[derive(serde::Deserialize)]
    /// struct Memory { order: String, amount: Option<u64> }
    ///
    /// let flow = Workflow::builder("refund")
    ///     .state("new", |s| {
    ///         s.initial().tool("lookup", |t| t.success(to("found").set("order", "'A-1'")))
    ///     })
    ///     .state("found", |s| s.tool("refund", |t| t.success("paid")))
    ///     .state("paid", |s| s.terminal())
    ///     .build()?;
    /// let refund = Tool::new("refund", |_: NoArguments, context: Context| async move {
    ///     let memory: Memory = context.memory()?;
    ///     Ok::<_, Failure>(format!("{} is paid back: {:?}", memory.order, memory.amount))
    /// });
    /// let server = Server::builder("shop", "1.0.0")
    ///     .tool(Tool::new("lookup", |_: NoArguments, _: Context| async { "found" }))
    ///     .tool(refund)
    ///     .workflow(flow)
    ///     .build()?;
    /// # let _ = server;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If it does not fit the type, or the call belongs to no instance.
    pub fn memory<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        match self.0.sight() {
            Some(run) => effect::fit(run.memory()),
            None => Err(Failure::new(
                "there is nothing to remember: the call belongs to no workflow instance",
            )),
        }
    }

    /// On whose behalf the call is made.
    #[must_use]
    pub fn principal(&self) -> &Principal {
        &self.0.caller.principal
    }

    /// The protocol version that the client speaks.
    #[must_use]
    pub fn version(&self) -> Version {
        self.0.caller.version
    }

    /// What the client calls itself, if it said so. It is not to be trusted.
    #[must_use]
    pub fn client(&self) -> Option<Implementation> {
        self.0.caller.introduced(Client::info)
    }

    /// What the client says it can do.
    #[must_use]
    pub fn client_capabilities(&self) -> ClientCapabilities {
        self.0.caller.introduced(Client::capabilities)
    }

    /// Fails unless the client has declared that it can do this.
    ///
    /// # Errors
    ///
    /// A failure that tells the client what is missing.
    pub fn require(&self, ability: Ability) -> Result<(), Failure> {
        self.0.caller.can(ability).map_err(Failure::refused)
    }

    /// What the application's start hook made, if it made a `T`.
    #[must_use]
    pub fn app<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.0.app.as_ref()?.downcast_ref()
    }

    /// What the session remembers under this name.
    ///
    /// # Errors
    ///
    /// If it is no `T`, or if there is no session: 2026-07-28 has none.
    pub fn get<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, Failure> {
        let value = match &self.0.caller.way {
            Way::Session(peer) => peer.get(name),
            Way::Alone { .. } => return Err(no_session()),
        };
        Ok(value.map(serde_json::from_value).transpose()?)
    }

    /// Lets the session remember this under this name, until it ends.
    ///
    /// # Errors
    ///
    /// If the value is not representable as JSON, if the session remembers too much already, or if
    /// there is no session: 2026-07-28 has none.
    pub async fn set(&self, name: &str, value: &(impl Serialize + Sync)) -> Result<(), Failure> {
        let value = serde_json::to_value(value)?;
        match &self.0.caller.way {
            Way::Session(peer) => peer.set(name, value).await,
            Way::Alone { .. } => Err(no_session()),
        }
    }

    /// Whether nobody wants the result any more: the client has taken the call back, its deadline
    /// has passed, or the server ends.
    ///
    /// A handler that stops because the client took the call back returns
    /// [`Failure::stopped`](crate::Failure::stopped).
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.voice.is_stopped()
    }

    /// Completes when [`is_cancelled`](Self::is_cancelled) becomes true.
    pub async fn cancelled(&self) {
        self.0.voice.stopped().await;
    }

    /// Tells the client how far the call has come, if it wants to know. What does not increase is
    /// not told.
    pub async fn progress(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
        if self.0.caller.progress.is_some() && progress.is_finite() {
            let word = Word::Progress(Progress {
                progress,
                total: total.filter(|total| total.is_finite()),
                message: message.map(str::to_owned),
            });
            self.0.voice.say(word).await;
        }
    }

    /// Writes to the client's log, if it takes messages of this level. Secrets do not belong there.
    pub async fn log(&self, level: Level, data: impl Serialize) {
        self.log_as(level, None, data).await;
    }

    /// As [`log`](Self::log), by the name of a logger.
    pub async fn log_as(&self, level: Level, logger: Option<&str>, data: impl Serialize) {
        if !self.0.caller.wants(level) {
            return;
        }
        match serde_json::to_value(data) {
            Ok(data) => {
                let logger = logger.map(str::to_owned);
                let word = Word::Log(Log {
                    level,
                    logger,
                    data,
                });
                self.0.voice.say(word).await;
            }
            Err(error) => tracing::warn!(%error, "a log message is not representable"),
        }
    }

    /// Lets the client close the connection on which it waits, and come back for the result: for
    /// calls that take long. It does something only where a stream can be taken up again, which is
    /// over HTTP with 2025-11-25.
    pub async fn hang_up(&self) {
        if matches!(self.0.caller.way, Way::Session(_)) && self.version() >= Version::V2025_11_25 {
            self.0.voice.say(Word::HangUp).await;
        }
    }

    /// Asks the person at the client to fill in a form. `key` is the handler's own name for the
    /// question, another one for each.
    ///
    /// # Errors
    ///
    /// If the client cannot be asked, or does not answer. Saying no is an answer.
    pub async fn elicit(&self, key: &str, form: &Form) -> Result<ElicitResult, AskError> {
        let question = Question::form(form, self.version())?;
        self.ask(key, question, |answer| ask::filled_in(form, answer))
            .await
    }

    /// Asks the person at the client to visit a URL, and tells whether they consented. What they
    /// do there, the server learns there; then [`visited`](Self::visited) tells the client. `key`
    /// as for [`elicit`](Self::elicit).
    ///
    /// # Errors
    ///
    /// If the client cannot be asked, or does not answer. Saying no is an answer.
    pub async fn visit(&self, key: &str, visit: &Visit) -> Result<ElicitResult, AskError> {
        let question = Question::url(visit, self.version());
        self.ask(key, question, ask::consented).await
    }

    /// Tells the client that the person has done what they were asked to do at the visit of this
    /// name. On
    /// 2026-07-28 there is no such message: its client comes back by itself.
    pub fn visited(&self, id: &str) {
        if let Way::Session(peer) = &self.0.caller.way
            && self.version() >= Version::V2025_11_25
        {
            peer.tell_visited(id);
        }
    }

    /// Asks the client's model. `key` as for [`elicit`](Self::elicit).
    ///
    /// # Errors
    ///
    /// If the client cannot be asked, or does not answer.
    pub async fn sample(
        &self,
        key: &str,
        params: &CreateMessageRequestParams,
    ) -> Result<CreateMessageResult, AskError> {
        self.ask(key, Question::sample(params)?, ask::sampled).await
    }

    /// Asks the client for its roots. `key` as for [`elicit`](Self::elicit).
    ///
    /// # Errors
    ///
    /// If the client cannot be asked, or does not answer.
    pub async fn roots(&self, key: &str) -> Result<Vec<Root>, AskError> {
        self.ask(key, Question::roots(), ask::listed).await
    }

    async fn ask<T>(
        &self,
        key: &str,
        question: Question,
        read: impl Fn(Value) -> Result<T, String>,
    ) -> Result<T, AskError> {
        let caller = &self.0.caller;
        caller
            .can(question.ability)
            .map_err(AskError::NotDeclared)?;
        if let Way::Alone { round, .. } = &caller.way
            && let Some(answer) = round.answer(key)
        {
            match read(answer) {
                Ok(answer) => return Ok(answer),
                // It is asked again, as if it had not been answered.
                Err(why) => tracing::debug!(key, why, "an answer is not valid"),
            }
        }
        let (sender, answer) = oneshot::channel();
        let number = self.0.voice.number();
        let waiting = Waiting {
            voice: &self.0.voice,
            number,
        };
        let asking = Asking {
            number,
            key: key.to_owned(),
            question,
            answer: sender,
        };
        if !self.0.voice.say(Word::Ask(asking)).await {
            return Err(AskError::Ended);
        }
        let clock = &*self.inner().clock;
        let late = clock.now() + self.inner().ask_timeout;
        let answered = tokio::select! {
            answered = answer => answered.unwrap_or(Err(AskError::Ended)),
            () = self.cancelled() => Err(AskError::Ended),
            () = clock::sleep_until(clock, Some(late)) => Err(AskError::Late),
        };
        drop(waiting);
        read(answered?).map_err(AskError::Invalid)
    }
}

/// However a handler stops waiting for an answer, the call's clock must go on.
struct Waiting<'a> {
    voice: &'a Voice,
    number: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.voice.remark(Word::Settled(self.number));
    }
}

fn no_session() -> Failure {
    Failure::new("there is no session: a 2026-07-28 request stands alone")
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("principal", &self.0.caller.principal)
            .field("instance", &self.instance())
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}
