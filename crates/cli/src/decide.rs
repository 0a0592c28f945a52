//! `interlock approve`, `deny`, `settle` and `reset`: what an operator decides.

use crate::{
    Stop, block_on,
    control::{Client, Decision, Request, Target},
    terminal::{output, printable},
};
use anyhow::anyhow;
use interlock::workflow::Outcome;
use serde_json::Value;
use std::io::Write;

/// How long what an operator says about itself and its reasons may be, in bytes.
const MOST_WORDS: usize = 10_000;

#[derive(clap::Args)]
struct Who {
    #[command(flatten)]
    target: Target,
    /// Why, for the journal
    #[arg(long, value_name = "TEXT", default_value = "", value_parser = words)]
    reason: String,
    /// Who decides, for the journal [default: the number of the user]
    #[arg(long, value_name = "NAME", value_parser = words)]
    by: Option<String>,
}

impl Who {
    fn decides_about(&self, instance: String) -> Decision {
        Decision {
            instance,
            by: self.by.clone(),
            reason: self.reason.clone(),
        }
    }
}

fn words(text: &str) -> Result<String, String> {
    match text.len() > MOST_WORDS {
        true => Err(format!("it has more than {MOST_WORDS} bytes")),
        false => Ok(text.to_owned()),
    }
}

/// Which approval, of which instance.
#[derive(clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Answering {
    /// The id of the approval as `interlock pending` shows it, or its beginning
    approval: String,
    /// The instance, if the same call waits in several
    #[arg(long, value_name = "ID")]
    instance: Option<String>,
    #[command(flatten)]
    who: Who,
}

/// Say how the call ended that put an instance on hold
///
/// The instance goes on from there: the edges of that outcome are taken, with their effects.
#[derive(clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Settling {
    /// The id of the instance as `interlock pending` shows it
    instance: String,
    /// How the call ended: success, error, timeout or cancelled
    #[arg(value_parser = outcome)]
    outcome: Outcome,
    #[command(flatten)]
    who: Who,
}

/// Let an instance begin anew, as if it had just been made
#[derive(clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Resetting {
    /// The id of the instance
    instance: String,
    #[command(flatten)]
    who: Who,
}

const EXIT_CODES: &str = "\
Exit codes:
  0  it is done
  1  the server would not do it, and nothing has changed
  2  no server was found, or several";

pub(crate) fn approve(answering: &Answering) -> Result<(), Stop> {
    answer(
        answering,
        "approved; the same call may now run once",
        |approval, decision| Request::Approve { approval, decision },
    )
}

pub(crate) fn deny(answering: &Answering) -> Result<(), Stop> {
    answer(answering, "denied", |approval, decision| Request::Deny {
        approval,
        decision,
    })
}

fn answer(
    answering: &Answering,
    done: &str,
    request: fn(String, Decision) -> Request,
) -> Result<(), Stop> {
    let Answering {
        approval,
        instance,
        who,
    } = answering;
    decide(who, done, async |client| {
        let waiting = client.pending().await?;
        let (approval, instance) = meant(&waiting, approval, instance.as_deref())?;
        Ok(request(approval, who.decides_about(instance)))
    })
}

pub(crate) fn settle(settling: &Settling) -> Result<(), Stop> {
    let Settling {
        instance,
        outcome,
        who,
    } = settling;
    decide(who, "settled", async |_| {
        let decision = who.decides_about(instance.clone());
        Ok(Request::Settle {
            outcome: *outcome,
            decision,
        })
    })
}

pub(crate) fn reset(resetting: &Resetting) -> Result<(), Stop> {
    let Resetting { instance, who } = resetting;
    decide(who, "reset", async |_| {
        let decision = who.decides_about(instance.clone());
        Ok(Request::Reset { decision })
    })
}

/// Decides, and says where the instance stands then.
fn decide(
    who: &Who,
    done: &str,
    request: impl AsyncFnOnce(&mut Client) -> Result<Request, Stop>,
) -> Result<(), Stop> {
    let instance = block_on(async {
        let mut client = Client::connect(&who.target).await?;
        let request = request(&mut client).await?;
        client.ask(&request).await
    })??;
    let name = |key: &str| instance[key].as_str().unwrap_or_default();
    let told = format!(
        "{done}: instance {} is in state {}",
        name("id"),
        name("state")
    );
    writeln!(output(), "{}", printable(&told))?;
    Ok(())
}

/// The one approval that is meant, and its instance.
fn meant(
    waiting: &[Value],
    approval: &str,
    instance: Option<&str>,
) -> Result<(String, String), Stop> {
    let mut found = Vec::new();
    for one in waiting {
        let id = one["id"].as_str().unwrap_or_default();
        let asked = one["approvals"].as_array().into_iter().flatten();
        let asked = asked.filter_map(|asked| asked["id"].as_str());
        let fitting = asked.filter(|asked| !approval.is_empty() && asked.starts_with(approval));
        if instance.is_none_or(|wanted| wanted == id) {
            found.extend(fitting.map(|asked| (asked.to_owned(), id.to_owned())));
        }
    }
    match (found.pop(), found.len()) {
        (Some(only), 0) => Ok(only),
        (None, _) => Err(Stop::Failed(anyhow!(
            "no call waits for approval `{approval}`; `interlock pending` shows what waits"
        ))),
        (Some(_), others) => Err(Stop::Failed(anyhow!(
            "{} approvals are called `{approval}…`; write more of the id, or name the instance \
             with `--instance ID`",
            others + 1
        ))),
    }
}

fn outcome(name: &str) -> Result<Outcome, String> {
    let mut known = Outcome::ALL
        .into_iter()
        .filter(|one| *one != Outcome::Unknown);
    let named = known.find(|outcome| outcome.to_string() == name);
    named.ok_or_else(|| "a call ends in success, error, timeout or cancelled".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_approval_is_named_by_the_beginning_of_its_id() {
        let waiting = [
            json!({"id": "i1", "approvals": [{"id": "abc"}, {"id": "abd"}]}),
            json!({"id": "i2", "approvals": [{"id": "abc"}]}),
            json!({"id": "i3"}),
        ];
        let of = |approval, instance| match meant(&waiting, approval, instance) {
            Ok((approval, instance)) => format!("{approval} of {instance}"),
            Err(Stop::Failed(error)) => error.to_string(),
            Err(Stop::Told | Stop::Misused(_)) => panic!("{approval}"),
        };
        assert_eq!(of("abd", None), "abd of i1");
        assert_eq!(of("ab", Some("i2")), "abc of i2");
        assert!(of("abc", None).starts_with("2 approvals are called `abc…`"));
        assert!(of("ab", Some("i1")).starts_with("2 approvals"));
        for (approval, instance) in [("x", None), ("", None), ("abd", Some("i2"))] {
            assert!(
                of(approval, instance).starts_with("no call waits"),
                "{approval}"
            );
        }
    }

    #[test]
    fn a_call_is_not_settled_as_unknown() {
        assert_eq!(outcome("error"), Ok(Outcome::Error));
        assert!(outcome("unknown").is_err() && outcome("").is_err());
    }
}
