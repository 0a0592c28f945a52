//! How many programs run at once.

use crate::stage::{Heard, Stage};
use interlock::workflow::file;
use interlock_gateway::Options;
use interlock_testkit::{Client, ManualClock, connect};
use serde_json::{Value, json};
use std::{num::NonZeroUsize, sync::Arc, time::Duration};

/// `print` and `scan` say that they run, and end once something comes through `gate`.
const FILE: &str = r#"
interlock: 1
name: office
tools:
  print: { description: P, timeout: 1h, command: [sh, -c, "exec 3>begun; echo print >&3; read line <gate"] }
  scan: { description: S, timeout: 1h, command: [sh, -c, "exec 3>begun; echo scan >&3; read line <gate"] }
resources:
  "paper://{id}": { command: [echo, paper] }
states:
  open:
    initial: true
    tools: { print: done, scan: { success: done, timeout: late, error: late } }
    resources: { "paper://{id}": done }
  late: { tools: { print: done } }
  done: { terminal: true }
"#;

struct Office {
    stage: Stage,
    clock: Arc<ManualClock>,
    server: interlock::Server,
    begun: Heard,
    /// What is heard does not end with the program that says it.
    _writer: std::fs::File,
}

impl Office {
    fn with(set: impl FnOnce(&mut Options)) -> Self {
        let stage = Stage::new();
        let begun = stage.listen("begun");
        let mut writer = std::fs::File::options();
        let writer = writer
            .write(true)
            .open(stage.folder().join("begun"))
            .unwrap();
        stage.pipe("gate");
        let mut options = Options::default();
        set(&mut options);
        let file = file::read(FILE.as_bytes()).unwrap();
        let clock = Arc::new(ManualClock::new());
        let builder = interlock_gateway::builder(&file, stage.folder(), &options).unwrap();
        let server = builder.clock(Arc::clone(&clock) as _).build().unwrap();
        Self {
            stage,
            clock,
            server,
            begun,
            _writer: writer,
        }
    }

    /// A client that has called something. What it called runs by then, or waits.
    async fn client(&self, method: &str, params: Value) -> (Client, i64) {
        let (mut client, _) = connect(&self.server);
        client.initialize().await;
        let id = client.begin(method, params).await;
        client.request("ping", json!({})).await;
        (client, id)
    }

    async fn call(&self, tool: &str) -> (Client, i64) {
        let params = json!({"name": tool, "arguments": {}});
        self.client("tools/call", params).await
    }

    /// Lets one program end, and gives the answer to its call.
    async fn end(&self, (mut client, call): (Client, i64)) -> Value {
        let gate = self.stage.folder().join("gate");
        let opened = tokio::task::spawn_blocking(|| std::fs::write(gate, "\n"));
        let (_, answer) = client.until(call).await;
        opened.await.unwrap().unwrap();
        answer
    }
}

#[track_caller]
fn refused(answer: &Value) {
    let refusal = &answer["result"]["_meta"]["dev.interlock/refusal"];
    assert_eq!(refusal["code"], 1069, "{answer}");
    let place = &answer["result"]["_meta"]["dev.interlock/workflow"];
    assert_eq!(place["state"], "open", "it moves nothing");
}

const ONE: NonZeroUsize = NonZeroUsize::MIN;

#[tokio::test]
async fn a_server_runs_so_many_programs_at_once_and_refuses_who_waits_too_long() {
    let mut office = Office::with(|options| options.programs = ONE);
    let print = office.call("print").await;
    assert_eq!(office.begun.next().await.as_deref(), Some("print"));
    let (mut late, call) = office.call("scan").await;
    office.clock.advance(Duration::from_secs(30));
    refused(&late.until(call).await.1);

    let scan = office.call("scan").await;
    assert_eq!(office.end(print).await["result"]["isError"], false);
    assert_eq!(office.begun.next().await.as_deref(), Some("scan"));
    assert_eq!(office.end(scan).await["result"]["isError"], false);
}

#[tokio::test]
async fn one_tool_runs_so_often_at_once_and_leaves_places_to_others() {
    let mut office = Office::with(|options| {
        options.programs = NonZeroUsize::new(2).unwrap();
        options.programs_of_a_tool = ONE;
    });
    let print = office.call("print").await;
    assert_eq!(office.begun.next().await.as_deref(), Some("print"));
    let (mut late, call) = office.call("print").await;
    let scan = office.call("scan").await;
    assert_eq!(office.begun.next().await.as_deref(), Some("scan"));
    office.clock.advance(Duration::from_secs(30));
    refused(&late.until(call).await.1);
    drop((print, scan));
}

#[tokio::test]
async fn the_program_of_a_resource_waits_for_a_place_too() {
    let mut office = Office::with(|options| options.programs = ONE);
    let print = office.call("print").await;
    assert_eq!(office.begun.next().await.as_deref(), Some("print"));
    let read = || office.client("resources/read", json!({"uri": "paper://1"}));
    let (mut late, call) = read().await;
    office.clock.advance(Duration::from_secs(30));
    let (_, answer) = late.until(call).await;
    assert_eq!(answer["error"]["data"]["refusal"]["code"], 1069, "{answer}");
    let (mut reader, call) = read().await;
    office.end(print).await;
    let (_, answer) = reader.until(call).await;
    assert_eq!(answer["result"]["contents"][0]["text"], "paper\n");
}
