//! A refund desk: a workflow on a store, without MCP. `cargo run -p interlock-engine --example
//! refund_desk` tells its story, which stands in `refund_desk.out`.

use interlock_engine::{
    CallFacts, CallInput, Engine, Instance, Operator, Principal, ReserveError, Reserved, Source,
};
use interlock_proto::Time;
use interlock_store::MemoryStore;
use interlock_workflow::{Kind, Outcome, Scope, Settings, Workflow, end};
use serde_json::json;
use std::{
    error::Error,
    fmt::Write as _,
    io::{self, Write as _},
    sync::Arc,
    time::Duration,
};

#[path = "../tests/support/clock.rs"]
mod clock;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let story = story().await?;
    Ok(io::stdout().write_all(story.as_bytes())?)
}

fn desk() -> Result<Workflow, Box<dyn Error>> {
    let one_case = Settings {
        scope: Scope::Global,
        ..Settings::default()
    };
    let workflow = Workflow::builder("refund desk")
        .settings(one_case)
        .state("new", |s| {
            s.initial().tool("look_up_order", |t| t.success("found"))
        })
        .state("found", |s| {
            s.tool("refund", |t| {
                let question = "Refund {{args.amount}} euros?";
                t.approve(question).success(end("new")).error("found")
            })
            .after(DAY, "closed")
        })
        .state("closed", |s| s.tool("reopen", |t| t.success("found")))
        .build()?;
    Ok(workflow)
}

/// What happens at the desk, line by line.
pub(crate) async fn story() -> Result<String, Box<dyn Error>> {
    let mut story = String::new();
    let store = Arc::new(MemoryStore::default());
    let clock = Arc::new(clock::ManualClock::at(Time(0)));
    let open_desk = || -> Result<Engine, Box<dyn Error>> {
        let builder = Engine::builder(desk()?).store(store.clone());
        Ok(builder.clock(clock.clone()).build())
    };

    let engine = open_desk()?;
    let case = engine
        .open(&Source::Caller, &Principal::anonymous())
        .await?;
    writeln!(story, "The desk opens, and the case is {}.", state(&case))?;
    writeln!(story, "{}", call(&case, "refund", None).await?)?;
    writeln!(story, "{}", call(&case, "look_up_order", None).await?)?;

    writeln!(story, "\nA refund needs a person's yes.")?;
    let forty = Arc::new(CallInput {
        args: json!({ "amount": 40 }),
        ..CallInput::default()
    });
    writeln!(story, "{}", call(&case, "refund", Some(&forty)).await?)?;
    let operator = engine.operator().by("alice");
    for waiting in operator.waiting(None, 10).await? {
        for asked in &waiting.approvals {
            let reason = "the receipt is fine";
            operator.approve(&waiting.id, &asked.id, reason).await?;
            writeln!(story, "alice approves \"{}\": {reason}.", asked.question)?;
        }
    }
    writeln!(story, "{}", call(&case, "refund", Some(&forty)).await?)?;

    writeln!(story, "\nThe next case is left alone, and the desk shuts.")?;
    writeln!(story, "{}", call(&case, "look_up_order", None).await?)?;
    drop((case, engine));
    clock.advance(2 * DAY);
    let engine = open_desk()?;
    let case = engine
        .open(&Source::Caller, &Principal::anonymous())
        .await?;
    writeln!(
        story,
        "Two days later the desk opens, and the case is {}.",
        state(&case)
    )?;

    writeln!(story, "\nThe journal of both cases:")?;
    story.push_str(&journal(&engine.operator(), &case).await?);
    Ok(story)
}

fn state(case: &Instance) -> &str {
    case.workflow().state_name(case.position().state)
}

/// One call, from its reservation to its end, in words.
async fn call(
    case: &Arc<Instance>,
    name: &str,
    input: Option<&Arc<CallInput>>,
) -> Result<String, Box<dyn Error>> {
    let call = CallFacts {
        input,
        ..CallFacts::new(Kind::Tool, name)
    };
    let mut reservation = match case.reserve(&call).await {
        Ok(Reserved::Exclusive(reservation)) => reservation,
        Ok(Reserved::Beside(_) | Reserved::Ask(_)) => return Err("every call moves a case".into()),
        Err(ReserveError::Refused(why)) => return Ok(format!("{name} is refused: {why}")),
        Err(other) => return Ok(format!("{name} has to wait: {other}")),
    };
    // Here the work is done, while no other call can move the case.
    reservation.commit(Outcome::Success, None).await?;
    Ok(format!("{name} succeeds, and the case is {}.", state(case)))
}

async fn journal(operator: &Operator, case: &Instance) -> Result<String, Box<dyn Error>> {
    let mut lines = String::new();
    for recorded in operator.history(case.id(), None, 100).await? {
        let entry = serde_json::to_value(&recorded.entry)?;
        let day = recorded.entry.at / u64::try_from(DAY.as_millis())?;
        write!(
            lines,
            "{:>3}. day {day}: {}",
            recorded.number,
            entry["what"].as_str().unwrap_or_default()
        )?;
        for detail in ["name", "question", "by", "to"] {
            if let Some(text) = entry[detail].as_str() {
                write!(lines, ", {detail} {text}")?;
            }
        }
        lines.push('\n');
    }
    Ok(lines)
}
