//! One call of a mounted handler.
//!
//! The handler and whoever listens to its peer run in one future, so that what it says comes in
//! order, and who ends the call ends both.

#![expect(
    deprecated,
    reason = "2026-07-28 deprecates logging; until it is gone, it is served"
)]
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "what rmcp can say may become more"
)]

use super::{
    Mounted,
    asking::{self, Keys},
    convert,
    line::{Line, Word, Words},
};
use crate::{context::Context, failure::Failure, handler::Partial, model::JsonObject};
use futures_util::{
    StreamExt,
    future::{BoxFuture, join_all},
    stream::FuturesUnordered,
};
use interlock_workflow::Kind;
use rmcp::{
    RoleServer, Service,
    model::{
        ArgumentInfo, CallToolRequest, CallToolRequestParams, ClientNotification, ClientRequest,
        ClientResult, CompleteRequest, CompleteRequestParams, CompletionContext, ErrorData,
        GetPromptRequest, GetPromptRequestParams, Implementation, InputRequiredResult,
        InputResponses, ProgressNotificationParam, ProgressToken, ReadResourceRequest,
        ReadResourceRequestParams, Reference, RequestId, ServerConfig, ServerNotification,
        ServerRequest, ServerResult,
    },
    service::{NotificationContext, RequestContext},
};
use std::{
    collections::{BTreeMap, HashMap},
    convert::Infallible,
    future::poll_fn,
    pin::{Pin, pin},
    sync::{LazyLock, atomic::Ordering},
    task::Poll,
};
use tokio::sync::oneshot;

/// How often a handler may ask for input before it answers.
const ROUNDS: usize = 10;

/// A person has done at a URL what they were asked to do. rmcp has no type for it.
const VISITED: &str = "notifications/elicitation/complete";

/// What a handler is called for.
#[derive(Clone, Debug)]
pub(super) enum Wanted {
    Tool {
        name: String,
        arguments: JsonObject,
    },
    Resource {
        uri: String,
    },
    Prompt {
        name: String,
        arguments: JsonObject,
    },
    Completion {
        of: Reference,
        argument: String,
        partial: Partial,
    },
}

impl Wanted {
    const fn kind(&self) -> Kind {
        match self {
            Self::Tool { .. } => Kind::Tool,
            Self::Resource { .. } => Kind::Resource,
            Self::Prompt { .. } | Self::Completion { .. } => Kind::Prompt,
        }
    }

    fn request(&self, given: Given) -> ClientRequest {
        match self.clone() {
            Self::Tool { name, arguments } => {
                let mut params = CallToolRequestParams::new(name).with_arguments(arguments);
                (params.input_responses, params.request_state) = (given.answers, given.state);
                ClientRequest::CallToolRequest(CallToolRequest::new(params))
            }
            Self::Resource { uri } => {
                let mut params = ReadResourceRequestParams::new(uri);
                (params.input_responses, params.request_state) = (given.answers, given.state);
                ClientRequest::ReadResourceRequest(ReadResourceRequest::new(params))
            }
            Self::Prompt { name, arguments } => {
                let mut params = GetPromptRequestParams::new(name).with_arguments(arguments);
                (params.input_responses, params.request_state) = (given.answers, given.state);
                ClientRequest::GetPromptRequest(GetPromptRequest::new(params))
            }
            Self::Completion {
                of,
                argument,
                partial,
            } => {
                let argument = ArgumentInfo::new(argument, partial.value);
                let mut params = CompleteRequestParams::new(of, argument);
                if !partial.arguments.is_empty() {
                    let known = partial.arguments.into_iter().collect();
                    params = params.with_context(CompletionContext::with_arguments(known));
                }
                ClientRequest::CompleteRequest(CompleteRequest::new(params))
            }
        }
    }
}

/// What a handler asked for before, and gets now.
#[derive(Debug, Default)]
struct Given {
    answers: Option<InputResponses>,
    state: Option<String>,
}

/// Nobody: a call's connection takes no requests.
struct Nobody;

impl Service<RoleServer> for Nobody {
    async fn handle_request(
        &self,
        _: ClientRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<ServerResult, ErrorData> {
        Err(ErrorData::invalid_request("nobody is asked here", None))
    }

    async fn handle_notification(
        &self,
        _: ClientNotification,
        _: NotificationContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    /// Of each connection rmcp asks for it, and makes no use of it.
    fn get_info(&self) -> ServerConfig {
        static INFO: LazyLock<ServerConfig> = LazyLock::new(|| {
            let nameless = Implementation::new("", "");
            ServerConfig::default().with_server_info(nameless)
        });
        INFO.clone()
    }
}

/// A call, as all its rounds have it.
struct Call<'a> {
    mounted: &'a Mounted,
    context: &'a Context,
    line: &'a Line<Nobody>,
    id: RequestId,
    keys: Keys,
}

/// Calls the handler for what is wanted.
pub(super) async fn run(
    mounted: &Mounted,
    wanted: Wanted,
    context: Context,
) -> Result<ServerResult, Failure> {
    let (line, words) = Line::open(Nobody, convert::introduction(&context));
    let call = Call {
        mounted,
        context: &context,
        line: &line,
        id: RequestId::Number(mounted.calls.fetch_add(1, Ordering::Relaxed)),
        keys: Keys::default(),
    };
    let request = call.request();
    let stop = request.ct.clone();
    // Whatever the handler has started for this call learns of its end.
    let _end = stop.clone().drop_guard();
    let mut work = pin!(call.converse(&wanted, request));
    let result = match at_once(work.as_mut()).await {
        Some(result) => result,
        None => {
            // It has to wait, so it may speak, and be told to stop. What that takes is in a box, or
            // calls that need not wait would have to carry it.
            let stopping = async {
                context.cancelled().await;
                stop.cancel();
                std::future::pending().await
            };
            Box::pin(async {
                tokio::select! {
                    biased;
                    never = Listening::new(&call).listen(words) => match never {},
                    never = stopping => match never {},
                    result = work => result,
                }
            })
            .await
        }
    };
    result.map_err(|error| {
        if stop.is_cancelled() {
            return Failure::stopped();
        }
        convert::failure(wanted.kind(), error, context.version())
    })
}

/// What comes of it without waiting, if anything does.
async fn at_once<T>(mut work: Pin<&mut impl Future<Output = T>>) -> Option<T> {
    let polled = poll_fn(|task| Poll::Ready(work.as_mut().poll(task)));
    match polled.await {
        Poll::Ready(result) => Some(result),
        Poll::Pending => None,
    }
}

impl Call<'_> {
    /// What the handler is to know of the request.
    fn request(&self) -> RequestContext<RoleServer> {
        let mut request = RequestContext::new(self.id.clone(), self.line.peer().clone());
        let spoken = self.mounted.handler.supported_protocol_versions();
        request.meta = convert::meta(self.context, &spoken);
        request.extensions.insert(self.context.clone());
        request
    }

    /// Calls the handler, and gives it what it asks for by its results, until it answers.
    async fn converse(
        &self,
        wanted: &Wanted,
        request: RequestContext<RoleServer>,
    ) -> Result<ServerResult, ErrorData> {
        let handler = &self.mounted.handler;
        let stop = request.ct.clone();
        let mut next = (Given::default(), request);
        for _ in 0..ROUNDS {
            let (given, request) = next;
            let result = handler
                .handle_request(wanted.request(given), request)
                .await?;
            let ServerResult::InputRequiredResult(asks) = result else {
                return Ok(result);
            };
            let given = Box::pin(give(self.context, &self.keys, asks)).await?;
            let mut request = self.request();
            request.ct = stop.clone();
            next = (given, request);
        }
        let message = format!("the handler asked for input {ROUNDS} times and did not answer");
        Err(ErrorData::internal_error(message, None))
    }
}

/// Asks the client everything at once.
async fn give(
    context: &Context,
    keys: &Keys,
    asks: InputRequiredResult,
) -> Result<Given, ErrorData> {
    let asks_for = asks.input_requests.unwrap_or_default();
    let questions = asks_for.into_iter().map(|(name, request)| {
        let key = keys.named(&name);
        async move {
            let answer = asking::fulfil(context, &key, request).await;
            (name, answer)
        }
    });
    let mut answers = BTreeMap::new();
    for (name, answer) in join_all(questions).await {
        answers.insert(name, answer.map_err(convert::unanswered)?);
    }
    Ok(Given {
        answers: Some(answers).filter(|answers| !answers.is_empty()),
        state: asks.request_state,
    })
}

type Answered = (RequestId, Option<Result<ClientResult, ErrorData>>);

/// Listens to a handler's peer, and does what is said there.
struct Listening<'a> {
    call: &'a Call<'a>,
    progress: Option<ProgressToken>,
    questions: FuturesUnordered<BoxFuture<'a, Answered>>,
    /// What is being asked. Who lets go of one does not want to know any more.
    open: HashMap<RequestId, oneshot::Sender<Infallible>>,
}

impl<'a> Listening<'a> {
    fn new(call: &'a Call<'a>) -> Self {
        Self {
            call,
            progress: convert::progress(call.context),
            questions: FuturesUnordered::new(),
            open: HashMap::new(),
        }
    }

    /// Does what is said, in the order in which it is said.
    async fn listen(mut self, words: Words) -> Infallible {
        loop {
            tokio::select! {
                biased;
                Some(answered) = self.questions.next() => self.answer(answered),
                Some(word) = words.next() => match word {
                    Word::Request(id, request) => self.ask(id, request),
                    Word::Notification(notification, heard) => {
                        self.hear(notification).await;
                        let _ = heard.send(());
                    }
                },
                else => std::future::pending().await,
            }
        }
    }

    fn answer(&mut self, (id, answer): Answered) {
        self.open.remove(&id);
        if let Some(answer) = answer {
            self.call.line.answer(id, answer);
        }
    }

    fn ask(&mut self, id: RequestId, request: ServerRequest) {
        let (open, unwanted) = oneshot::channel();
        self.open.insert(id.clone(), open);
        let key = self.call.keys.next();
        let context = self.call.context;
        self.questions.push(Box::pin(async move {
            let answer = tokio::select! {
                answer = asking::ask(context, &key, request) => Some(answer),
                _ = unwanted => None,
            };
            (id, answer)
        }));
    }

    async fn hear(&mut self, notification: ServerNotification) {
        match notification {
            ServerNotification::ProgressNotification(said) => self.progress(said.params).await,
            ServerNotification::LoggingMessageNotification(said) => {
                let said = said.params;
                let level = convert::level(said.level);
                let context = self.call.context;
                context
                    .log_as(level, said.logger.as_deref(), said.data)
                    .await;
            }
            ServerNotification::CancelledNotification(said) => {
                if let Some(id) = said.params.request_id {
                    self.open.remove(&id);
                }
            }
            ServerNotification::CustomNotification(said) if said.method == VISITED => {
                let id = said
                    .params
                    .as_ref()
                    .and_then(|params| params.get("elicitationId"));
                if let Some(id) = id.and_then(|id| id.as_str()) {
                    self.call.context.visited(id);
                }
            }
            other => self.call.mounted.hear(other),
        }
    }

    async fn progress(&mut self, said: ProgressNotificationParam) {
        if self.progress.as_ref() != Some(&said.progress_token) {
            tracing::debug!("progress of another request is not told");
            return;
        }
        let context = self.call.context;
        context
            .progress(said.progress, said.total, said.message.as_deref())
            .await;
    }
}
