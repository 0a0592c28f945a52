//! How many requests a principal may send.

use governor::{
    NotUntil, Quota, RateLimiter,
    clock::{self, Reference},
    middleware::NoOpMiddleware,
    nanos::Nanos,
    state::StateStore,
};
use interlock_engine::Principal;
use interlock_proto::{Code, Refusal, Time};
use std::{
    collections::HashMap,
    num::NonZeroU32,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// How many requests each principal may send. Default: any number.
///
/// Each limit is a bucket that starts full, loses one with each request and is refilled evenly: with
/// 60 per minute, 60 may come at once, and then one per second. Anonymous clients share one bucket.
///
/// ```
/// use interlock::Rates;
/// use std::num::NonZeroU32;
///
/// let rates = Rates { per_second: NonZeroU32::new(20), ..Rates::default() };
/// assert_eq!(rates.per_minute, None);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// The most requests in a second.
    pub per_second: Option<NonZeroU32>,
    /// The most requests in a minute.
    pub per_minute: Option<NonZeroU32>,
}

/// Why a request is refused, and when it would not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RateExceeded {
    /// Its message names the wait.
    pub(crate) refusal: Refusal,
    /// How long to wait.
    pub(crate) retry_after: Duration,
}

impl RateExceeded {
    fn new(code: Code, retry_after: Duration) -> Self {
        let what = code.facts().message;
        let why = format!("{what}: try again in {}", in_words(retry_after));
        Self {
            refusal: Refusal::new(code).because(why),
            retry_after,
        }
    }
}

/// Counts requests against the limits.
#[derive(Debug)]
pub(crate) struct RateLimits {
    now: Now,
    limits: Vec<Limit>,
}

impl RateLimits {
    /// Starts counting at `now`.
    pub(crate) fn new(rates: Rates, now: Time) -> Self {
        Self::with_most(MOST_PRINCIPALS, rates, now)
    }

    fn with_most(most: usize, rates: Rates, started: Time) -> Self {
        let now = Now {
            started,
            elapsed: Arc::default(),
        };
        let limit = |code, quota| Limit::new(code, quota, most, now.clone());
        // A request that the second limit refuses has used up some of the first, so the first is
        // the one that is refilled sooner.
        let second = |most| limit(Code::RateLimitPerSecond, Quota::per_second(most));
        let minute = |most| limit(Code::RateLimitPerMinute, Quota::per_minute(most));
        let limits = [rates.per_second.map(second), rates.per_minute.map(minute)];
        Self {
            limits: limits.into_iter().flatten().collect(),
            now,
        }
    }

    /// Counts one request.
    ///
    /// # Errors
    ///
    /// If it is one too many.
    pub(crate) fn check(&self, principal: &Principal, now: Time) -> Result<(), RateExceeded> {
        self.now.advance_to(now);
        self.limits
            .iter()
            .try_for_each(|limit| limit.check(principal))
    }
}

/// How many principals with requests of late are counted; further ones wait.
const MOST_PRINCIPALS: usize = 100_000;

/// How often principals whose buckets are full are removed.
const SWEEP: Duration = Duration::from_secs(1);

/// One kind of limit for all principals.
#[derive(Debug)]
struct Limit {
    code: Code,
    limiter: RateLimiter<Principal, Buckets, Now, NoOpMiddleware<Nanos>>,
    buckets: Buckets,
    now: Now,
}

impl Limit {
    fn new(code: Code, quota: Quota, most: usize, now: Now) -> Self {
        let buckets = Buckets {
            most,
            table: Arc::default(),
        };
        Self {
            code,
            limiter: RateLimiter::new(quota, buckets.clone(), now.clone()),
            buckets,
            now,
        }
    }

    fn check(&self, principal: &Principal) -> Result<(), RateExceeded> {
        let now = clock::Clock::now(&self.now);
        if let Some(wait) = self.buckets.make_room(principal, now) {
            return Err(RateExceeded::new(Code::RateLimitExceeded, wait));
        }
        let early = |not_until: NotUntil<Nanos>| {
            let wait = not_until.wait_time_from(now);
            RateExceeded::new(self.code, whole_millis(wait))
        };
        self.limiter.check_key(principal).map_err(early)
    }
}

/// The latest time of a request, as the limiter's clock. It does not run backwards.
#[derive(Clone, Debug)]
struct Now {
    started: Time,
    elapsed: Arc<AtomicU64>,
}

impl Now {
    fn advance_to(&self, now: Time) {
        let elapsed = self.started.until(now).as_millis();
        let elapsed = u64::try_from(elapsed).unwrap_or(u64::MAX);
        self.elapsed.fetch_max(elapsed, Ordering::Relaxed);
    }
}

impl clock::Clock for Now {
    type Instant = Nanos;

    fn now(&self) -> Nanos {
        // Far below the end of the range, so that there is room for adding to it: 146 years.
        const LAST: u64 = u64::MAX / 4;
        let millis = self.elapsed.load(Ordering::Relaxed);
        Nanos::new(millis.saturating_mul(1_000_000).min(LAST))
    }
}

/// When the bucket of each principal will be full again. Full ones are removed from time to time:
/// they equal those of new principals.
#[derive(Clone, Debug)]
struct Buckets {
    most: usize,
    table: Arc<Mutex<BucketTable>>,
}

#[derive(Debug, Default)]
struct BucketTable {
    full_at: HashMap<Principal, Nanos>,
    swept: Nanos,
}

impl Buckets {
    fn lock(&self) -> MutexGuard<'_, BucketTable> {
        // A panic under the lock leaves the table whole.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes room for the principal; or returns how long to wait before trying again.
    fn make_room(&self, principal: &Principal, now: Nanos) -> Option<Duration> {
        let mut table = self.lock();
        let since: Duration = now.duration_since(table.swept).into();
        if since >= SWEEP && !table.full_at.contains_key(principal) {
            table.full_at.retain(|_, full_at| *full_at > now);
            table.swept = now;
        }
        let full = table.full_at.len() >= self.most && !table.full_at.contains_key(principal);
        full.then(|| SWEEP.saturating_sub(now.duration_since(table.swept).into()))
    }
}

impl StateStore for Buckets {
    type Key = Principal;

    fn measure_and_replace<T, F, E>(&self, key: &Principal, decide: F) -> Result<T, E>
    where
        F: Fn(Option<Nanos>) -> Result<(T, Nanos), E>,
    {
        let mut table = self.lock();
        let (outcome, full_at) = decide(table.full_at.get(key).copied())?;
        table.full_at.insert(key.clone(), full_at);
        Ok(outcome)
    }
}

/// Rounds up, because a request that comes a fraction too early is refused again.
fn whole_millis(wait: Duration) -> Duration {
    let millis = wait.as_nanos().div_ceil(1_000_000);
    Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX))
}

fn in_words(wait: Duration) -> String {
    match wait.as_millis() {
        millis @ ..1000 => format!("{millis} ms"),
        millis => format!("{} s", millis.div_ceil(1000)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T0: Time = Time(1_700_000_000_000);

    fn rates(per_second: u32, per_minute: u32) -> Rates {
        Rates {
            per_second: NonZeroU32::new(per_second),
            per_minute: NonZeroU32::new(per_minute),
        }
    }

    fn limits(per_second: u32, per_minute: u32) -> RateLimits {
        RateLimits::new(rates(per_second, per_minute), T0)
    }

    fn at(millis: u64) -> Time {
        T0 + Duration::from_millis(millis)
    }

    fn alice() -> Principal {
        Principal::new("alice")
    }

    #[track_caller]
    fn refused(answer: Result<(), RateExceeded>, code: Code, wait: u64) -> Refusal {
        let refused = answer.expect_err("should be refused");
        assert_eq!(refused.refusal.code(), code);
        assert_eq!(refused.refusal.http_status(), 429);
        assert_eq!(refused.retry_after, Duration::from_millis(wait));
        refused.refusal
    }

    /// How many of `tries` requests at one time are let through.
    fn passed(limits: &RateLimits, principal: &Principal, tries: usize, now: Time) -> usize {
        let passes = |_: &usize| limits.check(principal, now).is_ok();
        (0..tries).filter(passes).count()
    }

    #[test]
    fn without_rates_everything_passes_and_nobody_is_remembered() {
        let limits = RateLimits::new(Rates::default(), T0);
        assert_eq!(passed(&limits, &alice(), 10_000, T0), 10_000);
        assert!(limits.limits.is_empty());
    }

    #[test]
    fn a_second_holds_so_many_and_then_fills_up_evenly() {
        let limits = limits(4, 0);
        assert_eq!(passed(&limits, &alice(), 10, T0), 4);
        let refusal = refused(limits.check(&alice(), T0), Code::RateLimitPerSecond, 250);
        assert_eq!(
            refusal.message(),
            "too many requests in this second: try again in 250 ms"
        );
        assert_eq!(passed(&limits, &alice(), 10, at(249)), 0);
        assert_eq!(passed(&limits, &alice(), 10, at(250)), 1);
        assert_eq!(passed(&limits, &alice(), 10, at(1250)), 4);
        assert_eq!(passed(&limits, &alice(), 10, at(99_000)), 4);
    }

    #[test]
    fn a_minute_holds_so_many_and_then_fills_up_evenly() {
        let limits = limits(0, 6);
        assert_eq!(passed(&limits, &alice(), 10, T0), 6);
        let refusal = refused(
            limits.check(&alice(), at(500)),
            Code::RateLimitPerMinute,
            9_500,
        );
        assert_eq!(
            refusal.message(),
            "too many requests in this minute: try again in 10 s"
        );
        assert_eq!(passed(&limits, &alice(), 10, at(9_999)), 0);
        assert_eq!(passed(&limits, &alice(), 10, at(10_000)), 1);
    }

    #[test]
    fn who_waits_as_long_as_told_is_let_through() {
        // A third of a second is no whole number of milliseconds.
        let limits = limits(3, 0);
        let mut now = T0;
        for _ in 0..50 {
            while limits.check(&alice(), now).is_ok() {}
            let wait = limits.check(&alice(), now).unwrap_err().retry_after;
            now = now + wait;
            assert_eq!(limits.check(&alice(), now), Ok(()));
        }
    }

    #[test]
    fn both_limits_hold() {
        let limits = limits(2, 5);
        assert_eq!(passed(&limits, &alice(), 9, T0), 2);
        refused(limits.check(&alice(), T0), Code::RateLimitPerSecond, 500);
        assert_eq!(passed(&limits, &alice(), 9, at(1_000)), 2);
        assert_eq!(passed(&limits, &alice(), 9, at(2_000)), 1);
        refused(
            limits.check(&alice(), at(3_000)),
            Code::RateLimitPerMinute,
            9_000,
        );
    }

    #[test]
    fn a_burst_that_the_second_refuses_does_not_use_up_the_minute() {
        let limits = limits(1, 60);
        assert_eq!(passed(&limits, &alice(), 1_000, T0), 1);
        let later = (1..=59).filter(|second| passed(&limits, &alice(), 9, at(second * 1_000)) == 1);
        assert_eq!(later.count(), 59);
    }

    #[test]
    fn each_principal_has_its_own_bucket() {
        let limits = limits(1, 0);
        let (bob, called) = (Principal::new("bob"), Principal::new("anonymous"));
        for principal in [alice(), bob, called, Principal::anonymous()] {
            assert_eq!(passed(&limits, &principal, 5, T0), 1);
        }
    }

    #[test]
    fn time_does_not_run_backwards() {
        let limits = limits(1, 0);
        assert_eq!(passed(&limits, &alice(), 5, at(5_000)), 1);
        for earlier in [T0, Time(0), at(4_999)] {
            let answer = limits.check(&alice(), earlier);
            refused(answer, Code::RateLimitPerSecond, 1_000);
        }
        assert_eq!(passed(&limits, &alice(), 5, at(6_000)), 1);
    }

    #[test]
    fn the_ends_of_time_and_of_rates_do_no_harm() {
        for (per_second, per_minute) in [(u32::MAX, u32::MAX), (1, 1), (u32::MAX, 1)] {
            let limits = limits(per_second, per_minute);
            for now in [Time(0), T0, Time(u64::MAX - 1), Time(u64::MAX)] {
                let _ = passed(&limits, &alice(), 3, now);
            }
        }
        let early = RateLimits::new(rates(1, 0), Time(0));
        assert_eq!(passed(&early, &alice(), 3, Time(u64::MAX)), 1);
        refused(
            early.check(&alice(), Time(u64::MAX)),
            Code::RateLimitPerSecond,
            1_000,
        );
    }

    fn remembered(limits: &RateLimits) -> usize {
        limits.limits[0].buckets.lock().full_at.len()
    }

    fn number(number: u64) -> Principal {
        Principal::new(number.to_string())
    }

    #[test]
    fn principals_whose_buckets_are_full_again_are_forgotten() {
        let limits = limits(1, 0);
        for caller in 0..1_000 {
            assert_eq!(limits.check(&number(caller), T0), Ok(()));
        }
        assert_eq!(remembered(&limits), 1_000);
        assert_eq!(limits.check(&alice(), at(1_000)), Ok(()));
        assert_eq!(remembered(&limits), 1);
    }

    #[test]
    fn principals_whose_buckets_are_not_full_are_remembered() {
        let limits = limits(0, 1);
        assert_eq!(limits.check(&alice(), T0), Ok(()));
        for caller in 0..50 {
            assert_eq!(limits.check(&number(caller), at(caller * 1_000)), Ok(()));
        }
        assert_eq!(remembered(&limits), 51);
        refused(
            limits.check(&alice(), at(59_999)),
            Code::RateLimitPerMinute,
            1,
        );
    }

    #[test]
    fn no_more_principals_than_fit_are_remembered_and_known_ones_go_on() {
        let limits = RateLimits::with_most(3, rates(0, 2), T0);
        for caller in 0..3 {
            assert_eq!(limits.check(&number(caller), T0), Ok(()));
        }
        let refusal = refused(limits.check(&alice(), at(1)), Code::RateLimitExceeded, 999);
        assert_eq!(refusal.message(), "too many requests: try again in 999 ms");
        assert_eq!(limits.check(&number(0), at(1)), Ok(()));
        assert_eq!(remembered(&limits), 3);
        refused(
            limits.check(&alice(), at(1_000)),
            Code::RateLimitExceeded,
            1_000,
        );
        assert_eq!(limits.check(&alice(), at(30_000)), Ok(()));
        assert_eq!(remembered(&limits), 2);
    }

    #[test]
    fn many_threads_get_no_more_than_one_would() {
        let limits = limits(100, 0);
        let total: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| passed(&limits, &alice(), 100, T0)))
                .collect();
            threads.into_iter().map(|one| one.join().unwrap()).sum()
        });
        assert_eq!(total, 100);
    }

    #[test]
    fn a_wait_is_told_in_round_words() {
        let words = |millis| in_words(Duration::from_millis(millis));
        assert_eq!(words(0), "0 ms");
        assert_eq!(words(999), "999 ms");
        assert_eq!(words(1_000), "1 s");
        assert_eq!(words(1_001), "2 s");
    }
}
