//! Echo: twenty-one harmless tools, or as many as wanted, and four dangerous ones on request.
//!
//! It shows typed, raw and blocking tools, deadlines, and that a handler which panics, hangs or
//! blocks costs its own call and nothing else.
//!
//! ```console
//! $ cargo run -p mcp-interlock --example echo
//! $ cargo run -p mcp-interlock --example echo -- --http 127.0.0.1:8000
//! $ cargo run -p mcp-interlock --example echo -- --hazards --tool-timeout 2s
//! $ cargo run -p mcp-interlock --example echo -- --gate dynamic --states 10
//! ```
//!
//! The second serves `http://127.0.0.1:8000/mcp`, the others standard input and output.

#[path = "echo/gate.rs"]
mod gate;
#[path = "echo/mounted.rs"]
mod mounted;

use gate::Gate;
use interlock::{
    Context, Failure, HttpOptions, Mount, NoArguments, Rates, Server, Tool, model::JsonObject,
    schemars,
};
use serde_json::{Value, json};
use std::{
    error::Error,
    ffi::OsString,
    io::{self, Write},
    num::NonZeroU32,
    process::ExitCode,
    time::Duration,
};
use tokio::net::TcpListener;

const USAGE: &str = "\
usage: echo [--stdio | --http ADDRESS] [--tools NUMBER] [--hazards] [--tool-timeout DURATION]
            [--gate KIND [--states NUMBER]] [--mounted]

  --stdio                  serve standard input and output (the default)
  --http ADDRESS           serve HTTP there, at the path /mcp; port 0 is any free one
  --tools NUMBER           have so many harmless tools, at least one (21)
  --hazards                add the tools panic, hang, block and slow
  --tool-timeout DURATION  how long a call may run: 500ms, 2s, 1m
  --gate KIND              put a workflow in front of the harmless tools, in which a call of echo
                           does one of these: stay, move, dynamic (lists follow the state), guard
  --states NUMBER          let the workflow have so many states, in a ring (10)
  --mounted                let the tool echo be one of a handler that was written for rmcp
  --help                   show this
";

fn main() -> ExitCode {
    let wanted = match wanted(std::env::args_os().skip(1)) {
        Ok(wanted) => wanted,
        Err(wrong) => {
            eprint!("echo: {wrong}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let done = match wanted {
        Wanted::Help => io::stdout().write_all(USAGE.as_bytes()).map_err(Into::into),
        Wanted::Server(settings) => run(settings),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("echo: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(settings: Settings) -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Runtime::new()?;
    let done = runtime.block_on(serve(settings));
    // A thread that `block` still blocks would keep the process alive.
    runtime.shutdown_background();
    done
}

async fn serve(settings: Settings) -> Result<(), Box<dyn Error>> {
    // Calls are counted, and however many a measurement makes, none is refused.
    let any_number = Rates::per_second(NonZeroU32::MAX);
    let builder = Server::builder("echo", env!("CARGO_PKG_VERSION")).call_rates(any_number);
    let mut builder = if settings.mounted {
        builder.mount(Mount::new(mounted::Mounted).await?)
    } else {
        builder.tool(echo())
    };
    for tool in others().take(settings.tools - 1) {
        builder = builder.tool(tool);
    }
    if settings.hazards {
        for tool in [panicking(), hanging(), blocking(), slow()] {
            builder = builder.tool(tool);
        }
    }
    if let Some(timeout) = settings.tool_timeout {
        builder = builder.tool_timeout(timeout);
    }
    if let Some(gate) = settings.gate {
        builder = builder.workflow(gate.workflow(settings.states, settings.tools));
    }
    let server = builder.build()?;
    match settings.way {
        Way::Stdio => server.serve_stdio().await?,
        Way::Http(address) => {
            let listener = TcpListener::bind(&address)
                .await
                .map_err(|error| format!("cannot listen on {address}: {error}"))?;
            eprintln!("listening on http://{}/mcp", listener.local_addr()?);
            server
                .serve_http_with(listener, HttpOptions::default())
                .await?;
        }
    }
    Ok(())
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Echo {
    /// What comes back.
    text: String,
}

fn echo() -> Tool {
    Tool::new("echo", |args: Echo, _: Context| async move { args.text })
        .description("Says it again")
}

/// Tools without end that do nothing but take part in the list. The first twenty differ in their
/// arguments; then these come again.
fn others() -> impl Iterator<Item = Tool> {
    let rows = [
        ("a name", json!({ "type": "string" })),
        (
            "a name that is not empty",
            json!({ "type": "string", "minLength": 1 }),
        ),
        ("a short name", json!({ "type": "string", "maxLength": 16 })),
        (
            "an identifier",
            json!({ "type": "string", "pattern": "^[a-z_]+$" }),
        ),
        ("a day", json!({ "type": "string", "format": "date" })),
        (
            "a colour",
            json!({ "type": "string", "enum": ["red", "green", "blue"] }),
        ),
        (
            "a country",
            json!({ "type": "string", "minLength": 2, "maxLength": 2 }),
        ),
        ("a number", json!({ "type": "number" })),
        (
            "a share",
            json!({ "type": "number", "minimum": 0, "maximum": 1 }),
        ),
        (
            "a price",
            json!({ "type": "number", "exclusiveMinimum": 0 }),
        ),
        ("a count", json!({ "type": "integer", "minimum": 0 })),
        (
            "a percentage",
            json!({ "type": "integer", "minimum": 0, "maximum": 100 }),
        ),
        (
            "an even number",
            json!({ "type": "integer", "multipleOf": 2 }),
        ),
        (
            "a port",
            json!({ "type": "integer", "minimum": 1, "maximum": 65535 }),
        ),
        ("a yes or no", json!({ "type": "boolean" })),
        ("a number or nothing", json!({ "type": ["number", "null"] })),
        (
            "a list of names",
            json!({ "type": "array", "items": { "type": "string" } }),
        ),
        (
            "two numbers",
            json!({ "type": "array", "items": { "type": "number" }, "minItems": 2, "maxItems": 2 }),
        ),
        (
            "a set of tags",
            json!({ "type": "array", "items": { "type": "string" }, "uniqueItems": true }),
        ),
        (
            "a point",
            json!({ "type": "object", "properties": { "x": { "type": "number" }, "y": { "type": "number" } }, "required": ["x", "y"] }),
        ),
    ];
    rows.into_iter()
        .cycle()
        .zip(1..)
        .map(|((what, schema), number)| taking(number, what, schema))
}

fn taking(number: usize, what: &str, schema: Value) -> Tool {
    let schema = JsonObject::from_iter([
        ("type".to_owned(), json!("object")),
        ("properties".to_owned(), json!({ "value": schema })),
        ("required".to_owned(), json!(["value"])),
    ]);
    let answer = |arguments: JsonObject, _: Context| async { Value::Object(arguments).to_string() };
    Tool::raw(format!("tool_{number:02}"), schema, answer)
        .description(format!("Takes {what} and says it again"))
}

async fn panics(_: NoArguments, _: Context) -> &'static str {
    panic!("the tool `panic` was called")
}

fn panicking() -> Tool {
    Tool::new("panic", panics).description("Panics")
}

fn hanging() -> Tool {
    let hang = |_: NoArguments, _: Context| std::future::pending::<()>();
    Tool::new("hang", hang).description("Never returns, whoever takes the call back")
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Time {
    /// How many milliseconds it takes.
    ms: u64,
}

fn blocking() -> Tool {
    Tool::blocking("block", |args: Time, _: Context| {
        std::thread::sleep(Duration::from_millis(args.ms));
        format!("blocked for {} ms", args.ms)
    })
    .description("Blocks its thread for a while, and does not look whether anybody still waits")
}

fn slow() -> Tool {
    Tool::new("slow", |args: Time, context: Context| async move {
        context.progress(0.0, None, Some("begun")).await;
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(args.ms)) => Ok(format!("slept for {} ms", args.ms)),
            () = context.cancelled() => Err(Failure::stopped()),
        }
    })
    .description("Says that it has begun, sleeps for a while, and stops when the call is taken back")
}

enum Wanted {
    Help,
    Server(Settings),
}

struct Settings {
    way: Way,
    tools: usize,
    hazards: bool,
    tool_timeout: Option<Duration>,
    gate: Option<Gate>,
    states: usize,
    mounted: bool,
}

enum Way {
    Stdio,
    Http(String),
}

/// Reads the command line.
fn wanted(arguments: impl Iterator<Item = OsString>) -> Result<Wanted, String> {
    let (mut way, mut tools, mut hazards, mut tool_timeout) = (None, 21, false, None);
    let (mut gate, mut states, mut mounted) = (None, 10, false);
    let mut arguments = arguments.map(|argument| {
        let text = argument.into_string();
        text.map_err(|text| format!("{} is not UTF-8", text.display()))
    });
    while let Some(argument) = arguments.next().transpose()? {
        let mut value = || {
            let value = arguments.next().transpose()?;
            value.ok_or_else(|| format!("`{argument}` needs a value"))
        };
        let chosen = match argument.as_str() {
            "--help" | "-h" => return Ok(Wanted::Help),
            "--stdio" => Some(Way::Stdio),
            "--http" => Some(Way::Http(value()?)),
            "--tools" => {
                tools = at_least_one(&value()?)?;
                None
            }
            "--gate" => {
                gate = Some(kind(&value()?)?);
                None
            }
            "--states" => {
                states = at_least_one(&value()?)?;
                None
            }
            "--mounted" => {
                mounted = true;
                None
            }
            "--hazards" => {
                hazards = true;
                None
            }
            "--tool-timeout" => {
                tool_timeout = Some(duration(&value()?)?);
                None
            }
            unknown => return Err(format!("`{unknown}` is not an option")),
        };
        if let Some(chosen) = chosen
            && way.replace(chosen).is_some()
        {
            return Err("one of `--stdio` and `--http` is enough".to_owned());
        }
    }
    Ok(Wanted::Server(Settings {
        way: way.unwrap_or(Way::Stdio),
        tools,
        hazards,
        tool_timeout,
        gate,
        states,
        mounted,
    }))
}

fn kind(name: &str) -> Result<Gate, String> {
    Gate::named(name).ok_or_else(|| format!("`{name}` is not a kind of gate"))
}

fn at_least_one(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| format!("`{text}` is not a number above zero"))
}

/// A whole number and its unit, as in `500ms`, `2s` or `1m`.
fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is not a duration such as 500ms, 2s or 1m");
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let number: u64 = text[..text.len() - unit.len()]
        .parse()
        .map_err(|_| wrong())?;
    let milliseconds = match unit {
        "ms" => Some(number),
        "s" => number.checked_mul(1_000),
        "m" => number.checked_mul(60_000),
        _ => None,
    };
    milliseconds.map(Duration::from_millis).ok_or_else(wrong)
}
