//! Newline-delimited messages, each of bounded length.

use std::{io, ops::Range};
use tokio::io::{AsyncRead, AsyncReadExt};

/// Splits a stream of bytes into lines without ever holding more than one line and a read.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    reader: R,
    buffer: Vec<u8>,
    /// Where the next line begins.
    start: usize,
    /// Up to where no line ends.
    scanned: usize,
    limit: usize,
    /// The current line is too long, and is dropped up to its end.
    skipping: bool,
}

/// What the stream holds next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line<'a> {
    /// A line, without its end.
    Whole(&'a [u8]),
    /// A line that is longer than the limit.
    TooLong,
    /// The stream has ended. A last line without an end counts as a line.
    End,
}

const READ: usize = 64 * 1024;
/// The largest capacity that the buffer keeps. Growing it for every long line would cost more than
/// reading the line.
const MOST_CAPACITY: usize = 4 * 1024 * 1024;

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

    /// Waits for the next line. Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> io::Result<Line<'_>> {
        loop {
            if let Some(found) = self.find() {
                return Ok(self.line(found));
            }
            self.make_room();
            if self.reader.read_buf(&mut self.buffer).await? == 0 {
                return Ok(self.last());
            }
        }
    }

    /// The next line, if it has been read already.
    pub(crate) fn ready(&mut self) -> Option<Line<'_>> {
        self.find().map(|found| self.line(found))
    }

    fn line(&self, found: FoundLine) -> Line<'_> {
        match found {
            FoundLine::Whole(range) => Line::Whole(&self.buffer[range]),
            FoundLine::TooLong => Line::TooLong,
        }
    }

    /// Finds the end of the next line that is not blank in what has been read.
    fn find(&mut self) -> Option<FoundLine> {
        loop {
            let Some(at) = memchr::memchr(b'\n', &self.buffer[self.scanned..]) else {
                self.scanned = self.buffer.len();
                if self.scanned - self.start > self.limit {
                    self.skipping = true;
                    self.start = self.scanned;
                }
                return None;
            };
            let (from, to) = (self.start, self.scanned + at);
            self.start = to + 1;
            self.scanned = to + 1;
            let skipped = std::mem::take(&mut self.skipping);
            if skipped || to - from > self.limit {
                return Some(FoundLine::TooLong);
            }
            if !self.buffer[from..to].trim_ascii().is_empty() {
                return Some(FoundLine::Whole(from..to));
            }
        }
    }

    /// Drops the lines that have been returned, and gives back the memory of a large one.
    fn make_room(&mut self) {
        self.buffer.drain(..self.start);
        self.scanned -= self.start;
        self.start = 0;
        if self.buffer.capacity() > MOST_CAPACITY && self.buffer.len() < READ {
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

/// A line by its place, which borrows nothing.
enum FoundLine {
    Whole(Range<usize>),
    TooLong,
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn split(input: &[u8], piece: usize, limit: usize) -> Vec<Result<String, &'static str>> {
        let mut reader = Pieces { input, piece };
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

    /// A reader that returns its bytes in pieces of a given size.
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
        let mut reader = Pieces {
            input: &input,
            piece: 1 << 20,
        };
        let mut lines = Lines::new(&mut reader, 1000);
        assert_eq!(lines.next().await.unwrap(), Line::TooLong);
        assert!(lines.buffer.capacity() < 1 << 20);
        assert_eq!(lines.next().await.unwrap(), Line::End);
    }
}
