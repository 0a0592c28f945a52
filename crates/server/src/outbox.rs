//! What waits to be written to a client, in bounds.

use futures_util::FutureExt;
use std::io;
use tokio::io::{AsyncWrite, AsyncWriteExt};

/// What is waiting to be written: whole lines, the first of which may be half gone.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    bytes: Vec<u8>,
    gone: usize,
    unflushed: bool,
}

impl Outbox {
    /// While so much is waiting to be written, nothing more is taken in.
    pub(crate) const ENOUGH: usize = 1024 * 1024;
    /// How much room is kept for what comes next. One answer may go beyond what is enough, and to
    /// make room for it again and again would cost more than to write it.
    const KEPT: usize = 4 * Self::ENOUGH;

    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.gone
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.gone == self.bytes.len()
    }

    /// Where lines are appended.
    pub(crate) const fn lines(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Whether more may be taken in, which may lead to more lines.
    pub(crate) fn has_room(&self) -> bool {
        self.len() < Self::ENOUGH
    }

    /// Everything is out, and on its way to the client.
    pub(crate) fn is_done(&self) -> bool {
        self.is_empty() && !self.unflushed
    }

    /// Writes some of it or, when nothing is left to write, flushes. Dropping the future loses
    /// nothing.
    pub(crate) async fn push(&self, writer: &mut (impl AsyncWrite + Unpin)) -> io::Result<Pushed> {
        if self.is_empty() {
            writer.flush().await?;
            return Ok(Pushed::Flushed);
        }
        match writer.write(&self.bytes[self.gone..]).await? {
            0 => Err(io::ErrorKind::WriteZero.into()),
            n => Ok(Pushed::Wrote(n)),
        }
    }

    /// Pushes for as long as nobody has to wait.
    pub(crate) fn push_at_once(
        &mut self,
        writer: &mut (impl AsyncWrite + Unpin),
    ) -> io::Result<()> {
        while !self.is_done() {
            match self.push(writer).now_or_never() {
                Some(pushed) => self.pushed(pushed?),
                None => break,
            }
        }
        Ok(())
    }

    pub(crate) fn pushed(&mut self, pushed: Pushed) {
        match pushed {
            Pushed::Wrote(n) => self.written(n),
            Pushed::Flushed => self.unflushed = false,
        }
    }

    fn written(&mut self, n: usize) {
        self.gone += n;
        self.unflushed = true;
        if self.is_empty() {
            self.bytes.clear();
            self.gone = 0;
            self.bytes.shrink_to(Self::KEPT);
        } else if self.gone > Self::ENOUGH && self.gone > self.bytes.len() / 2 {
            // Each byte is moved at most once for each time the rest has halved.
            self.bytes.drain(..self.gone);
            self.gone = 0;
        }
    }
}

/// What a push did.
pub(crate) enum Pushed {
    Wrote(usize),
    Flushed,
}
