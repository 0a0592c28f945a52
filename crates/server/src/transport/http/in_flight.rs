//! How many requests may be worked on at once: in all, and of each principal.
//!
//! A request takes a slot when its body has come, and gives it back when its response is dropped:
//! read, hung up on, or cut off because nobody reads it. A call that asks a person gives it back at
//! once, since a person takes their time. Whoever gains by that has the bound of its session.

use interlock_engine::Principal;
use interlock_proto::{Code, Refusal};
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

/// Counts the requests that are being worked on.
#[derive(Debug)]
pub(crate) struct InFlight {
    most: usize,
    /// How many of them one principal may have. Anonymous clients cannot be told apart.
    most_each: usize,
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    all: usize,
    by_principal: HashMap<Principal, usize>,
}

impl InFlight {
    pub(crate) fn new(most: usize, most_each: usize) -> Arc<Self> {
        Arc::new(Self {
            most,
            most_each,
            counts: Mutex::default(),
        })
    }

    /// Counts one more.
    ///
    /// # Errors
    ///
    /// 1001 if the principal has too many, 1005 if there are too many in all.
    pub(crate) fn enter(self: &Arc<Self>, principal: &Principal) -> Result<Arc<Slot>, Refusal> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.all >= self.most {
            return Err(Refusal::new(Code::BackpressureActive));
        }
        if !principal.is_anonymous() {
            let own = counts.by_principal.entry(principal.clone()).or_default();
            if *own >= self.most_each {
                return Err(Refusal::new(Code::QueueCapExceeded));
            }
            *own += 1;
        }
        counts.all += 1;
        Ok(Arc::new(Slot {
            in_flight: Arc::clone(self),
            principal: principal.clone(),
            is_held: AtomicBool::new(true),
        }))
    }

    fn leave(&self, principal: &Principal) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.all -= 1;
        if let Some(own) = counts.by_principal.get_mut(principal) {
            *own -= 1;
            if *own == 0 {
                counts.by_principal.remove(principal);
            }
        }
    }
}

/// A request that is being worked on.
#[derive(Debug)]
pub(crate) struct Slot {
    in_flight: Arc<InFlight>,
    principal: Principal,
    is_held: AtomicBool,
}

impl Slot {
    /// Gives the slot back; only the first time counts.
    pub(crate) fn release(&self) {
        if self.is_held.swap(false, Ordering::Relaxed) {
            self.in_flight.leave(&self.principal);
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.release();
    }
}

/// Gives a slot back when it is dropped, whoever else knows the slot.
#[derive(Debug)]
pub(crate) struct ReleaseOnDrop(pub(crate) Arc<Slot>);

impl Drop for ReleaseOnDrop {
    fn drop(&mut self) {
        self.0.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(entered: Result<Arc<Slot>, Refusal>) -> Code {
        entered.expect_err("there is no room").code()
    }

    #[test]
    fn one_principal_has_its_share_and_leaves_the_rest_to_others() {
        let in_flight = InFlight::new(4, 2);
        let (alice, bob) = (Principal::new("alice"), Principal::new("bob"));
        let nobody = Principal::anonymous();
        let first = in_flight.enter(&alice).unwrap();
        let _second = in_flight.enter(&alice).unwrap();
        assert_eq!(refused(in_flight.enter(&alice)), Code::QueueCapExceeded);
        let _others = [&bob, &nobody].map(|principal| in_flight.enter(principal).unwrap());
        assert_eq!(refused(in_flight.enter(&bob)), Code::BackpressureActive);
        drop(first);
        assert!(in_flight.enter(&alice).is_ok());
    }

    #[test]
    fn a_slot_is_given_back_once_and_nothing_is_left() {
        let in_flight = InFlight::new(2, 2);
        let alice = Principal::new("alice");
        let slot = in_flight.enter(&alice).unwrap();
        let body = ReleaseOnDrop(Arc::clone(&slot));
        slot.release();
        drop((body, slot));
        let counts = in_flight.counts.lock().unwrap();
        assert_eq!(counts.all, 0);
        assert!(counts.by_principal.is_empty());
    }
}
