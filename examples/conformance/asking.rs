//! Tools that ask their client before they answer.
//!
//! A client of 2025 is asked while its call waits. One of 2026-07-28 is told to come back with the
//! answers, and the handler then runs again from its start. The code is the same for both.

#![expect(
    deprecated,
    reason = "2026-07-28 deprecates sampling and roots; until they are gone, they are served"
)]

use crate::object;
use interlock::{
    Ability, AskError, Context, Failure, Form, NoArguments, Tool, Visit,
    model::{
        CreateMessageRequestParams, CreateMessageResult, ElicitResult, ElicitationAction, Root,
        SamplingMessage,
    },
    schemars::{self, JsonSchema},
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

pub(crate) fn all() -> Vec<Tool> {
    vec![
        Tool::new("test_sampling", sampling).description("Asks the client's model"),
        Tool::new("test_elicitation", elicitation).description("Asks for a name and an address"),
        Tool::new("test_elicitation_sep1034_defaults", defaults)
            .description("Asks with answers that are filled in already"),
        Tool::new("test_elicitation_sep1330_enums", choices)
            .description("Asks to choose, in five ways"),
        Tool::new("test_elicitation_url", link).description("Asks to visit a link"),
        Tool::new("test_list_roots", roots).description("Asks for the client's roots"),
        Tool::new("test_streaming_elicitation", streaming)
            .description("Tells how far it has come, and asks"),
        Tool::new("test_input_required_result_elicitation", greeting)
            .description("Asks for a name"),
        Tool::new("test_input_required_result_sampling", capital)
            .description("Asks the client's model for a capital"),
        Tool::new("test_input_required_result_list_roots", roots)
            .description("Asks for the client's roots"),
        Tool::new("test_input_required_result_request_state", confirmed)
            .description("Asks for a confirmation, and knows its own question again"),
        Tool::new("test_input_required_result_tampered_state", confirmed)
            .description("Asks for a confirmation, and refuses a question that is not its own"),
        Tool::new("test_input_required_result_multiple_inputs", everything)
            .description("Asks three questions at once"),
        Tool::new("test_input_required_result_multi_round", rounds)
            .description("Asks a question, and then another"),
        Tool::new("test_input_required_result_capabilities", what_it_can)
            .description("Asks only what the client says it can answer"),
    ]
}

#[derive(Deserialize, JsonSchema)]
struct Prompt {
    /// What the model is asked.
    prompt: String,
}

async fn sampling(args: Prompt, context: Context) -> Result<String, Failure> {
    let sampled = context.sample("sample", &question(&args.prompt)).await?;
    Ok(format!("LLM response: {}", words(&sampled)))
}

#[derive(Deserialize, JsonSchema)]
struct Message {
    /// What the person is told.
    message: String,
}

async fn elicitation(args: Message, context: Context) -> Result<String, Failure> {
    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is wanted")]
    struct User {
        /// User's response
        username: String,
        /// User's email address
        email: String,
    }
    let answer = context
        .elicit("user", &Form::of::<User>(args.message))
        .await?;
    Ok(format!("User response: {}", told(&answer)))
}

async fn defaults(_: NoArguments, context: Context) -> Result<String, Failure> {
    let schema = object(json!({
        "type": "object",
        "properties": {
            "name": { "type": "string", "description": "User name", "default": "John Doe" },
            "age": { "type": "integer", "description": "User age", "default": 30 },
            "score": { "type": "number", "description": "User score", "default": 95.5 },
            "status": {
                "type": "string",
                "description": "User status",
                "enum": ["active", "inactive", "pending"],
                "default": "active",
            },
            "verified": { "type": "boolean", "description": "Verification status", "default": true },
        },
        "required": [],
    }));
    let form = Form::new(
        "Please review and update the form fields with defaults",
        schema,
    );
    let answer = context.elicit("profile", &form).await?;
    Ok(format!("Elicitation completed: {}", told(&answer)))
}

async fn choices(_: NoArguments, context: Context) -> Result<String, Failure> {
    let options = ["option1", "option2", "option3"];
    let titled = |of: &str| {
        json!([
            { "const": "value1", "title": format!("First {of}") },
            { "const": "value2", "title": format!("Second {of}") },
            { "const": "value3", "title": format!("Third {of}") },
        ])
    };
    let schema = object(json!({
        "type": "object",
        "properties": {
            "untitledSingle": { "type": "string", "enum": options },
            "titledSingle": { "type": "string", "oneOf": titled("Option") },
            "legacyEnum": {
                "type": "string",
                "enum": ["opt1", "opt2", "opt3"],
                "enumNames": ["Option One", "Option Two", "Option Three"],
            },
            "untitledMulti": { "type": "array", "items": { "type": "string", "enum": options } },
            "titledMulti": { "type": "array", "items": { "anyOf": titled("Choice") } },
        },
        "required": [],
    }));
    let form = Form::new("Please select options from the enum fields", schema);
    let answer = context.elicit("choices", &form).await?;
    Ok(format!("Elicitation completed: {}", told(&answer)))
}

/// Nobody really signs in: whoever consents is taken to have been there.
async fn link(_: NoArguments, context: Context) -> Result<String, Failure> {
    let mut bits = [0; 16];
    getrandom::fill(&mut bits)?;
    let id = format!("{:032x}", u128::from_be_bytes(bits));
    let url = format!("https://example.com/sign-in/{id}");
    let answer = context
        .visit("sign_in", &Visit::new(&id, &url).message("Please sign in"))
        .await?;
    if answer.action == ElicitationAction::Accept {
        context.visited(&id);
    }
    Ok(format!("Elicitation completed: {}", told(&answer)))
}

async fn streaming(_: NoArguments, context: Context) -> Result<String, Failure> {
    context.progress(1.0, Some(2.0), Some("asking")).await;
    let person: Person = ask(&context, "user_name", "What is your name?").await?;
    context.progress(2.0, Some(2.0), Some("answered")).await;
    Ok(format!("Hello, {}!", person.name))
}

async fn greeting(_: NoArguments, context: Context) -> Result<String, Failure> {
    let person: Person = ask(&context, "user_name", "What is your name?").await?;
    Ok(format!("Hello, {}!", person.name))
}

async fn capital(_: NoArguments, context: Context) -> Result<String, Failure> {
    let question = question("What is the capital of France?");
    Ok(words(&context.sample("capital_question", &question).await?))
}

async fn roots(_: NoArguments, context: Context) -> Result<String, Failure> {
    let roots = context.roots("client_roots").await?;
    Ok(format!("The client's roots: {}", listed(&roots)))
}

/// Whether the question is its own, the server checks before this runs again.
async fn confirmed(_: NoArguments, context: Context) -> Result<&'static str, Failure> {
    let answer: Confirmation = ask(&context, "confirm", "Please confirm").await?;
    Ok(if answer.ok {
        "state-ok"
    } else {
        "state-ok, but not confirmed"
    })
}

async fn everything(_: NoArguments, context: Context) -> Result<String, Failure> {
    let name = Form::of::<Person>("What is your name?");
    let mut greeting = question("Generate a greeting");
    greeting.max_tokens = 50;
    let (person, greeting, roots) = tokio::try_join!(
        context.elicit("user_name", &name),
        context.sample("greeting", &greeting),
        context.roots("client_roots"),
    )?;
    let person: Person = filled_in(person)?;
    Ok(format!(
        "{}: {} Your roots: {}",
        person.name,
        words(&greeting),
        listed(&roots)
    ))
}

async fn rounds(_: NoArguments, context: Context) -> Result<String, Failure> {
    let person: Person = ask(&context, "step1", "Step 1: What is your name?").await?;
    let favourite: Favourite =
        ask(&context, "step2", "Step 2: What is your favorite color?").await?;
    Ok(format!("{} likes {}", person.name, favourite.color))
}

async fn what_it_can(_: NoArguments, context: Context) -> Result<String, Failure> {
    let name = Form::of::<Person>("What is your name?");
    let capital = question("What is the capital of France?");
    let (person, capital, roots) = tokio::try_join!(
        if_able(&context, Ability::Form, context.elicit("user_name", &name)),
        if_able(
            &context,
            Ability::Sampling,
            context.sample("capital_question", &capital)
        ),
        if_able(&context, Ability::Roots, context.roots("client_roots")),
    )?;
    let answers = [
        person.as_ref().map(told),
        capital.as_ref().map(words),
        roots.as_deref().map(listed),
    ];
    let answers: Vec<_> = answers.into_iter().flatten().collect();
    Ok(format!("The client answered: {}", answers.join("; ")))
}

/// What a prompt wants to know.
pub(crate) async fn context(context: &Context) -> Result<String, Failure> {
    let about: About = ask(
        context,
        "user_context",
        "What context should the prompt use?",
    )
    .await?;
    Ok(about.context)
}

#[derive(Deserialize, JsonSchema)]
struct Person {
    name: String,
}

#[derive(Deserialize, JsonSchema)]
struct Favourite {
    color: String,
}

#[derive(Deserialize, JsonSchema)]
struct Confirmation {
    ok: bool,
}

#[derive(Deserialize, JsonSchema)]
struct About {
    context: String,
}

/// Asks for the fields of a type.
async fn ask<T>(context: &Context, key: &str, message: &str) -> Result<T, Failure>
where
    T: DeserializeOwned + JsonSchema,
{
    filled_in(context.elicit(key, &Form::of::<T>(message)).await?)
}

fn filled_in<T: DeserializeOwned>(answer: ElicitResult) -> Result<T, Failure> {
    match (answer.action, answer.content) {
        (ElicitationAction::Accept, Some(content)) => Ok(serde_json::from_value(content)?),
        _ => Err(Failure::new("the form was not filled in")),
    }
}

/// Asks if the client can answer.
async fn if_able<T>(
    context: &Context,
    ability: Ability,
    question: impl Future<Output = Result<T, AskError>>,
) -> Result<Option<T>, AskError> {
    match context.require(ability) {
        Ok(()) => question.await.map(Some),
        Err(_) => Ok(None),
    }
}

fn question(text: &str) -> CreateMessageRequestParams {
    CreateMessageRequestParams::new(vec![SamplingMessage::user_text(text)], 100)
}

fn words(sampled: &CreateMessageResult) -> String {
    let texts = sampled
        .message
        .content
        .iter()
        .filter_map(|content| content.as_text());
    texts.map(|content| content.text.as_str()).collect()
}

fn listed(roots: &[Root]) -> String {
    let uris: Vec<_> = roots.iter().map(|root| root.uri.as_str()).collect();
    uris.join(", ")
}

fn told(answer: &ElicitResult) -> String {
    let action = json!(answer.action);
    let content = answer.content.as_ref().unwrap_or(&Value::Null);
    let action = action.as_str().unwrap_or_default();
    format!("action={action}, content={content}")
}
