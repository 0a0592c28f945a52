//! Reads request bodies, within bounds for each, for those of a client, and for all of them together.

use crate::{
    context::body_memory::{BodyMemory, BodyShare},
    outbound::subscribers::QuotaOwner,
};
use http_body_util::BodyExt;
use hyper::body::Body;
use std::{
    cmp,
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

/// Reads bodies within bounds.
#[derive(Debug)]
pub(crate) struct BodyReader {
    memory: Arc<BodyMemory>,
    /// How many bytes the bodies of all may have together.
    all: usize,
    /// The parts of those clients of whom something is held.
    parts: Mutex<HashMap<QuotaOwner, Weak<BodyMemory>>>,
    /// How many bytes one body may have.
    most: usize,
}

/// Every client leaves this part of the memory to others.
const FOR_OTHERS: usize = 4;

/// Parts of which nothing is held are removed when there are as many as this, and at each doubling.
const FEW: usize = 64;

/// A body that was read.
#[derive(Debug)]
pub(crate) struct BodyBytes {
    pub(crate) bytes: Vec<u8>,
    /// What it takes up, until this is dropped.
    pub(crate) share: BodyShare,
}

/// Why a body was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyError {
    /// It is larger than one body may be.
    TooLarge,
    /// All bodies that are being read would be too large together.
    NoRoom,
    /// The client has disconnected, or the framing is wrong.
    Broken,
}

impl BodyReader {
    /// Each body may have `most` bytes, all together `all`.
    pub(crate) fn new(most: usize, all: usize) -> Self {
        Self {
            memory: BodyMemory::new(all),
            all,
            parts: Mutex::default(),
            most,
        }
    }

    /// The memory of one client.
    pub(crate) fn memory_of(&self, owner: QuotaOwner) -> Arc<BodyMemory> {
        // A panic under the lock leaves the table whole.
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(part) = parts.get(&owner).and_then(Weak::upgrade) {
            return part;
        }
        if parts.len() >= FEW && parts.len() == parts.capacity() {
            parts.retain(|_, part| part.strong_count() > 0);
        }
        let part = self.memory.part(self.all - self.all / FOR_OTHERS);
        parts.insert(owner, Arc::downgrade(&part));
        part
    }

    /// Reads a whole body.
    ///
    /// A body that announces its size and for which there is no memory is refused at once. Memory
    /// is counted only when it is needed: otherwise a client that announces much and sends nothing
    /// would take it away from the others.
    pub(crate) async fn read<B>(
        &self,
        memory: &Arc<BodyMemory>,
        body: B,
    ) -> Result<BodyBytes, BodyError>
    where
        B: Body<Data: AsRef<[u8]>> + Unpin,
    {
        let mut body = body;
        let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
        let announced = announced.min(self.most);
        if announced > memory.left_for(announced) {
            return Err(BodyError::NoRoom);
        }
        let mut read = BodyBytes {
            bytes: Vec::new(),
            share: BodyShare::none(memory),
        };
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| BodyError::Broken)?;
            // Trailers mean nothing here.
            let Ok(data) = frame.into_data() else {
                continue;
            };
            let data = data.as_ref();
            if data.len() > self.most - read.bytes.len() {
                return Err(BodyError::TooLarge);
            }
            self.append(&mut read, data, announced)?;
            if body.is_end_stream() {
                break;
            }
        }
        Ok(read)
    }

    fn append(&self, read: &mut BodyBytes, data: &[u8], announced: usize) -> Result<(), BodyError> {
        let bytes = &mut read.bytes;
        let size = bytes.len() + data.len();
        if size > bytes.capacity() {
            // Doubled, so that bytes are not moved for each piece, but not more than can come.
            let last = if size <= announced {
                announced
            } else {
                self.most
            };
            let wanted = cmp::max(size, cmp::min(bytes.capacity() * 2, last));
            if !read.share.grow(wanted) {
                return Err(BodyError::NoRoom);
            }
            bytes.reserve_exact(wanted - bytes.len());
        }
        bytes.extend_from_slice(data);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use futures_util::{FutureExt, stream};
    use http_body_util::{Full, StreamBody};
    use hyper::body::{Frame, SizeHint};
    use std::{
        convert::Infallible,
        io,
        pin::Pin,
        task::{Context, Poll},
    };

    const UNIT: usize = 1024;

    fn left(reader: &BodyReader) -> usize {
        reader.memory.left_for(0)
    }

    fn full(size: usize) -> Full<Bytes> {
        vec![b'x'; size].into()
    }

    /// A body that does not say how large it is.
    fn pieces(sizes: &[usize]) -> impl Body<Data = Bytes, Error = Infallible> + Unpin + use<> {
        let frames: Vec<_> = sizes
            .iter()
            .map(|size| Ok(Frame::data(Bytes::from(vec![b'x'; *size]))))
            .collect();
        StreamBody::new(stream::iter(frames))
    }

    fn read<B: Body<Data = Bytes> + Unpin>(
        reader: &BodyReader,
        body: B,
    ) -> Result<BodyBytes, BodyError> {
        reader.read(&reader.memory, body).now_or_never().unwrap()
    }

    #[test]
    fn a_body_comes_whole_and_in_order() {
        let reader = BodyReader::new(100, 10 * UNIT);
        let frames =
            ["a", "", "bc", "d"].map(|piece| Ok::<_, Infallible>(Frame::data(piece.into())));
        let body: StreamBody<_> = StreamBody::new(stream::iter(frames));
        let whole = read::<StreamBody<_>>(&reader, body).unwrap();
        assert_eq!(whole.bytes, b"abcd");
        assert!(read(&reader, full(0)).unwrap().bytes.is_empty());
    }

    #[test]
    fn a_body_that_is_too_large_is_refused_whether_it_says_so_or_not() {
        let reader = BodyReader::new(100, 10 * UNIT);
        assert_eq!(read(&reader, full(100)).unwrap().bytes.len(), 100);
        assert_eq!(read(&reader, full(101)).unwrap_err(), BodyError::TooLarge);
        assert_eq!(read(&reader, pieces(&[50, 50])).unwrap().bytes.len(), 100);
        let unread = read(&reader, pieces(&[50, 51])).unwrap_err();
        assert_eq!(unread, BodyError::TooLarge);
    }

    #[test]
    fn bodies_share_their_memory_and_give_it_back() {
        let reader = BodyReader::new(100 * UNIT, 10 * UNIT);
        let first = read(&reader, full(6 * UNIT)).unwrap();
        assert_eq!(
            read(&reader, full(5 * UNIT)).unwrap_err(),
            BodyError::NoRoom
        );
        let unread = read(&reader, pieces(&[UNIT, 4 * UNIT])).unwrap_err();
        assert_eq!(unread, BodyError::NoRoom);
        let second = read(&reader, full(4 * UNIT)).unwrap();
        assert_eq!(read(&reader, full(1)).unwrap_err(), BodyError::NoRoom);
        drop((first, second));
        assert_eq!(
            read(&reader, pieces(&[5 * UNIT, 5 * UNIT]))
                .unwrap()
                .bytes
                .len(),
            10 * UNIT
        );
        assert_eq!(left(&reader), 10 * UNIT);
    }

    #[test]
    fn what_is_counted_is_what_is_held() {
        let reader = BodyReader::new(100 * UNIT, 100 * UNIT);
        for sizes in [&[1; 3000][..], &[5000, 1, 5000], &[40 * UNIT]] {
            let whole = read(&reader, pieces(sizes)).unwrap();
            assert_eq!(whole.bytes.len(), sizes.iter().sum::<usize>());
            assert_eq!(whole.bytes.capacity(), 100 * UNIT - left(&reader));
        }
    }

    /// A body of which nothing ever comes.
    struct Slow;

    impl Body for Slow {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            Poll::Pending
        }

        fn size_hint(&self) -> SizeHint {
            SizeHint::with_exact(10 * UNIT as u64)
        }
    }

    #[tokio::test]
    async fn who_announces_much_and_sends_nothing_takes_nothing_away() {
        let reader = BodyReader::new(10 * UNIT, 10 * UNIT);
        let mut slow = Box::pin(reader.read(&reader.memory, Slow));
        assert!(slow.as_mut().now_or_never().is_none());
        assert!(reader.read(&reader.memory, full(10 * UNIT)).await.is_ok());
        let _taken = reader.read(&reader.memory, full(UNIT)).await.unwrap();
        assert_eq!(
            reader.read(&reader.memory, Slow).await.unwrap_err(),
            BodyError::NoRoom
        );
    }

    #[test]
    fn a_body_that_breaks_off_is_not_read() {
        let reader = BodyReader::new(100, 10 * UNIT);
        let frames = [
            Ok(Frame::data(Bytes::from_static(b"a"))),
            Err(io::Error::from(io::ErrorKind::ConnectionReset)),
        ];
        let body = StreamBody::new(stream::iter(frames));
        assert_eq!(read(&reader, body).unwrap_err(), BodyError::Broken);
        assert_eq!(left(&reader), 10 * UNIT);
    }
}
