//! An operator and a server that runs: `interlock pending`, `approve`, `deny`, `settle`, `reset`.

use crate::{
    served::{Served, text},
    stage::{Ended, Stage},
};
use serde_json::{Value, json};
use std::{fs, os::unix::fs::PermissionsExt};

/// `guess` says through the pipe `begun` that it runs, and does not stop when it is asked to.
const FLOW: &str = r#"
interlock: 1
name: till
tools:
  pay: { description: Pay, command: [echo, paid] }
  guess: { description: Guess, command: [sh, -c, "trap '' TERM; exec 3>begun; echo begun >&3; while :; do read line <gate; done"] }
states:
  new:
    initial: true
    tools:
      pay: { success: paid, approve: "Pay {{args.amount}}?" }
      guess: { success: paid, unknown: hold }
  paid: { tools: { pay: { success: end, approve: "Again?" } } }
  end: { terminal: true }
"#;

struct Till {
    stage: Stage,
    served: Served,
}

impl Till {
    fn new() -> Self {
        let stage = Stage::new().with("flow.yaml", FLOW);
        let served = Served::start(&stage, &[]);
        Self { stage, served }
    }

    fn pay(&mut self) -> Value {
        self.served.call_with("pay", json!({"amount": 5}))
    }

    /// An operator does something that works.
    #[track_caller]
    fn operate(&self, arguments: &[&str]) -> String {
        let Ended {
            code,
            stdout,
            stderr,
        } = self.stage.run(arguments);
        assert_eq!((code, &*stderr), (Some(0), ""), "{arguments:?}");
        stdout
    }

    /// The instances that wait.
    fn pending(&self) -> Value {
        serde_json::from_str(&self.operate(&["pending", "--json"])).unwrap()
    }
}

#[track_caller]
fn refused(result: &Value, code: u64) {
    let refusal = &result["_meta"]["dev.interlock/refusal"];
    assert_eq!(refusal["code"], code, "{result}");
}

fn state(result: &Value) -> &str {
    let place = &result["_meta"]["dev.interlock/workflow"];
    place["state"].as_str().unwrap_or_default()
}

#[test]
fn a_call_that_an_operator_approves_runs_once() {
    let mut till = Till::new();
    assert_eq!(till.operate(&["pending"]), "nothing waits\n");
    refused(&till.pay(), 1071);
    let told = till.operate(&["pending"]);
    for line in [
        "  question   Pay 5?",
        "  tool       pay",
        "  arguments  {\"amount\":5}",
        "  state      new",
        "1 decision waiting",
    ] {
        assert!(told.lines().any(|told| told == line), "{line}: {told}");
    }
    let pending = till.pending();
    let id = pending[0]["approvals"][0]["id"].as_str().unwrap();
    assert!(
        told.contains(&format!("interlock approve {id}\n")),
        "{told}"
    );
    let done = till.operate(&[
        "approve",
        &id[..6],
        "--by",
        "ann",
        "--reason",
        "a good customer",
    ]);
    assert!(
        done.starts_with("approved; the same call may now run once: instance "),
        "{done}"
    );
    assert_eq!(till.operate(&["pending"]), "nothing waits\n");
    let paid = till.pay();
    assert_eq!((text(&paid), state(&paid)), ("paid", "paid"));
    refused(&till.pay(), 1071);
}

#[test]
fn a_call_that_an_operator_denies_is_refused() {
    let mut till = Till::new();
    refused(&till.pay(), 1071);
    let pending = till.pending();
    let id = pending[0]["approvals"][0]["id"].as_str().unwrap();
    till.operate(&["deny", id]);
    refused(&till.pay(), 1083);
    let late = till.stage.run(&["approve", "abcdef"]);
    assert_eq!(late.code, Some(1));
    assert!(
        late.stderr.contains("no call waits for approval `abcdef`"),
        "{late:?}"
    );
}

#[test]
fn an_operator_says_how_a_call_ended_of_which_nobody_knows() {
    let mut till = Till::new();
    let begun = till.stage.listen("begun");
    till.stage.pipe("gate");
    let call = till.served.begin_call("guess");
    assert_eq!(begun.next().as_deref(), Some("begun"));
    let params = json!({"requestId": call});
    till.served
        .send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}));
    assert_eq!(begun.next(), None, "it was killed");
    refused(&till.pay(), 1084);
    let told = till.operate(&["pending"]);
    assert!(told.contains("  tool       guess\n"), "{told}");
    let id = till.pending()[0]["id"].as_str().unwrap().to_owned();
    assert!(told.starts_with(&format!("on hold {id}\n")), "{told}");
    let done = till.operate(&["settle", &id, "success", "--reason", "the bank says so"]);
    assert_eq!(done, format!("settled: instance {id} is in state paid\n"));
    let again = till.stage.run(&["settle", &id, "success"]);
    assert_eq!(again.code, Some(1));
    assert!(again.stderr.contains("holds no call"), "{again:?}");
}

#[test]
fn an_operator_lets_an_instance_begin_anew() {
    let mut till = Till::new();
    refused(&till.pay(), 1071);
    let pending = till.pending();
    let id = pending[0]["id"].as_str().unwrap();
    till.operate(&[
        "approve",
        pending[0]["approvals"][0]["id"].as_str().unwrap(),
    ]);
    assert_eq!(state(&till.pay()), "paid");
    let done = till.operate(&["reset", id]);
    assert_eq!(done, format!("reset: instance {id} is in state new\n"));
    let unknown = till.stage.run(&["reset", "nobody"]);
    assert_eq!(unknown.code, Some(1));
    assert!(
        unknown.stderr.contains("there is no instance `nobody`"),
        "{unknown:?}"
    );
}

#[test]
fn a_server_is_found_unless_there_are_several_or_none() {
    let stage = Stage::new().with("flow.yaml", FLOW);
    let shut = Served::start(&stage, &["--no-control"]);
    let none = stage.run(&["pending"]);
    assert_eq!(none.code, Some(2));
    assert!(none.stderr.contains("no server runs"), "{none:?}");
    drop(shut);

    let (one, other) = (Served::start(&stage, &[]), Served::start(&stage, &[]));
    let several = stage.run(&["pending"]);
    assert_eq!(several.code, Some(2));
    let mut paths = several
        .stderr
        .lines()
        .filter_map(|line| line.strip_prefix("  --control "));
    let path = paths.next().unwrap();
    assert_eq!(paths.count(), 1, "{several:?}");
    assert_eq!(
        fs::metadata(path).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let named = stage.run(&["pending", "--control", path]);
    assert_eq!((named.code, &*named.stdout), (Some(0), "nothing waits\n"));

    // One that is killed leaves its socket behind, and is not counted.
    one.signal("-KILL");
    assert_eq!(one.code(), None);
    assert_eq!(stage.run(&["pending"]).stdout, "nothing waits\n");
    assert_eq!(other.code(), Some(0));
    assert_eq!(stage.run(&["pending"]).code, Some(2));
    let left = fs::read_dir(stage.path("interlock")).unwrap().count();
    assert_eq!(left, 1, "one that ends removes its socket");
}

#[test]
fn a_socket_can_have_a_place_of_its_own_and_must_not_fail_there() {
    let stage = Stage::new()
        .with("flow.yaml", FLOW)
        .with("taken", "precious");
    let served = Served::start(&stage, &["--control", "mine.sock"]);
    let told = stage.run(&["pending", "--control", "mine.sock"]);
    assert_eq!((told.code, &*told.stdout), (Some(0), "nothing waits\n"));
    for path in ["mine.sock", "taken", "missing/mine.sock"] {
        let ended = stage.run(&["serve", "flow.yaml", "--control", path]);
        assert_eq!(ended.code, Some(1), "{path}");
        assert!(
            ended.stderr.contains(&format!("cannot listen on {path}")),
            "{ended:?}"
        );
    }
    assert_eq!(fs::read_to_string(stage.path("taken")).unwrap(), "precious");
    assert_eq!(served.code(), Some(0));
    assert!(!stage.path("mine.sock").exists());
}

#[test]
fn a_server_serves_where_no_socket_can_be_made() {
    let stage = Stage::new()
        .with("flow.yaml", FLOW)
        .with("interlock", "no folder");
    let mut served = Served::start(&stage, &[]);
    served.logged("no operator can connect");
    refused(&served.call_with("pay", json!({"amount": 5})), 1071);
    assert_eq!(served.code(), Some(0));
}

/// A server that hangs up has not done it, however the system words that.
#[test]
fn a_server_that_hangs_up_is_a_failure() {
    let stage = Stage::new();
    let path = stage.path("deaf.sock");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let deaf = std::thread::spawn(move || {
        for _ in 0..3 {
            drop(listener.accept().unwrap());
        }
    });
    for _ in 0..3 {
        let ended = stage.run(&["reset", "0123", "--control", "deaf.sock"]);
        assert_eq!((ended.code, &*ended.stdout), (Some(1), ""));
        assert!(ended.stderr.contains("the server"), "{}", ended.stderr);
    }
    deaf.join().unwrap();
}
