//! Instances that belong to whoever is authenticated.

use crate::support::{
    desk::desk_with,
    held::{OnCancel, held},
    http::{SESSIONS, modern_call},
    messages::{at, refusal},
    tools::{echo, tool},
};
use interlock::{
    Authenticator, BearerTokens, Denied, HttpOptions, Principal, Server, Workflow,
    workflow::{Scope, Settings, end},
};
use interlock_testkit::web::{Hello, Session, Site};
use serde_json::json;

fn settings() -> Settings {
    Settings {
        scope: Scope::Principal,
        ..Settings::default()
    }
}

async fn site(server: &Server) -> Site {
    let tokens = BearerTokens::new().token("secret-of-alice", "alice");
    let tokens = tokens.token("secret-of-bob", "bob");
    Site::open(server, HttpOptions::default().authenticator(tokens)).await
}

async fn session(site: &Site, who: &str) -> Session {
    let hello = Hello::version(SESSIONS).token(&format!("secret-of-{who}"));
    hello.open(site).await
}

async fn tools(session: &Session) -> Vec<String> {
    let answer = session.request("tools/list", json!({})).await;
    let tools = answer["result"]["tools"].as_array().unwrap().iter();
    tools
        .map(|tool| tool["name"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn all_sessions_of_a_principal_share_an_instance_and_nobody_else_does() {
    let server = desk_with(settings(), tool("work")).build().unwrap();
    let site = site(&server).await;
    let (one, two) = (session(&site, "alice").await, session(&site, "alice").await);
    let other = session(&site, "bob").await;
    one.call("work", json!({})).await;
    assert_eq!(tools(&one).await, ["close", "search"]);
    assert_eq!(tools(&two).await, ["close", "search"]);
    assert_eq!(tools(&other).await, ["work", "peek", "search"]);
}

#[tokio::test]
async fn an_instance_outlives_the_sessions_of_its_principal() {
    let server = desk_with(settings(), tool("work")).build().unwrap();
    let site = site(&server).await;
    let first = session(&site, "alice").await;
    first.call("work", json!({})).await;
    first.send(first.delete()).await;
    let second = session(&site, "alice").await;
    assert_eq!(tools(&second).await, ["close", "search"]);
}

#[tokio::test]
async fn another_server_finds_the_instance_in_the_store() {
    let store = interlock::store::MemoryStore::default();
    let server = || {
        let server = desk_with(settings(), tool("work"));
        server
            .store(std::sync::Arc::new(store.clone()))
            .build()
            .unwrap()
    };
    let site_of_one = site(&server()).await;
    session(&site_of_one, "alice")
        .await
        .call("work", json!({}))
        .await;
    let site_of_other = site(&server()).await;
    let alice = session(&site_of_other, "alice").await;
    assert_eq!(tools(&alice).await, ["close", "search"]);
}

#[tokio::test]
async fn a_guard_knows_who_calls() {
    let flow = Workflow::builder("w").state("a", |s| {
        s.initial().tool("go", |t| {
            t.when("principal.id == 'alice'").success(end("a"))
        })
    });
    let server = Server::builder("s", "0").tool(echo("go"));
    let server = server.workflow(flow.build().unwrap()).build().unwrap();
    let site = site(&server).await;
    let result = session(&site, "alice").await.call("go", json!({})).await;
    assert_eq!(at(&result), "a", "{result}");
    let refused = session(&site, "bob").await.call("go", json!({})).await;
    let code = &refused["_meta"]["dev.interlock/refusal"]["code"];
    assert_eq!(*code, 1082, "{refused}");
}

#[tokio::test]
async fn nobody_is_served_where_nobody_is_authenticated() {
    let server = desk_with(settings(), tool("work")).build().unwrap();
    let (_ours, theirs) = tokio::io::duplex(64);
    let (reader, writer) = tokio::io::split(theirs);
    let refused = server.serve(reader, writer, std::future::pending()).await;
    let why = "the workflow has the scope `principal`, and nobody is authenticated here: serve it \
               over HTTP with an authenticator";
    assert_eq!(refused.unwrap_err().to_string(), why);
    let refused = server.router(HttpOptions::default());
    assert_eq!(refused.err().unwrap().to_string(), why);
}

/// Lets everybody in, and knows nobody.
struct Careless;

#[async_trait::async_trait]
impl Authenticator for Careless {
    async fn authenticate(&self, _: &http::request::Parts) -> Result<Principal, Denied> {
        Ok(Principal::anonymous())
    }
}

#[tokio::test]
async fn whoever_is_let_in_without_a_name_has_no_instance() {
    let (work, mut runs) = held("work", OnCancel::GoesOn);
    runs.let_go(10);
    let server = desk_with(settings(), work).build().unwrap();
    let options = HttpOptions::default().authenticator(Careless);
    let site = Site::open(&server, options).await;
    let answer = site.send(modern_call(1, "work", json!({}))).await;
    let answer = answer.json().await;
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    assert_eq!(refusal(&answer["result"]), 1015, "{answer}");
    let hello = Hello::version(SESSIONS).request();
    let answer = site.send(hello).await;
    assert_ne!(answer.status, 200);
    assert!(runs.is_quiet());
    assert!(
        server
            .operator()
            .instances(None, 10)
            .await
            .unwrap()
            .is_empty()
    );
}
