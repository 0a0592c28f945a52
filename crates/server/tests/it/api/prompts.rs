//! What a prompt is given, what it may answer, and what clients are told about it.

use crate::support::messages::codes;
use interlock::{
    Builder, Context, Failure, Prompt, Server,
    model::{ContentBlock, GetPromptResult, Icon, JsonObject, MetaObject, PromptMessage, Role},
    schemars,
};
use interlock_testkit::{Client, Connection, connect};
use serde_json::{Value, json};

async fn ready(prompts: impl IntoIterator<Item = Prompt>) -> (Client, Connection) {
    let builder = Server::builder("s", "0");
    let server = prompts.into_iter().fold(builder, Builder::prompt);
    let (mut client, connection) = connect(&server.build().unwrap());
    client.initialize().await;
    (client, connection)
}

async fn get(client: &mut Client, name: &str, arguments: Value) -> Value {
    let params = json!({"name": name, "arguments": arguments});
    client.request("prompts/get", params).await
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Review {
    /// In which language the code is written.
    language: Language,
    /// How many remarks there should be.
    #[schemars(title = "Remarks")]
    remarks: Option<u8>,
    #[serde(default)]
    strict: bool,
}

#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Language {
    Rust,
    Python,
}

#[tokio::test]
async fn a_typed_prompt_reads_its_arguments() {
    let review = Prompt::new("review", |review: Review, _: Context| async move {
        let Review {
            language,
            remarks,
            strict,
        } = review;
        format!("{language:?} {remarks:?} {strict}")
    });
    let (mut client, _connection) = ready([review]).await;
    let answer = client.request("prompts/list", json!({})).await;
    assert_eq!(
        answer["result"]["prompts"],
        json!([{
            "name": "review",
            "arguments": [
                {
                    "name": "language",
                    "description": "In which language the code is written.",
                    "required": true,
                },
                {
                    "name": "remarks",
                    "title": "Remarks",
                    "description": "How many remarks there should be.",
                    "required": false,
                },
                {"name": "strict", "required": false},
            ],
        }])
    );
    for (arguments, text) in [
        (json!({"language": "rust"}), "Rust None false"),
        (
            json!({"language": "python", "remarks": "3", "strict": "true"}),
            "Python Some(3) true",
        ),
    ] {
        let answer = get(&mut client, "review", arguments).await;
        assert_eq!(
            answer["result"],
            json!({"messages": [{"role": "user", "content": {"type": "text", "text": text}}]})
        );
    }
    for (arguments, why) in [
        (json!({}), "`language` is missing"),
        (json!({"remarks": "3"}), "`language` is missing"),
        (json!({"language": "cobol"}), "`language`"),
        (json!({"language": "rust", "remarks": "many"}), "`remarks`"),
        (json!({"language": "rust", "remarks": "256"}), "`remarks`"),
        (
            json!({"language": "rust", "remarks": 3}),
            "`remarks` must be a string",
        ),
        (json!({"language": "rust", "strict": "yes"}), "`strict`"),
    ] {
        let answer = get(&mut client, "review", arguments).await;
        assert_eq!(codes(&answer), (-32602, 1021), "{answer}");
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.contains(why), "{message}");
    }
}

#[tokio::test]
async fn a_map_of_anything_declares_nothing_and_is_given_what_came() {
    let echo = |arguments: JsonObject, _: Context| async move { json!(arguments).to_string() };
    let (mut client, _connection) = ready([Prompt::new("map", echo)]).await;
    let answer = client.request("prompts/list", json!({})).await;
    assert_eq!(answer["result"]["prompts"], json!([{"name": "map"}]));
    let answer = get(&mut client, "map", json!({"a": "1"})).await;
    let content = &answer["result"]["messages"][0]["content"];
    assert_eq!(content["text"], r#"{"a":"1"}"#);
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

#[tokio::test]
async fn a_prompt_may_answer_a_text_messages_or_a_whole_result() {
    let message = || PromptMessage::new(Role::Assistant, ContentBlock::text("yes"));
    let whole = move || {
        let mut result = GetPromptResult::new(vec![message()]);
        result.description = Some("All of it".to_owned());
        result
    };
    let (mut client, _connection) = ready([
        Prompt::new("text", |_: Nothing, _: Context| async { "hello" }),
        Prompt::new(
            "one",
            move |_: Nothing, _: Context| async move { message() },
        ),
        Prompt::new("two", move |_: Nothing, _: Context| async move {
            vec![message(), message()]
        }),
        Prompt::new("whole", move |_: Nothing, _: Context| async move {
            Ok::<_, Failure>(whole())
        }),
        Prompt::new("fails", |_: Nothing, _: Context| async {
            Err::<String, _>(Failure::new("no words"))
        }),
    ])
    .await;
    let user = json!({"role": "user", "content": {"type": "text", "text": "hello"}});
    let yes = json!({"role": "assistant", "content": {"type": "text", "text": "yes"}});
    for (name, result) in [
        ("text", json!({"messages": [user]})),
        ("one", json!({"messages": [yes]})),
        ("two", json!({"messages": [yes, yes]})),
        (
            "whole",
            json!({"description": "All of it", "messages": [yes]}),
        ),
    ] {
        let answer = get(&mut client, name, json!({})).await;
        assert_eq!(answer["result"], result, "{name}");
    }
    let answer = get(&mut client, "fails", json!({})).await;
    assert_eq!(answer["error"]["code"], -32603, "{answer}");
    assert_eq!(answer["error"].get("data"), None, "{answer}");
}

#[tokio::test]
async fn a_prompt_tells_all_about_itself() {
    let meta = json!({"mine": 1});
    let prompt = Prompt::text("p", "please")
        .title("The prompt")
        .description("Asks")
        .icons(vec![Icon::new("https://example.com/p.png")])
        .meta(MetaObject(meta.as_object().unwrap().clone()));
    let (mut client, _connection) = ready([prompt]).await;
    let answer = client.request("prompts/list", json!({})).await;
    let expected = json!({
        "name": "p",
        "title": "The prompt",
        "description": "Asks",
        "icons": [{"src": "https://example.com/p.png"}],
        "_meta": meta,
    });
    assert_eq!(answer["result"]["prompts"], json!([expected]));
}
