//! One connection over a pair of byte streams: the loop that reads and writes for a session.
//!
//! Each turn of the loop waits for one event and passes it on. It never waits for a handler, nor
//! for a client that does not read: reading stops while too much waits to be written.

use crate::{
    api::drop_quietly,
    catalog::snapshot::CachedSnapshot,
    core::Core,
    outbound::{Route, shared_queue::SharedQueue, write_buffer::WriteBuffer},
    session::{
        ClientSession,
        instance::{self, Arrival},
    },
    transport::stdio::lines::{Line, Lines},
};
use futures_util::FutureExt;
use interlock_engine::{Principal, sleep_until};
use interlock_proto::frame::Malformed;
use std::{future::Future, io, sync::Arc};
use tokio::io::{AsyncRead, AsyncWrite};

/// Serves one client until it is done.
pub(crate) async fn run<R, W>(
    core: Arc<Core>,
    reader: R,
    writer: W,
    stop: impl Future<Output = ()>,
) -> io::Result<()>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    core.may_serve(false)?;
    let lines = Lines::new(reader, core.limits.bytes);
    let mut connection = Connection::new(&core, writer)?;
    within_drain_time(&core, instance::load(&connection.session, Arrival::New)).await;
    let read = connection.serve(lines, stop).await;
    connection.session.abort();
    within_drain_time(&core, instance::release(&connection.session)).await;
    read
}

/// Waits for the store at most as long as a drain may take. The store may finish later.
async fn within_drain_time(core: &Core, work: impl Future<Output = ()>) {
    let late = core.clock.now() + core.rules.drain;
    tokio::select! {
        () = work => {}
        () = sleep_until(&*core.clock, Some(late)) => {}
    }
}

/// A session, and what is on its way to the client.
struct Connection<W> {
    session: Arc<ClientSession>,
    route: Route,
    queue: Arc<SharedQueue>,
    /// What has been taken from the queue and is being written.
    out: WriteBuffer,
    writer: W,
    /// What the server offers, for as long as lines are read without waiting.
    snapshot: Option<CachedSnapshot>,
}

impl<W: AsyncWrite + Unpin> Connection<W> {
    fn new(core: &Arc<Core>, writer: W) -> io::Result<Self> {
        let queue = Arc::new(SharedQueue::default());
        let route = Route::Shared(Arc::clone(&queue));
        let principal = Principal::anonymous();
        Ok(Self {
            session: ClientSession::new(core, principal, core.rules, route.clone())?,
            route,
            queue,
            out: WriteBuffer::default(),
            writer,
            snapshot: None,
        })
    }

    /// Reads and writes until the session is done. Fails if reading has failed.
    async fn serve<R: AsyncRead + Unpin>(
        &mut self,
        mut lines: Lines<R>,
        stop: impl Future<Output = ()>,
    ) -> io::Result<()> {
        let clock = Arc::clone(&self.session.core.clock);
        let mut stop = std::pin::pin!(stop.fuse());
        // Whether there is more to read, until reading fails.
        let mut reading = Ok(true);
        loop {
            self.queue.writer_runs();
            while matches!(reading, Ok(true)) && self.queue.has_room() {
                match lines.ready() {
                    Some(line) => self.take(&line),
                    None => break,
                }
            }
            // It may hold the last handler of a removed tool.
            drop_quietly(self.snapshot.take());
            // Before writing: a call that has ended by now has appended its answer to the queue.
            let status = self.session.status();
            self.write_ready();
            if (status.is_done && self.is_written()) || status.is_overdue {
                return reading.map(|_| ());
            }
            let (room, written) = (self.queue.has_room(), self.out.is_done());
            tokio::select! {
                wrote = self.out.write(&mut self.writer), if !written => match wrote {
                    Ok(wrote) => self.out.advance(wrote),
                    Err(error) => self.lose(&error),
                },
                line = lines.next(), if room && matches!(reading, Ok(true)) => {
                    self.queue.writer_runs();
                    if matches!(line, Ok(Line::End)) {
                        reading = Ok(false);
                    }
                    self.take(&line.unwrap_or_else(|error| {
                        reading = Err(error);
                        Line::End
                    }));
                }
                () = self.queue.changed() => {}
                () = sleep_until(&*clock, status.wake_at) => self.session.tick(),
                () = &mut stop => self.session.drain(),
            }
        }
    }

    fn take(&mut self, line: &Line<'_>) {
        let core = &self.session.core;
        let inbound = || self.session.inbound(&self.route, core.clock.now());
        match line {
            Line::Whole(bytes) => {
                let snapshot = core.catalog.cached(&mut self.snapshot);
                inbound().on_message(bytes, snapshot);
            }
            Line::TooLong => inbound().on_malformed(Malformed::too_large(&core.limits)),
            Line::End => self.session.input_closed(),
        }
    }

    /// Writes what the client takes without waiting. Nearly always that is everything.
    fn write_ready(&mut self) {
        loop {
            let took_all = self.queue.take(&mut self.out);
            if self.out.is_done() {
                break;
            }
            if let Err(error) = self.out.write_ready(&mut self.writer) {
                self.lose(&error);
            }
            if !self.out.is_done() || !self.queue.has_room() {
                self.queue.set_unwritten(self.out.len());
            }
            // What did not fit into the buffer comes next, once the buffer is empty.
            if took_all || !self.out.is_done() {
                break;
            }
        }
    }

    fn is_written(&self) -> bool {
        self.out.is_done() && self.queue.is_empty()
    }

    /// Writing failed: drops what waits to be written, and everything that comes later.
    fn lose(&mut self, error: &io::Error) {
        // A broken pipe is how most clients end.
        if error.kind() != io::ErrorKind::BrokenPipe {
            tracing::warn!(%error, "writing to the client failed");
        }
        // This wakes the loop, which then looks at the session's status again.
        self.queue.close();
        self.out = WriteBuffer::default();
        self.session.disconnected();
    }
}
