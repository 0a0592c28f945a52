//! What a state tells the model when it is entered.

use crate::support::{
    client::client_of,
    messages::{modern, texts, told},
    tools::{echo, tool},
};
use interlock::{
    Prompt, Server, Workflow,
    workflow::{Builder, end, to},
};
use interlock_testkit::connect;
use serde_json::{Value, json};

fn server(flow: Builder) -> Server {
    Server::builder("s", "0")
        .tool(echo("find"))
        .tool(tool("pay"))
        .tool(tool("peek"))
        .prompt(Prompt::text("ask", "What?"))
        .workflow(flow.build().unwrap())
        .build()
        .unwrap()
}

fn flow() -> Builder {
    Workflow::builder("w")
        .state("new", |s| {
            s.initial()
                .tool("find", |t| {
                    t.success(to("found").set("order", "args.order"))
                        .error("odd")
                })
                .prompt("ask", |p| p.success("odd"))
        })
        .state("found", |s| {
            s.instructions("Now pay {{ctx.order}}, visit {{visits}} of {{state}}.")
                .tool("pay", |t| t.success("paid"))
                .tool("peek", |t| t.success("found"))
        })
        .state("odd", |s| {
            s.instructions("Odd.")
                .tool("pay", |t| t.success(end("paid")))
        })
        .state("paid", |s| {
            s.instructions("Say that {{ctx.order}} is paid.").terminal()
        })
}

#[tokio::test]
async fn a_state_tells_what_to_do_when_it_is_entered_and_only_then() {
    let (mut client, _connection) = client_of(&server(flow())).await;
    let (_, found) = client.call("find", json!({"order": "A-1"})).await;
    let now = "Now pay A-1, visit 1 of found.";
    assert_eq!(texts(&found), ["done", now]);
    assert_eq!(*told(&found), now);
    assert_eq!(found["structuredContent"], json!({"order": "A-1"}));
    let (_, peeked) = client.call("peek", json!({})).await;
    assert_eq!(texts(&peeked), ["peek is done"]);
    assert_eq!(*told(&peeked), Value::Null);
    let (_, refused) = client.call("find", json!({})).await;
    assert_eq!(texts(&refused).len(), 1);
    // It ended there, and what it remembered is gone by now.
    let (_, paid) = client.call("pay", json!({})).await;
    assert_eq!(texts(&paid), ["pay is done", "Say that A-1 is paid."]);
}

/// A client that begins is told the same as one that comes to a state by a step.
#[tokio::test]
async fn the_initial_state_tells_what_to_do_at_the_start() {
    let flow = || {
        let flow = flow().state("new", |s| {
            s.instructions("Find {{state}}, visit {{visits}}.")
        });
        Server::builder("s", "0")
            .tool(echo("find"))
            .tool(tool("pay"))
            .tool(tool("peek"))
            .prompt(Prompt::text("ask", "What?"))
            .workflow(flow.build().unwrap())
    };
    let of_state = "Find new, visit 1.";
    let both = format!("Be kind.\n\n{of_state}");
    for (builder, wanted) in [(flow(), of_state), (flow().instructions("Be kind."), &both)] {
        let (mut client, _connection) = connect(&builder.build().unwrap());
        let answer = client.initialize().await;
        assert_eq!(answer["result"]["instructions"], *wanted, "{answer}");
        let answer = client.request("server/discover", modern(json!({}))).await;
        assert_eq!(answer["result"]["instructions"], *wanted, "{answer}");
    }
}

#[tokio::test]
async fn a_failure_and_a_prompt_tell_it_beside_their_result() {
    let (mut client, _connection) = client_of(&server(flow())).await;
    let (_, failed) = client.call("find", json!({"fail": true})).await;
    assert_eq!(texts(&failed), ["as asked"]);
    assert_eq!(*told(&failed), "Odd.");
    client.call("pay", json!({})).await;
    let said = client.request("prompts/get", json!({"name": "ask"})).await;
    assert_eq!(*told(&said["result"]), "Odd.", "{said}");
}
