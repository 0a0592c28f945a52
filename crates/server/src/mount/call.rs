//! One call of a mounted handler.
//!
//! The handler and the listener to its peer run in one future, so that what it says comes in order,
//! and dropping the call ends both.

#![expect(
    deprecated,
    reason = "2026-07-28 deprecates logging; until it is gone, it is served"
)]
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "what rmcp can say may become more"
)]

use crate::{
    context::Context,
    model::failure::Failure,
    mount::{
        Mounted, convert,
        questions::{self, QuestionKeys},
        transport::{HandlerConnection, PeerMessage, PeerMessages},
    },
};
use futures_util::{
    StreamExt,
    future::{BoxFuture, join_all},
    stream::FuturesUnordered,
};
use interlock_workflow::Kind;
use rmcp::{
    RoleServer, Service,
    model::{
        CallToolRequest, ClientNotification, ClientRequest, ClientResult, ErrorData,
        GetPromptRequest, Implementation, InputRequiredResult, InputResponses,
        ProgressNotificationParam, ProgressToken, ReadResourceRequest, RequestId, ServerConfig,
        ServerNotification, ServerRequest, ServerResult,
    },
    service::{NotificationContext, RequestContext},
};
use std::{
    collections::{BTreeMap, HashMap},
    convert::Infallible,
    future::poll_fn,
    pin::pin,
    sync::{LazyLock, atomic::Ordering},
    task::Poll,
};
use tokio::sync::oneshot;

/// How often a handler may ask for input before it answers.
const MOST_ROUNDS: usize = 10;

/// A person has done at a URL what they were asked to do. rmcp has no type for it.
const VISITED: &str = "notifications/elicitation/complete";

/// Of what kind a request is to the handler.
const fn kind(request: &ClientRequest) -> Kind {
    match request {
        ClientRequest::CallToolRequest(_) => Kind::Tool,
        ClientRequest::ReadResourceRequest(_) => Kind::Resource,
        // A prompt or a completion.
        _ => Kind::Prompt,
    }
}

/// The input that a handler asked for by its last result.
#[derive(Debug, Default)]
struct CollectedInput {
    answers: Option<InputResponses>,
    state: Option<String>,
}

impl CollectedInput {
    /// The request, with this input.
    fn added_to(self, request: &ClientRequest) -> ClientRequest {
        let mut request = request.clone();
        let (answers, state) = match &mut request {
            ClientRequest::CallToolRequest(CallToolRequest { params, .. }) => {
                (&mut params.input_responses, &mut params.request_state)
            }
            ClientRequest::ReadResourceRequest(ReadResourceRequest { params, .. }) => {
                (&mut params.input_responses, &mut params.request_state)
            }
            ClientRequest::GetPromptRequest(GetPromptRequest { params, .. }) => {
                (&mut params.input_responses, &mut params.request_state)
            }
            // Completions ask for nothing.
            _ => return request,
        };
        (*answers, *state) = (self.answers, self.state);
        request
    }
}

/// The service of a call's connection, which takes no requests.
struct NoService;

impl Service<RoleServer> for NoService {
    async fn handle_request(
        &self,
        _: ClientRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<ServerResult, ErrorData> {
        Err(ErrorData::invalid_request(
            "this connection takes no requests",
            None,
        ))
    }

    async fn handle_notification(
        &self,
        _: ClientNotification,
        _: NotificationContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    /// rmcp asks for it at each connection, and makes no use of it.
    fn get_info(&self) -> ServerConfig {
        static INFO: LazyLock<ServerConfig> = LazyLock::new(|| {
            let nameless = Implementation::new("", "");
            ServerConfig::default().with_server_info(nameless)
        });
        INFO.clone()
    }
}

/// What all rounds of a call share.
struct Call<'a> {
    mounted: &'a Mounted,
    context: &'a Context,
    connection: &'a HandlerConnection<NoService>,
    id: RequestId,
    keys: QuestionKeys,
}

/// Calls the handler.
pub(super) async fn run(
    mounted: &Mounted,
    wanted: ClientRequest,
    context: Context,
) -> Result<ServerResult, Failure> {
    let (connection, messages) =
        HandlerConnection::open(NoService, convert::introduction(&context));
    let call = Call {
        mounted,
        context: &context,
        connection: &connection,
        id: RequestId::Number(mounted.next_call.fetch_add(1, Ordering::Relaxed)),
        keys: QuestionKeys::default(),
    };
    let request = call.request();
    let stop = request.ct.clone();
    // What the handler has spawned for this call sees its end.
    let _end = stop.clone().drop_guard();
    let mut work = pin!(call.run_rounds(&wanted, request));
    let first = poll_fn(|task| Poll::Ready(work.as_mut().poll(task))).await;
    let result = match first {
        Poll::Ready(result) => result,
        Poll::Pending => {
            // It has to wait, so it may speak, and be told to stop. The box keeps the future of
            // calls that need not wait small.
            let stopping = async {
                context.cancelled().await;
                stop.cancel();
                std::future::pending().await
            };
            Box::pin(async {
                tokio::select! {
                    biased;
                    never = PeerListener::new(&call).run(messages) => match never {},
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
        convert::failure(kind(&wanted), error, context.version())
    })
}

impl Call<'_> {
    /// What the handler is told about the request.
    fn request(&self) -> RequestContext<RoleServer> {
        let mut request = RequestContext::new(self.id.clone(), self.connection.peer().clone());
        let spoken = self.mounted.handler.supported_protocol_versions();
        request.meta = convert::meta(self.context, &spoken);
        request.extensions.insert(self.context.clone());
        request
    }

    /// Calls the handler, and gives it what it asks for by its results, until it answers.
    async fn run_rounds(
        &self,
        wanted: &ClientRequest,
        request: RequestContext<RoleServer>,
    ) -> Result<ServerResult, ErrorData> {
        let handler = &self.mounted.handler;
        let stop = request.ct.clone();
        let mut next = (CollectedInput::default(), request);
        for _ in 0..MOST_ROUNDS {
            let (input, request) = next;
            let result = handler
                .handle_request(input.added_to(wanted), request)
                .await?;
            let ServerResult::InputRequiredResult(asks) = result else {
                return Ok(result);
            };
            let input = Box::pin(collect_input(self.context, &self.keys, asks)).await?;
            let mut request = self.request();
            request.ct = stop.clone();
            next = (input, request);
        }
        let message = format!("the handler asked for input {MOST_ROUNDS} times and did not answer");
        Err(ErrorData::internal_error(message, None))
    }
}

/// Asks the client everything that a result asks for, at once.
async fn collect_input(
    context: &Context,
    keys: &QuestionKeys,
    asks: InputRequiredResult,
) -> Result<CollectedInput, ErrorData> {
    let asks_for = asks.input_requests.unwrap_or_default();
    let questions = asks_for.into_iter().map(|(name, request)| {
        let key = keys.named(&name);
        async move {
            let answer = questions::fulfil(context, &key, request).await;
            (name, answer)
        }
    });
    let mut answers = BTreeMap::new();
    for (name, answer) in join_all(questions).await {
        answers.insert(name, answer.map_err(convert::unanswered)?);
    }
    Ok(CollectedInput {
        answers: Some(answers).filter(|answers| !answers.is_empty()),
        state: asks.request_state,
    })
}

type Answered = (RequestId, Option<Result<ClientResult, ErrorData>>);

/// Listens to a handler's peer.
struct PeerListener<'a> {
    call: &'a Call<'a>,
    progress: Option<ProgressToken>,
    questions: FuturesUnordered<BoxFuture<'a, Answered>>,
    /// The open requests of the handler. Dropping a sender withdraws the question.
    pending: HashMap<RequestId, oneshot::Sender<Infallible>>,
}

impl<'a> PeerListener<'a> {
    fn new(call: &'a Call<'a>) -> Self {
        Self {
            call,
            progress: convert::progress(call.context),
            questions: FuturesUnordered::new(),
            pending: HashMap::new(),
        }
    }

    /// Handles messages in order.
    async fn run(mut self, mut messages: PeerMessages) -> Infallible {
        loop {
            tokio::select! {
                biased;
                Some(answered) = self.questions.next() => self.answer(answered),
                Some(message) = messages.recv() => match *message {
                    PeerMessage::Request(id, request) => self.ask(id, request),
                    PeerMessage::Notification(notification, done) => {
                        self.on_notification(notification).await;
                        let _ = done.send(());
                    }
                },
                else => std::future::pending().await,
            }
        }
    }

    fn answer(&mut self, (id, answer): Answered) {
        self.pending.remove(&id);
        if let Some(answer) = answer {
            self.call.connection.answer(id, answer);
        }
    }

    fn ask(&mut self, id: RequestId, request: ServerRequest) {
        let (pending, withdrawn) = oneshot::channel();
        self.pending.insert(id.clone(), pending);
        let key = self.call.keys.next();
        let context = self.call.context;
        self.questions.push(Box::pin(async move {
            let answer = tokio::select! {
                answer = questions::ask(context, &key, request) => Some(answer),
                _ = withdrawn => None,
            };
            (id, answer)
        }));
    }

    async fn on_notification(&mut self, notification: ServerNotification) {
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
                    self.pending.remove(&id);
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
            other => self.call.mounted.on_notification(other),
        }
    }

    async fn progress(&mut self, said: ProgressNotificationParam) {
        if self.progress.as_ref() != Some(&said.progress_token) {
            tracing::debug!("progress of another request is dropped");
            return;
        }
        let context = self.call.context;
        context
            .progress(said.progress, said.total, said.message.as_deref())
            .await;
    }
}
