//! A handler as others write it for rmcp, with rmcp's macros.

use interlock::schemars::{self, JsonSchema};
use rmcp::{
    ErrorData, Json, Peer, RoleServer, ServerHandler, ServiceError,
    handler::server::{
        router::{
            prompt::PromptRouter,
            tool::{ToolRoute, ToolRouter},
        },
        tool::{InputResponses, RequestState, ToolCallContext},
        wrapper::Parameters,
    },
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, CompleteRequestParams,
        CompleteResult, CompletionInfo, ContentBlock, CreateMessageRequestParams, ElicitRequest,
        ElicitRequestParams, ErrorCode, GetPromptResult, InputRequest, InputRequests,
        InputRequiredResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
        LoggingLevel, LoggingMessageNotificationParam, MetaObject, PaginatedRequestParams,
        ProgressNotificationParam, PromptMessage, ReadResourceRequestParams, ReadResourceResponse,
        ReadResourceResult, Resource, ResourceContents, ResourceTemplate,
        ResourceUpdatedNotificationParam, Role, SamplingMessage, ServerCapabilities, ServerConfig,
        Tool, ToolAnnotations,
    },
    prompt, prompt_handler, prompt_router,
    service::{NotificationContext, PeerRequestOptions, RequestContext},
    tool, tool_router,
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::{Arc, Mutex};
use tokio::sync::{RwLock, mpsc};

#[derive(Deserialize, JsonSchema)]
struct Numbers {
    /// The first of them.
    a: i64,
    b: i64,
}

#[derive(Deserialize, Serialize, JsonSchema)]
struct Sum {
    sum: i64,
}

#[derive(Deserialize, JsonSchema)]
struct Which {
    which: String,
}

#[derive(Deserialize, Serialize, JsonSchema)]
struct Name {
    name: String,
}

rmcp::elicit_safe!(Name);

/// What it tells the test.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Started,
    Stopped,
    /// What became of a message that was sent after its call.
    Late(bool),
}

/// A shop, as somebody wrote it.
#[derive(Clone)]
pub(crate) struct Shop {
    tools: Arc<RwLock<ToolRouter<Self>>>,
    prompts: PromptRouter<Self>,
    events: mpsc::UnboundedSender<Event>,
    kept: Arc<Mutex<Option<Peer<RoleServer>>>>,
}

impl Shop {
    pub(crate) fn open() -> (Self, mpsc::UnboundedReceiver<Event>) {
        let (events, heard) = mpsc::unbounded_channel();
        let shop = Self {
            tools: Arc::new(RwLock::new(Self::tool_router())),
            prompts: Self::prompt_router(),
            events,
            kept: Arc::default(),
        };
        (shop, heard)
    }

    /// The peer of the client that initialized it.
    pub(crate) fn kept(&self) -> Option<Peer<RoleServer>> {
        self.kept.lock().unwrap().clone()
    }
}

#[tool_router]
impl Shop {
    #[tool(
        description = "Adds two numbers",
        annotations(title = "Add", read_only_hint = true)
    )]
    async fn add(&self, Parameters(Numbers { a, b }): Parameters<Numbers>) -> Json<Sum> {
        Json(Sum { sum: a + b })
    }

    #[tool(description = "Fails in one way or another")]
    async fn fail(
        &self,
        Parameters(Which { which }): Parameters<Which>,
    ) -> Result<CallToolResult, ErrorData> {
        match which.as_str() {
            "result" => Ok(CallToolResult::error(vec![ContentBlock::text("sold out")])),
            "internal" => Err(ErrorData::internal_error("the till is stuck", None)),
            "own" => Err(ErrorData::new(
                ErrorCode(-31_000),
                "odd",
                Some(json!({"at": 3})),
            )),
            "params" => Err(ErrorData::invalid_params(
                "no such thing",
                Some(json!({"which": 1})),
            )),
            "method" => Err(ErrorData::new(
                ErrorCode::METHOD_NOT_FOUND,
                "not here",
                None,
            )),
            _ => panic!("the shop burns down"),
        }
    }

    #[tool(description = "Counts to three, and talks about it")]
    async fn count(&self, context: RequestContext<RoleServer>) -> Result<String, ErrorData> {
        let token = context.meta.get_progress_token();
        for step in 1..=3 {
            if let Some(token) = token.clone() {
                let progress = ProgressNotificationParam::new(token, f64::from(step))
                    .with_total(3.0)
                    .with_message(format!("step {step}"));
                context.peer.notify_progress(progress).await.unwrap();
            }
            let said = LoggingMessageNotificationParam::new(LoggingLevel::Warning, json!(step))
                .with_logger("till");
            context.peer.notify_logging_message(said).await.unwrap();
        }
        Ok("counted".to_owned())
    }

    #[tool(description = "Asks for a name, twice")]
    async fn names(&self, peer: Peer<RoleServer>) -> Result<String, ErrorData> {
        let ask = async |message: &str| {
            let answer = peer.elicit::<Name>(message).await;
            match answer {
                Ok(Some(Name { name })) => name,
                Ok(None) => "nobody".to_owned(),
                Err(error) => error.to_string(),
            }
        };
        let first = ask("Who are you?").await;
        let second = ask(&format!("{first}, please decline")).await;
        Ok(format!("{first}; {second}"))
    }

    #[tool(description = "Asks the client's model and its roots")]
    async fn consult(&self, peer: Peer<RoleServer>) -> Result<String, ErrorData> {
        let failed = |error| {
            if let ServiceError::McpError(error) = error {
                return error;
            }
            ErrorData::internal_error(error.to_string(), None)
        };
        let messages = vec![SamplingMessage::user_text("2 + 2?")];
        let params = CreateMessageRequestParams::new(messages, 16);
        let said = peer.create_message(params).await.map_err(failed)?;
        let roots = peer.list_roots().await.map_err(failed)?;
        let text = serde_json::to_value(&said.message.content).unwrap()["text"].to_string();
        Ok(format!("{} {text} {}", said.model, roots.roots[0].uri))
    }

    #[tool(description = "Asks, and does not wait for the answer")]
    async fn impatient(&self, peer: Peer<RoleServer>) -> Result<String, ErrorData> {
        let request = ElicitRequest::new(name_form("Please ignore me."));
        let options = PeerRequestOptions::no_options();
        let handle = peer
            .send_cancellable_request(request.into(), options)
            .await
            .unwrap();
        let _ = self.events.send(Event::Started);
        handle.cancel(Some("too slow".to_owned())).await.unwrap();
        Ok("gave up".to_owned())
    }

    #[tool(description = "Asks by its result, for two things and then for a third")]
    async fn order(
        &self,
        RequestState(state): RequestState,
        InputResponses(answers): InputResponses,
    ) -> Result<CallToolResponse, ErrorData> {
        let required = |names: &[&str], state: &str| {
            let ask = |name: &&str| {
                let form = name_form(&format!("What is the {name}?"));
                let request = InputRequest::Elicitation(ElicitRequest::new(form));
                ((*name).to_owned(), request)
            };
            let requests: InputRequests = names.iter().map(ask).collect();
            InputRequiredResult::new(Some(requests), Some(state.to_owned()))
        };
        let answers = answers.unwrap_or_default();
        let told = |name: &str| answers[name]["content"]["name"].to_string();
        Ok(match state.as_deref() {
            None => required(&["colour", "size"], "first").into(),
            Some("first") => {
                let both = format!("{} {}", told("colour"), told("size"));
                required(&["size"], &both).into()
            }
            Some(both) => {
                let text = format!("{both} {}", told("size"));
                CallToolResult::success(vec![ContentBlock::text(text)]).into()
            }
        })
    }

    #[tool(description = "Waits until it is taken back")]
    async fn hold(&self, context: RequestContext<RoleServer>) -> Result<String, ErrorData> {
        let _ = self.events.send(Event::Started);
        context.ct.cancelled().await;
        let _ = self.events.send(Event::Stopped);
        Err(ErrorData::internal_error("taken back", None))
    }

    #[tool(description = "Never ends, whatever happens")]
    async fn hang(&self) -> String {
        struct Dropped(mpsc::UnboundedSender<Event>);
        impl Drop for Dropped {
            fn drop(&mut self) {
                let _ = self.0.send(Event::Stopped);
            }
        }
        let _dropped = Dropped(self.events.clone());
        let _ = self.events.send(Event::Started);
        std::future::pending().await
    }

    #[tool(description = "Changes a resource")]
    async fn touch(&self, peer: Peer<RoleServer>) -> String {
        let said = ResourceUpdatedNotificationParam::new("shop://hours");
        peer.notify_resource_updated(said).await.unwrap();
        "touched".to_owned()
    }

    #[tool(description = "Gets one more tool")]
    async fn grow(&self, peer: Peer<RoleServer>) -> String {
        let schema = json!({"type": "object"}).as_object().unwrap().clone();
        let route = ToolRoute::new_dyn(Tool::new("extra", "New", Arc::new(schema)), |_| {
            Box::pin(async { Ok(CallToolResult::success(vec![ContentBlock::text("new")]).into()) })
        });
        // A handler may well hold its lock while it tells.
        let mut tools = self.tools.write().await;
        tools.add_route(route);
        peer.notify_tool_list_changed().await.unwrap();
        drop(tools);
        "grown".to_owned()
    }

    #[tool(description = "Speaks after its call has ended")]
    async fn mutter(&self, context: RequestContext<RoleServer>) -> String {
        let events = self.events.clone();
        tokio::spawn(async move {
            context.ct.cancelled().await;
            let said = LoggingMessageNotificationParam::new(LoggingLevel::Error, json!("late"));
            let sent = context.peer.notify_logging_message(said).await;
            let _ = events.send(Event::Late(sent.is_ok()));
        });
        "done".to_owned()
    }

    #[tool(description = "Looks at what served it")]
    async fn look(&self, context: RequestContext<RoleServer>) -> String {
        let ours = context.extensions.get::<interlock::Context>();
        let state = ours.and_then(|ours| ours.state().map(str::to_owned));
        let client = context.client_info().map(|client| client.name);
        format!(
            "{:?} {state:?} {client:?}",
            context.protocol_version().map(|v| v.to_string())
        )
    }
}

fn name_form(message: &str) -> ElicitRequestParams {
    let schema =
        json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
    ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: message.to_owned(),
        requested_schema: serde_json::from_value(schema).unwrap(),
    }
}

#[prompt_router]
impl Shop {
    #[prompt(name = "praise", description = "Praise somebody")]
    async fn praise(
        &self,
        Parameters(Name { name }): Parameters<Name>,
    ) -> Result<GetPromptResult, ErrorData> {
        if name == "Eve" {
            let data = Some(json!({"name": name}));
            return Err(ErrorData::new(ErrorCode(-31_001), "not her", data));
        }
        let said = PromptMessage::new_text(Role::User, format!("Praise {name}."));
        Ok(GetPromptResult::new(vec![said]).with_description("Praise"))
    }
}

#[prompt_handler(router = self.prompts)]
impl ServerHandler for Shop {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_prompts()
            .enable_resources()
            .enable_completions()
            .enable_logging()
            .build();
        ServerConfig::new(capabilities).with_instructions("Be polite in the shop.")
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        *self.kept.lock().unwrap() = Some(context.peer);
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        // The route is taken out of the lock, so that a tool can change the routes.
        let router = self.tools.read().await.clone();
        router
            .call(ToolCallContext::new(self, request, context))
            .await
    }

    /// Two tools on a page.
    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let from = request.and_then(|page| page.cursor);
        let from: usize = from.map_or(0, |cursor| cursor.parse().unwrap());
        let mut tools = self.tools.read().await.list_all();
        for tool in &mut tools {
            if tool.name == "add" {
                tool.meta = Some(MetaObject(
                    json!({"shop.example/aisle": 7})
                        .as_object()
                        .unwrap()
                        .clone(),
                ));
                let annotations = tool.annotations.take().unwrap_or_default();
                tool.annotations = Some(ToolAnnotations::open_world(annotations, false));
            }
        }
        let more = tools.len() > from + 2;
        let mut result =
            ListToolsResult::with_all_items(tools.into_iter().skip(from).take(2).collect());
        result.next_cursor = more.then(|| (from + 2).to_string());
        Ok(result)
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let hours = Resource::new("shop://hours", "hours")
            .with_description("When it is open")
            .with_mime_type("text/plain");
        Ok(ListResourcesResult::with_all_items(vec![
            hours,
            Resource::new("shop://closed", "closed"),
        ]))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let shelf = ResourceTemplate::new("shop://shelf/{number}", "shelf")
            .with_description("What is on a shelf");
        Ok(ListResourceTemplatesResult::with_all_items(vec![shelf]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let text = match request.uri.as_str() {
            "shop://hours" => "nine to five".to_owned(),
            uri => match uri.strip_prefix("shop://shelf/") {
                Some("9") | None => {
                    let data = Some(json!({"uri": uri}));
                    return Err(ErrorData::resource_not_found("nothing there", data));
                }
                Some(number) => format!("shelf {number}"),
            },
        };
        let contents = ResourceContents::text(text, request.uri);
        Ok(ReadResourceResult::new(vec![contents]).into())
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let known = request.context.and_then(|context| context.arguments);
        let known = known.map_or(0, |arguments| arguments.len());
        let of = serde_json::to_value(&request.r#ref).unwrap();
        let of = of["name"]
            .as_str()
            .or(of["uri"].as_str())
            .unwrap()
            .to_owned();
        let argument = request.argument;
        let value = format!("{of} {} {} {known}", argument.name, argument.value);
        let info = CompletionInfo::with_pagination(vec![value], Some(7), true).unwrap();
        Ok(CompleteResult::new(info))
    }
}
