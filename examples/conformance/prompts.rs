//! Prompts: of text, of a resource, of a picture, and one that asks before it is written.

use crate::{asking, media};
use interlock::{
    Context, Failure, NoArguments, Partial, Prompt,
    model::{ContentBlock, PromptMessage, ResourceContents, Role},
    schemars::{self, JsonSchema},
};
use serde::Deserialize;

pub(crate) fn all() -> Vec<Prompt> {
    vec![
        Prompt::text("test_simple_prompt", "This is a simple prompt for testing.")
            .description("A prompt without arguments"),
        Prompt::new("test_prompt_with_arguments", with_arguments)
            .description("A prompt with two arguments")
            .complete("arg1", words),
        Prompt::new("test_prompt_with_embedded_resource", embedded)
            .description("A prompt that holds a resource"),
        Prompt::new(
            "test_prompt_with_image",
            |_: NoArguments, _: Context| async { picture() },
        )
        .description("A prompt that holds a picture"),
        Prompt::new("test_input_required_result_prompt", asked)
            .description("A prompt that asks before it is written"),
    ]
}

#[derive(Deserialize, JsonSchema)]
struct Two {
    /// First test argument
    arg1: String,
    /// Second test argument
    arg2: String,
}

async fn with_arguments(args: Two, _: Context) -> String {
    let Two { arg1, arg2 } = args;
    format!("Prompt with arguments: arg1='{arg1}', arg2='{arg2}'")
}

/// Words that begin as the client has begun.
async fn words(partial: Partial, _: Context) -> Vec<&'static str> {
    let mut words = vec!["paris", "park", "party", "test", "testValue1"];
    words.retain(|word| word.starts_with(&partial.value));
    words
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Embedded {
    /// URI of the resource to embed
    resource_uri: String,
}

async fn embedded(args: Embedded, _: Context) -> Vec<PromptMessage> {
    let text = "Embedded resource content for testing.";
    let resource = ResourceContents::text(text, args.resource_uri).with_mime_type("text/plain");
    vec![
        said(ContentBlock::resource(resource)),
        said(ContentBlock::text(
            "Please process the embedded resource above.",
        )),
    ]
}

fn picture() -> Vec<PromptMessage> {
    vec![
        said(media::image()),
        said(ContentBlock::text("Please analyze the image above.")),
    ]
}

async fn asked(_: NoArguments, context: Context) -> Result<String, Failure> {
    let about = asking::context(&context).await?;
    Ok(format!("Use this context: {about}"))
}

fn said(content: ContentBlock) -> PromptMessage {
    PromptMessage::new(Role::User, content)
}
