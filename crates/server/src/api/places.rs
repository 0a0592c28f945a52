//! How many calls may run at the same time.

use std::{iter, num::NonZeroUsize, sync::Arc};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// So many calls may run at the same time. Whoever has a clone shares them.
///
/// ```
/// use interlock::{Context, NoArguments, Places, Tool};
/// use std::num::NonZeroUsize;
///
/// let two = NonZeroUsize::new(2).unwrap();
/// let printers = Places::new(two);
/// let label = Tool::new("label", |_: NoArguments, _: Context| async { "printed" });
/// let invoice = Tool::new("invoice", |_: NoArguments, _: Context| async { "printed" });
/// // Two of them print at a time, and no more than one invoice.
/// let label = label.places(&printers);
/// let invoice = invoice.places(&Places::new(NonZeroUsize::MIN).within(&printers));
/// # let _ = (label, invoice);
/// ```
#[derive(Clone, Debug)]
pub struct Places(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    free: Arc<Semaphore>,
    /// Where a place is needed, too.
    within: Option<Places>,
}

/// A place, until it is dropped.
#[derive(Debug)]
pub struct Place(#[allow(dead_code, reason = "they are held")] Box<[OwnedSemaphorePermit]>);

impl Places {
    /// Places for so many calls.
    #[must_use]
    pub fn new(calls: NonZeroUsize) -> Self {
        let permits = calls.get().min(Semaphore::MAX_PERMITS);
        Self(Arc::new(Inner {
            free: Arc::new(Semaphore::new(permits)),
            within: None,
        }))
    }

    /// The same places for who also gets one of those others. Nobody who waits for one of these
    /// keeps one of the others.
    #[must_use]
    pub fn within(&self, others: &Self) -> Self {
        Self(Arc::new(Inner {
            free: Arc::clone(&self.0.free),
            within: Some(others.clone()),
        }))
    }

    fn all(&self) -> impl Iterator<Item = &Arc<Semaphore>> {
        let all = iter::successors(Some(self), |places| places.0.within.as_ref());
        all.map(|places| &places.0.free)
    }

    /// A place, if one is free.
    pub(crate) fn try_take(&self) -> Option<Place> {
        let taken = self.all().map(|free| Arc::clone(free).try_acquire_owned());
        taken.collect::<Result<_, _>>().ok().map(Place)
    }

    /// Waits in line for a place.
    pub async fn take(&self) -> Place {
        let mut taken = Vec::new();
        for free in self.all() {
            let permit = Arc::clone(free).acquire_owned().await;
            taken.push(permit.expect("the semaphore is never closed"));
        }
        Place(taken.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_of_places_can_be_asked_for() {
        let places = Places::new(NonZeroUsize::MAX);
        assert_eq!(places.0.free.available_permits(), Semaphore::MAX_PERMITS);
    }

    #[test]
    fn a_place_is_free_again_once_it_is_dropped() {
        let places = Places::new(NonZeroUsize::MIN);
        let taken = places.try_take();
        assert!(taken.is_some() && places.clone().try_take().is_none());
        drop(taken);
        assert!(places.try_take().is_some());
    }

    #[tokio::test]
    async fn a_place_within_others_takes_one_of_those_too_or_none_at_all() {
        let two = NonZeroUsize::new(2).unwrap();
        let (all, own) = (Places::new(NonZeroUsize::MIN), Places::new(two));
        let own = own.within(&all);
        let taken = own.take().await;
        assert!(all.try_take().is_none() && own.try_take().is_none());
        drop(taken);
        let other = all.take().await;
        assert!(own.try_take().is_none());
        drop(other);
        assert!(own.try_take().is_some());
    }
}
