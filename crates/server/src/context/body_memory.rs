//! The memory that bodies take up: of requests, from their first byte until their calls are over and
//! have dropped their arguments; of responses, until they were read.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// The larger part of it is for large bodies, the rest for small ones alone: a few large bodies that
/// never end leave room for everybody else's messages.
const LARGE: usize = 64 * 1024;
const FOR_SMALL: usize = 8;

/// The memory for all bodies, or for those of one client. Nobody waits for more of it, so it is a
/// mere number.
#[derive(Debug)]
pub(crate) struct BodyMemory {
    left: AtomicUsize,
    for_small: usize,
    /// The memory that this is a part of.
    whole: Option<Arc<Self>>,
}

impl BodyMemory {
    pub(crate) fn new(bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            left: AtomicUsize::new(bytes),
            for_small: bytes / FOR_SMALL,
            whole: None,
        })
    }

    /// A part of it, which others may take up as well.
    pub(crate) fn part(self: &Arc<Self>, bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            left: AtomicUsize::new(bytes),
            for_small: bytes / FOR_SMALL,
            whole: Some(Arc::clone(self)),
        })
    }

    /// How much is left for a body of this size.
    pub(crate) fn left_for(&self, size: usize) -> usize {
        let left = self.left.load(Ordering::Relaxed);
        let left = left.saturating_sub(self.kept_from(size));
        let whole = self.whole.as_ref().map(|whole| whole.left_for(size));
        whole.map_or(left, |whole| left.min(whole))
    }

    /// Takes so many bytes for a body of this size, if they are left.
    fn take(&self, more: usize, size: usize) -> bool {
        let kept = self.kept_from(size);
        let take = |left: usize| left.checked_sub(more).filter(|rest| *rest >= kept);
        let taken = (self.left).try_update(Ordering::Relaxed, Ordering::Relaxed, take);
        if taken.is_err() {
            return false;
        }
        let is_left = self.whole.as_ref().is_none_or(|all| all.take(more, size));
        if !is_left {
            self.left.fetch_add(more, Ordering::Relaxed);
        }
        is_left
    }

    fn give_back(&self, bytes: usize) {
        self.left.fetch_add(bytes, Ordering::Relaxed);
        if let Some(whole) = &self.whole {
            whole.give_back(bytes);
        }
    }

    const fn kept_from(&self, size: usize) -> usize {
        if size > LARGE { self.for_small } else { 0 }
    }
}

/// What one body takes up, until it is dropped.
#[derive(Debug)]
pub(crate) struct BodyShare {
    memory: Arc<BodyMemory>,
    size: usize,
}

impl BodyShare {
    /// Of a body of which nothing has come.
    pub(crate) fn none(memory: &Arc<BodyMemory>) -> Self {
        Self {
            memory: Arc::clone(memory),
            size: 0,
        }
    }

    /// Of another body of the same client, of which nothing has come.
    pub(crate) fn beside(&self) -> Self {
        Self::none(&self.memory)
    }

    /// Takes up as much as that in all. False if so much is not left.
    pub(crate) fn grow(&mut self, size: usize) -> bool {
        let more = size.saturating_sub(self.size);
        let is_left = self.memory.take(more, size);
        if is_left {
            self.size += more;
        }
        is_left
    }
}

impl Drop for BodyShare {
    fn drop(&mut self) {
        self.memory.give_back(self.size);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_bodies_leave_room_for_small_ones() {
        let memory = BodyMemory::new(16 * LARGE);
        let mut large: Vec<_> = (0..9).map(|_| BodyShare::none(&memory)).collect();
        let grown = large
            .iter_mut()
            .filter_map(|one| one.grow(2 * LARGE).then_some(()));
        assert_eq!(grown.count(), 7);
        let mut small = BodyShare::none(&memory);
        assert!(small.grow(LARGE));
        assert!(!small.grow(LARGE + 1));
        drop((large, small));
        assert_eq!(memory.left_for(1), 16 * LARGE);
    }

    #[test]
    fn a_part_is_bounded_by_itself_and_by_the_whole() {
        let whole = BodyMemory::new(16);
        let (one, other) = (whole.part(12), whole.part(12));
        let [mut first, mut second] = [&one, &other].map(BodyShare::none);
        assert!(!first.grow(13));
        assert!(first.grow(12));
        assert!(!second.grow(5), "the whole has four left");
        assert!(second.grow(4));
        assert_eq!((one.left_for(1), other.left_for(1)), (0, 0));
        drop((first, second));
        assert_eq!((one.left_for(1), whole.left_for(1)), (12, 16));
    }
}
