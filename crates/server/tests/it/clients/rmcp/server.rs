//! A server that has one of everything.

#![expect(
    deprecated,
    reason = "what 2026-07-28 deprecates is served until it is gone"
)]

use interlock::{
    Builder, Context, Failure, Form, Json, Level, NoArguments, Partial, Prompt, Resource,
    ResourceTemplate, Server, Tool, Visit,
    model::{CreateMessageRequestParams, ElicitResult, ElicitationAction, SamplingMessage},
    schemars,
};
use serde_json::json;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Echo {
    text: String,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Message {
    message: String,
}

#[derive(serde::Deserialize)]
struct Day {
    day: String,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Count {
    to: u32,
}

/// The server without a workflow.
pub(super) fn everything() -> Builder {
    let sum =
        json!({"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]});
    Server::builder("everything", "1.2.3")
        .instructions("Try everything.")
        .tool(
            Tool::new("echo", |args: Echo, _: Context| async move { args.text })
                .title("Echo")
                .description("Says it again"),
        )
        .tool(
            Tool::new("add", |args: Add, _: Context| async move {
                Json(json!({"sum": args.a + args.b}))
            })
            .output_schema(sum.as_object().unwrap().clone()),
        )
        .tool(Tool::new("fail", |_: NoArguments, _: Context| async {
            Err::<(), _>(Failure::new("no luck"))
        }))
        .tool(Tool::new("count", count))
        .tool(Tool::new("chatter", chatter))
        .tool(Tool::new("sample", sample))
        .tool(Tool::new("greet", greet))
        .tool(Tool::new("visit", visit))
        .tool(Tool::new("roots", roots))
        .tool(Tool::new("two_questions", two_questions))
        .resource(
            Resource::text("note://rules", "be kind")
                .name("rules")
                .mime_type("text/plain"),
        )
        .resource(Resource::new("note://broken", |_| async {
            Err::<String, _>(Failure::new("it is torn"))
        }))
        .template(
            ResourceTemplate::new("note://day/{day}", |Day { day }, _: Context| async move {
                format!("the note of {day}")
            })
            .complete("day", |partial: Partial, _: Context| async move {
                let mut days = vec!["monday", "tuesday", "wednesday", "thursday"];
                days.retain(|day| day.starts_with(&partial.value));
                days
            }),
        )
        .prompt(
            Prompt::text("apologise", "Apologise to {{who}}.")
                .description("Say sorry")
                .required("who")
                .complete("who", |partial: Partial, _: Context| async move {
                    match partial.arguments.get("manner").map(String::as_str) {
                        Some("formal") => vec!["Mr Bean"],
                        _ => vec!["Rowan", "Bean"],
                    }
                }),
        )
}

async fn count(args: Count, context: Context) -> String {
    for step in 1..=args.to {
        let message = format!("step {step}");
        context
            .progress(f64::from(step), Some(f64::from(args.to)), Some(&message))
            .await;
    }
    "counted".to_owned()
}

async fn chatter(_: NoArguments, context: Context) -> &'static str {
    context.log(Level::Debug, "a detail").await;
    context.log(Level::Info, json!({"fact": 1})).await;
    context
        .log_as(Level::Error, Some("disk"), "it is full")
        .await;
    "said"
}

async fn sample(args: Message, context: Context) -> Result<String, Failure> {
    let messages = vec![SamplingMessage::user_text(args.message)];
    let said = context
        .sample("thought", &CreateMessageRequestParams::new(messages, 16))
        .await?;
    let content = serde_json::to_value(&said.message.content)?;
    Ok(format!(
        "{}: {}",
        said.model,
        content["text"].as_str().unwrap_or("nothing")
    ))
}

fn name_form(message: &str) -> Form {
    let schema =
        json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
    Form::new(message, schema.as_object().unwrap().clone())
}

fn told(answer: &ElicitResult) -> String {
    match (&answer.action, &answer.content) {
        (ElicitationAction::Accept, Some(content)) => format!("hello {}", content["name"]),
        (action, _) => format!("{action:?}"),
    }
}

async fn greet(args: Message, context: Context) -> Result<String, Failure> {
    let answer = context.elicit("name", &name_form(&args.message)).await?;
    Ok(told(&answer))
}

async fn visit(_: NoArguments, context: Context) -> Result<String, Failure> {
    let page = Visit::new("visit-1", "https://example.com/sign-in").message("Sign in");
    Ok(told(&context.visit("sign-in", &page).await?))
}

async fn roots(_: NoArguments, context: Context) -> Result<String, Failure> {
    let roots = context.roots("roots").await?;
    Ok(roots
        .into_iter()
        .map(|root| root.uri)
        .collect::<Vec<_>>()
        .join(" "))
}

/// Asks again when it knows the first answer.
async fn two_questions(_: NoArguments, context: Context) -> Result<String, Failure> {
    let first = context.elicit("first", &name_form("Who are you?")).await?;
    let second = context
        .elicit("second", &name_form("Please decline."))
        .await?;
    Ok(format!("{}, {}", told(&first), told(&second)))
}
