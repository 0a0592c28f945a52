//! How many requests, calls and completions a client may send.
//!
//! Each limit is a bucket. What is kept of it is one number: when it will be full again.

use interlock_engine::Principal;
use interlock_proto::{Code, Refusal, Time, era::Method};
use std::{
    collections::HashMap,
    num::NonZeroU32,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

#[cfg(test)]
mod tests;

/// How many requests, calls or completions a client may send. Default: any number.
///
/// Each limit is a bucket that starts full, loses one with each request and is refilled evenly: with
/// 60 per minute, 60 may come at once, and then one per second.
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

impl Rates {
    /// How many calls of tools, resources and prompts a client may make, unless a server says
    /// otherwise: 10,000 per second, far more than any agent makes.
    pub const CALLS: Self = Self::per_second(NonZeroU32::new(10_000).expect("it is not zero"));

    /// How many completions a client may ask for, unless a server says otherwise: 1,000 per second,
    /// far more than anybody types.
    pub const COMPLETIONS: Self = Self::per_second(NonZeroU32::new(1_000).expect("it is not zero"));

    /// So many in a second.
    #[must_use]
    pub const fn per_second(most: NonZeroU32) -> Self {
        Self {
            per_second: Some(most),
            per_minute: None,
        }
    }

    /// Counts one request.
    ///
    /// # Errors
    ///
    /// If it is one too many.
    fn check(&self, used: &Used, now: Time) -> Result<(), Refusal> {
        let now = Nanos::of(now);
        let limit = |most: Option<NonZeroU32>, bucket, period, code| match most {
            Some(most) => {
                Nanos::take(bucket, most, period, now).map_err(|wait| exceeded(code, wait))
            }
            None => Ok(()),
        };
        // A request that the second limit refuses has used up some of the first, so the first is
        // the one that is refilled sooner.
        let minute = Duration::from_secs(60);
        limit(
            self.per_second,
            &used.second,
            Duration::from_secs(1),
            Code::RateLimitPerSecond,
        )?;
        limit(
            self.per_minute,
            &used.minute,
            minute,
            Code::RateLimitPerMinute,
        )
    }
}

/// What a client has used up: when each bucket will be full again.
#[derive(Debug, Default)]
pub(crate) struct Used {
    second: AtomicU64,
    minute: AtomicU64,
}

impl Used {
    fn is_full(&self, now: Time) -> bool {
        let full_at = |bucket: &AtomicU64| bucket.load(Ordering::Relaxed);
        full_at(&self.second).max(full_at(&self.minute)) <= Nanos::of(now).0
    }
}

/// A time in nanoseconds, for a request may cost less than a millisecond of a bucket.
#[derive(Clone, Copy)]
struct Nanos(u64);

impl Nanos {
    fn of(time: Time) -> Self {
        // Far below the end of the range, so that there is room for adding to it.
        Self(time.0.saturating_mul(1_000_000).min(u64::MAX / 2))
    }

    /// Takes one out of a bucket that holds so many and is refilled in a period; or returns how long
    /// to wait for it.
    fn take(
        bucket: &AtomicU64,
        most: NonZeroU32,
        period: Duration,
        Self(now): Self,
    ) -> Result<(), Duration> {
        let period = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX / 4);
        let cost = (period / u64::from(most.get())).max(1);
        let full_within = cost * u64::from(most.get());
        let after = |full_at: u64| full_at.max(now) + cost;
        let fits = |full_at| Some(after(full_at)).filter(|after| after - now <= full_within);
        match bucket.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits) {
            Ok(_) => Ok(()),
            Err(full_at) => Err(Duration::from_nanos(after(full_at) - now - full_within)),
        }
    }
}

/// How many principals are remembered whose buckets are not full; further ones wait.
const MOST_PRINCIPALS: usize = 100_000;

/// How often principals whose buckets are full are removed: they equal new ones.
const SWEEP: Duration = Duration::from_secs(1);

/// Counts what each principal sends.
#[derive(Debug)]
pub(crate) struct RateLimits {
    rates: Rates,
    most: usize,
    principals: Mutex<Principals>,
}

#[derive(Debug)]
struct Principals {
    used: HashMap<Principal, Arc<Used>>,
    swept: Time,
}

impl RateLimits {
    /// Starts counting at `now`.
    pub(crate) fn new(rates: Rates, now: Time) -> Self {
        Self::with_most(MOST_PRINCIPALS, rates, now)
    }

    fn with_most(most: usize, rates: Rates, now: Time) -> Self {
        let principals = Principals {
            used: HashMap::new(),
            swept: now,
        };
        Self {
            rates,
            most,
            principals: Mutex::new(principals),
        }
    }

    /// Counts one request.
    ///
    /// # Errors
    ///
    /// If it is one too many.
    pub(crate) fn check(&self, principal: &Principal, now: Time) -> Result<(), Refusal> {
        if self.rates == Rates::default() {
            return Ok(());
        }
        let used = self.used(principal, now)?;
        self.rates.check(&used, now)
    }

    /// What this principal has used up.
    fn used(&self, principal: &Principal, now: Time) -> Result<Arc<Used>, Refusal> {
        // A panic under the lock leaves the table whole.
        let mut table = self
            .principals
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(used) = table.used.get(principal) {
            return Ok(Arc::clone(used));
        }
        if table.swept.until(now) >= SWEEP {
            // A session holds what its principal has used up.
            table
                .used
                .retain(|_, used| Arc::strong_count(used) > 1 || !used.is_full(now));
            table.swept = now;
        }
        if table.used.len() >= self.most {
            let wait = SWEEP.saturating_sub(table.swept.until(now));
            return Err(exceeded(Code::RateLimitExceeded, wait));
        }
        let used = Arc::<Used>::default();
        table.used.insert(principal.clone(), Arc::clone(&used));
        Ok(used)
    }
}

/// How many calls and completions each client may make.
#[derive(Debug)]
pub(crate) struct CallRates {
    calls: RateLimits,
    completions: RateLimits,
}

/// What the client of one session has used up.
#[derive(Debug)]
pub(crate) struct SessionUse {
    calls: Arc<Used>,
    completions: Arc<Used>,
}

impl CallRates {
    pub(crate) fn new(calls: Rates, completions: Rates, now: Time) -> Self {
        Self {
            calls: RateLimits::new(calls, now),
            completions: RateLimits::new(completions, now),
        }
    }

    /// What the client of a new session has used up. Sessions of one principal share it; an
    /// anonymous client has its own for each.
    pub(crate) fn of_session(&self, principal: &Principal, now: Time) -> SessionUse {
        let of = |limits: &RateLimits| match *principal == Principal::anonymous() {
            true => Arc::default(),
            // If there are too many principals, there are not too many sessions.
            false => limits.used(principal, now).unwrap_or_default(),
        };
        SessionUse {
            calls: of(&self.calls),
            completions: of(&self.completions),
        }
    }

    /// Counts a request, if it is a call or a completion. Without a session, its principal counts;
    /// clients that nobody can tell apart count together.
    ///
    /// # Errors
    ///
    /// If it is one too many.
    #[inline]
    pub(crate) fn check(
        &self,
        method: Method,
        session: Option<&SessionUse>,
        principal: &Principal,
        now: Time,
    ) -> Result<(), Refusal> {
        if !method.is_call() {
            return Ok(());
        }
        let is_completion = method == Method::CompletionComplete;
        let limits = if is_completion {
            &self.completions
        } else {
            &self.calls
        };
        match session {
            Some(used) => {
                let used = if is_completion {
                    &used.completions
                } else {
                    &used.calls
                };
                limits.rates.check(used, now)
            }
            None => limits.check(principal, now),
        }
    }
}

#[cold]
fn exceeded(code: Code, wait: Duration) -> Refusal {
    let wait = whole_millis(wait);
    let what = code.facts().message;
    Refusal::new(code)
        .because(format!("{what}: try again in {}", in_words(wait)))
        .after(wait)
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
