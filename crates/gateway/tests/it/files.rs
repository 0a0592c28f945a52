//! What a file says is what its server says.

use interlock::{Server, workflow::file};
use interlock_gateway::{Options, builder};
use interlock_testkit::connect;
use serde_json::json;
use std::path::Path;

const FILE: &str = r#"
interlock: 1
name: labels
description: Prints labels.
tools:
  print:
    title: Print
    description: Print a label
    input: { type: object, properties: { order: { type: string } }, required: [order] }
    output: { type: object, properties: { pages: { type: integer } } }
    command: [./label.sh]
    annotations: { readOnlyHint: false, openWorldHint: true }
resources:
  "note://rules": { name: Rules, description: What holds, mime_type: text/plain, text: One each. }
prompts:
  apologise:
    description: Say sorry
    arguments: [{ name: who, description: To whom, required: true }, { name: why }]
    text: "Write to {{who}}{{why}}."
states:
  new:
    initial: true
    tools: { print: end }
    resources: { "note://rules": new }
    prompts: { apologise: new }
  end: { terminal: true }
"#;

fn server(text: &str) -> Server {
    let file = file::read(text.as_bytes()).unwrap();
    builder(&file, Path::new(""), &Options::default())
        .unwrap()
        .build()
        .unwrap()
}

#[tokio::test]
async fn everything_in_the_file_is_on_the_wire() {
    let (mut client, _connection) = connect(&server(FILE));
    let hello = client.initialize().await;
    assert_eq!(hello["result"]["serverInfo"]["name"], "labels");
    assert_eq!(
        hello["result"]["instructions"],
        "Prints labels.\nA workflow decides when each tool may be called: a refusal says what to \
         call first. List the tools again whenever you are told that they have changed."
    );
    let tools = client.request("tools/list", json!({})).await;
    assert_eq!(
        tools["result"]["tools"],
        json!([{
            "name": "print",
            "title": "Print",
            "description": "Print a label",
            "inputSchema": {
                "type": "object",
                "properties": {"order": {"type": "string"}},
                "required": ["order"],
            },
            "outputSchema": {"type": "object", "properties": {"pages": {"type": "integer"}}},
            "annotations": {"readOnlyHint": false, "openWorldHint": true},
        }])
    );
    let resources = client.request("resources/list", json!({})).await;
    assert_eq!(
        resources["result"]["resources"],
        json!([{
            "uri": "note://rules",
            "name": "Rules",
            "description": "What holds",
            "mimeType": "text/plain",
        }])
    );
    let read = json!({"uri": "note://rules"});
    let rules = client.request("resources/read", read).await;
    assert_eq!(rules["result"]["contents"][0]["text"], "One each.");
    let prompts = client.request("prompts/list", json!({})).await;
    assert_eq!(
        prompts["result"]["prompts"],
        json!([{
            "name": "apologise",
            "description": "Say sorry",
            "arguments": [
                {"name": "who", "description": "To whom", "required": true},
                {"name": "why", "required": false},
            ],
        }])
    );
    let get = json!({"name": "apologise", "arguments": {"who": "{{why}}"}});
    let sorry = client.request("prompts/get", get).await;
    assert_eq!(
        sorry["result"]["messages"][0]["content"]["text"],
        "Write to {{why}}."
    );
}

#[tokio::test]
async fn a_file_without_states_gates_nothing() {
    let (mut client, _connection) = connect(&server(
        "interlock: 1\nname: plain\ntools: { hi: { description: Hi, command: [echo, hi] } }\n",
    ));
    let hello = client.initialize().await;
    assert_eq!(hello["result"].get("instructions"), None);
    let (_, result) = client.call("hi", json!({})).await;
    assert_eq!(result["content"][0]["text"], "hi");
}
