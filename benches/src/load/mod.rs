//! The load: requests that differ, answers that are checked one by one, and the time between.

pub(crate) mod answer;
pub(crate) mod http;
pub(crate) mod question;
#[cfg(unix)]
pub(crate) mod stdio;
#[cfg(not(unix))]
#[path = "no_stdio.rs"]
pub(crate) mod stdio;

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::histogram::Histogram;

/// When a load has done enough.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Until {
    Calls(u64),
    Elapsed(Duration),
}

/// What a load has seen.
pub(crate) struct Tally {
    pub(crate) latencies: Histogram,
    pub(crate) elapsed: Duration,
    /// What servers said without being asked.
    pub(crate) notifications: u64,
}

/// Counts the calls of a load and says when it is over.
pub(crate) struct Meter {
    until: Until,
    began: Instant,
    asked: u64,
    latencies: Histogram,
    notifications: u64,
}

impl Meter {
    pub(crate) fn start(until: Until) -> Self {
        Self {
            until,
            began: Instant::now(),
            asked: 0,
            latencies: Histogram::new(),
            notifications: 0,
        }
    }

    /// So many notifications have come.
    pub(crate) fn notified(&mut self, number: u64) {
        self.notifications += number;
    }

    /// Whether one more call is to be made; if so, it is counted.
    pub(crate) fn one_more(&mut self, now: Instant) -> bool {
        let more = match self.until {
            Until::Calls(calls) => self.asked < calls,
            Until::Elapsed(limit) => now.duration_since(self.began) < limit,
        };
        self.asked += u64::from(more);
        more
    }

    pub(crate) fn answered(&mut self, asked_at: Instant, now: Instant) {
        self.latencies.add(now.duration_since(asked_at));
    }

    /// All that was asked is answered.
    pub(crate) fn finish(self) -> Result<Tally> {
        if self.latencies.count() != self.asked {
            let answered = self.latencies.count();
            bail!("{} calls were made and {answered} answered", self.asked);
        }
        Ok(Tally {
            latencies: self.latencies,
            elapsed: self.began.elapsed(),
            notifications: self.notifications,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_calls_is_made_and_no_more() {
        let mut meter = Meter::start(Until::Calls(2));
        let now = Instant::now();
        let made: Vec<bool> = (0..4).map(|_| meter.one_more(now)).collect();
        assert_eq!(made, [true, true, false, false]);
        meter.answered(now, now);
        meter.answered(now, now);
        meter.notified(3);
        let tally = meter.finish().unwrap();
        assert_eq!((tally.latencies.count(), tally.notifications), (2, 3));
    }

    #[test]
    fn calls_are_made_until_the_time_is_up() {
        let mut meter = Meter::start(Until::Elapsed(Duration::from_secs(5)));
        let began = meter.began;
        assert!(meter.one_more(began + Duration::from_secs(4)));
        assert!(!meter.one_more(began + Duration::from_secs(5)));
        let unanswered = meter.finish().err().unwrap().to_string();
        assert_eq!(unanswered, "1 calls were made and 0 answered");
    }
}
