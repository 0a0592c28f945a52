//! How long an instance behind a handle is kept, and for whom.

use crate::{instance::Instance, principal::Principal, record::Written};
use interlock_proto::Time;
use interlock_store::{self as store, Value};
use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// For whom an instance behind a handle is kept, and for how long.
#[derive(Debug)]
pub(crate) struct Lease {
    principal: Principal,
    /// How long it is kept after its last use, in milliseconds.
    idle: u64,
    /// When it expires, in milliseconds since the epoch. Only use changes that.
    expires: AtomicU64,
    /// When it was used last by this process, in milliseconds since the epoch.
    used: AtomicU64,
}

impl Lease {
    pub(crate) fn new(principal: Principal, idle: Duration) -> Self {
        Self {
            principal,
            idle: u64::try_from(idle.as_millis()).unwrap_or(u64::MAX),
            expires: AtomicU64::new(0),
            used: AtomicU64::new(0),
        }
    }

    /// One that lasts as long as its record says.
    pub(crate) fn stored(
        principal: Principal,
        idle: Duration,
        expires: Option<store::Time>,
    ) -> Self {
        let lease = Self::new(principal, idle);
        let expires = expires.map_or(u64::MAX, |expires| expires.0);
        Self {
            expires: AtomicU64::new(expires),
            used: AtomicU64::new(lease.used_before(expires).0),
            ..lease
        }
    }

    pub(crate) const fn principal(&self) -> &Principal {
        &self.principal
    }

    /// When it was used last, as far as this process knows.
    pub(crate) fn used(&self) -> Time {
        Time(self.used.load(Ordering::Relaxed))
    }

    /// The earliest time of its last use if it expires then in the store, which does not hear of
    /// every use.
    fn used_before(&self, expires: u64) -> Time {
        Time(expires.saturating_sub(self.idle.saturating_add(self.idle / 8)))
    }

    /// Prolongs it. It is kept a little longer than promised, so that the next uses need not be
    /// stored.
    pub(crate) fn touch(&self, now: Time) {
        self.used.fetch_max(now.0, Ordering::Relaxed);
        let promised = now.0.saturating_add(self.idle);
        if self.expires.load(Ordering::Relaxed) < promised {
            let longer = promised.saturating_add(self.idle / 8);
            self.expires.fetch_max(longer, Ordering::Relaxed);
        }
    }

    /// Whether the record expires before what has been promised.
    pub(crate) fn outlives(&self, stored: &Value, now: Time) -> bool {
        let promised = now.0.saturating_add(self.idle);
        stored.expires.is_some_and(|expires| expires.0 < promised)
    }
}

impl Instance {
    /// What it is stored as. While a call runs it does not expire.
    pub(crate) fn value(&self, written: &Written) -> Value {
        let value = Value::new(written.bytes());
        let Some(lease) = &self.lease else {
            return value;
        };
        let expires = lease.expires.load(Ordering::Relaxed);
        let running = written.running.as_ref();
        let expires = running.map_or(expires, |running| expires.max(running.until));
        value.until(store::Time(expires))
    }

    /// Whether it is behind a handle that was made for this principal.
    pub fn is_of(&self, principal: &Principal) -> bool {
        let lease = self.lease.as_ref();
        lease.is_some_and(|lease| lease.principal == *principal)
    }

    /// Whether it is behind a handle.
    pub const fn is_leased(&self) -> bool {
        self.lease.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{World, flow, running};
    use interlock_workflow::Kind;
    use std::sync::Arc;

    const IDLE: Duration = Duration::from_millis(800);

    fn lease() -> Lease {
        Lease::new(Principal::new("alice"), IDLE)
    }

    fn expires(lease: &Lease) -> u64 {
        lease.expires.load(Ordering::Relaxed)
    }

    #[test]
    fn a_use_prolongs_a_lease_and_the_next_uses_need_not_be_stored() {
        let lease = lease();
        lease.touch(Time(1_000));
        assert_eq!(expires(&lease), 1_900, "an eighth longer than promised");
        for now in [1_000, 1_100] {
            lease.touch(Time(now));
            assert_eq!(expires(&lease), 1_900, "{now}");
        }
        lease.touch(Time(1_101));
        assert_eq!(expires(&lease), 2_001);
        lease.touch(Time(500));
        assert_eq!(expires(&lease), 2_001, "it is never shortened");
        lease.touch(Time(u64::MAX));
        assert_eq!(expires(&lease), u64::MAX);
    }

    #[test]
    fn a_stored_lease_lasts_as_long_as_its_record() {
        let of = |expires| Lease::stored(Principal::anonymous(), IDLE, expires);
        assert_eq!(expires(&of(Some(store::Time(7)))), 7);
        assert_eq!(expires(&of(None)), u64::MAX);
    }

    #[test]
    fn a_record_is_stored_anew_if_it_expires_before_what_is_promised() {
        let value = || Value::new(*b"");
        let until = |expires| value().until(store::Time(expires));
        assert!(lease().outlives(&until(1_799), Time(1_000)));
        assert!(!lease().outlives(&until(1_800), Time(1_000)));
        assert!(!lease().outlives(&until(1_801), Time(1_000)));
        assert!(!lease().outlives(&value(), Time(1_000)));
    }

    #[test]
    fn an_instance_behind_a_handle_is_of_one_principal() {
        let process = World::durable(flow()).process();
        let leased = Instance::new(&process, "i".into(), Some(lease()));
        let shared = Instance::new(&process, "j".into(), None);
        let (alice, bob) = (Principal::new("alice"), Principal::new("bob"));
        assert!(leased.is_leased() && leased.is_of(&alice));
        assert!(!leased.is_of(&bob));
        assert!(!shared.is_leased() && !shared.is_of(&alice));
        leased.lease.as_ref().unwrap().touch(Time(1_000));
        let mut written = Written::new(&flow(), &leased.run(), None);
        assert_eq!(leased.value(&written).expires, Some(store::Time(1_900)));
        assert_eq!(shared.value(&written).expires, None);
        // A call that must be over at 5,000.
        written.running = Some(Arc::new(running((1, 0), (Kind::Tool, "go"))));
        assert_eq!(leased.value(&written).expires, Some(store::Time(5_000)));
    }
}
