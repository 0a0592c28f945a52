//! The memory that the bodies of requests take up, from their first byte until their calls are
//! over and have dropped their arguments.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// The larger part of it is for large bodies, the rest for small ones alone: a few large bodies that
/// never end leave room for everybody else's messages.
const LARGE: usize = 64 * 1024;
const FOR_SMALL: usize = 8;

/// The memory for all bodies. Nobody waits for more of it, so it is a mere number.
#[derive(Debug)]
pub(crate) struct BodyMemory {
    left: AtomicUsize,
    for_small: usize,
}

impl BodyMemory {
    pub(crate) fn new(bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            left: AtomicUsize::new(bytes),
            for_small: bytes / FOR_SMALL,
        })
    }

    /// How much is left for a body of this size.
    pub(crate) fn left_for(&self, size: usize) -> usize {
        let left = self.left.load(Ordering::Relaxed);
        left.saturating_sub(self.kept_from(size))
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

    /// Takes up as much as that in all. False if so much is not left.
    pub(crate) fn grow(&mut self, size: usize) -> bool {
        let more = size.saturating_sub(self.size);
        let kept = self.memory.kept_from(size);
        let take = |left: usize| left.checked_sub(more).filter(|rest| *rest >= kept);
        let left = &self.memory.left;
        let taken = left.try_update(Ordering::Relaxed, Ordering::Relaxed, take);
        if taken.is_ok() {
            self.size += more;
        }
        taken.is_ok()
    }
}

impl Drop for BodyShare {
    fn drop(&mut self) {
        self.memory.left.fetch_add(self.size, Ordering::Relaxed);
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
}
