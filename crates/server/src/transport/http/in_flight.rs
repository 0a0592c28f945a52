//! How many requests may be worked on at once, and how many may wait: in all, and of each client.
//!
//! A request takes a slot when its body has come, and gives it back when its call is over. A call
//! that asks a person, or whose client has left, takes little work and much time, so it only counts
//! among those that wait. Where there is no room among those, it keeps its slot.

use crate::outbound::subscribers::QuotaOwner;
use interlock_proto::{Code, Refusal};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// How many requests there may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) at_work: usize,
    pub(crate) waiting: usize,
    /// How many of each one principal may have.
    pub(crate) per_principal: usize,
}

/// Counts the requests that are being worked on, and those that wait.
#[derive(Debug)]
pub(crate) struct InFlight {
    bounds: Bounds,
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    all: Load,
    by_owner: HashMap<QuotaOwner, Load>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Load {
    at_work: usize,
    waiting: usize,
}

impl InFlight {
    pub(crate) fn new(bounds: Bounds) -> Arc<Self> {
        Arc::new(Self {
            bounds,
            counts: Mutex::default(),
        })
    }

    /// Counts one more.
    ///
    /// # Errors
    ///
    /// 1001 if the client has too many, 1005 if there are too many in all.
    pub(crate) fn enter(self: &Arc<Self>, owner: QuotaOwner) -> Result<Arc<Slot>, Refusal> {
        let mut counts = lock(&self.counts);
        let Counts { all, by_owner } = &mut *counts;
        if all.at_work >= self.bounds.at_work {
            return Err(Refusal::new(Code::BackpressureActive));
        }
        let own = by_owner.entry(owner.clone()).or_default();
        if own.at_work >= owner.share(self.bounds.at_work, self.bounds.per_principal) {
            return Err(Refusal::new(Code::QueueCapExceeded));
        }
        own.at_work += 1;
        all.at_work += 1;
        drop(counts);
        Ok(Arc::new(Slot {
            in_flight: Arc::clone(self),
            owner,
            stage: Mutex::new(Stage::AtWork),
        }))
    }

    /// Counts a request among those that wait, if there is room.
    fn wait(&self, owner: &QuotaOwner) -> bool {
        let mut counts = lock(&self.counts);
        let Counts { all, by_owner } = &mut *counts;
        let own = by_owner.entry(owner.clone()).or_default();
        let has_room = all.waiting < self.bounds.waiting
            && own.waiting < owner.share(self.bounds.waiting, self.bounds.per_principal);
        if has_room {
            for load in [own, all] {
                load.at_work -= 1;
                load.waiting += 1;
            }
        }
        has_room
    }

    fn leave(&self, owner: &QuotaOwner, stage: Stage) {
        let mut counts = lock(&self.counts);
        let Counts { all, by_owner } = &mut *counts;
        let own = by_owner.entry(owner.clone()).or_default();
        for load in [&mut *own, all] {
            match stage {
                Stage::AtWork => load.at_work -= 1,
                Stage::Waiting => load.waiting -= 1,
                Stage::Over => {}
            }
        }
        if *own == Load::default() {
            by_owner.remove(owner);
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    AtWork,
    Waiting,
    Over,
}

/// A request that is counted, until this is dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    in_flight: Arc<InFlight>,
    owner: QuotaOwner,
    stage: Mutex<Stage>,
}

impl Slot {
    /// The call asks a person, or nobody reads its answer any more.
    pub(crate) fn wait(&self) {
        let mut stage = lock(&self.stage);
        if *stage == Stage::AtWork && self.in_flight.wait(&self.owner) {
            *stage = Stage::Waiting;
        }
    }

    /// The request is not counted any more.
    pub(crate) fn release(&self) {
        let stage = std::mem::replace(&mut *lock(&self.stage), Stage::Over);
        if stage != Stage::Over {
            self.in_flight.leave(&self.owner, stage);
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.release();
    }
}

/// The response of a request. When it is dropped, nobody reads it any more.
#[derive(Debug)]
pub(crate) struct ReadBy(pub(crate) Arc<Slot>);

impl Drop for ReadBy {
    fn drop(&mut self) {
        self.0.wait();
    }
}

/// A panic under one of these locks leaves the counts whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use interlock_engine::Principal;
    use std::net::IpAddr;

    fn known(name: &str) -> QuotaOwner {
        QuotaOwner::Principal(Principal::new(name))
    }

    fn address(last: u8) -> QuotaOwner {
        let address = IpAddr::from([10, 0, 0, last]);
        QuotaOwner::over_http(Principal::anonymous(), Some(address))
    }

    fn bounds(at_work: usize, waiting: usize, per_principal: usize) -> Bounds {
        Bounds {
            at_work,
            waiting,
            per_principal,
        }
    }

    fn refused(entered: Result<Arc<Slot>, Refusal>) -> Code {
        entered.expect_err("there is no room").code()
    }

    #[test]
    fn one_principal_has_its_share_and_leaves_the_rest_to_others() {
        let in_flight = InFlight::new(bounds(4, 4, 2));
        let enter = |owner| in_flight.enter(owner);
        let first = enter(known("alice")).unwrap();
        let _second = enter(known("alice")).unwrap();
        assert_eq!(refused(enter(known("alice"))), Code::QueueCapExceeded);
        let _others = [known("bob"), address(1)].map(|owner| enter(owner).unwrap());
        assert_eq!(refused(enter(known("bob"))), Code::BackpressureActive);
        drop(first);
        assert!(enter(known("alice")).is_ok());
    }

    #[test]
    fn one_address_leaves_a_quarter_to_others_at_work_and_waiting() {
        let in_flight = InFlight::new(bounds(4, 4, 2));
        let slots: Vec<_> = (0..6)
            .map(|n| {
                let slot = in_flight.enter(address(1));
                let slot = slot.unwrap_or_else(|refusal| panic!("{n}: {refusal:?}"));
                slot.wait();
                slot
            })
            .collect();
        assert_eq!(refused(in_flight.enter(address(1))), Code::QueueCapExceeded);
        let other = in_flight.enter(address(2)).unwrap();
        other.wait();
        let at_work = in_flight.enter(address(2)).unwrap();
        assert_eq!(
            refused(in_flight.enter(address(2))),
            Code::BackpressureActive
        );
        drop((slots, other, at_work));
        let counts = in_flight.counts.lock().unwrap();
        assert_eq!(counts.all, Load::default());
        assert!(counts.by_owner.is_empty());
    }

    #[test]
    fn clients_that_cannot_be_told_apart_have_all_that_there_is() {
        let in_flight = InFlight::new(bounds(2, 2, 1));
        let nobody = || QuotaOwner::over_http(Principal::anonymous(), None);
        let _both = [(); 2].map(|()| in_flight.enter(nobody()).unwrap());
        assert_eq!(refused(in_flight.enter(nobody())), Code::BackpressureActive);
    }

    #[test]
    fn a_slot_is_given_back_once_and_nothing_is_left() {
        let in_flight = InFlight::new(bounds(2, 2, 2));
        let slot = in_flight.enter(known("alice")).unwrap();
        let response = ReadBy(Arc::clone(&slot));
        slot.wait();
        slot.release();
        slot.wait();
        drop((response, slot));
        let counts = in_flight.counts.lock().unwrap();
        assert_eq!(counts.all, Load::default());
        assert!(counts.by_owner.is_empty());
    }
}
