//! A recorded run, played on any wire.

use super::{
    Verdict::Matches,
    graph::{Script, build, catalogue, serve},
    kind,
    player::{Player, Venue},
    text, verdict,
};
use crate::support::messages::{codes, refusal};
use interlock::workflow::Kind;
use interlock_testkit::PATIENCE;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::mpsc;

/// One recorded run, with everything that is needed to play it.
pub(super) struct Run<'a, V: Venue> {
    case: &'a Value,
    version: &'static str,
    script: Arc<Script>,
    started: mpsc::UnboundedReceiver<()>,
    venue: V,
    client: V::Player,
    /// Calls that have begun and not been answered: the one that runs, then those that wait.
    begun: Vec<i64>,
}

impl<'a, V: Venue> Run<'a, V> {
    pub(super) async fn new(case: &'a Value, graph: &Value, version: &'static str) -> Self {
        let (script, started) = Script::new();
        let workflow = build(graph).unwrap();
        if case["id"] == "A06" {
            let told = workflow.check(&catalogue(graph));
            let [finding] = &told[..] else {
                panic!("{told:?}");
            };
            assert_eq!(finding.problem.code(), "bound-nowhere");
            assert!(finding.to_string().contains("t_unbound"), "{finding}");
        }
        let server = serve(graph, workflow, &script).unwrap();
        let venue = V::open(&server).await;
        let client = venue.join(version).await;
        Self {
            case,
            version,
            script,
            started,
            venue,
            client,
            begun: Vec::new(),
        }
    }

    fn id(&self) -> &'a str {
        text(&self.case["id"])
    }

    pub(super) async fn play(mut self) {
        let steps = self.case["steps"].as_array().unwrap();
        for (n, step) in steps.iter().enumerate() {
            let better = &self.case["better_expect"]["state_after"];
            let last = n + 1 == steps.len();
            let after = if last && better.is_string() {
                better
            } else {
                &step["state_after"]
            };
            match text(&step["op"]) {
                "list" => self.list(step).await,
                "list_templates" => self.list_templates().await,
                "invoke" if self.begun.is_empty() => self.invoke(step, after).await,
                "invoke" => self.wait(step).await,
                "begin" => self.begin(text(&step["ident"])).await,
                "finish" => self.finish().await,
                "manual" => self.manual(after).await,
                other => panic!("{}: unknown operation {other}", self.id()),
            }
        }
        nothing_comes(&mut self.client).await;
    }

    async fn list(&mut self, step: &Value) {
        let mut listed = listed(&mut self.client, kind(step)).await;
        listed.sort_unstable();
        assert_eq!(step["expect"], json!(listed), "{}", self.id());
    }

    async fn list_templates(&mut self) {
        let answer = self
            .client
            .request("resources/templates/list", json!({}))
            .await;
        assert_eq!(answer["result"]["resourceTemplates"], json!([]), "{answer}");
    }

    async fn invoke(&mut self, step: &Value, after: &Value) {
        self.script
            .say(step["outcome"].as_str().unwrap_or("success"));
        let before = self.lists().await;
        let (method, params) = request(step);
        let (announced, answer) = self.client.exchange(method, params).await;
        self.answered(step, &answer);
        assert_eq!(
            *after,
            state(&mut self.client).await,
            "{}: {step}",
            self.id()
        );

        let now = self.lists().await;
        let differ: Vec<_> = Kind::ALL
            .into_iter()
            .filter(|kind| before[*kind as usize] != now[*kind as usize])
            .map(|kind| format!("notifications/{kind}s/list_changed"))
            .collect();
        assert_eq!(announced, differ, "{}: {step}", self.id());
        if let Matches = verdict(self.case) {
            assert_eq!(
                step["notifications"],
                json!(announced),
                "{}: {step}",
                self.id()
            );
        }
    }

    fn answered(&self, step: &Value, answer: &Value) {
        let (id, expect, result) = (self.id(), &step["expect"], &answer["result"]);
        let said = result["content"][0]["text"].as_str().unwrap_or_default();
        let recorded = [&expect["tool_error"], &expect["rpc_error"]["message"]];
        let recorded = recorded
            .into_iter()
            .find_map(Value::as_str)
            .unwrap_or_default();
        let sentence = recorded.split(". ").next().unwrap();
        match id {
            "A05" => assert_eq!(codes(answer), (-32602, 1048), "{answer}"),
            "D01" => assert_eq!(refusal(result), 1022, "{answer}"),
            "C01" if expect["rpc_error"].is_object() => {
                assert_eq!(codes(answer), (-32602, 1081), "{answer}");
                assert!(
                    text(&answer["error"]["message"]).starts_with(sentence),
                    "{answer}"
                );
                assert_eq!(
                    answer["error"]["data"]["refusal"]["state"],
                    step["state_after"]
                );
            }
            "A04" | "A06" => {
                assert_eq!(refusal(result), 1081, "{answer}");
                assert!(said.starts_with(sentence), "{answer}");
                let told = &result["_meta"]["dev.interlock/refusal"];
                assert_eq!(told["state"], step["state_after"]);
                assert_eq!(told["allowed"], json!(["t_open_door"]));
                // The door has to be tried with the wrong key before there is a way back.
                let hop = |name, outcome| json!({"kind": "tool", "name": name, "outcome": outcome});
                let path = match id {
                    "A04" => json!([
                        hop("t_open_door", "success"),
                        hop("t_choose_left_path", "success"),
                        hop("t_open_door_with_key", "error"),
                    ]),
                    _ => Value::Null,
                };
                assert_eq!(told["path"], path, "{answer}");
            }
            "C04" => {
                let better = &self.case["better_expect"]["text"];
                assert_eq!(result["contents"][0]["text"], *better, "{answer}");
                assert_eq!(result["contents"][0]["uri"], step["ident"]);
            }
            _ if expect["ok"] == true => {
                assert!(
                    result.is_object() && result["isError"] != true,
                    "{id}: {answer}"
                );
            }
            _ => {
                // The recording puts words of its own before what the body said.
                assert_eq!(result["isError"], true, "{id}: {answer}");
                assert!(
                    !said.is_empty() && recorded.ends_with(said),
                    "{id}: {answer}"
                );
                assert!(refusal(result).is_null(), "{id}: {answer}");
            }
        }
    }

    async fn begin(&mut self, tool: &str) {
        self.script.say("block");
        let id = self.client.begin("tools/call", json!({"name": tool})).await;
        tokio::time::timeout(PATIENCE, self.started.recv())
            .await
            .unwrap()
            .unwrap();
        self.begun.push(id);
    }

    /// A call that comes while another one holds the instance.
    async fn wait(&mut self, step: &Value) {
        self.script.say("success");
        let (method, params) = request(step);
        let id = self.client.begin(method, params).await;
        nothing_comes(&mut self.client).await;
        self.begun.push(id);
    }

    /// The call that holds the instance succeeds; the one that waited is judged again.
    async fn finish(&mut self) {
        assert_eq!(self.id(), "D05");
        let better = &self.case["better_expect"]["fast"];
        assert_eq!(better, "waits for slow, then is refused in sSlow");
        self.script.finish.notify_one();
        let (_, answer) = self.client.until(self.begun[0]).await;
        assert_eq!(answer["result"]["content"][0]["text"], "ok", "{answer}");
        let (_, answer) = self.client.until(self.begun[1]).await;
        assert_eq!(refusal(&answer["result"]), 1081, "{answer}");
        assert_eq!(
            answer["result"]["_meta"]["dev.interlock/refusal"]["state"],
            "sSlow"
        );
        assert_eq!(state(&mut self.client).await, "sSlow");
    }

    async fn manual(&mut self, after: &Value) {
        match self.id() {
            "D08" => self.take_back(after).await,
            "E02" => self.part().await,
            other => panic!("{other} is not known"),
        }
    }

    /// Case D08: begin t, which blocks, take it back, then list.
    async fn take_back(&mut self, after: &Value) {
        self.begin("t").await;
        self.client.take_back(self.begun[0]).await;
        assert_eq!(listed(&mut self.client, Kind::Tool).await, ["t"]);
        assert_eq!(*after, state(&mut self.client).await);
        // The instance is free again.
        self.script.say("success");
        let result = self.calls("t").await;
        assert_eq!(result["content"][0]["text"], "ok", "{result}");
        assert_eq!(state(&mut self.client).await, "sOK");
    }

    /// Case E02: A opens the door; B neither sees nor hears of it, and C begins at the beginning.
    async fn part(&mut self) {
        let mut other = self.venue.join(self.version).await;
        let result = self.calls("t_open_door").await;
        assert_eq!(result["isError"], false, "{result}");
        assert_eq!(state(&mut self.client).await, "C_crossroad");
        let mut here = listed(&mut self.client, Kind::Tool).await;
        here.sort_unstable();
        assert_eq!(
            here,
            [
                "t_choose_left_path",
                "t_choose_right_path",
                "t_press_button"
            ]
        );
        let mut third = self.venue.join(self.version).await;
        for client in [&mut other, &mut third] {
            assert_eq!(listed(client, Kind::Tool).await, ["t_open_door"]);
            assert_eq!(state(client).await, "C_entry");
            nothing_comes(client).await;
        }
        // And the other way round.
        let params = json!({"name": "t_open_door"});
        other.exchange("tools/call", params).await;
        assert_eq!(state(&mut other).await, "C_crossroad");
        let result = self.calls("t_choose_left_path").await;
        assert_eq!(result["isError"], false, "{result}");
        assert_eq!(state(&mut self.client).await, "C_doorL");
        assert_eq!(state(&mut other).await, "C_crossroad");
        assert_eq!(state(&mut third).await, "C_entry");
        nothing_comes(&mut other).await;
        nothing_comes(&mut third).await;
    }

    /// Calls a tool that changes the list of tools.
    async fn calls(&mut self, tool: &str) -> Value {
        let params = json!({"name": tool});
        let (announced, answer) = self.client.exchange("tools/call", params).await;
        assert_eq!(announced, ["notifications/tools/list_changed"], "{answer}");
        answer["result"].clone()
    }

    async fn lists(&mut self) -> Vec<Vec<String>> {
        let mut all = Vec::new();
        for kind in Kind::ALL {
            all.push(listed(&mut self.client, kind).await);
        }
        all
    }
}

pub(super) async fn listed(client: &mut impl Player, kind: Kind) -> Vec<String> {
    let name = match kind {
        Kind::Tool | Kind::Prompt => "name",
        Kind::Resource => "uri",
    };
    let answer = client.request(&format!("{kind}s/list"), json!({})).await;
    let list = answer["result"][format!("{kind}s")]
        .as_array()
        .into_iter()
        .flatten();
    list.map(|one| text(&one[name]).to_owned()).collect()
}

fn request(step: &Value) -> (&'static str, Value) {
    let name = &step["ident"];
    match kind(step) {
        Kind::Tool if step["arguments"].is_object() => (
            "tools/call",
            json!({"name": name, "arguments": step["arguments"]}),
        ),
        Kind::Tool => ("tools/call", json!({"name": name})),
        Kind::Resource => ("resources/read", json!({"uri": name})),
        Kind::Prompt => ("prompts/get", json!({"name": name})),
    }
}

/// Where the client's instance stands. Asking moves nothing.
pub(super) async fn state(client: &mut impl Player) -> String {
    let answer = client
        .request("tools/call", json!({"name": "nowhere"}))
        .await;
    let result = &answer["result"];
    assert_eq!(refusal(result), 1081, "{answer}");
    text(&result["_meta"]["dev.interlock/refusal"]["state"]).to_owned()
}

/// Proves that nothing is on its way: the next thing that comes is the answer to a ping.
async fn nothing_comes(client: &mut impl Player) {
    let answer = client.request("ping", json!({})).await;
    assert_eq!(answer["result"], json!({}));
}
