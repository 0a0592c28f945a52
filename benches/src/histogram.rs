//! Latencies in constant memory: counters whose width grows with what they count.

use std::time::Duration;

/// Each power of two is cut into this many counters, so a value is known to 0.4 %.
const CUTS: u32 = 256;
const CUT_BITS: u32 = CUTS.trailing_zeros();
/// The longest that is told apart, in nanoseconds, has this many bits: half an hour.
const BITS: u32 = 41;

/// How many calls took how long.
pub(crate) struct Histogram {
    counters: Vec<u64>,
    count: u64,
}

impl Histogram {
    pub(crate) fn new() -> Self {
        Self {
            counters: vec![0; ((BITS - CUT_BITS + 1) * CUTS) as usize],
            count: 0,
        }
    }

    pub(crate) fn add(&mut self, taken: Duration) {
        let last = self.counters.len() - 1;
        self.counters[counter_of(taken.as_nanos()).min(last)] += 1;
        self.count += 1;
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The latency that this share of all calls did not exceed, in microseconds.
    pub(crate) fn percentile(&self, share: f64) -> f64 {
        let wanted = ((self.count as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        for (counter, count) in self.counters.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return upper_nanoseconds(counter) as f64 / 1_000.0;
            }
        }
        0.0
    }
}

/// The counter that a number of nanoseconds belongs to.
fn counter_of(nanoseconds: u128) -> usize {
    let value = u64::try_from(nanoseconds).unwrap_or(u64::MAX);
    if value < u64::from(CUTS) {
        return usize::try_from(value).unwrap_or(usize::MAX);
    }
    let shift = value.ilog2() - CUT_BITS;
    let step = (value >> shift) - u64::from(CUTS);
    usize::try_from(u64::from((shift + 1) * CUTS) + step).unwrap_or(usize::MAX)
}

/// The largest number of nanoseconds that belongs to a counter.
fn upper_nanoseconds(counter: usize) -> u64 {
    let (counter, cuts) = (counter as u64, u64::from(CUTS));
    match (counter / cuts).checked_sub(1) {
        None => counter,
        Some(shift) => ((counter % cuts + cuts + 1) << shift) - 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_do_not_overlap_and_leave_no_gap() {
        let mut before = None;
        for counter in 0..5_000 {
            let upper = upper_nanoseconds(counter);
            assert_eq!(counter_of(u128::from(upper)), counter);
            assert!(before.is_none_or(|before| before < upper));
            assert_eq!(counter_of(u128::from(upper) + 1), counter + 1);
            before = Some(upper);
        }
    }

    #[test]
    fn percentiles_are_within_half_a_percent() {
        let mut histogram = Histogram::new();
        for microseconds in 1..=10_000 {
            histogram.add(Duration::from_micros(microseconds));
        }
        for (share, exact) in [(0.5, 5_000.0), (0.99, 9_900.0), (1.0, 10_000.0)] {
            let told = histogram.percentile(share);
            assert!((told / exact - 1.0).abs() < 0.005, "{share}: {told}");
        }
        assert_eq!(histogram.count(), 10_000);
    }

    #[test]
    fn nothing_counted_and_everything_too_long_are_no_trouble() {
        let mut histogram = Histogram::new();
        assert_eq!(histogram.percentile(0.5), 0.0);
        histogram.add(Duration::MAX);
        assert!(histogram.percentile(0.5) > 1e9);
    }
}
