//! Which sessions there are, whose they are, and which of them gives way to a new one: pure.
//!
//! A session that is not in use, because nobody has used it yet or it has left memory, gives way
//! when there are too many: the one that was used least recently, first of the client that wants
//! another, else of the client that has most. One in use never does. Anonymous clients are told apart
//! by their addresses.

use crate::outbound::subscribers::QuotaOwner;
use interlock_proto::Time;
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

/// All sessions that this process knows, in memory or in the store.
#[derive(Debug)]
pub(crate) struct SessionTable {
    most: usize,
    most_each: usize,
    sessions: HashMap<Arc<str>, Known>,
    by_owner: HashMap<QuotaOwner, Owned>,
    /// How often a session has become quiet.
    turns: u64,
}

#[derive(Debug)]
struct Known {
    owner: QuotaOwner,
    dies: Time,
    /// When it became quiet, as a number of turns; none while it is in use.
    quiet: Option<u64>,
    in_memory: bool,
}

/// The sessions of one client.
#[derive(Debug, Default)]
struct Owned {
    all: usize,
    /// Those that are quiet, least recently used first.
    quiet: BTreeMap<u64, Arc<str>>,
}

/// There is no room for another session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

impl SessionTable {
    pub(crate) fn new(most: usize, most_each: usize) -> Self {
        Self {
            most,
            most_each,
            sessions: HashMap::new(),
            by_owner: HashMap::new(),
            turns: 0,
        }
    }

    pub(crate) fn contains(&self, id: &str) -> bool {
        self.sessions.contains_key(id)
    }

    /// The session that has to give way before this client can have another; none if there is
    /// room.
    pub(crate) fn gives_way(&self, owner: &QuotaOwner) -> Result<Option<Arc<str>>, Full> {
        let own = self.by_owner.get(owner);
        let share = owner.share(self.most.min(self.most_each), self.most_each);
        let oldest = |owned: &Owned| owned.quiet.values().next().cloned();
        if own.map_or(0, |own| own.all) >= share {
            return own.and_then(oldest).map(Some).ok_or(Full);
        }
        if self.sessions.len() < self.most {
            return Ok(None);
        }
        if let Some(own) = own.and_then(oldest) {
            return Ok(Some(own));
        }
        let others = self.by_owner.values().filter(|one| !one.quiet.is_empty());
        let largest = others.max_by_key(|one| one.all);
        largest.and_then(oldest).map(Some).ok_or(Full)
    }

    /// A session is in memory: a new one, which nobody has used, or one that was loaded.
    /// One that comes back stays whose it was.
    pub(crate) fn insert(&mut self, id: &Arc<str>, owner: QuotaOwner, dies: Time) {
        let owner = self.remove(id).unwrap_or(owner);
        self.by_owner.entry(owner.clone()).or_default().all += 1;
        let known = Known {
            owner,
            dies,
            quiet: None,
            in_memory: true,
        };
        self.sessions.insert(Arc::clone(id), known);
        self.quiet(id);
    }

    /// A session is in use from now on.
    pub(crate) fn in_use(&mut self, id: &str) {
        if let Some(known) = self.sessions.get_mut(id)
            && let Some(turn) = known.quiet.take()
            && let Some(owned) = self.by_owner.get_mut(&known.owner)
        {
            owned.quiet.remove(&turn);
        }
    }

    /// A session has left memory, and is in the store.
    pub(crate) fn unloaded(&mut self, id: &Arc<str>) {
        if let Some(known) = self.sessions.get_mut(id) {
            known.in_memory = false;
        }
        self.quiet(id);
    }

    fn quiet(&mut self, id: &Arc<str>) {
        self.in_use(id);
        if let Some(known) = self.sessions.get_mut(id)
            && let Some(owned) = self.by_owner.get_mut(&known.owner)
        {
            self.turns += 1;
            known.quiet = Some(self.turns);
            owned.quiet.insert(self.turns, Arc::clone(id));
        }
    }

    /// A session is no more. Whose it was; nothing happens if it was none.
    pub(crate) fn remove(&mut self, id: &str) -> Option<QuotaOwner> {
        self.in_use(id);
        let Known { owner, .. } = self.sessions.remove(id)?;
        if let Some(owned) = self.by_owner.get_mut(&owner) {
            owned.all -= 1;
            if owned.all == 0 {
                self.by_owner.remove(&owner);
            }
        }
        Some(owner)
    }

    /// Removes those in the store whose life is over. Those in memory have machines that say so.
    pub(crate) fn expire(&mut self, now: Time) {
        let expired = self.sessions.iter();
        let expired = expired.filter(|(_, known)| !known.in_memory && now >= known.dies);
        let expired: Vec<_> = expired.map(|(id, _)| Arc::clone(id)).collect();
        for id in expired {
            self.remove(&id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use interlock_engine::Principal;
    use std::net::IpAddr;

    fn guest(whose: &str) -> QuotaOwner {
        QuotaOwner::Principal(Principal::new(whose))
    }

    struct Hotel(SessionTable);

    impl Hotel {
        fn new(most: usize, most_each: usize) -> Self {
            Self(SessionTable::new(most, most_each))
        }

        fn check_in(&mut self, id: &str, whose: &str) {
            self.0.insert(&id.into(), guest(whose), Time(100));
        }

        /// Who gives way to another of this principal.
        fn gives_way(&self, whose: &str) -> Result<Option<String>, Full> {
            let gone = self.0.gives_way(&guest(whose))?;
            Ok(gone.map(|id| id.to_string()))
        }
    }

    #[test]
    fn nobody_gives_way_while_there_is_room() {
        let mut hotel = Hotel::new(3, 2);
        hotel.check_in("a1", "alice");
        assert_eq!(hotel.gives_way("alice"), Ok(None));
        assert_eq!(hotel.gives_way("bob"), Ok(None));
    }

    #[test]
    fn who_has_a_full_share_gives_way_alone_and_never_what_is_in_use() {
        let mut hotel = Hotel::new(10, 2);
        hotel.check_in("b1", "bob");
        hotel.check_in("a1", "alice");
        hotel.check_in("a2", "alice");
        assert_eq!(hotel.gives_way("alice"), Ok(Some("a1".to_owned())));
        hotel.0.in_use("a1");
        assert_eq!(hotel.gives_way("alice"), Ok(Some("a2".to_owned())));
        hotel.0.in_use("a2");
        assert_eq!(hotel.gives_way("alice"), Err(Full));
        hotel.0.unloaded(&"a1".into());
        assert_eq!(hotel.gives_way("alice"), Ok(Some("a1".to_owned())));
    }

    #[test]
    fn one_address_leaves_a_quarter_to_others_even_if_all_it_has_is_in_use() {
        let mut hotel = SessionTable::new(4, 4);
        let at = |last| {
            let address = IpAddr::from([10, 0, 0, last]);
            QuotaOwner::over_http(Principal::anonymous(), Some(address))
        };
        for id in ["a1", "a2", "a3"] {
            assert_eq!(hotel.gives_way(&at(1)), Ok(None));
            hotel.insert(&id.into(), at(1), Time(100));
            hotel.in_use(id);
        }
        assert_eq!(hotel.gives_way(&at(1)), Err(Full));
        assert_eq!(hotel.gives_way(&at(2)), Ok(None));
        // It stays whose it was when it comes back from the store.
        let nobody = QuotaOwner::over_http(Principal::anonymous(), None);
        hotel.insert(&"a1".into(), nobody, Time(100));
        hotel.in_use("a1");
        assert_eq!(hotel.gives_way(&at(1)), Err(Full));
    }

    #[test]
    fn in_a_full_house_who_has_most_gives_way_to_others() {
        let mut hotel = Hotel::new(4, 4);
        hotel.check_in("b1", "bob");
        for id in ["a1", "a2", "a3"] {
            hotel.check_in(id, "alice");
        }
        assert_eq!(hotel.gives_way("carol"), Ok(Some("a1".to_owned())));
        assert_eq!(hotel.gives_way("bob"), Ok(Some("b1".to_owned())));
        for id in ["a1", "a2", "a3"] {
            hotel.0.in_use(id);
        }
        assert_eq!(hotel.gives_way("carol"), Ok(Some("b1".to_owned())));
        hotel.0.in_use("b1");
        assert_eq!(hotel.gives_way("carol"), Err(Full));
    }

    #[test]
    fn the_counts_are_those_of_the_sessions_that_there_are() {
        let mut hotel = Hotel::new(2, 2);
        hotel.check_in("a1", "alice");
        hotel.check_in("a1", "alice");
        hotel.0.remove("a1");
        hotel.0.remove("a1");
        hotel.0.remove("never");
        assert!(hotel.0.by_owner.is_empty());
        hotel.check_in("a1", "alice");
        hotel.check_in("a2", "alice");
        hotel.0.unloaded(&"a2".into());
        hotel.0.expire(Time(99));
        assert!(hotel.0.contains("a1") && hotel.0.contains("a2"));
        hotel.0.expire(Time(100));
        assert!(hotel.0.contains("a1") && !hotel.0.contains("a2"));
        assert_eq!(hotel.gives_way("bob"), Ok(None));
    }
}
