//! Load over standard input and output: a window of requests in flight.

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::fd::OwnedFd;
use std::process::{ChildStdin, ChildStdout};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::runtime::Runtime;

use super::question::{Heard, INITIALIZE, INITIALIZED, Question};
use super::{Meter, Tally, Until};
use crate::child::Pipes;

const READ: usize = 64 * 1024;
const ENDED: &str = "the server has closed its output";

/// A connection that has been initialized.
pub(crate) enum Client {
    /// With one request in flight, reading blocks: that costs the fewest calls of the system.
    One(Blocking),
    Many(Windowed),
}

pub(crate) struct Blocking {
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

pub(crate) struct Windowed {
    runtime: Runtime,
    input: Sender,
    output: Receiver,
    width: u64,
}

impl Client {
    /// Says hello and waits for the answer. `width` is how many requests will be in flight.
    pub(crate) fn connect(pipes: Pipes, width: u64) -> Result<Self> {
        let mut client = Blocking {
            input: pipes.input,
            output: BufReader::with_capacity(READ, pipes.output),
        };
        client.initialize()?;
        if width <= 1 {
            return Ok(Self::One(client));
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()?;
        let inside = runtime.enter();
        let input = Sender::from_owned_fd(OwnedFd::from(client.input))?;
        let output = Receiver::from_owned_fd(OwnedFd::from(client.output.into_inner()))?;
        drop(inside);
        Ok(Self::Many(Windowed {
            runtime,
            input,
            output,
            width,
        }))
    }

    /// Asks until it is enough, and waits for all answers.
    pub(crate) fn run(&mut self, question: &Question, until: Until) -> Result<Tally> {
        match self {
            Self::One(client) => client.run(question, until),
            Self::Many(client) => {
                let window = Window::new(question, client.width, until);
                let run = window.run(&client.input, &client.output);
                client.runtime.block_on(run)
            }
        }
    }
}

impl Blocking {
    fn initialize(&mut self) -> Result<()> {
        writeln!(self.input, "{INITIALIZE}")?;
        let mut line = Vec::new();
        self.read_line(&mut line)?;
        if memchr::memmem::find(&line, b"protocolVersion").is_none() {
            let line = String::from_utf8_lossy(&line);
            bail!("this is not an answer to `initialize`: `{line}`");
        }
        writeln!(self.input, "{INITIALIZED}")?;
        Ok(())
    }

    fn run(&mut self, question: &Question, until: Until) -> Result<Tally> {
        let mut meter = Meter::start(until);
        let (mut request, mut answer) = (Vec::new(), Vec::new());
        let mut id = 0;
        while meter.one_more(Instant::now()) {
            id += 1;
            request.clear();
            question.write(id, &mut request);
            request.push(b'\n');
            let asked_at = Instant::now();
            self.input.write_all(&request)?;
            let (now, answered) = loop {
                answer.clear();
                self.read_line(&mut answer)?;
                let now = Instant::now();
                match question.check(&answer)? {
                    Heard::Answer(answered) => break (now, answered),
                    Heard::Notification => meter.notified(1),
                }
            };
            if answered != id {
                bail!("request {id} is in flight, and the answer is to {answered}");
            }
            meter.answered(asked_at, now);
        }
        meter.finish()
    }

    fn read_line(&mut self, line: &mut Vec<u8>) -> Result<()> {
        if self.output.read_until(b'\n', line)? == 0 {
            bail!(ENDED);
        }
        Ok(())
    }
}

/// The requests in flight: each has a slot, and an id that tells the slot.
struct Window<'a> {
    question: &'a Question,
    meter: Meter,
    slots: Vec<Slot>,
    in_flight: usize,
    /// Requests that are not written yet, from `written` on.
    out: Vec<u8>,
    written: usize,
}

#[derive(Clone, Copy)]
struct Slot {
    id: u64,
    asked_at: Option<Instant>,
}

impl<'a> Window<'a> {
    fn new(question: &'a Question, width: u64, until: Until) -> Self {
        let slot = |id| Slot { id, asked_at: None };
        Self {
            question,
            meter: Meter::start(until),
            slots: (0..width).map(slot).collect(),
            in_flight: 0,
            out: Vec::new(),
            written: 0,
        }
    }

    async fn run(mut self, input: &Sender, output: &Receiver) -> Result<Tally> {
        let now = Instant::now();
        for slot in 0..self.slots.len() {
            self.ask(slot, now);
        }
        let (mut read, mut searched) = (Vec::with_capacity(READ), 0);
        while self.in_flight > 0 {
            tokio::select! {
                biased;
                ready = output.readable() => {
                    ready?;
                    read.reserve(READ);
                    match output.try_read_buf(&mut read) {
                        Ok(0) => bail!(ENDED),
                        Ok(_) => searched = self.take_lines(&mut read, searched)?,
                        Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                        Err(error) => return Err(error.into()),
                    }
                }
                ready = input.writable(), if self.written < self.out.len() => {
                    ready?;
                    match input.try_write(self.next_request()) {
                        Ok(some) => self.written += some,
                        Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                        Err(error) => return Err(error.into()),
                    }
                }
            }
        }
        self.meter.finish()
    }

    /// Takes all whole lines, and tells how much of what remains has no end of a line.
    fn take_lines(&mut self, read: &mut Vec<u8>, searched: usize) -> Result<usize> {
        let now = Instant::now();
        self.forget_what_is_written();
        let mut begin = 0;
        for end in memchr::memchr_iter(b'\n', &read[searched..]) {
            let end = searched + end;
            self.take(&read[begin..end], now)?;
            begin = end + 1;
        }
        read.drain(..begin);
        Ok(read.len())
    }

    fn take(&mut self, line: &[u8], now: Instant) -> Result<()> {
        let id = match self.question.check(line)? {
            Heard::Answer(id) => id,
            Heard::Notification => {
                self.meter.notified(1);
                return Ok(());
            }
        };
        let at = usize::try_from(id % self.slots.len() as u64)?;
        let slot = &mut self.slots[at];
        let asked_at = slot.asked_at.take().filter(|_| slot.id == id);
        let asked_at = asked_at.with_context(|| format!("request {id} is not in flight"))?;
        self.meter.answered(asked_at, now);
        self.in_flight -= 1;
        self.ask(at, now);
        Ok(())
    }

    /// Puts the next request into a free slot, if there is to be one more.
    fn ask(&mut self, at: usize, now: Instant) {
        if !self.meter.one_more(now) {
            return;
        }
        let width = self.slots.len() as u64;
        let slot = &mut self.slots[at];
        slot.id += width;
        slot.asked_at = Some(now);
        self.in_flight += 1;
        self.question.write(slot.id, &mut self.out);
        self.out.push(b'\n');
    }

    /// What is left of the first request that is not written. Each is a write of its own: they
    /// come from callers that do not know of each other.
    fn next_request(&self) -> &[u8] {
        let rest = &self.out[self.written..];
        let end = memchr::memchr(b'\n', rest).map_or(rest.len(), |end| end + 1);
        &rest[..end]
    }

    fn forget_what_is_written(&mut self) {
        if self.written == self.out.len() {
            self.out.clear();
            self.written = 0;
        } else if self.written > self.out.len() / 2 {
            self.out.drain(..self.written);
            self.written = 0;
        }
    }
}
