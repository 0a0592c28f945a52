//! Load over HTTP: connections that are kept, each with one request in flight.

use std::cell::RefCell;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::rc::Rc;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::Runtime;
use tokio::task::LocalSet;

use super::answer::{self, Answer};
use super::question::{Heard, INITIALIZE, INITIALIZED, Question};
use super::{Meter, Tally, Until};
use crate::contestant::Way;

const READ: usize = 64 * 1024;
const CLOSED: &str = "the server has closed a connection";

/// Connections that are open and, where there are sessions, have some.
pub(crate) enum Client {
    /// With one request in flight, reading blocks: that costs the fewest calls of the system.
    One(Box<Line<TcpStream>>),
    Many(Runtime, Vec<Line<tokio::net::TcpStream>>),
}

/// One connection, and the sessions that its requests belong to in turn.
pub(crate) struct Line<S> {
    stream: S,
    read: Vec<u8>,
    /// Everything up to the length of the body, for each session.
    heads: Vec<Vec<u8>>,
    turn: usize,
    body: Vec<u8>,
    request: Vec<u8>,
    last_id: u64,
}

impl Client {
    /// Opens so many connections, which share so many sessions, if this way has any.
    pub(crate) fn connect(
        address: SocketAddr,
        way: Way,
        question: &Question,
        connections: u64,
        sessions: u64,
    ) -> Result<Self> {
        let mut lines = (0..connections)
            .map(|number| Line::open(address, number))
            .collect::<Result<Vec<_>>>()?;
        match way {
            Way::Session => share_sessions(&mut lines, address, sessions)?,
            Way::Stateless => {
                for line in &mut lines {
                    line.heads = vec![stateless_head(address, question)];
                }
            }
            Way::Stdio => bail!("stdio has no connections"),
        }
        if let [_] = *lines {
            let line = lines.pop().context("there is one")?;
            return Ok(Self::One(Box::new(line)));
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()?;
        let inside = runtime.enter();
        let lines = lines
            .into_iter()
            .map(Line::unblocked)
            .collect::<Result<_>>()?;
        drop(inside);
        Ok(Self::Many(runtime, lines))
    }

    /// Asks until it is enough, and waits for all answers.
    pub(crate) fn run(&mut self, question: &Question, until: Until) -> Result<Tally> {
        match self {
            Self::One(line) => {
                let mut meter = Meter::start(until);
                line.run(question, &mut meter)?;
                meter.finish()
            }
            Self::Many(runtime, lines) => {
                let meter = Rc::new(RefCell::new(Meter::start(until)));
                let (tasks, step) = (LocalSet::new(), lines.len() as u64);
                let running: Vec<_> = std::mem::take(lines)
                    .into_iter()
                    .map(|line| {
                        let (question, meter) = (question.clone(), Rc::clone(&meter));
                        tasks.spawn_local(line.run_with_others(question, meter, step))
                    })
                    .collect();
                *lines = tasks.block_on(runtime, async {
                    let mut done = Vec::with_capacity(running.len());
                    for line in running {
                        done.push(line.await??);
                    }
                    anyhow::Ok(done)
                })?;
                let meter = Rc::into_inner(meter).context("every connection is done")?;
                meter.into_inner().finish()
            }
        }
    }
}

impl Line<TcpStream> {
    fn open(address: SocketAddr, number: u64) -> Result<Self> {
        let stream = TcpStream::connect(address).context("connecting")?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            read: Vec::with_capacity(READ),
            heads: Vec::new(),
            turn: 0,
            body: Vec::new(),
            request: Vec::new(),
            last_id: number,
        })
    }

    /// Opens a session on this connection and tells its id.
    fn open_session(&mut self, address: SocketAddr) -> Result<String> {
        let mut request = plain_head(address);
        finish(&mut request, INITIALIZE.as_bytes());
        let session = self.exchange(&request, |answer| {
            let session = answer.session.filter(|_| answer.status == 200);
            let session = session.with_context(|| format!("no session in {}", shown(answer)))?;
            Ok(session.to_owned())
        })?;
        let mut request = session_head(address, &session);
        finish(&mut request, INITIALIZED.as_bytes());
        self.exchange(&request, |answer| match answer.status {
            202 => Ok(()),
            _ => bail!("`initialized` was answered with {}", shown(answer)),
        })?;
        Ok(session)
    }

    fn run(&mut self, question: &Question, meter: &mut Meter) -> Result<()> {
        while meter.one_more(Instant::now()) {
            let id = self.ask(question, 1);
            let request = std::mem::take(&mut self.request);
            let asked_at = Instant::now();
            let (now, before) = self.exchange(&request, |answer| {
                let now = Instant::now();
                check(question, answer, id)?;
                Ok((now, answer.before))
            })?;
            meter.answered(asked_at, now);
            meter.notified(before);
            self.request = request;
        }
        Ok(())
    }

    /// Writes a request and reads its answer.
    fn exchange<T>(
        &mut self,
        request: &[u8],
        take: impl FnOnce(&Answer<'_>) -> Result<T>,
    ) -> Result<T> {
        self.stream.write_all(request)?;
        let mut piece = [0; READ];
        loop {
            match self.stream.read(&mut piece)? {
                0 => bail!(CLOSED),
                some => self.read.extend_from_slice(&piece[..some]),
            }
            if let Some(answer) = answer::parse(&self.read)? {
                let (taken, length) = (take(&answer)?, answer.length);
                self.read.drain(..length);
                return Ok(taken);
            }
        }
    }

    fn unblocked(self) -> Result<Line<tokio::net::TcpStream>> {
        self.stream.set_nonblocking(true)?;
        Ok(Line {
            stream: tokio::net::TcpStream::from_std(self.stream)?,
            read: self.read,
            heads: self.heads,
            turn: self.turn,
            body: self.body,
            request: self.request,
            last_id: self.last_id,
        })
    }
}

impl Line<tokio::net::TcpStream> {
    async fn run_with_others(
        mut self,
        question: Question,
        meter: Rc<RefCell<Meter>>,
        step: u64,
    ) -> Result<Self> {
        let mut now = Instant::now();
        while meter.borrow_mut().one_more(now) {
            let id = self.ask(&question, step);
            let asked_at = Instant::now();
            self.stream.write_all(&self.request).await?;
            let (length, before) = loop {
                self.read.reserve(READ);
                if self.stream.read_buf(&mut self.read).await? == 0 {
                    bail!(CLOSED);
                }
                if let Some(answer) = answer::parse(&self.read)? {
                    now = Instant::now();
                    check(&question, &answer, id)?;
                    break (answer.length, answer.before);
                }
            };
            {
                let mut meter = meter.borrow_mut();
                meter.answered(asked_at, now);
                meter.notified(before);
            }
            self.read.drain(..length);
        }
        Ok(self)
    }
}

impl<S> Line<S> {
    /// Makes the next request, in the session whose turn it is, and tells its id.
    fn ask(&mut self, question: &Question, step: u64) -> u64 {
        self.last_id += step;
        self.body.clear();
        question.write(self.last_id, &mut self.body);
        self.request.clear();
        self.turn = (self.turn + 1) % self.heads.len();
        self.request.extend_from_slice(&self.heads[self.turn]);
        finish(&mut self.request, &self.body);
        self.last_id
    }
}

/// Opens sessions and gives each connection its share; a session may have several connections.
fn share_sessions(lines: &mut [Line<TcpStream>], address: SocketAddr, sessions: u64) -> Result<()> {
    let (connections, sessions) = (lines.len(), usize::try_from(sessions)?);
    let heads = (0..sessions)
        .map(|number| {
            let session = lines[number % connections].open_session(address)?;
            Ok(session_head(address, &session))
        })
        .collect::<Result<Vec<_>>>()?;
    for (number, line) in lines.iter_mut().enumerate() {
        let own = heads.iter().skip(number % sessions).step_by(connections);
        line.heads = own.cloned().collect();
    }
    Ok(())
}

/// Sessions that are opened one after the other, over a few connections, and left alone.
pub(crate) fn open_sessions(address: SocketAddr, number: u64) -> Result<Vec<Line<TcpStream>>> {
    const CONNECTIONS: u64 = 4;
    let mut lines = (0..CONNECTIONS)
        .map(|number| Line::open(address, number))
        .collect::<Result<Vec<_>>>()?;
    let connections = lines.len() as u64;
    for session in 0..number {
        let line = usize::try_from(session % connections)?;
        lines[line].open_session(address)?;
    }
    Ok(lines)
}

fn check(question: &Question, answer: &Answer<'_>, id: u64) -> Result<()> {
    if answer.status != 200 {
        bail!("request {id} was answered with {}", shown(answer));
    }
    match question.check(&answer.message)? {
        Heard::Answer(answered) if answered == id => Ok(()),
        Heard::Answer(answered) => bail!("request {id} was answered as {answered}"),
        Heard::Notification => bail!("request {id} was answered with a notification"),
    }
}

fn shown(answer: &Answer<'_>) -> String {
    let message = &answer.message[..answer.message.len().min(300)];
    let message = String::from_utf8_lossy(message);
    format!("status {} and `{message}`", answer.status)
}

fn plain_head(address: SocketAddr) -> Vec<u8> {
    format!(
        "POST /mcp HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\n"
    )
    .into_bytes()
}

fn session_head(address: SocketAddr, session: &str) -> Vec<u8> {
    let mut head = plain_head(address);
    head.extend_from_slice(b"mcp-protocol-version: 2025-11-25\r\nmcp-session-id: ");
    head.extend_from_slice(session.as_bytes());
    head.extend_from_slice(b"\r\n");
    head
}

fn stateless_head(address: SocketAddr, question: &Question) -> Vec<u8> {
    let (method, name) = question.method();
    let mut head = plain_head(address);
    head.extend_from_slice(b"mcp-protocol-version: 2026-07-28\r\nmcp-method: ");
    head.extend_from_slice(method.as_bytes());
    if let Some(name) = name {
        head.extend_from_slice(b"\r\nmcp-name: ");
        head.extend_from_slice(name.as_bytes());
    }
    head.extend_from_slice(b"\r\n");
    head
}

/// Ends a head with the length of the body, and adds the body.
fn finish(request: &mut Vec<u8>, body: &[u8]) {
    let length = format!("content-length: {}\r\n\r\n", body.len());
    request.extend_from_slice(length.as_bytes());
    request.extend_from_slice(body);
}
