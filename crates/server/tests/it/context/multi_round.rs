//! Questions to clients of 2026-07-28: asked in results, answered in retries.

use crate::support::{
    http::{age_form, plain, verdict},
    messages::{CAPABILITIES, modern, object, request, text},
    puppet::{Act, puppet},
};
use interlock::{
    BearerTokens, Builder, Context, Failure, Form, HttpOptions, NoArguments, Prompt, Resource, Tool,
};
use interlock_testkit::{
    ManualClock, connect,
    web::{Request, Site},
};
use serde_json::{Value, json};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

const SECRET: [u8; 32] = [7; 32];

fn can_do() -> Value {
    json!({"elicitation": {"form": {}, "url": {}}, "roots": {}, "sampling": {}})
}

/// A request by a client that can be asked anything.
fn ask(method: &str, mut params: Value) -> Request {
    params["_meta"] = json!({CAPABILITIES: can_do()});
    Request::modern("retry", method, params)
}

fn call(tool: &str) -> Value {
    json!({"name": tool, "arguments": {}})
}

/// The same request again, with answers.
fn again(mut params: Value, state: &Value, answers: Value) -> Value {
    params["requestState"] = state.clone();
    params["inputResponses"] = answers;
    params
}

fn age(age: impl Into<Value>) -> Value {
    json!({"age": {"action": "accept", "content": {"age": age.into()}}})
}

fn name_form() -> Form {
    let schema =
        json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
    Form::new("Who are you?", object(schema))
}

/// A tool that asks two things, one after the other.
fn ask_twice(runs: Arc<AtomicUsize>) -> Tool {
    Tool::new("ask_twice", move |_: NoArguments, context: Context| {
        let runs = Arc::clone(&runs);
        async move {
            runs.fetch_add(1, Ordering::SeqCst);
            let name = context.elicit("name", &name_form()).await?;
            let Some(name) = name.content else {
                return Ok("nobody".to_owned());
            };
            let age = context.elicit("age", &age_form()).await?;
            let roots = context.roots("roots").await?;
            Ok::<_, Failure>(format!(
                "{} {} {}",
                name["name"],
                age.content.unwrap()["age"],
                roots.len()
            ))
        }
    })
}

fn asking() -> Builder {
    plain()
        .secret(SECRET)
        .tool(ask_twice(Arc::default()))
        .resource(Resource::new("ask://age", |context: Context| async move {
            let answer = context.elicit("age", &age_form()).await?;
            Ok::<_, Failure>(
                answer
                    .content
                    .map_or("none".to_owned(), |content| content["age"].to_string()),
            )
        }))
}

async fn site() -> Site {
    Site::open(&asking().build().unwrap(), HttpOptions::default()).await
}

/// Sends a request whose answer is a question, and gives its result.
async fn asked(site: &Site, params: Value) -> Value {
    let answer = site.send(ask("tools/call", params)).await;
    assert_eq!(answer.status, 200);
    let answer = answer.json().await;
    let result = answer["result"].clone();
    assert_eq!(result["resultType"], "input_required", "{answer}");
    assert!(result["requestState"].is_string(), "{answer}");
    assert!(
        result.get("ttlMs").is_none() && result.get("cacheScope").is_none(),
        "{answer}"
    );
    result
}

#[tokio::test]
async fn a_question_is_a_result_and_its_answer_a_retry() {
    let site = site().await;
    let result = asked(&site, call("ask_age")).await;
    let questions = result["inputRequests"].as_object().unwrap();
    assert_eq!(questions.keys().collect::<Vec<_>>(), ["age"]);
    let question = &questions["age"];
    assert_eq!(question["method"], "elicitation/create");
    assert!(
        question.get("id").is_none() && question.get("jsonrpc").is_none(),
        "{question}"
    );
    assert_eq!(question["params"]["mode"], "form");
    assert!(question["params"].get("elicitationId").is_none());
    let retry = again(call("ask_age"), &result["requestState"], age(7));
    let answer = site.send(ask("tools/call", retry)).await.json().await;
    assert_eq!(answer["result"]["resultType"], "complete");
    assert_eq!(text(&answer), "age 7");
}

#[tokio::test]
async fn a_person_may_say_no() {
    let site = site().await;
    let result = asked(&site, call("ask_age")).await;
    for action in ["decline", "cancel"] {
        let retry = again(
            call("ask_age"),
            &result["requestState"],
            json!({"age": {"action": action}}),
        );
        let answer = site.send(ask("tools/call", retry)).await.json().await;
        assert_eq!(text(&answer), "no answer");
    }
}

#[tokio::test]
async fn answers_that_are_missing_wrong_or_not_valid_are_asked_for_again() {
    let site = site().await;
    let result = asked(&site, call("ask_age")).await;
    for answers in [
        json!({}),
        json!({"name": {"action": "accept", "content": {"age": 7}}}),
        age("seven"),
        age(-1),
        age(Value::Null),
        json!({"age": {"action": "accept"}}),
        json!({"age": {"action": "accept", "content": {}}}),
        json!({"age": {"action": "perhaps"}}),
        json!({"age": {"roots": []}}),
    ] {
        let retry = again(call("ask_age"), &result["requestState"], answers.clone());
        let next = asked(&site, retry).await;
        assert!(next["inputRequests"]["age"].is_object(), "{answers} {next}");
        let retry = again(call("ask_age"), &next["requestState"], age(8));
        let answer = site.send(ask("tools/call", retry)).await.json().await;
        assert_eq!(text(&answer), "age 8", "{answers}");
    }
    // What was not asked for is ignored.
    let mut answers = age(9);
    answers["other"] = json!({"action": "accept"});
    let retry = again(call("ask_age"), &result["requestState"], answers);
    assert_eq!(
        text(&site.send(ask("tools/call", retry)).await.json().await),
        "age 9"
    );
}

#[tokio::test]
async fn answers_that_are_none_are_malformed() {
    let site = site().await;
    let result = asked(&site, call("ask_age")).await;
    for answers in [json!([]), json!(5), json!("age")] {
        let retry = again(call("ask_age"), &result["requestState"], answers.clone());
        let answer = site.send(ask("tools/call", retry)).await;
        assert_eq!(verdict(answer).await.1, -32602, "{answers}");
    }
}

#[tokio::test]
async fn earlier_answers_are_at_hand_in_later_rounds() {
    let runs = Arc::new(AtomicUsize::new(0));
    let server = plain()
        .secret(SECRET)
        .tool(ask_twice(Arc::clone(&runs)))
        .build()
        .unwrap();
    let site = Site::open(&server, HttpOptions::default()).await;
    let first = asked(&site, call("ask_twice")).await;
    assert!(first["inputRequests"]["name"].is_object(), "{first}");
    let retry = again(
        call("ask_twice"),
        &first["requestState"],
        json!({"name": {"action": "accept", "content": {"name": "ann"}}}),
    );
    let second = asked(&site, retry).await;
    let questions = second["inputRequests"].as_object().unwrap();
    assert!(
        questions.contains_key("age") && !questions.contains_key("name"),
        "{second}"
    );
    let retry = again(call("ask_twice"), &second["requestState"], age(7));
    let third = asked(&site, retry).await;
    assert_eq!(
        third["inputRequests"]["roots"]["method"], "roots/list",
        "{third}"
    );
    let roots = json!({"roots": {"roots": [{"uri": "file:///a"}]}});
    let retry = again(call("ask_twice"), &third["requestState"], roots);
    let answer = site.send(ask("tools/call", retry)).await.json().await;
    assert_eq!(text(&answer), "\"ann\" 7 1");
    assert_eq!(
        runs.load(Ordering::SeqCst),
        4,
        "each round runs the handler from its start"
    );
}

#[tokio::test]
async fn a_state_that_was_altered_is_refused() {
    let site = site().await;
    let result = asked(&site, call("ask_age")).await;
    let state = result["requestState"].as_str().unwrap();
    let mut wrong: Vec<Value> = vec![
        json!(""),
        json!("x"),
        json!("AAAA"),
        json!(5),
        json!({}),
        json!(format!("{state}A")),
        json!(&state[1..]),
        json!(&state[..state.len() - 1]),
    ];
    for at in (0..state.len()).step_by(state.len().div_ceil(40)) {
        let mut bytes = state.as_bytes().to_vec();
        bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
        wrong.push(String::from_utf8(bytes).unwrap().into());
    }
    for state in wrong {
        let retry = again(call("ask_age"), &state, age(7));
        let answer = site.send(ask("tools/call", retry)).await;
        assert_eq!(verdict(answer).await.1, -32602, "{state}");
    }
}

#[tokio::test]
async fn a_state_of_another_request_is_refused() {
    let site = site().await;
    let result = asked(&site, call("ask_age")).await;
    let state = &result["requestState"];
    for (method, params) in [
        ("tools/call", call("ask_twice")),
        (
            "tools/call",
            json!({"name": "ask_age", "arguments": {"x": 1}}),
        ),
        (
            "tools/call",
            json!({"name": "echo", "arguments": {"text": "hi"}}),
        ),
        ("resources/read", json!({"uri": "ask://age"})),
        (
            "prompts/get",
            json!({"name": "sorry", "arguments": {"who": "x"}}),
        ),
    ] {
        let answer = site
            .send(ask(method, again(params.clone(), state, age(7))))
            .await;
        assert_eq!(verdict(answer).await.1, -32602, "{method} {params}");
    }
}

#[tokio::test]
async fn a_state_expires() {
    let clock = Arc::new(ManualClock::new());
    let server = asking()
        .clock(clock.clone())
        .ask_timeout(Duration::from_secs(60))
        .build()
        .unwrap();
    let site = Site::open(&server, HttpOptions::default()).await;
    let result = asked(&site, call("ask_age")).await;
    clock.advance(Duration::from_secs(59));
    let retry = || {
        ask(
            "tools/call",
            again(call("ask_age"), &result["requestState"], age(7)),
        )
    };
    assert_eq!(text(&site.send(retry()).await.json().await), "age 7");
    clock.advance(Duration::from_secs(2));
    assert_eq!(verdict(site.send(retry()).await).await.1, -32602);
}

#[tokio::test]
async fn a_state_of_another_principal_is_refused() {
    let tokens = BearerTokens::new()
        .token("secret-of-alice", "alice")
        .token("secret-of-bob", "bob");
    let options = HttpOptions::default().authenticator(tokens);
    let site = Site::open(&asking().build().unwrap(), options).await;
    let first = ask("tools/call", call("ask_age")).token("secret-of-alice");
    let result = site.send(first).await.json().await["result"].clone();
    let retry = || {
        ask(
            "tools/call",
            again(call("ask_age"), &result["requestState"], age(7)),
        )
    };
    let answer = site.send(retry().token("secret-of-bob")).await;
    assert_eq!(verdict(answer).await.1, -32602);
    let answer = site
        .send(retry().token("secret-of-alice"))
        .await
        .json()
        .await;
    assert_eq!(text(&answer), "age 7");
}

#[tokio::test]
async fn any_server_with_the_secret_can_take_the_retry() {
    let (one, two) = (site().await, site().await);
    let other = Site::open(
        &plain().secret([8; 32]).build().unwrap(),
        HttpOptions::default(),
    )
    .await;
    let alone = Site::open(&plain().build().unwrap(), HttpOptions::default()).await;
    let result = asked(&one, call("ask_age")).await;
    let retry = || {
        ask(
            "tools/call",
            again(call("ask_age"), &result["requestState"], age(7)),
        )
    };
    assert_eq!(text(&two.send(retry()).await.json().await), "age 7");
    for stranger in [&other, &alone] {
        assert_eq!(verdict(stranger.send(retry()).await).await.1, -32602);
    }
}

#[tokio::test]
async fn resources_and_prompts_may_ask_as_well() {
    let prompt = Prompt::text("plain", "none");
    let server = asking().prompt(prompt).build().unwrap();
    let site = Site::open(&server, HttpOptions::default()).await;
    let params = json!({"uri": "ask://age"});
    let result = site
        .send(ask("resources/read", params.clone()))
        .await
        .json()
        .await["result"]
        .clone();
    assert_eq!(result["resultType"], "input_required", "{result}");
    assert!(result.get("ttlMs").is_none(), "{result}");
    let retry = again(params, &result["requestState"], age(7));
    let result = site.send(ask("resources/read", retry)).await.json().await["result"].clone();
    assert_eq!(result["contents"][0]["text"], "7", "{result}");
}

#[tokio::test]
async fn no_request_is_ever_sent_to_a_client_of_2026_07_28() {
    let (tool, mut puppet) = puppet("act");
    let site = Site::open(
        &asking().tool(tool).build().unwrap(),
        HttpOptions::default(),
    )
    .await;
    let mut params = call("act");
    params["_meta"] = json!({CAPABILITIES: can_do(), "progressToken": 1});
    let answer = tokio::spawn({
        let (web, request) = (site.web(), Request::modern(1, "tools/call", params));
        async move { web.send(request).await.exchange().await }
    });
    let call = puppet.call().await;
    call.tell(Act::Progress(1.0));
    call.tell(Act::Age);
    let (before, answer) = answer.await.unwrap();
    assert_eq!(before.len(), 1, "{before:?}");
    assert_eq!(before[0]["method"], "notifications/progress");
    assert_eq!(answer["result"]["resultType"], "input_required", "{answer}");
}

#[tokio::test]
async fn the_same_rules_hold_on_stdio() {
    let server = asking().build().unwrap();
    let (mut client, _connection) = connect(&server);
    let able = |params: Value| {
        let mut params = modern(params);
        params["_meta"][CAPABILITIES] = can_do();
        params
    };
    let answer = client.request("tools/call", able(call("ask_age"))).await;
    let result = &answer["result"];
    assert_eq!(result["resultType"], "input_required", "{answer}");
    let state = result["requestState"].clone();
    let answer = client
        .request("tools/call", able(again(call("ask_age"), &state, age(7))))
        .await;
    assert_eq!(text(&answer), "age 7");
    let answer = client
        .request("tools/call", able(again(call("ask_twice"), &state, age(7))))
        .await;
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    let answer = client.request("tools/call", modern(call("ask_age"))).await;
    assert_eq!(answer["error"]["code"], -32021, "{answer}");
    assert!(answer["error"]["data"]["requiredCapabilities"]["elicitation"].is_object());
    client
        .send(request("end", "server/discover", modern(json!({}))))
        .await;
    assert_eq!(
        client.receive().await.unwrap()["id"],
        "end",
        "nothing else was said"
    );
}

/// A tool that asks two things at once.
fn ask_both() -> Tool {
    Tool::new("ask_both", |_: NoArguments, context: Context| async move {
        let (age, name) = (age_form(), name_form());
        let (age, name) = tokio::join!(context.elicit("age", &age), context.elicit("name", &name));
        let said = |answer: interlock::model::ElicitResult| answer.content.unwrap_or_default();
        Ok::<_, Failure>(format!("{} {}", said(age?)["age"], said(name?)["name"]))
    })
}

#[tokio::test]
async fn what_is_asked_at_once_is_asked_in_one_round() {
    let server = asking().tool(ask_both()).build().unwrap();
    let site = Site::open(&server, HttpOptions::default()).await;
    let result = asked(&site, call("ask_both")).await;
    let mut keys: Vec<_> = result["inputRequests"]
        .as_object()
        .unwrap()
        .keys()
        .collect();
    keys.sort();
    assert_eq!(keys, ["age", "name"], "{result}");
    let mut answers = age(7);
    answers["name"] = json!({"action": "accept", "content": {"name": "ann"}});
    // Half of the answers is half of what is needed.
    let half = asked(
        &site,
        again(call("ask_both"), &result["requestState"], age(7)),
    )
    .await;
    assert!(half["inputRequests"]["name"].is_object(), "{half}");
    let retry = again(
        call("ask_both"),
        &half["requestState"],
        json!({"name": answers["name"]}),
    );
    assert_eq!(
        text(&site.send(ask("tools/call", retry)).await.json().await),
        "7 \"ann\""
    );
    let retry = again(call("ask_both"), &result["requestState"], answers);
    assert_eq!(
        text(&site.send(ask("tools/call", retry)).await.json().await),
        "7 \"ann\""
    );
}

#[tokio::test]
async fn a_retry_may_come_more_than_once_and_with_the_state_of_any_round() {
    let site = site().await;
    let first = asked(&site, call("ask_twice")).await;
    let name = json!({"name": {"action": "accept", "content": {"name": "ann"}}});
    for _ in 0..2 {
        let second = asked(
            &site,
            again(call("ask_twice"), &first["requestState"], name.clone()),
        )
        .await;
        assert!(second["inputRequests"]["age"].is_object());
    }
    // The state of the first round knows nothing of the name, whatever was answered since.
    let answer = asked(
        &site,
        again(call("ask_twice"), &first["requestState"], age(7)),
    )
    .await;
    assert!(answer["inputRequests"]["name"].is_object(), "{answer}");
}
