//! What the writer loop of a stdio connection has taken from its queue, and not yet written.

use futures_util::FutureExt;
use std::io;
use tokio::io::{AsyncWrite, AsyncWriteExt};

/// Whole lines, the first of which may be written in part.
#[derive(Debug, Default)]
pub(crate) struct WriteBuffer {
    bytes: Vec<u8>,
    written: usize,
    unflushed: bool,
}

impl WriteBuffer {
    /// While so many bytes wait to be written, nothing more is read from the client.
    pub(crate) const FULL: usize = 1024 * 1024;
    /// How much capacity stays allocated. One answer may be larger than [`FULL`](Self::FULL), and
    /// allocating for it again and again would cost more than writing it.
    const CAPACITY: usize = 4 * Self::FULL;

    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.written
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.written == self.bytes.len()
    }

    /// Where lines are appended.
    pub(crate) const fn lines(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    pub(crate) fn has_room(&self) -> bool {
        self.len() < Self::FULL
    }

    /// Whether everything is written and flushed.
    pub(crate) fn is_done(&self) -> bool {
        self.is_empty() && !self.unflushed
    }

    /// Writes a part or, when nothing is left to write, flushes. Cancel safe: the caller passes
    /// the result to [`advance`](Self::advance).
    pub(crate) async fn write(&self, writer: &mut (impl AsyncWrite + Unpin)) -> io::Result<Wrote> {
        if self.is_empty() {
            writer.flush().await?;
            return Ok(Wrote::Flush);
        }
        match writer.write(&self.bytes[self.written..]).await? {
            0 => Err(io::ErrorKind::WriteZero.into()),
            n => Ok(Wrote::Bytes(n)),
        }
    }

    /// Writes as much as is possible without waiting.
    pub(crate) fn write_ready(&mut self, writer: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        while !self.is_done() {
            match self.write(writer).now_or_never() {
                Some(wrote) => self.advance(wrote?),
                None => break,
            }
        }
        Ok(())
    }

    pub(crate) fn advance(&mut self, wrote: Wrote) {
        let n = match wrote {
            Wrote::Bytes(n) => n,
            Wrote::Flush => {
                self.unflushed = false;
                return;
            }
        };
        self.written += n;
        self.unflushed = true;
        if self.is_empty() {
            self.bytes.clear();
            self.written = 0;
            self.bytes.shrink_to(Self::CAPACITY);
        } else if self.written > Self::FULL && self.written > self.bytes.len() / 2 {
            // Each byte is moved at most once for each time the rest has halved.
            self.bytes.drain(..self.written);
            self.written = 0;
        }
    }
}

/// What one [`write`](WriteBuffer::write) did.
pub(crate) enum Wrote {
    Bytes(usize),
    Flush,
}
