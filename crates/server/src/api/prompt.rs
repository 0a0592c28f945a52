//! Prompts: a model and a handler that writes messages.

use crate::{
    api::{
        HandlerCall, IntoCompletion, Partial, Reply, completion::Completers, text_args::read_texts,
    },
    context::Context,
    model::{
        GetPromptResult, JsonObject, PromptArgument, PromptMessage, PromptModel, Role,
        failure::Failure,
    },
    schema::of_type,
};
use interlock_proto::refusal::shortened;
use interlock_workflow::file::fill_in;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::{fmt, future::Future, sync::Arc};

/// Reads the arguments, or says what is wrong with them.
type Prepare = dyn Fn(JsonObject) -> Result<HandlerCall, String> + Send + Sync;

/// What a prompt handler may return.
pub trait IntoPrompt {
    /// Makes a result of it.
    ///
    /// # Errors
    ///
    /// If it is a failure.
    fn into_prompt(self) -> Result<GetPromptResult, Failure>;
}

impl IntoPrompt for GetPromptResult {
    fn into_prompt(self) -> Result<GetPromptResult, Failure> {
        Ok(self)
    }
}

impl IntoPrompt for Vec<PromptMessage> {
    fn into_prompt(self) -> Result<GetPromptResult, Failure> {
        Ok(GetPromptResult::new(self))
    }
}

impl IntoPrompt for PromptMessage {
    fn into_prompt(self) -> Result<GetPromptResult, Failure> {
        vec![self].into_prompt()
    }
}

/// One message of the user's.
impl IntoPrompt for String {
    fn into_prompt(self) -> Result<GetPromptResult, Failure> {
        PromptMessage::new_text(Role::User, self).into_prompt()
    }
}

/// One message of the user's.
impl IntoPrompt for &str {
    fn into_prompt(self) -> Result<GetPromptResult, Failure> {
        self.to_owned().into_prompt()
    }
}

impl<T: IntoPrompt, E: Into<Failure>> IntoPrompt for Result<T, E> {
    fn into_prompt(self) -> Result<GetPromptResult, Failure> {
        self.map_err(Into::into)?.into_prompt()
    }
}

/// A prompt and the code behind it.
///
/// ```
/// use interlock::{Context, Partial, Prompt, schemars};
///
/// let sorry = Prompt::text("apologise", "Write a short apology to {{who}}.")
///     .description("Say sorry")
///     .required("who");
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Review {
///     /// In which language the code is written.
///     language: String,
///     /// How many remarks there should be.
///     remarks: Option<u32>,
/// }
///
/// let review = Prompt::new("review", |review: Review, _: Context| async move {
///     format!("Review this {} code, in {} remarks.", review.language, review.remarks.unwrap_or(3))
/// })
/// .complete("language", |partial: Partial, _: Context| async move {
///     let mut known = vec!["python", "rust"];
///     known.retain(|language| language.starts_with(&partial.value));
///     known
/// });
/// ```
#[derive(Clone)]
pub struct Prompt {
    pub(crate) model: PromptModel,
    pub(crate) completers: Completers,
    prepare: Arc<Prepare>,
}

impl Prompt {
    /// A prompt whose arguments are read into a type. Texts, numbers and truth values can be read,
    /// and what clients are told about them comes from the type, too.
    pub fn new<A, F, Fut, R>(name: impl Into<String>, handler: F) -> Self
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
        F: Fn(A, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = R> + Send + 'static,
        R: IntoPrompt,
    {
        let arguments = arguments_of(&of_type::input::<A>());
        let prompt = Self::with(name, read_texts, handler);
        arguments.into_iter().fold(prompt, Self::argument)
    }

    /// A prompt whose arguments arrive unread: texts by name. It says which it takes by
    /// [`required`](Self::required), [`optional`](Self::optional) or [`argument`](Self::argument).
    pub fn raw<F, Fut, R>(name: impl Into<String>, handler: F) -> Self
    where
        F: Fn(JsonObject, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = R> + Send + 'static,
        R: IntoPrompt,
    {
        Self::with(name, Ok, handler)
    }

    /// A prompt of one user message, in which `{{name}}` stands for that argument.
    pub fn text(name: impl Into<String>, text: impl Into<String>) -> Self {
        let text = text.into();
        Self::raw(name, move |arguments, _| {
            let said = fill_in(&text, |name| arguments.get(name).and_then(Value::as_str));
            std::future::ready(said.into_prompt())
        })
    }

    fn with<A, F, Fut, R>(
        name: impl Into<String>,
        read: fn(JsonObject) -> Result<A, String>,
        handler: F,
    ) -> Self
    where
        A: Send + 'static,
        F: Fn(A, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = R> + Send + 'static,
        R: IntoPrompt,
    {
        let handler = Arc::new(handler);
        Self {
            model: PromptModel::new(name.into(), None::<String>, None),
            completers: Completers::default(),
            prepare: Arc::new(move |arguments| {
                let arguments = read(arguments)?;
                let handler = Arc::clone(&handler);
                Ok(HandlerCall::new(move |context| {
                    let work = handler(arguments, context);
                    async move {
                        let prompt = work.await.into_prompt()?;
                        Ok(Reply::Prompt(Box::new(prompt)))
                    }
                }))
            }),
        }
    }

    /// What it is for.
    #[must_use]
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.model.description = Some(text.into());
        self
    }

    shared_setters!();

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

    /// Completes an argument for a person who fills it in. It is not gated and moves no workflow.
    #[must_use]
    pub fn complete<F, Fut, R>(mut self, argument: impl Into<String>, handler: F) -> Self
    where
        F: Fn(Partial, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = R> + Send + 'static,
        R: IntoCompletion,
    {
        self.completers.add(argument.into(), handler);
        self
    }

    /// Whether it has an argument of that name.
    pub(crate) fn takes(&self, name: &str) -> bool {
        let declared = self.model.arguments.as_deref().unwrap_or_default();
        declared.iter().any(|argument| argument.name == name)
    }

    /// Takes the arguments, or says what is wrong with them.
    pub(crate) fn prepare(&self, arguments: JsonObject) -> Result<HandlerCall, String> {
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

/// The arguments that a schema describes.
fn arguments_of(schema: &JsonObject) -> Vec<PromptArgument> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let required = schema.get("required").and_then(Value::as_array);
    let is_required = |name: &String| {
        let mut required = required.into_iter().flatten();
        required.any(|required| required == name)
    };
    let text = |property: &Value, member| property.get(member)?.as_str().map(str::to_owned);
    let arguments = properties.into_iter().flatten().map(|(name, property)| {
        let mut argument = PromptArgument::new(name).with_required(is_required(name));
        argument.title = text(property, "title");
        argument.description = text(property, "description");
        argument
    });
    arguments.collect()
}
