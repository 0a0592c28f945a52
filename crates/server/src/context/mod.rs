//! One call as its handler sees it: progress, log, questions, cancellation, memory.
//!
//! It knows the outbound queues, the model and the engine. A connected client is behind the port
//! [`client_link::ClientLink`]. Nothing in here writes to the wire: messages go to the loop that runs
//! the call.

#![expect(
    deprecated,
    reason = "2026-07-28 deprecates sampling and roots; until they are gone, they are served"
)]

pub(crate) mod body_memory;
pub(crate) mod cancellation;
pub(crate) mod channel;
pub(crate) mod client;
pub(crate) mod client_link;
pub(crate) mod environment;
pub(crate) mod multi_round;
pub(crate) mod request_state;

use crate::{
    context::{
        channel::{HandlerChannel, HandlerMessage, PendingQuestion, WithdrawOnDrop},
        client::{Caller, ClientInfo, Way},
        environment::App,
    },
    model::{
        ClientCapabilities, CreateMessageRequestParams, CreateMessageResult, ElicitResult,
        Implementation, Root, elicitation as ask,
        elicitation::{AskError, Form, Question, Visit},
        failure::Failure,
        notification::{Log, Progress},
    },
};
use interlock_engine::{Instance, Principal, memory_as, sleep_until};
use interlock_proto::{Ability, Level, Version};
use interlock_workflow::Instance as Run;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::{
    fmt,
    sync::{Arc, OnceLock},
};
use tokio::sync::oneshot;

/// The call that a handler serves: what is known of it, and what can be sent before its result.
/// Cloning it is cheap.
///
/// A handler can ask its client: [`elicit`](Self::elicit), [`visit`](Self::visit),
/// [`sample`](Self::sample), [`roots`](Self::roots). A client that keeps a connection or a session
/// is asked over it, and the handler waits. A client of 2026-07-28 is told to come back with the
/// answers, and then **the handler runs again from its start**, with all answers so far at hand,
/// perhaps in another process. So what must happen once goes after the last question.
///
/// Keeping it after the call keeps the call's client and workflow instance in memory.
#[derive(Clone)]
pub struct Context(Arc<Shared>);

/// What a call shares with its handler, and with the tasks that the handler starts.
pub(crate) struct Shared {
    pub(crate) caller: Caller,
    pub(crate) channel: HandlerChannel,
    pub(crate) belongs: Belongs,
    /// The instance as the handler sees it, from the first look on.
    run: OnceLock<Arc<Run>>,
    /// The instance that one of the server's own tools has found.
    pub(crate) found: OnceLock<Arc<Instance>>,
    app: Option<App>,
}

impl Shared {
    pub(crate) fn new(caller: Caller, belongs: Belongs, app: Option<App>) -> Self {
        Self {
            app,
            caller,
            channel: HandlerChannel::default(),
            belongs,
            run: OnceLock::new(),
            found: OnceLock::new(),
        }
    }

    /// The workflow instance that the call belongs to.
    pub(crate) fn instance(&self) -> Option<&Arc<Instance>> {
        match (&self.belongs, &self.caller.way) {
            (Belongs::To(instance), _) => Some(instance),
            (Belongs::ToSession, Way::Session(link)) => link.instance(),
            (Belongs::ToNone, _) | (Belongs::ToSession, Way::Alone { .. }) => None,
        }
    }

    /// That instance as it was at the first look.
    pub(crate) fn run(&self) -> Option<&Run> {
        let instance = self.instance()?;
        Some(self.run.get_or_init(|| instance.run()))
    }
}

/// Which workflow instance a call belongs to.
#[derive(Debug)]
pub(crate) enum Belongs {
    ToNone,
    /// To that of its session.
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

    /// Lets the result tell where this instance stands.
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
        let instance = self.0.instance()?;
        let state = self.0.run()?.position().state;
        Some(instance.workflow().state_name(state))
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
        match self.0.run() {
            Some(run) => Ok(memory_as(run.memory())?),
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

    /// The client's own name and version, if it has sent them. They are not to be trusted.
    #[must_use]
    pub fn client(&self) -> Option<Implementation> {
        self.0.caller.with_client(ClientInfo::info)
    }

    /// The capabilities that the client has declared.
    #[must_use]
    pub fn client_capabilities(&self) -> ClientCapabilities {
        self.0.caller.with_client(ClientInfo::capabilities)
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

    /// Reads a value that the session remembers under this name.
    ///
    /// # Errors
    ///
    /// If it is no `T`, or if there is no session: 2026-07-28 has none.
    pub fn get<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, Failure> {
        let value = match &self.0.caller.way {
            Way::Session(link) => link.get(name),
            Way::Alone { .. } => return Err(no_session()),
        };
        Ok(value.map(serde_json::from_value).transpose()?)
    }

    /// Lets the session remember a value under this name, until the session ends.
    ///
    /// # Errors
    ///
    /// If the value is not representable as JSON, if the session remembers too much already, or if
    /// there is no session: 2026-07-28 has none.
    pub async fn set(&self, name: &str, value: &(impl Serialize + Sync)) -> Result<(), Failure> {
        let value = serde_json::to_value(value)?;
        match &self.0.caller.way {
            Way::Session(link) => link.set(name, value).await,
            Way::Alone { .. } => Err(no_session()),
        }
    }

    /// Whether the result is not wanted any more: the client has cancelled the call, its deadline
    /// has passed, or the server shuts down.
    ///
    /// A handler that stops because the client has cancelled the call returns
    /// [`Failure::stopped`](crate::Failure::stopped).
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.channel.is_stopped()
    }

    /// Completes when [`is_cancelled`](Self::is_cancelled) becomes true.
    pub async fn cancelled(&self) {
        self.0.channel.stopped().await;
    }

    /// Reports progress to the client, if it wants that. A value that does not increase is dropped.
    pub async fn progress(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
        if self.0.caller.progress.is_some() && progress.is_finite() {
            let progress = HandlerMessage::Progress(Progress {
                progress,
                total: total.filter(|total| total.is_finite()),
                message: message.map(str::to_owned),
            });
            self.0.channel.send(progress).await;
        }
    }

    /// Sends a log message to the client, if it wants this level. It must not contain secrets.
    pub async fn log(&self, level: Level, data: impl Serialize) {
        self.log_as(level, None, data).await;
    }

    /// As [`log`](Self::log), with the name of a logger.
    pub async fn log_as(&self, level: Level, logger: Option<&str>, data: impl Serialize) {
        if !self.0.caller.wants(level) {
            return;
        }
        match serde_json::to_value(data) {
            Ok(data) => {
                let log = HandlerMessage::Log(Log {
                    level,
                    logger: logger.map(str::to_owned),
                    data,
                });
                self.0.channel.send(log).await;
            }
            Err(error) => tracing::warn!(%error, "a log message is not representable"),
        }
    }

    /// Lets the client close the connection on which it waits, and come back for the result: for
    /// calls that take long. It has an effect only where a stream can be resumed: over HTTP with
    /// 2025-11-25.
    pub async fn hang_up(&self) {
        if matches!(self.0.caller.way, Way::Session(_)) && self.version() >= Version::V2025_11_25 {
            self.0.channel.send(HandlerMessage::HangUp).await;
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
        self.ask(key, question, |answer| ask::read_form(form, answer))
            .await
    }

    /// Asks the person at the client to visit a URL, and returns whether they consented. Once the
    /// server learns that they are done there, [`visited`](Self::visited) notifies the client. `key`
    /// as for [`elicit`](Self::elicit). The URL has `https`, or `http` and a page of this machine.
    ///
    /// # Errors
    ///
    /// If it is another URL, or the client cannot be asked or does not answer. Saying no is an answer.
    pub async fn visit(&self, key: &str, visit: &Visit) -> Result<ElicitResult, AskError> {
        let question = Question::url(visit, self.version())?;
        self.ask(key, question, ask::read_consent).await
    }

    /// Notifies the client that the visit of this name is complete. 2026-07-28 has no such message:
    /// its client comes back by itself.
    pub fn visited(&self, id: &str) {
        if let Way::Session(link) = &self.0.caller.way
            && self.version() >= Version::V2025_11_25
        {
            link.tell_visited(id);
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
        self.ask(key, Question::sample(params)?, ask::read_sample)
            .await
    }

    /// Asks the client for its roots. `key` as for [`elicit`](Self::elicit).
    ///
    /// # Errors
    ///
    /// If the client cannot be asked, or does not answer.
    pub async fn roots(&self, key: &str) -> Result<Vec<Root>, AskError> {
        self.ask(key, Question::roots(), ask::read_roots).await
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
        let number = self.0.channel.next_question_number();
        let waiting = WithdrawOnDrop {
            channel: &self.0.channel,
            number,
        };
        let asking = PendingQuestion {
            number,
            key: key.to_owned(),
            question,
            answer: sender,
        };
        if !self.0.channel.send(HandlerMessage::Ask(asking)).await {
            return Err(AskError::Ended);
        }
        let environment = caller.environment();
        let clock = &*environment.clock;
        let late = clock.now() + environment.ask_timeout;
        let answered = tokio::select! {
            answered = answer => answered.unwrap_or(Err(AskError::Ended)),
            () = self.cancelled() => Err(AskError::Ended),
            () = sleep_until(clock, Some(late)) => Err(AskError::Late),
        };
        drop(waiting);
        read(answered?).map_err(AskError::Invalid)
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
