//! The buckets, held against a clock that the tests move.

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
fn refused(answer: Result<(), Refusal>, code: Code, wait: u64) -> Refusal {
    let refused = answer.expect_err("should be refused");
    assert_eq!(refused.code(), code);
    assert_eq!(refused.http_status(), 429);
    assert_eq!(refused.retry_after(), Some(Duration::from_millis(wait)));
    refused
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
    assert_eq!(remembered(&limits), 0);
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
        let wait = limits
            .check(&alice(), now)
            .unwrap_err()
            .retry_after()
            .unwrap();
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
fn nothing_is_gained_by_a_time_that_is_over() {
    let limits = limits(1, 0);
    assert_eq!(passed(&limits, &alice(), 5, at(5_000)), 1);
    for earlier in [T0, Time(0), at(4_999)] {
        assert!(limits.check(&alice(), earlier).is_err());
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
    limits.principals.lock().unwrap().used.len()
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

fn calls(session: Option<&SessionUse>, rates: &CallRates, principal: &Principal) -> usize {
    let passes = |_: &usize| {
        rates
            .check(Method::ToolsCall, session, principal, T0)
            .is_ok()
    };
    (0..10).filter(passes).count()
}

#[test]
fn the_sessions_of_a_principal_share_a_bucket_and_those_of_nobody_have_their_own() {
    let rates = CallRates::new(rates(4, 0), Rates::default(), T0);
    for (principal, again) in [(alice(), 0), (Principal::anonymous(), 4)] {
        let [first, second] = [(); 2].map(|()| rates.of_session(&principal, T0));
        assert_eq!(calls(Some(&first), &rates, &principal), 4);
        assert_eq!(calls(Some(&first), &rates, &principal), 0);
        assert_eq!(calls(Some(&second), &rates, &principal), again);
        // Without a session, those whom nobody can tell apart share one.
        assert_eq!(calls(None, &rates, &principal), again);
        assert_eq!(calls(None, &rates, &principal), 0);
    }
}

#[test]
fn calls_and_completions_are_counted_apart_and_nothing_else_is() {
    let rates = CallRates::new(rates(1, 0), rates(2, 0), T0);
    let session = rates.of_session(&alice(), T0);
    let passed = |method| {
        let passes = |_: &usize| rates.check(method, Some(&session), &alice(), T0).is_ok();
        (0..10).filter(passes).count()
    };
    assert_eq!(passed(Method::CompletionComplete), 2);
    assert_eq!(passed(Method::PromptsGet), 1);
    assert_eq!(passed(Method::ToolsCall), 0);
    assert_eq!(passed(Method::ToolsList), 10);
    assert_eq!(passed(Method::Ping), 10);
}
