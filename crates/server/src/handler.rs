//! Tools, resources and prompts: what a developer writes.

use crate::{
    context::Context,
    failure::Failure,
    model::{
        CallToolResult, ContentBlock, GetPromptResult, JsonObject, PromptArgument, PromptMessage,
        PromptModel, ReadResourceResult, ResourceContents, ResourceModel, Role, ToolAnnotations,
        ToolModel,
    },
    schema::Schema as Checked,
};
use futures_util::future::BoxFuture;
use interlock_proto::refusal::shortened;
use interlock_workflow::file::fill_in;
use schemars::{JsonSchema, Schema, SchemaGenerator, generate::SchemaSettings};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::{borrow::Cow, fmt, future::Future, sync::Arc, time::Duration};

/// A handler at work.
pub(crate) type Work = BoxFuture<'static, Result<Reply, Failure>>;

/// A handler that has its arguments and waits for its turn.
pub(crate) type Prepared = Box<dyn FnOnce(Context) -> Work + Send>;

/// Reads the arguments, or says what is wrong with them.
type Prepare = Arc<dyn Fn(JsonObject) -> Result<Prepared, String> + Send + Sync>;
type Reader = Arc<dyn Fn(&ResourceModel) -> Prepared + Send + Sync>;

/// What a handler returns when it has done what it was asked.
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum Reply {
    Tool(ToolResult),
    Resource(ReadResourceResult),
    Prompt(GetPromptResult),
}

impl Reply {
    /// Whether it says that the call failed.
    pub(crate) fn is_error(&self) -> bool {
        match self {
            Self::Tool(result) => result.is_error(),
            Self::Resource(_) | Self::Prompt(_) => false,
        }
    }

    /// Takes out what only we may say about a call.
    pub(crate) fn disown(&mut self) {
        let ours = |name: &String| name.starts_with(OURS);
        let meta = match self {
            Self::Tool(ToolResult::Raw(object)) => {
                object.get_mut("_meta").and_then(Value::as_object_mut)
            }
            Self::Tool(ToolResult::Typed(result)) => result.meta.as_mut().map(|meta| &mut meta.0),
            Self::Resource(result) => result.meta.as_mut().map(|meta| &mut meta.0),
            Self::Prompt(result) => result.meta.as_mut().map(|meta| &mut meta.0),
        };
        if let Some(meta) = meta {
            meta.retain(|name, _| !ours(name));
        }
    }
}

/// Under which names results say what the server has to say.
const OURS: &str = "dev.interlock/";

/// What a tool returns: one of the protocol's results, or raw JSON that passes through unread.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum ToolResult {
    /// A result by its type.
    Typed(CallToolResult),
    /// A result object as some other server or program wrote it; unknown members survive.
    Raw(JsonObject),
}

impl ToolResult {
    fn structured(&self) -> Option<&Value> {
        match self {
            Self::Typed(result) => result.structured_content.as_ref(),
            Self::Raw(object) => object.get("structuredContent"),
        }
    }

    pub(crate) fn is_error(&self) -> bool {
        match self {
            Self::Typed(result) => result.is_error == Some(true),
            Self::Raw(object) => object.get("isError") == Some(&Value::Bool(true)),
        }
    }
}

/// What a tool handler may return.
pub trait IntoToolResult {
    /// Makes a result of it.
    ///
    /// # Errors
    ///
    /// If it is a failure, or cannot be represented as JSON.
    fn into_tool_result(self) -> Result<ToolResult, Failure>;
}

impl IntoToolResult for ToolResult {
    fn into_tool_result(self) -> Result<ToolResult, Failure> {
        Ok(self)
    }
}

impl IntoToolResult for CallToolResult {
    fn into_tool_result(self) -> Result<ToolResult, Failure> {
        Ok(ToolResult::Typed(self))
    }
}

impl IntoToolResult for Vec<ContentBlock> {
    fn into_tool_result(self) -> Result<ToolResult, Failure> {
        Ok(ToolResult::Typed(CallToolResult::success(self)))
    }
}

impl IntoToolResult for ContentBlock {
    fn into_tool_result(self) -> Result<ToolResult, Failure> {
        vec![self].into_tool_result()
    }
}

impl IntoToolResult for String {
    fn into_tool_result(self) -> Result<ToolResult, Failure> {
        ContentBlock::text(self).into_tool_result()
    }
}

impl IntoToolResult for &str {
    fn into_tool_result(self) -> Result<ToolResult, Failure> {
        self.to_owned().into_tool_result()
    }
}

impl IntoToolResult for () {
    fn into_tool_result(self) -> Result<ToolResult, Failure> {
        Vec::<ContentBlock>::new().into_tool_result()
    }
}

/// A value that is returned as structured content, and as text for clients that know no such.
#[derive(Clone, Copy, Debug)]
pub struct Json<T>(pub T);

impl<T: Serialize> IntoToolResult for Json<T> {
    fn into_tool_result(self) -> Result<ToolResult, Failure> {
        let value = serde_json::to_value(self.0)?;
        Ok(ToolResult::Typed(CallToolResult::structured(value)))
    }
}

impl<T: IntoToolResult, E: Into<Failure>> IntoToolResult for Result<T, E> {
    fn into_tool_result(self) -> Result<ToolResult, Failure> {
        self.map_err(Into::into)?.into_tool_result()
    }
}

/// For tools that take no arguments.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub struct NoArguments {}

impl JsonSchema for NoArguments {
    fn schema_name() -> Cow<'static, str> {
        "NoArguments".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schemars::json_schema!({ "type": "object", "properties": {} })
    }
}

/// A tool and the code behind it.
///
/// ```
/// use interlock::{Context, Failure, Tool, schemars};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Divide { a: f64, b: f64 }
///
/// let tool = Tool::new("divide", |args: Divide, _: Context| async move {
///     if args.b == 0.0 {
///         return Err(Failure::new("division by zero"));
///     }
///     Ok((args.a / args.b).to_string())
/// })
/// .description("Divides a by b");
/// ```
#[derive(Clone)]
pub struct Tool {
    pub(crate) model: ToolModel,
    pub(crate) timeout: Option<Duration>,
    prepare: Prepare,
}

impl Tool {
    /// A tool by its name and its handler, which must not block its thread.
    pub fn new<A, F, Fut, R>(name: impl Into<Cow<'static, str>>, handler: F) -> Self
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
        F: Fn(A, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = R> + Send + 'static,
        R: IntoToolResult,
    {
        let handler = Arc::new(handler);
        Self::prepared(name, schema_of::<A>(), move |arguments| {
            let arguments = read(arguments)?;
            let handler = Arc::clone(&handler);
            Ok(tool_work(move |context| handler(arguments, context)))
        })
    }

    /// A tool whose handler blocks its thread: it runs off the loop, on a thread of its own.
    ///
    /// No thread can be ended from outside, so past its deadline such a handler goes on unheard.
    /// One that takes long should look at [`Context::is_cancelled`] now and then: it is also true
    /// once the deadline has passed.
    pub fn blocking<A, F, R>(name: impl Into<Cow<'static, str>>, handler: F) -> Self
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
        F: Fn(A, Context) -> R + Send + Sync + 'static,
        R: IntoToolResult,
    {
        let handler = Arc::new(handler);
        Self::prepared(name, schema_of::<A>(), move |arguments| {
            let arguments = read(arguments)?;
            let handler = Arc::clone(&handler);
            Ok(tool_work(move |context| async move {
                let run = move || handler(arguments, context).into_tool_result();
                let mut thread = AbortOnDrop(tokio::task::spawn_blocking(run));
                match (&mut thread.0).await {
                    Ok(result) => result,
                    Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
                }
            }))
        })
    }

    /// A tool whose arguments are described by a JSON Schema and arrive unread.
    pub fn raw<F, Fut, R>(
        name: impl Into<Cow<'static, str>>,
        input_schema: JsonObject,
        handler: F,
    ) -> Self
    where
        F: Fn(JsonObject, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = R> + Send + 'static,
        R: IntoToolResult,
    {
        let handler = Arc::new(handler);
        Self::prepared(name, input_schema, move |arguments| {
            let handler = Arc::clone(&handler);
            Ok(tool_work(move |context| handler(arguments, context)))
        })
    }

    fn prepared(
        name: impl Into<Cow<'static, str>>,
        input_schema: JsonObject,
        prepare: impl Fn(JsonObject) -> Result<Prepared, String> + Send + Sync + 'static,
    ) -> Self {
        Self {
            model: ToolModel::new_with_raw(name, None, Arc::new(input_schema)),
            timeout: None,
            prepare: Arc::new(prepare),
        }
    }

    /// What the tool does, for the model.
    #[must_use]
    pub fn description(mut self, text: impl Into<Cow<'static, str>>) -> Self {
        self.model.description = Some(text.into());
        self
    }

    /// What the tool is called, for people.
    #[must_use]
    pub fn title(mut self, text: impl Into<String>) -> Self {
        self.model.title = Some(text.into());
        self
    }

    /// The JSON Schema of its structured result.
    #[must_use]
    pub fn output_schema(mut self, schema: JsonObject) -> Self {
        self.model.output_schema = Some(Arc::new(schema));
        self
    }

    /// Hints about what the tool does to the world.
    #[must_use]
    pub fn annotations(mut self, annotations: ToolAnnotations) -> Self {
        self.model.annotations = Some(annotations);
        self
    }

    /// How long one call may run, unless the workflow's binding says otherwise.
    #[must_use]
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Takes the arguments, or says what is wrong with them.
    pub(crate) fn prepare(&self, arguments: JsonObject) -> Result<Prepared, String> {
        (self.prepare)(arguments)
    }
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tool").field(&self.model.name).finish()
    }
}

/// A resource and the code behind it.
///
/// ```
/// use interlock::{Context, Resource};
///
/// let rules = Resource::text("note://rules", "Refunds over 100 need a manager.");
/// let clock = Resource::new("clock://now", |_: Context| async { Ok("noon".to_owned()) });
/// ```
#[derive(Clone)]
pub struct Resource {
    pub(crate) model: ResourceModel,
    reader: Reader,
}

impl Resource {
    /// A resource by its URI and what reads its text.
    pub fn new<F, Fut>(uri: impl Into<String>, handler: F) -> Self
    where
        F: Fn(Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<String, Failure>> + Send + 'static,
    {
        let uri = uri.into();
        let handler = Arc::new(handler);
        Self {
            model: ResourceModel::new(uri.clone(), uri),
            reader: Arc::new(move |model| {
                let handler = Arc::clone(&handler);
                let (uri, mime_type) = (model.uri.clone(), model.mime_type.clone());
                Box::new(move |context| {
                    let work = handler(context);
                    Box::pin(async move {
                        let contents = ResourceContents::TextResourceContents {
                            uri,
                            mime_type,
                            text: work.await?,
                            meta: None,
                        };
                        Ok(Reply::Resource(ReadResourceResult::new(vec![contents])))
                    })
                })
            }),
        }
    }

    /// A resource that is always the same text.
    pub fn text(uri: impl Into<String>, text: impl Into<String>) -> Self {
        let text = text.into();
        Self::new(uri, move |_| std::future::ready(Ok(text.clone())))
    }

    /// What it is called; its URI unless said otherwise.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.model.name = name.into();
        self
    }

    /// What it holds.
    #[must_use]
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.model.description = Some(text.into());
        self
    }

    /// The media type of its text.
    #[must_use]
    pub fn mime_type(mut self, mime_type: impl Into<String>) -> Self {
        self.model.mime_type = Some(mime_type.into());
        self
    }

    pub(crate) fn prepare(&self) -> Prepared {
        (self.reader)(&self.model)
    }
}

impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Resource").field(&self.model.uri).finish()
    }
}

/// A prompt and the code behind it.
///
/// ```
/// use interlock::Prompt;
///
/// let sorry = Prompt::text("apologise", "Write a short apology to {{who}}.")
///     .description("Say sorry")
///     .required("who");
/// ```
#[derive(Clone)]
pub struct Prompt {
    pub(crate) model: PromptModel,
    prepare: Prepare,
}

impl Prompt {
    /// A prompt by its name and what writes its messages. The arguments are strings.
    pub fn new<F, Fut>(name: impl Into<String>, handler: F) -> Self
    where
        F: Fn(JsonObject, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<GetPromptResult, Failure>> + Send + 'static,
    {
        let handler = Arc::new(handler);
        Self {
            model: PromptModel::new(name.into(), None::<String>, None),
            prepare: Arc::new(move |arguments| {
                let handler = Arc::clone(&handler);
                Ok(Box::new(move |context| {
                    let work = handler(arguments, context);
                    Box::pin(async move { work.await.map(Reply::Prompt) })
                }))
            }),
        }
    }

    /// A prompt of one user message, in which `{{name}}` stands for that argument.
    pub fn text(name: impl Into<String>, text: impl Into<String>) -> Self {
        let text = text.into();
        Self::new(name, move |arguments, _| {
            let said = fill_in(&text, |name| arguments.get(name).and_then(Value::as_str));
            let message = PromptMessage::new_text(Role::User, said);
            std::future::ready(Ok(GetPromptResult::new(vec![message])))
        })
    }

    /// What it is for.
    #[must_use]
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.model.description = Some(text.into());
        self
    }

    /// An argument that must be given.
    #[must_use]
    pub fn required(self, name: impl Into<String>) -> Self {
        self.argument(PromptArgument::new(name).with_required(true))
    }

    /// An argument that may be given.
    #[must_use]
    pub fn optional(self, name: impl Into<String>) -> Self {
        self.argument(PromptArgument::new(name).with_required(false))
    }

    /// An argument in all its detail.
    #[must_use]
    pub fn argument(mut self, argument: PromptArgument) -> Self {
        self.model.arguments.get_or_insert_default().push(argument);
        self
    }

    /// Takes the arguments, or says what is wrong with them.
    pub(crate) fn prepare(&self, arguments: JsonObject) -> Result<Prepared, String> {
        let declared = self.model.arguments.as_deref().unwrap_or_default();
        let missing = declared.iter().find(|argument| {
            argument.required == Some(true) && !arguments.contains_key(&argument.name)
        });
        if let Some(argument) = missing {
            return Err(format!("the argument `{}` is missing", argument.name));
        }
        if let Some((name, _)) = arguments.iter().find(|(_, value)| !value.is_string()) {
            return Err(format!(
                "the argument `{}` must be a string",
                shortened(name)
            ));
        }
        (self.prepare)(arguments)
    }
}

impl fmt::Debug for Prompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Prompt").field(&self.model.name).finish()
    }
}

/// A thread cannot be ended, but one that has not begun need not begin.
struct AbortOnDrop<T>(tokio::task::JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn tool_work<Fut, R>(handler: impl FnOnce(Context) -> Fut + Send + 'static) -> Prepared
where
    Fut: Future<Output = R> + Send + 'static,
    R: IntoToolResult,
{
    Box::new(move |context| {
        let work = handler(context);
        Box::pin(async move { work.await.into_tool_result().map(Reply::Tool) })
    })
}

/// A handler whose result has to keep what its tool's output schema promises: clients check it.
pub(crate) fn checked(handler: Prepared, schema: Arc<Checked>) -> Prepared {
    Box::new(move |context| {
        let work = handler(context);
        Box::pin(async move {
            let reply = work.await?;
            if let Reply::Tool(result) = &reply
                && !result.is_error()
            {
                let structured = result
                    .structured()
                    .ok_or_else(|| Failure::new("the result has no structured content"))?;
                schema.check(structured).map_err(|mistakes| {
                    Failure::new(format!(
                        "the result does not match the tool's output schema: {mistakes}"
                    ))
                })?;
            }
            Ok(reply)
        })
    })
}

/// A schema can admit what the type does not: `1.0` is an integer there.
fn read<A: DeserializeOwned>(arguments: JsonObject) -> Result<A, String> {
    serde_json::from_value(Value::Object(arguments)).map_err(|error| shortened(&error.to_string()))
}

pub(crate) fn schema_of<A: JsonSchema>() -> JsonObject {
    let mut settings = SchemaSettings::draft2020_12();
    settings.meta_schema = None;
    let mut schema = settings.into_generator().into_root_schema_for::<A>();
    // The name of a Rust type says nothing to a model.
    schema.remove("title");
    // `true` and `false` are schemas, too. They describe no tool's arguments, and what is left
    // here instead is refused when the server is built.
    schema.as_object().cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(value: Value) -> JsonObject {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn a_prompt_knows_its_arguments() {
        let prompt = Prompt::text("p", "{{a}}").required("a").optional("b");
        let check = |value| prompt.prepare(object(value)).map(|_| ());
        assert_eq!(check(json!({"a": "1"})), Ok(()));
        assert!(
            check(json!({"b": "1"}))
                .unwrap_err()
                .contains("`a` is missing")
        );
        assert!(
            check(json!({"a": 1}))
                .unwrap_err()
                .contains("must be a string")
        );
    }

    #[test]
    fn a_typed_tool_has_an_object_schema() {
        let tool = Tool::new("t", |_: NoArguments, _| async {});
        assert_eq!(
            Value::Object((*tool.model.input_schema).clone()),
            json!({"type": "object", "properties": {}})
        );
    }
}
