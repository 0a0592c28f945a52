//! The client's requests in flight, found by their ids in the same time however many there are.

use super::{Key, Lane};
use crate::RequestId;
use foldhash::fast::RandomState;
use std::{
    collections::HashMap,
    hash::{Hash, Hasher},
};

/// A set of keys. Most clients have few requests in flight, and those are compared one by one;
/// beyond them, ids are looked up.
#[derive(Clone, Debug, Default)]
pub(super) struct Pending {
    few: Vec<Key>,
    /// Empty, unless there were once more than a few.
    many: HashMap<RequestId, Vec<Lane>, RandomState>,
    len: usize,
}

/// So many are compared faster than one is looked up.
const FEW: usize = 8;

impl Pending {
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Gives back the room that nobody needs now.
    pub(super) fn shrink(&mut self) {
        self.few.shrink_to_fit();
        self.many.shrink_to_fit();
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn contains(&self, key: &Key) -> bool {
        self.few.contains(key) || self.looked_up(&key.id).contains(&key.lane)
    }

    /// Whether nothing but this is in it.
    pub(super) fn is_at_most(&self, key: &Key) -> bool {
        self.is_empty() || (self.len == 1 && self.contains(key))
    }

    /// The lanes in which this id is used, in no order.
    pub(super) fn with_id(&self, id: &RequestId) -> impl Iterator<Item = Lane> {
        let few = self.few.iter().filter(move |key| key.id == *id);
        few.map(|key| key.lane)
            .chain(self.looked_up(id).iter().copied())
    }

    fn looked_up(&self, id: &RequestId) -> &[Lane] {
        if self.many.is_empty() {
            return &[];
        }
        self.many.get(id).map_or(&[], Vec::as_slice)
    }

    /// In the order of their ids.
    pub(super) fn sorted(&self) -> Vec<Key> {
        let many = self.many.iter().flat_map(|(id, lanes)| {
            lanes.iter().map(|lane| Key {
                id: id.clone(),
                lane: *lane,
            })
        });
        let mut keys: Vec<_> = self.few.iter().cloned().chain(many).collect();
        keys.sort_unstable();
        keys
    }

    pub(super) fn insert(&mut self, key: Key) {
        if self.contains(&key) {
            return;
        }
        self.len += 1;
        if self.few.len() < FEW {
            self.few.push(key);
        } else {
            self.many.entry(key.id).or_default().push(key.lane);
        }
    }

    pub(super) fn remove(&mut self, key: &Key) {
        if let Some(at) = self.few.iter().position(|one| one == key) {
            self.few.swap_remove(at);
            self.len -= 1;
            return;
        }
        let Some(lanes) = self.many.get_mut(&key.id) else {
            return;
        };
        if let Some(at) = lanes.iter().position(|lane| *lane == key.lane) {
            lanes.swap_remove(at);
            self.len -= 1;
            if lanes.is_empty() {
                self.many.remove(&key.id);
            }
        }
    }
}

impl PartialEq for Pending {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.sorted() == other.sorted()
    }
}

impl Eq for Pending {}

impl Hash for Pending {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.sorted().hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CallId;

    fn key(id: i64, lane: Lane) -> Key {
        Key {
            id: id.into(),
            lane,
        }
    }

    const fn numbered(call: u64) -> Lane {
        Lane::Stateless(CallId(call))
    }

    fn lanes(pending: &Pending, id: i64) -> Vec<Lane> {
        let mut lanes: Vec<_> = pending.with_id(&id.into()).collect();
        lanes.sort_unstable();
        lanes
    }

    /// Among few and among many.
    #[test]
    fn it_is_a_set_that_knows_its_ids() {
        it_is_a_set_among(0);
        it_is_a_set_among(FEW - 2);
        it_is_a_set_among(3 * FEW);
    }

    fn it_is_a_set_among(others: usize) {
        let mut pending = Pending::default();
        let others: Vec<_> = (0..others as i64)
            .map(|id| key(100 + id, Lane::Handshake))
            .collect();
        others
            .iter()
            .for_each(|other| pending.insert(other.clone()));
        for lane in [numbered(2), Lane::Handshake, numbered(1), numbered(1)] {
            pending.insert(key(7, lane));
        }
        pending.insert(key(8, numbered(3)));
        assert_eq!(pending.len(), others.len() + 4);
        let seven = [Lane::Handshake, numbered(1), numbered(2)];
        assert_eq!(lanes(&pending, 7), seven);
        assert_eq!(lanes(&pending, 9), []);
        assert_eq!(pending.sorted().len(), others.len() + 4);
        others
            .iter()
            .for_each(|other| assert!(pending.contains(other)));
        assert!(pending.sorted().is_sorted());

        pending.remove(&key(7, numbered(1)));
        pending.remove(&key(7, numbered(1)));
        assert_eq!(lanes(&pending, 7), [Lane::Handshake, numbered(2)]);
        pending.remove(&key(7, Lane::Handshake));
        assert_eq!(lanes(&pending, 7), [numbered(2)]);
        pending.remove(&key(7, numbered(2)));
        assert_eq!(lanes(&pending, 7), []);
        others.iter().for_each(|other| pending.remove(other));
        assert!(pending.is_at_most(&key(8, numbered(3))));
        assert!(!pending.is_at_most(&key(8, numbered(2))));
        pending.remove(&key(8, numbered(3)));
        assert!(pending.is_empty() && pending.is_at_most(&key(1, Lane::Handshake)));
        assert_eq!(pending, Pending::default());
    }

    #[test]
    fn the_way_there_does_not_matter() {
        let hash = |pending: &Pending| {
            let mut hasher = std::hash::DefaultHasher::new();
            pending.hash(&mut hasher);
            hasher.finish()
        };
        let mut straight = Pending::default();
        let mut detour = Pending::default();
        for id in 0..20 {
            straight.insert(key(id, Lane::Handshake));
            detour.insert(key(19 - id, Lane::Handshake));
            detour.insert(key(19 - id, numbered(1)));
        }
        assert_ne!(straight, detour);
        for id in 0..20 {
            detour.remove(&key(id, numbered(1)));
        }
        assert_eq!(straight, detour);
        assert_eq!(hash(&straight), hash(&detour));
    }
}
