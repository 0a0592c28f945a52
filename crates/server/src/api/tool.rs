//! Tools: a model, a schema of the arguments, and a handler.

use crate::{
    api::{HandlerCall, IntoToolResult, Places, Reply},
    context::Context,
    model::{JsonObject, ToolAnnotations, ToolModel, failure::Failure},
    schema::{Schema as Checked, of_type},
};
use interlock_proto::refusal::shortened;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;
use std::{borrow::Cow, fmt, future::Future, num::NonZeroUsize, sync::Arc, time::Duration};
use tokio_util::task::AbortOnDropHandle;

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

/// The arguments of a call: an object that keeps the schema.
pub(crate) enum Arguments<'a> {
    /// As the client wrote it.
    Written(&'a str),
    Read(JsonObject),
}

impl Arguments<'_> {
    /// It can fail though the schema accepts them: to a schema, `1.0` is an integer.
    fn read<A: DeserializeOwned>(self) -> Result<A, String> {
        let read = match self {
            Self::Written(text) => serde_json::from_str(text),
            Self::Read(object) => serde_json::from_value(Value::Object(object)),
        };
        read.map_err(|error| shortened(&error.to_string()))
    }

    /// The object itself.
    fn object(self) -> Result<JsonObject, String> {
        match self {
            Self::Written(_) => self.read(),
            Self::Read(object) => Ok(object),
        }
    }
}

/// Reads the arguments, or says what is wrong with them.
type Prepare = dyn Fn(Arguments<'_>) -> Result<HandlerCall, String> + Send + Sync;

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
/// .description("Divides a by b")
/// .title("Division");
/// ```
///
/// What it returns can be described as well. A result is then checked before it goes out, since
/// clients check it, too.
///
/// ```
/// use interlock::{Context, Json, NoArguments, Tool, schemars};
///
/// #[derive(serde::Serialize, schemars::JsonSchema)]
/// struct Weather { celsius: f64 }
///
/// let tool = Tool::new("weather", |_: NoArguments, _: Context| async {
///     Json(Weather { celsius: 21.5 })
/// })
/// .output::<Weather>();
/// ```
#[derive(Clone)]
pub struct Tool {
    pub(crate) model: ToolModel,
    pub(crate) timeout: Option<Duration>,
    /// A call has one of them while it runs.
    pub(crate) places: Option<Places>,
    prepare: Arc<Prepare>,
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
        let schema = of_type::input::<A>();
        Self::with(name, schema, |arguments| arguments.read(), handler)
    }

    /// A tool whose handler blocks its thread: it runs off the loop, on a thread of its own.
    ///
    /// A thread cannot be aborted, so such a handler runs on past its deadline, and its result is
    /// dropped. It also runs on when the server has ended: a runtime waits for it, unless it is shut
    /// down by `Runtime::shutdown_background`. A long handler should check
    /// [`Context::is_cancelled`] now and then, which is also true once the deadline has passed.
    pub fn blocking<A, F, R>(name: impl Into<Cow<'static, str>>, handler: F) -> Self
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
        F: Fn(A, Context) -> R + Send + Sync + 'static,
        R: IntoToolResult,
    {
        let handler = Arc::new(handler);
        Self::new(name, move |arguments: A, context| {
            let handler = Arc::clone(&handler);
            async move {
                let run = move || handler(arguments, context).into_tool_result();
                // Dropping the handle takes back a handler that no thread has begun.
                match AbortOnDropHandle::new(tokio::task::spawn_blocking(run)).await {
                    Ok(result) => result,
                    Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
                }
            }
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
        Self::with(name, input_schema, |arguments| arguments.object(), handler)
    }

    fn with<A, F, Fut, R>(
        name: impl Into<Cow<'static, str>>,
        input_schema: JsonObject,
        read: fn(Arguments<'_>) -> Result<A, String>,
        handler: F,
    ) -> Self
    where
        A: Send + 'static,
        F: Fn(A, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = R> + Send + 'static,
        R: IntoToolResult,
    {
        let handler = Arc::new(handler);
        Self {
            model: ToolModel::new_with_raw(name, None, Arc::new(input_schema)),
            timeout: None,
            places: None,
            prepare: Arc::new(move |arguments| {
                let arguments = read(arguments)?;
                let handler = Arc::clone(&handler);
                Ok(HandlerCall::new(move |context| {
                    let work = handler(arguments, context);
                    async move { work.await.into_tool_result().map(Reply::from) }
                }))
            }),
        }
    }

    /// What the tool does, for the model.
    #[must_use]
    pub fn description(mut self, text: impl Into<Cow<'static, str>>) -> Self {
        self.model.description = Some(text.into());
        self
    }

    shared_setters!();

    /// The JSON Schema of its structured result, as a type has it.
    ///
    /// Before 2026-07-28 structured results were objects, so clients of earlier versions are not
    /// told of any other.
    #[must_use]
    pub fn output<T: JsonSchema>(self) -> Self {
        self.output_schema(of_type::output::<T>())
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

    /// How many calls of it may run at the same time, of all clients together. Others wait.
    #[must_use]
    pub fn concurrency(self, calls: NonZeroUsize) -> Self {
        self.places(&Places::new(calls))
    }

    /// A call of it runs while it has one of these places. Others wait in line, and are refused
    /// (1069) if they wait too long.
    #[must_use]
    pub fn places(mut self, places: &Places) -> Self {
        self.places = Some(places.clone());
        self
    }

    /// Takes the arguments, or says what is wrong with them.
    pub(crate) fn prepare(&self, arguments: Arguments<'_>) -> Result<HandlerCall, String> {
        (self.prepare)(arguments)
    }
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tool").field(&self.model.name).finish()
    }
}

/// Checks a handler's result against its tool's output schema, as clients do.
pub(crate) fn with_checked_output(handler: HandlerCall, schema: Arc<Checked>) -> HandlerCall {
    HandlerCall::new(move |context| async move {
        let reply = handler.run(context).await?;
        if !reply.is_error() {
            let structured = reply
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Serialize;
    use serde_json::json;

    #[test]
    fn a_typed_tool_has_an_object_schema() {
        let tool = Tool::new("t", |_: NoArguments, _| async {});
        assert_eq!(
            Value::Object((*tool.model.input_schema).clone()),
            json!({"type": "object", "properties": {}})
        );
    }

    /// What a type is written as can differ from what it is read from.
    #[test]
    fn an_output_schema_describes_what_is_written() {
        #[derive(Serialize, Deserialize, JsonSchema)]
        struct Out {
            #[serde(default)]
            count: u32,
        }
        let tool = Tool::new("t", |_: NoArguments, _| async {}).output::<Out>();
        let output = tool.model.output_schema.unwrap();
        assert_eq!(output["required"], json!(["count"]), "{output:?}");
        let tool = Tool::new("t", |_: Out, _| async {});
        assert_eq!(tool.model.input_schema.get("required"), None);
    }
}
