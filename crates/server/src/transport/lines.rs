//! Newline-delimited messages, each of bounded length.

use std::io;
use tokio::io::{AsyncRead, AsyncReadExt};

/// Splits a stream of bytes into lines without ever holding more than one line and a read.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    reader: R,
    buffer: Vec<u8>,
    /// Where the next line begins.
    start: usize,
    /// Up to where there is no line's end.
    scanned: usize,
    limit: usize,
    /// The current line is too long; what comes up to its end is thrown away.
    skipping: bool,
}

/// What came next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line<'a> {
    /// A line, without its end.
    Whole(&'a [u8]),
    /// A line that is longer than the limit; none of it was kept.
    TooLong,
    /// The stream has ended. A last line without an end has been given as a line.
    End,
}

const READ: usize = 64 * 1024;
/// How much room is kept for what comes next: to make room for a long line again and again would
/// cost more than to read it.
const KEPT: usize = 4 * 1024 * 1024;

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(crate) const fn new(reader: R, limit: usize) -> Self {
        Self {
            reader,
            buffer: Vec::new(),
            start: 0,
            scanned: 0,
            limit,
            skipping: false,
        }
    }

    /// The next line. Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> io::Result<Line<'_>> {
        loop {
            match self.buffered() {
                Buffered::Line(from, to) => return Ok(Line::Whole(&self.buffer[from..to])),
                Buffered::TooLong => return Ok(Line::TooLong),
                Buffered::Nothing => {}
            }
            self.make_room();
            if self.reader.read_buf(&mut self.buffer).await? == 0 {
                return Ok(self.last());
            }
        }
    }

    /// The next line, if it has been read already.
    pub(crate) fn ready(&mut self) -> Option<Line<'_>> {
        match self.buffered() {
            Buffered::Line(from, to) => Some(Line::Whole(&self.buffer[from..to])),
            Buffered::TooLong => Some(Line::TooLong),
            Buffered::Nothing => None,
        }
    }

    fn buffered(&mut self) -> Buffered {
        loop {
            let Some(at) = memchr::memchr(b'\n', &self.buffer[self.scanned..]) else {
                self.scanned = self.buffer.len();
                if self.scanned - self.start > self.limit {
                    self.skipping = true;
                    self.start = self.scanned;
                }
                return Buffered::Nothing;
            };
            let (from, to) = (self.start, self.scanned + at);
            self.start = to + 1;
            self.scanned = to + 1;
            let skipped = std::mem::take(&mut self.skipping);
            if skipped || to - from > self.limit {
                return Buffered::TooLong;
            }
            if !self.buffer[from..to].trim_ascii().is_empty() {
                return Buffered::Line(from, to);
            }
        }
    }

    /// Drops the lines that have been given out, and gives back the memory of a large one.
    fn make_room(&mut self) {
        self.buffer.drain(..self.start);
        self.scanned -= self.start;
        self.start = 0;
        if self.buffer.capacity() > KEPT && self.buffer.len() < READ {
            self.buffer.shrink_to(READ);
        }
        self.buffer.reserve(READ);
    }

    fn last(&mut self) -> Line<'_> {
        let (from, to) = (self.start, self.buffer.len());
        self.start = to;
        self.scanned = to;
        if std::mem::take(&mut self.skipping) {
            Line::TooLong
        } else if self.buffer[from..to].trim_ascii().is_empty() {
            Line::End
        } else {
            Line::Whole(&self.buffer[from..to])
        }
    }
}

enum Buffered {
    Line(usize, usize),
    TooLong,
    Nothing,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives out its bytes in pieces of a given size.
    async fn split(input: &[u8], piece: usize, limit: usize) -> Vec<Result<String, &'static str>> {
        let mut reader = tokio_test_reader(input, piece);
        let mut lines = Lines::new(&mut reader, limit);
        let mut all = Vec::new();
        loop {
            match lines.next().await.unwrap() {
                Line::Whole(line) => all.push(Ok(String::from_utf8_lossy(line).into_owned())),
                Line::TooLong => all.push(Err("too long")),
                Line::End => return all,
            }
        }
    }

    fn tokio_test_reader(input: &[u8], piece: usize) -> Pieces<'_> {
        Pieces { input, piece }
    }

    struct Pieces<'a> {
        input: &'a [u8],
        piece: usize,
    }

    impl AsyncRead for Pieces<'_> {
        fn poll_read(
            mut self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
            buf: &mut tokio::io::ReadBuf<'_>,
        ) -> std::task::Poll<io::Result<()>> {
            let n = self.piece.min(self.input.len()).min(buf.remaining());
            let (now, later) = self.input.split_at(n);
            buf.put_slice(now);
            self.input = later;
            std::task::Poll::Ready(Ok(()))
        }
    }

    #[tokio::test]
    async fn lines_are_the_same_however_they_arrive() {
        for piece in [1, 2, 3, 7, 1000] {
            assert_eq!(
                split(b"a\n\n  \r\nbcd\r\nlast", piece, 10).await,
                [Ok("a".into()), Ok("bcd\r".into()), Ok("last".into())],
                "pieces of {piece}"
            );
        }
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_is_skipped_to_its_end() {
        for piece in [1, 5, 1000] {
            assert_eq!(
                split(b"0123456789\n0123456789a\nok\n0123456789012", piece, 10).await,
                [
                    Ok("0123456789".into()),
                    Err("too long"),
                    Ok("ok".into()),
                    Err("too long")
                ],
                "pieces of {piece}"
            );
        }
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_is_not_kept() {
        let input = vec![b'x'; 3_000_000];
        let mut reader = tokio_test_reader(&input, 1 << 20);
        let mut lines = Lines::new(&mut reader, 1000);
        assert_eq!(lines.next().await.unwrap(), Line::TooLong);
        assert!(lines.buffer.capacity() < 1 << 20);
        assert_eq!(lines.next().await.unwrap(), Line::End);
    }
}
