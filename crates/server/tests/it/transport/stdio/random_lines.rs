//! Random lines, good and bad, in random pieces: what must hold however the wind blows.

use crate::support::{
    desk::desk_with,
    dice::Dice,
    ends::{Ends, ended, ends},
    messages::{hello, is_one_message, modern},
};
use interlock::{
    Context, Failure, Server, Tool,
    schemars::{self, JsonSchema},
    workflow::Settings,
};
use interlock_testkit::PATIENCE;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

#[derive(serde::Deserialize, JsonSchema)]
struct Weather {
    yields: usize,
    fail: bool,
}

fn server() -> Server {
    let work = Tool::new("work", |weather: Weather, context: Context| async move {
        for _ in 0..weather.yields {
            tokio::task::yield_now().await;
            if context.is_cancelled() {
                return Err(Failure::stopped());
            }
        }
        if weather.fail {
            return Err(Failure::new("as asked"));
        }
        Ok("done")
    });
    desk_with(Settings::default(), work).build().unwrap()
}

/// What the client has sent, and what it may hope for.
#[derive(Default)]
struct Sent {
    bytes: Vec<u8>,
    /// How often each id was used for something that is answered with that id.
    used: BTreeMap<String, usize>,
    /// Those that somebody tried to take back.
    taken_back: Vec<String>,
    /// Lines that are answered without an id.
    unreadable: usize,
}

impl Sent {
    fn line(&mut self, line: &str) {
        self.bytes.extend_from_slice(line.as_bytes());
        self.bytes.push(b'\n');
    }

    fn request(&mut self, id: &Value, method: &str, params: &Value) {
        *self.used.entry(id.to_string()).or_default() += 1;
        self.line(
            &json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string(),
        );
    }
}

fn weather(dice: &mut Dice, lines: usize) -> Sent {
    let mut sent = Sent::default();
    sent.request(&json!("hello"), "initialize", &hello("2025-11-25"));
    let methods = [
        "tools/call",
        "tools/call",
        "tools/call",
        "tools/list",
        "resources/read",
        "resources/list",
        "prompts/get",
        "prompts/list",
        "ping",
        "initialize",
        "nobody/knows",
        "server/discover",
        "resources/subscribe",
        "tasks/get",
    ];
    let tools = ["work", "work", "close", "peek", "search", "nowhere", "nope"];
    for n in 0..lines {
        let id = match dice.roll(3) {
            0 => json!(n),
            1 => json!(format!("n{n}")),
            _ => json!(-(n as i64) - 1),
        };
        let mut params = match dice.roll(8) {
            0 => json!({"name": 5}),
            1 => json!([1]),
            2 => json!(null),
            _ => json!({
                "name": dice.pick(&tools),
                "uri": "note://rules",
                "arguments": {"yields": dice.roll(40), "fail": dice.roll(3) == 0, "who": "me"},
            }),
        };
        if params.is_object() && dice.roll(5) == 0 {
            params = modern(params);
        }
        match dice.roll(20) {
            0 => {
                let whole = json!({"jsonrpc": "2.0", "id": id, "method": "ping"}).to_string();
                let cut = 1 + dice.roll(whole.len() - 1);
                sent.line(&whole[..cut]);
                sent.unreadable += 1;
            }
            1 => {
                let noise: String = (0..1 + dice.roll(60))
                    .map(|_| {
                        dice.pick(&[
                            '{', '}', '[', ']', '"', ':', ',', '\\', 'x', '0', 'é', '\u{7f}', '\0',
                        ])
                    })
                    .collect();
                // Nothing that begins like this is JSON.
                sent.line(&format!("#{noise}"));
                sent.unreadable += 1;
            }
            2 => {
                let bytes: Vec<u8> = (0..1 + dice.roll(40))
                    .map(|_| u8::try_from(128 + dice.roll(128)).unwrap())
                    .collect();
                sent.bytes.extend_from_slice(b"\xff");
                sent.bytes.extend_from_slice(&bytes);
                sent.bytes.push(b'\n');
                sent.unreadable += 1;
            }
            3 => {
                sent.line(dice.pick(&["", " ", "\r", "\t\t \r"]));
            }
            4 => {
                sent.line(dice.pick(&[
                    "[]",
                    "5",
                    "null",
                    "{}",
                    r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#,
                ]));
                sent.unreadable += 1;
            }
            5 => {
                let bad = dice.pick(&["null", "true", "1.5", "{}", "[1]", "1e99"]);
                sent.line(&format!(
                    r#"{{"jsonrpc":"2.0","id":{bad},"method":"ping"}}"#
                ));
                sent.unreadable += 1;
            }
            6 => {
                *sent.used.entry(id.to_string()).or_default() += 1;
                let method = dice.pick(&[json!(5), json!(null), json!({})]);
                let version = dice.pick(&["2.0", "1.0"]);
                sent.line(&json!({"jsonrpc": version, "id": id, "method": method}).to_string());
            }
            7 => {
                let method = dice.pick(&[
                    "notifications/initialized",
                    "tools/call",
                    "x",
                    "notifications/progress",
                ]);
                sent.line(
                    &json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string(),
                );
            }
            8 => sent.line(&json!({"jsonrpc": "2.0", "id": id, "result": params}).to_string()),
            9 | 10 => {
                let known: Vec<_> = sent.used.keys().cloned().collect();
                let back = dice.pick(&known);
                sent.line(&format!(
                    r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{back}}}}}"#
                ));
                sent.taken_back.push(back);
            }
            11 => {
                // Somebody's id once more, be it in flight or not.
                let known: Vec<_> = sent.used.keys().cloned().collect();
                let again: Value = serde_json::from_str(&dice.pick(&known)).unwrap();
                sent.request(&again, dice.pick(&["ping", "tools/call"]), &params);
            }
            _ => sent.request(&id, dice.pick(&methods), &params),
        }
    }
    sent.request(&json!("last"), "ping", &json!({}));
    sent
}

async fn storm(seed: u64, lines: usize) {
    let mut dice = Dice::new(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let sent = weather(&mut dice, lines);
    let Ends {
        mut to_server,
        from_server,
        task,
    } = ends(&server());
    let bytes = sent.bytes.clone();
    let writer = tokio::spawn(async move {
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let most = dice.pick(&[1, 7, 100, 5_000]);
            let (now, later) = rest.split_at((1 + dice.roll(most)).min(rest.len()));
            to_server.write_all(now).await.unwrap();
            if dice.roll(4) == 0 {
                tokio::task::yield_now().await;
            }
            rest = later;
        }
    });
    let mut answered: BTreeMap<String, usize> = BTreeMap::new();
    let mut without_id = 0;
    let mut output = BufReader::new(from_server).lines();
    while let Some(line) = tokio::time::timeout(PATIENCE, output.next_line())
        .await
        .unwrap()
        .unwrap()
    {
        let message: Value = serde_json::from_str(&line).unwrap();
        is_one_message(&message);
        match message.get("id") {
            Some(id) => *answered.entry(id.to_string()).or_default() += 1,
            None if message.get("error").is_some() => without_id += 1,
            None => assert!(
                message["method"]
                    .as_str()
                    .unwrap()
                    .ends_with("/list_changed"),
                "{message}"
            ),
        }
    }
    writer.await.unwrap();
    ended(task).await;

    assert_eq!(without_id, sent.unreadable, "seed {seed}");
    assert_eq!(answered.get("\"last\""), Some(&1), "seed {seed}");
    for (id, times) in &answered {
        let used = sent.used.get(id).copied().unwrap_or_default();
        assert!(
            (1..=used).contains(times),
            "seed {seed}: {id} was answered {times} times"
        );
    }
    for id in sent.used.keys().filter(|id| !sent.taken_back.contains(id)) {
        assert!(
            answered.contains_key(id),
            "seed {seed}: {id} was never answered"
        );
    }
    assert!(answered.len() > lines / 4, "seed {seed}");
}

#[tokio::test]
async fn every_request_is_answered_once_and_the_server_ends_well() {
    for seed in 1..=40 {
        storm(seed, 300).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_request_is_answered_once_on_several_threads() {
    for seed in 41..=60 {
        storm(seed, 300).await;
    }
}
