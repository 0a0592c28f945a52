//! Where the count of ids begins that a client may send back.

use std::hash::{BuildHasher, Hasher, RandomState};

/// A random number to count up from, with 48 bits. Ids of before a crash are then never given out
/// again, and every one can be told exactly in a JSON number.
pub(crate) fn random_start() -> u64 {
    RandomState::new().build_hasher().finish() >> 16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_counts_begin_alike_and_all_fit_into_a_json_number() {
        let (one, other) = (random_start(), random_start());
        assert!(one.abs_diff(other) > 1_000, "{one} {other}");
        assert!(one.max(other) < 1 << 48);
    }
}
