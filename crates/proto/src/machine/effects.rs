//! What a step orders, kept without allocation as long as it is little.

use smallvec::SmallVec;
use std::{fmt, ops::Deref};

/// So many effects need no allocation. Hardly any step orders more.
const USUAL: usize = 2;

/// What to do, in this order.
///
/// ```
/// use interlock_proto::machine::Effects;
///
/// let effects = Effects::from(["save", "notify"]);
/// assert_eq!(effects.first(), Some(&"save"));
/// assert_eq!(effects.into_iter().last(), Some("notify"));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Effects<E>(SmallVec<[E; USUAL]>);

/// Effects that are performed one after the other.
#[derive(Debug)]
pub struct Orders<E>(smallvec::IntoIter<[E; USUAL]>);

impl<E> Effects<E> {
    /// Orders one thing more.
    pub fn push(&mut self, effect: E) {
        self.0.push(effect);
    }
}

impl<E> Orders<E> {
    /// What comes next, left where it is.
    #[must_use]
    pub fn peek(&self) -> Option<&E> {
        self.0.as_slice().first()
    }
}

impl<E> Default for Effects<E> {
    fn default() -> Self {
        Self(SmallVec::new())
    }
}

impl<E, const N: usize> From<[E; N]> for Effects<E> {
    fn from(effects: [E; N]) -> Self {
        let mut few = SmallVec::new();
        for effect in effects {
            few.push(effect);
        }
        Self(few)
    }
}

impl<E> FromIterator<E> for Effects<E> {
    fn from_iter<I: IntoIterator<Item = E>>(effects: I) -> Self {
        Self(effects.into_iter().collect())
    }
}

impl<E> Extend<E> for Effects<E> {
    fn extend<I: IntoIterator<Item = E>>(&mut self, effects: I) {
        self.0.extend(effects);
    }
}

impl<E> Deref for Effects<E> {
    type Target = [E];

    fn deref(&self) -> &[E] {
        &self.0
    }
}

impl<E> IntoIterator for Effects<E> {
    type Item = E;
    type IntoIter = Orders<E>;

    fn into_iter(self) -> Orders<E> {
        Orders(self.0.into_iter())
    }
}

impl<E> Iterator for Orders<E> {
    type Item = E;

    fn next(&mut self) -> Option<E> {
        self.0.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl<E> Default for Orders<E> {
    fn default() -> Self {
        Effects::default().into_iter()
    }
}

impl<E: PartialEq, const N: usize> PartialEq<[E; N]> for Effects<E> {
    fn eq(&self, effects: &[E; N]) -> bool {
        **self == *effects
    }
}

impl<E: fmt::Debug> fmt::Debug for Effects<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_stay_in_order_however_many_there_are() {
        for many in 0..=3 * USUAL {
            let mut effects: Effects<usize> = (0..many).collect();
            effects.push(many);
            effects.extend([many + 1, many + 2]);
            let all: Vec<_> = (0..many + 3).collect();
            assert_eq!(effects[..], all);
            assert_eq!(format!("{effects:?}"), format!("{all:?}"));
            assert_eq!(effects.into_iter().collect::<Vec<_>>(), all);
        }
    }

    #[test]
    fn looking_at_the_next_one_takes_nothing() {
        let mut orders = Effects::from([1, 2, 3]).into_iter();
        assert_eq!((orders.peek(), orders.peek()), (Some(&1), Some(&1)));
        assert_eq!((orders.next(), orders.peek()), (Some(1), Some(&2)));
        assert_eq!(orders.size_hint(), (2, Some(2)));
        assert_eq!(orders.by_ref().last(), Some(3));
        assert_eq!((orders.next(), orders.peek()), (None, None));
    }

    #[test]
    fn effects_are_small() {
        assert!(size_of::<crate::connection::Effect>() <= 48);
        assert!(size_of::<crate::invocation::Effect>() <= 16);
    }
}
