//! `interlock pending`: what waits for an operator.

use crate::{
    Stop, block_on,
    control::{Client, Target},
    report::plural,
    simulate::spelt,
    terminal::{output, printable},
};
use interlock::workflow::Outcome;
use serde_json::Value;
use std::{
    fmt::Write as _,
    io::Write,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Show what waits for an operator of a server that runs
///
/// That is each call that needs a person's yes and whose client cannot ask one, and each instance
/// on hold because nobody knows what its last call did.
#[derive(clap::Args)]
#[command(after_help = "\
Exit codes:
  0  it was shown, be it nothing
  1  the server did not say
  2  no server was found, or several

Examples:
  interlock pending
  interlock pending --json
  interlock pending --control /run/user/1000/interlock/refund-4711.sock")]
pub(crate) struct Arguments {
    #[command(flatten)]
    target: Target,
    /// Print the instances that wait as JSON, as the server tells them
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Stop> {
    let waiting = block_on(async {
        let mut client = Client::connect(&arguments.target).await?;
        client.pending().await
    })??;
    let mut stdout = output();
    if arguments.json {
        writeln!(stdout, "{:#}", Value::Array(waiting))?;
        return Ok(());
    }
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let told: Vec<_> = waiting.iter().flat_map(|one| told(one, now)).collect();
    match told.len() {
        0 => writeln!(stdout, "nothing waits")?,
        count => writeln!(
            stdout,
            "{}\n{} waiting",
            told.join("\n"),
            plural(count, "decision")
        )?,
    }
    Ok(())
}

/// Everything that one instance waits for, each in a few lines.
fn told(instance: &Value, now: Duration) -> Vec<String> {
    let approvals = instance["approvals"].as_array().into_iter().flatten();
    let pending = approvals.filter(|asked| asked["standing"]["pending"].is_object());
    let asked = pending.map(|asked| approval(instance, asked, now));
    let held = Some(&instance["held"]).filter(|held| held.is_object());
    let held = held.map(|held| hold(instance, held));
    asked.chain(held).map(|text| printable(&text)).collect()
}

fn approval(instance: &Value, asked: &Value, now: Duration) -> String {
    let mut told = format!("approval {}\n", text(&asked["id"]));
    line(&mut told, "question", &text(&asked["question"]));
    call(&mut told, instance, asked);
    let until = asked["standing"]["pending"]["until"].as_u64();
    let left = Duration::from_millis(until.unwrap_or_default()).saturating_sub(now);
    let left = Duration::from_secs(left.as_secs());
    line(&mut told, "left", &spelt(left));
    let id = text(&asked["id"]);
    line(&mut told, "decide", &format!("interlock approve {id}"));
    line(&mut told, "or", &format!("interlock deny {id}"));
    told
}

fn hold(instance: &Value, held: &Value) -> String {
    let id = text(&instance["id"]);
    let mut told = format!("on hold {id}\n");
    line(&mut told, "question", "how did this call end?");
    call(&mut told, instance, held);
    let known = Outcome::ALL
        .into_iter()
        .filter(|one| *one != Outcome::Unknown);
    let known: Vec<_> = known.map(|outcome| outcome.to_string()).collect();
    let known = known.join("|");
    line(
        &mut told,
        "decide",
        &format!("interlock settle {id} {known}"),
    );
    told
}

/// What is called, with what, by whom, and where its instance stands.
fn call(told: &mut String, instance: &Value, call: &Value) {
    let (kind, name) = (
        text(&call["artifact"]["kind"]),
        text(&call["artifact"]["name"]),
    );
    line(told, &kind, &name);
    for (what, value) in [("arguments", &call["args"]), ("caller", &call["principal"])] {
        if !value.is_null() {
            line(told, what, &text(value));
        }
    }
    let shortened = &call["shortened"];
    if shortened.is_object() {
        let (begins, digest) = (text(&shortened["begins"]), text(&shortened["sha256"]));
        let bytes = &shortened["bytes"];
        line(
            told,
            "arguments",
            &format!("{begins}… ({bytes} bytes, SHA-256 {digest})"),
        );
    }
    line(told, "instance", &text(&instance["id"]));
    line(told, "state", &text(&instance["state"]));
}

fn line(told: &mut String, what: &str, value: &str) {
    // A text of others stays on its line.
    let value = value.replace('\n', "\\n");
    writeln!(told, "  {what:<10} {value}").expect("writing to a string cannot fail");
}

/// A text as it is, and anything else as JSON.
fn text(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_approval_is_told_with_all_that_decides_it() {
        let instance = json!({
            "id": "abc",
            "state": "found",
            "held": null,
            "approvals": [
                {
                    "id": "f00",
                    "artifact": { "kind": "tool", "name": "refund" },
                    "question": "Refund 5\nfor A-1?",
                    "args": { "order": "A-1\u{1b}[2J" },
                    "principal": null,
                    "standing": { "pending": { "until": 91_500 } },
                },
                { "id": "f01", "standing": { "approved": { "until": 91_500 } } },
            ],
        });
        let all = told(&instance, Duration::from_millis(1_000));
        assert_eq!(
            all,
            [
                "approval f00\n  question   Refund 5\\nfor A-1?\n  tool       refund\n  \
              arguments  {\"order\":\"A-1\\u001b[2J\"}\n  instance   abc\n  state      found\n  \
              left       1m 30s\n  decide     interlock approve f00\n  \
              or         interlock deny f00\n"
            ]
        );
    }

    #[test]
    fn arguments_that_were_not_kept_are_told_by_their_beginning_size_and_digest() {
        let mut told = String::new();
        let shortened = json!({ "begins": "{\"a\":", "bytes": 70_000, "sha256": "1f" });
        call(
            &mut told,
            &json!({}),
            &json!({ "args": null, "shortened": shortened }),
        );
        let wanted = "  arguments  {\"a\":… (70000 bytes, SHA-256 1f)\n";
        assert!(told.contains(wanted), "{told}");
    }

    #[test]
    fn an_instance_on_hold_is_told_with_how_to_settle_it() {
        let instance = json!({
            "id": "abc",
            "state": "found",
            "held": {
                "artifact": { "kind": "tool", "name": "refund" },
                "args": {},
                "principal": { "subject": "ann" },
            },
            "approvals": [],
        });
        let all = told(&instance, Duration::ZERO);
        assert_eq!(
            all,
            [
                "on hold abc\n  question   how did this call end?\n  tool       refund\n  \
              arguments  {}\n  caller     {\"subject\":\"ann\"}\n  instance   abc\n  \
              state      found\n  decide     interlock settle abc success|error|timeout|cancelled\n"
            ]
        );
    }
}
