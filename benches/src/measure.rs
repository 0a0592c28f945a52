//! One measurement: a fresh server, a warm-up that does not count, and a load that does.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::child::{self, Running};
use crate::contestant::{Contestant, Programs, Way};
use crate::load::question::{Operation, Question};
use crate::load::{Tally, Until, http, stdio};
use crate::pin;
use crate::usage::{Memory, Processor};

/// What is asked of a server, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    pub(crate) way: Way,
    pub(crate) operation: Operation,
    pub(crate) tools: usize,
    /// Requests over stdio, or connections over HTTP.
    pub(crate) in_flight: u64,
    /// How many the connections share, where there are any.
    pub(crate) sessions: u64,
    pub(crate) place: Place,
}

/// Where client and server run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Place {
    Anywhere,
    /// Both on one core: what the latency of one request in flight can be compared by.
    OneCore,
}

/// How long a measurement is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    pub(crate) warm_up: Until,
    pub(crate) counted: Until,
}

/// What one measurement found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) per_second: f64,
    /// Latencies, in microseconds.
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    /// Processor time of the server per call, in microseconds.
    pub(crate) processor: f64,
    /// How many notifications came with each call.
    pub(crate) notifications: f64,
    /// Memory at the end, in bytes.
    pub(crate) memory: Memory,
}

/// A client of either kind.
pub(crate) enum Client {
    Stdio(stdio::Client),
    Http(http::Client),
}

/// How long any load may take beyond what it is meant to.
const GRACE: Duration = Duration::from_secs(120);

impl Setup {
    /// One tool is called in this way, by so many at a time.
    pub(crate) fn echo(way: Way, in_flight: u64) -> Self {
        Self {
            way,
            operation: Operation::Echo { bytes: 64 },
            tools: interlock_benches::tools::USUAL,
            in_flight,
            sessions: in_flight,
            place: Place::Anywhere,
        }
    }

    /// The list of so many tools is asked for.
    pub(crate) fn list(way: Way, in_flight: u64, tools: usize) -> Self {
        Self {
            operation: Operation::List { tools },
            tools,
            ..Self::echo(way, in_flight)
        }
    }

    /// The same on one core.
    pub(crate) fn on_one_core(self) -> Self {
        Self {
            place: Place::OneCore,
            ..self
        }
    }

    pub(crate) fn question(&self) -> Question {
        Question::new(self.operation, self.way)
    }
}

impl Client {
    pub(crate) fn run(&mut self, question: &Question, until: Until) -> Result<Tally> {
        match self {
            Self::Stdio(client) => client.run(question, until),
            Self::Http(client) => client.run(question, until),
        }
    }
}

/// Measures one server once.
pub(crate) fn sample(
    programs: &Programs,
    contestant: &Contestant,
    setup: &Setup,
    effort: Effort,
) -> Result<Sample> {
    let measured = || {
        let (running, mut client) = start(programs, contestant, setup, |command| command)?;
        let _watch = running.within(limit(effort));
        load(&running, &mut client, setup, effort).map_err(|error| running.explained(error))
    };
    let sample = match setup.place {
        Place::Anywhere => measured(),
        Place::OneCore => pin::on_one_core(measured),
    };
    sample.with_context(|| format!("measuring {}", contestant.name(setup.way)))
}

/// Starts a server and connects to it. The command may be wrapped in another one.
pub(crate) fn start(
    programs: &Programs,
    contestant: &Contestant,
    setup: &Setup,
    wrapped: impl Fn(Command) -> Command,
) -> Result<(Running, Client)> {
    match setup.way {
        Way::Stdio => {
            let command = contestant.command(programs, setup.way, None, setup.tools);
            let (running, pipes) = Running::over_pipes(&mut wrapped(command))?;
            let _watch = running.within(GRACE);
            let client = stdio::Client::connect(pipes, setup.in_flight)
                .map_err(|error| running.explained(error))?;
            Ok((running, Client::Stdio(client)))
        }
        Way::Session | Way::Stateless => {
            let (running, address) = listening(programs, contestant, setup, wrapped)?;
            let _watch = running.within(GRACE);
            let client = http::Client::connect(
                address,
                setup.way,
                &setup.question(),
                setup.in_flight,
                contestant.sessions(setup.sessions),
            )
            .map_err(|error| running.explained(error))?;
            Ok((running, Client::Http(client)))
        }
    }
}

/// Starts a server that listens.
pub(crate) fn listening(
    programs: &Programs,
    contestant: &Contestant,
    setup: &Setup,
    wrapped: impl Fn(Command) -> Command,
) -> Result<(Running, SocketAddr)> {
    let address = child::free_address()?;
    let command = contestant.command(programs, setup.way, Some(address), setup.tools);
    let running = Running::listening(&mut wrapped(command), address)?;
    Ok((running, address))
}

fn load(running: &Running, client: &mut Client, setup: &Setup, effort: Effort) -> Result<Sample> {
    let question = setup.question();
    client.run(&question, effort.warm_up)?;
    let before = Processor::of(running.process())?;
    let tally = client.run(&question, effort.counted)?;
    let used = Processor::of(running.process())?.since(&before);
    let calls = tally.latencies.count() as f64;
    Ok(Sample {
        per_second: calls / tally.elapsed.as_secs_f64(),
        p50: tally.latencies.percentile(0.5),
        p99: tally.latencies.percentile(0.99),
        processor: used.as_secs_f64() * 1e6 / calls,
        notifications: tally.notifications as f64 / calls,
        memory: Memory::of(running.process())?,
    })
}

fn limit(effort: Effort) -> Duration {
    let one = |until| match until {
        Until::Calls(_) => Duration::ZERO,
        Until::Elapsed(time) => time,
    };
    one(effort.warm_up) + one(effort.counted) + GRACE
}
