//! Who may come in over HTTP, and what belongs to whom.

use crate::support::{
    desk::desk_with,
    http::{ALICE, BOB, SESSIONS, is_served, modern_call, plain, tokens, verdict},
    messages::{notification, text},
    tools::tool,
};
use async_trait::async_trait;
use interlock::{
    Authenticator, Context, Denied, HttpOptions, NoArguments, Principal, Tool, workflow::Settings,
};
use interlock_testkit::web::{Hello, Request, Session, Site};
use serde_json::json;

const PLAIN: &str = r#"Bearer realm="mcp""#;
const INVALID: &str = r#"Bearer realm="mcp", error="invalid_token""#;
const ELSEWHERE: &str = r#"Bearer resource_metadata="https://example.com/m""#;

fn whoami() -> Tool {
    Tool::new("whoami", |_: NoArguments, context: Context| async move {
        context.principal().id().to_owned()
    })
}

async fn site() -> Site {
    let server = plain().tool(whoami()).build().unwrap();
    let options = HttpOptions::default()
        .authenticator(tokens())
        .legacy_sse(true);
    Site::open(&server, options).await
}

/// One of each thing that a client can send.
fn everything(session: &Session) -> Vec<Request> {
    vec![
        Hello::version(SESSIONS).request(),
        session.ask("ping", json!({})),
        session
            .ask("ping", json!({}))
            .header("mcp-session-id", "made-up"),
        session.post(&notification("notifications/initialized", json!({}))),
        session.get(),
        session.delete(),
        session.get().header("last-event-id", "1"),
        Request::modern(1, "server/discover", json!({})),
        modern_call(1, "whoami", json!({})),
        Request::modern(1, "subscriptions/listen", json!({"notifications": {}})),
        session.ask("ping", json!({})).body("nonsense"),
        session
            .ask("ping", json!({}))
            .header("content-type", "text/plain"),
        session.ask("ping", json!({})).header("accept", "image/png"),
        session
            .ask("ping", json!({}))
            .header("mcp-protocol-version", "nonsense"),
        Request::get().path("/sse"),
        Hello::version(SESSIONS)
            .request()
            .path("/messages?sessionId=x"),
    ]
}

#[tokio::test]
async fn nobody_comes_in_without_credentials_and_is_told_how() {
    let site = site().await;
    let session = Hello::version(SESSIONS).token(ALICE).open(&site).await;
    for request in everything(&session) {
        let answer = site.send(request.clone().without("authorization")).await;
        assert_eq!(answer.status, 401, "{request:?}");
        let challenge = answer
            .header("www-authenticate")
            .unwrap_or_default()
            .to_owned();
        assert_eq!(challenge, PLAIN, "none were sent, so none are invalid");
        let (_, _, refusal) = verdict(answer).await;
        assert_eq!(refusal, Some(1015), "{request:?}");
    }
    is_served(&session).await;
}

#[tokio::test]
async fn nobody_comes_in_with_wrong_credentials() {
    let site = site().await;
    let session = Hello::version(SESSIONS).token(ALICE).open(&site).await;
    for credentials in [
        "Bearer wrong",
        "Bearer ",
        "Bearer",
        "Bearer secret-of-alice2",
        "Bearer secret-of-alic",
        "Bearer SECRET-OF-ALICE",
        "Bearer \"secret-of-alice\"",
        "Bearer secret-of-alice, Bearer secret-of-bob",
        "Bearer secret-of-alice secret-of-bob",
    ] {
        for request in everything(&session) {
            let answer = site
                .send(request.header("authorization", credentials))
                .await;
            assert_eq!(answer.status, 401, "{credentials}");
            let challenge = answer
                .header("www-authenticate")
                .unwrap_or_default()
                .to_owned();
            assert_eq!(challenge, INVALID);
            assert_eq!(verdict(answer).await.2, Some(1013), "{credentials}");
        }
    }
    for credentials in [
        "Basic c2VjcmV0LW9mLWFsaWNl",
        "secret-of-alice",
        "Bearer:secret-of-alice",
        "Digest x",
        "",
    ] {
        let answer = site
            .send(
                session
                    .ask("ping", json!({}))
                    .header("authorization", credentials),
            )
            .await;
        assert_eq!(answer.status, 401, "{credentials}");
        assert_eq!(answer.header("www-authenticate"), Some(PLAIN));
        assert_eq!(verdict(answer).await.2, Some(1015), "{credentials}");
    }
    for second in ["Bearer secret-of-bob", "Bearer secret-of-alice"] {
        let two = session.ask("ping", json!({})).also("authorization", second);
        let answer = site.send(two).await;
        assert_eq!(verdict(answer).await.2, Some(1013), "{second}");
    }
    let in_the_address = session.ask("ping", json!({})).without("authorization");
    let in_the_address = in_the_address.path("/mcp?access_token=secret-of-alice");
    assert_eq!(site.send(in_the_address).await.status, 401);
}

#[tokio::test]
async fn handlers_know_on_whose_behalf_they_run() {
    let site = site().await;
    for (token, name) in [(ALICE, "alice"), (BOB, "bob")] {
        let session = Hello::version(SESSIONS).token(token).open(&site).await;
        assert_eq!(
            session.call("whoami", json!({})).await["content"][0]["text"],
            name
        );
        let answer = site
            .send(modern_call(1, "whoami", json!({})).token(token))
            .await;
        assert_eq!(text(&answer.json().await), name);
    }
    let open = Site::open(
        &plain().tool(whoami()).build().unwrap(),
        HttpOptions::default(),
    )
    .await;
    let answer = open
        .send(modern_call(1, "whoami", json!({})).token(ALICE))
        .await;
    assert_eq!(
        text(&answer.json().await),
        "anonymous",
        "nobody was asked who it is"
    );
}

/// Says what the request's `x-say` asks it to say.
struct Moody;

#[async_trait]
impl Authenticator for Moody {
    async fn authenticate(&self, request: &http::request::Parts) -> Result<Principal, Denied> {
        let say = request
            .headers
            .get("x-say")
            .and_then(|value| value.to_str().ok());
        match say {
            Some("expired") => Err(Denied::expired()),
            Some("failed") => Err(Denied::failed("the directory is down")),
            Some("forbidden") => Err(Denied::forbidden("not on Sundays")),
            Some("panic") => panic!("on purpose"),
            Some("elsewhere") => Err(Denied::missing().challenge(ELSEWHERE)),
            Some(_) | None => Ok(Principal::new("somebody")),
        }
    }
}

#[tokio::test]
async fn every_kind_of_no_has_its_status_and_code() {
    let server = plain().build().unwrap();
    let site = Site::open(&server, HttpOptions::default().authenticator(Moody)).await;
    let discover = || Request::modern(1, "server/discover", json!({}));
    for (say, status, code, message) in [
        ("expired", 401, 1012, None),
        ("failed", 401, 1011, Some("the directory is down")),
        ("elsewhere", 401, 1015, None),
        ("forbidden", 403, 1014, Some("not on Sundays")),
    ] {
        let answer = site.send(discover().header("x-say", say)).await;
        assert_eq!(answer.status, status, "{say}");
        let challenge = answer.header("www-authenticate").map(str::to_owned);
        let expected = match say {
            "expired" => Some(INVALID),
            "failed" => Some(PLAIN),
            "elsewhere" => Some(ELSEWHERE),
            _ => None,
        };
        assert_eq!(challenge.as_deref(), expected, "{say}");
        let (_, body) = answer.refused().await;
        let error = &body["error"];
        assert_eq!(error["data"]["refusal"]["code"], code, "{say}");
        assert!(
            message.is_none_or(|message| error["message"] == message),
            "{error}"
        );
    }
    assert_eq!(site.send(discover()).await.status, 200);
}

#[tokio::test]
async fn an_authenticator_that_panics_lets_nobody_in_and_the_site_goes_on() {
    let server = plain().build().unwrap();
    let site = Site::open(&server, HttpOptions::default().authenticator(Moody)).await;
    let discover = || Request::modern(1, "server/discover", json!({}));
    for _ in 0..3 {
        if let Ok(answer) = site
            .web()
            .try_send(discover().header("x-say", "panic"))
            .await
        {
            assert!(answer.status >= 400, "{answer:?}");
        }
        assert_eq!(site.send(discover()).await.status, 200);
    }
}

#[tokio::test]
async fn an_instance_of_a_workflow_is_its_sessions_own() {
    let server = desk_with(Settings::default(), tool("work"))
        .build()
        .unwrap();
    let site = Site::open(&server, HttpOptions::default().authenticator(tokens())).await;
    let alice = Hello::version(SESSIONS).token(ALICE).open(&site).await;
    let bob = Hello::version(SESSIONS).token(BOB).open(&site).await;
    alice.call("work", json!({})).await;
    let state =
        |result: serde_json::Value| result["_meta"]["dev.interlock/refusal"]["state"].clone();
    assert_eq!(state(alice.call("nowhere", json!({})).await), "done");
    assert_eq!(state(bob.call("nowhere", json!({})).await), "open");
}
