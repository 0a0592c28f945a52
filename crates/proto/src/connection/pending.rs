//! The client's requests in flight, found by their ids in the same time however many there are.

use super::{Key, Lane};
use crate::RequestId;
use foldhash::fast::RandomState;
use std::{
    collections::{HashMap, hash_map::Entry},
    hash::{Hash, Hasher},
};

/// The client's requests in flight.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Pending {
    /// There are never so many that ids made to collide would cost anybody much.
    by_id: HashMap<RequestId, Lanes, RandomState>,
    len: usize,
}

/// Which ways the requests with one id take: nearly always it is one request.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Lanes {
    One(Lane),
    /// At least two, in order.
    Many(Vec<Lane>),
}

impl Lanes {
    fn as_slice(&self) -> &[Lane] {
        match self {
            Self::One(lane) => std::slice::from_ref(lane),
            Self::Many(lanes) => lanes,
        }
    }
}

impl Pending {
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) fn shrink(&mut self) {
        self.by_id.shrink_to_fit();
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn contains(&self, key: &Key) -> bool {
        self.with_id(&key.id).contains(&key.lane)
    }

    /// Whether nothing else is in flight.
    pub(super) fn is_at_most(&self, key: &Key) -> bool {
        self.is_empty() || (self.len == 1 && self.contains(key))
    }

    /// Which ways the requests with this id take, in order.
    pub(super) fn with_id(&self, id: &RequestId) -> &[Lane] {
        self.by_id.get(id).map_or(&[], Lanes::as_slice)
    }

    /// All of them, in order.
    pub(super) fn sorted(&self) -> Vec<Key> {
        let keys = self.by_id.iter().flat_map(|(id, lanes)| {
            lanes.as_slice().iter().map(|lane| Key {
                id: id.clone(),
                lane: *lane,
            })
        });
        let mut keys: Vec<_> = keys.collect();
        keys.sort_unstable();
        keys
    }

    pub(super) fn insert(&mut self, key: Key) {
        match self.by_id.entry(key.id) {
            Entry::Vacant(place) => {
                place.insert(Lanes::One(key.lane));
            }
            Entry::Occupied(place) if place.get().as_slice().contains(&key.lane) => return,
            Entry::Occupied(mut place) => {
                let mut all = place.get().as_slice().to_vec();
                all.push(key.lane);
                all.sort_unstable();
                place.insert(Lanes::Many(all));
            }
        }
        self.len += 1;
    }

    pub(super) fn remove(&mut self, key: &Key) {
        // A clone of the id costs less than to look it up twice.
        let Entry::Occupied(mut place) = self.by_id.entry(key.id.clone()) else {
            return;
        };
        match place.get_mut() {
            Lanes::One(lane) if *lane != key.lane => return,
            Lanes::One(_) => {
                place.remove();
            }
            Lanes::Many(all) => {
                let before = all.len();
                all.retain(|lane| *lane != key.lane);
                if all.len() == before {
                    return;
                }
                if let [lane] = all[..] {
                    place.insert(Lanes::One(lane));
                }
            }
        }
        self.len -= 1;
    }
}

/// Equal ones hash alike, whatever order the map has them in.
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

    #[test]
    fn it_is_a_set_that_knows_its_ids() {
        let mut pending = Pending::default();
        for lane in [numbered(2), Lane::Handshake, numbered(1), numbered(1)] {
            pending.insert(key(7, lane));
        }
        pending.insert(key(8, numbered(3)));
        assert_eq!(pending.len(), 4);
        let seven = [Lane::Handshake, numbered(1), numbered(2)];
        assert_eq!(pending.with_id(&7.into()), seven);
        assert_eq!(pending.with_id(&9.into()), []);
        assert_eq!(pending.sorted().len(), 4);
        assert!(pending.sorted().is_sorted());

        pending.remove(&key(7, numbered(1)));
        pending.remove(&key(7, numbered(1)));
        assert_eq!(pending.with_id(&7.into()), [Lane::Handshake, numbered(2)]);
        pending.remove(&key(7, Lane::Handshake));
        assert_eq!(pending.with_id(&7.into()), [numbered(2)]);
        pending.remove(&key(7, numbered(2)));
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
