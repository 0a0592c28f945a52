//! A point in time that is handed in, never asked for.

use std::{ops::Add, time::Duration};

/// Milliseconds since the Unix epoch: it can be stored, hashed, and compared after a restart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Time(pub u64);

impl Time {
    /// How long it is from `self` until `later`; zero if that has passed.
    #[must_use]
    pub const fn until(self, later: Self) -> Duration {
        Duration::from_millis(later.0.saturating_sub(self.0))
    }
}

impl Add<Duration> for Time {
    type Output = Self;

    /// Saturates: a deadline too far away to count is never.
    fn add(self, span: Duration) -> Self {
        let seconds = span.as_secs().saturating_mul(1_000);
        let millis = seconds.saturating_add(u64::from(span.subsec_millis()));
        Self(self.0.saturating_add(millis))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_too_far_away_saturates() {
        assert_eq!(Time(1) + Duration::MAX, Time(u64::MAX));
        assert_eq!(Time(5).until(Time(3)), Duration::ZERO);
        assert_eq!(Time(3).until(Time(5)), Duration::from_millis(2));
    }
}
