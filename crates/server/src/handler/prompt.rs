//! Prompts.

use super::{Prepare, Prepared, Reply};
use crate::{
    context::Context,
    failure::Failure,
    model::{GetPromptResult, JsonObject, PromptArgument, PromptMessage, PromptModel, Role},
};
use interlock_proto::refusal::shortened;
use interlock_workflow::file::fill_in;
use serde_json::Value;
use std::{fmt, future::Future, sync::Arc};

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
}
